"""Runs of mechanisms: asked for bodies, joints, drives and sensors by name."""

from __future__ import annotations

from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dalembert.errors import MethodError, suggest, suggesting
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.loads import Loads
from dalembert.mechanisms.motions import BodyMotion, JointMotion, Reaction
from dalembert.mechanisms.rotations import Array
from dalembert.solution.mechanical import MechanicalSolution
from dalembert.solution.names import Columns, several, single, unit
from dalembert.solution.tabular import Variables
from dalembert.systems.base import System

PULL = 1e-6  # of the largest force of a contact: what is less is none


class MechanismSolution(MechanicalSolution):
    """A run of a mechanism."""

    of_systems: ClassVar[tuple[type[System], ...]] = (Assembled,)
    system: Assembled

    @cached_property
    def frames(self) -> Array:
        """Centre of mass and axes of all bodies along the run: 12 columns each."""
        return self._numeric("frames")

    @cached_property
    def frame_rates(self) -> Array:
        """Their rates."""
        return self._numeric("frame_rates", v=self.v)

    @cached_property
    def measures(self) -> Array:
        """The freedoms of all joints, angles in `(-pi, pi]` where the coordinates do not count turns."""
        return self._numeric("measures")

    @cached_property
    def measure_rates(self) -> Array:
        """Their rates."""
        return self._numeric("measure_rates", v=self.v)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where the freedoms of a joint begin among all."""
        out, start = {}, 0
        for name, joint in self.system.joints.items():
            out[name] = start
            start += len(joint.freedoms)
        return out

    @suggesting
    def body(self, name: str) -> BodyMotion:
        """A body along the run."""
        known = list(self.system.masses)
        if name not in known:
            raise MethodError(f"{self.system.name!r} has no body {name!r}{suggest(str(name), known)}")
        k, par, flat = known.index(name), self.parameters, self.system.space == 2
        gravity = np.zeros(3)
        if "gravity" in par:
            gravity[: self.system.space] = par["gravity"]
        columns = slice(12 * k, 12 * k + 12)
        inertia = par[self.system.inertias[name]] if name in self.system.inertias else np.zeros(3)
        E = _euler(inertia, self.system.plates.get(name))
        return BodyMotion(
            name, self.t, self.frames[:, columns], self.frame_rates[:, columns], float(par[self.system.masses[name]]), E,
            gravity, flat,
        )  # fmt: skip

    @suggesting
    def joint(self, name: str) -> JointMotion:
        """A joint along the run: `.angle` or `.displacement`, `.rate`, `.reaction`."""
        return JointMotion(self, self.system.joint_of(name))

    @suggesting
    def drive(self, name: str) -> Array:
        """The torque or force of a prescribed motion, at the times `t_lam`; its power is this times the rate of the joint."""
        drives = self.system.drives
        if name not in drives:
            raise MethodError(f"{self.system.name!r} has no prescribed motion {name!r}{suggest(str(name), drives)}")
        return -self.lam[:, drives[name]]

    def sensor(self, name: str) -> Array:
        """A named output along the run."""
        sensors = self.system.sensors
        if name not in sensors:
            raise MethodError(f"{self.system.name!r} has no sensor {name!r}{suggest(str(name), sensors)}")
        start = 0
        for other, measures in sensors.items():
            size = 1 if measures == "distance" else self.system.space
            if other == name:
                break
            start += size
        values = self._sensed(sensors[name])[:, start : start + size]
        return values[:, 0] if sensors[name] == "distance" else values

    def _sensed(self, measures: str) -> Array:
        if measures in ("position", "distance"):
            return self._numeric("sensed")
        if measures == "velocity":
            return self._numeric("sensed_rates", v=self.v)
        slope = self._numeric("sensed_slopes", v=self.v).reshape(len(self.t), -1, self.system.nv)
        return np.asarray(np.einsum("tij,tj->ti", slope, self.a) + self._numeric("sensed_curvature", v=self.v))

    def momentum(self, name: str | ArrayLike, dimension: int | None = None) -> Array:
        """Total `"linear"` or `"angular"` momentum (about the origin) of all bodies; or a momentum map, as in any system."""
        if not isinstance(name, str) or name not in ("linear", "angular") or dimension is not None:
            return super().momentum(name, dimension)
        each = [self.body(one) for one in self.system.masses]
        return np.asarray(sum(b.momentum if name == "linear" else b.angular_momentum for b in each))

    # ---- reactions --------------------------------------------------------------------------------------

    def reaction(self, joint: str, t: Array, lam: Array) -> Reaction:
        """Force and torque of a joint by multipliers at some times."""
        k, loads = list(self.system.joints).index(joint), Loads(self, t, lam)
        carried = loads.of(loads.every)[:, 6 * k : 6 * k + 6]

        def axes(body: str) -> Array:
            if body == "ground":
                return np.broadcast_to(np.eye(3), (len(t), 3, 3))
            known = list(self.system.masses)
            if body not in known:
                raise MethodError(f"{self.system.name!r} has no body {body!r}{suggest(str(body), ['ground', *known])}")
            return loads.axes(known.index(body))

        return Reaction(t, carried[:, :3], carried[:, 3:], axes)

    @cached_property
    def pressing(self) -> dict[str, Array]:
        """With which force the bodies of each contact press on each other, at `t_lam`; negative where they would part.

        Of two outlines that are no balls, the way in which they push at first counts as pressing.
        """
        names, n = list(self.system.pressed), len(self.lam)
        if not names or not n:
            return {name: np.zeros(n) for name in names}
        places = [self.system.all_rows.index(row) for row in self.system.rows]
        P = self.system.numeric("pressing", self._par, q=self.q[-n:], t=self.t_lam).reshape(n, len(names), -1)[:, :, places]
        force = -np.einsum("tij,tj->ti", P, self.lam[:, : self.system.mh])  # along the normal, which is that of the row's time
        first = np.sign(force[np.argmax(force != 0, axis=0), range(len(names))])
        known = np.array(list(self.system.pressed.values()))
        return dict(zip(names, (force * np.where(known | (first == 0), 1.0, first)).T, strict=True))

    def remark(self) -> str:
        """Contacts that pull: the bodies would part there."""
        said = []
        for name, force in self.pressing.items():
            pulls = force < -PULL * np.abs(force).max(initial=0.0)
            if pulls.any():
                said.append(f"{name!r} from t = {self.t_lam[np.argmax(pulls)]:.6g} on, by up to {-force.min():.3g}")
        if not said:
            return ""
        return (
            f"contacts of {self.system.name!r} pull: {', '.join(said)}. The bodies would part there and are kept together; what "
            "follows is no free motion (sol.joint(name).pressing is the force)"
        )

    # ---- summary and tables -----------------------------------------------------------------------------

    def _summary(self) -> list[tuple[str, str]]:
        return [("degrees of freedom", str(self.system.freedoms)), *super()._summary()]

    def _columns(self) -> Columns:
        """Beside those of any mechanical system: freedoms of joints, `elbow.angle`, their rates, and sensors, `tip.x`."""
        out, t = dict(super()._columns()), self.t
        length, time = (unit(self.system, kind) for kind in ("length", "time"))
        for joint in self.system.joints.values():
            for name, turns in zip(joint.freedoms, joint.turns, strict=True):
                of = "rad" if turns else length
                out |= single(f"{joint.name}.{name}", partial(self._value, joint.name, name), t, of)
                rate = f"{of}/{time}" if of and time else ""
                out |= single(f"{joint.name}.{name}_rate", partial(self._rate, joint.name, name), t, rate)
        for sensor, measures in self.system.sensors.items():
            below = {"velocity": f"/{time}", "acceleration": f"/{time}^2"}.get(measures, "")
            of = f"{length}{below}" if length and time else ""
            if measures == "distance":
                out |= single(sensor, partial(self.sensor, sensor), t, of)
            else:
                names = [f"{sensor}.{axis}" for axis in "xyz"[: self.system.space]]
                out |= several(names, partial(self.sensor, sensor), t, [of] * len(names))
        return out

    def _value(self, joint: str, freedom: str) -> Array:
        return self.joint(joint).values[freedom]

    def _rate(self, joint: str, freedom: str) -> Array:
        return self.joint(joint).rates[freedom]

    def __getitem__(self, name: str) -> Array:
        """A variable by its name; of a sensor all entries: `sol["tip"]`, or `sol["tip.x"]`."""
        return self.sensor(name) if name in self.system.sensors else super().__getitem__(name)

    def _variables(self, data: Variables, coords: Variables) -> None:
        super()._variables(data, coords)
        names = [f"{j.name}.{f}" for j in self.system.joints.values() for f in j.freedoms]
        if names:
            columns = [x for j in self.system.joints for x in self.joint(j).values.values()]
            data["joint"] = (("time", "freedom"), np.stack(columns, axis=1))
            data["joint_rate"] = (("time", "freedom"), self.measure_rates)
            coords["freedom"] = names
        for name, measures in self.system.sensors.items():
            data[name] = ("time" if measures == "distance" else ("time", "axis"), self.sensor(name))
            coords["axis"] = list("xyz"[: self.system.space])


def _euler(inertia: Array, across: int | None) -> Array:
    """`tr(J) / 2 - J`; in the plane the first axis carries the one moment, and a flat body has none across."""
    if across is not None:
        out = np.zeros((3, 3))
        for k, i in ((1, across + 1), (0, across + 2)):
            out[i % 3, i % 3] = inertia[k]
        return out
    if not inertia.ndim:
        return np.diag([float(inertia), 0.0, 0.0])
    J = np.diag(inertia) if inertia.ndim == 1 else inertia
    return np.asarray(np.trace(J) / 2 * np.eye(3) - J)
