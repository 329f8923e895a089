"""Solids of a picture: surfaces that move with frames which are points of the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import reals, shown, text
from dalembert.errors import FileError, ModelError, strict
from dalembert.systems import plain

Array = NDArray[np.float64]
Faces = NDArray[np.int64]
CREASE = 0.75  # cosine of the angle above which an edge is sharp
LARGEST = 200_000  # corners of a solid in a file


class Data(TypedDict):
    """A solid as plain data."""

    frame: tuple[int, ...]
    corners: list[list[float]]
    faces: list[list[int]]
    color: str


@strict
@dataclass(frozen=True, eq=False)
class Solid:
    """Triangles that move with a frame: an origin and the tips of its axes, three in the plane and four in space.

    Parameters
    ----------
    frame
        Numbers of points of the picture: the origin, and the tips of the axes.
    corners
        One row for each corner, in multiples of the axes.
    faces
        Numbers of corners, three for each triangle, around the outward normal.
    color
        A colour such as `"#0072B2"`; empty for one that goes with the picture.
    """

    frame: Sequence[int]
    corners: ArrayLike
    faces: ArrayLike
    color: str = ""

    def __post_init__(self) -> None:
        try:
            frame, faces = tuple(int(i) for i in self.frame), np.array(self.faces)
        except Exception as why:  # iteration and conversion run code of the values' own types
            raise ModelError(f"a solid has a frame of point numbers and faces of corner numbers: {why}") from why
        corners = reals("corners of a solid", self.corners, ModelError)
        if len(frame) not in (3, 4) or corners.ndim != 2 or corners.shape[1] != len(frame) - 1:
            raise ModelError(
                "the frame of a solid is an origin and the tips of 2 or 3 axes, and its corners have as many columns; "
                f"got {shown(self.frame)} and corners of the shape {corners.shape}"
            )
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu" or not faces.size:
            raise ModelError(f"faces of a solid are a table of whole numbers with three columns, not of the shape {faces.shape}")
        if faces.min() < 0 or faces.max() >= len(corners):
            raise ModelError(f"faces of a solid are numbers of its {len(corners)} corners, counted from 0")
        text("color", self.color, ModelError)
        for name, value in (("frame", frame), ("corners", corners), ("faces", faces.astype(np.int64))):
            object.__setattr__(self, name, value)

    @property
    def table(self) -> tuple[Array, Faces]:
        """Corners and faces as arrays."""
        return np.asarray(self.corners), np.asarray(self.faces)

    def placed(self, points: Array) -> Array:
        """The corners, where the points of the picture are these."""
        origin, *tips = points[list(self.frame)]
        return np.asarray(origin + self.table[0] @ (np.array(tips) - origin))

    @cached_property
    def outline(self) -> Array:
        """In the plane: the corners around the convex hull."""
        from scipy.spatial import ConvexHull

        corners = self.table[0]
        return np.asarray(corners[ConvexHull(corners).vertices])

    def outlined(self, points: Array) -> Array:
        """The outline, where the points of the picture are these."""
        origin, *tips = points[list(self.frame)]
        return np.asarray(origin + self.outline @ (np.array(tips) - origin))

    @cached_property
    def normals(self) -> Array:
        """The normal of each corner of each face: the mean of the faces around a corner, but not across sharp edges."""
        corners, faces = self.table
        across = np.cross(corners[faces[:, 1]] - corners[faces[:, 0]], corners[faces[:, 2]] - corners[faces[:, 0]])
        unit = across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-300)
        around: list[list[int]] = [[] for _ in corners]
        for k, face in enumerate(faces):
            for i in face:
                around[i].append(k)
        out = np.empty((len(faces), 3, 3))
        for k, face in enumerate(faces):
            for j, i in enumerate(face):
                near = around[i]
                smooth = [n for n in near if unit[n] @ unit[k] > CREASE]
                mean = across[smooth].sum(axis=0) if smooth else unit[k]
                out[k, j] = mean / max(float(np.linalg.norm(mean)), 1e-300)
        return out

    def data(self) -> Data:
        """To be written to a file."""
        corners, faces = self.table
        return {"frame": tuple(self.frame), "corners": corners.tolist(), "faces": faces.tolist(), "color": self.color}


def restored(data: object) -> Solid:
    """A solid from a file."""
    frame = plain.each(plain.get(data, "frame", list), "frame", int)
    rows, faces = plain.get(data, "corners", list), plain.get(data, "faces", list)
    if len(rows) > LARGEST or len(faces) > 2 * LARGEST:
        raise FileError(f"a solid has {len(rows)} corners and {len(faces)} faces: too many")
    corners = plain.array(rows, "corners", (len(rows), len(frame) - 1))
    rings = [plain.each(face, "faces", int) for face in faces]
    return Solid(frame, corners, rings, plain.get(data, "color", str))


def given(solids: object) -> tuple[Solid, ...]:
    """The solids of a picture, checked."""
    try:
        out: tuple[object, ...] = tuple(solids)  # type: ignore[arg-type]
    except TypeError as why:
        raise ModelError(f"solids of a picture are a list of Solid objects, not {shown(solids)}") from why
    for solid in out:
        if not isinstance(solid, Solid):
            raise ModelError(f"solids of a picture are Solid objects, {shown(solid)} is none")
    return tuple(solid for solid in out if isinstance(solid, Solid))


def solids_of(parts: Mapping[str, object]) -> tuple[Solid, ...]:
    """The solids of a picture in a file; files of earlier versions have none."""
    return tuple(restored(entry) for entry in plain.of(parts.get("solids", []), "solids", list))
