"""The command line: `dalembert list | simulate | run | compare | order | diagnose | reproduce | bench | cite`."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import dalembert as da
from dalembert.errors import DalembertError, suggest

app = typer.Typer(
    help="Structure-preserving simulation of constrained mechanical systems.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)


class UserError(Exception):
    """A mistake of the caller, told in one line."""


def main() -> None:
    """Run the command line; errors of the library and of the caller end in one line and exit code 1 or 2."""
    try:
        app()
    except UserError as error:
        err.print(f"[red]error:[/red] {error}", highlight=False)
        sys.exit(2)
    except DalembertError as error:
        err.print(f"[red]error:[/red] {error}", highlight=False)
        sys.exit(1)


def _system(name: str, parameters: list[str]) -> tuple[Any, dict[str, float]]:
    """A catalog name, or `file.py:name`; and the values that replace parameters."""
    values = {}
    for item in parameters:
        key, _, value = item.partition("=")
        try:
            values[key.strip()] = float(value)
        except ValueError:
            raise UserError(f"--parameter takes name=number, not {item!r}") from None
    if ":" not in name:
        return da.catalog.make(name), values
    path, _, attribute = name.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise UserError(f"there is no file {path!r}")
    scope: dict[str, Any] = {"__name__": "model", "__file__": str(file)}
    try:
        exec(compile(file.read_text(), str(file), "exec"), scope)
        system = scope.get(attribute)
        if system is None:
            known = [k for k, v in scope.items() if not k.startswith("_") and (isinstance(v, da.systems.System) or callable(v))]
            raise UserError(f"{path} has no {attribute!r}{suggest(attribute, known)}")
        system = system() if callable(system) and not isinstance(system, da.systems.System) else system
    except UserError:
        raise
    except Exception as error:
        mine = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
        where = f'{path}, line {mine[-1].lineno}: "{mine[-1].line}"' if mine else path
        raise UserError(f"the model raised {type(error).__name__}: {error}\n  in {where}") from error
    if not isinstance(system, da.systems.System):
        raise UserError(f"{attribute!r} in {path} is a {type(system).__name__}, not a system or a function that returns one")
    return system, values


def _write(sol: Any, output: Path | None, report: Path | None, figure: Path | None, quiet: bool) -> None:
    for path, write in ((output, sol.save), (report, sol.report), (figure, sol.plot)):
        if path is not None:
            write(path)
            if not quiet:
                out.print(f"wrote {path}", highlight=False)


System = Annotated[str, typer.Argument(help="A catalog name, or file.py:name.")]
Parameter = Annotated[list[str], typer.Option("--parameter", "-p", help="name=value; may be repeated.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print numbers as JSON.")]


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="systems, methods or experiments")] = "systems", as_json: Json = False
) -> None:
    """List systems, methods or experiments."""
    tables: dict[str, Callable[[], Any]] = {
        "systems": da.list_systems, "methods": da.list_methods, "experiments": da.experiments.list_experiments,
    }  # fmt: skip
    if what not in tables:
        raise UserError(f"there is nothing called {what!r} to list{suggest(what, tables)}")
    rows = tables[what]()
    if as_json:
        typer.echo(json.dumps([getattr(r, "name", None) or r.id for r in rows]))
    else:
        typer.echo(str(rows))


@app.command()
def simulate(
    system: System,
    method: Annotated[str, typer.Option(help="A method, see `dalembert list methods`.")] = "",
    t_end: Annotated[float, typer.Option(help="Final time.")] = 10.0,
    step: Annotated[float, typer.Option(help="Step size.")] = 0.01,
    parameter: Parameter = [],  # noqa: B006
    save_every: Annotated[int, typer.Option(help="Keep every so many steps.")] = 1,
    adaptive: Annotated[str, typer.Option(help="fixed, error, backoff or reversible.")] = "fixed",
    output: Annotated[Path | None, typer.Option(help="NetCDF file for the solution.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report with figures and animation.")] = None,
    figure: Annotated[Path | None, typer.Option(help="PNG, PDF or SVG with the overview.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a system and print a summary."""
    model, values = _system(system, parameter)
    chosen = method or da.diagnose(model, parameters=values).recommended.split(",")[0]
    try:
        sol = da.simulate(
            model, chosen, t_end=t_end, step=step, parameters=values, save_every=save_every, adaptive=adaptive,
            progress=False if quiet or as_json else None,
        )  # fmt: skip
    except da.Interrupted as stopped:
        if stopped.solution is None:
            raise
        sol = stopped.solution
        err.print(f"{stopped}", highlight=False)
    _write(sol, output, report, figure, quiet or as_json)
    if as_json:
        typer.echo(json.dumps(_numbers(sol)))
    elif not quiet:
        typer.echo(str(sol))


