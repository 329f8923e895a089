"""Figures of experiments: convergence, series over time, sections, claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dalembert.experiments.base import Panel, Result
from dalembert.plotting import COLOURS, LEVELS, convergence, finish, magnitude, style
from dalembert.plotting.canvas import Array, dashes, legend
from dalembert.plotting.swings import crest, restless, swing

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
TITLES = {
    "position": "position constraints", "velocity": "velocity constraints", "violation": "constraints", "h": "step size",
    "residual": "power balance", "change": "change of the energy", "predicted": "the same, predicted",
}  # fmt: skip
AXES = {"t": "time $t$", "exponent": "exponent of the mass, base 10"}
BANDS = "mean and range"  # said where curves are bands
Curve = tuple[str, Array, Array]  # name, axis, values


@dataclass
class _Content:
    """What the data of a result show: convergence, series over an axis, orbits in a section."""

    orders: dict[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    series: dict[tuple[str, str, str], list[Curve]] = field(default_factory=dict)  # by axis, quantity, group
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
        self.series = {place: part for key, curves in list(self.series.items())[:3] for place, part in _parted(key, curves)}
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
                    self.series.setdefault((axis, key, ""), []).append((name, t[len(t) - len(y) :], y))

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


def _parted(key: tuple[str, str, str], curves: list[Curve]) -> list[tuple[tuple[str, str, str], list[Curve]]]:
    """Curves of one quantity by the setting that ends their names, such as `h = 0.1`, if there are more than colours."""
    if len(curves) <= len(COLOURS):
        return [(key, curves)]
    groups: dict[str, list[Curve]] = {}
    for name, x, y in curves:
        head, _, setting = name.rpartition(", ")
        groups.setdefault(setting if head else "", []).append((head or name, x, y))
    return [((*key[:2], setting), part) for setting, part in groups.items()]


def _columns(panels: int) -> int:
    """Columns of a figure: as few empty places as possible, and at most four beside each other."""
    if panels < 4:
        return panels
    return 2 if panels == 4 else min((3, 4), key=lambda columns: (-panels % columns, columns))


def figure(result: Result) -> Figure | None:
    """The data of a result: convergence, series over time, orbits in a section; claims if there are none of these."""
    import matplotlib.pyplot as plt

    content = _Content.of(result)
    panels = content.panels + len(result.panels)
    if not panels:
        return _claims(result)
    with style():
        columns = _columns(panels)
        rows = -(-panels // columns)
        drawn, axes = plt.subplots(rows, columns, figsize=(max(5.4, 4.2 * columns), 3.5 * rows), squeeze=False)
        free = iter(axes.ravel())
        if content.orders:
            convergence(content.orders, next(free))
        for (axis, key, group), curves in content.series.items():
            title = _joined(TITLES.get(key, key), group) if panels > 1 else ""
            _series(next(free), AXES[axis], key, curves, title)
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
    bands = False
    for k, (name, (x, y)) in enumerate(panel.curves.items()):
        if panel.style == "log":
            _logarithmic(ax, x, y, name, len(panel.curves))
        elif panel.style == "points":
            ax.plot(x, y, ".", ms=1.2, mew=0, rasterized=True, label=name)
        elif panel.style == "path":  # long ones as a haze, the shortest on top
            long = len(x) > 5000
            ax.plot(x, y, ls=dashes(k), lw=0.25 if long else 0.8, alpha=0.6 if long else 1.0, zorder=3 - k / 10, label=name)
        else:
            bands |= swing(ax, x, y, name)
    if panel.style == "path":
        ax.set_aspect("equal", adjustable="datalim")
    finish(ax, panel.across, panel.up, _joined(panel.title, BANDS * bands))
    if len(panel.curves) > 1:
        _legend(ax)


def _legend(ax: Axes) -> None:
    """A legend beside the title if it fits there, with lines that can be seen where curves are thin or faint."""
    legend(ax, 3)
    found = ax.get_legend()
    for handle in found.get_lines() if found is not None else ():
        handle.set(linewidth=1.4, alpha=1.0)


def _logarithmic(ax: Axes, t: Array, values: Array, label: str, count: int) -> None:
    """Sizes on a logarithmic axis; of many curves that go up and down only the crests."""
    magnitude(ax, *(crest(t, values) if count > 2 and restless(values) else (t, values)), label)


def _orbit(ax: Axes, name: str, orbit: Mapping[str, Array]) -> None:
    """Points of a section with x > 0, one colour for each orbit."""
    for x, z, vz in zip(orbit["x"], orbit["z"], orbit["vz"], strict=True):
        keep = x > 0
        ax.plot(z[keep], vz[keep], ".", ms=1.2, mew=0, rasterized=True)
    finish(ax, "$z$", r"$\dot{z}$", name)


def _series(ax: Axes, across: str, key: str, curves: list[Curve], title: str) -> None:
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
    bands = False
    for name, t, y in curves:
        if wide:
            _logarithmic(ax, t, y, name, len(curves))
        else:
            bands |= swing(ax, t, y, name)
    finish(ax, across, label, _joined(title, BANDS * bands))
    if len(curves) > 1:
        _legend(ax)


def _claims(result: Result) -> Figure | None:
    """Our numbers beside what is claimed of them; None if there are no numbers."""
    import matplotlib.pyplot as plt

    rows = [(row, ours, span) for row in result.rows if (ours := _number(row.ours)) is not None and (span := _span(row.wanted))]
    if not rows:
        return None
    seen = [abs(x) for _, ours, span in rows for x in (ours, *span) if x and np.isfinite(x)]
    low, high = min(seen, default=0.1) / 10, max(seen, default=1.0) * 3
    with style():
        drawn, ax = plt.subplots(figsize=(8.5, 1.0 + 0.32 * len(rows)), layout="constrained")
        for k, (row, ours, (least, most)) in enumerate(rows):
            ends = np.clip([least, most], low, high)
            pad = (high / low) ** 0.006  # a narrow window is still seen
            claimed = ax.barh(k, ends[1] * pad - ends[0] / pad, left=ends[0] / pad, height=0.55, color="0.85", zorder=1)
            (mark,) = ax.plot(max(abs(ours), low), k, "o", ms=5, color=COLOURS[0] if row.holds else COLOURS[1], zorder=3)
            if ours == 0:
                ax.annotate("0", (low, k), (7, 0), textcoords="offset points", va="center", fontsize="small")
        ax.set_yticks(range(len(rows)), [row.what for row, *_ in rows], fontsize="small")
        ax.set(xscale="log", xlim=(low / 1.5, high))
        ax.grid(visible=False, axis="y")
        ax.invert_yaxis()
        drawn.suptitle(f"{result.id}: {result.title}")
        mark.set_label("ours")
        claimed.patches[0].set_label("claimed")
        drawn.legend(handles=[mark, claimed.patches[0]], loc="outside lower right", ncols=2)
    return drawn


def _joined(*parts: str) -> str:
    """Parts of a title that are not empty."""
    return ", ".join(part for part in parts if part)


def _number(text: str) -> float | None:
    """A number, or None for words."""
    try:
        return float(text)
    except ValueError:
        return None


def _span(wanted: str) -> tuple[float, float] | None:
    """The range of sizes that a claim allows, of `<= a`, `>= a`, `a +- b` and `a`; None for words."""
    target, _, window = wanted.partition("+-")
    value, width = _number(target.strip("<>= ")), _number(window or "0")
    if value is None or width is None:
        return None
    if wanted.startswith(("<", ">")):  # of negative numbers the sizes are on the other side
        return (0.0, abs(value)) if wanted.startswith("<") == (value >= 0) else (abs(value), np.inf)
    return abs(value) - width, abs(value) + width
