"""`simulate`: from a system, a method and initial values to a solution."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dalembert.checkpoint import Checkpoint
from dalembert.engine import checks, consistency, control, driver, initial
from dalembert.engine import events as watching
from dalembert.engine.machine import memory as physical_memory
from dalembert.engine.newton import EPS, Rule
from dalembert.engine.program import Program
from dalembert.engine.reduced import Integrators
from dalembert.errors import InconsistentState, MethodError, UnknownKeyword
from dalembert.methods.base import Method, find
from dalembert.methods.reduced import Reduced
from dalembert.solution import Solution
from dalembert.systems.base import System

_BUILDING = threading.RLock()


def simulate(
    system: System,
    method: str | Method,
    *,
    t_end: float,
    step: float,
    q: Any = None,
    v: Any = None,
    p: Any = None,
    x: Any = None,
    y: Any = None,
    z: Any = None,
    lam: Any = None,
    t0: float = 0.0,
    u: Any = None,
    parameters: Mapping[str, Any] | None = None,
    tolerance: float | None = None,
    max_iterations: int = 25,
    adaptive: Any = False,
    events: Any = (),
    save_every: int = 1,
    progress: bool | None = None,
    compile: bool | str = "auto",
    checkpoint: str | Path | None = None,
    **unknown: Any,
) -> Solution:
    """Integrate a system from `t0` to `t_end`, with equal steps where nothing else is said.

    Parameters
    ----------
    system, method
        What moves and how: a method's name (`da.list_methods()`) or an object of `da.methods`.
    t_end, step
        Final time and step size; where the step does not divide the time, the last step is shorter.
    q, v, p, x, y, z
        Initial values (`v` or `p`; `x` of a `PortHamiltonian`; `y` and `z` of an `IndexTwoDAE`); the system's own defaults where
        nothing is given, rest where only `q` is.
    lam
        Multipliers at the start, for methods that carry them; found from the acceleration level otherwise.
    u
        Inputs: a constant vector, a function `u(t)`, or `(times, values)`, each value held from its time on.
    parameters
        Values that replace the system's; nothing is rebuilt.
    tolerance, max_iterations
        Of Newton's iteration; by default it goes on to round-off.
    adaptive
        Step control: `"error"` or True (local error by step doubling), `"backoff"` (shrink where Newton fails), `"reversible"`
        (keeps the long-time behaviour of symmetric methods), or an object of `da.control` with its options. `step` is then
        the first step.
    events
        Functions of `q`, `v`, `p`, `t` and parameters whose zeros are looked for, or `da.Event` objects with a direction, a name,
        or the wish to end the run there. They are refined to round-off; `sol.events` has them.
    save_every
        Keep every so many steps (and the last); work is added up in between.
    progress
        A progress bar: None for runs of over two seconds in a terminal, True always, False never.
    compile
        `"auto"` compiles to C where the run is long enough to pay for it, True always, False never. Results are the same.
    checkpoint
        A file that receives the solution every half minute and at the end; the same call goes on from it after a crash, and
        with a later `t_end` it continues. `da.load` reads it.

    Returns
    -------
    Solution
        Every error of the run has the part already computed in its `solution`.
    """
    if unknown:
        raise UnknownKeyword.of("simulate", unknown, simulate)
    check_call(system, compile)
    begun = time.perf_counter()
    method = find(method)
    grid = make_grid(t0, t_end, step, save_every)
    rule = make_rule(tolerance, max_iterations)
    controller = control.find(adaptive)
    wanted = watching.make(events)
    method.check(system)
    par = system.pack(parameters)
    drive = controller.bind(system, method, par) if controller else None
    if system.kind == "dae":
        q, v = (q if y is None else y), (v if z is None else z)
    elif system.kind == "port-hamiltonian":
        if any(value is not None for value in (v, p, y, z)):
            raise InconsistentState("a port-Hamiltonian system starts from its state x alone")
        q = q if x is None else x
    elif x is not None:
        raise InconsistentState("x is the initial value of a PortHamiltonian; this system starts from q and v (or p)")
    elif y is not None or z is not None:
        raise InconsistentState("y and z are the initial values of an IndexTwoDAE; this system starts from q and v (or p)")
    if lam is not None and system.kind in ("mechanical", "hamiltonian"):
        _multipliers(system, lam)
    inputs = initial.inputs_of(system, u, grid.t0)
    q, second = initial.choose(system, q, v, p, par, grid.t0, inputs(np.array([grid.t0]))[0])
    at = initial.arguments(system, q, second, grid.t0, par)
    checks.check_start(system, {**at, "u": inputs(np.array([grid.t0]))[0]}, par, method)
    engine: driver.Ways
    if isinstance(method, Reduced):
        engine = _integrators(system, method, par, inputs, grid, np.concatenate([q, second]), controller, checkpoint)
    else:
        engine = prepare(system, method)
    state = start(system, engine.program, at, par, lam, inputs)
    memory = engine.start(state, par, grid.t0, grid.h)
    watch = watching.Watch(system, engine.program.fields, wanted, par) if wanted else None
    keeper = None
    if checkpoint is not None:
        keeper = Checkpoint(checkpoint, system, method, par, grid, state, engine.program, inputs, controller, watch)
        finished = keeper.finished()
        if finished is not None:
            return finished
    setup = time.perf_counter() - begun
    run = driver.integrate(
        engine, memory, grid, inputs, rule=rule, compile=compile, progress=progress, control=drive, checkpoint=keeper,
        watch=watch, explain=partial(driver.explain, system, engine.program.fields, inputs),
    )  # fmt: skip
    run.stats["setup_seconds"] = setup
    if system.kind == "port-hamiltonian" and run.rows:
        _check_rank(system, run, state, par)
    if keeper is not None:
        keeper.write(run, memory, end=True)
    solution = Solution.of_run(system, method, par, run, state, engine.program, inputs)
    solution.events = watch.results() if watch is not None else {}
    if run.error is not None:
        run.error.solution = solution  # type: ignore[attr-defined]
        raise run.error
    return solution


def _integrators(
    system: System, method: Reduced, par: driver.Array, inputs: driver.Inputs, grid: driver.Grid, y: driver.Array,
    controller: control.Control | None, checkpoint: str | Path | None,
) -> Integrators:  # fmt: skip
    """The integrator of the index-reduced equations; what does not go with it is refused."""
    if controller:
        raise MethodError(f"{method} controls its steps itself; adaptive does not go with it")
    out = Integrators(system, method.reduction(grid.h), par, inputs, (grid.t0, grid.t_end), grid.h, y)
    if checkpoint is not None and not out.resumable:
        raise MethodError(
            f"{method} cannot go on from a checkpoint: the history of SciPy's integrator is not written; "
            "use projection or coordinate-partition, or a method of the engine such as rattle"
        )
    return out


def _check_rank(system: System, run: driver.Run, state: driver.Array, par: driver.Array) -> None:
    """End a run where the rank of a state-dependent `E` has changed on the way."""
    states = np.vstack([state, run.records.state[: run.rows]])[:, : system.n]
    times = np.concatenate([[run.grid.t0], run.times()])
    fault = system.rank_fault(states, times, par)  # type: ignore[attr-defined]
    if fault is not None:
        run.fail(fault[1], max(0, fault[0] - 1))


def prepare(system: System, method: Method) -> driver.Engine:
    """The engine of a method on a system, built once and kept with the system."""
    if method.external:
        raise MethodError(f"{method} runs outside of the engine: it has no derivatives, sections or steps of its own to repeat")
    with _BUILDING:  # methods may set options of CasADi that hold for the whole process while they build
        if method not in system._steps:
            system._steps[method] = driver.Engine(Program(method.step(system)))
    return system._steps[method]  # type: ignore[no-any-return]


def start(
    system: System, program: driver.Layout, at: Mapping[str, Any], par: np.ndarray, lam: Any, inputs: driver.Inputs
) -> np.ndarray:
    """The state that a run begins with: the given values, and what the method carries along."""
    state = np.zeros(program.n_state)
    for name, part in program.fields.items():
        kind = program.step.start.get(name)
        if kind is None:
            state[part] = at[name]
        elif kind == "lam" and system.m:
            if lam is None:
                first = inputs(np.array([at["t"]]))[0] if system.nu else None
                state[part] = consistency.multipliers(system, at, par, first)
            else:
                state[part] = _multipliers(system, lam)
    return state


def _multipliers(system: Any, lam: Any) -> np.ndarray:
    """Given multipliers, refused where they are not one number for each constraint."""
    try:
        given = np.asarray(lam, dtype=float).ravel()
    except (TypeError, ValueError):
        given = np.full(1, np.nan)
    if given.shape != (system.m,) or not np.isfinite(given).all():
        raise InconsistentState(f"lam must be {system.m} finite numbers, one for each constraint, not {lam!r}")
    return given


def whole(name: str, value: Any) -> int:
    """A whole number, at least 1."""
    try:
        good = not isinstance(value, bool) and int(value) == value and value >= 1
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise MethodError(f"{name} must be a whole number, at least 1, not {value!r}")
    return int(value)


def make_grid(t0: float, t_end: float, step: float, save_every: int) -> driver.Grid:
    """The grid of times, checked."""
    t0, t_end, step = initial.number("t0", t0), initial.number("t_end", t_end), initial.number("step", step)
    if step <= 0:
        raise MethodError(f"step must be positive, not {step:g}; to run backwards in time, reverse the velocities")
    if t_end < t0:
        raise MethodError(f"t_end = {t_end:g} lies before t0 = {t0:g}; to run backwards in time, reverse the velocities")
    save_every = whole("save_every", save_every)
    count = (t_end - t0) / step
    if count / save_every > min(1e9, physical_memory() / 48):
        raise MethodError(
            f"{count:.3g} steps with save_every={save_every} do not fit into memory; save less often or take larger steps"
        )
    return driver.Grid(t0, t_end, step, save_every)


def make_rule(tolerance: float | None, max_iterations: int) -> Rule:
    """The rule of Newton's iteration, checked."""
    max_iterations = whole("max_iterations", max_iterations)
    if tolerance is None:
        return Rule(max_iterations=max_iterations)
    tolerance = initial.number("tolerance", tolerance)
    if not EPS <= tolerance < 1:
        raise MethodError(f"tolerance must lie between round-off ({EPS:.1e}) and 1, not {tolerance:g}")
    return Rule(tolerance=tolerance, max_iterations=max_iterations)


def check_call(system: Any, compile: Any) -> None:
    """The system is one, and `compile` has a meaning."""
    if not isinstance(system, System):
        raise MethodError(f"the first argument must be a system such as da.Mechanical(...), not {type(system).__name__}")
    if not (isinstance(compile, (bool, np.bool_)) or (isinstance(compile, str) and compile == "auto")):
        raise MethodError(f"compile must be 'auto', True or False, not {compile!r}")
