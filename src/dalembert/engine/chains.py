"""Chains of functions in numbers: values and Jacobians, link by link, with matrices of fixed pattern."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from dalembert.engine.large import LargeStage, Link
from dalembert.engine.newton import Array

Indices = NDArray[np.int64]
Call = Callable[[], object]
Bind = Callable[[ca.Function, list[Array], list[Array]], Call]


class Pattern:
    """Where a sparse matrix has entries: rows and columns, column by column."""

    def __init__(self, rows: Indices, columns: Indices, shape: tuple[int, int]) -> None:
        self.rows, self.columns, self.shape = rows, columns, shape
        self.starts = np.searchsorted(columns, np.arange(shape[1] + 1))

    @classmethod
    def of(cls, sparsity: ca.Sparsity) -> Pattern:
        rows, columns = (np.array(x, dtype=np.int64) for x in sparsity.get_triplet())
        return cls(rows, columns, sparsity.shape)

    @classmethod
    def at(cls, keys: Indices, shape: tuple[int, int]) -> Pattern:
        return cls(keys % shape[0], keys // shape[0], shape)

    @property
    def keys(self) -> Indices:
        """One number for each entry, in order."""
        return self.columns * self.shape[0] + self.rows

    def matrix(self) -> csc_matrix:
        """A matrix of this pattern, whose `data` are to be filled in."""
        parts = (np.zeros(len(self.rows)), self.rows.astype(np.int32), self.starts.astype(np.int32))
        return csc_matrix(parts, shape=self.shape)


class Product:
    """The product of two sparse matrices, as a list of the products of their entries that is made once."""

    def __init__(self, a: Pattern, b: Pattern) -> None:
        counts = np.diff(a.starts)[b.rows]
        ends = np.cumsum(counts)
        self._b = np.repeat(np.arange(len(b.rows)), counts)
        within = np.arange(len(self._b)) - np.repeat(ends - counts, counts)
        self._a = np.repeat(a.starts[b.rows], counts) + within
        shape = a.shape[0], b.shape[1]
        keys, self._place = np.unique(b.columns[self._b] * shape[0] + a.rows[self._a], return_inverse=True)
        self.pattern = Pattern.at(keys, shape)

    def __call__(self, a: Array, b: Array) -> Array:
        weights = a[self._a] * b[self._b]
        return np.asarray(np.bincount(self._place, weights=weights, minlength=len(self.pattern.rows)), dtype=np.float64)


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
    """The links of a solve on arrays: `start` once for a solve, then `values` and `both` at any iterate."""

    def __init__(self, stage: LargeStage, x: Array, known: list[Array], bind: Bind, earlier: list[Chain]) -> None:
        zero, links, self.names = np.zeros(len(x)), stage.links, stage.names
        self._at = [np.zeros(link.value.numel_out(0)) for link in links]
        self.residual = self._at[-1]
        self._slopes: list[Slope | None] = []
        self._once: list[Call] = []
        self._values: list[Call] = []
        self._both: list[Call] = []
        for k, link in enumerate(links):
            slope = Slope(link, self._slopes) if link.varies else None
            self._slopes.append(slope)
            inputs = [*self._at[:k], *known]
            if slope is None and self._shares(k, earlier):
                continue
            if slope is None:
                self._once.append(bind(link.value, [zero, *inputs], [self._at[k]]))
                continue
            sloped = bind(link.slopes, [x, *inputs], slope.entries)
            if link.straight:
                base = np.zeros(len(self._at[k]))
                self._once += [bind(link.value, [zero, *inputs], [base]), sloped, slope.add_up]
                self._values.append(_straight(base, slope, x, self._at[k]))
                continue
            self._values.append(bind(link.value, [x, *inputs], [self._at[k]]))
            self._both += [sloped, slope.add_up]
        assert slope is not None
        self.matrix, self.pattern = slope.matrix, slope.pattern

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

    def refresh(self) -> None:
        """The values of all cuts, without the residual."""
        for call in self._values[:-1]:
            call()

    def start(self) -> None:
        """What does not change while the unknowns are found."""
        for call in self._once:
            call()

    def values(self) -> None:
        """The residual."""
        for call in self._values:
            call()

    def both(self) -> None:
        """The residual, and its Jacobian."""
        self.values()
        for call in self._both:
            call()


def _straight(base: Array, slope: Slope, x: Array, out: Array) -> Call:
    def value() -> None:
        np.add(base, slope.matrix @ x, out=out)

    return value
