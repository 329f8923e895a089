"""
Fit a parameter
===============

Find the gravity of a pendulum from where it is after one second, by Newton's method on the simulation itself: runs are
differentiable.
"""

import matplotlib.pyplot as plt

import dalembert as da

system = da.catalog.simple_pendulum()
target = da.simulate(system, "rattle", t_end=1.0, step=0.002, parameters={"g": 3.71}).q[-1]

g, path = 4.5, []
for _ in range(6):
    run = da.sensitivity(system, "rattle", t_end=1.0, step=0.002, parameters={"g": g})
    miss = run.solution.q[-1] - target
    slope = run.jacobian("q", "g")
    g -= float(slope @ miss / (slope @ slope))
    path.append(abs(miss).max())
    print(f"g = {g:.12f}   miss = {path[-1]:.1e}")

with da.plotting.style():
    ax = plt.figure(figsize=(5, 3)).add_subplot()
    ax.semilogy(path, "o-")
    da.plotting.finish(ax, "iteration", "largest miss (m)", f"g = {g:.6f}")
