"""Shapes of bodies: what they weigh, and what is drawn.

A shape has a volume, a centre, and a matrix of second moments; with a density these give mass, centre of mass and inertia. Its
surface is a list of triangles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import positive, reals
from dalembert.errors import ModelError, strict
from dalembert.mechanisms import rotations
from dalembert.mechanisms.meshes import read
from dalembert.mechanisms.rotations import Array

Faces = NDArray[np.int64]
ROUND = 24  # corners by which circles are drawn


@dataclass(frozen=True, kw_only=True)
class Shape(ABC):
    """A solid; `position` and `rotation` are its place in the frame of the body."""

    position: ArrayLike = (0.0, 0.0, 0.0)
    rotation: object = None
    color: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", rotations.vector("position", self.position))
        object.__setattr__(self, "rotation", rotations.matrix("rotation", self.rotation))

    @property
    def place(self) -> tuple[Array, Array]:
        """Position and rotation matrix in the frame of the body."""
        return np.asarray(self.position), np.asarray(self.rotation)

    @property
    @abstractmethod
    def volume(self) -> float: ...

    @abstractmethod
    def moments(self) -> Array:
        """The integral of `x x^T` over the volume, in the shape's own frame, about its own centre."""

    def middle(self) -> Array:
        """The centre of the volume, in the shape's own frame."""
        return np.zeros(3)

    @abstractmethod
    def surface(self) -> tuple[Array, Faces]:
        """Corners and triangles, in the shape's own frame."""

    def drawn(self) -> tuple[Array, Faces]:
        """Corners and triangles in the frame of the body."""
        corners, faces = self.surface()
        position, R = self.place
        return corners @ R.T + position, faces


def _sized(shape: Shape, *names: str) -> None:
    for name in names:
        object.__setattr__(shape, name, positive(name, getattr(shape, name), ModelError))


@strict
@dataclass(frozen=True)
class Box(Shape):
    """A box with the edges `x`, `y`, `z`, about its middle."""

    x: float
    y: float
    z: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _sized(self, "x", "y", "z")

    @property
    def volume(self) -> float:
        return self.x * self.y * self.z

    def moments(self) -> Array:
        return self.volume / 12 * np.diag([self.x**2, self.y**2, self.z**2])

    def surface(self) -> tuple[Array, Faces]:
        signs = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
        quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
        faces = [triangle for a, b, c, d in quads for triangle in ((a, b, c), (a, c, d))]
        return signs * np.array([self.x, self.y, self.z]) / 2, np.array(faces)


@strict
@dataclass(frozen=True)
class Cylinder(Shape):
    """A cylinder of a radius and a length along its own `z`, about its middle; `axis` turns it in the frame of the body."""

    radius: float
    length: float
    axis: object = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _sized(self, "radius", "length")
        if self.axis is not None:
            R = rotations.frame(rotations.direction("axis", self.axis))
            object.__setattr__(self, "rotation", np.asarray(self.rotation) @ R)
            object.__setattr__(self, "axis", None)  # it is in the rotation now

    @property
    def volume(self) -> float:
        return float(np.pi * self.radius**2 * self.length)

    def moments(self) -> Array:
        return self.volume * np.diag([self.radius**2 / 4, self.radius**2 / 4, self.length**2 / 12])

    def surface(self) -> tuple[Array, Faces]:
        angle = 2 * np.pi * np.arange(ROUND) / ROUND
        ring = np.column_stack([self.radius * np.cos(angle), self.radius * np.sin(angle)])
        ends = [np.column_stack([ring, np.full(ROUND, z)]) for z in (-self.length / 2, self.length / 2)]
        centres = np.array([[0, 0, -self.length / 2], [0, 0, self.length / 2]])
        here, there = np.arange(ROUND), np.roll(np.arange(ROUND), -1)
        bottom, top = np.full(ROUND, 2 * ROUND), np.full(ROUND, 2 * ROUND + 1)
        faces = [
            (here, there, there + ROUND),
            (here, there + ROUND, here + ROUND),
            (bottom, there, here),
            (top, here + ROUND, there + ROUND),
        ]
        return np.vstack([*ends, centres]), np.vstack([np.column_stack(f) for f in faces])


@strict
@dataclass(frozen=True)
class Sphere(Shape):
    """A ball of a radius."""

    radius: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _sized(self, "radius")

    @property
    def volume(self) -> float:
        return float(4 / 3 * np.pi * self.radius**3)

    def moments(self) -> Array:
        return self.volume * self.radius**2 / 5 * np.eye(3)

    def surface(self) -> tuple[Array, Faces]:
        rings, corners = ROUND // 2, [np.array([[0.0, 0.0, 1.0]])]
        angle = 2 * np.pi * np.arange(ROUND) / ROUND
        for k in range(1, rings):
            polar = np.pi * k / rings
            corners.append(
                np.column_stack([np.sin(polar) * np.cos(angle), np.sin(polar) * np.sin(angle), np.full(ROUND, np.cos(polar))])
            )
        corners.append(np.array([[0.0, 0.0, -1.0]]))
        here, there = np.arange(ROUND), np.roll(np.arange(ROUND), -1)
        first, last = np.zeros(ROUND, dtype=np.int64), np.full(ROUND, 1 + (rings - 1) * ROUND)
        faces = [np.column_stack([first, 1 + here, 1 + there])]
        for k in range(rings - 2):
            a, b = 1 + k * ROUND, 1 + (k + 1) * ROUND
            faces += [np.column_stack([a + here, b + here, b + there]), np.column_stack([a + here, b + there, a + there])]
        faces.append(np.column_stack([1 + (rings - 2) * ROUND + here, last, 1 + (rings - 2) * ROUND + there]))
        return self.radius * np.vstack(corners), np.vstack(faces)


