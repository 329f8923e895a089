"""Jacobians of expressions of vectors, operation by operation: of what is mapped over repetitions the local one, mapped.

The derivative of each intermediate value by a symbol is a list of entries with their rows and columns, in which several may have
one place. Each operation is a sparse matrix `A` on that list, and most are selections, which cost nothing in numbers. Entries at
one place are added up once, at the end. CasADi's own Jacobians push one direction for each colour of the pattern through the
whole expression instead, 21 for a cloth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import casadi as ca
import numpy as np
from casadi import MX, SX
from numpy.typing import NDArray

from dalembert.systems.batch import nonzeros
from dalembert.systems.instructions import operation
from dalembert.systems.repeated import mapped, scattered

Indices = NDArray[np.int64]
Entries = MX | float  # a vector, or one number for all
RESHAPED = (ca.OP_RESHAPE, ca.OP_SPARSITY_CAST, ca.OP_ASSIGN)
CROWDED = 2  # entries at one place, beyond which they are added up before they are used


class Unknown(Exception):
    """An operation that is not known here."""


@dataclass(frozen=True, eq=False)
class Slope:
    """A sparse matrix: entries with their rows and columns, in any order; those at one place are added."""

    rows: Indices
    columns: Indices
    entries: Entries

    @classmethod
    def of(cls, matrix: MX) -> Slope:
        """A matrix by its nonzeros."""
        rows, columns = (np.array(x, dtype=np.int64) for x in matrix.sparsity().get_triplet())
        if matrix.is_constant():
            entries = np.unique(nonzeros(matrix.to_DM()))
            if len(entries) == 1:
                return cls(rows, columns, float(entries[0]))
        return cls(rows, columns, _nonzeros(matrix))

    @classmethod
    def selection(cls, columns: Indices, rows: Indices | None = None, factor: Entries = 1.0) -> Slope:
        return cls(np.arange(len(columns)) if rows is None else rows, columns, factor)

    @property
    def plain(self) -> bool:
        """Whether it is the identity."""
        own = isinstance(self.entries, float) and self.entries == 1.0
        return own and np.array_equal(self.rows, self.columns) and np.array_equal(self.rows, np.arange(len(self.rows)))

    def matrix(self, shape: tuple[int, int]) -> MX:
        return scattered(_filled(self), self.rows, self.columns, shape)

    def __matmul__(self, other: Slope) -> Slope:
        """The product, entry by entry."""
        order = np.argsort(other.rows, kind="stable")
        sorted_rows = other.rows[order]
        starts = np.searchsorted(sorted_rows, self.columns)
        counts = np.searchsorted(sorted_rows, self.columns, side="right") - starts
        first = np.repeat(np.arange(len(self.columns)), counts)
        within = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        second = order[np.repeat(starts, counts) + within]
        entries = _times(_taken(self.entries, first), _taken(other.entries, second))
        return Slope(self.rows[first], other.columns[second], entries)

    def gathered(self, width: int) -> Slope:
        """The same, with what is at one place added up where that is much."""
        keys = np.sort(self.columns * (1 + self.rows.max(initial=0)) + self.rows)
        if len(keys) <= CROWDED * (1 + np.count_nonzero(np.diff(keys))):
            return self
        matrix = self.matrix((int(self.rows.max()) + 1, width))
        return Slope.of(matrix)


def _nonzeros(x: MX) -> MX:
    """The nonzeros of a matrix as a column, also of one with a single row."""
    return ca.vec(x.nz[:])


def _filled(slope: Slope) -> MX:
    """Its entries as a vector."""
    e, n = slope.entries, len(slope.rows)
    if isinstance(e, float):
        return MX(ca.DM(np.full(n, e)))
    return ca.vec(e[[0] * n]) if e.numel() == 1 else e


def _taken(entries: Entries, places: Indices) -> Entries:
    if isinstance(entries, float) or entries.numel() == 1:
        return entries
    if len(places) == entries.numel() and np.array_equal(places, np.arange(len(places))):
        return entries
    return entries[places.tolist()]


def _times(a: Entries, b: Entries) -> Entries:
    if isinstance(a, float):
        return b if a == 1.0 else -b if a == -1.0 else a * b
    return _times(b, a) if isinstance(b, float) else a * b


def _sum(parts: list[Slope]) -> Slope | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    entries = ca.vertcat(*(_filled(p) for p in parts))
    return Slope(np.concatenate([p.rows for p in parts]), np.concatenate([p.columns for p in parts]), entries)


def jacobian(e: MX, s: MX) -> MX:
    """`de/ds` of a column `e` by a symbol `s`, sparse."""
    try:
        found = _Walk(e, s).run()
    except Unknown:
        return ca.jacobian(e, s)
    return MX(e.numel(), s.numel()) if found is None else found.matrix((e.numel(), s.numel()))


class _Walk:
    """The derivative of a column by symbols, one after another."""

    def __init__(self, e: MX, s: MX) -> None:
        own = s.primitives()
        known = {x.__hash__() for x in own}
        self._inputs = [*own, *(x for x in ca.symvar(e) if x.__hash__() not in known)]
        self._starts = np.cumsum([0, *(x.numel() for x in own)])
        self.f, self.width = ca.Function("e", self._inputs, [e]), s.numel()
        self.values: dict[int, MX] = {}
        self.slopes: dict[int, Slope | None] = {}

    def run(self) -> Slope | None:
        f, out = self.f, list[Slope]()
        for k in range(f.n_instructions()):
            op, i, o = f.instruction_id(k), f.instruction_input(k), f.instruction_output(k)
            mx = f.instruction_MX(k)
            if op == ca.OP_INPUT:
                self._input(mx.info()["ind"], o[0])
                continue
            if op == ca.OP_OUTPUT:
                own = self.slopes[i[0]]
                if own is not None:
                    begin = mx.info()["offset"]
                    places = np.array(f.sparsity_out(0).row(), dtype=np.int64)
                    out.append(Slope(places[begin + own.rows], own.columns, own.entries))
                continue
            results = [mx.get_output(j) for j in range(len(o))] if len(o) > 1 or op == ca.OP_CALL else [mx]
            operands, slopes = [self.values[j] for j in i], [self.slopes[j] for j in i]
            for number, (place, value) in enumerate(zip(o, results, strict=True)):
                if place >= 0:
                    self.values[place] = value
                    self.slopes[place] = self._slope(op, mx, value, number, operands, slopes)
        return _sum(out)

    def _input(self, number: int, place: int) -> None:
        self.values[place] = x = self._inputs[number]
        varies = number < len(self._starts) - 1 and x.numel()
        self.slopes[place] = Slope.selection(self._starts[number] + np.arange(x.numel())) if varies else None

    def _slope(self, op: int, mx: MX, value: MX, number: int, v: list[MX], slopes: list[Slope | None]) -> Slope | None:
        have = [j for j, slope in enumerate(slopes) if slope is not None]
        if not have or (op == ca.OP_SUB and _remainder(mx)):  # what rounding takes from a sum does not vary
            return None
        parts = []
        for j in have:
            own, slope = _matrix(op, mx, value, number, v, j), slopes[j]
            if own is not None and slope is not None:
                if not isinstance(own.entries, float):
                    slope = slope.gathered(self.width)
                parts.append(slope if own.plain and len(own.rows) == v[j].nnz() else own @ slope)
        return _sum([p for p in parts if len(p.rows)])


def _remainder(mx: MX) -> bool:
    """Whether this is `b - (s - a)` with `s = a + b`: see `two_sum` in methods/step.py."""
    b, rest = mx.dep(0), mx.dep(1)
    if not rest.is_op(ca.OP_SUB) or not rest.dep(0).is_op(ca.OP_ADD):
        return False
    s, a = rest.dep(0), rest.dep(1)
    return {x.__hash__() for x in (s.dep(0), s.dep(1))} == {a.__hash__(), b.__hash__()}


def _matrix(op: int, mx: MX, value: MX, number: int, v: list[MX], j: int) -> Slope | None:
    """The derivative of the nonzeros of a result by those of operand number `j`."""
    n = v[j].nnz()
    every = np.arange(n)
    if op in RESHAPED or (op == ca.OP_TRANSPOSE and mx.is_vector()):
        return Slope.selection(every)
    if op == ca.OP_TRANSPOSE:
        rows, columns = (np.array(x, dtype=np.int64) for x in v[0].sparsity().get_triplet())
        return Slope.selection(np.lexsort((columns, rows)))
    if op in (ca.OP_GETNONZEROS, ca.OP_SETNONZEROS, ca.OP_ADDNONZEROS):
        return _moved(op, nonzeros(mx.mapping()).astype(np.int64), n, j)
    if op == ca.OP_PROJECT:
        have, want = _keys(v[0].sparsity()), _keys(value.sparsity())
        there = np.isin(have, want)
        return Slope.selection(every[there], np.searchsorted(want, have[there]))
    if op == ca.OP_HORZREPMAT:
        return Slope.selection(np.tile(every, value.size2() // v[0].size2()))
    if op == ca.OP_HORZCAT or (op == ca.OP_VERTCAT and value.size2() == 1):
        return Slope.selection(every, sum(x.nnz() for x in v[:j]) + every)
    if op == ca.OP_HORZSPLIT or (op == ca.OP_VERTSPLIT and v[0].size2() == 1):
        begin, end = list(pairwise(mx.info()["offset"]))[number]
        return Slope.selection(np.arange(int(begin), int(end)))
    if op == ca.OP_MTIMES:
        return _product(value, v, j)
    if op == ca.OP_DOT:
        return Slope.selection(every, np.zeros_like(every), _nonzeros(v[1 - j]))
    if op == ca.OP_CALL:
        return _called(mx.which_function(), number, v, j)
    return _elementwise(op, value, v, j)


def _keys(sparsity: ca.Sparsity) -> Indices:
    rows, columns = (np.array(x, dtype=np.int64) for x in sparsity.get_triplet())
    return columns * sparsity.size1() + rows


def _moved(op: int, places: Indices, n: int, j: int) -> Slope:
    """Entries that are taken, replaced or added to."""
    if (places < 0).any():
        raise Unknown
    if op == ca.OP_GETNONZEROS:
        return Slope.selection(places)
    if j == 1:
        return Slope.selection(np.arange(n), places)
    kept = np.arange(n) if op == ca.OP_ADDNONZEROS else np.setdiff1d(np.arange(n), places)
    return Slope.selection(kept, kept)


def _product(value: MX, v: list[MX], j: int) -> Slope:
    """`z + x y` with a column `y`."""
    _, x, y = v
    have = np.array(value.sparsity().row(), dtype=np.int64)
    own = Slope.of(x)
    rows = np.searchsorted(have, own.rows)
    if y.size2() != 1 or not y.is_dense() or not np.isin(own.rows, have).all():
        raise Unknown
    if j == 0:
        return Slope.selection(np.arange(value.nnz()))
    if j == 2:
        return Slope(rows, own.columns, own.entries)
    return Slope(rows, np.arange(x.nnz()), _taken(y, own.columns))


def _elementwise(op: int, value: MX, v: list[MX], j: int) -> Slope:
    """An operation on entries; one number goes with all of them."""
    n, count = v[j].nnz(), value.nnz()
    if any(x.nnz() not in (1, count) for x in v):
        raise Unknown
    places = np.arange(count) if n == count else np.zeros(count, dtype=np.int64)
    linear = {ca.OP_ADD: (1.0, 1.0), ca.OP_SUB: (1.0, -1.0), ca.OP_NEG: (-1.0,), ca.OP_TWICE: (2.0,)}
    if op in linear:
        return Slope.selection(places, factor=linear[op][j])
    flat = [_nonzeros(x) for x in v]
    if op == ca.OP_MUL and v[0].__hash__() != v[1].__hash__():
        return Slope.selection(places, factor=flat[1 - j])
    if op == ca.OP_DIV and j == 0:
        return Slope.selection(places, factor=1 / flat[1])
    rows = [ca.reshape(x, 1, x.numel()) for x in flat]
    (entries,) = mapped(_derivative(op, len(v), j), count, *rows)
    return Slope.selection(places, factor=ca.vec(ca.densify(entries)))


@cache
def _derivative(op: int, arguments: int, j: int) -> ca.Function:
    """The derivative of an operation on numbers."""
    symbols = [SX.sym("s") for _ in range(arguments)]
    try:
        return ca.Function("slope", symbols, [ca.densify(ca.jacobian(operation(op, symbols), symbols[j]))])
    except (KeyError, NotImplementedError, RuntimeError) as error:
        raise Unknown from error


def _called(function: ca.Function, number: int, v: list[MX], j: int) -> Slope | None:
    """A function: one that is mapped by its local Jacobian, one of vectors by what this module finds."""
    count, local = (int(function.info()["n"]), function.info()["f"]) if function.is_a("Map") else (1, function)
    if local.nnz_in(j) != local.numel_in(j):
        raise Unknown
    if local.is_a("SXFunction"):
        pattern, entries = _mapped(local, number, v, j, count)
    elif local.is_a("MXFunction") and count == 1:
        symbols: list[MX] = local.mx_in()
        slope = jacobian(_nonzeros(local.call(symbols, True)[number]), symbols[j])
        pattern, entries = slope.sparsity(), ca.substitute([_nonzeros(slope)], symbols, v)[0]
    else:
        raise Unknown
    rows, columns = (np.array(x, dtype=np.int64) for x in pattern.get_triplet())
    each = np.arange(count)[:, None]
    rows, columns = (rows + pattern.size1() * each).ravel(), (columns + pattern.size2() * each).ravel()
    return Slope(rows, columns, entries) if len(rows) else None


def _mapped(local: ca.Function, number: int, v: list[MX], j: int, count: int) -> tuple[ca.Sparsity, MX]:
    """The pattern of a local Jacobian, and its entries for all repetitions."""
    own = local.sx_in()
    slope = ca.jacobian(ca.vec(local.call(own)[number].nz[:]), own[j])
    (entries,) = mapped(ca.Function("slopes", own, [ca.vec(slope.nz[:])]), count, *v)
    return slope.sparsity(), ca.vec(entries)
