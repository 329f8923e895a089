"""Joints: which motions of two frames against each other are free, and the constraints on all others.

A joint has a frame on each of its two bodies, `A` and `B`. Its `freedoms` are the motions that lead from `A` to `B`, in their
order; its `rows` are zero exactly where such a motion does. Both say the same: joint coordinates use the first, absolute ones the
second. Rows are at most quadratic in origins and axes, so that methods which keep quadratic constraints keep joints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.frames import Frame, Marker, along, turn

Function = Callable[..., object]
ROUNDING = 1e-14  # of angles, and of places in a mechanism of size one


@dataclass(frozen=True)
class Freedom:
    """A free motion of a joint: a rotation about an axis of the frame that it acts on, or a shift along it."""

    name: str
    axis: int
    turns: bool

    def apply(self, frame: Frame, value: SX) -> Frame:
        """The frame after the motion."""
        if self.turns:
            return frame.moved(turn(self.axis, value), SX(3, 1))
        return frame.moved(SX.eye(3), along(self.axis, value))


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint(ABC):
    """Two bodies, by name, and the places on them that are joined. `limits` are data: nothing enforces them."""

    freedoms: ClassVar[tuple[Freedom, ...]] = ()
    places: ClassVar[int] = 0  # how many axes the user may give: 0, 1 or 2

    name: str
    a: str
    b: str
    on_a: Marker
    on_b: Marker
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @abstractmethod
    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        """What is zero on the motion."""

    def measures(self, A: Frame, B: Frame) -> list[SX]:
        """The values of the freedoms, from the frames; angles in `(-pi, pi]`."""
        return [measured(self.freedoms, k, A, B) for k in range(len(self.freedoms))]

    def moved(self, A: Frame, values: SX) -> Frame:
        """The frame `B` that belongs to `A` and values of the freedoms."""
        for k, freedom in enumerate(self.freedoms):
            A = freedom.apply(A, values[k])
        return A

    @property
    def tree(self) -> bool:
        """Whether the motion from `A` to `B` can be written by its freedoms: the joint can carry a tree."""
        return True


def measured(freedoms: tuple[Freedom, ...], k: int, A: Frame, B: Frame) -> SX:
    """The value of one freedom, from the rotation `A^T B` and the shift in the axes of `A`."""
    R, d = A.axes.T @ B.axes, A.axes.T @ (B.origin - A.origin)
    one = freedoms[k]
    if not one.turns:
        return d[one.axis]
    turning = [f.axis for f in freedoms if f.turns]
    if len(turning) == 1:
        i, j = (one.axis + 1) % 3, (one.axis + 2) % 3
        return ca.atan2(R[j, i] - R[i, j], R[i, i] + R[j, j])
    i, j, m = turning[0], turning[1], 3 - turning[0] - turning[1]
    sign = 1 if (j - i) % 3 == 1 else -1
    if turning.index(one.axis) == 0:  # R = turn(i) turn(j) [turn(m)]
        return ca.atan2(-sign * R[j, m], R[m, m]) if len(turning) == 3 else ca.atan2(sign * R[m, j], R[j, j])
    if turning.index(one.axis) == 1:
        return (
            ca.atan2(sign * R[i, m], ca.sqrt(R[i, i] ** 2 + R[i, j] ** 2))
            if len(turning) == 3
            else ca.atan2(sign * R[i, m], R[i, i])
        )
    return ca.atan2(-sign * R[i, j], R[i, i])


def _together(A: Frame, B: Frame) -> list[SX]:
    """The origins are at one place."""
    return ca.vertsplit(A.origin - B.origin)  # type: ignore[no-any-return]


def _parallel(A: Frame, B: Frame) -> list[SX]:
    """The z axes are parallel."""
    return [ca.dot(A.z, B.x), ca.dot(A.z, B.y)]


def _aligned(A: Frame, B: Frame) -> list[SX]:
    """All axes are parallel."""
    return [ca.dot(A.x, B.y), ca.dot(A.y, B.z), ca.dot(A.z, B.x)]


def _on_line(A: Frame, B: Frame) -> list[SX]:
    """The origin of `B` is on the z axis of `A`."""
    apart = B.origin - A.origin
    return [ca.dot(A.x, apart), ca.dot(A.y, apart)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Fixed(Joint):
    """No motion."""

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return [*_together(A, B), *_aligned(A, B)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Revolute(Joint):
    """A rotation about the axis."""

    freedoms: ClassVar = (Freedom("angle", 2, True),)
    places: ClassVar = 1

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return [*_together(A, B), *_parallel(A, B)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Prismatic(Joint):
    """A shift along the axis."""

    freedoms: ClassVar = (Freedom("displacement", 2, False),)
    places: ClassVar = 1

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return [*_on_line(A, B), *_aligned(A, B)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Cylindrical(Joint):
    """A shift along the axis and a rotation about it."""

    freedoms: ClassVar = (Freedom("displacement", 2, False), Freedom("angle", 2, True))
    places: ClassVar = 1

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return [*_on_line(A, B), *_parallel(A, B)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Screw(Cylindrical):
    """A cylindrical joint whose shift is `lead` times the turns: `displacement = lead angle / (2 pi)`."""

    lead: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Spherical(Joint):
    """Any rotation about a point; its coordinates are Cardan angles about x, y, z."""

    freedoms: ClassVar = (Freedom("angle_x", 0, True), Freedom("angle_y", 1, True), Freedom("angle_z", 2, True))

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return _together(A, B)


@dataclass(frozen=True, kw_only=True, eq=False)
class Universal(Joint):
    """A rotation about an axis of `a`, the x axis of the frames, and one about an axis of `b` across it, their y axis."""

    freedoms: ClassVar = (Freedom("angle_x", 0, True), Freedom("angle_y", 1, True))
    places: ClassVar = 2

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return [*_together(A, B), ca.dot(A.x, B.y)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Planar(Joint):
    """Shifts in a plane of `a` and a rotation about its normal, the axis."""

    freedoms: ClassVar = (Freedom("x", 0, False), Freedom("y", 1, False), Freedom("angle", 2, True))
    places: ClassVar = 1

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return [ca.dot(A.z, B.origin - A.origin), *_parallel(A, B)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Free(Joint):
    """All motions: what a tree of joint coordinates uses for a body that is not joined to the ground."""

    freedoms: ClassVar = (
        Freedom("x", 0, False), Freedom("y", 1, False), Freedom("z", 2, False),
        Freedom("angle_x", 0, True), Freedom("angle_y", 1, True), Freedom("angle_z", 2, True),
    )  # fmt: skip

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return []


@dataclass(frozen=True, kw_only=True, eq=False)
class Distance(Joint):
    """Two points at a distance: a number, or a function of `t` (and parameters of the mechanism)."""

    length: float | Function

    @property
    def tree(self) -> bool:
        return False

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        apart = B.origin - A.origin
        length = self.length(t) if callable(self.length) else self.length
        return [ca.dot(apart, apart) - length**2]  # type: ignore[operator]

    def measures(self, A: Frame, B: Frame) -> list[SX]:
        return []


@dataclass(frozen=True, eq=False)
class Coupling:
    """Gears, racks and belts: the rate of one freedom of a joint is `ratio` times that of another one's.

    `first = (joint, freedom)` and `second` likewise, so that `x_first - x_first(0) = ratio (x_second - x_second(0))`.
    """

    name: str
    first: tuple[str, str]
    second: tuple[str, str]
    ratio: float


KINDS: dict[str, type[Joint]] = {
    kind.__name__.lower(): kind
    for kind in (Fixed, Revolute, Prismatic, Cylindrical, Screw, Spherical, Universal, Planar, Free, Distance)
}


def unrounded(value: float, *ends: Body) -> float:
    """The value of a freedom as drawn: zero where it is but for the rounding of the places of its bodies.

    A constraint of coordinates that are zero has no terms against which rounding would be small.
    """
    return 0.0 if abs(value) <= ROUNDING * (1 + max(float(np.abs(body.position).max()) for body in ends)) else value


def drawn(joint: Joint, A: tuple[np.ndarray, np.ndarray], B: tuple[np.ndarray, np.ndarray]) -> tuple[Frame, Frame]:
    """The two frames of a joint where the bodies are at these places: `(centre of mass, axes)`."""
    return Frame.fixed(*A).at(joint.on_a), Frame.fixed(*B).at(joint.on_b)
