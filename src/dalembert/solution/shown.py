"""How a solution is written and shown: files, figures, reports, films. The code is in higher layers; here are its hooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from dalembert.checking import listed
from dalembert.errors import MethodError, suggesting
from dalembert.hooks import Hook
from dalembert.markup import card, facts, short
from dalembert.solution.inline import Film, Inline, Page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dalembert.solution.base import Solution


class Shown:
    """The part of a solution that writes and shows it."""

    @property
    def _self(self) -> Solution:
        return cast("Solution", self)

    def __repr__(self) -> str:
        sol = self._self
        return f"<Solution of {sol.system.name!r} by {sol.method}: {sol.stats.get('steps', 0)} steps to t = {sol.t[-1]:g}>"

    @property
    def title(self) -> str:
        """System, method, times and step size in a line."""
        sol = self._self
        varied = "rejected" in sol.stats
        steps = f"steps {np.diff(sol.t).min(initial=np.inf):.2g} and more" if varied else f"step {sol.step:g}"
        return f"{sol.system.name} by {sol.method}, t = {sol.t[0]:g} .. {sol.t[-1]:g}, {steps}"

    def summary(self) -> list[tuple[str, str]]:
        """Steps, iterations, errors of invariants and run time, by name, as they are printed."""
        sol = self._self
        stats = sol.stats
        setup = stats.get("setup_seconds", 0.0) + stats.get("compile_seconds", 0.0)
        return [
            ("steps", f"{stats['steps']}, {len(sol.t)} times kept"),
            ("Newton iterations", f"{stats['iterations']} ({stats['iterations_per_step']:.2f} a step)"),
            *sol._summary(),
            *([("chosen", str(stats["chosen"]))] if "chosen" in stats else []),
            ("time", f"{stats['seconds']:.3g} s ({stats['engine']}), set-up {setup:.2g} s"),
        ]

    def settings(self) -> list[tuple[str, str]]:
        """System, parameters, initial values, what the method keeps and its source, in words."""
        sol = self._self
        rows = [("system", repr(sol.system).strip("<>"))]
        if sol.parameters:
            rows.append(("parameters", ", ".join(f"{k} = {short(np.ravel(v))}" for k, v in sol.parameters.items())))
        rows.append(("start", "; ".join(f"{name} = {short(values[0])}" for name, values in sol.parts.items())))
        rows.append(("method", f"{sol.method}: keeps {sol.method.keeps}" if sol.method.keeps else str(sol.method)))
        return [*rows, *([("from", sol.method.source)] if sol.method.source else [])]

    def __str__(self) -> str:
        rows = self.summary()
        wide = max(20, *(len(name) for name, _ in rows))
        return "\n".join([self.title, *(f"  {name:<{wide}}  {value}" for name, value in rows)])

    def _repr_html_(self) -> str:
        sol = self._self
        return card(sol.title, facts(sol.summary()), facts(sol.settings()))

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
    def plot(
        self,
        what: str | Path | Sequence[str] | None = None,
        *,
        path: str | Path | None = None,
        over: str | None = None,
        dpi: float | None = None,
    ) -> Figure:
        """Motion, energy and constraints in one matplotlib figure; written to `path`, the first argument, where one is given.

        A list of names draws these variables (`sol.names`), one axis for each unit: `sol.plot(["x1", "v_x1"])`, over time or
        `over` another one.
        """
        if over is None and (what is None or isinstance(what, Path) or (isinstance(what, str) and what not in self._self.names)):
            return PLOT(self._self, path if what is None else what, dpi)
        given = () if what is None or isinstance(what, Path) else (what,) if isinstance(what, str) else what
        names = listed("what", given, MethodError, "a list of names of variables")
        return VARIABLES(self._self, names, over, path, dpi)


WRITE: Hook[[Solution, str | Path], Path] = Hook("Solution.save", "dalembert.solution.files")
REPORT: Hook[[Solution, str | Path], Page] = Hook("Solution.report", "dalembert.reporting")
ANIMATE: Hook[..., Film | Inline] = Hook("Solution.animate", "dalembert.reporting")
VARIABLES: Hook[[Solution, list[str], str | None, str | Path | None, float | None], Figure] = Hook(
    "Solution.plot", "dalembert.plotting"
)
PLOT: Hook[[Solution, str | Path | None, float | None], Figure] = Hook("Solution.plot", "dalembert.plotting")
