"""What a run has, by name: columns of numbers with their times and units.

`sol["x1"]`, tables and figures of named variables all look here. A kind of solution states its columns in `_columns`; other
layers (sensors of mechanisms, say) add theirs with `source`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dalembert.errors import MethodError, suggest
from dalembert.systems.picture import particles

if TYPE_CHECKING:
    from dalembert.solution.base import Solution
    from dalembert.systems.base import System

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """One variable along a run: its values, the times that they belong to, and its unit (empty where none is stated)."""

    values: Array
    t: Array
    unit: str = ""


Columns = Mapping[str, Callable[[], Column]]  # made when they are asked for
_SOURCES: list[Callable[[Solution], Columns]] = []


def source(columns: Callable[[Solution], Columns]) -> Callable[[Solution], Columns]:
    """Enter a function that gives further columns of a solution, none where it has nothing to say of it."""
    _SOURCES.append(columns)
    return columns


def columns(sol: Solution) -> dict[str, Callable[[], Column]]:
    """All columns of a solution by name."""
    out = dict(sol._columns())
    for more in _SOURCES:
        out |= more(sol)
    return out


def find(sol: Solution, name: object) -> Column:
    """A column by its name; a dot is as good as an underscore, so that `"motor.current"` is the state `motor_current`."""
    known = columns(sol)
    if not isinstance(name, str):
        raise MethodError(f"a variable has a name, {name!r} is none; sol.names lists them")
    for spelling in (name, name.replace(".", "_")):
        if spelling in known:
            return known[spelling]()
    few = dict(list(known.items())[:12])
    raise MethodError(f"there is no variable {name!r}{suggest(name, known if len(known) <= 12 else few)}; sol.names lists all")


def several(names: list[str], make: Callable[[], Array], t: Array, units: list[str] | None = None) -> Columns:
    """The columns of one array, which `make()` gives when one of them is asked for."""
    known = units or [""] * len(names)
    return {name: partial(_column, make, k, t, known[k]) for k, name in enumerate(names)}


def _column(make: Callable[[], Array], k: int, t: Array, unit: str) -> Column:
    return Column(make()[:, k], t, unit)


def single(name: str, make: Callable[[], Array], t: Array, unit: str = "") -> Columns:
    """One column."""
    return {name: lambda: Column(make(), t, unit)}


def unit(system: System, kind: str) -> str:
    """A unit that the system states: of `"time"`, `"length"`, `"energy"`, or of a coordinate by its name."""
    return system.picture.units.get(kind, "") if system.picture is not None else ""


def coordinate_units(system: System) -> list[str]:
    """The unit of each coordinate: its own, or that of lengths if it belongs to a point."""
    if system.picture is None:
        return [""] * system.n
    placed = {i for group in particles(system) for i in group} if unit(system, "length") else set()
    return [unit(system, name) or (unit(system, "length") if i in placed else "") for i, name in enumerate(system.coordinates)]


def per_time(system: System, units: list[str], power: int = 1) -> list[str]:
    """The units of rates."""
    time = unit(system, "time")
    below = time if power == 1 else f"{time}^{power}"
    return [f"{u}/{below}" if u and time else "" for u in units]


def of(kind: str, names: tuple[str, ...]) -> list[str]:
    """Names of what belongs to named things: `v_x1`; of things that are numbered, `q0`, `u1`, with their number: `v0`, `y1`."""
    return [f"{kind}{name[1:]}" if name[0] in "qu" and name[1:].isdigit() else f"{kind}_{name}" for name in names]


def numbered(kind: str, count: int, first: int = 1) -> list[str]:
    return [f"{kind}{k}" for k in range(first, first + count)]
