"""Reports of a run: one self-contained HTML page with summary, figures and animation; animations as GIF or video."""

from __future__ import annotations

import contextlib
import html
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert._version import __version__
from dalembert.engine.progress import Bar
from dalembert.errors import MethodError, MissingPackage
from dalembert.plotting import COLOURS, envelope, frames, style, text
from dalembert.plotting.canvas import Array, thin
from dalembert.plotting.labels import coordinate, labelled
from dalembert.solution import Solution, base
from dalembert.solution.paths import FORMS, target, writing
from dalembert.systems import Picture
from dalembert.systems.constrained import Constrained

FRAMES = 900  # frames of an animation at most: fifteen seconds at sixty per second
POINTS = 2000  # points of a line at most
BARS = 24  # coordinates drawn as bars at most
Image = NDArray[np.uint8]


@dataclass(frozen=True)
class _Drawing:
    """What moves: points, one row for each time, the picture that joins them, and labels `(point, name)`."""

    points: Array
    picture: Picture
    labels: list[tuple[int, str]]

    def plain(self) -> dict[str, object]:
        """As data for the page."""
        parts = {k: v for k, v in self.picture.parts().items() if k != "units"}
        points = np.round(self.points, 6).tolist()
        return {"points": points, "dimension": self.points.shape[2], "labels": self.labels, **parts}


def _drawing(sol: Solution, rows: NDArray[np.intp]) -> _Drawing:
    """The picture of the system; if it has none, its coordinates as bars, each scaled to its largest value."""
    system = sol.system
    if system.drawn:
        points = sol.points[rows]
        return _Drawing(points, system.picture or Picture(), [])
    q = sol.motion[rows][:, :BARS]
    scale = np.abs(q).max(axis=0)
    q = q / np.where(scale > 0, scale, 1.0)
    k, gap = q.shape[1], 2.0 / max(1, q.shape[1])
    points = np.zeros((len(rows), 2 * k, 2))
    for i in range(k):
        points[:, 2 * i : 2 * i + 2, 0] = gap * i
        points[:, 2 * i + 1, 1] = q[:, i]
    bars = Picture(links=[(2 * i, 2 * i + 1) for i in range(k)], masses=[2 * i + 1 for i in range(k)])
    return _Drawing(points, bars, [(2 * i, name) for i, name in enumerate(system.coordinates[:k])])


Lines = list[tuple[str, Array]]


class _Figures:
    """The figures of a page as data, built one after another."""

    def __init__(self, sol: Solution) -> None:
        self.sol, self.rows = sol, thin(len(sol.t), POINTS)
        self.data: list[dict[str, object]] = []

    def add(self, title: str, label: str, lines: Lines) -> None:
        """Lines over time."""
        drawn = [{"name": name, "y": np.asarray(y)[self.rows].tolist()} for name, y in lines]
        self.data.append(
            {
                "title": title,
                "label": html.escape(label, quote=False),
                "log": False,
                "t": self.sol.t[self.rows].tolist(),
                "lines": drawn,
            }
        )

    def add_sizes(self, title: str, label: str, lines: Lines) -> None:
        """Absolute values over time, on a logarithmic axis."""
        binned = [(name, *envelope(self.sol.t, y)) for name, y in lines]
        drawn = [{"name": name, "y": y.tolist()} for name, _, y in binned]
        self.data.append(
            {"title": title, "label": html.escape(label, quote=False), "log": True, "t": binned[0][1].tolist(), "lines": drawn}
        )


def _figures(sol: Solution) -> list[dict[str, object]]:
    """Coordinates, energy, constraints, multipliers and inputs of a run."""
    out, system = _Figures(sol), sol.system
    names = system.coordinates[:8]
    more = f", the first {len(names)} of {system.n}" if system.n > len(names) else ""
    out.add(f"coordinates{more}", "value", [(_spelled(coordinate(sol, i)), sol.motion[:, i]) for i in range(len(names))])
    if sol.energies():
        _energies(sol, out)
    levels = [(level, np.abs(sol.residual(level))) for level in ("position", "velocity")]
    lines = [(level, residual.max(axis=1)) for level, residual in levels if residual.shape[1]]
    if lines:
        out.add_sizes("constraints", "largest residual", lines)
    if isinstance(system, Constrained) and sol.lam.size and len(sol.t_lam) == len(sol.t) - 1:
        shown = [(f"\u03bb{k + 1}", np.concatenate([sol.lam[:1, k], sol.lam[:, k]])) for k in range(min(8, sol.lam.shape[1]))]
        out.add("multipliers", "\u03bb", shown)
    if sol.u.shape[1]:
        ports = list(system.ports)
        out.add("inputs", "u", [(_spelled(name), sol.u[:, k]) for k, name in enumerate(ports[:8])])
    return out.data


