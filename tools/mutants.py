"""Mutation run: change one thing in the source, run the tests that reach it, and see whether one of them fails.

    python tools/mutants.py map                       which tests reach which function, and how long they take
    python tools/mutants.py sample --count 200        draw mutants of methods, engine and systems, and run them
    python tools/mutants.py given                     run those that were picked by hand (tools/mutants.toml)
    python tools/mutants.py table                     the score of each package, and the survivors

Results are kept in one JSON file (`--results`): a run that is stopped goes on where it was, and what is done is not run again.
Each mutant is applied to a copy of the tree with a compile cache of its own. Its tests run one after the other, the quickest
first, until one fails; a mutant that makes them much slower counts as killed as well (its loop does not end, or Newton's
iteration does not converge).
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import py_compile
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from changes import ROOT, SOURCE, Mutant, draw, enclosing, given

PACKAGES = ("methods", "engine", "systems")
BUDGET = 25.0  # seconds of tests for one mutant, as they take without it
PATIENCE = 3.0  # how much slower a mutant may make them, in seconds of the processor
FILES = 5  # test files for one mutant, beside those named like its source
LARGE = ("test_ways", "test_robustness", "test_gradients", "test_matrix", "test_facts")  # test files that take long to import


# ---- tests --------------------------------------------------------------------------------------------------------------


PLUGIN = """
import json, os, sys, time
import pytest

SOURCE = os.environ["MUTANTS_SOURCE"] + os.sep
reached, seconds, now = {}, {}, set()


def trace(frame, event, argument):
    code = frame.f_code
    if code.co_filename.startswith(SOURCE):
        now.add(f"{code.co_filename[len(SOURCE):]}:{code.co_firstlineno}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    if not os.environ.get("MUTANTS_MAP"):
        yield
        return
    now.clear()
    begun = time.perf_counter()
    sys.settrace(trace)
    yield
    sys.settrace(None)
    seconds[item.nodeid] = time.perf_counter() - begun
    reached[item.nodeid] = sorted(now)


def pytest_collection_modifyitems(config, items):
    chosen = os.environ.get("MUTANTS_CHOSEN")
    if chosen:
        with open(chosen) as stream:
            place = {name: k for k, name in enumerate(json.loads(stream.read()))}
        items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])


def pytest_sessionfinish(session):
    path = os.environ.get("MUTANTS_MAP")
    if path:
        with open(path, "w") as stream:
            stream.write(json.dumps({"reached": reached, "seconds": seconds}))
"""


class Tree:
    """A copy of the project in which a mutant is applied."""

    def __init__(self, number: int) -> None:
        self.top = Path(tempfile.mkdtemp(prefix=f"mutants-{number}-"))
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, cwd=ROOT, check=True
        ).stdout.split("\n")
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (self.top / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.top / name)
        (self.top / "mutants_plugin.py").write_text(PLUGIN)
        # checked by content: a change of the same length in the same second must be seen
        compileall.compile_dir(self.top / "src", quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
        self.environment = {"MUTANTS_SOURCE": str(self.top / SOURCE), "MPLBACKEND": "Agg"}

    def pytest(self, arguments: list[str], limit: float, **environment: str) -> tuple[int, str]:
        """Exit code and output of a run of tests in a process of its own; -1 where it takes more than `limit` of the processor.

        It is a fork of this one, which has loaded all large libraries but nothing of the project.
        """
        base, out = self.top / ".base" / "run", self.top / ".output"
        base.parent.mkdir(exist_ok=True)
        options = ["-p", "mutants_plugin", "-p", "no:cacheprovider", "-n", "0", "-q", "--no-header", f"--rootdir={self.top}"]
        options += [f"--basetemp={base}", "--hypothesis-seed=0", *arguments]
        child = os.fork()
        if not child:
            code = 3
            try:
                self._enter(out, limit, environment)
                code = int(sys.modules["pytest"].main(options))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        return ended(child, 20 * limit), out.read_text(errors="replace")

    def _enter(self, out: Path, limit: float, environment: dict[str, str]) -> None:
        """In the child: its own group, output, directory and path."""
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        # tests send Ctrl-C to themselves, also where this run is in the background and does not hear it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.chdir(self.top)
        os.environ |= {**self.environment, **environment, "PYTHONPATH": f"{self.top / 'src'}{os.pathsep}{self.top}"}
        sys.dont_write_bytecode = True
        kept = [place for place in sys.path if Path(place or ".").resolve() not in (ROOT / "src", ROOT / "tools")]
        sys.path[:] = [str(self.top / "src"), str(self.top), *kept]

    def close(self) -> None:
        shutil.rmtree(self.top, ignore_errors=True)


def ended(child: int, limit: float) -> int:
    """The exit code of a process; -1 where it takes too much of the processor, or ever so long (then it is ended)."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return (
                os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else -1 if os.WTERMSIG(status) == signal.SIGXCPU else 1
            )
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def preload() -> None:
    """Load what all tests need, once for all of them."""
    for name in ("numpy", "casadi", "scipy.integrate", "scipy.linalg", "scipy.optimize", "matplotlib.pyplot", "xarray", "netCDF4",
                 "mpmath", "pytest", "_pytest.assertion.rewrite"):  # fmt: skip
        importlib.import_module(name)


