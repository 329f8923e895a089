"""What belongs on one axis: coordinates of one unit or one kind; and what to call each of several runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dalembert.plotting.labels import GREEK, SPOKEN
from dalembert.solution import Solution
from dalembert.systems.picture import particles

MOST = 8  # curves on one axis
TITLES = {
    "rad": "angles", "deg": "angles", "m": "positions", "V": "voltages", "A": "currents", "Wb": "flux linkages", "C": "charges",
    "N m s": "angular momenta", "N s": "momenta", "m/s": "velocities", "rad/s": "angular velocities", "N": "forces",
}  # fmt: skip
PLACES, TURNS = ("x", "y", "z"), ("angle",)
KINDS = {"p": "momenta", "q": "positions", "v": "velocities", "lam": "multipliers", "lambda": "multipliers", "i": "currents"}


@dataclass(frozen=True)
class Group:
    """Coordinates that share an axis: a title, their unit (empty if it is not stated), and their numbers."""

    title: str
    unit: str
    members: tuple[int, ...]


def coordinate_groups(sol: Solution) -> list[Group]:
    """The coordinates of a system by unit; by kind, which their names tell, where no unit is stated.

    `x1, y1` are positions, Greek letters angles, `i_a, i_b` of one kind. Kinds of a single coordinate share an axis.
    """
    system, picture = sol.system, sol.system.picture
    units = picture.units if picture is not None else {}
    placed = {i for group in particles(system) for i in group}
    found: dict[tuple[str, str], list[int]] = {}
    for i, name in enumerate(system.coordinates):
        unit = units.get(name, units.get("length", "") if i in placed else "")
        title = TITLES.get(unit, unit and f"in {unit}") or ("positions" if i in placed else _kind(name))
        found.setdefault((title, unit), []).append(i)
    alone = [key for key, members in found.items() if len(members) == 1 and not key[1] and key[0] not in ("positions", "angles")]
    if len(alone) > 1:
        found["others", ""] = [i for key in alone for i in found.pop(key)]
    titles = [title for title, _ in found]
    several = {title for title in titles if titles.count(title) > 1}  # radians and degrees
    return [Group(f"{title} ({unit})" if title in several else title, unit, tuple(m)) for (title, unit), m in found.items()]


def _kind(name: str) -> str:
    """The kind of a coordinate by the letters its name begins with."""
    found = re.match(r"\\?([A-Za-z]+?)(?=_|\d|\{|$)", name.strip("$"))
    stem = found.group(1) if found else name
    if stem in PLACES:
        return "positions"
    if stem in KINDS:
        return KINDS[stem]
    if stem in SPOKEN or GREEK.fullmatch(stem) or stem in TURNS:
        return "angles"
    return stem


def liveliest(sol: Solution, members: Sequence[int], most: int = MOST) -> tuple[int, ...]:
    """At most `most` of some coordinates: those that move most, in their order."""
    if len(members) <= most:
        return tuple(members)
    moved = np.ptp(sol.motion[:, list(members)], axis=0)
    return tuple(members[k] for k in sorted(np.argsort(-moved, kind="stable")[:most]))


def run_names(runs: Sequence[Solution]) -> list[str]:
    """What tells several runs apart, in few words: method, system, step, parameters; numbers if they agree in all of these."""
    if len(runs) < 2:
        return [str(sol.method) for sol in runs]
    sides = [[str(sol.method) for sol in runs], [sol.system.name for sol in runs], [f"h = {sol.step:g}" for sol in runs]]
    for name in sorted({name for sol in runs for name in sol.parameters}):
        sides.append([_setting(sol, name) for sol in runs])
    names = [""] * len(runs)
    for side in sides:
        longer = [", ".join(part for part in pair if part) for pair in zip(names, side, strict=True)]
        if len(set(longer)) > len(set(names)):
            names = longer
    if len(set(names)) == len(names):
        return names
    return [f"{name} (run {k})" if name else f"run {k}" for k, name in enumerate(names, 1)]


def _setting(sol: Solution, name: str) -> str:
    values = np.ravel(sol.parameters.get(name, np.zeros(0)))
    return f"{name} = {values[0]:g}" if values.size == 1 else ""
