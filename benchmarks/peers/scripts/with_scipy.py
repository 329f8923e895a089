"""Double pendulum for 2 s with SciPy, multipliers eliminated, Baumgarte's stabilisation."""

import numpy as np
from scipy.integrate import solve_ivp

mass, weight = np.array([3.0, 3.0, 1.0, 1.0]), np.array([0, -3 * 9.81, 0, -9.81])


def rates(t, y):
    q, v = y[:4], y[4:]
    d, dv = q[2:] - q[:2], v[2:] - v[:2]
    g = np.array([q[:2] @ q[:2] - 1, d @ d - 1])
    G = np.array([[2 * q[0], 2 * q[1], 0, 0], [-2 * d[0], -2 * d[1], 2 * d[0], 2 * d[1]]])
    hidden = -2 * np.array([v[:2] @ v[:2], dv @ dv]) - 10 * (G @ v) - 25 * g
    lam = np.linalg.solve(G / mass @ G.T, G @ (weight / mass) - hidden)
    return np.concatenate([v, (weight - G.T @ lam) / mass])


start = [1, 0, 2, 0, 0, 0, 0, 0]
sol = solve_ivp(rates, (0, 2), start, method="DOP853", t_eval=np.linspace(0, 2, 81), rtol=1e-8, atol=1e-8)
print(abs(mass @ sol.y[4:] ** 2 / 2 - weight @ sol.y[:4]).max())
