"""`dalembert compare`, `order` and `diagnose`."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import dalembert as da
from dalembert import tables
from dalembert.cli import models
from dalembert.cli.models import UserError, checked
from dalembert.cli.shell import METHOD, Figure, Form, Initial, Json, Parameter, Step, System, TEnd, remark, to_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def compare(
    system: System,
    methods: Annotated[str, typer.Option(help="Names, separated by commas.", autocompletion=models.complete_methods)],
    t_end: TEnd = 10.0,
    step: Step = 0.01,
    parameter: Parameter = None,
    initial: Initial = None,
    figure: Annotated[Path | None, typer.Option(help="Figure file; by default the system's name and -comparison.png.")] = None,
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Draw nothing.")] = False,
    form: Form = "markdown",
    as_json: Json = False,
) -> None:
    """Compare methods on one system: errors, invariants, times.

    A table, and a figure.
    """
    model = models.system(system)
    names = [m.strip() for m in methods.split(",") if m.strip()]
    values = models.values(initial or [])
    values["parameters"] = models.parameters(parameter or [])
    path = None
    if not no_figure and (figure is not None or not as_json):
        path = checked("figure", figure or Path(re.sub(r"[^\w.-]+", "-", model.name)[:60] + "-comparison.png"))
    tables.check(form)
    result = da.compare(model, names, t_end=t_end, step=step, **values)
    typer.echo(to_json(result.rows) if as_json else result.table(form))
    if not as_json:
        remark(result.caption())
    if path is not None:
        da.plotting.save(result.plot(), path)
        remark(f"wrote {path}")


def order(
    system: System,
    method: Annotated[str, METHOD],
    t_end: TEnd = 0.5,
    steps: Annotated[str, typer.Option(help="Numbers of steps, separated by commas.")] = "20,40,80,160",
    parameter: Parameter = None,
    initial: Initial = None,
    figure: Figure = None,
    form: Form = "text",
    as_json: Json = False,
) -> None:
    """Measure the order of a method on a system.

    Errors are those against a run of high order.
    """
    model = models.system(system)
    try:
        counts = [int(x) for x in steps.split(",")]
    except ValueError:
        raise UserError(f"--steps takes whole numbers separated by commas, not {steps!r}") from None
    values = models.values(initial or [])
    values["parameters"] = models.parameters(parameter or [])
    path = None if figure is None else checked("figure", figure)
    tables.check(form)
    result = da.convergence(model, method, t_end=t_end, steps=counts, **values)
    if as_json:
        typer.echo(result.to_json())
    else:
        typer.echo(str(result) if form == "text" else result.table(form))
    if path is not None:
        da.plotting.save(cast("Canvas", result.plot().figure), path)
        remark(f"wrote {path}")


def diagnose(system: System, parameter: Parameter = None, initial: Initial = None, as_json: Json = False) -> None:
    """Index, constraints, conditioning and suitable methods."""
    found = models.diagnosis(models.system(system), models.values(initial or []), models.parameters(parameter or []))
    typer.echo(to_json(asdict(found)) if as_json else str(found))
