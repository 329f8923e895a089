"""`dalembert reproduce`: experiments of the literature."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

import dalembert as da
from dalembert.cli import models
from dalembert.cli.shell import Json, Quiet, err, say, to_json


def reproduce(
    id: Annotated[str, typer.Argument(help="An experiment, or `all`.", autocompletion=models.complete_experiment)],
    quick: Annotated[bool, typer.Option("--quick", help="Shortened settings.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for figures, tables and the index page.")] = Path("reproduced"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Repeat experiments of the literature.

    Our numbers beside those of the source, figures, verdicts, and an index page.
    """
    chosen = list(da.experiments.REGISTER.values()) if id == "all" else [da.experiments.find(id)]
    from dalembert.experiments.pages import Pages

    pages, begun, silent = Pages(output), time.perf_counter(), quiet or as_json
    clock = Clock([entry.seconds for entry in chosen])
    say(
        f"about {_duration(clock.left())} for full settings on two cores of 2.8 GHz" if not quick else "shortened settings",
        silent,
    )
    index = output
    for k, entry in enumerate(chosen, 1):
        if len(chosen) > 1 and not silent and err.is_terminal:  # a log holds lines that stay
            left = "" if quick else f", about {_duration(clock.left())} left"
            err.print(f"{k:3d}/{len(chosen)}  {entry.id}{left}", end="\r", highlight=False)
        try:
            result = entry.run(quick)
        except KeyboardInterrupt:
            if as_json:
                typer.echo(to_json(pages.verdicts()))
            raise
        clock.done(result.seconds)
        index = pages.add(result)  # the index is rewritten each time, so that it is complete after an interruption
        if len(chosen) > 1:
            left = "" if quick or k == len(chosen) else f"  ({_duration(clock.left())} to go)"
            say(
                f"{k:3d}/{len(chosen)}  {entry.id:<14} {result.seconds:6.1f} s  {result.told}{left}" + " " * 12 * err.is_terminal,
                silent,
            )
        else:
            say(str(result), silent)
    if as_json:
        typer.echo(to_json(pages.verdicts()))
    say(f"wrote {index} ({_duration(time.perf_counter() - begun)} in all)", silent)
    if not all(r.verdict for r in pages.results):
        raise typer.Exit(1)


class Clock:
    """How long the rest takes: as long as was expected, times what the measured ones took over what they should have."""

    def __init__(self, expected: list[float]) -> None:
        self.expected, self.measured = expected, list[float]()

    def done(self, seconds: float) -> None:
        """One more is done."""
        self.measured.append(seconds)

    def left(self) -> float:
        """Seconds of the others; the expected ones count for ten seconds, so that the first do not decide alone."""
        k = len(self.measured)
        factor = (sum(self.measured) + 10.0) / (sum(self.expected[:k]) + 10.0)
        return factor * sum(self.expected[k:])


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"
