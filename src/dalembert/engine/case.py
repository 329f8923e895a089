"""A `Case`: what is to be run, checked; the common beginning of runs, sensitivities, sections and dense output."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import number, reals, shown, whole
from dalembert.engine import kinds
from dalembert.engine.consistent import Consistent
from dalembert.engine.inputs import Inputs, inputs_of, limits
from dalembert.engine.kinds import Given, Values
from dalembert.engine.machine import memory as physical_memory
from dalembert.engine.newton import EPS, Rule
from dalembert.engine.program import Program
from dalembert.engine.progress import stage
from dalembert.engine.run import Grid, Layout, resolution
from dalembert.engine.runners import Engine, Settle
from dalembert.errors import ConvergenceError, DalembertError, DalembertWarning, InconsistentState, MethodError, ModelError
from dalembert.locks import Lock
from dalembert.methods.base import Method, find
from dalembert.systems.base import System
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.ranges import ranges

Array = NDArray[np.float64]
MOST_ITERATIONS = 10**6  # of Newton in one step: no iteration needs more
ENGINES = 32  # kept with a system; the oldest one goes first
HAIR = 1e-6  # of their size, by which initial values may be moved to the constraints
_BUILDING = Lock()


@dataclass(frozen=True)
class Case:
    """A system, a method, parameters, inputs and a start, all checked."""

    system: System
    method: Method
    par: Array
    inputs: Inputs
    t0: float
    values: Values
    lam: Array | None = None

    @classmethod
    def of(
        cls,
        system: System,
        method: str | Method,
        given: Given,
        *,
        t0: float,
        u: object,
        parameters: Mapping[str, ArrayLike] | None,
        lam: ArrayLike | None = None,
    ) -> Case:
        """The case of a call; what is wrong with it is said before any work is done."""
        stage("the start")
        method = find(method)
        method.check(system)
        par, t0 = system.pack(parameters), number("t0", t0)
        inputs = inputs_of(system, u, t0)
        first = inputs(np.array([t0]))[0]
        values = _on_constraints(system, kinds.choose(system, given, par, t0, first), par, t0, first, method)
        left = outside(system, {name: value[None] for name, value in values.items()}, par, np.array([t0]), first[None])
        if left is not None:
            raise left[1]
        return cls(system, method, par, inputs, t0, values, None if lam is None else given_multipliers(system, lam))

    def engine(self) -> Engine:
        """The engine of the method on the system."""
        return prepare(self.system, self.method)

    def state(self, layout: Layout) -> Array:
        """The state vector at the start: the values, and what the method carries along."""
        return start(self.system, layout, self.values, self.par, self.t0, self.inputs, self.lam)

    def guess(self) -> Array | None:
        """Rates and multipliers to begin the first step with: those given, or, where coordinates have no mass, of the start."""
        known = kinds.guess(self.system, self.values, self.par, self.t0, self.inputs(np.array([self.t0]))[0])
        if self.lam is None:
            return known
        rates = np.zeros(self.system.n) if known is None else known[: len(known) - len(self.lam)]
        return np.concatenate([rates, self.lam])

    def inputs_at(self, t: Array) -> tuple[Array, ModelError | None]:
        """The inputs at times, nan where they cannot be evaluated, and what is wrong at the first of these."""
        if not self.system.nu:
            return np.empty((len(t), 0)), None
        rows, fault = np.full((len(t), self.system.nu), np.nan), None
        try:
            rows[:] = limits(self.inputs, t)
        except Exception:  # a function of the user's, which may raise anything at some of the times
            for k, when in enumerate(t):
                try:
                    rows[k] = self.inputs(t[k : k + 1])[0]
                except Exception as error:
                    fault = fault or ModelError(f"u failed at t = {when:g}: {type(error).__name__}: {error}")
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any() and fault is None:
            k = int(np.argmax(bad))
            fault = ModelError(f"u is not finite at t = {t[k]:g}: {rows[k]}")
        return rows, fault

    def explain(self, layout: Layout, state: Array, t: float, h: float) -> DalembertError | None:
        """Why a step from a state failed, where that can be told."""
        values = {name: state[layout.fields[name]] for name in self.system.state}
        u, fault = self.inputs_at(np.array([t]))
        return fault or kinds.explain(self.system, values, self.par, t, h, u[0])


def outside(system: System, parts: Values, par: Array, times: Array, u: Array) -> tuple[int, ModelError] | None:
    """The first row of a motion that leaves the range of a table, and what to say of it."""
    tables = ranges(system)
    if not tables.uses:
        return None
    found = tables.fault({**system.completed(parts, times, par), "u": u}, times, par)
    return None if found is None else (found[0], ModelError(found[1]))


def project(system: System, given: Given, par: Array, t: float, u: Array) -> Consistent:
    """Consistent values near given ones, refused where they are not finite."""
    found = kinds.project(system, given, par, t, u)
    for name, value in found.values.items():
        if not np.isfinite(value).all():
            raise ConvergenceError(f"no finite {name} belongs to these values", t=t, step=0.0, residual=np.nan)
    return found


def _on_constraints(system: System, values: Values, par: Array, t: float, u: Array, method: Method) -> Values:
    """Values from which the method can start. Those that are a hair off the constraints are projected, and that is said."""
    try:
        kinds.check(system, values, par, t, u, method)
        return values
    except InconsistentState as error:
        moved = _projected(system, values, par, t, u)
        if moved is None:
            raise
        size = {name: float(np.abs(moved[name] - values[name]).max(initial=0.0)) for name in system.state}
        if any(size[name] > HAIR * np.abs(values[name]).max(initial=0.0) for name in system.state):
            raise
        kinds.check(system, moved, par, t, u, method)
        amounts = ", ".join(f"{name} by {change:.1e}" for name, change in size.items() if change)
        message = f"the initial values were projected to the constraints ({amounts}): {str(error).split(';')[0]}; "
    call = ", ".join(f"{name}=..." for name in system.state)
    warnings.warn(message + f"da.consistent(system, {call}) does this beforehand", DalembertWarning, stacklevel=5)
    return moved


def _projected(system: System, values: Values, par: Array, t: float, u: Array) -> Values | None:
    """The nearest values on the constraints, where they can be found."""
    try:
        found = project(system, values, par, t, u)
    except DalembertError:
        return None
    return {name: found.values[name] for name in system.state}


def prepare(system: System, method: Method) -> Engine:
    """The engine of a method on a system, built once and kept with the system."""
    if method.external:
        raise MethodError(f"{method} runs outside of the engine: it has no derivatives, sections or steps of its own to repeat")

    def once() -> Engine:
        with _BUILDING:  # methods may set options of CasADi that hold for the whole process while they build
            return system.cache.get(Engine, method, lambda: _build(system, method), ENGINES)

    return system.cache.get(Engine, method, once, ENGINES)


def _diagonal(system: System) -> bool:
    """Whether masses are constant, each of one coordinate: others are inverted as expressions of single numbers."""
    return isinstance(system, Mechanical) and system.constant_mass and system.function("mass").sparsity_out(0).is_diag()


def _build(system: System, method: Method) -> Engine:
    stage("equations")
    own = system.vectors if method.vectorial and _diagonal(system) else system
    program = Program(replace(method.step(own), kept=method.kept(own)))
    return Engine(program, _settling(system, program))


def _settling(system: System, layout: Layout) -> Settle | None:
    """What a jump of the inputs changes at once: multipliers that are carried along, and parts that follow from the inputs."""
    carried = [name for name, kind in layout.step.start.items() if kind == "lam" and system.m]
    if not system.nu or not (carried or kinds.follows(system)):
        return None

    def settle(state: Array, par: Array, t: float, u: Array) -> None:
        values = kinds.settled(system, {name: state[layout.fields[name]] for name in system.state}, par, t, u)
        for name in system.state:
            state[layout.fields[name]] = values[name]
        for name in carried:
            state[layout.fields[name]] = kinds.multipliers(system, values, par, t, u)

    return settle


def start(
    system: System, layout: Layout, values: Values, par: Array, t: float, inputs: Inputs, lam: Array | None = None
) -> Array:
    """The state vector of given values, and of what the method carries along."""
    state = np.zeros(layout.n_state)
    for name, part in layout.fields.items():
        kind = layout.step.start.get(name)
        if kind is None:
            state[part] = values[name]
        elif kind == "lam" and system.m:
            first = inputs(np.array([t]))[0]
            state[part] = kinds.multipliers(system, values, par, t, first) if lam is None else lam
            if not np.isfinite(state[part]).all():
                raise ModelError(f"the multipliers are not finite at t = {t:g}; check masses, constraints and forces there")
    return state


def given_multipliers(system: System, lam: ArrayLike) -> Array:
    """Given multipliers, refused where they are not one number for each constraint."""
    expected = f"{system.m} finite numbers, one for each constraint"
    given = reals("lam", lam, InconsistentState, expected).ravel()
    if given.shape != (system.m,):
        raise InconsistentState(f"lam must be {expected}, not {shown(lam)}")
    return given


def make_grid(t0: float, t_end: float, step: float, save_every: int, stored: bool = False) -> Grid:
    """The grid of times, checked; rows that are `stored` as they come need no memory."""
    t0, t_end, step = number("t0", t0), number("t_end", t_end), number("step", step)
    if step <= 0:
        raise MethodError(f"step must be positive, not {step:g}; to run backwards in time, reverse the velocities")
    if t_end < t0:
        raise MethodError(f"t_end = {t_end:g} lies before t0 = {t0:g}; to run backwards in time, reverse the velocities")
    if step < 2 * resolution(t0, t_end):
        raise MethodError(
            f"step = {step:g} does not advance the time: numbers near t = {max(t0, t_end, key=abs):g} lie "
            f"{np.spacing(max(abs(t0), abs(t_end))):.2g} apart; count the time from another t0, or take larger steps"
        )
    save_every = whole("save_every", save_every, most=2**62)
    count = (t_end - t0) / step
    if not stored and count / save_every > min(1e9, physical_memory() / 48):
        raise MethodError(
            f"{count:.3g} steps with save_every={save_every} do not fit into memory; save less often, take larger steps, or "
            "write the rows to a store (store='run.zarr')"
        )
    return Grid(t0, t_end, step, save_every)


def make_rule(tolerance: float | None, max_iterations: int) -> Rule:
    """The rule of Newton's iteration, checked."""
    max_iterations = whole("max_iterations", max_iterations, most=MOST_ITERATIONS)
    if tolerance is None:
        return Rule(max_iterations=max_iterations)
    tolerance = number("tolerance", tolerance)
    if not EPS <= tolerance < 1:
        raise MethodError(f"tolerance must lie between round-off ({EPS:.1e}) and 1, not {tolerance:g}")
    return Rule(tolerance=tolerance, max_iterations=max_iterations)


def check_system(system: object) -> None:
    """The first argument of a call is a system."""
    if not isinstance(system, System):
        made = "; a mechanism becomes one by mechanism.assemble()" if hasattr(system, "assemble") else ""
        raise MethodError(f"the first argument must be a system such as da.Mechanical(...), not {type(system).__name__}{made}")


def check_call(system: object, compile: object, progress: object = None) -> None:
    """The system is one, and `compile` and `progress` have a meaning."""
    check_system(system)
    if not (isinstance(compile, (bool, np.bool_)) or (isinstance(compile, str) and compile in ("auto", "newton"))):
        raise MethodError(f"compile must be 'auto', True, 'newton' or False, not {shown(compile)}")
    if progress is not None and not isinstance(progress, (bool, np.bool_)):
        raise MethodError(f"progress must be None, True or False, not {shown(progress)}")
