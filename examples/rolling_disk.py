"""
A rolling disk
==============

A nonholonomic constraint, two methods that keep it, and the exact solution: one has an error of phase that grows, the other none.
"""

import numpy as np

import dalembert as da
from dalembert import plotting

disk = da.catalog.rolling_disk()
errors = {}
for method in ("spark-2", "mclachlan-perlmutter"):
    sol = da.simulate(disk, method, t_end=200.0, step=0.1)
    errors[method] = np.abs(sol.q - da.catalog.rolling_disk_solution(sol.t)).max(axis=1)
    slip = np.abs(sol.residual("velocity")).max()
    print(f"{method:<22} error at the end {errors[method][-1]:.1e}, slip {slip:.0e}, energy {np.ptp(sol.energy):.0e}")
plotting.motion(da.simulate(disk, "spark-2", t_end=3.0, step=0.01)).figure.savefig("rolling_disk.png")
