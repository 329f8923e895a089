"""`dalembert simulate` and `run`."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dalembert as da
from dalembert.cli import models
from dalembert.cli.models import FILES, Job, UserError, checked
from dalembert.cli.shell import METHOD, Failed, Initial, Inputs, Json, Parameter, Quiet, Step, System, TEnd, say, to_json
from dalembert.cli.study import Study
from dalembert.errors import DalembertError

if TYPE_CHECKING:
    from dalembert.solution import Solution


def simulate(
    system: System,
    method: Annotated[str, METHOD] = "",
    t_end: TEnd = 10.0,
    step: Step = 0.01,
    t0: Annotated[float, typer.Option(help="Initial time.")] = 0.0,
    parameter: Parameter = None,
    initial: Initial = None,
    u: Inputs = "",
    save_every: Annotated[int, typer.Option(help="Store every n-th step.")] = 1,
    tolerance: Annotated[float | None, typer.Option(help="Of Newton's iteration; round-off by default.")] = None,
    adaptive: Annotated[str, typer.Option(help="fixed, error, backoff or reversible.")] = "fixed",
    consistent: Annotated[bool, typer.Option("--consistent", help="Start from the nearest consistent values.")] = False,
    checkpoint: Annotated[Path | None, typer.Option(help="A file to continue from after a crash.")] = None,
    store: Annotated[Path | None, typer.Option(help="A folder run.zarr for the rows of a long run.")] = None,
    output: Annotated[Path | None, typer.Option(help="NetCDF file for the solution.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report with figures and animation.")] = None,
    figure: Annotated[Path | None, typer.Option(help="PNG, PDF or SVG with the overview.")] = None,
    animation: Annotated[Path | None, typer.Option(help="GIF or MP4 of the motion.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a system and print a summary."""
    model, options = models.system(system), models.values(initial or [])
    options.update({"t0": t0, "parameters": models.parameters(parameter or []), "save_every": save_every, "adaptive": adaptive})
    options["tolerance"] = tolerance
    if u:
        try:
            options["u"] = [float(x) for x in u.split(",")]
        except ValueError:
            raise UserError(f"--u takes numbers separated by commas, not {u!r}") from None
    given = zip(FILES, (output, report, figure, animation), strict=True)
    files = {kind: checked(kind, path) for kind, path in given if path is not None}
    if show and report is None:
        raise UserError("--open opens the report: add --report run.html")
    _run(Job(model, method, t_end, step, options, files, checkpoint, consistent, store), quiet, as_json)
    if show and report is not None:
        _open(report, quiet or as_json)


def run(study: Annotated[Path, typer.Argument(help="A TOML file.")], quiet: Quiet = False, as_json: Json = False) -> None:
    """Run a study from a TOML file.

    Its keys: system, method, t_end, step, [parameters], [initial], output, report, figure, animation.
    """
    whole = Study(study)
    job = whole.job()
    try:
        _run(job, quiet, as_json)
    except DalembertError as error:
        if not isinstance(error, (ValueError, TypeError)):
            raise
        raise whole.blame(error) from error  # the run has not begun: the file has the mistake


def _run(job: Job, quiet: bool, as_json: bool) -> None:
    """Simulate; write the summary and the files, also those of a run that stopped early."""
    if job.checkpoint is not None and job.checkpoint.resolve() in [p.resolve() for p in job.files.values()]:
        raise UserError("checkpoint and another file have the same name; a checkpoint is a solution too (da.load reads it)")
    if job.consistent:
        models.make_consistent(job)
    if not job.method:
        _choose(job)
    failures: list[BaseException] = []
    sol = _simulated(job, quiet or as_json, failures)
    if as_json:
        typer.echo(to_json(da.analysis.comparison.measures(sol)))
    elif not quiet:
        typer.echo(str(sol))
    writers: dict[str, Callable[[Path], object]] = {
        "output": sol.save,
        "report": sol.report,
        "figure": sol.plot,
        "animation": sol.animate,
    }
    for kind, path in job.files.items():
        try:
            writers[kind](path)
            say(f"wrote {path}" + (f", up to t = {sol.t[-1]:g}" if failures else ""), quiet or as_json)
        except DalembertError as error:  # the other files are still written
            failures.append(error)
    if failures:
        raise Failed(failures) from failures[0]


def _choose(job: Job) -> None:
    """Take the recommended method."""
    found = models.diagnosis(job.system, job.options, job.options.get("parameters"), job.options.get("t0", 0.0))
    if found.redundant or found.singular_pose:
        raise UserError(str(found))
    job.method = found.recommended.split(",")[0].strip()


def _simulated(job: Job, silent: bool, failures: list[BaseException]) -> Solution:
    """The solution; if the run stops early, the part computed so far, and the error in `failures`."""
    job.options["progress"] = False if silent else None
    try:
        return da.simulate(
            job.system, job.method, t_end=job.t_end, step=job.step, checkpoint=job.checkpoint, store=job.store, **job.options
        )
    except (DalembertError, da.Interrupted) as error:
        if error.solution is None or len(error.solution.t) < 2:
            raise
        failures.append(error)
        return error.solution


def _open(path: Path, quiet: bool) -> None:
    """Show a page in the browser, if there is a screen."""
    screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not (screen and webbrowser.open(path.resolve().as_uri())):
        say(f"open {path} in a browser", quiet)
