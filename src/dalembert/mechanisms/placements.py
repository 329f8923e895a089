"""Coordinates of one body: where its frame is, how heavy each coordinate is, and what holds among them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import ModelError
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.frames import Frame, turn
from dalembert.mechanisms.rotations import Array

THIN = 1e-10  # smallest eigenvalue of Euler's tensor, relative to the largest, below which a body counts as flat


class Placement(ABC):
    """How a body is described by coordinates `q` and velocities `q'`.

    `vectors` says whether the coordinates are vectors of space one after another, which a rotation of the world turns alike.
    """

    names: tuple[str, ...]
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
    def speeds(self) -> int:
        """The number of velocities."""
        return self.size

    def kinematics(self, q: SX) -> SX:
        """`Z(q)` in `q' = Z(q) v`."""
        return SX.eye(self.size)

    def unit(self, q: SX) -> list[SX]:
        """Constraints among the coordinates that `Z(q)` keeps by itself."""
        return []

    def singular(self, q: Array) -> str:
        """Why these coordinates cannot be used here; empty where they can."""
        return ""

    @property
    def inertial(self) -> bool:
        """Whether there is an inertia beside the mass."""
        return True


class Point(Placement):
    """A point mass in space."""

    names: tuple[str, ...] = ("x", "y", "z")

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


class Plate(Placement):
    """A flat body in space: no mass is off the plane across one of its axes, so that the other two describe it.

    `q = (r, d_i, d_j)`, and the third axis is their vector product. Euler's tensor has no part for it: with three directors the
    mass matrix would be singular. Its inertia is `(J_i, J_j)`; about the third axis it is the sum.
    """

    def __init__(self, across: int) -> None:
        self.across = across
        self.kept = [(across + 1) % 3, (across + 2) % 3]
        self.names = ("x", "y", "z", *(f"d{i + 1}{axis}" for i in self.kept for axis in "xyz"))

    def frame(self, q: SX) -> Frame:
        axes = SX(3, 3)
        first, second = q[3:6], q[6:9]
        axes[:, self.kept[0]], axes[:, self.kept[1]], axes[:, self.across] = first, second, ca.cross(first, second)
        return Frame(q[:3], axes)

    def inner(self, q: SX) -> list[SX]:
        first, second = q[3:6], q[6:9]
        return [(ca.dot(first, first) - 1) / 2, (ca.dot(second, second) - 1) / 2, ca.dot(first, second)]

    def mass(self, m: SX, J: SX) -> SX:
        return ca.diagcat(m * SX.eye(3), J[1] * SX.eye(3), J[0] * SX.eye(3))

    def start(self, body: Body) -> Array:
        return np.concatenate([body.position, body.rotation[:, self.kept].T.ravel()])

    def rates(self, body: Body) -> Array:
        return np.concatenate([body.velocity, np.cross(body.angular_velocity, body.rotation[:, self.kept].T).ravel()])


PLATES = (Plate(0), Plate(1), Plate(2))


def flat_across(J: Array) -> int | None:
    """The axis across which a body is flat: its moment is the sum of the others; None where it has a thickness."""
    E = np.trace(J) / 2 * np.eye(3) - J
    values, vectors = np.linalg.eigh(E)
    if values[0] > THIN * values[-1]:
        return None
    if np.abs(J - np.diag(np.diag(J))).max() > 1e-12 * np.abs(J).max():
        raise ModelError(
            f"a flat body, whose inertia about {np.round(vectors[:, 0], 6).tolist()} is the sum of the two others, needs "
            "directors along its principal axes: turn its frame, give it a thickness, or use rotation='quaternion'"
        )
    return int(np.abs(vectors[:, 0]).argmax())


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
