"""
Swing a pendulum up
===================

Forces to the side, one for each tenth of a second, such that a pendulum stands upright after two seconds: gradients with
respect to inputs, and products with the Hessian, for a method of Newton's type. The constraint holds in every step.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import dalembert as da

pendulum = da.Mechanical(
    ("x", "y"),
    mass=1.0,
    potential=lambda q: 9.81 * q[1],
    holonomic=lambda q: q @ q - 1,
    inputs=[[1.0], [0.0]],
    initial={"q": [0.0, -1.0], "v": [0.0, 0.0]},
)
times, effort = 0.1 * np.arange(20), 1e-4


def run(u):
    return da.sensitivity(pendulum, "rattle", t_end=2.0, step=0.02, compile=True, u=(times, u))


def miss(q, v):
    return q[0] ** 2 + (q[1] - 1) ** 2 + 0.1 * (v[0] ** 2 + v[1] ** 2)


def cost(u):
    gradient = run(u).gradient(miss)
    return float(gradient["value"]) + effort * u @ u / 2, gradient["u"][:, 0] + effort * u


def hessian(u, d):
    return run(u).hessian_product({"u": d[:, None]}, miss)["u"][:, 0] + effort * d


found = minimize(
    cost, 0.5 * np.cos(np.pi * times), jac=True, hessp=hessian, method="trust-krylov", options={"maxiter": 60, "gtol": 1e-6}
)
sol = run(found.x).solution
print(f"{found.nit} iterations, |gradient| = {np.abs(found.jac).max():.0e}, largest force {np.abs(found.x).max():.1f}")
print(f"at the end q = {np.round(sol.q[-1], 3)}, v = {np.round(sol.v[-1], 3)}")
print(f"constraint {np.abs(sol.residual('position')).max():.0e}")

figure, (path, force) = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
path.plot(*sol.q.T)
path.set(aspect="equal", xlabel="x", ylabel="y")
force.step(times, found.x, where="post")
force.set(xlabel="t", ylabel="force")
figure.savefig("swing_up.png")
