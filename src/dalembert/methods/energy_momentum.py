"""Energy-momentum methods of discrete gradients, and the midpoint rule they are compared with.

With `w` the mean velocity of the step and `a` its mean acceleration, `w = v0 + h a / 2`, `v1 = v0 + h a`,

    q1 - q0 = h w
    M(q1) v1 - M(q0) v0 = h (D[v0^T M(q) v1 / 2 - V](q0, q1) - R w + f - D g(q0, q1)^T lam)
    g(q1) = 0

(Gonzalez 1999, eqs. 21, 33; Kinon, Morandin, Schulze 2025, eq. 44). The discrete gradient of `v0^T M v1 / 2` at frozen velocities
is what makes the kinetic energy of a state-dependent mass matrix exact without inverting it:
`d(v^T M v) / 2 = w . d(M v) - w . D[v0^T M v1 / 2] h`. For a general Hamiltonian

    q1 - q0 = h D_p H,   p1 - p0 = h (-D_q H - R w + f - D g^T lam),   g(q1) = 0,   w = D_p H.

Keeps: energy (or the power balance) and position constraints to round-off, by directionality; linear and angular
momentum where the discrete gradient is equivariant. The velocity constraint is not kept: `G v` alternates in sign with
an amplitude of O(h^2), and so does `lam` around its mean with O(h). A multiplier lives in the middle of its step; it is of
first order there, the mean of two neighbours of second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import casadi as ca

from dalembert.discrete.gradients import GRADIENTS, Ends, Field, Pullback, midpoint
from dalembert.errors import MethodError
from dalembert.methods.base import Method, register
from dalembert.methods.runge_kutta import Gauss
from dalembert.methods.step import SX, Solve, Step, memory, split, two_sum
from dalembert.systems import scales
from dalembert.systems.constrained import Constrained


class _OneStep(Method):
    """The residual that all of these share; `_gradient` and `_constraint` are what differs."""

    compensated: bool = False

    def _gradient(self) -> Pullback:
        raise TypeError(f"{type(self).__name__} has no discrete gradient")

    def _constraint(self, g: Field, ends: Ends, w: Any) -> Any:
        """The constraint at the end of the step."""
        return g.difference(ends).y1

    def step(self, system: Any) -> Step:
        return self._mechanical(system) if system.kind == "mechanical" else self._hamiltonian(system)

    def _ends(self, q: Any, change: Any, t: Any, h: Any) -> tuple[Ends, dict[str, Any], dict[str, Any]]:
        if not self.compensated:
            return Ends(q, q + change, t, t + h, change=change), {}, {}
        carry = SX.sym("carry", q.numel())
        q1, rest = two_sum(q, change + carry)
        return Ends(q, q1, t, t + h, (carry, rest), change), {"carry": carry}, {"carry": rest}

    def _mechanical(self, s: Any) -> Step:
        n, m, q, v, t, h = s.n, s.m, s.q, s.v, s.t, SX.sym("h")
        x, last, before = memory(n + m)
        a, lam = split(x, n, m)
        w, v1 = v + h / 2 * a, v + h * a
        ends, carried, carries = self._ends(q, h * w, t, h)
        u, D = SX.sym("u", s.nu), self._gradient()

        f = s.applied(ends.xm, w, ends.tm, u)
        damping = s.damping(ends.xm, w, ends.tm)
        force, rate = D(Field(-s.expression("potential"), q, t, (s.par,)), ends, SX(1.0))
        supplied = h * (ca.dot(w, f) - rate)
        force += f - damping
        reaction, drive, rows = self._reaction(s, ends, lam, w)
        force -= reaction
        supplied += h * drive
        momentum = self._momentum(s, ends, v, v1, w, h, D) - force

        potential = ca.gradient(s.expression("potential"), q)
        scale = scales.constant(scales.acceleration(s, s.applied(q, v, t, u) - potential, h), n)
        solve = Solve(x, ca.vertcat(momentum, rows), 2 * last - before, scale, last, before, (0,) * n + (1,) * m)
        solves, v_next = self._velocity(s, ends, w, v, v1, h, solve)
        return Step(
            t=t, h=h, u=u, par=s.par,
            state={"q": q, "v": v, **carried},
            solves=solves,
            next={"q": ends.x1, "v": v_next, **carries},
            lam=lam, node=0.5,
            work={"supplied": supplied, "dissipated": h * ca.dot(w, damping)},
            start=dict.fromkeys(carried, "zero"),
        )  # fmt: skip

    def _reaction(self, s: Any, ends: Ends, lam: Any, w: Any) -> tuple[Any, Any, Any]:
        """`D g^T lam`, the power of moving constraints, and the constraint rows."""
        if not s.m:
            return SX(s.n, 1), SX(0.0), SX(0, 1)
        g = Field(s.expression("holonomic"), s.q, s.t, (s.par,))
        return *self._gradient()(g, ends, lam), self._constraint(g, ends, w)

    def _momentum(self, s: Any, ends: Ends, v0: Any, v1: Any, w: Any, h: Any, D: Pullback) -> Any:
        """`(p1 - p0) / h` less the force of a state-dependent mass matrix."""
        if s.constant_mass:
            return s.expression("mass") @ ((v1 - v0) / h)
        va, vb = SX.sym("va", s.n), SX.sym("vb", s.n)
        M = s.expression("mass")
        kinetic = Field(va.T @ M @ vb / 2, s.q, s.t, (va, vb, s.par), (v0, v1, s.par))
        change = s.expression("mass", q=ends.x1) @ v1 - M @ v0
        return change / h - D(kinetic, ends, SX(1.0))[0]

    def _velocity(self, s: Any, ends: Ends, w: Any, v0: Any, v1: Any, h: Any, solve: Solve) -> tuple[tuple[Solve, ...], Any]:
        return (solve,), v1

    def _hamiltonian(self, s: Any) -> Step:
        n, m, q, p, t, h = s.n, s.m, s.q, s.p, s.t, SX.sym("h")
        x, last, before = memory(2 * n + m)
        w, a, lam = split(x, n, n, m)
        ends, carried, carries = self._ends(q, h * w, t, h)
        p1 = p + h * a
        u, D = SX.sym("u", s.nu), self._gradient()

        both = Ends(
            ca.vertcat(q, p), ca.vertcat(ends.x1, p1), t, t + h,
            ends.rest and tuple(ca.vertcat(r, SX.zeros(n)) for r in ends.rest),  # type: ignore[arg-type]
            ca.vertcat(h * w, h * a),
        )  # fmt: skip
        H = Field(s.expression("hamiltonian"), ca.vertcat(s.q, s.p), t, (s.par,))
        DH, rate = D(H, both, SX(1.0))
        pm = p + h / 2 * a
        f, damping = s.applied(ends.xm, w, ends.tm, u, pm), s.damping(ends.xm, w, ends.tm, pm)
        force, supplied = f - damping - DH[:n], h * (ca.dot(w, f) + rate)
        reaction, drive, rows = self._reaction(s, ends, lam, w)
        force -= reaction
        supplied += h * drive

        scale = ca.vertcat(*(scales.constant(x, n) for x in scales.velocity_and_rate(s, h)[:2]))
        solve = Solve(x, ca.vertcat(w - DH[n:], a - force, rows), 2 * last - before, scale, last, before, (0,) * 2 * n + (1,) * m)
        return Step(
            t=t, h=h, u=u, par=s.par,
            state={"q": q, "p": p, **carried},
            solves=(solve,),
            next={"q": ends.x1, "p": p1, **carries},
            lam=lam, node=0.5,
            work={"supplied": supplied, "dissipated": h * ca.dot(w, damping)},
            start=dict.fromkeys(carried, "zero"),
        )  # fmt: skip


@register
@dataclass(frozen=True)
class EnergyMomentum(_OneStep):
    """Energy-momentum method for holonomic constraints (Gonzalez 1999), with a choice of discrete gradient.

    gradient
        `"equivariant"` (the default) keeps momentum maps too where potential and constraints are functions of
        invariants such as squared distances; `"gonzalez"`, `"mean-value"`, `"itoh-abe"` (order one) keep
        energy and constraints.
    compensated
        Carry along what rounding takes from the positions: a system that travels far from the origin then keeps its
        invariants as well as one that stays.
    """

    gradient: str = "equivariant"
    compensated: bool = True

    alternates: ClassVar[bool] = True
    name: ClassVar[str] = "energy-momentum"
    order: ClassVar[tuple[int, int, int]] = (2, 2, 1)
    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian")
    keeps: ClassVar[str] = "energy or power balance, position constraints, momentum maps"
    source: ClassVar[str] = "Gonzalez 1999, eqs. 21, 33; Kinon et al. 2025, eq. 44"

    def __post_init__(self) -> None:
        if not isinstance(self.gradient, str) or self.gradient not in GRADIENTS:
            raise MethodError(f"gradient must be one of {', '.join(GRADIENTS)}, not {self.gradient!r}")

    def _gradient(self) -> Pullback:
        return GRADIENTS[self.gradient]


@register
@dataclass(frozen=True)
class EnergyMomentumGGL(_OneStep):
    """Energy and both constraint levels together: discrete gradients of the Hamiltonian of Gear, Gupta and Leimkuhler.

    With `H + lam . g + gam . gv`, where `gv = G v + g_t` is the velocity constraint, and `p = M v`,

        (q1 - q0) / h = D_p (H + gam . gv),    (p1 - p0) / h = -D_q (H + lam . g + gam . gv) - R w + f,    w = (q1 - q0) / h
        g(q1) = 0,    gv(q1, v1) = 0.

    The discrete gradient is that of the whole; since `g` and `gv` vanish at both ends, the energy changes by the work of `f` and
    `R w` alone: to round-off, with both levels at round-off too.
    """

    gradient: str = "equivariant"

    name: ClassVar[str] = "energy-momentum-ggl"
    order: ClassVar[tuple[int, int, int]] = (2, 2, 2)
    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian")
    keeps: ClassVar[str] = "energy or power balance, position and velocity constraints, momentum maps"
    source: ClassVar[str] = "Gonzalez 1999; Gear, Gupta, Leimkuhler 1985; Kinon, Morandin, Schulze 2025, remark 12"
    exact_levels: ClassVar[tuple[str, ...]] = ("position", "velocity")

    def __post_init__(self) -> None:
        if not isinstance(self.gradient, str) or self.gradient not in GRADIENTS:
            raise MethodError(f"gradient must be one of {', '.join(GRADIENTS)}, not {self.gradient!r}")

    def _gradient(self) -> Pullback:
        return GRADIENTS[self.gradient]

    def _by_momenta(self, s: Any) -> Step:
        """For `M(q)`: the step in `(q, p)` with `p0 = M(q0) v0`, then `M(q1) v1 = p1`."""
        inner = self.step(s.to_hamiltonian())
        p0 = s.expression("mass") @ s.v

        def of_v(e: Any) -> Any:
            return ca.substitute(SX(e), s.p, ca.densify(p0))

        first = inner.solves[0]
        first = replace(first, residual=of_v(first.residual), scale=of_v(first.scale), start=of_v(first.start))
        q1, p1 = of_v(inner.next["q"]), of_v(inner.next["p"])
        v1, last, before = memory(s.n, "v1")
        size = scales.constant(scales.typical(s.v) + scales.typical(p1 - p0), s.n)
        end = Solve(v1, s.expression("mass", q=q1) @ v1 - p1, s.v, size, last, before, (0,) * s.n)
        work = {k: of_v(e) for k, e in inner.work.items()}
        return replace(inner, state={"q": s.q, "v": s.v}, solves=(first, end), next={"q": q1, "v": v1}, work=work)

    def step(self, system: Any) -> Step:
        if system.kind == "mechanical" and not system.constant_mass:
            return self._by_momenta(system)
        s, D, h = system, self._gradient(), SX.sym("h")
        n, m, q, t = s.n, s.m, s.q, s.t
        lagrangian = s.kind == "mechanical"
        second = s.v if lagrangian else s.p
        x, last, before = memory(2 * n + 2 * m)
        w, a, lam, gam = split(x, n, n, m, m)
        both, change = ca.vertcat(q, second), ca.vertcat(h * w, h * a)
        ends = Ends(both, both + change, t, t + h, change=change)
        H = s.role("kinetic") + s.expression("potential") if lagrangian else s.expression("hamiltonian")
        DH, rate = D(Field(H, both, t, (s.par,)), ends, SX(1.0))
        u, position = SX.sym("u", s.nu), Ends(q, q + h * w, t, t + h, change=h * w)
        rows: list[Any] = []
        slip, push = SX(n, 1), SX(n, 1)
        if m:
            g = Field(s.expression("holonomic"), q, t, (s.par,))
            velocity = second if lagrangian else s.role("velocity")
            gv = Field(s.role("jacobian") @ velocity + s.role("rate"), both, t, (s.par,))
            reaction, drive = D(g, position, lam)
            extra, more = D(gv, ends, gam)
            push, slip = reaction + extra[:n], extra[n:]
            rate += drive + more
            rows = [gv.difference(ends).y1, g.difference(position).y1]  # lam acts on velocities, gam on positions
        force = s.applied(position.xm, w, position.tm, u, second + h / 2 * a)
        damping = s.damping(position.xm, w, position.tm, second + h / 2 * a)
        total = force - damping - DH[:n] - push
        if lagrangian:  # d/dp = M^-1 d/dv, and p' = M v'
            M = s.expression("mass")
            own = [M @ w - DH[n:] - slip, M @ a - total]
        else:
            own = [w - DH[n:] - slip, a - total]
        if lagrangian:
            size = scales.acceleration(s, s.applied(q, s.v, t, u) - ca.gradient(s.expression("potential"), q), h)
            scale = ca.vertcat(scales.constant(scales.velocity(s, SX(n, 1), h) + h * size, n), scales.constant(size, n))
        else:
            scale = ca.vertcat(*(scales.constant(y, n) for y in scales.velocity_and_rate(s, h)[:2]))
        start = ca.vertcat(s.v if lagrangian else s.role("velocity"), SX(n + 2 * m, 1))
        solve = Solve(
            x, ca.vertcat(*own, *rows), 2 * last - before, scale, last, before, (0,) * 2 * n + (1,) * 2 * m, start=start
        )
        return Step(
            t=t, h=h, u=u, par=s.par,
            state={"q": q, s.momenta: second}, solves=(solve,), next={"q": q + h * w, s.momenta: second + h * a},
            lam=lam, node=0.5,
            work={"supplied": h * (ca.dot(w, force) + rate), "dissipated": h * ca.dot(w, damping)},
        )  # fmt: skip


@register
@dataclass(frozen=True)
class Midpoint(_OneStep):
    """The midpoint rule on the index-2 form, as Kinon et al. 2025 compare it; on port-Hamiltonian systems as they are.

    Every function at the middle of the step, the constraint as `G(qm) w + g_t = 0`: quadratic constraints are kept, others drift;
    energy is kept only where it is quadratic.
    """

    alternates: ClassVar[bool] = True
    name: ClassVar[str] = "midpoint"
    order: ClassVar[tuple[int, int, int]] = (2, 2, 1)
    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian", "port-hamiltonian")
    keeps: ClassVar[str] = "quadratic constraints, quadratic invariants of free systems"
    source: ClassVar[str] = "Kinon, Morandin, Schulze 2025, sec. 6.3"

    def _gradient(self) -> Pullback:
        return midpoint

    def step(self, system: Any) -> Step:
        if isinstance(system, Constrained):
            return super().step(system)
        return Gauss(1).step(system)

    def _constraint(self, g: Field, ends: Ends, w: Any) -> Any:
        derivatives = [ca.jacobian(g.expression, g.x), ca.jacobian(g.expression, g.t)]
        jacobian, rate = ca.Function("G", [g.x, g.t, *g.symbols], derivatives)(ends.xm, ends.tm, *g.others)
        return jacobian @ w + rate

    def _momentum(self, s: Any, ends: Ends, v0: Any, v1: Any, w: Any, h: Any, D: Pullback) -> Any:
        """For `M(q)` the rule is that of `(q, p)`: `p` has the mean `M(qm) w`."""
        if s.constant_mass:
            return super()._momentum(s, ends, v0, v1, w, h, D)
        M = s.expression("mass", q=ends.xm)
        frozen = SX.sym("w", s.n)
        kinetic = Field(frozen.T @ s.expression("mass") @ frozen / 2, s.q, s.t, (frozen, s.par), (w, s.par))
        return 2 * (M @ w - s.expression("mass") @ v0) / h - kinetic.grad(ends.xm, ends.tm, SX(1.0))

    def _velocity(self, s: Any, ends: Ends, w: Any, v0: Any, v1: Any, h: Any, solve: Solve) -> tuple[tuple[Solve, ...], Any]:
        """For `M(q)`, `v1` follows from `M(q1) v1 = p1 = 2 M(qm) w - p0`."""
        if s.constant_mass:
            return (solve,), v1
        v_end, last, before = memory(s.n, "v_end")
        p1 = 2 * s.expression("mass", q=ends.xm) @ w - s.expression("mass") @ v0
        row = s.expression("mass", q=ends.x1) @ v_end - p1
        second = Solve(v_end, row, v1, scales.constant(scales.typical(v0), s.n), last, before, (0,) * s.n)
        return (solve, second), v_end
