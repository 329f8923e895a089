"""Figures of the page, from the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

MARKS = "osD^v<>PX"
COLOURS = ["#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#B8A200"]


def style(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A colour and a mark for each peer, the same in all figures."""
    names = [*data["peers"], *data["missing"]]
    return {
        name: {
            "color": COLOURS[i % 9],
            "marker": MARKS[i % 9],
            "markersize": 4,
            "linewidth": 2.0 if i == 0 else 1.1,
            "label": name,
        }
        for i, name in enumerate(names)
    }


def front(trials: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Trials that no other beats in both time and error."""
    kept: list[tuple[float, float]] = []
    for seconds, error in sorted((t["seconds"], t["worst"]) for t in trials):
        if not kept or error < kept[-1][1]:
            kept.append((seconds, error))
    return [k[0] for k in kept], [k[1] for k in kept]


def legend(figure: Any) -> None:
    """One for all panels."""
    found: dict[str, Any] = {}
    for ax in figure.axes:
        found |= dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    if found:
        figure.legend(list(found.values()), list(found), loc="outside right center")


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)


def accuracy(data: dict[str, Any], folder: Path) -> None:
    keys = [key for key in ("double", "four") if key in data["accuracy"]] or list(data["accuracy"])[:2]
    figure, axes = plt.subplots(1, len(keys), figsize=(4.6 * len(keys), 3.9), squeeze=False)
    styles = style(data)
    for ax, key in zip(axes[0], keys, strict=True):
        problem = data["accuracy"][key]
        for name, row in problem["peers"].items():
            seconds, error = front([t for t in row["trials"] if t["worst"] < 1])
            if seconds:
                ax.loglog([1e3 * s for s in seconds], error, **styles[name])
        for level in problem["levels"]:
            ax.axhline(level, color="0.6", linewidth=0.6, linestyle=":")
        ax.set(title=f"{problem['title']}, {problem['t_end']:g} s", xlabel="CPU time of a run (ms)", ylabel="largest error")
    legend(figure)
    save(figure, folder / "benchmarks_accuracy.png")


def growth(data: dict[str, Any], folder: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.6))
    styles = style(data)
    for ax, key, title in zip(axes, ("seconds", "setup"), ("run", "set-up"), strict=True):
        for name, rows in data["growth"].items():
            if rows:
                ax.loglog([r["n"] for r in rows], [1e3 * max(r[key], 1e-5) for r in rows], **styles[name])
        sizes = sorted({r["n"] for rows in data["growth"].values() for r in rows})
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.minorticks_off()
        ax.set(title=title, xlabel="links", ylabel="CPU time (ms)")
    legend(figure)
    save(figure, folder / "benchmarks_growth.png")


def drift(data: dict[str, Any], folder: Path) -> None:
    figure, ax = plt.subplots(figsize=(6.4, 3.6))
    styles = style(data)
    for name, row in data["drift"].items():
        if "t" in row:
            ax.loglog(row["t"], [max(e, 1e-16) for e in row["energy"]], **(styles[name] | {"marker": ""}))
    labelled(ax)
    if ax.lines:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, folder / "benchmarks_drift.png")


def labelled(ax: Axes) -> None:
    ax.set(title="double pendulum, second level over 240 s", xlabel="t (s)", ylabel="largest energy error so far")


def draw(data: dict[str, Any], folder: Path) -> None:
    """All figures."""
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    with plt.style.context("dalembert.style"):
        accuracy(data, folder)
        growth(data, folder)
        drift(data, folder)
