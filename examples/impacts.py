"""
Impacts, stops and latches
==========================

A ball that bounces until it lies still, a slider between two stops, and a door that falls into its latch. Each is one run whose
arcs are joined, and its energy ledger closes over the jumps.
"""

import matplotlib.pyplot as plt
import numpy as np

import dalembert as da

ball = da.Mechanical(("z",), mass=1.0, potential=lambda q: 9.81 * q[0])
bounces = da.simulate(
    ball, "rattle", q=[1.0], v=[0.0], t_end=3.5, step=0.01, events=da.impact(lambda q: q[0], 0.7, rest=True, name="floor")
)
slider = da.Mechanical(("x",), mass=1.0, inputs={"push": [1.0]})
stops = [da.stop(lambda q: 1 - q[0], name="right"), da.stop(lambda q: 1 + q[0], 0.5, name="left")]
slides = da.simulate(slider, "energy-momentum", q=[0.0], v=[0.0], t_end=12.0, step=0.01, u={"push": np.sin}, events=stops)
door = da.Mechanical(("angle",), mass=2.0, potential=lambda q: 1.5 * q[0] ** 2, inputs={"pull": [1.0]})
latch = da.latch(lambda q: q[0], strength=5.0, name="latch")
pull = {"pull": lambda t: max(0.0, 4.0 * (t - 3.0))}
shut = da.simulate(door, "energy-momentum", q=[1.2], v=[0.0], t_end=4.9, step=0.01, u=pull, events=latch)
for sol in (bounces, slides, shut):
    last = sol.jumps[-1]
    print(f"{len(sol.arcs):>3} arcs, last jump: {last.event} at t = {last.t:.6f}, balance {np.abs(sol.power_balance).max():.0e}")

figure, axes = plt.subplots(3, 1, figsize=(8, 7), layout="constrained")
for ax, sol, name in zip(
    axes, (bounces, slides, shut), ("height of a ball", "slider between stops", "angle of a door"), strict=True
):
    ax.plot(sol.t, sol.motion[:, 0], label=name)
    ax.plot(sol.t, sol.energy / sol.energy.max(), lw=1, label="energy, of its largest value")
    held = [arc for arc in sol.arcs if arc.system.m]
    for i, arc in enumerate(held):
        ax.axvspan(arc.t[0], arc.t[-1], color="0.9", label="held" if i == 0 else None)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
axes[-1].set_xlabel("time, s")
figure.savefig("impacts.png")
