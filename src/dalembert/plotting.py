"""Pictures with matplotlib. Functions take `ax` and return it; nothing is shown unasked.

Without `ax` a figure is made in the style sheet `dalembert.style`, which `plt.style.use("dalembert.style")` sets for figures of
one's own. Labels are written for matplotlib's mathematics and for LaTeX (`text.usetex`) alike.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dalembert.errors import MethodError
from dalembert.systems import Picture
from dalembert.systems.picture import particles

if TYPE_CHECKING:
    from dalembert.solution import Solution

SHEET = "dalembert.style"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")  # those of the style sheet
GREEK = re.compile(
    "alpha|beta|gamma|delta|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|chi|psi|omega|"
    "Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)
ZERO = 1e-17  # where exact zeros are drawn on a logarithmic axis
MOST = 48  # characters of a name in a figure
SPOKEN = {"phi": r"\varphi", "epsilon": r"\varepsilon", "lam": r"\lambda", "eps": r"\varepsilon"}
F = TypeVar("F", bound=Callable[..., Any])


def style() -> Any:
    """A context in which figures get the style sheet."""
    import matplotlib.pyplot as plt

    return plt.style.context(SHEET)


def styled(draw: F) -> F:
    """Draw in the style sheet where no `ax` is given; with one, in the style of its figure."""
    signature = inspect.signature(draw)

    @functools.wraps(draw)
    def inner(*arguments: Any, **options: Any) -> Any:
        if signature.bind(*arguments, **options).arguments.get("ax") is not None:
            return draw(*arguments, **options)
        with style():
            return draw(*arguments, **options)

    return inner  # type: ignore[return-value]


def _axes(ax: Any, projection: str | None = None) -> Any:
    import matplotlib.pyplot as plt

    return plt.figure().add_subplot(projection=projection) if ax is None else ax


# ---- labels -----------------------------------------------------------------------------------------------


def symbol(name: str) -> str:
    """A name as mathematics: `x1` is $x_1$, `theta` a Greek letter, `v_x1` is $v_{x_1}$; words and formulas stay as they are."""
    if re.fullmatch(r"\$[^$]+\$", name) or re.search(r"\\[A-Za-z]", name):  # written as a formula
        formula = f"${name.strip('$')}$"
        return formula if _typesets(formula) else text(name)
    found = re.fullmatch(r"([A-Za-z]+?)_?\{?(\d*)\}?(?:_([A-Za-z]\w*))?", name)
    if not found:
        return text(name)
    head, number, tail = found.groups()
    if head in SPOKEN or GREEK.fullmatch(head):
        head = SPOKEN.get(head, "\\" + head)
    elif len(head) > 2 or (len(head) == 2 and not tail and not number):
        return text(f"{head} {number}".strip() if not tail else f"{head} {tail}")
    below = ",".join(x for x in (number, symbol(tail).strip("$") if tail else "") if x)
    if tail and not re.fullmatch(r"[A-Za-z]\w?\d*", tail):
        below = rf"\mathrm{{{tail[:MOST]}}}".replace("_", r"\_")
    return f"${head}_{{{below}}}$" if below else f"${head}$"


def _typesets(formula: str) -> bool:
    """Whether matplotlib can typeset a formula."""
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(formula)
    except ValueError:
        return False
    return True


def text(words: str, most: int = MOST) -> str:
    """A name in running text: no longer than a label may be, and nothing in it is taken for mathematics or LaTeX."""
    import matplotlib as mpl

    words = words if len(words) <= most else words[: most - 3] + "..."
    if not mpl.rcParams["text.usetex"]:
        return words.replace("$", r"\$")
    for character in r"\&%$#_{}~^":
        words = words.replace(character, r"\textbackslash " if character == "\\" else "\\" + character)
    return words


def _label(sol: Any, text: str, unit: str) -> str:
    """An axis label with its unit, where the system states one."""
    picture = getattr(sol.system, "picture", None)
    known = picture.units.get(unit) if picture is not None else None
    return f"{text} ({known})" if known else text


def _coordinate(sol: Any, i: int) -> str:
    """A coordinate with its unit: its own, or that of lengths where it is one of a point."""
    name, picture = sol.system.coordinates[i], sol.system.picture
    known = picture is not None and name in picture.units
    of_point = any(i in group for group in particles(sol.system)) if not known else False
    return _label(sol, symbol(name), "length" if of_point else name)


def _time(sol: Any) -> str:
    return _label(sol, "time $t$", "time")


def _titled(sol: Any) -> str:
    steps = f"step {sol.step:g}" if "rejected" not in sol.stats else "adaptive steps"
    return text(f"{sol.system.name}, {sol.method}, {steps}", 100)


def figure_path(path: Any) -> Any:
    """A path that a figure can be written to."""
    from matplotlib.backend_bases import FigureCanvasBase

    from dalembert.solution.files import target

    return target(path, "a figure", tuple(f".{kind}" for kind in ("png", "pdf", "svg", *sorted(FigureCanvasBase.filetypes))))


def save(figure: Any, path: Any, **options: Any) -> None:
    """Write a figure, wholly or not at all."""
    from dalembert.solution.files import writing

    with writing(path) as temporary:
        figure.savefig(temporary, **options)


def finish(ax: Any, x: str, y: str, title: str) -> Any:
    """Labels and title, and logarithmic axes as one would print them."""
    ax.set(xlabel=x, ylabel=y)
    ax.set_title(title, loc="left")
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            _decades(ax, axis)
    return ax


def _decades(ax: Any, axis: Any) -> None:
    """At least two decades on a logarithmic axis that spans less, and no labels between decades."""
    from matplotlib.ticker import NullFormatter

    which = "x" if axis is ax.xaxis else "y"
    low, high = np.log10(getattr(ax, f"get_{which}lim")())
    if which == "y" and np.isfinite(high - low) and high - low < 2:
        middle = (low + high) / 2
        getattr(ax, f"set_{which}lim")(10 ** (middle - 1), 10 ** (middle + 1))
        high = low + 2
    if high - low >= 1:
        axis.set_minor_formatter(NullFormatter())


def _legend(ax: Any, columns: int) -> None:
    """A legend above the axes, at the right, where it hides no curve; inside, where the figure is of another style."""
    import matplotlib as mpl

    count = len(ax.get_legend_handles_labels()[0])
    if count and mpl.rcParams["axes.titlelocation"] == "left" and not mpl.rcParams["legend.frameon"]:
        ax.legend(ncols=min(columns, count), loc="lower right", bbox_to_anchor=(1.0, 0.98), borderaxespad=0.0, handlelength=1.4)
    elif count:
        ax.legend(ncols=min(columns, count), fontsize="small")


def crowded(ax: Any) -> None:
    """A legend inside the axes where it is short, below them where it is long."""
    count = len(ax.get_legend_handles_labels()[0])
    if count > 4:
        columns = 2 if count < 7 else 4 if count < 9 else 3
        ax.legend(fontsize="x-small", ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    elif count:
        ax.legend(fontsize="x-small")


def _thin(n: int, most: int = 4000) -> Any:
    """Rows to draw: a line of a million points looks no better than one of a few thousand."""
    return slice(None) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(int))


def envelope(t: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """|values| for a logarithmic axis: the largest in each of some 500 intervals; zeros are drawn at `ZERO`."""
    values = np.maximum(np.abs(values), ZERO)
    bins = max(1, len(t) // 500)
    if bins > 1:
        cut = len(t) // bins * bins
        t, values = t[:cut:bins], values[:cut].reshape(-1, bins).max(axis=1)
    return t, values


def magnitude(ax: Any, t: np.ndarray, values: np.ndarray, label: str) -> None:
    """The envelope of |values| on a logarithmic axis."""
    t, sizes = envelope(t, values)
    ax.plot(t, sizes, label=label, lw=0.9)
    ax.set_yscale("log")
    if sizes.size and (sizes <= ZERO).mean() > 0.5:  # mostly exact
        ax.annotate(
            "exact zeros are drawn at $10^{-17}$", (0.02, 0.04), xycoords="axes fraction", fontsize="x-small", color="0.45"
        )


# ---- one run ----------------------------------------------------------------------------------------------


@styled
def motion(sol: Solution, ax: Any = None) -> Any:
    """Where the system goes: trails and first and last position of its picture, or coordinates over time."""
    if not sol.system.drawn:
        return coordinates(sol, ax)
    rows = _thin(len(sol.t))
    points = sol.system.numeric("points", sol._par, q=sol.q[rows], t=sol.t[rows])
    space = points.shape[2] == 3
    ax = _axes(ax, "3d" if space else None)
    picture = sol.system.picture or Picture()
    for k, i in enumerate(picture.trails):
        ax.plot(*points[:, i].T, color=COLOURS[k % len(COLOURS)], lw=0.7, alpha=0.6)
    for when, alpha in ((0, 0.25), (-1, 1.0)):
        _instant(ax, points[when], picture.parts(), alpha)
    axis = [_label(sol, f"${a}$", "length") for a in "xyz"]
    start, end = f"{sol.t[0]:g}", f"{sol.t[-1]:g}"
    if space:
        ax.set_zlabel(axis[2])
        spread = np.ptp(points.reshape(-1, 3), axis=0)
        ax.set_box_aspect(np.maximum(spread, 0.3 * spread.max() + 1e-12))
        ax.tick_params(labelsize="x-small", pad=0)
        for which in (ax.xaxis, ax.yaxis, ax.zaxis):
            which.set_major_locator(_few())
    else:
        ax.set_aspect("equal", adjustable="datalim")
    return finish(ax, axis[0], axis[1], f"motion, $t = {start}$ (faint) and ${end}$")


def _few() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5)


def _body(ax: Any, ring: np.ndarray, alpha: float) -> Any:
    look = {"facecolor": (0.55, 0.55, 0.55, 0.45 * alpha), "edgecolor": (0.2, 0.2, 0.2, 0.9 * alpha), "linewidth": 0.9}
    if ring.shape[1] == 2:
        from matplotlib.patches import Polygon

        return ax.add_patch(Polygon(ring, closed=True, **look))
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    return ax.add_collection3d(Poly3DCollection([ring], **look))


def frames(figure: Any, points: np.ndarray, parts: Any) -> tuple[Any, Callable[[int], list[Any]]]:
    """Axes that hold a whole motion, and a function that makes the artists of one instant: trails, bodies, links, masses."""
    space = points.shape[2] == 3
    ax = figure.add_subplot(projection="3d" if space else None)
    every = points.reshape(-1, points.shape[2])
    middle, half = (every.min(axis=0) + every.max(axis=0)) / 2, max(float(np.ptp(every, axis=0).max()) / 2, 1e-9) * 1.15
    for which, m in zip("xyz", middle, strict=False):
        getattr(ax, f"set_{which}lim")(m - half, m + half)
    ax.set_aspect("equal")
    drawn: list[Any] = []

    def draw(f: int) -> list[Any]:
        for artist in drawn:
            artist.remove()
        drawn.clear()
        for k, i in enumerate(parts["trails"]):
            drawn.extend(ax.plot(*points[: f + 1, i].T, color=COLOURS[k % len(COLOURS)], lw=0.8, alpha=0.6))
        drawn.extend(_instant(ax, points[f], parts, 1.0))
        return drawn

    return ax, draw


def _instant(ax: Any, points: np.ndarray, parts: Any, alpha: float) -> list[Any]:
    """Bodies, links and masses at one time."""
    out = [_body(ax, points[list(ring)], alpha) for ring in parts["bodies"]]
    for link in parts["links"]:
        out += ax.plot(*points[list(link)].T, color="0.25", lw=1.6, alpha=alpha, solid_capstyle="round")
    out += ax.plot(*points[list(parts["masses"])].T, ls="", marker="o", ms=5.5, color="0.15", mew=0, alpha=alpha)
    return out


@styled
def coordinates(sol: Solution, ax: Any = None, most: int = 8) -> Any:
    """The first coordinates over time."""
    ax, rows = _axes(ax), _thin(len(sol.t))
    for i in range(min(most, sol.system.n)):
        ax.plot(sol.t[rows], sol.q[rows, i], label=_coordinate(sol, i))
    more = f", the first {most} of {sol.system.n}" if sol.system.n > most else ""
    finish(ax, _time(sol), "value", f"coordinates{more}")
    if sol.system.n > 4:
        crowded(ax)
    else:
        _legend(ax, 4)
    return ax


@styled
def energy(sol: Solution, ax: Any = None) -> Any:
    """Kinetic, potential and total energy over time."""
    ax, rows = _axes(ax), _thin(len(sol.t))
    parts: tuple[tuple[str, str], ...] = (("kinetic", "kinetic"), ("potential", "potential"), ("energy", "total"))
    for name, label in parts if sol.system.kind != "port-hamiltonian" else parts[2:]:
        ax.plot(sol.t[rows], getattr(sol, name)[rows], label=label)
    finish(ax, _time(sol), _label(sol, "energy", "energy"), "energy")
    _legend(ax, 3)
    return ax


@styled
def ledger(sol: Solution, ax: Any = None) -> Any:
    """The energy ledger over time: stored, dissipated, and supplied at each port, added up from the start."""
    ax, book = _axes(ax), sol.ledger()
    ports = [key for key in book if key.startswith("port ")] or ["supplied"]
    rows = _thin(len(sol.t) - 1)
    for key in ("stored", "dissipated", *ports[:5]):
        ax.plot(sol.t[1:][rows], np.cumsum(book[key])[rows], label=text(key.removeprefix("port ")))
    finish(ax, _time(sol), _label(sol, "energy since the start", "energy"), "energy ledger")
    _legend(ax, 4)
    return ax


@styled
def energy_error(sol: Solution, ax: Any = None) -> Any:
    """Error of the energy, or of the power balance of a driven or damped system, on a logarithmic scale."""
    ax = _axes(ax)
    values, title, label = _balance(sol)
    magnitude(ax, sol.t[1:], values, "total")
    return finish(ax, _time(sol), _label(sol, label, "energy"), title)


def _balance(sol: Solution) -> tuple[np.ndarray, str, str]:
    if sol.driven:
        return np.cumsum(sol.power_balance), "power balance, residuals added up", "|sum|"
    return sol.energy[1:] - sol.energy[0], "error of the energy", "$|H - H_0|$"


LEVELS = {"position": r"$\|g\|_\infty$", "velocity": r"$\|G v\|_\infty$", "acceleration": r"$\|(G v)'\|_\infty$"}


@styled
def constraints(sol: Solution, ax: Any = None, levels: tuple[str, ...] = ("position", "velocity")) -> Any:
    """Largest residual of the constraints at each level, on a logarithmic scale."""
    ax, drawn = _axes(ax), 0
    for level in levels:
        residual = np.abs(sol.residual(level))
        if residual.shape[1]:
            t = sol.t if len(residual) == len(sol.t) else sol.t_lam
            magnitude(ax, t, residual.max(axis=1), f"{level}, {LEVELS[level]}")
            drawn += 1
    if not drawn:
        _nothing(ax, "no constraints")
    finish(ax, _time(sol), "largest residual", "constraints")
    _legend(ax, 2)
    return ax


def _nothing(ax: Any, why: str) -> None:
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color="0.5")


@styled
def inputs(sol: Solution, ax: Any = None) -> Any:
    """The inputs over time."""
    ax, rows = _axes(ax), _thin(len(sol.t))
    names = list(getattr(sol.system, "ports", ())) or [f"u{k + 1}" for k in range(sol.system.nu)]
    for k, name in enumerate(names[: sol.u.shape[1]]):
        ax.plot(sol.t[rows], sol.u[rows, k], label=symbol(name))
    if not sol.u.shape[1]:
        _nothing(ax, "no inputs")
    finish(ax, _time(sol), "inputs $u$", "inputs")
    _legend(ax, 4)
    return ax


@styled
def phase(sol: Solution, i: int = 0, ax: Any = None) -> Any:
    """Phase portrait of one coordinate: momentum over position."""
    if not 0 <= i < sol.system.n:
        raise MethodError(f"there is no coordinate {i}: {sol.system.name!r} has {sol.system.n}, counted from 0")
    ax, rows = _axes(ax), _thin(len(sol.t), 20_000)
    ax.plot(sol.q[rows, i], sol.p[rows, i], lw=0.8)
    return finish(ax, _coordinate(sol, i), f"momentum of {symbol(sol.system.coordinates[i])}", "phase portrait")


@styled
def multipliers(sol: Solution, ax: Any = None) -> Any:
    """Multipliers over the times at which they live."""
    ax, rows = _axes(ax), _thin(len(sol.t_lam))
    if sol.system.kind == "port-hamiltonian" or not sol.lam.shape[1]:
        _nothing(ax, "no multipliers")
        return finish(ax, _time(sol), r"multipliers $\lambda$", "multipliers")
    for k in range(sol.lam.shape[1]):
        ax.plot(sol.t_lam[rows], sol.lam[rows, k], label=rf"$\lambda_{{{k + 1}}}$")
    finish(ax, _time(sol), r"multipliers $\lambda$", "multipliers")
    if sol.lam.shape[1] > 1:
        _legend(ax, 6)
    return ax


@styled
def steps(sol: Solution, ax: Any = None) -> Any:
    """Step sizes of a run, and how often a step was refused; the last two, cut to end at `t_end`, are left out."""
    ax, h = _axes(ax), np.diff(sol.t)
    h = h[:-2] if len(h) > 4 else h
    rows = _thin(len(h))
    ax.semilogy(sol.t[1 : 1 + len(h)][rows], h[rows], lw=0.9, marker="." if len(h) < 3 else "")
    refused = sol.stats.get("rejected")
    count = f"{sol.stats['steps']} steps" + (f", {refused} refused" if refused is not None else "")
    return finish(ax, _time(sol), _label(sol, "step $h$", "time"), count)


def overview(sol: Solution) -> Any:
    """Motion, energy, its error, and constraints in one figure; the title says method and step."""
    import matplotlib.pyplot as plt

    kind = sol.system.kind
    right: list[Any] = [energy, energy_error]
    if kind in ("dae", "port-hamiltonian"):
        right = [constraints] if kind == "dae" else [ledger, energy_error]
    if kind in ("mechanical", "hamiltonian") and sol.system.m:
        right = [*right, constraints]
    space = sol.system.drawn and sol.system._functions["points"].size2_out(0) == 3
    with style():
        figure = plt.figure(figsize=(10, max(4.0, 2.15 * len(right))))
        grid = figure.add_gridspec(len(right), 2, width_ratios=(1.15, 1))
        motion(sol, figure.add_subplot(grid[:, 0], projection="3d" if space else None))
        for i, draw in enumerate(right):
            draw(sol, figure.add_subplot(grid[i, 1]))
        figure.suptitle(_titled(sol))
        if space:  # labels of the axes in space reach out of their box
            figure.set_layout_engine("constrained", wspace=0.12)
    return figure


# ---- several runs -----------------------------------------------------------------------------------------


@styled
def section(points: Any, x: tuple[str, int] = ("q", 0), y: tuple[str, int] = ("q", 1), ax: Any = None, where: Any = None) -> Any:
    """A Poincare section in the plane of two quantities, `("q", 2)` and `("v", 2)` say, one colour an orbit.

    `where` is a function of `q` with coordinates first that says which points to draw.
    """
    ax = _axes(ax)
    several = points.q.ndim == 3
    data = {name: getattr(points, name) if several else getattr(points, name)[None] for name in ("q", "v", "p")}
    for k in range(len(data["q"])):
        keep = slice(None) if where is None else np.asarray(where(data["q"][k].T), dtype=bool)
        ax.plot(data[x[0]][k, :, x[1]][keep], data[y[0]][k, :, y[1]][keep], ".", ms=2, mew=0, rasterized=True)
    ax.set_aspect("equal")
    across, up = (_quantity(points.coordinates, *which) for which in (x, y))
    return finish(ax, across, up, f"section, {data['q'].shape[1]} points an orbit")


def _quantity(names: tuple[str, ...], kind: str, i: int) -> str:
    """A coordinate, its rate, or its momentum."""
    if i >= len(names):
        return f"${kind}_{{{i + 1}}}$"
    inner = symbol(names[i]).strip("$")
    return {"q": f"${inner}$", "v": rf"$\dot{{{inner}}}$" if "_" not in inner else f"${inner}'$", "p": f"$p_{{{inner}}}$"}[kind]


def comparison(runs: Any) -> Any:
    """Energy errors and constraints of several runs of one system, or of a `Comparison`, side by side: a whole figure."""
    import matplotlib.pyplot as plt

    runs = list(getattr(runs, "runs", runs))
    if not runs:
        raise MethodError("there is nothing to compare: give at least one solution")
    first = runs[0]
    levels = [level for level in ("position", "velocity") if first.residual(level).shape[1]]
    panels = (["energy"] if first.system.kind != "dae" else []) + levels
    with style():
        figure, grid = plt.subplots(1, len(panels), figsize=(4.0 * max(len(panels), 1.5), 3.8), squeeze=False)
        for ax, panel in zip(grid[0], panels, strict=True):
            for sol in runs:
                if panel == "energy":
                    magnitude(ax, sol.t[1:], _balance(sol)[0], text(str(sol.method)))
                else:
                    magnitude(ax, sol.t, np.abs(sol.residual(panel)).max(axis=1), text(str(sol.method)))
            if panel == "energy":
                _, title, label = _balance(first)
                finish(ax, _time(first), _label(first, label, "energy"), title)
            else:
                finish(ax, _time(first), LEVELS[panel], f"{panel} constraints")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
        figure.suptitle(text(f"{first.system.name}, step {first.step:g}", 100))
    return figure


@styled
def convergence(curves: Any, ax: Any = None) -> Any:
    """Errors over steps, slopes in the legend: `{name: (steps, errors)}`, or what `da.convergence(...)` returns."""
    if hasattr(curves, "curves"):
        curves = curves.curves()
    ax = _axes(ax)
    for name, (h, e) in curves.items():
        keep = np.asarray(e) > 0
        slope = np.polyfit(np.log(np.asarray(h)[keep]), np.log(np.asarray(e)[keep]), 1)[0] if keep.sum() > 1 else np.nan
        ax.loglog(h, e, "o-", ms=3.5, label=f"{text(name)}: {slope:.2f}")
    finish(ax, "step $h$", "error", "convergence, slopes in the legend")
    crowded(ax)
    return ax


@styled
def work_precision(curves: Any, ax: Any = None) -> Any:
    """Error over seconds of run time on logarithmic axes, one curve a method; `{name: (seconds, errors)}`."""
    ax = _axes(ax)
    for name, (seconds, errors) in curves.items():
        ax.loglog(seconds, errors, "o-", ms=3.5, label=text(name))
    finish(ax, "run time (s)", "error", "work and precision")
    crowded(ax)
    return ax
