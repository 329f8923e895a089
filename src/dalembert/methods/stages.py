"""Runge-Kutta methods with stages on the index-2 form: one residual, in which a method is data.

With rates `Q'_i`, `V'_i` of the stages as unknowns, `Q_i = q0 + h sum_k a_ik Q'_k` and `V_i = v0 + h sum_k a_ik V'_k`,

    Q'_i = V_i,     M(Q_i) V'_i = F(Q_i, V_i, t_i) - G(Q_i)^T Lam_i,     i = 1 .. s
    G(Qb_i) Vb_i + g_t = 0     at the constraint nodes,   Qb_i = q0 + h sum_k ab_ik Q'_k,  Vb_i likewise,

and `q1`, `v1` with the weights `b`. The mass matrix is not inverted. What differs is where the constraints hold:

    classical (gauss-s, radau-ia-s, radau-iia-s, lobatto-iiia-s, lobatto-iiic-s)   at the stages, ab = a
    murua-s                        at the Lobatto nodes beside 0, the last of which is the end of the step
    murua-ggl-s                    there too, and g(Qb_i) = 0 as well, with Q'_i = V_i - G(Q_i)^T mu_i

(Symank 2025, eqs. 6.7 to 6.14; Hilden 2009, eq. 2.15; Gear, Gupta, Leimkuhler 1985). For a Hamiltonian `V` is `p`,
`Q'_i = H_p(Q_i, P_i)`, and `P'_i = -H_q - ... - G^T Lam_i`. Multipliers of a solution are those of the acceleration level at
the stored times.

Power: the forces of the stages times their velocities, with the weights `b`, constraint forces included: stages of murua are
off the constraint, and what their multipliers do there is just the change of a quadratic energy (Symank 2025, eq. 6.15).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.errors import MethodError
from dalembert.methods import scales
from dalembert.methods.base import Method, register
from dalembert.methods.step import SX, Solve, Step, memory, split
from dalembert.methods.tableaus import Tableau, lagrange, murua, tableau


@dataclass(frozen=True)
class Staged(Method):
    """A method with a number of stages; its name ends in it."""

    stages: int = 3

    fewest: ClassVar[int] = 1
    any_mass: ClassVar[bool] = True  # masses are never divided by
    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian")

    def __post_init__(self) -> None:
        if (
            isinstance(self.stages, bool)
            or not isinstance(self.stages, (int, np.integer))
            or not self.fewest <= self.stages <= 12
        ):
            raise MethodError(f"{self.name} has {self.fewest} to 12 stages, not {self.stages!r}")

    def __str__(self) -> str:
        return f"{self.name}-{self.stages}"


def rates(s: Any, q: Any, y: Any, lam: Any, t: Any, u: Any) -> tuple[Any, Any, Any, Any, Any]:
    """At one stage: velocity, inertia `A` and force `f` in `A y' = f`, power supplied, and power dissipated.

    For a mechanical system `y = v`, `A = M(q)`; for a Hamiltonian one `y = p`, `A = I`.
    """
    if s.kind == "mechanical":
        v, p, inertia = y, None, s.expression("mass", q=q)
        force = ca.Function("F", [s.q, s.v, s.t, s.par], [ca.densify(s.own_force())])(q, y, t, s.par)
    else:
        H = s.expression("hamiltonian")
        parts = [ca.densify(ca.gradient(H, s.p)), ca.densify(-ca.gradient(H, s.q))]
        v, force = ca.Function("F", [s.q, s.p, s.t, s.par], parts)(q, y, t, s.par)
        p, inertia = y, SX.eye(s.n)
    applied, damping = s.applied(q, v, t, u, p), s.damping(q, v, t, p)
    supplied = ca.dot(v, applied)
    force += applied - damping
    supplied += s.energy_rate(q, p, t)
    if s.m:
        reaction = s.role("jacobian", q=q, t=t).T @ lam
        force -= reaction
        supplied -= ca.dot(v, reaction)
    return v, inertia, force, supplied, ca.dot(v, damping)


def velocity_of(s: Any, q: Any, y: Any, t: Any) -> Any:
    """The velocity at a node: `v` itself, or `H_p`."""
    return y if s.momenta == "v" else s.role("velocity", q=q, p=y, t=t)


def _extrapolated(last: Any, before: Any, stacks: list[tuple[int, int]], c: np.ndarray) -> Any:
    """Values of the last step's stage polynomials at the stages of the next one, stack by stack.

    A stack is `(size, count)`: so many columns of that size; fewer than there are stages where the first has none of its
    own. One stage alone is extrapolated from the last two steps.
    """
    offset, out = 0, []
    for size, count in stacks:
        part = slice(offset, offset + size * count)
        offset += size * count
        if not size * count:
            continue
        block, nodes = ca.reshape(last[part], size, count), c[len(c) - count :]
        if len(c) == 1:
            out.append(ca.vec(2 * block - ca.reshape(before[part], size, count)))
        else:
            out.append(ca.vec(block @ lagrange(nodes, 1 + nodes).T))
    return ca.vertcat(*out)


def _scale(s: Any, u: Any, h: Any, stages: int, free: bool) -> Any:
    """Sizes of the rates of all stages: of the velocities or momenta, and of the positions where they are unknown too."""
    if s.kind == "mechanical":
        size = scales.acceleration(s, s.applied(s.q, s.v, s.t, u) + s.own_force(), h)
        speed = ca.fabs(h) * size
    else:
        speed, size, *_ = scales.velocity_and_rate(s, h)
    own = scales.constant(size, s.nv * stages)
    return own if free else ca.vertcat(own, scales.constant(speed, s.n * stages))


class _IndexTwo(Staged):
    """The residual that all of these share."""

    nonholonomic: ClassVar[bool] = True
    kinematics: ClassVar[bool] = True
    ggl: ClassVar[bool] = False

    def _tableau(self) -> Tableau:
        raise TypeError(f"{type(self).__name__} has no tableau")

    def _constraint_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Nodes at which constraints are looked at, the coefficients that lead there, and how their residuals are combined."""
        t = self._tableau()
        return t.c, t.A, None

    def step(self, system: Any) -> Step:
        s, T = system, self._tableau()
        n, nv, m, mh, k, h, t = s.n, s.nv, s.m, s.mh, T.stages, SX.sym("h"), s.t
        y0 = getattr(s, s.momenta)
        # Q'_i = V_i is known, and then not an unknown
        free = s.momenta == "v" and not (self.ggl and mh) and not s.has("kinematics")
        # an explicit first stage has no multiplier of its own: it takes the last one of the step before
        first = 1 if m and np.abs(self._constraint_rows()[1][0]).max() == 0 else 0
        u = SX.sym("u", s.nu, k)
        counts = [*([nv] * k), *([] if free else [n] * k), *([m] * (k - first)), *([mh] * k if self.ggl and mh else [])]
        x, last, before = memory(sum(counts))
        parts = split(x, *counts)
        Yd, parts = parts[:k], parts[k:]
        Qd, parts = (None, parts) if free else (parts[:k], parts[k:])
        carried = SX.sym("lam", m)
        lam = [*([carried] * first), *parts[: k - first]]
        mu = parts[k - first :]

        def along(row: np.ndarray, rates_: list[Any]) -> Any:
            return h * sum((float(a) * r for a, r in zip(row, rates_, strict=True) if a), SX(*rates_[0].shape))

        Y = [y0 + along(T.A[i], Yd) for i in range(k)]
        qd = Y if Qd is None else Qd
        Q = [s.q + along(T.A[i], qd) for i in range(k)]
        inertial, kinematic, supplied, dissipated = [], [], SX(0.0), SX(0.0)
        for i in range(k):
            ti = t + float(T.c[i]) * h
            v, inertia, force, power, loss = rates(s, Q[i], Y[i], lam[i], ti, u[:, i])
            inertial.append(inertia @ Yd[i] - force)
            if Qd is not None:
                slip = s.role("normal", q=Q[i], t=ti).T @ mu[i] if mu else SX(n, 1)
                kinematic.append(Qd[i] - s.qdot(Q[i], v) + slip)
            supplied += h * float(T.b[i]) * power
            dissipated += h * float(T.b[i]) * loss
        velocity, position = [], []
        if m:
            nodes, coefficients, combined = self._constraint_rows()
            for c, row in list(zip(nodes, coefficients, strict=True))[first:]:
                Qb, Yb, tb = s.q + along(row, qd), y0 + along(row, Yd), t + float(c) * h
                drift = s.role("jacobian", q=Qb, t=tb) @ velocity_of(s, Qb, Yb, tb) + s.role("rate", q=Qb, t=tb)
                velocity.append(drift)
                if mu:
                    position.append(s.expression("holonomic", q=Qb, t=tb))
            if combined is not None:
                velocity = [ca.horzcat(*velocity) @ row / h for row in combined]
        residual = ca.vertcat(*inertial, *kinematic, *velocity, *position)
        moving = nv * k + (0 if free else n * k)
        levels = (0,) * moving + (1,) * (residual.numel() - moving)

        stacks = [(nv, k), (0 if free else n, k), (m, k - first)] + ([(mh, k)] if mu else [])
        guess = _extrapolated(last, before, stacks, T.c)
        scale = _scale(s, u[:, 0], h, k, free)
        solve = Solve(x, residual, guess, scale, last, before, levels)
        state, start = {"q": s.q, s.momenta: y0}, {}
        after = {"q": s.q + along(T.b, qd), s.momenta: y0 + along(T.b, Yd)}
        if first:  # the last stage is the end of the step: its multiplier is that of the next first stage
            state["lam"], after["lam"], start["lam"] = carried, lam[-1], "lam"
        return Step(
            t=t, h=h, u=u, par=s.par,
            state=state, solves=(solve,), next=after,
            lam=SX(0, 1), node=1.0,
            work={"supplied": supplied, "dissipated": dissipated},
            input_nodes=tuple(float(c) for c in T.c),
            start=start,
            rates=(T.c, ca.horzcat(*qd), ca.horzcat(*Yd)) if k >= 3 and T.C() >= k and not mu else None,
        )  # fmt: skip


