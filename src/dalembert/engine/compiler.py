"""From C source to a shared library: find a compiler, compile once, keep the result by content."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from dalembert.errors import CompilerError

# No fast-math and no contraction: compiled steps are those of the virtual machine, bit by bit where libm agrees.
FLAGS = ("-std=c99", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno", "-w")
LONG = 250_000  # characters of source beyond which optimising takes longer than it saves


@cache
def find() -> tuple[str, ...] | None:
    """The compiler's command: `DALEMBERT_CC` or `CC` if set, else cc, gcc, clang, else the `ziglang` package."""
    for variable in ("DALEMBERT_CC", "CC"):
        command = tuple(shlex.split(os.environ.get(variable, "")))
        if command == ("none",):
            return None
        if command and shutil.which(command[0]):
            return command
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return (path,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "cc")
    return None


def cache_directory() -> Path:
    """Where compiled steps are kept: `DALEMBERT_CACHE`, else the user's cache directory, else a temporary one."""
    explicit = os.environ.get("DALEMBERT_CACHE")
    base = Path(explicit) if explicit else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dalembert"
    try:
        base.mkdir(parents=True, exist_ok=True)
        if os.access(base, os.W_OK):
            return base
    except OSError:
        pass  # a read-only home: fall through to a temporary directory
    base = Path(tempfile.gettempdir()) / f"dalembert-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
    base.mkdir(parents=True, exist_ok=True)
    return base


def _flags(source: str) -> tuple[str, ...]:
    return ("-O1" if len(source) < LONG else "-O0", *FLAGS)


def _target(source: str, command: tuple[str, ...]) -> Path:
    key = "\0".join([source, *command, *_flags(source), platform.machine(), platform.system()])
    return cache_directory() / f"step-{hashlib.sha256(key.encode()).hexdigest()[:32]}.so"


def is_cached(source: str) -> bool:
    """Whether this source has been compiled before."""
    command = find()
    return command is not None and _target(source, command).exists()


def load(source: str) -> ctypes.CDLL:
    """Compile (unless done before) and load."""
    command = find()
    if command is None:
        raise CompilerError(
            "no C compiler was found; install one (gcc, clang, or: pip install 'dalembert[compiler]'), "
            "or use compile='auto', which does without"
        )
    target = _target(source, command)
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as directory:
            c_file, built = Path(directory, "step.c"), Path(directory, "step.so")
            c_file.write_text(source)
            full = [*command, *_flags(source), str(c_file), "-o", str(built), "-lm"]
            run = subprocess.run(full, capture_output=True, text=True, check=False)
            if run.returncode:
                raise CompilerError(f"{command[0]} failed on the generated step: {run.stderr.strip()[-400:]}")
            built.replace(target)  # atomic: two processes may compile the same step
    try:
        return ctypes.CDLL(str(target))
    except OSError as error:
        raise CompilerError(f"the compiled step {target} cannot be loaded ({error}); delete it and try again") from error
