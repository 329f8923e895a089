"""The sizes of the terms of a function: what rounding can do to it, and what its value is small against."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.systems.instructions import operation, walk

SX = ca.SX
TINY = 1e-300  # keeps the quotient of two zeros from being nan

_Sized = tuple[SX, SX]  # a value, and the size of the terms that it is made of


def terms(function: ca.Function) -> ca.Function:
    """For each output the sizes of its terms, as a function of the same arguments: eps times this is what rounding can do.

    A running error analysis. Sums add the sizes of their terms, products multiply, anything else follows its derivative.
    """
    f = function if function.is_a("SXFunction") else function.expand()
    inputs = f.sx_in()
    slopes: dict[int, ca.Function] = {}

    def source(argument: int, entry: int) -> _Sized:
        x = inputs[argument].nz[entry]
        return x, ca.fabs(x)

    def constant(value: float) -> _Sized:
        return SX(value), SX(abs(value))

    def apply(op: int, values: list[_Sized]) -> _Sized:
        z = operation(op, [value for value, _ in values])
        return z, _size(op, z, values, slopes)

    outputs = walk(f, source, constant, apply)
    sizes = [SX(f.sparsity_out(k), ca.vertcat(*(size for _, size in out))) if out else SX(f.sparsity_out(k))
             for k, out in enumerate(outputs)]  # fmt: skip
    return ca.Function("terms", inputs, sizes, f.name_in(), f.name_out())


def _size(op: int, z: SX, values: list[_Sized], slopes: dict[int, ca.Function]) -> SX:
    """The size of one operation on sized values."""
    (a, size_a), (b, size_b) = values[0], values[-1]
    if op in (ca.OP_ADD, ca.OP_SUB):
        return size_a + size_b
    if op in (ca.OP_NEG, ca.OP_ASSIGN, ca.OP_FABS):
        return size_a
    if op == ca.OP_TWICE:
        return 2 * size_a
    if op in (ca.OP_MUL, ca.OP_SQ):
        return ca.fmax(ca.fabs(a) * size_b, ca.fabs(b) * size_a)
    if op == ca.OP_DIV:
        return ca.fmax(size_a, ca.fabs(z) * size_b) / ca.fabs(b)
    if op == ca.OP_INV:
        return z**2 * size_a
    if op == ca.OP_SQRT:  # at zero it changes by the root of what its argument changes by
        return ca.fmax(z, size_a / (ca.fmax(2 * z, ca.sqrt(size_a)) + TINY))
    if op == ca.OP_IF_ELSE_ZERO:
        return ca.if_else(a, size_b, 0)
    if op in (ca.OP_POW, ca.OP_CONSTPOW):  # the exponent is taken as exact
        return ca.fmax(ca.fabs(z), ca.if_else(size_a > 0, ca.fabs(b * a ** (b - 1)) * size_a, 0))
    if op not in slopes:
        symbols = [SX.sym("s") for _ in values]
        slopes[op] = ca.Function("slopes", symbols, _derivatives(op, symbols))
    change = SX(0.0)
    for slope, (_, size) in zip(slopes[op].call([value for value, _ in values]), values, strict=True):
        change += ca.if_else(size > 0, ca.fabs(slope) * size, 0)
    return ca.fmax(ca.fabs(z), change)


def _derivatives(op: int, symbols: list[SX]) -> list[SX]:
    value = operation(op, symbols)
    return [ca.jacobian(value, s) for s in symbols]


def rounding_of(
    function: ca.Function, values: Sequence[float | NDArray[np.float64]], names: tuple[str, ...]
) -> NDArray[np.float64]:
    """The sizes of the terms of the first output at given values of the named arguments; the others are zero."""
    given = {name: ca.DM(value) for name, value in zip(names, values, strict=True)}
    inputs = [given.get(function.name_in(i), ca.DM(function.sparsity_in(i))) for i in range(function.n_in())]
    return np.array(terms(function).call(inputs)[0].full(), dtype=np.float64).ravel()
