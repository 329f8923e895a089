"""`dalembert sweep`: an ensemble from a TOML file, on a cluster, into a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

import dalembert as da
from dalembert.cli.models import UserError
from dalembert.cli.shell import Failed, Json, Quiet, say, to_json
from dalembert.cli.study import SCHEMA, Study, is_numbers
from dalembert.errors import DalembertError, suggest

if TYPE_CHECKING:
    from numpy.random import Generator

OWN = {"samples": "a table", "members": "a whole number", "seed": "a whole number", "store": "text", "address": "text",
       "cores": "a whole number", "reduce": "text"}  # fmt: skip
SHARED = ("system", "method", "t_end", "step", "t0", "save_every", "adaptive", "tolerance", "u", "parameters", "initial")
DRAWN: dict[str, Callable[[Generator, int, float, float], object]] = {
    "uniform": lambda rng, members, low, high: rng.uniform(low, high, members),
    "normal": lambda rng, members, mean, deviation: rng.normal(mean, deviation, members),
    "range": lambda rng, members, first, last: _spread(first, last, members),
}


class SweepStudy(Study):
    """A study with samples."""

    schema: ClassVar[dict[str, str]] = {**{name: SCHEMA[name] for name in SHARED}, **OWN}
    needed = ("system", "method", "t_end", "step", "samples", "store")

    def samples(self) -> dict[str, object]:
        """What varies: numbers, or `{uniform = [low, high]}`, `{normal = [mean, deviation]}`, `{range = [first, last]}`."""
        out: dict[str, object] = {}
        for key, value in self.data["samples"].items():
            if is_numbers(value):
                out[key] = value
                continue
            if not isinstance(value, dict) or len(value) != 1:
                expected = f"numbers, or one of {', '.join(DRAWN)} with two"
                raise self.fail(f"samples.{key} must be {expected}, not {value!r}", key, "samples")
            ((kind, pair),) = value.items()
            if kind not in DRAWN:
                raise self.fail(f"samples.{key} cannot be {kind!r}{suggest(kind, DRAWN)}", key, "samples")
            if not is_numbers(pair) or not isinstance(pair, list) or len(pair) != 2:
                raise self.fail(f"samples.{key}.{kind} must be two numbers, not {pair!r}", key, "samples")
            out[key] = _drawing(kind, *pair)
        return out


def _spread(first: float, last: float, members: int) -> object:
    import numpy as np  # which `--help` does without

    return np.linspace(first, last, members)


def _drawing(kind: str, one: float, two: float) -> Callable[[Generator, int], object]:
    return lambda rng, members: DRAWN[kind](rng, members, one, two)


def sweep(study: Annotated[Path, typer.Argument(help="A TOML file.")], quiet: Quiet = False, as_json: Json = False) -> None:
    """Run many members of a system from a TOML file.

    The file has [samples]; they run on all cores or on a cluster, into a Zarr store. Started again, it runs only what is missing.
    """
    from dalembert.ensembles.clusters import Connection  # and with it the engine, which `--help` does without

    whole = SweepStudy(study)
    job, samples = whole.job(), whole.samples()
    own: dict[str, Any] = {k: whole.data[k] for k in ("members", "seed", "reduce") if k in whole.data}
    options: dict[str, Any] = {**job.options, **own}
    store = study.parent / whole.data["store"]
    client = Connection(
        whole.data.get("address"),
        whole.data.get("cores"),
        lambda found: say(f"dashboard: {found.dashboard_link}", quiet or as_json),
    )
    try:
        data = da.sweep(
            job.system, job.method, samples=samples, t_end=job.t_end, step=job.step, store=store, client=client,
            progress=False if quiet or as_json else None, **options,
        )  # fmt: skip
    except DalembertError as error:
        if isinstance(error, (ValueError, TypeError)):
            raise whole.blame(error) from error
        raise
    errors = [str(text) for text in data.error.values if text]
    if as_json:
        typer.echo(to_json({"members": int(data.sizes["member"]), "failed": len(errors), "store": str(store)}))
    else:
        say(f"{data.sizes['member']} members in {store}, {len(errors)} of them failed", quiet)
    if errors:
        raise Failed([UserError(f"{len(errors)} members failed, the first with: {errors[0]}")])
