"""
Compare methods
===============

Errors, invariants and times of four methods on one system, as a table for a paper, and how much accuracy each buys with run time.
"""

import numpy as np

import dalembert as da
from dalembert import plotting

system = da.catalog.double_pendulum()
methods = ["rattle", "energy-momentum", "lobatto-pair-3", "murua-3"]
result = da.compare(system, methods, t_end=5.0, step=0.01)
print(result.table("markdown"))
result.plot()

truth = da.simulate(system, "murua-5", t_end=1.0, step=0.001).q[-1]
curves = {}
for method in methods:
    seconds, errors = [], []
    for n in (25, 50, 100, 200, 400):
        runs = [da.simulate(system, method, t_end=1.0, step=1 / n, compile=True) for _ in range(5)]
        seconds.append(min(run.stats["seconds"] for run in runs))
        errors.append(np.abs(runs[0].q[-1] - truth).max())
    curves[method] = (seconds, errors)
plotting.work_precision(curves).figure.savefig("compare_methods.png")
