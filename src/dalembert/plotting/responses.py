"""Figures of linear equations: frequency responses, and shapes of modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dalembert.analysis import linearization, vibration
from dalembert.analysis.linearization import Linearization
from dalembert.analysis.vibration import Mode
from dalembert.plotting.canvas import COLOURS, Array, axes, crowded, dashes, finish, style, styled
from dalembert.plotting.labels import symbol, text
from dalembert.plotting.moving import instant
from dalembert.plotting.showing import figure_class
from dalembert.systems import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PATH = 31  # points of the way from one turning point of a mode to the other


def bode(linear: Linearization, omega: Array) -> Figure:
    """Magnitude and phase of all outputs over the frequency, one column for each input."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MultipleLocator

    response = linear.transfer(omega)
    columns = len(linear.inputs)
    with style():
        figure, grid = plt.subplots(
            2, columns, figsize=(max(5.5, 4.2 * columns), 4.8), sharex=True, squeeze=False, FigureClass=figure_class()
        )
        for j, name in enumerate(linear.inputs):
            up, down = grid[:, j]
            for i, output in enumerate(linear.outputs):
                curve = response[:, i, j]
                if not np.abs(curve).max() > 0:
                    continue
                with np.errstate(divide="ignore"):
                    up.plot(omega, 20 * np.log10(np.abs(curve)), label=symbol(output), ls=dashes(i))
                phase = np.unwrap(np.angle(curve))
                phase -= 2 * np.pi * np.round((phase[0] + np.pi / 2) / (2 * np.pi))  # begins between -270 and 90 degrees
                down.plot(omega, np.degrees(phase), ls=dashes(i))
            up.set_xscale("log")
            finish(up, "", "magnitude (dB)" if j == 0 else "", f"from {symbol(name)}")
            finish(down, r"$\omega$ (radians per unit of time)", "phase (degrees)" if j == 0 else "", "")
            down.yaxis.set_major_locator(MultipleLocator(90.0))
            crowded(up) if len(linear.outputs) <= 4 else None
        if len(linear.outputs) > 4:
            handles, labels = grid[0, 0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
        figure.suptitle(text(f"{linear.system.name}: frequency response", 100))
    return figure


@styled
def shape(mode: Mode, ax: Axes | None, amplitude: float) -> Axes:
    """Both turning points of a mode over the equilibrium; a bar for each coordinate where there is no picture."""
    title = f"mode: frequency {mode.frequency:.4g}" + (f", damping {mode.damping:.3g}" if abs(mode.damping) > 1e-9 else "")
    if not mode.system.drawn:
        ax = axes(ax)
        places = np.arange(mode.system.n)
        ax.bar(places, np.real(mode.shape), color=COLOURS[0])
        ax.axhline(0.0, color="0.4", lw=0.8)
        ax.set_xticks(places, [symbol(name) for name in mode.system.coordinates])
        return finish(ax, "", "shape", title)
    moved = mode.positions(np.linspace(0.0, np.pi, PATH), amplitude)
    s, first = mode.system, mode.system.state[0]
    rows = np.vstack([mode.at[first], moved])
    points = s.numeric("points", mode.par, t=np.full(len(rows), mode.t), **{first: rows})
    space = points.shape[2] == 3
    ax = axes(ax, "3d" if space else None)
    picture = s.picture or Picture()
    for k, alpha in ((1, 1.0), (-1, 0.55), (0, 0.2)):
        instant(ax, points[k], picture, alpha)
    for i in picture.masses if len(tuple(picture.masses)) <= 60 else ():
        ax.plot(*points[1:, i].T, color=COLOURS[0], lw=0.8, ls=":")
    ax.set_aspect("equal", adjustable="box" if space else "datalim")
    return finish(ax, "$x$", "$y$", title)


linearization.BODE.set(bode)
vibration.PLOT.set(shape)
