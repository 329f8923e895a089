"""Integration of the index-reduced equations: to show what it loses, and what stabilisation gives back.

    rk45, dop853, radau, bdf     SciPy on the acceleration level: positions and velocities drift off the constraints
    baumgarte                    g'' + 2 xi omega g' + omega^2 g = 0 in place of g'' = 0 (Baumgarte 1972)
    projection                   after each step back to the constraints of position and velocity, and of energy if wished
    coordinate-partition         independent coordinates are integrated, dependent ones follow from the constraints

(Bertolazzi, Cocetti, Stocco, chapter 4). A method here is data, a `Reduction`; `engine.reduced` integrates it. The work of forces
is not counted by these methods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from dalembert.checking import one_of, options, positive
from dalembert.errors import MethodError
from dalembert.methods.base import Method, register
from dalembert.methods.explicit import TABLEAUS
from dalembert.methods.tableaus import Tableau
from dalembert.systems.needs import Need

SCIPY = ("RK45", "DOP853", "Radau", "BDF", "LSODA", "RK23")


@dataclass(frozen=True)
class Project:
    """After each step to the nearest values on the constraints, in the norm of the kinetic energy or in that of space."""

    weight: str = "mass"
    velocity: bool = True
    energy: bool = False


@dataclass(frozen=True)
class Partition:
    """Integrate independent coordinates; choose them anew where the quality of the choice falls by the factor `degraded`."""

    degraded: float = 0.5


@dataclass(frozen=True)
class Reduction:
    """How the equations of the acceleration level are integrated: by one of SciPy's integrators or an explicit tableau."""

    integrator: str | Tableau
    rtol: float
    atol: float
    xi: float = 0.0
    omega: float = 0.0
    correction: Project | Partition | None = None


@dataclass(frozen=True)
class Reduced(Method):
    """What these methods have in common: an integrator of ordinary differential equations, and its tolerances."""

    integrator: str = field(default="DOP853", kw_only=True)
    rtol: float = field(default=1e-6, kw_only=True)
    atol: float = field(default=1e-9, kw_only=True)

    external: ClassVar[bool] = True
    treats: ClassVar[tuple[str, ...]] = ("mechanical",)
    symmetric: ClassVar[bool] = False
    exact_levels: ClassVar[tuple[str, ...]] = ()
    index: ClassVar[int] = 3
    order: ClassVar[tuple[int, int, int]] = (0, 0, 0)  # that of the integrator and its tolerances

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.VELOCITIES, Need.MASS, Need.FREE_OF_REACTIONS})

    def __post_init__(self) -> None:
        options(self)
        one_of("integrator", self.integrator, (*SCIPY, *TABLEAUS))
        positive("rtol", self.rtol)
        positive("atol", self.atol)

    def reduction(self, h: float) -> Reduction:
        """What is to be done, for rows at a distance `h`."""
        return self._reduction()

    def _reduction(self, xi: float = 0.0, omega: float = 0.0, correction: Project | Partition | None = None) -> Reduction:
        integrator = TABLEAUS.get(self.integrator, self.integrator)
        return Reduction(integrator, self.rtol, self.atol, xi, omega, correction)


class _Drifting(Reduced):
    """An integrator of SciPy as it is."""

    keeps: ClassVar[str] = "nothing: shows the drift"
    source: ClassVar[str] = "Bertolazzi, Cocetti, Stocco, chapter 4"


@register("rk45")
class RK45(_Drifting):
    """SciPy's RK45 on the acceleration level: shows the drift."""

    integrator: str = "RK45"


@register("dop853")
class DOP853(_Drifting):
    """SciPy's DOP853 on the acceleration level: shows the drift."""

    integrator: str = "DOP853"


@register("radau")
class Radau(_Drifting):
    """SciPy's Radau on the acceleration level: shows the drift."""

    integrator: str = "Radau"


@register("bdf")
class BDF(_Drifting):
    """SciPy's BDF on the acceleration level: shows the drift."""

    integrator: str = "BDF"


@register(
    "baumgarte",
    keeps="constraints to the accuracy of the integration, without drift",
    source="Baumgarte 1972; Bertolazzi, Cocetti, Stocco, sec. 4.2",
)
class Baumgarte(Reduced):
    """Baumgarte's stabilisation: `g'' + 2 xi omega g' + omega^2 g = 0`.

    `omega` is by default `1 / h`: an error of the constraints decays within a few steps, and explicit integrators stay stable.
    """

    xi: float = 1.0
    omega: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("xi", self.xi)
        if self.omega is not None and positive("omega", self.omega) > 1e150:
            raise MethodError(f"omega = {self.omega:g} is too large: its square is not a number")

    def reduction(self, h: float) -> Reduction:
        return self._reduction(self.xi, self.omega or 1 / h)


@register(
    "projection",
    exact_levels=("position", "velocity"),
    keeps="position and velocity constraints; the energy if wished",
    source="Bertolazzi, Cocetti, Stocco, sec. 4.3",
)
class Projection(Reduced):
    """Integrate, then project: positions, then velocities; nearest in the norm of the kinetic energy, or `weight="orthogonal"`.

    `energy=True` also scales the velocities to the energy of the start (no forces, fixed constraints).
    """

    weight: str = "mass"
    velocity: bool = True
    energy: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("weight", self.weight, ("mass", "orthogonal"))

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | ({Need.UNFORCED} if self.energy else set())

    def reduction(self, h: float) -> Reduction:
        return self._reduction(correction=Project(self.weight, self.velocity, self.energy))


@register(
    "coordinate-partition",
    exact_levels=("position", "velocity"),
    keeps="position and velocity constraints",
    source="Wehage, Haug 1982; Bertolazzi, Cocetti, Stocco, sec. 4.4",
)
class CoordinatePartition(Reduced):
    """Independent coordinates, chosen by a pivoted QR of the constraint Jacobian, and chosen anew when the choice degrades."""

    rtol: float = field(default=1e-8, kw_only=True)
    atol: float = field(default=1e-10, kw_only=True)
    degraded: float = 0.5  # smallest singular value of the dependent block, over that of the last choice, at which it changes

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.HOLONOMIC}

    def reduction(self, h: float) -> Reduction:
        return self._reduction(correction=Partition(self.degraded))
