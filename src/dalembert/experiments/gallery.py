"""Figures of experiments: convergence, series over time, sections, claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dalembert.experiments.base import Panel, Result
from dalembert.plotting import COLOURS, LEVELS, convergence, crowded, finish, magnitude, style
from dalembert.plotting.canvas import Array, dashes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALL = ("violation", "residual", "distance", "position", "velocity", "error")  # drawn on a logarithmic scale
LABELS = {
    "energy": "energy $H$", "position": LEVELS["position"], "velocity": LEVELS["velocity"],
    "violation": "largest residual", "h": "step $h$",
    "residual": "residual of the balance", "dissipated": "dissipated energy per step", "change": "change of the energy per step",
    "predicted": "predicted change per step", "distance": "distance to the limit", "error": "error",
}  # fmt: skip
AXES = {"t": "time $t$", "exponent": "exponent of the mass, base 10"}
Curve = tuple[str, Array, Array]  # name, axis, values


@dataclass
class _Content:
    """What the data of a result show: convergence, series over an axis, orbits in a section."""

    orders: dict[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    series: dict[tuple[str, str], list[Curve]] = field(default_factory=dict)
    orbits: dict[str, dict[str, Array]] = field(default_factory=dict)

    @classmethod
    def of(cls, result: Result) -> _Content:
        """Sort the data of a result by what they show."""
        self = cls()
        if any(axis in result.data for axis in AXES):
            self._add("", result.data)
        for name, group in result.data.items():
            if isinstance(group, dict):
                self._add(name, group)
        self.series = dict(list(self.series.items())[:3])
        return self

    def _add(self, name: str, group: Mapping[str, object]) -> None:
        values = {key: y for key, value in group.items() if (y := _numbers(value, "fi" if key in AXES else "f")) is not None}
        axis = next((a for a in AXES if a in values), None)
        if "h" in values and axis is None:
            for key, e in values.items():
                if key != "h" and e.shape == values["h"].shape:
                    self.orders[f"{name} {key}" if key != "error" else name] = (values["h"], e)
        if "vz" in values and values.get("x", np.zeros(0)).ndim == 2:
            self.orbits[name] = values
        elif axis:
            t = values[axis]
            for key, y in values.items():
                if key != axis and y.ndim == 1 and len(y) in (len(t), len(t) - 1) and np.isfinite(y).sum() > 1:
                    self.series.setdefault((axis, key), []).append((name, t[len(t) - len(y) :], y))

    @property
    def panels(self) -> int:
        """The number of axes in the figure."""
        return bool(self.orders) + len(self.series) + len(self.orbits)


def _numbers(value: object, kinds: str) -> Array | None:
    """An array of numbers of these kinds (of `dtype.kind`); None for anything else."""
    if not isinstance(value, (np.ndarray, list, tuple)):
        return None
    array = np.asarray(value)
    return array.astype(float) if array.ndim and array.dtype.kind in kinds else None


def figure(result: Result) -> Figure | None:
    """The data of a result: convergence, series over time, orbits in a section; claims if there are none of these."""
    import matplotlib.pyplot as plt

    content = _Content.of(result)
    panels = content.panels + len(result.panels)
    if not panels:
        return _claims(result)
    with style():
        columns = panels if panels < 4 else 2 if panels == 4 else 3
        rows = -(-panels // columns)
        drawn, axes = plt.subplots(rows, columns, figsize=(max(5.4, 4.4 * columns), 3.6 * rows), squeeze=False)
        free = iter(axes.ravel())
        if content.orders:
            convergence(content.orders, next(free))
        for (axis, key), curves in content.series.items():
            _series(next(free), AXES[axis], key, curves)
        for name, orbit in content.orbits.items():
            _orbit(next(free), name, orbit)
        for panel in result.panels:
            _panel(next(free), panel)
        for ax in free:
            ax.set_axis_off()
        drawn.suptitle(f"{result.id}: {result.title}")
    return drawn


def _panel(ax: Axes, panel: Panel) -> None:
    """A figure of the source: its curves in its own coordinates."""
    for k, (name, (x, y)) in enumerate(panel.curves.items()):
        if panel.style == "log":
            magnitude(ax, x, y, name)
        elif panel.style == "points":
            ax.plot(x, y, ".", ms=1.2, mew=0, rasterized=True, label=name)
        else:
            every = 1 if panel.style == "path" else max(1, len(x) // 3000)
            ax.plot(x[::every], y[::every], ls=dashes(k), lw=0.6 if panel.style == "path" else 0.9, label=name)
    if panel.style == "path":
        ax.set_aspect("equal", adjustable="datalim")
    finish(ax, panel.across, panel.up, panel.title)
    if len(panel.curves) > 1:
        crowded(ax)


def _orbit(ax: Axes, name: str, orbit: Mapping[str, Array]) -> None:
    """Points of a section with x > 0, one colour for each orbit."""
    for x, z, vz in zip(orbit["x"], orbit["z"], orbit["vz"], strict=True):
        keep = x > 0
        ax.plot(z[keep], vz[keep], ".", ms=1.2, mew=0, rasterized=True)
    finish(ax, "$z$", r"$\dot{z}$", name)


def _series(ax: Axes, across: str, key: str, curves: list[Curve]) -> None:
    """Curves over time or an exponent: small numbers on a logarithmic axis, an almost constant energy by its change."""
    finite = np.concatenate([y[np.isfinite(y)] for *_, y in curves])
    small = np.abs(finite[finite != 0])
    label = LABELS.get(key, "distance to the limit" if across == AXES["exponent"] else key)
    if key == "energy" and small.size and max(np.ptp(y[np.isfinite(y)]) for *_, y in curves) < 1e-3 * small.max():
        curves = [(name, t[1:], y[1:] - y[0]) for name, t, y in curves]
        label, wide = "$|H - H_0|$", True
    else:
        wide = key in SMALL or (bool(small.size) and float(small.max()) > 1e4 * float(np.median(small)))
        if key == "energy" and all(y[0] == 0 for *_, y in curves):
            label = "$|H - H_0|$"
    for name, t, y in curves:
        if wide:
            magnitude(ax, t, y, name)
        else:
            every = max(1, len(t) // 3000)
            ax.plot(t[::every], y[::every], lw=0.9, label=name)
    finish(ax, across, label, key)
    if len(curves) > 1:
        crowded(ax)


def _claims(result: Result) -> Figure | None:
    """Our numbers beside their limits; None if there are no numbers."""
    import matplotlib.pyplot as plt

    rows = []
    for row in result.rows:
        try:
            rows.append((row.what, abs(float(row.ours)), abs(float(row.wanted.split("+-")[0].strip("<>= "))), row.holds))
        except ValueError:
            continue
    if not rows:
        return None
    with style():
        drawn, ax = plt.subplots(figsize=(8.5, 0.8 + 0.34 * len(rows)), layout="constrained")
        for k, (_, ours, wanted, holds) in enumerate(rows):
            ax.plot(max(ours, 1e-17), k, "o", color=COLOURS[0] if holds else COLOURS[1], label="ours" if k == 0 else None)
            ax.plot(max(wanted, 1e-17), k, "|", ms=14, color="0.4", label="wanted or limit" if k == 0 else None)

        ax.set_yticks(range(len(rows)), [what for what, *_ in rows], fontsize="x-small")
        ax.set(xscale="log", xlabel="value", title=f"{result.id}: {result.title}")
        ax.invert_yaxis()
        ax.legend(fontsize="x-small")
    return drawn