def _energies(sol: Solution, out: _Figures) -> None:
    """Energy, and its error; or the ledger and the power balance if energy comes in or goes out."""
    unit = labelled(sol, "energy", "energy")
    out.add("energy", unit, list(sol.energies().items()))
    if not sol.driven:
        error = [("error", sol.energy - sol.energy[0])]
        out.add_sizes("error of the energy", labelled(sol, "|H \u2212 H(0)|", "energy"), error)
        return
    book = sol.ledger()
    ports = [key for key in book if key.startswith("port ")] or ["supplied"]
    since = [(_spelled(key.removeprefix("port ")), _summed(book[key])) for key in ("stored", "dissipated", *ports[:5])]
    out.add("ledger, energy since the start", unit, since)
    balance = [("error", _summed(sol.power_balance))]
    out.add_sizes("power balance, residuals added up", labelled(sol, "|sum|", "energy"), balance)


def _summed(values: Array) -> Array:
    """Sums from the start, beginning with zero."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _spelled(label: str) -> str:
    """A label of matplotlib as HTML: Greek letters and subscripts."""
    greek = {name: chr(code) for code in [*range(0x391, 0x3AA), *range(0x3B1, 0x3CA)] if (name := _greek(chr(code)))}
    label = html.escape(label, quote=False).replace(r"\varphi", r"\phi").replace(r"\varepsilon", r"\epsilon").replace(r"\$", "$")
    label = re.sub(r"\\mathrm\{([^{}]*)\}", r"\1", label).replace(r"\_", "_")
    label = re.sub(r"\\([A-Za-z]+)", lambda m: greek.get(m.group(1), m.group(1)), label)
    while re.search(r"_\{[^{}]*\}", label):
        label = re.sub(r"_\{([^{}]*)\}", r"<sub>\1</sub>", label)
    return label.replace("$", "")


def _greek(letter: str) -> str:
    """The name of a Greek letter; empty for other characters."""
    import unicodedata

    words = unicodedata.name(letter, "").split()
    if words[:2] != ["GREEK", "SMALL"] and words[:2] != ["GREEK", "CAPITAL"]:
        return ""
    name = words[-1].lower().replace("lamda", "lambda")
    return name.capitalize() if words[1] == "CAPITAL" else name


def _facts(sol: Solution) -> str:
    """Parameters, initial values, what the method keeps and its source, as rows of a table."""

    def short(value: ArrayLike) -> str:
        flat = np.asarray(value, dtype=float).ravel()
        first = ", ".join(f"{x:.6g}" for x in flat[:12])
        return first + (f", ... ({flat.size} in all)" if flat.size > 12 else "")

    rows = [("system", repr(sol.system).strip("<>"))]
    rows += [("parameters", ", ".join(f"{k} = {short(v)}" for k, v in sol.parameters.items()))] if sol.parameters else []
    rows.append(("start", "; ".join(f"{name} = {short(values[0])}" for name, values in sol.parts.items())))
    rows.append(("method", f"{sol.method}: keeps {sol.method.keeps}" if sol.method.keeps else str(sol.method)))
    rows += [("from", sol.method.source)] if sol.method.source else []
    rows.append(("dalembert", __version__))
    return "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows)


def report(sol: Solution, path: str | Path) -> Path:
    """Write one HTML file that opens offline: summary, interactive figures, and an animation linked to a cursor in them."""
    path = target(path, *FORMS["report"])
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingPackage.of("plotly", "report", "a report") from error
    rows = thin(len(sol.t), FRAMES)
    known = sol.system.picture.units if sol.system.picture is not None else {}
    data = {"t": sol.t[rows].tolist(), "colours": list(COLOURS), "units": known, "figures": _figures(sol)}
    data |= _drawing(sol, rows).plain()
    page = files("dalembert").joinpath("report.html").read_text(encoding="utf-8")
    fill = {
        "__TITLE__": html.escape(f"{sol.system.name}, {sol.method}"),
        "__SUMMARY__": html.escape(str(sol)),
        "__FACTS__": _facts(sol),
        "__DATA__": _in_script(data),
        "__PLOTLY__": get_plotlyjs(),
    }
    whole = re.sub("|".join(fill), lambda found: fill[found.group()], page)  # in one pass
    with writing(path) as temporary:
        temporary.write_text(whole, encoding="utf-8")
    return path


def _in_script(data: object) -> str:
    """Data inside a script of a page: no character there begins a tag, a comment or an entity of HTML."""
    text = json.dumps(data)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _ffmpeg() -> str:
    """The path of ffmpeg: installed, or that of the package imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found:
        return found
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        return str(get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        raise MissingPackage.of("ffmpeg", "video", "an .mp4 (not a .gif)") from error


def animate(sol: Solution, path: str | Path, *, fps: int = 30, seconds: float | None = None) -> Path:
    """Write the motion as `.gif` or `.mp4`, in real time, or in `seconds` if given.

    The frame durations of a GIF are multiples of 0.01 s, so its rate is the possible one nearest to `fps`.
    """
    path = target(path, *FORMS["animation"])
    film = path.suffix.lower() == ".mp4"
    if not (np.isfinite(fps) and fps > 0) or (seconds is not None and not (np.isfinite(seconds) and seconds > 0)):
        raise MethodError(f"fps and seconds must be positive numbers, not {fps!r} and {seconds!r}")
    tool = _ffmpeg() if film else ""
    span = float(sol.t[-1] - sol.t[0]) if seconds is None else float(seconds)
    count = int(np.clip(round(span * fps), 2, FRAMES))
    hundredths = max(2, round(100 * span / count))
    if not film:
        count = int(np.clip(round(100 * span / hundredths), 2, FRAMES))
    rows = _even(sol.t, count)
    with Bar(None, count, "drawing", "frames") as bar, writing(path) as temporary:
        images = _images(sol, rows, bar)
        if film:
            _write_film(tool, temporary, images, count / max(span, 1e-9))
        else:
            _write_gif(temporary, images, 10 * hundredths)
    return path


def _images(sol: Solution, rows: NDArray[np.intp], bar: Bar) -> Iterator[Image]:
    """The frames as RGB arrays. Axes and labels are drawn once."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawing = _drawing(sol, rows)
    points = drawing.points
    unit = known.units.get("time", "") if (known := sol.system.picture) is not None else ""
    with style():
        figure = Figure(figsize=(5, 5), dpi=100, layout="constrained")
        canvas: Any = FigureCanvasAgg(figure)  # matplotlib has no types for its methods
        ax, draw = frames(figure, points, drawing.picture)
        if drawing.labels:
            ax.set_xticks([points[0, k, 0] for k, _ in drawing.labels], [name for _, name in drawing.labels], rotation=45)
            ax.set_ylabel("coordinates, each divided by its largest value")
        else:
            for which in "xyz"[: points.shape[2]]:
                getattr(ax, f"set_{which}label")(labelled(sol, f"${which}$", "length"))
        clock = ax.set_title(text(sol.system.name), loc="left", y=1.0)  # a fixed place
        canvas.draw()
        figure.set_layout_engine("none")
        clock.set_visible(False)
        canvas.draw()
        still = canvas.copy_from_bbox(figure.bbox)
        clock.set_visible(True)
        for f, row in enumerate(rows):
            canvas.restore_region(still)
            clock.set_text(text(f"{sol.system.name}, t = {sol.t[row]:.2f} {unit}", 60))
            for artist in (*draw(f), clock):
                if hasattr(artist, "do_3d_projection"):
                    artist.do_3d_projection()
                ax.draw_artist(artist)
            yield np.array(canvas.buffer_rgba())[:, :, :3]
            bar.show(f + 1)


def _write_gif(path: Path, images: Iterator[Image], milliseconds: int) -> None:
    from PIL import Image

    pictures = [Image.fromarray(image).quantize(64, method=Image.Quantize.FASTOCTREE) for image in images]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0)


def _write_film(tool: str, path: Path, images: Iterator[Image], rate: float) -> None:
    first = next(images)
    shape = f"{first.shape[1]}x{first.shape[0]}"
    command = [tool, "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", shape, "-r", f"{rate:.6g}"]
    command += ["-i", "-", "-an", "-pix_fmt", "yuv420p", "-crf", "18", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the reason is read from stderr below
            for image in itertools.chain([first], images):
                process.stdin.write(image.tobytes())
        _, said = process.communicate()
    if process.returncode:
        raise MethodError(f"ffmpeg could not write {path.name!r}: {said.decode(errors='replace').strip()[-300:]}")


def _even(t: Array, count: int) -> NDArray[np.intp]:
    """Rows nearest to evenly spaced times: steps may vary, frame times do not."""
    wanted = np.linspace(t[0], t[-1], count)
    right = np.clip(np.searchsorted(t, wanted), 1, len(t) - 1)
    return np.where(wanted - t[right - 1] < t[right] - wanted, right - 1, right)


base.REPORT.set(report)
base.ANIMATE.set(lambda sol, path, fps, seconds: animate(sol, path, fps=fps, seconds=seconds))
