"""What every system has: names, parameters, and traced functions that can be evaluated anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.errors import ModelError, suggest
from dalembert.systems import tracing
from dalembert.systems.batch import batch, dense
from dalembert.systems.picture import Picture

SX = ca.SX
ARGUMENTS = ("q", "v", "p", "t", "u")


class System:
    """A system in coordinates `q`, with symbolic parameters and functions traced from the user's.

    Each role (mass, potential, ...) is one CasADi function of `(q, v, p, t, u, parameters)`: it can be
    evaluated with symbols by a method, with numbers by the analysis, and written to a file.
    """

    kind = "system"
    momenta = "v"  # the second half of the state: "v" or "p"
    given: ClassVar[frozenset[str]] = frozenset(
        [
            "mass",
            "potential",
            "hamiltonian",
            "holonomic",
            "nonholonomic",
            "dissipation",
            "force",
            "inputs",
            "kinematics",
            "invariants",
            "points",
        ]
    )  # the roles a user states; all others follow
    _classes: ClassVar[dict[str, type[System]]] = {}

    def __init_subclass__(cls) -> None:
        System._classes[cls.__name__] = cls

    def __init__(
        self,
        coordinates: Sequence[str] | int,
        parameters: Mapping[str, Any] | None,
        name: str | None,
        initial: Mapping[str, Any] | None,
        dimension: int | None,
    ) -> None:
        self.coordinates = _names(coordinates)
        self.n = len(self.coordinates)
        self.name = name or type(self).__name__
        if dimension not in (None, 1, 2, 3):
            raise ModelError(f"dimension is the dimension of space of each particle, 1, 2 or 3, not {dimension!r}")
        if dimension and self.n % dimension:
            raise ModelError(f"{self.n} coordinates cannot be particles in {dimension} dimensions")
        self.dimension = dimension
        self.parameters: dict[str, np.ndarray] = {}
        for key, value in _mapping("parameters", parameters).items():
            if key in (*ARGUMENTS, "x", "y", "z", "invariants") or not key.isidentifier():
                raise ModelError(f"a parameter cannot be called {key!r}: that name has a meaning of its own")
            self.parameters[key] = _numbers(f"parameter {key!r}", value)
        self._functions: dict[str, ca.Function] = {}
        self._steps: dict[Any, Any] = {}
        self.q = SX.sym("q", self.n)
        self.v = SX.sym("v", self.n)
        self.p = SX.sym("p", self.n)
        self.t = SX.sym("t")
        self.u = SX.sym("u", 0)
        self.par = SX.sym("par", sum(x.size for x in self.parameters.values()))
        self.initial = _mapping("initial", initial)
        for key in self.initial:
            if key not in ("q", "v", "p"):
                raise ModelError(f"initial values are called q, v or p, not {key!r}")
        self.picture: Picture | None = None

    # ---- building ---------------------------------------------------------------------------------------

    def _arguments(self) -> dict[str, Any]:
        """All names that a model function may use, as symbols with NumPy's shapes."""
        known = {name: tracing.symbols(getattr(self, name), (getattr(self, name).numel(),)) for name in ("q", "v", "p")}
        known["t"] = tracing.symbols(self.t, ())
        known["u"] = tracing.symbols(self.u, (self.u.numel(),))
        return known

    def _parameter_symbols(self) -> dict[str, Any]:
        out, start = {}, 0
        for key, value in self.parameters.items():
            out[key] = tracing.symbols(self.par[start : start + value.size], value.shape)
            start += value.size
        return out

    def _trace(self, role: str, function: Any, allowed: Sequence[str], extra: Mapping[str, Any] | None = None) -> Any:
        known = {**self._arguments(), **(extra or {})}
        arguments = {key: known[key] for key in allowed if key in known} | self._parameter_symbols()
        if not (isinstance(function, str) and not callable(function)):
            return tracing.call(role, function, arguments, known | arguments)
        raise ModelError(f"{role} must be a function or a constant, not the string {function!r}")

    def _define(self, role: str, expression: Any) -> None:
        inputs = [self.q, self.v, self.p, self.t, self.u, self.par]
        self._functions[role] = ca.Function(role, inputs, [expression], [*ARGUMENTS, "par"], [role])

    def _finite(self, value: Any, role: str) -> None:
        """Refuse nan written into a model as a constant."""
        for i, element in enumerate(value.nonzeros()):
            if element.is_constant() and not np.isfinite(float(element)):
                raise ModelError(f"{role} has {float(element)} as its entry {i + 1}")

    # ---- evaluating -------------------------------------------------------------------------------------

    def has(self, role: str) -> bool:
        """Whether the system has this role, with an entry that is not structurally zero."""
        return role in self._functions and self._functions[role].nnz_out(0) > 0

    def depends(self, role: str, *names: str) -> bool:
        """Whether a role depends on any of the named arguments."""
        if not self.has(role):
            return False
        f = self._functions[role]
        return any(f.jac_sparsity(0, [*ARGUMENTS, "par"].index(name)).nnz() > 0 for name in names)

    def expression(self, role: str, q: Any = None, v: Any = None, t: Any = None, u: Any = None, p: Any = None) -> Any:
        """A role evaluated at symbols (the system's own where none is given), parameters symbolic."""
        given = dict(zip(ARGUMENTS, (q, v, p, t, u), strict=True))
        arguments = [getattr(self, k) if x is None else x for k, x in given.items()]
        return self._functions[role](*arguments, self.par)

    def numeric(self, role: str, par: np.ndarray, **arguments: Any) -> np.ndarray:
        """A role evaluated at numbers; arguments may be stacked with time first, and so is the result."""
        if role not in self._functions:
            self._define(role, self._derived(role))
        f = self._functions[role]
        arrays = {k: np.atleast_1d(np.asarray(x, dtype=float)) for k, x in arguments.items() if x is not None}
        count = max((1 if a.ndim == 1 and k != "t" else len(a) for k, a in arrays.items()), default=1)
        rows = []
        for name in ARGUMENTS:
            a = arrays.get(name)
            if a is None:
                rows.append(np.zeros(f.size1_in(name)))
            elif name == "t":
                rows.append(np.broadcast_to(a, (count,))[:, None])
            else:
                rows.append(a)
        values = dense(batch(f, [*rows, par], count)[0], f.sparsity_out(0))
        return values[:, :, 0] if f.size2_out(0) == 1 else values

    def _derived(self, role: str) -> Any:
        """Expressions that follow from the given roles, made when first asked for."""
        if role == "normal":  # dg/dq of the holonomic constraints
            return ca.jacobian(self.expression("holonomic"), self.q) if self.mh else SX(0, self.n)
        if role == "jacobian":  # all constraints at velocity level are jacobian @ v + rate: holonomic ones first
            rows = self.role("normal")
            if self.has("kinematics"):
                rows = rows @ self.expression("kinematics")
            return ca.vertcat(rows, ca.jacobian(self.expression("nonholonomic"), self.v)) if self.mn else rows
        if role == "rate":  # g_t, and what A(q) v + a(q, t) has beside A v
            own = ca.jacobian(self.expression("holonomic"), self.t) if self.mh else SX(0, 1)
            return ca.vertcat(own, self.expression("nonholonomic", v=SX.zeros(self.nv))) if self.mn else own
        if role == "drift":  # the constraints at velocity level
            return ca.densify(self.role("jacobian") @ self.v + self.role("rate"))
        if role == "curvature":  # the rate of `drift` at a constant v: (G v)_q v + 2 G_t v + g_tt for holonomic constraints
            drift = self.role("drift")
            return ca.jtimes(drift, self.q, self.qdot(self.q, self.v)) + ca.jacobian(drift, self.t)
        raise KeyError(role)

    @property
    def drawn(self) -> bool:
        """Whether there are points to draw."""
        return "points" in self._functions

    @property
    def moving(self) -> bool:
        """Whether a constraint moves by itself: `g_t` or `a(q, t)` is not zero."""
        return bool(self.m) and ca.sparsify(self.role("rate")).nnz() > 0

    def qdot(self, q: Any, v: Any) -> Any:
        """`q'` for a velocity: `v` itself, or `Z(q) v`."""
        return self.expression("kinematics", q=q) @ v if self.has("kinematics") else v

    def role(self, role: str, **arguments: Any) -> Any:
        """Like `expression`, for given and derived roles alike."""
        if role not in self._functions:
            self._define(role, self._derived(role))
        return self.expression(role, **arguments)

    @property
    def mh(self) -> int:
        """Number of holonomic constraints."""
        return int(self._functions["holonomic"].size1_out(0)) if "holonomic" in self._functions else 0

    @property
    def mn(self) -> int:
        """Number of nonholonomic constraints."""
        return int(self._functions["nonholonomic"].size1_out(0)) if "nonholonomic" in self._functions else 0

    @property
    def m(self) -> int:
        """Number of all constraints, which is that of the multipliers: holonomic ones first."""
        return self.mh + self.mn

    @property
    def nv(self) -> int:
        """Number of velocities: that of the coordinates, unless `kinematics` says otherwise."""
        return int(self.v.numel())

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return int(self.u.numel())

    def size_of(self, name: str) -> int:
        """How many entries an initial value has."""
        return int(getattr(self, {"y": "q", "z": "v"}.get(name, name)).numel())

    def pack(self, overrides: Mapping[str, Any] | None = None) -> np.ndarray:
        """The parameter vector, with some values replaced."""
        overrides = _mapping("parameters", overrides)
        parts = []
        for key, default in self.parameters.items():
            value = _numbers(f"parameter {key!r}", overrides.pop(key, default))
            if value.shape != default.shape:
                raise ModelError(f"parameter {key!r} has the shape {value.shape}, it was declared with {default.shape}")
            parts.append(value.ravel())
        if overrides:
            name = next(iter(overrides))
            raise ModelError(f"{self.name} has no parameter {name!r}{suggest(name, self.parameters)}")
        return np.concatenate(parts) if parts else np.zeros(0)

    def unpack(self, par: np.ndarray) -> dict[str, np.ndarray]:
        """The parameter vector as a dictionary."""
        out, start = {}, 0
        for key, default in self.parameters.items():
            out[key] = np.asarray(par[start : start + default.size]).reshape(default.shape)
            start += default.size
        return out

    def __repr__(self) -> str:
        parts = [f"{self.n} coordinates"]
        parts += [f"{self.mh} holonomic constraints"] * bool(self.mh)
        parts += [f"{self.mn} nonholonomic constraints"] * bool(self.mn)
        parts += [f"{self.nu} inputs"] * bool(self.nu)
        return f"<{type(self).__name__} {self.name!r}: {', '.join(parts)}>"

    # ---- to a file and back -----------------------------------------------------------------------------

    def dumps(self) -> str:
        """The whole system as text, its functions included."""
        return json.dumps(
            {
                "class": type(self).__name__,
                "coordinates": self.coordinates,
                "name": self.name,
                "dimension": self.dimension,
                "inputs": self.nu,
                "parameters": {k: v.tolist() for k, v in self.parameters.items()},
                "initial": {k: np.asarray(v).tolist() for k, v in self.initial.items()},
                "picture": self.picture and self.picture.parts(),
                "functions": {k: f.serialize() for k, f in self._functions.items() if k in self.given},
            }
        )

    @staticmethod
    def loads(text: str) -> System:
        """The inverse of `dumps`."""
        data = json.loads(text)
        cls = System._classes[data["class"]]
        self = cls.__new__(cls)
        System.__init__(self, data["coordinates"], data["parameters"], data["name"], data["initial"], data["dimension"])
        self.u = SX.sym("u", data["inputs"])
        self._functions = {k: ca.Function.deserialize(f) for k, f in data["functions"].items()}
        first = next(iter(self._functions.values()))
        self.v, self.p = SX.sym("v", first.size1_in("v")), SX.sym("p", first.size1_in("p"))
        for key in ("ports", "constraint"):
            if data.get(key):
                value = _tuples(data[key]) if key == "ports" else tuple(data[key])
                setattr(self, "ports" if key == "ports" else "_constraint", value)
        if data["picture"]:
            self.picture = Picture(**{k: _tuples(x) for k, x in data["picture"].items()})
        return self

    def __getstate__(self) -> str:
        return self.dumps()

    def __setstate__(self, text: str) -> None:
        self.__dict__.update(System.loads(text).__dict__)


