"""Runge-Kutta methods for `y' = sum_m f_m(t, y, z)`, `0 = g(t, y)`: one residual, with the constraint rows as data.

    Y_i = y0 + h sum_j sum_m a_ij,m f_m(Y_j, Z_j),    y1 = y0 + h sum_j b_j f(Y_j, Z_j)
    sum_j omega_ij g(Y_j) + omega_i,s+1 g(y1) = 0,    i = 1 .. s

    classical (gauss-s, radau-..., lobatto-...)   omega = [I, 0]
    spark-s                        Lobatto IIIA-B-C-C*-D, omega = [rows 2 .. s of A_1, 0; 0, 1]
    srk-gauss-s, srk-radau-ia-s    omega = [0, 1; b^T, 0; b^T C, 0; ...; b^T C^(s-2), 0]

(Jay 2003, 2006; Hilden 2009, eqs. 2.15, 2.19, 2.20, 2.26, 2.27). The rows are combined so that each multiplier has its own:
the Schur complement is then the identity times `g_y f_z`. The algebraic variable at the end of a step follows from the hidden
constraint `g_y f(y1, z1) + g_t = 0`, as accurate as `y1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.errors import MethodError
from dalembert.methods import scales
from dalembert.methods.base import register
from dalembert.methods.lobatto_pair import LobattoPair
from dalembert.methods.stages import Staged, _IndexTwo
from dalembert.methods.step import SX, Solve, Step, memory, split
from dalembert.methods.tableaus import Tableau, lagrange, tableau

LOBATTO = ("lobatto-iiia", "lobatto-iiib", "lobatto-iiic", "lobatto-iiic*", "lobatto-iiid")


def index_two_step(s: Any, tableaus: list[Tableau], parts: list[str], omega: np.ndarray) -> Step:
    """The step of a method given by one tableau for each part of the right-hand side and its constraint rows."""
    T, n, m, h, t = tableaus[0], s.n, s.m, SX.sym("h"), s.t
    k, y0, z0 = T.stages, s.q, s.v
    acting = tableaus[-1].A  # a matrix of a part that depends on z
    first = 1 if np.abs(omega[0]).max() == 0 or np.abs(omega[0, :-1] @ acting + omega[0, -1] * T.b).max() == 0 else 0
    x, last, before = memory((n + m) * k - m * first)
    blocks = split(x, *([n] * k), *([m] * (k - first)))
    X, Z = blocks[:k], [*([z0] * first), *blocks[k:]]
    Y = [y0 + h * r for r in X]
    times = [t + float(c) * h for c in T.c]
    u = SX.sym("u", s.nu, k + 1)
    values = [[s.expression(role, q=Y[j], v=Z[j], t=times[j], u=u[:, j]) for role in parts] for j in range(k)]
    rows = []
    for i in range(k):
        total = SX(n, 1)
        for j in range(k):
            for method, value in zip(tableaus, values[j], strict=True):
                if method.A[i, j]:
                    total += float(method.A[i, j]) * value
        rows.append(X[i] - total)
    y1, t1 = y0 + h * sum((float(T.b[j]) * value for j in range(k) for value in values[j]), SX(n, 1)), t + h
    g = [s.expression("holonomic", q=Y[j], t=times[j]) for j in range(k)] + [s.expression("holonomic", q=y1, t=t1)]
    kept = omega[first:]
    mixed = separated(kept, T, acting, first)
    constraints = [
        sum((float(w) * value for w, value in zip(row, g, strict=True) if abs(w) > 1e-14), SX(m, 1)) / h for row in mixed
    ]

    rhs = s.expression("rhs", u=u[:, 0])
    size = scales.typical(rhs) + scales.POSITIONS * scales.typical(y0) / ca.fabs(h)
    start = ca.vertcat(*(float(c) * rhs for c in T.c), *([z0] * (k - first)))
    guess = _extrapolated(last, n, m, k, first, T.c)
    levels = (0,) * (n * k) + (1,) * (m * (k - first))
    stages = Solve(x, ca.vertcat(*rows, *constraints), guess, scales.constant(size, n * k), last, before, levels, start=start)
    return _ended(s, T, h, u, stages, y1, Z[-1])


def separated(omega: np.ndarray, T: Tableau, acting: np.ndarray | None = None, first: int = 0) -> np.ndarray:
    """The same rows combined so that each multiplier has its own: what it does to the constraint is then a diagonal."""
    A = T.A if acting is None else acting
    return np.asarray(np.linalg.solve(omega[:, :-1] @ A[:, first:] + np.outer(omega[:, -1], T.b[first:]), omega))


def _ended(s: Any, T: Tableau, h: Any, u: Any, stages: Solve, y1: Any, guess: Any) -> Step:
    """The whole step: the stages, then `z1` from the equation that defines it at the end of the step."""
    m, z0 = s.m, s.v
    z1, z_last, z_before = memory(m, "z1")
    hidden = s.role("drift", q=y1, v=z1, t=s.t + h, u=u[:, -1])
    end = Solve(z1, hidden, guess, scales.constant(scales.typical(z0), m), z_last, z_before, (0,) * m)
    return Step(
        t=s.t, h=h, u=u, par=s.par,
        state={"q": s.q, "v": z0}, solves=(stages, end), next={"q": y1, "v": z1},
        lam=SX(0, 1), node=1.0, work={"supplied": SX(0.0), "dissipated": SX(0.0)},
        input_nodes=(*(float(c) for c in T.c), 1.0),
    )  # fmt: skip


def index_one_step(s: Any, T: Tableau) -> Step:
    """A classical method on index 1: `g(Y_i, Z_i) = 0` at the stages (Hairer, Wanner II, sec. VI.1)."""
    n, m, k, h, t = s.n, s.m, T.stages, SX.sym("h"), s.t
    x, last, before = memory((n + m) * k)
    blocks = split(x, *([n] * k), *([m] * k))
    X, Z, u = blocks[:k], blocks[k:], SX.sym("u", s.nu, k + 1)
    at = [{"q": s.q + h * X[j], "v": Z[j], "t": t + float(T.c[j]) * h, "u": u[:, j]} for j in range(k)]
    f = [s.expression("rhs", **a) for a in at]
    rows = [X[i] - sum((float(T.A[i, j]) * f[j] for j in range(k) if T.A[i, j]), SX(n, 1)) for i in range(k)]
    y1 = s.q + h * sum((float(T.b[j]) * f[j] for j in range(k)), SX(n, 1))
    rhs = s.expression("rhs", u=u[:, 0])
    size = scales.typical(rhs) + scales.POSITIONS * scales.typical(s.q) / ca.fabs(h)
    own = [scales.constant(size, n * k), scales.constant(scales.typical(s.v), m * k)]
    start = ca.vertcat(*(float(c) * rhs for c in T.c), *([s.v] * k))
    guess = _extrapolated(last, n, m, k, 0, T.c)
    constraints = [s.expression("holonomic", **a) for a in at]
    levels = (0,) * ((n + m) * k)
    stages = Solve(x, ca.vertcat(*rows, *constraints), guess, ca.vertcat(*own), last, before, levels, start=start)
    return _ended(s, T, h, u, stages, y1, Z[-1])


def _extrapolated(last: Any, n: int, m: int, k: int, first: int, c: np.ndarray) -> Any:
    """The polynomials of the last step, at the stages of the next one; that of `y` passes through its beginning."""
    own = c[0] == 0
    nodes = c if own else np.concatenate([[0.0], c])
    shift = lagrange(nodes, 1 + c) - lagrange(nodes, np.array([1.0]))
    shift = shift if own else shift[:, 1:]
    X = ca.reshape(last[: n * k], n, k) @ shift.T
    Z = ca.reshape(last[n * k :], m, k - first) @ lagrange(c[first:], 1 + c[first:]).T
    return ca.vertcat(ca.vec(X), ca.vec(Z))


def classical_step(s: Any, T: Tableau) -> Step:
    """A classical method: one tableau for all, the constraints at the stages."""
    if s.index == 1:
        return index_one_step(s, T)
    return index_two_step(s, [T], ["rhs"], np.hstack([np.eye(T.stages), np.zeros((T.stages, 1))]))


@register
@dataclass(frozen=True)
class Spark(Staged):
    """Jay's SPARK methods of the Lobatto family: order 2 s - 2 for any decomposition into the five parts.

    On mechanical and Hamiltonian systems the positions are treated with Lobatto IIIA and the momenta with IIIB: nonholonomic
    constraints hold at the end of each step, holonomic ones at both levels (see `lobatto_pair`).
    """

    stages: int = 2
    fewest: ClassVar[int] = 2
    name: ClassVar[str] = "spark"
    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian", "dae")
    keeps: ClassVar[str] = "constraints at the end of each step, of both kinds; symmetry (parts 1, 2, 5)"
    source: ClassVar[str] = "Jay 2003; Hilden 2009, sec. 2.5"
    index: ClassVar[int] = 2
    nonholonomic: ClassVar[bool] = True
    any_mass: ClassVar[bool] = False
    exact_levels: ClassVar[tuple[str, ...]] = ("position", "velocity")

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (2 * self.stages - 2,) * 3

    def check(self, system: Any) -> None:
        super().check(system)
        if system.kind == "dae" and len(system.parts) < 2:
            raise MethodError("spark needs parts=[f1, f2, ...], the first of which does not depend on z; use srk-gauss for one f")

    def step(self, system: Any) -> Step:
        k = int(self.stages)
        if system.kind != "dae":
            return LobattoPair(k).step(system)
        tableaus = [tableau(family, k) for family, _ in zip(LOBATTO, system.parts, strict=False)]
        omega = np.zeros((k, k + 1))
        omega[:-1, :-1], omega[-1, -1] = tableaus[0].A[1:], 1.0
        return index_two_step(system, tableaus, system.parts, omega)


class _Specialized(_IndexTwo):
    """Specialized Runge-Kutta methods: moments of the constraint at the stages, and the constraint at the end."""

    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian", "dae")
    index: ClassVar[int] = 2
    exact_levels: ClassVar[tuple[str, ...]] = ("velocity",)
    family: ClassVar[str]

    def _tableau(self) -> Tableau:
        return tableau(self.family, int(self.stages))

    def _moments(self) -> np.ndarray:
        """Weights of the constraint at the stages and at the end, one row for each multiplier."""
        T = self._tableau()
        omega = np.zeros((T.stages, T.stages + 1))
        omega[0, -1] = 1.0
        for i in range(1, T.stages):
            omega[i, :-1] = T.b * T.c ** (i - 1)
        return omega

    def _constraint_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        T = self._tableau()
        return np.append(T.c, 1.0), np.vstack([T.A, T.b]), separated(self._moments(), T)

    def step(self, system: Any) -> Step:
        if system.kind == "dae":
            return index_two_step(system, [self._tableau()], ["rhs"], self._moments())
        return super().step(system)


@register
@dataclass(frozen=True)
class SRKGauss(_Specialized):
    """Gauss methods that keep their order 2 s on index 2, and the constraint at the end of each step."""

    name: ClassVar[str] = "srk-gauss"
    family: ClassVar[str] = "gauss"
    keeps: ClassVar[str] = "constraints at the end of each step, symmetry"
    source: ClassVar[str] = "Jay 2006; Hilden 2009, sec. 2.6"

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (2 * self.stages,) * 3


@register
@dataclass(frozen=True)
class SRKRadauIA(_Specialized):
    """Radau IA methods that keep their order 2 s - 1 on index 2, and the constraint at the end of each step."""

    name: ClassVar[str] = "srk-radau-ia"
    family: ClassVar[str] = "radau-ia"
    keeps: ClassVar[str] = "constraints at the end of each step"
    source: ClassVar[str] = "Jay 2006; Hilden 2009, sec. 2.6"
    symmetric: ClassVar[bool] = False

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (2 * self.stages - 1,) * 3
