"""Variational and nonholonomic integrators, derived from a discrete Lagrangian and discrete constraints (Hilden 2009, chapter 3).

The discrete Lagrange-d'Alembert equations (eq. 3.2; our sign of `lam`)

    D1 Ld(q_k, q_k+1) + D2 Ld(q_k-1, q_k) = h K(q_k)^T lam_k,     gd(q_k, q_k+1) = 0,

with `K` the matrix of all constraints, are two-step equations for the positions. They are run as a one-step method in `(q, v)`:

    M(q0) v0 + D1 Ld(q0, q1) = h K(q0)^T lam,            gd(q0, q1) = 0
    M(q1) v1 = D2 Ld(q0, q1) - h K(q1)^T mu,             K(q1) v1 + k(q1) = 0

Whatever `mu` is, the next step's `lam` makes up for it: the positions are those of the two-step equations, and the velocities
lie on the constraints. Forces enter with half their impulse at the middle of the step on either side.

McLachlan and Perlmutter's method has its discrete curve at the half steps, `q_k + h/2 v_k`. With
`Ld(a, b) = h (L(a, w) + L(b, w)) / 2`, `w = (b - a) / h`, and `gd(a, b) = K((a + b) / 2) w` it reads

    q+ = q0 + h/2 v0,   q1 = q+ + h/2 v1,   K(q1) v1 + k(q1) = 0
    m(q1, v1) v1 = m(q0, v0) v0 + h/2 (L_q(q+, v0) + L_q(q+, v1)) - h K(q+)^T lam,   m(q, v) = (M(q - h/2 v) + M(q + h/2 v)) / 2

For a constant mass this is their method (eq. 3.4). The source has `L(a, w)` alone (eq. 3.5): the same for a constant mass, but of
first order and not reversible for `M(q)`; it is there as `lagrangian="left"`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca

from dalembert.errors import MethodError, ModelError
from dalembert.methods.base import Method, register
from dalembert.methods.step import SX, Solve, Step, memory, split
from dalembert.systems import scales
from dalembert.systems.base import column, scalar
from dalembert.systems.needs import Need
from dalembert.systems.tracing import symbols

RULES = ("midpoint", "trapezoidal", "left")


class _Mechanical(Method):
    """What these methods have in common."""

    order: ClassVar[tuple[int, int, int]] = (2, 2, 2)
    treats: ClassVar[tuple[str, ...]] = ("mechanical",)

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.VELOCITIES, Need.MASS})


def _lagrangian(s: Any, q: Any, v: Any, t: Any) -> Any:
    """`T(q, v) - V(q, t)`."""
    return s.role("kinetic", q=q, v=v) - s.expression("potential", q=q, t=t)


def _discrete_lagrangian(s: Any, rule: Any, q0: Any, q1: Any, t: Any, h: Any) -> Any:
    w = (q1 - q0) / h
    if rule == "midpoint":
        return h * _lagrangian(s, (q0 + q1) / 2, w, t + h / 2)
    if rule == "trapezoidal":
        return h / 2 * (_lagrangian(s, q0, w, t) + _lagrangian(s, q1, w, t + h))
    if rule == "left":
        return h * _lagrangian(s, q0, w, t)
    return scalar("lagrangian", _traced(s, "lagrangian", rule, q0, q1, t, h))


def _traced(s: Any, role: str, function: Any, q0: Any, q1: Any, t: Any, h: Any) -> Any:
    n = s.n
    extra = {"q0": symbols(q0, (n,)), "q1": symbols(q1, (n,)), "h": symbols(h, ()), "t": symbols(t, ())}
    return s._trace(role, function, ("q0", "q1", "h", "t"), extra)


def _discrete_constraint(s: Any, rule: Any, q0: Any, q1: Any, t: Any, h: Any) -> Any:
    """Holonomic constraints at the end of the step; nonholonomic ones by the rule, times the step."""
    rows = [s.expression("holonomic", q=q1, t=t + h)] if s.mh else []
    if s.mn:
        w = (q1 - q0) / h
        if rule == "midpoint":
            rows.append(h * s.expression("nonholonomic", q=(q0 + q1) / 2, v=w, t=t + h / 2))
        elif rule == "trapezoidal":
            ends = s.expression("nonholonomic", q=q0, v=w, t=t) + s.expression("nonholonomic", q=q1, v=w, t=t + h)
            rows.append(h / 2 * ends)
        elif rule == "left":
            rows.append(h * s.expression("nonholonomic", q=q0, v=w, t=t))
        else:
            own = column("constraint", _traced(s, "constraint", rule, q0, q1, t, h))
            if own.numel() != s.mn:
                raise ModelError(
                    f"constraint must return {s.mn} entries, one for each nonholonomic constraint, got {own.numel()}"
                )
            rows.append(h * own)
    return ca.vertcat(*rows)


def variational_step(s: Any, lagrangian: Any, constraint: Any) -> Step:
    """The step of the discrete Lagrange-d'Alembert equations; unknown is the mean velocity `w` of the step."""
    n, m, h, t = s.n, s.m, SX.sym("h"), s.t
    q0, u = s.q, SX.sym("u", s.nu, 1)
    end = SX.sym("q1", n)
    Ld = _discrete_lagrangian(s, lagrangian, q0, end, t, h)
    both = ca.Function("Ld", [q0, end, t, h, s.par], [ca.densify(ca.gradient(Ld, q0)), ca.densify(ca.gradient(Ld, end))])
    x, last, before = memory(n + m)
    w, lam = split(x, n, m)
    q1, t1 = q0 + h * w, t + h
    D1, D2 = both(q0, q1, t, h, s.par)
    middle, half = (q0 + q1) / 2, t + h / 2
    applied, damping = s.applied(middle, w, half, u), s.damping(middle, w, half)
    push = h / 2 * (applied - damping)
    p0 = s.expression("mass") @ s.v
    rows = [-(p0 + D1 + push)]
    G0, G1 = s.role("jacobian"), s.role("jacobian", q=q1, t=t1)
    if m:
        rows[0] += h * (G0.T @ lam)
        gd = ca.Function("gd", [q0, end, t, h, s.par], [ca.densify(_discrete_constraint(s, constraint, q0, end, t, h))])
        rows.append(gd(q0, q1, t, h, s.par))
    free = s.own_force() + s.applied(q0, s.v, t, u)
    size = scales.velocity(s, free / _masses(s), h)
    # the mean velocity is a little ahead of v0; in the first step it is v0 itself
    start = ca.vertcat(s.v, SX(m, 1))
    guess = 2 * last - before
    first = Solve(x, ca.vertcat(*rows), guess, scales.constant(size, n), last, before, (0,) * n + (1,) * m, start=start)
    y, y_last, y_before = memory(n + m, "y")
    v1, mu = split(y, n, m)
    rows = [s.expression("mass", q=q1) @ v1 - D2 - push]
    if m:
        rows[0] += h * (G1.T @ mu)
        rows.append(G1 @ v1 + s.role("rate", q=q1, t=t1))
    second = Solve(y, ca.vertcat(*rows), ca.vertcat(w, lam), scales.constant(size, n), y_last, y_before, (0,) * n + (1,) * m)
    supplied = h * s.supplied_power(middle, w, half, applied, lam + mu)
    return Step(
        t=t, h=h, u=u, par=s.par,
        state={"q": q0, "v": s.v}, solves=(first, second), next={"q": q1, "v": v1},
        lam=lam + mu if m else SX(0, 1), node=0.5,
        work={"supplied": supplied, "dissipated": h * ca.dot(w, damping)},
        input_nodes=(0.5,),
    )  # fmt: skip


