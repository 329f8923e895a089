"""Convergence of one method; errors, invariants and run times of several methods on one system."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray

from dalembert import markup, tables
from dalembert.analysis.trials import SINGLE, Options, check_options, named_methods, reference_method, timed
from dalembert.checking import listed, number, positive, whole
from dalembert.engine.consistency import consistent
from dalembert.engine.progress import Bar
from dalembert.errors import MethodError, suggesting
from dalembert.hooks import Hook
from dalembert.methods.base import Method, find
from dalembert.simulation import simulate
from dalembert.solution import Solution
from dalembert.systems import System
from dalembert.systems.constrained import Constrained

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, str | float]  # the numbers of a run, by name


@dataclass(repr=False)
class Convergence:
    """Errors at the final time for several steps, by component; `orders` are slopes in a log-log plot."""

    system: str
    method: str
    reference: str
    steps: NDArray[np.float64]
    errors: dict[str, NDArray[np.float64]]
    floor: dict[str, float] = field(default_factory=dict)

    @property
    def orders(self) -> dict[str, float]:
        """Slopes over the errors that are above the accuracy of the reference; nan if there are fewer than two."""
        out = {}
        for name, e in self.errors.items():
            keep = e > 10 * self.floor[name]
            clear = keep.sum() > 1
            out[name] = float(np.polyfit(np.log(self.steps[keep]), np.log(e[keep]), 1)[0]) if clear else float("nan")
        return out

    def table(self, form: str = "text") -> str:
        """As text, Markdown, LaTeX, CSV or HTML."""
        heads = ["step"]
        for name in self.errors:
            heads += [f"error of {name}", "order"]
        rows = []
        for i, h in enumerate(self.steps):
            row = [f"{h:.4g}"]
            for name, e in self.errors.items():
                sharp = i > 0 and min(e[i], e[i - 1]) > 10 * self.floor[name]
                rate = np.log(e[i - 1] / e[i]) / np.log(self.steps[i - 1] / h) if sharp else np.nan
                row += [f"{e[i]:.2e}", f"{rate:.2f}" if np.isfinite(rate) else ""]
            rows.append(row)
        return tables.write(heads, rows, form)

    def to_json(self) -> str:
        """All numbers."""
        data = {k: v for k, v in vars(self).items() if k != "steps"}
        data["step_sizes"] = self.steps.tolist()
        data["errors"] = {k: v.tolist() for k, v in self.errors.items()}
        data["orders"] = {k: v if np.isfinite(v) else None for k, v in self.orders.items()}
        return json.dumps(data)

    def curves(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Steps and errors by component, without those at the accuracy of the reference."""
        out = {}
        for name, e in self.errors.items():
            keep = e > 10 * self.floor[name]
            out[f"{self.method}, {name}"] = (self.steps[keep], e[keep]) if keep.sum() > 1 else (self.steps, e)
        return out

    def plot(self, ax: Axes | None = None) -> Axes:
        """Errors over steps, with slopes."""
        return PLOT(self, ax)

    def __str__(self) -> str:
        orders = ", ".join(f"{v:.2f} in {k}" if np.isfinite(v) else f"not measurable in {k}" for k, v in self.orders.items())
        good = max(self.floor.values(), default=0.0)
        return f"{self.system} by {self.method}: order {orders}\n{self.table()}\nagainst {self.reference}, good to {good:.0e}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *_, foot = str(self).splitlines()
        return markup.card(head, self.table("html") + markup.paragraph(foot))


PLOT: Hook[[Convergence, Axes | None], Axes] = Hook("Convergence.plot", "dalembert.plotting")


