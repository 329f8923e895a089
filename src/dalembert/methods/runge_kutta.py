"""The Runge-Kutta-like methods of the register: each is an entry that names its scheme (`scheme.py`).

Their step is made by the one residual (`residual.py`). What they can do is computed from the scheme: order, symmetry, symplectic
structure, the levels that hold at the end of a step, and what they need of a system.

Multipliers of a solution are those of the acceleration level at the stored times, unless a scheme reports its own. Power: the
forces of the stages times their velocities, with the weights `b`. Stages of Murua's method are off the constraint, and what
their multipliers do there is just the change of a quadratic energy (Symank 2025, eq. 6.15).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from dalembert.checking import one_of, whole
from dalembert.errors import MethodError
from dalembert.methods import residual, scheme
from dalembert.methods.base import KINDS, Method, register
from dalembert.methods.scheme import Scheme
from dalembert.methods.step import Step
from dalembert.methods.tableaus import lagrange
from dalembert.systems.base import System
from dalembert.systems.needs import Need


class RungeKutta(Method):
    """A method given by its scheme."""

    vectorial: ClassVar[bool] = True
    treats: ClassVar[tuple[str, ...]] = KINDS

    @cached_property
    def scheme(self) -> Scheme:
        """The method as data."""
        raise TypeError(f"{type(self).__name__} has no scheme")

    def scheme_on(self, system: System) -> Scheme:
        """The scheme on a system: the same for all but SPARK methods, which have a tableau for each part of it."""
        return self.scheme

    def step(self, system: System) -> Step:
        own, h = self.scheme_on(system), type(system.t).sym("h")
        # explicit methods keep nothing: they act on velocities, and need no momenta
        return residual.step(system.form(h) if own.implicit else system.rate_form(h), own, h)

    @property
    def order(self) -> tuple[int, int, int]:
        return (self.scheme.order,) * 3

    @property
    def free_order(self) -> int:
        return self.scheme.free_order

    @property
    def symmetric(self) -> bool:
        return self.scheme.symmetric

    @property
    def symplectic(self) -> bool:
        s = self.scheme
        return s.symplectic_on_constraints if s.rows else s.symplectic

    @property
    def alternates(self) -> bool:
        return self.scheme.alternates

    @cached_property
    def exact_levels(self) -> tuple[str, ...]:
        return tuple(level for level in ("position", "velocity") if level in self.scheme.ends)

    @property
    def needs(self) -> frozenset[Need]:
        s = self.scheme
        table = s.table(0)
        stiff = not s.divides and table.stiffly_accurate and len(s.tables) == 1
        found = {
            Need.NO_CONSTRAINTS: not s.rows,
            Need.HOLONOMIC: bool(s.rows) and "nonholonomic" not in s.rows and ("position" in s.rows and not s.stabilised),
            Need.VELOCITIES: len(s.tables) > 1,
            Need.INERTIA: s.divides,
            Need.MOMENTA: not table.stiffly_accurate,
            Need.INDEX_TWO: not stiff,
            Need.BASES: True,
        }
        return frozenset(need for need, wanted in found.items() if wanted)


@dataclass(frozen=True)
class Staged(RungeKutta):
    """A family with a number of stages; its name ends in it."""

    stages: int = 3

    fewest: ClassVar[int] = 1
    index: ClassVar[int] = 2
    build: ClassVar[Callable[[int], Scheme]]

    def __post_init__(self) -> None:
        zero = isinstance(self.stages, int) and self.stages < 1
        if zero or not self.fewest <= whole("stages", self.stages) <= 12:
            raise MethodError(f"{self.name} has {self.fewest} to 12 stages, not {self.stages!r}")

    def __str__(self) -> str:
        return f"{self.name}-{self.stages}"

    @cached_property
    def scheme(self) -> Scheme:
        return type(self).build(int(self.stages))


class _Classical(Staged):
    """One tableau, the constraints at its stages."""

    source: ClassVar[str] = "Hairer, Wanner II, sec. IV.5; Hilden 2009, table 2.1"

    @cached_property
    def scheme(self) -> Scheme:
        return scheme.classical(self.name, int(self.stages))


@register(
    "gauss",
    keeps="symplectic structure, quadratic invariants, power balance of quadratic energies (free systems)",
    source="Hairer, Lubich, Wanner, sec. II.1; Symank 2025, sec. 5.3",
)
class Gauss(_Classical):
    """Gauss collocation: order 2 s on free systems. Keeps: quadratic invariants, the power balance of quadratic energies."""


@register("radau-iia", keeps="velocity constraints; damps stiff motion")
class RadauIIA(_Classical):
    """Radau IIA: order 2 s - 1, velocity constraints at the end of the step."""


@register("lobatto-iiic", fewest=2, keeps="velocity constraints; damps stiff motion")
class LobattoIIIC(_Classical):
    """Lobatto IIIC: order 2 s - 2, velocity constraints at the end of the step."""


@register("lobatto-iiia", fewest=2, keeps="velocity constraints")
class LobattoIIIA(_Classical):
    """Lobatto IIIA: order 2 s - 2, velocity constraints at the end of the step; its multipliers are carried along."""


@register("radau-ia", keeps="nothing exactly; damps stiff motion")
class RadauIA(_Classical):
    """Radau IA: order 2 s - 1 on free systems, s on constrained ones."""


class _Free(Staged):
    """A classical method for free systems and index 1: its stages do not reach the constraints at the end of a step."""

    fewest: ClassVar[int] = 2
    index: ClassVar[int] = 0
    source: ClassVar[str] = "Hairer, Wanner II, sec. IV.5; Hilden 2009, sec. 2.5"

    @cached_property
    def scheme(self) -> Scheme:
        return scheme.free(self.name, int(self.stages))


@register("lobatto-iiib", keeps="symmetry")
class LobattoIIIB(_Free):
    """Lobatto IIIB: order 2 s - 2, symmetric; the partner of IIIA in `lobatto-pair-s`."""


@register("lobatto-iiic*", keeps="nothing exactly")
class LobattoIIICStar(_Free):
    """Lobatto IIIC*: order 2 s - 2, its first stage explicit; the partner of IIIC."""


@register("lobatto-iiid", keeps="symplectic structure, quadratic invariants, symmetry (free systems)")
class LobattoIIID(_Free):
    """Lobatto IIID, the mean of IIIC and IIIC*: order 2 s - 2, symmetric and symplectic."""


@register(
    "lobatto-pair",
    build=scheme.lobatto_pair,
    fewest=2,
    treats=("mechanical", "hamiltonian"),
    index=3,
    keeps="symplectic structure, position and velocity constraints, symmetry",
    source="Jay 1996; Symank 2025, sec. 6.2",
)
class LobattoPair(Staged):
    """Jay's symplectic method for index 3: both constraint levels, any Hamiltonian, any mass matrix.

        Q_i = q0 + h sum_j a_ij H_p(Q_j, P_j),   P_i = p0 - h sum_j ab_ij (H_q(Q_j, P_j) + G(Q_j)^T Lam_j),   g(Q_i) = 0

    with `a` Lobatto IIIA and `ab` Lobatto IIIB. The first stage is the beginning of the step and the last one its end; IIIB
    does not use the rate of the last stage, so that `Lam_s` is free: it makes `G(q1) H_p(q1, p1) = 0`.
    """


@register(
    "rattle",
    treats=("mechanical", "hamiltonian"),
    keeps="symplectic structure, position and velocity constraints",
    source="Andersen 1983; Jay 1996; Symank 2025, sec. 6.2",
)
class Rattle(RungeKutta):
    """RATTLE: symplectic, both constraint levels at round-off, for any Hamiltonian and any mass matrix.

        P  = p0 - h/2 (H_q(q0, P) + G(q0)^T lam - F(q0, P))
        q1 = q0 + h/2 (H_p(q0, P) + H_p(q1, P)),          g(q1) = 0
        p1 = P - h/2 (H_q(q1, P) + G(q1)^T mu - F(q1, P)), G(q1) H_p(q1, p1) = 0.

    It is the Lobatto pair of two stages. `lam` acts at the beginning of the step and `mu` at its end; each is off by O(h), but
    their mean is the multiplier in the middle of the step to second order, and that is what is stored.

    Keeps: both levels of the constraints to round-off; symplectic and symmetric where no forces act, so that the energy does
    not drift.
    """

    @cached_property
    def scheme(self) -> Scheme:
        return scheme.rattle()


@register(
    "shake",
    treats=("mechanical",),
    keeps="position constraints; energy without drift",
    source="Ryckaert, Ciccotti, Berendsen 1977; Symank 2025, sec. 6.2.1",
)
class Shake(RungeKutta):
    """SHAKE: Verlet's method with the position constraints.

    `lam` of a step is defined at its beginning. The velocity at the end of a step uses the multiplier known so far, so that it is
    of second order but off the velocity constraint; the positions are those of the two-step form, and those of RATTLE.

    Keeps: position constraints to round-off; its positions are those of a symplectic method.
    """

    @cached_property
    def scheme(self) -> Scheme:
        return scheme.shake()

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.SMALL_MASS, Need.POSITION_FORCES}


@register(
    "murua",
    build=scheme.murua,
    treats=("mechanical", "hamiltonian", "dae"),
    keeps="velocity constraints, symmetry",
    source="Murua 1997; Symank 2025, sec. 6.3",
)
class Murua(Staged):
    """Murua's method: Gauss collocation with velocity constraints at Lobatto nodes, order 2 s. Keeps: velocity constraints.

    Multipliers of a mechanical solution are those of the acceleration level. With `multipliers="stages"` they are
    `z1 = sum_i gamma_i Z_i`, the polynomial through those of the stages at the end of the step (Symank 2025, def. 6.5). The
    weights in the tables of that source belong to a polynomial through `z0` too, and have the sum `1 - gamma_0 = 1 - (-1)^s`;
    `multipliers="printed"` takes them as the definition prints it, without `gamma_0 z0`: no approximation of a multiplier.
    """

    multipliers: str = "level"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("multipliers", self.multipliers, ("level", "stages", "printed"))

    @cached_property
    def scheme(self) -> Scheme:
        own = scheme.murua(int(self.stages))
        if self.multipliers == "level":
            return own
        through = 1 if self.multipliers == "printed" else 0  # a polynomial through z0 as well
        weights = lagrange(np.append(np.zeros(through), own.tables[0].c), np.ones(1))[0]
        return replace(own, report=(tuple(weights[through:].tolist()), 1.0))


@register(
    "murua-ggl",
    build=partial(scheme.murua, stabilised=True),
    treats=("mechanical", "hamiltonian"),
    keeps="position and velocity constraints, symmetry",
    source="Murua 1997; Gear, Gupta, Leimkuhler 1985; Symank 2025, sec. 6.3.3",
)
class MuruaGGL(Staged):
    """Murua's method on the stabilised form of Gear, Gupta and Leimkuhler. Keeps: position and velocity constraints."""


