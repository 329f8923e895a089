"""The system that a mechanism becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

import casadi as ca
from casadi import SX

from dalembert.errors import FileError, MethodError, ModelError, suggest
from dalembert.mechanisms import carrying, wrenches
from dalembert.mechanisms.coordinates import COUNTED, Coordinates, Made, Row
from dalembert.mechanisms.drawing import picture
from dalembert.mechanisms.forces import Motion, TorsionSpring
from dalembert.mechanisms.repeating import Signed
from dalembert.mechanisms.rotations import Array
from dalembert.systems import plain
from dalembert.systems.composed import lifted
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.operations import build, dump
from dalembert.systems.quasi_velocities import left_inverse
from dalembert.systems.tracing import Model

RATES = {  # at constant velocities
    "frame_rates": "frames", "measure_rates": "measures", "sensed_rates": "sensed", "sensed_curvature": "sensed_rates",
}  # fmt: skip
# what only results ask for
RESULTS = ("frames", "measures", "wrench", "pressing", "sensed", "all_jacobian", "sensed_slopes", *RATES)


@dataclass(frozen=True)
class Jointed:
    """A joint in results: its kind and bodies, its freedoms, and which of them are angles."""

    name: str
    kind: str
    a: str
    b: str
    freedoms: tuple[str, ...]
    turns: tuple[bool, ...]


class Assembled(Mechanical):
    """A mechanism in a set of coordinates: a `Mechanical` system that knows its bodies and joints by name.

    `rows` says whose the holonomic constraints are, `freedoms` is the number of degrees of freedom. `redundant` are constraints
    that follow from the others and were left out; with `least_norm` multipliers are found for these too.
    """

    given: ClassVar[frozenset[str]] = Mechanical.given | {"frames", "measures", "wrench", "pressing", "all_jacobian", "sensed"}
    space: int  # dimension
    called: str  # the set of coordinates
    masses: dict[str, str]  # of each body: the parameter
    inertias: dict[str, str]
    joints: dict[str, Jointed]
    drives: dict[str, int]  # of each prescribed motion: its constraint
    plates: dict[str, int]  # of flat bodies: the axis across
    sensors: dict[str, str]  # what each sensor measures
    rows: tuple[Row, ...]
    all_rows: tuple[Row, ...]  # with those that were left out
    least_norm: bool
    freedoms: int
    size: float  # how large the mechanism is
    tree: frozenset[str]  # joints that define coordinates: they have no multipliers
    pressed: dict[str, bool]  # contacts whose bodies could part, and whether it is known which way they push
    wound: dict[str, int]  # springs on angles that are not counted over turns, and where these are among the measures
    _carried: ca.Function | None = None  # what these carry, of all arguments, multipliers of `all_rows` and accelerations
    _recipes: Mapping[str, Callable[[], SX]] = {}
    _coordinates: Coordinates | None = None  # what it was made of; a system from a file has none

    def __init__(self, coordinates: Coordinates, made: Made, whole: Assembled | None = None, least_norm: bool = False) -> None:
        of = coordinates.of
        super().__init__(
            coordinates.names, **made.roles, parameters=coordinates.parameters, name=of.name,  # type: ignore[arg-type]
            dimension=of.dimension if coordinates.vectors else None, picture=picture(coordinates),
        )  # fmt: skip
        self.rows, self.all_rows = tuple(made.rows), tuple(made.rows) if whole is None else whole.rows
        self.least_norm, self.freedoms = least_norm, self.nv - self.m
        self.space, self.called, self.size = of.dimension, coordinates.called, coordinates.size
        self.masses, self.inertias = dict(coordinates.masses), dict(coordinates.inertias)
        self.joints = {
            j.name: Jointed(
                j.name, type(j).__name__.lower(), j.a, j.b, tuple(f.name for f in j.freedoms), tuple(f.turns for f in j.freedoms)
            )
            for j in of.joints.values()
        }
        moved = {name for name, part in of.forces.items() if isinstance(part, Motion)}
        self.drives = {row.owner: i for i, row in enumerate(self.rows) if row.owner in moved}
        self.plates = dict(coordinates.plates)
        self.sensors = {s.name: s.measures for s in of.sensors.values()}
        self.tree = frozenset(branch.joint.name for branch in coordinates.branches) & self.joints.keys()
        self.wound, self.pressed = wound(coordinates), wrenches.pressed(of)
        self.define_results(coordinates, whole)

    def define_results(self, coordinates: Coordinates, whole: Assembled | None) -> None:
        """Say how what results ask for is made, once it is asked for."""
        self._coordinates = coordinates
        self._recipes = {
            "frames": lambda: wrenches.frames(coordinates, self.q),
            "measures": lambda: wrenches.measures(coordinates, self.q, self._parameters_by_name()),
            "wrench": lambda: wrenches.wrench(coordinates, self.all_rows, self.q, self.t, self._parameters_by_name()),
            "pressing": lambda: wrenches.pressing(coordinates, self.all_rows, self.q, self.t, self._parameters_by_name()),
            "sensed": lambda: wrenches.sensed(coordinates, self.q),
            "all_jacobian": lambda: self.role("jacobian") if whole is None else whole.function("jacobian")(*self.symbols()),
        }

    def carried(self) -> ca.Function:
        """Force and torque of the joints that define coordinates, six entries for each joint, zero for the others."""
        if self._carried is None:
            of, lam, a = self.of, SX.sym("lam", len(self.all_rows) + self.mn), SX.sym("a", self.nv)
            now = carrying.Moment(self.q, self.v, a, self.t, self.u, lam, self._parameters_by_name())
            value = carrying.carried(of, of.branches, self.all_rows, now)
            self._carried = ca.Function("carried", [*self.symbols(), lam, a], [value])
        return self._carried

    @property
    def of(self) -> Coordinates:
        """The coordinates that it was made of."""
        if self._coordinates is None:
            raise MethodError(f"{self.name!r} comes from a file, which does not have the mechanism itself: assemble it again")
        return self._coordinates

    def to_coordinates(self, holonomic: Model | None = None) -> Assembled:
        """The same mechanism with `q' = v`, see `Mechanical.to_coordinates`; the length of quaternions is a constraint then."""
        if self.least_norm:
            raise MethodError("reactions of least norm go with the mechanism's own velocities: assemble with redundant='remove'")
        of = self.of
        if holonomic is None and of.unit(self.q):
            holonomic = Signed(["q"], lambda given: ca.vertcat(*of.unit(given["q"])))
        out = super().to_coordinates(holonomic)
        assert isinstance(out, Assembled)
        for name in (
            "space",
            "called",
            "size",
            "masses",
            "inertias",
            "joints",
            "plates",
            "sensors",
            "least_norm",
            "freedoms",
            "tree",
            "wound",
            "pressed",
        ):
            setattr(out, name, getattr(self, name))
        own = tuple(Row("quaternion", i, True) for i in range(self.n - self.nv))
        out.rows, out.all_rows = (*own, *self.rows), (*own, *self.all_rows)
        out.drives = {name: i + len(own) for name, i in self.drives.items()}
        out.define_results(of, None)
        out._carried = self._carried_by(out, len(own)) if self.tree else None
        return out

    def _carried_by(self, out: Assembled, count: int) -> ca.Function:
        """What the joints of a tree carry, with the velocities `v = Z^+ q'` of another system, and their rates."""
        lam, a = SX.sym("lam", len(out.all_rows) + out.mn), SX.sym("a", out.nv)
        inverse = left_inverse(self.expression("kinematics"))
        v = inverse @ out.v
        given = {"q": out.q, "v": v, "p": SX.zeros(self.nv), "t": out.t, "u": out.u}
        rate = inverse @ a + ca.jtimes(v, out.q, out.v)
        value = self.carried()(*(given[name] for name in self.arguments), out.par, lam[count:], rate)
        return ca.Function("carried", [*out.symbols(), lam, a], [value])

    def _parameters_by_name(self) -> dict[str, SX]:
        """The symbols of the parameters, as matrices."""
        out, start = {}, 0
        for key, value in self.parameters.items():
            part = self.par[start : start + value.size]
            out[key] = ca.reshape(part, *value.shape[::-1]).T if value.ndim == 2 else part
            start += value.size
        return out

    @property
    def redundant(self) -> tuple[Row, ...]:
        """Constraints that follow from the others and were left out."""
        return tuple(row for row in self.all_rows if row not in self.rows)

    def singular(self, q: Array) -> str:
        """Why the coordinates cannot be used at a pose, in words; empty where they can."""
        return "" if self._coordinates is None else self._coordinates.singular(q)

    def heavier(self, index: int) -> str:
        name = self.coordinates[index]
        owner, _, what = name.rpartition(".")
        if what.endswith(COUNTED):
            return f"it counts the turns of joint {owner!r} and has no mass: assemble(coordinates='joint'), or"
        touching = owner in self.joints
        return f"it says where the bodies of {owner!r} touch and has no mass:" if touching else super().heavier(index)

    def quantities(self) -> dict[str, tuple[list[str], str, list[int]]]:
        """Freedoms of joints, `elbow.angle`, their rates, `elbow.angle_rate`, sensors but of accelerations."""
        out: dict[str, tuple[list[str], str, list[int]]] = {}
        freedoms = [f"{joint.name}.{name}" for joint in self.joints.values() for name in joint.freedoms]
        for i, name in enumerate(freedoms):
            out[name], out[f"{name}_rate"] = ([name], "measures", [i]), ([f"{name}_rate"], "measure_rates", [i])
        start = 0
        for name, measures in self.sensors.items():
            names = [name] if measures == "distance" else [f"{name}.{axis}" for axis in "xyz"[: self.space]]
            role = {"velocity": "sensed_rates", "acceleration": ""}.get(measures, "sensed")
            if role:
                rows = list(range(start, start + len(names)))
                out |= {entry: ([entry], role, [row]) for entry, row in zip(names, rows, strict=True)}
                out[name] = names, role, rows
            start += len(names)
        return out

    def joint_of(self, name: str) -> Jointed:
        """A joint by its name."""
        if name not in self.joints:
            raise ModelError(f"{self.name!r} has no joint {name!r}{suggest(name, self.joints)}")
        return self.joints[name]

    def function(self, role: str) -> ca.Function:
        if role not in self._functions and role in RESULTS:  # in single numbers, however many elements there are
            if self.scalars is not None:
                self._adopt(role, lifted(self.scalars.function(role), self.scalars, self))
            else:
                self._define(role, self._derived(role))
        return super().function(role)

    def _derived(self, role: str) -> SX:
        if role in self._recipes:
            return self._recipes[role]()
        if role in RATES:
            return ca.densify(ca.jtimes(self.role(RATES[role]), self.q, self.qdot(self.q, self.v)))
        if role == "sensed_slopes":
            return ca.densify(ca.jacobian(self.role("sensed_rates"), self.v))
        return super()._derived(role)

    def _counts(self) -> dict[str, int]:
        own = {"bodies": len(self.masses), "joints": len(self.joints), "degrees of freedom": self.freedoms}
        return {**own, **super()._counts()}

    # ---- to a file and back -----------------------------------------------------------------------------

    def dumps(self) -> str:
        for role in self._recipes:
            self.function(role)
        return super().dumps()

    def _written(self) -> dict[str, object]:
        return {
            **super()._written(), "space": self.space, "called": self.called, "masses": self.masses, "inertias": self.inertias,
            "joints": [astuple(j) for j in self.joints.values()], "drives": self.drives, "plates": self.plates,
            "sensors": self.sensors,
            "rows": [astuple(row) for row in self.rows], "all_rows": [astuple(row) for row in self.all_rows],
            "least_norm": self.least_norm, "freedoms": self.freedoms, "size": self.size, "tree": sorted(self.tree),
            "wound": self.wound, "pressed": self.pressed,
            "carried": dump(self.carried()) if self.tree else None,
        }  # fmt: skip

    def _restore(self, data: Mapping[str, Any]) -> None:
        super()._restore(data)
        self.space, self.called = plain.size(plain.get(data, "space", int), "space", 2, 3), plain.get(data, "called", str)
        for key in ("masses", "inertias", "sensors"):
            setattr(self, key, {str(k): plain.of(v, key, str) for k, v in plain.get(data, key, dict).items()})
        for key in ("drives", "plates", "wound"):
            setattr(self, key, {str(k): plain.size(v, key) for k, v in plain.get(data, key, dict).items()})
        self.pressed = {str(k): plain.of(x, "pressed", bool) for k, x in plain.get(data, "pressed", dict).items()}
        self.joints = {}
        for entry in plain.each(plain.get(data, "joints", list), "joints", list):
            name, kind, a, b = plain.each(entry[:4], "joints", str)
            freedoms, turns = plain.each(entry[4], "freedoms", str), plain.each(entry[5], "turns", bool)
            self.joints[name] = Jointed(name, kind, a, b, tuple(freedoms), tuple(turns))
        for key in ("rows", "all_rows"):
            rows = plain.each(plain.get(data, key, list), key, list)
            setattr(self, key, tuple(Row(plain.of(o, key, str), plain.size(n, key), plain.of(i, key, bool)) for o, n, i in rows))
        self.least_norm, self.freedoms = plain.get(data, "least_norm", bool), plain.size(data["freedoms"], "freedoms")
        self.size, self.tree = plain.get(data, "size", float), frozenset(plain.each(plain.get(data, "tree", list), "tree", str))
        if self.tree:
            extra = [SX.sym("lam", len(self.all_rows) + self.mn), SX.sym("a", self.nv)]
            value = build(data["carried"], [*self.symbols(), *extra])
            if value.shape != (6 * len(self.joints), 1):
                raise FileError(f"carried has the shape {value.shape}, not {(6 * len(self.joints), 1)}")
            self._carried = ca.Function("carried", [*self.symbols(), *extra], [value])


def wound(coordinates: Coordinates) -> dict[str, int]:
    """Torsion springs whose angle the coordinates know up to whole turns, and its place among the measures of joints."""
    of, terms, out = coordinates.of, coordinates.terms, {}
    columns = [(j.name, f.name) for j in of.joints.values() for f in j.freedoms]
    springs = [part for part in of.forces.values() if isinstance(part, TorsionSpring) and part.stiffness]
    frames = coordinates.frames(SX.sym("q", len(coordinates.names))) if springs else {}
    for spring in springs:
        which, joint = (spring.joint, spring.freedom), of.joints[spring.joint]
        if not terms.counted(which, frames[joint.a], frames[joint.b]):
            out[spring.name] = columns.index(which)
    return out
