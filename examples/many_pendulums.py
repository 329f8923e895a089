"""
A thousand pendulums
====================

How long can a double pendulum be foretold? A thousand of them start within a ten-thousandth of a degree of each other. They stay
together for a while, then chaos sets in and they spread over all that they can reach. `da.ensemble` runs them eight at once in
each core.
"""

import matplotlib.pyplot as plt
import numpy as np

import dalembert as da
from dalembert import plotting

system = da.catalog.double_pendulum()
angles = np.radians(90 + 1e-4 * np.random.default_rng(1).uniform(-1, 1, 1000))
q = np.stack([np.sin(angles), -np.cos(angles), np.sin(angles) + 1.0, -np.cos(angles)], axis=1)
data = da.ensemble(system, "lobatto-pair-3", samples={"q": q}, t_end=30.0, step=0.01, save_every=5)
print(data)

angle = np.degrees(np.arctan2(data.q[:, :, 0], -data.q[:, :, 1]).values)
spread = angle.std(axis=0)
late = data.time.values[np.argmax(spread > 10)]
print(f"the spread of the first angle passes 10 degrees at t = {late:.1f} s")

with plotting.style():
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 5.6), sharex=True)
above.plot(data.time, angle[::5].T, color="tab:blue", alpha=0.05, lw=0.7, rasterized=True)
above.set(ylabel="first angle (degrees)", ylim=(-180, 180), yticks=[-180, -90, 0, 90, 180])
above.set_title("200 of 1000 members", loc="left")
below.semilogy(data.time, spread, color="tab:red")
below.set(xlabel="time (s)", ylabel="standard deviation (degrees)")
figure.savefig("many_pendulums.png", dpi=110)
