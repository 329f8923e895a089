"""Positions and velocities on the constraints: the nearest ones, or those with given independent coordinates."""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.engine import newton
from dalembert.engine.machine import bind
from dalembert.engine.run import Array
from dalembert.errors import ConvergenceError, SingularConstraints
from dalembert.systems.constrained import Constrained

Indices = NDArray[np.int64]


class Levels:
    """Constraints and mass matrix at a state, evaluated without overhead."""

    def __init__(self, s: Constrained, par: Array) -> None:
        n, nv, m, mh = s.n, s.nv, s.m, s.mh
        self.q, self.t, self.g, self.rate = np.zeros(n), np.zeros(1), np.zeros(mh), np.zeros(m)
        # CasADi writes by columns
        self._normal, self._jacobian, self._mass = np.zeros((n, mh)), np.zeros((nv, m)), np.zeros((nv, nv))
        parts = [s.expression("holonomic") if mh else ca.SX(0, 1), s.role("normal"), s.role("jacobian"), s.role("rate")]
        f = ca.Function("levels", [s.q, s.t, s.par], [ca.densify(p) for p in (*parts, s.expression("mass"))])
        outputs = [self.g, self._normal, self._jacobian, self.rate, self._mass]
        self._evaluate, self._kept = bind(f, [self.q, self.t, par], outputs)

    def at(self, q: Array, t: float) -> Levels:
        """Evaluate; the results are attributes."""
        self.q[:], self.t[0] = q, t
        self._evaluate()
        return self

    @property
    def normal(self) -> Array:
        return self._normal.T

    @property
    def jacobian(self) -> Array:
        return self._jacobian.T

    @property
    def mass(self) -> Array:
        return self._mass.T


def project(levels: Levels, q: Array, v: Array, t: float, weight: str = "mass", velocity: bool = True) -> tuple[Array, Array]:
    """The nearest position and velocity on the constraints."""

    def inverse(x: Array) -> Array:
        mass = levels.at(x, t).mass
        return np.asarray(np.linalg.inv(mass) if weight == "mass" else np.eye(len(mass)), dtype=np.float64)

    def residual(x: Array) -> tuple[Array, Array]:
        levels.at(x, t)
        return levels.g.copy(), levels.normal.copy()

    if len(levels.g):
        q = newton.solve(residual, q, change=newton.projection(inverse), scale=1e-3, what="the position constraints", t=t)
    if velocity:
        K = levels.at(q, t).jacobian
        W = inverse(q)
        for _ in range(2):  # the second pass takes what rounding left
            v = v - W @ K.T @ np.linalg.solve(K @ W @ K.T, K @ v + levels.rate)
    return q, v


def whole(levels: Levels, dependent: Indices, free: Indices, x: Array, t: float, near: Array, h: float) -> Array:
    """Positions and velocities from the independent ones, `x`; the dependent positions are those near given ones."""
    n = len(levels.q)
    q = near[:n].copy()
    q[free] = x[: len(free)]

    def residual(x: Array) -> tuple[Array, Array]:
        q[dependent] = x
        levels.at(q, t)
        return levels.g.copy(), levels.jacobian[:, dependent].copy()

    try:
        q[dependent] = newton.solve(residual, q[dependent], scale=1e-3, what="the dependent coordinates", t=t)
    except ConvergenceError as error:
        raise ConvergenceError(
            f"the dependent coordinates could not be found at t = {t:g}; use a smaller step", t=t, step=h, residual=error.residual
        ) from error
    v = np.zeros(n)
    v[free] = x[len(free) :]
    G = levels.at(q, t).jacobian
    v[dependent] = -np.linalg.solve(G[:, dependent], G[:, free] @ v[free] + levels.rate)
    return np.concatenate([q, v])


def choose(levels: Levels, q: Array, t: float) -> Indices:
    """Dependent coordinates by a pivoted QR of the constraint Jacobian."""
    from scipy.linalg import qr

    G = levels.at(q, t).jacobian.copy()
    _, R, pivots = qr(G, pivoting=True)
    diagonal = np.abs(np.diag(R)) if len(G) else np.ones(0)
    if len(diagonal) and diagonal[-1] <= 1e-10 * diagonal[0]:
        row = int((diagonal > 1e-10 * diagonal[0]).sum()) + 1
        raise SingularConstraints(
            f"no set of independent coordinates at t = {t:g}: the constraints have rank {row - 1} of {len(G)}", (row,)
        )
    return np.asarray(np.sort(pivots[: len(G)]), dtype=np.int64)


def quality(levels: Levels, dependent: Indices, q: Array, t: float) -> float:
    """How well a choice determines the dependent ones: smallest singular value of their block, over the norm of the Jacobian."""
    G = levels.at(q, t).jacobian
    return float(np.linalg.svd(G[:, dependent], compute_uv=False)[-1] / np.linalg.norm(G, 2))
