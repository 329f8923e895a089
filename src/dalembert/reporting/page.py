"""Reports: one HTML page of one run or several, which opens offline."""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from dalembert._version import __version__
from dalembert.errors import MethodError, MissingPackage, suggesting
from dalembert.plotting import COLOURS
from dalembert.plotting.groups import run_names
from dalembert.reporting.figures import Figure, Panels
from dalembert.reporting.scene import drawing, shown
from dalembert.solution import Solution
from dalembert.solution import shown as hooks
from dalembert.solution.inline import Inline, Page
from dalembert.solution.paths import FORMS, target, writing

SCRIPTS = ("solids.js", "scene.js", "player.js", "figures.js", "start.js")


@suggesting
def report(runs: Solution | Sequence[Solution], path: str | Path) -> Page:
    """Write one HTML file that opens offline: summary, interactive figures, and an animation linked to a cursor in them.

    Several runs share the clock and the figures, each with an animation of its own beside the others.
    """
    path, whole = target(path, *FORMS["report"]), _whole(_checked(runs))
    with writing(path) as temporary:
        temporary.write_text(whole, encoding="utf-8")
    return Page(path)


@suggesting
def slider(*runs: Solution) -> Inline:
    """Runs in a notebook with a slider over the time: pictures side by side, curves in common figures.

    Outside of a notebook `da.report([...], "runs.html")` writes the same as a page.
    """
    chosen = _checked(runs)
    told = f"<slider over {', '.join(run_names(chosen))}; a notebook shows it, da.report([...], 'runs.html') writes it>"
    return Inline(told, functools.partial(_whole, chosen), 900)


def _checked(runs: Solution | Sequence[Solution]) -> list[Solution]:
    chosen = [runs] if isinstance(runs, Solution) else list(runs)
    if not chosen or not all(isinstance(sol, Solution) for sol in chosen):
        raise MethodError("what is shown is a solution, or a list of solutions")
    return chosen


def _whole(runs: list[Solution]) -> str:
    """The page of some runs."""
    systems = ", ".join(dict.fromkeys(sol.system.name for sol in runs))
    title = f"{systems}, {runs[0].method}" if len(runs) == 1 else f"{systems}: {len(runs)} runs"
    described = "".join(_described(sol) for sol in runs)
    return _filled("page.html", title, _data(runs, Panels(runs).plain()), __RUNS__=described, __PLOTLY__=_plotly())


@functools.cache
def _plotly() -> str:
    """The library of the figures, compressed: 1.4 megabytes of 4.6."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingPackage.of("plotly", "report", "a report") from error
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode("ascii")


def player(sol: Solution) -> str:
    """A page that plays a run, without figures: no more than a notebook needs to show."""
    return _filled("player.html", sol.system.name, _data([sol], []))


def _filled(name: str, title: str, data: object, **more: str) -> str:
    """A page with its places filled in."""
    fill = {
        "__TITLE__": html.escape(title), "__STYLE__": _part("page.css"), "__CONTROLS__": _part("controls.html"),
        "__DATA__": _in_script(data), "__SCRIPT__": "\n".join(_part(script) for script in SCRIPTS), **more,
    }  # fmt: skip
    return re.sub("|".join(fill), lambda found: fill[found.group()], _part(name))  # in one pass


def _data(runs: Sequence[Solution], figures: list[Figure]) -> dict[str, object]:
    """What the scripts of a page are told."""
    picture = runs[0].system.picture
    moving = [_moving(sol, name) for sol, name in zip(runs, run_names(runs), strict=True)]
    return {"colours": list(COLOURS), "units": picture.units if picture is not None else {}, "runs": moving, "figures": figures}


def _part(name: str) -> str:
    return files("dalembert").joinpath("reporting", "web", name).read_text(encoding="utf-8")


def _moving(sol: Solution, name: str) -> dict[str, object]:
    """The times of the frames of a run, and what moves in it, if anything does."""
    rows = shown(sol)
    scene = drawing(sol, rows).plain() if sol.system.drawn else None
    return {"name": name, "t": sol.t[rows].tolist(), "scene": scene}


def _described(sol: Solution) -> str:
    """Summary of a run, and its settings as a table."""
    rows = "".join(
        f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in [*sol.settings(), ("dalembert", __version__)]
    )
    return f'<pre class="summary">{html.escape(str(sol))}</pre><table class="facts">{rows}</table>'


def _in_script(data: object) -> str:
    """Data inside a script of a page: no character there begins a tag, a comment or an entity of HTML."""
    text = json.dumps(data)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


hooks.REPORT.set(report)
