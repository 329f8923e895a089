"""The motion between stored times, of the order of the method in all parts of the state.

Nothing is stored for this. A step that is looked into is made again, shortened to end at Chebyshev points inside of it: the
polynomial through these states has the order of the method in every component. `how="step"` ends a step at each time that is
asked for, so that it is on the constraints that the method keeps. The integrators of SciPy go on from the row before.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dalembert.engine import case
from dalembert.engine.machine import Records
from dalembert.engine.newton import Rule
from dalembert.engine.reduced import Integrators
from dalembert.engine.runners import Ways
from dalembert.engine.steps import March, Shortened, room
from dalembert.errors import ConvergenceError
from dalembert.methods.reduced import Reduced
from dalembert.methods.tableaus import Tableau
from dalembert.systems.constrained import Constrained

if TYPE_CHECKING:
    from dalembert.solution.base import Solution

Array = NDArray[np.float64]
Parts = dict[str, Array]
DOUBLINGS = 6  # of the number of steps in an interval whose own steps were not stored
TINY = 1e-6  # of a step
LONGEST = 4096  # steps that are made at once


def between(sol: Solution, times: Array, how: str) -> Parts:
    """The parts of the state of a solution at given times inside it."""
    if len(sol.t) == 1:
        return {name: np.repeat(values, len(times), axis=0) for name, values in sol.parts.items()}
    k = np.clip(np.searchsorted(sol.t, times, side="right") - 1, 0, len(sol.t) - 2)
    row = k + (times == sol.t[k + 1])
    out = {name: values[row] for name, values in sol.parts.items()}
    inside = np.flatnonzero(times != sol.t[row])
    if not len(inside):
        return out
    if how == "polynomial" and _cubic(sol) and sol.stats.get("save_every", 1) == 1:
        begin, end = ({name: values[i] for name, values in sol.parts.items()} for i in (k[inside], k[inside] + 1))
        found = cubic(sol, sol.t[k[inside]], sol.t[k[inside] + 1], begin, end, times[inside])
        return {name: _put(values, inside, found[name]) for name, values in out.items()}
    inside = inside[np.argsort(k[inside], kind="stable")]
    groups = np.split(inside, np.flatnonzero(np.diff(k[inside])) + 1)
    again = Again(sol, how, len(groups))
    for mine in groups:
        found = again.interval(int(k[mine[0]]), times[mine])
        out = {name: _put(values, mine, found[name]) for name, values in out.items()}
    return out


def _put(values: Array, where: NDArray[np.int64], new: Array) -> Array:
    values[where] = new
    return values


def _cubic(sol: Solution) -> bool:
    """Whether the cubic through positions and velocities of each step has the order of the method: four in q, three in v."""
    order = max(*sol.method.order, sol.method.free_order)
    return 2 <= order <= 3 and sol.system.state == ("q", "v") and not sol.method.external


def cubic(sol: Solution, t0: Array, t1: Array, begin: Parts, end: Parts, times: Array) -> Parts:
    """The cubic through positions and velocities at both ends of steps, and its derivative."""
    first, last = (sol.slopes(at["q"], at["v"]) for at in (begin, end))
    values, slope = hermite(t0, t1, begin["q"], end["q"], first, last, times)
    return {"q": values, "v": velocities(sol, values, slope)}


def velocities(sol: Solution, q: Array, slope: Array) -> Array:
    """The velocities of given `q'`: these themselves, or the solution of `Z(q) v = q'`."""
    if not sol.system.has("kinematics"):
        return slope
    Z = sol.system.numeric("kinematics", sol._par, q=q).reshape(len(q), sol.system.n, -1)
    return np.array([np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(Z, slope, strict=True)])


def hermite(
    t0: Array, t1: Array, q0: Array, q1: Array, v0: Array, v1: Array, times: Array
) -> tuple[Array, Array]:  # fmt: skip
    """Value and derivative of the cubic through two values and two slopes."""
    h = np.reshape(t1 - t0, (-1, 1))
    s = np.reshape(times - t0, (-1, 1)) / h
    slope = (q1 - q0) / h
    bend, twist = 3 * slope - 2 * v0 - v1, v0 + v1 - 2 * slope
    return q0 + h * s * (v0 + s * (bend + s * twist)), v0 + s * (2 * bend + 3 * s * twist)


def chebyshev(degree: int) -> Array:
    """The extrema of a Chebyshev polynomial on [0, 1], both ends included."""
    return np.asarray((1 - np.cos(np.pi * np.arange(degree + 1) / degree)) / 2, dtype=np.float64)


def interpolation(nodes: Array, x: Array) -> Array:
    """The weights of the values at Chebyshev's points that give the polynomial at `x`, one row each (second barycentric form)."""
    signs = (-1.0) ** np.arange(len(nodes))
    signs[[0, -1]] /= 2
    away = x[:, None] - nodes
    at = away == 0.0
    weights = signs / np.where(at, 1.0, away)
    weights[at.any(axis=1)] = 0.0
    weights[at] = 1.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class Again:
    """Steps of a solution made once more."""

    def __init__(self, sol: Solution, how: str, intervals: int) -> None:
        self.sol = sol
        self._solves = intervals  # about so many, for the choice of the way to run
        self._reduction = sol.method.reduction(sol.step) if isinstance(sol.method, Reduced) else None
        order = max(*sol.method.order, sol.method.free_order)
        if self._reduction is not None:
            integrator = self._reduction.integrator
            order = integrator.order if isinstance(integrator, Tableau) else 0  # SciPy's steps are not ours
        self._nodes = chebyshev(order) if how == "polynomial" and order else None
        self._cubic = how == "polynomial" and _cubic(sol)

    def _ways(self, k: int) -> Ways:
        sol = self.sol
        if self._reduction is None:
            return case.prepare(sol.system, sol.method)
        assert isinstance(sol.system, Constrained)
        row = np.concatenate([a[k] for a in sol.parts.values()])
        span = float(sol.t[k]), float(sol.t[k + 1])
        return Integrators(sol.system, self._reduction, sol._par, sol.inputs, span, sol.step, row)

    @cached_property
    def _fixed(self) -> tuple[Ways, Shortened]:
        return self._prepared(0)

    def _prepared(self, k: int) -> tuple[Ways, Shortened]:
        ways = self._ways(k)
        solves = self._solves * (1 if self._nodes is None else len(self._nodes))
        return ways, Shortened(ways, ways.runner("auto", solves), self.sol.inputs, Rule(), self.sol._par)

    def _ready(self, k: int) -> tuple[Ways, Shortened]:
        """What makes the steps of an interval; SciPy's integrators run through one interval only."""
        ways = self._fixed[0]
        return self._prepared(k) if isinstance(ways, Integrators) and not ways.resumable else self._fixed

    def _state(self, ways: Ways, k: int) -> Array:
        """The state vector of a row, with what the method carries along."""
        sol = self.sol
        values = {name: a[k] for name, a in sol.parts.items()}
        return case.start(sol.system, ways.program, values, sol._par, float(sol.t[k]), sol.inputs)

    def interval(self, k: int, times: Array) -> Parts:
        """The parts of the state at times inside one interval."""
        ways, short = self._ready(k)
        state, end = self._state(ways, k), self._state(ways, k + 1)
        begin = self._begins(ways, k, state, end)
        part = np.clip(np.searchsorted(begin, times, side="right") - 1, 0, len(begin) - 2)
        rows = np.empty((len(times), len(state)))
        at = 0
        for j in np.unique(part):
            state, at = self._march(ways, state, begin, at, int(j)), int(j)
            now = part == j
            last = end if j == len(begin) - 2 else None
            rows[now], state = self._inside(short, begin[j], begin[j + 1], state, last, times[now])
            at += 1
        return {name: rows[:, ways.program.fields[name]] for name in self.sol.parts}

    def _inside(
        self, short: Shortened, t0: float, t1: float, state: Array, end: Array | None, times: Array
    ) -> tuple[Array, Array]:
        """States at times inside one step, and that at its end."""
        after = short(t0, state, t1 - t0).state[0].copy() if end is None else end
        if self._cubic:
            return self._by_cubic(short.ways, t0, t1, state, after, times), after
        if self._nodes is None:
            return np.array([self._single(short, t0, t1 - t0, state, t - t0) for t in times]), after
        inner = [short(t0, state, c * (t1 - t0)).state[0].copy() for c in self._nodes[1:-1]]
        weights = interpolation(self._nodes, (times - t0) / (t1 - t0))
        return weights @ np.array([short.settled(t0, state, t1 - t0), *inner, after]), after

    def _single(self, short: Shortened, t0: float, h: float, state: Array, part: float) -> Array:
        """The state after a part of a step. What multipliers do in a tiny step is lost in rounding: there it is linear."""
        if part >= TINY * h:
            return np.asarray(short(t0, state, part).state[0].copy())
        near = 1e3 * TINY * h
        begin = short.settled(t0, state, h)
        return np.asarray(begin + part / near * (short(t0, state, near).state[0] - begin))

    def _by_cubic(self, ways: Ways, t0: float, t1: float, state: Array, after: Array, times: Array) -> Array:
        fields, rows = ways.program.fields, np.zeros((len(times), len(state)))
        begin, end = ({name: x[None, fields[name]] for name in self.sol.parts} for x in (state, after))
        for name, values in cubic(self.sol, np.array([t0]), np.array([t1]), begin, end, times).items():
            rows[:, fields[name]] = values
        return rows

    def _begins(self, ways: Ways, k: int, state: Array, end: Array) -> Array:
        """Where the steps of an interval begin, and where the last one ends."""
        sol = self.sol
        t0, t1, h = float(sol.t[k]), float(sol.t[k + 1]), sol.step
        every = int(sol.stats.get("save_every", 1))
        if every == 1 or sol.method.external:
            return np.array([t0, t1])
        if "rejected" not in sol.stats:
            count = max(1, int(np.ceil((t1 - t0) / h * (1 - 1e-9))))
            return np.append(t0 + h * np.arange(count), t1)
        return self._equal(ways, state, end, sol.inputs.split(t0, t1), every)

    def _equal(self, ways: Ways, state: Array, end: Array, spans: list[tuple[float, float]], count: int) -> Array:
        """Steps for an interval of a controlled run, whose own were not stored: as many as come to the row at its end."""
        best, found = np.inf, np.zeros(0)
        for _ in range(DOUBLINGS):
            begin = np.concatenate([np.linspace(a, b, count, endpoint=False) for a, b in spans] + [[spans[-1][1]]])
            off = float(np.abs(self._march(ways, state, begin, 0, len(begin) - 1) - end).max())
            if off > best / 2:
                break
            best, found, count = off, begin, 2 * count
        return found

    def _march(self, ways: Ways, state: Array, begin: Array, first: int, last: int) -> Array:
        """The state after the steps `first`, ..., `last - 1` of those that begin at given times."""
        if first >= last:
            return state
        memory = ways.start(state, self.sol._par, begin[first], begin[first + 1] - begin[first])
        march = March(ways, memory, self.sol.inputs, Rule(), "auto", last - first)
        while first < last:
            h = begin[first + 1] - begin[first]
            ends = np.abs(np.diff(begin[first : last + 1]) - h) > 1e-9 * h
            count = min(int(np.argmax(ends)) if ends.any() else last - first, LONGEST)
            row: Records = room(ways.program, count)
            outcome = march.take(march.task(h, t0=begin[first], steps=count), row)
            if not outcome.steps:
                raise ConvergenceError(
                    f"the step of {h:g} from t = {begin[first]:g} could not be made again",
                    t=begin[first],
                    step=h,
                    residual=np.nan,
                )
            first += outcome.steps
        return memory.state.copy()
