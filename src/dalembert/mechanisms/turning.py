"""Coordinates of a body in space whose velocities are `r'` and the angular velocity in its own axes: `q' = Z(q) v`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import casadi as ca
import numpy as np
from casadi import SX
from scipy.spatial.transform import Rotation

from dalembert.errors import ModelError
from dalembert.mechanisms import rotations
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.frames import Frame, turn
from dalembert.mechanisms.placements import Placement
from dalembert.mechanisms.rotations import Array

NEAR = 0.02  # sine of the angle to the singularity of angles, below which they are refused


class Turning(Placement):
    """`v = (r', omega)`; the mass matrix is constant, `diag(m, m, m, J)`."""

    vectors = False

    def mass(self, m: SX, J: SX) -> SX:
        return ca.diagcat(m * SX.eye(3), ca.diag(J) if J.is_column() else J)

    def rates(self, body: Body) -> Array:
        return np.concatenate([body.velocity, body.rotation.T @ body.angular_velocity])

    @property
    def speeds(self) -> int:
        return 6

    def kinematics(self, q: SX) -> SX:
        return ca.diagcat(SX.eye(3), self.turned(q[3:]))

    @abstractmethod
    def turned(self, q: SX) -> SX:
        """The part of `Z` for the rotation."""


class Quaternion(Turning):
    """A unit quaternion `(w, x, y, z)`, `p' = p (0, omega) / 2`. Its length stays 1 by itself: methods that keep quadratic
    invariants keep it to round-off.
    """

    names = ("x", "y", "z", "p0", "p1", "p2", "p3")

    def frame(self, q: SX) -> Frame:
        w, p = q[3], q[4:]
        R = (w**2 - ca.dot(p, p)) * SX.eye(3) + 2 * p @ p.T + 2 * w * ca.skew(p)
        return Frame(q[:3], R)

    def turned(self, q: SX) -> SX:
        w, p = q[0], q[1:]
        return ca.vertcat(-p.T, w * SX.eye(3) + ca.skew(p)) / 2

    def unit(self, q: SX) -> list[SX]:
        return [(ca.dot(q[3:], q[3:]) - 1) / 2]

    def start(self, body: Body) -> Array:
        return np.concatenate([body.position, rotations.quaternion(body.rotation)])


class Angles(Turning):
    """Three rotations about axes that turn with the body: `R = turn(i, a) turn(j, b) turn(k, c)`.

    Cardan angles are about x, y, z, Euler's about z, x, z. They are singular at `cos b = 0` or `sin b = 0`.
    """

    names = ("x", "y", "z", "a", "b", "c")

    def __init__(self, axes: Sequence[int]) -> None:
        self.axes = tuple(axes)

    def frame(self, q: SX) -> Frame:
        i, j, k = self.axes
        return Frame(q[:3], turn(i, q[3]) @ turn(j, q[4]) @ turn(k, q[5]))

    def turned(self, q: SX) -> SX:
        i, j, k = self.axes
        last, both, unit = turn(k, q[2]), turn(j, q[1]) @ turn(k, q[2]), SX.eye(3)
        omega = ca.densify(ca.horzcat(both.T @ unit[:, i], last.T @ unit[:, j], unit[:, k]))  # omega = this times the rates
        gap = ca.sin(q[1]) if i == k else ca.cos(q[1])
        return ca.inv(omega) / (ca.fabs(gap) > NEAR)  # next to the singularity no number: the step fails, and says why

    def start(self, body: Body) -> Array:
        if (gap := self.gap(body.rotation)) < NEAR:
            raise ModelError(f"body {body.name!r} is drawn {self._said(gap)}")
        letters = "".join("XYZ"[i] for i in self.axes)
        return np.concatenate([body.position, Rotation.from_matrix(body.rotation).as_euler(letters)])

    def gap(self, R: Array) -> float:
        """The sine of the angle to the singularity."""
        i, _, k = self.axes
        along = float(R[i, k])  # the cosine of the angle between the first axis in the world and the last one in the body
        return float(np.sqrt(max(0.0, 1 - along**2)))

    def singular(self, q: Array) -> str:
        i, _, k = self.axes
        gap = abs(np.sin(q[4])) if i == k else abs(np.cos(q[4]))
        return self._said(float(gap)) if gap < NEAR else ""

    def _said(self, gap: float) -> str:
        names = "".join("xyz"[i] for i in self.axes)
        degrees = np.degrees(np.arcsin(min(gap, 1.0)))
        return (
            f"{degrees:.2g} degrees from the singularity of its angles about {names}; use rotation='quaternion' or 'directors', "
            "or turn the frame of the body"
        )
