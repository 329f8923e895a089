"""What varies from member to member, checked: one row of values a member."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import reals, shown, whole
from dalembert.errors import InconsistentState, ModelError, suggest
from dalembert.systems.base import System
from dalembert.systems.shapes import mapping

Array = NDArray[np.float64]
Sampler = Callable[[np.random.Generator, int], ArrayLike]
STARTS = ("q", "v", "p", "x", "y", "z")  # initial values; names of parameters come first, where they are the same
MOST = 10**9  # members


@dataclass(frozen=True)
class Samples:
    """Rows of values by name: of parameters, initial values and inputs."""

    members: int
    parameters: dict[str, Array]
    starts: dict[str, Array]
    u: Array | None
    seed: int | None

    def all(self) -> dict[str, Array]:
        """Everything that varies."""
        return {**self.parameters, **self.starts, **({} if self.u is None else {"u": self.u})}

    def of(self, member: int) -> dict[str, dict[str, Array]]:
        """The parameters and initial values of one member."""
        return {
            "parameters": {name: rows[member] for name, rows in self.parameters.items()},
            "starts": {name: rows[member] for name, rows in self.starts.items()},
        }

    def part(self, first: int, last: int) -> Samples:
        """Some of the members."""
        cut = slice(first, last)
        return Samples(
            last - first,
            {name: rows[cut] for name, rows in self.parameters.items()},
            {name: rows[cut] for name, rows in self.starts.items()},
            None if self.u is None else self.u[cut],
            self.seed,
        )


def draw(system: System, samples: Mapping[str, object], members: int | None, seed: int | None) -> Samples:
    """The values of all members: as given, or drawn by a function `f(rng, members)` or the `rvs` of a distribution."""
    given: dict[str, object] = dict(mapping("samples", samples))  # type: ignore[arg-type]  # values are looked at below
    if not given:
        raise ModelError("samples is empty: name what varies, for example samples={'m1': [1.0, 1.1, 1.2]}")
    random = [name for name, value in given.items() if callable(value) or hasattr(value, "rvs")]
    count = whole("members", members, ModelError, most=MOST) if members is not None else _count(given, random)
    if seed is not None:
        seed = whole("seed", seed, ModelError, least=0)
    elif random:
        seed = int(np.random.SeedSequence().generate_state(1)[0])  # kept with the result, so that it can be repeated
    rng = np.random.default_rng(seed)
    shapes = dict(_shapes(system))
    rows: dict[str, Array] = {}
    for name, value in given.items():
        if name not in shapes:
            raise ModelError(f"{system.name!r} has no {name!r} to vary{suggest(name, shapes)}")
        rows[name] = _rows(name, _drawn(name, value, rng, count), shapes[name], count)
    parameters = {name: rows[name] for name in rows if name in system.parameters}
    starts = {name: rows[name] for name in rows if name in STARTS and name not in parameters}
    u = rows.get("u") if "u" not in parameters else None
    return Samples(count, parameters, starts, u, seed)


def _count(given: Mapping[str, object], random: list[str]) -> int:
    sizes = {}
    for name, value in given.items():
        if name not in random:
            rows = reals(f"samples[{name!r}]", value, ModelError)
            if not rows.ndim:
                raise ModelError(f"samples[{name!r}] must have one row for each member, not {shown(value)}")
            sizes[name] = len(rows)
    if not sizes:
        raise ModelError("samples are drawn at random: say how many with members=...")
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ModelError(f"samples need one row for each member, the same number of all: {told}")
    count = next(iter(sizes.values()))
    if not count:
        raise ModelError("samples have no rows: there is no member to run")
    return count


def _shapes(system: System) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What can vary, and the shape of one value."""
    for name in (*system.starts, *(["u"] if system.nu else [])):
        yield name, (system.nu if name == "u" else system.size_of(name),)
    for name, value in system.parameters.items():
        yield name, value.shape


def _drawn(name: str, value: object, rng: np.random.Generator, count: int) -> object:
    try:
        if hasattr(value, "rvs"):
            return value.rvs(size=count, random_state=rng)
        return value(rng, count) if callable(value) else value
    except Exception as error:  # the function is the user's: it may raise anything
        raise ModelError(f"samples[{name!r}] could not be drawn: {type(error).__name__}: {error}") from error


def _rows(name: str, value: object, shape: tuple[int, ...], count: int) -> Array:
    rows = reals(f"samples[{name!r}]", value, ModelError)
    if rows.shape == (count,) and int(np.prod(shape)) == 1:
        rows = rows.reshape(count, *shape)
    if rows.shape != (count, *shape):
        error = InconsistentState if name in STARTS else ModelError
        raise error(f"samples[{name!r}] must have the shape {(count, *shape)}, one row for each member, not {rows.shape}")
    return rows
