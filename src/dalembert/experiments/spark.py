"""SPARK Lobatto IIIA-B of two stages with the simplified Newton iteration (Hilden 2009, secs. 2.5.1, 2.5.3), in plain NumPy.

A program of the source's algorithm, independent of the library: unit mass, `q' = v`, `v' = F(q) + A(q)^T z`, `0 = A(q) v`. One
Jacobian at the beginning of the step, the guess (2.22), and `eta |dX| <= 0.03 TOL`. Many orbits are run at once, each with a
tolerance of its own.

What the source leaves open is a choice: `z0` of a step is that of the hidden constraint, or `Z2` of the step before. Its unknowns
contain the end `y1` of the step (2.21), which lags behind the stages by an iteration; without it, `y1` follows from the stages,
as in `da.Newton`. A stopped iteration depends on both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dalembert.catalog.symbols import Array

IIIA, IIIB, WEIGHTS, NODES = (
    np.array([[0, 0], [0.5, 0.5]]),
    np.array([[0.5, 0], [0.5, 0]]),
    np.array([0.5, 0.5]),
    np.array([0, 1.0]),
)
MOMENTS = np.linalg.inv(np.array([[0.5, 0.5], [0, 1.0]])) @ np.array([[0.5, 0.5, 0], [0, 0, 1.0]])  # Q of (2.19)


class Disk:
    """The vertical rolling disk with unit inertias and R = 1/4 (sec. 2.3.1)."""

    R = 0.25

    def force(self, q: Array) -> Array:
        return np.zeros_like(q)

    def constraint(self, q: Array) -> Array:
        out = np.zeros((*q.shape[:-1], 2, 4))
        out[..., 0, 0] = out[..., 1, 1] = 1.0
        out[..., 0, 3], out[..., 1, 3] = -self.R * np.cos(q[..., 2]), -self.R * np.sin(q[..., 2])
        return out

    def force_slope(self, q: Array, z: Array) -> Array:
        """The derivative of `F + A^T z` with respect to the position."""
        out = np.zeros((*q.shape, q.shape[-1]))
        out[..., 3, 2] = self.R * (np.sin(q[..., 2]) * z[..., 0] - np.cos(q[..., 2]) * z[..., 1])
        return out

    def constraint_slope(self, q: Array, v: Array) -> Array:
        """The derivative of `A v` with respect to the position."""
        out = np.zeros((*q.shape[:-1], 2, 4))
        out[..., 0, 2], out[..., 1, 2] = self.R * np.sin(q[..., 2]) * v[..., 3], -self.R * np.cos(q[..., 2]) * v[..., 3]
        return out


class Oscillator:
    """The contact oscillator, perturbed by eps (secs. 4.3, 4.4)."""

    def __init__(self, eps: float = 0.0) -> None:
        self.eps = eps

    def force(self, q: Array) -> Array:
        x, z = q[..., 0], q[..., 2]
        return -q - self.eps * np.stack([x * z**2, 0 * x, x**2 * z], axis=-1)

    def constraint(self, q: Array) -> Array:
        return np.stack([np.ones_like(q[..., 0]), 0 * q[..., 0], q[..., 1]], axis=-1)[..., None, :]

    def force_slope(self, q: Array, z: Array) -> Array:
        """The derivative of `F + A^T z` with respect to the position."""
        x, w = q[..., 0], q[..., 2]
        out = np.zeros((*q.shape, 3)) - np.eye(3)
        out[..., 0, 0] -= self.eps * w**2
        out[..., 0, 2] -= 2 * self.eps * x * w
        out[..., 2, 0] -= 2 * self.eps * x * w
        out[..., 2, 2] -= self.eps * x**2
        out[..., 2, 1] += z[..., 0]
        return out

    def constraint_slope(self, q: Array, v: Array) -> Array:
        """The derivative of `A v` with respect to the position."""
        out = np.zeros((*q.shape[:-1], 1, 3))
        out[..., 0, 1] = v[..., 2]
        return out

    def energy(self, q: Array, v: Array) -> Array:
        potential = (q * q).sum(axis=-1) + self.eps * (q[..., 0] * q[..., 2]) ** 2
        return np.asarray(((v * v).sum(axis=-1) + potential) / 2)


@dataclass
class Spark:
    """Steps of the two-stage method with unknowns `X = (Y1, Y2, Z1, Z2, y1)`, `Y = (q, v)`."""

    system: Disk | Oscillator
    h: float
    tolerance: Array  # one for each orbit
    carried: bool = False  # z0 is the last stage's of the step before, else that of the hidden constraint
    follows: bool = False  # y1 follows from the stages, else it is one of the unknowns

    def multipliers(self, q: Array, v: Array) -> Array:
        """From the constraint of accelerations."""
        A = self.system.constraint(q)
        rate = np.einsum("...ij,...j->...i", A, self.system.force(q)) + np.einsum(
            "...ij,...j->...i", self.system.constraint_slope(q, v), v
        )
        return -np.linalg.solve(A @ np.swapaxes(A, -1, -2), rate[..., None])[..., 0]

    def residual(self, q0: Array, v0: Array, X: Array) -> Array:
        """Eqs. (2.20), for each orbit."""
        n, h = q0.shape[-1], self.h
        Q, V, Z, q1, v1 = self.split(X, n)
        A = self.system.constraint(Q)
        rate = self.system.force(Q) + np.einsum("...ij,...i->...j", A, Z)
        g = np.einsum("...ij,...j->...i", A, V)
        end = np.einsum("...ij,...j->...i", self.system.constraint(q1), v1)
        rows_q, rows_v = Q - q0[:, None] - h * (IIIA @ V), V - v0[:, None] - h * (IIIB @ rate)
        rows_g = MOMENTS[:, :2] @ g + MOMENTS[:, 2][:, None] * end[:, None]
        last = np.concatenate([q1 - q0 - h * (WEIGHTS @ V), v1 - v0 - h * (WEIGHTS @ rate)], axis=-1)
        return np.concatenate(
            [np.concatenate([rows_q, rows_v], axis=-1).reshape(len(X), -1), rows_g.reshape(len(X), -1), last], axis=-1
        )

    def split(self, X: Array, n: int) -> tuple[Array, Array, Array, Array, Array]:
        """Positions, velocities and multipliers of the stages, and both at the end."""
        Y, y1 = X[:, : 4 * n].reshape(len(X), 2, 2 * n), X[:, -2 * n :]
        return Y[..., :n], Y[..., n:], X[:, 4 * n : -2 * n].reshape(len(X), 2, -1), y1[:, :n], y1[:, n:]

    def jacobian(self, q: Array, v: Array, z: Array, q1: Array, v1: Array) -> Array:
        """J of sec. 2.5.1, derivatives at the beginning of the step; those of the constraint at its end there, at `(q1, v1)`."""
        n, m, h, s = q.shape[-1], z.shape[-1], self.h, self.system
        A, K, D = s.constraint(q), s.force_slope(q, z), s.constraint_slope(q, v)
        A1, D1 = s.constraint(q1), s.constraint_slope(q1, v1)
        At, size = np.swapaxes(A, -1, -2), 2 * (2 * n + m) + 2 * n
        J = np.zeros((len(q), size, size)) + np.eye(size)
        J[:, 4 * n : 4 * n + 2 * m, 4 * n : 4 * n + 2 * m] = 0.0
        for i in range(2):
            qi, vi, gi = (
                slice(2 * n * i, 2 * n * i + n),
                slice(2 * n * i + n, 2 * n * (i + 1)),
                slice(4 * n + m * i, 4 * n + m * (i + 1)),
            )
            for j in range(2):
                qj, vj, zj = (
                    slice(2 * n * j, 2 * n * j + n),
                    slice(2 * n * j + n, 2 * n * (j + 1)),
                    slice(4 * n + m * j, 4 * n + m * (j + 1)),
                )
                J[:, qi, vj] -= h * IIIA[i, j] * np.eye(n)
                J[:, vi, qj] -= h * IIIB[i, j] * K
                J[:, vi, zj] -= h * IIIB[i, j] * At
                J[:, gi, qj], J[:, gi, vj] = MOMENTS[i, j] * D, MOMENTS[i, j] * A
            J[:, gi, -2 * n : -n], J[:, gi, -n:] = MOMENTS[i, 2] * D1, MOMENTS[i, 2] * A1
            J[:, -2 * n : -n, vi] -= h * WEIGHTS[i] * np.eye(n)
            J[:, -n:, qi] -= h * WEIGHTS[i] * K
            J[:, -n:, gi] -= h * WEIGHTS[i] * At
        return J

    def ended(self, q0: Array, v0: Array, X: Array) -> Array:
        """`X` with the end of the step as it follows from the stages."""
        Q, V, Z, _, _ = self.split(X, q0.shape[-1])
        rate = self.system.force(Q) + np.einsum("...ij,...i->...j", self.system.constraint(Q), Z)
        out = X.copy()
        out[:, -2 * q0.shape[-1] :] = np.concatenate([q0 + self.h * (WEIGHTS @ V), v0 + self.h * (WEIGHTS @ rate)], axis=-1)
        return out

    def step(self, q: Array, v: Array, z: Array | None = None) -> tuple[Array, Array, Array]:
        """One step of all orbits: the guess (2.22), then algorithm 2.1; `z0` is that of the hidden constraint if not given."""
        n, h = q.shape[-1], self.h
        z = self.multipliers(q, v) if z is None else z
        measured = slice(None, -2 * n) if self.follows else slice(None)
        a = self.system.force(q) + np.einsum("...ij,...i->...j", self.system.constraint(q), z)
        there = (q + h * v, v + h * a) if self.follows else (q, v)
        inverse = np.linalg.inv(self.jacobian(q, v, z, *there))
        ends = np.concatenate([q + h * v, v + h * a], axis=-1)
        X = np.concatenate([q, v, ends, z, z, ends], axis=-1)
        open_, before, rate = np.ones(len(q), dtype=bool), np.ones(len(q)), np.ones(len(q))
        for k in range(40):
            X = self.ended(q, v, X) if self.follows else X
            update = np.where(open_[:, None], -np.einsum("bij,bj->bi", inverse, self.residual(q, v, X)), 0.0)
            X = X + update
            size = np.linalg.norm(update[:, measured], axis=-1)
            if k:
                theta = size / np.maximum(before, 1e-300)
                rate = theta if k == 1 else np.sqrt(rate * theta)
                open_ &= ~((rate < 1) & (rate * size <= 0.03 * self.tolerance * (1 - rate)))
            if not open_.any():
                break
            before = np.where(open_, size, before)
        _, _, Z, q1, v1 = self.split(self.ended(q, v, X) if self.follows else X, n)
        return q1, v1, Z[:, -1]

    def run(self, q: Array, v: Array, count: int, every: int) -> tuple[Array, Array]:
        """Positions and velocities after each `every` steps, the start included; the first axis is time."""
        kept, z = [(q, v)], None
        for k in range(1, count + 1):
            q, v, last = self.step(q, v, z)
            z = last if self.carried else None
            if k % every == 0:
                kept.append((q, v))
        return np.array([a for a, _ in kept]), np.array([b for _, b in kept])
