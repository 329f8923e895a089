"""
Events
======

When does a pendulum pass its lowest point, and when does it turn? Crossings are refined to round-off by shortened steps of the
method itself, so that they lie on the constraints.
"""

import numpy as np

import dalembert as da
from dalembert import plotting

pendulum = da.catalog.simple_pendulum()
sol = da.simulate(
    pendulum, "lobatto-pair-3", t_end=10.0, step=0.02,
    events=[da.Event(lambda q: q[0], name="lowest"), da.Event(lambda q, v: q[0] * v[1] - q[1] * v[0], name="turns")],
)  # fmt: skip
for name, hits in sol.events.items():
    off = np.abs((hits.q**2).sum(axis=1) - 1.0).max()
    print(f"{name:<7} {len(hits.t)} times, first at t = {hits.t[0]:.12f}, off the constraint by {off:.0e}")
ax = plotting.coordinates(sol)
ax.plot(sol.events["lowest"].t, sol.events["lowest"].q[:, 1], "k.", label="lowest")
ax.legend()
ax.figure.savefig("events.png")
