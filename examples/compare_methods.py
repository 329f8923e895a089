"""
Compare methods
===============

Errors, invariants and times of four methods on one system, as a table for a paper.
"""

import dalembert as da

system = da.catalog.double_pendulum()
methods = ["rattle", "energy-momentum", "lobatto-pair-3", "murua-3"]
result = da.compare(system, methods, t_end=5.0, step=0.01)
print(result.table("markdown"))
result.plot()

# %%
# How much accuracy each buys with run time: the best times of many runs, errors against a method of high order.

work = da.work_precision(system, methods, t_end=5.0, steps=(200, 400, 800, 1600, 3200))
work.plot().figure.savefig("compare_methods.png")
