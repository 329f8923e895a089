"""What a mechanism consists of, as functions of the frames of its bodies.

A term is a constraint, an energy, a damping or an input of a few bodies. Terms with the same law are one function with different
data, so that they can be repeated parts of a system. Coordinates of any kind give the frames.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import ModelError
from dalembert.mechanisms import forces, joints
from dalembert.mechanisms.description import Description
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.laws import Data, Frames, Law, Parameters, Term, marked, places
from dalembert.mechanisms.rolling import Contact, KnifeEdge, Rolling
from dalembert.mechanisms.rotations import Array
from dalembert.mechanisms.touching import PLACES, Touch
from dalembert.systems.tracing import symbols, to_sx

TEETH = 24  # of a gear ratio p / q: up to these, angles are coupled by a constraint on positions


class Terms:
    """All terms of a mechanism, with the parameters that they use."""

    def __init__(self, mechanism: Description, vary: Sequence[str] = ()) -> None:
        self.of, self.vary = mechanism, [mechanism.get_joint(name).name for name in vary]
        self.parameters = Parameters(mechanism.parameters)
        self.varied: dict[tuple[str, str], str] = {}  # of joints whose points are parameters: their names
        self.all: list[Term] = []
        for joint in mechanism.joints.values():
            self._joint(joint)
        for coupling in mechanism.couplings.values():
            self._coupling(coupling.name, coupling.first, coupling.second, coupling.ratio)
        for part in mechanism.forces.values():
            ADDING[type(part)](self, part)

    def add(
        self, name: str, role: str, bodies: tuple[str, ...], law: Law, data: Mapping[str, Array | str],
        counts: tuple[tuple[str, str], ...] = (),
    ) -> None:  # fmt: skip
        self.all.append(Term(name, role, bodies, law, data, counts=counts))

    def role(self, *roles: str) -> list[Term]:
        """The terms of a role."""
        return [term for term in self.all if term.role in roles]

    # ---- joints ------------------------------------------------------------------------------------------

    def _joint(self, joint: joints.Joint) -> None:
        data, ends, kind = places(joint), (joint.a, joint.b), type(joint)
        if joint.name in self.vary:
            for which in "ab":
                point = np.asarray(data[f"point_{which}"])[: self.of.dimension]
                data[f"point_{which}"] = self.varied[joint.name, which] = self.parameters.add(f"point_{which}", joint.name, point)
        if isinstance(joint, joints.Distance):
            self._distance(joint, data)
            return
        if isinstance(joint, joints.Fixed) and not all(self.of.get_body(end).rotates for end in ends):
            kind = joints.Spherical  # a point mass has no axes that could be held
        if kind is joints.Free:
            return
        if isinstance(joint, Touch):
            self._touch(joint, data)
            return
        rows = kind.rows

        def function(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return ca.vertcat(*rows(joint, marked(F[0], d, "a"), marked(F[1], d, "b"), t))

        key: Hashable = (kind, joint.semi) if isinstance(joint, Rolling) else kind
        if not isinstance(joint, KnifeEdge):
            self.add(joint.name, "holonomic", ends, Law(key, function), data)
        if isinstance(joint, Contact):
            self._contact(joint, data)
        if isinstance(joint, joints.Screw):
            self._coupling(f"{joint.name} thread", (joint.name, "displacement"), (joint.name, "angle"), joint.lead / (2 * np.pi))

    def _contact(self, joint: Contact, data: dict[str, Array | str]) -> None:
        def function(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            (A, B), (heldA, heldB) = ([marked(f[0], d, "a"), marked(f[1], d, "b")] for f in (F, held))
            return ca.vertcat(*joint.slips(A, B, heldA, heldB))

        self.add(f"{joint.name} slip", "nonholonomic", (joint.a, joint.b), Law(("slip", id(joint)), function), data)

    def _touch(self, joint: Touch, data: dict[str, Array | str]) -> None:
        data |= {name: name for name in dict.fromkeys((*joint.one.used, *joint.other.used))}
        ends, key = (joint.a, joint.b), (joint.name, PLACES)

        def meeting(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return joint.meets(marked(F[0], d, "a"), marked(F[1], d, "b"), F[0].known[key], d)

        def slipping(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            still = marked(held[0], d, "a"), marked(held[1], d, "b")
            return joint.slipping(marked(F[0], d, "a"), marked(F[1], d, "b"), still, held[0].known[key], d)

        self.add(joint.name, "contact", ends, Law(("contact", id(joint)), meeting), data)
        if joint.rolls:
            self.add(f"{joint.name} slip", "slip", ends, Law(("slip", id(joint)), slipping), data)

    def _distance(self, joint: joints.Distance, data: dict[str, Array | str]) -> None:
        length = joint.length
        if callable(length):
            driven, used = self.timed(joint.name, length)
            data |= used
            key: Hashable = id(joint)
        else:
            data["length"], key = self.parameters.add("length", joint.name, length), joints.Distance

            def driven(d: Data, t: SX) -> SX:
                return d["length"]

        def function(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            apart = marked(F[1], d, "b").origin - marked(F[0], d, "a").origin
            return ca.dot(apart, apart) - driven(d, t) ** 2

        self.add(joint.name, "holonomic", (joint.a, joint.b), Law(key, function), data)

    def timed(self, name: str, function: Callable[..., object]) -> tuple[Callable[[Data, SX], SX], dict[str, Array | str]]:
        """A function of `t` and of parameters of the mechanism, and these."""
        known, wanted = {"t", *self.of.parameters}, []
        for one, parameter in inspect.signature(function).parameters.items():
            if one in known:
                wanted.append(one)
            elif parameter.default is parameter.empty:
                raise ModelError(f"{name!r}: its function uses {one!r}; it may use t and the mechanism's parameters")

        def value(d: Data, t: SX) -> SX:
            out = to_sx(function(**{one: symbols(t if one == "t" else d[one], ()) for one in wanted}))
            if not out.is_scalar():
                raise ModelError(f"{name!r}: its function must return one number, got the shape {out.shape}")
            return out

        return value, {one: one for one in wanted if one != "t"}

    # ---- freedoms ----------------------------------------------------------------------------------------

    def measure(
        self, name: str, freedom: str, end: str = ""
    ) -> tuple[tuple[str, str], Hashable, Callable[[Frame, Frame, Data], SX], dict[str, Array | str]]:
        """The value of a freedom of a joint: its bodies, a key, the function of their frames, and its data.

        In the plane, angles come from the bodies' own, over all turns; in space they are in `(-pi, pi]`.
        """
        joint = self.of.joints[name]
        which = [f.name for f in joint.freedoms].index(freedom)
        one, ends = joint.freedoms[which], (self.of.get_body(joint.a), self.of.get_body(joint.b))
        data = places(joint, end)
        data |= {f"point_{which}{end}": self.varied[name, which] for which in "ab" if (name, which) in self.varied}
        A, B = (Frame.fixed(body.position, body.rotation).at(mark) for body, mark in zip(ends, (joint.on_a, joint.on_b)))  # noqa: B905
        drawn = [np.arctan2(body.rotation[1, 0], body.rotation[0, 0]) for body in ends]
        sense = float(np.sign(joint.on_a.axes[2, 2]))
        here = float(ca.evalf(joint.measures(A, B)[which])) if one.turns else 0.0
        data |= {f"sense{end}": np.array(sense), f"zero{end}": np.array(here - sense * (drawn[1] - drawn[0]))}
        freedoms = joint.freedoms

        def value(A: Frame, B: Frame, d: Data) -> SX:
            if (name, freedom) in B.known:
                return B.known[name, freedom]
            if one.turns and A.angle is not None and B.angle is not None:
                return d[f"zero{end}"] + d[f"sense{end}"] * (B.angle - A.angle)
            A = A.placed(d[f"point_a{end}"], d[f"axes_a{end}"])
            B = B.placed(d[f"point_b{end}"], d[f"axes_b{end}"])
            return joints.measured(freedoms, which, A, B)

        return (joint.a, joint.b), (type(joint), which), value, data

    def counted(self, which: tuple[str, str], A: Frame, B: Frame) -> bool:
        """Whether the value of a freedom is no angle, or one that is counted over all turns."""
        return which in B.known or not self.is_angle(*which) or (A.angle is not None and B.angle is not None)

    def count(self, name: str, freedom: str) -> Term:
        """Add `sin(x - measured) = 0`: `x`, which frames know, is the angle of a joint over all turns."""
        ends, _, measured, data = self.measure(name, freedom)

        def function(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return ca.sin(F[1].known[name, freedom] - measured(replace(F[0], known={}), replace(F[1], known={}), d))

        out = Term(f"turns of {name}.{freedom}", "contact", ends, Law(("turns", name, freedom), function), data)
        self.all.append(out)
        return out

    def numbers(self, data: Mapping[str, Array | str]) -> dict[str, SX]:
        """Data as numbers, those of parameters at their values."""
        return {k: SX(ca.DM(self.parameters.values[x] if isinstance(x, str) else x)) for k, x in data.items()}

    def is_angle(self, name: str, freedom: str) -> bool:
        """Whether a freedom is an angle."""
        joint = self.of.joints[name]
        return next(f.turns for f in joint.freedoms if f.name == freedom)

    def _coupling(self, name: str, first: tuple[str, str], second: tuple[str, str], ratio: float) -> None:
        """`x1 - x1(0) = ratio (x2 - x2(0))`, by a constraint that does not change where an angle is counted from 0 again.

        Of two angles, with a ratio that is no fraction of small numbers, the second one is needed over all turns.
        """
        ends1, key1, x1, data1 = self.measure(*first, end="1")
        ends2, key2, x2, data2 = self.measure(*second, end="2")
        bodies = tuple(dict.fromkeys((*ends1, *ends2)))
        at = tuple(bodies.index(end) for end in (*ends1, *ends2))
        turns1, turns2 = self.is_angle(*first), self.is_angle(*second)
        if not ratio:
            raise ModelError(f"{name!r}: its ratio must not be zero")
        whole = Fraction(ratio).limit_denominator(TEETH)
        p, q = abs(whole.numerator), whole.denominator
        rational = abs(float(whole) - ratio) <= 1e-12 * abs(ratio) and p <= TEETH
        counts = (second,) if turns1 and turns2 and not rational else ()
        if not turns1 and turns2:  # scaled so that the angle enters with the factor 1
            one, other = 1 / ratio, 1.0
        elif turns1 and turns2 and rational:
            one, other = float(q), float(whole.numerator)
        else:
            one, other = 1.0, ratio
        drawn = {body: Frame.fixed(self.of.get_body(body).position, self.of.get_body(body).rotation) for body in bodies}
        start = [
            joints.unrounded(float(ca.evalf(x(drawn[a], drawn[b], self.numbers(data)))), *(self.of.get_body(c) for c in (a, b)))
            for (a, b), x, data in ((ends1, x1, data1), (ends2, x2, data2))
        ]
        data: dict[str, Array | str] = {
            **data1, **data2, "one": np.array(one), "other": np.array(other),
            "offset": np.array(one * start[0] - other * start[1]),
        }  # fmt: skip

        def function(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            A1, B1, A2, B2 = (F[i] for i in at)
            gap = d["one"] * x1(A1, B1, d) - d["other"] * x2(A2, B2, d) - d["offset"]
            return gap if self.counted(first, A1, B1) and self.counted(second, A2, B2) else ca.sin(gap)

        self.add(name, "holonomic", bodies, Law(("coupling", key1, key2, at, bool(counts)), function), data, counts)

    # ---- what acts ---------------------------------------------------------------------------------------

    def _spring(self, part: forces.Spring) -> None:
        data, ends = places(part), (part.a, part.b)
        relaxed = part.length == 0

        def apart(F: Frames, d: Data) -> SX:
            return marked(F[1], d, "b").origin - marked(F[0], d, "a").origin

        def energy(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            x = apart(F, d)
            return d["stiffness"] * (ca.dot(x, x) if relaxed else (ca.sqrt(ca.dot(x, x)) - d["length"]) ** 2) / 2

        def damping(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            x = apart(F, d)
            return ca.horzcat(ca.sqrt(ca.dot(x, x)), d["damping"])

        if part.stiffness:
            more: dict[str, Array | str] = {"stiffness": self.parameters.add("stiffness", part.name, part.stiffness)}
            if not relaxed:
                more["length"] = self.parameters.add("length", part.name, part.length)
            self.add(part.name, "potential", ends, Law(("spring", relaxed), energy), data | more)
        if part.damping:
            more = {"damping": self.parameters.add("damping", part.name, part.damping)}
            self.add(part.name, "dissipation", ends, Law("damper", damping), data | more)

    def _torsion(self, part: forces.TorsionSpring) -> None:
        ends, key, x, data = self.measure(part.joint, part.freedom)

        def energy(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return d["stiffness"] * (x(F[0], F[1], d) - d["rest"]) ** 2 / 2

        if part.stiffness:
            more: dict[str, Array | str] = {
                "stiffness": self.parameters.add("stiffness", part.name, part.stiffness),
                "rest": self.parameters.add("rest", part.name, part.rest),
            }
            counts = ((part.joint, part.freedom),) if part.turns and self.is_angle(part.joint, part.freedom) else ()
            self.add(part.name, "potential", ends, Law(("torsion", key, bool(counts)), energy), data | more, counts)
        self._viscous(part.name, "damping", part.damping, part.joint, part.freedom)

    def _viscous(self, name: str, quantity: str, value: float, joint: str, freedom: str) -> None:
        if not value:
            return
        ends, key, x, data = self.measure(joint, freedom)

        def damping(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return ca.horzcat(x(F[0], F[1], d), d["damping"])

        named = {"damping": self.parameters.add(quantity, name, value)}
        self.add(name, "dissipation", ends, Law(("viscous", key), damping), data | named)

    def _bushing(self, part: forces.Bushing) -> None:
        data, ends = places(part), (part.a, part.b)

        def shifts(F: Frames, d: Data) -> tuple[SX, SX]:
            A, B = marked(F[0], d, "a"), marked(F[1], d, "b")
            R = A.axes.T @ B.axes
            turned = ca.vertcat(R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]) / 2
            return A.axes.T @ (B.origin - A.origin), turned

        def energy(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            x, turned = shifts(F, d)
            return (ca.dot(d["stiffness"], x**2) + ca.dot(d["torsion"], turned**2)) / 2

        def damping(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return ca.horzcat(ca.vertcat(*shifts(F, d)), ca.vertcat(d["damping"], d["torsion_damping"]))

        if part.stiffness.any() or part.torsion.any():
            more = {key: self.parameters.add(key, part.name, getattr(part, key)) for key in ("stiffness", "torsion")}
            self.add(part.name, "potential", ends, Law("bushing", energy), data | more)
        if part.damping.any() or part.torsion_damping.any():
            more = {key: self.parameters.add(key, part.name, getattr(part, key)) for key in ("damping", "torsion_damping")}
            self.add(part.name, "dissipation", ends, Law("bushing", damping), data | more)

    def _friction(self, part: forces.Friction) -> None:
        self._coulomb(part)
        if not part.dry:
            self._viscous(part.name, "viscous", part.viscous, part.joint, part.freedom)
            return
        ends, key, x, data = self.measure(part.joint, part.freedom)

        def damping(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return ca.horzcat(x(F[0], F[1], d), d["damping"], d["dry"], d["speed"])

        named = {"damping": self.parameters.add("viscous", part.name, part.viscous)}
        named |= {k: self.parameters.add(k, part.name, getattr(part, k)) for k in ("dry", "speed")}
        self.add(part.name, "dissipation", ends, Law(("friction", key), damping), data | named)

    def _coulomb(self, part: forces.Friction) -> None:
        if not part.coulomb:
            return
        ends, key, x, data = self.measure(part.joint, part.freedom)
        arm = part.radius if self.is_angle(part.joint, part.freedom) else 1.0

        def function(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return ca.vertcat(x(F[0], F[1], d), d["coulomb"] * arm, SX(part.speed))

        more = {"coulomb": self.parameters.add("coulomb", part.name, part.coulomb)}
        law = Law(("coulomb", key, part.name), function)
        self.all.append(Term(part.name, "friction", ends, law, data | more, None, part.joint))

    def _rotor(self, part: forces.Rotor) -> None:
        ends, key, x, data = self.measure(part.joint, part.freedom)

        def rows(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return ca.horzcat(x(F[0], F[1], d), d["inertia"])

        named = {"inertia": self.parameters.add("rotor", part.name, part.inertia)}
        self.add(part.name, "inertia", ends, Law(("rotor", key), rows), data | named)

    def _motor(self, part: forces.Motor) -> None:
        ends, key, x, data = self.measure(part.joint, part.freedom)

        def work(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return x(F[0], F[1], d)

        self.add(part.name, "input", ends, Law(("motor", key), work), data)

    def _force(self, part: forces.Force) -> None:
        def work(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            along = held[0].axes @ d["direction"] if part.follows else d["direction"]
            if not part.torque:
                return ca.dot(along, F[0].origin + F[0].axes @ d["point"])
            # the angular velocity is sum_i d_i x d_i' / 2
            return sum((ca.dot(ca.cross(along, held[0].axes[:, i]), F[0].axes[:, i]) for i in range(3)), SX(0)) / 2

        data: dict[str, Array | str] = {"point": part.point, "direction": part.direction}
        self.add(part.name, "input", (part.body,), Law(("force", part.follows, part.torque), work), data)

    def _motion(self, part: forces.Motion) -> None:
        ends, _, x, data = self.measure(part.joint, part.freedom)
        value, used = self.timed(part.name, part.function)

        def function(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            gap = x(F[0], F[1], d) - value(d, t)
            return gap if self.counted((part.joint, part.freedom), F[0], F[1]) else ca.sin(gap)

        self.add(part.name, "holonomic", ends, Law(("motion", id(part)), function), data | used)


ADDING: dict[type, Callable[[Terms, object], None]] = {
    forces.Spring: Terms._spring,  # type: ignore[dict-item]
    forces.TorsionSpring: Terms._torsion,  # type: ignore[dict-item]
    forces.Bushing: Terms._bushing,  # type: ignore[dict-item]
    forces.Friction: Terms._friction,  # type: ignore[dict-item]
    forces.Rotor: Terms._rotor,  # type: ignore[dict-item]
    forces.Motor: Terms._motor,  # type: ignore[dict-item]
    forces.Force: Terms._force,  # type: ignore[dict-item]
    forces.Motion: Terms._motion,  # type: ignore[dict-item]
}
