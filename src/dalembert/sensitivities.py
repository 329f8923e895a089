"""Derivatives of a run with respect to initial values and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dalembert.engine import driver
from dalembert.engine.case import Case, check_call, make_grid, make_rule
from dalembert.engine.driver import Array
from dalembert.engine.linear import Linearization, chunks
from dalembert.engine.newton import Rule
from dalembert.errors import MethodError, suggest, suggesting
from dalembert.methods.base import Method
from dalembert.solution import Solution
from dalembert.systems.base import System
from dalembert.systems.batch import batch
from dalembert.systems.tracing import call, symbols


@suggesting
def sensitivity(
    system: System,
    method: str | Method,
    *,
    t_end: float,
    step: float,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    p: ArrayLike | None = None,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    z: ArrayLike | None = None,
    lam: ArrayLike | None = None,
    t0: float = 0.0,
    u: object = None,
    parameters: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None,
    max_iterations: int = 25,
    progress: bool | None = None,
    compile: bool | str = "auto",
) -> Sensitivity:
    """Run as `simulate` does, and be ready to differentiate the result.

    >>> run = da.sensitivity(pendulum, "rattle", q=[1, 0], v=[0, 0], t_end=1.0, step=0.01)
    >>> run.jacobian("q", "l")                                # dq(t_end) / dl
    >>> run.gradient(lambda q: (q[0] - 0.5) ** 2)             # of a cost, by one sweep backwards
    """
    check_call(system, compile, progress)
    grid, rule = make_grid(t0, t_end, step, 1), make_rule(tolerance, max_iterations)
    given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    case = Case.of(system, method, given, t0=t0, u=u, parameters=parameters, lam=lam)
    return Sensitivity(case, grid, rule, compile, progress)


class Sensitivity:
    """A run with its derivatives; each is computed when asked for.

    Derivatives are those of the discrete motion, exact to round-off. Those with respect to initial values are
    taken in all directions, also off the constraints.
    """

    def __init__(self, case: Case, grid: driver.Grid, rule: Rule, compile: bool | str, progress: bool | None) -> None:
        engine, system = case.engine(), case.system
        program = self._program = engine.program
        state = case.state(program)
        memory = engine.start(state, case.par, grid.t0, grid.h, case.guess())
        run = driver.integrate(
            engine, memory, grid, case.inputs, rule=rule, compile=compile, progress=progress, unknowns=True,
            explain=lambda there, t, h: case.explain(program, there.state, t, h),
        )  # fmt: skip
        self.solution = Solution.of_run(case, run, state, program)
        if run.error is not None:
            run.error.solution = self.solution  # type: ignore[attr-defined]
            raise run.error
        self.system, self._par, self._grid, self._inputs = system, case.par, grid, case.inputs
        self._states = np.vstack([state, run.records.state])
        self._unknowns = run.records.unknowns
        self._linear = system.cache.get(Linearization, case.method, lambda: Linearization(program))

    @property
    def _steps(self) -> int:
        return self._grid.steps

    def _matrices(self, part: slice) -> tuple[Array, Array]:
        numbers = np.arange(1, self._steps + 1)[part]
        begin = self._grid.nodes(numbers, 0.0)
        h = np.where((numbers == self._steps) & (self._grid.remainder > 0), self._grid.remainder, self._grid.h)
        u = driver.step_inputs(self._program, self._inputs, begin, h) if self.system.nu else np.zeros((len(h), 0))
        assert self._unknowns is not None
        return self._linear.matrices(self._states[:-1][part], begin, h, u, self._par, self._unknowns[part])

    @cached_property
    def _jacobians(self) -> tuple[Array, Array]:
        """Derivatives of the final state by the initial state and by the parameters, forwards."""
        n = self._program.n_state
        S, P = np.eye(n), np.zeros((n, len(self._par)))
        for part in chunks(self._steps):
            A, B = self._matrices(part)
            for a, b in zip(A, B, strict=True):
                S, P = a @ S, a @ P + b
        return S, P

    def _columns(self, name: str) -> tuple[str, slice, tuple[int, ...]]:
        if name in self.system.state:
            return "state", self._program.fields[name], (self.system.size_of(name),)
        offset = 0
        for key, value in self.system.parameters.items():
            if key == name:
                return "par", slice(offset, offset + value.size), value.shape
            offset += value.size
        known = [*self.system.state, *self.system.parameters]
        raise MethodError(f"there is nothing called {str(name)!r} to differentiate by{suggest(str(name), known)}")

    @suggesting
    def jacobian(self, of: str, wrt: str) -> Array:
        """Derivative of a part of the final state with respect to initial values or a parameter."""
        if of not in self.system.state:
            names = " and ".join(repr(name) for name in self.system.state)
            raise MethodError(f"the final state has {names}, not {of!r}")
        kind, part, shape = self._columns(wrt)
        matrix = self._jacobians[0 if kind == "state" else 1]
        return matrix[self._program.fields[of], part].reshape(self.system.size_of(of), *shape)

    @suggesting
    def gradient(
        self, terminal: Callable[..., object] | None = None, running: Callable[..., object] | None = None
    ) -> dict[str, Array]:
        """Gradient of `terminal(q, v, t) + sum over steps of running(q, v, t)`, by one sweep backwards.

        Costs are plain NumPy functions of the state after a step by its names (`q`, `v`; `q`, `p`; `x`; `y`, `z`), of `t` and
        of parameters. The result has one entry for each part of the state and each parameter, and the cost itself as
        `"value"`.
        """
        if not self._steps:
            raise MethodError("a run of no steps has no gradient; let t_end be later than t0")
        if terminal is None and running is None:
            raise MethodError("give terminal=..., running=..., or both")
        s, n, fields = self.system, self._program.n_state, self._program.fields
        parts = [fields[name] for name in s.state]
        bar, par_bar, value = np.zeros(n), np.zeros(len(self._par)), 0.0
        times = self._grid.times(np.arange(1, self._steps + 1))
        slopes = {"terminal": np.zeros((0, n)), "running": np.zeros((0, n))}
        for role, cost in (("terminal", terminal), ("running", running)):
            if cost is None:
                continue
            rows, when = (self._states[1:], times) if role == "running" else (self._states[-1:], times[-1:])
            total, slopes[role], by_parameters = _cost(s, role, cost, rows, parts, when, self._par)
            value += total
            par_bar += by_parameters
        bar += slopes["terminal"].sum(axis=0)
        for part in chunks(self._steps, backwards=True):
            A, B = self._matrices(part)
            for k in reversed(range(len(A))):
                if running is not None:
                    bar += slopes["running"][part.start + k]
                par_bar += B[k].T @ bar
                bar = A[k].T @ bar
        out = {"value": np.asarray(value), **{name: bar[fields[name]] for name in s.state}}
        return out | s.unpack(par_bar)


def _cost(
    s: System, role: str, function: Callable[..., object], rows: Array, parts: list[slice], t: Array, par: Array
) -> tuple[float, Array, Array]:
    """A user's cost at states: its sum, its derivatives by each state, and the sum of those by the parameters."""
    own = [getattr(s, name) for name in s.state]
    arguments = {name: symbols(x, (x.numel(),)) for name, x in zip(s.state, own, strict=True)} | {"t": symbols(s.t, ())}
    arguments |= s._parameter_symbols()
    value = call(role, function, arguments, arguments)
    if not value.is_scalar():
        raise MethodError(f"{role} must return one number, got the shape {value.shape}")
    outputs = [ca.vec(ca.densify(e)) for e in (value, *(ca.jacobian(value, x) for x in (*own, s.par)))]
    f = ca.Function(role, [*own, s.t, s.par], outputs)
    total, *slopes, by_parameters = batch(f, [*(rows[:, part] for part in parts), t[:, None], par], len(t))
    out = np.zeros_like(rows)
    for part, slope in zip(parts, slopes, strict=True):
        out[:, part] = slope
    return float(total.sum()), out, by_parameters.sum(axis=0)
