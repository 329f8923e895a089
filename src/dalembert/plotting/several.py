"""Several runs beside each other: sections, comparisons, convergence, work and precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.errors import MethodError
from dalembert.plotting.canvas import axes, crowded, dashes, finish, magnitude, style, styled
from dalembert.plotting.labels import labelled, symbol, text, time_label
from dalembert.plotting.runs import LEVELS, balance


@styled
def section(points: Any, x: tuple[str, int] = ("q", 0), y: tuple[str, int] = ("q", 1), ax: Any = None, where: Any = None) -> Any:
    """A Poincare section in the plane of two quantities, `("q", 2)` and `("v", 2)` say, one colour an orbit.

    `where` is a function of `q` with coordinates first that says which points to draw.
    """
    ax = axes(ax)
    several = points.q.ndim == 3
    data = {name: getattr(points, name) if several else getattr(points, name)[None] for name in ("q", "v", "p")}
    for k in range(len(data["q"])):
        keep = slice(None) if where is None else np.asarray(where(data["q"][k].T), dtype=bool)
        ax.plot(data[x[0]][k, :, x[1]][keep], data[y[0]][k, :, y[1]][keep], ".", ms=2, mew=0, rasterized=True)
    ax.set_aspect("equal")
    across, up = (_quantity(points.coordinates, *which) for which in (x, y))
    return finish(ax, across, up, f"section, {data['q'].shape[1]} points an orbit")


def _quantity(names: tuple[str, ...], kind: str, i: int) -> str:
    """A coordinate, its rate, or its momentum."""
    if i >= len(names):
        return f"${kind}_{{{i + 1}}}$"
    inner = symbol(names[i]).strip("$")
    return {"q": f"${inner}$", "v": rf"$\dot{{{inner}}}$" if "_" not in inner else f"${inner}'$", "p": f"$p_{{{inner}}}$"}[kind]


def comparison(runs: Any) -> Any:
    """Energy errors and constraints of several runs of one system, or of a `Comparison`, side by side: a whole figure."""
    import matplotlib.pyplot as plt

    runs = list(getattr(runs, "runs", runs))
    if not runs:
        raise MethodError("there is nothing to compare: give at least one solution")
    first = runs[0]
    levels = [level for level in ("position", "velocity") if first.residual(level).shape[1]]
    panels = (["energy"] if first.system.kind != "dae" else []) + levels
    with style():
        figure, grid = plt.subplots(1, len(panels), figsize=(4.0 * max(len(panels), 1.5), 3.8), squeeze=False)
        for ax, panel in zip(grid[0], panels, strict=True):
            for sol in runs:
                if panel == "energy":
                    magnitude(ax, sol.t[1:], balance(sol)[0], text(str(sol.method)))
                else:
                    magnitude(ax, sol.t, np.abs(sol.residual(panel)).max(axis=1), text(str(sol.method)))
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
def convergence(curves: Any, ax: Any = None) -> Any:
    """Errors over steps, slopes in the legend: `{name: (steps, errors)}`, or what `da.convergence(...)` returns."""
    if hasattr(curves, "curves"):
        curves = curves.curves()
    ax = axes(ax)
    for name, (h, e) in curves.items():
        keep = np.asarray(e) > 0
        slope = np.polyfit(np.log(np.asarray(h)[keep]), np.log(np.asarray(e)[keep]), 1)[0] if keep.sum() > 1 else np.nan
        ax.loglog(h, e, "o", ls=dashes(len(ax.lines)), ms=3.5, label=f"{text(name)}: {slope:.2f}")
    finish(ax, "step $h$", "error", "convergence, slopes in the legend")
    crowded(ax)
    return ax


@styled
def work_precision(curves: Any, ax: Any = None) -> Any:
    """Error over seconds of run time on logarithmic axes, one curve a method; `{name: (seconds, errors)}`."""
    ax = axes(ax)
    for name, (seconds, errors) in curves.items():
        ax.loglog(seconds, errors, "o-", ms=3.5, label=text(name))
    finish(ax, "run time (s)", "error", "work and precision")
    crowded(ax)
    return ax
