"""Sparse elimination written out as straight-line expressions.

The pivots are chosen once, so that a solve becomes a list of multiplications without a branch: the fastest
thing a compiler or a virtual machine can be given. The default order is structural: diagonal pivots, level by
level (multipliers after what they act on, so that their pivots are those of `G M^-1 G^T`), within a level the one
with the least fill (Markowitz 1957). Where that fails numerically, `numeric_order` takes the pivots of a
sparse LU factorisation with partial pivoting.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.systems.instructions import as_written

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix

SX = ca.SX
LONG = 1 << 30  # farther than any entry
Order = list[tuple[int, int]]  # the pivots of an elimination: rows and columns


class _Pattern:
    """Where a matrix has entries while it is eliminated, and through how many pivots each came about: one is as small as `h`.

    Row `k` is the one that the unknown `k` is eliminated with.
    """

    def __init__(self, sparsity: ca.Sparsity) -> None:
        n = sparsity.size1()
        self.rows: list[dict[int, int]] = [{} for _ in range(n)]
        self.cols: list[set[int]] = [set() for _ in range(n)]
        self.row_of = list(range(n))
        for i, j in zip(*sparsity.get_triplet(), strict=True):
            self.rows[i][j] = 0
            self.cols[j].add(i)

    def cost(self, k: int) -> int:
        """What the pivot would fill in, at most (Markowitz 1957)."""
        return (len(self.rows[k]) - 1) * (len(self.cols[k]) - 1)

    def eliminate(self, k: int) -> set[int]:
        """Eliminate an unknown with its row, and say whose rows and columns that changes."""
        right, down = [(j, d) for j, d in self.rows[k].items() if j != k], self.cols[k] - {k}
        for i in down:
            row = self.rows[i]
            through = row.pop(k) + 1
            for j, d in right:
                if row.get(j, LONG) > through + d:
                    row[j] = through + d
        for j, _ in right:
            self.cols[j].discard(k)
            self.cols[j] |= down
        return {j for j, _ in right} | down

    def match(self, unknowns: list[int]) -> None:
        """Exchange rows among these unknowns, where needed, such that the pivots are the largest by structure (Duff 1981)."""
        own = set(unknowns)
        inside = {i: {j: d for j, d in self.rows[i].items() if j in own} for i in unknowns}
        if all(row.get(i, LONG) <= min(row.values(), default=0) for i, row in inside.items()):
            return
        # among equals the nearest to the diagonal: rows of one stage stay with its unknowns
        n = len(self.rows) * len(unknowns)
        found = _matching([(i, j, d + (1 + abs(i - j)) / n) for i, row in inside.items() for j, d in row.items()], unknowns)
        if found is None:
            return
        rows = {k: (self.rows[i], self.row_of[i]) for i, k in found.items()}
        for k, (row, of) in rows.items():
            self.rows[k], self.row_of[k] = row, of
        for column in self.cols:
            moved = {found.get(i, i) for i in column}
            column.clear()
            column |= moved


def _matching(entries: list[tuple[int, int, float]], unknowns: list[int]) -> dict[int, int] | None:
    """The column of each row, all different, with the least sum of weights; None where there is no such choice."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    place, n = {k: i for i, k in enumerate(unknowns)}, len(unknowns)
    at = [place[i] for i, _, _ in entries], [place[j] for _, j, _ in entries]
    try:
        rows, columns = min_weight_full_bipartite_matching(csr_matrix(([w for _, _, w in entries], at), shape=(n, n)))
    except ValueError:  # structurally singular
        return None
    return {unknowns[i]: unknowns[j] for i, j in zip(rows, columns, strict=True)}


def structural_order(sparsity: ca.Sparsity, levels: tuple[int, ...]) -> Order:
    """Pivots on the diagonal: lowest level first, then the smallest Markowitz count at that moment.

    Where the diagonal has structural zeros when a level is reached, or entries of a higher order in `h` than others, rows of
    that level are exchanged: the pivots do not depend on the order in which equations were written down.
    """
    return [pivot for pivot, _ in _pivots(sparsity, levels)]


def exceeds(limit: int, sparsity: ca.Sparsity, levels: tuple[int, ...]) -> bool:
    """Whether an elimination in structural order has more products than a limit."""
    total = 0
    return any((total := total + count) > limit for _, count in _pivots(sparsity, levels))


def _pivots(sparsity: ca.Sparsity, levels: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], int]]:
    """The pivots in structural order, each with the number of products that it takes."""
    pattern = _Pattern(sparsity)
    for level in sorted(set(levels)):
        own = [k for k, at in enumerate(levels) if at == level]
        pattern.match(own)
        heap = [(pattern.cost(k), k) for k in own]
        heapq.heapify(heap)
        left = set(own)
        while left:
            value, k = heapq.heappop(heap)
            if k not in left:
                continue
            if value != pattern.cost(k):
                heapq.heappush(heap, (pattern.cost(k), k))
                continue
            left.discard(k)
            yield (pattern.row_of[k], k), value
            for i in pattern.eliminate(k) & left:
                heapq.heappush(heap, (pattern.cost(i), i))


