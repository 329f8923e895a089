"""Mechanisms from TOML files, written by hand as they are drawn, or by `mechanism.save`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from dalembert.checking import flag, number, one_of, reals, shown, text, whole
from dalembert.errors import DalembertError, FileError, ModelError, suggest, suggesting
from dalembert.mechanisms import forces, joints, rolling, rotations, shapes
from dalembert.mechanisms.formulas import Formula, Formulas
from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.markup import content
from dalembert.mechanisms.mechanism import Mechanism
from dalembert.mechanisms.mjcf import read_mjcf
from dalembert.mechanisms.saving import FORMAT, kind_of
from dalembert.mechanisms.shapes import Shape
from dalembert.mechanisms.touching import Given, Outline, Touch
from dalembert.mechanisms.urdf import read_urdf

Table = dict[str, object]
KINDS: tuple[type, ...] = (
    *joints.KINDS.values(), rolling.Rolling, rolling.KnifeEdge, forces.Spring, forces.TorsionSpring,
    forces.Bushing, forces.Friction, forces.Rotor, forces.Motor, forces.Force, forces.Motion, Touch,
)  # fmt: skip
PARTS = {kind_of(kind): kind for kind in KINDS}
SHAPES: dict[str, type[Shape]] = {kind_of(kind): kind for kind in (shapes.Box, shapes.Cylinder, shapes.Sphere, shapes.Mesh)}
T = TypeVar("T")
GROUPS = ("format", "mechanism", "parameters", "ground", "bodies", "joints", "couplings", "forces", "sensors")
BODIES = ("body", "particle", "rod")


@suggesting
def read_mechanism(path: str | Path) -> Mechanism:
    """A mechanism from a file: TOML, as `mechanism.save` writes it or written by hand; URDF and MJCF by their endings.

    In TOML, `[bodies.<name>]`, `[joints.<name>]`, `[forces.<name>]` and so on are tables with the keywords of the methods that
    add such a part, `kind` says which (`"revolute"`, `"spring"`). Functions of time are formulas, `"0.3 * sin(omega * t)"`,
    outlines of contacts lists of them, `["R * cos(s)", "R * sin(s)"]`.
    """
    file = Path(path)
    if file.suffix.lower() == ".urdf":
        return read_urdf(file)
    if file.suffix.lower() in (".xml", ".mjcf"):
        return read_mjcf(file)
    if file.suffix.lower() != ".toml":
        raise FileError(f"{file} is no mechanism that can be read: TOML, URDF and MJCF (.xml) files are")
    try:
        data = tomllib.loads(content(file).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as why:
        raise FileError(f"{file} is no TOML: {why}") from why
    for key in data:
        if key not in GROUPS:
            raise ModelError(f"{file}: there is no table {key!r} in a mechanism{suggest(key, GROUPS)}")
    if data.get("format", FORMAT) != FORMAT:
        raise FileError(f"{file} has the format {shown(data['format'])}; {FORMAT!r} is read here")
    return Reader(file, data).mechanism


class Reader:
    """Adds what a file describes to a mechanism, table by table."""

    def __init__(self, file: Path, data: Table) -> None:
        self.file, self.data = file, data
        top = {"name": file.stem, **self.tables("mechanism", data)}
        given = self.tables("parameters", data)
        self.mechanism = self.told("mechanism", lambda: Mechanism(**top, parameters=given))  # type: ignore[arg-type]
        m, ground = self.mechanism, self.tables("ground", data)
        m.ground = replace(m.ground, shape=self.told("ground", lambda: self.shapes(ground)))
        adding: dict[str, Callable[[str, Table], None]] = {
            "bodies": self.body, "joints": self.part, "couplings": self.coupling, "forces": self.part, "sensors": self.sensor,
        }  # fmt: skip
        for group, add in adding.items():
            for name, table in self.tables(group, data).items():
                what = f"{group}.{name}"
                self.told(what, partial(add, name, self.table(what, table)))

    def told(self, what: str, made: Callable[[], T]) -> T:
        """What is made, or an error that says where in the file."""
        try:
            return made()
        except (DalembertError, TypeError) as why:
            if isinstance(why, FileError):
                raise
            raise ModelError(f"{self.file}: [{what}]: {why}") from why

    def table(self, what: str, value: object) -> Table:
        if not isinstance(value, Mapping):
            raise ModelError(f"{what} must be a table, not {shown(value)}")
        return dict(value)

    def tables(self, name: str, data: Table) -> Table:
        return self.table(f"{self.file}: {name}", data.get(name, {}))

    def body(self, name: str, table: Table) -> None:
        m, kind = self.mechanism, one_of("kind", table.pop("kind", "body"), BODIES, ModelError)
        exact = table.pop("center_of_mass", None)
        if "shapes" in table:
            table["shape"] = self.shapes(table)
            del table["shapes"]
        getattr(m, kind)(name, **table)
        if exact is not None:
            place = rotations.vector("center_of_mass", exact)
            far = float(np.abs(place - m.bodies[name].position).max())
            if far > 1e-9 * (1 + float(np.abs(place).max())):
                raise ModelError(f"center_of_mass is {far:.1e} away from where position, rotation and center put it")
            m.bodies[name] = replace(m.bodies[name], position=place)

    def shapes(self, table: Table) -> tuple[Shape, ...]:
        given = table.get("shapes", [])
        if not isinstance(given, list):
            raise ModelError(f"shapes must be a list of tables, not {shown(given)}")
        return tuple(self.shape(self.table("a shape", one)) for one in given)

    def shape(self, table: Table) -> Shape:
        kind = one_of("kind of a shape", table.pop("kind", None), SHAPES, ModelError)
        if kind == "mesh" and "file" in table:
            return shapes.Mesh.read(self.file.parent / text("file", table.pop("file"), ModelError), **table)  # type: ignore[arg-type]
        return SHAPES[kind](**table)  # type: ignore[arg-type]

    def coupling(self, name: str, table: Table) -> None:
        ends = [table.pop(key, None) for key in ("first", "second")]
        pairs = [end if isinstance(end, list) and len(end) == 2 else [end, None] for end in ends]
        self.mechanism.gear(name, *(pair[0] for pair in pairs), freedoms=tuple(pair[1] for pair in pairs), **table)  # type: ignore[arg-type, misc]

    def sensor(self, name: str, table: Table) -> None:
        if "point" in table:
            self.stored(name, forces.Sensor, table)
        else:
            self.mechanism.sensor(name, **table)  # type: ignore[arg-type]

    def part(self, name: str, table: Table) -> None:
        """A joint or a force: as it is stored where its places are tables, else as its method takes it."""
        kind = text("kind", table.pop("kind", None), ModelError)
        if kind in PARTS and ("point" in table or any(isinstance(table.get(key), Mapping) for key in ("on_a", "on_b"))):
            self.stored(name, PARTS[kind], table)
            return
        known = [*(kind for kind in PARTS if kind != "touch"), "contact", "damper", "rack"]
        if kind not in known:
            raise ModelError(f"there is no kind {kind!r}{suggest(kind, known)}")
        for key in ("function", "length"):
            if isinstance(table.get(key), str):
                table[key] = Formula(f"{name}: {key}", table[key], self.mechanism.parameters)
        if kind == "contact":
            table |= {key: self.outline(f"{name}: {key}", table.get(key)) for key in ("one", "other")}
        limits = table.get("limits")
        if isinstance(limits, Mapping):
            table["limits"] = {key: _pair(f"limits: {key}", pair) for key, pair in limits.items()}
        getattr(self.mechanism, kind)(name, **table)

    def stored(self, name: str, kind: type, table: Table) -> None:
        """A part by its fields."""
        own = {field.name: str(field.type) for field in fields(kind) if field.name != "name"}
        for key in table:
            if key not in own:
                raise ModelError(f"it has no {key!r}{suggest(key, own)}")
        values = {key: self.field(f"{name}: {key}", own[key], value) for key, value in table.items()}
        m = self.mechanism
        for key in ("a", "b", "body", "other"):
            if isinstance(body := values.get(key), str):  # an outline of a contact is called `other` too
                m.get_body(body)
        part = kind(name=m._new(name), **values)
        if isinstance(part, Touch):
            part.check()
        if isinstance(part, forces.Sensor):
            m.sensors[name] = part
        elif isinstance(part, joints.Joint):
            m.joints[name] = part
        else:
            m._add(part)

    def outline(self, what: str, value: object) -> Given:
        """An outline as `contact` takes it: a radius, a point, or formulas, alone or with the order of their parameters."""
        table = value if isinstance(value, Mapping) else {"formulas": value}
        known = ("formulas", "parameters", "point", "radius")
        for key in table:
            if key not in known:
                raise ModelError(f"{what}: an outline has no {key!r}{suggest(key, known)}")
        given = table.get("formulas", table.get("point", table.get("radius")))
        if isinstance(given, list) and any(isinstance(one, str) for one in given):
            order = table.get("parameters")
            if order is not None and not (isinstance(order, list) and all(isinstance(one, str) for one in order)):
                raise ModelError(f"{what}: parameters must be a list of names, not {shown(order)}")
            return Formulas(what, given, self.mechanism.parameters, order)
        return number(what, given, ModelError) if np.ndim(given) == 0 else rotations.vector(what, given)  # type: ignore[arg-type]

    def field(self, what: str, declared: str, value: object) -> object:
        """The value of a field, by its declared type."""
        if declared == "Marker":
            place = self.table(what, value)
            point = rotations.vector(f"{what}.point", place.get("point"))
            return Marker(point, rotations.matrix(f"{what}.axes", place.get("axes")))
        if declared.startswith("Mapping"):
            return {key: _pair(f"{what}.{key}", pair) for key, pair in self.table(what, value).items()}
        if isinstance(value, str) and ("Callable" in declared or "Function" in declared):
            return Formula(what, value, self.mechanism.parameters)
        if declared == "Outline":
            return Outline.of(what, self.outline(what, value), self.mechanism.parameters, self.mechanism.dimension)
        if declared.startswith("float"):
            return number(what, value, ModelError)
        if declared.startswith("tuple[float"):
            return tuple(reals(what, value, ModelError).tolist())
        if declared == "int":  # the dimension of a contact, that of the mechanism
            return whole(what, value, ModelError, self.mechanism.dimension, self.mechanism.dimension)
        if declared == "bool":
            return flag(what, value, ModelError)
        if declared.startswith("Array"):
            return rotations.vector(what, value)
        return text(what, value, ModelError)


def _pair(what: str, value: object) -> tuple[float, float]:
    low, high = reals(what, value, ModelError, "two numbers").reshape(-1) if np.size(value) == 2 else (None, None)  # type: ignore[arg-type]
    return number(what, low, ModelError), number(what, high, ModelError)
