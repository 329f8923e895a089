"""
An exact power balance
======================

Four particles with a damper: `energy-momentum` loses in each step just what the damper takes; the midpoint rule does not, and
its energy rises at times.
"""

import matplotlib.pyplot as plt
import numpy as np

import dalembert as da
from dalembert import plotting

system = da.catalog.four_particles_damped()
with plotting.style():
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
for ax, method in zip(axes, ("energy-momentum", "midpoint"), strict=True):
    sol = da.simulate(system, method, t_end=10.0, step=0.01)
    print(sol)
    print(f"  largest increase of the energy in a step: {np.diff(sol.energy).max():.1e}\n")
    plotting.energy_error(sol, ax)
    ax.set_title(f"{method}, balance added up", loc="left")
figure.savefig("damped_particles.png")