def numeric_order(matrix: ca.DM) -> list[tuple[int, int]]:
    """The pivots of SuperLU with partial pivoting for one numerical matrix (a `DM`)."""
    from scipy.sparse.linalg import splu

    lu = splu(matrix.sparse().tocsc())
    row_of, col_of = np.argsort(lu.perm_r), np.argsort(lu.perm_c)
    return [(int(i), int(j)) for i, j in zip(row_of, col_of, strict=True)]


def solve(J: SX, b: SX, order: list[tuple[int, int]], paired: bool = True) -> SX:
    """The solution of `J x = b` by elimination with the given pivots, as expressions.

    Pivots are divided by once, and the last two unknowns are found together by Cramer's rule, where they may be `paired`: of all
    operations a quotient is the one that the others wait for. What is found first is put in first: nothing waits for what was
    found long before. The expressions are to be kept as written (`as_written`).
    """
    n = J.size1()
    rows: list[dict[int, SX]] = [{} for _ in range(n)]
    cols: list[set[int]] = [set() for _ in range(n)]
    for i, j, entry in zip(*J.sparsity().get_triplet(), ca.vertsplit(J.nz[:]) if J.nnz() else (), strict=True):
        rows[i][j] = entry
        cols[j].add(i)
    right = ca.vertsplit(ca.densify(b))
    with as_written():
        x: dict[int, SX] = {}
        inverses: dict[int, SX] = {}
        for place, (i, j) in enumerate(order):
            pivot_row = rows[i]
            if paired and place == n - 2 and (last := order[-1])[1] in pivot_row and j in rows[last[0]]:
                x = _pair(rows, right, (i, j), last)
                break
            inverses[j] = inverse = SX.unary(ca.OP_INV, pivot_row.pop(j, SX(0.0)))
            cols[j].discard(i)
            for r in cols[j]:
                factor, target = _times(rows[r].pop(j), inverse), rows[r]
                for c, value in pivot_row.items():
                    if c in target:
                        target[c] = _minus(target[c], _times(factor, value))
                    else:
                        target[c] = -_times(factor, value)
                        cols[c].add(r)
                right[r] = _minus(right[r], _times(factor, right[i]))
            for c in pivot_row:
                cols[c].discard(i)
        turn = {j: place for place, (_, j) in enumerate(order)}
        for i, j in reversed(order[: len(inverses)]):
            total = right[i]
            for c, value in sorted(rows[i].items(), key=lambda entry: -turn[entry[0]]):
                total = _minus(total, _times(value, x[c]))
            x[j] = _times(total, inverses[j])
        return ca.vertcat(*(x[j] for j in range(n))) if n else SX(0, 1)


def _times(a: SX, b: SX) -> SX:
    """A product in which factors of one are left out, and zero where one is zero."""
    if a.is_one() or b.is_zero():
        return b
    return a if b.is_one() or a.is_zero() else SX.binary(ca.OP_MUL, a, b)


def _minus(a: SX, b: SX) -> SX:
    """A difference from which zeros are left out."""
    if a.is_zero() or b.is_zero():
        return -b if a.is_zero() else a
    return SX.binary(ca.OP_SUB, a, b)


def _pair(rows: list[dict[int, SX]], right: list[SX], one: tuple[int, int], two: tuple[int, int]) -> dict[int, SX]:
    """The two unknowns that are left, by Cramer's rule."""
    (i, j), (k, m) = one, two
    b, c = rows[i][m], rows[k][j]
    a, d = rows[i].get(j), rows[k].get(m)

    def minor(p: SX | None, q: SX | None, r: SX, t: SX) -> SX:
        """`p q - r t`, where None is zero."""
        return -_times(r, t) if p is None or q is None else _minus(_times(p, q), _times(r, t))

    first, second, determinant = minor(d, right[i], b, right[k]), minor(a, right[k], c, right[i]), minor(a, d, b, c)
    inverse = SX.unary(ca.OP_INV, determinant)
    return {j: _times(first, inverse), m: _times(second, inverse)}


def solve_pivoted(matrix: ca.DM | csc_matrix | NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve in numbers with partial pivoting, dense or sparse by size; nan where the matrix is singular or not finite."""
    try:
        if isinstance(matrix, np.ndarray) or (isinstance(matrix, ca.DM) and len(b) <= 200):
            return np.asarray(np.linalg.solve(matrix.full() if isinstance(matrix, ca.DM) else matrix, b))
        from scipy.sparse.linalg import splu

        return np.asarray(splu(matrix.sparse().tocsc() if isinstance(matrix, ca.DM) else matrix).solve(b))
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return np.full(len(b), np.nan)


def solve_definite(matrix: csc_matrix, b: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for a large symmetric matrix, several times faster; nan too where elimination without exchanges fails."""
    import qdldl
    from scipy.sparse import triu

    try:
        return np.asarray(qdldl.Solver(triu(matrix, format="csc"), upper=True).solve(b))
    except (RuntimeError, ValueError):
        return np.full(len(b), np.nan)
