"""The motion between stored times: polynomials of the steps, or the method's own shortened steps.

Nothing is stored for this. A step that is looked into is made again from where it began, which costs one Newton iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.engine import case
from dalembert.engine.machine import Memory, Records
from dalembert.engine.newton import Rule
from dalembert.engine.runners import Engine, step_inputs
from dalembert.errors import ConvergenceError
from dalembert.methods.tableaus import integrals

if TYPE_CHECKING:
    from dalembert.solution.base import Solution

Array = NDArray[np.float64]
Parts = dict[str, Array]


def between(sol: Solution, times: Array, how: str) -> Parts:
    """The parts of the state of a solution at given times inside it."""
    if len(sol.t) == 1:
        return {name: np.repeat(values, len(times), axis=0) for name, values in sol.parts.items()}
    if sol.method.external:
        return cubic(sol, times)
    again = Again(sol)
    if how != "step" and not again.staged and (sol.stats.get("save_every", 1) == 1 or not sol.exact_slopes):
        return cubic(sol, times)
    out = {name: np.empty((len(times), values.shape[1])) for name, values in sol.parts.items()}
    rows = np.clip(np.searchsorted(sol.t, times, side="right") - 1, 0, len(sol.t) - 2)
    for k in np.unique(rows):
        mine = np.flatnonzero(rows == k)
        begin = again.steps(k)
        part = np.clip(np.searchsorted(begin, times[mine], side="right") - 1, 0, len(begin) - 2)
        memory = again.memory(k)
        for j in range(part.max() + 1):
            now = mine[part == j]
            if len(now):
                for name, values in again.inside(memory, begin[j], begin[j + 1], times[now], how).items():
                    out[name][now] = values
            if j < part.max():
                again.advance(memory, begin[j], begin[j + 1] - begin[j])
    return out


def cubic(sol: Solution, times: Array) -> Parts:
    """The cubic through values and slopes of each interval."""
    k = np.clip(np.searchsorted(sol.t, times, side="right") - 1, 0, len(sol.t) - 2)
    slopes = sol._slopes
    begin, end = ({name: values[i] for name, values in sol.parts.items()} for i in (k, k + 1))
    return _hermite_parts(sol, (sol.t[k], sol.t[k + 1]), (begin, end), (slopes[k], slopes[k + 1]), times)


def _hermite_parts(
    sol: Solution, t: tuple[Array, Array], ends: tuple[Mapping[str, Array], Mapping[str, Array]], slopes: tuple[Array, Array],
    times: Array,
) -> Parts:  # fmt: skip
    """The cubic of the first part of the state; velocities as its derivative, all else linear in between."""
    first, *others = sol.system.state
    values, slope = hermite(*t, ends[0][first], ends[1][first], *slopes, times)
    theta = np.reshape((times - t[0]) / (t[1] - t[0]), (-1, 1))
    out = {first: values}
    for name in others:
        out[name] = velocities(sol, values, slope) if name == "v" else ends[0][name] + theta * (ends[1][name] - ends[0][name])
    return out


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


class Again:
    """Steps of a solution made once more."""

    def __init__(self, sol: Solution) -> None:
        self.sol = sol
        self.engine: Engine = case.prepare(sol.system, sol.method)
        self.program = self.engine.program
        self.inputs = sol.inputs
        self.staged = self.program.step.rates is not None and sol.system.has_energy
        self._rates: ca.Function | None = None

    def steps(self, k: int) -> Array:
        """Where the steps of an interval begin, and where the last one ends."""
        t0, t1, h = self.sol.t[k], self.sol.t[k + 1], self.sol.step
        if self.sol.stats.get("save_every", 1) == 1 or "rejected" in self.sol.stats:
            return np.array([t0, t1])
        count = max(1, int(np.ceil((t1 - t0) / h * (1 - 1e-9))))
        return np.append(t0 + h * np.arange(count), t1)

    def memory(self, k: int) -> Memory:
        """What a step from a stored row begins with."""
        sol, t = self.sol, float(self.sol.t[k])
        values = {name: a[k] for name, a in sol.parts.items()}
        state = case.start(sol.system, self.program, values, sol._par, t, self.inputs)
        return self.engine.start(state, sol._par, t, sol.step)

    def advance(self, memory: Memory, t: float, h: float, unknowns: bool = False) -> Records:
        """One step; the memory is then at its end."""
        row = Records.empty(self.program, 1, unknowns)
        u = step_inputs(self.program, self.inputs, np.array([t]), h)
        for runner in (self.engine.machine(), self.engine.pivoted()):
            outcome = runner.run(memory, row, t0=t, first=0, steps=1, h=h, inputs=u, save_every=1, rule=Rule())
            if outcome.failed < 0:
                return row
        raise ConvergenceError(f"the step of {h:g} from t = {t:g} could not be made again", t=t, step=h, residual=np.nan)

    def _copy(self, memory: Memory) -> Memory:
        return Memory(memory.state.copy(), memory.last.copy(), memory.before.copy(), memory.par)

    def _parts(self, memory: Memory) -> Parts:
        return {name: memory.state[self.program.fields[name]].copy() for name in self.sol.parts}

    def inside(self, memory: Memory, t0: float, t1: float, times: Array, how: str) -> Parts:
        """The parts of the state at times inside one step, which begins where the memory stands."""
        if how == "step":
            return self._shortened(memory, t0, times)
        first, there = self._parts(memory), self._copy(memory)
        row = self.advance(there, t0, t1 - t0, unknowns=True)
        last = self._parts(there)
        slopes = tuple(self.sol.slopes_at({k: a[None] for k, a in parts.items()}, np.array([t]))[0]
                       for parts, t in ((first, t0), (last, t1)))  # fmt: skip
        if not self.staged:
            ends = ({k: a[None] for k, a in first.items()}, {k: a[None] for k, a in last.items()})
            span = (np.array([t0]), np.array([t1]))
            return _hermite_parts(self.sol, span, ends, (slopes[0][None], slopes[1][None]), times)
        nodes, Qd, Yd = self._stage_rates(memory, t0, t1 - t0, row)
        theta, h = (times - t0) / (t1 - t0), t1 - t0
        one, two = self.sol.system.state
        out = {two: first[two] + h * integrals(nodes, theta) @ Yd}
        for end, slope in ((0.0, slopes[0]), (1.0, slopes[1])):
            if np.abs(nodes - end).min() > 1e-12:
                nodes, Qd = np.append(nodes, end), np.vstack([Qd, slope])
        return {one: first[one] + h * integrals(nodes, theta) @ Qd, **out}

    def _shortened(self, memory: Memory, t0: float, times: Array) -> Parts:
        """By a step of the method that ends at each time."""
        rows = []
        for t in times:
            there = self._copy(memory)
            if t > t0:
                self.advance(there, t0, t - t0)
            rows.append(self._parts(there))
        return {name: np.array([row[name] for row in rows]) for name in self.sol.parts}

    def _stage_rates(self, memory: Memory, t: float, h: float, row: Records) -> tuple[Array, Array, Array]:
        p = self.program
        assert p.step.rates is not None
        assert row.unknowns is not None
        nodes, Qd, Yd = p.step.rates
        if self._rates is None:
            self._rates = ca.Function("rates", [*p.common, *p.unknowns], [ca.densify(Qd), ca.densify(Yd)])
        u = step_inputs(p, self.inputs, np.array([t]), h)[0]
        parts = np.split(row.unknowns[0], p.cuts) if p.unknowns else []
        values = self._rates(memory.state, t, h, u, memory.par, *parts)
        return np.asarray(nodes), values[0].full().T, values[1].full().T
