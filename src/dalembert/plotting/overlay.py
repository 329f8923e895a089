"""Curves of several runs on the same axes: every one gets a label of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dalembert.plotting.canvas import dashes
from dalembert.plotting.groups import run_names
from dalembert.plotting.labels import text
from dalembert.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_drawn: WeakKeyDictionary[Axes, list[tuple[Solution, Line2D, str]]] = WeakKeyDictionary()


def curve(ax: Axes, sol: Solution, lines: list[Line2D], label: str) -> None:
    """Note that a line of a run was drawn, and label all lines of these axes anew if there is more than one run.

    One run: the label, or the method if it is empty. Several: what tells the runs apart, and the label; runs differ by dashes.
    """
    known = _drawn.setdefault(ax, [])
    known += [(sol, line, label) for line in lines]
    runs: list[Solution] = []
    for other, _, _ in known:
        if not any(other is run for run in runs):
            runs.append(other)
    several = len({label for *_, label in known}) > 1
    for (other, drawn, own), name in zip(known, _names(runs, known), strict=True):
        if len(runs) == 1:
            drawn.set_label(own or name)
            continue
        drawn.set_label(f"{name}, {own}" if own and several else name)
        if several:
            drawn.set_linestyle(dashes(8 * next(k for k, run in enumerate(runs) if run is other)))


def _names(runs: list[Solution], known: list[tuple[Solution, Line2D, str]]) -> list[str]:
    """The name of the run of each line."""
    names = [text(name) for name in run_names(runs)]
    return [names[next(k for k, run in enumerate(runs) if run is sol)] for sol, *_ in known]


def overlaid(ax: Axes) -> bool:
    """Whether there are curves of more than one run."""
    return len({id(sol) for sol, *_ in _drawn.get(ax, [])}) > 1
