"""Rolling and skating: contacts that let two bodies move along each other only in some directions.

A rolling contact has one row, that the bodies touch, and slips that are zero: the relative velocity, along the plane, of the two
material points that touch. A slip is the rate of an `x`, a function of frames that move and of the same frames held: what touches
is found from the frames held, and carried along by those that move.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
from casadi import SX

from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.joints import Joint


def carried(frame: Frame, held: Frame, point: SX) -> SX:
    """A point of the world, where a body is held, as the body carries it along."""
    return frame.origin + frame.axes @ (held.axes.T @ (point - held.origin))


@dataclass(frozen=True, kw_only=True, eq=False)
class Contact(Joint):
    """A contact that slips in some directions only; it closes loops, and has no coordinates of its own."""

    @property
    def tree(self) -> bool:
        return False

    def measures(self, A: Frame, B: Frame) -> list[SX]:
        return []

    def touching(self, A: Frame, B: Frame) -> SX:
        """Where the bodies touch."""
        return B.origin

    def across(self, A: Frame, B: Frame) -> list[SX]:
        """The directions in which they do not slip."""
        return [A.x, A.y]

    def slips(self, A: Frame, B: Frame, heldA: Frame, heldB: Frame) -> list[SX]:
        """What has the rate zero."""
        point = self.touching(heldA, heldB)
        apart = carried(B, heldB, point) - carried(A, heldA, point)
        return [ca.dot(direction, apart) for direction in self.across(heldA, heldB)]


@dataclass(frozen=True, kw_only=True, eq=False)
class RollingBall(Contact):
    """A ball of a radius, about the origin of `B`, on the plane of `A` with the normal z."""

    radius: float

    def touching(self, A: Frame, B: Frame) -> SX:
        return B.origin - self.radius * A.z

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return [ca.dot(A.z, B.origin - A.origin) - self.radius]


@dataclass(frozen=True, kw_only=True, eq=False)
class RollingDisc(Contact):
    """A thin disc of a radius, about the origin of `B` with the axis z, on the plane of `A` with the normal z.

    The lowest point of its rim is `o - r u` with `u = (n - (n . z) z) / |n - (n . z) z|`, at the height
    `n . o - r sqrt(1 - (n . z)^2)`.
    """

    radius: float

    def touching(self, A: Frame, B: Frame) -> SX:
        up = A.z - ca.dot(A.z, B.z) * B.z
        return B.origin - self.radius * up / ca.sqrt(ca.dot(up, up))

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        height, tilt = ca.dot(A.z, B.origin - A.origin), ca.dot(A.z, B.z)
        return [height**2 - self.radius**2 * (1 - tilt**2)]


@dataclass(frozen=True, kw_only=True, eq=False)
class KnifeEdge(Contact):
    """A blade on `B` at its origin, along its z axis: no motion across it, along its x axis. It holds no height."""

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return []

    def across(self, A: Frame, B: Frame) -> list[SX]:
        return [B.x]
