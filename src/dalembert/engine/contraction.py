"""Linear chains with fewer links: what is carried from step to step, and is linear in what it was before.

The steps of a chain wait for each other, what it is multiplied by does not. So values between the ends of a chain are eliminated
from it, one by one (Griewank, Walther 2008, sec. 9.2): an edge into such a value times an edge out of it becomes an edge past it.
This is done up to where the products cost more than the shorter chain saves.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import casadi as ca

from dalembert.engine.graph import Graph

ONE = -1  # where an edge begins that stands for a term
LATENCY = 4.0  # cycles until the next product can be added to a sum
CHAINED, IN_LANES = 0.6, 0.15  # cycles of a product in a chain, and of one in lanes
STAGES = 12  # at which the costs are compared
LARGEST = 4000  # values of a chain that is contracted


@dataclass(frozen=True)
class Edge:
    """A number times a value, or the number alone."""

    number: float
    value: int | None = None

    def times(self, other: Edge, g: Graph) -> Edge:
        if self.value is None or other.value is None:
            return Edge(self.number * other.number, other.value if self.value is None else self.value)
        return Edge(self.number * other.number, g.operation(ca.OP_MUL, [self.value, other.value]))

    def plus(self, other: Edge, g: Graph) -> Edge:
        if self.value == other.value:
            return Edge(self.number + other.number, self.value)
        if self.number == -other.number and self.value is not None and other.value is not None:
            return Edge(self.number, g.operation(ca.OP_SUB, [self.value, other.value]))
        if self.number == other.number and self.value is not None and other.value is not None:
            return Edge(self.number, g.operation(ca.OP_ADD, [self.value, other.value]))
        return Edge(1.0, g.operation(ca.OP_ADD, [self.whole(g), other.whole(g)]))

    def whole(self, g: Graph) -> int:
        """The edge as one value."""
        if self.value is None:
            return g.constant(self.number)
        if self.number == 1.0:
            return self.value
        if self.number == -1.0:
            return g.operation(ca.OP_NEG, [self.value])
        return g.operation(ca.OP_MUL, [g.constant(self.number), self.value])

    @property
    def plain(self) -> bool:
        """Whether a product with it costs nothing."""
        return self.value is None and abs(self.number) == 1.0


@dataclass
class Links:
    """Values of a chain as sums over edges from others; `ends` are carried on, `late` ones are found in lanes afterwards."""

    into: dict[int, dict[int, Edge]]
    ends: list[int]
    late: list[int]
    out: dict[int, set[int]] = field(default_factory=dict)
    cost: int = 0  # operations on edges so far

    def __post_init__(self) -> None:
        for v, edges in self.into.items():
            for u in edges:
                self.out.setdefault(u, set()).add(v)

    def degree(self, v: int) -> int:
        return len(self.into[v]) * len(self.out.get(v, ()))

    def eliminate(self, v: int, g: Graph) -> set[int]:
        """Lead all edges past a value; the neighbours that this changes."""
        edges, after = self.into.pop(v), self.out.pop(v, set())
        for w in after:
            last = self.into[w].pop(v)
            for u, first in edges.items():
                joined, there = first.times(last, g), self.into[w].get(u)
                self.cost += 0 if first.plain or last.plain else 1
                if there is not None:
                    joined = there.plus(joined, g)
                    self.cost += 1 if first.plain or last.plain else 0  # a sum alone; with a product it is one operation
                self.into[w][u] = joined
                self.out.setdefault(u, set()).add(w)
        for u in edges:
            self.out[u].discard(v)
        return {*edges, *after}

    def order(self, ends: list[int]) -> list[int]:
        """What leads to some ends: values after those that they are sums of."""
        done, out = set[int](), list[int]()
        stack = [(v, False) for v in reversed(ends)]
        while stack:
            v, ready = stack.pop()
            if v in done or v not in self.into:
                continue
            if ready:
                done.add(v)
                out.append(v)
            else:
                stack.append((v, True))
                stack += [(u, False) for u in self.into[v]]
        return out

    def ready(self) -> dict[int, float]:
        """When each value is there, in cycles after those that it all begins with."""
        at: dict[int, float] = {}
        for v in self.order(self.ends):
            now = 0.0
            for begin in sorted(at.get(u, 0.0) for u in self.into[v] if u != ONE):
                now = max(now, begin) + LATENCY
            at[v] = now
        return at

    def sums(self, g: Graph) -> list[int]:
        """The late values as values of the graph."""
        found: dict[int, int] = {}
        for v in self.order(self.late):
            total: Edge | None = None
            for u, edge in self.into[v].items():
                term = edge if u == ONE else edge.times(Edge(1.0, found.get(u, u)), g)
                total = term if total is None else total.plus(term, g)
            assert total is not None
            found[v] = total.whole(g)
        return [found[v] for v in self.late]

    def cycles(self) -> float:
        """An estimate of what a step takes."""
        at = self.ready()
        edges, late = (sum(len(self.into[v]) for v in self.order(ends)) for ends in (self.ends, self.late))
        return IN_LANES * (self.cost + late) + max(CHAINED * edges, max((at[v] for v in self.ends if v in at), default=0.0))


def linked(g: Graph, begin: list[int], end: list[int], late: list[int]) -> Links:
    """What leads from some symbols to values that are linear in them, edge by edge; ends have negative numbers."""
    chained, into, last = set(begin), dict[int, dict[int, Edge]](), [*end, *late]
    for v in g.reached(last, set(), max(g.level, default=0)):
        depends = [i for i in dict.fromkeys(g.needs[v]) if i in chained]
        if depends:
            chained.add(v)
            into[v] = _edges(g, v, depends)
    ends = [-2 - k for k in range(len(last))]
    for at, v in zip(ends, last, strict=True):
        into[at] = {v: Edge(1.0)} if v in chained else {ONE: Edge(1.0, v)}
    return Links(into, ends[: len(end)], ends[len(end) :])


def _edges(g: Graph, v: int, depends: list[int]) -> dict[int, Edge]:
    needs, pattern = g.needs[v], g.pattern(v)
    if pattern in ("{} + {}", "{} - {}"):
        out: dict[int, Edge] = {}
        for i, sign in zip(needs, (1.0, 1.0 if "+" in pattern else -1.0), strict=True):
            edge, source = (Edge(sign), i) if i in depends else (Edge(sign, i), ONE)
            out[source] = out[source].plus(edge, g) if source in out else edge
        return out
    if pattern == "-{}":
        return {needs[0]: Edge(-1.0)}
    if pattern == "{} * {}" and len(depends) == 1 and needs[0] != needs[1]:
        return {depends[0]: Edge(1.0, next(i for i in needs if i not in depends))}
    one, zero = g.constant(1.0), g.constant(0.0)  # of a linear operation: what it makes of each operand alone
    alone = {i: g.again(v, [one if j == i else zero if j in depends else j for j in needs]) for i in depends}
    if not g.is_call(v):
        return {i: Edge(1.0, value) for i, value in alone.items()}
    rest = g.again(v, [zero if j in depends else j for j in needs])  # an output of a call may be affine, or not depend on some
    return {ONE: Edge(1.0, rest), **{i: Edge(1.0, g.operation(ca.OP_SUB, [value, rest])) for i, value in alone.items()}}


def contracted(g: Graph, begin: list[int], end: list[int], late: list[int]) -> Links:
    """The same with the values eliminated that are in the way."""
    inner = sum(v >= 0 for v in linked(g, begin, end, late).into)
    stages = sorted({inner - int(inner * (k / STAGES) ** 2) for k in range(STAGES + 1)})  # the last ones cost most
    if inner > LARGEST:
        return linked(g, begin, end, late)
    costs = _eliminated(g, linked(g, begin, end, late), inner, stages)
    best = min(stages, key=lambda count: costs[count])
    links = linked(g, begin, end, late)
    _eliminated(g, links, best, [])
    return links


def _eliminated(g: Graph, links: Links, count: int, stages: list[int]) -> dict[int, float]:
    """Eliminate so many values, the cheapest first; estimates of the costs at some stages on the way."""
    heap, done, costs = [(links.degree(v), v) for v in links.into if v >= 0], 0, dict[int, float]()
    heapq.heapify(heap)
    while True:
        if done in stages and done not in costs:
            costs[done] = links.cycles()
        if done == count:
            return costs
        degree, v = heapq.heappop(heap)
        if v not in links.into:
            continue
        if degree != links.degree(v):
            heapq.heappush(heap, (links.degree(v), v))
            continue
        done += 1
        for u in links.eliminate(v, g):
            if u >= 0 and u in links.into:
                heapq.heappush(heap, (links.degree(u), u))