@suggesting(options=(*Options.__annotations__, *SINGLE))
def convergence(
    system: System, method: str | Method, *, t_end: float, steps: Iterable[int] = (20, 40, 80, 160),
    reference: str | Method | None = None, **options: Unpack[Options],
) -> Convergence:  # fmt: skip
    """The measured order of a method on a system, from errors at `t_end` with `steps` equal steps.

    The reference is a run of a method of order eight to ten with twice the steps of the finest run. Its accuracy is measured
    by a run with half its steps. Multipliers are compared at the last time at which the method defines them.
    """
    check_options(system, options, ("adaptive", *SINGLE), "an order is measured with equal steps")
    counts = sorted({whole("steps", n) for n in listed("steps", steps, MethodError, "numbers of steps such as (20, 40, 80)")})
    if len(counts) < 2:
        raise MethodError(f"an order needs at least two numbers of steps, not {steps!r}")
    find(method).check(system)
    name = reference_method(system) if reference is None else find(reference)
    quiet: Options = {**options, "progress": False}
    span = number("t_end", t_end) - number("t0", options.get("t0", 0.0))
    with Bar(options.get("progress"), len(counts) + 2, "measuring", "runs") as bar:
        truth, rough = (simulate(system, name, t_end=t_end, step=span / n, **quiet) for n in (2 * counts[-1], counts[-1]))
        bar.show(2)
        runs = []
        for n in counts:
            runs.append(simulate(system, method, t_end=t_end, step=span / n, **quiet))
            bar.show(len(runs) + 2)
    errors: dict[str, NDArray[np.float64]] = {}
    floor: dict[str, float] = {}
    for part in system.state:
        exact = truth.parts[part][-1]
        if not exact.size:
            continue
        errors[part] = np.array([float(np.abs(run.parts[part][-1] - exact).max()) for run in runs])
        round_off = 1e-15 * max(1.0, float(np.abs(exact).max()))
        floor[part] = max(float(np.abs(rough.parts[part][-1] - exact).max()), round_off)
    if isinstance(system, Constrained) and system.m:
        errors["lam"] = np.array([_multipliers(system, truth, run, options) for run in runs])
        floor["lam"] = max(floor.values()) * max(1.0, float(np.abs(truth.lam).max()))
    return Convergence(system.name, str(find(method)), str(find(name)), span / np.array(counts, dtype=float), errors, floor)


def _multipliers(system: Constrained, truth: Solution, run: Solution, options: Options) -> float:
    """The error of the last multipliers against those of the reference at the same time."""
    t = float(run.t_lam[-1])
    at = truth.at(t, how="step")
    state = {name: np.ravel(at.named(name)) for name in system.state}
    exact = consistent(system, **state, t0=t, u=options.get("u"), parameters=options.get("parameters"))
    return float(np.abs(run.lam[-1] - exact["lam"]).max())


@dataclass(repr=False)
class Comparison:
    """Runs of several methods on one system with one step size: `runs` are the solutions, `rows` their numbers."""

    reference: str
    runs: list[Solution]
    rows: list[Row]

    def table(self, form: str = "text") -> str:
        """As text, Markdown, LaTeX, CSV or HTML."""
        shown = {
            "error": "error at the end", "energy_error": "energy", "power_balance": "power balance", "position": "position",
            "velocity": "velocity", "linear": "linear momentum", "angular": "angular momentum",
        }  # fmt: skip
        used = [key for key in shown if any(key in row for row in self.rows)]
        heads = ["method", "order", *(shown[key] for key in used), "us / step"]
        rows = []
        for row in self.rows:
            numbers = [f"{row[key]:.1e}" if key in row else "" for key in used]
            rows.append([str(row["method"]), str(row["order"]), *numbers, f"{row['us_per_step']:.2f}"])
        return tables.write(heads, rows, form, left=1)

    def plot(self) -> Figure:
        """Energy errors and constraint residuals over time."""
        return PLOT_RUNS(self)

    def caption(self) -> str:
        """The meaning of the columns."""
        sol = self.runs[0]
        engines = ", ".join(dict.fromkeys(str(row["engine"]) for row in self.rows))
        said = [
            f"{sol.system.name}, t = {sol.t[0]:g} .. {sol.t[-1]:g}, step {sol.step:g}.",
            f"Error at the end: of {sol.system.state[0]}, against {self.reference} with a quarter of the step size.",
        ]
        if "power_balance" in self.rows[0]:
            said.append("Power balance: largest sum of its residuals since the start.")
        elif "energy_error" in self.rows[0]:
            said.append("Energy: largest change from the start.")
        if "velocity" in self.rows[0]:
            said.append("Position, velocity: largest residual of the constraints.")
        said.append(f"Times: {engines}.")
        return " ".join(said)

    def __str__(self) -> str:
        return f"{self.table()}\n{self.caption()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return markup.card(self.runs[0].system.name, self.table("html") + markup.paragraph(self.caption()))


