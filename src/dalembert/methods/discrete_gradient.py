"""Discrete gradient methods for port-Hamiltonian systems (Kinon, Morandin, Schulze 2025), and collocation for comparison.

With `E = U1 C V1^T`, `C` invertible, `X = (x1 - x0) / h`, `H1` the Hamiltonian as a function of `V1^T x`, and bars for values in
the step (matrices at its midpoint, say),

    E X + r = (J - R) z + (B - P) u,    y = (B + P)^T z + (S - N) u
    z = U1 z1 + U2 z2(x),               C^T z1 = D H1(x0, x1)         (eqs. 18, 20, 21)

so that `H(x1) - H(x0) = h (y . u - [z; u]^T W [z; u])` to round-off, whatever the Hamiltonian is. `U1` and `V1` are unit vectors
where `E` is block diagonal, the identity where it is invertible, and bases of its range and co-range where these are constant
(proposition 2). The blocks of `J` that hold the Jacobian of a constraint `g(q) = 0` take a discrete Jacobian, which keeps `g` as
well (eq. 44). `z2` at the end of the step needs no initial value and serves index 2; at the midpoint it is of second order on
index 1 (proposition 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.discrete.gradients import GRADIENTS, Ends, Field
from dalembert.errors import MethodError, ModelError
from dalembert.methods.base import Method, register
from dalembert.methods.energy_momentum import EnergyMomentum
from dalembert.methods.step import SX, Solve, Step, memory, split
from dalembert.systems import scales
from dalembert.systems.base import column
from dalembert.systems.bases import Bases, bases
from dalembert.systems.constrained import Constrained
from dalembert.systems.needs import Need
from dalembert.systems.tracing import symbols

RULES = ("midpoint", "left", "right")


class _Frame:
    """The symbols of a step and the parts of a system in it."""

    def __init__(self, s: Any, rule: str) -> None:
        self.s, self.F = s, bases(s)
        F = self.F
        self.U1, self.U2, self.V1, self.V2 = F.U1, F.U2, F.V1, F.V2
        self.n, self.r, self.h, self.t, self.x0 = s.n, F.rank, SX.sym("h"), s.t, s.x
        self.u = SX.sym("u", s.nu, 1)
        self.rule = rule

    def place(self, X: Any, rule: str | None = None) -> tuple[Any, Any]:
        """State and time at which consistent approximations are taken."""
        c = {"midpoint": 0.5, "left": 0.0, "right": 1.0}[rule or self.rule]
        return self.x0 + c * self.h * X, self.t + c * self.h

    def discrete(self, X: Any, alpha: Any, pullback: Any) -> tuple[Any, Any, Ends]:
        """The discrete gradient of `H1` and its rate of time."""
        s = self.s
        xi = SX.sym("xi", self.r)
        H = ca.substitute(s.expression("hamiltonian"), s.x, ca.densify(self.V1 @ xi))
        x0 = self.V1.T @ self.x0
        ends = Ends(x0, x0 + self.h * alpha, self.t, self.t + self.h, change=self.h * alpha)
        gradient, rate = pullback(Field(H, xi, s.t, (s.par,)), ends, SX(1.0))
        return gradient, rate, ends

    def jacobian(self, X: Any, pullback: Any) -> Any:
        """The discrete Jacobian of the constraint, row by row."""
        s = self.s
        if s._constraint is None:
            return None
        states = s._constraint[0]
        q = SX.sym("q", len(states))
        full = SX(s.x)
        full[states] = q
        g = ca.substitute(s.expression("constraint"), s.x, full)
        q0 = self.x0[states]
        ends = Ends(q0, q0 + self.h * X[states], self.t, self.t + self.h, change=self.h * X[states])
        return ca.horzcat(*(pullback(Field(g[i], q, s.t, (s.par,)), ends, SX(1.0))[0] for i in range(g.numel()))).T

    def equations(self, X: Any, z: Any, rate: Any, jacobian: Any = None) -> tuple[Any, Any, Any, Any]:
        """`E X + r - (J - R) z - (B - P) u`, the output, the whole input, and the power dissipated."""
        s = self.s
        x, t = self.place(X)
        E, R, B, P, S, N = (s.expression(k, x=x, t=t) for k in ("E", "R", "B", "P", "S", "N"))
        u = s.expression("law", x=x, t=t, u=self.u) if s.has("law") else self.u
        residual = E @ X - (s.structure(x=x, t=t, jacobian=jacobian) - R) @ z - (B - P) @ u
        if s.has("r"):
            own = s.expression("r", x=x, t=t)
            residual += own + z * ((rate - ca.dot(z, own)) / (ca.sumsqr(z) + 1e-300))
        y = (B + P).T @ z + (S - N) @ u
        dissipated = ca.dot(z, R @ z) + 2 * ca.dot(z, P @ u) + ca.dot(u, S @ u)
        return residual, y, u, dissipated

    def sizes(self) -> tuple[Any, Any]:
        """Typical rates and costates."""
        s = self.s
        return scales.port_rate(s, self.u, self.h), scales.typical(s.expression("z")) + scales.typical(
            s.role("gradient")
        ) + 1e-300

    def finished(self, solve: Solve, X: Any, z: Any, y: Any, u: Any, dissipated: Any) -> Step:
        s, h = self.s, self.h
        return Step(
            t=self.t, h=h, u=self.u, par=s.par,
            state={"x": self.x0}, solves=(solve,), next={"x": self.x0 + h * X},
            lam=ca.vertcat(y, u, z), node=0.5,
            work={"supplied": h * ca.dot(y, u), "dissipated": h * dissipated},
        )  # fmt: skip


def _index_one(s: Any, F: Bases) -> bool:
    """Whether the algebraic equations can be solved for the algebraic states."""
    if F.rank == s.n:
        return True
    block = ca.Function("b", [s.x, s.t, s.u, s.par], [F.U2.T @ ca.jacobian(s.role("right"), s.x) @ F.V2])
    for x, t in s.samples():
        value = np.asarray(block(x, t, np.zeros(s.nu), s.pack()).full())
        if np.isfinite(value).all() and np.linalg.cond(value) > 1e10:
            return False
    return True


class _Balanced(Method):
    """What the energy-consistent methods have in common."""

    order: ClassVar[tuple[int, int, int]] = (2, 2, 2)
    treats: ClassVar[tuple[str, ...]] = ("port-hamiltonian",)
    index: ClassVar[int] = 2
    exact_levels: ClassVar[tuple[str, ...]] = ()

    gradient: str
    at: str
    z2: str

    def _check_options(self) -> None:
        if self.gradient not in GRADIENTS:
            raise MethodError(f"gradient must be one of {', '.join(GRADIENTS)}, not {self.gradient!r}")
        if self.at not in RULES:
            raise MethodError(f"at must be one of {', '.join(RULES)}, not {self.at!r}")
        if self.z2 not in ("auto", "midpoint", "right"):
            raise MethodError(f"z2 must be 'auto', 'midpoint' or 'right', not {self.z2!r}")

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.RATES, Need.BASES}

    def _z2_rule(self, s: Any, F: Bases) -> str:
        return self.z2 if self.z2 != "auto" else "midpoint" if _index_one(s, F) else "right"


@register
@dataclass(frozen=True)
class DiscreteGradient(_Balanced):
    """The discrete gradient method for semi-explicit port-Hamiltonian systems (eq. 21).

    `gradient` is one of the discrete gradients, `at` where matrices are taken (`"midpoint"`, `"left"`, `"right"`), `z2` where the
    costates of the algebraic equations are (`"auto"`: `"midpoint"` on index 1, `"right"` above). On a `Mechanical` or
    `Hamiltonian` system it is `energy-momentum` with that gradient.
    """

    gradient: str = "gonzalez"
    at: str = "midpoint"
    z2: str = "auto"

    alternates: ClassVar[bool] = True
    name: ClassVar[str] = "discrete-gradient"
    order: ClassVar[tuple[int, int, int]] = (2, 2, 1)  # multipliers of index 2 alternate around their mean
    treats: ClassVar[tuple[str, ...]] = ("port-hamiltonian", "mechanical", "hamiltonian")
    keeps: ClassVar[str] = "power balance with ports, of any Hamiltonian; position constraints of multibody systems"
    source: ClassVar[str] = "Kinon, Morandin, Schulze 2025, eqs. 21, 44"

    def __post_init__(self) -> None:
        self._check_options()

    def step(self, system: Any) -> Step:
        if isinstance(system, Constrained):
            return EnergyMomentum(gradient=self.gradient).step(system)
        f = _Frame(system, self.at)
        s, r, m = system, f.r, system.n - f.r
        C = f.U1.T @ s.expression("E") @ f.V1
        # z1 = C^-T D H1 is explicit where C is a constant diagonal, and unknown else
        simple = C.sparsity().is_diag() and not ca.depends_on(C, ca.vertcat(s.x, s.t))
        x, last, before = memory(2 * r + m if not simple else s.n)
        parts = split(x, r, 0 if simple else r, m)
        alpha, beta = parts[0], parts[2]
        X = f.V1 @ alpha + f.V2 @ beta
        pullback = GRADIENTS[self.gradient]
        DH, rate, _ = f.discrete(X, alpha, pullback)
        z1 = DH / ca.densify(ca.diag(C)) if simple else parts[1]
        place, when = f.place(X, self._z2_rule(s, f.F))
        z = f.U1 @ z1 + f.U2 @ (f.U2.T @ s.expression("z", x=place, t=when))
        residual, y, u, dissipated = f.equations(X, z, rate, f.jacobian(X, pullback))
        own, when = f.place(X)
        core = f.U1.T @ s.expression("E", x=own, t=when) @ f.V1
        rows = [f.U1.T @ residual, *([] if simple else [core.T @ z1 - DH]), f.U2.T @ residual]
        speed, size = f.sizes()
        start = ca.vertcat(SX(r, 1), *([] if simple else [f.U1.T @ s.expression("z")]), SX(m, 1))
        measured = r if simple else 2 * r
        scale = ca.vertcat(scales.constant(speed, r), *([] if simple else [scales.constant(size, r)]))
        solve = Solve(
            x, ca.densify(ca.vertcat(*rows)), 2 * last - before, scale, last, before, (0,) * measured + (1,) * m, start=start
        )
        return f.finished(solve, X, z, y, u, dissipated)


@register
@dataclass(frozen=True)
class DiracDissipative(_Balanced):
    """The discrete gradient method on the Dirac-dissipative representation (eq. 25): all costates `f` are unknown.

        E X + r = (J - R) f + (B - P) u,    E^T f = D H,    U2^T f = z2

    The last rows complete it: `z2` is that of the end of the step, of its midpoint, or (`"left"`) of its beginning, whose
    algebraic states are then found anew (example 6). The completion nearest to `f` is met exactly, so that this is also the
    minimal-norm rule.
    """

    gradient: str = "gonzalez"
    at: str = "midpoint"
    z2: str = "auto"

    name: ClassVar[str] = "ddr"
    keeps: ClassVar[str] = "power balance with ports, of any Hamiltonian"
    source: ClassVar[str] = "Kinon, Morandin, Schulze 2025, eq. 25"

    def __post_init__(self) -> None:
        if self.z2 != "left":
            self._check_options()

    def step(self, system: Any) -> Step:
        f = _Frame(system, self.at)
        s, r, n = system, f.r, system.n
        x, last, before = memory(2 * n)
        alpha, f1, f2, beta = split(x, r, r, n - r, n - r)
        X, z = f.V1 @ alpha + f.V2 @ beta, f.U1 @ f1 + f.U2 @ f2
        pullback = GRADIENTS[self.gradient]
        DH, rate, _ = f.discrete(X, alpha, pullback)
        if self.z2 == "left":
            place, when = f.x0 + f.h * (f.V2 @ beta), f.t
        else:
            place, when = f.place(X, self._z2_rule(s, f.F))
        residual, y, u, dissipated = f.equations(X, z, rate, f.jacobian(X, pullback))
        own, own_time = f.place(X)
        core = f.U1.T @ s.expression("E", x=own, t=own_time) @ f.V1
        completion = f2 - f.U2.T @ s.expression("z", x=place, t=when)
        rows = [f.U1.T @ residual, core.T @ f1 - DH, completion, f.U2.T @ residual]
        speed, size = f.sizes()
        scale = ca.vertcat(scales.constant(speed, r), scales.constant(size, n))
        costate = s.expression("z")
        start = ca.vertcat(SX(r, 1), f.U1.T @ costate, f.U2.T @ costate, SX(n - r, 1))
        levels = (0,) * (r + n) + (1,) * (n - r)
        solve = Solve(x, ca.densify(ca.vertcat(*rows)), 2 * last - before, scale, last, before, levels, start=start)
        return f.finished(solve, X, z, y, u, dissipated)


@register
@dataclass(frozen=True)
class GradientPair(_Balanced):
    """The method of a discrete gradient pair (eq. 18): `E(x0, x1)` and `z(x0, x1)` with `z . E (x1 - x0) = H(x1) - H(x0)`.

    `E` and `z` are functions of `x0`, `x1` and parameters; `z` must, and `E` may be given (the midpoint else). Without a pair
    one is constructed (theorem 4, proposition 2): then this is `discrete-gradient` (corollary 1).
    """

    gradient: str = "gonzalez"
    at: str = "midpoint"
    z2: str = "auto"
    E: Callable[..., Any] | None = None
    z: Callable[..., Any] | None = None

    name: ClassVar[str] = "gradient-pair"
    keeps: ClassVar[str] = "power balance with ports, of any Hamiltonian"
    source: ClassVar[str] = "Kinon, Morandin, Schulze 2025, eq. 18"

    def __post_init__(self) -> None:
        self._check_options()
        if self.E is not None and self.z is None:
            raise MethodError("a gradient pair needs z=..., a function of x0 and x1 with z . E (x1 - x0) = H(x1) - H(x0)")

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs - ({Need.BASES} if self.z is not None else set())

    def step(self, system: Any) -> Step:
        if self.z is None:
            return DiscreteGradient(self.gradient, self.at, self.z2).step(system)
        s, h, t, n = system, SX.sym("h"), system.t, system.n
        X, last, before = memory(n)
        x1 = s.x + h * X
        extra = {"x0": symbols(s.x, (n,)), "x1": symbols(x1, (n,)), "t": symbols(t, ()), "h": symbols(h, ())}
        z = column("z", s._trace("z", self.z, ("x0", "x1", "t", "h"), extra), n)
        middle, when = s.x + h / 2 * X, t + h / 2
        E = s.expression("E", x=middle, t=when)
        if self.E is not None:
            E = s._matrix("E", s._trace("E", self.E, ("x0", "x1", "t", "h"), extra), (n, n))
        self._check_pair(s, E, z, X, h)
        u = SX.sym("u", s.nu, 1)
        whole = s.expression("law", x=middle, t=when, u=u) if s.has("law") else u
        R, B, P, S, N = (s.expression(k, x=middle, t=when) for k in ("R", "B", "P", "S", "N"))
        residual = E @ X - (s.structure(x=middle, t=when) - R) @ z - (B - P) @ whole
        y = (B + P).T @ z + (S - N) @ whole
        size = scales.typical(s.role("right", u=u)) + 1e-3 * scales.typical(s.x) + 1e-300
        solve = Solve(X, ca.densify(residual), 2 * last - before, scales.constant(size, n), last, before, (0,) * n)
        dissipated = ca.dot(z, R @ z) + 2 * ca.dot(z, P @ whole) + ca.dot(whole, S @ whole)
        return Step(
            t=t, h=h, u=u, par=s.par,
            state={"x": s.x}, solves=(solve,), next={"x": x1},
            lam=ca.vertcat(y, whole, z), node=0.5,
            work={"supplied": h * ca.dot(y, whole), "dissipated": h * dissipated},
        )  # fmt: skip

    @staticmethod
    def _check_pair(s: Any, E: Any, z: Any, X: Any, h: Any) -> None:
        """Directionality at a few points: refuse what is not a discrete gradient pair."""
        H = s.expression("hamiltonian")
        change = ca.substitute(H, s.x, s.x + h * X) - H
        f = ca.Function("pair", [s.x, X, h, s.t, s.par], [h * ca.dot(z, E @ X), change])
        rng = np.random.default_rng(2)
        for x, t in s.samples():
            have, want = (float(v) for v in f(x, rng.normal(size=s.n), 0.1, t, s.pack()))
            if np.isfinite(have + want) and abs(have - want) > 1e-8 * max(1.0, abs(want)):
                raise ModelError(
                    f"this is not a discrete gradient pair: z . E (x1 - x0) = {have:.6g}, but H(x1) - H(x0) = {want:.6g}"
                )
