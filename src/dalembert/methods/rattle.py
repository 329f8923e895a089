"""RATTLE and SHAKE: the Lobatto IIIA-IIIB pair of two stages for holonomic constraints.

With `P` the momentum in the middle of the step (Andersen 1983; general Hamiltonians: Jay 1996, Reich 1996; Symank 2025, sec. 6.2)

    P  = p0 - h/2 (H_q(q0, P) + G(q0)^T lam - F(q0, P))
    q1 = q0 + h/2 (H_p(q0, P) + H_p(q1, P)),          g(q1) = 0
    p1 = P - h/2 (H_q(q1, P) + G(q1)^T mu - F(q1, P)), G(q1) H_p(q1, p1) = 0.

The first three lines are one solve for `lam` (and for what is implicit in `P`), the last one a second solve for `mu`. For a
mechanical system with a constant mass matrix and no forces of velocity, `lam` alone is unknown. For `M(q)` the unknowns are
velocities, `P = M(q0) V0 = M(q1) V1`, and `-H_q = (v^T M v / 2 - V)_q`: the mass matrix is not inverted.

The multipliers `lam` act at the beginning of the step and `mu` at its end; each is off by O(h), but their mean is the
multiplier in the middle of the step to second order, and that is what is stored.

Keeps: both levels of the constraints to round-off; symplectic and symmetric where no forces act, so that the energy does
not drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca

from dalembert.errors import MethodError
from dalembert.methods import scales
from dalembert.methods.base import Method, register
from dalembert.methods.step import SX, Solve, Step, memory, split


def _lagrangian_force(s: Any) -> Any:
    """`(v^T M(q) v / 2 - V(q, t))_q` as a function of `(q, v, t, par)`."""
    L = -s.expression("potential")
    if not s.constant_mass:
        L += s.role("kinetic")
    return ca.Function("L_q", [s.q, s.v, s.t, s.par], [ca.densify(ca.gradient(L, s.q))])


@register
@dataclass(frozen=True)
class Rattle(Method):
    """RATTLE: symplectic, both constraint levels at round-off, for any Hamiltonian and any mass matrix."""

    name: ClassVar[str] = "rattle"
    order: ClassVar[tuple[int, int, int]] = (2, 2, 2)
    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian")
    keeps: ClassVar[str] = "symplectic structure, position and velocity constraints"
    source: ClassVar[str] = "Andersen 1983; Jay 1996; Symank 2025, sec. 6.2"
    symplectic: ClassVar[bool] = True
    exact_levels: ClassVar[tuple[str, ...]] = ("position", "velocity")

    def step(self, system: Any) -> Step:
        if system.kind == "hamiltonian":
            return self._hamiltonian(system)
        inverse = system.inverse_mass()
        if inverse is None or system.velocity_forces:
            return self._implicit(system)
        return self._explicit(system, inverse)

    def _explicit(self, s: Any, Minv: Any) -> Step:
        """Constant mass, no forces of velocity: `lam` and `mu` are the only unknowns."""
        m, q, v, t, h = s.m, s.q, s.v, s.t, SX.sym("h")
        u = SX.sym("u", s.nu, 2)
        lam, last, before = memory(m, "lam")
        mu, mu_last, mu_before = memory(m, "mu")
        L_q = _lagrangian_force(s)
        f0 = s.applied(q, v, t, u[:, 0])
        V = v + h / 2 * (Minv @ (L_q(q, v, t, s.par) + f0))
        if m:
            V -= h / 2 * (Minv @ (s.role("jacobian").T @ lam))
        q1, t1 = q + h * V, t + h
        f1 = s.applied(q1, V, t1, u[:, 1])
        v1 = V + h / 2 * (Minv @ (L_q(q1, V, t1, s.par) + f1))
        solves: tuple[Solve, ...] = ()
        if m:
            G1 = s.role("jacobian", q=q1, t=t1)
            v1 -= h / 2 * (Minv @ (G1.T @ mu))
            g1 = s.expression("holonomic", q=q1, t=t1)
            free = Minv @ (L_q(q, v, t, s.par) + f0)
            position, velocity = scales.position_level(s, v, free, h), scales.velocity_level(s, v, free, h)
            drift = G1 @ v1 + s.role("rate", q=q1, t=t1)
            solves = (
                Solve(lam, g1, 2 * last - before, position, last, before, (0,) * m, "residual"),
                Solve(mu, drift, lam, velocity, mu_last, mu_before, (0,) * m, "residual"),
            )
        return _step(s, u, h, solves, q1, v1, lam, mu, (V, V), (f0, f1))

    def _implicit(self, s: Any) -> Step:
        """`M(q)` or forces of velocity: the velocities `V0`, `V1` with `M(q0) V0 = M(q1) V1` are unknown too."""
        n, m, q, v, t, h = s.n, s.m, s.q, s.v, s.t, SX.sym("h")
        u = SX.sym("u", s.nu, 2)
        k = n if s.constant_mass else 2 * n
        x, last, before = memory(k + m)
        rates = split(x, *([n] * (k // n)), m)
        a0, a1, lam = rates[0], rates[-2], rates[-1]
        V0, V1 = v + h / 2 * a0, v + h / 2 * a1
        q1, t1 = q + h / 2 * (V0 + V1), t + h
        M0, M1 = s.expression("mass"), s.expression("mass", q=q1)
        L_q = _lagrangian_force(s)
        f0, f1 = s.applied(q, V0, t, u[:, 0]), s.applied(q1, V1, t1, u[:, 1])
        push0 = L_q(q, V0, t, s.par) + f0 - s.damping(q, V0, t)
        push1 = L_q(q1, V1, t1, s.par) + f1 - s.damping(q1, V1, t1)
        rows = [M0 @ a0 - push0]
        if not s.constant_mass:
            rows.append((M1 @ V1 - M0 @ V0) * 2 / h)
        size = scales.acceleration(s, L_q(q, v, t, s.par) + s.applied(q, v, t, u[:, 0]), h)
        if m:
            rows[0] += s.role("jacobian").T @ lam
            rows.append(s.expression("holonomic", q=q1, t=t1))
        first = Solve(x, ca.vertcat(*rows), 2 * last - before, scales.constant(size, k), last, before, (0,) * k + (1,) * m)
        y, y_last, y_before = memory(n + m, "y")
        b1, mu = split(y, n, m)
        v1 = V1 + h / 2 * b1
        rows = [M1 @ b1 - push1]
        if m:
            G1 = s.role("jacobian", q=q1, t=t1)
            rows[0] += G1.T @ mu
            rows.append(G1 @ v1 + s.role("rate", q=q1, t=t1))
        guess = ca.vertcat(a1, lam)
        second = Solve(y, ca.vertcat(*rows), guess, scales.constant(size, n), y_last, y_before, (0,) * n + (1,) * m)
        return _step(s, u, h, (first, second), q1, v1, lam, mu, (V0, V1), (f0, f1))

    def _hamiltonian(self, s: Any) -> Step:
        """Any `H(q, p)`: unknown are `P`, the mean velocity `w` and `lam`; then `mu`."""
        n, m, q, p, t, h = s.n, s.m, s.q, s.p, s.t, SX.sym("h")
        u = SX.sym("u", s.nu, 2)
        x, last, before = memory(2 * n + m)
        w, a, lam = split(x, n, n, m)
        P, q1, t1 = p + h / 2 * a, q + h * w, t + h
        H = s.expression("hamiltonian")
        H_q = ca.Function("H_q", [s.q, s.p, s.t, s.par], [ca.densify(ca.gradient(H, s.q))])
        H_p = ca.Function("H_p", [s.q, s.p, s.t, s.par], [ca.densify(ca.gradient(H, s.p))])
        V0, V1 = H_p(q, P, t, s.par), H_p(q1, P, t1, s.par)
        f0, f1 = s.applied(q, V0, t, u[:, 0], P), s.applied(q1, V1, t1, u[:, 1], P)
        push0 = f0 - s.damping(q, V0, t, P) - H_q(q, P, t, s.par)
        push1 = f1 - s.damping(q1, V1, t1, P) - H_q(q1, P, t1, s.par)
        rows = [w - (V0 + V1) / 2, a - push0]
        p1 = P + h / 2 * push1
        speed, rate, push, light = scales.velocity_and_rate(s, h)
        G = s.role("jacobian") if m else SX(0, n)
        solves: tuple[Solve, ...] = ()
        mu = SX(0, 1)
        if m:
            rows[1] += G.T @ lam
            rows.append(s.expression("holonomic", q=q1, t=t1))
            mu, mu_last, mu_before = memory(m, "mu")
            G1 = s.role("jacobian", q=q1, t=t1)
            p1 -= h / 2 * (G1.T @ mu)
            row = G1 @ H_p(q1, p1, t1, s.par) + s.role("rate", q=q1, t=t1)
            velocity = scales.velocity_level(s, s.role("velocity"), push * light, h)
            solves = (Solve(mu, row, lam, velocity, mu_last, mu_before, (0,) * m, "residual"),)
        first = Solve(
            x, ca.vertcat(*rows), 2 * last - before, ca.vertcat(scales.constant(speed, n), scales.constant(rate, n)),
            last, before, (0,) * 2 * n + (1,) * m,
        )  # fmt: skip
        return _step(s, u, h, (first, *solves), q1, p1, lam, mu, (V0, V1), (f0, f1), P)


def _step(
    s: Any, u: Any, h: Any, solves: tuple[Solve, ...], q1: Any, next: Any, lam: Any, mu: Any, V: Any, f: Any, P: Any = None
) -> Step:
    """The step with its work by the trapezoidal rule: forces at both ends, moving constraints, energies of time."""
    ends = ((s.q, s.t, V[0], f[0], lam), (q1, s.t + h, V[1], f[1], mu))
    supplied = h / 2 * sum(s.supplied_power(q, v, t, force, multiplier, P) for q, t, v, force, multiplier in ends)
    dissipated = h / 2 * sum(ca.dot(v, s.damping(q, v, t, P)) for q, t, v, *_ in ends)
    return Step(
        t=s.t, h=h, u=u, par=s.par,
        state={"q": s.q, s.momenta: getattr(s, s.momenta)},
        solves=solves,
        next={"q": q1, s.momenta: next},
        lam=(lam + mu) / 2, node=0.5,
        work={"supplied": supplied, "dissipated": dissipated},
        input_nodes=(0.0, 1.0),
    )  # fmt: skip


@register
@dataclass(frozen=True)
class Shake(Method):
    """SHAKE (Ryckaert, Ciccotti, Berendsen 1977): Verlet's method with the position constraints.

        q2 - 2 q1 + q0 = h^2 M^-1 (f(q1) - G(q1)^T lam1),   g(q2) = 0,

    run as a one-step method in `(q, v)`. `lam` of a step lives at its beginning. The velocity at the end of a
    step, `v1 = (q1 - q0) / h + h/2 M^-1 (f(q1) - G(q1)^T lam)`, uses the multiplier known so far, so that it is of
    second order but off the velocity constraint; the positions are those of the two-step form, and those of RATTLE.

    Keeps: position constraints to round-off; its positions are those of a symplectic method.
    """

    name: ClassVar[str] = "shake"
    order: ClassVar[tuple[int, int, int]] = (2, 2, 2)
    treats: ClassVar[tuple[str, ...]] = ("mechanical",)
    keeps: ClassVar[str] = "position constraints; energy without drift"
    source: ClassVar[str] = "Ryckaert, Ciccotti, Berendsen 1977; Symank 2025, sec. 6.2.1"
    symmetric: ClassVar[bool] = False

    def check(self, system: Any) -> None:
        super().check(system)
        if system.inverse_mass() is None:
            raise MethodError("shake needs a constant mass matrix of small blocks; use rattle, which takes any M(q)")
        if system.velocity_forces:
            raise MethodError("shake cannot treat forces that depend on the velocity; use rattle or energy-momentum")

    def step(self, system: Any) -> Step:
        s, Minv = system, system.inverse_mass()
        m, q, v, t, h = s.m, s.q, s.v, s.t, SX.sym("h")
        u = SX.sym("u", s.nu, 2)
        lam, last, before = memory(m, "lam")
        used = SX.sym("lam_used", m)  # the multiplier in the second half of the last step
        L_q = _lagrangian_force(s)
        f0 = s.applied(q, v, t, u[:, 0])
        V = v + h / 2 * (Minv @ (L_q(q, v, t, s.par) + f0))
        if m:
            V -= h / 2 * (Minv @ (s.role("jacobian").T @ (2 * lam - used)))
        q1, t1 = q + h * V, t + h
        f1 = s.applied(q1, V, t1, u[:, 1])
        v1 = V + h / 2 * (Minv @ (L_q(q1, V, t1, s.par) + f1))
        solves: tuple[Solve, ...] = ()
        if m:
            v1 -= h / 2 * (Minv @ (s.role("jacobian", q=q1, t=t1).T @ lam))
            g1 = s.expression("holonomic", q=q1, t=t1)
            free = Minv @ (L_q(q, v, t, s.par) + f0)
            solves = (
                Solve(lam, g1, 2 * last - before, scales.position_level(s, v, free, h), last, before, (0,) * m, "residual"),
            )
        return Step(
            t=t, h=h, u=u, par=s.par,
            state={"q": q, "v": v, "lam": used},
            solves=solves,
            next={"q": q1, "v": v1, "lam": lam},
            lam=lam, node=0.0,
            # the impulse of the constraint at the beginning of the step is that of both half kicks there
            work={
                "supplied": h / 2 * (s.supplied_power(q, V, t, f0, 2 * lam - used) + s.supplied_power(q1, V, t1, f1, lam)),
                "dissipated": SX(0.0),
            },
            input_nodes=(0.0, 1.0),
            start={"lam": "lam"},
        )  # fmt: skip
