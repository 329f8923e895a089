"""Programs as a user writes them, each in a fresh process: CPU time with empty and with filled caches, memory, lines."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from peers.solvers import MODULES

SCRIPTS = Path(__file__).parent / "scripts"
WRAPPER = """
import runpy, sys
runpy.run_path(sys.argv[1], run_name="__main__")
with open("/proc/self/status") as status:
    print("\\npeak", next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""  # the system's own count of a child includes the process that started it
ENOUGH = 20.0  # CPU seconds of a program's repetitions after which no further one is made


def lines(name: str) -> int:
    """Lines of code of a program: neither empty, nor comment, nor its docstring."""
    text = (SCRIPTS / f"{MODULES[name][0]}.py").read_text(encoding="utf-8")
    first = ast.parse(text).body[0]
    body = text.splitlines()[(first.end_lineno or 0) :]
    return sum(1 for line in body if line.strip() and not line.strip().startswith("#"))


def process(script: Path, cache: Path) -> tuple[float, float, str]:
    """CPU seconds of a fresh process and its children, its peak memory in MB (nan off Linux), and what it printed."""
    linux = Path("/proc/self/status").exists()
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or v}
    home = {"DALEMBERT_CACHE": str(cache / "dalembert"), "XDG_CACHE_HOME": str(cache), "HOME": str(cache)}
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", *(["-c", WRAPPER] if linux else []), str(script)],
            cwd=cache,
            env=kept | home,
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if child.returncode:
        raise RuntimeError(f"{script.name} ended with {child.returncode}")
    printed, _, peak = text.partition("\npeak")
    return usage.ru_utime + usage.ru_stime, float(peak) / 1024 if linux else float("nan"), printed


def measure(names: list[str], repeats: int) -> dict[str, dict[str, object]]:
    """All programs in turns; cold is a cache of its own for each run, warm the cache of the one before."""
    cold: dict[str, list[float]] = {name: [] for name in names}
    warm: dict[str, list[float]] = {name: [] for name in names}
    memory: dict[str, list[float]] = {name: [] for name in names}
    printed: dict[str, str] = {}
    failed: dict[str, str] = {}
    for _ in range(repeats):
        for name in names:
            if name in failed or sum(cold[name] + warm[name]) > ENOUGH:
                continue
            script = SCRIPTS / f"{MODULES[name][0]}.py"
            with tempfile.TemporaryDirectory() as cache:
                try:
                    for times in (cold, warm):
                        seconds, peak, printed[name] = process(script, Path(cache))
                        times[name].append(seconds)
                        memory[name].append(peak)
                except RuntimeError as error:
                    failed[name] = str(error)
    out: dict[str, dict[str, object]] = {}
    for name in names:
        if name in failed:
            out[name] = {"why": failed[name], "lines": lines(name)}
            continue
        spread = max(median(t) / min(t) - 1 for t in (cold[name], warm[name]))
        out[name] = {
            "cold": min(cold[name]), "warm": min(warm[name]), "spread": spread, "repeats": len(cold[name]),
            "memory": min(memory[name]), "lines": lines(name), "error": float(printed[name].split()[0]),
        }  # fmt: skip
    return out