def _mapping(what: str, value: Any) -> dict[str, Any]:
    """A dictionary with names as keys."""
    try:
        out = dict(value or {})
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} must be a dictionary of names and values, not {value!r}") from error
    for key in out:
        if not isinstance(key, str):
            raise ModelError(f"{what} must have names as keys, not {key!r}")
    return out


def _tuples(x: Any) -> Any:
    return tuple(_tuples(y) for y in x) if isinstance(x, list) else x


def _names(coordinates: Sequence[str] | int) -> tuple[str, ...]:
    if isinstance(coordinates, bool):
        raise ModelError(f"coordinates is a tuple of names or a number, not {coordinates}")
    if isinstance(coordinates, (int, np.integer)):
        if coordinates < 1:
            raise ModelError(f"a system needs at least one coordinate, not {coordinates}")
        return tuple(f"q{i}" for i in range(int(coordinates)))
    if isinstance(coordinates, str):
        raise ModelError(f"coordinates is a tuple of names or a number; for one name write ({coordinates!r},)")
    try:
        names = tuple(str(c) for c in coordinates)
    except TypeError as error:
        raise ModelError(f"coordinates is a tuple of names or a whole number, not {coordinates!r}") from error
    if not names:
        raise ModelError("a system needs at least one coordinate")
    if len(set(names)) < len(names):
        raise ModelError(f"the coordinate {max(names, key=names.count)!r} is named twice")
    return names