@strict
@dataclass(frozen=True)
class Mesh(Shape):
    """A closed surface of triangles, from arrays or from a file (`da.shapes.Mesh.read("part.stl")`, STL or OBJ)."""

    corners: ArrayLike
    faces: ArrayLike = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        corners = reals("corners", self.corners, ModelError, "a table with three columns")
        faces = np.asarray(self.faces)
        if corners.ndim != 2 or corners.shape[1] != 3:
            raise ModelError(f"corners must be a table with three columns, got the shape {corners.shape}")
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu" or not faces.size:
            raise ModelError(f"faces must be a table of whole numbers with three columns, got the shape {faces.shape}")
        if faces.min() < 0 or faces.max() >= len(corners):
            raise ModelError(
                f"faces are numbers of corners, 0 to {len(corners) - 1}; they go from {faces.min()} to {faces.max()}"
            )
        object.__setattr__(self, "corners", corners)
        object.__setattr__(self, "faces", faces.astype(np.int64))

    @classmethod
    def read(cls, path: str | Path, scale: float = 1.0, **place: object) -> Mesh:
        """A mesh from a file, STL (text or binary) or OBJ."""
        corners, faces = read(Path(path))
        return cls(corners * positive("scale", scale, ModelError), faces, **place)  # type: ignore[arg-type]

    def _tetrahedra(self) -> tuple[Array, Array]:
        """Volumes of the tetrahedra from the origin to the triangles, signed, and their corners."""
        triangles = np.asarray(self.corners)[np.asarray(self.faces)]
        return np.linalg.det(triangles) / 6, triangles

    def closed(self) -> bool:
        """Whether each edge is shared by two triangles that run along it in opposite directions."""
        faces = np.asarray(self.faces)
        _, same = np.unique(np.asarray(self.corners), axis=0, return_inverse=True)
        ring = same.reshape(-1)[faces]
        edges = np.vstack([ring[:, [0, 1]], ring[:, [1, 2]], ring[:, [2, 0]]])
        forward, backward = {tuple(e) for e in edges.tolist()}, {(b, a) for a, b in edges.tolist()}
        return len(forward) == len(edges) and forward == backward

    @property
    def volume(self) -> float:
        if not self.closed():
            raise ModelError(
                "the mesh is not closed, so it has no volume: give the body its mass and inertia, or close the surface"
            )
        return abs(float(self._tetrahedra()[0].sum()))

    def middle(self) -> Array:
        volumes, corners = self._tetrahedra()
        return np.asarray(volumes @ corners.sum(axis=1) / 4 / volumes.sum())

    def moments(self) -> Array:
        volumes, corners = self._tetrahedra()
        total = corners.sum(axis=1)
        about_origin = np.einsum("k,kia,kib->ab", volumes, corners, corners) + np.einsum("k,ka,kb->ab", volumes, total, total)
        middle = self.middle()
        return np.asarray((about_origin / 20 - volumes.sum() * np.outer(middle, middle)) * np.sign(volumes.sum()))

    def surface(self) -> tuple[Array, Faces]:
        return np.asarray(self.corners), np.asarray(self.faces)


def listed(given: Shape | Sequence[Shape] | None) -> tuple[Shape, ...]:
    """The shapes of a body: one, several or none."""
    if given is None:
        return ()
    out = (given,) if isinstance(given, Shape) else tuple(given)
    for shape in out:
        if not isinstance(shape, Shape):
            raise ModelError(
                f"shape must be a Box, Cylinder, Sphere or Mesh of da.shapes, or a list of them, not {type(shape).__name__}"
            )
    return out


def solid(parts: Sequence[Shape]) -> tuple[float, Array, Array]:
    """Volume, centre, and inertia of density 1 about the centre, of several shapes: parallel axes."""
    volumes = np.array([shape.volume for shape in parts])
    centres = np.array([shape.place[0] + shape.place[1] @ shape.middle() for shape in parts])
    total = float(volumes.sum())
    centre = np.asarray(volumes @ centres / total)
    second = np.zeros((3, 3))
    for volume, at, shape in zip(volumes, centres, parts, strict=True):
        R, apart = shape.place[1], at - centre
        second += R @ shape.moments() @ R.T + volume * np.outer(apart, apart)
    return total, centre, np.trace(second) * np.eye(3) - second
