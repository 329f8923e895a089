"""The residuals of a step with names for what stands in between: values at places are cuts, and slopes of them are known.

A large system is evaluated and differentiated link by link: what is written out in one expression for a small one would have to
be differentiated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.methods.step import Chained, Linked, Solve

if TYPE_CHECKING:
    from dalembert.methods.residual import _Stages


@dataclass(frozen=True)
class Cut:
    """A value with a name: of a block at a place."""

    symbol: SX
    whole: SX
    block: str
    place: int


def links(s: _Stages, solves: tuple[Solve, ...], end: Callable[[_Stages], tuple[SX, SX, SX]]) -> Linked:
    """The residuals of all solves as chains, and the end of the step."""
    linked = s.linked()
    rows: dict[Hashable, SX] = {node: row for node, (row, _) in linked.rows().items()}
    out = []
    for solve in solves:
        residual = ca.densify(ca.vertcat(*(rows[node] for node in solve.keys)))
        cuts: list[Cut] = []
        for cut in reversed(linked.cuts or []):
            if ca.depends_on(ca.vertcat(residual, *(c.whole for c in cuts)), cut.symbol):
                cuts.insert(0, cut)
        out.append(Chained(residual, tuple((c.symbol, c.whole) for c in cuts), _slopes(linked, solve.keys, cuts)))
    return Linked(tuple(out), end(linked))


def _slopes(s: _Stages, keys: tuple[Hashable, ...], cuts: list[Cut]) -> dict[tuple[int, int], SX]:
    """The slopes of the links of a solve for multipliers that follow from those that the form knows."""
    places = [node[1] for node in keys if isinstance(node, tuple) and node[0] == "lam"]
    plain = s.scheme.multipliers is None and not s.scheme.carried and s.form.basis is None
    if len(places) < len(keys) or not plain:
        return {}
    out = {}
    for number, cut in enumerate(cuts):
        slope = _pushed(s, cut, places)
        if slope is not None:
            out[number, -1] = slope
    for block, place, slope in _bends(s, places[0]) if len(places) == 1 else ():
        symbol = s.value(block, place)
        out |= {(len(cuts), j): slope for j, cut in enumerate(cuts) if cut.symbol is symbol}
    return out


def _pushed(s: _Stages, cut: Cut, places: list[int]) -> SX | None:
    """The slope of a value by the multipliers of some stages, where these act on its explicit rates alone."""
    b, form = cut.block, s.form
    weights, S = s.weights(b, cut.place), form.slopes.get(b, {}).get("lam")
    inverse = form.inverse(b)
    explicit = all((b, int(j)) in s.known for j in np.flatnonzero(weights))
    if S is None or inverse is None or b in s.several or not explicit or len(form.acting(b)) != 1:
        return None
    n, m = S.shape
    columns = [float(weights[j]) * s.h * (inverse @ _slope(s, S, j)) if weights[j] else s.kind(n, m) for j in places]
    return ca.horzcat(*columns)


def _bends(s: _Stages, number: int) -> list[tuple[str, int, SX]]:
    """The slopes of the row of one multiplier that is a level at one place: by which block, and where."""
    own = [node[1] for node in s.unknowns if node[0] == "lam"]
    levels = [level for level in ("position", "velocity") if level in s.form.levels]
    rows = [(level, row) for level in levels for row in s.scheme.rows.get(level, ())]
    if "nonholonomic" in s.form.levels or len(rows) < len(own) or s.form.mu.numel():
        return []
    level, row = rows[len(rows) - len(own) :][own.index(number)]
    alone = all(np.count_nonzero(r) == 1 for r in s.scheme.rows[level])
    if not alone:
        return []
    place = int(np.flatnonzero(row)[0])
    return [(b, place, float(row[place]) * _slope(s, S, place)) for b, S in s.form.slopes.get(level, {}).items()]


def _slope(s: _Stages, S: SX, i: int) -> SX:
    """A sparse matrix of `(q, t)` at a place."""
    form = s.form
    f = ca.Function("slope", [form.y["q"], form.t, form.par], [S])
    out: SX = f.call([s.value("q", i), s.times[i], form.par], isinstance(s.h, ca.MX))[0]
    return out
