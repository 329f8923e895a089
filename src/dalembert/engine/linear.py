"""Sweeps without a compiler: derivatives of many steps at once in the virtual machine, solved with partial pivoting.

The formulas are those of `adjoint.py`. With all unknowns `x` of a step in one vector, `R(x, z) = 0` and `s1 = N(x, z)`, where `z`
are state, parameters and inputs,

    X = dx/dz = -R_x^-1 R_z,    A = ds1/dz = N_z + N_x X,

exactly for the step that was computed, not for the iteration that computed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import casadi as ca
import numpy as np

from dalembert.engine.adjoint import Changes
from dalembert.engine.newton import Array
from dalembert.engine.tape import Rows
from dalembert.systems.batch import Full, batch

CHUNK = 2048  # steps whose derivatives are held in memory at once


class Linearization:
    """The derivatives of a step, evaluated for many steps at once."""

    name = "virtual machine"

    def __init__(self, changes: Changes) -> None:
        self.changes = c = changes
        blocks = [ca.jacobian(f, y) for f in (c.R, c.N) for y in (c.x, c.z)]
        self._full = [Full(b.sparsity()) for b in blocks]
        self.function = ca.Function("derivatives", [*c.common, c.x], blocks)
        n, p, _ = c.sizes
        self._cuts = [n, n + p]

    def _at(self, rows: Rows) -> list[Array]:
        return [rows.before, rows.t[:, None], np.array([rows.h]), rows.u, rows.par, rows.unknowns]

    def matrices(self, rows: Rows) -> tuple[Array, Array, Array, Array]:
        """`A`, `X`, and the derivatives `R_x` and `N_x` of each step."""
        values = batch(self.function, self._at(rows), len(rows))
        R_x, R_z, N_x, N_z = (full(v) for full, v in zip(self._full, values, strict=True))
        X: Array = -np.linalg.solve(R_x, R_z).astype(float, copy=False) if R_x.shape[1] else np.zeros_like(R_z)
        return N_z + N_x @ X, X, R_x, N_x

    def ahead(self, rows: Rows, state: Array, par: Array, u: Array, out: Array | None) -> None:
        """Tangents, in place; those after each step are written."""
        for part in chunks(len(rows)):
            A, *_ = self.matrices(rows[part])
            for k, a in enumerate(A, part.start):
                state[:] = np.hstack([state, par, np.broadcast_to(u[k % len(u)], (len(state), u.shape[2]))]) @ a.T
                if out is not None:
                    out[k] = state

    def back(self, rows: Rows, bar: Array, slopes: Array, par: Array, u: Array | None) -> None:
        """Adjoints, in place; those of parameters are added up, those of inputs written."""
        for part in chunks(len(rows), backwards=True):
            A, *_ = self.matrices(rows[part])
            for k in reversed(range(part.start, part.stop)):
                bar[:], by_par, by_u = np.split((bar + slopes[k % len(slopes)]) @ A[k - part.start], self._cuts, axis=1)
                par += by_par
                if u is not None:
                    u[k] = by_u

    def second(
        self, rows: Rows, bars: tuple[Array, Array], slopes: tuple[Array, Array], dots: tuple[Array, Array, Array],
        par: Array, u: Array | None,
    ) -> None:  # fmt: skip
        """Adjoints and their derivatives in one direction, in place."""
        (bar, bar_dot), n = bars, self.changes.sizes[0]
        state_dot, par_dot, u_dot = dots
        for part in chunks(len(rows), backwards=True):
            own = rows[part]
            A, X, R_x, N_x = self.matrices(own)
            count, b = len(own), np.empty((len(own), n))
            slope, slope_dot = (np.broadcast_to(s, (len(rows), n))[part] for s in slopes)
            for k in reversed(range(count)):
                b[k] = bar[0] + slope[k]
                bar[0] = b[k] @ A[k][:, :n]
            right = (b[:, None, :] @ N_x).transpose(0, 2, 1)
            w = np.linalg.solve(R_x.transpose(0, 2, 1), right)[:, :, 0] if R_x.shape[1] else right[:, :, 0]
            u_rows = np.broadcast_to(u_dot[:, 0], (len(rows), u_dot.shape[2]))[part]
            z = np.hstack([state_dot[part, 0], np.broadcast_to(par_dot[0], (count, par_dot.shape[1])), u_rows])
            x = (X @ z[:, :, None])[:, :, 0]
            D_x, D_z = batch(self._curvature, [*self._at(own), b, w, x, z], count)
            forcing = D_z + (D_x[:, None, :] @ X)[:, 0]
            for k in reversed(range(count)):
                found = (bar_dot[0] + slope_dot[k]) @ A[k] + forcing[k]
                bar_dot[0], by_par, by_u = np.split(found, self._cuts)
                par[0] += by_par
                if u is not None:
                    u[part.start + k, 0] = by_u

    @cached_property
    def _curvature(self) -> ca.Function:
        c = self.changes
        b, w, x, z = (ca.SX.sym(name, e.numel()) for name, e in (("b", c.N), ("w", c.R), ("x", c.x), ("z", c.z)))
        return ca.Function("curvature", [*c.common, c.x, b, w, x, z], list(c.curvature(b, w, x, z)))


def chunks(count: int, backwards: bool = False) -> Iterator[slice]:
    """Slices of at most CHUNK steps, in either direction."""
    starts = range(0, count, CHUNK)
    for start in reversed(starts) if backwards else starts:
        yield slice(start, min(start + CHUNK, count))
