"""What acts in a mechanism, and what is measured: how each is added."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dalembert.checking import flag, number, one_of, positive, shown
from dalembert.errors import ModelError, suggesting
from dalembert.mechanisms import forces, joints, rotations
from dalembert.mechanisms.description import Description, Where
from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.rotations import Array


class Acting(Description):
    """Adds springs, friction, motors, forces, prescribed motions and sensors."""

    def _add(self, part: forces.Part) -> None:
        self.forces[part.name] = part

    @suggesting
    def spring(
        self, name: str, a: Where, b: Where, *, stiffness: float, length: float | None = None, damping: float = 0.0,
        start: ArrayLike | None = None, end: ArrayLike | None = None, on_a: ArrayLike | None = None,
        on_b: ArrayLike | None = None,
    ) -> forces.Spring:  # fmt: skip
        """A spring between a point of `a` and one of `b`; relaxed as drawn where no natural `length` is given."""
        first, other, what = self.get_body(a), self.get_body(b), f"spring {name!r}"
        here, there = self._point(f"{what}: start", first, start, on_a), self._point(f"{what}: end", other, end, on_b)
        far = float(np.linalg.norm(first.world(here) - other.world(there)))
        natural = far if length is None else number(f"{what}: length", length, ModelError)
        k, d = number(f"{what}: stiffness", stiffness, ModelError), number(f"{what}: damping", damping, ModelError)
        if k < 0 or d < 0 or natural < 0:
            raise ModelError(f"{what}: stiffness {k:g}, damping {d:g} and length {natural:g} must not be negative")
        axes = np.eye(3)
        out = forces.Spring(self._new(name), first.name, other.name, Marker(here, axes), Marker(there, axes), k, natural, d)
        self._add(out)
        return out

    @suggesting
    def damper(
        self, name: str, a: Where, b: Where, *, damping: float, start: ArrayLike | None = None, end: ArrayLike | None = None,
        on_a: ArrayLike | None = None, on_b: ArrayLike | None = None,
    ) -> forces.Spring:  # fmt: skip
        """A damper between a point of `a` and one of `b`: a force `damping l'` along the line."""
        return self.spring(name, a, b, stiffness=0.0, damping=damping, start=start, end=end, on_a=on_a, on_b=on_b)

    @suggesting
    def torsion_spring(
        self,
        name: str,
        joint: joints.Joint | str,
        *,
        stiffness: float,
        rest: float = 0.0,
        damping: float = 0.0,
        freedom: str | None = None,
        turns: bool = False,
    ) -> forces.TorsionSpring:
        """A spring on a freedom of a joint: an angle, or the displacement of a slide; `rest` is its value without force.

        Joint coordinates, and angles in the plane, count all turns. Directors, quaternions and angles in space do not: a run
        stops where the spring is wound further than half a turn. With `turns` it is counted there too, by an auxiliary
        coordinate without mass, which `gauss`, `radau-iia`, `murua` and `murua-ggl` take.
        """
        one = self.get_joint(joint)
        k, d = number("stiffness", stiffness, ModelError), number("damping", damping, ModelError)
        if k < 0 or d < 0:
            raise ModelError(f"torsion spring {name!r}: stiffness {k:g} and damping {d:g} must not be negative")
        which, zero = self._freedom(one, freedom), number("rest", rest, ModelError)
        out = forces.TorsionSpring(self._new(name), one.name, which, k, zero, d, flag("turns", turns, ModelError))
        self._add(out)
        return out

    @suggesting
    def bushing(
        self, name: str, a: Where, b: Where, *, at: ArrayLike, stiffness: ArrayLike, torsion: ArrayLike, damping: ArrayLike = 0.0,
        torsion_damping: ArrayLike = 0.0, axis: ArrayLike | str | None = None,
    ) -> forces.Bushing:  # fmt: skip
        """An elastic joint: stiffness along, and torsion about, each of the axes; one number is for all three.

        It is meant for small rotations: torsion acts on the sines of the angles, so that it weakens beyond a right angle.
        """
        first, other = self.get_body(a), self.get_body(b)
        R = rotations.frame(rotations.direction("axis", axis))
        values = [_three(f"bushing {name!r}: {key}", x) for key, x in (("stiffness", stiffness), ("torsion", torsion),
                  ("damping", damping), ("torsion_damping", torsion_damping))]  # fmt: skip
        marks = [Marker(self._point("at", body, at, None), np.asarray(body.rotation.T @ R)) for body in (first, other)]
        out = forces.Bushing(self._new(name), first.name, other.name, marks[0], marks[1], *values)
        self._add(out)
        return out

    @suggesting
    def friction(
        self, name: str, joint: joints.Joint | str, *, viscous: float = 0.0, coulomb: float = 0.0, radius: float = 1.0,
        speed: float = 1e-3, freedom: str | None = None, dry: float = 0.0,
    ) -> forces.Friction:  # fmt: skip
        """Friction in a joint: `viscous` times the rate, `dry`, and `coulomb` times the normal force that the joint carries."""
        one = self.get_joint(joint)
        c, mu, size = (number(k, x, ModelError) for k, x in (("viscous", viscous), ("coulomb", coulomb), ("dry", dry)))
        if min(c, mu, size) < 0 or not c + mu + size:
            raise ModelError(
                f"friction {name!r}: viscous {c:g}, coulomb {mu:g} and dry {size:g} must not be negative, and not all zero"
            )
        out = forces.Friction(
            self._new(name), one.name, self._freedom(one, freedom), c, mu, positive("radius", radius, ModelError),
            positive("speed", speed, ModelError), size,
        )  # fmt: skip
        self._add(out)
        return out

    @suggesting
    def rotor(self, name: str, joint: joints.Joint | str, *, inertia: float, freedom: str | None = None) -> forces.Rotor:
        """The inertia of a motor's rotor as the joint feels it, that of the rotor times the gear ratio squared."""
        one = self.get_joint(joint)
        out = forces.Rotor(self._new(name), one.name, self._freedom(one, freedom), positive("inertia", inertia, ModelError))
        self._add(out)
        return out

    @suggesting
    def motor(self, name: str, joint: joints.Joint | str, *, freedom: str | None = None) -> forces.Motor:
        """A motor: the input of this name is the torque about a joint's axis, or the force along it. Its power is counted."""
        one = self.get_joint(joint)
        out = forces.Motor(self._new(name), one.name, self._freedom(one, freedom))
        self._add(out)
        return out

    @suggesting
    def force(
        self, name: str, body: Where, *, direction: ArrayLike | str, at: ArrayLike | None = None, on: ArrayLike | None = None,
        follows: bool = False, torque: bool = False,
    ) -> forces.Force:  # fmt: skip
        """A force as an input of this name, at a point, along a direction of the world; of the body where it `follows` it."""
        one = self.get_body(body)
        point = self._point(f"force {name!r}: at", one, at, on)
        along = rotations.direction(f"force {name!r}: direction", direction)
        out = forces.Force(self._new(name), one.name, point, along, bool(follows), bool(torque))
        self._add(out)
        return out

    @suggesting
    def motion(
        self, name: str, joint: joints.Joint | str, function: Callable[..., object], *, freedom: str | None = None
    ) -> forces.Motion:
        """Prescribe a freedom of a joint as a function of `t` (and of the mechanism's parameters)."""
        one = self.get_joint(joint)
        if not callable(function):
            raise ModelError(f"motion {name!r}: give a function of t, not {shown(function)}")
        out = forces.Motion(self._new(name), one.name, self._freedom(one, freedom), function)
        self._add(out)
        return out

    @suggesting
    def sensor(
        self, name: str, body: Where, *, measures: str = "position", at: ArrayLike | None = None, on: ArrayLike | None = None,
        other: Where | None = None, other_at: ArrayLike | None = None, other_on: ArrayLike | None = None,
    ) -> forces.Sensor:  # fmt: skip
        """A named output: position, velocity or acceleration of a point, or its distance from a point of another body."""
        one, kinds = self.get_body(body), ("position", "velocity", "acceleration", "distance")
        one_of("measures", measures, kinds, ModelError)
        if (measures == "distance") != (other is not None):
            raise ModelError(f"sensor {name!r}: `other` goes with measures='distance', and only with it")
        point = self._point(f"sensor {name!r}: at", one, at, on)
        second = None if other is None else self.get_body(other)
        there = None if second is None else self._point(f"sensor {name!r}: other_at", second, other_at, other_on)
        made = forces.Sensor(self._new(name), measures, one.name, point, second.name if second else None, there)
        self.sensors[name] = made
        return made


def _three(what: str, given: ArrayLike) -> Array:
    value = np.broadcast_to(np.asarray(given, dtype=np.float64), (3,)) if np.size(given) in (1, 3) else None
    if value is None or not np.isfinite(value).all() or (value < 0).any():
        raise ModelError(f"{what} must be one or three numbers that are not negative, not {shown(given)}")
    return np.array(value)
