"""Where a system goes: its picture at rest, and moving."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.errors import MethodError
from dalembert.plotting.canvas import COLOURS, axes, crowded, finish, legend, styled, thin
from dalembert.plotting.labels import coordinate, labelled, time_label
from dalembert.systems import Picture

if TYPE_CHECKING:
    from dalembert.solution import Solution


@styled
def motion(sol: Solution, ax: Any = None) -> Any:
    """Where the system goes: trails and first and last position of its picture, or coordinates over time."""
    if not sol.system.drawn:
        return coordinates(sol, ax)
    rows = thin(len(sol.t))
    points = sol.system.numeric("points", sol._par, q=sol.q[rows], t=sol.t[rows])
    space = points.shape[2] == 3
    ax = axes(ax, "3d" if space else None)
    if space and ax.name != "3d":
        raise MethodError("this picture needs axes in space: plt.figure().add_subplot(projection='3d')")
    picture = sol.system.picture or Picture()
    for k, i in enumerate(picture.trails):
        ax.plot(*points[:, i].T, color=COLOURS[k % len(COLOURS)], lw=0.7, alpha=0.6)
    for when, alpha in ((0, 0.25), (-1, 1.0)):
        instant(ax, points[when], picture.parts(), alpha)
    axis = [labelled(sol, f"${a}$", "length") for a in "xyz"]
    start, end = f"{sol.t[0]:g}", f"{sol.t[-1]:g}"
    if space:
        ax.set_zlabel(axis[2])
        spread = np.ptp(points.reshape(-1, 3), axis=0)
        ax.set_box_aspect(np.maximum(spread, 0.3 * spread.max() + 1e-12))
        ax.tick_params(labelsize="x-small", pad=0)
        for which in (ax.xaxis, ax.yaxis, ax.zaxis):
            which.set_major_locator(_few())
    else:
        ax.set_aspect("equal", adjustable="datalim")
    return finish(ax, axis[0], axis[1], f"motion, $t = {start}$ (faint) and ${end}$")


def _few() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5)


def _body(ax: Any, ring: np.ndarray, alpha: float) -> Any:
    look = {"facecolor": (0.55, 0.55, 0.55, 0.45 * alpha), "edgecolor": (0.2, 0.2, 0.2, 0.9 * alpha), "linewidth": 0.9}
    if ring.shape[1] == 2:
        from matplotlib.patches import Polygon

        return ax.add_patch(Polygon(ring, closed=True, **look))
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    return ax.add_collection3d(Poly3DCollection([ring], **look))


def frames(figure: Any, points: np.ndarray, parts: Any) -> tuple[Any, Callable[[int], list[Any]]]:
    """Axes that hold a whole motion, and a function that makes the artists of one instant: trails, bodies, links, masses."""
    space = points.shape[2] == 3
    ax = figure.add_subplot(projection="3d" if space else None)
    every = points.reshape(-1, points.shape[2])
    middle, half = (every.min(axis=0) + every.max(axis=0)) / 2, max(float(np.ptp(every, axis=0).max()) / 2, 1e-9) * 1.15
    for which, m in zip("xyz", middle, strict=False):
        getattr(ax, f"set_{which}lim")(m - half, m + half)
    ax.set_aspect("equal")
    drawn: list[Any] = []

    def draw(f: int) -> list[Any]:
        for artist in drawn:
            artist.remove()
        drawn.clear()
        for k, i in enumerate(parts["trails"]):
            drawn.extend(ax.plot(*points[: f + 1, i].T, color=COLOURS[k % len(COLOURS)], lw=0.8, alpha=0.6))
        drawn.extend(instant(ax, points[f], parts, 1.0))
        return drawn

    return ax, draw


def instant(ax: Any, points: np.ndarray, parts: Any, alpha: float) -> list[Any]:
    """Bodies, links and masses at one time."""
    out = [_body(ax, points[list(ring)], alpha) for ring in parts["bodies"]]
    for link in parts["links"]:
        out += ax.plot(*points[list(link)].T, color="0.25", lw=1.6, alpha=alpha, solid_capstyle="round")
    out += ax.plot(*points[list(parts["masses"])].T, ls="", marker="o", ms=5.5, color="0.15", mew=0, alpha=alpha)
    return out


@styled
def coordinates(sol: Solution, ax: Any = None, most: int = 8) -> Any:
    """The first coordinates over time."""
    ax, rows = axes(ax), thin(len(sol.t))
    for i in range(min(most, sol.system.n)):
        ax.plot(sol.t[rows], sol.q[rows, i], label=coordinate(sol, i))
    more = f", the first {most} of {sol.system.n}" if sol.system.n > most else ""
    finish(ax, time_label(sol), "value", f"coordinates{more}")
    if sol.system.n > 4:
        crowded(ax)
    else:
        legend(ax, 4)
    return ax
