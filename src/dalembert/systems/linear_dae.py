"""Linear differential-algebraic equations `E x' = A x + f(t)` with constant matrices (Bertolazzi, Cocetti, Stocco, chapter 2).

Ranks come from singular values with a stated tolerance, never from a determinant. The finite and the infinite part of a pencil
are the limits of the Wong sequences

    V_0 = R^n,  V_(k+1) = A^-1 (E V_k)        W_0 = {0},  W_(k+1) = E^-1 (A W_k)

(Berger, Ilchmann, Trenn 2012). The pencil is regular where both together are the whole space and `[E V, A W]` is invertible; with
`T = [V W]` and `S = [E V, A W]` the quasi-Weierstrass form is `S^-1 E T = diag(I, N)`, `S^-1 A T = diag(J, I)`, `N` nilpotent.
The number of steps in which `W` grows is the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from dalembert.errors import InconsistentState, ModelError
from dalembert.systems.tracing import call, symbols, to_sx

TOLERANCE = 1e-9  # of the largest singular value, for ranks


@dataclass(frozen=True)
class Weierstrass:
    """`P E Q = diag(N, I)`, `P A Q = diag(I, J)`; `N` is upper triangular and nilpotent, `J` in real Schur form.

    `conditioning` is that of `P` and of `Q`: digits that are lost in these coordinates.
    """

    P: np.ndarray
    Q: np.ndarray
    N: np.ndarray
    J: np.ndarray
    conditioning: tuple[float, float]


@dataclass(frozen=True)
class Stage:
    """One form of the Gauss-like reduction: `E x' = A x + sum_k F_k f^(k)`, its rank, and the algebraic rows `C x + ... = 0`."""

    E: np.ndarray
    A: np.ndarray
    F: tuple[np.ndarray, ...]
    rank: int
    C: np.ndarray
    c: tuple[np.ndarray, ...]


class LinearDAE:
    """`E x' = A x + f(t)`; `f` is a function of time written in NumPy, or None.

    Attributes and methods: `is_regular`, `index`, `reduction()`, `weierstrass()`, `finite_eigenvalues()`, `constraints(t)`,
    `consistent(x0)`,
    `exact(x0, t)`, `to_ode()`, `system()`, `solve(x0, t_end, step)`.
    """

    def __init__(self, E: Any, A: Any, f: Callable[[Any], Any] | None = None, *, tolerance: float = TOLERANCE) -> None:
        self.E, self.A = (self._matrix(name, value) for name, value in (("E", E), ("A", A)))
        if self.E.shape != self.A.shape:
            raise ModelError(f"E is {self.E.shape} and A is {self.A.shape}: they must have the same shape")
        if not 0 < tolerance < 1:
            raise ModelError(f"tolerance is that of ranks, relative to the largest singular value, not {tolerance!r}")
        self.n, self.tolerance = len(self.E), tolerance
        self._t = ca.SX.sym("t")
        self._f = self._trace(f)
        self._derivatives: list[ca.Function] = []

    @staticmethod
    def _matrix(name: str, value: Any) -> np.ndarray:
        try:
            out = np.array(value, dtype=float)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{name} must be a matrix of numbers, not {value!r}") from error
        if out.ndim != 2 or out.shape[0] != out.shape[1] or not out.size:
            raise ModelError(f"{name} must be a square matrix that is not empty, not of the shape {out.shape}")
        if not np.isfinite(out).all():
            i, j = np.argwhere(~np.isfinite(out))[0]
            raise ModelError(f"{name} is not finite: entry ({i + 1}, {j + 1}) is {out[i, j]}")
        return out

    def _trace(self, f: Any) -> Any:
        if f is None:
            return ca.SX.zeros(self.n)
        known = {"t": symbols(self._t, ())}
        value = ca.vec(to_sx(call("f", f, known, known)))
        if value.numel() != self.n:
            raise ModelError(f"f must return {self.n} entries, one for each equation, got {value.numel()}")
        return ca.densify(value)

    def derivative(self, k: int, t: float) -> np.ndarray:
        """The k-th derivative of `f` at a time."""
        while len(self._derivatives) <= k:
            value = self._f
            for _ in range(len(self._derivatives)):
                value = ca.jacobian(value, self._t)
            self._derivatives.append(ca.Function("f", [self._t], [ca.densify(value)]))
        return np.asarray(self._derivatives[k](t).full())[:, 0]

    # ---- structure --------------------------------------------------------------------------------------

    def _range(self, M: np.ndarray, space: np.ndarray) -> np.ndarray:
        """An orthonormal basis of the image of a space with an orthonormal basis."""
        if not space.size:
            return np.zeros((self.n, 0))
        u, s, _ = np.linalg.svd(M @ space)
        return np.asarray(u[:, : int((s > self.tolerance * max(float(np.linalg.norm(M, 2)), 1e-300)).sum())])

    def _preimage(self, M: np.ndarray, space: np.ndarray) -> np.ndarray:
        """`{x: M x in space}` for a space with an orthonormal basis."""
        rest = M - space @ (space.T @ M)
        _, s, vt = np.linalg.svd(rest)
        rank = int((s > self.tolerance * max(float(np.linalg.norm(M, 2)), 1e-300)).sum())
        return np.asarray(vt[rank:].T)

    @cached_property
    def _balanced(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both matrices with rows and columns of the pair at unit size, and the factors of the columns.

        Bad scaling is not bad structure: ranks are looked at in this form.
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
    def _wong(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Finite and infinite subspace of the scaled pencil, and the number of steps in which the second grew."""
        E, A, _ = self._balanced
        V = np.eye(self.n)
        for _ in range(self.n + 1):
            new = self._preimage(A, self._range(E, V))
            if new.shape[1] == V.shape[1]:
                break
            V = new
        W, steps = np.zeros((self.n, 0)), 0
        for _ in range(self.n + 1):
            new = self._preimage(E, self._range(A, W))
            if new.shape[1] == W.shape[1]:
                break
            # a basis that goes through the whole flag W_1, W_2, ...: in it N is strictly upper triangular by blocks
            rest = new - W @ (W.T @ new)
            u = np.linalg.svd(rest)[0]
            W, steps = np.hstack([W, u[:, : new.shape[1] - W.shape[1]]]), steps + 1
        return V, W, steps

    @property
    def is_regular(self) -> bool:
        """Whether `A - s E` is invertible for some `s`: solutions exist and are unique."""
        return self.singularity() is None

    def singularity(self) -> str | None:
        """Why the pencil is not regular; None where it is."""
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
        return self._wong[2]

    @property
    def degrees_of_freedom(self) -> int:
        """Number of initial values that can be chosen."""
        self._require_regular()
        return int(self._wong[0].shape[1])

    def finite_eigenvalues(self) -> np.ndarray:
        """The finite spectrum, that of `J`."""
        w = self.weierstrass()
        return np.asarray(np.linalg.eigvals(w.J)) if w.J.size else np.zeros(0)

    def weierstrass(self) -> Weierstrass:
        """The Weierstrass form, in the order of the notes: nilpotent part first."""
        import scipy.linalg

        self._require_regular()
        V, W, _ = self._wong
        # back from the scaled pencil: rows and columns were divided, which changes the coordinates of V and W only
        columns = self._balanced[2]
        V, W = columns[:, None] * V, columns[:, None] * W
        V, W = (M / np.linalg.norm(M, axis=0) if M.size else M for M in (V, W))
        S = np.hstack([self.A @ W, self.E @ V])
        P0 = np.linalg.inv(S)
        k = W.shape[1]
        N, J = (P0 @ self.E @ W)[:k], (P0 @ self.A @ V)[k:]
        N = np.triu(N, 1)
        P_top = P0[:k]
        if J.size:
            J, Y = scipy.linalg.schur(J, output="real")
            V, P_bottom = V @ Y, Y.T @ P0[k:]
        else:
            P_bottom = P0[k:]
        P, Q = np.vstack([P_top, P_bottom]), np.hstack([W, V])
        return Weierstrass(P, Q, N, J, (float(np.linalg.cond(P)), float(np.linalg.cond(Q))))

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
        raise ModelError("the reduction did not end: ranks are not clear at this tolerance")

    # ---- values and solutions ---------------------------------------------------------------------------

    def constraints(self, t: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """All algebraic equations, hidden ones included, as `C x + c = 0` at a time."""
        rows, rests = [np.zeros((0, self.n))], [np.zeros(0)]
        for stage in self.reduction()[:-1]:
            rows.append(stage.C)
            total = np.zeros(len(stage.C))
            for k, M in enumerate(stage.c):
                if M.any():
                    total += M @ self.derivative(k, t)
            rests.append(total)
        return np.vstack(rows), np.concatenate(rests)

    def check(self, x0: Any, t: float = 0.0) -> float:
        """How far a value is from consistent: the distance to the nearest consistent one."""
        x = self._value(x0)
        return float(np.linalg.norm(self.consistent(x, t) - x))

    def consistent(self, x0: Any, t: float = 0.0) -> np.ndarray:
        """The consistent value nearest to a given one."""
        x = self._value(x0)
        C, c = self.constraints(t)
        return x if not len(C) else np.asarray(x - np.linalg.lstsq(C, C @ x + c, rcond=1e-13)[0])

    def _value(self, x0: Any) -> np.ndarray:
        x = np.atleast_1d(np.asarray(x0, dtype=float))
        if x.shape != (self.n,) or not np.isfinite(x).all():
            raise InconsistentState(f"x0 must be {self.n} finite numbers, not {x0!r}")
        return x

    def exact(self, x0: Any, times: Any) -> np.ndarray:
        """The solution (eq. 2.31) at given times, for smooth `f`: exponentials, quadrature, derivatives by algebra."""
        import scipy.linalg

        x0, w = self._value(x0), self.weierstrass()
        distance = self.check(x0)
        if distance > 1e-8 * max(1.0, float(np.abs(x0).max())):
            raise InconsistentState(f"x0 is off the constraints by {distance:.1e}; start from dae.consistent(x0)")
        k = len(w.N)
        z = np.linalg.solve(w.Q, x0)[k:]
        nodes, weights = np.polynomial.legendre.leggauss(24)
        out, now = [], 0.0
        for t in np.atleast_1d(np.asarray(times, dtype=float)):
            while now < t and len(z):
                h = min(t - now, 0.5 / max(1.0, float(np.abs(w.J).max())))
                s = now + h * (1 + nodes) / 2
                terms = [scipy.linalg.expm(w.J * (now + h - a)) @ (w.P @ self.derivative(0, float(a)))[k:] for a in s]
                z = scipy.linalg.expm(w.J * h) @ z + h / 2 * sum(c * g for c, g in zip(weights, terms, strict=True))
                now = now + h if t - now > h else t
            out.append(w.Q @ np.concatenate([self._algebraic(w, float(t)), z]))
        return np.array(out)

    def _algebraic(self, w: Weierstrass, t: float) -> np.ndarray:
        """`z1 = -sum_k N^k g1^(k)` (eq. 2.30)."""
        k, power, out = len(w.N), np.eye(len(w.N)), np.zeros(len(w.N))
        for order in range(max(1, self.index)):
            out -= power @ (w.P @ self.derivative(order, t))[:k]
            power = power @ w.N
        return out

    def to_ode(self) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
        """`x' = M x + g(t)`, the last form of the reduction; the constraints are invariants of it, and drift numerically."""
        last = self.reduction()[-1]
        inverse = np.linalg.inv(last.E)

        def g(t: float) -> np.ndarray:
            return np.asarray(
                inverse @ sum((M @ self.derivative(k, t) for k, M in enumerate(last.F) if M.any()), np.zeros(self.n))
            )

        return inverse @ last.A, g

    def system(self) -> Any:
        """An `IndexOneDAE` for the library's methods: `y` are the free coordinates, `z` is the state `x`."""
        from dalembert.systems.dae import IndexOneDAE

        w = self.weierstrass()
        k = len(w.N)
        free = self.n - k
        y, z = ca.SX.sym("y", max(1, free)), ca.SX.sym("z", self.n)
        g = ca.SX(w.P) @ self._f
        source, moving = ca.vertsplit(g, [0, k, self.n])  # slices of one entry have the wrong shape where they are empty
        part, power = ca.SX(k, 1), np.eye(k)
        for _ in range(max(1, self.index) if k else 0):
            part -= ca.SX(power) @ source
            source, power = ca.jacobian(source, self._t), power @ w.N
        rhs = ca.SX(w.J) @ y + moving if free else ca.SX(1, 1)
        state = ca.SX(w.Q) @ ca.vertcat(part, y if free else ca.SX(0, 1))

        class _Like:
            parameters: Mapping[str, Any] = {}
            name, t, u, par = "linear DAE", self._t, ca.SX.sym("u", 0), ca.SX.sym("par", 0)

        return IndexOneDAE.of_expressions(_Like(), max(1, free), y, z, [ca.densify(rhs)], z - state, {})  # type: ignore[arg-type]

    def solve(
        self, x0: Any, t_end: float, step: float, method: Any = "radau-iia-3", **options: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Times and states by one of the library's methods for index 1, from a consistent value."""
        from dalembert.simulate import simulate

        x0 = self._value(x0)
        distance = self.check(x0)
        if distance > 1e-8 * max(1.0, float(np.abs(x0).max())):
            raise InconsistentState(f"x0 is off the constraints by {distance:.1e}; start from dae.consistent(x0)")
        w = self.weierstrass()
        free = np.linalg.solve(w.Q, x0)[len(w.N) :]
        sol = simulate(self.system(), method, y=free if len(free) else [0.0], z=x0, t_end=t_end, step=step, **options)
        return sol.t, sol.z

    def __repr__(self) -> str:
        why = self.singularity()
        return f"<LinearDAE of {self.n} equations, {'singular' if why else f'index {self.index}'}>"


def gauss(M: Any, tolerance: float = 1e-12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`L M U = diag(Lambda, 0)` by Gauss elimination with full pivoting (theorem 6): `L`, `U` and the whole form."""
    D = np.array(M, dtype=float)
    if D.ndim != 2 or not D.size or not np.isfinite(D).all():
        raise ModelError(f"gauss() takes a finite matrix that is not empty, not {M!r}")
    n, m = D.shape
    L, U, scale = np.eye(n), np.eye(m), float(np.abs(D).max())
    for k in range(min(n, m)):
        p, q = np.unravel_index(np.abs(D[k:, k:]).argmax(), (n - k, m - k))
        p, q = int(p) + k, int(q) + k
        if abs(D[p, q]) <= tolerance * max(scale, 1e-300):
            D[k:, k:] = 0.0
            break
        for matrix in (D, L):
            matrix[[k, p]] = matrix[[p, k]]
        for matrix in (D, U):
            matrix[:, [k, q]] = matrix[:, [q, k]]
        for i in range(k + 1, n):
            factor = D[i, k] / D[k, k]
            D[i] -= factor * D[k]
            D[i, k] = 0.0
            L[i] -= factor * L[k]
        for j in range(k + 1, m):
            factor = D[k, j] / D[k, k]
            D[:, j] -= factor * D[:, k]
            D[k, j] = 0.0
            U[:, j] -= factor * U[:, k]
    return L, U, D
