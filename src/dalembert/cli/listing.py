"""`dalembert list`, `bench` and `cite`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

import dalembert as da
from dalembert import tables
from dalembert.cli import models
from dalembert.cli.models import UserError
from dalembert.cli.shell import Form, Json, out, remark
from dalembert.errors import suggest

if TYPE_CHECKING:
    from dalembert.catalog import SystemInfo
    from dalembert.catalog.mechanisms import MechanismInfo
    from dalembert.experiments.base import Listed
    from dalembert.methods.base import MethodInfo
    from dalembert.systems import System
    from dalembert.tables import Table

    Rows = Table[SystemInfo] | Table[MechanismInfo] | Table[MethodInfo] | Table[Listed]
NARROW = ("name", "id", "order", "keeps", "summary", "title")  # columns shown in a narrow terminal


def list_(
    what: Annotated[str, typer.Argument(help="systems, mechanisms, methods or experiments")] = "",
    form: Form = "text",
    as_json: Json = False,
) -> None:
    """List systems, mechanisms, methods and experiments."""
    known: dict[str, Callable[[], Rows]] = {
        "systems": da.list_systems, "mechanisms": da.catalog.mechanisms.list_mechanisms, "methods": da.list_methods,
        "experiments": da.experiments.list_experiments,
    }  # fmt: skip
    if what and what not in known:
        raise UserError(f"there is nothing called {what!r} to list{suggest(what, known)}")
    tables.check(form)
    names = [what] if what else list(known)
    listed = {name: known[name]() for name in names}
    if as_json:
        plain = {name: [row[0] for row in rows.cells()[1]] for name, rows in listed.items()}
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


def _fitted(rows: Rows) -> None:
    """A table that wraps its cells to the width of the terminal."""
    from rich import box
    from rich.table import Table as Grid

    heads, cells = rows.cells()
    grid = Grid(box=box.SIMPLE, pad_edge=False)
    shown = [k for k, head in enumerate(heads) if out.width >= 130 or head in NARROW]
    for k in shown:
        grid.add_column(heads[k], overflow="fold", no_wrap=k == 0)
    for row in cells:
        grid.add_row(*(escape(row[k]) for k in shown))
    Console().print(grid)


def bench(form: Form = "text", as_json: Json = False) -> None:
    """Microseconds per step of some methods, on this machine.

    Compiled and interpreted.
    """
    rows: list[dict[str, str | float | None]] = []
    for model, method in (
        (da.catalog.double_pendulum(), "rattle"), (da.catalog.double_pendulum(), "lobatto-pair-3"),
        (da.catalog.four_particles(), "energy-momentum"), (da.catalog.contact_oscillator(), "mclachlan-perlmutter"),
    ):  # fmt: skip
        compiled, interpreted = _microseconds(model, method, True, 20_000), _microseconds(model, method, False, 2000)
        rows.append({"system": model.name, "method": method, "compiled": compiled, "virtual machine": interpreted})
    if as_json:
        typer.echo(json.dumps(rows))
        return
    cells = [[f"{x:.2f}" if isinstance(x, float) else x or "no compiler" for x in row.values()] for row in rows]
    typer.echo(tables.write(["system", "method", "us / step, compiled", "us / step, virtual machine"], cells, form, left=2))


def _microseconds(model: System, method: str, compile: bool, count: int) -> float | None:
    """Time of a step: the best of three runs of `count` steps; None if there is no compiler."""
    try:
        da.simulate(model, method, t_end=0.02, step=0.01, compile=compile)
        runs = [da.simulate(model, method, t_end=count * 0.01, step=0.01, save_every=count, compile=compile) for _ in range(3)]
    except da.CompilerError:
        return None
    return float(min(sol.stats["seconds"] for sol in runs)) / count * 1e6


def cite(
    method: Annotated[list[str] | None, typer.Argument(help="Methods.", autocompletion=models.complete_method)] = None,
) -> None:
    """BibTeX of dalembert and of the sources of methods.

    For instance `dalembert cite rattle`.
    """
    typer.echo(da.cite(*(method or [])))
    if not method:
        remark("Please also cite the source of the method: `dalembert cite rattle`.")