def _numbers(sol: Any) -> dict[str, Any]:
    """The measures of a run."""
    data: dict[str, Any] = {"system": sol.system.name, "method": str(sol.method), "step": sol.step, "t_end": float(sol.t[-1])}
    data["steps"], data["seconds"] = sol.stats["steps"], sol.stats["seconds"]
    if sol.system.kind != "dae":
        data["energy_error"] = float(np.abs(sol.power_balance if sol.driven else sol.energy - sol.energy[0]).max())
    for level in ("position", "velocity"):
        data[level] = float(np.abs(sol.residual(level)).max(initial=0.0))
    return data


SCHEMA: dict[str, tuple[type, ...]] = {
    "system": (str,), "method": (str,), "t_end": (int, float), "step": (int, float), "save_every": (int,), "adaptive": (str,),
    "output": (str,), "report": (str,), "figure": (str,), "parameters": (dict,), "initial": (dict,),
}  # fmt: skip


@app.command()
def run(study: Annotated[Path, typer.Argument(help="A TOML file.")], quiet: Quiet = False) -> None:
    """Run a study from a TOML file: system, method, t_end, step, [parameters], [initial], output, report, figure."""
    import tomllib

    if not study.is_file():
        raise UserError(f"there is no file {str(study)!r}")
    text = study.read_text()
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{study}: {error}") from None
    lines = text.splitlines()

    def where(key: str) -> str:
        number = next((i for i, line in enumerate(lines, 1) if line.split("=")[0].strip(" []") == key), 0)
        return f"{study}, line {number}" if number else str(study)

    for key, value in data.items():
        if key not in SCHEMA:
            raise UserError(f"{where(key)}: there is no field {key!r}{suggest(key, SCHEMA)}")
        if not isinstance(value, SCHEMA[key]) or isinstance(value, bool):
            raise UserError(f"{where(key)}: {key} must be {' or '.join(t.__name__ for t in SCHEMA[key])}, not {value!r}")
    for key in ("system", "t_end", "step"):
        if key not in data:
            raise UserError(f"{study}: the field {key!r} is missing")
    for group in ("parameters", "initial"):
        for key, value in data.get(group, {}).items():
            numbers = value if isinstance(value, list) else [value]
            if not all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in numbers):
                raise UserError(f"{where(key)}: {group}.{key} must be a number or a list of numbers, not {value!r}")
    name = data["system"]
    model, _ = _system(str(study.parent / name) if ":" in name else name, [])
    method = data.get("method") or da.diagnose(model).recommended.split(",")[0]
    options = {k: data[k] for k in ("save_every", "adaptive") if k in data}
    sol = da.simulate(
        model, method, t_end=data["t_end"], step=data["step"], parameters=data.get("parameters"), **data.get("initial", {}),
        **options, progress=False if quiet else None,
    )  # fmt: skip
    paths = [study.parent / data[k] if k in data else None for k in ("output", "report", "figure")]
    _write(sol, paths[0], paths[1], paths[2], quiet)
    if not quiet:
        typer.echo(str(sol))


@app.command()
def compare(
    system: System,
    methods: Annotated[str, typer.Option(help="Names with commas between.")],
    t_end: Annotated[float, typer.Option()] = 10.0,
    step: Annotated[float, typer.Option()] = 0.01,
    parameter: Parameter = [],  # noqa: B006
    figure: Annotated[Path | None, typer.Option(help="Figure of energy errors and constraints.")] = None,
    as_json: Json = False,
) -> None:
    """Several methods on one system: a table of errors, invariants and times, and a figure."""
    model, values = _system(system, parameter)
    names = [m.strip() for m in methods.split(",") if m.strip()]
    if not names:
        raise UserError("--methods needs at least one name")
    runs = [da.simulate(model, m, t_end=t_end, step=step, parameters=values, progress=False) for m in names]
    rows = [_numbers(sol) for sol in runs]
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        table = Table(title=f"{model.name}, t = {t_end:g}, step {step:g}")
        for column in ("method", "order", "energy error", "position", "velocity", "us / step"):
            table.add_column(column, justify="left" if column == "method" else "right")
        for row, sol in zip(rows, runs, strict=True):
            cost = row["seconds"] / max(1, row["steps"]) * 1e6
            energy = f"{row['energy_error']:.1e}" if "energy_error" in row else "-"
            order = "/".join(map(str, dict.fromkeys(sol.method.order)))
            table.add_row(row["method"], order, energy, f"{row['position']:.1e}", f"{row['velocity']:.1e}", f"{cost:.2f}")
        out.print(table)
    if figure is not None:
        from dalembert.plotting import comparison

        comparison(runs).savefig(figure)
        if not as_json:
            out.print(f"wrote {figure}", highlight=False)


