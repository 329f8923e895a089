"""Sweeps through the steps of large systems: sparse derivatives of one step after another, with one sparse factorisation each.

The formulas are those of `adjoint.py`. Nothing is inverted or multiplied out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import SuperLU, splu

from dalembert.engine.jacobians import jacobian
from dalembert.engine.newton import Array
from dalembert.engine.tape import Rows

SX = ca.SX
Indices = NDArray[np.int64]


class Local:
    """The derivatives of one step: `R_x` factorised, `R_z`, `N_x` and `N_z`."""

    def __init__(self, matrices: list[csc_matrix]) -> None:
        own, self.R_z, self.N_x, self.N_z = matrices
        order = "MMD_AT_PLUS_A" if own.diagonal().all() else "COLAMD"  # a full diagonal: pivots may be taken in their places
        self._factor: SuperLU | None = splu(own, permc_spec=order) if own.shape[0] else None

    def solved(self, right: Array, transposed: bool = False) -> Array:
        """`R_x^-1` times columns, or the transpose of it."""
        if self._factor is None:
            return right
        return np.asarray(self._factor.solve(np.ascontiguousarray(right), "T" if transposed else "N"))

    def ahead(self, z: Array) -> tuple[Array, Array]:
        """The changes of the unknowns and of the next state, for columns of changes."""
        x = -self.solved(self.R_z @ z)
        return x, self.N_x @ x + self.N_z @ z

    def back(self, b: Array, more: Array | float = 0.0) -> tuple[Array, Array]:
        """Multipliers, and slopes in `z`, for columns of slopes in the next state."""
        w = self.solved(self.N_x.T @ b + more, transposed=True)
        return w, self.N_z.T @ b - self.R_z.T @ w


class SparseLinearization:
    """The derivatives of the steps of a large system; see `Linearization`.

    `common` are state, time, step size, inputs and parameters; `x` all unknowns, `R` all equations, and `N` the next state.
    """

    name = "sparse"

    def __init__(self, common: list[SX], x: SX, R: SX, N: SX) -> None:
        state, _, _, u, par = common
        z = ca.vertcat(state, par, u)
        by = jacobian if isinstance(x, ca.MX) else ca.jacobian
        self._inputs, self._kind = [*common, x], type(x)
        self._step = ca.Function("step", self._inputs, [ca.densify(e) for e in (R, N)])
        whole = by(ca.densify(ca.vertcat(R, N)), ca.vertcat(x, z))
        self._function = ca.Function("derivatives", self._inputs, [whole])
        self._blocks = _blocks(whole.sparsity(), x.numel())
        self._cuts = [state.numel(), state.numel() + par.numel()]

    def _at(self, rows: Rows, k: int) -> list[Array | float]:
        return [rows.before[k], rows.t[k], rows.h, rows.u[k % len(rows.u)], rows.par, rows.unknowns[k]]

    def _local(self, rows: Rows, k: int) -> Local:
        entries = np.array(self._function(*self._at(rows, k)).nonzeros())
        matrices = [csc_matrix((entries[own], rows, starts), shape=shape) for own, rows, starts, shape in self._blocks]
        return Local(matrices)

    def ahead(self, rows: Rows, state: Array, par: Array, u: Array, out: Array | None) -> None:
        """Tangents, in place; those after each step are written."""
        for k in range(len(rows)):
            z = np.hstack([state, par, np.broadcast_to(u[k % len(u)], (len(state), u.shape[2]))])
            state[:] = self._local(rows, k).ahead(z.T)[1].T
            if out is not None:
                out[k] = state

    def back(self, rows: Rows, bar: Array, slopes: Array, par: Array, u: Array | None) -> None:
        """Adjoints, in place; those of parameters are added up, those of inputs written."""
        for k in _backwards(rows):
            _, z = self._local(rows, k).back((bar + slopes[k % len(slopes)]).T)
            bar[:], by_par, by_u = np.split(z.T, self._cuts, axis=1)
            par += by_par
            if u is not None:
                u[k] = by_u

    def second(
        self, rows: Rows, bars: tuple[Array, Array], slopes: tuple[Array, Array], dots: tuple[Array, Array, Array],
        par: Array, u: Array | None,
    ) -> None:  # fmt: skip
        """Adjoints and their derivatives in one direction, in place."""
        (bar, bar_dot), (state_dot, par_dot, u_dot) = bars, dots
        for k in _backwards(rows):
            local, z = self._local(rows, k), np.concatenate([state_dot[k, 0], par_dot[0], u_dot[k % len(u_dot), 0]])
            b, b_dot = (one[0] + slope[k % len(slope)] for one, slope in zip((bar, bar_dot), slopes, strict=True))
            x, _ = local.ahead(z[:, None])
            w, own = local.back(b[:, None])
            D_x, D_z = self._curvature(*self._at(rows, k), b, w, x, z)
            _, changed = local.back(b_dot[:, None], np.array(D_x))
            bar[0] = own[: self._cuts[0], 0]
            bar_dot[0], by_par, by_u = np.split((changed + np.array(D_z))[:, 0], self._cuts)
            par[0] += by_par
            if u is not None:
                u[k, 0] = by_u

    @cached_property
    def _curvature(self) -> ca.Function:
        """The derivatives of `L_x` and `L_z` in a direction, for `L = b^T N - w^T R` with `b` and `w` held."""
        kind, f = self._kind, self._step
        n, p, m, nx = f.numel_in(0), f.numel_in(4), f.numel_in(3), f.numel_in(5)
        both, t, h = kind.sym("both", n + p + m + nx), kind.sym("t"), kind.sym("h")
        state, par, u, x = ca.vertsplit(both, [0, n, n + p, n + p + m, n + p + m + nx])
        b, w, x_dot, z_dot = (kind.sym(name, k) for name, k in (("b", n), ("w", nx), ("x", nx), ("z", n + p + m)))
        R, N = f.call([state, t, h, u, par, x], True)
        slope = ca.gradient(ca.dot(b, N) - ca.dot(w, R), both)
        D = ca.densify(ca.jtimes(slope, both, ca.vertcat(z_dot, x_dot)))
        own = ca.Function("curvature", [both, t, h, b, w, x_dot, z_dot], [D[n + p + m :], D[: n + p + m]])
        return _joined(own, self._inputs, kind)


def _joined(function: ca.Function, inputs: list[SX], kind: type[SX]) -> ca.Function:
    """The same as a function of state, time, step, inputs, parameters and unknowns, and of the rest."""
    state, t, h, u, par, x = (kind.sym("y", e.numel()) for e in inputs)
    rest = [kind.sym(function.name_in(i), function.numel_in(i)) for i in range(3, function.n_in())]
    outputs = function.call([ca.vertcat(state, par, u, x), t, h, *rest])
    return ca.Function("curvature", [state, t, h, u, par, x, *rest], outputs)


def _blocks(sparsity: ca.Sparsity, n: int) -> list[tuple[Indices, Indices, Indices, tuple[int, int]]]:
    """The four blocks of a matrix cut after `n` rows and columns: their entries, rows, where columns begin, and shapes."""
    rows, columns = (np.array(x, dtype=np.int64) for x in sparsity.get_triplet())
    height, width = sparsity.shape
    out = []
    for top, bottom in ((0, n), (n, height)):
        for left, right in ((0, n), (n, width)):
            own = np.flatnonzero((rows >= top) & (rows < bottom) & (columns >= left) & (columns < right))
            starts = np.searchsorted(columns[own] - left, np.arange(right - left + 1))
            out.append((own, rows[own] - top, starts, (bottom - top, right - left)))
    return out


def _backwards(rows: Rows) -> Iterator[int]:
    return reversed(range(len(rows)))
