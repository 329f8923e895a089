"""Drawing and animating the motion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dalembert.errors import MethodError
from dalembert.plotting.canvas import COLOURS, Array, axes, finish, legend, styled, thin
from dalembert.plotting.groups import Group, coordinate_groups, liveliest
from dalembert.plotting.labels import coordinate, labelled, time_label
from dalembert.plotting.overlay import curve
from dalembert.plotting.solid import drawn, extent
from dalembert.solution import Solution
from dalembert.systems import Picture

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d import Axes3D


@styled
def motion(sol: Solution, ax: Axes | None = None) -> Axes:
    """Trails and the first and last position of the picture of a system; coordinates over time if it has no picture."""
    if not sol.system.drawn:
        return coordinates(sol, ax)
    rows = thin(len(sol.t))
    points = sol.points[rows]
    space = points.shape[2] == 3
    ax = axes(ax, "3d" if space else None)
    if space and ax.name != "3d":
        raise MethodError("this picture needs three-dimensional axes: plt.figure().add_subplot(projection='3d')")
    picture = sol.system.picture or Picture()
    for k, i in enumerate(picture.trails):
        ax.plot(*points[:, i].T, color=COLOURS[k % len(COLOURS)], lw=0.7, alpha=0.6)
    for when, alpha in ((0, 0.25), (-1, 1.0)):
        instant(ax, points[when], picture, alpha)
    axis = [labelled(sol, f"${a}$", "length") for a in "xyz"]
    start, end = f"{sol.t[0]:g}", f"{sol.t[-1]:g}"
    if space:
        _box(ax, extent(points, picture), axis[2])
    else:
        ax.set_aspect("equal", adjustable="box")
        ax.margins(0.08)
    return finish(ax, axis[0], axis[1], f"motion, $t = {start}$ (faint) and ${end}$")


def _box(ax: Axes3D, points: Array, label: str) -> None:
    """Proportions, ticks and the third label of axes in space."""
    from matplotlib.ticker import MaxNLocator

    ax.set_zlabel(label)
    low, high = points.min(axis=0), points.max(axis=0)
    half = np.maximum(high - low, 0.3 * (high - low).max() + 1e-12) / 2
    for which, middle, h in zip("xyz", (low + high) / 2, half, strict=True):
        getattr(ax, f"set_{which}lim")(middle - h, middle + h)
    ax.set_box_aspect(half)
    ax.tick_params(labelsize="x-small", pad=0)
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_major_locator(MaxNLocator(5))


def _body(ax: Axes, ring: Array, alpha: float) -> Artist:
    """A filled polygon."""
    face, edge = (0.55, 0.55, 0.55, 0.45 * alpha), (0.2, 0.2, 0.2, 0.9 * alpha)
    if ring.shape[1] == 2:
        from matplotlib.patches import Polygon

        return ax.add_patch(Polygon(ring, closed=True, facecolor=face, edgecolor=edge, linewidth=0.9))
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    space: Axes3D = ax
    filled: Artist = space.add_collection3d(Poly3DCollection([ring], facecolor=face, edgecolor=edge, linewidth=0.9))
    return filled


def frames(
    figure: Figure,
    points: Array,
    picture: Picture,
    trails: Sequence[Sequence[Array]],
    camera: tuple[float, float] | None = None,
) -> tuple[Axes, Callable[[int], list[Artist]]]:
    """Axes that hold a whole motion, and a function that draws one frame: trails, bodies, links, masses."""
    space = points.shape[2] == 3
    ax = figure.add_subplot(projection="3d" if space else None)
    every = extent(points, picture)
    middle, half = (every.min(axis=0) + every.max(axis=0)) / 2, 1.1 * np.ptp(every, axis=0) / 2
    if space:
        half = np.full(3, max(float(half.max()), 1e-9))
    else:  # as wide and high as the figure
        wide, high = figure.get_size_inches()
        half = max(half[0] / wide, half[1] / high, 1e-9) * np.array([wide, high])
    for which, m, h in zip("xyz", middle, half, strict=False):
        getattr(ax, f"set_{which}lim")(m - h, m + h)
    ax.set_aspect("equal")
    if space and camera is not None:
        view: Axes3D = ax
        view.view_init(azim=camera[0], elev=camera[1])
    there: list[Artist] = []

    def draw(f: int) -> list[Artist]:
        for artist in there:
            artist.remove()
        there.clear()
        for k, path in enumerate(trails[f]):
            there.extend(ax.plot(*path.T, color=COLOURS[k % len(COLOURS)], lw=0.8, alpha=0.6))
        there.extend(instant(ax, points[f], picture, 1.0))
        return there

    return ax, draw


def instant(ax: Axes, points: Array, picture: Picture, alpha: float) -> list[Artist]:
    """Draw solids, bodies, links and masses at one time."""
    out = drawn(ax, points, picture, alpha)
    out += [_body(ax, points[list(ring)], alpha) for ring in picture.bodies]
    links, masses = list(picture.links), list(picture.masses)
    if links:
        out.append(_rods(ax, points[np.array([list(link) for link in links])], alpha))
    size = float(np.clip(5.5 * np.sqrt(60 / max(len(masses), 1)), 1.2, 5.5))
    out += ax.plot(*points[masses].T, ls="", marker="o", ms=size, color="0.15", mew=0, alpha=alpha)
    return out


def _rods(ax: Axes, ends: Array, alpha: float) -> Artist:
    """Lines between pairs of points, finer where there are many."""
    wide = float(np.clip(1.6 * np.sqrt(60 / len(ends)), 0.5, 1.6))
    if ends.shape[2] == 2:
        from matplotlib.collections import LineCollection

        return ax.add_collection(LineCollection(list(ends), colors="0.25", linewidths=wide, alpha=alpha, capstyle="round"))
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    space: Axes3D = ax
    lines: Artist = space.add_collection3d(Line3DCollection(ends, colors="0.25", linewidths=wide, alpha=alpha))
    return lines


@styled
def coordinates(sol: Solution, ax: Axes | None = None, most: int = 8, group: Group | None = None) -> Axes:
    """Coordinates over time, of one unit or kind if a `group` of `coordinate_groups` is given; the `most` that move most."""
    ax, rows, every = axes(ax), thin(len(sol.t)), coordinate_groups(sol)
    only = group if group is not None else every[0] if len(every) == 1 else None
    members = only.members if only is not None else tuple(range(sol.system.n))
    drawn = liveliest(sol, members, most)
    for i in drawn:
        curve(ax, sol, ax.plot(sol.t[rows], sol.motion[rows, i]), coordinate(sol, i, unit=only is None))
    more = f", the {most} of {len(members)} that move most" if len(members) > most else ""
    title = only.title if only is not None else "coordinates"
    finish(ax, time_label(sol), only.unit or "value" if only is not None else "value", f"{title}{more}")
    legend(ax, 8)
    return ax
