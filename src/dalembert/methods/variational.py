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
from typing import ClassVar

import casadi as ca
from casadi import SX

from dalembert.checking import one_of
from dalembert.errors import ModelError
from dalembert.methods.base import Method, register
from dalembert.methods.step import Block, Step, split_solves
from dalembert.systems import scales
from dalembert.systems.base import column, scalar
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.needs import Need
from dalembert.systems.tracing import symbols

Rule = str | Callable[..., object]
NODES = {"midpoint": (0.5,), "trapezoidal": (0.0, 1.0), "left": (0.0,)}  # of quadrature, with equal weights


class _Mechanical(Method):
    """What these methods have in common."""

    treats: ClassVar[tuple[str, ...]] = ("mechanical",)

    @property
    def order(self) -> tuple[int, int, int]:
        return (2, 2, 2) if self.symmetric else (1, 1, 1)

    @property
    def vectorial(self) -> bool:
        return True

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.VELOCITIES, Need.MASS, Need.FREE_OF_REACTIONS})


@dataclass(frozen=True)
class _Curve:
    """The straight line from `q0` to `q1` in one step."""

    s: Mechanical
    q0: SX
    q1: SX
    h: SX

    def _place(self, c: float) -> SX:
        return {0.0: self.q0, 0.5: (self.q0 + self.q1) / 2, 1.0: self.q1}[c]

    def mean(self, rule: str, f: Callable[[SX, SX, SX], SX]) -> SX:
        """The mean of a function of `(q, v, t)` on the line, by the quadrature of a rule."""
        values = [f(self._place(c), (self.q1 - self.q0) / self.h, self.s.t + c * self.h) for c in NODES[rule]]
        return values[0] if len(values) == 1 else (values[0] + values[1]) / 2

    def traced(self, role: str, function: Callable[..., object]) -> SX:
        """A function of the user's, of `q0`, `q1`, `h`, `t` and parameters."""
        s, n = self.s, self.s.n
        extra = {"q0": symbols(self.q0, (n,)), "q1": symbols(self.q1, (n,)), "h": symbols(self.h, ()), "t": symbols(s.t, ())}
        return SX(s._trace(role, function, tuple(extra), extra))

    def slopes(self, rule: Rule) -> tuple[SX, SX]:
        """`D1 Ld` and `D2 Ld` of `Ld(q0, q1)`: the step times the mean of `L = T - V`, or the user's.

        With `w = (q1 - q0) / h` and places `q_c = (1 - c) q0 + c q1` they are the means of `h (1 - c) L_q - M w` and of
        `h c L_q + M w`.
        """
        if callable(rule):
            Ld = SX(scalar("lagrangian", self.traced("lagrangian", rule)))
            return ca.densify(ca.gradient(Ld, self.q0)), ca.densify(ca.gradient(Ld, self.q1))
        s, h = self.s, self.h
        w, nodes = (self.q1 - self.q0) / h, NODES[rule]
        first = second = type(h)(s.n, 1)
        for c in nodes:
            at = self._place(c)
            push = h * s.role("lagrangian_slope", q=at, v=w, t=s.t + c * h)
            momentum = s.role("momentum", q=at, v=w)
            first, second = first + (1 - c) * push - momentum, second + c * push + momentum
        return first / len(nodes), second / len(nodes)

    def constraint(self, rule: Rule) -> SX:
        """Holonomic constraints at the end of the step; nonholonomic ones by the rule, times the step."""
        s = self.s
        rows = [s.expression("holonomic", q=self.q1, t=s.t + self.h)] if s.mh else []
        if s.mn and callable(rule):
            own = column("constraint", self.traced("constraint", rule))
            if own.numel() != s.mn:
                raise ModelError(
                    f"constraint must return {s.mn} entries, one for each nonholonomic constraint, got {own.numel()}"
                )
            rows.append(self.h * own)
        elif s.mn:
            rows.append(self.h * self.mean(str(rule), lambda q, v, t: s.expression("nonholonomic", q=q, v=v, t=t)))
        return ca.vertcat(*rows) if rows else type(self.h)(0, 1)


