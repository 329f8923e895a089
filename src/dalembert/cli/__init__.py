"""The command line: `dalembert list | simulate | run | compare | order | diagnose | reproduce | bench | cite`.

Exit codes: 0 done, 1 the run failed or a claim did not hold (what was computed is written all the same), 2 a mistake in the call,
130 interrupted by Ctrl-C (what was computed is written).
"""

from __future__ import annotations

import functools
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

import dalembert as da
from dalembert import tables
from dalembert.analysis.comparison import measures
from dalembert.cli import models
from dalembert.cli.models import UserError
from dalembert.cli.study import FILES, Study, checked
from dalembert.errors import DalembertError, suggest

app = typer.Typer(
    help="Structure-preserving simulation of constrained mechanical systems.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    app(prog_name="dalembert")


def command(name: str | None = None) -> Callable[[F], F]:
    """A command whose errors end in one line and an exit code."""

    def enter(function: F) -> F:
        @functools.wraps(function)
        def guarded(*arguments: Any, **options: Any) -> Any:
            try:
                return function(*arguments, **options)
            except KeyboardInterrupt as stopped:  # `da.Interrupted` is one
                _complain("interrupted")
                raise typer.Exit(INTERRUPTED) from stopped
            except OSError as error:
                _complain(f"{error.filename or ''} {error.strerror or error}".strip())
                raise typer.Exit(1) from error
            except Failed as failure:
                for cause in failure.args[0]:
                    _complain("interrupted" if isinstance(cause, KeyboardInterrupt) else str(cause))
                ended = any(isinstance(cause, KeyboardInterrupt) for cause in failure.args[0])
                raise typer.Exit(INTERRUPTED if ended else 1) from failure
            except (UserError, DalembertError) as error:
                _complain(str(error))
                begun = getattr(error, "solution", None) is not None
                raise typer.Exit(2 if isinstance(error, (UserError, ValueError, TypeError)) and not begun else 1) from error

        app.command(name)(guarded)
        return function

    return enter


class Failed(Exception):
    """A run, or the writing of its files, went wrong after the run had begun."""


def _complain(text: str) -> None:
    text = re.sub(r" ?\(?error\.solution holds[^)]*\)?", "", text)  # of no use in a shell
    err.print(f"[red]error:[/red] {escape(text)}", highlight=False)


def _json(data: Any) -> str:
    """JSON that every reader takes: what is not finite becomes null."""

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [plain(v) for v in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    return json.dumps(plain(data), allow_nan=False)


def _say(text: str, quiet: bool = False) -> None:
    if not quiet:
        out.print(escape(text), highlight=False)


System = Annotated[str, typer.Argument(help="A catalog name, or file.py:name.", autocompletion=models.complete_system)]
Parameter = Annotated[list[str] | None, typer.Option("--parameter", "-p", help="name=value; may be repeated.")]
Initial = Annotated[list[str] | None, typer.Option("--initial", "-i", help="q=1,0 or v=0,0; may be repeated.")]
Inputs = Annotated[str, typer.Option("--u", help="Constant inputs, with commas between.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print numbers as JSON.")]
Form = Annotated[str, typer.Option("--format", help=f"Of the table: {', '.join(tables.FORMATS)}.")]
Figure = Annotated[Path | None, typer.Option(help="PNG, PDF or SVG.")]
TEnd = Annotated[float, typer.Option(help="Final time.")]
Step = Annotated[float, typer.Option(help="Step size.")]
METHOD = typer.Option(help="A method, see `dalembert list methods`.", autocompletion=models.complete_method)


@command("list")
def list_(
    what: Annotated[str, typer.Argument(help="systems, methods or experiments")] = "", form: Form = "text", as_json: Json = False
) -> None:
    """List systems, methods and experiments, or one of them."""
    known: dict[str, Callable[[], Any]] = {
        "systems": da.list_systems, "methods": da.list_methods, "experiments": da.experiments.list_experiments,
    }  # fmt: skip
    if what and what not in known:
        raise UserError(f"there is nothing called {what!r} to list{suggest(what, known)}")
    tables.check(form)
    names = [what] if what else list(known)
    listed = {name: known[name]() for name in names}
    if as_json:
        plain = {name: [getattr(r, "name", None) or r.id for r in rows] for name, rows in listed.items()}
        typer.echo(json.dumps(plain[what] if what else plain))
        return
    for name, rows in listed.items():
        if not what:
            typer.echo(f"{name}\n")
        if form == "text" and out.is_terminal:
            _fitted(rows)
        else:
            typer.echo(rows.table(form))
        if not what:
            typer.echo("")


def _fitted(rows: Any) -> None:
    """A table that wraps its cells to the width of the terminal."""
    from rich import box
    from rich.table import Table

    heads, cells = rows.cells()
    table = Table(box=box.SIMPLE, pad_edge=False)
    wide = out.width >= 130
    shown = [k for k, head in enumerate(heads) if wide or head in ("name", "id", "order", "keeps", "summary", "title")]
    for k in shown:
        table.add_column(heads[k], overflow="fold", no_wrap=k == 0)
    for row in cells:
        table.add_row(*(escape(row[k]) for k in shown))
    Console().print(table)


@command()
def simulate(
    system: System,
    method: Annotated[str, METHOD] = "",
    t_end: TEnd = 10.0,
    step: Step = 0.01,
    t0: Annotated[float, typer.Option(help="Initial time.")] = 0.0,
    parameter: Parameter = None,
    initial: Initial = None,
    u: Inputs = "",
    save_every: Annotated[int, typer.Option(help="Keep every so many steps.")] = 1,
    tolerance: Annotated[float | None, typer.Option(help="Of Newton's iteration; to round-off by default.")] = None,
    adaptive: Annotated[str, typer.Option(help="fixed, error, backoff or reversible.")] = "fixed",
    consistent: Annotated[bool, typer.Option("--consistent", help="Start from the nearest consistent values.")] = False,
    checkpoint: Annotated[Path | None, typer.Option(help="A file to continue from after a crash.")] = None,
    output: Annotated[Path | None, typer.Option(help="NetCDF file for the solution.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report with figures and animation.")] = None,
    figure: Annotated[Path | None, typer.Option(help="PNG, PDF or SVG with the overview.")] = None,
    animation: Annotated[Path | None, typer.Option(help="GIF or MP4 of the motion.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a system and print a summary."""
    model = models.system(system)
    options: dict[str, Any] = {
        "t_end": t_end, "step": step, "t0": t0, "parameters": models.parameters(parameter or []), "save_every": save_every,
        "adaptive": adaptive, "tolerance": tolerance, "checkpoint": checkpoint, "consistent": consistent,
        **models.values(initial or []),
    }  # fmt: skip
    if u:
        try:
            options["u"] = [float(x) for x in u.split(",")]
        except ValueError:
            raise UserError(f"--u takes numbers with commas between, not {u!r}") from None
    given = zip(FILES, (output, report, figure, animation), strict=True)
    files = {kind: checked(kind, path) for kind, path in given if path is not None}
    if show and report is None:
        raise UserError("--open opens the report: say --report run.html")
    _run(model, method, options, files, quiet, as_json)
    if show and report is not None:
        _open(report, quiet or as_json)


def _run(model: Any, method: str, options: dict[str, Any], files: dict[str, Path], quiet: bool, as_json: bool) -> None:
    """Simulate, write the files and the summary; of a run that stops on its way too."""
    if options.get("checkpoint") is not None and Path(options["checkpoint"]).resolve() in [p.resolve() for p in files.values()]:
        raise UserError("checkpoint and another file have the same name; a checkpoint is a solution too (da.load reads it)")
    values = {k: options.pop(k) for k in models.VALUES if k in options}
    if options.pop("consistent", False):
        about = {k: options[k] for k in ("t0", "u", "parameters") if options.get(k) is not None}
        values = dict(da.consistent(model, **{k: v for k, v in values.items() if k != "lam"}, **about))
    if not method:
        start = {k: v for k, v in values.items() if k != "lam"}
        found = da.diagnose(model, parameters=options.get("parameters"), t=options.get("t0", 0.0), **start)
        method = found.recommended.split(",")[0].strip()
        if found.redundant or found.singular_pose:
            raise UserError(str(found))
    failures: list[BaseException] = []
    try:
        sol = da.simulate(model, method, **options, **values, progress=False if quiet or as_json else None)
    except (DalembertError, KeyboardInterrupt) as error:
        partial = getattr(error, "solution", None)
        if partial is None or len(partial.t) < 2:
            raise
        sol = partial
        failures.append(error)
    if as_json:
        typer.echo(_json(measures(sol)))
    elif not quiet:
        typer.echo(str(sol))
    for kind, path in files.items():
        try:
            getattr(sol, {"output": "save", "report": "report", "figure": "plot", "animation": "animate"}[kind])(path)
            _say(f"wrote {path}" + (f", up to t = {sol.t[-1]:g}" if failures else ""), quiet or as_json)
        except DalembertError as error:  # the others are written all the same
            failures.append(error)
    if failures:
        raise Failed(failures) from failures[0]


def _open(path: Path, quiet: bool) -> None:
    """Show a page in the browser, where there is a screen."""
    import os
    import sys
    import webbrowser

    screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not (screen and webbrowser.open(path.resolve().as_uri())):
        _say(f"open {path} in a browser", quiet)


@command()
def run(study: Annotated[Path, typer.Argument(help="A TOML file.")], quiet: Quiet = False, as_json: Json = False) -> None:
    """Run a study from a TOML file: system, method, t_end, step, [parameters], [initial], output, report, figure, animation."""
    whole = Study(study)
    model, method, options, files = whole.call()
    try:
        _run(model, method, options, files, quiet, as_json)
    except DalembertError as error:
        if not isinstance(error, (ValueError, TypeError)):
            raise
        raise whole.blame(error) from error  # nothing has begun: the file is to blame


@command()
def compare(
    system: System,
    methods: Annotated[str, typer.Option(help="Names with commas between.", autocompletion=models.complete_methods)],
    t_end: TEnd = 10.0,
    step: Step = 0.01,
    parameter: Parameter = None,
    initial: Initial = None,
    figure: Annotated[Path | None, typer.Option(help="Figure; by default the name of the system and -comparison.png.")] = None,
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Draw nothing.")] = False,
    form: Form = "markdown",
    as_json: Json = False,
) -> None:
    """Several methods on one system: a table of errors, invariants and times, and a figure."""
    model = models.system(system)
    names = [m.strip() for m in methods.split(",") if m.strip()]
    values = {"parameters": models.parameters(parameter or []), **models.values(initial or [])}
    path = None
    if not no_figure and (figure is not None or not as_json):
        path = checked("figure", figure or Path(re.sub(r"[^\w.-]+", "-", model.name)[:60] + "-comparison.png"))
    tables.check(form)
    result = da.compare(model, names, t_end=t_end, step=step, **values)
    typer.echo(_json(result.rows) if as_json else result.table(form))
    if not as_json:  # not in the way of `> table.tex`
        err.print(escape(result.caption()), highlight=False)
    if path is not None:
        da.plotting.save(result.plot(), path)
        err.print(escape(f"wrote {path}"), highlight=False)


@command()
def order(
    system: System,
    method: Annotated[str, METHOD],
    t_end: TEnd = 0.5,
    steps: Annotated[str, typer.Option(help="Numbers of steps, with commas between.")] = "20,40,80,160",
    parameter: Parameter = None,
    initial: Initial = None,
    figure: Figure = None,
    form: Form = "text",
    as_json: Json = False,
) -> None:
    """The order of a method on a system, measured against a run of high order."""
    model = models.system(system)
    try:
        counts = [int(x) for x in steps.split(",")]
    except ValueError:
        raise UserError(f"--steps takes whole numbers with commas between, not {steps!r}") from None
    values = {"parameters": models.parameters(parameter or []), **models.values(initial or [])}
    path = None if figure is None else checked("figure", figure)
    tables.check(form)
    result = da.convergence(model, method, t_end=t_end, steps=counts, **values)
    if as_json:
        typer.echo(result.to_json())
    else:
        typer.echo(str(result) if form == "text" else result.table(form))
    if path is not None:
        da.plotting.save(result.plot().figure, path)
        err.print(escape(f"wrote {path}"), highlight=False)


@command()
def diagnose(system: System, parameter: Parameter = None, initial: Initial = None, as_json: Json = False) -> None:
    """Index, constraints, conditioning and which method fits."""
    model = models.system(system)
    values = {k: v for k, v in models.values(initial or []).items() if k != "lam"}
    found = da.diagnose(model, parameters=models.parameters(parameter or []), **values)
    typer.echo(_json(asdict(found)) if as_json else str(found))


@command()
def reproduce(
    id: Annotated[str, typer.Argument(help="An experiment, or `all`.", autocompletion=models.complete_experiment)],
    quick: Annotated[bool, typer.Option("--quick", help="Shortened settings.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for figures, tables and the index page.")] = Path("reproduced"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Repeat experiments of the literature: our numbers beside the source's, figures, verdicts, and an index page."""
    from dalembert.experiments.gallery import Pages

    chosen = list(da.experiments.REGISTER.values()) if id == "all" else [da.experiments.find(id)]
    pages, begun, silent = Pages(output), time.perf_counter(), quiet or as_json
    ahead = sum(entry.seconds for entry in chosen)
    _say(f"about {_duration(ahead)} for full settings on two cores of 2.8 GHz" if not quick else "shortened settings", silent)
    index = output
    for k, entry in enumerate(chosen, 1):
        if len(chosen) > 1 and not silent:
            left = "" if quick else f", about {_duration(sum(e.seconds for e in chosen[k - 1 :]))} to go"
            err.print(f"{k:3d}/{len(chosen)}  {entry.id}{left}", end="\r", highlight=False)
        try:
            result = entry.run(quick)
        except KeyboardInterrupt:
            if as_json:
                typer.echo(_json(pages.verdicts()))
            raise
        index = pages.add(result)  # the index is written anew each time: nothing is lost on the way
        if len(chosen) > 1:
            _say(f"{k:3d}/{len(chosen)}  {entry.id:<14} {result.seconds:6.1f} s  {result.told}" + " " * 20, silent)
        else:
            _say(str(result), silent)
    if as_json:
        typer.echo(_json(pages.verdicts()))
    _say(f"wrote {index} ({_duration(time.perf_counter() - begun)} in all)", silent)
    if not all(r.verdict for r in pages.results):
        raise typer.Exit(1)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


@command()
def bench(form: Form = "text", as_json: Json = False) -> None:
    """A short benchmark of this machine: microseconds a step of some methods, compiled and not."""
    rows: list[dict[str, Any]] = []
    for make, method in (
        (da.catalog.double_pendulum, "rattle"), (da.catalog.double_pendulum, "lobatto-pair-3"),
        (da.catalog.four_particles, "energy-momentum"), (da.catalog.contact_oscillator, "mclachlan-perlmutter"),
    ):  # fmt: skip
        model = make()
        row: dict[str, Any] = {"system": model.name, "method": method}
        for way, compile, count in (("compiled", True, 20_000), ("virtual machine", False, 2000)):
            call: dict[str, Any] = {"step": 0.01, "compile": compile}
            try:
                da.simulate(model, method, t_end=0.02, **call)
                runs = [da.simulate(model, method, t_end=count * 0.01, save_every=count, **call) for _ in range(3)]
                row[way] = min(sol.stats["seconds"] for sol in runs) / count * 1e6
            except da.CompilerError:
                row[way] = None
        rows.append(row)
    if as_json:
        typer.echo(json.dumps(rows))
        return
    cells = [[f"{x:.2f}" if isinstance(x, float) else x or "no compiler" for x in row.values()] for row in rows]
    typer.echo(tables.write(["system", "method", "us / step, compiled", "us / step, virtual machine"], cells, form, left=2))


@command()
def cite() -> None:
    """How to cite dalembert."""
    typer.echo(
        f"The dalembert developers: dalembert, version {da.__version__}, "
        "structure-preserving simulation of constrained mechanical systems.\n"
        "Please cite the source of the method too: `dalembert list methods` names it.\n\n"
        f"@software{{dalembert,\n  author  = {{{{The dalembert developers}}}},\n  title   = {{dalembert}},\n"
        f"  version = {{{da.__version__}}},\n  license = {{MIT}},\n}}"
    )
