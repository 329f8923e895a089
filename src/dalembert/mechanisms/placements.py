"""Coordinates of one body: where its frame is, how heavy each coordinate is, and what holds among them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.frames import Frame, turn
from dalembert.mechanisms.rotations import Array


class Placement(ABC):
    """How a body is described by coordinates `q` and velocities `q'`.

    `vectors` says whether the coordinates are vectors of space one after another, which a rotation of the world turns alike.
    """

    names: ClassVar[tuple[str, ...]]
    vectors: ClassVar[bool] = True

    @abstractmethod
    def frame(self, q: SX) -> Frame:
        """Centre of mass and axes."""

    def inner(self, q: SX) -> list[SX]:
        """Constraints among the coordinates."""
        return []

    @abstractmethod
    def mass(self, m: SX, J: SX) -> SX:
        """The mass matrix, from the mass and the inertia."""

    @abstractmethod
    def start(self, body: Body) -> Array:
        """The coordinates as drawn."""

    @abstractmethod
    def rates(self, body: Body) -> Array:
        """Their rates, from the velocities that were given."""

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return len(self.names)

    @property
    def inertial(self) -> bool:
        """Whether there is an inertia beside the mass."""
        return True


class Point(Placement):
    """A point mass in space."""

    names: ClassVar[tuple[str, ...]] = ("x", "y", "z")

    def frame(self, q: SX) -> Frame:
        return Frame(q, SX.eye(3))

    def mass(self, m: SX, J: SX) -> SX:
        return m * SX.eye(self.size)

    def start(self, body: Body) -> Array:
        return body.position[: self.size]

    def rates(self, body: Body) -> Array:
        return body.velocity[: self.size]

    @property
    def inertial(self) -> bool:
        return False


class FlatPoint(Point):
    """A point mass in the plane."""

    names = ("x", "y")

    def frame(self, q: SX) -> Frame:
        return Frame(ca.vertcat(q, SX(1, 1)), SX.eye(3), SX(0.0))


class Angle(Placement):
    """A body in the plane: `x, y, theta`."""

    names = ("x", "y", "theta")
    vectors = False

    def frame(self, q: SX) -> Frame:
        return Frame(ca.vertcat(q[:2], SX(1, 1)), turn(2, q[2]), q[2])

    def mass(self, m: SX, J: SX) -> SX:
        return ca.diag(ca.vertcat(m, m, J))

    def start(self, body: Body) -> Array:
        return np.array([*body.position[:2], np.arctan2(body.rotation[1, 0], body.rotation[0, 0])])

    def rates(self, body: Body) -> Array:
        return np.array([*body.velocity[:2], body.angular_velocity[2]])


class Directors(Placement):
    """A body in space: its centre of mass and its three axes, `q = (r, d1, d2, d3)`.

    `T = m |r'|^2 / 2 + sum_ij E_ij d_i' . d_j' / 2` with Euler's tensor `E = tr(J) / 2 - J`, a constant mass matrix, and
    `d_i . d_j = delta_ij` (Betsch, Steinmann 2001).
    """

    names = ("x", "y", "z", *(f"d{i}{axis}" for i in (1, 2, 3) for axis in "xyz"))

    def frame(self, q: SX) -> Frame:
        return Frame(q[:3], ca.reshape(q[3:], 3, 3))

    def inner(self, q: SX) -> list[SX]:
        d = self.frame(q).axes
        squares = [(ca.dot(d[:, i], d[:, i]) - 1) / 2 for i in range(3)]
        return [*squares, *(ca.dot(d[:, i], d[:, j]) for i, j in ((0, 1), (1, 2), (2, 0)))]

    def mass(self, m: SX, J: SX) -> SX:
        E = (J[0] + J[1] + J[2]) / 2 * SX.eye(3) - ca.diag(J) if J.is_column() else ca.trace(J) / 2 * SX.eye(3) - J
        return ca.diagcat(m * SX.eye(3), ca.kron(E, SX.eye(3)))

    def start(self, body: Body) -> Array:
        return np.concatenate([body.position, body.rotation.T.ravel()])

    def rates(self, body: Body) -> Array:
        return np.concatenate([body.velocity, np.cross(body.angular_velocity, body.rotation.T).ravel()])


class FlatDirectors(Placement):
    """A body in the plane: its centre of mass and its first axis, `q = (r, d)`, with `|d| = 1`."""

    names = ("x", "y", "dx", "dy")

    def frame(self, q: SX) -> Frame:
        axes = SX.eye(3)
        axes[0, 0], axes[1, 0], axes[0, 1], axes[1, 1] = q[2], q[3], -q[3], q[2]
        return Frame(ca.vertcat(q[:2], SX(1, 1)), axes)

    def inner(self, q: SX) -> list[SX]:
        return [(ca.dot(q[2:], q[2:]) - 1) / 2]

    def mass(self, m: SX, J: SX) -> SX:
        return ca.diag(ca.vertcat(m, m, J, J))

    def start(self, body: Body) -> Array:
        return np.array([*body.position[:2], *body.rotation[:2, 0]])

    def rates(self, body: Body) -> Array:
        return np.array([*body.velocity[:2], *(body.angular_velocity[2] * body.rotation[:2, 1])])
