"""What moves in a report or a film: the points of a run at the times of its frames, and what joins them."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dalembert.plotting.canvas import Array, thin
from dalembert.plotting.solid import colour, extent
from dalembert.solution import Solution
from dalembert.systems import Picture
from dalembert.systems.solids import Solid

RATE = 120  # frames for each second of the motion at most: twice what screens show, so that none is shown twice
NUMBERS = 750_000  # numbers of all frames at most, some four megabytes of a page
BARS = 24  # coordinates drawn as bars at most
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Drawing:
    """What moves: points, one row for each time, the picture that joins them, and labels `(point, name)`."""

    points: Array
    picture: Picture
    labels: list[tuple[int, str]]

    def plain(self) -> dict[str, object]:
        """As data for `scene.js`: coordinates of the points as numbers of four bytes, frame by frame."""
        parts = {k: v for k, v in self.picture.parts().items() if k not in ("units", "solids")}
        frames, count, dimension = self.points.shape
        every = extent(self.points, self.picture)
        reach = {"low": every.min(axis=0).tolist(), "high": every.max(axis=0).tolist()}
        solids = [_solid(k, solid) for k, solid in enumerate(self.picture.solids)]
        return {
            "frames": frames, "count": count, "dimension": dimension, "points": packed(self.points), "solids": solids,
            **reach, **parts,
        }  # fmt: skip


def _solid(k: int, solid: Solid) -> dict[str, object]:
    """A solid as data for `solids.js`: in the plane its outline, in space its triangles and their normals."""
    own = {"frame": list(solid.frame), "color": colour(k, solid.color)}
    if len(solid.frame) == 3:
        return {**own, "outline": packed(solid.outline)}
    corners, faces = solid.table
    return {**own, "corners": packed(corners[faces]), "normals": packed(solid.normals)}


def packed(values: Array) -> str:
    """Numbers of four bytes, little-endian, as base64: `numbers()` of `scene.js` reads them."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def shown(sol: Solution) -> Rows:
    """The rows of a run that are frames: at most `RATE` for each second of the motion, and not too many in all."""
    system = sol.system
    columns = system._functions["points"].numel_out(0) if system.drawn else 1
    span = float(sol.t[-1] - sol.t[0])
    most = min(max(RATE * span, 600.0), NUMBERS / max(columns, 1))
    return thin(len(sol.t), max(2, int(most)))


def drawing(sol: Solution, rows: Rows) -> Drawing:
    """The picture of the system; if it has none, its coordinates as bars, each scaled to its largest value."""
    system = sol.system
    if system.drawn:
        return Drawing(sol.points[rows], system.picture or Picture(), [])
    q = sol.motion[rows][:, :BARS]
    scale = np.abs(q).max(axis=0)
    q = q / np.where(scale > 0, scale, 1.0)
    k, gap = q.shape[1], 2.0 / max(1, q.shape[1])
    points = np.zeros((len(rows), 2 * k, 2))
    for i in range(k):
        points[:, 2 * i : 2 * i + 2, 0] = gap * i
        points[:, 2 * i + 1, 1] = q[:, i]
    bars = Picture(links=[(2 * i, 2 * i + 1) for i in range(k)], masses=[2 * i + 1 for i in range(k)])
    return Drawing(points, bars, [(2 * i, name) for i, name in enumerate(system.coordinates[:k])])
