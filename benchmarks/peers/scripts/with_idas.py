"""Double pendulum for 2 s with CasADi's idas, index 1, multipliers as algebraic variables."""

import casadi as ca
import numpy as np

q, v, lam = ca.SX.sym("q", 4), ca.SX.sym("v", 4), ca.SX.sym("lam", 2)
mass = ca.DM([3, 3, 1, 1])
V = 9.81 * (3 * q[1] + q[3])
g = ca.vertcat(q[0] ** 2 + q[1] ** 2 - 1, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1)
G = ca.jacobian(g, q)
a = (-ca.gradient(V, q) - G.T @ lam) / mass
hidden = G @ a + ca.jacobian(G @ v, q) @ v
dae = {"x": ca.vertcat(q, v), "z": lam, "ode": ca.vertcat(v, a), "alg": hidden}
times = list(np.linspace(0, 2, 81)[1:])
integrator = ca.integrator("run", "idas", dae, 0.0, times, {"reltol": 1e-9, "abstol": 1e-9, "max_num_steps": 20_000})
x = integrator(x0=[1, 0, 2, 0, 0, 0, 0, 0], z0=[0, 0])["xf"]
energy = ca.Function("energy", [q, v], [ca.dot(mass, v**2) / 2 + V])
print(np.abs(energy(x[:4, :], x[4:, :])).max())
