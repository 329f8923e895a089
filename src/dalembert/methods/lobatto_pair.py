"""The Lobatto IIIA-IIIB pair for holonomic constraints, any number of stages (Jay 1996; Symank 2025, sec. 6.2).

    Q_i = q0 + h sum_j a_ij H_p(Q_j, P_j),   P_i = p0 - h sum_j ab_ij (H_q(Q_j, P_j) + G(Q_j)^T Lam_j),   g(Q_i) = 0

with `a` Lobatto IIIA and `ab` Lobatto IIIB. The first stage is the beginning of the step and the last one its end; IIIB
does not use the rate of the last stage, so that `Lam_s` is free: it is chosen in a second solve such that
`G(q1) H_p(q1, p1) = 0`. For a mechanical system `P_i = M(Q_i) V_i`, the velocities `V_i` are the unknowns, and `M` is not
inverted. With two stages this is RATTLE.

Nonholonomic constraints have no position level. They take part with moments of their residual, and at the end of the step,

    sum_j a_ij (A(Q_j) V_j + a(Q_j)) = 0,   i = 2 .. s,      A(q1) v1 + a(q1) = 0,

which is Jay's SPARK method with Lobatto IIIA for the positions and IIIB for the momenta (Hilden 2009, eqs. 2.20, 2.25);
together with holonomic ones it is its mixed form. There it is called `spark-s`.

Keeps: symplectic structure and symmetry where no forces act; position and velocity constraints to round-off. Order 2 s - 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.methods import scales
from dalembert.methods.base import register
from dalembert.methods.stages import Staged, velocity_of
from dalembert.methods.step import SX, Solve, Step, memory, split
from dalembert.methods.tableaus import Tableau, lagrange, tableau


def _constraints(s: Any, A: Tableau, Q: list[Any], V: list[Any], times: list[Any], h: Any) -> list[Any]:
    """At each stage but the first: `g(Q_i)` of the holonomic constraints, moments of the nonholonomic ones."""
    k, rows = len(Q), []
    moving = [s.expression("nonholonomic", q=Q[j], v=V[j], t=times[j]) for j in range(k)] if s.mn else []
    for i in range(1, k):
        if s.mh:
            rows.append(s.expression("holonomic", q=Q[i], t=times[i]))
        if s.mn:
            rows.append(h * sum((float(a) * r for a, r in zip(A.A[i], moving, strict=True) if a), SX(s.mn, 1)))
    return rows


@register
@dataclass(frozen=True)
class LobattoPair(Staged):
    """Jay's symplectic method for index 3: both constraint levels, any Hamiltonian, any mass matrix."""

    stages: int = 3

    fewest: ClassVar[int] = 2
    name: ClassVar[str] = "lobatto-pair"
    keeps: ClassVar[str] = "symplectic structure, position and velocity constraints, symmetry"
    source: ClassVar[str] = "Jay 1996; Symank 2025, sec. 6.2"
    symplectic: ClassVar[bool] = True
    any_mass: ClassVar[bool] = False  # Lobatto IIIB is singular: without mass its rows have no solution
    exact_levels: ClassVar[tuple[str, ...]] = ("position", "velocity")

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (2 * self.stages - 2,) * 3

    def step(self, system: Any) -> Step:
        if system.kind == "mechanical" and not system.velocity_forces:
            inverse = system.inverse_mass()
            if inverse is not None:
                return self._explicit(system, inverse)
        return self._implicit(system)

    def _explicit(self, s: Any, Minv: Any) -> Step:
        """Constant mass, no forces of velocity: velocities follow, the positions of the stages and `Lam_i` are unknown."""
        k, n, m, h, t = int(self.stages), s.n, s.m, SX.sym("h"), s.t
        A, B = tableau("lobatto-iiia", k), tableau("lobatto-iiib", k)
        u = SX.sym("u", s.nu, k)
        x, last, before = memory((n + m) * (k - 1))
        parts = split(x, *([n] * (k - 1)), *([m] * (k - 1)))
        rates, lam = parts[: k - 1], parts[k - 1 :]
        mu, mu_last, mu_before = memory(m, "mu")
        multipliers = [*lam, mu]
        Q = [s.q, *(s.q + h * r for r in rates)]  # the rate of a stage is its mean velocity, (Q_i - q0) / h
        times = [t + float(c) * h for c in A.c]
        own = self._force(s)
        applied = [s.applied(Q[i], s.v, times[i], u[:, i]) for i in range(k)]

        def acceleration(i: int) -> Any:
            force = own(Q[i], s.v, times[i], s.par) + applied[i]
            return Minv @ (force - s.role("jacobian", q=Q[i], t=times[i]).T @ multipliers[i] if m else force)

        a = [acceleration(i) for i in range(k)]
        V = [s.v + h * sum((float(b) * a[j] for j, b in enumerate(B.A[i]) if b), SX(n, 1)) for i in range(k)]
        rows = [rates[i - 1] - sum((float(c) * V[j] for j, c in enumerate(A.A[i]) if c), SX(n, 1)) for i in range(1, k)]
        constraints = _constraints(s, A, Q, V, times, h)
        q1, t1, v1 = Q[-1], t + h, s.v + h * sum((float(b) * r for b, r in zip(A.b, a, strict=True)), SX(n, 1))

        free = Minv @ (own(s.q, s.v, t, s.par) + applied[0])
        size = scales.velocity(s, free, h)
        ahead = lagrange(A.c, 1 + A.c)
        shift = (ahead - ahead[0])[1:, 1:]
        guess = [ca.vec(ca.reshape(last[: n * (k - 1)], n, k - 1) @ shift.T)]
        if m:
            guess.append(ca.vec(ca.reshape(last[n * (k - 1) :], m, k - 1) @ lagrange(A.c[:-1], 1 + A.c[:-1]).T))
        levels = (0,) * (n * (k - 1)) + (1,) * (m * (k - 1))
        scale = scales.constant(size, n * (k - 1))
        solves = [Solve(x, ca.vertcat(*rows, *constraints), ca.vertcat(*guess), scale, last, before, levels)]
        if m:
            drift = s.role("jacobian", q=q1, t=t1) @ v1 + s.role("rate", q=q1, t=t1)
            velocity = scales.velocity_level(s, s.v, free, h)
            solves.append(Solve(mu, drift, lam[-1], velocity, mu_last, mu_before, (0,) * m, "residual"))
        supplied = SX(0.0)
        for i in range(k):
            supplied += h * float(A.b[i]) * s.supplied_power(Q[i], V[i], times[i], applied[i], multipliers[i])
        return Step(
            t=t, h=h, u=u, par=s.par,
            state={"q": s.q, "v": s.v},
            solves=tuple(solves),
            next={"q": q1, "v": v1},
            lam=SX(0, 1), node=1.0,
            work={"supplied": supplied, "dissipated": SX(0.0)},
            input_nodes=tuple(float(c) for c in A.c),
        )  # fmt: skip

    def _implicit(self, system: Any) -> Step:
        """Any mass matrix, forces of velocity, any Hamiltonian: velocities (and momenta) of the stages are unknown."""
        s, k = system, int(self.stages)
        A, B = tableau("lobatto-iiia", k), tableau("lobatto-iiib", k)
        n, m, h, t = s.n, s.m, SX.sym("h"), s.t
        mechanical = s.kind == "mechanical"
        u = SX.sym("u", s.nu, k)
        # unknown of a stage: (V_i - v0) / h, or for a Hamiltonian H_p(Q_i, P_i) and P_i by its increment
        blocks = 1 if mechanical else 2
        x, last, before = memory(blocks * n * k + m * (k - 1))
        parts = split(x, *([n] * blocks * k), *([m] * (k - 1)))
        lam = parts[blocks * k :]
        V = [s.v + h * parts[i] if mechanical else parts[i] for i in range(k)]
        P = [None] * k if mechanical else [s.p + h * parts[k + i] for i in range(k)]
        times = [t + float(c) * h for c in A.c]
        Q = [s.q + h * sum((float(a) * v for a, v in zip(A.A[i], V, strict=True) if a), SX(n, 1)) for i in range(k)]
        own = self._force(s)

        def push(i: int, multiplier: Any) -> tuple[Any, Any]:
            """The rate of the momentum at a stage, and the applied force alone."""
            applied = s.applied(Q[i], V[i], times[i], u[:, i], P[i])
            y = V[i] if mechanical else P[i]
            force = own(Q[i], y, times[i], s.par) + applied - s.damping(Q[i], V[i], times[i], P[i])
            return (force - s.role("jacobian", q=Q[i], t=times[i]).T @ multiplier if m else force), applied

        R = [push(i, lam[i] if m else None)[0] for i in range(k - 1)]
        p0 = s.expression("mass") @ s.v if mechanical else s.p
        momenta = [s.expression("mass", q=Q[i]) @ V[i] if mechanical else P[i] for i in range(k)]
        rows = [
            (momenta[i] - p0) / h - sum((float(b) * r for b, r in zip(B.A[i, :-1], R, strict=True) if b), SX(n, 1))
            for i in range(k)
        ]
        if not mechanical:
            rows = [V[i] - velocity_of(s, Q[i], P[i], times[i]) for i in range(k)] + rows
        constraints = _constraints(s, A, Q, V, times, h)

        if mechanical:
            gradient = ca.gradient(s.expression("potential"), s.q)
            size = scales.acceleration(s, s.applied(s.q, s.v, t, u[:, 0]) - gradient, h)
            scale = scales.constant(size, n * k)
        else:
            speed, size, *_ = scales.velocity_and_rate(s, h)
            scale = ca.vertcat(scales.constant(speed, n * k), scales.constant(size, n * k))
        levels = (0,) * (blocks * n * k) + (1,) * (m * (k - 1))
        guess = self._guess(last, n, m, k, blocks, A.c, mechanical)
        stages = Solve(x, ca.vertcat(*rows, *constraints), guess, scale, last, before, levels)

        # the end of the step: v1 (or p1) and the last multiplier
        y, y_last, y_before = memory(n + m, "y")
        rate, final = split(y, n, m)
        force, _ = push(k - 1, final if m else None)
        total = sum((float(b) * r for b, r in zip(A.b, [*R, force], strict=True)), SX(n, 1))
        q1, t1 = Q[-1], t + h
        if mechanical:
            second = s.v + h * rate
            closing = [(s.expression("mass", q=q1) @ second - p0) / h - total]
            v1 = second
        else:
            second = s.p + h * rate
            closing = [rate - total]
            v1 = velocity_of(s, q1, second, t1)
        if m:
            closing.append(s.role("jacobian", q=q1, t=t1) @ v1 + s.role("rate", q=q1, t=t1))
        begin = parts[k - 1] if mechanical else parts[2 * k - 1]
        first = ca.vertcat(begin, lam[-1]) if m else begin
        end = Solve(y, ca.vertcat(*closing), first, scales.constant(size, n), y_last, y_before, (0,) * n + (1,) * m)

        multipliers = [*lam, final] if m else [None] * k
        supplied = SX(0.0)
        for i in range(k):
            applied = push(i, multipliers[i])[1]
            supplied += float(A.b[i]) * s.supplied_power(Q[i], V[i], times[i], applied, multipliers[i], P[i])
        dissipated = sum(float(A.b[i]) * ca.dot(V[i], s.damping(Q[i], V[i], times[i], P[i])) for i in range(k))
        return Step(
            t=t, h=h, u=u, par=s.par,
            state={"q": s.q, s.momenta: getattr(s, s.momenta)},
            solves=(stages, end),
            next={"q": q1, s.momenta: second},
            lam=SX(0, 1), node=1.0,
            work={"supplied": h * supplied, "dissipated": h * dissipated},
            input_nodes=tuple(float(c) for c in A.c),
        )  # fmt: skip

    @staticmethod
    def _force(s: Any) -> Any:
        """`-H_q`: `(v^T M v / 2 - V)_q` of `(q, v)`, or of `(q, p)` for a Hamiltonian."""
        if s.kind == "mechanical":
            L = s.role("kinetic") - s.expression("potential")
            return ca.Function("L_q", [s.q, s.v, s.t, s.par], [ca.densify(ca.gradient(L, s.q))])
        return ca.Function("H_q", [s.q, s.p, s.t, s.par], [ca.densify(-ca.gradient(s.expression("hamiltonian"), s.q))])

    @staticmethod
    def _guess(last: Any, n: int, m: int, k: int, blocks: int, c: np.ndarray, mechanical: bool) -> Any:
        """Extrapolate the polynomials of the last step; increments begin at zero, so theirs pass through it."""
        ahead = lagrange(c, 1 + c)
        shift = ahead - ahead[0]  # value at 1 + c_i, less that at the end of the last step
        parts = []
        rates = ca.reshape(last[: blocks * n * k], n, blocks * k)
        if not mechanical:
            parts.append(ca.vec(rates[:, :k] @ ahead.T))
        parts.append(ca.vec(rates[:, (blocks - 1) * k :] @ shift.T))
        if m:
            inner = lagrange(c[:-1], 1 + c[:-1])
            parts.append(ca.vec(ca.reshape(last[blocks * n * k :], m, k - 1) @ inner.T))
        return ca.vertcat(*parts)
