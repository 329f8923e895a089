"""Animations: films as GIF or MP4, and a player for notebooks."""

from __future__ import annotations

import contextlib
import functools
import itertools
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dalembert.engine.progress import Bar
from dalembert.errors import MethodError, MissingPackage
from dalembert.plotting import frames, style, text
from dalembert.plotting.canvas import Array, thin
from dalembert.plotting.labels import labelled
from dalembert.reporting.page import player
from dalembert.reporting.scene import Rows, drawing
from dalembert.solution import Solution
from dalembert.solution import shown as hooks
from dalembert.solution.inline import Film, Inline
from dalembert.solution.paths import FORMS, target, writing

FRAMES = 3600  # frames of a film at most: a minute at sixty per second
TRAIL = 20_000  # points of a trail at most
Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Look:
    """How a film looks: pixels, dots per inch, which scale text and lines, the view, and how long trails are."""

    size: tuple[int, int] = (640, 640)
    dpi: float = 100.0
    camera: tuple[float, float] | None = None
    trail: float | None = None

    def __post_init__(self) -> None:
        wide, high = _pair("size", self.size, "(1280, 720)")
        if not (64 <= wide <= 8192 and 64 <= high <= 8192):
            raise MethodError(f"size is (width, height) in pixels between 64 and 8192, not {self.size!r}")
        # films in MP4 need even numbers
        object.__setattr__(self, "size", (2 * round(wide / 2), 2 * round(high / 2)))
        if self.camera is not None:
            object.__setattr__(self, "camera", _pair("camera", self.camera, "(-60, 30): azimuth and elevation in degrees"))
        for name in ("dpi", "trail"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise MethodError(f"{name} must be a positive number, not {value!r}")


def _pair(name: str, value: Sequence[float], such: str) -> tuple[float, float]:
    try:
        one, two = (float(x) for x in value)
    except (TypeError, ValueError) as error:
        raise MethodError(f"{name} is a pair of numbers such as {such}, not {value!r}") from error
    if not (np.isfinite(one) and np.isfinite(two)):
        raise MethodError(f"{name} is a pair of finite numbers, not {value!r}")
    return one, two


def animate(
    sol: Solution,
    path: str | Path | None = None,
    *,
    fps: float = 30,
    seconds: float | None = None,
    size: tuple[int, int] = (640, 640),
    dpi: float = 100.0,
    camera: tuple[float, float] | None = None,
    trail: float | None = None,
) -> Film | Inline:
    """Write the motion as `.gif` or `.mp4`, in real time, or in `seconds` if given; without a path, a player for notebooks.

    The frame durations of a GIF are multiples of 0.01 s, so its rate is the possible one nearest to `fps`. `size` is in pixels;
    `dpi` scales text and lines; `camera` is the azimuth and the elevation of the view in degrees, for motion in space; `trail` is
    how long trails last in units of time, always by default.
    """
    if path is None:
        told = f"<animation of {sol!r}; a notebook shows it, sol.animate('run.gif') writes it>"
        return Inline(told, functools.partial(player, sol))
    path, look = target(path, *FORMS["animation"]), Look(size, dpi, camera, trail)
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
        images = _images(sol, rows, bar, look)
        if film:
            _write_film(tool, temporary, images, count / max(span, 1e-9))
        else:
            _write_gif(temporary, images, 10 * hundredths)
    return Film(path.absolute())  # it is read when it is shown, from wherever that is


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


def _trails(sol: Solution, rows: Rows, points: Array, trails: Sequence[int], last: float | None) -> list[list[Array]]:
    """For each frame the trail of each point, through the stored rows and not through the frames alone."""
    if not trails:
        return [[] for _ in rows]
    kept = thin(len(sol.t), TRAIL)
    times, path = sol.t[kept], sol.points[kept][:, list(trails)]
    ends = np.searchsorted(times, sol.t[rows], side="left")
    starts = np.zeros_like(ends) if last is None else np.searchsorted(times, sol.t[rows] - last)
    return [
        [np.vstack([path[a:b, k], points[f, i][None]]) for k, i in enumerate(trails)]
        for f, (a, b) in enumerate(zip(starts, ends, strict=True))
    ]


def _images(sol: Solution, rows: Rows, bar: Bar, look: Look) -> Iterator[Image]:
    """The frames as RGB arrays. Axes and labels are drawn once."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = drawing(sol, rows)
    points = drawn.points
    unit = known.units.get("time", "") if (known := sol.system.picture) is not None else ""
    trails = _trails(sol, rows, points, list(drawn.picture.trails), look.trail)
    with style():
        figure = Figure(figsize=(look.size[0] / look.dpi, look.size[1] / look.dpi), dpi=look.dpi, layout="constrained")
        canvas: Any = FigureCanvasAgg(figure)  # matplotlib has no types for its methods
        ax, draw = frames(figure, points, drawn.picture, trails, look.camera)
        if drawn.labels:
            ax.set_xticks([points[0, k, 0] for k, _ in drawn.labels], [name for _, name in drawn.labels], rotation=45)
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


def _even(t: Array, count: int) -> Rows:
    """Rows nearest to evenly spaced times: steps may vary, frame times do not."""
    wanted = np.linspace(t[0], t[-1], count)
    right = np.clip(np.searchsorted(t, wanted), 1, len(t) - 1)
    return np.where(wanted - t[right - 1] < t[right] - wanted, right - 1, right)


hooks.ANIMATE.set(animate)
