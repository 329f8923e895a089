"""Chains of functions in numbers: values and Jacobians, link by link, with matrices of fixed pattern."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.engine import progress
from dalembert.engine.large import LargeStage, Link
from dalembert.engine.newton import Array
from dalembert.engine.nodes import ITERATE, RUN, SOLVE, Bind, Nodes
from dalembert.engine.patterns import Pattern, Product
from dalembert.engine.vectors import Tape
from dalembert.engine.work import Call, Scratch, Work


class Slope:
    """The derivative of a link by the unknowns: a sum over its sources, each by the chain rule."""

    node: int
    pattern: Pattern
    own: list[tuple[int, int, Pattern]]  # its sources, with the slopes by each

    def __init__(self, nodes: Nodes, link: Link, entries: list[int], earlier: list[Slope | None]) -> None:
        own = [Pattern.of(link.slopes.sparsity_out(i)) for i in range(len(link.sources))]
        parts: list[tuple[int, Pattern]] = []
        for node, pattern, j in zip(entries, own, link.sources, strict=True):
            source = None if j < 0 else earlier[j]
            if source is None:
                parts.append((node, pattern))
            else:
                product = Product(pattern, source.pattern)
                parts.append((nodes.product(node, source.node, product), product.pattern))
        self.own = list(zip(link.sources, entries, own, strict=True))
        self.node, self.pattern = parts[0]
        if len(parts) > 1:
            keys = np.unique(np.concatenate([p.keys for _, p in parts]))
            self.pattern, self.node = Pattern.at(keys, self.pattern.shape), nodes.constant(np.zeros(len(keys)))
            for node, p in parts:
                self.node = nodes.put(self.node, node, np.searchsorted(keys, p.keys), add=True)


class Refresh:
    """The cuts of an earlier solve, whose unknowns were changed after its values were found."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    def __call__(self) -> None:
        self.chain.refresh()


