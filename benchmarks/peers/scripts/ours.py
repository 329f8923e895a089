"""Double pendulum for 2 s with dalembert."""

import dalembert as da

pendulum = da.Mechanical(
    ("x1", "y1", "x2", "y2"),
    mass=[3.0, 3.0, 1.0, 1.0],
    potential=lambda q: 9.81 * (3 * q[1] + q[3]),
    holonomic=lambda q: [q[0] ** 2 + q[1] ** 2 - 1, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1],
)
sol = da.simulate(pendulum, "lobatto-pair-4", q=[1, 0, 2, 0], t_end=2.0, step=1 / 40)
print(abs(sol.energy - sol.energy[0]).max())
