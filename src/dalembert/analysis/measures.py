"""Measures that turn impressions into verdicts: does it drift, does it come back, how fast does it go wrong."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dalembert.errors import MethodError
from dalembert.simulate import simulate


@dataclass(frozen=True)
class Trend:
    """A line through a series: slope per unit of time, its standard error, the scatter of block means about it, the range."""

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


def trend(t: Any, values: Any, blocks: int = 40) -> Trend:
    """Regression on the means of blocks, so that oscillations within a block do not count as independent values.

    The standard error of the slope is widened by the correlation of neighbouring blocks, `sqrt((1 + r) / (1 - r))`.
    """
    t, values = np.asarray(t, dtype=float), np.asarray(values, dtype=float)
    if t.ndim != 1 or t.shape != values.shape:
        raise MethodError(f"trend takes times and as many values, not the shapes {t.shape} and {values.shape}")
    blocks = min(blocks, len(t) // 2)
    if blocks < 4:
        raise MethodError(f"{len(t)} values are too few for a trend; at least 8 are needed")
    edges = np.linspace(0, len(t), blocks + 1).astype(int)
    tm = np.array([t[a:b].mean() for a, b in pairwise(edges)])
    vm = np.array([values[a:b].mean() for a, b in pairwise(edges)])
    x = tm - tm.mean()
    slope = float(x @ vm / (x @ x))
    rest = vm - vm.mean() - slope * x
    # neighbouring blocks may hang together, as where a chaotic orbit lingers: then there are fewer independent ones
    bond = float(np.clip(rest[1:] @ rest[:-1] / (rest @ rest), 0.0, 0.95)) if rest @ rest > 0 else 0.0
    error = float(np.sqrt(rest @ rest / (blocks - 2) / (x @ x) * (1 + bond) / (1 - bond)))
    return Trend(slope, error, float(rest.std()), float(t[-1] - t[0]), (float(values.min()), float(values.max())))


def reversibility(system: Any, method: Any, *, t_end: float, step: float, **values: Any) -> float:
    """The reversibility defect: forwards, velocities reversed, as long again; how far it is from the start, relative."""
    there = simulate(system, method, t_end=t_end, step=step, **values)
    if system.kind == "dae":
        raise MethodError("a general differential-algebraic system has no velocities to reverse")
    start = {k: v for k, v in values.items() if k not in ("q", "v", "p", "lam")}
    back = simulate(system, method, t_end=t_end, step=step, q=there.q[-1], **{system.momenta: -there._second[-1]}, **start)
    size = max(1.0, float(np.abs(there.q).max()))
    return float(np.abs(back.q[-1] - there.q[0]).max() / size)


def growth(t: Any, errors: Any) -> tuple[float, float]:
    """`rate` and `power` of `|error| = rate t^power`, fitted to the envelope in the second half of the run."""
    t, e = np.asarray(t, dtype=float), np.maximum.accumulate(np.abs(np.asarray(errors, dtype=float)))
    keep = (t > t[-1] / 2) & (e > 0)
    if keep.sum() < 2:
        return 0.0, 0.0
    power, log_rate = np.polyfit(np.log(t[keep]), np.log(e[keep]), 1)
    return float(np.exp(log_rate)), float(power)
