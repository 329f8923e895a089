"""What a run returns: trajectories, and everything that can be asked about them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.engine.events import Hits
from dalembert.errors import MethodError, ModelError, suggest
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


class Solution:
    """A trajectory with its system, method and parameters. Nothing is computed before it is asked for.

    Arrays have time first. `lam` has one row a stored step and lives at the times `t_lam` inside the steps; `supplied`,
    `dissipated` and `power_balance` have one row for each interval between stored times.
    """

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

    @classmethod
    def of_run(
        cls, system: System, method: Method, par: np.ndarray, run: Any, start: np.ndarray, program: Any, inputs: Any
    ) -> Solution:
        """From what the engine recorded; rows that were not reached are left out."""
        grid, n = run.grid, run.rows
        states = np.vstack([start, run.records.state[:n]])
        t = np.concatenate([[grid.t0], run.times()])
        self = cls(
            system, method, par, t,
            states[:, program.fields["q"]], states[:, program.fields[system.momenta]],
            run.records.lam[:n], run.nodes(program.step.node), run.records.work[:n],
            inputs(t) if system.nu else np.zeros((len(t), 0)), grid.h, {**run.stats, "save_every": grid.save_every},
        )  # fmt: skip
        self.inputs = inputs
        return self

    # ---- motion -----------------------------------------------------------------------------------------

    def _numeric(self, role: str, **more: Any) -> np.ndarray:
        missing: dict[str, tuple[str, ...]] = {"port-hamiltonian": ("kinetic", "potential", "momentum", "velocity")}
        missing["dae"] = (*missing["port-hamiltonian"], "energy")
        if role in missing.get(self.system.kind, ()):
            raise MethodError(f"a {self.system.kind} system has no {role} of its own")
        return self.system.numeric(role, self._par, **{**self._at, **more})

    @property
    def _at(self) -> dict[str, Any]:
        at = {"q": self.q, "t": self.t, self.system.momenta: self._second}
        if self.system.nu:
            at["u"] = self.u
        return at

    @cached_property
    def v(self) -> np.ndarray:
        """Velocities."""
        return self._second if self.system.momenta == "v" else self._numeric("velocity")

    @cached_property
    def _slopes(self) -> np.ndarray:
        """`q'` at the stored times."""
        if self.system.kind == "dae":
            return self._numeric("rhs")
        if self.system.kind == "port-hamiltonian":
            return np.asarray(np.gradient(self.q, self.t, axis=0, edge_order=2 if len(self.t) > 2 else 1))
        if not self.system.has("kinematics"):
            return self.v
        Z = self._numeric("kinematics").reshape(len(self.t), self.system.n, -1)
        return np.asarray(np.einsum("tij,tj->ti", Z, self.v))

    @cached_property
    def p(self) -> np.ndarray:
        """Momenta, `M(q) v` for a mechanical system."""
        return self._second if self.system.momenta == "p" else self._numeric("momentum")

    @cached_property
    def lam(self) -> np.ndarray:
        """Multipliers at the times `t_lam`: those of the method, or of the acceleration level where it stores none."""
        if self._lam.shape[1] or not self.system.m:
            return self._lam
        if self.system.kind == "dae":
            return self._second[len(self.t) - len(self.t_lam) :]
        from dalembert.engine.initial import multipliers

        rows = slice(len(self.t) - len(self.t_lam), None)
        at = {k: a[rows] for k, a in self._at.items()} | {"v": self.v[rows]}
        one = [{k: a[i] for k, a in at.items()} for i in range(len(self.t_lam))]
        return np.array([multipliers(self.system, a, self._par, a.get("u")) for a in one]).reshape(-1, self.system.m)

    @property
    def x(self) -> np.ndarray:
        """The whole state, `(q, v)` or `(q, p)`."""
        return np.hstack([self.q, self._second])

    @cached_property
    def y(self) -> np.ndarray:
        """Outputs collocated with the inputs, `B(q)^T v` or `(B + P)^T z + (S - N) u`; `y` of an `IndexTwoDAE`."""
        if self.system.kind == "dae":
            return self.q
        if self.system.kind == "port-hamiltonian":
            return self._numeric("output")
        if not self.system.has("inputs"):
            return np.zeros((len(self.t), 0))
        B = self._numeric("inputs").reshape(len(self.t), self.system.nv, -1)
        return np.asarray(np.einsum("tij,ti->tj", B, self.v))

    def _discrete(self, which: int) -> np.ndarray:
        """Outputs, inputs and costates as a discrete gradient method has them in each step, at the times `t_lam`."""
        s = self.system
        if s.kind != "port-hamiltonian" or not self._lam.shape[1]:
            raise MethodError(
                "discrete outputs and costates belong to discrete-gradient, gradient-pair and ddr on a PortHamiltonian"
            )
        return np.split(self._lam, [s.nu, 2 * s.nu], axis=1)[which]

    @property
    def outputs(self) -> np.ndarray:
        """Outputs of each step, `y` with `H1 - H0 = h (y . u - dissipated)`; they live at `t_lam`."""
        return self._discrete(0)

    @property
    def port_inputs(self) -> np.ndarray:
        """Inputs of each step, feedback included; they live at `t_lam`."""
        return self._discrete(1)

    @property
    def costates(self) -> np.ndarray:
        """Costates of each step; they live at `t_lam`."""
        return self._discrete(2)

    def ledger(self) -> dict[str, np.ndarray]:
        """Where the energy went in each stored interval: stored, dissipated, and supplied at each port.

        For discrete gradient methods with `save_every=1` the ports add up to `supplied`, and stored = supplied - dissipated, to
        round-off.
        """
        book = {"stored": np.diff(self.energy), "supplied": self.supplied, "dissipated": self.dissipated}
        if self.system.kind == "port-hamiltonian" and self._lam.shape[1] and self.stats.get("save_every", 1) == 1:
            power = self.outputs * self.port_inputs * np.diff(self.t)[:, None]
            book |= {f"port {name}": power[:, i] for i, name in enumerate(self.system.ports)}  # type: ignore[attr-defined]
        return book

    @property
    def z(self) -> np.ndarray:
        """The algebraic variables of an `IndexTwoDAE`; the costates at the stored times of a `PortHamiltonian`."""
        if self.system.kind == "port-hamiltonian":
            return self._numeric("z")
        if self.system.kind != "dae":
            raise MethodError("z belongs to an IndexTwoDAE; the multipliers of this system are lam")
        return self._second

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Values of the parameters in this run."""
        return self.system.unpack(self._par)

    # ---- energy -----------------------------------------------------------------------------------------

    @cached_property
    def kinetic(self) -> np.ndarray:
        """Kinetic energy."""
        return self._numeric("kinetic")[:, 0]

    @cached_property
    def potential(self) -> np.ndarray:
        """Potential energy."""
        return self._numeric("potential")[:, 0]

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
        s = self.system
        if s.kind == "port-hamiltonian":
            return True
        named = s.has("force") or s.nu or s.has("dissipation") or s.depends("potential", "t") or s.depends("hamiltonian", "t")
        return bool(named or s.moving)

    @cached_property
    def power_balance(self) -> np.ndarray:
        """`H1 - H0 - supplied + dissipated` in each interval: zero to round-off for an energy-consistent method."""
        return np.asarray(np.diff(self.energy) - self.supplied + self.dissipated)

    # ---- constraints and momenta ------------------------------------------------------------------------

    def residual(self, level: str = "position") -> np.ndarray:
        """Constraint residuals, one column a constraint.

        `"position"`: `g(q, t)`; `"velocity"`: `G v + g_t`; `"acceleration"`: `G v' + (G v)_q v + 2 G_t v + g_tt` with the
        acceleration of the stored multipliers (at `t_lam`).
        """
        levels = {"position": self._position, "velocity": self._velocity, "acceleration": self._acceleration}
        if not isinstance(level, str) or level not in levels:
            raise MethodError(f"there is no constraint level {level!r}{suggest(str(level), levels)}")
        if self.system.kind == "port-hamiltonian" and self.system.has("constraint"):
            if level == "position":
                return self._numeric("constraint")
            if level == "velocity":
                return self._numeric("constraint_rate")
        if not self.system.m:
            return np.zeros((len(self.t), 0))
        return levels[level]()

    def _position(self) -> np.ndarray:
        return self._numeric("holonomic") if self.system.mh else np.zeros((len(self.t), 0))

    def _velocity(self) -> np.ndarray:
        return self._numeric("drift", v=self.v)

    def _acceleration(self) -> np.ndarray:
        from dalembert.engine.initial import _accelerations

        sample = self.at(self.t_lam)
        u = np.array([np.interp(self.t_lam, self.t, column) for column in self.u.T]).T if self.system.nu else None
        f = _accelerations(self.system)
        rows = []
        for k, t in enumerate(self.t_lam):
            arguments = [sample.q[k], sample.v[k], sample.p[k], t, np.zeros(0) if u is None else u[k], self._par]
            A, F, C, d = (np.array(x.full()) for x in f(*arguments))
            G = self.system.numeric("jacobian", self._par, q=sample.q[k], t=t).reshape(self.system.m, -1)
            a = np.linalg.solve(A, F[:, 0] - G.T @ self.lam[k])
            rows.append(C @ a - d[:, 0])
        return np.array(rows).reshape(-1, self.system.m)

    def momentum(self, name: str, dimension: int | None = None) -> np.ndarray:
        """Total `"linear"` or `"angular"` momentum (about the origin) of a system of particles.

        Coordinates are those of particles one after another, in `dimension` dimensions (that of the system by default).
        """
        if name not in ("linear", "angular"):
            raise MethodError(f"there is no momentum {name!r}{suggest(str(name), ['linear', 'angular'])}")
        if dimension not in (None, 1, 2, 3):
            raise MethodError(f"dimension must be 1, 2 or 3, not {dimension!r}")
        d = dimension or self.system.dimension or self._guess_dimension()
        if self.system.n % d:
            raise ModelError(f"{self.system.n} coordinates cannot be particles in {d} dimensions")
        q, p = (a.reshape(len(self.t), -1, d) for a in (self.q, self.p))
        if name == "linear":
            return np.asarray(p.sum(axis=1))
        if d == 1:
            raise ModelError("particles on a line have no angular momentum")
        if d == 2:
            return np.asarray((q[..., 0] * p[..., 1] - q[..., 1] * p[..., 0]).sum(axis=1))
        return np.asarray(np.cross(q, p).sum(axis=1))

    def _guess_dimension(self) -> int:
        """The dimension in which energy and constraints are invariant under rotations, if there is just one."""
        able = [d for d in (2, 3) if self.system.n % d == 0]
        fits = [d for d in able if self._rotates(d)]
        choice = fits or able
        if len(choice) != 1:
            raise ModelError(
                f"the dimension of the particles of {self.system.name!r} is not known: say momentum(name, dimension=2 or 3), "
                "or dimension=... when making the system"
            )
        return choice[0]

    def _rotates(self, d: int) -> bool:
        angle = 0.3
        rotation = np.eye(d)
        rotation[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        roles = ("energy", "holonomic") if self.system.mh else ("energy",)
        turned = {k: (np.reshape(self._at[k][0], (-1, d)) @ rotation.T).ravel() for k in ("q", self.system.momenta)}
        for role in roles:
            a = self.system.numeric(role, self._par, **{k: self._at[k][0] for k in turned}, t=self.t[0])
            b = self.system.numeric(role, self._par, **turned, t=self.t[0])
            if np.abs(a - b).max() > 1e-9 * (1 + np.abs(a).max()):
                return False
        return True

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
        if self.system.kind in ("dae", "port-hamiltonian"):
            v = p = second
        elif self.system.momenta == "v":
            v, p = second, self.system.numeric("momentum", self._par, q=q, v=second)
        else:
            v, p = self.system.numeric("velocity", self._par, q=q, p=second, t=times), second
        shape = np.shape(t)
        return Sample(*(a.reshape(shape + a.shape[1:]) for a in (times, q, v, p)))

    # ---- summary, files, pictures -----------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Solution of {self.system.name!r} by {self.method}: {self.stats.get('steps', 0)} steps to t = {self.t[-1]:g}>"

    def __str__(self) -> str:
        s, stats = self.system, self.stats
        if s.kind == "dae":
            return self._dae_summary()
        if s.kind == "port-hamiltonian":
            return self._port_summary()
        scale = max(float(np.abs(self.energy).max()), float(np.abs(self.kinetic).max()), 1e-300)
        driven = self.driven
        lines = [
            f"{s.name} by {self.method}, t = {self.t[0]:g} .. {self.t[-1]:g}, step {self.step:g}",
            f"  steps                 {stats['steps']}, {len(self.t)} times kept",
            f"  Newton iterations     {stats['iterations']} ({stats['iterations_per_step']:.2f} a step)",
        ]
        if driven:
            worst = _largest(self.power_balance) / scale
            lines.append(f"  power balance         {worst:.1e} of the largest energy ({scale:.4g}), worst interval")
            lines.append(f"  supplied, dissipated  {self.supplied.sum():.6g}, {self.dissipated.sum():.6g}")
        else:
            change = _largest(self.energy - self.energy[0]) / scale
            lines.append(f"  energy error          {change:.1e} of the largest energy ({scale:.4g})")
        for level in ("position", "velocity") if s.m else ():
            lines.append(f"  {level + ' constraints':<21} {_largest(self.residual(level)):.1e} at most")
        setup = stats.get("setup_seconds", 0.0) + stats.get("compile_seconds", 0.0)
        lines.append(f"  time                  {stats['seconds']:.3g} s ({stats['engine']}), set-up {setup:.2g} s")
        return "\n".join(lines)

    def _port_summary(self) -> str:
        stats, scale = self.stats, max(float(np.abs(self.energy).max()), 1e-300)
        worst = _largest(self.power_balance) / scale
        lines = [
            f"{self.system.name} by {self.method}, t = {self.t[0]:g} .. {self.t[-1]:g}, step {self.step:g}",
            f"  steps                 {stats['steps']}, {len(self.t)} times kept",
            f"  Newton iterations     {stats['iterations']} ({stats['iterations_per_step']:.2f} a step)",
            f"  power balance         {worst:.1e} of the largest energy ({scale:.4g}), worst interval",
            f"  stored                {self.energy[-1] - self.energy[0]:.6g}",
        ]
        book = self.ledger()
        lines += [f"  supplied, {key[5:]:<11} {value.sum():.6g}" for key, value in book.items() if key.startswith("port ")]
        lines.append(f"  supplied, dissipated  {self.supplied.sum():.6g}, {self.dissipated.sum():.6g}")
        if self.system.has("constraint"):
            lines.append(f"  position constraints  {_largest(self.residual('position')):.1e} at most")
        lines.append(f"  time                  {stats['seconds']:.3g} s ({stats['engine']})")
        return "\n".join(lines)

    def _dae_summary(self) -> str:
        stats = self.stats
        return "\n".join(
            [
                f"{self.system.name} by {self.method}, t = {self.t[0]:g} .. {self.t[-1]:g}, step {self.step:g}",
                f"  steps                 {stats['steps']}, {len(self.t)} times kept",
                f"  Newton iterations     {stats['iterations']} ({stats['iterations_per_step']:.2f} a step)",
                f"  constraints           {_largest(self.residual('position')):.1e} at most",
                f"  hidden constraints    {_largest(self.residual('velocity')):.1e} at most",
                f"  time                  {stats['seconds']:.3g} s ({stats['engine']})",
            ]
        )

    def to_xarray(self) -> xarray.Dataset:
        """The trajectory as an `xarray.Dataset` with named coordinates."""
        import xarray as xr

        names = list(self.system.coordinates)
        if self.system.kind == "dae":
            return self._dae_dataset(names)
        if self.system.kind == "port-hamiltonian":
            return self._port_dataset(names)
        moving = "velocity" if self.system.has("kinematics") else "coordinate"
        data: dict[str, Any] = {
            "q": (("time", "coordinate"), self.q),
            "v": (("time", moving), self.v),
            "p": (("time", moving), self.p),
            "energy": ("time", self.energy),
            "kinetic": ("time", self.kinetic),
            "potential": ("time", self.potential),
            "supplied": ("interval", self.supplied),
            "dissipated": ("interval", self.dissipated),
        }
        coords: dict[str, Any] = {"time": self.t, "coordinate": names}
        coords["time_lam"] = self.t_lam
        if self.system.m:
            data["lam"] = (("time_lam", "constraint"), self.lam)
            coords["constraint"] = np.arange(1, self.system.m + 1)
        if self.system.mh:
            data["g"] = (("time", "holonomic"), self.residual("position"))
        if self.system.nu:
            data["u"] = (("time", "input"), self.u)
        attributes = {"system": self.system.name, "method": str(self.method), "step": self.step}
        return xr.Dataset(data, coords, attributes)

    def _port_dataset(self, names: list[str]) -> xarray.Dataset:
        import xarray as xr

        data: dict[str, Any] = {
            "q": (("time", "coordinate"), self.q),
            "v": (("time", "none"), self._second),
            "energy": ("time", self.energy),
            "supplied": ("interval", self.supplied),
            "dissipated": ("interval", self.dissipated),
        }
        coords: dict[str, Any] = {"time": self.t, "coordinate": names, "time_lam": self.t_lam}
        if self._lam.shape[1]:
            data["lam"] = (("time_lam", "port"), self._lam)
        if self.system.nu:
            data["u"] = (("time", "input"), self.u)
        return xr.Dataset(data, coords, {"system": self.system.name, "method": str(self.method), "step": self.step})

    def _dae_dataset(self, names: list[str]) -> xarray.Dataset:
        import xarray as xr

        data = {
            "q": (("time", "coordinate"), self.q),
            "v": (("time", "constraint"), self._second),
            "supplied": ("interval", self.supplied),
            "dissipated": ("interval", self.dissipated),
        }
        coords = {"time": self.t, "coordinate": names, "time_lam": self.t_lam, "constraint": np.arange(1, self.system.m + 1)}
        return xr.Dataset(data, coords, {"system": self.system.name, "method": str(self.method), "step": self.step})

    def save(self, path: str | Path, *, _extra: Any = None) -> Path:
        """Write to a NetCDF file, the system's functions included; `da.load` reads it without the model's source."""
        path = target(path)
        data = self.to_xarray()
        meta = {
            "method": self.method.spec(),
            "parameters": self._par.tolist(),
            "stats": self.stats,
            "system": self.system.dumps(),
            "extra": _extra,
        }
        # a variable, not an attribute: attributes of a NetCDF file cannot be long
        data["dalembert"] = ("byte", np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8))
        temporary = path.with_name(path.name + ".part")
        data.to_netcdf(temporary, engine="netcdf4")
        temporary.replace(path)
        return path

    def report(self, path: str | Path) -> Path:
        """One HTML file that opens offline: summary, interactive figures, and an animation linked to them."""
        from dalembert.reporting import report

        return report(self, path)

    def animate(self, path: str | Path, *, fps: int = 30, seconds: float | None = None) -> Path:
        """The motion as an animation, `.gif` or `.mp4`."""
        from dalembert.reporting import animate

        return animate(self, path, fps=fps, seconds=seconds)

    def plot(self, path: str | Path | None = None) -> Any:
        """Motion, energy and constraints in one matplotlib figure; written to `path` where one is given."""
        from dalembert.plotting import overview

        path = None if path is None else target(path)
        figure = overview(self)
        if path is not None:
            if path.suffix.lstrip(".").lower() not in figure.canvas.get_supported_filetypes():
                raise MethodError(f"a figure cannot be written as {path.suffix!r}; use .png, .pdf or .svg")
            figure.savefig(path)
        return figure


