"""Elements: a function of a few local coordinates, repeated over a system.

A spring, a rod or a damper is written once, as a function of its own coordinates, and `nodes` says which coordinates of the
system these are, one row for each repetition. The function is traced once.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.checking import shown, text, whole
from dalembert.errors import ModelError, strict
from dalembert.systems import tracing
from dalembert.systems.repeated import ROLES, Indices, Repeated
from dalembert.systems.shapes import Array, column, mapping, numbers, scalar, square
from dalembert.systems.tracing import Model

if TYPE_CHECKING:
    from dalembert.systems.composed import Composed


@strict
@dataclass(frozen=True, eq=False)
class Element:
    """A part of a `Mechanical` system that is repeated: a function of a few coordinates, and a table of these.

    Parameters
    ----------
    nodes
        Whole numbers, one row for each repetition: the indices in `q` of its local coordinates. With `dimension` they are numbers
        of particles instead.
    potential
        `V(q, t)` of one repetition; the system's is the sum of all.
    holonomic
        `g(q, t)`, one constraint or a vector of them; those of the first row come first, after the system's own.
    dissipation
        Rayleigh matrix `R(q, v)` of the local velocities: a matrix, its diagonal, or one number.
    force
        Applied force `f(q, v, t, u)` on the local coordinates.
    parameters
        Names with one number for all repetitions, or with an array that has one row for each. They become parameters of
        the system: `simulate(parameters=...)` replaces them. Parameters of the system can be used by name too; a list of their
        names, one for each repetition, says which of them each one uses.
    dimension
        Dimension of space, where nodes are particles: particle `i` has the coordinates `dimension * i` and following, and
        `q` and `v` are matrices with one row for each particle.
    name
        What the element is called in messages.

    Notes
    -----
    Arguments of functions are matched by name: `q`, `v`, `t`, `u` and any parameter, as in `Mechanical`.
    """

    nodes: ArrayLike
    potential: Model | None = None
    holonomic: Model | None = None
    dissipation: Model | None = None
    force: Model | None = None
    parameters: Mapping[str, ArrayLike] | None = None
    dimension: int | None = None
    name: str = "element"
    named: Mapping[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        text("name", self.name, ModelError)
        if all(getattr(self, role) is None for role in ROLES):
            raise ModelError(f"{self.name} does nothing: give it a potential, a holonomic constraint, a dissipation or a force")
        named, given = {}, {}
        for key, x in mapping("parameters", self.parameters).items():
            if isinstance(x, (list, tuple)) and x and all(isinstance(name, str) for name in x):
                named[key] = tuple(x)
            else:
                given[key] = numbers(f"{self.name}: parameter {key!r}", x)
        object.__setattr__(self, "parameters", given)
        object.__setattr__(self, "named", named)
        if self.dimension is not None and whole("dimension", self.dimension, ModelError) > 3:
            raise ModelError(f"{self.name}: dimension is the dimension of space, 1, 2 or 3, not {self.dimension!r}")
        nodes = self._numbers()
        object.__setattr__(self, "nodes", nodes)
        for key, value in (given | named).items():
            if np.ndim(value) and len(value) != len(nodes):
                raise ModelError(
                    f"{self.name}: parameter {key!r} has {len(value)} rows, but nodes has {len(nodes)}; give one row for each, "
                    "one number for all, or make it a parameter of the system"
                )

    def _numbers(self) -> Indices:
        """The nodes as a table of whole numbers."""
        try:
            nodes = np.array(self.nodes)
        except ValueError as error:
            raise ModelError(f"{self.name}: nodes must be a table with rows of one length: {error}") from error
        if nodes.ndim != 2 or not nodes.size or nodes.dtype.kind not in "iu":
            what = f"the shape {nodes.shape} and the type {nodes.dtype}"
            raise ModelError(f"{self.name}: nodes must be a table of whole numbers, one row for each repetition; it has {what}")
        if nodes.min() < 0:
            raise ModelError(f"{self.name}: nodes are counted from 0, {nodes.min()} is none")
        return nodes.astype(np.int64)


class Bound(Repeated):
    """An element in a system."""

    def __init__(self, system: Composed, element: Element) -> None:
        self.element, self.name, nodes = element, element.name, np.asarray(element.nodes)
        d = element.dimension
        index = nodes if d is None else (nodes[:, :, None] * d + np.arange(d)).reshape(len(nodes), -1).astype(np.int64)
        if index.max() >= system.n:
            what = f"{system.n} coordinates" if d is None else f"{system.n // d} particles in {d} dimensions"
            raise ModelError(f"{self.name}: nodes has the number {nodes.max()}, but the system has {what}, counted from 0")
        if system.nv != system.n:
            raise ModelError(f"{self.name}: elements do not go with kinematics: velocities are not those of the coordinates")
        super().__init__(system, index)
        self._arrange(system)
        self.roles = {role: self._trace(system, role) for role in ROLES if getattr(element, role) is not None}

    def _arrange(self, system: Composed) -> None:
        """The parameters that its functions use: symbols for one row, and where the values of all rows are."""
        functions = [f for role in ROLES if callable(f := getattr(self.element, role))]
        used = {name for f in functions for name in _arguments(f)}
        places, start = [], 0
        self.arguments: dict[str, object] = {}
        own: dict[str, Array] = dict(self.element.parameters or {})  # type: ignore[arg-type]  # made so
        symbols, found = [], {}
        for name, value in system.parameters.items():
            found[name] = (start, value.shape)
            if name in used and name not in self.element.named:
                rows = name in own and value.ndim > 0
                shape = value.shape[1:] if rows else value.shape
                size = int(np.prod(shape))
                at = start + np.arange(size) + (size * np.arange(self.count)[:, None] if rows else 0)
                places.append(np.broadcast_to(at, (self.count, size)))
                symbols.append(SX.sym(name, size))
                self.arguments[name] = tracing.symbols(symbols[-1], shape)
            start += value.size
        for name, others in self.element.named.items():
            if name in used:
                at, shape = self._places(name, others, found)
                places.append(at)
                symbols.append(SX.sym(name, at.shape[1]))
                self.arguments[name] = tracing.symbols(symbols[-1], shape)
        self.par = ca.vertcat(*symbols) if symbols else SX(0, 1)
        self.places: Indices = np.hstack(places).astype(np.int64) if places else np.zeros((self.count, 0), dtype=np.int64)

    def _places(
        self, name: str, others: Sequence[str], found: Mapping[str, tuple[int, tuple[int, ...]]]
    ) -> tuple[Indices, tuple[int, ...]]:
        """Where the parameters of the system are that the rows use, and the shape that they have."""
        for other in others:
            if other not in found:
                raise ModelError(f"{self.name}: parameter {name!r} is to be {other!r}, which is none of the system's")
        shape = found[others[0]][1]
        odd = next((other for other in others if found[other][1] != shape), None)
        if odd is not None:
            raise ModelError(f"{self.name}: {odd!r} has the shape {found[odd][1]}, {others[0]!r} has {shape}")
        return np.array([found[other][0] for other in others])[:, None] + np.arange(int(np.prod(shape))), shape

    def _trace(self, system: Composed, role: str) -> SX:
        """One of its functions, called with local symbols; its shape checked."""
        d, what = self.element.dimension, f"{self.name}: {role}"
        shape = (self.size,) if d is None else (self.size // d, d)
        known: dict[str, object] = {name: tracing.symbols(getattr(self, name), shape) for name in ("q", "v")}
        known |= {"t": tracing.symbols(self.t, ()), "u": tracing.symbols(self.u, (self.nu,))}
        allowed = {"force": ("q", "v", "t", "u"), "dissipation": ("q", "v", "t")}.get(role, ("q", "t"))
        arguments = {name: known[name] for name in allowed} | self.arguments
        value = tracing.call(what, getattr(self.element, role), arguments, known | arguments)
        if role == "potential":
            value = scalar(what, value)
        elif role == "dissipation":
            value = square(what, value, self.size)
        elif role == "force":
            value = ca.densify(_flat(what, value, self.size))
        else:
            value = ca.densify(column(what, value))
            acting = set(ca.jacobian_sparsity(value, self.q).row())
            for i in range(value.numel()):
                if i not in acting:
                    raise ModelError(f"{what}: constraint {i + 1} does not depend on q")
        system._finite(value, what)
        return value

    def pairs(self) -> list[tuple[int, int]]:
        """The particles that it joins, where it joins two."""
        nodes = np.asarray(self.element.nodes)
        joined = self.element.dimension in (2, 3) and nodes.shape[1] == 2
        return list(map(tuple, nodes.astype(int).tolist())) if joined else []


def _arguments(function: Model) -> list[str]:
    """The names of the arguments of a function; none where they cannot be told, which is said when it is called."""
    try:
        return list(inspect.signature(function).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []


def _flat(what: str, value: SX, size: int) -> SX:
    """A vector with an entry for each local coordinate; of a matrix, with a row for each particle, row by row."""
    if value.numel() != size:
        raise ModelError(f"{what} must return {size} entries, one for each local coordinate, got the shape {value.shape}")
    return ca.vec(value if value.is_vector() else value.T)


def parameters_of(elements: Sequence[Element] | None, own: Mapping[str, ArrayLike] | None) -> dict[str, ArrayLike]:
    """The parameters of a system with those of its elements; a name has one owner."""
    out: dict[str, ArrayLike] = mapping("parameters", own)
    for element in _listed(elements):
        for key, value in (element.parameters or {}).items():
            if key in out:
                raise ModelError(
                    f"{element.name}: there is another parameter {key!r}; give this one another name, or make one of the system"
                )
            out[key] = value
    return out


def _listed(elements: Sequence[Element] | None) -> list[Element]:
    if isinstance(elements, Element):
        raise ModelError("elements is a list: write elements=[da.Element(...)]")
    try:
        out = [] if elements is None else list(elements)
    except Exception as error:  # iteration runs code of the value's own type
        raise ModelError(f"elements must be a list of da.Element(...), not {shown(elements)}") from error
    for element in out:
        if not isinstance(element, Element):
            raise ModelError(f"elements must be a list of da.Element(...); {shown(element)} is none")
    return out


def repeated(system: Composed, elements: Sequence[Element] | None) -> tuple[Bound, ...]:
    """The elements of a system, bound to it."""
    return tuple(Bound(system, element) for element in _listed(elements))
