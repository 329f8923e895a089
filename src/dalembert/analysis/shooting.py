"""Residuals of a run against measured data, and their exact derivatives: in one piece, or in several with free states between.

In several pieces (multiple shooting; Bock 1981) each begins with a state of its own, near the data, and what is left between the
end of one and the beginning of the next joins the residuals with a weight that grows. A chaotic motion can be fitted that way
from guesses with which a single run leaves the data at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dalembert.analysis.measurements import Measurements, places
from dalembert.analysis.starts import Start
from dalembert.engine import kinds
from dalembert.engine.case import Case, project
from dalembert.engine.driver import Grid
from dalembert.engine.inputs import Inputs
from dalembert.engine.newton import Rule
from dalembert.errors import DalembertError, MethodError
from dalembert.methods.base import Method
from dalembert.named import Array
from dalembert.sensitivities import Sensitivity
from dalembert.solution import Solution
from dalembert.systems.base import System
from dalembert.systems.batch import batch, dense


@dataclass(frozen=True)
class Setting:
    """What is run: system, method, inputs, steps."""

    system: System
    method: Method
    inputs: Inputs
    rule: Rule
    compile: bool | str
    t0: float
    h: float
    steps: int

    def case(self, values: Mapping[str, Array], par: Array, t0: float) -> Case:
        """The case that begins with given values."""
        first = self.inputs(np.array([t0]))[0]
        kinds.check(self.system, dict(values), par, t0, first, self.method)
        return Case(self.system, self.method, par, self.inputs, t0, dict(values))


class Piece:
    """A run from one start over some of the data."""

    def __init__(self, setting: Setting, data: Measurements, begin: int, end: int, start: Start) -> None:
        self.setting, self.data, self.start = setting, data, start
        self.t0 = setting.t0 + begin * setting.h
        self.grid = Grid(self.t0, setting.t0 + end * setting.h, setting.h)
        edge = setting.h * 1e-9
        last = end >= setting.steps
        self.rows = np.flatnonzero((data.t >= self.t0 - edge) & (data.t < self.grid.t_end - edge + 1e300 * last))

    def run(self, free: Array, par: Array) -> tuple[Sensitivity, Array]:
        """The run from free initial values, ready to be differentiated, and its first state."""
        x = self.start.state(free, par)
        case = self.setting.case(self.start.parts(x), par, self.t0)
        return Sensitivity(case, self.grid, self.setting.rule, self.setting.compile, False), x

    def evaluate(self, free: Array, par: Array, by_par: Array, by_free: list[int]) -> Outcome:
        """Values at the measured times and the last state, with slopes by some parameters and some free initial values."""
        run, x = self.run(free, par)
        to_free, to_par = self.start.slopes(x, par)
        directions = [self._direction(to_par @ d, d) for d in by_par]
        directions += [self._direction(to_free[:, j], np.zeros(len(par))) for j in by_free]
        system, sol = self.setting.system, run.solution
        count = len(directions)
        tangents = np.zeros((len(sol.t), len(x), 0))
        if count:
            found = run.along(directions)
            tangents = np.concatenate([found[name] for name in system.state], axis=1)
        states = np.hstack([sol.parts[name] for name in system.state])
        t = self.data.t[self.rows]
        rows, weights = places(t, sol.t)
        here = np.einsum("tk,tki->ti", weights, states[rows])
        f = self.data.function
        out = batch(f, [here, t[:, None], self.setting.inputs(t), par], len(t))
        y, by_x, by_p = (dense(values, f.sparsity_out(i)) for i, values in enumerate(out))
        slopes = by_x @ np.einsum("tk,tkij->tij", weights, tangents[rows])
        slopes[:, :, : len(by_par)] += by_p @ by_par.T
        return Outcome(y[:, :, 0], slopes, states[-1], tangents[-1], sol)

    def _direction(self, state: Array, par: Array) -> dict[str, Array]:
        return {**self.start.parts(state), **self.setting.system.unpack(par)}


@dataclass(frozen=True)
class Outcome:
    """What a piece gives: measured values and their slopes, the last state and its slopes, the run."""

    values: Array
    slopes: Array
    last: Array
    tangents: Array
    solution: Solution


@dataclass(frozen=True)
class Free:
    """What is fitted: entries of the parameter vector, and free initial values of the first piece."""

    par: Array  # the vector with all others
    entries: list[int]
    initial: list[int]

    def split(self, theta: Array) -> tuple[Array, Array]:
        """The parameter vector, and the free initial values."""
        par = self.par.copy()
        par[self.entries] = theta[: len(self.entries)]
        return par, theta[len(self.entries) :]

    @cached_property
    def units(self) -> Array:
        """A direction for each parameter that is fitted."""
        return np.eye(len(self.par))[self.entries]


class Single:
    """One run over all data."""

    def __init__(self, piece: Piece, free: Free) -> None:
        self.piece, self.free = piece, free

    def outcome(self, theta: Array) -> Outcome:
        par, initial = self.free.split(theta)
        first = self.piece.start.free.copy()
        first[self.free.initial] = initial
        return self.piece.evaluate(first, par, self.free.units, self.free.initial)

    def residuals(self, theta: Array) -> tuple[Array, Array]:
        """`(model - measured) / sigma` for all measured values, and the Jacobian."""
        found, data = self.outcome(theta), self.piece.data
        there = data.there
        r = ((found.values - data.values) / data.sigma)[there]
        return r, (found.slopes / data.sigma[:, :, None])[there]


class Multiple:
    """Several runs with starts of their own; `weight` is that of the gaps between them."""

    def __init__(self, pieces: list[Piece], free: Free, weight: float, scale: Array) -> None:
        self.pieces, self.free, self.weight, self.scale = pieces, free, weight, scale
        counts = [len(free.initial), *(len(p.start.free) for p in pieces[1:])]
        self.cuts = len(free.entries) + np.concatenate([[0], np.cumsum(counts)])

    def theta(self, first: Array) -> Array:
        """All unknowns, the later starts as they are."""
        return np.concatenate([first, *(p.start.free for p in self.pieces[1:])])

    def residuals(self, theta: Array) -> tuple[Array, Array]:
        """Those of all pieces, then the gaps in the free entries of the starts, each relative to its size."""
        k = len(self.free.entries)
        par, _ = self.free.split(theta)
        rows, slopes = [], []
        data = self.pieces[0].data
        before: tuple[Array, Array] | None = None
        for i, piece in enumerate(self.pieces):
            part = slice(self.cuts[i], self.cuts[i + 1])
            free, by = piece.start.free.copy(), list(range(len(piece.start.free)))
            if i == 0:
                by = self.free.initial
            free[by] = theta[part]
            found = piece.evaluate(free, par, self.free.units, by)
            there = data.there[piece.rows]
            wide = np.zeros((*found.values.shape, len(theta)))
            wide[:, :, :k], wide[:, :, part] = found.slopes[:, :, :k], found.slopes[:, :, k:]
            sigma = data.sigma[piece.rows]
            rows.append(((found.values - data.values[piece.rows]) / sigma)[there])
            slopes.append((wide / sigma[:, :, None])[there])
            if before is not None:
                picked, size = piece.start.picked, self.scale[piece.start.picked]
                rows.append(self.weight * (before[0][picked] - theta[part]) / size)
                gap = before[1][picked]
                gap[:, part] -= np.eye(len(picked))
                slopes.append(self.weight * gap / size[:, None])
            last = np.zeros((len(found.last), len(theta)))
            last[:, :k], last[:, part] = found.tangents[:, :k], found.tangents[:, k:]
            before = found.last, last
        return np.concatenate(rows), np.concatenate(slopes)


def near_data(setting: Setting, data: Measurements, names: list[str], rough: Solution | None, par: Array, t: float) -> Array:
    """A consistent state at a time from the data: measured entries, slopes of these for velocities, else those of a run."""
    x = np.zeros(len(names))
    if rough is not None:
        sample = rough.at(min(max(t, rough.t[0]), rough.t[-1]))
        x = np.concatenate([np.ravel(sample.values[name]) for name in setting.system.state])
    for i, name in enumerate(names):
        if name in data.names:
            x[i] = _local(data, name, t)[0]
        elif name[:2] == "v_" and name[2:] in data.names:
            x[i] = _local(data, name[2:], t)[1]
        elif rough is None:
            raise MethodError(f"a start near the data at t = {t:g} needs {name!r}, and the first guess cannot be run up to there")
    values, place = {}, 0
    for part in setting.system.state:
        values[part] = x[place : place + setting.system.size_of(part)]
        place += setting.system.size_of(part)
    found = project(setting.system, values, par, t, setting.inputs(np.array([t]))[0])
    return np.concatenate([np.ravel(found.values[part]) for part in setting.system.state])


def _local(data: Measurements, name: str, t: float) -> tuple[float, float]:
    """Value and slope of a parabola through the seven measured values nearest to a time."""
    y = data.values[:, data.names.index(name)]
    known = np.flatnonzero(np.isfinite(y))
    if len(known) < 3:
        raise MethodError(f"{name!r} has {len(known)} measured values: too few for starts near the data")
    near = known[np.argsort(np.abs(data.t[known] - t))[:7]]
    c = np.polynomial.polynomial.polyfit(data.t[near] - t, y[near], 2)
    return float(c[0]), float(c[1])


def attempted(evaluate: Single | Multiple, theta: Array) -> tuple[Array, Array] | None:
    """Residuals and Jacobian, or None where the run fails."""
    try:
        r, J = evaluate.residuals(theta)
    except DalembertError:
        return None
    return (r, J) if np.isfinite(r).all() and np.isfinite(J).all() else None
