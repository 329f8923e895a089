"""How a solution is written and shown: files, figures, reports, films. The code is in higher layers; here are its hooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from dalembert.errors import suggesting
from dalembert.hooks import Hook
from dalembert.solution.inline import Film, Inline, Page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dalembert.solution.base import Solution


class Shown:
    """The part of a solution that writes and shows it."""

    @property
    def _self(self) -> Solution:
        return cast("Solution", self)

    @suggesting
    def save(self, path: str | Path) -> Path:
        """Write to a NetCDF file, the system's functions included; `da.load` reads it without the model's source."""
        return WRITE(self._self, path)

    @suggesting
    def report(self, path: str | Path) -> Page:
        """One HTML file that opens offline: summary, interactive figures, and an animation linked to them."""
        return REPORT(self._self, path)

    @suggesting
    def animate(
        self,
        path: str | Path | None = None,
        *,
        fps: float = 30,
        seconds: float | None = None,
        size: tuple[int, int] = (640, 640),
        dpi: float = 100.0,
        camera: tuple[float, float] | None = None,
        trail: float | None = None,
    ) -> Film | Inline:
        """The motion as a film, `.gif` or `.mp4`, in real time or in `seconds`; without a path, a player for a notebook.

        `size` is in pixels, `dpi` scales text and lines, `camera` is the azimuth and elevation of the view in degrees, `trail`
        how long trails last. What is returned is the path of the film; a notebook shows it.
        """
        return ANIMATE(self._self, path, fps=fps, seconds=seconds, size=size, dpi=dpi, camera=camera, trail=trail)

    @suggesting
    def plot(self, path: str | Path | None = None, *, dpi: float | None = None) -> Figure:
        """Motion, energy and constraints in one matplotlib figure; written to `path` where one is given."""
        return PLOT(self._self, path, dpi)


WRITE: Hook[[Solution, str | Path], Path] = Hook("Solution.save", "dalembert.solution.files")
REPORT: Hook[[Solution, str | Path], Page] = Hook("Solution.report", "dalembert.reporting")
ANIMATE: Hook[..., Film | Inline] = Hook("Solution.animate", "dalembert.reporting")
PLOT: Hook[[Solution, str | Path | None, float | None], Figure] = Hook("Solution.plot", "dalembert.plotting")