@register(
    "spark",
    build=scheme.mixed_pair,
    fewest=2,
    treats=("mechanical", "hamiltonian", "dae"),
    keeps="constraints at the end of each step, of both kinds; symmetry (parts 1, 2, 5)",
    source="Jay 2003; Hilden 2009, sec. 2.5",
)
class Spark(Staged):
    """Jay's SPARK methods of the Lobatto family: order 2 s - 2 for any decomposition into the five parts.

    On mechanical and Hamiltonian systems the positions are treated with Lobatto IIIA and the momenta with IIIB: nonholonomic
    constraints hold at the end of each step, holonomic ones at both levels.
    """

    stages: int = 2

    def scheme_on(self, system: System) -> Scheme:
        parts = system.decomposition
        return self.scheme if parts is None else scheme.spark(int(self.stages), parts)

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.PARTS}


@register(
    "spark-iiib-a",
    build=scheme.exchanged_pair,
    fewest=2,
    treats=("mechanical", "hamiltonian", "dae"),
    keeps="velocity constraints of both kinds, symmetry",
    source="McLachlan, Perlmutter 2006; Hilden 2009, sec. 3.3.3",
)
class SparkExchanged(Staged):
    """Lobatto IIIB for the positions and IIIA for the momenta: order 2 s - 2.

    With two stages and a constant mass it is McLachlan and Perlmutter's method. Holonomic constraints are kept at velocity level.
    A DAE of index 2 needs two parts as in mechanics, `to_dae("index2")` say; on other parts the method does not converge.
    Keeps: velocity constraints of both kinds, symmetry.
    """

    stages: int = 2

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.PARTED}


class _Specialized(Staged):
    """Specialized Runge-Kutta methods: moments of the constraint at the stages, and the constraint at the end."""

    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian", "dae")
    source: ClassVar[str] = "Jay 2006; Hilden 2009, sec. 2.6"


@register("srk-gauss", build=partial(scheme.specialized, "gauss"), keeps="constraints at the end of each step, symmetry")
class SRKGauss(_Specialized):
    """Gauss methods that keep their order 2 s on index 2, and the constraint at the end of each step."""


@register("srk-radau-ia", build=partial(scheme.specialized, "radau-ia"), keeps="constraints at the end of each step")
class SRKRadauIA(_Specialized):
    """Radau IA methods that keep their order 2 s - 1 on index 2, and the constraint at the end of each step."""
