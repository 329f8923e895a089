"""Energy-momentum methods for holonomic constraints (Gonzalez 1999)."""

from __future__ import annotations

import numpy as np

from dalembert import catalog
from dalembert.analysis.measures import reversibility, trend
from dalembert.experiments.base import Result, experiment, slope
from dalembert.simulation import simulate


@experiment("em-2/3", "Four particles: energy, momenta and constraints", "Gonzalez 1999, figs. 2, 3")
def invariants(r: Result, quick: bool) -> None:
    """m = (1, 3, 2.3, 1.7), K = (100, 1000), two rods, h = 0.01, t = 10."""
    system = catalog.four_particles()
    sol = simulate(system, "energy-momentum", t_end=10.0, step=0.01)
    L, J = sol.momentum("linear"), sol.momentum("angular")
    g, G = (np.abs(sol.residual(level)).max(axis=1) for level in ("position", "velocity"))
    r.data["four particles"] = {"t": sol.t, "energy": sol.energy, "position": g, "velocity": G}
    moving, rates = sol.q.reshape(len(sol.t), 4, 3), sol.residual("velocity")
    paths = {f"particle {k + 1}": (moving[:, k, 0], moving[:, k, 1]) for k in range(4)}
    r.panel("fig. 2: motion, seen along the third axis", "$x$", "$y$", paths, "path")
    r.panel("fig. 3: velocity constraints", "time $t$", "$G v$", {f"rod {k + 1}": (sol.t, rates[:, k]) for k in range(2)})
    r.below("constraints at velocity level", float(G.max()), 3e-5, "oscillates about 0")
    r.below("constraints at position level", float(g.max()), 1e-13, "constant")
    r.below("change of energy, relative", float(np.abs(sol.energy / sol.energy[0] - 1).max()), 1e-12, "constant")
    r.below("change of linear momentum", float(np.abs(L - L[0]).max()), 1e-12, "constant")
    r.below("change of angular momentum", float(np.abs(J - J[0]).max()), 1e-12, "constant")
    long = simulate(system, "energy-momentum", t_end=50.0 if quick else 200.0, step=0.01, save_every=2)
    line = trend(long.t, np.abs(long.residual("velocity")).max(axis=1))
    r.true("velocity level over a longer time", line.bounded, str(line), "no trend", "oscillates, bounded")
    r.below(
        "reversibility defect over one unit of time",
        reversibility(system, "energy-momentum", t_end=1.0, step=0.01),
        1e-11,
        "reversible",
    )


@experiment("em-4", "Order of the energy-momentum method", "Gonzalez 1999, fig. 4")
def order(r: Result, quick: bool) -> None:
    """The position of particle 4 at T = 0.1, against h = 1e-5."""
    system = catalog.four_particles()
    truth = simulate(system, "energy-momentum", t_end=0.1, step=1e-4 if quick else 1e-5, save_every=1000)
    counts = np.array([10, 20, 40, 80])
    q, p = [], []
    for n in counts:
        sol = simulate(system, "energy-momentum", t_end=0.1, step=0.1 / n)
        q.append(float(np.linalg.norm(sol.q[-1, 9:] - truth.q[-1, 9:])))
        p.append(float(np.linalg.norm(sol.p[-1, 9:] - truth.p[-1, 9:])))
    r.data["order"] = {"h": 0.1 / counts, "q4": np.array(q), "p4": np.array(p)}
    r.near("order in the position of particle 4", slope(q, 0.1 / counts), 2, 0.1, "2")
    r.near("order in its momentum", slope(p, 0.1 / counts), 2, 0.1, "left open")
