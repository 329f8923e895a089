"""The run: all measures, the data they give, and where they are written."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from peers import figures, gradients, lanes, long, page, reference, solvers, starts
from peers.measure import CAP, Cell, Trial, contenders, quickest, rounds, search
from peers.problems import PROBLEMS, Problem
from peers.solvers.base import Peer, clock

Keep = Callable[[page.Data], None]
DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
QUICK: dict[str, Any] = {
    "cap": 0.3,
    "thin": 2,
}  # of a quick search
VARIANTS = 4  # of dalembert in a quick search; the peers have their first


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing on the terminal, from compiled code neither: several solvers talk."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept, nowhere = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdout.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for number in (*kept, nowhere):
            os.close(number)


def machine() -> dict[str, object]:
    """What the numbers belong to."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0] if names else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def told(trial: Trial) -> dict[str, object]:
    """A trial as data."""
    e = trial.errors
    return {
        "variant": trial.variant, "knob": trial.knob, "seconds": trial.seconds, "energy": e.energy, "state": e.state,
        "constraint": e.constraint, "worst": e.worst, "steps": trial.steps,
    }  # fmt: skip


def fixed_cost(problem: Problem, peer: Peer, trial: Trial, repeats: int) -> float:
    """CPU seconds of a call that makes one step only."""
    case = peer.prepare(replace(problem, t_end=trial.knob, rows=1, check=0.0), trial.variant, trial.knob)
    case.run()
    return min(clock(case.run)[0] for _ in range(repeats))


def accuracy(problem: Problem, peers: dict[str, Peer], repeats: int, quick: bool) -> dict[str, object]:
    """One problem: search with each peer, then all cells in turns."""
    found: dict[str, dict[str, object]] = {}
    cells: list[Cell] = []
    close: dict[str, list[list[Cell]]] = {}
    for name, peer in peers.items():
        begun = time.process_time()
        with quiet():
            few = {**QUICK, "most": VARIANTS if name == "dalembert" else 1}
            trials, why = search(problem, peer, **(few if quick else {}))
        best = [contenders(trials, level) for level in problem.levels]
        made: dict[int, Cell] = {id(t): Cell(t) for row in best for t in row}
        close[name] = [[made[id(t)] for t in row] for row in best]
        cells += made.values()
        for trial in trials:
            if id(trial) not in made:
                trial.case = None  # its memory
        found[name] = {"why": why, "trials": [told(t) for t in trials]}
        print(f"  {name}: {len(trials)} settings in {time.process_time() - begun:.1f} s", flush=True)
    fixed = 0.0
    with quiet():
        rounds(cells, repeats)
        chosen = {name: [quickest(row) for row in rows] for name, rows in close.items()}
        ours = next((c.trial for c in chosen.get("dalembert", []) if c is not None), None)
        if ours is not None:
            fixed = fixed_cost(problem, peers["dalembert"], ours, repeats)
    for name, row in chosen.items():
        found[name]["cells"] = [c and told(c.trial) | {"best": c.best, "spread": c.spread, "repeats": repeats} for c in row]
    return {
        "title": problem.title, "t_end": problem.t_end, "rows": problem.rows, "check": problem.check, "levels": problem.levels,
        "peers": found, "fixed": fixed,
    }  # fmt: skip


def collect(
    problems: list[str],
    peers: dict[str, Peer],
    missing: dict[str, str],
    repeats: int,
    quick: bool,
    keep: Keep = lambda data: None,
) -> page.Data:
    """Time to accuracy, as data with everything that the page says about the run; `keep` is called after each problem."""
    data: page.Data = {
        "start": {}, "gradients": {}, "drift": {}, "growth": {}, "lanes": {},
        "date": date.today().isoformat(), "machine": machine(), "quick": quick, "repeats": repeats,
        "cap": QUICK["cap"] if quick else CAP, "missing": missing, "accuracy": {},
        "peers": {name: {"version": solvers.version(name), "form": peer.form} for name, peer in peers.items()},
    }  # fmt: skip
    for key in problems:
        print(PROBLEMS[key].title, flush=True)
        data["accuracy"][key] = accuracy(PROBLEMS[key], peers, repeats, quick)
        keep(data)
    return data


def best_variants(data: page.Data, key: str, k: int) -> dict[str, tuple[str, float, float]]:
    """Variant, knob and seconds of each peer at a level of a problem."""
    rows = data["accuracy"].get(key, {"peers": {}})["peers"]
    return {n: (r["cells"][k]["variant"], r["cells"][k]["knob"], r["cells"][k]["best"]) for n, r in rows.items() if r["cells"][k]}


