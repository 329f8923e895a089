"""Sparse matrices of fixed pattern, factorised in numbers; the sizes of changes and of residuals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import qdldl
from numpy.typing import NDArray
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu

from dalembert.engine.large import LargeStage
from dalembert.engine.looks import HUGE, ROUNDING
from dalembert.engine.newton import EPS, TINY, Array
from dalembert.engine.patterns import Pattern

SYMMETRIC = 0.25  # of a matrix: the skew part up to which the symmetric part is tried in its place
LOW = 1e-26  # the square of a size at which no convergence can be seen any more
STALLED = 0.04  # the square of what a change is of the one before, where it does not shrink as it should
LOST = 0.1  # of rounding: what cannot be seen beside it
PART = 2 * EPS  # of the largest terms of a residual: its rounding
EXACT = (16 * EPS) ** 2  # the square of a size that is rounding
STUCK = 0.25  # the square of what a change is of the one before, where nothing is gained
NOISE = 1e-16  # the square of the largest change that may be round-off
PACE = 0.04  # the square of what each change should be of the one before, on the average
DIAGONAL = 0.01  # of the largest entry of a column: the diagonal is taken as pivot where it is not less
NEAR = 0.05  # of a matrix: what it may differ from a multiple of another one, whose factors are tried in its place
CHEAP = 8  # operations of a factorisation for each entry of the matrix, up to which it is taken anew in each step


class Factor:
    """A matrix of a fixed pattern, factorised: `L D L^T` of its symmetric part where that is definite, else `L U`."""

    def __init__(self, pattern: Pattern, matrix: csc_matrix) -> None:
        self.n, self.matrix = pattern.shape[0], matrix
        self.solve: Callable[[Array], Array] | None = None
        self.fresh = False  # whether it was taken in the solve that is under way
        self.new = False  # and just now
        self.single = False  # whether one change with new factors is known to be enough
        self.definite = False  # whether it is of the symmetric part
        self.rate = [0.0]  # the square of the slowest convergence that was seen with it
        self.known = 0  # how many times its convergence was seen
        self.goal = 0.0  # the square of the size of the last change, if all had been as fast as they should be
        self.rounding = np.zeros(1)  # of the residual, where that is known
        self.left = 0.0  # the largest residual of the last change, where it is
        self._ldl: qdldl.Solver | None = None
        rows, columns = pattern.rows, pattern.columns
        # where the entries of the transpose are: sorted by rows, they come in the order of its columns
        turned = np.lexsort((columns, rows))
        same = np.array_equal(rows[turned], columns) and np.array_equal(columns[turned], rows)
        self.symmetric = bool(same and np.count_nonzero(rows == columns) == self.n)
        self._try, self.cheap = self.symmetric, False
        self.upper: NDArray[np.int64] = np.flatnonzero(rows <= columns)
        self.lower: NDArray[np.int64] = turned[self.upper]
        self.half = Pattern(rows[self.upper], columns[self.upper], pattern.shape).matrix()

    def order(self) -> NDArray[np.int64]:
        """The order of elimination: QDLDL's, by the pattern."""
        trial = self.half.copy()
        trial.data[:] = 0.0
        trial.setdiag(1.0)
        return np.asarray(qdldl.Solver(trial, upper=True).factors()[2], dtype=np.int64)

    def drop(self) -> None:
        """Forget what was factorised, and what was found of it."""
        self.solve, self._try = None, self.symmetric
        self.cheap = self.single = self.definite = False
        self.rounding[0] = 0.0

    def learn(self, before: float, after: float, previous: float) -> None:
        """Keep how slowly an iteration converges: a lucky change in a later step is no sign that it is done.

        So too of the largest residual, `previous` that of the change before: rows that converge fast may hide others.
        """
        self.known += 1
        if previous > self.rounding[0] and self.left < previous:
            self.rate[0] = max(self.rate[0], (self.left / previous) * (self.left / previous))
        if after > LOW and before > 0.0:
            self.rate[0] = max(self.rate[0], min(after / before, 1.0))

    def settled(self, before: float, after: float) -> bool:
        """Whether rounding is all that is left of a residual after the change that was made with it.

        That is so where it will be lost in the rounding of its terms, by the rate at which changes shrink, seen twice: those of a
        symmetric part come in pairs, a lucky one and one that is not. And where they do not shrink as they should while it is no
        more than that.
        """
        if not self.rounding[0] or not before > 0.0:
            return False
        ratio, left = after / before, self.left
        lost = self.known > 1 and left * np.sqrt(max(ratio, self.rate[0])) <= LOST * self.rounding[0]
        return bool(lost or (ratio > STALLED and left <= self.rounding[0]))

    def look(self, residual: Array) -> None:
        """Keep the size of a residual, where that of its rounding is known."""
        self.left = float(np.abs(residual).max()) if self.rounding[0] else 0.0

    def take(self, careful: bool = False) -> None:
        """Factorise the matrix as it stands; a `careful` look takes it as it is, with partial pivoting."""
        self.rate[0], self.known = 0.0, 0
        self._try, self.fresh = self._try and not self.fresh, True  # the symmetric part did not serve in this very solve
        if self._try and not careful and self._definite():
            assert self._ldl is not None
            self.solve, self.definite = self._ldl.solve, True
            return
        self.whole(careful)

    def whole(self, careful: bool = False) -> None:
        """Factorise the matrix as it is, by `L U`; one of symmetric pattern in its order, on the diagonal where that serves."""
        self._try = self.cheap = self.definite = False
        try:
            self.solve = splu(self.matrix).solve if careful or not self.symmetric else self._ordered()
        except (RuntimeError, ValueError):  # singular, or not finite
            self.solve = self._nothing

    def _ordered(self) -> Callable[[Array], Array]:
        order, back, places, matrix = self._turned
        np.take(self.matrix.data, places, out=matrix.data)
        solve = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=DIAGONAL, options={"SymmetricMode": True}).solve
        return lambda right: solve(right[order])[back]

    @cached_property
    def _turned(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], csc_matrix]:
        """The order of elimination and the way back, the places of entries in it, and the matrix in it."""
        order, number = self.order(), self.matrix.copy()
        number.data = np.arange(len(number.data), dtype=np.float64)
        matrix = number[order][:, order].tocsc()
        matrix.sort_indices()
        return order, np.argsort(order), matrix.data.astype(np.int64), matrix

    def _definite(self) -> bool:
        """Factorise the symmetric part; False where that is no good."""
        data, first = self.matrix.data, self.solve is None
        own, other = data[self.upper], data[self.lower]
        if first:
            skew, size = np.abs(own - other).sum(), np.abs(own).sum()
            if not np.isfinite(size) or skew > SYMMETRIC * size:
                return False
        np.add(own, other, out=own)
        np.multiply(own, 0.5, out=self.half.data)
        try:
            if self._ldl is None:
                self._ldl = qdldl.Solver(self.half, upper=True)
            else:
                self._ldl.update(self.half, upper=True)
            if first:  # one look at the signs of all pivots, for as long as the matrix is of one kind
                L, D, _ = self._ldl.factors()
                self.cheap = bool(np.square(np.diff(L.indptr)).sum() < CHEAP * len(data))
                return bool((D > 0).all() or (D < 0).all())
        except (RuntimeError, ValueError):
            self._ldl = None
            return False
        return True

    def _nothing(self, right: Array) -> Array:
        return np.full(self.n, np.nan)


