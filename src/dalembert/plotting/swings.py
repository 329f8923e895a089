"""Curves that go up and down more often than a figure can show: bands and crests in place of ink."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dalembert.plotting.canvas import Array, dashes, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SWINGS = 50  # up and down over the whole range; beyond these, single ones are no longer seen
INTERVALS = 120  # of a band


def restless(values: Array) -> bool:
    """Whether a curve goes up and down too often to be followed."""
    finite = values[np.isfinite(values)]
    return bool(finite.size and np.abs(np.diff(finite)).sum() > 2 * SWINGS * np.ptp(finite) > 0)


def _bins(t: Array, values: Array) -> tuple[Array, NDArray[np.intp], Array]:
    """Middles of equal intervals of time, the number of the interval of each finite value, and these values."""
    keep = np.isfinite(t) & np.isfinite(values)
    t, values = t[keep], values[keep]
    edges = np.linspace(t.min(), t.max(), INTERVALS + 1)
    return (edges[1:] + edges[:-1]) / 2, np.clip(np.searchsorted(edges, t, "right") - 1, 0, INTERVALS - 1), values


def crest(t: Array, values: Array) -> tuple[Array, Array]:
    """The largest size in each of 120 equal intervals of time that has values."""
    middles, which, values = _bins(t, np.abs(values))
    top = np.full(INTERVALS, -np.inf)
    np.maximum.at(top, which, values)
    full = np.isfinite(top)
    return middles[full], top[full]


def swing(ax: Axes, t: Array, values: Array, label: str) -> bool:
    """A curve over time; if it is restless a band from its smallest to its largest values, with their mean, and True."""
    look = dashes(len(ax.lines))
    if not restless(values):
        rows = thin(len(t), 3000)
        ax.plot(t[rows], values[rows], lw=1.0, ls=look, label=label)
        return False
    middles, which, finite = _bins(t, values)
    low, high, mean = np.full(INTERVALS, np.inf), np.full(INTERVALS, -np.inf), np.zeros(INTERVALS)
    np.minimum.at(low, which, finite)
    np.maximum.at(high, which, finite)
    np.add.at(mean, which, finite)
    count = np.bincount(which, minlength=INTERVALS)
    full = count > 0
    (line,) = ax.plot(middles[full], mean[full] / count[full], lw=1.0, ls=look, label=label)
    ax.fill_between(middles[full], low[full], high[full], color=line.get_color(), alpha=0.22, lw=0)
    return True
