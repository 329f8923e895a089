"""Exact differences of a function between two points, operation by operation.

Slopes of elementary operations obey a chain rule (and a product rule with means), so accumulating them backwards through the
expression of `f` gives a vector `S(x0, x1)` with

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
from dataclasses import dataclass

import casadi as ca
from casadi import SX

from dalembert.discrete.slopes import Node, slopes, turn
from dalembert.systems.instructions import called, operation, walk


@dataclass(frozen=True)
class Ends:
    """The two ends of a step: positions (with what rounding took from them), and times."""

    x0: SX
    x1: SX
    t0: SX
    t1: SX
    rest: tuple[SX, SX] | None = None
    change: SX | None = None  # x1 - x0, where it is known better than by subtracting

    @property
    def dx(self) -> SX:
        return self.x1 - self.x0 if self.change is None else self.change

    @property
    def xm(self) -> SX:
        return self.x0 + self.dx / 2

    @property
    def tm(self) -> SX:
        return (self.t0 + self.t1) / 2


class Difference:
    """A vector function evaluated at two points, ready to pull back slopes.

    `function` maps `(x, other arguments)` to one column; `x0`, `x1` replace `x`, `rest0`, `rest1` are the low parts.
    """

    def __init__(self, function: ca.Function, x0: SX, x1: SX, others: list[SX], rest: tuple[SX, SX] | None = None) -> None:
        f = function.expand() if not function.is_a("SXFunction") else function
        self.size = x0.numel()
        ends = [[_entries(e) for e in (x0, *others)], [_entries(e) for e in (x1, *others)]]
        low = None if rest is None else tuple(_entries(r) for r in rest)
        self.nodes: list[Node] = []
        self.sources: list[int | None] = [None] * self.size
        constants: dict[float, int] = {}

        def keep(node: Node) -> int:
            self.nodes.append(node)
            return len(self.nodes) - 1

        def source(argument: int, entry: int) -> int:
            active = argument == 0
            rests = (low[0][entry], low[1][entry]) if active and low is not None else None
            index = keep(Node(ca.OP_INPUT, (), active, ends[0][argument][entry], ends[1][argument][entry], rests))
            if active:
                self.sources[entry] = index
            return index

        def constant(value: float) -> int:
            if value not in constants:
                constants[value] = keep(Node(ca.OP_CONST, (), False, SX(value), SX(value)))
            return constants[value]

        def call(g: ca.Function, inputs: list[int]) -> list[int]:
            return [keep(_call(g, entry, tuple(inputs), self.nodes)) for entry in range(g.nnz_out())]

        outputs = walk(f, source, constant, lambda op, inputs: keep(_apply(op, tuple(inputs), self.nodes)), call)
        self.seeds: list[int | None] = [None] * f.size1_out(0)
        for row, index in zip(f.sparsity_out(0).row(), outputs[0], strict=True):
            self.seeds[row] = index
        self.guarded = _guarded(self.nodes)
        ends_of = [(SX(0.0), SX(0.0)) if index is None else self.nodes[index].both for index in self.seeds]
        self.y0 = ca.vertcat(*(y for y, _ in ends_of)) if ends_of else SX(0, 1)
        self.y1 = ca.vertcat(*(y for _, y in ends_of)) if ends_of else SX(0, 1)

    def pull(self, seed: SX) -> SX:
        """`sum_i seed_i S_i(x0, x1)`, a column as long as `x`."""
        bars: dict[int, SX] = {}
        for s, index in zip(_entries(seed), self.seeds, strict=True):
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
            for j, slope in zip(node.inputs, slopes(node, operands), strict=True):
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


def _entries(x: SX) -> list[SX]:
    return list(ca.vertsplit(ca.densify(x)))


def _guarded(nodes: list[Node]) -> list[bool]:
    """Which nodes stand below the branch of a condition."""
    out = [False] * len(nodes)
    for index in reversed(range(len(nodes))):
        node = nodes[index]
        for place, j in enumerate(node.inputs):
            if out[index] or (node.op == ca.OP_IF_ELSE_ZERO and place == 1):
                out[j] = True
    return out


def _call(function: ca.Function, entry: int, inputs: tuple[int, ...], nodes: list[Node]) -> Node:
    """One output of a function that is not written out."""
    operands = [nodes[j] for j in inputs]

    def value(arguments: list[SX]) -> SX:
        return called(function, arguments)[entry]

    y0, y1 = (value([n.both[end] for n in operands]) for end in (0, 1))
    return Node(ca.OP_CALL, inputs, any(n.active for n in operands), y0, y1, function=value)


_LINEAR = {ca.OP_ADD, ca.OP_SUB, ca.OP_NEG, ca.OP_TWICE}


def _apply(op: int, inputs: tuple[int, ...], nodes: list[Node]) -> Node:
    operands = [nodes[j] for j in inputs]
    active = any(n.active for n in operands)
    if op in _LINEAR and any(n.rest for n in operands):
        zero = (SX(0.0), SX(0.0))
        high = [operation(op, [n.y0 for n in operands]), operation(op, [n.y1 for n in operands])]
        low = [operation(op, [(n.rest or zero)[end] for n in operands]) for end in (0, 1)]
        return Node(op, inputs, active, high[0], high[1], (low[0], low[1]))
    y0 = operation(op, [n.both[0] for n in operands])
    if op == ca.OP_ATAN2 and active:  # the angle goes on continuously where atan2 jumps by 2 pi
        return Node(op, inputs, active, y0, y0 + turn(*operands)[0])
    return Node(op, inputs, active, y0, operation(op, [n.both[1] for n in operands]) if active else y0)
