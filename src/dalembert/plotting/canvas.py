"""The style of all figures, logarithmic axes, legends, and files."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

SHEET = "dalembert.style"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")  # those of the style sheet
ZERO = 1e-17  # where exact zeros are drawn on a logarithmic axis
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


def axes(ax: Any, projection: str | None = None) -> Any:
    import matplotlib.pyplot as plt

    return plt.figure().add_subplot(projection=projection) if ax is None else ax


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
    from matplotlib.ticker import LogLocator, NullFormatter

    which = "x" if axis is ax.xaxis else "y"
    low, high = np.log10(getattr(ax, f"get_{which}lim")())
    if which == "y" and np.isfinite(high - low) and high - low < 2:
        middle = (low + high) / 2
        getattr(ax, f"set_{which}lim")(10 ** (middle - 1), 10 ** (middle + 1))
        high = low + 2
    if high - low >= 1:
        axis.set_minor_formatter(NullFormatter())
    elif which == "x":  # within a decade: two and five are enough
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))


def legend(ax: Any, columns: int) -> None:
    """A legend above the axes, at the right, where it hides no curve; inside, where the figure is of another style."""
    import matplotlib as mpl

    count = len(ax.get_legend_handles_labels()[0])
    if count and mpl.rcParams["axes.titlelocation"] == "left" and not mpl.rcParams["legend.frameon"]:
        ax.legend(ncols=min(columns, count), loc="lower right", bbox_to_anchor=(1.0, 0.98), borderaxespad=0.0, handlelength=1.4)
    elif count:
        ax.legend(ncols=min(columns, count), fontsize="small")


def crowded(ax: Any) -> None:
    """A legend inside the axes where it is short, below them where it is long."""
    from matplotlib.transforms import ScaledTranslation

    count = len(ax.get_legend_handles_labels()[0])
    if count > 4:
        columns = 2 if count < 7 else 4 if count < 9 else 3
        below = ax.transAxes + ScaledTranslation(0.0, -0.5, ax.figure.dpi_scale_trans)  # half an inch for the label of the axis
        ax.legend(fontsize="x-small", ncols=columns, loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below)
    elif count:
        ax.legend(fontsize="x-small")


def thin(n: int, most: int = 4000) -> Any:
    """Rows to draw: a line of a million points looks no better than one of a few thousand."""
    return slice(None) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(int))


def dashes(k: int) -> str:
    """The line style of curve k: colours repeat after eight."""
    return ("-", "--", ":", "-.")[k // len(COLOURS) % 4]


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
    first = not any((np.asarray(line.get_ydata()) <= ZERO).mean() > 0.5 for line in ax.lines)
    ax.plot(t, sizes, label=label, lw=0.9, ls=dashes(len(ax.lines)))
    ax.set_yscale("log")
    if first and sizes.size and (sizes <= ZERO).mean() > 0.5:  # mostly exact
        ax.annotate(
            "exact zeros are drawn at $10^{-17}$", (0.02, 0.93), xycoords="axes fraction", fontsize="x-small", color="0.4",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}, zorder=5,
        )  # fmt: skip
