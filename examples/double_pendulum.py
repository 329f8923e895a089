"""The main job: a double pendulum for 20 seconds, a summary, and a picture (double_pendulum.png)."""

import matplotlib as mpl

mpl.use("Agg")  # write a file, open no window

import dalembert as da

system = da.catalog.double_pendulum(m1=3.0, m2=1.0)
sol = da.simulate(system, "rattle", t_end=20.0, step=0.002)
print(sol)
sol.plot("double_pendulum.png")
print("picture: double_pendulum.png")
