"""Systems that are made of elements: what these add to a role, and the same system with vectors in place of numbers.

Where elements are many, nothing of theirs is written out. The system then has a twin whose symbols are vectors (CasADi's `MX`):
in its expressions an element is one call of its local function for all repetitions. The functions of the system are those of
the twin; an expression in single numbers is made only where one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.systems import scales
from dalembert.systems.base import System
from dalembert.systems.cache import Cache
from dalembert.systems.repeated import Indices, Repeated

COMPOSED = ("potential", "holonomic", "dissipation", "force")
LARGE = 1_900  # operations of elements, beyond which they are not written out
MANY = 100  # coordinates: elements of fewer are always written out


def large(n: int, elements: tuple[Repeated, ...]) -> bool:
    """Whether elements are too many to be written out."""
    return n > MANY and sum(e.count * sum(e.local(role).n_instructions() for role in e.roles) for e in elements) > LARGE


@dataclass(frozen=True)
class Parts:
    """What a role is made of: a function `own(x, t, par)` of single numbers, and elements that have the role.

    `x` is `q`, or `(q, v)` where it is `wide`. A potential is the sum of its parts, constraints come one after another, or
    in an order of their own.
    """

    role: str
    own: ca.Function
    repeated: tuple[Repeated, ...]
    wide: bool = False
    order: Indices | None = None

    @property
    def added(self) -> bool:
        return self.role == "potential"


class Composed(System):
    """A system that may be made of elements."""

    q: SX
    v: SX
    repeated: tuple[Repeated, ...] = ()  # the elements that it is made of
    many: bool = False  # whether these are too many to be written out
    scalars: Self | None = None  # the system whose twin this is
    order: Indices | None = None  # where each constraint is among its own and then those of elements, if not in this order

    @property
    def nv(self) -> int:
        """Number of velocities: that of the coordinates, unless `kinematics` says otherwise."""
        return self.size_of("v")

    def _compose(self, role: str, own: SX | None) -> None:
        """Define a role by its own part and what elements add to it; where these are many, that is left for later."""
        if not self.repeated:
            if own is not None:
                self._define(role, own)
            return
        if own is not None:
            self._define(f"own_{role}", own)
        if not self.many and (value := added(self, role)) is not None:
            self._define(role, value)

    def own(self, role: str) -> SX:
        """The part of a role that is not made of elements."""
        name = f"own_{role}" if self.repeated else role
        missing = {"potential": (1, 1), "holonomic": (0, 1), "dissipation": (self.nv,) * 2, "force": (self.nv, 1)}
        if role in missing and name not in self._functions:
            return type(self.t)(*missing[role])
        return self.role(name)

    @property
    def vectors(self) -> Self:
        """The same system with vectors for symbols, where its elements are many; else itself."""
        if not self.many or self.scalars is not None:
            return self
        return self.cache.get(type(self), "vectors", lambda: twin(self))

    def function(self, role: str) -> ca.Function:
        if role not in self._functions:
            if self.scalars is not None and role.startswith("own_"):
                self._adopt(role, lifted(self.scalars.function(role), self.scalars, self))
            elif self.vectors is not self and not role.startswith("own_"):
                self._adopt(role, self.vectors.function(role))
        return super().function(role)

    def expression(self, role: str, **given: SX | None) -> SX:
        if self.many and role in COMPOSED:
            self.function(role)
        return super().expression(role, **given)

    def _with_elements(self, role: str) -> bool:
        """Whether a role is made of elements that are not written out."""
        return self.many and role in COMPOSED and any(role in e.roles for e in self.repeated)

    def has(self, role: str) -> bool:
        return super().has(role) or self._with_elements(role) or (self.many and super().has(f"own_{role}"))

    def depends(self, role: str, *names: str) -> bool:
        if not (self.many and role in COMPOSED):
            return super().depends(role, *names)
        mine = super().depends(f"own_{role}", *names)
        return mine or any(e.depends(role, name) for e in self.repeated for name in names)

    def stated(self) -> list[str]:
        return list(dict.fromkeys([*super().stated(), *(role for role in COMPOSED if self.many and self.has(role))]))

    def own_pattern(self) -> ca.Sparsity:
        """Which own velocities and constraints contain which of `(q, v)`, without what elements add."""
        own, mass = [self.own(role) for role in ("slope", "force")], self.expression("mass")
        moved = ca.sparsify(sum(own, self.own("dissipation") @ self.v))
        if self.depends("mass", "q") or not mass.sparsity().is_diag():
            moved += mass @ self.v
        drift = ca.densify(self.own("normal") @ self.v)
        if not moved.nnz() and not drift.numel():  # nothing but elements: there is no need to look
            return ca.Sparsity(2 * self.n, 2 * self.n)
        return scales.pattern((self.q, self.v), (SX(self.nv, 1), moved), drift)

    def parts_of(self, role: str) -> Parts | None:
        """What the potential, the constraints or their rates are made of, as functions of `(q, t)` or `((q, v), t)`."""
        if not self.repeated:
            return None
        s, wide = self.scalars or self, role == "drift"
        given = "holonomic" if wide else role
        own = s.own("normal") @ s.v + s.own("normal_rate") if wide else s.own(role)
        x = ca.vertcat(s.q, s.v) if wide else s.q
        function = ca.Function("own", [x, s.t, s.par], [ca.densify(own)], ["x", "t", "par"], ["own"])
        order = self.order if given == "holonomic" else None
        return Parts(role, function, tuple(e for e in self.repeated if given in e.roles), wide, order)

    def adopt(self, found: Sequence[Repeated], left: Mapping[str, SX]) -> None:
        """Take on parts that were found to repeat; `left` has what is left of the roles that they were found in."""
        own = {role: left[role] if role in left else self.own(role) for role in COMPOSED if self.has(role)}
        before = self._own
        after = int(own["holonomic"].numel()) if "holonomic" in own else 0
        others = sum(e.constraints * e.count for e in self.repeated)
        order = np.arange(before + others)
        rows = np.concatenate([e.rows for e in found if e.constraints] or [np.zeros(0, dtype=np.int64)])
        order[np.setdiff1d(np.arange(before), rows)] = np.arange(after)
        order[before:] = after + np.arange(others)
        order[rows] = after + others + np.arange(len(rows))
        self.order = None if np.array_equal(order, np.arange(len(order))) else order
        self.repeated, self.many, self.cache = (*self.repeated, *found), True, Cache()  # functions that go are not kept either
        self._functions = {r: f for r, f in self._functions.items() if r.removeprefix("own_") not in COMPOSED}
        for role, value in own.items():
            self._compose(role, value if value.nnz() or role == "potential" else None)

    def in_order(self, rows: SX) -> SX:
        """Rows of the holonomic constraints, own ones first and then those of elements, in the order of the system."""
        return rows if self.order is None else rows[self.order.tolist(), :]

    @property
    def _own(self) -> int:
        """The number of holonomic constraints that are not those of elements; they are the first, before `order`."""
        f = self._functions.get("own_holonomic" if self.repeated else "holonomic")
        return 0 if f is None else int(f.size1_out(0))


def added(s: Composed, role: str) -> SX | None:
    """A role with what elements add to it; None where neither they nor the system have it."""
    have = [e for e in s.repeated if role in e.roles]
    own = [s.expression(f"own_{role}")] if f"own_{role}" in s._functions else []
    if not own and not have:
        return None
    if role == "holonomic":
        return s.in_order(ca.densify(ca.vertcat(*own, *(ca.vec(e.values(role, s)) for e in have))))
    of_element: dict[str, Callable[[Repeated], SX]] = {
        "potential": lambda e: e.total(s),
        "dissipation": lambda e: e.matrix(s),
        "force": lambda e: e.column("force", s),
    }
    first, *others = [*own, *(of_element[role](e) for e in have)]
    return sum(others, first)


S = TypeVar("S", bound=Composed)


def twin(s: S) -> S:
    """The same system with vectors for symbols."""
    out = copy(s)
    for name in (*s.arguments, "par"):
        setattr(out, name, ca.MX.sym(name, getattr(s, name).numel()))
    out.scalars = s
    out._functions = {role: lifted(f, s, out) for role, f in s._functions.items() if role != "points"}  # which s itself draws
    return out


def lifted(function: ca.Function, s: Composed, other: Composed) -> ca.Function:
    """A function of single numbers as one of the vectors of the twin, which sees those that it depends on."""
    symbols, vectors, own = s.symbols(), other.symbols(), s.expression(function.name())
    used = [i for i, x in enumerate(symbols) if x.numel() and ca.depends_on(own, x)]
    lean = ca.Function(function.name(), [symbols[i] for i in used], [own])
    names = [*s.arguments, "par"], [function.name()]
    return ca.Function(function.name(), vectors, lean.call([vectors[i] for i in used]), *names)


def groups(s: Composed) -> scales.Groups:
    """Which coordinates, velocities and constraints act on each other; see `scales.groups`."""
    n, own = s.n, s.scalars if s.scalars is not None else s
    first = [np.stack([np.arange(n), n + np.arange(n)])]
    first += [np.array(own.own_pattern().get_triplet(), dtype=np.int64)]
    start = 2 * n + s._own
    for e in s.repeated:
        first += list(_coupled(e, n, start))
        start += e.constraints * e.count
    out = scales.labelled((n, n), s.m, np.hstack(first))
    if s.order is None:
        return out
    return replace(out, rows=(*(out.rows[k] for k in s.order), *out.rows[len(s.order) :]))


def _coupled(e: Repeated, n: int, start: int) -> Iterator[Indices]:
    """Which entries of `(q, v, constraints)` one element couples, pair by pair."""
    for role in e.roles:
        derived = "slope" if role == "potential" else role
        f = e.local(derived)
        for argument, offset in ((0, 0), (1, n)):
            i, j = (np.array(x, dtype=np.int64) for x in f.jac_sparsity(0, argument).get_triplet())
            if role == "dissipation":
                i = i % e.size
            rows = n + e.index[:, i]
            if role == "holonomic":
                rows = start + e.constraints * np.arange(e.count)[:, None] + i
                yield np.stack([rows.ravel(), n + e.index[:, j].ravel()])
            yield np.stack([rows.ravel(), offset + e.index[:, j].ravel()])
        if role == "dissipation":
            i, j = e.pattern(role)
            yield np.stack([n + e.index[:, i].ravel(), n + e.index[:, j].ravel()])
