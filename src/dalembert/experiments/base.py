"""Experiments: a setting of a source, our numbers beside those of the source, and a verdict computed from them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert import tables
from dalembert.errors import DalembertError, MethodError, MissingPackage, suggest
from dalembert.experiments.durations import DURATIONS
from dalembert.tables import Table


class Start(TypedDict):
    """Initial values of a mechanical system."""

    q: ArrayLike
    v: ArrayLike


@dataclass(frozen=True)
class Row:
    """One claim: what was measured, our number, what the source says, and whether the claim holds."""

    what: str
    ours: str
    wanted: str
    source: str
    holds: bool


@dataclass(frozen=True)
class Panel:
    """One axes of a figure of the source: named curves as lines, on a logarithmic scale, as points, or as paths in a plane."""

    title: str
    across: str
    up: str
    curves: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    style: Literal["lines", "log", "points", "path"] = "lines"


@dataclass
class Result:
    """The outcome of an experiment: claims, their data, and notes."""

    id: str
    title: str
    source: str
    quick: bool
    rows: list[Row] = field(default_factory=list)
    data: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)  # figures of the source that the data alone do not show
    seconds: float = 0.0
    differs: bool = False  # whether a statement of the source was not confirmed
    missing: str = ""  # a package without which it cannot run

    @property
    def verdict(self) -> bool:
        """Whether every claim holds."""
        return bool(self.rows) and not self.missing and all(row.holds for row in self.rows)

    @property
    def told(self) -> str:
        """The verdict in words."""
        if self.missing:
            return f"not run ({self.missing})"
        if self.verdict and self.differs:
            return "holds, differs from the source"
        return "reproduced" if self.verdict else "not reproduced"

    def _row(self, what: str, ours: str | float, wanted: str, source: str, holds: bool | np.bool_) -> None:
        self.rows.append(Row(what, ours if isinstance(ours, str) else f"{ours:.3g}", wanted, source, bool(holds)))

    def below(self, what: str, value: float, limit: float, source: str = "") -> None:
        """Claim that a number is at most a limit."""
        self._row(what, value, f"<= {limit:.3g}", source, np.isfinite(value) and value <= limit)

    def above(self, what: str, value: float, limit: float, source: str = "") -> None:
        """Claim that a number is at least a limit."""
        self._row(what, value, f">= {limit:.3g}", source, np.isfinite(value) and value >= limit)

    def near(self, what: str, value: float, target: float, window: float, source: str = "") -> None:
        """Claim that a number lies within a window around another."""
        digits = int(np.clip(np.ceil(np.log10(abs(target) / window)), 3, 9)) if window and target else 3
        shown, wanted = f"{value:.{digits}g}", f"{target:.{max(4, digits)}g} +- {window:.2g}"
        self._row(what, shown, wanted, source, np.isfinite(value) and abs(value - target) <= window)

    def true(self, what: str, holds: bool, ours: str, wanted: str, source: str = "") -> None:
        """Claim a fact."""
        self._row(what, ours, wanted, source, holds)

    def panel(
        self,
        title: str,
        across: str,
        up: str,
        curves: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
        style: Literal["lines", "log", "points", "path"] = "lines",
    ) -> None:
        """Draw a figure of the source beside those of the data; curves of the same title come into one figure."""
        same = next((panel for panel in self.panels if panel.title == title), None)
        if same is None:
            self.panels.append(Panel(title, across, up, dict(curves), style))
        else:
            same.curves.update(curves)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def disagree(self, text: str) -> None:
        """Note which statement of the source was not confirmed, and the reason if it is known."""
        self.differs = True
        self.notes.append(text)

    def __str__(self) -> str:
        rows = [(r.what, r.ours, r.wanted, r.source, "holds" if r.holds else "FAILS") for r in self.rows]
        table = tables.write(("claim", "ours", "wanted", "source", ""), rows)
        head = f"{self.id}: {self.title} ({self.source}){', shortened' if self.quick else ''}"
        verdict = f"{self.told.replace('not repr', 'NOT repr')} in {self.seconds:.1f} s"
        return "\n".join([head, table, *(f"note: {n}" for n in self.notes), verdict])


@dataclass(frozen=True)
class Experiment:
    """A registered experiment."""

    id: str
    title: str
    source: str
    function: Callable[[Result, bool], None]

    @property
    def seconds(self) -> float:
        """About how long it takes in full, on two cores of 2.8 GHz."""
        return DURATIONS.get(self.id, 5.0)

    def run(self, quick: bool = False) -> Result:
        """Run it, in full or shortened."""
        result = Result(self.id, self.title, self.source, quick)
        begun = time.perf_counter()
        try:
            self.function(result, quick)
        except MissingPackage as error:
            result.missing = str(error)
        except DalembertError as error:  # counts as a claim that fails; the other experiments go on
            result.true("it runs to its end", False, f"{type(error).__name__}: {error}", "no error")
        result.seconds = time.perf_counter() - begun
        return result


REGISTER: dict[str, Experiment] = {}


def experiment(id: str, title: str, source: str) -> Callable[[Callable[[Result, bool], None]], Callable[..., Result]]:
    """Register a function as an experiment; calling it returns the result."""

    def enter(function: Callable[[Result, bool], None]) -> Callable[..., Result]:
        entry = REGISTER[id] = Experiment(id, title, source, function)

        def run(quick: bool = False) -> Result:
            return entry.run(quick)

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        return run

    return enter


def find(id: str) -> Experiment:
    """An experiment by its id."""
    if id not in REGISTER:
        raise MethodError(f"there is no experiment {id!r}{suggest(str(id), REGISTER)}")
    return REGISTER[id]


@dataclass(frozen=True)
class Listed:
    """One row of `list_experiments()`."""

    id: str
    title: str
    source: str
    seconds: str


def list_experiments() -> Table[Listed]:
    """All experiments with their sources, and about how long each takes in full."""
    rows = (Listed(e.id, e.title, e.source, f"{e.seconds:.1f}") for e in REGISTER.values())
    return Table(rows, columns=("id", "title", "source", "seconds"))


def slope(errors: ArrayLike, steps: ArrayLike) -> float:
    """The order: slope of errors over steps in a log-log plot."""
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])