def settings(data: page.Data, name: str, keys: tuple[str, ...]) -> dict[str, list[tuple[str, float] | None]]:
    """Variant and knob of a peer at each level of some problems, of those that were run."""
    rows = {key: data["accuracy"][key]["peers"].get(name) for key in keys if key in data["accuracy"]}
    none = {key: [None] * len(PROBLEMS[key].levels) for key in rows}
    return {key: [c and (c["variant"], c["knob"]) for c in row["cells"]] if row else none[key] for key, row in rows.items()}


def complete(data: page.Data, peers: dict[str, Peer], repeats: int, quick: bool, keep: Keep = lambda data: None) -> None:
    """The other measures."""
    variants = {name: variant for name, (variant, _, _) in best_variants(data, "chain", 1).items()}
    measures: dict[str, Callable[[], object]] = {
        "start": lambda: starts.measure(list(peers), 2 if quick else repeats),
        "gradients": lambda: gradients.measure(list(peers), repeats),
        "drift": lambda: long.drift(peers, best_variants(data, "double", 1)),
        "growth": lambda: long.growth(peers, variants, (2, 8) if quick else long.SIZES),
        "lanes": lambda: lanes.measure(
            peers.get("heyoka"), settings(data, "heyoka", lanes.CHOSEN), repeats, **({**QUICK, "most": VARIANTS} if quick else {})
        ),
    }
    for name, measure in measures.items():
        print(name, flush=True)
        with quiet():
            data[name] = measure()
        keep(data)


def save(data: page.Data, folder: Path) -> None:
    """The data, also of a run that is not at its end: `--page` writes what there is."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks.json").write_text(json.dumps(rounded(data)) + "\n", encoding="utf-8")


def rounded(data: Any) -> Any:
    """The same with five digits of each number: more were never measured."""
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [rounded(value) for value in data]
    return float(f"{data:.5g}") if isinstance(data, float) else data


def publish(data: page.Data, folder: Path) -> None:
    """Page, figures and data in a folder."""
    save(data, folder)
    data = rounded(data)
    figures.draw(data, folder / "images")
    (folder / "benchmarks.md").write_text(page.write(data), encoding="utf-8")


def options(arguments: list[str] | None) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(prog="python benchmarks/peers", description="dalembert beside its peers")
    parser.add_argument(
        "--quick", action="store_true", help="few settings, three repetitions; writes nothing unless --output is given"
    )
    parser.add_argument("--only", metavar="PROBLEM/PEER", help="time to accuracy of one problem (double), peer (/heyoka) or both")
    parser.add_argument("--repeats", type=int, help="rounds of timing (5; 3 with --quick)")
    parser.add_argument("--output", type=Path, help="folder of the page, its figures and its data (docs)")
    parser.add_argument("--page", action="store_true", help="write the page again from the data, without measuring")
    parser.add_argument("--reference", action="store_true", help="compute the reference states anew, and nothing else")
    return parser.parse_args(arguments)


def select(only: str | None) -> tuple[list[str], list[str] | None]:
    """Problems and peers of `--only`."""
    problem, _, peer = (only or "").partition("/")
    if problem and problem not in PROBLEMS:
        sys.exit(f"there is no problem {problem!r}; known are {', '.join(PROBLEMS)}")
    if peer and peer not in solvers.MODULES:
        sys.exit(f"there is no peer {peer!r}; known are {', '.join(solvers.MODULES)}")
    return [problem] if problem else list(PROBLEMS), [peer] if peer else None


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    chosen = options(arguments)
    if chosen.reference:
        return reference.write()
    folder = chosen.output or (None if chosen.quick or chosen.only else DOCS)
    if chosen.page:
        source = chosen.output or DOCS
        return publish(json.loads((source / "benchmarks.json").read_text(encoding="utf-8")), source)
    repeats = chosen.repeats or (3 if chosen.quick else 5)
    problems, names = select(chosen.only)
    with quiet():
        peers, missing = solvers.load(names)
    for name, reason in missing.items():
        print(f"{name} is missing: {reason}")

    def keep(data: page.Data) -> None:
        if folder is not None:
            save(data, folder)

    data = collect(problems, peers, missing, repeats, chosen.quick, keep)
    if chosen.only:
        print("\n".join(page.accuracy(data)))
        return None
    complete(data, peers, repeats, chosen.quick, keep)
    if folder is not None:
        publish(data, folder)
        print(f"written to {folder / 'benchmarks.md'}")
    else:
        print(page.write(data))
    return None
