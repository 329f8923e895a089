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
    """`E = U1 C V1^T` with `C` invertible, and the complements `U2`, `V2`: unit vectors where `E` is block diagonal."""

    U1: SX
    U2: SX
    V1: SX
    V2: SX

    @property
    def rank(self) -> int:
        return self.U1.size2()

    @property
    def U(self) -> SX:
        return ca.horzcat(self.U1, self.U2)

    @property
    def V(self) -> SX:
        return ca.horzcat(self.V1, self.V2)


def bases(s: PortHamiltonian) -> Bases:
    """The bases of `E`, where they do not depend on the state."""
    blocks = s.blocks()
    if blocks is not None:
        eye = np.eye(s.n)
        other = [[i for i in range(s.n) if i not in part] for part in blocks]
        return Bases(*(_sparse(eye[:, part]) for part in (blocks[0], other[0], blocks[1], other[1])))
    matrices = _sampled(s)
    U, _, Vt = np.linalg.svd(matrices[0])
    rank = _rank(matrices[0])
    if rank == s.n:
        U, Vt = np.eye(s.n), np.eye(s.n)
    for E in matrices:
        scale = max(1.0, float(np.abs(E).max()))
        own = _rank(U[:, :rank].T @ E @ Vt[:rank].T)
        outside = np.abs(U[:, rank:].T @ E).max(initial=0.0) + np.abs(E @ Vt[rank:].T).max(initial=0.0)
        if outside >= 1e-10 * scale or own < rank:
            raise MethodError(
                "E is singular and its range depends on the state: E^T z = DH has no solution in general, and no discrete "
                "gradient pair can be made; bring the system to semi-explicit form with system.transformed(phi, U), or give a "
                "pair to gradient-pair"
            )
    return Bases(*(_sparse(m) for m in (U[:, :rank], U[:, rank:], Vt[:rank].T, Vt[rank:].T)))


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
