"""Quantitative long-time measures: drift, reversibility, growth of errors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from dalembert.analysis.trials import Options
from dalembert.checking import reals, whole
from dalembert.engine.case import check_call
from dalembert.errors import MethodError, suggesting
from dalembert.methods.base import Method
from dalembert.simulation import simulate
from dalembert.systems import System
from dalembert.systems.constrained import Constrained
from dalembert.tables import VALUES


@dataclass(frozen=True)
class Trend:
    """A line through a series: slope per unit of time, its standard error, the scatter of block means, the range of values."""

    slope: float
    error: float
    scatter: float
    span: float
    range: tuple[float, float]

    @property
    def drifts(self) -> bool:
        """Whether the slope is significant: more than four standard errors, and over the run more than 0.3 of the range."""
        low, high = self.range
        rounding = 1e-15 * max(abs(low), abs(high))
        return abs(self.slope) > 4 * self.error and abs(self.slope) * self.span > 0.3 * (high - low) + rounding

    @property
    def bounded(self) -> bool:
        """The opposite of a drift."""
        return not self.drifts

    def __str__(self) -> str:
        verdict = "drifts" if self.drifts else "bounded"
        return f"{verdict}: {self.slope:.2e} +- {self.error:.1e} per unit time, within {self.range[0]:.6g} .. {self.range[1]:.6g}"


@suggesting
def trend(t: ArrayLike, values: ArrayLike, blocks: int = 40) -> Trend:
    """A line fitted to the means of blocks, so that oscillations within a block do not count as independent values.

    The standard error of the slope is widened by the correlation of neighbouring blocks, `sqrt((1 + r) / (1 - r))`.
    """
    t, values = reals("t", t, MethodError), reals("values", values, MethodError)
    if t.ndim != 1 or t.shape != values.shape:
        raise MethodError(f"trend takes as many values as times, not arrays of the shapes {values.shape} and {t.shape}")
    blocks = min(whole("blocks", blocks), len(t) // 2)
    if blocks < 4:
        raise MethodError(f"{len(t)} values are too few for a trend; at least 8 are needed")
    edges = np.linspace(0, len(t), blocks + 1).astype(int)
    tm = np.array([t[a:b].mean() for a, b in pairwise(edges)])
    vm = np.array([values[a:b].mean() for a, b in pairwise(edges)])
    x = tm - tm.mean()
    slope = float(x @ vm / (x @ x))
    rest = vm - vm.mean() - slope * x
    # neighbouring blocks may be correlated, for instance where a chaotic orbit lingers: fewer of them are then independent
    bond = float(np.clip(rest[1:] @ rest[:-1] / (rest @ rest), 0.0, 0.95)) if rest @ rest > 0 else 0.0
    error = float(np.sqrt(rest @ rest / (blocks - 2) / (x @ x) * (1 + bond) / (1 - bond)))
    return Trend(slope, error, float(rest.std()), float(t[-1] - t[0]), (float(values.min()), float(values.max())))


@suggesting(options=Options.__annotations__)
def reversibility(system: System, method: str | Method, *, t_end: float, step: float, **options: Unpack[Options]) -> float:
    """The reversibility defect: run, reverse the velocities, run as long again; the relative distance to the start."""
    check_call(system, options.get("compile", "auto"))
    if not isinstance(system, Constrained):
        raise MethodError(f"{system.name!r} has no velocities or momenta to reverse")
    there = simulate(system, method, t_end=t_end, step=step, **options)
    back = cast("Options", {key: value for key, value in options.items() if key not in VALUES})
    back["q"] = there.q[-1]
    if system.momenta == "v":
        back["v"] = -there.v[-1]
    else:
        back["p"] = -there.p[-1]
    again = simulate(system, method, t_end=t_end, step=step, **back)
    size = max(1.0, float(np.abs(there.q).max()))
    return float(np.abs(again.q[-1] - there.q[0]).max() / size)


@suggesting
def growth(t: ArrayLike, errors: ArrayLike) -> tuple[float, float]:
    """`rate` and `power` of `|error| = rate t^power`, fitted to the envelope in the second half of the run."""
    t, values = reals("t", t, MethodError), reals("errors", errors, MethodError)
    if t.ndim != 1 or t.shape != values.shape or not len(t):
        raise MethodError(f"growth takes as many errors as times, not arrays of the shapes {values.shape} and {t.shape}")
    e = np.maximum.accumulate(np.abs(values))
    keep = (t > t[-1] / 2) & (e > 0)
    if keep.sum() < 2:
        return 0.0, 0.0
    power, log_rate = np.polyfit(np.log(t[keep]), np.log(e[keep]), 1)
    return float(np.exp(log_rate)), float(power)
