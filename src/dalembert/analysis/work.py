"""Work and precision: how much accuracy each method buys with run time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray

from dalembert import markup, tables
from dalembert.analysis.trials import SINGLE, Options, check_options, named_methods, reference_method, timed
from dalembert.checking import listed, number, whole
from dalembert.engine.progress import Bar
from dalembert.errors import MethodError, suggesting
from dalembert.hooks import Hook
from dalembert.methods.base import Method, find
from dalembert.simulation import simulate
from dalembert.systems import System

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BUDGET = 0.1  # seconds for the runs of one method with one step
Array = NDArray[np.float64]


@dataclass(repr=False)
class WorkPrecision:
    """Seconds and errors at the final time by method, for several steps; `floor` is the accuracy of the reference."""

    system: str
    reference: str
    steps: Array
    seconds: dict[str, Array]
    errors: dict[str, Array]
    floor: float

    def curves(self) -> dict[str, tuple[Array, Array]]:
        """Seconds and errors by method, without errors at the accuracy of the reference."""
        out = {}
        for name, e in self.errors.items():
            keep = e > 10 * self.floor
            out[name] = (self.seconds[name][keep], e[keep])
        return out

    def table(self, form: str = "text") -> str:
        """As text, Markdown, LaTeX, CSV or HTML: for each method its steps, the best times in ms, and the errors."""
        rows = []
        for name, e in self.errors.items():
            for h, t, error in zip(self.steps, self.seconds[name], e, strict=True):
                rows.append([name, f"{h:.4g}", f"{1e3 * t:.3g}", f"{error:.1e}"])
        return tables.write(["method", "step", "ms", "error at the end"], rows, form, left=1)

    def to_json(self) -> str:
        """All numbers."""
        lists = {key: {name: row.tolist() for name, row in getattr(self, key).items()} for key in ("seconds", "errors")}
        return json.dumps({**vars(self), "steps": self.steps.tolist(), **lists})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Errors over run time."""
        return PLOT(self, ax)

    def _said(self) -> str:
        return f"best times; errors against {self.reference}, good to {self.floor:.0e}"

    def __str__(self) -> str:
        return f"{self.system}\n{self.table()}\n{self._said()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return markup.card(self.system, self.table("html") + markup.paragraph(self._said()))


PLOT: Hook[[WorkPrecision, Axes | None], Axes] = Hook("WorkPrecision.plot", "dalembert.plotting")


@suggesting(options=(*Options.__annotations__, *SINGLE))
def work_precision(
    system: System, methods: str | Method | Sequence[str | Method], *, t_end: float, steps: Iterable[int] = (50, 100, 200, 400),
    repeat: int = 10, **options: Unpack[Options],
) -> WorkPrecision:  # fmt: skip
    """How long each method takes to which error: runs with several numbers of `steps` up to `t_end`.

    Times are those of the compiled loop, the best of at most `repeat` runs that are made in turns, within a tenth of a second for
    each setting. Runs of less than some hundred microseconds are mostly their beginning: take long ones. Errors are those of the
    final positions (of the first part of the state) against a method of high order with twice the steps of the finest run.
    """
    check_options(system, options, ("adaptive", *SINGLE), "runs with equal steps are timed")
    whole("repeat", repeat)
    counts = sorted({whole("steps", n) for n in listed("steps", steps, MethodError, "numbers of steps such as (50, 100, 200)")})
    if not counts:
        raise MethodError("there is nothing to time: give at least one number of steps")
    chosen = named_methods(methods, system)
    best, quiet = reference_method(system), Options(**{**options, "progress": False})
    span = number("t_end", t_end) - number("t0", options.get("t0", 0.0))
    truth, rough = (simulate(system, best, t_end=t_end, step=span / n, **quiet).motion[-1] for n in (2 * counts[-1], counts[-1]))
    seconds = {str(method): np.full(len(counts), np.inf) for method in chosen}
    errors = {str(method): np.zeros(len(counts)) for method in chosen}
    spent = {str(method): np.zeros(len(counts)) for method in chosen}
    with Bar(options.get("progress"), repeat, "timing", "rounds") as bar:
        for done in range(repeat):  # in turns, so that a busy moment of the machine does not meet all runs of one setting
            for method in chosen:
                name = str(method)
                for k in np.flatnonzero(spent[name] < BUDGET):
                    sol, once = timed(system, method, t_end, span / counts[k], quiet, 1, BUDGET)
                    seconds[name][k], spent[name][k] = min(seconds[name][k], once), spent[name][k] + once
                    errors[name][k] = np.abs(sol.motion[-1] - truth).max()
            bar.show(done + 1)
    floor = max(float(np.abs(rough - truth).max()), 1e-15 * max(1.0, float(np.abs(truth).max())))
    return WorkPrecision(system.name, str(find(best)), span / np.array(counts, dtype=float), seconds, errors, floor)