@dataclass
class Reach:
    """Which tests reach which function, and how long they take."""

    reached: dict[str, list[str]]
    seconds: dict[str, float]

    @classmethod
    def load(cls, path: Path) -> Reach:
        if not path.exists():
            return cls({}, {})
        data = json.loads(path.read_text())
        names = data.get("places")
        reached = data["reached"]
        return cls({k: [names[i] for i in v] for k, v in reached.items()} if names else reached, data["seconds"])

    def save(self, path: Path) -> None:
        places = sorted({place for reached in self.reached.values() for place in reached})
        number = {place: i for i, place in enumerate(places)}
        reached = {name: [number[place] for place in v] for name, v in self.reached.items()}
        path.write_text(json.dumps({"places": places, "reached": reached, "seconds": self.seconds}))

    def tests(self, m: Mutant) -> list[str]:
        """The tests of a mutant, the quickest first: of the innermost function that any test enters."""
        for first in enclosing(m):
            place = f"{Path(m.file).relative_to(SOURCE)}:{first}"
            found = [name for name, places in self.reached.items() if place in places]
            if found:
                return sorted(found, key=lambda name: self.seconds[name])
        return []


# ---- runs ---------------------------------------------------------------------------------------------------------------


class Results:
    """What is known, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Mutant] = {}
        if path.exists():
            self.known = {k: Mutant(**v) for k, v in json.loads(path.read_text()).items()}

    def add(self, m: Mutant) -> None:
        self.known[m.key] = m
        temporary = self.path.with_suffix(".part")
        temporary.write_text(json.dumps({k: asdict(v) for k, v in self.known.items()}, indent=1))
        temporary.replace(self.path)


def plans(m: Mutant, reach: Reach) -> Iterator[tuple[list[str], list[str], float]]:
    """Files, tests in them (all where none is named) and a time limit: those beside the source first, then all others."""
    if m.line == 0:
        yield m.tests, [], 900.0
        return
    names = reach.tests(m) or sorted(reach.seconds, key=lambda name: reach.seconds[name])
    by_file: dict[str, list[str]] = {}
    for name in names:
        by_file.setdefault(name.split("::")[0], []).append(name)
    near = {f"test_{Path(m.file).stem}", "test_independent", "test_slopes"}
    first = [file for file in by_file if Path(file).stem in near]
    # of the others the few with most tests: to import many files takes longer than their tests
    rest = sorted(
        (file for file in by_file if file not in first), key=lambda file: (Path(file).stem in LARGE, -len(by_file[file]))
    )
    for files, budget in ((first, BUDGET / 2), (rest[:FILES], BUDGET)):
        total, chosen = 0.0, []
        for name in sorted((name for file in files for name in by_file[file]), key=lambda name: reach.seconds[name]):
            total += reach.seconds[name]
            if total > budget and chosen:
                break
            chosen.append(name)
        if chosen:
            yield sorted({name.split("::")[0] for name in chosen}), chosen, 30.0 + PATIENCE * total


def judge(tree: Tree, m: Mutant, reach: Reach) -> Mutant:
    """Run the tests of one mutant."""
    path, begun, code, output = tree.top / m.file, time.perf_counter(), 0, ""
    text = path.read_text(encoding="utf-8")
    changed = m.apply(text)
    if changed is None:
        m.result = "gone"
        return m
    path.write_text(changed, encoding="utf-8")
    try:
        for files, names, limit in plans(m, reach):
            (tree.top / ".chosen").write_text(json.dumps(names))
            chosen = {"MUTANTS_CHOSEN": str(tree.top / ".chosen")} if names else {}
            code, output = tree.pytest(["-x", *files], limit, **chosen)
            if code not in (0, 5):
                break
    finally:
        path.write_text(text, encoding="utf-8")
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR", "ImportError while loading conftest"))]
    # a mutant is killed by a test that fails, or by a test file that cannot be imported; anything else is a fault of this run
    m.result = {0: "survived", -1: "slow", 5: "survived"}.get(code, "killed" if failed else "broken")
    m.by = failed[0].split(" - ")[0] if failed else output.strip()[-2000:] if m.result == "broken" else ""
    m.seconds = round(time.perf_counter() - begun, 1)
    return m


def run(mutants: list[Mutant], results: Results, reach: Reach, workers: int) -> None:
    todo = [m for m in mutants if m.key not in results.known]
    print(f"{len(mutants)} mutants, {len(mutants) - len(todo)} known, {len(todo)} to run", flush=True)
    free, busy = [Tree(k) for k in range(min(workers, len(todo)))], dict[int, Tree]()
    everything = [*free]
    try:
        if free and todo[0].line:  # a tree without a mutant must pass, else this run means nothing
            names = sorted(reach.seconds, key=lambda name: reach.seconds[name])[:: max(1, len(reach.seconds) // 20)][:12]
            (free[0].top / ".chosen").write_text(json.dumps(names))
            files = sorted({name.split("::")[0] for name in names})
            code, output = free[0].pytest(files, 900.0, MUTANTS_CHOSEN=str(free[0].top / ".chosen"))
            if code:
                sys.exit(f"the tests do not pass without a mutant: {output[-2000:]}")
        while todo or busy:
            while todo and free:
                tree, m = free.pop(), todo.pop(0)
                child = os.fork()
                if not child:
                    judge(tree, m, reach)
                    (tree.top / ".result").write_text(json.dumps(asdict(m)))
                    os._exit(0)
                busy[child] = tree
            child, _ = os.wait()
            tree = busy.pop(child)
            free.append(tree)
            m = Mutant(**json.loads((tree.top / ".result").read_text()))
            results.add(m)
            print(f"{m.result:9s} {m.seconds:6.1f} s  {m.note}: {m.key[:150]!r}  {m.by[:110]}", flush=True)
    finally:
        for tree in everything:
            tree.close()


def make_map(tests: list[str], reach: Reach, path: Path) -> None:
    """Run tests (of the mirror of the packages by default) and note what they reach."""
    tree = Tree(0)
    try:
        target = tree.top / ".map"
        code, output = tree.pytest(tests or ["tests"], 1e5, MUTANTS_MAP=str(target))
        print(output[-2000:])
        found = Reach.load(target)
        reach.reached |= found.reached
        reach.seconds |= found.seconds
        reach.save(path)
        print(f"{len(found.seconds)} tests, {sum(found.seconds.values()):.0f} s, exit code {code}")
    finally:
        tree.close()


def table(results: Results) -> str:
    """The score of each package and all survivors, in Markdown."""
    groups: dict[str, list[Mutant]] = {}
    for m in results.known.values():
        if m.result != "gone":
            parts = Path(m.file).parts
            groups.setdefault(parts[2] if len(parts) > 3 else parts[-1], []).append(m)
    lines = ["| package | mutants | killed | score |", "| --- | --- | --- | --- |"]
    everything = [m for group in groups.values() for m in group]
    for name, group in [*sorted(groups.items()), ("all", everything)]:
        dead = sum(m.result in ("killed", "slow") for m in group)
        lines.append(f"| `{name}` | {len(group)} | {dead} | {100 * dead / max(1, len(group)):.0f} % |")
    lines += ["", "Survivors:", ""]
    lines += [f"- `{m.key}` ({m.note})" for m in everything if m.result == "survived"]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("what", choices=["map", "sample", "given", "again", "table"])
    parser.add_argument("tests", nargs="*", help="files to map")
    parser.add_argument("--results", type=Path, default=Path("mutants.json"))
    parser.add_argument("--reach", type=Path, default=Path("mutants-map.json"))
    parser.add_argument("--packages", default=",".join(PACKAGES))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    results, reach = Results(options.results.absolute()), Reach.load(options.reach.absolute())
    if options.what != "table":
        preload()
    if options.what == "map":
        make_map(options.tests, reach, options.reach)
    elif options.what == "sample":
        run(draw(tuple(options.packages.split(",")), options.count, options.seed), results, reach, options.workers)
    elif options.what == "given":
        run(given(), results, reach, options.workers)
    elif options.what == "again":  # the survivors, after new tests
        left = [m for m in results.known.values() if m.result == "survived"]
        for m in left:
            del results.known[m.key]
        run(left, results, reach, options.workers)
    if options.what in ("table", "sample", "given", "again"):
        print(table(results))


if __name__ == "__main__":
    main()
