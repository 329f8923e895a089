"""Discrete gradient methods for port-Hamiltonian systems (Kinon, Morandin, Schulze 2025).

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
from typing import ClassVar, NamedTuple

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.checking import one_of
from dalembert.discrete.gradients import GRADIENTS, SYMMETRIC, Ends, Field, Pullback, itoh_abe
from dalembert.errors import MethodError, ModelError
from dalembert.methods.base import Method, register
from dalembert.methods.energy_momentum import EnergyMomentum
from dalembert.methods.step import Block, Step, split_solves
from dalembert.systems import scales
from dalembert.systems.base import column
from dalembert.systems.bases import Bases, bases
from dalembert.systems.constrained import Constrained
from dalembert.systems.form import components
from dalembert.systems.needs import Need
from dalembert.systems.port_hamiltonian import PortHamiltonian
from dalembert.systems.tracing import symbols

RULES = {"midpoint": 0.5, "left": 0.0, "right": 1.0}
ONE = SX(1.0)


class _Rows(NamedTuple):
    """`E X + r - (J - R) z - (B - P) u`, the output, the whole input, and the power dissipated."""

    residual: SX
    y: SX
    u: SX
    dissipated: SX


class _Frame:
    """The symbols of a step and the parts of a system in it; consistent approximations are those of `rule`."""

    def __init__(self, s: PortHamiltonian, rule: str) -> None:
        self.s, self.rule, self.h = s, rule, SX.sym("h")

    def place(self, X: SX, rule: str) -> dict[str, SX]:
        """State and time in the step."""
        c = RULES[rule]
        return {"x": self.s.x + c * self.h * X, "t": self.s.t + c * self.h}

    def ends(self, x: SX, rate: SX) -> Ends:
        """The ends of a part of the state with a rate."""
        return Ends(x, x + self.h * rate, self.s.t, self.s.t + self.h, change=self.h * rate)

    def energy(self, V1: SX, alpha: SX, D: Pullback) -> tuple[SX, SX]:
        """The discrete gradient of `H1(V1^T x)` and its rate of time."""
        s, xi = self.s, SX.sym("xi", alpha.numel())
        H = ca.substitute(s.expression("hamiltonian"), s.x, ca.densify(V1 @ xi))
        return D(Field(H, xi, s.t, (s.par,), parts=_parts(s, H, xi, V1)), self.ends(V1.T @ s.x, alpha), ONE)

    def jacobian(self, X: SX, D: Pullback) -> SX | None:
        """The discrete Jacobian of the constraint of a mechanism, row by row."""
        s, states = self.s, self.s.positions
        if not states:
            return None
        q, full = SX.sym("q", len(states)), SX(s.x)
        full[states] = q
        g, ends = ca.substitute(s.expression("constraint"), s.x, full), self.ends(s.x[states], X[states])
        return ca.horzcat(*(D(Field(g[i], q, s.t, (s.par,)), ends, ONE)[0] for i in range(g.numel()))).T

    def rows(self, X: SX, z: SX, rate: SX, jacobian: SX | None = None, E: SX | None = None) -> _Rows:
        """The equations of the step, with its costates `z` and the rate of time of the energy."""
        s, at = self.s, self.place(X, self.rule)
        own, R, B, P, S, N = (s.expression(k, **at) for k in ("E", "R", "B", "P", "S", "N"))
        u = s.expression("law", **at) if s.has("law") else s.u
        residual = (own if E is None else E) @ X - (s.structure(**at, jacobian=jacobian) - R) @ z - (B - P) @ u
        if s.has("r"):
            r = s.expression("r", **at)
            residual += r + z * ((rate - ca.dot(z, r)) / (ca.sumsqr(z) + 1e-300))
        y = (B + P).T @ z + (S - N) @ u
        return _Rows(residual, y, u, ca.dot(z, R @ z) + 2 * ca.dot(z, P @ u) + ca.dot(u, S @ u))

    def block(self, name: str, x: SX, row: SX, size: SX, level: int = 0, start: SX | None = None) -> Block:
        """Unknowns with their rows and their sizes, or one size for all of them."""
        return Block(name, 0.5, x, ca.densify(row), scales.full(size, x.numel()), (level,) * x.numel(), start=start)

    def finished(self, blocks: list[Block], X: SX, z: SX, rows: _Rows) -> Step:
        s, h = self.s, self.h
        return Step(
            t=s.t, h=h, u=s.u, par=s.par,
            state={"x": s.x}, solves=split_solves([b for b in blocks if b.unknowns.numel()]), next={"x": s.x + h * X},
            lam=ca.vertcat(rows.y, rows.u, z), node=0.5,
            work={"supplied": h * ca.dot(rows.y, rows.u), "dissipated": h * rows.dissipated},
        )  # fmt: skip


def _parts(s: PortHamiltonian, H: SX, xi: SX, V1: SX) -> list[list[int]]:
    """Groups of `xi` with an energy of their own: those that the system knows, else where `H` is a sum."""
    if s.parts and V1.nnz() == V1.size2():  # columns are unit vectors
        states = V1.sparsity().row()
        groups = [[i for i, state in enumerate(states) if state in part] for part in s.parts]
        return [*filter(None, groups), *([i] for i, state in enumerate(states) if not any(state in part for part in s.parts))]
    return components(ca.jacobian_sparsity(ca.gradient(H, xi), xi))


def _index_one(s: PortHamiltonian, F: Bases) -> bool:
    """Whether the algebraic equations can be solved for the algebraic states."""
    if F.rank == s.n:
        return True
    block = ca.Function("b", [s.x, s.t, s.u, s.par], [F.U2.T @ ca.jacobian(s.role("right"), s.x) @ F.V2])
    for x, t in s.samples():
        value = np.asarray(block(x, t, np.zeros(s.nu), s.pack()).full())
        if np.isfinite(value).all() and np.linalg.cond(value) > 1e10:
            return False
    return True


def _algebraic_size(s: PortHamiltonian, F: Bases, one: scales.Ports, solvable: bool) -> SX:
    """The size of the rates of algebraic states, which are defined to `eps` of their own size.

    Multipliers are defined by velocities over `h`, or by positions over `h^2`.
    """
    h, own = one.h, scales.typical(F.V2.T @ s.x, one.two, one.count)
    if solvable:
        return scales.spread(own / h + one.speed, one.two)
    size = own / h + one.state / h**2 + (scales.POSITIONS * one.state / h**3 if s.positions else 0)
    return scales.spread(size, one.two)


@dataclass(frozen=True)
class _Balanced(Method):
    """The step of the energy-consistent methods, with a discrete gradient pair constructed from a discrete gradient."""

    gradient: str = "equivariant"
    at: str = "midpoint"
    z2: str = "auto"

    completions: ClassVar[tuple[str, ...]] = ("auto", "midpoint", "right")
    costates: ClassVar[bool] = False  # whether all costates are unknown
    alternates: ClassVar[bool] = True
    treats: ClassVar[tuple[str, ...]] = ("port-hamiltonian",)
    index: ClassVar[int] = 2
    exact_levels: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, known in (("gradient", GRADIENTS), ("at", RULES), ("z2", self.completions)):
            one_of(name, getattr(self, name), known)

    @property
    def symmetric(self) -> bool:
        return self.gradient in SYMMETRIC and self.at == "midpoint" and self.z2 in ("auto", "midpoint")

    @property
    def order(self) -> tuple[int, int, int]:
        return (2, 2, 1) if self.symmetric else (1, 1, 1)  # multipliers of index 2 alternate around their mean

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.RATES, Need.BASES}

    def step(self, system: PortHamiltonian) -> Step:
        s, f, F = system, _Frame(system, self.at), bases(system)
        r, m, D = F.rank, s.n - F.rank, GRADIENTS[self.gradient]
        alpha, beta, f1, f2 = SX.sym("alpha", r), SX.sym("beta", m), SX.sym("f1", r), SX.sym("f2", m)
        X = F.V1 @ alpha + F.V2 @ beta
        DH, rate = f.energy(F.V1, alpha, D)
        E = F.U1.T @ s.expression("E", **f.place(X, self.at)) @ F.V1
        # z1 = C^-T D H1 is explicit where C is a constant diagonal
        simple = not self.costates and E.sparsity().is_diag() and not ca.depends_on(E, ca.vertcat(s.x, s.t, alpha, beta, f.h))
        solvable = _index_one(s, F)
        rule = self.z2 if self.z2 != "auto" else "midpoint" if solvable else "right"
        at = f.place(X, rule) if rule != "left" else {"x": s.x + f.h * (F.V2 @ beta), "t": s.t}
        z2 = F.U2.T @ s.expression("z", **at)
        z = F.U1 @ (DH / ca.densify(ca.diag(E)) if simple else f1) + F.U2 @ (f2 if self.costates else z2)
        rows = f.rows(X, z, rate, f.jacobian(X, D))

        costate, one = s.expression("z"), scales.Ports(s, f.h, F.V1, F.V2)
        size = scales.typical(costate) + scales.typical(s.role("gradient")) + 1e-300
        blocks = [f.block("alpha", alpha, F.U1.T @ rows.residual, scales.spread(one.speed, one.one))]
        if not simple:
            blocks.append(f.block("f1", f1, E.T @ f1 - DH, size, start=F.U1.T @ costate))
        if self.costates:
            blocks.append(f.block("f2", f2, f2 - z2, size, start=F.U2.T @ costate))
        blocks.append(f.block("beta", beta, F.U2.T @ rows.residual, _algebraic_size(s, F, one, solvable), 1))
        return f.finished(blocks, X, z, rows)


@register(
    "discrete-gradient",
    treats=("port-hamiltonian", "mechanical", "hamiltonian"),
    keeps="power balance with ports, of any Hamiltonian; position constraints of multibody systems",
    source="Kinon, Morandin, Schulze 2025, eqs. 21, 44",
)
class DiscreteGradient(_Balanced):
    """The discrete gradient method for semi-explicit port-Hamiltonian systems (eq. 21).

    `gradient` is one of the discrete gradients, `at` where matrices are taken (`"midpoint"`, `"left"`, `"right"`), `z2` where the
    costates of the algebraic equations are (`"auto"`: `"midpoint"` on index 1, `"right"` above). On a `Mechanical` or
    `Hamiltonian` system it is `energy-momentum` with that gradient, and `to_port_hamiltonian()` gives the same motion where the
    mass is constant. With `M(q)` the two are different methods of the same order.

    `"gonzalez"` and `"mean-value"` are taken of each part of a Hamiltonian that is a sum, of kinetic and potential energy for
    example. The source takes `"gonzalez-joint"`, that of the Hamiltonian as a whole: it mixes the units of positions and
    velocities, and its errors are larger, by a factor of 200 at the step 0.1 for the four particles of the source.
    """

    def step(self, system: PortHamiltonian | Constrained) -> Step:
        if isinstance(system, Constrained):
            return EnergyMomentum(gradient=self.gradient).step(system)
        return super().step(system)


@register("ddr", keeps="power balance with ports, of any Hamiltonian", source="Kinon, Morandin, Schulze 2025, eq. 25")
class DiracDissipative(_Balanced):
    """The discrete gradient method on the Dirac-dissipative representation (eq. 25): all costates `f` are unknown.

        E X + r = (J - R) f + (B - P) u,    E^T f = D H,    U2^T f = z2

    The last rows complete it: `z2` is that of the end of the step, of its midpoint, or (`"left"`) of its beginning, whose
    algebraic states are then found anew (example 6). The completion nearest to `f` is met exactly, so that this is also the
    minimal-norm rule.
    """

    completions: ClassVar[tuple[str, ...]] = ("auto", "midpoint", "right", "left")
    costates: ClassVar[bool] = True


@register("gradient-pair", keeps="power balance with ports, of any Hamiltonian", source="Kinon, Morandin, Schulze 2025, eq. 18")
class GradientPair(_Balanced):
    """The method of a discrete gradient pair (eq. 18): `E(x0, x1)` and `z(x0, x1)` with `z . E (x1 - x0) = H(x1) - H(x0)`.

    `E` and `z` are functions of `x0`, `x1` and parameters; `z` must, and `E` may be given (the midpoint else). Without a pair
    one is constructed (theorem 4, proposition 2): then this is `discrete-gradient` (corollary 1).
    """

    E: Callable[..., object] | None = None
    z: Callable[..., object] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.E is not None and self.z is None:
            raise MethodError("a gradient pair needs z=..., a function of x0 and x1 with z . E (x1 - x0) = H(x1) - H(x0)")

    @property
    def symmetric(self) -> bool:
        """Of a pair of the user's nothing is known."""
        return self.z is None and super().symmetric

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs - ({Need.BASES} if self.z is not None else set())

    def step(self, system: PortHamiltonian) -> Step:
        if self.z is None:
            return super().step(system)
        s, n, f = system, system.n, _Frame(system, self.at)
        X = SX.sym("X", n)
        x1 = s.x + f.h * X
        extra = {"x0": symbols(s.x, (n,)), "x1": symbols(x1, (n,)), "t": symbols(s.t, ()), "h": symbols(f.h, ())}
        z = column("z", s._trace("z", self.z, ("x0", "x1", "t", "h"), extra), n)
        E = s.expression("E", **f.place(X, self.at))
        if self.E is not None:
            E = s._matrix("E", s._trace("E", self.E, ("x0", "x1", "t", "h"), extra), (n, n))
        self._check_pair(s, E, z, X, f.h)
        # the pair is that of one time: what time adds to the energy is counted at x1
        _, rate = itoh_abe(Field(s.expression("hamiltonian"), s.x, s.t, (s.par,)), f.ends(s.x, X), ONE)
        rows = f.rows(X, z, rate, E=E)
        one = scales.Ports(s, f.h, SX(n, 0), SX(n, 0))
        return f.finished([f.block("X", X, rows.residual, scales.spread(one.speed, one.x))], X, z, rows)

    @staticmethod
    def _check_pair(s: PortHamiltonian, E: SX, z: SX, X: SX, h: SX) -> None:
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
