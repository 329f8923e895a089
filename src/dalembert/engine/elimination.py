"""Sparse elimination written out as straight-line expressions.

The pivots are chosen once, so that a solve becomes a list of multiplications without a branch: the fastest
thing a compiler or a virtual machine can be given. The default order is structural: diagonal pivots, level by
level (multipliers after what they act on, so that their pivots are those of `G M^-1 G^T`), within a level the one
with the least fill (Markowitz 1957). Where that fails numerically, `numeric_order` takes the pivots of a
sparse LU factorisation with partial pivoting.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix

SX = ca.SX


def structural_order(sparsity: ca.Sparsity, levels: tuple[int, ...]) -> list[tuple[int, int]]:
    """Diagonal pivots: lowest level first, then the smallest Markowitz count at that moment."""
    n = sparsity.size1()
    rows: list[set[int]] = [set() for _ in range(n)]
    cols: list[set[int]] = [set() for _ in range(n)]
    for i, j in zip(*sparsity.get_triplet(), strict=True):
        rows[i].add(j)
        cols[j].add(i)

    def cost(k: int) -> int:
        return (len(rows[k]) - 1) * (len(cols[k]) - 1)

    heap = [(levels[k], cost(k), k) for k in range(n)]
    heapq.heapify(heap)
    done = [False] * n
    order = []
    while heap:
        level, value, k = heapq.heappop(heap)
        if done[k]:
            continue
        if value != cost(k):
            heapq.heappush(heap, (level, cost(k), k))
            continue
        done[k] = True
        order.append((k, k))
        right, down = rows[k] - {k}, cols[k] - {k}
        for i in down:
            rows[i].discard(k)
            rows[i] |= right
        for j in right:
            cols[j].discard(k)
            cols[j] |= down
        for i in right | down:
            heapq.heappush(heap, (levels[i], cost(i), i))
    return order


def numeric_order(matrix: ca.DM) -> list[tuple[int, int]]:
    """The pivots of SuperLU with partial pivoting for one numerical matrix (a `DM`)."""
    from scipy.sparse.linalg import splu

    lu = splu(matrix.sparse().tocsc())
    row_of, col_of = np.argsort(lu.perm_r), np.argsort(lu.perm_c)
    return [(int(i), int(j)) for i, j in zip(row_of, col_of, strict=True)]


def solve(J: SX, b: SX, order: list[tuple[int, int]]) -> SX:
    """The solution of `J x = b` by elimination with the given pivots, as expressions."""
    n = J.size1()
    rows: list[dict[int, SX]] = [{} for _ in range(n)]
    cols: list[set[int]] = [set() for _ in range(n)]
    for i, j, k in zip(*J.sparsity().get_triplet(), range(J.nnz()), strict=True):
        rows[i][j] = J.nz[k]
        cols[j].add(i)
    right = ca.vertsplit(ca.densify(b))
    inverses = {}
    for i, j in order:
        pivot_row = rows[i]
        inverse = 1 / pivot_row.pop(j, SX(0.0))
        inverses[j] = inverse
        cols[j].discard(i)
        for r in cols[j]:
            factor = rows[r].pop(j) * inverse
            target = rows[r]
            for c, value in pivot_row.items():
                if c in target:
                    target[c] = target[c] - factor * value
                else:
                    target[c] = -(factor * value)
                    cols[c].add(r)
            right[r] = right[r] - factor * right[i]
        for c in pivot_row:
            cols[c].discard(i)
    x: dict[int, SX] = {}
    for i, j in reversed(order):
        total = right[i]
        for c, value in rows[i].items():
            total = total - value * x[c]
        x[j] = total * inverses[j]
    return ca.vertcat(*(x[j] for j in range(n))) if n else SX(0, 1)


def solve_pivoted(matrix: ca.DM | csc_matrix | NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve in numbers with partial pivoting, dense or sparse by size; nan where the matrix is singular or not finite."""
    try:
        if isinstance(matrix, np.ndarray) or (isinstance(matrix, ca.DM) and len(b) <= 200):
            return np.asarray(np.linalg.solve(matrix.full() if isinstance(matrix, ca.DM) else matrix, b))
        from scipy.sparse.linalg import splu

        return np.asarray(splu(matrix.sparse().tocsc() if isinstance(matrix, ca.DM) else matrix).solve(b))
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return np.full(len(b), np.nan)
