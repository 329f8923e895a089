"""Exact differences of a function between two points, operation by operation.

For `y = f(x)` evaluated at `x0` and `x1`, the slope of an elementary operation is the factor `s` in
`y1 - y0 = s (x1 - x0)`, written so that nothing cancels and nothing is 0/0: `x0 + x1` for a square,
`1 / (sqrt(x0) + sqrt(x1))` for a square root, `cos(xm) sin(d/2) / (d/2)` for a sine. Slopes obey a chain rule
(and a product rule with means), so accumulating them backwards through the expression of `f` gives a vector
`S(x0, x1)` with

    S . (x1 - x0) = f(x1) - f(x0)    to round-off, however close the points are,
    S(x, x) = grad f(x),   S(x0, x1) = S(x1, x0).

It is a symmetric discrete gradient of second order. Where `f` is a function of invariants of degree at most two
(squared distances), the gradients of these are taken at the midpoint, which is exact: it is then Gonzalez's
equivariant discrete derivative (Gonzalez 1999, eq. 34; Gonzalez 1996, sec. 3).

Positions may be given in two parts `x + r`, with `r` what rounding took from `x`: sums and differences keep both
parts apart, so that distances between particles far from the origin do not lose their digits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from dalembert.errors import ModelError
from dalembert.systems.instructions import operation, walk

SX = ca.SX


@dataclass
class _Node:
    """One operation of an expression: its values at both ends, and what it was made from."""

    op: int
    inputs: tuple[int, ...]
    active: bool  # whether it depends on x
    y0: Any
    y1: Any
    rest: tuple[Any, Any] | None = None  # the low parts, for sums of inputs only

    @cached_property
    def both(self) -> tuple[Any, Any]:
        if self.rest is None:
            return self.y0, self.y1
        return self.y0 + self.rest[0], self.y1 + self.rest[1]

    @cached_property
    def mean(self) -> Any:
        a, b = self.both
        return a if not self.active else (a + b) / 2

    @cached_property
    def change(self) -> Any:
        a, b = self.both
        return b - a


class Difference:
    """A vector function evaluated at two points, ready to pull back slopes.

    `function` maps `(x, other arguments)` to one column; `x0`, `x1` replace `x`, `rest0`, `rest1` are the low parts.
    """

    def __init__(self, function: ca.Function, x0: Any, x1: Any, others: list[Any], rest: Any = None) -> None:
        f = function.expand() if not function.is_a("SXFunction") else function
        self.size = x0.numel()
        ends = [[e.elements() for e in (x0, *others)], [e.elements() for e in (x1, *others)]]
        low = None if rest is None else tuple(r.elements() for r in rest)
        self.nodes: list[_Node] = []
        self.sources: list[int | None] = [None] * self.size
        constants: dict[float, int] = {}

        def keep(node: _Node) -> int:
            self.nodes.append(node)
            return len(self.nodes) - 1

        def source(argument: int, entry: int) -> int:
            active = argument == 0
            rests = (low[0][entry], low[1][entry]) if active and low is not None else None
            index = keep(_Node(ca.OP_INPUT, (), active, ends[0][argument][entry], ends[1][argument][entry], rests))
            if active:
                self.sources[entry] = index
            return index

        def constant(value: float) -> int:
            if value not in constants:
                constants[value] = keep(_Node(ca.OP_CONST, (), False, SX(value), SX(value)))
            return constants[value]

        outputs = walk(f, source, constant, lambda op, inputs: keep(_apply(op, tuple(inputs), self.nodes)))
        self.seeds: list[int | None] = [None] * f.size1_out(0)
        for row, index in zip(f.sparsity_out(0).row(), outputs[0], strict=True):
            self.seeds[row] = index
        self.guarded = _guarded(self.nodes)
        ends_of = [(SX(0.0), SX(0.0)) if index is None else self.nodes[index].both for index in self.seeds]
        self.y0 = ca.vertcat(*(y for y, _ in ends_of)) if ends_of else SX(0, 1)
        self.y1 = ca.vertcat(*(y for _, y in ends_of)) if ends_of else SX(0, 1)

    def pull(self, seed: Any) -> Any:
        """`sum_i seed_i S_i(x0, x1)`, a column as long as `x`."""
        bars: dict[int, Any] = {}
        for s, index in zip(seed.elements(), self.seeds, strict=True):
            if index is not None and self.nodes[index].active:
                bars[index] = bars[index] + s if index in bars else s
        queue = [-i for i in bars]
        heapq.heapify(queue)
        out = [SX(0.0)] * self.size
        position = {index: i for i, index in enumerate(self.sources) if index is not None}
        while queue:
            index = -heapq.heappop(queue)
            node, bar = self.nodes[index], bars.pop(index)
            if node.op == ca.OP_INPUT:
                out[position[index]] = bar
                continue
            operands = [self.nodes[j] for j in node.inputs]
            for j, slope in zip(node.inputs, _slopes(node, operands), strict=True):
                if slope is None or not self.nodes[j].active:
                    continue
                # below a branch that is not taken the slope may be nan: nothing comes from there
                part = ca.if_else(bar == 0, 0, bar * slope) if self.guarded[index] else bar * slope
                if j in bars:
                    bars[j] = bars[j] + part
                else:
                    bars[j] = part
                    heapq.heappush(queue, -j)
        return ca.vertcat(*out)


def _guarded(nodes: list[_Node]) -> list[bool]:
    """Which nodes stand below the branch of a condition."""
    out = [False] * len(nodes)
    for index in reversed(range(len(nodes))):
        node = nodes[index]
        for place, j in enumerate(node.inputs):
            if out[index] or (node.op == ca.OP_IF_ELSE_ZERO and place == 1):
                out[j] = True
    return out


_LINEAR = {ca.OP_ADD, ca.OP_SUB, ca.OP_NEG, ca.OP_TWICE}


def _apply(op: int, inputs: tuple[int, ...], nodes: list[_Node]) -> _Node:
    operands = [nodes[j] for j in inputs]
    active = any(n.active for n in operands)
    if op in _LINEAR and any(n.rest for n in operands):
        zero = (SX(0.0), SX(0.0))
        high = [operation(op, [n.y0 for n in operands]), operation(op, [n.y1 for n in operands])]
        low = [operation(op, [(n.rest or zero)[end] for n in operands]) for end in (0, 1)]
        return _Node(op, inputs, active, high[0], high[1], (low[0], low[1]))
    y0 = operation(op, [n.both[0] for n in operands])
    if op == ca.OP_ATAN2 and active:  # the angle goes on continuously where atan2 jumps by 2 pi
        return _Node(op, inputs, active, y0, y0 + _turn(*operands)[0])
    return _Node(op, inputs, active, y0, operation(op, [n.both[1] for n in operands]) if active else y0)


def _ratio(function: Callable[[Any], Any], series: tuple[float, ...], u: Any, radius: float = 0.1) -> Any:
    """`function(u) / u`, by its even power series near zero; safe to differentiate at zero."""
    near = ca.fabs(u) < radius
    safe = ca.if_else(near, 1.0, u)
    u2, total = u**2, SX(series[-1])
    for c in reversed(series[:-1]):
        total = c + u2 * total
    return ca.if_else(near, total, function(safe) / safe)


_SIN = (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800)
_SINH = tuple(abs(c) for c in _SIN)
_TANH = (1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075, -929569 / 638512875)
_ATANH = tuple(1 / (2 * k + 1) for k in range(9))
_ATAN = tuple((-1) ** k * c for k, c in enumerate(_ATANH))
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)


def _quotient(function: Callable[[Any], Any], x: _Node) -> Any:
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


def _log_slope(x: _Node) -> Any:
    """`atanh(u) / (u xm)` with `u = d / (x0 + x1)` near zero; the plain quotient where the argument changes by much."""
    a, b = x.both
    u = x.change / (a + b)
    near = ca.fabs(u) < 0.1
    total = SX(_ATANH[-1])
    for c in reversed(_ATANH[:-1]):
        total = c + u**2 * total
    safe = ca.if_else(near, 1.0, x.change)
    return ca.if_else(near, total / x.mean, (ca.log(b) - ca.log(a)) / safe)


def _turn(x: _Node, y: _Node) -> tuple[Any, Any]:
    """The angle from `(y0, x0)` to `(y1, x1)`, and its factor in `angle = factor (ym dx - xm dy)`."""
    inner = x.both[0] * x.both[1] + y.both[0] * y.both[1]
    cross = y.mean * x.change - x.mean * y.change
    near = ca.fabs(cross) < 0.1 * inner
    factor = _ratio(ca.atan, _ATAN, ca.if_else(near, cross / ca.if_else(near, inner, 1.0), 1.0)) / ca.if_else(near, inner, 1.0)
    angle = ca.atan2(cross, inner)
    factor = ca.if_else(near, factor, angle / ca.if_else(near, 1.0, cross))
    return ca.if_else(near, factor * cross, angle), factor


def _jump(node: _Node, x: Any) -> Any:
    """The quotient for an operation that jumps; zero where nothing changes."""
    a, b = node.both
    safe = ca.if_else(x == 0, 1.0, x)
    return ca.if_else(x == 0, 0.0, (b - a) / safe)


def _slopes(node: _Node, operands: list[_Node]) -> tuple[Any, ...]:
    """The factors `s_j` in `y1 - y0 = sum_j s_j (x1_j - x0_j)`."""
    op = node.op
    if len(operands) == 1:
        return (_unary_slope(op, node, operands[0]),)
    x, y = operands
    if op == ca.OP_ADD:
        return SX(1.0), SX(1.0)
    if op == ca.OP_SUB:
        return SX(1.0), SX(-1.0)
    if op == ca.OP_MUL:
        return y.mean, x.mean
    if op == ca.OP_DIV:
        (y0, y1), z = y.both, node.mean
        if not y.active:
            return 1 / y.y0, None
        return y.mean / (y0 * y1), -x.mean / (y0 * y1) if x.active else -z / y.mean
    if op in (ca.OP_POW, ca.OP_CONSTPOW):
        return _power_slopes(node, x, y)
    if op == ca.OP_HYPOT:
        total = node.both[0] + node.both[1]
        return 2 * x.mean / total, 2 * y.mean / total
    if op == ca.OP_ATAN2:  # atan2(x, y): the angle between the two ends, by its tangent
        factor = _turn(x, y)[1]
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


def _unary_slope(op: int, node: _Node, x: _Node) -> Any:
    a, b = x.both
    if op in (ca.OP_SQ,):
        return a + b
    if op == ca.OP_NEG:
        return SX(-1.0)
    if op == ca.OP_TWICE:
        return SX(2.0)
    if op == ca.OP_ASSIGN:
        return SX(1.0)
    if op == ca.OP_INV:
        return -1 / (a * b)
    if op == ca.OP_SQRT:
        return 1 / (node.both[0] + node.both[1])
    if op == ca.OP_EXP:
        return ca.exp(x.mean) * _ratio(ca.sinh, _SINH, x.change / 2)
    if op == ca.OP_LOG:
        return _log_slope(x)
    if op == ca.OP_SIN:
        return ca.cos(x.mean) * _ratio(ca.sin, _SIN, x.change / 2)
    if op == ca.OP_COS:
        return -ca.sin(x.mean) * _ratio(ca.sin, _SIN, x.change / 2)
    if op == ca.OP_TAN:
        return _ratio(ca.sin, _SIN, x.change) / (ca.cos(a) * ca.cos(b))
    if op == ca.OP_SINH:
        return ca.cosh(x.mean) * _ratio(ca.sinh, _SINH, x.change / 2)
    if op == ca.OP_COSH:
        return ca.sinh(x.mean) * _ratio(ca.sinh, _SINH, x.change / 2)
    if op == ca.OP_TANH:
        return _ratio(ca.tanh, _TANH, x.change) * (1 - ca.tanh(a) * ca.tanh(b))
    if op == ca.OP_FABS:
        return (a + b) / (ca.fabs(a) + ca.fabs(b) + 1e-300)
    if op in (ca.OP_SIGN, ca.OP_FLOOR, ca.OP_CEIL, ca.OP_NOT):
        return _jump(node, x.change)
    return _quotient(lambda s: operation(op, [s]), x)


def _power_slopes(node: _Node, x: _Node, y: _Node) -> tuple[Any, ...]:
    """`x^y`: products for a small whole exponent, else `exp(y log x)`."""
    a, b = x.both
    if not y.active and y.y0.is_constant() and float(y.y0).is_integer() and 0 < abs(float(y.y0)) <= 32:
        n = int(abs(float(y.y0)))
        total = sum(a ** (n - 1 - k) * b**k for k in range(n))
        return (total if float(y.y0) > 0 else -total / (a * b) ** n), None
    if not y.active:
        return _quotient(lambda s: s**y.y0, x), None
    log0, log1 = ca.log(a), ca.log(b)
    exponent = (y.both[0] * log0 + y.both[1] * log1) / 2
    change = y.both[1] * log1 - y.both[0] * log0
    growth = ca.exp(exponent) * _ratio(ca.sinh, _SINH, change / 2)
    return growth * y.mean * _log_slope(x), growth * (log0 + log1) / 2


def difference(expression: Any, x: Any, others: list[Any]) -> Callable[..., Difference]:
    """A factory: `difference(f, x, others)(x0, x1, others_at, rest)` for an expression `f` of the symbols."""
    f = ca.Function("f", [x, *others], [expression])
    return lambda x0, x1, values=None, rest=None: Difference(f, x0, x1, others if values is None else values, rest)
