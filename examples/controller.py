"""
A controller at 100 Hz
======================

A pendulum on a cart is held upright by a controller that measures position and angle every 10 ms and holds its force in between.
It is one run: the controller has a state of its own, a gust of wind is a second input, and the work of both is in the balance.
"""

import matplotlib.pyplot as plt
import numpy as np

import dalembert as da

EVERY = 0.01
cart = da.Mechanical(
    ("x", "angle"),
    mass=lambda q, m, l: [[1.0 + m, m * l * np.cos(q[1])], [m * l * np.cos(q[1]), m * l**2]],
    potential=lambda q, m, l: 9.81 * m * l * np.cos(q[1]),
    inputs={"force": [1.0, 0.0], "wind": lambda q, l: [1.0, l * np.cos(q[1])]},
    parameters={"m": 0.2, "l": 0.5},
    initial={"q": [0.0, 0.15], "v": [0.0, 0.0]},
    name="cart pendulum",
)


def law(y, state):
    """Position and angle in, force out; rates are differences to the last sample, which is its state."""
    x, angle = y
    speed, turn = (y - state) / EVERY
    return 2.8 * x + 4.2 * speed + 39.2 * angle + 8.5 * turn, y


u = {
    "force": da.Sampled(law, every=EVERY, outputs=lambda q: q, state=[0.0, 0.15]),
    "wind": ([0.0, 3.0, 3.3], [0.0, 0.6, 0.0]),  # a gust of 0.6 N
}
sol = da.simulate(cart, "energy-momentum", t_end=8.0, step=EVERY / 2, u=u)
samples = sol.samples["force"]
print(sol)
print(f"{len(samples)} samples, the largest force {np.abs(samples.u).max():.2f} N")
print(f"worst balance of a step: {np.abs(sol.power_balance).max():.0e} J")

figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(8, 5), layout="constrained")
top.axvspan(3.0, 3.3, color="0.9", label="gust")
top.plot(sol.t, np.rad2deg(sol.q[:, 1]), label="angle, degrees")
top.plot(sol.t, 100 * sol.q[:, 0], label="cart, cm")
top.legend(loc="upper right")
bottom.step(samples.t, samples.u[:, 0], where="post", label="force, held for 10 ms")
bottom.set(xlabel="time, s", ylabel="N")
bottom.legend(loc="upper right")
figure.savefig("controller.png")
