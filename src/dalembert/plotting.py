"""Pictures with matplotlib. Functions take `ax` and return it; nothing is shown unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dalembert.solution import Solution

# Okabe and Ito's colours, distinguishable with every kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
STYLE: dict[str, Any] = {
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "axes.titlelocation": "left",
    "font.size": 9,
    "legend.frameon": False,
    "legend.fontsize": "small",
    "lines.linewidth": 1.2,
    "savefig.dpi": 160,
    "figure.dpi": 110,
}


def _style() -> Any:
    from cycler import cycler

    return STYLE | {"axes.prop_cycle": cycler(color=COLOURS)}


def _axes(ax: Any, projection: str | None = None) -> Any:
    import matplotlib.pyplot as plt

    if ax is not None:
        return ax
    with plt.rc_context(_style()):
        return plt.figure(layout="constrained").add_subplot(projection=projection)


def _thin(n: int, most: int = 4000) -> Any:
    """Rows to draw: a line of a million points looks no better than one of a few thousand."""
    return slice(None) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(int))


def motion(sol: Solution, ax: Any = None) -> Any:
    """Where the system goes: trails and first and last position of its picture, or coordinates over time."""
    system = sol.system
    if system.picture is None:
        ax = _axes(ax)
        rows = _thin(len(sol.t))
        for i, name in enumerate(system.coordinates[:8]):
            ax.plot(sol.t[rows], sol.q[rows, i], label=name)
        ax.set(xlabel="time", ylabel="coordinates", title="motion")
        ax.legend(ncols=2)
        return ax
    rows = _thin(len(sol.t))
    points = system.numeric("points", sol._par, q=sol.q[rows], t=sol.t[rows])
    ax = _axes(ax, "3d" if points.shape[2] == 3 else None)
    for colour, i in zip(_cycle(), system.picture.trails, strict=False):
        ax.plot(*points[:, i].T, color=colour, lw=0.7, alpha=0.55)
    for when, alpha in ((0, 0.25), (-1, 1.0)):
        for a, b in system.picture.links:
            ax.plot(*points[when, [a, b]].T, color="0.25", lw=1.6, alpha=alpha, solid_capstyle="round")
        bodies = list(system.picture.masses)
        ax.plot(*points[when, bodies].T, ls="", marker="o", ms=6, color="0.15", alpha=alpha)
    ax.set(xlabel="x", ylabel="y", title=f"motion, start (faint) and t = {sol.t[-1]:g}")
    if points.shape[2] == 3:
        ax.set_zlabel("z")
        spread = np.ptp(points.reshape(-1, 3), axis=0)
        ax.set_box_aspect(np.maximum(spread, 0.15 * spread.max() + 1e-12))
    else:
        ax.set_aspect("equal", adjustable="datalim")
    return ax


def _legend(ax: Any, columns: int) -> None:
    """A legend above the axes, at the right, where it hides no curve."""
    ax.legend(ncols=columns, loc="lower right", bbox_to_anchor=(1.0, 0.98), borderaxespad=0.0)


def _cycle() -> Any:
    while True:
        yield from COLOURS


def energy(sol: Solution, ax: Any = None) -> Any:
    """Kinetic, potential and total energy over time."""
    ax, rows = _axes(ax), _thin(len(sol.t))
    for name, label in (("kinetic", "kinetic"), ("potential", "potential"), ("energy", "total")):
        ax.plot(sol.t[rows], getattr(sol, name)[rows], label=label)
    ax.set(xlabel="time", ylabel="energy", title="energy")
    _legend(ax, 3)
    return ax


def ledger(sol: Solution, ax: Any = None) -> Any:
    """The energy ledger over time: stored, dissipated, and supplied at each port, added up from the start."""
    ax, book = _axes(ax), sol.ledger()
    ports = [key for key in book if key.startswith("port ")] or ["supplied"]
    rows = _thin(len(sol.t) - 1)
    for key in ("stored", "dissipated", *ports[:5]):
        ax.plot(sol.t[1:][rows], np.cumsum(book[key])[rows], label=key)
    ax.set(xlabel="time", ylabel="energy", title="energy ledger")
    _legend(ax, 3)
    return ax


def energy_error(sol: Solution, ax: Any = None) -> Any:
    """Error of the energy, or of the power balance of a driven or damped system, on a logarithmic scale."""
    ax = _axes(ax)
    driven = sol.driven
    values = np.cumsum(sol.power_balance) if driven else sol.energy[1:] - sol.energy[0]
    _magnitude(ax, sol.t[1:], values, "total")
    title, label = ("power balance, residuals added up", "|sum|") if driven else ("error of the energy", "|H - H(0)|")
    ax.set(xlabel="time", ylabel=label, title=title)
    return ax


def constraints(sol: Solution, ax: Any = None) -> Any:
    """Largest residual of the constraints at position and velocity level, on a logarithmic scale."""
    ax = _axes(ax)
    for level, symbol in (("position", "|g|"), ("velocity", "|G v|")):
        residual = np.abs(sol.residual(level)).max(axis=1, initial=0.0)
        _magnitude(ax, sol.t, residual, f"{level}, {symbol}")
    ax.set(xlabel="time", ylabel="largest residual", title="constraints")
    _legend(ax, 2)
    return ax


def _magnitude(ax: Any, t: np.ndarray, values: np.ndarray, label: str) -> None:
    """|values| on a log axis, as the largest in each of some 500 intervals; exact zeros are drawn at 1e-17."""
    values = np.maximum(np.abs(values), 1e-17)
    bins = max(1, len(t) // 500)
    if bins > 1:
        cut = len(t) // bins * bins
        t, values = t[:cut:bins], values[:cut].reshape(-1, bins).max(axis=1)
    ax.plot(t, values, label=label, lw=0.9)
    ax.set_yscale("log")


def overview(sol: Solution) -> Any:
    """Motion, energy, its error, and constraints in one figure; the title says method and step."""
    import matplotlib.pyplot as plt

    if sol.system.kind == "dae":
        with plt.rc_context(_style()):
            figure = plt.figure(figsize=(10, 4), layout="constrained")
            motion(sol, figure.add_subplot(1, 2, 1))
            constraints(sol, figure.add_subplot(1, 2, 2))
            figure.suptitle(f"{sol.system.name}, {sol.method}, step {sol.step:g}")
        return figure
    if sol.system.kind == "port-hamiltonian":
        with plt.rc_context(_style()):
            figure = plt.figure(figsize=(10, 6.0), layout="constrained")
            grid = figure.add_gridspec(2, 2, width_ratios=(1.15, 1))
            motion(sol, figure.add_subplot(grid[:, 0]))
            ledger(sol, figure.add_subplot(grid[0, 1]))
            energy_error(sol, figure.add_subplot(grid[1, 1]))
            figure.suptitle(f"{sol.system.name}, {sol.method}, step {sol.step:g}")
        return figure
    space = sol.system.picture is not None and sol.system._functions["points"].size2_out(0) == 3
    with plt.rc_context(_style()):
        figure = plt.figure(figsize=(10, 6.4), layout="constrained")
        grid = figure.add_gridspec(3 if sol.system.m else 2, 2, width_ratios=(1.15, 1))
        motion(sol, figure.add_subplot(grid[:, 0], projection="3d" if space else None))
        energy(sol, figure.add_subplot(grid[0, 1]))
        energy_error(sol, figure.add_subplot(grid[1, 1]))
        if sol.system.m:
            constraints(sol, figure.add_subplot(grid[2, 1]))
        figure.suptitle(f"{sol.system.name}, {sol.method}, step {sol.step:g}")
    return figure


def section(points: Any, x: tuple[str, int] = ("q", 0), y: tuple[str, int] = ("q", 1), ax: Any = None, where: Any = None) -> Any:
    """A Poincare section in the plane of two quantities, `("q", 2)` and `("v", 2)` say, one colour an orbit.

    `where` is a function of `q` with coordinates first that says which points to draw.
    """
    ax = _axes(ax)
    several = points.q.ndim == 3
    data = {name: getattr(points, name) if several else getattr(points, name)[None] for name in ("q", "v", "p")}
    for k in range(len(data["q"])):
        keep = slice(None) if where is None else np.asarray(where(data["q"][k].T), dtype=bool)
        ax.plot(data[x[0]][k, :, x[1]][keep], data[y[0]][k, :, y[1]][keep], ".", ms=1.5, mew=0, rasterized=True)
    ax.set(xlabel=f"{x[0]}[{x[1]}]", ylabel=f"{y[0]}[{y[1]}]", title=f"section, {data['q'].shape[1]} points an orbit")
    ax.set_aspect("equal")
    return ax


def comparison(runs: Any) -> Any:
    """Energy errors and constraints of several runs of one system, side by side."""
    import matplotlib.pyplot as plt

    with plt.rc_context(_style()):
        figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
        for sol in runs:
            error = np.cumsum(sol.power_balance) if sol.driven else sol.energy[1:] - sol.energy[0]
            _magnitude(axes[0], sol.t[1:], error, str(sol.method))
            for ax, level in zip(axes[1:], ("position", "velocity"), strict=True):
                _magnitude(ax, sol.t, np.abs(sol.residual(level)).max(axis=1, initial=0.0), str(sol.method))
        for ax, title, label in zip(
            axes, ("energy", "position constraints", "velocity constraints"), ("error", "|g|", "|G v|"), strict=True
        ):
            ax.set(xlabel="time", ylabel=label, title=title)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
        figure.suptitle(f"{runs[0].system.name}, step {runs[0].step:g}")
    return figure


def convergence(curves: Any, ax: Any = None) -> Any:
    """Errors over steps on logarithmic axes, one curve a method, its slope in the legend; `{name: (steps, errors)}`."""
    ax = _axes(ax)
    for name, (h, e) in curves.items():
        keep = np.asarray(e) > 0
        slope = np.polyfit(np.log(np.asarray(h)[keep]), np.log(np.asarray(e)[keep]), 1)[0] if keep.sum() > 1 else np.nan
        ax.loglog(h, e, "o-", ms=3.5, label=f"{name}: {slope:.2f}")
    ax.set(xlabel="step", ylabel="error", title="convergence (slopes in the legend)")
    crowded(ax)
    return ax


def crowded(ax: Any) -> None:
    """A legend inside the axes where it is short, below them where it is long."""
    count = len(ax.get_legend_handles_labels()[0])
    if count > 4:
        ax.legend(fontsize="x-small", ncols=2 if count < 9 else 3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    elif count:
        ax.legend(fontsize="x-small")


def phase(sol: Solution, i: int = 0, ax: Any = None) -> Any:
    """Phase portrait of one coordinate: momentum over position."""
    ax, rows = _axes(ax), _thin(len(sol.t))
    ax.plot(sol.q[rows, i], sol.p[rows, i], lw=0.8)
    name = sol.system.coordinates[i]
    ax.set(xlabel=name, ylabel=f"momentum of {name}", title="phase portrait")
    return ax


def multipliers(sol: Solution, ax: Any = None) -> Any:
    """Multipliers over the times at which they live."""
    ax, rows = _axes(ax), _thin(len(sol.t_lam))
    for k in range(sol.lam.shape[1]):
        ax.plot(sol.t_lam[rows], sol.lam[rows, k], label=f"{k + 1}")
    ax.set(xlabel="time", ylabel="multiplier", title="multipliers")
    if sol.lam.shape[1] > 1:
        _legend(ax, 4)
    return ax


def steps(sol: Solution, ax: Any = None) -> Any:
    """Step sizes of an adaptive run."""
    ax, h = _axes(ax), np.diff(sol.t)
    rows = _thin(len(h))
    ax.semilogy(sol.t[1:][rows], h[rows], lw=0.8)
    ax.set(xlabel="time", ylabel="step", title="step sizes")
    return ax


def work_precision(curves: Any, ax: Any = None) -> Any:
    """Error over seconds of run time on logarithmic axes, one curve a method; `{name: (seconds, errors)}`."""
    ax = _axes(ax)
    for name, (seconds, errors) in curves.items():
        ax.loglog(seconds, errors, "o-", ms=3.5, label=name)
    ax.set(xlabel="run time, s", ylabel="error", title="work and precision")
    crowded(ax)
    return ax