class Sizes:
    """The sizes of changes and of residuals of one solve."""

    def __init__(self, stage: LargeStage) -> None:
        self.seen = None if stage.seen is None or len(stage.seen) == stage.n else np.array(stage.seen)
        self.residual = stage.seen is None

    def size(self, x: Array, change: Array, residual: Array, scale: Array) -> float:
        """The square of the size of a change, as in `Draft`, but the mean of all: the rounding of many would add up."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.residual:
                relative = residual * scale
            else:
                own, by = (x, change) if self.seen is None else (x[self.seen], change[self.seen])
                relative = by / (np.abs(own) + scale + TINY)
            return float(np.square(relative).sum() / len(relative) + 0.0 * change.sum())

    def ratio(self, x: Array, residual: Array, J: csc_matrix, scale: Array) -> float:
        """The square of the residual relative to the size of its terms, as in `looks`."""
        with np.errstate(all="ignore"):
            own, rows = np.abs(x), np.zeros(1)
            if self.residual:
                rows = 1 / scale
            elif self.seen is None:
                own = own + scale
            else:
                own[self.seen] += scale
            terms = J @ own + (1 + ROUNDING) * rows + TINY
            ratio = np.where(terms < HUGE, residual / terms, HUGE)
            return float(np.square(ratio).sum())
