"""Matrix pencils `(E, A)` of linear differential-algebraic equations `E x' = A x + f(t)`.

Ranks come from singular values with a stated tolerance, never from a determinant. The finite and the infinite part of a pencil
are the limits of the Wong sequences

    V_0 = R^n,  V_(k+1) = A^-1 (E V_k)        W_0 = {0},  W_(k+1) = E^-1 (A W_k)

(Berger, Ilchmann, Trenn 2012). The pencil is regular if both together are the whole space and `[E V, A W]` is invertible. With
`T = [V W]` and `S = [E V, A W]` the quasi-Weierstrass form is `S^-1 E T = diag(I, N)`, `S^-1 A T = diag(J, I)`, `N` nilpotent.
The number of steps in which `W` grows is the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import number, reals
from dalembert.errors import ModelError

TOLERANCE = 1e-9  # of the largest singular value, for ranks
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Weierstrass:
    """`P E Q = diag(N, I)`, `P A Q = diag(I, J)`; `N` is upper triangular and nilpotent, `J` in real Schur form.

    `conditioning` is that of `P` and of `Q`: digits that are lost in these coordinates. `flag` has the dimensions of the kernels
    of the powers of `N`, from the first on. `jordan()` gives `N` by its Jordan blocks.
    """

    P: Array
    Q: Array
    N: Array
    J: Array
    conditioning: tuple[float, float]
    flag: tuple[int, ...]

    def nilpotent_blocks(self) -> tuple[int, ...]:
        """The sizes of the Jordan blocks of `N`, largest first; the largest is the index.

        The kernel of `N^k` is by the number of blocks of size `k` or more larger than that of `N^(k-1)`. The sizes are as sure
        as the ranks in the Wong sequences. `J` has no blocks but those of its Schur form: a multiple eigenvalue splits by the
        smallest error of the data.
        """
        at_least = [*np.diff([0, *self.flag]), 0]
        return tuple(k for k in range(len(self.flag), 0, -1) for _ in range(at_least[k - 1] - at_least[k]))

    def jordan(self) -> Weierstrass:
        """The form in which `N` consists of Jordan blocks, largest first, with ones above the diagonal (theorem 4).

        A chain `N^(s-1) x, ..., N x, x` for each block of size `s`. The first `flag[s-1]` unit vectors are the kernel of `N^s`;
        `x` is chosen there, orthogonal to the kernel of `N^(s-1)` and to the longer chains. What the form costs in digits is in
        its `conditioning`.
        """
        sizes = [0, *self.flag]
        k = sizes[-1]
        chains, level = [], np.zeros((k, 0))
        for s in range(len(self.flag), 0, -1):
            level, own = self.N @ level, slice(sizes[s - 1], sizes[s])
            top = np.zeros((k, sizes[s] - sizes[s - 1] - level.shape[1]))
            top[own] = np.linalg.svd(level[own])[0][:, level.shape[1] :]
            level = np.hstack([level, top])
            chains += [np.column_stack([np.linalg.matrix_power(self.N, e) @ x for e in range(s - 1, -1, -1)]) for x in top.T]
        if not chains:
            return self
        X, N, ends = np.hstack(chains), np.eye(k, k=1), np.cumsum([chain.shape[1] for chain in chains])[:-1]
        N[ends - 1, ends] = 0.0
        P, Q = np.vstack([np.linalg.solve(X, self.P[:k]), self.P[k:]]), np.hstack([self.Q[:, :k] @ X, self.Q[:, k:]])
        return Weierstrass(P, Q, N, self.J, (float(np.linalg.cond(P)), float(np.linalg.cond(Q))), self.flag)


@dataclass(frozen=True)
class Stage:
    """One form of the Gauss-like reduction: `E x' = A x + sum_k F_k f^(k)`, its rank, and the algebraic rows `C x + ... = 0`."""

    E: Array
    A: Array
    F: tuple[Array, ...]
    rank: int
    C: Array
    c: tuple[Array, ...]


class Pencil:
    """Two square matrices `(E, A)`: regularity, index, Weierstrass form and reduction."""

    def __init__(self, E: ArrayLike, A: ArrayLike, tolerance: float = TOLERANCE) -> None:
        self.E, self.A = (self._matrix(name, value) for name, value in (("E", E), ("A", A)))
        if self.E.shape != self.A.shape:
            raise ModelError(f"E is {self.E.shape} and A is {self.A.shape}: they must have the same shape")
        self.n, self.tolerance = len(self.E), number("tolerance", tolerance, ModelError)
        if not 0 < self.tolerance < 1:
            raise ModelError(f"tolerance is relative to the largest singular value, between 0 and 1, not {tolerance!r}")

    @staticmethod
    def _matrix(name: str, value: ArrayLike) -> Array:
        out = reals(name, value, ModelError, "a matrix of numbers")
        if out.ndim != 2 or out.shape[0] != out.shape[1] or not out.size:
            raise ModelError(f"{name} must be a square matrix that is not empty, not of the shape {out.shape}")
        return out

    def _range(self, M: Array, space: Array) -> Array:
        """An orthonormal basis of the image of a space with an orthonormal basis."""
        if not space.size:
            return np.zeros((self.n, 0))
        u, s, _ = np.linalg.svd(M @ space)
        return np.asarray(u[:, : int((s > self.tolerance * max(float(np.linalg.norm(M, 2)), 1e-300)).sum())])

    def _preimage(self, M: Array, space: Array) -> Array:
        """`{x: M x in space}` for a space with an orthonormal basis."""
        rest = M - space @ (space.T @ M)
        _, s, vt = np.linalg.svd(rest)
        rank = int((s > self.tolerance * max(float(np.linalg.norm(M, 2)), 1e-300)).sum())
        return np.asarray(vt[rank:].T)

    @cached_property
    def _balanced(self) -> tuple[Array, Array, Array]:
        """Both matrices with rows and columns of the pair scaled to unit size, and the factors of the columns.

        Ranks are determined in this form, so that they do not depend on the scaling.
        """
        E, A, columns = self.E.copy(), self.A.copy(), np.ones(self.n)
        for _ in range(5):
            r = np.sqrt((E**2 + A**2).sum(axis=1))
            r[r == 0] = 1.0
            E, A = E / r[:, None], A / r[:, None]
            c = np.sqrt((E**2 + A**2).sum(axis=0))
            c[c == 0] = 1.0
            E, A, columns = E / c, A / c, columns / c
        return E, A, columns

    @cached_property
    def _wong(self) -> tuple[Array, Array, tuple[int, ...]]:
        """Finite and infinite subspace of the scaled pencil, and the dimensions through which the second one grew."""
        E, A, _ = self._balanced
        V = np.eye(self.n)
        for _ in range(self.n + 1):
            new = self._preimage(A, self._range(E, V))
            if new.shape[1] == V.shape[1]:
                break
            V = new
        W, flag = np.zeros((self.n, 0)), []
        for _ in range(self.n + 1):
            new = self._preimage(E, self._range(A, W))
            if new.shape[1] == W.shape[1]:
                break
            # a basis that goes through the whole flag W_1, W_2, ...: in it N is strictly upper triangular by blocks
            rest = new - W @ (W.T @ new)
            u = np.linalg.svd(rest)[0]
            W = np.hstack([W, u[:, : new.shape[1] - W.shape[1]]])
            flag.append(W.shape[1])
        return V, W, tuple(flag)

    @property
    def is_regular(self) -> bool:
        """Whether `A - s E` is invertible for some `s`: solutions exist and are unique."""
        return self.singularity() is None

    def singularity(self) -> str | None:
        """Why the pencil is not regular; None if it is."""
        E, A, _ = self._balanced
        V, W, _ = self._wong
        if V.shape[1] + W.shape[1] != self.n:
            both = V.shape[1] + W.shape[1]
            return f"finite and infinite part have dimensions {V.shape[1]} and {W.shape[1]}, {both} together instead of {self.n}"
        S = np.hstack([E @ V, A @ W])
        s = np.linalg.svd(S, compute_uv=False)
        if s[-1] <= self.tolerance * s[0]:
            return "equations are dependent: some combination of the rows of E and A vanishes"
        return None

    def _require_regular(self) -> None:
        why = self.singularity()
        if why is not None:
            raise ModelError(f"the pencil (E, A) is singular: {why}; solutions do not exist, or are not unique")

    @property
    def index(self) -> int:
        """The Kronecker index: 0 for an ordinary differential equation."""
        self._require_regular()
        return len(self._wong[2])

    @property
    def degrees_of_freedom(self) -> int:
        """Number of initial values that can be chosen."""
        self._require_regular()
        return int(self._wong[0].shape[1])

    def finite_eigenvalues(self) -> NDArray[np.inexact]:
        """The finite spectrum, that of `J`."""
        w = self.weierstrass()
        return np.linalg.eigvals(w.J) if w.J.size else np.zeros(0)

    def weierstrass(self) -> Weierstrass:
        """The Weierstrass form, nilpotent part first."""
        self._require_regular()
        V, W, flag = self._wong
        # back from the scaled pencil: rows and columns were divided, which changes the coordinates of V and W only
        columns = self._balanced[2]
        V, W = columns[:, None] * V, columns[:, None] * W
        V, W = (M / np.linalg.norm(M, axis=0) if M.size else M for M in (V, W))
        S = np.hstack([self.A @ W, self.E @ V])
        P0 = np.linalg.inv(S)
        k = W.shape[1]
        N, J = (P0 @ self.E @ W)[:k], (P0 @ self.A @ V)[k:]
        for start, end in zip((0, *flag), flag, strict=False):
            N[start:, start:end] = 0.0  # N takes each space of the flag to the one before
        P_top = P0[:k]
        if J.size:
            from scipy.linalg import schur  # an import of the package stays light

            J, Y = schur(J, output="real")
            V, P_bottom = V @ Y, Y.T @ P0[k:]
        else:
            P_bottom = P0[k:]
        P, Q = np.vstack([P_top, P_bottom]), np.hstack([W, V])
        return Weierstrass(P, Q, N, J, (float(np.linalg.cond(P)), float(np.linalg.cond(Q))), flag)

    def reduction(self) -> list[Stage]:
        """The Gauss-like reduction (sec. 2.3): differentiate the algebraic equations until `E` is invertible.

        The number of forms less one is the index. `C x + sum_k c_k f^(k) = 0` are the algebraic equations of each form.
        """
        self._require_regular()
        E, A, F = self.E.copy(), self.A.copy(), [np.eye(self.n)]
        stages = []
        for _ in range(self.n + 1):
            u, s, _ = np.linalg.svd(E)
            scale = max(float(np.abs(E).max()), 1e-300)
            rank = int((s > self.tolerance * max(s[0], self.tolerance * scale)).sum()) if s[0] > 0 else 0
            E, A, F = u.T @ E, u.T @ A, [u.T @ M for M in F]
            E[rank:] = 0.0
            stages.append(
                Stage(E.copy(), A.copy(), tuple(M.copy() for M in F), rank, A[rank:].copy(), tuple(M[rank:].copy() for M in F))
            )
            if rank == self.n:
                return stages
            # 0 = A2 x + f2 becomes 0 = A2 x' + f2'
            size = np.linalg.norm(A[rank:], axis=1, keepdims=True)
            size[size == 0] = 1.0
            new_F = [np.zeros((self.n, self.n)) for _ in range(len(F) + 1)]
            for k, M in enumerate(F):
                new_F[k][:rank] += M[:rank]
                new_F[k + 1][rank:] -= M[rank:] / size
            E[rank:], A[rank:] = A[rank:] / size, 0.0
            F = new_F
        raise ModelError("the reduction did not end: ranks are not well determined at this tolerance")
