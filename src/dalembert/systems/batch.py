"""Evaluating a CasADi function at many points, straight from and into NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.locks import Lock

BLOCK = 128
LISTED = 1000  # entries, up to which CasADi gives them as lists: faster than a function that writes them to an array


def batch(function: ca.Function, arguments: Sequence[ArrayLike], count: int) -> list[NDArray[np.float64]]:
    """Outputs of a function for `count` points, one row each (the nonzeros of a sparse output).

    An argument has one row a point, or is one vector that all points share.
    """
    arrays = [_rows(np.asarray(a, dtype=float), count) for a in arguments]
    out = [np.empty((count, function.nnz_out(i))) for i in range(function.n_out())]
    size = 0
    for start in range(0, count, BLOCK):
        part = slice(start, min(start + BLOCK, count))
        if part.stop - part.start != size:
            # CasADi keeps the mapped function; one of many thousand points would take long to make
            size = part.stop - part.start
            buffer, evaluate = (function if size == 1 else function.map(size, "serial")).buffer()
        for i, a in enumerate(arrays):
            if a.size:
                buffer.set_arg(i, memoryview(a[part]))  # type: ignore
        for i, a in enumerate(out):
            if a.size:
                buffer.set_res(i, memoryview(a[part]))  # type: ignore
        evaluate()
    return out


class Pointwise:
    """A function of one vector at one point after another: nothing is bound anew from call to call. Threads may share it."""

    def __init__(self, function: ca.Function) -> None:
        self._lock, self._point = Lock(), np.empty(function.nnz_in(0))
        self._out = [np.empty(function.nnz_out(i)) for i in range(function.n_out())]
        self._buffer, self._evaluate = function.buffer()
        if self._point.size:
            self._buffer.set_arg(0, memoryview(self._point))  # type: ignore
        for i, a in enumerate(self._out):
            if a.size:
                self._buffer.set_res(i, memoryview(a))  # type: ignore

    def __call__(self, *parts: ArrayLike) -> list[NDArray[np.float64]]:
        """The outputs at a point, which is given in parts."""
        with self._lock:
            np.concatenate(parts, out=self._point)
            self._evaluate()
            return [a.copy() for a in self._out]


def _rows(a: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """One row a point, in a row of memory."""
    rows = a.reshape(1, -1) if a.ndim == 1 and count == 1 else a if a.shape == (count, a.shape[-1]) else None
    return np.ascontiguousarray(np.broadcast_to(a, (count, a.shape[-1])) if rows is None else rows)


def nonzeros(matrix: ca.DM) -> NDArray[np.float64]:
    """The entries of a matrix."""
    if matrix.nnz() < LISTED:
        return np.array(matrix.nonzeros(), dtype=float)
    out: NDArray[np.float64] = batch(ca.Function("entries", [], [ca.MX(matrix)]), [], 1)[0][0]
    return out


def places(sparsity: ca.Sparsity) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The rows and the columns of the entries of a pattern."""
    if sparsity.nnz() < LISTED:
        return np.array(sparsity.row(), dtype=np.int32), np.array(sparsity.get_col(), dtype=np.int32)
    row, column = (ca.MX.sym("place", size) for size in sparsity.shape)
    nothing, (one, other) = ca.MX(ca.DM(sparsity, 0.0)), (ca.MX.ones(size) for size in sparsity.shape)
    both = ca.Function("places", [row, column], [ca.rank1(nothing, 1.0, row, other), ca.rank1(nothing, 1.0, one, column)])
    rows, columns = batch(both, [np.arange(float(size)) for size in sparsity.shape], 1)
    return rows[0].astype(np.int32), columns[0].astype(np.int32)


def diagonal(matrix: ca.DM) -> NDArray[np.float64]:
    """The diagonal of a matrix."""
    rows, columns = places(matrix.sparsity())
    own, out = rows == columns, np.zeros(min(matrix.shape))
    out[rows[own]] = nonzeros(matrix)[own]
    return out


class Full:
    """Rows of nonzeros of a pattern as full matrices, `(count, rows, columns)`."""

    def __init__(self, sparsity: ca.Sparsity) -> None:
        self._shape, self._dense = sparsity.shape, sparsity.is_dense()
        self._at = np.array(sparsity.row(), dtype=int) * self._shape[1] + np.array(sparsity.get_col(), dtype=int)

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        rows, columns = self._shape
        if self._dense:
            return values.reshape(len(values), columns, rows).transpose(0, 2, 1)
        out = np.zeros((len(values), rows * columns))
        out[:, self._at] = values
        return out.reshape(len(values), rows, columns)


def dense(values: NDArray[np.float64], sparsity: ca.Sparsity) -> NDArray[np.float64]:
    """The same for a pattern that is needed once."""
    return Full(sparsity)(values)
