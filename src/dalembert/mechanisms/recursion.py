"""Trees of links that move against their parents: frames, mass matrix and first moments, as expressions.

All is computed in the frames of the links, so that constants of the drawing stay constants, zeros stay zeros, and the work grows
with the number of links (the mass matrix: with that of its entries). The mass matrix is that of composite rigid bodies
(Featherstone, Rigid Body Dynamics Algorithms, 2008, sec. 6.2): what is beyond a link moves with it as one body.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.mechanisms.frames import Frame, Marker, along, turn
from dalembert.mechanisms.rotations import Array

GROUND = -1  # the number of the parent of a link that has none


@dataclass(frozen=True, eq=False)
class Link(ABC):
    """A link: the number of its parent, its place there before its motion, and its motion.

    `sense` is -1 where the joint leads from the link to its parent.
    """

    parent: int
    place: Marker
    sense: float

    names: ClassVar[tuple[str, ...]] = ("",)  # of its coordinates
    speeds: ClassVar[int] = 1  # how many velocities it has

    @abstractmethod
    def moved(self, q: SX) -> tuple[SX, SX]:
        """Axes and origin of the link in the frame of its parent."""

    @abstractmethod
    def wrenches(self, weight: Weight) -> list[tuple[SX, SX]]:
        """Force, and moment about the origin, that give a body at rest a unit acceleration of each velocity."""

    @abstractmethod
    def felt(self, force: SX, moment: SX) -> list[SX]:
        """The part of a force and a moment about the origin that works on each velocity."""

    def kinematics(self, q: SX) -> SX:
        """`Z(q)` in `q' = Z(q) v`."""
        return SX.eye(1)


@dataclass(frozen=True, eq=False)
class Hinge(Link):
    """A link with one freedom: a turn about an axis, or a shift; a screw turns and shifts by `pitch` for each radian."""

    axis: int
    turns: bool
    pitch: float = 0.0

    def moved(self, q: SX) -> tuple[SX, SX]:
        axes, origin, value = constant(self.place.axes), constant(self.place.point), self.sense * q[0]
        if not self.turns:
            return axes, origin + axes @ along(self.axis, value)
        shifted = origin + axes @ along(self.axis, self.pitch * value) if self.pitch else origin
        return axes @ turn(self.axis, value), shifted

    def wrenches(self, weight: Weight) -> list[tuple[SX, SX]]:
        unit = along(self.axis, SX(self.sense))
        push, lever = weight.mass * unit, cross(weight.moment, unit)
        if not self.turns:
            return [(push, lever)]
        force, moment = -lever, weight.inertia @ unit
        return [(force + self.pitch * push, moment + self.pitch * lever) if self.pitch else (force, moment)]

    def felt(self, force: SX, moment: SX) -> list[SX]:
        if not self.turns:
            return [self.sense * force[self.axis]]
        out = moment[self.axis] + self.pitch * force[self.axis] if self.pitch else moment[self.axis]
        return [self.sense * out]


@dataclass(frozen=True, eq=False)
class Ball(Link):
    """A link that turns about a point: a quaternion (of any length) that leads from the parent's axes to its own.

    Its velocities are the angular velocity against its parent, in its own axes: `p' = p (0, omega) / 2`; where the joint leads
    the other way, the quaternion is the conjugate, `p' = -(0, omega) p / 2`.
    """

    names: ClassVar[tuple[str, ...]] = ("p0", "p1", "p2", "p3")
    speeds: ClassVar[int] = 3

    def moved(self, q: SX) -> tuple[SX, SX]:
        w, x = q[0], q[1:]
        cross_matrix = ca.skew(x)
        R = SX.eye(3) + 2 / ca.dot(q, q) * (self.sense * w * cross_matrix + cross_matrix @ cross_matrix)
        return constant(self.place.axes) @ R, constant(self.place.point)

    def wrenches(self, weight: Weight) -> list[tuple[SX, SX]]:
        units = [along(axis, SX(1.0)) for axis in range(3)]
        return [(cross(unit, weight.moment), weight.inertia @ unit) for unit in units]

    def felt(self, force: SX, moment: SX) -> list[SX]:
        return [moment[axis] for axis in range(3)]

    def kinematics(self, q: SX) -> SX:
        w, x = q[0], q[1:]
        return ca.vertcat(-self.sense * x.T, self.sense * w * SX.eye(3) + ca.skew(x)) / 2


@dataclass(frozen=True, eq=False)
class Weight:
    """Mass, first moment `m c`, and inertia about the origin of a frame."""

    mass: SX
    moment: SX
    inertia: SX

    @classmethod
    def none(cls) -> Weight:
        return cls(SX(1, 1), SX(3, 1), SX(3, 3))

    @classmethod
    def of(cls, mass: SX, inertia: SX, place: Marker) -> Weight:
        """A body with its centre of mass and axes at a place: `J = A I A^T + m (|c|^2 - c c^T)`."""
        A, c = constant(place.axes), constant(place.point)
        far = constant((place.point @ place.point) * np.eye(3) - np.outer(place.point, place.point))
        return cls(mass, mass * c, symmetric(A @ inertia @ A.T) + mass * far)

    def plus(self, other: Weight) -> Weight:
        return Weight(self.mass + other.mass, self.moment + other.moment, symmetric(self.inertia + other.inertia))

    def seen(self, axes: SX, origin: SX) -> Weight:
        """The same body in a frame in which its own has these axes and origin."""
        h = axes @ self.moment
        twice = h + self.mass * origin  # (h r^T + r h^T) + m r r^T by one vector
        both = twice @ origin.T + origin @ h.T
        trace = both[0, 0] + both[1, 1] + both[2, 2]
        return Weight(self.mass, twice, symmetric(axes @ self.inertia @ axes.T + trace * SX.eye(3) - both))


def constant(value: Array) -> SX:
    """Numbers as an expression without its zeros."""
    return ca.sparsify(SX(ca.DM(value)))


def cross(a: SX, b: SX) -> SX:
    """The cross product; zeros of sparse vectors stay zeros."""
    return ca.sparsify(ca.vertcat(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]))


def symmetric(matrix: SX) -> SX:
    """The upper triangle on both sides: what is symmetric is computed once."""
    return ca.sparsify(ca.triu2symm(ca.triu(matrix)))


def offsets(links: Sequence[Link]) -> tuple[list[int], list[int]]:
    """Where the coordinates and the velocities of each link begin, and their numbers at the end."""
    q, v = [0], [0]
    for link in links:
        q.append(q[-1] + len(link.names))
        v.append(v[-1] + link.speeds)
    return q, v


def motions(links: Sequence[Link], q: SX) -> list[tuple[SX, SX]]:
    """Axes and origin of each link in the frame of its parent."""
    at, _ = offsets(links)
    return [link.moved(q[at[k] : at[k + 1]]) for k, link in enumerate(links)]


def frames(links: Sequence[Link], moved: Sequence[tuple[SX, SX]]) -> list[Frame]:
    """The frames of the links in the world."""
    out: list[Frame] = []
    for link, (axes, origin) in zip(links, moved, strict=True):
        if link.parent == GROUND:
            out.append(Frame(ca.densify(origin), axes))
        else:
            parent = out[link.parent]
            out.append(Frame(parent.origin + parent.axes @ origin, ca.sparsify(parent.axes @ axes)))
    return out


def mass_matrix(links: Sequence[Link], weights: Sequence[Weight], moved: Sequence[tuple[SX, SX]]) -> SX:
    """`M(q)` with `T = v^T M v / 2`, by composite rigid bodies."""
    _, at = offsets(links)
    whole, out = list(weights), SX(at[-1], at[-1])
    for k in reversed(range(len(links))):
        for column, (force, moment) in enumerate(links[k].wrenches(whole[k]), at[k]):
            j = k
            while True:
                for row, x in enumerate(links[j].felt(force, moment), at[j]):
                    out[row, column] = out[column, row] = x
                if links[j].parent == GROUND:
                    break
                axes, origin = moved[j]
                force = axes @ force
                moment = axes @ moment + cross(origin, force)
                j = links[j].parent
        if links[k].parent != GROUND:
            whole[links[k].parent] = whole[links[k].parent].plus(whole[k].seen(*moved[k]))
    return ca.sparsify(out)


def first_moment(links: Sequence[Link], weights: Sequence[Weight], moved: Sequence[tuple[SX, SX]]) -> SX:
    """`sum m r` over all links, in the world."""
    moments, masses, out = [w.moment for w in weights], [w.mass for w in weights], SX(3, 1)
    for k in reversed(range(len(links))):
        axes, origin = moved[k]
        here = axes @ moments[k] + masses[k] * origin
        parent = links[k].parent
        if parent == GROUND:
            out += here
        else:
            moments[parent], masses[parent] = moments[parent] + here, masses[parent] + masses[k]
    return out
