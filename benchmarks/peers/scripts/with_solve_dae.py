"""Double pendulum for 2 s with solve_dae, index 1, multipliers as unknowns."""

import numpy as np
from solve_dae.integrate import solve_dae

mass, weight = np.array([3.0, 3.0, 1.0, 1.0]), np.array([0, -3 * 9.81, 0, -9.81])


def residual(t, y, yp):
    q, v, lam = y[:4], y[4:8], y[8:]
    d, dv = q[2:] - q[:2], v[2:] - v[:2]
    G = np.array([[2 * q[0], 2 * q[1], 0, 0], [-2 * d[0], -2 * d[1], 2 * d[0], 2 * d[1]]])
    a = (weight - G.T @ lam) / mass
    hidden = G @ a + 2 * np.array([v[:2] @ v[:2], dv @ dv])
    return np.concatenate([yp[:4] - v, yp[4:8] - a, hidden])


start, slope = np.array([1.0, 0, 2, 0, 0, 0, 0, 0, 0, 0]), np.array([0, 0, 0, 0, 0, -9.81, 0, -9.81, 0, 0])
times = np.linspace(0, 2, 81)
sol = solve_dae(residual, (0, 2), start, slope, method="Radau", t_eval=times, rtol=1e-7, atol=1e-7)
print(abs(mass @ sol.y[4:8] ** 2 / 2 - weight @ sol.y[:4]).max())