class _Classical(_IndexTwo):
    """A classical Runge-Kutta method: on free systems, and on constrained ones with the velocity constraints at the stages."""

    index: ClassVar[int] = 2
    exact_levels: ClassVar[tuple[str, ...]] = ()
    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian", "dae", "port-hamiltonian")
    indices: ClassVar[tuple[int, ...]] = (1, 2)

    def step(self, system: Any) -> Step:
        if system.kind == "dae":
            from dalembert.methods.index_two import classical_step

            return classical_step(system, self._tableau())
        if system.kind == "port-hamiltonian":
            from dalembert.methods.discrete_gradient import collocation_step

            return collocation_step(system, self._tableau())
        return super().step(system)

    def _tableau(self) -> Tableau:
        return tableau(self.name, int(self.stages))


@register
@dataclass(frozen=True)
class Gauss(_Classical):
    """Gauss collocation: order 2 s on free systems. Keeps: quadratic invariants, the power balance of quadratic energies."""

    name: ClassVar[str] = "gauss"
    keeps: ClassVar[str] = "symplectic structure, quadratic invariants, power balance of quadratic energies (free systems)"
    source: ClassVar[str] = "Hairer, Lubich, Wanner, sec. II.1; Symank 2025, sec. 5.3"
    symplectic: ClassVar[bool] = False  # on constrained systems it is not

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        s = self.stages
        index2 = s + 1 if s % 2 else s
        return (index2, index2, index2)

    @property
    def free_order(self) -> int:
        return 2 * self.stages


