"""The sizes of the terms of a function: what its value is small against, and what rounding can do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.engine.newton import TINY
from dalembert.systems.instructions import Batch, batches, called, operation

SX = ca.SX


class _Store:
    """What is known of all nodes of a function: values, magnitudes, sizes of terms, and of the terms of these."""

    def __init__(self, count: int) -> None:
        self.lists = [[SX(0.0)] * count for _ in range(4)]

    def column(self, k: int, nodes: list[int]) -> SX:
        own = self.lists[k]
        return own[nodes[0]] if len(nodes) == 1 else ca.vertcat(*(own[node] for node in nodes))

    def put(self, nodes: list[int], *columns: SX) -> None:
        """Set all that is known of some nodes; the last column stands for those that are not given."""
        if len(nodes) == 1:
            for k, own in enumerate(self.lists):
                own[nodes[0]] = columns[min(k, len(columns) - 1)]
            return
        split = [ca.vertsplit(x) for x in columns]
        for k, own in enumerate(self.lists):
            for node, x in zip(nodes, split[min(k, len(split) - 1)], strict=True):
                own[node] = x


class _Sized:
    """Values with their magnitudes and the sizes of their terms; data, which do not vary, are their own size."""

    def __init__(self, store: _Store, nodes: list[int], varies: bool) -> None:
        self._store, self._at, self.varies = store, nodes, varies

    def _column(self, k: int) -> SX:
        return self._store.column(k, self._at)

    @cached_property
    def value(self) -> SX:
        return self._column(0)

    @cached_property
    def magnitude(self) -> SX:
        return self._column(1)

    @cached_property
    def terms(self) -> SX:
        return self._column(2)

    @cached_property
    def rounding(self) -> SX:
        return self._column(3)


def sizes(function: ca.Function, values: Sequence[SX], given: Sequence[SX | None]) -> tuple[SX, SX]:
    """Two sizes of each entry of the first output at given arguments, as expressions.

    The first is the size of its terms: sums add the sizes of theirs, linear factors multiply, and the value of anything that is
    not linear is one term. The second is that of a running error analysis, and eps times it is what rounding can do: the sizes
    of the arguments of nonlinear functions count as well, multiplied by the derivative. `given` has this size for the arguments;
    one without is data, exact as it is.
    """
    f = function if function.is_a("SXFunction") else function.expand()
    parts, varies, outputs = batches(f, [size is not None for size in given])
    store = _Store(len(varies))
    for part in parts:
        if part.op == ca.OP_INPUT:
            entries, size = part.operands[0], given[part.which]
            x = values[part.which].nz[entries]
            magnitude = ca.fabs(x)
            store.put(part.nodes, x, magnitude, magnitude, magnitude if size is None else size.nz[entries])
        elif part.op == ca.OP_CONST:
            x = SX([f.instruction_constant(k) for k in part.operands[0]])
            store.put(part.nodes, x, ca.fabs(x))
        elif part.op == ca.OP_CALL:  # what is not written out is taken as exact but for its own size
            below = [store.lists[0][k] for k in part.operands[0]]
            found = called(f.instructions_sx()[part.which].which_function(), below)
            x = ca.vertcat(*(found[k] for k in part.results))
            store.put(part.nodes, x, ca.fabs(x))
        else:
            _apply(part, store, varies)
    pattern, (own, *_) = f.sparsity_out(0), outputs
    if not own:
        return SX(pattern), SX(pattern)
    out = _Sized(store, own, True)
    return SX(pattern, out.terms), SX(pattern, out.rounding)


def _apply(part: Batch, store: _Store, varies: list[bool]) -> None:
    """Operations of one kind."""
    operands = [_Sized(store, nodes, varies[nodes[0]]) for nodes in part.operands]
    x = operation(part.op, [v.value for v in operands])
    magnitude = SX.unary(ca.OP_FABS, x)
    if not any(v.varies for v in operands):
        store.put(part.nodes, x, magnitude)
        return
    z = _Result(x, magnitude)
    store.put(part.nodes, x, magnitude, _terms(part.op, z, operands[0], operands[-1]), _rounding(part.op, z, operands))


@dataclass
class _Result:
    """What operations give."""

    value: SX
    magnitude: SX


def _terms(op: int, z: _Result, a: _Sized, b: _Sized) -> SX:
    """The size of the terms of one operation."""
    if op in (ca.OP_ADD, ca.OP_SUB):
        return _add(a.terms, b.terms)
    if op in (ca.OP_NEG, ca.OP_ASSIGN):
        return a.terms
    if op == ca.OP_TWICE:
        return 2 * a.terms
    if op == ca.OP_MUL and not (a.varies and b.varies):
        return _mul(a.terms, b.terms)
    if op == ca.OP_DIV and a.varies:
        return a.terms / b.magnitude
    if op == ca.OP_IF_ELSE_ZERO:
        return ca.if_else(a.value, b.terms, 0)
    return z.magnitude


def _rounding(op: int, z: _Result, values: list[_Sized]) -> SX:
    """The size of one operation in a running error analysis."""
    a, b = values[0], values[-1]
    if op in (ca.OP_ADD, ca.OP_SUB):
        return _add(a.rounding, b.rounding)
    if op in (ca.OP_NEG, ca.OP_ASSIGN, ca.OP_FABS):
        return a.rounding
    if op == ca.OP_TWICE:
        return 2 * a.rounding
    if op == ca.OP_SQ:
        return _mul(a.magnitude, a.rounding)
    if op == ca.OP_MUL:
        if not (a.varies and b.varies):
            return _mul(a.rounding, b.rounding)
        return _larger(_mul(a.magnitude, b.rounding), _mul(b.magnitude, a.rounding))
    if op == ca.OP_DIV:
        return (_larger(a.rounding, _mul(z.magnitude, b.rounding)) if b.varies else a.rounding) / b.magnitude
    if op == ca.OP_INV:
        return z.value**2 * a.rounding
    if op == ca.OP_SQRT:  # at zero it changes by the root of what its argument changes by
        return _larger(z.value, a.rounding / (_larger(2 * z.value, ca.sqrt(a.rounding)) + TINY))
    if op == ca.OP_IF_ELSE_ZERO:
        return ca.if_else(a.value, b.rounding, 0)
    if op in (ca.OP_POW, ca.OP_CONSTPOW):  # the exponent is taken as exact
        slope = b.value * a.value ** (b.value - 1)
        return _larger(z.magnitude, ca.if_else(a.rounding > 0, ca.fabs(slope) * a.rounding, 0))
    change = SX.zeros(z.value.numel())
    for slope, v in zip(_slopes(op, [v.value for v in values]), values, strict=True):
        change += ca.if_else(v.rounding > 0, ca.fabs(slope) * v.rounding, 0)
    return _larger(z.magnitude, change)


def _slopes(op: int, values: list[SX]) -> list[SX]:
    """The derivatives of an operation by its operands."""
    return [x.T for x in _derivatives(op, len(values)).call([x.T for x in values])]


@cache
def _derivatives(op: int, count: int) -> ca.Function:
    symbols = [SX.sym("s") for _ in range(count)]
    value = operation(op, symbols)
    return ca.Function("slopes", symbols, [ca.densify(ca.jacobian(value, s)) for s in symbols])


def _add(a: SX, b: SX) -> SX:
    """Without the checks of shapes that an operator makes: these are columns of one length."""
    return SX.binary(ca.OP_ADD, a, b)


def _mul(a: SX, b: SX) -> SX:
    return SX.binary(ca.OP_MUL, a, b)


def _larger(a: SX, b: SX) -> SX:
    return SX.binary(ca.OP_FMAX, a, b)


def rounding_of(
    function: ca.Function, values: Sequence[float | NDArray[np.float64]], names: tuple[str, ...]
) -> NDArray[np.float64]:
    """What rounding can do to the first output, in units of eps, at given values of the named arguments; the others are zero."""
    given = {name: SX(ca.DM(value)) for name, value in zip(names, values, strict=True)}
    inputs = [given.get(function.name_in(i), SX.zeros(*function.size_in(i))) for i in range(function.n_in())]
    rounding = sizes(function, inputs, [ca.fabs(x) for x in inputs])[1]
    return np.array(ca.evalf(rounding).full(), dtype=np.float64).ravel()


def rounding_at(function: ca.Function, values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The same at values of all arguments, of which the first one is rounded and the others are exact."""
    inputs = [SX(ca.DM(value)) for value in values]
    rounding = sizes(function, inputs, [ca.fabs(inputs[0]), *(None for _ in inputs[1:])])[1]
    return np.array(ca.evalf(rounding).full(), dtype=np.float64).ravel()
