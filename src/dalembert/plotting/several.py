"""Several runs: sections, comparisons, convergence, work and precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dalembert.analysis import comparison as comparisons
from dalembert.analysis import sections, work
from dalembert.analysis.comparison import Comparison, Convergence
from dalembert.analysis.sections import Quantity, Section, Where
from dalembert.analysis.work import WorkPrecision
from dalembert.errors import MethodError
from dalembert.plotting.canvas import axes, crowded, dashes, finish, magnitude, style, styled
from dalembert.plotting.groups import run_names
from dalembert.plotting.labels import labelled, symbol, text, time_label
from dalembert.plotting.runs import LEVELS, balance
from dalembert.plotting.showing import figure_class
from dalembert.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curves = Mapping[str, tuple[ArrayLike, ArrayLike]]


@styled
def section(
    points: Section, x: Quantity = ("q", 0), y: Quantity = ("q", 1), ax: Axes | None = None, where: Where | None = None
) -> Axes:
    """A Poincare section in the plane of two quantities, such as `("q", 2)` and `("v", 2)`, one colour for each orbit.

    `where` is a function of `q`, coordinates first, that selects the points to draw.
    """
    ax = axes(ax)
    several = points.t.ndim == 2
    data = {name: values if several else values[None] for name, values in points.values.items()}
    first = next(iter(data.values()))
    for k in range(len(first)):
        keep = slice(None) if where is None else np.asarray(where(first[k].T), dtype=bool)
        ax.plot(data[x[0]][k, :, x[1]][keep], data[y[0]][k, :, y[1]][keep], ".", ms=2, mew=0, rasterized=True)
    ax.set_aspect("equal")
    across, up = (_quantity(points.coordinates, *which) for which in (x, y))
    return finish(ax, across, up, f"section, {first.shape[1]} points per orbit")


def _quantity(names: tuple[str, ...], kind: str, i: int) -> str:
    """A coordinate, its rate, or its momentum."""
    if i >= len(names):
        return f"${kind}_{{{i + 1}}}$"
    inner = symbol(names[i]).strip("$")
    rate = rf"$\dot{{{inner}}}$" if "_" not in inner else f"${inner}'$"
    return {"v": rate, "p": f"$p_{{{inner}}}$"}.get(kind, f"${inner}$")


def comparison(runs: Comparison | Sequence[Solution]) -> Figure:
    """Energy errors and constraint residuals of several runs of one system, or of a `Comparison`, in one figure."""
    import matplotlib.pyplot as plt

    runs = runs.runs if isinstance(runs, Comparison) else list(runs)
    if not runs:
        raise MethodError("there is nothing to compare: give at least one solution")
    first = runs[0]
    levels = [level for level in ("position", "velocity") if first.residual(level).shape[1]]
    panels = (["energy"] if first.energies() else []) + levels
    with style():
        size = (4.0 * max(len(panels), 1.5), 3.8)
        figure, grid = plt.subplots(1, len(panels), figsize=size, squeeze=False, FigureClass=figure_class())
        for ax, panel in zip(grid[0], panels, strict=True):
            for sol, name in zip(runs, run_names(runs), strict=True):
                if panel == "energy":
                    magnitude(ax, sol.t[1:], balance(sol)[0], text(name))
                else:
                    magnitude(ax, sol.t, np.abs(sol.residual(panel)).max(axis=1), text(name))
            if panel == "energy":
                _, title, label = balance(first)
                finish(ax, time_label(first), labelled(first, label, "energy"), title)
            else:
                finish(ax, time_label(first), LEVELS[panel], f"{panel} constraints")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
        figure.suptitle(text(f"{first.system.name}, step {first.step:g}", 100))
    return figure


@styled
def convergence(curves: Convergence | Sequence[Convergence] | Curves, ax: Axes | None = None) -> Axes:
    """Errors over steps, with slopes in the legend: of what `da.convergence(...)` returns, one or several, or of
    `{name: (steps, errors)}`.
    """
    if not isinstance(curves, Mapping):
        found = [curves] if isinstance(curves, Convergence) else list(curves)
        if not found or not all(isinstance(one, Convergence) for one in found):
            raise MethodError("convergence takes what da.convergence(...) returns, a list of these, or {name: (steps, errors)}")
        curves = {name: pair for one in found for name, pair in one.curves().items()}
    ax = axes(ax)
    for name, (h, e) in curves.items():
        keep = np.asarray(e) > 0
        slope = np.polyfit(np.log(np.asarray(h)[keep]), np.log(np.asarray(e)[keep]), 1)[0] if keep.sum() > 1 else np.nan
        ax.loglog(h, e, "o", ls=dashes(len(ax.lines)), ms=3.5, label=f"{text(name)}: {slope:.2f}")
    finish(ax, "step $h$", "error", "convergence, slopes in the legend")
    crowded(ax)
    return ax


@styled
def work_precision(curves: WorkPrecision | Curves, ax: Axes | None = None) -> Axes:
    """Errors over run time on logarithmic axes, one curve for each method: of what `da.work_precision(...)` returns, or of
    `{name: (seconds, errors)}`.
    """
    if isinstance(curves, WorkPrecision):
        curves = curves.curves()
    ax = axes(ax)
    for name, (seconds, errors) in curves.items():
        ax.loglog(seconds, errors, "o-", ms=3.5, label=text(name))
    finish(ax, "run time (s)", "error", "work and precision")
    crowded(ax)
    return ax


comparisons.PLOT.set(convergence)
comparisons.PLOT_RUNS.set(comparison)
sections.PLOT.set(section)
work.PLOT.set(work_precision)
