"""The sizes of the terms of a function: what its value is small against, and what rounding can do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.engine.newton import TINY
from dalembert.systems.instructions import called, operation, walk

SX = ca.SX


@dataclass
class _Sized:
    """A value with the sizes of its terms and of the terms of these; data, which do not vary, are their own size."""

    value: SX
    sizes: tuple[SX, SX] | None = None

    @property
    def varies(self) -> bool:
        return self.sizes is not None

    @cached_property
    def magnitude(self) -> SX:
        return SX.unary(ca.OP_FABS, self.value)

    @property
    def terms(self) -> SX:
        return self.magnitude if self.sizes is None else self.sizes[0]

    @property
    def rounding(self) -> SX:
        return self.magnitude if self.sizes is None else self.sizes[1]


def sizes(function: ca.Function, values: Sequence[SX], given: Sequence[SX | None]) -> tuple[SX, SX]:
    """Two sizes of each entry of the first output at given arguments, as expressions.

    The first is the size of its terms: sums add the sizes of theirs, linear factors multiply, and the value of anything that is
    not linear is one term. The second is that of a running error analysis, and eps times it is what rounding can do: the sizes
    of the arguments of nonlinear functions count as well, multiplied by the derivative. `given` has this size for the arguments;
    one without is data, exact as it is.
    """
    f = function if function.is_a("SXFunction") else function.expand()
    slopes: dict[int, ca.Function] = {}

    def source(argument: int, entry: int) -> _Sized:
        x, size = values[argument].nz[entry], given[argument]
        return _Sized(x) if size is None else _Sized(x, (ca.fabs(x), size.nz[entry]))

    def apply(op: int, operands: list[_Sized]) -> _Sized:
        z = _Sized(operation(op, [v.value for v in operands]))
        if any(v.varies for v in operands):
            z.sizes = _terms(op, z, operands[0], operands[-1]), _rounding(op, z, operands, slopes)
        return z

    def call(g: ca.Function, operands: list[_Sized]) -> list[_Sized]:
        """What is not written out is taken as exact but for its own size."""
        out = [_Sized(v) for v in called(g, [v.value for v in operands])]
        return [_Sized(z.value, (z.magnitude, z.magnitude)) if any(v.varies for v in operands) else z for z in out]

    out = walk(f, source, lambda c: _Sized(SX(c)), apply, call)[0]
    pattern = f.sparsity_out(0)
    if not out:
        return SX(pattern), SX(pattern)
    return SX(pattern, ca.vertcat(*(v.terms for v in out))), SX(pattern, ca.vertcat(*(v.rounding for v in out)))


def _terms(op: int, z: _Sized, a: _Sized, b: _Sized) -> SX:
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


def _rounding(op: int, z: _Sized, values: list[_Sized], slopes: dict[int, ca.Function]) -> SX:
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
        return SX.binary(ca.OP_FMAX, _mul(a.magnitude, b.rounding), _mul(b.magnitude, a.rounding))
    if op == ca.OP_DIV:
        return (ca.fmax(a.rounding, z.magnitude * b.rounding) if b.varies else a.rounding) / b.magnitude
    if op == ca.OP_INV:
        return z.value**2 * a.rounding
    if op == ca.OP_SQRT:  # at zero it changes by the root of what its argument changes by
        return ca.fmax(z.value, a.rounding / (ca.fmax(2 * z.value, ca.sqrt(a.rounding)) + TINY))
    if op == ca.OP_IF_ELSE_ZERO:
        return ca.if_else(a.value, b.rounding, 0)
    if op in (ca.OP_POW, ca.OP_CONSTPOW):  # the exponent is taken as exact
        slope = b.value * a.value ** (b.value - 1)
        return ca.fmax(z.magnitude, ca.if_else(a.rounding > 0, ca.fabs(slope) * a.rounding, 0))
    if op not in slopes:
        symbols = [SX.sym("s") for _ in values]
        value = operation(op, symbols)
        slopes[op] = ca.Function("slopes", symbols, [ca.jacobian(value, s) for s in symbols])
    change = SX(0.0)
    for slope, v in zip(slopes[op].call([v.value for v in values]), values, strict=True):
        change += ca.if_else(v.rounding > 0, ca.fabs(slope) * v.rounding, 0)
    return ca.fmax(z.magnitude, change)


def _add(a: SX, b: SX) -> SX:
    """Without the checks of shapes that an operator makes: these are scalars."""
    return SX.binary(ca.OP_ADD, a, b)


def _mul(a: SX, b: SX) -> SX:
    return SX.binary(ca.OP_MUL, a, b)


def rounding_of(
    function: ca.Function, values: Sequence[float | NDArray[np.float64]], names: tuple[str, ...]
) -> NDArray[np.float64]:
    """What rounding can do to the first output, in units of eps, at given values of the named arguments; the others are zero."""
    given = {name: SX(ca.DM(value)) for name, value in zip(names, values, strict=True)}
    inputs = [given.get(function.name_in(i), SX.zeros(*function.size_in(i))) for i in range(function.n_in())]
    rounding = sizes(function, inputs, [ca.fabs(x) for x in inputs])[1]
    return np.array(ca.evalf(rounding).full(), dtype=np.float64).ravel()