@register
@dataclass(frozen=True)
class RadauIIA(_Classical):
    """Radau IIA: order 2 s - 1, velocity constraints at the end of the step."""

    name: ClassVar[str] = "radau-iia"
    indices: ClassVar[tuple[int, ...]] = (1, 2, 3)
    keeps: ClassVar[str] = "velocity constraints; damps stiff motion"
    source: ClassVar[str] = "Hairer, Wanner II, sec. IV.5; Hilden 2009, table 2.1"
    symmetric: ClassVar[bool] = False
    exact_levels: ClassVar[tuple[str, ...]] = ("velocity",)

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (2 * self.stages - 1,) * 3


@register
@dataclass(frozen=True)
class LobattoIIIC(_Classical):
    """Lobatto IIIC: order 2 s - 2, velocity constraints at the end of the step."""

    stages: int = 3
    fewest: ClassVar[int] = 2
    name: ClassVar[str] = "lobatto-iiic"
    indices: ClassVar[tuple[int, ...]] = (1, 2, 3)
    keeps: ClassVar[str] = "velocity constraints; damps stiff motion"
    source: ClassVar[str] = "Hairer, Wanner II, sec. IV.5; Hilden 2009, table 2.1"
    symmetric: ClassVar[bool] = False
    exact_levels: ClassVar[tuple[str, ...]] = ("velocity",)

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (2 * self.stages - 2,) * 3


