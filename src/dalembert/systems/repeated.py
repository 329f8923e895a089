"""A function of a few coordinates that is repeated over a system, and where what it gives belongs.

The local functions are those of one repetition. Their values and derivatives are evaluated for all rows of a table of
coordinates by CasADi's `map` and added to where they belong, so that the work in Python does not depend on the number of rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.systems import scales

if TYPE_CHECKING:
    from dalembert.systems.composed import Composed

Indices = NDArray[np.int64]
Numbers = NDArray[np.float64]
E = TypeVar("E", SX, ca.MX)
ROLES = ("potential", "holonomic", "dissipation", "force")


class Repeated:
    """Local functions of `(q, v, t, u, par)` by role, and the tables of what these are in a system, one row for each repetition.

    `index` has the coordinates, `places` the entries of the system's parameters with `numbers` after them.
    """

    name = "element"
    numbers: Numbers = np.zeros(0)  # constants that are not the same for all repetitions
    par: SX
    places: Indices
    roles: dict[str, SX]
    rows: Indices = np.zeros(0, dtype=np.int64)  # what they were among the rows or terms in which they were found

    def __init__(self, system: Composed, index: Indices) -> None:
        self.index = index
        self.count, self.size, self.nu, self.n = len(index), index.shape[1], system.nu, system.n
        self.q, self.v = SX.sym("q", self.size), SX.sym("v", self.size)
        self.t, self.u = SX.sym("t"), SX.sym("u", self.nu)
        self._made: dict[str, ca.Function] = {}

    def local(self, role: str) -> ca.Function:
        """A role, or what is derived from it, as a function of the local coordinates."""
        if role not in self._made:
            value = self.roles[role] if role in self.roles else self._derived(role)
            self._made[role] = ca.Function(role, [self.q, self.v, self.t, self.u, self.par], [value])
        return self._made[role]

    def _derived(self, role: str) -> SX:
        if role == "slope":
            return ca.densify(ca.gradient(self.roles["potential"], self.q))
        if role == "normal":
            return ca.jacobian(self.roles["holonomic"], self.q)
        if role == "drag":
            return ca.densify(self.roles["dissipation"] @ self.v)
        if role == "rate":
            return ca.densify(ca.jacobian(self.roles["holonomic"], self.t))
        if role == "drift":
            return ca.densify(self.expression("normal") @ self.v + self.expression("rate"))
        if role == "radius":
            return scales.radii(self.expression("normal"), self.q)
        raise KeyError(role)

    def expression(self, role: str) -> SX:
        """A role, or what is derived from it, in the symbols of one repetition."""
        return self.local(role)(self.q, self.v, self.t, self.u, self.par)

    def variables(self, wide: bool) -> SX:
        """The local coordinates, with the velocities where they are `wide`."""
        return ca.vertcat(self.q, self.v) if wide else self.q

    def places_of(self, wide: bool) -> Indices:
        """Where these are in a vector like `q`, or like `(q, v)`."""
        return np.hstack([self.index, self.n + self.index]) if wide else self.index

    def constants(self, par: SX) -> SX:
        """The parameters of all repetitions, one column for each."""
        known = ca.vertcat(par, ca.DM(self.numbers)) if self.numbers.size else par
        return ca.reshape(known[self.places.ravel().tolist()], self.places.shape[1], self.count)

    def values(self, role: str, s: Composed) -> SX:
        """A role of all repetitions side by side, in the symbols of the system."""
        f, (q, v, t, u, par) = self.local(role), (s.q, s.v, s.t, s.u, s.par)
        at = {0: lambda: gathered(q, self.index), 1: lambda: gathered(v, self.index), 4: lambda: self.constants(par)}
        return mapped(f, self.count, *(at[i]() if i in at and used(f, i) else x for i, x in enumerate((q, v, t, u, par))))[0]

    def total(self, s: Composed) -> SX:
        """The potential of all."""
        return total(ca.vec(self.values("potential", s)))

    def column(self, role: str, s: Composed) -> SX:
        """Local vectors, added to where they belong in one like `q`."""
        places = self.index.ravel()
        return ca.densify(scattered(ca.vec(self.values(role, s)), places, np.zeros_like(places), (s.n, 1)))

    def matrix(self, s: Composed) -> SX:
        """Local matrices of dissipation, added to where they belong."""
        i, j = self.pattern("dissipation")
        rows, columns = self.index[:, i].ravel(), self.index[:, j].ravel()
        return scattered(self.values("dissipation", s).nz[:], rows, columns, (s.n, s.n))

    def normal(self, s: Composed) -> SX:
        """`dg/dq` of its constraints."""
        i, j = self.pattern("normal")
        rows = (self.constraints * np.arange(self.count)[:, None] + i).ravel()
        return scattered(self.values("normal", s).nz[:], rows, self.index[:, j].ravel(), (self.constraints * self.count, s.n))

    def rates(self, s: Composed) -> SX:
        """`g_t` of its constraints."""
        if not self.depends("holonomic", "t"):
            return type(s.t)(self.constraints * self.count, 1)
        return ca.vec(self.values("rate", s))

    def pattern(self, role: str) -> tuple[Indices, Indices]:
        """Rows and columns of the entries of a local matrix."""
        rows, columns = self.local(role).sparsity_out(0).get_triplet()
        return np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)

    @property
    def constraints(self) -> int:
        """Constraints of one repetition."""
        return int(self.roles["holonomic"].numel()) if "holonomic" in self.roles else 0

    def depends(self, role: str, name: str) -> bool:
        """Whether one of its roles depends on an argument."""
        names = ("q", "v", "t", "u")
        return role in self.roles and name in names and self.local(role).jac_sparsity(0, names.index(name)).nnz() > 0

    @cached_property
    def curved(self) -> Indices:
        """Its constraints that are not linear in `q`, counted over all repetitions."""
        own = scales.curved(self.expression("normal"), self.q)
        return (self.constraints * np.arange(self.count)[:, None] + np.array(own, dtype=np.int64)).ravel()

    def pairs(self) -> list[tuple[int, int]]:
        """The particles that it joins, where it was stated to join two."""
        return []


def total(x: SX) -> SX:
    """The sum of the entries of a vector, in halves: rounding adds up with the logarithm of their number."""
    while (n := x.numel()) > 1:
        half = n // 2
        x = ca.vertcat(x[:half] + x[half : 2 * half], x[2 * half :])
    return x


def gathered(x: E, index: Indices) -> E:
    """Entries of a vector, one column for each row of a table of their places."""
    return ca.reshape(x[index.ravel().tolist()], index.shape[1], len(index))


def mapped(function: ca.Function, count: int, *arguments: E) -> list[E]:
    """A function of single numbers for all repetitions, side by side; one column is the same for all of them.

    It sees the arguments that it depends on.
    """
    seen = [i for i in range(len(arguments)) if used(function, i)]
    own = function.sx_in()
    lean = ca.Function(function.name(), [own[i] for i in seen], function.call(own))
    if not seen:  # the same constants for all
        return [type(arguments[0])(ca.repmat(x, 1, count)) for x in lean.call([])]
    columns = [a if a.size2() == count else ca.repmat(a, 1, count) for a in (arguments[i] for i in seen)]
    out: list[E] = (lean.map(count) if count > 1 else lean).call(columns)
    return out


def used(function: ca.Function, i: int) -> bool:
    """Whether an output of a function depends on its argument number `i`."""
    return any(function.jac_sparsity(k, i).nnz() for k in range(function.n_out()))


def scattered(entries: E, rows: Indices, columns: Indices, shape: tuple[int, int]) -> E:
    """A matrix of entries at given places; several at one place are added."""
    keys, place = np.unique(columns * shape[0] + rows, return_inverse=True)
    kind, entries = type(entries), ca.vec(entries)
    if not len(keys):
        return kind(*shape)
    if len(keys) == len(place):
        values = entries[np.argsort(place).tolist()]
    else:
        pattern = ca.Sparsity(len(keys), len(place), list(range(len(place) + 1)), place.tolist())
        values = ca.densify(ca.DM(pattern, 1.0) @ entries)
    starts = np.searchsorted(keys // shape[0], np.arange(shape[1] + 1))
    return kind(ca.Sparsity(*shape, starts.tolist(), (keys % shape[0]).tolist()), values)
