"""Murua's method on the double pendulum (Symank 2025, secs. 6.3, 7.3.3), in plain NumPy, many masses at once.

A program of the source's algorithm, independent of the library, that gives all of its variables, the multipliers `mu` of the
stabilised form among them. Collocation at the Gauss nodes, constraints at the Lobatto nodes beside zero; every mass may be zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre, polynomial

from dalembert.catalog.symbols import Array


def basis(nodes: Array, at: Array, integrated: bool) -> Array:
    """Lagrange polynomials of the nodes at other places, or their integrals from 0 to there: one row for each place."""
    rows = []
    for j, c in enumerate(nodes):
        others = np.delete(nodes, j)
        p = polynomial.polyfromroots(others) / np.prod(c - others)
        rows.append(polynomial.polyval(at, polynomial.polyint(p) if integrated else p))
    return np.array(rows).T


def coefficients(s: int) -> tuple[Array, Array, Array, Array]:
    """`A`, `b`, the rows of the constraint nodes, and the weights that continue stage values to the end of the step."""
    gauss = (1 + legendre.leggauss(s)[0]) / 2
    inner = legendre.legroots(legendre.legder(np.eye(s + 1)[s]))
    lobatto = np.append((1 + inner) / 2, 1.0)
    return (
        basis(gauss, gauss, True),
        basis(gauss, np.ones(1), True)[0],
        basis(gauss, lobatto, True),
        basis(gauss, np.ones(1), False)[0],
    )


def jacobian(p: Array) -> Array:
    """G(p) of half the squared lengths: `G(p) v` is bilinear and symmetric in p and v."""
    out = np.zeros((*p.shape[:-1], 2, 4))
    rod = p[..., :2] - p[..., 2:]
    out[..., 0, :2], out[..., 1, :2], out[..., 1, 2:] = p[..., :2], rod, -rod
    return out


UNIT = np.eye(2)
FIRST = np.kron(np.array([[1.0, 0.0], [0.0, 0.0]]), UNIT)
SECOND = np.kron(np.array([[1.0, -1.0], [-1.0, 1.0]]), UNIT)


def slope(lam: Array) -> Array:
    """The derivative of `G(p)^T lam` with respect to p."""
    return np.asarray(lam[..., 0, None, None] * FIRST + lam[..., 1, None, None] * SECOND)


class Run(NamedTuple):
    """Positions, velocities and multipliers after each step; the first axis is time, the second the masses."""

    p: Array
    v: Array
    lam: Array
    mu: Array


@dataclass
class Pendulums:
    """Double pendulums with rods of length 1, masses of shape (count, 2), and one viscosity for all velocities."""

    masses: Array
    viscosity: float = 0.01
    ggl: bool = False
    stages: int = 3
    gravity: float = 9.81

    def __post_init__(self) -> None:
        self.A, self.b, self.rows, self.end = coefficients(self.stages)
        self.m = np.repeat(self.masses, 2, axis=1)[:, None, :]  # count, 1, 4
        self.weight = -self.gravity * np.array([0.0, 1.0, 0.0, 1.0])

    def residual(self, p: Array, v: Array, X: Array, h: float) -> Array:
        """Stage equations and constraints; `X` holds `p', v', lam` (and mu) of each stage."""
        Kp, Kv, lam, mu = X[..., :4], X[..., 4:8], X[..., 8:10], X[..., 10:]
        P, V = p[:, None] + h * (self.A @ Kp), v[:, None] + h * (self.A @ Kv)
        Pc, Vc = p[:, None] + h * (self.rows @ Kp), v[:, None] + h * (self.rows @ Kv)
        G, Gc = jacobian(P), jacobian(Pc)
        first = Kp - V
        force = np.einsum("...ij,...i->...j", G, lam)
        parts = [first, self.m * (Kv - self.weight) - force + self.viscosity * V, np.einsum("...ij,...j->...i", Gc, Vc)]
        if self.ggl:
            parts[0] = first - np.einsum("...ij,...i->...j", G, mu)
            parts.append((np.einsum("...ij,...j->...i", Gc, Pc) - 1.0) / 2)
        return np.concatenate(parts, axis=-1)

    def derivative(self, p: Array, v: Array, X: Array, h: float) -> Array:
        """The Jacobian of the residual, of shape (count, s N, s N)."""
        s, N, count = self.stages, X.shape[-1], len(X)
        Kp, Kv, lam, mu = X[..., :4], X[..., 4:8], X[..., 8:10], X[..., 10:]
        Pc, Vc = p[:, None] + h * (self.rows @ Kp), v[:, None] + h * (self.rows @ Kv)
        G, Gc, Gv = jacobian(p[:, None] + h * (self.A @ Kp)), jacobian(Pc), jacobian(Vc)
        a, c = h * self.A[None, :, None, :, None], h * self.rows[None, :, None, :, None]
        own = np.eye(s)[None, :, None, :, None]
        J = np.zeros((count, s, N, s, N))
        eye = np.eye(4)[None, None, :, None, :]
        J[:, :, :4, :, :4] = own * eye
        J[:, :, :4, :, 4:8] = -a * eye
        J[:, :, 4:8, :, :4] = -a * slope(lam)[:, :, :, None, :]
        J[:, :, 4:8, :, 4:8] = own * (eye * self.m[:, :, :, None, None]) + self.viscosity * a * eye
        J[:, :, 4:8, :, 8:10] = -own * np.swapaxes(G, -1, -2)[:, :, :, None, :]
        J[:, :, 8:10, :, :4] = c * Gv[:, :, :, None, :]
        J[:, :, 8:10, :, 4:8] = c * Gc[:, :, :, None, :]
        if self.ggl:
            J[:, :, :4, :, :4] -= a * slope(mu)[:, :, :, None, :]
            J[:, :, :4, :, 10:] = -own * np.swapaxes(G, -1, -2)[:, :, :, None, :]
            J[:, :, 10:, :, :4] = c * Gc[:, :, :, None, :]
        return J.reshape(count, s * N, s * N)

    def run(self, p: Array, v: Array, h: float, count: int, iterations: int = 8) -> Run:
        """All pendulums from one start; Newton's iteration until all of them stand still."""
        n, N = len(self.masses), 12 if self.ggl else 10
        p, v = np.tile(p, (n, 1)), np.tile(v, (n, 1))
        X = np.zeros((n, self.stages, N))
        kept = []
        for _ in range(count):
            for _ in range(iterations):
                right = self.residual(p, v, X, h).reshape(n, -1, 1)
                update = np.linalg.solve(self.derivative(p, v, X, h), right).reshape(X.shape)
                X = X - update
                if (np.abs(update).max(axis=(1, 2)) <= 1e-13 * np.abs(X).max(axis=(1, 2))).all():
                    break
            p, v = p + h * np.einsum("j,bjk->bk", self.b, X[..., :4]), v + h * np.einsum("j,bjk->bk", self.b, X[..., 4:8])
            last = np.einsum("j,bjk->bk", self.end, X[..., 8:])
            kept.append((p, v, last[:, :2], last[:, 2:]))
        return Run(*(np.array([row[k] for row in kept]) for k in range(4)))
