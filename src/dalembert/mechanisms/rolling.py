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
class Rolling(Contact):
    """An ellipsoid about the origin of `B`, with semi-axes `D` along its axes, on the plane of `A` with the normal `n = z`.

    A ball has three equal semi-axes, the third one of a thin disc is zero. With the normal `m` in the axes of `B` the lowest
    point is `-D^2 m / sqrt(m . D^2 m)`, at the height `n . o - sqrt(m . D^2 m)`.
    """

    semi: tuple[float, float, float]

    def _normal(self, A: Frame, B: Frame) -> tuple[SX, SX]:
        """`D^2 m`, and its product with `m`."""
        m = B.axes.T @ A.z
        scaled = SX(ca.DM(self.semi)) ** 2 * m
        return scaled, ca.dot(m, scaled)

    def touching(self, A: Frame, B: Frame) -> SX:
        scaled, square = self._normal(A, B)
        return B.origin - B.axes @ scaled / ca.sqrt(square)

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return [ca.dot(A.z, B.origin - A.origin) ** 2 - self._normal(A, B)[1]]


@dataclass(frozen=True, kw_only=True, eq=False)
class KnifeEdge(Contact):
    """A blade on `B` at its origin, along its z axis: no motion across it, along its x axis. It holds no height."""

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        return []

    def across(self, A: Frame, B: Frame) -> list[SX]:
        return [B.x]
