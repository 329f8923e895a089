"""`simulate`: from a system, a method and initial values to a solution."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from dalembert.checkpoint import Checkpoint
from dalembert.engine import control, driver, verdict
from dalembert.engine import events as watching
from dalembert.engine.case import Case, check_call, make_grid, make_rule
from dalembert.engine.machine import Memory
from dalembert.engine.reduced import Integrators
from dalembert.errors import DalembertError, MethodError, suggesting
from dalembert.methods.base import Method
from dalembert.methods.reduced import Reduced
from dalembert.solution import Solution
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained


@suggesting
def simulate(
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
    adaptive: bool | str | control.Control | None = False,
    events: object = (),
    save_every: int = 1,
    progress: bool | None = None,
    compile: bool | str = "auto",
    checkpoint: str | Path | None = None,
) -> Solution:
    """Integrate a system from `t0` to `t_end`, with equal steps where nothing else is said.

    Parameters
    ----------
    system, method
        What moves and how: a method's name (`da.list_methods()`) or an object of `da.methods`.
    t_end, step
        Final time and step size; where the step does not divide the time, the last step is shorter.
    q, v, p, x, y, z
        Initial values: `q` and `v` (or `p`); `x` of a `PortHamiltonian`; `y` and `z` of an `IndexTwoDAE`. The system's own
        defaults where nothing is given, rest where only `q` is.
    lam
        Multipliers at the start, for methods that carry them; found from the acceleration level otherwise.
    u
        Inputs: a constant vector, a function `u(t)`, or `(times, values)`, each value held from its time up to the next. Adaptive
        steps end at the jumps; equal ones should, and a warning says where they do not.
    parameters
        Values that replace the system's; nothing is rebuilt.
    tolerance, max_iterations
        Of Newton's iteration; by default it goes on to round-off.
    adaptive
        Step control: `"error"` or True (local error by step doubling), `"backoff"` (shrink where Newton fails), `"reversible"`
        (keeps the long-time behaviour of symmetric methods), or an object of `da.control` with its options. `step` is then
        the first step.
    events
        Functions of the motion (`q`, `v`, `p`; `x`; `y`, `z`), `t` and parameters whose zeros are looked for, or `da.Event`
        objects with a direction, a name, or the wish to end the run there. They are refined to round-off; `sol.events` has them.
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
    check_call(system, compile, progress)
    begun = time.perf_counter()
    grid = make_grid(t0, t_end, step, save_every)
    rule = make_rule(tolerance, max_iterations)
    controller = control.find(adaptive)
    wanted = watching.make(events)
    given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    case = Case.of(system, method, given, t0=t0, u=u, parameters=parameters, lam=lam)
    drive = controller.bind(system, case.method, case.par) if controller else None
    ways = _ways(case, grid, controller, checkpoint)
    layout, state = ways.program, case.state(ways.program)
    memory = ways.start(state, case.par, grid.t0, grid.h)
    watch = watching.Watch(system, layout.fields, wanted, case.par) if wanted else None
    keeper = None
    if checkpoint is not None:
        keeper = Checkpoint(checkpoint, case, grid, state, layout, controller, watch)
        finished = keeper.finished()
        if finished is not None:
            return finished

    def explain(there: Memory, t: float, h: float) -> DalembertError | None:
        return case.explain(layout, there.state, t, h)

    setup = time.perf_counter() - begun
    run = driver.integrate(
        ways, memory, grid, case.inputs, rule=rule, compile=compile, progress=progress, control=drive, checkpoint=keeper,
        watch=watch, explain=explain,
    )  # fmt: skip
    run.stats["setup_seconds"] = setup
    verdict.check(case, run, state, layout)
    if keeper is not None:
        keeper.write(run, memory, end=True)
    solution = Solution.of_run(case, run, state, layout)
    solution.events = watch.results() if watch is not None else {}
    if run.error is not None:
        run.error.solution = solution  # type: ignore[attr-defined]
        raise run.error
    return solution


def _ways(case: Case, grid: driver.Grid, controller: control.Control | None, checkpoint: str | Path | None) -> driver.Ways:
    """The engine of a method with steps of its own, or the integrator of the index-reduced equations."""
    system, method = case.system, case.method
    if not isinstance(method, Reduced) or not isinstance(system, Constrained):
        return case.engine()
    if controller:
        raise MethodError(f"{method} controls its steps itself; adaptive does not go with it")
    y = np.concatenate([case.values[name] for name in system.state])
    out = Integrators(system, method.reduction(grid.h), case.par, case.inputs, (grid.t0, grid.t_end), grid.h, y)
    if checkpoint is not None and not out.resumable:
        raise MethodError(
            f"{method} cannot go on from a checkpoint: the history of SciPy's integrator is not written; "
            "use projection or coordinate-partition, or a method of the engine such as rattle"
        )
    return out
