"""One run: energies, constraints, inputs, multipliers, step sizes, and an overview."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dalembert.errors import MethodError
from dalembert.plotting.canvas import Array, axes, crowded, figure_path, finish, legend, magnitude, save, style, styled, thin
from dalembert.plotting.groups import coordinate_groups
from dalembert.plotting.labels import coordinate, labelled, symbol, text, time_label, titled
from dalembert.plotting.moving import coordinates, motion
from dalembert.plotting.noise import noisy
from dalembert.plotting.overlay import curve, overlaid
from dalembert.plotting.showing import figure_class, present
from dalembert.solution import PortSolution, Solution, shown
from dalembert.solution.base import largest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

LEVELS = {"position": r"$\|g\|_\infty$", "velocity": r"$\|G v\|_\infty$", "acceleration": r"$\|(G v)'\|_\infty$"}


@styled
def energy(sol: Solution, ax: Axes | None = None) -> Axes:
    """Kinetic, potential and total energy over time."""
    ax, rows = axes(ax), thin(len(sol.t))
    for label, values in sol.energies().items():
        curve(ax, sol, ax.plot(sol.t[rows], values[rows]), label)
    finish(ax, time_label(sol), labelled(sol, "energy", "energy"), "energy")
    legend(ax, 3)
    return ax


@styled
def ledger(sol: Solution, ax: Axes | None = None) -> Axes:
    """The energy ledger over time: stored, dissipated, and supplied at each port, since the start."""
    ax, book = axes(ax), sol.ledger()
    ports = [key for key in book if key.startswith("port ")] or ["supplied"]
    rows = thin(len(sol.t) - 1)
    for key in ("stored", "dissipated", *ports[:5]):
        curve(ax, sol, ax.plot(sol.t[1:][rows], np.cumsum(book[key])[rows]), text(key.removeprefix("port ")))
    if all(noisy(np.cumsum(book[key]), largest(sol.energy)) for key in ("stored", "dissipated", *ports[:5])):
        _nothing(ax, "no energy came in, went out or was stored")
        ax.set_ylim(-1.0, 1.0)
    finish(ax, time_label(sol), labelled(sol, "energy", "energy"), "energy since the start")
    legend(ax, 4)
    return ax


@styled
def energy_error(sol: Solution, ax: Axes | None = None) -> Axes:
    """Error of the energy, or of the power balance of a driven or damped system, on a logarithmic scale."""
    ax = axes(ax)
    values, title, label = balance(sol)
    curve(ax, sol, [magnitude(ax, sol.t[1:], values, "")], "")
    finish(ax, time_label(sol), labelled(sol, label, "energy"), title)
    if overlaid(ax):
        crowded(ax)
    return ax


def balance(sol: Solution) -> tuple[Array, str, str]:
    """The error of the energy, or of the power balance if energy comes in or goes out; a title and a label."""
    if sol.driven:
        return np.cumsum(sol.power_balance), "power balance, residuals added up", "|sum|"
    return sol.energy[1:] - sol.energy[0], "error of the energy", "$|H - H_0|$"


@styled
def constraints(sol: Solution, ax: Axes | None = None, levels: tuple[str, ...] = ("position", "velocity")) -> Axes:
    """Largest residual of the constraints at each level, on a logarithmic scale."""
    ax, drawn = axes(ax), 0
    for level in levels:
        residual = np.abs(sol.residual(level))
        if residual.shape[1]:
            t = sol.t if len(residual) == len(sol.t) else sol.t_lam
            curve(ax, sol, [magnitude(ax, t, residual.max(axis=1), "")], f"{level}, {LEVELS[level]}")
            drawn += 1
    if not drawn:
        _nothing(ax, "no constraints")
    finish(ax, time_label(sol), "largest residual", "constraints")
    legend(ax, 2)
    return ax


def _nothing(ax: Axes, why: str) -> None:
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color="0.5")


@styled
def inputs(sol: Solution, ax: Axes | None = None) -> Axes:
    """The inputs over time."""
    ax, rows = axes(ax), thin(len(sol.t))
    names = list(sol.system.ports)
    for k, name in enumerate(names[: sol.u.shape[1]]):
        curve(ax, sol, ax.plot(sol.t[rows], sol.u[rows, k]), symbol(name))
    if not sol.u.shape[1]:
        _nothing(ax, "no inputs")
    finish(ax, time_label(sol), "inputs $u$", "inputs")
    legend(ax, 4)
    return ax


@styled
def phase(sol: Solution, i: int = 0, ax: Axes | None = None) -> Axes:
    """Phase portrait of one coordinate: momentum over position."""
    if not 0 <= i < sol.system.n:
        raise MethodError(f"there is no coordinate {i}: {sol.system.name!r} has {sol.system.n}, counted from 0")
    ax, rows = axes(ax), thin(len(sol.t), 20_000)
    curve(ax, sol, ax.plot(sol.q[rows, i], sol.p[rows, i], lw=0.8), "")
    finish(ax, coordinate(sol, i), f"momentum of {symbol(sol.system.coordinates[i])}", "phase portrait")
    if overlaid(ax):
        crowded(ax)
    return ax


@styled
def multipliers(sol: Solution, ax: Axes | None = None) -> Axes:
    """Multipliers at the times `t_lam`."""
    ax, rows = axes(ax), thin(len(sol.t_lam))
    if isinstance(sol, PortSolution) or not sol.lam.shape[1]:
        _nothing(ax, "no multipliers")
        return finish(ax, time_label(sol), r"multipliers $\lambda$", "multipliers")
    for k in range(sol.lam.shape[1]):
        curve(ax, sol, ax.plot(sol.t_lam[rows], sol.lam[rows, k]), rf"$\lambda_{{{k + 1}}}$")
    finish(ax, time_label(sol), r"multipliers $\lambda$", "multipliers")
    if len(ax.lines) > 1:
        legend(ax, 6)
    return ax


@styled
def steps(sol: Solution, ax: Axes | None = None) -> Axes:
    """Step sizes of a run, and the number of rejected steps. The last two steps, shortened to end at `t_end`, are left out."""
    ax, h = axes(ax), np.diff(sol.t)
    h = h[:-2] if len(h) > 4 else h
    rows = thin(len(h))
    curve(ax, sol, ax.semilogy(sol.t[1 : 1 + len(h)][rows], h[rows], lw=0.9, marker="." if len(h) < 3 else ""), "")
    rejected = sol.stats.get("rejected")
    count = f"{sol.stats['steps']} steps" + (f", {rejected} rejected" if rejected is not None else "")
    finish(ax, time_label(sol), labelled(sol, "step $h$", "time"), count)
    if overlaid(ax):
        crowded(ax)
    return ax


def overview(sol: Solution) -> Figure:
    """Motion, energy, its error, and constraints in one figure; the title states method and step size."""
    import matplotlib.pyplot as plt

    right: list[Callable[[Solution, Axes], Axes]] = [ledger if isinstance(sol, PortSolution) else energy, energy_error]
    if not sol.energies():
        right = [constraints]
    elif sol.system.m and not isinstance(sol, PortSolution):
        right = [*right, constraints]
    high = max(4.0, 2.15 * len(right))
    if not sol.system.drawn:  # curves below each other, long legends below them
        high = max(high, sum(1.7 if len(group.members) < 5 else 2.3 for group in coordinate_groups(sol)[:4]))
    with style():
        figure = plt.figure(figsize=(10, high), FigureClass=figure_class())
        grid = figure.add_gridspec(len(right), 2, width_ratios=(_share(sol, high), 1))
        if sol.system.drawn:
            space = sol.system._functions["points"].size2_out(0) == 3
            motion(sol, figure.add_subplot(grid[:, 0], projection="3d" if space else None))
            if space:  # labels of three-dimensional axes need space
                figure.set_layout_engine("constrained", wspace=0.12)
        else:
            _stacked(sol, figure, grid[:, 0])
        for i, draw in enumerate(right):
            draw(sol, figure.add_subplot(grid[i, 1]))
        figure.suptitle(titled(sol))
    return figure


def _share(sol: Solution, high: float) -> float:
    """How wide the picture is beside the curves: as its motion wants, within limits."""
    if not sol.system.drawn:
        return 1.15
    spread = np.ptp(sol.points.reshape(-1, sol.points.shape[2]), axis=0)
    wide = high * float(spread[0]) / max(float(spread[1]), 1e-9) if len(spread) == 2 else high
    return float(np.clip(wide / 4.6, 0.6, 1.2))


def _stacked(sol: Solution, figure: Figure, place: SubplotSpec) -> None:
    """Coordinates over time, one axes for each unit or kind."""
    groups = coordinate_groups(sol)[:4]
    cells = place.subgridspec(len(groups), 1)
    for k, group in enumerate(groups):
        coordinates(sol, figure.add_subplot(cells[k, 0]), group=group)


def plot(sol: Solution, path: str | Path | None = None, dpi: float | None = None) -> Figure:
    """The overview of a run, written to `path` if one is given, otherwise shown where there is a screen: `sol.plot()`."""
    checked = None if path is None else figure_path(path)
    figure = overview(sol)
    if checked is not None:
        save(figure, checked, dpi)
    else:
        present(figure)
    return figure


shown.PLOT.set(plot)
