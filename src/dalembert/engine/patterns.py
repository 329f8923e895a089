"""Sparse matrices of fixed pattern in numbers."""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


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
        self.key = hash((a.shape, b.shape, a.keys.tobytes(), b.keys.tobytes()))

    @property
    def plain(self) -> bool:
        """Whether nothing is added up: each entry is one product."""
        return len(self._place) == len(self.pattern.rows)

    @property
    def lists(self) -> tuple[Indices, Indices, Indices]:
        """Where the terms of each entry begin, and for each term the entries of both matrices."""
        order = np.argsort(self._place, kind="stable")
        starts = np.searchsorted(self._place[order], np.arange(len(self.pattern.rows) + 1))
        return starts, self._a[order], self._b[order]

    def __call__(self, a: Array, b: Array) -> Array:
        weights = a[self._a] * b[self._b]
        return np.asarray(np.bincount(self._place, weights=weights, minlength=len(self.pattern.rows)), dtype=np.float64)
