"""Sparse matrices of fixed pattern in numbers."""

from __future__ import annotations

from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from dalembert.systems.batch import places

Array = NDArray[np.float64]
Indices = NDArray[np.signedinteger]


class Places:
    """Numbers of entries: narrow for C, and as wide as NumPy wants them from when it first asks."""

    def __init__(self, values: Indices) -> None:
        self.values: Indices = np.ascontiguousarray(values, dtype=np.int32)

    @property
    def wide(self) -> NDArray[np.intp]:
        if self.values.dtype != np.intp:
            self.values = self.values.astype(np.intp)
        return self.values

    @cached_property
    def even(self) -> tuple[int, int] | None:
        """The first and the distance of all to the next, where that is the same."""
        v = self.values
        if len(v) < 2:
            return (int(v[0]) if len(v) else 0), 1
        stride = int(v[1]) - int(v[0])
        return (int(v[0]), stride) if (np.diff(v) == stride).all() else None


class Pattern:
    """Where a sparse matrix has entries: rows and columns, column by column."""

    def __init__(self, rows: Indices, columns: Indices, shape: tuple[int, int]) -> None:
        self.rows, self.columns, self.shape = (*(np.asarray(x, dtype=np.int32) for x in (rows, columns)), shape)
        self.starts = np.searchsorted(self.columns, np.arange(shape[1] + 1, dtype=np.int32)).astype(np.int32)

    @classmethod
    def of(cls, sparsity: ca.Sparsity) -> Pattern:
        return cls(*places(sparsity), sparsity.shape)

    @classmethod
    def at(cls, keys: Indices, shape: tuple[int, int]) -> Pattern:
        return cls(keys % shape[0], keys // shape[0], shape)

    def same(self, other: Pattern) -> bool:
        """Whether another one has its entries at the same places."""
        return self.shape == other.shape and np.array_equal(self.keys, other.keys)

    @property
    def keys(self) -> NDArray[np.int64]:
        """One number for each entry, in order."""
        return self.columns.astype(np.int64) * self.shape[0] + self.rows

    @property
    def by_rows(self) -> list[Indices]:
        """Where the entries of each row begin, row by row; which entries these are, and their columns."""
        order = np.argsort(self.rows, kind="stable").astype(np.int32)
        starts = np.searchsorted(self.rows[order], np.arange(self.shape[0] + 1, dtype=np.int32))
        return [starts, order, self.columns[order]]

    def matrix(self) -> csc_matrix:
        """A matrix of this pattern, whose `data` are to be filled in."""
        return csc_matrix((np.zeros(len(self.rows)), self.rows, self.starts), shape=self.shape)


class Product:
    """The product of two sparse matrices, as a list of the products of their entries that is made once.

    `lists` are where the terms of each entry begin, and for each term the entries of both matrices.
    """

    def __init__(self, a: Pattern, b: Pattern) -> None:
        counts = np.diff(a.starts)[b.rows]
        ends = np.cumsum(counts)
        second = np.repeat(np.arange(len(b.rows), dtype=np.int32), counts)
        within = np.arange(len(second), dtype=np.int32) - np.repeat(ends - counts, counts).astype(np.int32)
        first = np.repeat(a.starts[b.rows], counts) + within
        shape = a.shape[0], b.shape[1]
        keys = b.columns[second].astype(np.int64) * shape[0] + a.rows[first]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        new = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)])
        self.pattern = Pattern.at(keys[new], shape)
        self.lists = np.append(new, len(keys)).astype(np.int32), first[order], second[order]

    @property
    def plain(self) -> bool:
        """Whether nothing is added up: each entry is one product."""
        return len(self.lists[1]) == len(self.pattern.rows)


def grouped(starts: Indices, first: Indices, second: Indices) -> tuple[list[Indices], tuple[int, ...]]:
    """Sums of products with those of as many terms side by side: which sums these are, and the factors of all terms.

    And how many groups there are, with the number of sums and of terms of each.
    """
    counts = np.diff(starts)
    order = np.argsort(counts, kind="stable").astype(np.int32)
    terms, sizes = np.unique(counts, return_counts=True)
    ends = np.cumsum(counts[order])
    at = np.repeat(starts[:-1][order] - (ends - counts[order]), counts[order]) + np.arange(len(first))
    return [order, first[at], second[at]], (len(terms), *np.stack([sizes, terms], axis=1).ravel().tolist())
