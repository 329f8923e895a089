"""Compute the figure and the numbers of the page on DAEs: `python docs/drift.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dalembert.experiments.daes import pendulum
from dalembert.plotting import style
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
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for label, method in cases.items():
        sol = simulate(system, method, **start, t_end=50.0, step=0.05)
        g = np.maximum(np.abs(sol.residual("position")).max(axis=1), 1e-17)
        error = np.maximum(np.abs(sol.energy - sol.energy[0]), 1e-17)
        axes[0].plot(sol.t, g, lw=0.9, label=label)
        axes[1].plot(sol.t, error, lw=0.9)
        print(f"| {label} | {g.max():.0e} | {np.abs(sol.residual('velocity')).max():.0e} | {error.max():.0e} |")
    for ax, title, text in zip(axes, ("position constraint", "energy"), ("|g(q)|", "|H - H(0)|"), strict=True):
        ax.set(xlabel="time", ylabel=text, title=title, yscale="log")
    figure.legend(loc="outside lower center", ncols=5)
    figure.savefig(HERE / "images" / "drift.png", dpi=130)