def target(path: Any) -> Path:
    """A path that a file can be written to."""
    if not isinstance(path, (str, Path)) or not str(path):
        raise MethodError(f"a file name is expected, not {path!r}")
    out = Path(path)
    if out.is_dir():
        raise MethodError(f"{str(out)!r} is a directory; give a file name in it")
    if not out.parent.is_dir():
        raise MethodError(f"the directory {str(out.parent)!r} does not exist; make it first")
    return out


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max()) if values.size else 0.0


def load(path: str | Path) -> Solution:
    """Read a solution that `Solution.save` wrote."""
    return read(path)[0]


def read(path: str | Path) -> tuple[Solution, dict[str, Any]]:
    """A solution from a file, and what was stored with it."""
    import xarray as xr

    if not (isinstance(path, (str, Path)) and Path(path).is_file()):
        raise MethodError(f"there is no file {str(path)!r}")
    try:
        data = xr.load_dataset(path, engine="netcdf4")
        meta = json.loads(data["dalembert"].values.astype(np.uint8).tobytes())
    except (OSError, KeyError, ValueError) as error:
        raise MethodError(f"{str(path)!r} is not a solution written by dalembert: {error}") from error
    system = System.loads(meta["system"])
    method = Method.of_spec(meta["method"])
    intervals = len(data["time"]) - 1
    lam = data["lam"].values if "lam" in data else np.zeros((intervals, 0))
    t_lam = data["time_lam"].values
    u = data["u"].values if "u" in data else np.zeros((intervals + 1, 0))
    work = np.stack([data["supplied"].values, data["dissipated"].values], axis=1)
    solution = Solution(
        system, method, np.array(meta["parameters"]), data["time"].values, data["q"].values,
        data[system.momenta].values, lam, t_lam, work, u, float(data.attrs["step"]), meta["stats"],
    )  # fmt: skip
    return solution, meta["extra"] or {}