def _masses(s: Any) -> Any:
    mass = ca.densify(ca.diag(s.expression("mass")))
    return ca.if_else(mass > 0, mass, 1)


@register
@dataclass(frozen=True)
class Variational(_Mechanical):
    """The integrator of a discrete Lagrangian `Ld(q0, q1, h)` and discrete constraints `gd(q0, q1, h)`.

    `lagrangian` and `constraint` are `"midpoint"`, `"trapezoidal"`, `"left"` (order 1), or functions of `q0`, `q1`, `h`, `t`
    and parameters by name; `Ld` approximates the action of the step, `gd` the rate of the nonholonomic constraints. Without
    constraints these are the discrete Euler-Lagrange equations. Holonomic constraints hold at the end of the step, velocities on
    all of them.
    """

    lagrangian: str | Callable[..., Any] = "trapezoidal"
    constraint: str | Callable[..., Any] = "midpoint"

    name: ClassVar[str] = "variational"
    keeps: ClassVar[str] = "symplectic structure (free, holonomic), symmetry, both constraint levels"
    source: ClassVar[str] = "Hilden 2009, eqs. 3.1, 3.2; Marsden, West 2001"
    exact_levels: ClassVar[tuple[str, ...]] = ("position", "velocity")
    symplectic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("lagrangian", "constraint"):
            value = getattr(self, name)
            if not callable(value) and value not in RULES:
                raise MethodError(f"{name} must be one of {', '.join(RULES)}, or a function of q0, q1 and h, not {value!r}")

    def step(self, system: Any) -> Step:
        return variational_step(system, self.lagrangian, self.constraint)