def variational_step(s: Mechanical, lagrangian: Rule, constraint: Rule) -> Step:
    """The step of the discrete Lagrange-d'Alembert equations; unknown is the mean velocity `w` of the step."""
    kind, n, m, t, q0, u = type(s.t), s.n, s.m, s.t, s.q, s.u
    h, end = kind.sym("h"), kind.sym("q1", n)
    curve, own = _Curve(s, q0, end, h), [q0, end, t, h, s.par]
    step = ca.Function("step", own, [*curve.slopes(lagrangian), ca.densify(curve.constraint(constraint))])
    w, lam, v1, mu = (kind.sym(name, size) for name, size in (("w", n), ("lam", m), ("v1", n), ("mu", m)))
    q1, t1 = q0 + h * w, t + h
    made: list[SX] = step.call([q0, q1, t, h, s.par], isinstance(h, ca.MX))
    D1, D2, row = made
    middle, half = (q0 + q1) / 2, t + h / 2
    applied, damping = s.applied(middle, w, half, u), s.damping(middle, w, half)
    push = h / 2 * (applied - damping)
    G0, G1 = s.role("jacobian"), s.role("jacobian", q=q1, t=t1)
    begin = h * (G0.T @ lam) - (s.expression("mass") @ s.v + D1 + push)
    close = s.expression("mass", q=q1) @ v1 - D2 - push + h * (G1.T @ mu)
    size, zero = scales.full(s.rate_form(h).sizes["w"], n), kind(m, 1)
    blocks = [  # the mean velocity is a little ahead of v0; in the first step it is v0 itself
        Block("w", 0.5, w, begin, size, (0,) * n, start=s.v),
        Block("v1", 1.0, v1, close, size, (0,) * n, hint=w),
    ]
    if m:
        rows = row, G1 @ v1 + s.role("rate", q=q1, t=t1)
        blocks.append(Block("lam", 0.5, lam, rows[0], zero, (1,) * m, multiplier=True))
        blocks.append(Block("mu", 1.0, mu, rows[1], zero, (1,) * m, multiplier=True, hint=lam))
    return Step(
        t=t, h=h, u=u, par=s.par,
        state={"q": q0, "v": s.v}, solves=split_solves(blocks, h), next={"q": q1, "v": v1},
        lam=lam + mu, node=0.5,
        work={
            "supplied": h * s.supplied_power(middle, w, half, applied, lam + mu),
            "dissipated": h * ca.dot(w, damping),
        },
    )  # fmt: skip


@register(
    "variational",
    exact_levels=("position", "velocity"),
    symplectic=True,
    keeps="symplectic structure (free, holonomic), symmetry, both constraint levels",
    source="Hilden 2009, eqs. 3.1, 3.2; Marsden, West 2001",
)
class Variational(_Mechanical):
    """The integrator of a discrete Lagrangian `Ld(q0, q1, h)` and discrete constraints `gd(q0, q1, h)`.

    `lagrangian` and `constraint` are `"midpoint"`, `"trapezoidal"`, `"left"` (order 1), or functions of `q0`, `q1`, `h`, `t`
    and parameters by name; `Ld` approximates the action of the step, `gd` the rate of the nonholonomic constraints. Without
    constraints these are the discrete Euler-Lagrange equations. Holonomic constraints hold at the end of the step, velocities on
    all of them.
    """

    lagrangian: Rule = "trapezoidal"
    constraint: Rule = "midpoint"

    @property
    def symmetric(self) -> bool:
        """By the rules; of functions of the user's nothing is known."""
        return {self.lagrangian, self.constraint} <= {"midpoint", "trapezoidal"}

    @property
    def vectorial(self) -> bool:
        return not callable(self.lagrangian) and not callable(self.constraint)

    def __post_init__(self) -> None:
        for name in ("lagrangian", "constraint"):
            value = getattr(self, name)
            if not callable(value):
                one_of(name, value, NODES, extra=", or a function of q0, q1 and h")

    def step(self, system: Mechanical) -> Step:
        return variational_step(system, self.lagrangian, self.constraint)