class Single:
    """One function on arrays: `load` once for a run, then `call`. The cuts of a chain, where it needs them, are found first.

    One that is rare works in memory that it shares with others.
    """

    def __init__(
        self,
        function: ca.Function,
        inputs: list[Array],
        outputs: list[Array],
        bind: Bind,
        chain: Chain | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        tape, self.rare = Tape(bind, scratch), scratch is not None
        if scratch is not None:
            scratch.begin()
        self.nodes = nodes = tape.nodes
        nodes.each += [] if chain is None else [Work(Refresh(chain), 0, ())]
        sources = [nodes.source(a, ITERATE) for a in inputs]
        for number, out in zip(tape.outputs(function, sources, ITERATE), outputs, strict=True):
            if out.size:
                nodes.copied(number, out)
        self.work, self.exposed = [nodes.fixed, nodes.each], set[int]()
        nodes.close(self.work, self.exposed)
        self.plain: list[list[Call]] = [[w.call for w in work] for work in self.work]
        self.calls = self.plain  # what is done in their place

    def load(self) -> None:
        """What does not change in a run."""
        _do(self.calls[0])

    def call(self) -> None:
        """All outputs."""
        _do(self.calls[1])


class Chain:
    """The links of a solve on arrays: `load` once for a run, `start` once for a solve, then `values` and `both`."""

    rare = False

    def __init__(self, stage: LargeStage, x: Array, known: list[Array], bind: Bind, earlier: list[Chain]) -> None:
        progress.stage("operations")
        links, self.names, self._tape = stage.links, stage.names, Tape(bind)
        self.nodes = nodes = self._tape.nodes
        self._zero, self._x = nodes.source(np.zeros(len(x)), RUN), nodes.source(x, ITERATE)
        nodes.zeros.add(self._zero)
        # of the state, t, h, u, parameters and earlier unknowns, h and the parameters are those of the whole run
        self._known = [nodes.source(a, RUN if i in (2, 4) else SOLVE) for i, a in enumerate(known)]
        self._at: list[int] = []
        self._needs: list[Chain] = []
        self._slopes: list[Slope | None] = []
        self._values: list[list[Work]] = []
        for k, link in enumerate(links):
            nodes.each = []
            self._at.append(self._value(k, link, earlier))
            self._values.append(nodes.each)
        nodes.each = []
        for k, link in enumerate(links):  # after all values: these are there where slopes are asked for
            if link.varies and not link.straight:
                self._slopes[k] = self._slope(k, link)
        last = self._slopes[-1]
        assert last is not None
        self.pattern, self.matrix, self.residual = last.pattern, last.pattern.matrix(), nodes.arrays[self._at[-1]]
        self.matrix.data, self._last = nodes.arrays[last.node], last.node
        self.linear = nodes.levels[last.node] < ITERATE  # whether the residual is linear in the unknowns
        self._own = [(j, *nodes.origin(node), pattern) for j, node, pattern in last.own]
        self._both, self._once, self._fixed = nodes.each, nodes.once, nodes.fixed
        nodes.close([self._fixed, self._once, *self._values, self._both], self.exposed)
        self.plain: list[list[Call]] = [[w.call for w in work] for work in self.work]
        self.calls = self.plain  # what is done in their place

    @property
    def work(self) -> list[list[Work]]:
        """The work of a run, of a solve, for the cuts, for the residual, and for the Jacobian."""
        cuts = [work for part in self._values[:-1] for work in part]
        return [self._fixed, self._once, cuts, self._values[-1], self._both]

    @property
    def exposed(self) -> set[int]:
        """Nodes that others look at."""
        return {*self._at, self._last, *(node for _, node, _, _ in self._own)}

    def _inputs(self, k: int, x: int) -> list[int]:
        """What link number `k` is a function of."""
        return [x, *self._at[:k], *self._known]

    def _value(self, k: int, link: Link, earlier: list[Chain]) -> int:
        """The value of a link; its slope too, where that is the same for the whole solve."""
        nodes, tape = self.nodes, self._tape
        self._slopes.append(None)
        if not link.varies:
            shared = self._shared(k, earlier)
            return tape.outputs(link.value, self._inputs(k, self._zero), SOLVE)[0] if shared is None else shared
        if link.straight:
            (base,) = tape.outputs(link.value, self._inputs(k, self._zero), SOLVE)
            own = Slope(nodes, link, tape.outputs(link.slopes, self._inputs(k, self._x), SOLVE), self._slopes)
            self._slopes[k] = own
            return nodes.apply(ca.OP_ADD, [base, nodes.times(own.node, own.pattern, self._x)])
        return tape.outputs(link.value, self._inputs(k, self._x), ITERATE)[0]

    def _slope(self, k: int, link: Link) -> Slope:
        return Slope(self.nodes, link, self._tape.outputs(link.slopes, self._inputs(k, self._x), ITERATE), self._slopes)

    def _shared(self, k: int, earlier: list[Chain]) -> int | None:
        """A value of an earlier solve, where that has it."""
        for chain in reversed(earlier):
            if k < len(self.names) and self.names[k] in chain.names:
                number = self.nodes.source(chain.cuts[chain.names.index(self.names[k])], SOLVE)
                if chain not in self._needs:
                    self._needs.append(chain)
                    self.nodes.once.append(Work(Refresh(chain), number, ()))
                return number
        return None

    def terms(self) -> Array:
        """The sizes of the terms of the residual: of its slopes times what they belong to, the values of cuts among them."""
        arrays, total = self.nodes.arrays, np.zeros(len(self.residual))
        for j, node, places, pattern in self._own:
            by = np.abs(arrays[node][places]) * np.abs(arrays[self._x if j < 0 else self._at[j]])[pattern.columns]
            total += np.bincount(pattern.rows, weights=by, minlength=len(total))
        return total

    @property
    def cuts(self) -> list[Array]:
        """The values of all cuts."""
        return [self.nodes.arrays[i] for i in self._at[:-1]]

    def load(self) -> None:
        """What does not change in a run."""
        _do(self.calls[0])

    def start(self) -> None:
        """What does not change while the unknowns are found."""
        _do(self.calls[1])

    def refresh(self) -> None:
        """The values of all cuts, without the residual."""
        _do(self.calls[2])

    def values(self) -> None:
        """The residual."""
        _do(self.calls[2])
        _do(self.calls[3])

    def both(self) -> None:
        """The residual, and its Jacobian."""
        self.values()
        _do(self.calls[4])


def _do(calls: list[Call]) -> None:
    for call in calls:
        call()
