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
from typing import ClassVar

import casadi as ca
from casadi import SX

from dalembert.checking import one_of
from dalembert.discrete.gradients import GRADIENTS, SYMMETRIC
from dalembert.discrete.pairs import COMPLETIONS, RULES, completion, energy, index_one
from dalembert.errors import MethodError
from dalembert.methods.base import Method, register
from dalembert.methods.energy_momentum import EnergyMomentum
from dalembert.methods.port_step import Frame, Rows, algebraic_size
from dalembert.methods.step import Block, Step
from dalembert.systems import scales
from dalembert.systems.bases import Bases, structured_bases
from dalembert.systems.constrained import Constrained
from dalembert.systems.needs import Need
from dalembert.systems.port_hamiltonian import PortHamiltonian


@dataclass
class _Unknowns:
    """What is unknown in a step: rates of the state along `V1` and `V2`, and the costates `U1 f1 + U2 f2`."""

    F: Bases
    alpha: SX
    beta: SX
    f1: SX
    f2: SX

    @classmethod
    def of(cls, F: Bases) -> _Unknowns:
        sizes = (F.rank, F.V2.size2(), F.rank, F.U2.size2())
        return cls(F, *(SX.sym(name, size) for name, size in zip(("alpha", "beta", "f1", "f2"), sizes, strict=True)))

    @property
    def X(self) -> SX:
        return self.F.V1 @ self.alpha + self.F.V2 @ self.beta

    @property
    def free(self) -> SX:
        return ca.vertcat(self.alpha, self.beta)


@dataclass(frozen=True)
class _Balanced(Method):
    """The step of the energy-consistent methods, with a discrete gradient pair constructed from a discrete gradient."""

    gradient: str | Callable[..., object] = "equivariant"
    at: str = "midpoint"
    z2: str | Callable[..., object] = "auto"
    E: Callable[..., object] | None = None
    J: Callable[..., object] | None = None
    R: Callable[..., object] | None = None
    B: Callable[..., object] | None = None

    completions: ClassVar[tuple[str, ...]] = COMPLETIONS
    costates: ClassVar[bool] = False  # whether all costates are unknown
    alternates: ClassVar[bool] = True
    treats: ClassVar[tuple[str, ...]] = ("port-hamiltonian",)
    index: ClassVar[int] = 2
    exact_levels: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, known in (("gradient", GRADIENTS), ("at", RULES), ("z2", self.completions)):
            if name == "at" or not callable(getattr(self, name)):
                one_of(name, getattr(self, name), known)

    @property
    def own(self) -> dict[str, Callable[..., object] | None]:
        """The matrices that are a user's functions of both ends."""
        return {"E": self.E, "J": self.J, "R": self.R, "B": self.B}

    @property
    def symmetric(self) -> bool:
        """Of functions of the user's nothing is known."""
        given = any(self.own.values()) or callable(self.gradient) or callable(self.z2)
        return not given and self.gradient in SYMMETRIC and self.at == "midpoint" and self.z2 in ("auto", "midpoint")

    @property
    def order(self) -> tuple[int, int, int]:
        return (2, 2, 1) if self.symmetric else (1, 1, 1)  # multipliers of index 2 alternate around their mean

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.RATES, Need.PAIR}

    def step(self, system: PortHamiltonian) -> Step:
        s, F = system, structured_bases(system)
        w = _Unknowns.of(F)
        f = Frame(s, w.X, w.free, self.at, self.own)
        DH, rate = self._slope(f, w)
        C = F.U1.T @ f.matrix("E") @ F.V1
        # z1 = C^-T D H1 is explicit where C is a constant diagonal
        simple = not self.costates and C.sparsity().is_diag() and not ca.depends_on(C, ca.vertcat(s.x, s.t, w.free, f.h))
        solvable = index_one(s, F)
        z2 = self._algebraic(f, w, solvable)
        z = F.U1 @ (DH / ca.densify(ca.diag(C)) if simple else w.f1) + F.U2 @ (w.f2 if self.costates else z2)
        if any(self.own.values()):
            f.check()
        rows = f.rows(z, rate, None if callable(self.gradient) else f.jacobian(GRADIENTS[self.gradient]))

        costate, one = s.expression("z"), scales.Ports(s, f.h, F.V1, F.V2)
        size = scales.typical(costate) + scales.typical(s.role("gradient")) + 1e-300
        blocks = [f.block("alpha", w.alpha, F.U1.T @ rows.residual, scales.spread(one.speed, one.one))]
        if not simple:
            blocks.append(f.block("f1", w.f1, C.T @ w.f1 - DH, size, start=F.U1.T @ costate))
        if self.costates:
            blocks += self._completed(f, w, rows, z2, C.T @ w.f1 - DH, size)
        rest = ca.horzcat(F.U2, F.U3).T @ rows.residual
        blocks.append(f.block("beta", w.beta, rest, algebraic_size(s, F, one, solvable), 1))
        return f.finished(blocks, z, rows)

    def _slope(self, f: Frame, w: _Unknowns) -> tuple[SX, SX]:
        """`D H1`, and what time adds to the energy."""
        if not callable(self.gradient):
            return energy(f.s, f.h, w.F.V1, w.alpha, GRADIENTS[self.gradient])
        slope = f.vector("gradient", self.gradient, f.s.n)
        f.check(slope=slope)
        return w.F.V1.T @ slope, f.rate()

    def _place(self, f: Frame, w: _Unknowns, solvable: bool) -> dict[str, SX]:
        """Where the algebraic costates are."""
        rule = completion(self.z2 if isinstance(self.z2, str) else "auto", self.at, solvable)
        return f.place(rule) if rule != "left" else {"x": f.s.x + f.h * (w.F.V2 @ w.beta), "t": f.s.t}

    def _algebraic(self, f: Frame, w: _Unknowns, solvable: bool) -> SX:
        """`z2`, at a place of the step or by a function of its ends."""
        if not callable(self.z2):
            return w.F.U2.T @ f.s.expression("z", **self._place(f, w, solvable))
        z2 = f.vector("z2", self.z2, w.F.U2.size2())
        f.check(z2=(z2, w.F.U2.T @ f.s.expression("z")))
        return z2

    def _completed(self, f: Frame, w: _Unknowns, rows: Rows, z2: SX, gap: SX, size: SX) -> list[Block]:
        """The equations of the algebraic costates where these are unknown: `f2 = z2`."""
        return [f.block("f2", w.f2, w.f2 - z2, size, start=w.F.U2.T @ f.s.expression("z"))]


