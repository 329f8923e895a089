"""What a method is, and the register of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from dalembert.errors import MethodError, suggest
from dalembert.methods.step import Step
from dalembert.tables import Table


@dataclass(frozen=True)
class Method:
    """A recipe that turns a system into a `Step`; options are fields, so equal methods are interchangeable.

    `order` has one entry each for q, v (or p) and lam. `exact_levels` are the constraint levels that the method keeps
    to round-off: initial values must satisfy these to round-off as well.
    """

    name: ClassVar[str]
    order: ClassVar[tuple[int, int, int]]
    treats: ClassVar[tuple[str, ...]]
    keeps: ClassVar[str]
    source: ClassVar[str]
    symmetric: ClassVar[bool] = True
    symplectic: ClassVar[bool] = False
    exact_levels: ClassVar[tuple[str, ...]] = ("position",)
    index: ClassVar[int] = 3
    any_mass: ClassVar[bool] = False  # whether a singular mass matrix can be treated
    nonholonomic: ClassVar[bool] = False  # whether nonholonomic constraints can be treated
    kinematics: ClassVar[bool] = False  # whether q' = Z(q) v can be
    alternates: ClassVar[bool] = False  # whether G v keeps its size and changes its sign from step to step
    external: ClassVar[bool] = False  # whether it runs outside of the engine, by itself
    indices: ClassVar[tuple[int, ...]] = (2,)  # of the semi-explicit systems that it treats, where it treats any

    def check(self, system: Any) -> None:
        """Refuse a system that the method cannot treat."""
        if system.kind not in self.treats:
            raise MethodError(f"{self.name} cannot treat a {system.kind} system; {_these(system)}")
        if system.kind == "port-hamiltonian" and not system.has("E") and not hasattr(self, "stages"):
            raise MethodError(f"{system.name!r} has no state with a rate (E is zero), and {self.name} needs one; use gauss-2")
        if system.kind == "dae" and system.index not in self.indices:
            raise MethodError(f"{self.name} cannot treat a system of index {system.index}; {_these(system)}")
        if system.mn and not self.nonholonomic:
            raise MethodError(f"{self.name} cannot treat the nonholonomic constraints of {system.name!r}; {_these(system)}")
        if system.has("kinematics") and not self.kinematics:
            raise MethodError(f"{self.name} cannot treat the kinematics q' = Z(q) v of {system.name!r}; {_these(system)}")

    @property
    def free_order(self) -> int:
        """The order on systems without constraints."""
        return self.order[0]

    def order_on(self, system: Any) -> tuple[int, ...]:
        """The order in `(q, v, lam)` of a constrained system, of a free one in all that it has."""
        free = system.kind in ("mechanical", "hamiltonian") and not system.m
        return (self.free_order,) if free or system.kind == "port-hamiltonian" else self.order

    def step(self, system: Any) -> Step:
        """The step of this method on a system, as expressions."""
        raise TypeError(f"{type(self).__name__} does not define step()")

    def spec(self) -> list[Any]:
        """Name and options as plain data; `Method.of_spec` is the inverse."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        # a function cannot be written to a file: what is read back then has the default in its place
        values = {k: v for k, v in values.items() if not callable(v) or isinstance(v, Method)}
        return [self.name, {k: v.spec() if isinstance(v, Method) else v for k, v in values.items()}]

    @staticmethod
    def of_spec(spec: list[Any]) -> Method:
        name, options = spec
        values = {k: Method.of_spec(v) if isinstance(v, list) and len(v) == 2 else v for k, v in options.items()}
        return REGISTER[name](**values)

    def __str__(self) -> str:
        options = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{self.name}({', '.join(options)})" if options else self.name


REGISTER: dict[str, type[Method]] = {}
ALIASES = {  # names under which the textbooks know them
    "implicit-euler": "radau-iia-1",
    "crank-nicolson": "lobatto-iiia-2",
    "trapezoidal": "lobatto-iiia-2",
    "implicit-midpoint": "midpoint",
}


def register(cls: type[Method]) -> type[Method]:
    """Enter a method under its name: it is then listed, tested and found by `simulate`."""
    REGISTER[cls.name] = cls
    return cls


def _these(system: Any) -> str:
    """The methods that can treat a system, for an error."""
    able = [
        n
        for n, m in REGISTER.items()
        if system.kind in m.treats
        and n != "composition"
        and (system.index in m.indices if system.kind == "dae" else m.index or not system.m)
        and (m.nonholonomic or not system.mn)
        and (m.kinematics or not system.has("kinematics"))
    ]
    return f"use {' or '.join(able)}" if able else "no method here can"


def find(method: str | Method) -> Method:
    """A method by name, or the object itself."""
    if isinstance(method, Method):
        return method
    if isinstance(method, type) and issubclass(method, Method):
        return method()
    if not isinstance(method, str):
        raise MethodError(f"a method is a name or an object of da.methods, not {method!r}")
    method = ALIASES.get(method, method)
    if method in REGISTER:
        return REGISTER[method]()
    base, _, number = method.rpartition("-")
    if base in REGISTER and number.isdigit() and "stages" in {f.name for f in fields(REGISTER[base])}:
        return REGISTER[base](stages=int(number))  # type: ignore[call-arg]
    plain = re.sub(r"[\s_]+", "-", method.strip().lower())
    hint = suggest(plain, REGISTER)
    raise MethodError(f"there is no method {method!r}{hint}")


@dataclass(frozen=True)
class MethodInfo:
    """One row of `list_methods()`."""

    name: str
    order: tuple[int, int, int]
    index: int
    treats: tuple[str, ...]
    keeps: str
    symmetric: bool
    symplectic: bool
    source: str
    method: Callable[..., Method]


def list_methods() -> Table[MethodInfo]:
    """All methods: order in (q, v, lam), the index they treat, and what they keep exactly."""
    rows = (
        MethodInfo(
            m.name if " " in str(m()) else str(m()), m().order, m.index, m.treats, m.keeps, m.symmetric, m.symplectic, m.source, m
        )
        for _, m in sorted(REGISTER.items())
    )
    return Table(rows, columns=("name", "order", "index", "treats", "keeps", "source"))
