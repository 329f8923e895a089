"""Energy-momentum methods of discrete gradients, and the midpoint rule they are compared with.

With `w` the mean velocity of the step and `a` its mean acceleration, `w = v0 + h a / 2`, `v1 = v0 + h a`,

    q1 - q0 = h w
    M(q1) v1 - M(q0) v0 = h (D[v0^T M(q) v1 / 2 - V](q0, q1) - R w + f - D g(q0, q1)^T lam)
    g(q1) = 0

(Gonzalez 1999, eqs. 21, 33; Kinon, Morandin, Schulze 2025, eq. 44). The discrete gradient of `v0^T M v1 / 2` at frozen velocities
is what makes the kinetic energy of a state-dependent mass matrix exact without inverting it:
`d(v^T M v) / 2 = w . d(M v) - w . D[v0^T M v1 / 2] h`. For a general Hamiltonian

    q1 - q0 = h w,   w = D_p H,   p1 - p0 = h (-D_q H - R w + f - D g^T lam),   g(q1) = 0.

The latter serves a mechanical system with `M(q)` too, in `(q, p)`, where rotations leave the energy as it is: at frozen
velocities the angular momentum would not be kept.

Keeps: energy (or the power balance) and position constraints to round-off, by directionality; linear and angular
momentum where the discrete gradient is equivariant. The velocity constraint is not kept: `G v` alternates in sign with
an amplitude of O(h^2), and so does `lam` around its mean with O(h). A multiplier is defined in the middle of its step; it is of
first order there, the mean of two neighbours of second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import casadi as ca
from casadi import SX

from dalembert.checking import one_of
from dalembert.discrete.differences import Ends
from dalembert.discrete.gradients import GRADIENTS, SYMMETRIC, Field, Pullback
from dalembert.methods import scheme
from dalembert.methods.base import Method, register
from dalembert.methods.runge_kutta import RungeKutta
from dalembert.methods.scheme import Scheme
from dalembert.methods.step import Block, Step, split_solves, two_sum
from dalembert.systems import scales
from dalembert.systems.constrained import Constrained
from dalembert.systems.mechanical import Mechanical

WHOLE = frozenset({"gonzalez-joint", "gonzalez-left", "gonzalez-right"})  # not the mean velocity for a constant mass


@dataclass(frozen=True)
class _Motion:
    """What the energy does in a step: unknown `a` and mean velocity `w`, the rows without other forces, the end of the step.

    `momentum` is `(p1 - p0) / h` less the part of a mass `M(q)`, `push` is `D_q E`, `rate` is `D_t E`, and `velocity` is the
    row of `w` where it is unknown. `ends` are those of the positions. In `(q, y)` with the energy `H(q, y)` there are the ends
    `whole` of both, the middle of `y`, and the velocity constraint `drift`. `rates` names what `a` is the rate of; `closing`
    defines the `end` where it is not explicit.
    """

    a: SX
    w: SX
    ends: Ends
    momentum: SX
    push: SX
    rate: SX
    end: SX
    rates: str = "v"
    velocity: SX | None = None
    whole: Ends | None = None
    middle: SX | None = None
    drift: Field | None = None
    closing: SX | None = None


def _of_velocities(s: Mechanical, D: Pullback, h: SX, carry: SX | None) -> _Motion:
    """In `(q, v)`, with `w = v0 + h a / 2`."""
    a, M, one = type(h).sym("a", s.n), s.expression("mass"), type(h)(1.0)
    w, v1 = s.v + h / 2 * a, s.v + h * a
    ends = _ends(s.q, h * w, s.t, h, carry)
    push, rate = D(_potential(s), ends, one)
    if s.constant_mass:
        return _Motion(a, w, ends, M @ ((v1 - s.v) / h), push, rate, v1)
    va, vb = SX.sym("va", s.n), SX.sym("vb", s.n)
    kinetic = Field(va.T @ M @ vb / 2, s.q, s.t, (va, vb, s.par), (s.v, v1, s.par))
    change = s.expression("mass", q=ends.x1) @ v1 - M @ s.v
    return _Motion(a, w, ends, change / h - D(kinetic, ends, one)[0], push, rate, v1)


def _potential(s: Mechanical) -> Field:
    return Field(s.expression("potential"), s.q, s.t, (s.par,), elements=s.parts_of("potential"))


def _phase(s: Constrained) -> tuple[Constrained, SX, SX, SX]:
    """The system whose energy is a function of `(q, y)`, `y` and its value at the beginning, and `dp/dy`."""
    if not isinstance(s, Mechanical):
        return s, s.p, s.p, SX.eye(s.n)
    if s.constant_mass:  # d/dp = M^-1 d/dv, and p' = M v'
        return s, s.v, s.v, s.expression("mass")
    return s.to_hamiltonian(), s.p, s.role("momentum"), SX.eye(s.n)


def _hamiltonian(s: Constrained, y: SX) -> Field:
    """The energy as a function of `(q, y)`."""
    return Field(s.role("energy"), ca.vertcat(s.q, y), s.t, (s.par,), parts=_halves(s.n))


def _halves(n: int) -> list[list[int]]:
    return [list(range(n)), list(range(n, 2 * n))]


def _turns(s: Mechanical) -> bool:
    """Whether rotations leave an energy with `M(q)` as it is: their momenta are kept in `(q, p)`, not at frozen velocities."""
    return not s.constant_mass and bool(_hamiltonian(s.to_hamiltonian(), s.p).actions)


def _of_energy(s: Constrained, D: Pullback, h: SX, carry: SX | None, apart: bool) -> _Motion:
    """In `(q, p)`; in `(q, v)` where the mass is constant. What is a sum is taken `apart`, where that is the same."""
    n, kind = s.n, type(h)
    a, w = kind.sym("a", n), kind.sym("w", n)
    energy, y, y0, inertia = _phase(s)
    same = isinstance(energy, Mechanical)
    ends, y1 = _ends(s.q, h * w, s.t, h, carry), y0 + h * a
    end, closing = y1, None
    if energy is not s:  # M(q1) v1 = p1
        end = SX.sym("v1", n)
        closing = s.expression("mass", q=ends.x1) @ end - y1
    both, zero = ca.vertcat(s.q, y), kind.zeros(n)
    rest = ends.rest and (ca.vertcat(ends.rest[0], zero), ca.vertcat(ends.rest[1], zero))
    whole = Ends(ca.vertcat(s.q, y0), ca.vertcat(ends.x1, y1), s.t, s.t + h, rest, ca.vertcat(h * w, h * a))
    middle = y0 + h / 2 * a
    if apart and isinstance(energy, Mechanical):
        push, rate = D(_potential(energy), ends, kind(1.0))
        pull = inertia @ middle
    else:
        DH, rate = D(_hamiltonian(energy, y), whole, kind(1.0))
        push, pull = DH[:n], DH[n:]
    velocity = y if same else energy.role("velocity")
    slip = s.role("jacobian") @ velocity + s.role("rate")
    parts = s.parts_of("drift") if same else None
    drift = Field(slip, both, s.t, (s.par,), vectors=_halves(n), elements=parts) if s.m else None
    return _Motion(
        a, w, ends, inertia @ a, push, rate, end, "v" if same else "p", inertia @ w - pull, whole, middle, drift, closing
    )  # fmt: skip


def _ends(q: SX, change: SX, t: SX, h: SX, carry: SX | None) -> Ends:
    """The ends of the positions; `carry` is what rounding took from them so far."""
    if carry is None:
        return Ends(q, q + change, t, t + h, change=change)
    q1, rest = two_sum(q, change + carry)
    return Ends(q, q1, t, t + h, (carry, rest), change)


@dataclass(frozen=True)
class _Balanced(Method):
    """The residual of both energy methods, with a choice of discrete gradient."""

    gradient: str = "equivariant"

    stabilised: ClassVar[bool] = False  # whether the velocity constraint holds as well
    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian")

    def __post_init__(self) -> None:
        one_of("gradient", self.gradient, GRADIENTS)

    @property
    def symmetric(self) -> bool:
        return self.gradient in SYMMETRIC

    @property
    def vectorial(self) -> bool:
        """The others are those of a whole energy, whose slopes would be a full matrix."""
        return self.gradient == "equivariant"

    @property
    def order(self) -> tuple[int, int, int]:
        if not self.symmetric:
            return (1, 1, 1)
        return (2, 2, 1) if self.alternates else (2, 2, 2)

    def _carry(self, s: Constrained) -> SX | None:
        return None

    def _motion(self, s: Constrained, h: SX, carry: SX | None) -> _Motion:
        D = GRADIENTS[self.gradient]
        whole = self.stabilised or self.gradient in WHOLE
        if isinstance(s, Mechanical) and not whole and not (self.gradient == "equivariant" and _turns(s)):
            return _of_velocities(s, D, h, carry)
        return _of_energy(s, D, h, carry, self.gradient == "equivariant")

    def _multipliers(self, s: Constrained, f: _Motion) -> tuple[list[Block], SX, SX, SX, SX]:
        """Multipliers with their rows, what they do to the momenta and to the positions, and the power of moving constraints."""
        n, m, D, kind = s.n, s.m, GRADIENTS[self.gradient], type(f.a)
        lam, nothing = kind.sym("lam", m), kind(n, 1)
        if not m:
            return [], lam, nothing, nothing, kind(1, 1)
        g = Field(s.expression("holonomic"), s.q, s.t, (s.par,), elements=s.parts_of("holonomic"))
        reaction, drive = D(g, f.ends, lam)
        row, levels = g.end(f.ends), (1,) * m
        if not self.stabilised or f.whole is None or f.drift is None:
            return [Block("lam", 0.5, lam, row, kind(m, 1), levels, multiplier=True)], lam, reaction, nothing, drive
        gam = kind.sym("gam", m)
        extra, more = D(f.drift, f.whole, gam)
        blocks = [  # lam acts on velocities, gam on positions
            Block("lam", 0.5, lam, f.drift.end(f.whole), kind(m, 1), levels, multiplier=True),
            Block("gam", 0.5, gam, row, kind(m, 1), levels, multiplier=True),
        ]
        return blocks, lam, reaction + extra[:n], extra[n:], drive + more

    def step(self, system: Constrained) -> Step:
        s, h = system, type(system.t).sym("h")
        carry, form = self._carry(s), s.form(h)
        f = self._motion(s, h, carry)
        multipliers, lam, reaction, slip, drive = self._multipliers(s, f)
        applied = s.applied(f.ends.xm, f.w, f.ends.tm, s.u, f.middle)
        damping = s.damping(f.ends.xm, f.w, f.ends.tm, f.middle)
        force = applied - damping - f.push - reaction
        speed, rate = (scales.full(form.sizes[k], s.n) for k in ("w" if "w" in form.sizes else "q", f.rates))
        levels = (0,) * s.n
        blocks = [Block("a", 0.5, f.a, f.momentum - force, rate, levels), *multipliers]
        if f.velocity is not None:
            blocks.insert(0, Block("w", 0.5, f.w, f.velocity - slip, speed, levels, start=form.parts[0]["q"]))
        if f.closing is not None:
            blocks.append(Block("v1", 1.0, f.end, f.closing, speed, levels, hint=s.v))
        carried, left = ({}, {}) if carry is None or f.ends.rest is None else ({"carry": carry}, {"carry": f.ends.rest[1]})
        return Step(
            t=s.t, h=h, u=s.u, par=s.par,
            state={**form.state, **carried}, solves=split_solves(blocks),
            next={**dict(zip(form.state, (f.ends.x1, f.end), strict=True)), **left},
            lam=lam, node=0.5,
            work={"supplied": h * (ca.dot(f.w, applied) + f.rate + drive), "dissipated": h * ca.dot(f.w, damping)},
            start=dict.fromkeys(carried, "zero"),
        )  # fmt: skip


@register(
    "energy-momentum",
    alternates=True,
    keeps="energy or power balance, position constraints, momentum maps",
    source="Gonzalez 1999, eqs. 21, 33; Kinon et al. 2025, eq. 44",
)
class EnergyMomentum(_Balanced):
    """Energy-momentum method for holonomic constraints (Gonzalez 1999), with a choice of discrete gradient.

    gradient
        `"equivariant"` (the default) keeps angular momenta too where rotations leave potential, constraints and `M(q)` as they
        are, whatever invariants these are made of, and linear momenta where translations do; `"gonzalez"`, `"mean-value"` and, of
        order one, `"itoh-abe"`, `"gonzalez-left"`, `"gonzalez-right"` keep energy and constraints. They are taken of kinetic and
        potential energy separately; `"gonzalez-joint"` is that of the sum, as Kinon et al. 2025 take it: less accurate, and it
        depends on units.
    compensated
        Carry along what rounding takes from the positions: a system that travels far from the origin then keeps its
        invariants as well as one that stays.
    """

    compensated: bool = True

    def _carry(self, s: Constrained) -> SX | None:
        return type(s.t).sym("carry", s.n) if self.compensated else None


@register(
    "energy-momentum-ggl",
    exact_levels=("position", "velocity"),
    keeps="energy or power balance, position and velocity constraints, momentum maps",
    source="Gonzalez 1999; Gear, Gupta, Leimkuhler 1985; Kinon, Morandin, Schulze 2025, remark 12",
)
class EnergyMomentumGGL(_Balanced):
    """Energy and both constraint levels together: discrete gradients of the Hamiltonian of Gear, Gupta and Leimkuhler.

    With `H + lam . g + gam . gv`, where `gv = G v + g_t` is the velocity constraint, and `p = M v`,

        (q1 - q0) / h = D_p (H + gam . gv),    (p1 - p0) / h = -D_q (H + lam . g + gam . gv) - R w + f,    w = (q1 - q0) / h
        g(q1) = 0,    gv(q1, v1) = 0.

    The discrete gradient is that of the whole; since `g` and `gv` vanish at both ends, the energy changes by the work of `f` and
    `R w` alone: to round-off, with both levels at round-off too. For `M(q)` the step is made in `(q, p)`.
    """

    stabilised: ClassVar[bool] = True


@register(
    "midpoint",
    treats=("mechanical", "hamiltonian", "port-hamiltonian"),
    keeps="quadratic constraints, quadratic invariants of free systems",
    source="Kinon, Morandin, Schulze 2025, sec. 6.3",
)
class Midpoint(RungeKutta):
    """The midpoint rule on the index-2 form, as Kinon et al. 2025 compare it; on port-Hamiltonian systems as they are.

    Every function at the middle of the step, the constraint as `G(qm) w + g_t = 0`: quadratic constraints are kept, others drift;
    energy is kept only where it is quadratic. It is Gauss with one stage, and `M(q)` is treated in `(q, p)`; the multiplier is
    that of the stage.
    """

    order: ClassVar[tuple[int, int, int]] = (2, 2, 1)

    @cached_property
    def scheme(self) -> Scheme:
        return replace(scheme.classical("gauss", 1), report=((1.0,), 0.5))
