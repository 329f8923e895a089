"""The derivative array of a differential-algebraic equation: its index, its constraints, and consistent values.

`F(t, x, x') = 0` and its derivatives up to the k-th are equations in `x` and the jet `(x', x'', ..., x^(k+1))`:

    F_k(t, x, jet) = (F, dF/dt, ..., d^k F/dt^k) = 0.

The index is the least k for which they determine `x'`: `dF_k/d(jet)` is 1-full, `rank J = n + rank J[:, n:]` (Campbell, Gear
1995; Kunkel, Mehrmann 2006, sec. 3.1). Values `x` are consistent if there is a jet with `F_k = 0` for `k = index - 1`. Ranks come
from singular values of rows and columns of size one. Inputs and parameters are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST = 5  # derivatives at most
LARGEST = 80  # unknowns beyond which the array is not written out
RANK = 1e-8  # singular values below this part of the largest count as zero
SOLVED = 1e-9


@dataclass(frozen=True)
class Point:
    """A solution of the first equations of the array: values, jet, and what is left of the equations, relative to their terms."""

    x: Array
    jet: Array
    residual: float


@dataclass(frozen=True)
class Index:
    """What the array says at a point: the index, how many values can be chosen freely, and how many equations are hidden."""

    index: int
    free_values: int
    constraints: int


class DerivativeArray:
    """The derivatives of `rows(x, rate, t, given) = 0` along solutions."""

    def __init__(self, rows: SX, x: SX, rate: SX, t: SX, given: Sequence[SX] = ()) -> None:
        self.n = x.numel()
        self._jets = [x, rate, *(SX.sym(f"x{k}", self.n) for k in range(2, MOST + 2))]
        self._t, self._given = t, list(given)
        self._rows = [ca.densify(rows)]
        self._made: dict[int, ca.Function] = {}

    def _derivative(self, rows: SX) -> SX:
        total = ca.jacobian(rows, self._t)
        for one, following in zip(self._jets, self._jets[1:], strict=False):
            total += ca.jtimes(rows, one, following)
        return total

    def equations(self, k: int) -> ca.Function:
        """`(x, jet, t, given) -> F_k, dF_k/dx, dF_k/djet`."""
        if k not in self._made:
            while len(self._rows) <= k:
                self._rows.append(self._derivative(self._rows[-1]))
            rows, jet = ca.vertcat(*self._rows[: k + 1]), ca.vertcat(*self._jets[1 : k + 2])
            inputs = [self._jets[0], jet, self._t, *self._given]
            outputs = [rows, ca.jacobian(rows, self._jets[0]), ca.jacobian(rows, jet)]
            self._made[k] = ca.Function("array", inputs, [ca.densify(e) for e in outputs])
        return self._made[k]

    def _values(self, k: int, x: Array, jet: Array, t: float, given: Sequence[Array]) -> tuple[Array, Array, Array]:
        r, X, J = (np.asarray(e.full()) for e in self.equations(k)(x, jet, t, *given))
        return r[:, 0], X, J

    def solve(self, k: int, x: Array, t: float, given: Sequence[Array], weights: Array | None = None) -> Point:
        """A jet with `F_k = 0` by Gauss and Newton's iteration; with `weights` (how far each may move) `x` is changed as well."""
        n, x = self.n, np.array(x, dtype=float)
        jet = np.zeros((k + 1) * n)
        best = Point(x, jet, np.inf)
        for _ in range(40):
            with np.errstate(all="ignore"):
                r, X, J = self._values(k, x, jet, t, given)
            if not (np.isfinite(r).all() and np.isfinite(X).all() and np.isfinite(J).all()):
                break
            terms = np.abs(J) @ np.abs(jet) + np.abs(X) @ np.abs(x) + np.abs(r - J @ jet - X @ x)
            size = float((np.abs(r) / (terms + 1e-12)).max(initial=0.0))
            if size < best.residual:
                best = Point(x.copy(), jet.copy(), size)
            if size < 1e-15 or size > 1e3 * max(best.residual, 1e-12):
                break
            moved = np.hstack([X * weights, J]) if weights is not None else J
            rows = np.abs(moved).max(axis=1, initial=0.0)
            rows[rows < 1e-300] = 1.0  # nothing moves these: what is off there, by rounding, stays so
            step = np.linalg.lstsq(moved / rows[:, None], -r / rows, rcond=1e-12)[0]
            if weights is not None:
                x, step = x + weights * step[:n], step[n:]
            jet = jet + step
        return best

    def index(self, x: Array, t: float, given: Sequence[Array] = (), most: int = MOST) -> Index | None:
        """The index at a point, or None where up to `most` derivatives do not determine the rates."""
        for k in range(most + 1):
            point = self.solve(k, x, t, given)
            if point.residual > SOLVED:  # off the constraints: those of the nearest point
                point = self.solve(k, x, t, given, np.ones(self.n))
            if not np.isfinite(point.residual) or point.residual > 1e-6:
                return None
            _, X, J = self._values(k, point.x, point.jet, t, given)
            full, later = rank(J), rank(J[:, self.n :])
            if full == self.n + later:
                constraints = rank(np.hstack([X, J])) - full
                return Index(k, self.n - constraints, constraints)
        return None


def rank(matrix: Array) -> int:
    """The rank by singular values, with rows and columns scaled to size one."""
    if not matrix.size:
        return 0
    for axis in (1, 0, 1):
        size = np.abs(matrix).max(axis=axis, keepdims=True)
        matrix = matrix / np.where(size > 0, size, 1.0)
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > RANK * max(values[0], 1e-300)).sum())
