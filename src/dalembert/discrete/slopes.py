"""Slopes of elementary operations: the factors `s` in `y1 - y0 = s (x1 - x0)`.

They are written so that nothing cancels and nothing is 0/0: `x0 + x1` for a square, `1 / (sqrt(x0) + sqrt(x1))` for a square
root, `cos(xm) sin(d/2) / (d/2)` for a sine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import ModelError
from dalembert.systems.instructions import operation

Map = Callable[[SX], SX]


@dataclass
class Node:
    """One operation of an expression: its values at both ends, and what it was made from."""

    op: int
    inputs: tuple[int, ...]
    active: bool  # whether it depends on x
    y0: SX
    y1: SX
    rest: tuple[SX, SX] | None = None  # the low parts, for sums of inputs only
    function: Callable[[list[SX]], SX] | None = None  # what is called, where it is not written out

    @cached_property
    def both(self) -> tuple[SX, SX]:
        if self.rest is None:
            return self.y0, self.y1
        return self.y0 + self.rest[0], self.y1 + self.rest[1]

    @cached_property
    def mean(self) -> SX:
        return self.total / 2 if self.active else self.both[0]

    @cached_property
    def change(self) -> SX:
        return self.both[1] - self.both[0]

    @cached_property
    def total(self) -> SX:
        return self.both[0] + self.both[1]

    @cached_property
    def product(self) -> SX:
        return self.both[0] * self.both[1]


def _even(series: tuple[float, ...], u: SX) -> SX:
    """An even power series, `c0 + c1 u^2 + ...`."""
    u2, total = u**2, SX(series[-1])
    for c in reversed(series[:-1]):
        total = c + u2 * total
    return total


def _ratio(function: Map, series: tuple[float, ...], u: SX, radius: float = 0.1) -> SX:
    """`function(u) / u`, by its even power series near zero; safe to differentiate at zero."""
    near = ca.fabs(u) < radius
    safe = ca.if_else(near, 1.0, u)
    return ca.if_else(near, _even(series, u), function(safe) / safe)


_SIN = (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800)
_SINH = tuple(abs(c) for c in _SIN)
_TANH = (1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075, -929569 / 638512875)
_ATANH = tuple(1 / (2 * k + 1) for k in range(9))
_ATAN = tuple((-1) ** k * c for k, c in enumerate(_ATANH))
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)


def _quotient(function: Map, x: Node) -> SX:
    """Difference quotient of a function of one variable; near zero the mean of its derivative by quadrature."""
    a, b = x.both
    s = SX.sym("s")
    derivative = ca.gradient(function(s), s)
    means = (ca.substitute(derivative, s, x.mean + c / 2 * x.change) for c in _NODES)
    mean = sum(w / 2 * m for w, m in zip(_WEIGHTS, means, strict=True))
    near = ca.fabs(x.change) < 0.02 * ca.fmin(1.0, ca.fabs(a) + ca.fabs(b))
    near = ca.logic_or(near, x.change == 0)
    safe = ca.if_else(near, 1.0, x.change)
    return ca.if_else(near, mean, (function(b) - function(a)) / safe)


def _log_slope(x: Node) -> SX:
    """`atanh(u) / (u xm)` with `u = d / (x0 + x1)` near zero; the plain quotient where the argument changes by much."""
    a, b = x.both
    u = x.change / (a + b)
    near = ca.fabs(u) < 0.1
    safe = ca.if_else(near, 1.0, x.change)
    return ca.if_else(near, _even(_ATANH, u) / x.mean, (ca.log(b) - ca.log(a)) / safe)


def turn(x: Node, y: Node) -> tuple[SX, SX]:
    """The angle from `(y0, x0)` to `(y1, x1)`, and its factor in `angle = factor (ym dx - xm dy)`."""
    inner = x.both[0] * x.both[1] + y.both[0] * y.both[1]
    cross = y.mean * x.change - x.mean * y.change
    near = ca.fabs(cross) < 0.1 * inner
    factor = _ratio(ca.atan, _ATAN, ca.if_else(near, cross / ca.if_else(near, inner, 1.0), 1.0)) / ca.if_else(near, inner, 1.0)
    angle = ca.atan2(cross, inner)
    factor = ca.if_else(near, factor, angle / ca.if_else(near, 1.0, cross))
    return ca.if_else(near, factor * cross, angle), factor


def _jump(node: Node, x: SX) -> SX:
    """The quotient for an operation that jumps; zero where nothing changes."""
    a, b = node.both
    safe = ca.if_else(x == 0, 1.0, x)
    return ca.if_else(x == 0, 0.0, (b - a) / safe)


_UNARY: dict[int, Callable[[Node, Node], SX]] = {  # of y = f(x)
    ca.OP_SQ: lambda y, x: x.total,
    ca.OP_NEG: lambda y, x: SX(-1.0),
    ca.OP_TWICE: lambda y, x: SX(2.0),
    ca.OP_ASSIGN: lambda y, x: SX(1.0),
    ca.OP_INV: lambda y, x: -1 / x.product,
    ca.OP_SQRT: lambda y, x: 1 / y.total,
    ca.OP_EXP: lambda y, x: ca.exp(x.mean) * _ratio(ca.sinh, _SINH, x.change / 2),
    ca.OP_LOG: lambda y, x: _log_slope(x),
    ca.OP_SIN: lambda y, x: ca.cos(x.mean) * _ratio(ca.sin, _SIN, x.change / 2),
    ca.OP_COS: lambda y, x: -ca.sin(x.mean) * _ratio(ca.sin, _SIN, x.change / 2),
    ca.OP_TAN: lambda y, x: _ratio(ca.sin, _SIN, x.change) / (ca.cos(x.both[0]) * ca.cos(x.both[1])),
    ca.OP_SINH: lambda y, x: ca.cosh(x.mean) * _ratio(ca.sinh, _SINH, x.change / 2),
    ca.OP_COSH: lambda y, x: ca.sinh(x.mean) * _ratio(ca.sinh, _SINH, x.change / 2),
    ca.OP_TANH: lambda y, x: _ratio(ca.tanh, _TANH, x.change) * (1 - ca.tanh(x.both[0]) * ca.tanh(x.both[1])),
    ca.OP_FABS: lambda y, x: x.total / (ca.fabs(x.both[0]) + ca.fabs(x.both[1]) + 1e-300),
    **dict.fromkeys((ca.OP_SIGN, ca.OP_FLOOR, ca.OP_CEIL, ca.OP_NOT), lambda y, x: _jump(y, x.change)),
}


def slopes(node: Node, operands: list[Node]) -> tuple[SX | None, ...]:
    """The factors `s_j` in `y1 - y0 = sum_j s_j (x1_j - x0_j)`; None where an operand is constant."""
    op = node.op
    if node.function is not None:
        return _call_slopes(node.function, operands)
    if len(operands) == 1:
        known = _UNARY.get(op)
        return (known(node, operands[0]) if known else _quotient(lambda s: operation(op, [s]), operands[0]),)
    x, y = operands
    if op == ca.OP_ADD:
        return SX(1.0), SX(1.0)
    if op == ca.OP_SUB:
        return SX(1.0), SX(-1.0)
    if op == ca.OP_MUL:
        return y.mean, x.mean
    if op == ca.OP_DIV:
        if not y.active:
            return 1 / y.y0, None
        return y.mean / y.product, -x.mean / y.product if x.active else -node.mean / y.mean
    if op in (ca.OP_POW, ca.OP_CONSTPOW):
        return _power_slopes(x, y)
    if op == ca.OP_HYPOT:
        return 2 * x.mean / node.total, 2 * y.mean / node.total
    if op == ca.OP_ATAN2:  # atan2(x, y): the angle between the two ends, by its tangent
        factor = turn(x, y)[1]
        return factor * y.mean, -factor * x.mean
    if op in (ca.OP_FMIN, ca.OP_FMAX):
        sign = 1 if op == ca.OP_FMAX else -1
        a, b = x.both[0] - y.both[0], x.both[1] - y.both[1]
        half = sign * (a + b) / (ca.fabs(a) + ca.fabs(b) + 1e-300) / 2
        return 0.5 + half, 0.5 - half
    if op == ca.OP_IF_ELSE_ZERO:  # a branch counts only where it is taken: elsewhere it may be nan
        (c0, c1), (y0, y1) = x.both, y.both
        jump = ca.if_else(c1, ca.if_else(c0, 0, y1), ca.if_else(c0, y0, 0))
        return jump, ca.if_else(ca.logic_and(c0, c1), 1, 0)
    if op in (ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE):
        quotient = _jump(node, x.change - y.change)
        return quotient, -quotient
    if op in (ca.OP_AND, ca.OP_OR):
        quotient = _jump(node, x.change + y.change)
        return quotient, quotient
    raise ModelError(f"no exact difference is known for CasADi's operation {op}; use another discrete gradient")


def _call_slopes(function: Callable[[list[SX]], SX], operands: list[Node]) -> tuple[SX | None, ...]:
    """Quotients of a function that is not written out, a table say, in one argument after the other, the mean of both orders."""
    starts, ends = [x.both[0] for x in operands], [x.both[1] for x in operands]
    out: list[SX | None] = []
    for k, x in enumerate(operands):
        if not x.active:
            out.append(None)
            continue
        parts = []
        for early, late in ((starts, ends), (ends, starts)):  # arguments before this one have moved, later ones have not

            def along(s: SX, k: int = k, early: list[SX] = early, late: list[SX] = late) -> SX:
                return function([*late[:k], s, *early[k + 1 :]])

            s = SX.sym("s")
            near = ca.fabs(x.change) <= 1e-7 * (ca.fabs(starts[k]) + ca.fabs(ends[k]))
            slope = ca.substitute(ca.gradient(along(s), s), s, x.mean)
            quotient = (along(ends[k]) - along(starts[k])) / ca.if_else(near, 1.0, x.change)
            parts.append(ca.if_else(near, slope, quotient))
        out.append((parts[0] + parts[1]) / 2)
    return tuple(out)


def _power_slopes(x: Node, y: Node) -> tuple[SX | None, ...]:
    """`x^y`: products for a small whole exponent, else `exp(y log x)`."""
    a, b = x.both
    if not y.active and y.y0.is_constant() and float(y.y0).is_integer() and 0 < abs(float(y.y0)) <= 32:
        n = int(abs(float(y.y0)))
        total = sum((a ** (n - 1 - k) * b**k for k in range(n)), SX(0.0))
        return (total if float(y.y0) > 0 else -total / x.product**n), None
    if not y.active:
        return _quotient(lambda s: s**y.y0, x), None
    log0, log1 = ca.log(a), ca.log(b)
    exponent = (y.both[0] * log0 + y.both[1] * log1) / 2
    change = y.both[1] * log1 - y.both[0] * log0
    growth = ca.exp(exponent) * _ratio(ca.sinh, _SINH, change / 2)
    return growth * y.mean * _log_slope(x), growth * (log0 + log1) / 2
