"""The motion between stored times: polynomials of the steps, or the method's own shortened steps.

Nothing is stored for this. A step that is looked into is made again from where it began, which costs one Newton iteration.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine.driver import Engine, step_inputs
from dalembert.engine.machine import Memory, Records
from dalembert.engine.newton import Rule
from dalembert.errors import ConvergenceError
from dalembert.methods.tableaus import integrals


def between(sol: Any, times: np.ndarray, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities (or momenta, or `y` and `z`) of a solution at given times inside it."""
    s = sol.system
    if len(sol.t) == 1:
        return np.repeat(sol.q, len(times), axis=0), np.repeat(sol._second, len(times), axis=0)
    if sol.method.external:
        return cubic(sol, times)
    again = Again(sol)
    if s.kind == "port-hamiltonian" and how != "step":
        return cubic(sol, times)
    staged = how == "step" or (again.staged and s.kind != "dae")
    if not staged and sol.stats.get("save_every", 1) == 1:
        return cubic(sol, times)
    q, second = np.empty((len(times), sol.q.shape[1])), np.empty((len(times), sol._second.shape[1]))
    rows = np.clip(np.searchsorted(sol.t, times, side="right") - 1, 0, len(sol.t) - 2)
    for k in np.unique(rows):
        mine = np.flatnonzero(rows == k)
        begin = again.steps(k)
        part = np.clip(np.searchsorted(begin, times[mine], side="right") - 1, 0, len(begin) - 2)
        memory = again.memory(k)
        for j in range(part.max() + 1):
            now = mine[part == j]
            if len(now):
                q[now], second[now] = again.inside(memory, begin[j], begin[j + 1], times[now], how)
            if j < part.max():
                again.advance(memory, begin[j], begin[j + 1] - begin[j])
    return q, second


