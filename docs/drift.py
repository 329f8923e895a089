"""Compute the figure and the numbers of the page on DAEs: `python docs/drift.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dalembert.experiments.daes import pendulum
from dalembert.plotting import finish, magnitude, style
from dalembert.reduced import Baumgarte, CoordinatePartition, Projection
from dalembert.simulate import simulate

HERE = Path(__file__).parent

system, start = pendulum()
cases = {
    "index 1, RK45": "rk45",
    "Baumgarte, xi = 0.8, omega = 2": Baumgarte(xi=0.8, omega=2.0, integrator="RK45"),
    "projection": Projection(integrator="RK45"),
    "coordinate partition": CoordinatePartition(integrator="RK45", rtol=1e-6, atol=1e-9),
    "index 3, rattle": "rattle",
}
with style():
    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    for label, method in cases.items():
        sol = simulate(system, method, **start, t_end=50.0, step=0.05)
        g, error = np.abs(sol.residual("position")).max(axis=1), np.abs(sol.energy - sol.energy[0])
        magnitude(axes[0], sol.t, g, label)
        magnitude(axes[1], sol.t[1:], error[1:], "")
        print(f"| {label} | {g.max():.0e} | {np.abs(sol.residual('velocity')).max():.0e} | {error.max():.0e} |")
    finish(axes[0], "time $t$", r"$\|g\|_\infty$", "position constraint")
    finish(axes[1], "time $t$", "$|H - H_0|$", "error of the energy")
    figure.legend(loc="outside lower center", ncols=5)
    figure.savefig(HERE / "images" / "drift.png", dpi=130)
