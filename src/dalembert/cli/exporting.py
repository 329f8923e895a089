"""`dalembert export-fmu`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dalembert as da
from dalembert.cli import models
from dalembert.cli.models import UserError
from dalembert.cli.shell import METHOD, Initial, Inputs, Parameter, Quiet, Step, System, say


def export_fmu(
    system: System,
    path: Annotated[Path, typer.Argument(help="A file that ends in .fmu.")],
    method: Annotated[str, METHOD],
    step: Step = 0.01,
    fmi: Annotated[str, typer.Option(help="3.0 or 2.0.")] = "3.0",
    parameter: Parameter = None,
    initial: Initial = None,
    u: Inputs = "",
    binary: Annotated[
        bool, typer.Option("--binary/--source-only", help="A binary for this machine, or the source in C alone.")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Write a model with its method as an FMU for co-simulation.

    Modelica tools, Simulink and FMPy load it.
    """
    try:
        inputs = [float(number) for number in u.split(",")] if u else None
    except ValueError:
        raise UserError(f"--u takes numbers separated by commas, not {u!r}") from None
    start = models.values(initial or [])
    written = da.export_fmu(
        models.system(system), method, path, step=step, fmi=fmi, u=inputs, parameters=models.parameters(parameter or []),
        q=start.get("q"), v=start.get("v"), p=start.get("p"), x=start.get("x"), y=start.get("y"), z=start.get("z"),
        binary=binary,
    )  # fmt: skip
    say(f"wrote {written}", quiet)
