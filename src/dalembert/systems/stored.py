"""A system as text, and back. The text is data: nothing in it is ever run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import casadi as ca
from casadi import SX

from dalembert.errors import FileError, ModelError
from dalembert.hooks import Hook
from dalembert.systems import plain
from dalembert.systems.operations import Operations, build, dump, fingerprint
from dalembert.systems.picture import Picture, check
from dalembert.systems.solids import solids_of

if TYPE_CHECKING:
    from dalembert.systems.base import System

REQUIRED = {  # roles that a kind of system cannot be without
    "mechanical": ("mass", "potential"),
    "hamiltonian": ("hamiltonian",),
    "port-hamiltonian": ("E", "J", "R", "B", "P", "S", "N", "hamiltonian", "z"),
    "dae": ("g", "rhs", "part1"),
    "ode": ("f",),
    "implicit": ("F",),
}
SHAPES = {  # of what a role returns: a number, the size of a variable, `n` coordinates, `u` inputs, or anything
    "mass": "vv", "dissipation": "vv", "potential": "11", "hamiltonian": "11", "force": "v1", "inputs": "vu", "kinematics": "nv",
    "gyroscopic": "v1",
    "holonomic": "*1", "nonholonomic": "*1", "invariants": "*1", "E": "nn", "J": "nn", "R": "nn", "B": "nu", "P": "nu", "S": "uu",
    "N": "uu", "z": "n1", "r": "n1", "law": "u1", "constraint": "*1", "g": "*1", "rhs": "n1", "points": "**",
    "f": "n1", "F": "n1",
    **{f"part{i}": "n1" for i in range(1, 10)},
}  # fmt: skip

HIGHER: Hook[[], Mapping[str, type[System]]] = Hook("System.loads", "dalembert.mechanisms")  # kinds that higher layers define


class _Kept:
    """The data of a function, kept with it: a checkpoint writes them again and again."""

    def __init__(self, function: ca.Function) -> None:
        self.function = function
        self.data: Operations | None = None
        self.why = ""
        try:
            self.data = dump(function)
        except ModelError as error:
            self.why = f"{error} [{fingerprint(function)[:16]}]"


class Absent(dict[str, ca.Function]):
    """The functions of a system that was written without them: each use says why they are not there."""

    def __init__(self, missing: Mapping[str, str], name: str) -> None:
        super().__init__()
        self.missing, self.name = dict(missing), name

    def _refuse(self, *_: object) -> NoReturn:
        role, why = next(iter(self.missing.items()))
        raise ModelError(
            f"this copy of {self.name!r} has results but no model, since {role} could not be written: {why.partition(' [')[0]}; "
            "make the system again where its functions are needed"
        )

    __contains__ = __getitem__ = __iter__ = keys = values = items = get = _refuse  # type: ignore[assignment]


def write(system: System) -> str:
    """The whole system as text, its functions included; where one of them cannot be written, why."""
    known = system._functions
    functions: dict[str, Operations] = {}
    missing = known.missing if isinstance(known, Absent) else {}
    for role in () if isinstance(known, Absent) else system.stated():
        function = system.function(role)
        kept = system.cache.get(_Kept, (role, system.cache.mark(function)), partial(_Kept, function), 64)
        if kept.data is None:
            missing[role] = kept.why
        else:
            functions[role] = kept.data
    return json.dumps(
        {
            "class": type(system).__name__,
            "coordinates": system.coordinates,
            "name": system.name,
            "dimension": system.dimension,
            "sizes": {name: system.size_of(name) for name in (*system.variables, "u")},
            "parameters": {k: v.tolist() for k, v in system.parameters.items()},
            "initial": {k: v.tolist() for k, v in system.initial.items()},
            "picture": system.picture and system.picture.parts(),
            "functions": functions,
            "missing": missing,
            **system._written(),
        }
    )


def read(text: str, classes: Mapping[str, type[System]], init: Callable[..., None]) -> System:
    """The inverse of `write`, for a system of one of the classes; `init` sets what all of them have."""
    data = plain.parse(text)
    return plain.guarded("its model is damaged", lambda: _read(data, classes, init))


def _read(data: object, classes: Mapping[str, type[System]], init: Callable[..., None]) -> System:
    known = plain.get(data, "class", str)
    if known not in classes:
        classes = {**classes, **HIGHER()}
    if known not in classes or inspect.isabstract(classes[known]):
        raise FileError(f"the kind of system {known[:60]!r} is not known; import the module that defines it first")
    system = classes[known].__new__(classes[known])
    coordinates = plain.each(plain.get(data, "coordinates", list), "coordinates", str)
    parameters, initial = plain.get(data, "parameters", dict), plain.get(data, "initial", dict)
    name, dimension = plain.get(data, "name", str), plain.maybe(data, "dimension", int)
    init(system, coordinates, parameters, name, initial, dimension)
    sizes = plain.get(data, "sizes", dict)
    for variable in (*system.variables, "u"):
        setattr(system, variable, SX.sym(variable, plain.size(sizes.get(variable), variable)))
    if system.size_of(system.state[0]) != system.n:
        raise FileError(f"there are {system.n} coordinates, but {system.state[0]} has {system.size_of(system.state[0])} entries")
    system._restore(plain.of(data, "system", dict))
    missing = plain.get(data, "missing", dict)
    if missing:
        reasons = {str(role): plain.of(why, "missing", str) for role, why in missing.items()}
        system._functions = Absent(reasons, system.name)
        return system
    _functions(system, plain.get(data, "functions", dict))
    drawn = plain.maybe(data, "picture", dict)
    if drawn is not None:
        links, masses, trails, bodies = (plain.get(drawn, key, list) for key in ("links", "masses", "trails", "bodies"))
        system.picture = Picture(None, links, masses, trails, bodies, plain.get(drawn, "units", dict), solids_of(drawn))
        if system.drawn:
            check(system.picture, system.function("points").size1_out(0))
    return system


def _functions(system: System, found: Mapping[str, object]) -> None:
    """Define the functions of a system, each with the shape that its role has."""
    lacking = set(REQUIRED.get(system.kind, ())) - found.keys()
    if lacking:
        raise FileError(f"it has no {min(lacking)}")
    sizes = {"1": 1, "n": system.n, "u": system.nu, "v": system.size_of("v") if "v" in system.variables else 0}
    for role, data in found.items():
        if role not in system.given:
            raise FileError(f"it has a role {str(role)[:60]!r} that is not known")
        try:
            value = build(data, system.symbols())
        except FileError as error:
            raise FileError(f"{role}: {error}") from error
        wanted = [sizes.get(letter) for letter in SHAPES.get(role, "**")]
        if any(size is not None and size != own for size, own in zip(wanted, value.shape, strict=True)):
            raise FileError(f"{role} has the shape {value.shape}")
        if role == "points" and value.shape[1] not in (2, 3):
            raise FileError(f"points have {value.shape[1]} coordinates")
        system._define(role, value)
