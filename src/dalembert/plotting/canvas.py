"""Style, logarithmic axes, legends and files of all figures."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dalembert.solution.paths import target, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")  # as in the style sheet
QUIET = 1e-11  # below this, residuals are round-off, whose single values mean nothing
ZERO = 1e-17  # where exact zeros are drawn on a logarithmic axis
P = ParamSpec("P")
R = TypeVar("R")
Array = NDArray[np.float64]


@contextmanager
def style() -> Iterator[None]:
    """A context in which figures use the style sheet.

    It puts back the settings of the sheet alone. `plt.style.context` puts back all, also what a backend sets when it is first
    used: in a notebook no figure of anyone would appear after that.
    """
    import matplotlib as mpl

    own, settings = _sheet(), cast("dict[str, object]", mpl.rcParams)  # matplotlib types its settings one by one
    before = {name: settings[name] for name in own}
    settings.update(own)
    try:
        yield
    finally:
        settings.update(before)


@functools.cache
def _sheet() -> dict[str, object]:
    """The settings of the style sheet."""
    import matplotlib as mpl

    with as_file(files("dalembert").joinpath("style.mplstyle")) as path:
        return dict(cast("dict[str, object]", mpl.rc_params_from_file(path, use_default_template=False)))


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw with the style sheet if no `ax` is given; otherwise in the style of its figure."""
    signature = inspect.signature(draw)

    @functools.wraps(draw)
    def inner(*arguments: P.args, **options: P.kwargs) -> R:
        if signature.bind(*arguments, **options).arguments.get("ax") is not None:
            return draw(*arguments, **options)
        with style():
            return draw(*arguments, **options)

    return inner


def axes(ax: Axes | None, projection: str | None = None) -> Axes:
    """The given axes, or those of a new figure."""
    import matplotlib.pyplot as plt

    return plt.figure().add_subplot(projection=projection) if ax is None else ax


def figure_path(path: str | Path) -> Path:
    """The path of a figure, checked."""
    from matplotlib.backend_bases import FigureCanvasBase

    return target(path, "a figure", tuple(f".{kind}" for kind in ("png", "pdf", "svg", *sorted(FigureCanvasBase.filetypes))))


def save(figure: Figure, path: str | Path, dpi: float | None = None) -> None:
    """Write a figure; an incomplete file is never left behind."""
    with writing(Path(path)) as temporary:
        figure.savefig(temporary, dpi="figure" if dpi is None else dpi)


def finish(ax: Axes, x: str, y: str, title: str) -> Axes:
    """Set labels and title, and the ticks of logarithmic axes."""
    ax.set(xlabel=x, ylabel=y)
    ax.set_title(title, loc="left")
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            _decades(ax, axis)
    return ax


def _decades(ax: Axes, axis: Axis) -> None:
    """Show at least two decades on a logarithmic y-axis, and no labels between decades."""
    from matplotlib.ticker import LogLocator, NullFormatter

    which = "x" if axis is ax.xaxis else "y"
    low, high = np.log10(getattr(ax, f"get_{which}lim")())
    if which == "y" and np.isfinite(high - low) and high - low < 2:
        middle = (low + high) / 2
        getattr(ax, f"set_{which}lim")(10 ** (middle - 1), 10 ** (middle + 1), auto=True)  # further curves still count
        high = low + 2
    if high - low >= 1:
        axis.set_minor_formatter(NullFormatter())
    elif which == "x":  # within a decade, label 2 and 5 only
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))


def legend(ax: Axes, columns: int) -> None:
    """A legend above the axes at the right, if there is space beside the title; otherwise inside or below them."""
    import matplotlib as mpl

    labels = ax.get_legend_handles_labels()[1]
    if not labels:
        return
    ours = mpl.rcParams["axes.titlelocation"] == "left" and not mpl.rcParams["legend.frameon"]
    if ours and len(labels) <= columns and _width(labels, ax.get_title(loc="left")) < _space(ax):
        ax.legend(ncols=len(labels), loc="lower right", bbox_to_anchor=(1.0, 0.98), borderaxespad=0.0, handlelength=1.4)
    else:
        crowded(ax)


def _width(labels: list[str], title: str) -> float:
    """About how wide a title with labels beside it is, in inches."""
    plain = [re.sub(r"\\[A-Za-z]+", "x", label) for label in (*labels, title)]
    letters = sum(len(re.sub(r"[${}_^\\]", "", label)) for label in plain)
    return 0.068 * letters + 0.42 * len(labels)


def _space(ax: Axes) -> float:
    """About how wide axes will be, in inches."""
    place, figure = ax.get_subplotspec(), ax.get_figure(root=True)
    whole = figure.get_size_inches()[0] if figure is not None else 6.4
    if place is None:
        return 0.8 * float(whole)
    place = place.get_topmost_subplotspec()
    grid = place.get_gridspec()
    shares = np.broadcast_to(np.asarray(grid.get_width_ratios() or 1.0, dtype=float), grid.ncols)
    own = shares[place.colspan.start : place.colspan.stop].sum() / shares.sum()
    return float(whole * own - 0.7)


def crowded(ax: Axes) -> None:
    """A legend inside the axes if it is short, below them if it is long."""
    from matplotlib.transforms import ScaledTranslation

    count = len(ax.get_legend_handles_labels()[0])
    figure = ax.get_figure(root=True)
    if count > 4 and figure is not None and figure.get_layout_engine() is not None:  # which makes the space that is needed
        columns = 2 if count < 7 else 4 if count < 9 else 3
        below = ax.transAxes + ScaledTranslation(0.0, -0.5, ax.figure.dpi_scale_trans)  # half an inch for the label of the axis
        ax.legend(fontsize="x-small", ncols=columns, loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below)
    elif count:  # readable where no corner is free of curves
        ax.legend(fontsize="x-small", frameon=True, framealpha=0.8, edgecolor="none")


def thin(n: int, most: int = 4000) -> NDArray[np.intp]:
    """At most `most` of `n` rows, evenly spaced; more would not be visible."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))


def dashes(k: int) -> Literal["-", "--", ":", "-."]:
    """The line style of curve k: colours repeat after eight."""
    looks: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
    return looks[k // len(COLOURS) % 4]


def envelope(t: Array, values: Array) -> tuple[Array, Array]:
    """|values| for a logarithmic axis: the largest in each of some 500 intervals, of some 50 if all are round-off.

    Zeros are drawn at `ZERO`.
    """
    values = np.maximum(np.abs(values), ZERO)
    bins = max(1, len(t) // (50 if values.max(initial=0.0) < QUIET else 500))
    if bins > 1:
        cut = len(t) // bins * bins
        t, values = t[:cut:bins], values[:cut].reshape(-1, bins).max(axis=1)
    return t, values


def magnitude(ax: Axes, t: Array, values: Array, label: str) -> Line2D:
    """The envelope of |values| on a logarithmic axis."""
    t, sizes = envelope(t, values)
    first = not any((np.asarray(line.get_ydata()) <= ZERO).mean() > 0.5 for line in ax.lines)
    (line,) = ax.plot(t, sizes, label=label, lw=0.9, ls=dashes(len(ax.lines)))
    ax.set_yscale("log")
    if first and sizes.size and (sizes <= ZERO).mean() > 0.5:  # mostly exact
        ax.annotate(
            "exact zeros are drawn at $10^{-17}$", (0.02, 0.93), xycoords="axes fraction", fontsize="x-small", color="0.4",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}, zorder=5,
        )  # fmt: skip
    return line
