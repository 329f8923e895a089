"""A run as one file to look at: summary, interactive figures and an animation, self-contained; and animations as GIF or video."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.errors import MethodError
from dalembert.plotting import COLOURS, _style

if TYPE_CHECKING:
    from dalembert.solution import Solution

FRAMES = 900  # of an animation: fifteen seconds at sixty a second
POINTS = 2000  # of a line in a figure


def _thin(n: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def _picture(sol: Solution, rows: np.ndarray) -> dict[str, Any]:
    """Points, links, masses and trails of the system's picture; coordinates as bars where it has none."""
    system = sol.system
    if system.picture is not None:
        points = system.numeric("points", sol._par, q=sol.q[rows], t=sol.t[rows])
        drawn: dict[str, Any] = {"links": system.picture.links, "masses": system.picture.masses, "trails": system.picture.trails}
    else:
        q = sol.q[rows]
        scale = np.abs(q).max(axis=0)
        q = q / np.where(scale > 0, scale, 1.0)
        k, gap = q.shape[1], 2.0 / max(1, q.shape[1])
        points = np.zeros((len(rows), 2 * k, 2))
        for i in range(k):
            points[:, 2 * i : 2 * i + 2, 0] = gap * i
            points[:, 2 * i + 1, 1] = q[:, i]
        drawn = {"links": [(2 * i, 2 * i + 1) for i in range(k)], "masses": [2 * i + 1 for i in range(k)], "trails": []}
    return {"points": np.round(points, 6).tolist(), "dimension": points.shape[2], **drawn}


def _figures(sol: Solution) -> list[dict[str, Any]]:
    rows = _thin(len(sol.t), POINTS)
    t = sol.t[rows].tolist()

    def log(values: np.ndarray) -> list[float]:
        return [float(x) for x in np.maximum(np.abs(values), 1e-17)]

    names = list(sol.system.coordinates)[:8]
    out = [{"title": "motion", "label": "coordinates", "log": False, "t": t,
            "lines": [{"name": n, "y": sol.q[rows, i].tolist()} for i, n in enumerate(names)]}]  # fmt: skip
    if sol.system.kind != "dae":
        energies = [("total", sol.energy)]
        if sol.system.kind != "port-hamiltonian":
            energies = [("kinetic", sol.kinetic), ("potential", sol.potential), *energies]
        out.append({"title": "energy", "label": "energy", "log": False, "t": t,
                    "lines": [{"name": n, "y": e[rows].tolist()} for n, e in energies]})  # fmt: skip
        driven = sol.driven
        error = np.concatenate([[0.0], np.cumsum(sol.power_balance)]) if driven else sol.energy - sol.energy[0]
        title = "power balance, residuals added up" if driven else "error of the energy"
        out.append({"title": title, "label": "|sum|" if driven else "|H - H(0)|", "log": True, "t": t,
                    "lines": [{"name": "error", "y": log(error[rows])}]})  # fmt: skip
    lines = []
    for level in ("position", "velocity"):
        residual = sol.residual(level)
        if residual.shape[1]:
            lines.append({"name": level, "y": log(np.abs(residual).max(axis=1)[rows])})
    if lines:
        out.append({"title": "constraints", "label": "largest residual", "log": True, "t": t, "lines": lines})
    return out


def report(sol: Solution, path: str | Path) -> Path:
    """Write one HTML file that opens offline: summary, interactive figures, and an animation linked to a cursor in them."""
    from dalembert.solution import target

    path = target(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise MethodError(f"a report is an HTML file: give a name that ends in .html, not {path.name!r}")
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MethodError("reports need plotly: pip install 'dalembert[report]'") from error
    rows = _thin(len(sol.t), FRAMES)
    data = {"t": sol.t[rows].tolist(), "colours": list(COLOURS), **_picture(sol, rows), "figures": _figures(sol)}
    text = files("dalembert").joinpath("report.html").read_text(encoding="utf-8")
    fill = {
        "__TITLE__": html.escape(f"{sol.system.name}, {sol.method}"),
        "__SUMMARY__": html.escape(str(sol)),
        "__DATA__": json.dumps(data).replace("</", "<\\/"),
        "__PLOTLY__": get_plotlyjs(),
    }
    for key, value in fill.items():
        text = text.replace(key, value)
    path.write_text(text, encoding="utf-8")
    return path


def animate(sol: Solution, path: str | Path, *, fps: int = 30, seconds: float | None = None) -> Path:
    """Write the motion as `.gif` or (where ffmpeg is installed) `.mp4`, in real time unless `seconds` says otherwise."""
    import matplotlib.pyplot as plt
    from matplotlib import animation

    from dalembert.solution import target

    path = target(path)
    kind = path.suffix.lower()
    if kind not in (".gif", ".mp4"):
        raise MethodError(f"an animation is a .gif or .mp4 file, not {path.name!r}")
    if kind == ".mp4" and not animation.writers.is_available("ffmpeg"):
        raise MethodError("an .mp4 needs ffmpeg, which is not installed here; write a .gif")
    span = float(sol.t[-1] - sol.t[0]) if seconds is None else float(seconds)
    count = int(np.clip(span * fps, 2, 600))
    rows = _thin(len(sol.t), count)
    picture = _picture(sol, rows)
    points = np.asarray(picture["points"])
    space = points.shape[2] == 3
    low, high = points.reshape(-1, points.shape[2]).min(axis=0), points.reshape(-1, points.shape[2]).max(axis=0)
    middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-9) * 1.15
    with plt.rc_context(_style()):
        figure = plt.figure(figsize=(5, 5), layout="constrained")
        ax: Any = figure.add_subplot(projection="3d" if space else None)
        setters = [ax.set_xlim, ax.set_ylim] + ([ax.set_zlim] if space else [])
        for set_limits, m in zip(setters, middle, strict=True):
            set_limits(m - half, m + half)
        if not space:
            ax.set_aspect("equal")
        ax.set(xlabel="x", ylabel="y")
        trails = [ax.plot(*points[:1, k].T, lw=0.8, alpha=0.6)[0] for k in picture["trails"]]
        links = [ax.plot(*points[0, [a, b]].T, color="0.25", lw=2)[0] for a, b in picture["links"]]
        bodies = ax.plot(*points[0, list(picture["masses"])].T, ls="", marker="o", color="0.1")[0]

        def place(artist: Any, xyz: np.ndarray) -> None:
            if space:
                artist.set_data_3d(*xyz.T)
            else:
                artist.set_data(*xyz.T)

        def update(f: int) -> list[Any]:
            for line, k in zip(trails, picture["trails"], strict=True):
                place(line, points[: f + 1, k])
            for line, (a, b) in zip(links, picture["links"], strict=True):
                place(line, points[f, [a, b]])
            place(bodies, points[f, list(picture["masses"])])
            ax.set_title(f"{sol.system.name}, t = {sol.t[rows[f]]:.2f}")
            return [*trails, *links, bodies]

        movie = animation.FuncAnimation(figure, update, frames=len(rows), blit=False)
        movie.save(str(path), writer="pillow" if kind == ".gif" else "ffmpeg", fps=max(1, round(len(rows) / max(span, 1e-9))))
        plt.close(figure)
    return path
