"""Derivatives of a run with respect to initial values and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine import checks, driver, initial
from dalembert.engine.linear import Linearization, chunks
from dalembert.engine.machine import Memory
from dalembert.errors import MethodError, UnknownKeyword, suggest
from dalembert.methods.base import Method, find
from dalembert.simulate import check_call, make_grid, make_rule, prepare, start
from dalembert.solution import Solution
from dalembert.systems.base import System
from dalembert.systems.batch import batch
from dalembert.systems.tracing import call, symbols


def sensitivity(
    system: System,
    method: str | Method,
    *,
    t_end: float,
    step: float,
    q: Any = None,
    v: Any = None,
    p: Any = None,
    t0: float = 0.0,
    u: Any = None,
    parameters: Mapping[str, Any] | None = None,
    tolerance: float | None = None,
    max_iterations: int = 25,
    compile: bool | str = "auto",
    **unknown: Any,
) -> Sensitivity:
    """Run as `simulate` does, and be ready to differentiate the result.

    >>> run = da.sensitivity(pendulum, "rattle", q=[1, 0], v=[0, 0], t_end=1.0, step=0.01)
    >>> run.jacobian("q", "l")                                # dq(t_end) / dl
    >>> run.gradient(lambda q: (q[0] - 0.5) ** 2)             # of a cost, by one sweep backwards
    """
    if unknown:
        raise UnknownKeyword.of("sensitivity", unknown, sensitivity)
    check_call(system, compile)
    method = find(method)
    grid, rule = make_grid(t0, t_end, step, 1), make_rule(tolerance, max_iterations)
    method.check(system)
    par = system.pack(parameters)
    q, second = initial.choose(system, q, v, p, par)
    at = initial.arguments(system, q, second, grid.t0, par)
    inputs = initial.inputs_of(system, u, grid.t0)
    checks.check_start(system, {**at, "u": inputs(np.array([grid.t0]))[0]}, par, method)
    return Sensitivity(system, method, grid, par, at, inputs, rule, compile)


class Sensitivity:
    """A run with its derivatives; each is computed when asked for.

    Derivatives are those of the discrete motion, exact to round-off. Those with respect to initial values are
    taken in all directions, also off the constraints.
    """

    def __init__(
        self,
        system: System,
        method: Method,
        grid: driver.Grid,
        par: np.ndarray,
        at: Mapping[str, Any],
        inputs: driver.Inputs,
        rule: Any,
        compile: bool | str = "auto",
    ) -> None:
        engine = prepare(system, method)
        program = self._program = engine.program
        state = start(system, program, at, par, None, inputs)
        memory = Memory.start(program, state, par, grid.t0, grid.h)
        run = driver.integrate(engine, memory, grid, inputs, rule=rule, compile=compile, unknowns=True)
        self.solution = Solution.of_run(system, method, par, run, state, program, inputs)
        if run.error is not None:
            run.error.solution = self.solution  # type: ignore[attr-defined]
            raise run.error
        self.system, self._par, self._grid, self._inputs = system, par, grid, inputs
        self._states = np.vstack([state, run.records.state])
        self._unknowns = run.records.unknowns
        key = ("linearization", method)
        if key not in system._steps:
            system._steps[key] = Linearization(program)
        self._linear: Linearization = system._steps[key]

    @property
    def _steps(self) -> int:
        return self._grid.steps

    def _matrices(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.arange(1, self._steps + 1)[part]
        begin = self._grid.nodes(numbers, 0.0)
        h = np.where((numbers == self._steps) & (self._grid.remainder > 0), self._grid.remainder, self._grid.h)
        nodes = self._program.step.input_nodes
        u = np.hstack([self._inputs(begin + c * h) for c in nodes]) if self.system.nu else np.zeros((len(h), 0))
        assert self._unknowns is not None
        return self._linear.matrices(self._states[:-1][part], begin, h, u, self._par, self._unknowns[part])

    @cached_property
    def _jacobians(self) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the final state by the initial state and by the parameters, forwards."""
        n = self._program.n_state
        S, P = np.eye(n), np.zeros((n, len(self._par)))
        for part in chunks(self._steps):
            A, B = self._matrices(part)
            for a, b in zip(A, B, strict=True):
                S, P = a @ S, a @ P + b
        return S, P

    def _columns(self, name: str) -> tuple[str, slice, tuple[int, ...]]:
        fields = self._program.fields
        if name in ("q", self.system.momenta):
            return "state", fields[name], (self.system.n,)
        offset = 0
        for key, value in self.system.parameters.items():
            if key == name:
                return "par", slice(offset, offset + value.size), value.shape
            offset += value.size
        known = ["q", self.system.momenta, *self.system.parameters]
        name = str(name)
        raise MethodError(f"there is nothing called {name!r} to differentiate by{suggest(name, known)}")

    def jacobian(self, of: str, wrt: str) -> np.ndarray:
        """Derivative of the final `q` or `v` (`p`) with respect to initial values or a parameter."""
        if of not in ("q", self.system.momenta):
            raise MethodError(f"the final state has 'q' and {self.system.momenta!r}, not {of!r}")
        kind, part, shape = self._columns(wrt)
        matrix = self._jacobians[0 if kind == "state" else 1]
        return matrix[self._program.fields[of], part].reshape(self.system.n, *shape)

    def gradient(self, terminal: Any = None, running: Any = None) -> dict[str, np.ndarray]:
        """Gradient of `terminal(q, v, t) + sum over steps of running(q, v, t)`, by one sweep backwards.

        Costs are plain NumPy functions of the state after a step (`q`, and `v` or `p`), of `t` and of parameters. The result
        has one entry for each of `q`, `v` (or `p`) and the parameters, and the cost itself as `"value"`.
        """
        if not self._steps:
            raise MethodError("a run of no steps has no gradient; let t_end be later than t0")
        if terminal is None and running is None:
            raise MethodError("give terminal=..., running=..., or both")
        s, n = self.system, self._program.n_state
        costs = [_Cost(s, role, f) for role, f in (("terminal", terminal), ("running", running)) if f is not None]
        bar, par_bar, value = np.zeros(n), np.zeros(len(self._par)), 0.0
        q, second = self._program.fields["q"], self._program.fields[s.momenta]
        numbers = np.arange(1, self._steps + 1)
        times = self._grid.times(numbers)
        parts = {}
        for cost in costs:
            rows = self._states[1:] if cost.role == "running" else self._states[-1:]
            when = times if cost.role == "running" else times[-1:]
            total, dq, dv, dp = cost(rows[:, q], rows[:, second], when, self._par)
            value += float(total.sum())
            par_bar += dp.sum(axis=0)
            parts[cost.role] = (dq, dv)
        if "terminal" in parts:
            bar[q] += parts["terminal"][0][-1]
            bar[second] += parts["terminal"][1][-1]
        for part in chunks(self._steps, backwards=True):
            A, B = self._matrices(part)
            for k in reversed(range(len(A))):
                if "running" in parts:
                    bar[q] += parts["running"][0][part.start + k]
                    bar[second] += parts["running"][1][part.start + k]
                par_bar += B[k].T @ bar
                bar = A[k].T @ bar
        out = {"value": np.asarray(value), "q": bar[q], s.momenta: bar[second]}
        return out | s.unpack(par_bar)


class _Cost:
    """A user's cost function with its derivatives."""

    def __init__(self, s: System, role: str, function: Any) -> None:
        self.role = role
        second = getattr(s, s.momenta)
        arguments = {"q": symbols(s.q, (s.n,)), s.momenta: symbols(second, (s.n,)), "t": symbols(s.t, ())}
        arguments |= s._parameter_symbols()
        value = call(role, function, arguments, arguments)
        if not value.is_scalar():
            raise MethodError(f"{role} must return one number, got the shape {value.shape}")
        outputs = [ca.densify(value), *(ca.densify(ca.jacobian(value, x)) for x in (s.q, second, s.par))]
        self.function = ca.Function(role, [s.q, second, s.t, s.par], [ca.vec(x) for x in outputs])

    def __call__(self, q: np.ndarray, v: np.ndarray, t: np.ndarray, par: np.ndarray) -> list[np.ndarray]:
        return batch(self.function, [q, v, t[:, None], par], len(t))
