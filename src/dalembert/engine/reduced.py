"""Runners of the index-reduced equations: one integration with dense output, or a map from step to step that corrects.

They have the interface of the other runners, so that the same loop gives them progress, events, thinning and partial results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dalembert.engine.inputs import Inputs
from dalembert.engine.machine import NONE, Memory, Outcome, Records, Task
from dalembert.engine.ode import Rate
from dalembert.engine.projection import Levels, choose, project, quality, whole
from dalembert.engine.run import Array, Pivots
from dalembert.engine.runner import Runner
from dalembert.engine.runners import Settle
from dalembert.engine.walking import EQUAL, Pace
from dalembert.errors import ConvergenceError, DalembertError
from dalembert.methods.reduced import Partition, Project, Reduction
from dalembert.methods.tableaus import Tableau
from dalembert.systems.constrained import Constrained

Function = Callable[[float, Array], Array]
Map = Callable[[float, float, Array, Array], Array]  # (begin, end, y, what is carried along) -> y at the end


def advance(f: Function, how: Reduction, t0: float, t1: float, y: Array, rate: Rate) -> Array:
    """From one time to another, and to each jump of the inputs on the way; `f` asks `rate`, where it is not that itself."""
    for begin, end in rate.inputs.split(t0, t1):
        rate.between(begin, end)
        y = _advance(f, how, begin, end, y)
    return y


def _advance(f: Function, how: Reduction, t0: float, t1: float, y: Array) -> Array:
    """By one of SciPy's integrators, or by one step of an explicit Runge-Kutta method."""
    if isinstance(how.integrator, Tableau):
        T, h = how.integrator, t1 - t0
        rates: list[Array] = []
        with np.errstate(all="ignore"):  # what is not finite is an error of ours below
            for i in range(T.stages):
                stage = y + h * sum((a * r for a, r in zip(T.A[i], rates, strict=False)), np.zeros(len(y)))
                rates.append(f(t0 + T.c[i] * h, stage))
            end = np.asarray(y + h * sum(b * r for b, r in zip(T.b, rates, strict=True)))
        if not np.isfinite(end).all():
            raise _failure(T.name, t0, t1, None)
        return end
    from scipy.integrate import solve_ivp

    with _foreign(how.integrator, t0, t1):
        out = solve_ivp(f, (t0, t1), y, method=how.integrator, rtol=how.rtol, atol=how.atol)
    if not out.success or not np.isfinite(out.y[:, -1]).all():
        raise _failure(how.integrator, t0, t1, out.message)
    return np.asarray(out.y[:, -1])


@contextmanager
def _foreign(integrator: str, t0: float, t1: float) -> Iterator[None]:
    """What SciPy's integrators and the linear algebra below them raise where the rates are not finite, as an error of ours."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except DalembertError:
        raise
    except (ArithmeticError, ValueError, RuntimeError, np.linalg.LinAlgError) as error:
        raise _failure(integrator, t0, t1, str(error)) from error


def _failure(integrator: str, t0: float, t1: float, message: str | None) -> ConvergenceError:
    why = message or "the solution is not finite"
    return ConvergenceError(f"{integrator} failed between t = {t0:g} and {t1:g}: {why}", t=t0, step=t1 - t0, residual=np.nan)


class Piece(Protocol):
    """The dense output of one step of SciPy's solvers."""

    t_old: float
    t: float

    def __call__(self, t: float) -> Array: ...


class Flow:
    """One integration from the beginning to the end; rows are read off its dense output, and do not change it.

    The memory's state is written, not read: steps may only be asked for in the order of time, or inside the last ones.
    """

    def __init__(self, name: str, f: Rate, how: Reduction, span: tuple[float, float], y: Array) -> None:
        self.name, self._f, self._how, self._end = name, f, how, span[1]
        self._spans = f.inputs.split(*span)
        self._pieces: list[Piece] = []
        self._begin(y)

    def _begin(self, y: Array) -> None:
        """Begin to integrate up to the next jump of the inputs, or the end."""
        import scipy.integrate

        begin, end = self._spans.pop(0)
        self._f.between(begin, end)
        with _foreign(self.name, begin, end):
            solver = getattr(scipy.integrate, self.name)
            self._solver = solver(self._f, begin, y, end, rtol=self._how.rtol, atol=self._how.atol)

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task."""
        t0, h, first, steps = task.t0, task.h, task.first, task.steps
        begin = t0 + first * h
        self._pieces = [piece for piece in self._pieces if piece.t >= begin]
        row = 0
        for k in range(first + 1, first + steps + 1):
            begin, t = t0 + (k - 1) * h, min(t0 + k * h, self._end)
            with _foreign(self.name, begin, t):
                after = self._at(begin, t)
            if not np.isfinite(after).all():
                raise _failure(self.name, begin, t, None)
            memory.state[:] = out.state[row] = after
            row += k % task.save_every == 0
        return Outcome(steps, 0)

    def _at(self, begin: float, t: float) -> Array:
        """The state at a time; `begin` is the one before that was asked for."""
        while self._solver.t < t and (self._solver.status == "running" or self._spans):
            if self._solver.status != "running":
                self._begin(self._solver.y)
            solver = self._solver
            with _foreign(self.name, begin, t):
                message = solver.step()
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                raise _failure(self.name, begin, t, message)
            self._pieces.append(solver.dense_output())
        for piece in self._pieces:
            if t <= piece.t:
                return np.asarray(piece(t))
        return np.asarray(self._solver.y)


class Steps:
    """A map from step to step; what it carries along beside the state is `memory.last`."""

    def __init__(self, name: str, step: Map) -> None:
        self.name, self._step = name, step

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task."""
        t0, h, first, steps = task.t0, task.h, task.first, task.steps
        row, carried = 0, memory.last.copy()
        for k in range(first, first + steps):
            begin, end = t0 + k * h, t0 + (k + 1) * h
            with _foreign(self.name, begin, end):
                after = self._step(begin, end, memory.state.copy(), carried)
            if not np.isfinite(after).all():
                raise _failure(self.name, begin, end, None)
            memory.state[:] = out.state[row] = after
            memory.last[:] = carried
            row += (k + 1) % task.save_every == 0
        return Outcome(steps, 0)


