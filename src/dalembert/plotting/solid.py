"""Solids in figures: filled outlines in the plane, lit surfaces in space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dalembert.plotting.canvas import COLOURS, Array
from dalembert.systems import Picture

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

LIGHT = np.array([0.35, -0.55, 0.76])  # where it comes from


def colour(k: int, own: str) -> str:
    """The colour of solid number k."""
    return own or COLOURS[k % len(COLOURS)]


def drawn(ax: Axes, points: Array, picture: Picture, alpha: float) -> list[Artist]:
    """The solids of a picture at one time; in space as one collection, so that they are sorted by depth together."""
    solids = list(picture.solids)
    if not solids:
        return []
    from matplotlib.colors import to_rgb

    colours = [np.array(to_rgb(colour(k, solid.color))) for k, solid in enumerate(solids)]
    if points.shape[1] == 2:
        from matplotlib.patches import Polygon

        rings = [solid.outlined(points) for solid in solids]
        fills = [(*(0.45 * c + 0.55), 0.9 * alpha) for c in colours]
        return [
            ax.add_patch(Polygon(ring, closed=True, facecolor=fill, edgecolor=(*0.75 * c, alpha), linewidth=1.0))
            for ring, fill, c in zip(rings, fills, colours, strict=True)
        ]
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    triangles, shades = [], []
    for solid, c in zip(solids, colours, strict=True):
        faces = solid.placed(points)[solid.table[1]]
        across = np.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
        lit = np.clip(across @ LIGHT / np.maximum(np.linalg.norm(across, axis=1), 1e-300), 0, 1)
        triangles.append(faces)
        shades.append(np.clip(c * (0.45 + 0.55 * lit[:, None]) + 0.12 * lit[:, None] ** 4, 0, 1))
    rows = np.concatenate(shades)
    filled = np.column_stack([rows, np.full(len(rows), alpha)])
    surface = Poly3DCollection(np.concatenate(triangles), facecolors=filled, edgecolors=filled, linewidths=0.3)
    return [ax.add_collection3d(surface)]  # type: ignore[attr-defined]  # of axes in space


def extent(points: Array, picture: Picture) -> Array:
    """Points that span a picture over a motion: its points, and the corners of its solids at some times."""
    every = [points.reshape(-1, points.shape[2])]
    for solid in picture.solids:
        times = points[np.unique(np.linspace(0, len(points) - 1, 24).astype(int))]
        origin, tips = times[:, solid.frame[0]], np.stack([times[:, i] for i in solid.frame[1:]], axis=1)
        low, high = solid.table[0].min(axis=0), solid.table[0].max(axis=0)
        box = np.stack(np.meshgrid(*zip(low, high, strict=True)), axis=-1).reshape(-1, len(low))
        every.append((origin[:, None] + np.einsum("kd,tde->tke", box, tips - origin[:, None])).reshape(-1, points.shape[2]))
    return np.concatenate(every)