@register
@dataclass(frozen=True)
class CortesMartinez(_Mechanical):
    """Cortes and Martinez (2001): midpoint Lagrangian and midpoint constraint (Hilden 2009, eq. 3.3)."""

    name: ClassVar[str] = "cortes-martinez"
    keeps: ClassVar[str] = "nonholonomic constraints between the positions, velocities projected on all constraints; symmetry"
    source: ClassVar[str] = "Cortes, Martinez 2001; Hilden 2009, sec. 3.3.1"
    exact_levels: ClassVar[tuple[str, ...]] = ("position", "velocity")

    def step(self, system: Any) -> Step:
        return variational_step(system, "midpoint", "midpoint")


@register
@dataclass(frozen=True)
class McLachlanPerlmutter(_Mechanical):
    """McLachlan and Perlmutter (2006), for any mass matrix: velocity constraints to round-off, reversible.

    Holonomic constraints are kept at velocity level.
    """

    lagrangian: str = "trapezoidal"

    name: ClassVar[str] = "mclachlan-perlmutter"
    keeps: ClassVar[str] = "velocity constraints of both kinds, symmetry"
    source: ClassVar[str] = "McLachlan, Perlmutter 2006; Hilden 2009, sec. 3.3.2"
    exact_levels: ClassVar[tuple[str, ...]] = ("velocity",)
    index: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.lagrangian not in ("trapezoidal", "left"):
            raise MethodError(f"lagrangian must be 'trapezoidal' or 'left', not {self.lagrangian!r}")

    def step(self, system: Any) -> Step:
        s, h, t = system, SX.sym("h"), system.t
        n, m, q0, v0, u = s.n, s.m, s.q, s.v, SX.sym("u", s.nu, 1)
        x, last, before = memory(n + m)
        a, lam = split(x, n, m)
        v1 = v0 + h * a
        half = q0 + h / 2 * v0
        q1, middle, t1 = half + h / 2 * v1, t + h / 2, t + h

        def force(v: Any) -> Any:
            own = ca.gradient(s.role("kinetic") - s.expression("potential"), s.q)
            L_q = ca.Function("L_q", [s.q, s.v, s.t, s.par], [ca.densify(own)])
            return L_q(half, v, middle, s.par) + s.applied(half, v, middle, u) - s.damping(half, v, middle)

        def momentum(q: Any, v: Any) -> Any:
            if s.constant_mass:
                return s.expression("mass") @ v
            if self.lagrangian == "left":
                return s.expression("mass", q=q - h / 2 * v) @ v
            return (s.expression("mass", q=q - h / 2 * v) + s.expression("mass", q=q + h / 2 * v)) @ v / 2

        push = force(v1) if self.lagrangian == "left" else (force(v0) + force(v1)) / 2
        change = s.expression("mass") @ a if s.constant_mass else (momentum(q1, v1) - momentum(q0, v0)) / h
        rows = [change - push]
        if m:
            rows[0] += s.role("jacobian", q=half, t=middle).T @ lam
            rows.append(s.role("jacobian", q=q1, t=t1) @ v1 + s.role("rate", q=q1, t=t1))
        size = scales.acceleration(s, s.own_force() + s.applied(q0, v0, t, u), h)
        solve = Solve(x, ca.vertcat(*rows), 2 * last - before, scales.constant(size, n), last, before, (0,) * n + (1,) * m)
        mean = (v0 + v1) / 2
        applied = (s.applied(half, v0, middle, u) + s.applied(half, v1, middle, u)) / 2
        damping = (s.damping(half, v0, middle) + s.damping(half, v1, middle)) / 2
        return Step(
            t=t, h=h, u=u, par=s.par,
            state={"q": q0, "v": v0}, solves=(solve,), next={"q": q1, "v": v1},
            lam=lam, node=0.5,
            work={
                "supplied": h * s.supplied_power(half, mean, middle, applied, lam),
                "dissipated": h * ca.dot(mean, damping),
            },
            input_nodes=(0.5,),
        )  # fmt: skip
