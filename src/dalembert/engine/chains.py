"""Chains of functions in numbers: values and Jacobians, link by link, with matrices of fixed pattern."""

from __future__ import annotations

import numpy as np

from dalembert.engine.large import LargeStage, Link
from dalembert.engine.newton import Array
from dalembert.engine.nodes import ITERATE, RUN, SOLVE, Call
from dalembert.engine.patterns import Pattern, Product
from dalembert.engine.vectors import Bind, Tape


class Slope:
    """The derivative of a link by the unknowns: a sum over its sources, each by the chain rule."""

    pattern: Pattern

    def __init__(self, link: Link, earlier: list[Slope | None]) -> None:
        self.entries = [np.zeros(link.slopes.nnz_out(i)) for i in range(len(link.sources))]
        self._earlier = [None if j < 0 else earlier[j] for j in link.sources]
        own = [Pattern.of(link.slopes.sparsity_out(i)) for i in range(len(link.sources))]
        pairs = list(zip(own, self._earlier, strict=True))
        self._products = [None if s is None else Product(p, s.pattern) for p, s in pairs]
        parts = [p if by is None else by.pattern for p, by in zip(own, self._products, strict=True)]
        keys = parts[0].keys if len(parts) == 1 else np.unique(np.concatenate([p.keys for p in parts]))
        self._places = [slice(None) if len(parts) == 1 else np.searchsorted(keys, p.keys) for p in parts]
        self.pattern = Pattern.at(keys, parts[0].shape)
        self.matrix = self.pattern.matrix()

    def add_up(self) -> None:
        """The derivative from the entries of its own slopes and the derivatives of its sources."""
        data = self.matrix.data
        data[:] = 0.0
        for entries, source, product, place in zip(self.entries, self._earlier, self._products, self._places, strict=True):
            data[place] += entries if source is None or product is None else product(entries, source.matrix.data)


class Chain:
    """The links of a solve on arrays: `load` once for a run, `start` once for a solve, then `values` and `both`."""

    def __init__(self, stage: LargeStage, x: Array, known: list[Array], bind: Bind, earlier: list[Chain]) -> None:
        links, self.names, self._tape = stage.links, stage.names, Tape(bind)
        nodes = self._tape.nodes
        self._zero, self._x = np.zeros(len(x)), x
        nodes.zeros.add(nodes.source(self._zero, RUN))
        # of the state, t, h, u, parameters and earlier unknowns, h and the parameters are those of the whole run
        self._known = [(a, RUN if i in (2, 4) else SOLVE) for i, a in enumerate(known)]
        self._at = [np.zeros(link.value.numel_out(0)) for link in links]
        self._once, self._fixed = nodes.once, nodes.fixed
        self._slopes: list[Slope | None] = []
        for link in links:
            self._slopes.append(Slope(link, self._slopes) if link.varies else None)
        self._steady = [not link.varies or link.straight for link in links]  # whether its slope is that of the whole solve
        self._values: list[list[Call]] = [self._value(k, link, earlier) for k, link in enumerate(links)]
        self._both: list[Call] = []
        for k, link in enumerate(links):
            if link.varies and not link.straight:
                self._sloped(k, link)
        self.residual, last = self._at[-1], self._slopes[-1]
        assert last is not None
        self.matrix, self.pattern = last.matrix, last.pattern

    def _inputs(self, k: int, x: Array) -> list[tuple[Array, int]]:
        """What link number `k` is a function of, and how often that changes."""
        cuts = [(a, ITERATE if self._slopes[j] is not None else SOLVE) for j, a in enumerate(self._at[:k])]
        return [(x, RUN if x is self._zero else ITERATE), *cuts, *self._known]

    def _value(self, k: int, link: Link, earlier: list[Chain]) -> list[Call]:
        """The calls for the value of a link at an iterate."""
        slope, bind = self._slopes[k], self._tape.bind
        if slope is None:
            if not self._shares(k, earlier):
                bind(link.value, self._inputs(k, self._zero), [self._at[k]], SOLVE)
            return []
        if link.straight:
            base = np.zeros(len(self._at[k]))
            bind(link.value, self._inputs(k, self._zero), [base], SOLVE)
            bind(link.slopes, self._inputs(k, self._x), slope.entries, SOLVE)
            self._once.append(slope.add_up)
            return [_straight(base, slope, self._x, self._at[k])]
        return bind(link.value, self._inputs(k, self._x), [self._at[k]], ITERATE)

    def _sloped(self, k: int, link: Link) -> None:
        """The calls for the slope of a link; they are those of the whole solve where nothing in it changes."""
        slope = self._slopes[k]
        assert slope is not None
        calls = self._tape.bind(link.slopes, self._inputs(k, self._x), slope.entries, ITERATE)
        self._steady[k] = not calls and all(j < 0 or self._steady[j] for j in link.sources)
        if self._steady[k]:
            self._once.append(slope.add_up)
        else:
            self._both += [*calls, slope.add_up]

    def _shares(self, k: int, earlier: list[Chain]) -> bool:
        """Take a value over from an earlier solve, where that has it."""
        for chain in reversed(earlier):
            if k < len(self.names) and self.names[k] in chain.names:
                self._at[k] = chain.cuts[chain.names.index(self.names[k])]
                if chain.refresh not in self._once:
                    self._once.append(chain.refresh)
                return True
        return False

    @property
    def cuts(self) -> list[Array]:
        """The values of all cuts."""
        return self._at[:-1]

    def load(self) -> None:
        """What does not change in a run."""
        _do(self._fixed)

    def refresh(self) -> None:
        """The values of all cuts, without the residual."""
        for calls in self._values[:-1]:
            _do(calls)

    def start(self) -> None:
        """What does not change while the unknowns are found."""
        _do(self._once)

    def values(self) -> None:
        """The residual."""
        for calls in self._values:
            _do(calls)

    def both(self) -> None:
        """The residual, and its Jacobian."""
        self.values()
        _do(self._both)


def _do(calls: list[Call]) -> None:
    for call in calls:
        call()


def _straight(base: Array, slope: Slope, x: Array, out: Array) -> Call:
    def value() -> None:
        np.add(base, slope.matrix @ x, out=out)

    return value
