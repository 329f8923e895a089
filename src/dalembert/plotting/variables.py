"""Named variables of a run: positions, velocities, accelerations, inputs, multipliers, sensors, on an axis for each unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dalembert.errors import MethodError
from dalembert.plotting.canvas import axes, dashes, figure_path, finish, legend, save, style, styled, thin
from dalembert.plotting.labels import symbol, text, time_label, titled
from dalembert.solution import Solution, shown
from dalembert.solution.names import Column, find

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def variables(sol: Solution, names: Sequence[str], ax: Axes | None = None, *, over: str | None = None) -> Axes:
    """Named variables of a run in one axis, over time or over another variable."""
    ax, below = axes(ax), None if over is None else find(sol, over)
    units = set()
    for k, name in enumerate(names):
        column = find(sol, name)
        x = _abscissa(name, column, over, below)
        rows = thin(len(x))
        ax.plot(x[rows], column.values[rows], label=symbol(name), ls=dashes(k))
        units.add(column.unit)
    label = ", ".join(symbol(name) for name in names) if len(names) < 4 else "value"
    label = _with_unit(label, units.pop() if len(units) == 1 else "")
    finish(ax, time_label(sol) if below is None else _with_unit(symbol(str(over)), below.unit), label, "")
    if len(names) > 1:
        legend(ax, 6)
    return ax


def _abscissa(name: str, column: Column, over: str | None, below: Column | None) -> np.ndarray:
    if below is None:
        return column.t
    if len(below.t) != len(column.t):
        raise MethodError(f"{name!r} and {over!r} are defined at different times: they cannot be drawn over each other")
    return below.values


def _with_unit(label: str, unit: str) -> str:
    written = re.sub(r"\^(\d)", r"$^\1$", unit)
    return f"{label} ({written})" if unit else label


def panels(
    sol: Solution, names: list[str], over: str | None = None, path: str | Path | None = None, dpi: float | None = None
) -> Figure:
    """One axis for each unit, below each other; written to `path` if one is given: what `sol.plot(names)` does."""
    import matplotlib.pyplot as plt

    if not names:
        raise MethodError("name the variables to draw, for instance sol.plot(['x1', 'v_x1']); sol.names lists them")
    checked = None if path is None else figure_path(path)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_group(sol, name), []).append(name)
    with style():
        figure, grid = plt.subplots(
            len(groups), 1, figsize=(7.0, 0.8 + 2.1 * len(groups)), sharex=True, squeeze=False, layout="constrained"
        )
        for ax, group in zip(grid[:, 0], groups.values(), strict=True):
            variables(sol, group, ax, over=over)
            ax.label_outer()
        figure.suptitle(text(titled(sol), 100))
    if checked is not None:
        save(figure, checked, dpi)
    return figure


def _group(sol: Solution, name: str) -> str:
    """What shares an axis: one unit; without units, what a name begins with (`v_`, `a_`, `lam`), coordinates together."""
    column = find(sol, name)
    if column.unit:
        return column.unit
    if name in sol.system.coordinates:
        return "coordinates"
    return name.split("_")[0].rstrip("0123456789")


shown.VARIABLES.set(panels)
