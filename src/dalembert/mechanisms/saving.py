"""Mechanisms as TOML text: everything is written as it is stored, so that it is read again to the last bit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import numpy as np

from dalembert.errors import FileError, ModelError
from dalembert.mechanisms import joints
from dalembert.mechanisms.bodies import Body, Particle
from dalembert.mechanisms.description import Description
from dalembert.mechanisms.forces import Sensor
from dalembert.mechanisms.formulas import spelled
from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.rotations import vector
from dalembert.mechanisms.shapes import Shape
from dalembert.mechanisms.touching import Outline

FORMAT = "dalembert mechanism 1"
Table = dict[str, object]


class Saving(Description):
    """Writes a mechanism to a file."""

    def to_toml(self) -> str:
        """The mechanism as TOML text, which `da.read_mechanism` reads.

        Bodies, joints, couplings, forces and sensors are tables by their names. Functions of time and outlines of contacts are
        written as formulas, where they consist of arithmetic and elementary functions.
        """
        top: Table = {"name": self.name, "dimension": self.dimension, "gravity": self.gravity[: self.dimension]}
        lines = [f"format = {_spelled(FORMAT)}", "", *_table("mechanism", top)]
        if self.parameters:
            lines += _table("parameters", dict(self.parameters))
        for shape in self.ground.shape:
            lines += _table("ground.shapes", _shape(shape), "[[{}]]")
        for name, body in self.bodies.items():
            key = f"bodies.{_key(name)}"
            lines += _table(key, _body(body))
            for shape in body.shape:
                lines += _table(f"{key}.shapes", _shape(shape), "[[{}]]")
        for group, parts in (
            ("joints", self.joints), ("couplings", self.couplings), ("forces", self.forces), ("sensors", self.sensors),
        ):  # fmt: skip
            for name, part in parts.items():
                lines += _table(f"{group}.{_key(name)}", self._part(name, part))
        return "\n".join(lines)

    def _part(self, name: str, part: object) -> Table:
        """The fields of a joint, a coupling, a force or a sensor."""
        out: Table = {} if isinstance(part, joints.Coupling | Sensor) else {"kind": kind_of(type(part))}
        for field in fields(part):  # type: ignore[arg-type]  # a dataclass
            value = getattr(part, field.name)
            if isinstance(value, Outline):
                value = value.written(repr(name), self.parameters)
            if field.name != "name":
                out[field.name] = spelled(repr(name), value, ("t", *self.parameters))[0] if callable(value) else value
        return out

    def save(self, path: str | Path) -> Path:
        """Write the mechanism to a TOML file."""
        target = Path(path)
        if target.suffix != ".toml":
            raise FileError(f"a mechanism is saved as TOML: name the file {target.with_suffix('.toml').name}, not {target.name}")
        written = self.to_toml()
        try:
            target.write_text(written, encoding="utf-8")
        except OSError as why:
            raise FileError(f"{target} cannot be written: {why.strerror}") from why
        return target


def kind_of(kind: type) -> str:
    """The name of a class in a file: `TorsionSpring` is `torsion_spring`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def _body(body: Body) -> Table:
    """A body by its frame; the centre of mass is written where adding it to the frame would round it differently."""
    if isinstance(body, Particle):
        return {"kind": "particle", "mass": body.mass, "position": body.position, "velocity": body.velocity}
    out: Table = {
        "mass": body.mass, "inertia": body.inertia, "position": body.origin, "rotation": body.rotation, "center": body.center,
        "velocity": body.velocity, "angular_velocity": body.angular_velocity,
    }  # fmt: skip
    if (vector("position", body.origin) + body.rotation @ body.center != body.position).any():
        out["center_of_mass"] = body.position
    return out


def _shape(shape: Shape) -> Table:
    return {"kind": kind_of(type(shape)), **{f.name: getattr(shape, f.name) for f in fields(shape)}}


def _table(header: str, values: Mapping[str, object], form: str = "[{}]") -> list[str]:
    rows = [f"{_key(key)} = {_spelled(value)}" for key, value in values.items() if value is not None and not _empty(value)]
    return [form.format(header), *rows, ""]


def _empty(value: object) -> bool:
    return isinstance(value, Mapping) and not value


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _spelled(name)


def _spelled(value: object) -> str:
    """A value as TOML; numbers with all their digits."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, Marker):
        return f"{{ point = {_spelled(value.point)}, axes = {_spelled(value.axes)} }}"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(k))} = {_spelled(x)}" for k, x in value.items()) + " }"
    if isinstance(value, np.ndarray):
        return _spelled(value.tolist())
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    raise ModelError(f"a {type(value).__name__} cannot be written to a file")