@register(
    "cortes-martinez",
    exact_levels=("position", "velocity"),
    symplectic=True,
    keeps="symplectic structure (free, holonomic), symmetry, both constraint levels",
    source="Cortes, Martinez 2001; Hilden 2009, sec. 3.3.1",
)
class CortesMartinez(_Mechanical):
    """Cortes and Martinez (2001): midpoint Lagrangian and midpoint constraint (Hilden 2009, eq. 3.3)."""

    def step(self, system: Mechanical) -> Step:
        return variational_step(system, "midpoint", "midpoint")


@register(
    "mclachlan-perlmutter",
    index=2,
    exact_levels=("velocity",),
    keeps="velocity constraints of both kinds, symmetry",
    source="McLachlan, Perlmutter 2006; Hilden 2009, sec. 3.3.2",
)
class McLachlanPerlmutter(_Mechanical):
    """McLachlan and Perlmutter (2006), for any mass matrix: velocity constraints to round-off, reversible.

    Holonomic constraints are kept at velocity level.
    """

    lagrangian: str = "trapezoidal"

    @property
    def symmetric(self) -> bool:
        return self.lagrangian == "trapezoidal"

    def __post_init__(self) -> None:
        one_of("lagrangian", self.lagrangian, ("trapezoidal", "left"))

    def step(self, system: Mechanical) -> Step:
        s, t, n, m, kind = system, system.t, system.n, system.m, type(system.t)
        q0, v0, u, left = s.q, s.v, s.u, self.lagrangian == "left"
        h, a, lam = kind.sym("h"), kind.sym("a", n), kind.sym("lam", m)
        v1, half, middle, t1 = v0 + h * a, q0 + h / 2 * v0, t + h / 2, t + h
        q1, mean = half + h / 2 * v1, (v0 + v1) / 2
        applied = [s.applied(half, v, middle, u) for v in (v0, v1)]
        damping = [s.damping(half, v, middle) for v in (v0, v1)]
        own = [s.role("lagrangian_slope", q=half, v=v, t=middle) for v in (v0, v1)]
        force = [L_q + f - d for L_q, f, d in zip(own, applied, damping, strict=True)]

        def momentum(q: SX, v: SX) -> SX:
            before, after = (s.expression("mass", q=q + c * h * v) for c in (-0.5, 0.5))
            return before @ v if left else (before + after) @ v / 2

        change = s.expression("mass") @ a if s.constant_mass else (momentum(q1, v1) - momentum(q0, v0)) / h
        reaction = s.role("jacobian", q=half, t=middle).T @ lam
        row = change - (force[1] if left else (force[0] + force[1]) / 2) + reaction
        blocks = [Block("a", 0.5, a, row, scales.full(s.rate_form(h).sizes["v"], n), (0,) * n)]
        if m:
            end = s.role("jacobian", q=q1, t=t1) @ v1 + s.role("rate", q=q1, t=t1)
            blocks.append(Block("lam", 0.5, lam, end, kind(m, 1), (1,) * m, multiplier=True))
        return Step(
            t=t, h=h, u=u, par=s.par,
            state={"q": q0, "v": v0}, solves=split_solves(blocks, h), next={"q": q1, "v": v1},
            lam=lam, node=0.5,
            work={
                "supplied": h * s.supplied_power(half, mean, middle, (applied[0] + applied[1]) / 2, lam),
                "dissipated": h * ca.dot(mean, (damping[0] + damping[1]) / 2),
            },
        )  # fmt: skip
