"""Frames in space, as expressions: an origin and three axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.mechanisms.rotations import Array


@dataclass(frozen=True, eq=False)
class Marker:
    """A place on a body, in numbers: a point counted from the centre of mass, and axes as columns, both in the body's axes."""

    point: Array
    axes: Array

    def then(self, inner: Marker) -> Marker:
        """The place, on the same body, of what is given in the frame of this marker."""
        return Marker(self.point + self.axes @ inner.point, self.axes @ inner.axes)

    def inverse(self) -> Marker:
        """The place of the body in the frame of this marker."""
        return Marker(-self.axes.T @ self.point, np.asarray(self.axes.T))


@dataclass(frozen=True)
class Frame:
    """An origin and the axes, as columns, in the world.

    In the plane, `angle` is that by which the body has turned, counted over all turns, where its coordinates know it. `known`
    are values of freedoms of joints that are coordinates themselves.
    """

    origin: SX
    axes: SX
    angle: SX | None = None
    known: Mapping[tuple[str, str], SX] = field(default_factory=dict)

    @classmethod
    def fixed(cls, origin: Array, axes: Array) -> Frame:
        """A frame that does not move."""
        return cls(SX(ca.DM(origin)), SX(ca.DM(axes)))

    def at(self, marker: Marker) -> Frame:
        """The frame of a marker on a body that has this frame."""
        return self.placed(SX(ca.DM(marker.point)), SX(ca.DM(marker.axes)))

    def placed(self, point: SX, axes: SX) -> Frame:
        """The frame at a point of a body that has this frame, with axes given in those of the body."""
        inside = point if point.numel() == 3 else ca.vertcat(point, SX(1, 1))  # a parameter in the plane has two entries
        return Frame(self.origin + self.axes @ inside, self.axes @ axes, self.angle)

    def point(self, inside: Array) -> SX:
        """A point of a body in the world."""
        return self.origin + self.axes @ SX(ca.DM(inside))

    @property
    def x(self) -> SX:
        return self.axes[:, 0]

    @property
    def y(self) -> SX:
        return self.axes[:, 1]

    @property
    def z(self) -> SX:
        return self.axes[:, 2]

    def moved(self, rotation: SX, shift: SX) -> Frame:
        """The frame that this one becomes by a motion in its own axes: first the shift, then the rotation."""
        return Frame(self.origin + self.axes @ shift, self.axes @ rotation)


def listed(frame: Frame) -> SX:
    """Origin, axes and angle (zero where it is not known), 13 entries one after another."""
    angle = SX(0.0) if frame.angle is None else frame.angle
    return ca.densify(ca.vertcat(frame.origin, ca.vec(ca.densify(frame.axes)), angle))


def unlisted(x: SX, like: Frame, known: Mapping[tuple[str, str], SX] | None = None) -> Frame:
    """The frame of such entries; it has an angle where another one has."""
    return Frame(x[:3], ca.reshape(x[3:12], 3, 3), x[12] if like.angle is not None else None, known or {})


def turn(axis: int, angle: SX) -> SX:
    """The rotation by an angle about an axis 0, 1, 2."""
    c, s, out = ca.cos(angle), ca.sin(angle), SX.eye(3)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out[i, i], out[i, j], out[j, i], out[j, j] = c, -s, s, c
    return out


def along(axis: int, distance: SX) -> SX:
    """The shift by a distance along an axis 0, 1, 2."""
    out = SX(3, 1)
    out[axis] = distance
    return out


def spin(axes: SX, rates: SX) -> SX:
    """The angular velocity in the world of axes that change at these rates: `R' R^T` is skew, with this vector."""
    skew = rates @ axes.T
    return ca.vertcat(skew[2, 1] - skew[1, 2], skew[0, 2] - skew[2, 0], skew[1, 0] - skew[0, 1]) / 2


def numbers(frame: Frame) -> tuple[Array, Array]:
    """Origin and axes of a frame without symbols."""
    f = ca.Function("f", [], [ca.densify(frame.origin), ca.densify(frame.axes)])
    origin, axes = f.call([])
    return np.asarray(origin.full()).ravel(), np.asarray(axes.full())
