"""What every run returns: trajectories, energies and work, dense output, summary, files and pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.engine.case import Case
from dalembert.engine.controllers import Samples
from dalembert.engine.events import Hits
from dalembert.engine.inputs import Inputs, Linear
from dalembert.engine.run import Layout, Run
from dalembert.errors import MethodError, UnknownQuantity, suggest, suggesting
from dalembert.methods.base import Method
from dalembert.named import Named
from dalembert.solution import dense
from dalembert.solution.names import Columns, coordinate_units, of, several, single, unit
from dalembert.solution.shown import Shown
from dalembert.solution.tabular import Tabular, Variables
from dalembert.systems.base import System

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sample(Named):
    """The solution between its stored times: `t`, and the motion by the names of its parts.

    `lam` are the multipliers of the acceleration level at this motion, computed when asked for.
    """

    t: Array
    values: Mapping[str, Array]
    multipliers: Callable[[], Array] | None = None

    @property
    def lam(self) -> Array:
        """Multipliers."""
        return self.named("lam") if self.multipliers is None else self.multipliers()


class Solution(Shown, Tabular, ABC):
    """A trajectory with its system, method and parameters. Nothing is computed before it is asked for.

    There is a subclass for each kind of system; `Solution.of` chooses it. `parts` holds the state by name: `q` and `v`, `q` and
    `p`, `y` and `z`, or `x`.

    Arrays have time first. `lam` has one row a stored step and is defined at the times `t_lam` inside the steps; `supplied`,
    `dissipated` and `power_balance` have one row for each interval between stored times.
    """

    of_systems: ClassVar[tuple[type[System], ...]] = ()  # whose runs are solutions of this class
    _classes: ClassVar[list[type[Solution]]] = []

    def __init_subclass__(cls) -> None:
        Solution._classes.append(cls)

    def __init__(
        self,
        system: System,
        method: Method,
        par: Array,
        t: Array,
        parts: Mapping[str, Array],
        *,
        lam: Array,
        t_lam: Array,
        work: Array,
        u: Array,
        step: float,
        stats: dict[str, Any],
    ) -> None:
        self.system, self.method, self.step, self.stats = system, method, step, stats
        self._par, self.t, self.parts = par, t, dict(parts)
        self._lam, self.t_lam, self._work, self.u = lam, t_lam, work, u
        self.events: dict[str, Hits] = {}  # crossings by the name of their event
        self.samples: dict[str, Samples] = {}  # those of controllers, by the names of their inputs
        self.inputs: Inputs = Linear(t, u)  # as functions of time; in a file are the rows only

    @staticmethod
    def of(system: System) -> type[Solution]:
        """The class of the solutions of a system: of those that fit, the one that was defined last knows most of it."""
        return _class_of(type(system), len(Solution._classes))

    @staticmethod
    def of_run(case: Case, run: Run, start: Array, layout: Layout) -> Solution:
        """From what the engine recorded; rows that were not reached are left out."""
        grid, n, system = run.grid, run.rows, case.system
        t, states = run.table(start)
        self = Solution.of(system)(
            system, case.method, case.par, t, {name: states[:, layout.fields[name]] for name in system.state},
            lam=run.records.lam[:n], t_lam=run.nodes(layout.step.node), work=run.records.work[:n],
            u=case.inputs_at(t)[0], step=grid.h,
            stats={**run.stats, "save_every": grid.save_every},
        )  # fmt: skip
        self.inputs = case.inputs
        return self

    def remark(self) -> str:
        """What a user should know of the run as a whole; empty where there is nothing."""
        return ""

    def __getstate__(self) -> dict[str, Any]:
        # a function of the user's cannot be written
        return {**self.__dict__, "inputs": self.inputs if self.inputs.plain else Linear(self.t, self.u)}

    @property
    def arcs(self) -> tuple[Solution, ...]:
        """The parts between the jumps of a run whose events act; this very solution, where there are none."""
        return (self,)

    # ---- motion -----------------------------------------------------------------------------------------

    def _numeric(self, role: str, **more: Array) -> Array:
        return self.system.numeric(role, self._par, **{**self._at, **more})

    @property
    def _at(self) -> dict[str, Array]:
        """The arguments of the system's functions along the run."""
        return {**self.parts, "t": self.t, **({"u": self.u} if self.system.nu else {})}

    def _discrete(self, which: int) -> Array:
        raise MethodError("discrete outputs and costates belong to discrete-gradient, gradient-pair and ddr on a PortHamiltonian")

    @property
    def outputs(self) -> Array:
        """Outputs of each step of a discrete gradient method, `H1 - H0 = h (y . u - dissipated)`; defined at `t_lam`."""
        return self._discrete(0)

    @property
    def port_inputs(self) -> Array:
        """Inputs of each step of a discrete gradient method, feedback included; defined at `t_lam`."""
        return self._discrete(1)

    @property
    def costates(self) -> Array:
        """Costates of each step of a discrete gradient method; defined at `t_lam`."""
        return self._discrete(2)

    def _none(self, what: str) -> UnknownQuantity:
        return UnknownQuantity(
            f"a {self.system.kind} system has no {what} of its own; its state is {' and '.join(self.system.state)}"
        )

    @property
    def q(self) -> Array:
        """Positions."""
        raise self._none("position")

    @property
    def v(self) -> Array:
        """Velocities."""
        raise self._none("velocity")

    @property
    def p(self) -> Array:
        """Momenta, `M(q) v` for a mechanical system."""
        raise self._none("momentum")

    @property
    def z(self) -> Array:
        """The algebraic variables of a semi-explicit system; the costates at the stored times of a `PortHamiltonian`."""
        raise self._none("algebraic variable")

    @property
    def y(self) -> Array:
        """Outputs collocated with the inputs, `B(q)^T v` or `(B + P)^T z + (S - N) u`; `y` of a semi-explicit system."""
        return np.zeros((len(self.t), 0))

    @property
    def lam(self) -> Array:
        """Multipliers at the times `t_lam`: those of the method, or of the acceleration level where it stores none."""
        return self._lam

    @property
    def x(self) -> Array:
        """The whole state: `(q, v)`, `(q, p)`, `(y, z)`, or `x` of a `PortHamiltonian`."""
        return np.hstack(list(self.parts.values()))

    def slopes(self, q: Array, v: Array) -> Array:
        """The rates `q'` of positions, one row each."""
        raise self._none("velocity")

    def inputs_at(self, times: Array) -> Array:
        """The inputs at times of the run: where they jump, what they were up to then, as in all rows but the first."""
        if len(self.t) == 1 or not self.system.nu:
            return self.inputs(times)
        k = np.clip(np.searchsorted(self.t, times, side="left") - 1, 0, len(self.t) - 2)
        return self.inputs.within(times, self.t[k], self.t[k + 1])

    @property
    def motion(self) -> Array:
        """The coordinates: the first part of the state."""
        return self.parts[self.system.state[0]]

    @property
    def points(self) -> Array:
        """The points of the system's picture along the run."""
        return self._numeric("points")

    @property
    def parameters(self) -> dict[str, Array]:
        """Values of the parameters in this run."""
        return self.system.unpack(self._par)

    # ---- energy -----------------------------------------------------------------------------------------

    @property
    def kinetic(self) -> Array:
        """Kinetic energy."""
        raise self._none("kinetic energy")

    @property
    def potential(self) -> Array:
        """Potential energy."""
        raise self._none("potential energy")

    def energies(self) -> dict[str, Array]:
        """The energies that this kind of system has, the total last."""
        return {"total": self.energy}

    @cached_property
    def energy(self) -> Array:
        """Total energy."""
        return self._numeric("energy")[:, 0]

    @property
    def supplied(self) -> Array:
        """Work done on the system in each interval by forces, inputs and moving constraints, as the method counts it."""
        return self._work[:, 0]

    @property
    def dissipated(self) -> Array:
        """Energy dissipated in each interval, as the method counts it."""
        return self._work[:, 1]

    @property
    def driven(self) -> bool:
        """Whether energy comes in or goes out: forces, inputs, dissipation, or a dependence on time."""
        return True

    @cached_property
    def power_balance(self) -> Array:
        """`H1 - H0 - supplied + dissipated` in each interval: zero to round-off for an energy-consistent method."""
        return np.asarray(np.diff(self.energy) - self.supplied + self.dissipated)

    def ledger(self) -> dict[str, Array]:
        """Where the energy went in each stored interval: stored, dissipated, and supplied at each port.

        For discrete gradient methods with `save_every=1` the ports add up to `supplied`, and stored = supplied - dissipated, to
        round-off.
        """
        return {"stored": np.diff(self.energy), "supplied": self.supplied, "dissipated": self.dissipated}

    # ---- constraints and momenta ------------------------------------------------------------------------

    @suggesting
    def residual(self, level: str = "position") -> Array:
        """Constraint residuals, one column a constraint.

        `"position"`: `g(q, t)`; `"velocity"`: `G v + g_t`; `"acceleration"`: `G v' + (G v)_q v + 2 G_t v + g_tt` with the
        acceleration of the stored multipliers (at `t_lam`).
        """
        levels = {"position": self._position, "velocity": self._velocity, "acceleration": self._acceleration}
        if not isinstance(level, str) or level not in levels:
            raise MethodError(f"there is no constraint level {level!r}{suggest(str(level), levels)}")
        return levels[level]()

    def _position(self) -> Array:
        return np.zeros((len(self.t), 0))

    def _velocity(self) -> Array:
        return np.zeros((len(self.t), 0))

    def _acceleration(self) -> Array:
        return np.zeros((len(self.t), 0))

    @suggesting
    def momentum(self, name: str, dimension: int | None = None) -> Array:
        """Total `"linear"` or `"angular"` momentum (about the origin) of a system of particles.

        Coordinates are those of particles one after another, in `dimension` dimensions (that of the system by default).
        """
        raise self._none("momentum")

    # ---- between the stored times -----------------------------------------------------------------------

    @suggesting
    def at(self, t: ArrayLike, how: str = "polynomial") -> Sample:
        """The solution at any times of the run, of the order of the method in all its parts.

        `"polynomial"`: through both ends of a step and, for methods of order p above three or states beside `q` and `v`, through
        p - 1 states inside, each by a shortened step of the method. The number of times in a step costs next to nothing.

        `"step"`: by a step of the method itself from the last time before, shortened to end there: also on the constraints that
        it keeps, to round-off.

        Methods that use SciPy's integrators go on from the row before with their tolerances, whatever is asked for. A solution
        that was read from a file, or pickled after a run with a function `u(t)`, has its inputs at its rows only and
        interpolates them linearly: it is of second order then. Where inputs jump, the value is that before the jump.
        """
        if how not in ("polynomial", "step"):
            raise MethodError(f"how must be 'polynomial' or 'step', not {how!r}")
        try:
            times = np.asarray(t, dtype=float).ravel()
        except (TypeError, ValueError) as error:
            raise MethodError(f"at() takes a time or an array of times, not {t!r}") from error
        low, high = self.t[0], self.t[-1]
        slack = 1e-12 * max(1.0, abs(high))
        if not ((times >= low - slack) & (times <= high + slack)).all():
            raise MethodError(f"the solution reaches from t = {low:g} to {high:g}; {np.asarray(t)} is asked for")
        times = np.clip(times, low, high)
        parts = dense.between(self, times, how)
        values = {"t": times, **self.system.completed(parts, times, self._par)}
        shaped = {name: a.reshape(np.shape(t) + a.shape[1:]) for name, a in values.items()}
        return Sample(shaped.pop("t"), shaped, self._multipliers_of(values, np.shape(t)))

    def _multipliers_of(self, values: Mapping[str, Array], shape: tuple[int, ...]) -> Callable[[], Array] | None:
        """How the multipliers of a motion are found, where there are any."""
        return None

    # ---- summary, files, pictures -----------------------------------------------------------------------

    @abstractmethod
    def _summary(self) -> list[tuple[str, str]]:
        """Rows of the printed summary."""

    def _balance_row(self, scale: float) -> tuple[str, str]:
        worst = largest(self.power_balance) / scale
        return "power balance", f"{worst:.1e} of the largest energy ({scale:.4g}), worst interval"

    def _columns(self) -> Columns:
        """The variables that can be asked for by name; kinds of solutions add theirs."""
        system, t = self.system, self.t
        ports = len(system.ports) == system.nu and "y" not in system.state
        outputs = of("y", system.ports) if ports and self.y.shape[1] == system.nu else []
        return {
            **several(list(system.coordinates), lambda: self.motion, t, coordinate_units(system)),
            **several(of("u", system.ports), lambda: self.u, t),
            **several(outputs, lambda: self.y, t),
            **(self._energy_columns() if system.has_energy else {}),
        }

    def _energy_columns(self) -> Columns:
        unit_ = unit(self.system, "energy")
        return {
            **single("energy", lambda: self.energy, self.t, unit_),
            **single("supplied", lambda: self.supplied, self.t[1:], unit_),
            **single("dissipated", lambda: self.dissipated, self.t[1:], unit_),
        }

    @abstractmethod
    def _variables(self, data: Variables, coords: Variables) -> None:
        """Add what this kind of solution has beside the common variables."""


@lru_cache
def _class_of(kind: type[System], among: int) -> type[Solution]:
    """The class of solutions of a kind of systems, among so many."""
    return next(c for c in reversed(Solution._classes[:among]) if issubclass(kind, c.of_systems))


def largest(values: Array) -> float:
    """The largest size of an entry."""
    return float(np.abs(values).max()) if values.size else 0.0
