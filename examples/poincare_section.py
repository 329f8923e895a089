"""
Poincare sections
=================

Eight orbits of the perturbed contact oscillator on its Poincare section, by two integrators that keep the nonholonomic constraint
x' + y z' = 0: closed curves, islands and a chaotic sea, and an energy that stays in a band.
"""

import matplotlib.pyplot as plt
import numpy as np

import dalembert as da

oscillator = da.catalog.contact_oscillator(eps=0.8)
q, v = da.catalog.contact_start([-1.2, -1.0, -0.75, -0.55, -0.4, -0.1, 0.93, 1.07], eps=0.8)
with da.plotting.style():
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.3), sharex=True, sharey=True)
for ax, method in zip(axes, ("mclachlan-perlmutter", "spark-2"), strict=True):
    section = da.poincare(oscillator, 40, 2000, method=method, step=2 * np.sin(np.pi / 40), q=q, v=v)
    section.plot(("q", 2), ("v", 2), ax=ax, where=lambda q: q[0] > 0)
    ax.set_title(f"{method}, energy {section.energy.min():.3f} .. {section.energy.max():.3f}", loc="left")
figure.savefig("poincare_section.png", dpi=120)
print("poincare_section.png shows the sections of both methods")