@register(
    "discrete-gradient",
    treats=("port-hamiltonian", "mechanical", "hamiltonian"),
    keeps="power balance with ports, of any Hamiltonian; position constraints of multibody systems",
    source="Kinon, Morandin, Schulze 2025, eqs. 21, 44",
)
class DiscreteGradient(_Balanced):
    """The discrete gradient method for semi-explicit port-Hamiltonian systems (eq. 21).

    `gradient` is one of the discrete gradients, `at` where matrices are taken (`"midpoint"`, `"left"`, `"right"`), `z2` where the
    costates of the algebraic equations are. `"auto"` is `"midpoint"` on index 1, and `"right"` above and with matrices at the
    left end, where the midpoint does not converge.

    On a `Mechanical` or `Hamiltonian` system it is `energy-momentum` with that gradient; `to_port_hamiltonian()` gives the same
    motion where the mass is constant. With `M(q)` the two are different methods of the same order.

    `"gonzalez"` and `"mean-value"` are taken of each part of a Hamiltonian that is a sum, of kinetic and potential energy for
    example. The source takes `"gonzalez-joint"`, that of the Hamiltonian as a whole: it mixes the units of positions and
    velocities, and its errors are larger, by a factor of 200 at the step 0.1 for the four particles of the source.

    Instead of names and places there may be functions of both ends `x0`, `x1` (and `t`, `h`, parameters): `gradient` with `n`
    entries, `z2` with one for each algebraic equation, and the matrices `E`, `J`, `R`, `B`. They are checked at a few states:
    directional, skew, semidefinite, and those of the system where `x1 = x0` (definition 8).

    Equations whose costate is zero may contain any rates: the others are then a semi-explicit system with the states of these as
    parameters (eq. 38), whose power balance they do not touch.
    """

    @property
    def vectorial(self) -> bool:
        return self.gradient == "equivariant"

    def step(self, system: PortHamiltonian | Constrained) -> Step:
        if isinstance(system, Constrained):
            if callable(self.gradient) or callable(self.z2) or any(self.own.values()):
                raise MethodError("functions of both ends are for port-Hamiltonian systems; use system.to_port_hamiltonian()")
            return EnergyMomentum(gradient=self.gradient).step(system)
        return super().step(system)


