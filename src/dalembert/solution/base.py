"""What every run returns: trajectories, energies and work, dense output, summary, files and pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dalembert.engine.events import Hits
from dalembert.errors import MethodError, suggest
from dalembert.methods.base import Method
from dalembert.systems.base import System

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Sample:
    """The solution between its stored times: `t`, `q`, `v`, and `p` (of an `IndexTwoDAE`: `y` as `q`, `z` as `v`)."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    p: np.ndarray


class Solution(ABC):
    """A trajectory with its system, method and parameters. Nothing is computed before it is asked for.

    There is a subclass for each kind of system; `Solution.of` chooses it.

    Arrays have time first. `lam` has one row a stored step and lives at the times `t_lam` inside the steps; `supplied`,
    `dissipated` and `power_balance` have one row for each interval between stored times.
    """

    kinds: ClassVar[tuple[str, ...]] = ()  # of systems whose runs are solutions of this class
    _classes: ClassVar[dict[str, type[Solution]]] = {}

    def __init_subclass__(cls) -> None:
        for kind in cls.kinds:
            Solution._classes[kind] = cls

    def __init__(
        self,
        system: System,
        method: Method,
        par: np.ndarray,
        t: np.ndarray,
        q: np.ndarray,
        second: np.ndarray,
        lam: np.ndarray,
        t_lam: np.ndarray,
        work: np.ndarray,
        u: np.ndarray,
        step: float,
        stats: dict[str, Any],
    ) -> None:
        self.system, self.method, self.step, self.stats = system, method, step, stats
        self._par, self.t, self.q, self._second = par, t, q, second
        self._lam, self.t_lam, self._work, self.u = lam, t_lam, work, u
        self.events: dict[str, Hits] = {}  # crossings by the name of their event
        self.inputs: Any = None  # the inputs as a function of time, where they are still at hand

    @staticmethod
    def of(system: System, *values: Any) -> Solution:
        """A solution of the class that belongs to the kind of the system."""
        return Solution._classes[system.kind](system, *values)

    @staticmethod
    def of_run(
        system: System, method: Method, par: np.ndarray, run: Any, start: np.ndarray, program: Any, inputs: Any
    ) -> Solution:
        """From what the engine recorded; rows that were not reached are left out."""
        grid, n = run.grid, run.rows
        states = np.vstack([start, run.records.state[:n]])
        t = np.concatenate([[grid.t0], run.times()])
        self = Solution.of(
            system, method, par, t,
            states[:, program.fields["q"]], states[:, program.fields[system.momenta]],
            run.records.lam[:n], run.nodes(program.step.node), run.records.work[:n],
            inputs(t) if system.nu else np.zeros((len(t), 0)), grid.h, {**run.stats, "save_every": grid.save_every},
        )  # fmt: skip
        self.inputs = inputs
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "inputs": None}  # functions of the user's, which cannot be written

    # ---- motion -----------------------------------------------------------------------------------------

    def _numeric(self, role: str, **more: Any) -> np.ndarray:
        return self.system.numeric(role, self._par, **{**self._at, **more})

    @property
    def _at(self) -> dict[str, Any]:
        at = {"q": self.q, "t": self.t, self.system.momenta: self._second}
        if self.system.nu:
            at["u"] = self.u
        return at

    def _discrete(self, which: int) -> np.ndarray:
        raise MethodError("discrete outputs and costates belong to discrete-gradient, gradient-pair and ddr on a PortHamiltonian")

    @property
    def outputs(self) -> np.ndarray:
        """Outputs of each step of a discrete gradient method, `H1 - H0 = h (y . u - dissipated)`; they live at `t_lam`."""
        return self._discrete(0)

    @property
    def port_inputs(self) -> np.ndarray:
        """Inputs of each step of a discrete gradient method, feedback included; they live at `t_lam`."""
        return self._discrete(1)

    @property
    def costates(self) -> np.ndarray:
        """Costates of each step of a discrete gradient method; they live at `t_lam`."""
        return self._discrete(2)

    def _none(self, what: str) -> MethodError:
        return MethodError(f"a {self.system.kind} system has no {what} of its own")

    @property
    def v(self) -> np.ndarray:
        """Velocities."""
        raise self._none("velocity")

    @property
    def p(self) -> np.ndarray:
        """Momenta, `M(q) v` for a mechanical system."""
        raise self._none("momentum")

    @property
    def z(self) -> np.ndarray:
        """The algebraic variables of an `IndexTwoDAE`; the costates at the stored times of a `PortHamiltonian`."""
        raise MethodError("z belongs to an IndexTwoDAE; the multipliers of this system are lam")

    @property
    def y(self) -> np.ndarray:
        """Outputs collocated with the inputs, `B(q)^T v` or `(B + P)^T z + (S - N) u`; `y` of an `IndexTwoDAE`."""
        return np.zeros((len(self.t), 0))

    @property
    def lam(self) -> np.ndarray:
        """Multipliers at the times `t_lam`: those of the method, or of the acceleration level where it stores none."""
        return self._lam

    @property
    def x(self) -> np.ndarray:
        """The whole state, `(q, v)` or `(q, p)`."""
        return np.hstack([self.q, self._second])

    @property
    @abstractmethod
    def _slopes(self) -> np.ndarray:
        """`q'` at the stored times."""

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Values of the parameters in this run."""
        return self.system.unpack(self._par)

    # ---- energy -----------------------------------------------------------------------------------------

    @property
    def kinetic(self) -> np.ndarray:
        """Kinetic energy."""
        raise self._none("kinetic energy")

    @property
    def potential(self) -> np.ndarray:
        """Potential energy."""
        raise self._none("potential energy")

    @cached_property
    def energy(self) -> np.ndarray:
        """Total energy."""
        return self._numeric("energy")[:, 0]

    @property
    def supplied(self) -> np.ndarray:
        """Work done on the system in each interval by forces, inputs and moving constraints, as the method counts it."""
        return self._work[:, 0]

    @property
    def dissipated(self) -> np.ndarray:
        """Energy dissipated in each interval, as the method counts it."""
        return self._work[:, 1]

    @property
    def driven(self) -> bool:
        """Whether energy comes in or goes out: forces, inputs, dissipation, or a dependence on time."""
        return True

    @cached_property
    def power_balance(self) -> np.ndarray:
        """`H1 - H0 - supplied + dissipated` in each interval: zero to round-off for an energy-consistent method."""
        return np.asarray(np.diff(self.energy) - self.supplied + self.dissipated)

    def ledger(self) -> dict[str, np.ndarray]:
        """Where the energy went in each stored interval: stored, dissipated, and supplied at each port.

        For discrete gradient methods with `save_every=1` the ports add up to `supplied`, and stored = supplied - dissipated, to
        round-off.
        """
        return {"stored": np.diff(self.energy), "supplied": self.supplied, "dissipated": self.dissipated}

    # ---- constraints and momenta ------------------------------------------------------------------------

    def residual(self, level: str = "position") -> np.ndarray:
        """Constraint residuals, one column a constraint.

        `"position"`: `g(q, t)`; `"velocity"`: `G v + g_t`; `"acceleration"`: `G v' + (G v)_q v + 2 G_t v + g_tt` with the
        acceleration of the stored multipliers (at `t_lam`).
        """
        levels = {"position": self._position, "velocity": self._velocity, "acceleration": self._acceleration}
        if not isinstance(level, str) or level not in levels:
            raise MethodError(f"there is no constraint level {level!r}{suggest(str(level), levels)}")
        return levels[level]()

    def _position(self) -> np.ndarray:
        return np.zeros((len(self.t), 0))

    def _velocity(self) -> np.ndarray:
        return np.zeros((len(self.t), 0))

    def _acceleration(self) -> np.ndarray:
        return np.zeros((len(self.t), 0))

    def momentum(self, name: str, dimension: int | None = None) -> np.ndarray:
        """Total `"linear"` or `"angular"` momentum (about the origin) of a system of particles.

        Coordinates are those of particles one after another, in `dimension` dimensions (that of the system by default).
        """
        raise self._none("momentum")

    # ---- between the stored times -----------------------------------------------------------------------

    def at(self, t: Any, how: str = "polynomial") -> Sample:
        """The solution at any times of the run.

        `"polynomial"`: the cubic through positions and velocities of each step, of fourth order in `q` and third in `v`. For
        collocation methods with s >= 3 stages (gauss, radau-iia, lobatto-iiia, murua) the polynomial of the stages and both
        ends, of order s + 2 in `q` (lobatto-iiia: s + 1) and s + 1 in `v`.

        `"step"`: a step of the method itself from the last time before, shortened to end there: of the method's own order, and
        on the constraints that it keeps, to round-off.
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
        from dalembert import dense

        q, second = dense.between(self, times, how)
        v, p = self._halves(times, q, second)
        shape = np.shape(t)
        return Sample(*(a.reshape(shape + a.shape[1:]) for a in (times, q, v, p)))

    def _halves(self, t: np.ndarray, q: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Velocities and momenta for given second halves of the state."""
        return second, second

    # ---- summary, files, pictures -----------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Solution of {self.system.name!r} by {self.method}: {self.stats.get('steps', 0)} steps to t = {self.t[-1]:g}>"

    def __str__(self) -> str:
        stats = self.stats
        setup = stats.get("setup_seconds", 0.0) + stats.get("compile_seconds", 0.0)
        rows = [
            ("steps", f"{stats['steps']}, {len(self.t)} times kept"),
            ("Newton iterations", f"{stats['iterations']} ({stats['iterations_per_step']:.2f} a step)"),
            *self._summary(),
            ("time", f"{stats['seconds']:.3g} s ({stats['engine']}), set-up {setup:.2g} s"),
        ]
        wide = max(20, *(len(name) for name, _ in rows))
        steps = f"step {self.step:g}" if "rejected" not in stats else f"steps {np.diff(self.t).min(initial=np.inf):.2g} and more"
        head = f"{self.system.name} by {self.method}, t = {self.t[0]:g} .. {self.t[-1]:g}, {steps}"
        return "\n".join([head, *(f"  {name:<{wide}}  {value}" for name, value in rows)])

    @abstractmethod
    def _summary(self) -> list[tuple[str, str]]:
        """What this kind of solution has to say."""

    def _balance_row(self, scale: float) -> tuple[str, str]:
        worst = largest(self.power_balance) / scale
        return "power balance", f"{worst:.1e} of the largest energy ({scale:.4g}), worst interval"

    def to_xarray(self) -> xarray.Dataset:
        """The trajectory as an `xarray.Dataset` with named coordinates."""
        import xarray as xr

        data: dict[str, Any] = {"q": (("time", "coordinate"), self.q)}
        coords: dict[str, Any] = {"time": self.t, "coordinate": list(self.system.coordinates), "time_lam": self.t_lam}
        data |= {"supplied": ("interval", self.supplied), "dissipated": ("interval", self.dissipated)}
        if self.system.nu:
            data["u"] = (("time", "input"), self.u)
        self._variables(data, coords)
        return xr.Dataset(data, coords, {"system": self.system.name, "method": str(self.method), "step": self.step})

    @abstractmethod
    def _variables(self, data: dict[str, Any], coords: dict[str, Any]) -> None:
        """Add what this kind of solution has beside the common variables."""

    def save(self, path: str | Path) -> Path:
        """Write to a NetCDF file, the system's functions included; `da.load` reads it without the model's source."""
        from dalembert.solution.files import write

        return write(self, path)

    def report(self, path: str | Path) -> Path:
        """One HTML file that opens offline: summary, interactive figures, and an animation linked to them."""
        from dalembert.reporting import report

        return report(self, path)

    def animate(self, path: str | Path, *, fps: int = 30, seconds: float | None = None) -> Path:
        """The motion as an animation, `.gif` or `.mp4`."""
        from dalembert.reporting import animate

        return animate(self, path, fps=fps, seconds=seconds)

    def plot(self, path: str | Path | None = None, *, dpi: float | None = None) -> Any:
        """Motion, energy and constraints in one matplotlib figure; written to `path` where one is given."""
        from dalembert.plotting import figure_path, overview, save

        path = None if path is None else figure_path(path)
        figure = overview(self)
        if path is not None:
            save(figure, path, **({} if dpi is None else {"dpi": dpi}))
        return figure


def largest(values: np.ndarray) -> float:
    """The largest size of an entry."""
    return float(np.abs(values).max()) if values.size else 0.0
