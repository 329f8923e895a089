"""The command line: `dalembert list | simulate | run | sweep | compare | order | diagnose | export-fmu | reproduce | ...`.

Exit codes: 0 success; 1 the run failed or a claim did not hold (partial results are written); 2 a usage error; 130 interrupted by
Ctrl-C (partial results are written).
"""

from __future__ import annotations

from typing import Annotated

import typer

from dalembert.cli.exporting import export_fmu
from dalembert.cli.listing import bench, cite, list_
from dalembert.cli.measuring import compare, diagnose, order
from dalembert.cli.reproducing import reproduce
from dalembert.cli.running import run, simulate
from dalembert.cli.shell import guarded, print_version
from dalembert.cli.sweeping import sweep

app = typer.Typer(
    help="Structure-preserving simulation of constrained mechanical systems.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: that of Rich takes twice as long to import as all else takes
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


@app.callback()
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=print_version)] = False,
) -> None:
    """Structure-preserving simulation of constrained mechanical systems."""


app.command("list")(guarded(list_))
for command in (simulate, run, sweep, compare, order, diagnose, reproduce, bench, cite):
    app.command()(guarded(command))
app.command("export-fmu")(guarded(export_fmu))


def main() -> None:
    """Run the command line."""
    app(prog_name="dalembert")
