"""What every system has: names, parameters, and traced functions that can be evaluated anywhere."""

from __future__ import annotations

import keyword
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.checking import text, whole
from dalembert.errors import ModelError, suggest
from dalembert.locks import Lock
from dalembert.markup import card, facts, short
from dalembert.systems import plain, stored, tracing
from dalembert.systems.batch import batch, dense
from dalembert.systems.cache import Cache
from dalembert.systems.form import Form
from dalembert.systems.needs import Need
from dalembert.systems.picture import Picture
from dalembert.systems.shapes import Array, column, mapping, names, numbers, port_names, scalar, spoken, square
from dalembert.systems.tracing import Model

__all__ = ["Array", "System", "column", "scalar", "square"]

_DEFINING = Lock()
T = TypeVar("T")
EXPRESSIONS = 64  # of roles that are kept as they were written
RESERVED = ("q", "v", "p", "x", "y", "z", "t", "u", "invariants")


def _given(value: T) -> T:
    return value


class System(ABC):
    """A system with symbolic parameters and functions traced from the user's.

    Each role (mass, potential, ...) is one CasADi function of the system's own `variables`, `t`, `u` and the parameters: it can
    be evaluated with symbols by a method, with numbers by the analysis, and written to a file. `state` names the parts of
    which a run is made, `starts` the initial values that can be given.
    """

    kind: ClassVar[str]
    variables: ClassVar[tuple[str, ...]]
    state: ClassVar[tuple[str, ...]]
    starts: ClassVar[tuple[str, ...]]
    given: ClassVar[frozenset[str]]  # the roles a user states; all others follow
    energy_role: ClassVar[str] = ""  # the function that holds the energy, where there is one
    _ports: tuple[str, ...] = ()  # names of the inputs, where they were given
    _classes: ClassVar[dict[str, type[System]]] = {}

    def __init_subclass__(cls) -> None:
        System._classes[cls.__name__] = cls

    def __init__(
        self,
        coordinates: Sequence[str] | int,
        parameters: Mapping[str, ArrayLike] | None,
        name: str | None,
        initial: Mapping[str, ArrayLike] | None,
        dimension: int | None = None,
    ) -> None:
        self.coordinates = names(coordinates)
        self.n = len(self.coordinates)
        self.name = type(self).__name__ if name is None else text("name", name, ModelError) or type(self).__name__
        if dimension is not None and whole("dimension", dimension, ModelError) > 3:
            raise ModelError(f"dimension is the dimension of space of each particle, 1, 2 or 3, not {dimension!r}")
        if dimension and self.n % dimension:
            raise ModelError(f"{self.n} coordinates cannot be particles in {dimension} dimensions")
        self.dimension = dimension
        self.parameters: dict[str, Array] = {}
        for key, value in mapping("parameters", parameters).items():
            if key in RESERVED or not key.isidentifier() or keyword.iskeyword(key):
                raise ModelError(f"a parameter cannot be called {key!r}: that name has a meaning of its own")
            self.parameters[key] = numbers(f"parameter {key!r}", value)
        self._functions: dict[str, ca.Function] = {}
        self._counted: dict[str, tuple[SX, int]] = {}  # entries of variables: CasADi takes its time to count
        self.cache = Cache()
        for symbol in self.variables:
            setattr(self, symbol, SX.sym(symbol, self.n))
        self.t = SX.sym("t")
        self.u = SX.sym("u", 0)
        self.par = SX.sym("par", sum(x.size for x in self.parameters.values()))
        self.initial: dict[str, Array] = {}
        for key, value in mapping("initial", initial).items():
            if key not in self.starts:
                raise ModelError(f"initial values are called {spoken(self.starts)}, not {key!r}")
            self.initial[key] = numbers(f"initial value {key!r}", value)
        self.picture: Picture | None = None

    # ---- what each kind says of itself ------------------------------------------------------------------

    @abstractmethod
    def form(self, h: SX) -> Form:
        """The equations as methods use them, with sizes for a step `h`."""

    @abstractmethod
    def rate_form(self, h: SX) -> Form:
        """The equations in the system's own state, without momenta."""

    def lacks(self, need: Need) -> str | None:
        """Why a method that needs this cannot be used, in words; None if it can."""
        return None

    @property
    def has_energy(self) -> bool:
        """Whether there is an energy."""
        return bool(self.energy_role)

    def energies(self) -> list[ca.Function]:
        """Functions that have all the operations of the energy."""
        return [self.function("energy")]

    @property
    def decomposition(self) -> int | None:
        """The number of parts into which the right-hand side is split; None where it is not a matter of the model."""
        return None

    def held(self, levels: Collection[str], start: Mapping[str, SX], h: SX) -> list[tuple[SX, SX]]:
        """What is small at the end of every step from `start` of a method that keeps these constraint levels, and its sizes."""
        return []

    @property
    def m(self) -> int:
        """Number of constraints."""
        return 0

    def of_state(self, expression: SX) -> SX:
        """An expression of all variables as one of the state alone."""
        return expression

    def completed(self, parts: Mapping[str, Array], t: Array | float, par: Array) -> dict[str, Array]:
        """All variables along a motion, from the parts of its state, with time first."""
        return dict(parts)

    # ---- building ---------------------------------------------------------------------------------------

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments of all functions."""
        return (*self.variables, "t", "u")

    def symbols(self) -> list[SX]:
        """The arguments of all functions, parameters last."""
        return [*(getattr(self, name) for name in self.arguments), self.par]

    def _arguments(self) -> dict[str, Callable[[], object]]:
        """All names that a model function may use; each gives symbols with NumPy's shapes, made when it is asked for them."""
        known: dict[str, Callable[[], object]] = {}
        for name in self.variables:
            known[name] = partial(tracing.symbols, getattr(self, name), (self.size_of(name),))
        known["t"] = partial(tracing.symbols, self.t, ())
        known["u"] = partial(tracing.symbols, self.u, (self.u.numel(),))
        return known

    def _parameter_symbols(self) -> dict[str, Callable[[], object]]:
        out: dict[str, Callable[[], object]] = {}
        start = 0
        for key, value in self.parameters.items():
            out[key] = partial(tracing.symbols, self.par[start : start + value.size], value.shape)
            start += value.size
        return out

    def _trace(self, role: str, function: Model, allowed: Sequence[str], extra: Mapping[str, object] | None = None) -> SX:
        """What a user gave for a role, called with symbols for the `allowed` names and the parameters."""
        known = self._arguments() | {key: partial(_given, value) for key, value in (extra or {}).items()}
        arguments = {key: known[key] for key in allowed if key in known} | self._parameter_symbols()
        if isinstance(function, str):
            if function not in self.parameters:
                hint = suggest(function, self.parameters) if self.parameters else ""
                raise ModelError(f"{role} must be a function or a constant, or name a parameter, not be {function!r}{hint}")
            return tracing.to_sx(self._parameter_symbols()[function]())
        return tracing.call(role, function, tracing.Lazy(arguments), known | arguments)

    def _define(self, role: str, expression: SX) -> None:
        function = ca.Function(role, self.symbols(), [expression], [*self.arguments, "par"], [role])
        self._adopt(role, function)
        self.cache.get(type(expression), (role, self.cache.mark(function)), lambda: expression, EXPRESSIONS)

    def _adopt(self, role: str, function: ca.Function) -> None:
        with _DEFINING:  # a new dictionary: other threads may be going through this one
            self._functions = {**self._functions, role: function}

    def _finite(self, value: SX, role: str) -> None:
        """Refuse nan written into a model as a constant."""
        for i, element in enumerate(ca.vertsplit(value.nz[:]) if value.nnz() else ()):
            if element.is_constant() and not np.isfinite(float(element)):
                raise ModelError(f"{role} has {float(element)} as its entry {i + 1}")

    # ---- evaluating -------------------------------------------------------------------------------------

    def has(self, role: str) -> bool:
        """Whether the system has this role, with an entry that is not structurally zero."""
        return role in self._functions and self._functions[role].nnz_out(0) > 0

    def stated(self) -> list[str]:
        """The roles that were given."""
        return [role for role in self._functions if role in self.given]

    def depends(self, role: str, *names: str) -> bool:
        """Whether a role depends on any of the named arguments."""
        if not self.has(role):
            return False
        f = self._functions[role]

        def look() -> bool:
            return any(f.jac_sparsity(0, self.arguments.index(name)).nnz() > 0 for name in names)

        return self.cache.get(bool, (self.cache.mark(f), names), look, EXPRESSIONS)

    def quantities(self) -> dict[str, tuple[list[str], str, list[int]]]:
        """What has a name beside the variables: the names of its entries, and the role and rows that they are."""
        return {}

    def _checknames(self, role: str, given: Mapping[str, object]) -> None:
        unknown = given.keys() - set(self.arguments)
        if unknown:
            raise KeyError(f"{role} has no argument {min(unknown)!r}; it has {', '.join(self.arguments)}")

    def expression(self, role: str, **given: SX | None) -> SX:
        """A role evaluated at symbols (the system's own where none is given), parameters symbolic."""
        self._checknames(role, given)
        own, function = {name: getattr(self, name) for name in self.arguments}, self._functions[role]
        values = own | {name: value for name, value in given.items() if value is not None}
        kind, inline = type(self.t), function.is_a("MXFunction")
        if all(values[name] is own[name] for name in own):  # as it was written; expressions may be changed, this one not
            key = role, self.cache.mark(function)
            return kind(self.cache.get(kind, key, lambda: function.call([*own.values(), self.par], inline)[0], EXPRESSIONS))
        out: SX = function.call([*values.values(), self.par], inline)[0]
        return out

    def role(self, role: str, **arguments: SX | None) -> SX:
        """Like `expression`, for given and derived roles alike."""
        self.function(role)
        return self.expression(role, **arguments)

    def function(self, role: str) -> ca.Function:
        """A given or derived role as a function of the system's arguments."""
        if role not in self._functions:
            self._define(role, self._derived(role))
        return self._functions[role]

    def value(self, role: str, par: Array, **at: ArrayLike) -> ca.DM:
        """A role at one point, as a matrix; what is not given is zero."""
        f = self.function(role)
        self._checknames(role, at)
        absent = ca.DM.zeros  # CasADi takes an array entry by entry
        values = (np.asarray(at[k], dtype=float) if k in at else absent(f.size1_in(k)) for k in self.arguments)
        out: ca.DM = f(*values, par)
        return out

    def numeric(self, role: str, par: Array, **arguments: ArrayLike | None) -> Array:
        """A role evaluated at numbers; arguments may be stacked with time first, and so is the result."""
        f = self.function(role)
        self._checknames(role, arguments)
        arrays = {k: np.atleast_1d(np.asarray(x, dtype=float)) for k, x in arguments.items() if x is not None}
        count = max((1 if a.ndim == 1 and k != "t" else len(a) for k, a in arrays.items()), default=1)
        rows = []
        for name in self.arguments:
            a = arrays.get(name)
            if a is None:
                rows.append(np.zeros(f.size1_in(name)))
            else:
                rows.append(a[:, None] if name == "t" and a.shape == (count,) else a)
        values = dense(batch(f, [*rows, par], count)[0], f.sparsity_out(0))
        return values[:, :, 0] if f.size2_out(0) == 1 else values

    def _derived(self, role: str) -> SX:
        """Expressions that follow from the given roles, made when first asked for."""
        if role == "energy_slope":
            own = ca.vertcat(*(getattr(self, name) for name in self.variables if name != "v"))
            return ca.densify(ca.gradient(self.expression(self.energy_role), own))
        raise KeyError(role)

    @property
    def vectors(self) -> Self:
        """The same system with vectors for symbols, where it is made of many equal parts; else itself."""
        return self

    @property
    def drawn(self) -> bool:
        """Whether there are points to draw."""
        return "points" in self._functions

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return self.size_of("u")

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of the inputs; `u1`, `u2`, ... where none were given."""
        return self._ports or tuple(f"u{i}" for i in range(1, self.nu + 1))

    def size_of(self, name: str) -> int:
        """How many entries a variable has."""
        symbol, sizes = getattr(self, name), self._counted
        if name not in sizes or sizes[name][0] is not symbol:
            sizes[name] = symbol, int(symbol.numel())
        return sizes[name][1]

    def pack(self, overrides: Mapping[str, ArrayLike] | None = None) -> Array:
        """The parameter vector, with some values replaced."""
        overrides = mapping("parameters", overrides)
        parts = []
        for key, default in self.parameters.items():
            value = numbers(f"parameter {key!r}", overrides.pop(key)) if key in overrides else default
            if value.shape != default.shape:
                raise ModelError(f"parameter {key!r} has the shape {value.shape}, it was declared with {default.shape}")
            parts.append(value.ravel())
        if overrides:
            name = next(iter(overrides))
            raise ModelError(f"{self.name} has no parameter {name!r}{suggest(name, self.parameters)}")
        return np.concatenate(parts) if parts else np.zeros(0)

    def unpack(self, par: Array) -> dict[str, Array]:
        """The parameter vector as a dictionary."""
        out, start = {}, 0
        for key, default in self.parameters.items():
            out[key] = np.asarray(par[start : start + default.size]).reshape(default.shape)
            start += default.size
        return out

    def __repr__(self) -> str:
        counts = [f"{count} {what}" for what, count in self._counts().items() if count]
        return f"<{type(self).__name__} {self.name!r}: {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        rows = [("coordinates", ", ".join(self.coordinates[:40]) + (", ..." if self.n > 40 else ""))]
        if self.ports:
            rows.append(("inputs", ", ".join(self.ports)))
        rows += [(f"parameter {name}", short(np.ravel(value))) for name, value in self.parameters.items()]
        rows += [(f"initial {name}", short(np.ravel(value))) for name, value in self.initial.items()]
        return card(repr(self).strip("<>"), facts(rows))

    def _counts(self) -> dict[str, int]:
        """What there is, and how many, for `repr`."""
        return {"states": self.n, "inputs": self.nu}

    # ---- to a file and back -----------------------------------------------------------------------------

    def dumps(self) -> str:
        """The whole system as text, its functions included."""
        return stored.write(self)

    @staticmethod
    def loads(text: str) -> System:
        """The inverse of `dumps`."""
        return stored.read(text, System._classes, System.__init__)

    def _written(self) -> dict[str, object]:
        """What a kind of system has to write beside the common data."""
        return {"ports": self._ports} if self._ports else {}

    def _restore(self, data: Mapping[str, Any]) -> None:
        """Take what `_written` gave, read from a file."""
        if "ports" in data:
            self._ports = port_names(plain.each(plain.get(data, "ports", list), "ports", str), self.nu)

    def __getstate__(self) -> str:
        return self.dumps()

    def __setstate__(self, text: str) -> None:
        self.__dict__.update(System.loads(text).__dict__)

    def __copy__(self) -> Self:
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)  # functions and symbols are never changed
        out.cache, out._counted = Cache(), {}
        out.parameters, out.initial = ({k: v.copy() for k, v in values.items()} for values in (self.parameters, self.initial))
        return out

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()