def projected(system: Constrained, par: Array, f: Rate, how: Reduction, to: Project, t0: float, y0: Array) -> Map:
    """Integrate, then project positions, then velocities, and scale these to the energy of the start if that is wished."""
    n, levels = system.n, Levels(system, par)
    start = float(system.numeric("energy", par, q=y0[:n], v=y0[n:], t=t0)[0, 0])

    def step(a: float, b: float, y: Array, carried: Array) -> Array:
        y = advance(f, how, a, b, y, f)
        q, v = project(levels, y[:n], y[n:], b, to.weight, to.velocity)
        if to.energy:
            kinetic = float(system.numeric("kinetic", par, q=q, v=v)[0, 0])
            left = start - float(system.numeric("potential", par, q=q, t=b)[0, 0])
            v = v * np.sqrt(left / kinetic) if kinetic > 0 and left > 0 else v
        return np.concatenate([q, v])

    return step


def partitioned(system: Constrained, par: Array, f: Rate, how: Reduction, degraded: float, h: float) -> Map:
    """Integrate independent coordinates. The choice is carried along: its quality (zero before the first), the dependent ones."""
    n, levels = system.n, Levels(system, par)

    def anew(q: Array, t: float, carried: Array) -> None:
        carried[1:] = choose(levels, q, t)
        carried[0] = quality(levels, carried[1:].astype(int), q, t)

    def step(a: float, b: float, y: Array, carried: Array) -> Array:
        if not carried[0] or quality(levels, carried[1:].astype(int), y[:n], a) < degraded * carried[0]:
            anew(y[:n], a, carried)
        dependent, near = carried[1:].astype(int), y.copy()
        free = np.setdiff1d(np.arange(n), dependent)

        def rate(t: float, x: Array) -> Array:
            near[:] = whole(levels, dependent, free, x, t, near, h)
            return np.concatenate([near[n:][free], f(t, near)[n:][free]])

        try:
            x = advance(rate, how, a, b, np.concatenate([y[:n][free], y[n:][free]]), f)
            return whole(levels, dependent, free, x, b, near, h)
        except ConvergenceError:  # a fold of these coordinates lies ahead: others, and half the way
            if b - a < 1e-3 * h:
                raise
            anew(y[:n], a, carried)
            middle = (a + b) / 2
            return step(middle, b, step(a, middle, y, carried), carried)

    return step


@dataclass(frozen=True)
class End:
    """Multipliers would be defined at the end of a step; nothing is carried along in the state."""

    node: float = 1.0
    start: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Sizes:
    """What a row holds: positions and velocities."""

    fields: dict[str, slice]
    n_state: int
    n_lam: int = 0
    n_unknowns: int = 0  # numbers that a map carries along
    step: End = field(default_factory=End)


class Integrators:
    """The one way to integrate a reduction. A step is made and recorded at a time, so that Ctrl-C loses one at most."""

    chunk = (1, 1)
    stepwise = False  # integrators end at the jumps of the inputs
    settle: Settle | None = None  # positions and velocities do not jump

    def __init__(
        self,
        system: Constrained,
        how: Reduction,
        par: Array,
        inputs: Inputs,
        span: tuple[float, float],
        h: float,
        y: Array,
    ) -> None:
        fields = {"q": slice(0, system.n), system.momenta: slice(system.n, len(y))}
        self.program = Sizes(fields, len(y))
        f, correction = Rate(system, par, inputs, how.xi, how.omega), how.correction
        name = how.integrator.name if isinstance(how.integrator, Tableau) else how.integrator
        self.resumable = True
        self._runner: Runner
        if isinstance(correction, Project):
            self._runner = Steps(name, projected(system, par, f, how, correction, span[0], y))
        elif isinstance(correction, Partition) and system.m:
            self.program.n_unknowns = 1 + system.m
            self._runner = Steps(name, partitioned(system, par, f, how, correction.degraded, h))
        elif isinstance(how.integrator, Tableau):
            self._runner = Steps(name, lambda a, b, y, carried: advance(f, how, a, b, y, f))
        else:
            self.resumable = False  # SciPy's solvers keep a history that cannot be written
            self._runner = Flow(name, f, how, span, y)

    def start(self, state: Array, par: Array, t: float, h: float, known: Array | None = None) -> Memory:
        """The memory of a run that begins there; nothing is guessed."""
        size = self.program.n_unknowns
        return Memory(state.copy(), np.zeros(size), np.zeros(size), par)

    def runner(self, compile: bool | str, steps: int, pace: Pace = EQUAL) -> Runner:
        """The integrator; it is never compiled."""
        return self._runner

    def careful(self) -> None:
        """There is no other way: a step that fails raises."""

    @property
    def pivots(self) -> None:
        """Nothing is pivoted here."""

    def using(self, pivots: Pivots | None) -> Integrators:
        """Nothing is pivoted here."""
        return self

    def repivoted(self) -> Integrators:
        """Nothing is pivoted here."""
        return self

    def step_inputs(self, inputs: Inputs, t0: float, first: int, steps: int, h: float) -> Array:
        """The equations look at the inputs themselves."""
        return NONE
