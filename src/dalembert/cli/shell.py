"""What all commands share: printing, errors as exit codes, and common options."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from dalembert import tables
from dalembert._version import __version__
from dalembert.cli import models
from dalembert.cli.models import UserError
from dalembert.errors import DalembertError

out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
P = ParamSpec("P")
R = TypeVar("R")
INTERRUPTED = 130

System = Annotated[
    str,
    typer.Argument(help="A catalog name, a robot's file, or file.py:name.", autocompletion=models.complete_system),
]
Parameter = Annotated[list[str] | None, typer.Option("--parameter", "-p", help="name=value; can be repeated.")]
Initial = Annotated[list[str] | None, typer.Option("--initial", "-i", help="q=1,0 or v=0,0; can be repeated.")]
Inputs = Annotated[str, typer.Option("--u", help="Constant inputs, separated by commas.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print numbers as JSON.")]
Form = Annotated[str, typer.Option("--format", help=f"Format of the table: {', '.join(tables.FORMATS)}.")]
Figure = Annotated[Path | None, typer.Option(help="Figure file: PNG, PDF or SVG.")]
TEnd = Annotated[float, typer.Option(help="Final time.")]
Step = Annotated[float, typer.Option(help="Step size.")]
METHOD = typer.Option(help="A method, see `dalembert list methods`.", autocompletion=models.complete_method)


class Failed(Exception):
    """A run, or the writing of its files, failed after the run had begun; `causes` are the errors."""

    def __init__(self, causes: list[BaseException]) -> None:
        super().__init__(*map(str, causes))
        self.causes = causes

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C was one of the causes."""
        return any(isinstance(cause, KeyboardInterrupt) for cause in self.causes)


def guarded(function: Callable[P, R]) -> Callable[P, R]:
    """A command whose errors end in one line and an exit code."""

    @functools.wraps(function)
    def inner(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return function(*arguments, **options)
        except KeyboardInterrupt as stopped:  # `da.Interrupted` is one
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from stopped
        except OSError as error:
            complain(f"{error.filename or ''} {error.strerror or error}".strip())
            raise typer.Exit(1) from error
        except Failed as failure:
            for cause in failure.causes:
                complain("interrupted" if isinstance(cause, KeyboardInterrupt) else str(cause))
            raise typer.Exit(INTERRUPTED if failure.interrupted else 1) from failure
        except (UserError, DalembertError) as error:
            complain(str(error))
            begun = getattr(error, "solution", None) is not None
            raise typer.Exit(2 if isinstance(error, (UserError, ValueError, TypeError)) and not begun else 1) from error

    return inner


def print_version(wanted: bool) -> None:
    """Print the version and stop: `dalembert --version`."""
    if wanted:
        typer.echo(f"dalembert {__version__}")
        raise typer.Exit


def complain(text: str) -> None:
    """Print an error."""
    text = re.sub(r" ?\(?error\.solution holds[^)]*\)?", "", text)  # an attribute, of no use in a shell
    err.print(f"[red]error:[/red] {escape(text)}", highlight=False)


def say(text: str, quiet: bool = False) -> None:
    """Print a line, unless `quiet`."""
    if not quiet:
        out.print(escape(text), highlight=False)


def remark(text: str) -> None:
    """Print a line to stderr, so that stdout holds the result alone."""
    err.print(escape(text), highlight=False)


def to_json(data: object) -> str:
    """Strict JSON: numbers that are not finite become null."""

    def plain(x: object) -> object:
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [plain(v) for v in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    return json.dumps(plain(data), allow_nan=False)
