"""Four particles with a damper: an exact power balance, and what the midpoint rule makes of it."""

import numpy as np

import dalembert as da

system = da.catalog.four_particles_damped()
for method in ("energy-momentum", "midpoint"):
    sol = da.simulate(system, method, t_end=10.0, step=0.01)
    print(sol)
    print(f"  largest increase of the energy in a step: {np.diff(sol.energy).max():.1e}\n")
