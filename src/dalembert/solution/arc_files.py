"""Arcs in files: beside the arrays of the whole run, where each arc begins, its system and parameters, and the jumps."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.errors import FileError
from dalembert.solution.arcs import Arcs, Jump, Link, join
from dalembert.solution.base import Solution
from dalembert.systems import plain
from dalembert.systems.base import System


def written(solution: Solution) -> dict[str, Any] | None:
    """What a file has of arcs beside arrays; None where there are none."""
    if not isinstance(solution, Arcs):
        return None
    systems = list(dict.fromkeys(arc.system.dumps() for arc in solution.arcs))
    arcs = [
        {"rows": len(arc.t), "system": systems.index(arc.system.dumps()), "parameters": arc._par.tolist(), "columns": at.tolist()}
        for arc, at in zip(solution.arcs, solution.columns, strict=True)
    ]
    return {"systems": systems, "arcs": arcs, "links": [[_jump(jump) for jump in link.jumps] for link in solution.links]}


def _jump(jump: Jump) -> dict[str, Any]:
    sides = {key: {name: a.tolist() for name, a in getattr(jump, key).items()} for key in ("before", "after")}
    own = {key: getattr(jump, key) for key in ("t", "event", "supplied", "dissipated", "impulse")}
    impulses = {key: getattr(jump, key).tolist() for key in ("reactions", "tangential")}
    return {**own, **sides, **impulses, "engaged": list(jump.engaged)}


def read(found: object, whole: Solution) -> Solution:
    """The arcs of a run whose arrays were read as those of one solution."""
    systems = [System.loads(text) for text in plain.each(plain.get(found, "systems", list), "systems", str)]
    arcs, columns, first = [], [], 0
    given = plain.get(found, "arcs", list)
    for one in given:
        rows = plain.size(plain.get(one, "rows", int), "rows", 1, len(whole.t) - first)
        number = plain.size(plain.get(one, "system", int), "system", 0, len(systems) - 1)
        at = [
            plain.size(i, "columns", 0, whole._lam.shape[1] - 1)
            for i in plain.each(plain.get(one, "columns", list), "columns", int)
        ]
        columns.append(np.array(at, dtype=np.int64))
        arcs.append(_arc(whole, systems[number], plain.get(one, "parameters", list), slice(first, first + rows), columns[-1]))
        first += rows
    links = [Link(tuple(_read_jump(jump) for jump in jumps)) for jumps in plain.get(found, "links", list)]
    if first != len(whole.t) or len(links) != len(arcs) - 1:
        raise FileError("its arcs are not those of its rows")
    out = join(arcs, links, whole.system, columns)
    out.events, out.samples, out.stats = whole.events, whole.samples, whole.stats
    return out


def _arc(whole: Solution, system: System, parameters: list[object], rows: slice, columns: np.ndarray[Any, Any]) -> Solution:
    intervals = slice(rows.start, rows.stop - 1)
    return Solution.of(system)(
        system, whole.method, plain.array(parameters, "parameters", (system.par.numel(),)), whole.t[rows],
        {name: part[rows] for name, part in whole.parts.items()}, lam=whole._lam[intervals][:, columns],
        t_lam=whole.t_lam[intervals], work=whole._work[intervals], u=whole.u[rows], step=whole.step, stats=dict(whole.stats),
    )  # fmt: skip


def _read_jump(found: object) -> Jump:
    sides = {}
    for key in ("before", "after"):
        given = plain.get(found, key, dict)
        sides[key] = {str(name): plain.array(values, str(name), (len(values),)) for name, values in given.items()}
    reactions, tangential = (plain.get(found, key, list) for key in ("reactions", "tangential"))
    return Jump(
        plain.get(found, "t", float), plain.get(found, "event", str), sides["before"], sides["after"],
        plain.get(found, "supplied", float), plain.get(found, "dissipated", float), plain.maybe(found, "impulse", float),
        plain.array(reactions, "reactions", (len(reactions),)), plain.array(tangential, "tangential", (len(tangential),)),
        tuple(plain.each(plain.get(found, "engaged", list), "engaged", str)),
    )  # fmt: skip
