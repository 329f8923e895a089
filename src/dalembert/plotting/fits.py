"""Figures of a fit: measured and fitted values, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dalembert.analysis import fits
from dalembert.analysis.fits import Fit
from dalembert.plotting.canvas import COLOURS, crowded, finish, style, thin
from dalembert.plotting.labels import symbol, text, time_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 6  # measured names that are drawn


def residuals(fit: Fit) -> Figure:
    """Above the measured values and the fitted motion over time, below the residuals, over the noise where it is known."""
    import matplotlib.pyplot as plt

    names = fit.data.names[:MOST]
    model = fit.data.values + fit.residual
    rows = thin(len(fit.data.t), 3000)
    known = fit.data.known
    with style():
        figure, (up, down) = plt.subplots(2, 1, figsize=(7.0, 5.0), sharex=True, height_ratios=(2, 1))
        for k, name in enumerate(names):
            colour = COLOURS[k % len(COLOURS)]
            there = rows[np.isfinite(fit.data.values[rows, k])]
            up.plot(fit.data.t[there], fit.data.values[there, k], ls="", marker=".", ms=3.0, color=colour, alpha=0.6)
            up.plot(fit.data.t[there], model[there, k], lw=1.0, color=colour, label=symbol(name))
            left = fit.residual[there, k] / (fit.data.sigma[there, k] if known else 1.0)
            down.plot(fit.data.t[there], left, ls="", marker=".", ms=3.0, color=colour)
        down.axhline(0.0, color="0.4", lw=0.8)
        for sign in (-1, 1):
            down.axhline(sign * (1.0 if known else fit.deviation), color="0.6", lw=0.8, ls="--")
        more = f", the first {MOST} of {len(fit.data.names)}" if len(fit.data.names) > MOST else ""
        finish(up, "", "value", f"measured (dots) and fitted (lines){more}")
        finish(down, time_label(fit.solution), r"residual / $\sigma$" if known else "residual", "model less measured")
        crowded(up)
        figure.suptitle(text(f"fit of {fit.system.name}", 100))
    return figure


fits.PLOT.set(residuals)
