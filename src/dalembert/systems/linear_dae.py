"""Linear differential-algebraic equations `E x' = A x + f(t)` with constant matrices (Bertolazzi, Cocetti, Stocco, chapter 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.checking import reals
from dalembert.errors import InconsistentState, ModelError, suggesting
from dalembert.hooks import Hook
from dalembert.systems.dae import IndexOneDAE
from dalembert.systems.exponentials import Flow
from dalembert.systems.pencil import TOLERANCE, Array, Pencil, Weierstrass
from dalembert.systems.tracing import call, symbols, to_sx

if TYPE_CHECKING:
    from dalembert.engine.control import Control
    from dalembert.methods.base import Method


class SolveOptions(TypedDict, total=False):
    """Keywords of `simulate` that `LinearDAE.solve` passes on."""

    tolerance: float | None
    max_iterations: int
    adaptive: bool | str | Control | None
    save_every: int
    progress: bool | None
    compile: bool | str
    checkpoint: str | Path | None


@dataclass(frozen=True)
class _Symbols:
    """What `IndexOneDAE.of_expressions` takes from another system: names and symbols."""

    t: SX
    u: SX = field(default_factory=lambda: SX.sym("u", 0))
    par: SX = field(default_factory=lambda: SX.sym("par", 0))
    parameters: Mapping[str, float] = field(default_factory=dict)
    name: str = "linear DAE"


class LinearDAE(Pencil):
    """`E x' = A x + f(t)`; `f` is a function of time written in NumPy, or None.

    Attributes and methods: `is_regular`, `index`, `reduction()`, `weierstrass()`, `finite_eigenvalues()`, `constraints(t)`,
    `consistent(x0)`, `exact(x0, t)`, `to_ode()`, `system()`, `solve(x0, t_end, step)`.
    """

    @suggesting
    def __init__(
        self, E: ArrayLike, A: ArrayLike, f: Callable[..., object] | None = None, *, tolerance: float = TOLERANCE
    ) -> None:
        super().__init__(E, A, tolerance)
        self._t = SX.sym("t")
        self._f = self._trace(f)
        self._derivatives: list[ca.Function] = []

    def _trace(self, f: Callable[..., object] | None) -> SX:
        if f is None:
            return SX.zeros(self.n)
        known = {"t": symbols(self._t, ())}
        value = ca.vec(to_sx(call("f", f, known, known)))
        if value.numel() != self.n:
            raise ModelError(f"f must return {self.n} entries, one for each equation, got {value.numel()}")
        traced: SX = ca.densify(value)
        return traced

    def derivative(self, k: int, t: float) -> Array:
        """The k-th derivative of `f` at a time."""
        while len(self._derivatives) <= k:
            value = self._f
            for _ in range(len(self._derivatives)):
                value = ca.jacobian(value, self._t)
            self._derivatives.append(ca.Function("f", [self._t], [ca.densify(value)]))
        return np.asarray(self._derivatives[k](t).full())[:, 0]

    @suggesting
    def constraints(self, t: float = 0.0) -> tuple[Array, Array]:
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

    @suggesting
    def check(self, x0: ArrayLike, t: float = 0.0) -> float:
        """The distance to the nearest consistent value."""
        x = self._value(x0)
        return float(np.linalg.norm(self.consistent(x, t) - x))

    @suggesting
    def consistent(self, x0: ArrayLike, t: float = 0.0) -> Array:
        """The consistent value nearest to a given one."""
        x = self._value(x0)
        C, c = self.constraints(t)
        return x if not len(C) else np.asarray(x - np.linalg.lstsq(C, C @ x + c, rcond=1e-13)[0])

    @suggesting
    def required(self, x0: ArrayLike) -> Array:
        """A value as an array; an error if it is not consistent."""
        x = self._value(x0)
        distance = self.check(x)
        if distance > 1e-8 * max(1.0, float(np.abs(x).max())):
            raise InconsistentState(f"x0 violates the constraints by {distance:.1e}; start from dae.consistent(x0)")
        return x

    def _value(self, x0: ArrayLike) -> Array:
        x = np.atleast_1d(reals("x0", x0, InconsistentState, f"{self.n} finite numbers"))
        if x.shape != (self.n,):
            raise InconsistentState(f"x0 must be {self.n} finite numbers, not {x0!r}")
        return x

    @suggesting
    def exact(self, x0: ArrayLike, times: ArrayLike) -> Array:
        """The solution (eq. 2.31) through `x0` at t = 0, at given times in any order: exponentials, and derivatives of `f`.

        The cost depends on the times and on how fast `f` varies, not on how stiff the equations are.
        """
        x0, w = self.required(x0), self.weierstrass()
        asked = np.atleast_1d(reals("times", times, ModelError))
        if asked.ndim != 1:
            raise ModelError(f"times are a number or a list of numbers, not of the shape {asked.shape}")
        k = len(w.N)
        z0 = np.linalg.solve(w.Q, x0)[k:]
        source = None if ca.sparsify(self._f).nnz() == 0 else lambda t: np.asarray((w.P @ self.derivative(0, t))[k:])
        flow = Flow(w.J, source) if len(z0) else None
        out = np.empty((len(asked), self.n))
        for side in (asked >= 0, asked < 0):  # from zero to later times, and to earlier ones
            order = np.flatnonzero(side)[np.argsort(np.abs(asked[side]), kind="stable")]
            now, z = 0.0, z0
            for row in order:
                t = float(asked[row])
                with np.errstate(all="ignore"):  # what is not finite is refused below
                    z = z if flow is None or t == now else flow.advance(now, t, z)
                now, out[row] = t, w.Q @ np.concatenate([self._algebraic(w, t), z])
        if not np.isfinite(out).all():
            raise ModelError(f"the solution is not finite at t = {asked[int(np.argmin(np.isfinite(out).all(axis=1)))]:g}")
        return out

    def _algebraic(self, w: Weierstrass, t: float) -> Array:
        """`z1 = -sum_k N^k g1^(k)` (eq. 2.30)."""
        k, power, out = len(w.N), np.eye(len(w.N)), np.zeros(len(w.N))
        for order in range(max(1, self.index)):
            out -= power @ (w.P @ self.derivative(order, t))[:k]
            power = power @ w.N
        return out

    def to_ode(self) -> tuple[Array, Callable[[float], Array]]:
        """`x' = M x + g(t)`, the last form of the reduction; the constraints are invariants of it, and drift numerically."""
        last = self.reduction()[-1]
        inverse = np.linalg.inv(last.E)

        def g(t: float) -> Array:
            return np.asarray(
                inverse @ sum((M @ self.derivative(k, t) for k, M in enumerate(last.F) if M.any()), np.zeros(self.n))
            )

        return inverse @ last.A, g

    def system(self) -> IndexOneDAE:
        """As an `IndexOneDAE`: `y` are the free coordinates, `z` is the state `x`."""
        w = self.weierstrass()
        k = len(w.N)
        free = self.n - k
        y, z = SX.sym("y", max(1, free)), SX.sym("z", self.n)
        g = SX(w.P) @ self._f
        source, moving = ca.vertsplit(g, [0, k, self.n])  # slices of one entry have the wrong shape where they are empty
        part, power = SX(k, 1), np.eye(k)
        for _ in range(max(1, self.index) if k else 0):
            part -= SX(power) @ source
            source, power = ca.jacobian(source, self._t), power @ w.N
        rhs = SX(w.J) @ y + moving if free else SX(1, 1)
        state = SX(w.Q) @ ca.vertcat(part, y if free else SX(0, 1))

        names = [f"y{i}" for i in range(1, max(1, free) + 1)]
        system = IndexOneDAE.of_expressions(_Symbols(self._t), names, y, z, [ca.densify(rhs)], z - state, {})  # type: ignore[arg-type]
        assert isinstance(system, IndexOneDAE)
        return system

    @suggesting(options=SolveOptions.__annotations__)
    def solve(
        self, x0: ArrayLike, t_end: float, step: float, method: str | Method = "radau-iia-3", **options: Unpack[SolveOptions]
    ) -> tuple[Array, Array]:
        """Times and states by a method for index 1, from a consistent value; `options` are those of `simulate`."""
        return SOLVE(self, self.required(x0), t_end, step, method, options)

    def __repr__(self) -> str:
        why = self.singularity()
        return f"<LinearDAE of {self.n} equations, {'singular' if why else f'index {self.index}'}>"


SOLVE: Hook[[LinearDAE, Array, float, float, str | Method, SolveOptions], tuple[Array, Array]] = Hook(
    "LinearDAE.solve", "dalembert.analysis"
)


def gauss(M: ArrayLike, tolerance: float = 1e-12) -> tuple[Array, Array, Array]:
    """`L M U = diag(Lambda, 0)` by Gauss elimination with full pivoting (theorem 6): `L`, `U` and the whole form."""
    D = reals("M", M, ModelError, "a matrix of numbers")
    if D.ndim != 2 or not D.size:
        raise ModelError(f"gauss() takes a finite matrix that is not empty, not {M!r}")
    n, m = D.shape
    L, U, scale = np.eye(n), np.eye(m), float(np.abs(D).max())
    for k in range(min(n, m)):
        row, column = np.unravel_index(np.abs(D[k:, k:]).argmax(), (n - k, m - k))
        p, q = int(row) + k, int(column) + k
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
