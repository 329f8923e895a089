"""What a method is, and the register of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypedDict, TypeVar, Unpack, dataclass_transform

import casadi as ca

from dalembert.checking import shown
from dalembert.errors import MethodError, strict, suggest, suggesting
from dalembert.methods.scheme import Scheme
from dalembert.methods.step import Step
from dalembert.systems.base import System
from dalembert.systems.needs import Need
from dalembert.tables import Table

KINDS = ("mechanical", "hamiltonian", "dae", "implicit", "ode", "port-hamiltonian")
Cls = TypeVar("Cls", bound="type[Method]")


@dataclass(frozen=True)
class Method:
    """A recipe that turns a system into a `Step`; options are fields, so equal methods are interchangeable.

    `order` has one entry each for q, v (or p) and lam. `exact_levels` are the constraint levels that the method keeps
    to round-off: initial values must satisfy these to round-off as well. `needs` is what a system must have beside its kind.
    """

    name: ClassVar[str]
    treats: ClassVar[tuple[str, ...]]
    keeps: ClassVar[str]
    source: ClassVar[str]
    index: ClassVar[int] = 3  # the highest index of constraints that it treats; 0 for none
    external: ClassVar[bool] = False  # whether it integrates the index-reduced equations, without a step of its own

    @property
    def order(self) -> tuple[int, int, int]:
        """Order in q, v (or p) and lam on constrained systems."""
        raise TypeError(f"{type(self).__name__} does not define its order")

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs of a system."""
        return frozenset({Need.HOLONOMIC, Need.VELOCITIES, Need.MASS, Need.FREE_OF_REACTIONS})

    @property
    def symmetric(self) -> bool:
        """Whether a step backwards undoes a step forwards."""
        return True

    @property
    def vectorial(self) -> bool:
        """Whether its step can be made of vectors, see `Composed.vectors`."""
        return False

    @property
    def symplectic(self) -> bool:
        """Whether holonomic systems keep their symplectic structure."""
        return False

    @property
    def exact_levels(self) -> tuple[str, ...]:
        return ("position",)

    @property
    def alternates(self) -> bool:
        """Whether `G v` keeps its size and changes its sign from step to step."""
        return False

    @property
    def free_order(self) -> int:
        """The order on systems without constraints."""
        return self.order[0]

    def order_on(self, system: System) -> tuple[int, ...]:
        """The order in `(q, v, lam)` of a constrained system, of a free one in all that it has."""
        return (self.free_order,) if system.lacks(Need.NO_CONSTRAINTS) is None else self.order

    def check(self, system: System) -> None:
        """Refuse a system that the method cannot treat."""
        try:
            found = system.cache.get(tuple, ("obstacles", self), lambda: tuple(obstacles(self, system)))
        except TypeError:  # a method with options that have no hash
            found = tuple(obstacles(self, system))
        if found:
            raise MethodError(f"{self.name} cannot treat {found[0]}; {proposal(system)}")

    def step(self, system: Any) -> Step:  # noqa: ANN401 - each method narrows it to the systems that it treats
        """The step of this method on a system, as expressions."""
        raise TypeError(f"{type(self).__name__} does not define step()")

    def kept(self, system: System) -> tuple[ca.Function, ...]:
        """What must be small at the end of a step: functions `(state, t, par, state before, h) -> values, sizes`."""
        symbols = {name: getattr(system, name) for name in system.state}
        kind = type(system.t)
        start, h = {name: kind.sym(name, symbol.numel()) for name, symbol in symbols.items()}, kind.sym("h")
        inputs = [ca.vertcat(*symbols.values()), system.t, system.par, ca.vertcat(*start.values()), h]
        found = system.held(self.exact_levels, start, ca.fabs(h))
        return tuple(ca.Function("kept", inputs, [ca.densify(e) for e in pair]) for pair in found)

    def spec(self) -> list[Any]:
        """Name and options as plain data; `Method.of_spec` is the inverse."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        # a function cannot be written to a file: what is read back then has the default in its place
        values = {k: v for k, v in values.items() if not callable(v) or isinstance(v, Method)}
        return [self.name, {k: v.spec() if isinstance(v, Method) else v for k, v in values.items()}]

    @staticmethod
    def of_spec(spec: object) -> Method:
        """A method of the register with options that its fields have: nothing else can be written in a file."""
        match spec:
            case [str(name), dict(options)] if name in REGISTER:
                cls = REGISTER[name]
            case [str(name), dict()]:
                raise MethodError(f"there is no method {name[:60]!r}; import the module that registers it first")
            case _:
                raise MethodError("a method is written as its name and its options")
        kinds = {f.name: str(f.type).split(" | ") for f in fields(cls)}
        values = {}
        for key, value in options.items():
            if key not in kinds:
                raise MethodError(f"{name} has no option {str(key)[:60]!r}{suggest(str(key)[:60], kinds)}")
            values[key] = Method.of_spec(value) if isinstance(value, list) else value
            if not _fits(values[key], kinds[key]):
                raise MethodError(f"the option {key} of {name} cannot be {str(value)[:60]}")
        return cls(**values)

    def __str__(self) -> str:
        options = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{self.name}({', '.join(options)})" if options else self.name


def _fits(value: object, kinds: list[str]) -> bool:
    """Whether a plain value is one of the types that a field names; of a type that is not known here any plain value is."""
    name = "Method" if isinstance(value, Method) else "None" if value is None else type(value).__name__
    known = set(kinds) & {"int", "float", "str", "bool", "None", "Method"}
    return name in (known or {"int", "float", "str", "bool", "None"}) or (name == "int" and "float" in known)


REGISTER: dict[str, type[Method]] = {}
ALIASES = {  # names under which the textbooks know them
    "implicit-euler": "radau-iia-1",
    "crank-nicolson": "lobatto-iiia-2",
    "trapezoidal": "lobatto-iiia-2",
    "implicit-midpoint": "midpoint",
}


class Facts(TypedDict, total=False):
    """What an entry of the register may declare of its class."""

    keeps: str
    source: str
    treats: tuple[str, ...]
    index: int
    needs: frozenset[Need]
    exact_levels: tuple[str, ...]
    symmetric: bool
    symplectic: bool
    alternates: bool
    fewest: int
    build: Callable[[int], Scheme]


@dataclass_transform(frozen_default=True)
def register(name: str, **facts: Unpack[Facts]) -> Callable[[Cls], Cls]:
    """Enter a method under its name, with what it declares: a frozen dataclass that is listed, tested and found by `simulate`."""

    def entered(cls: Cls) -> Cls:
        for key, value in {"name": name, **facts}.items():
            setattr(cls, key, staticmethod(value) if callable(value) else value)
        REGISTER[name] = strict(dataclass(frozen=True)(cls))
        return cls

    return entered


def obstacles(method: Method, system: System) -> list[str]:
    """What of a system stands in the way of a method, in words; empty where they fit. Nothing else decides this."""
    if system.kind not in method.treats:
        return [f"a {system.kind} system"]
    needs = sorted(method.needs, key=lambda need: need.value)
    return [lack for need in needs if (lack := system.lacks(need)) is not None]


def able(system: System) -> list[Method]:
    """The methods of the register that can treat a system, each with its default options."""
    return [m for m in (cls() for name, cls in REGISTER.items() if name != "composition") if not obstacles(m, system)]


def proposal(system: System) -> str:
    """The methods that can treat a system, for an error."""
    names = [str(m) for m in able(system)]
    return f"use {' or '.join(names)}" if names else "no registered method supports this system"


def find(method: str | Method | type[Method]) -> Method:
    """A method by name, or the object itself."""
    if isinstance(method, Method):
        return method
    if isinstance(method, type) and issubclass(method, Method):
        return method()
    if not isinstance(method, str):
        raise MethodError(f"a method is a name or an object of da.methods, not {shown(method)}")
    found = _named(ALIASES.get(method, method))
    if found is not None:
        return found
    plain = re.sub(r"[\s_]+", "-", method.strip().lower())
    hint = suggest(plain, REGISTER)
    raise MethodError(f"there is no method {method!r}{hint}")


_MADE: dict[str, tuple[type[Method], Method]] = {}  # methods do not change: one object of each serves all calls


def _named(name: str) -> Method | None:
    """A method with its default options, or with so many stages."""
    base, _, number = name.rpartition("-")
    cls = REGISTER.get(name) or REGISTER.get(base)
    if cls is None:
        return None
    kept = _MADE.get(name)
    if kept is not None and kept[0] is cls:  # the register may have another one by now
        return kept[1]
    if name in REGISTER:
        made = cls()
    elif number.isdigit() and "stages" in {f.name for f in fields(cls)}:
        made = Method.of_spec([base, {"stages": int(number)}])
    else:
        return None
    _MADE[name] = cls, made
    return made


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


@suggesting
def list_methods() -> Table[MethodInfo]:
    """All methods: order in (q, v, lam), the index they treat, and what they keep exactly."""
    rows = []
    for _, cls in sorted(REGISTER.items()):
        m = cls()
        name = m.name if " " in str(m) else str(m)
        rows.append(MethodInfo(name, m.order, m.index, m.treats, m.keeps, m.symmetric, m.symplectic, m.source, cls))
    return Table(rows, columns=("name", "order", "index", "treats", "keeps", "source"))
