"""Eigenvalues and eigenvectors of local equations.

Where positions have rates but no friction, `s1' = A12 s2`, `s2' = A21 s1`, the frequencies are those of `s1'' = A12 A21 s1`: a
matrix of half the size whose zero eigenvalues, of bodies that float, are not double ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dalembert.analysis.local import Local

Complex = NDArray[np.complex128]
ZERO = 1e-13  # squares of frequencies below this part of the largest are zero


def undamped(local: Local) -> bool:
    """Whether the equations are `s1' = A12 s2`, `s2' = A21 s1` with as many positions as rates."""
    k = local.positions
    if k is None or 2 * k != len(local.A):
        return False
    size = np.abs(local.A).max(initial=0.0)
    return bool(max(np.abs(local.A[:k, :k]).max(initial=0.0), np.abs(local.A[k:, k:]).max(initial=0.0)) <= 1e-14 * size)


def pairs(local: Local) -> tuple[Complex, Complex]:
    """Eigenvalues and eigenvectors, as columns, of `s' = A s`.

    Of each conjugate pair both are there; without friction a zero frequency counts twice, with its position alone.
    """
    A = local.A
    if not len(A):
        return np.zeros(0, dtype=complex), np.zeros((0, 0), dtype=complex)
    if not undamped(local):
        values, vectors = np.linalg.eig(A)
        return values.astype(complex), vectors.astype(complex)
    k = len(A) // 2
    squares, shapes = np.linalg.eig(A[:k, k:] @ A[k:, :k])
    squares = np.where(np.abs(squares) <= ZERO * np.abs(squares).max(initial=0.0), 0.0, squares).astype(complex)
    if np.abs(squares.imag).max(initial=0.0) <= 1e-12 * np.abs(squares).max(initial=0.0):
        squares = squares.real.astype(complex)
        shapes = shapes.real
    roots = np.sqrt(squares)
    roots = np.where(roots.imag < 0, -roots, roots)
    half = A[k:, :k] @ shapes
    plus, minus = (
        np.vstack([shapes * (1.0 + 0j), np.where(roots == 0, 0.0, half / np.where(roots == 0, 1.0, sign * roots))])
        for sign in (1.0, -1.0)
    )
    return np.concatenate([roots, -roots]), np.hstack([plus, minus])


def eigenvalues(local: Local) -> Complex:
    """All eigenvalues, slowest first, of conjugate ones that with the positive imaginary part first."""
    values, _ = pairs(local)
    return values[np.lexsort((-values.imag, np.round(np.abs(values), 12)))]