@register("ddr", keeps="power balance with ports, of any Hamiltonian", source="Kinon, Morandin, Schulze 2025, eq. 25")
class DiracDissipative(_Balanced):
    """The discrete gradient method on the Dirac-dissipative representation (eq. 25): all costates `f` are unknown.

        E X + r = (J - R) f + (B - P) u,    E^T f = D H

    These leave as many unknowns free as there are algebraic equations, and `completion` determines them:

    - `"z2"`: `U2^T f = z2`, which is `discrete-gradient` (theorem 5). `z2` is that of the end of the step, of its midpoint, or
      (`"left"`) of its beginning, whose algebraic states are then found anew (example 6).
    - `"minimal-norm"`: among all solutions that with the smallest `|W (f - z)|`, by the equations of Lagrange. `z` are all
      costates at the place that `z2` names, `weight` is `W(x0, x1)`, the identity by default. It is the completion `"z2"` where
      `U1^T z` does not depend on the algebraic states, and differs elsewhere; the norm depends on the coordinates (remark 15).
    - a function `F(x0, x1, f)` with one entry for each algebraic equation, which are zero (remark 15).
    """

    completion: str | Callable[..., object] = "z2"
    weight: Callable[..., object] | None = None

    completions: ClassVar[tuple[str, ...]] = (*COMPLETIONS, "left")
    costates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.completion):
            one_of("completion", self.completion, ("z2", "minimal-norm"))
        if self.completion == "minimal-norm" and callable(self.z2):
            raise MethodError("the minimal norm takes all costates at a place of the step: z2 must be its name")
        if self.weight is not None and self.completion != "minimal-norm":
            raise MethodError("a weight is that of completion='minimal-norm'")

    @property
    def symmetric(self) -> bool:
        return self.completion == "z2" and super().symmetric

    def _completed(self, f: Frame, w: _Unknowns, rows: Rows, z2: SX, gap: SX, size: SX) -> list[Block]:
        F, s = w.F, f.s
        if self.completion == "z2":
            return super()._completed(f, w, rows, z2, gap, size)
        start, costates = F.U2.T @ s.expression("z"), F.U1 @ w.f1 + F.U2 @ w.f2
        if callable(self.completion):
            own = f.vector("completion", self.completion, w.f2.numel(), f=costates)
            return [f.block("f2", w.f2, own, size, 1, start)]
        off = costates - s.expression("z", **self._place(f, w, index_one(s, F)))
        if self.weight is not None:
            off = s._matrix("weight", f.traced("weight", self.weight), (s.n, s.n)) @ off
        equations, unknowns = ca.vertcat(rows.residual, gap), ca.vertcat(w.alpha, w.beta, w.f1, w.f2)
        mu = SX.sym("mu", equations.numel())
        still = ca.gradient(ca.sumsqr(off) / 2 + ca.dot(mu, equations), unknowns)
        return [f.block("f2", ca.vertcat(w.f2, mu), still, size, 1, ca.vertcat(start, SX.zeros(mu.numel())))]


@register("gradient-pair", keeps="power balance with ports, of any Hamiltonian", source="Kinon, Morandin, Schulze 2025, eq. 18")
class GradientPair(_Balanced):
    """The method of a discrete gradient pair (eq. 18): `E(x0, x1)` and `z(x0, x1)` with `z . E (x1 - x0) = H(x1) - H(x0)`.

    `z`, `E`, `J`, `R` and `B` are functions of `x0`, `x1` and parameters; a pair needs `z`, and what is not given is taken at the
    place `at` of the step. They are checked at a few states (definition 7). Without `z` a pair is constructed (theorem 4,
    proposition 2): then this is `discrete-gradient` (corollary 1). `da.discrete.pair` gives that pair as numbers.
    """

    z: Callable[..., object] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.E is not None and self.z is None:
            raise MethodError("a gradient pair needs z=..., a function of x0 and x1 with z . E (x1 - x0) = H(x1) - H(x0)")

    @property
    def symmetric(self) -> bool:
        return self.z is None and super().symmetric

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs - ({Need.PAIR} if self.z is not None else set())

    def step(self, system: PortHamiltonian) -> Step:
        if self.z is None:
            return super().step(system)
        s, n, X = system, system.n, SX.sym("X", system.n)
        f = Frame(s, X, X, self.at, self.own)
        z = f.vector("z", self.z, n)
        f.check(slope=f.matrix("E").T @ z, z=z)
        rows = f.rows(z, f.rate())
        one = scales.Ports(s, f.h, SX(n, 0), SX(n, 0))
        return f.finished([f.block("X", X, rows.residual, scales.spread(one.speed, one.x))], z, rows)
