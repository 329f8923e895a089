"""Double pendulum for 2 s with scikit-sundae's CVODE, in angles, the equations derived by hand."""

from math import cos, sin

import numpy as np
import sksundae as sun

m1, m2, g = 3.0, 1.0, 9.81


def rates(t, y, yp):
    a, b, w, u = y
    c, s = cos(a - b), sin(a - b)
    r1 = -m2 * s * u**2 - (m1 + m2) * g * cos(a)
    r2 = m2 * s * w**2 - m2 * g * cos(b)
    det = (m1 + m2) * m2 - m2**2 * c**2
    yp[:] = w, u, (m2 * r1 - m2 * c * r2) / det, ((m1 + m2) * r2 - m2 * c * r1) / det


solver = sun.cvode.CVODE(rates, method="Adams", rtol=1e-8, atol=1e-8, max_num_steps=20_000)
a, b, w, u = solver.solve(np.linspace(0, 2, 81), np.zeros(4)).y.T
kinetic = (m1 + m2) * w**2 / 2 + m2 * u**2 / 2 + m2 * w * u * np.cos(a - b)
print(abs(kinetic + g * ((m1 + m2) * np.sin(a) + m2 * np.sin(b))).max())
