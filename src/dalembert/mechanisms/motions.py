"""Bodies and joints along a run: where they are, how they move, what they carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dalembert.errors import UnknownQuantity, suggest
from dalembert.mechanisms.assembled import Jointed
from dalembert.mechanisms.rotations import Array

if TYPE_CHECKING:
    from dalembert.mechanisms.results import MechanismSolution


@dataclass(frozen=True)
class BodyMotion:
    """A body along a run, with time first; in the plane, vectors have two entries and rotations are numbers.

    `frames` and `rates` are centre of mass and axes, and their rates: 12 columns.
    """

    name: str
    t: Array
    frames: Array
    rates: Array
    mass: float
    euler: Array  # Euler's tensor tr(J) / 2 - J, by which the axes have their kinetic energy
    gravity: Array
    flat: bool

    def _plane(self, vectors: Array) -> Array:
        return vectors[:, :2] if self.flat else vectors

    def _axis(self, vectors: Array) -> Array:
        return vectors[:, 2] if self.flat else vectors

    @property
    def position(self) -> Array:
        """The centre of mass."""
        return self._plane(self.frames[:, :3])

    @property
    def velocity(self) -> Array:
        """The velocity of the centre of mass."""
        return self._plane(self.rates[:, :3])

    @property
    def rotation(self) -> Array:
        """Rotation matrices, with the axes of the body as columns."""
        return self._axes(self.frames)

    @property
    def angular_velocity(self) -> Array:
        """In the world, `sum_i d_i x d_i' / 2`; about z in the plane."""
        return self._axis(np.cross(self._axes(self.frames), self._axes(self.rates), axis=1).sum(axis=2) / 2)

    @property
    def kinetic(self) -> Array:
        """`m |r'|^2 / 2 + sum_ij E_ij d_i' . d_j' / 2`."""
        d = self._axes(self.rates)
        turning = np.einsum("tki,ij,tkj->t", d, self.euler, d)
        return np.asarray(self.mass * (self.rates[:, :3] ** 2).sum(axis=1) + turning) / 2

    @property
    def potential(self) -> Array:
        """The energy in the field of gravity, `-m g . r`."""
        return np.asarray(-self.mass * (self.frames[:, :3] @ self.gravity))

    @property
    def energy(self) -> Array:
        """Kinetic energy and that of gravity."""
        return self.kinetic + self.potential

    @property
    def momentum(self) -> Array:
        """`m r'`."""
        return self.mass * self.velocity

    @property
    def angular_momentum(self) -> Array:
        """About the origin of the world, `m r x r' + sum_ij E_ij d_i x d_j'`; about z in the plane."""
        own = np.cross(self._axes(self.frames) @ self.euler, self._axes(self.rates), axis=1).sum(axis=2)
        return self._axis(self.mass * np.cross(self.frames[:, :3], self.rates[:, :3]) + own)

    def point(self, inside: Array) -> Array:
        """A point of the body, given from the centre of mass in its axes, in the world."""
        return self._plane(self.frames[:, :3] + self.rotation @ np.asarray(inside))

    @staticmethod
    def _axes(rows: Array) -> Array:
        return rows[:, 3:].reshape(-1, 3, 3).transpose(0, 2, 1)


@dataclass(frozen=True)
class Reaction:
    """Force and torque of a joint on its body `b`, at the joint, at the times `t`; the body `a` has the opposite ones.

    In the world, or in the axes of a body: `within("rod")`. Of rolling bodies the point of the joint is their centre, of outlines
    in contact the origin of the frame of `b`.
    """

    t: Array
    force: Array
    torque: Array
    _axes: Callable[[str], Array]

    def within(self, body: str) -> Reaction:
        """The same in the axes of a body."""
        R = self._axes(body)
        force, torque = (np.einsum("tji,tj->ti", R, x) for x in (self.force, self.torque))
        return Reaction(self.t, force, torque, self._axes)


class JointMotion:
    """A joint along a run: the values of its freedoms by name (`angle`, `displacement`, ...), rates, reactions."""

    def __init__(self, solution: MechanismSolution, joint: Jointed) -> None:
        self._of, self.joint = solution, joint

    def __repr__(self) -> str:
        return f"<{self.joint.kind} joint {self.joint.name!r}: {', '.join(self.joint.freedoms) or 'no freedom'}>"

    @cached_property
    def values(self) -> dict[str, Array]:
        """The freedoms by name; angles are counted over all turns."""
        out = {}
        for k, (name, turns) in enumerate(zip(self.joint.freedoms, self.joint.turns, strict=True)):
            x = self._of.measures[:, self._of.places[self.joint.name] + k]
            out[name] = unwrapped(self._of.t, x, self.rates[name]) if turns else x
        return out

    @cached_property
    def rates(self) -> dict[str, Array]:
        """The rates of the freedoms by name."""
        start = self._of.places[self.joint.name]
        return {name: self._of.measure_rates[:, start + k] for k, name in enumerate(self.joint.freedoms)}

    def __getattr__(self, name: str) -> Array:
        if name.startswith("_") or "joint" not in vars(self):  # asked for by copy and pickle
            raise AttributeError(name)
        if name not in self.joint.freedoms:
            raise UnknownQuantity(f"{self!r} has no {name!r}{suggest(name, [*self.joint.freedoms, 'rate', 'reaction'])}")
        return self.values[name]

    @property
    def rate(self) -> Array:
        """The rate of the freedom; of several, one column each."""
        rows = list(self.rates.values())
        if not rows:
            raise UnknownQuantity(f"{self!r} has no rate")
        return rows[0] if len(rows) == 1 else np.stack(rows, axis=1)

    @property
    def pressing(self) -> Array:
        """Of a contact: the force with which its bodies press on each other, at the times `t_lam`; negative where it pulls."""
        known = self._of.pressing
        if self.joint.name not in known:
            raise UnknownQuantity(f"{self!r} is no contact whose bodies could part")
        return known[self.joint.name]

    @property
    def reaction(self) -> Reaction:
        """Force and torque on the body `b`, by the multipliers of the run, at the times `t_lam`; without any, at those stored."""
        s = self._of
        return s.reaction(self.joint.name, s.t_lam, s.lam) if s.system.m else self.reaction_at(s.t)

    def reaction_at(self, t: Array) -> Reaction:
        """The same at any times, by the accelerations there and the multipliers that they ask for."""
        times, s = np.atleast_1d(np.asarray(t, dtype=float)), self._of
        return s.reaction(self.joint.name, times, s.at(times).lam if s.system.m else np.zeros((len(times), 0)))


def unwrapped(t: Array, angle: Array, rate: Array) -> Array:
    """An angle over all turns: each value is the one next to what the rates lead to."""
    turn = 2 * np.pi
    ahead = np.diff(t) * (rate[1:] + rate[:-1]) / 2
    turns = np.round((angle[:-1] + ahead - angle[1:]) / turn)
    return angle + turn * np.concatenate([[0.0], np.cumsum(turns)])