def cubic(sol: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cubic through positions and velocities of each interval; `v` is its derivative."""
    s = sol.system
    k = np.clip(np.searchsorted(sol.t, times, side="right") - 1, 0, len(sol.t) - 2)
    slopes = sol._slopes
    q, slope = hermite(sol.t[k], sol.t[k + 1], sol.q[k], sol.q[k + 1], slopes[k], slopes[k + 1], times)
    if s.kind == "port-hamiltonian":
        return q, np.zeros((len(times), 0))
    if s.kind == "dae" or s.momenta == "p":
        theta = ((times - sol.t[k]) / (sol.t[k + 1] - sol.t[k]))[:, None]
        return q, sol._second[k] + theta * (sol._second[k + 1] - sol._second[k])
    return q, velocities(sol, q, slope)


def velocities(sol: Any, q: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The velocities of given `q'`: these themselves, or the solution of `Z(q) v = q'`."""
    if not sol.system.has("kinematics"):
        return slope
    Z = sol.system.numeric("kinematics", sol._par, q=q).reshape(len(q), sol.system.n, -1)
    return np.array([np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(Z, slope, strict=True)])


def hermite(t0: Any, t1: Any, q0: Any, q1: Any, v0: Any, v1: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value and derivative of the cubic through two values and two slopes."""
    h = np.reshape(t1 - t0, (-1, 1))
    s = np.reshape(times - t0, (-1, 1)) / h
    slope = (q1 - q0) / h
    bend, twist = 3 * slope - 2 * v0 - v1, v0 + v1 - 2 * slope
    return q0 + h * s * (v0 + s * (bend + s * twist)), v0 + s * (2 * bend + 3 * s * twist)


class Again:
    """Steps of a solution made once more."""

    def __init__(self, sol: Any) -> None:
        from dalembert.simulate import prepare

        self.sol = sol
        self.engine: Engine = prepare(sol.system, sol.method)
        self.program = self.engine.program
        self.inputs = sol.inputs or (lambda t: np.array([np.interp(t, sol.t, c) for c in sol.u.T]).T.reshape(len(t), -1))
        self.staged = self.program.step.rates is not None
        self._rates: Any = None

    def steps(self, k: int) -> np.ndarray:
        """Where the steps of an interval begin, and where the last one ends."""
        t0, t1, h = self.sol.t[k], self.sol.t[k + 1], self.sol.step
        if self.sol.stats.get("save_every", 1) == 1 or "rejected" in self.sol.stats:
            return np.array([t0, t1])
        count = max(1, int(np.ceil((t1 - t0) / h * (1 - 1e-9))))
        return np.append(t0 + h * np.arange(count), t1)

    def memory(self, k: int) -> Memory:
        """What a step from a stored row begins with."""
        from dalembert.engine import initial
        from dalembert.simulate import start

        sol, s = self.sol, self.sol.system
        at = initial.arguments(s, sol.q[k], sol._second[k], float(sol.t[k]), sol._par)
        state = start(s, self.program, at, sol._par, None, self.inputs)
        return Memory.start(self.program, state, sol._par, float(sol.t[k]), sol.step)

    def advance(self, memory: Memory, t: float, h: float, unknowns: bool = False) -> Records:
        """One step; the memory is then at its end."""
        row = Records.empty(self.program, 1, unknowns)
        u = step_inputs(self.program, self.inputs, np.array([t]), h)
        for runner in (self.engine.machine(), self.engine.pivoted()):
            options = {"t0": t, "first": 0, "steps": 1, "h": h, "inputs": u, "save_every": 1, "rule": Rule()}
            if runner.run(memory, row, **options).failed < 0:  # type: ignore[arg-type]
                return row
        raise ConvergenceError(f"the step of {h:g} from t = {t:g} could not be made again", t=t, step=h, residual=np.nan)

    def _copy(self, memory: Memory) -> Memory:
        return Memory(memory.state.copy(), memory.last.copy(), memory.before.copy(), memory.par)

    def inside(self, memory: Memory, t0: float, t1: float, times: np.ndarray, how: str) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities at times inside one step, which begins where the memory stands."""
        s, fields = self.sol.system, self.program.fields
        first = (memory.state[fields["q"]].copy(), memory.state[fields[s.momenta]].copy())
        if how == "step":
            q, y = np.empty((len(times), len(first[0]))), np.empty((len(times), len(first[1])))
            for i, t in enumerate(times):
                if t <= t0:
                    q[i], y[i] = first
                    continue
                there = self._copy(memory)
                self.advance(there, t0, t - t0)
                q[i], y[i] = there.state[fields["q"]], there.state[fields[s.momenta]]
            return q, y
        there = self._copy(memory)
        row = self.advance(there, t0, t1 - t0, unknowns=True)
        last = (there.state[fields["q"]], there.state[fields[s.momenta]])
        slopes = [self._slope(q, y, t) for (q, y), t in ((first, t0), (last, t1))]
        if not self.staged:
            q, slope = hermite(t0, t1, first[0], last[0], slopes[0], slopes[1], times)
            if s.kind != "dae" and s.momenta == "v":
                return q, velocities(self.sol, q, slope)
            theta = ((times - t0) / (t1 - t0))[:, None]
            return q, first[1] + theta * (last[1] - first[1])
        nodes, Qd, Yd = self._stage_rates(memory, t0, t1 - t0, row)
        theta, h = (times - t0) / (t1 - t0), t1 - t0
        y = first[1] + h * integrals(nodes, theta) @ Yd
        for end, slope in ((0.0, slopes[0]), (1.0, slopes[1])):
            if np.abs(nodes - end).min() > 1e-12:
                nodes, Qd = np.append(nodes, end), np.vstack([Qd, slope])
        return first[0] + h * integrals(nodes, theta) @ Qd, y

    def _slope(self, q: np.ndarray, y: np.ndarray, t: float) -> np.ndarray:
        s, par = self.sol.system, self.sol._par
        if s.kind == "dae":
            return np.asarray(s.numeric("rhs", par, q=q, v=y, t=t)[0])
        v = y if s.momenta == "v" else s.numeric("velocity", par, q=q, p=y, t=t)[0]
        if not s.has("kinematics"):
            return np.asarray(v)
        return np.asarray(s.numeric("kinematics", par, q=q).reshape(s.n, -1) @ v)

    def _stage_rates(self, memory: Memory, t: float, h: float, row: Records) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        p = self.program
        assert p.step.rates is not None
        assert row.unknowns is not None
        nodes, Qd, Yd = p.step.rates
        if self._rates is None:
            self._rates = ca.Function("rates", [*p.common, *p.unknowns], [ca.densify(Qd), ca.densify(Yd)])
        u = step_inputs(p, self.inputs, np.array([t]), h)[0]
        parts = np.split(row.unknowns[0], p.cuts)
        values = self._rates(memory.state, t, h, u, memory.par, *parts)
        return np.asarray(nodes), values[0].full().T, values[1].full().T