def _numbers(what: str, value: Any) -> np.ndarray:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} must be a number or an array of numbers, not {value!r}") from error
    if not np.isfinite(array).all():
        raise ModelError(f"{what} is not finite: {value!r}")
    return array


def square(role: str, value: Any, n: int) -> Any:
    """A scalar (times identity), a diagonal, or a full matrix, as an n x n SX."""
    if value.is_scalar() and n != 1:
        value = value if value.nnz() else SX(0.0)
        return ca.diag(ca.repmat(value, n, 1))
    if value.is_vector() and value.numel() == n and n != 1:
        return ca.sparsify(ca.diag(ca.densify(ca.vec(value))))
    if value.shape != (n, n):
        raise ModelError(f"{role} has the shape {value.shape}; expected {n} x {n}, a diagonal of {n} entries, or a scalar")
    return value


def column(role: str, value: Any, size: int | None = None) -> Any:
    """A vector as a dense column, its length checked."""
    if not value.is_vector() and value.numel() > 0:
        raise ModelError(f"{role} must return a vector, got the shape {value.shape}")
    value = ca.vec(value)
    if size is not None and value.numel() != size:
        raise ModelError(f"{role} must return {size} entries, one for each coordinate, got {value.numel()}")
    return value


def scalar(role: str, value: Any) -> Any:
    """One number, checked."""
    if not value.is_scalar():
        raise ModelError(f"{role} must return one number, got the shape {value.shape}")
    return ca.densify(value)
