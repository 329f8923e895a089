"""Compute the figure and the table of the page on DAEs: `python docs/drift.py`."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dalembert import tables
from dalembert.experiments.daes import pendulum
from dalembert.methods.base import Method
from dalembert.plotting import finish, magnitude, style
from dalembert.reduced import Baumgarte, CoordinatePartition, Projection
from dalembert.simulation import simulate
from dalembert.solution import Solution

HERE = Path(__file__).parent
CASES: dict[str, str | Method] = {
    "index 1, RK45": "rk45",
    "Baumgarte, xi = 0.8, omega = 2": Baumgarte(xi=0.8, omega=2.0, integrator="RK45"),
    "projection": Projection(integrator="RK45"),
    "coordinate partition": CoordinatePartition(integrator="RK45", rtol=1e-6, atol=1e-9),
    "index 3, rattle": "rattle",
}


def run(label: str) -> Solution:
    """50 s of the pendulum, rows at a distance of 0.05."""
    system, start = pendulum()
    return simulate(system, CASES[label], **start, t_end=50.0, step=0.05)


def row(label: str, sol: Solution) -> list[str]:
    """The largest residuals and the largest error of the energy."""
    worst = (np.abs(sol.residual("position")), np.abs(sol.residual("velocity")), np.abs(sol.energy - sol.energy[0]))
    return [label, *(f"{values.max():.0e}" for values in worst)]


def main() -> None:
    """Draw the figure and fill the table."""
    rows = []
    with style():
        figure, axes = plt.subplots(1, 2, figsize=(10, 4))
        for label in CASES:
            sol = run(label)
            rows.append(row(label, sol))
            magnitude(axes[0], sol.t, np.abs(sol.residual("position")).max(axis=1), label)
            magnitude(axes[1], sol.t[1:], np.abs(sol.energy - sol.energy[0])[1:], "")
        finish(axes[0], "time $t$", r"$\|g\|_\infty$", "position constraint")
        finish(axes[1], "time $t$", "$|H - H_0|$", "error of the energy")
        figure.legend(loc="outside lower center", ncols=5)
        figure.savefig(HERE / "images" / "drift.png", dpi=130)
    page, fill = HERE / "daes.md", runpy.run_path(str(HERE / "tables.py"))["fill"]
    table = tables.write(["", "largest g", "largest G v", "energy error"], rows, "markdown")
    page.write_text(fill(page.read_text(encoding="utf-8"), "drift", table), encoding="utf-8")


if __name__ == "__main__":
    main()