PLOT_RUNS: Hook[[Comparison], Figure] = Hook("Comparison.plot", "dalembert.plotting")


@suggesting(options=(*Options.__annotations__, *SINGLE))
def compare(
    system: System, methods: str | Sequence[str | Method], *, t_end: float, step: float, repeat: int = 3,
    **options: Unpack[Options],
) -> Comparison:  # fmt: skip
    """Run several methods on one system and measure errors, invariants and run times.

    The error is that of the final positions against a run of high order with a quarter of the step size. Momenta are listed if
    the reference keeps them. Times are the best of `repeat` runs if these are short.
    """
    check_options(system, options, SINGLE, "several runs are compared")
    number("t_end", t_end)
    positive("step", step)
    whole("repeat", repeat)
    chosen = named_methods(methods, system)
    name, equal = reference_method(system), options.copy()
    equal.pop("adaptive", None)
    truth = simulate(system, name, t_end=t_end, step=step / 4, **equal)
    kept = _momenta(truth)
    runs, rows = [], []
    for method in chosen:
        sol, seconds = timed(system, method, t_end, step, options, repeat, 0.5)
        row = measures(sol)
        row["order"] = "/".join(str(k) for k in dict.fromkeys(method.order_on(system)) if k)
        row["error"] = float(np.abs(sol.motion[-1] - truth.motion[-1]).max())
        row["engine"] = str(sol.stats["engine"])
        row["us_per_step"] = seconds / max(1, sol.stats["steps"]) * 1e6
        for which in kept:
            values = sol.momentum(which)
            row[which] = float(np.abs(values - values[0]).max())
        runs.append(sol)
        rows.append(row)
    return Comparison(name, runs, rows)


def _momenta(sol: Solution) -> list[str]:
    """The momenta that a run keeps."""
    if not isinstance(sol.system, Constrained) or sol.system.dimension not in (2, 3):
        return []
    out = []
    for which in ("linear", "angular"):
        values = sol.momentum(which)
        if np.abs(values - values[0]).max() < 1e-9 * max(1.0, np.abs(values).max()):
            out.append(which)
    return out


def measures(sol: Solution) -> Row:
    """The numbers of a run: energy or power balance, constraints, steps and seconds."""
    data: Row = {"system": sol.system.name, "method": str(sol.method), "step": sol.step, "t_end": float(sol.t[-1])}
    data["steps"], data["seconds"] = sol.stats["steps"], sol.stats["seconds"]
    energies = sol.energies()
    if energies:
        sizes = [float(np.abs(energies[name]).max()) for name in ("total", "kinetic") if name in energies]
        data["energy_scale"] = max(sizes)
        if sol.driven:  # the residuals of the balance add up to an error of the energy
            data["power_balance"] = float(np.abs(np.cumsum(sol.power_balance)).max(initial=0.0))
            data["supplied"], data["dissipated"] = float(sol.supplied.sum()), float(sol.dissipated.sum())
        else:
            data["energy_error"] = float(np.abs(sol.energy - sol.energy[0]).max())
    for level in ("position", "velocity"):
        residual = sol.residual(level)
        if residual.shape[1]:
            data[level] = float(np.abs(residual).max(initial=0.0))
    return data
