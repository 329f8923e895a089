"""Double pendulum for 2 s with heyoka, in angles, the equations derived by hand."""

import heyoka as hy
import numpy as np

a, b, w, u = hy.make_vars("a", "b", "w", "u")
m1, m2, g = 3.0, 1.0, 9.81
c, s = hy.cos(a - b), hy.sin(a - b)
r1 = -m2 * s * u**2 - (m1 + m2) * g * hy.cos(a)
r2 = m2 * s * w**2 - m2 * g * hy.cos(b)
det = (m1 + m2) * m2 - m2**2 * c**2
rates = [(a, w), (b, u), (w, (m2 * r1 - m2 * c * r2) / det), (u, ((m1 + m2) * r2 - m2 * c * r1) / det)]
ta = hy.taylor_adaptive(rates, [0.0, 0.0, 0.0, 0.0], tol=1e-7)
a, b, w, u = ta.propagate_grid(np.linspace(0, 2, 81), max_delta_t=0.5)[-1].T
kinetic = (m1 + m2) * w**2 / 2 + m2 * u**2 / 2 + m2 * w * u * np.cos(a - b)
print(abs(kinetic + g * ((m1 + m2) * np.sin(a) + m2 * np.sin(b))).max())
