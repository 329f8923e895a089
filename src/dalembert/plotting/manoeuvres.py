"""Figures of a manoeuvre: its inputs, and the motion with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dalembert.analysis import plans
from dalembert.analysis.plans import Manoeuvre
from dalembert.plotting.canvas import crowded, dashes, finish, style
from dalembert.plotting.labels import symbol, text, time_label
from dalembert.plotting.moving import coordinates

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def manoeuvre(found: Manoeuvre) -> Figure:
    """Coordinates above, inputs below, over time."""
    import matplotlib.pyplot as plt

    sol = found.solution
    with style():
        figure, (up, down) = plt.subplots(2, 1, figsize=(7.0, 5.0), sharex=True, height_ratios=(3, 2))
        coordinates(sol, up)
        edges = np.append(found.t, sol.t[-1])
        for i, name in enumerate(sol.system.ports):
            down.stairs(found.u[:, i], edges, baseline=None, label=symbol(name), ls=dashes(i), lw=1.2)
        down.axhline(0.0, color="0.6", lw=0.8)
        up.set_xlabel("")
        finish(down, time_label(sol), "value", f"inputs, cost {found.cost:.5g}")
        crowded(down)
        figure.suptitle(text(f"{sol.system.name}: {sol.method}, step {sol.step:g}", 100))
    return figure


plans.PLOT.set(manoeuvre)
