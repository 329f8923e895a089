"""Accuracy and time of runs: a search for the fastest setting at each level, then timed rounds in turns."""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass, field

import numpy as np

from peers import reference
from peers.problems import Problem
from peers.solvers.base import Case, Failed, Peer, Rows, Unsupported, clock

CAP = 1.0  # CPU seconds of a run beyond which no finer setting is tried
SETUP = 150.0  # CPU seconds of all preparations of a peer for a problem, compilers included, after which its search ends
SHORT = 0.1  # CPU seconds of a run up to which one is made before each that is timed
PATIENCE = 2  # settings in a row that fail, gain nothing, or are beaten by another variant, after which a variant is left


@dataclass(frozen=True)
class Errors:
    """Largest errors of a run, absolute."""

    energy: float
    state: float
    constraint: float

    @property
    def worst(self) -> float:
        """What a level is compared with."""
        return max(self.energy, self.state)


def errors(problem: Problem, rows: Rows) -> Errors:
    """Of the energy in all rows, of the state up to the time `check`, of the position constraints."""
    energies = problem.energies(rows.y)
    drift = float(np.abs(energies - energies[0]).max()) if problem.energy_kept else 0.0
    state = float(np.abs(rows.y[1 : 1 + problem.checked] - reference.load(problem)).max()) if problem.checked else 0.0
    return Errors(*(e if np.isfinite(e) else np.inf for e in (drift, state)), problem.constraints(rows.y))


CLOSE, NEAR = 3, 1.4  # settings of a solver that are timed for a level, and how much slower than the fastest they may have been


@dataclass
class Trial:
    """One setting of a variant, run and judged."""

    variant: str
    knob: float
    seconds: float
    errors: Errors
    steps: int
    case: Case | None = field(default=None, repr=False)


@dataclass
class Cell:
    """A setting that meets a level, and the times of its rounds."""

    trial: Trial
    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The least time."""
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """How much the median is above the least."""
        return float(np.median(self.seconds)) / self.best - 1


def attempt(problem: Problem, peer: Peer, variant: str, knob: float) -> tuple[Trial | None, float]:
    """A setting after a first run that compiles, and the seconds of its preparation; None for a run that failed."""
    children = sum(os.times()[2:4])
    setup, case = clock(lambda: peer.prepare(problem, variant, knob))
    assert isinstance(case, Case)
    begun = time.process_time()
    try:
        first, result = clock(case.run)
        rows = case.read(result)
    except Failed:
        return None, setup + time.process_time() - begun + sum(os.times()[2:4]) - children
    setup += sum(os.times()[2:4]) - children
    again = [clock(case.run)[0] for _ in range(3 if first < 0.2 else 1)]
    return Trial(variant, knob, min(again), errors(problem, rows), rows.steps, case), setup + first - min(again)


def search(problem: Problem, peer: Peer, cap: float = CAP, thin: int = 1, most: int = 99) -> tuple[list[Trial], str]:
    """Walk each variant from coarse to fine until the tightest level is met and finer is no faster, or time is up.

    All trials, and why there are none.
    """
    tightest, trials, spent = min(problem.levels), list[Trial](), 0.0
    try:
        variants = peer.variants(problem)
    except Unsupported as error:
        return [], str(error)
    for variant, knobs in list(variants.items())[:most]:
        best, idle, enough = np.inf, 0, np.inf
        tried = knobs[::thin]
        for knob, finer in zip(tried, (*tried[1:], 0.0), strict=True):
            trial, setup = attempt(problem, peer, variant, knob)
            spent += setup
            idle += trial is not None or best < np.inf  # too coarse a setting may fail
            if trial is not None:
                others = [t for t in trials if t.variant != variant and t.errors.worst <= trial.errors.worst]
                beaten = min((t.seconds for t in others), default=np.inf) < trial.seconds / 1.3
                if trial.errors.worst < 0.7 * best and not beaten:
                    idle = 0
                best = min(best, trial.errors.worst)
                trials.append(trial)
                growth = knob / finer if peer.fixed_step and finer else 1.2
                if trial.seconds * growth > 1.2 * cap or trial.seconds > enough:
                    break
                if trial.errors.worst <= tightest:
                    enough = min(enough, trial.seconds)  # finer ones may be faster still, where an iteration takes less
            if idle > (PATIENCE if trial is None or trial.seconds > cap / 10 else 3 * PATIENCE):
                break
            if spent > SETUP:
                break
        if spent > SETUP:
            break
    return trials, "" if trials else "every run failed"


def contenders(trials: list[Trial], level: float) -> list[Trial]:
    """The fastest of those that meet a level, and up to two that came close to it: one timing is not enough to choose by."""
    good = sorted((t for t in trials if t.errors.worst <= level), key=lambda t: t.seconds)
    return [t for t in good[:CLOSE] if t.seconds <= NEAR * good[0].seconds]


def quickest(cells: list[Cell]) -> Cell | None:
    """Of those that were timed in turns."""
    return min(cells, key=lambda cell: cell.best, default=None)


def rounds(cells: list[Cell], repeats: int) -> None:
    """Time all cells in turns.

    A short run is timed after one that is not, whoever's it is: else what it finds in the caches depends on the cell before it.
    """
    gc.collect()
    for _ in range(repeats):
        for cell in cells:
            assert cell.trial.case is not None
            if cell.trial.seconds < SHORT:
                cell.trial.case.run()
            cell.seconds.append(clock(cell.trial.case.run)[0])
