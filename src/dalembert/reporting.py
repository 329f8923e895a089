"""A run as one file to look at: summary, interactive figures and an animation, self-contained; and animations as GIF or video."""

from __future__ import annotations

import contextlib
import html
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.engine.progress import Bar
from dalembert.errors import MethodError, MissingPackage
from dalembert.plotting import COLOURS, envelope, frames, style, text
from dalembert.plotting.labels import coordinate, labelled
from dalembert.systems import Picture

if TYPE_CHECKING:
    from dalembert.solution import Solution

FRAMES = 900  # of an animation: fifteen seconds at sixty a second
POINTS = 2000  # of a line in a figure
BARS = 24  # coordinates drawn as bars


def _thin(n: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def _picture(sol: Solution, rows: np.ndarray) -> dict[str, Any]:
    """Points and parts of the system's picture; coordinates as bars, each scaled to its largest value, where it has none."""
    system = sol.system
    if system.drawn:
        points = system.numeric("points", sol._par, q=sol.q[rows], t=sol.t[rows])
        parts = {k: v for k, v in (system.picture or Picture()).parts().items() if k != "units"}
        labels: list[Any] = []
    else:
        q = sol.q[rows][:, :BARS]
        scale = np.abs(q).max(axis=0)
        q = q / np.where(scale > 0, scale, 1.0)
        k, gap = q.shape[1], 2.0 / max(1, q.shape[1])
        points = np.zeros((len(rows), 2 * k, 2))
        for i in range(k):
            points[:, 2 * i : 2 * i + 2, 0] = gap * i
            points[:, 2 * i + 1, 1] = q[:, i]
        parts = {
            "links": [(2 * i, 2 * i + 1) for i in range(k)],
            "masses": [2 * i + 1 for i in range(k)],
            "trails": [],
            "bodies": [],
        }
        labels = [[2 * i, name] for i, name in enumerate(system.coordinates[:k])]
    return {"points": np.round(points, 6).tolist(), "dimension": points.shape[2], "labels": labels, **parts}


def _figures(sol: Solution) -> list[dict[str, Any]]:
    rows = _thin(len(sol.t), POINTS)
    t = sol.t[rows].tolist()

    def figure(title: str, label: str, lines: list[tuple[str, np.ndarray]], log: bool = False) -> dict[str, Any]:
        if not log:
            drawn = [{"name": name, "y": np.asarray(y)[rows].tolist()} for name, y in lines]
            return {"title": title, "label": label, "log": log, "t": t, "lines": drawn}
        binned = [(name, *envelope(sol.t, y)) for name, y in lines]
        drawn = [{"name": name, "y": y.tolist()} for name, _, y in binned]
        return {"title": title, "label": label, "log": log, "t": binned[0][1].tolist(), "lines": drawn}

    system, unit = sol.system, labelled(sol, "energy", "energy")
    names = system.coordinates[:8]
    more = f", the first {len(names)} of {system.n}" if system.n > len(names) else ""
    out = [figure(f"coordinates{more}", "value", [(_spelled(coordinate(sol, i)), sol.q[:, i]) for i in range(len(names))])]
    if system.kind != "dae":
        parts = [("kinetic", sol.kinetic), ("potential", sol.potential)] if system.kind != "port-hamiltonian" else []
        out.append(figure("energy", unit, [*parts, ("total", sol.energy)]))
        if sol.driven:
            error = np.concatenate([[0.0], np.cumsum(sol.power_balance)])
            book = sol.ledger()
            ports = [key for key in book if key.startswith("port ")] or ["supplied"]
            since = [
                (key.removeprefix("port "), np.concatenate([[0.0], np.cumsum(book[key])]))
                for key in ("stored", "dissipated", *ports[:5])
            ]
            out.append(figure("ledger, energy since the start", unit, since))
            out.append(
                figure("power balance, residuals added up", labelled(sol, "|sum|", "energy"), [("error", error)], log=True)
            )
        else:
            out.append(
                figure(
                    "error of the energy",
                    labelled(sol, "|H \u2212 H(0)|", "energy"),
                    [("error", sol.energy - sol.energy[0])],
                    log=True,
                )
            )
    levels = [(level, np.abs(sol.residual(level))) for level in ("position", "velocity")]
    lines = [(level, residual.max(axis=1)) for level, residual in levels if residual.shape[1]]
    if lines:
        out.append(figure("constraints", "largest residual", lines, log=True))
    if system.kind in ("mechanical", "hamiltonian") and sol.lam.size and len(sol.t_lam) == len(sol.t) - 1:
        shown = [(f"\u03bb{k + 1}", np.concatenate([sol.lam[:1, k], sol.lam[:, k]])) for k in range(min(8, sol.lam.shape[1]))]
        out.append(figure("multipliers", "\u03bb", shown))
    if sol.u.shape[1]:
        ports = list(getattr(system, "ports", ())) or [f"u{k + 1}" for k in range(system.nu)]
        out.append(figure("inputs", "u", [(name, sol.u[:, k]) for k, name in enumerate(ports[:8])]))
    return out


def _spelled(label: str) -> str:
    """A label of matplotlib in the letters of HTML: Greek ones, and numbers below the line."""
    greek = {name: chr(code) for code in [*range(0x391, 0x3AA), *range(0x3B1, 0x3CA)] if (name := _greek(chr(code)))}
    label = html.escape(label, quote=False).replace(r"\varphi", r"\phi").replace(r"\varepsilon", r"\epsilon").replace(r"\$", "$")
    label = re.sub(r"\\mathrm\{([^{}]*)\}", r"\1", label).replace(r"\_", "_")
    label = re.sub(r"\\([A-Za-z]+)", lambda m: greek.get(m.group(1), m.group(1)), label)
    while re.search(r"_\{[^{}]*\}", label):
        label = re.sub(r"_\{([^{}]*)\}", r"<sub>\1</sub>", label)
    return label.replace("$", "")


def _greek(letter: str) -> str:
    import unicodedata

    words = unicodedata.name(letter, "").split()
    if words[:2] != ["GREEK", "SMALL"] and words[:2] != ["GREEK", "CAPITAL"]:
        return ""
    name = words[-1].lower().replace("lamda", "lambda")
    return name.capitalize() if words[1] == "CAPITAL" else name


def _facts(sol: Solution) -> str:
    """Parameters, initial values, what the method keeps and where it comes from, as rows of a table."""
    from dalembert import __version__

    def short(value: Any) -> str:
        flat = np.asarray(value, dtype=float).ravel()
        first = ", ".join(f"{x:.6g}" for x in flat[:12])
        return first + (f", ... ({flat.size} in all)" if flat.size > 12 else "")

    rows = [("system", repr(sol.system).strip("<>"))]
    rows += [("parameters", ", ".join(f"{k} = {short(v)}" for k, v in sol.parameters.items()))] if sol.parameters else []
    rows.append(("start", f"q = {short(sol.q[0])}" + (f"; v = {short(sol.v[0])}" if sol.v.shape[1] else "")))
    rows.append(("method", f"{sol.method}: keeps {sol.method.keeps}" if sol.method.keeps else str(sol.method)))
    rows += [("from", sol.method.source)] if sol.method.source else []
    rows.append(("dalembert", __version__))
    return "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows)


def report(sol: Solution, path: str | Path) -> Path:
    """Write one HTML file that opens offline: summary, interactive figures, and an animation linked to a cursor in them."""
    from dalembert.solution.files import FORMS, target, writing

    path = target(path, *FORMS["report"])
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingPackage.of("plotly", "report", "a report") from error
    rows = _thin(len(sol.t), FRAMES)
    known = sol.system.picture.units if sol.system.picture is not None else {}
    data = {
        "t": sol.t[rows].tolist(), "colours": list(COLOURS), "units": known, **_picture(sol, rows), "figures": _figures(sol),
    }  # fmt: skip
    page = files("dalembert").joinpath("report.html").read_text(encoding="utf-8")
    fill = {
        "__TITLE__": html.escape(f"{sol.system.name}, {sol.method}"),
        "__SUMMARY__": html.escape(str(sol)),
        "__FACTS__": _facts(sol),
        "__DATA__": json.dumps(data).replace("</", "<\\/"),
        "__PLOTLY__": get_plotlyjs(),
    }
    whole = re.sub("|".join(fill), lambda found: fill[found.group()], page)  # once: what is filled in is not looked at again
    with writing(path) as temporary:
        temporary.write_text(whole, encoding="utf-8")
    return path


def _ffmpeg() -> str:
    """Where ffmpeg is: on the path, or that of the package imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found:
        return found
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        return str(get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        raise MissingPackage.of("ffmpeg", "video", "an .mp4 (not a .gif)") from error


def animate(sol: Solution, path: str | Path, *, fps: int = 30, seconds: float | None = None) -> Path:
    """Write the motion as `.gif` or `.mp4`, in real time unless `seconds` says how long it takes.

    A GIF counts in hundredths of a second, so that its rate is the nearest one to `fps` that it can have.
    """
    from dalembert.solution.files import FORMS, target, writing

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


def _images(sol: Solution, rows: np.ndarray, bar: Bar) -> Iterator[np.ndarray]:
    """The frames, as arrays of red, green, blue: what stands still is drawn once."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = _picture(sol, rows)
    points = np.asarray(picture["points"])
    unit = known.units.get("time", "") if (known := sol.system.picture) is not None else ""
    with style():
        figure = Figure(figsize=(5, 5), dpi=100, layout="constrained")
        canvas: Any = FigureCanvasAgg(figure)
        ax, draw = frames(figure, points, picture)
        if picture["labels"]:
            ax.set_xticks([points[0, k, 0] for k, _ in picture["labels"]], [name for _, name in picture["labels"]], rotation=45)
            ax.set_ylabel("coordinates, each by its largest value")
        else:
            for which in "xyz"[: points.shape[2]]:
                getattr(ax, f"set_{which}label")(labelled(sol, f"${which}$", "length"))
        clock = ax.set_title(text(sol.system.name), loc="left", y=1.0)  # a place that is not looked for anew
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


def _write_gif(path: Path, images: Iterator[np.ndarray], milliseconds: int) -> None:
    from PIL import Image

    pictures = [Image.fromarray(image).quantize(64, method=Image.Quantize.FASTOCTREE) for image in images]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0)


def _write_film(tool: str, path: Path, images: Iterator[np.ndarray], rate: float) -> None:
    first = next(images)
    shape = f"{first.shape[1]}x{first.shape[0]}"
    command = [
        tool,
        "-loglevel",
        "error",
        "-y",
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        shape,
        "-r",
        f"{rate:.6g}",
        "-i",
        "-",
    ]
    command += ["-an", "-pix_fmt", "yuv420p", "-crf", "18", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it says below why it stopped
            for image in itertools.chain([first], images):
                process.stdin.write(image.tobytes())
        _, said = process.communicate()
    if process.returncode:
        raise MethodError(f"ffmpeg could not write {path.name!r}: {said.decode(errors='replace').strip()[-300:]}")


def _even(t: np.ndarray, count: int) -> np.ndarray:
    """Rows nearest to evenly spaced times: steps may vary, the clock of a film does not."""
    wanted = np.linspace(t[0], t[-1], count)
    right = np.clip(np.searchsorted(t, wanted), 1, len(t) - 1)
    return np.where(wanted - t[right - 1] < t[right] - wanted, right - 1, right)
