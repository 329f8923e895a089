"""Constant bases of the range and co-range of the matrix `E` of a port-Hamiltonian system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import MethodError
from dalembert.systems.shapes import Array

if TYPE_CHECKING:
    from dalembert.systems.port_hamiltonian import PortHamiltonian


@dataclass(frozen=True)
class Bases:
    """`E = U1 C V1^T` with `C` invertible, and the complements `U2`, `V2`: unit vectors where `E` is block diagonal.

    `U3` are rows of equations whose costates are zero, and in which `E` may be anything: `[U1 U2]^T E = [C; 0] V1^T` then.
    """

    U1: SX
    U2: SX
    V1: SX
    V2: SX
    U3: SX

    @property
    def rank(self) -> int:
        return self.U1.size2()

    @property
    def U(self) -> SX:
        return ca.horzcat(self.U1, self.U2, self.U3)

    @property
    def V(self) -> SX:
        return ca.horzcat(self.V1, self.V2)


def bases(s: PortHamiltonian) -> Bases:
    """The bases of `E`, where they do not depend on the state."""
    blocks = s.blocks()
    if blocks is not None:
        eye = np.eye(s.n)
        other = [[i for i in range(s.n) if i not in part] for part in blocks]
        return Bases(*(_sparse(eye[:, part]) for part in (blocks[0], other[0], blocks[1], other[1], [])))
    found = _of_rows(s, list(range(s.n)))
    if found is None:
        raise MethodError(
            "E is singular and its range depends on the state: E^T z = DH has no solution in general, and no discrete gradient "
            "pair is constructed from a discrete gradient; give one to gradient-pair, or bring the system to semi-explicit form "
            "with system.transformed(phi, U)"
        )
    return found


def structured_bases(s: PortHamiltonian) -> Bases:
    """The bases of `E` in the equations with costates; the others may contain any rates (Kinon et al. 2025, eq. 38)."""
    try:
        return bases(s)
    except MethodError:
        z = s.expression("z")
        found = _of_rows(s, [i for i in range(s.n) if not z[i].is_zero()])
        if found is None:
            raise
        return found


def _of_rows(s: PortHamiltonian, rows: list[int]) -> Bases | None:
    """The bases of `E` in some of its rows, the others free, where these bases are constant; else None."""
    eye = np.eye(s.n)
    matrices = [E[rows] for E in _sampled(s)]
    U, _, Vt = np.linalg.svd(matrices[0])
    rank = _rank(matrices[0])
    if rank == s.n:
        U, Vt = np.eye(s.n), np.eye(s.n)
    for E in matrices:
        scale = max(1.0, float(np.abs(E).max(initial=0.0)))
        own = _rank(U[:, :rank].T @ E @ Vt[:rank].T)
        outside = np.abs(U[:, rank:].T @ E).max(initial=0.0) + np.abs(E @ Vt[rank:].T).max(initial=0.0)
        if outside >= 1e-10 * scale or own < rank:
            return None
    U, free = eye[:, rows] @ U, [i for i in range(s.n) if i not in rows]
    return Bases(*(_sparse(m) for m in (U[:, :rank], U[:, rank:], Vt[:rank].T, Vt[rank:].T, eye[:, free])))


def _rank(matrix: Array) -> int:
    """The rank by singular values, after rows and columns were scaled to size one: units do not matter."""
    for axis in (1, 0):
        size = np.abs(matrix).max(axis=axis, keepdims=True, initial=0.0)
        matrix = matrix / np.where(size > 0, size, 1.0)
    S = np.linalg.svd(matrix, compute_uv=False)
    return int((1e-12 * max(S.max(initial=0.0), 1e-300) < S).sum())


def _sampled(s: PortHamiltonian) -> list[Array]:
    """`E` at a few states, with parameters as they are and changed a little."""
    rng = np.random.default_rng(1)
    samples = [(x, t, s.pack()) for x, t in s.samples()]
    samples += [(x, t, s.pack() * (1 + 0.2 * rng.uniform(size=s.par.numel()))) for x, t in s.samples()]
    return [s.matrix("E", x, t, par) for x, t, par in samples]


def _sparse(matrix: Array) -> SX:
    """A constant matrix as a sparse expression."""
    return ca.sparsify(SX(np.where(np.abs(matrix) < 1e-15, 0.0, matrix)))