@register
@dataclass(frozen=True)
class LobattoIIIA(_Classical):
    """Lobatto IIIA: order 2 s - 2, symmetric, velocity constraints at the end of the step."""

    stages: int = 3
    fewest: ClassVar[int] = 2
    name: ClassVar[str] = "lobatto-iiia"
    keeps: ClassVar[str] = "velocity constraints"
    any_mass: ClassVar[bool] = False  # its first stage is explicit
    source: ClassVar[str] = "Hairer, Wanner II, sec. IV.5; Hilden 2009, table 2.1"
    symmetric: ClassVar[bool] = False  # its multipliers are carried from step to step
    exact_levels: ClassVar[tuple[str, ...]] = ("velocity",)

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (2 * self.stages - 2,) * 3


@register
@dataclass(frozen=True)
class RadauIA(_Classical):
    """Radau IA: order 2 s - 1 on free systems, s on constrained ones."""

    name: ClassVar[str] = "radau-ia"
    keeps: ClassVar[str] = "nothing exactly; damps stiff motion"
    source: ClassVar[str] = "Hairer, Wanner II, sec. IV.5; Hilden 2009, table 2.1"
    symmetric: ClassVar[bool] = False

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (self.stages,) * 3

    @property
    def free_order(self) -> int:
        return 2 * self.stages - 1


class _Free(_Classical):
    """A classical method for free systems and index 1: its stages do not reach the constraints at the end of a step."""

    stages: int = 3
    fewest: ClassVar[int] = 2
    index: ClassVar[int] = 0
    indices: ClassVar[tuple[int, ...]] = (1,)
    nonholonomic: ClassVar[bool] = False
    any_mass: ClassVar[bool] = False  # with an explicit stage, or one whose rate is not used, masses are divided by
    keeps: ClassVar[str] = "nothing exactly"
    source: ClassVar[str] = "Hairer, Wanner II, sec. IV.5; Hilden 2009, sec. 2.5"

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (2 * self.stages - 2,) * 3

    def check(self, system: Any) -> None:
        super().check(system)
        if system.kind != "dae" and system.m:
            raise MethodError(f"{self.name} treats free systems only; in lobatto-pair-s and spark-s it serves constrained ones")


@register
@dataclass(frozen=True)
class LobattoIIIB(_Free):
    """Lobatto IIIB: order 2 s - 2, symmetric; the partner of IIIA in `lobatto-pair-s`."""

    name: ClassVar[str] = "lobatto-iiib"
    keeps: ClassVar[str] = "symmetry"


@register
@dataclass(frozen=True)
class LobattoIIICStar(_Free):
    """Lobatto IIIC*: order 2 s - 2, its first stage explicit; the partner of IIIC."""

    name: ClassVar[str] = "lobatto-iiic*"
    symmetric: ClassVar[bool] = False


@register
@dataclass(frozen=True)
class LobattoIIID(_Free):
    """Lobatto IIID, the mean of IIIC and IIIC*: order 2 s - 2, symmetric and symplectic."""

    name: ClassVar[str] = "lobatto-iiid"
    keeps: ClassVar[str] = "symplectic structure, quadratic invariants, symmetry (free systems)"
    symplectic: ClassVar[bool] = True
    any_mass: ClassVar[bool] = True


@register
@dataclass(frozen=True)
class Murua(_IndexTwo):
    """Murua's method: Gauss collocation with velocity constraints at Lobatto nodes, order 2 s. Keeps: velocity constraints."""

    name: ClassVar[str] = "murua"
    keeps: ClassVar[str] = "velocity constraints, symmetry"
    source: ClassVar[str] = "Murua 1997; Symank 2025, sec. 6.3"
    index: ClassVar[int] = 2
    exact_levels: ClassVar[tuple[str, ...]] = ("velocity",)

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (2 * self.stages,) * 3

    def _tableau(self) -> Tableau:
        return murua(int(self.stages)).gauss

    def _constraint_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        pair = murua(int(self.stages))
        return pair.c_bar, pair.bar, None


@register
@dataclass(frozen=True)
class MuruaGGL(Murua):
    """Murua's method on the stabilised form of Gear, Gupta and Leimkuhler. Keeps: position and velocity constraints."""

    name: ClassVar[str] = "murua-ggl"
    keeps: ClassVar[str] = "position and velocity constraints, symmetry"
    source: ClassVar[str] = "Murua 1997; Gear, Gupta, Leimkuhler 1985; Symank 2025, sec. 6.3.3"
    ggl: ClassVar[bool] = True
    exact_levels: ClassVar[tuple[str, ...]] = ("position", "velocity")
