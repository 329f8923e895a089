"""
Double pendulum
===============

The main job: a motion of 20 seconds, a summary, and a picture with motion, energy, its error and constraints.
"""

import dalembert as da

system = da.catalog.double_pendulum(m1=3.0, m2=1.0)
sol = da.simulate(system, "rattle", t_end=20.0, step=0.002)
print(sol)
sol.plot("double_pendulum.png")