@app.command()
def order(
    system: System,
    method: Annotated[str, typer.Option()],
    t_end: Annotated[float, typer.Option()] = 0.5,
    steps: Annotated[str, typer.Option(help="Numbers of steps, with commas between.")] = "20,40,80,160",
    figure: Annotated[Path | None, typer.Option()] = None,
) -> None:
    """Convergence of a method on a system, against a run of a method of order ten with as many steps as the finest."""
    model, _ = _system(system, [])
    try:
        counts = sorted(int(x) for x in steps.split(","))
    except ValueError:
        raise UserError(f"--steps takes whole numbers with commas between, not {steps!r}") from None
    if len(counts) < 2:
        raise UserError("an order needs at least two numbers of steps")
    best = "murua-5" if model.kind in ("mechanical", "hamiltonian") else "radau-iia-5"
    truth = da.simulate(model, best, t_end=t_end, step=t_end / (2 * counts[-1]), progress=False)
    errors = []
    for n in counts:
        sol = da.simulate(model, method, t_end=t_end, step=t_end / n, progress=False)
        errors.append(float(np.abs(sol.q[-1] - truth.q[-1]).max()))
    slope = float(np.polyfit(np.log(t_end / np.array(counts)), np.log(errors), 1)[0])
    table = Table(title=f"{model.name}, {method}: order {slope:.2f}")
    for column in ("steps", "step", "error of q", "ratio"):
        table.add_column(column, justify="right")
    for i, n in enumerate(counts):
        table.add_row(str(n), f"{t_end / n:g}", f"{errors[i]:.2e}", f"{errors[i - 1] / errors[i]:.2f}" if i else "")
    out.print(table)
    if figure is not None:
        from dalembert.plotting import convergence

        convergence({method: (t_end / np.array(counts), np.array(errors))}).figure.savefig(figure)


@app.command()
def diagnose(system: System, parameter: Parameter = []) -> None:  # noqa: B006
    """Index, constraints, conditioning and which method fits."""
    model, values = _system(system, parameter)
    typer.echo(str(da.diagnose(model, parameters=values)))


@app.command()
def reproduce(
    id: Annotated[str, typer.Argument(help="An experiment, or `all`.")],
    quick: Annotated[bool, typer.Option("--quick", help="Shortened settings.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for figures, tables and the index page.")] = Path("reproduced"),
) -> None:
    """Repeat experiments of the literature: our numbers beside the source's, figures, verdicts, and an index page."""
    from dalembert.experiments.gallery import write

    ids = list(da.experiments.REGISTER) if id == "all" else [da.experiments.find(id).id]
    results, begun = [], time.perf_counter()
    for k, one in enumerate(ids, 1):
        result = da.experiments.run(one, quick)
        results.append(result)
        if len(ids) > 1:
            verdict = "[green]reproduced[/green]" if result.verdict else "[red]not reproduced[/red]"
            out.print(f"{k:3d}/{len(ids)}  {one:<14} {verdict}  {result.seconds:6.1f} s", highlight=False)
        else:
            typer.echo(str(result))
    index = write(results, output)
    out.print(f"wrote {index} ({time.perf_counter() - begun:.0f} s in all)", highlight=False)
    if not all(r.verdict for r in results):
        raise typer.Exit(1)


@app.command()
def bench() -> None:
    """A short benchmark of this machine: microseconds a step of some methods, compiled and not."""
    table = Table(title="us per step, h = 0.01")
    for column in ("system", "method", "compiled", "virtual machine"):
        table.add_column(column, justify="left" if column in ("system", "method") else "right")
    for make, method in (
        (da.catalog.double_pendulum, "rattle"), (da.catalog.double_pendulum, "lobatto-pair-3"),
        (da.catalog.four_particles, "energy-momentum"), (da.catalog.contact_oscillator, "mclachlan-perlmutter"),
    ):  # fmt: skip
        system, cells = make(), []
        for compile, count in ((True, 20_000), (False, 2000)):
            try:
                da.simulate(system, method, t_end=0.02, step=0.01, compile=compile)
                best = min(
                    da.simulate(system, method, t_end=count * 0.01, step=0.01, compile=compile, save_every=count).stats["seconds"]
                    for _ in range(3)
                )
                cells.append(f"{best / count * 1e6:.2f}")
            except da.CompilerError:
                cells.append("no compiler")
        table.add_row(system.name, method, *cells)
    out.print(table)


@app.command()
def cite() -> None:
    """How to cite dalembert."""
    typer.echo(
        f"The dalembert developers: dalembert, version {da.__version__}, "
        "structure-preserving simulation of constrained mechanical systems.\n"
        "Please cite the source of the method too: `dalembert list methods` names it."
    )
