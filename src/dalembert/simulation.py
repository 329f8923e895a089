"""`simulate`: from a system, a method and initial values to a solution."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dalembert import defaults
from dalembert.checkpoint import Checkpoint
from dalembert.course import Course, MakeWatch
from dalembert.engine import control, driver, sampled, verdict
from dalembert.engine import events as watching
from dalembert.engine.case import Case, check_call, make_grid, make_rule
from dalembert.engine.formulas import formula
from dalembert.engine.guard import guarded
from dalembert.engine.inputs import inputs_of
from dalembert.engine.interrupts import recognised, undisturbed
from dalembert.engine.kinds import Values
from dalembert.engine.literal import Literal, Newton
from dalembert.engine.machine import Memory
from dalembert.engine.newton import Rule
from dalembert.engine.progress import Stages
from dalembert.engine.reduced import Integrators
from dalembert.engine.runners import Engine
from dalembert.engine.sampling import SampledWays
from dalembert.engine.watch import Watch
from dalembert.errors import DalembertError, DalembertWarning, Interrupted, MethodError, ModelError, suggesting
from dalembert.keeper import Keeping
from dalembert.methods.base import Method, find
from dalembert.methods.reduced import Reduced
from dalembert.relay import Leg, Relay, refuse_store
from dalembert.solution import Solution
from dalembert.store import Store
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained


@suggesting
def simulate(
    system: System, method: str | Method | None = None, *, t_end: float, step: float | None = None,
    q: ArrayLike | None = None, v: ArrayLike | None = None, p: ArrayLike | None = None,
    x: ArrayLike | None = None, y: ArrayLike | None = None, z: ArrayLike | None = None, lam: ArrayLike | None = None,
    t0: float = 0.0, u: object = None, parameters: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None, max_iterations: int = 25, newton: Newton | None = None,
    adaptive: bool | str | control.Control | None = False, events: object = (), save_every: int = 1,
    progress: bool | None = None, compile: bool | str = "auto", checkpoint: str | Path | None = None,
    store: str | Path | None = None, t_eval: ArrayLike | None = None, rtol: float | None = None, atol: float | None = None,
) -> Solution:  # fmt: skip
    """Integrate a system from `t0` to `t_end`, with equal steps where nothing else is said.

    Parameters
    ----------
    system, method
        What moves and how: a method's name (`da.list_methods()`) or an object of `da.methods`; by default the one that
        `da.diagnose` recommends.
    t_end, step
        Final time and step size; where the step does not divide the time, the last one is of another length. By default a step
        with which trials of some 30 steps, at the start and where the motion changes most, have errors of at most 1e-4;
        `sol.stats["chosen"]` says what was chosen and why.
    q, v, p, x, y, z
        Initial values of the state; the system's own where nothing is given, rest where only `q` is.
    lam
        Multipliers at the start, for methods that carry them (else from the acceleration level); a first guess for others.
    u
        Inputs: a constant vector, a function `u(t)`, or `(times, values)`, each value held from its time up to the next. Or a
        dictionary of these by the names of the inputs (`system.ports`), `{"motor": 12.0, "wind": lambda t: ...}`; what is not
        named is zero. `da.Sampled(controller, every=...)`, for all inputs or for some, is a controller of what it measures.
        Adaptive steps end at the jumps; equal ones should, and a warning says where they do not.
    parameters
        Values that replace the system's; nothing is rebuilt.
    tolerance, max_iterations
        Of Newton's iteration; by default it goes on to round-off.
    newton
        Newton's iteration as a source states it, a `da.Newton`: to show its effects, on a DAE.
    adaptive
        Step control from the first `step` on: `"error"` or True, `"backoff"`, `"reversible"`, or an object of `da.control`.
    events
        Functions of the motion, `t` and parameters whose zeros are looked for, or `da.Event` objects; `sol.events` has them. An
        event with an action changes the motion and the run goes on, and so do `da.impact`, `da.stop` and `da.latch`: `sol.arcs`
        are the parts between the jumps.
    save_every
        Keep every so many steps (and the last); work is added up in between.
    progress
        A progress bar: None for runs of over two seconds in a terminal, True always, False never.
    compile
        `"auto"` compiles to C where the run is long enough to pay for it, True always, False never. Compiled, the stages of
        smooth systems are solved by sweeps, with the same results to round-off; `"newton"` compiles Newton's iteration, with the
        same results to the last bit.
    checkpoint
        A file that the run is written to every half minute; the same call goes on from it, also to a later `t_end`.
    store
        A folder `run.zarr` that rows are written to as they come, for runs that do not fit into memory; the same call goes on
        from it, also to a later `t_end`. `da.open` reads it, also while the run goes on.

    t_eval
        Times at which the solution is wanted, in place of the ends of steps: by steps that are shortened to end there.
    rtol, atol
        Step control by the local error, `atol + rtol |y|`: `adaptive=da.control.ErrorControl(rtol=rtol, atol=atol)`.

    Returns
    -------
    Solution
        Of a run with a store, all rows up to 128 MiB of them, and every so manieth of a longer one (`sol.stats["save_every"]`).
        Every error of the run has the part already computed in its `solution`.
    """
    begun = time.perf_counter()
    check_call(system, compile, progress)
    adaptive = defaults.controller(adaptive, rtol, atol)
    chosen: list[str] = []
    if method is None or step is None:
        given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
        start = {"t0": t0, "u": u, "parameters": parameters, "lam": lam, **given}
        method, step, chosen = _choose(system, method, step, start, t_end, bool(adaptive))
    wanted_at = None if t_eval is None else defaults.times(t_eval, t0, t_end)
    grid, rule = make_grid(t0, t_end, step, save_every, store is not None), _rule(tolerance, max_iterations, newton)
    if checkpoint is not None and store is not None:
        raise MethodError("a run is written to a checkpoint or to a store, not to both; a store is enough to go on from")
    controller, wanted = control.find(adaptive), watching.make(events)
    if wanted_at is not None and any(event.acts for event in wanted):
        raise MethodError("t_eval does not go with events that act, where the motion jumps; ask sol.at(times) afterwards")
    given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    with recognised(), Stages(progress):
        rest, controllers = sampled.split(system, u)
        sampled.check(controllers, grid, controller is not None)
        case = Case.of(system, method, given, t0=t0, u=rest, parameters=parameters, lam=lam)
        setting = _Setting((grid.t0, grid.t_end), rule, controller, wanted, u, checkpoint, store, controllers)
        run = setting.course(case, grid, rest) if any(event.acts for event in wanted) else _Call(case, grid, setting)
        solution = run.solution(compile, progress, begun)
    if chosen:
        solution.stats["chosen"] = ", ".join(chosen)
    if store is None and (said := solution.remark()):  # rows in a store are read when they are asked for
        warnings.warn(said, DalembertWarning, stacklevel=3)
    return solution if wanted_at is None else defaults.evaluated(solution, wanted_at)


def _choose(
    system: System, method: str | Method | None, step: float | None, start: dict[str, Any], t_end: float, controlled: bool
) -> tuple[str | Method, float, list[str]]:
    """Method and step where they are not given, and what was chosen, in words."""
    chosen = []
    if method is None:
        given = {name: start[name] for name in ("q", "v", "p", "x", "y", "z")}
        method, word = defaults.method_for(system, given, start["t0"], start["parameters"])
        chosen.append(word)
    if step is None and controlled:
        step = (t_end - start["t0"]) / 1000
        chosen.append(f"first step {step:.3g} (a thousandth of the time; step control goes on from it)")
    elif step is None:
        rest, controllers = sampled.split(system, start["u"])

        def trial(there: Mapping[str, object], h: float, end: float) -> Solution:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DalembertWarning)  # the run itself will say it
                return simulate(system, method, compile=False, progress=False, **{**start, **there}, t_end=end, step=h)

        every = min((one.every for _, one in controllers), default=None)
        jumps = [] if rest is None else inputs_of(system, rest, start["t0"]).jumps.tolist()
        step, word = defaults.step_for(trial, find(method), system, start["t0"], t_end, jumps, every)
        chosen.append(word)
    return method, step, chosen


@dataclass(frozen=True)
class _Setting:
    """What a call asked for beside the case, the same for all arcs of a run."""

    span: tuple[float, float]
    rule: Rule
    controller: control.Control | None
    events: list[watching.Event]
    u: object
    checkpoint: str | Path | None
    store: str | Path | None
    controllers: sampled.Controllers
    relay: Relay | None = None

    @property
    def kept(self) -> str:
        return "a checkpoint" if self.checkpoint is not None else "a store" if self.store is not None else ""

    def alone(self, inputs: driver.Inputs) -> bool:
        """Whether no function of the user's is called along the run that could change what controllers refer to."""
        formulas = all(one.traced or formula(one.controller) for _, one in self.controllers)
        return formulas and inputs.plain and not any(event.action for event in self.events)

    def course(self, case: Case, grid: driver.Grid, u: object) -> Course:
        """A run with events that act."""
        if isinstance(self.rule, Newton):
            raise MethodError("events that act do not go with newton=da.Newton(...); leave one of them out")
        relay = self._relay(case, grid)
        setting = replace(self, relay=relay)

        def again(system: System, method: Method, values: Values, t: float, parameters: Values) -> Case:
            return Case.of(system, method, values, t0=t, u=u, parameters=parameters)

        def begin(case: Case, grid: driver.Grid, watch: MakeWatch, sampling: sampled.Sampling | None) -> _Call:
            return _Call(case, grid, setting, watch, sampling)

        return Course(case, grid, self.events, begin, again, bool(self.controllers) and self.controller is None, relay)

    def _relay(self, case: Case, grid: driver.Grid) -> Relay | None:
        """The file of a run with events that act."""
        if self.store is not None:
            raise refuse_store([event for event in self.events if event.acts])
        if self.checkpoint is None:
            return None
        ways = _ways(case, grid, self.controller, self.kept)
        start = case.state(ways.program)
        relay = Relay(self.checkpoint, case, grid, start, ways.program, self.rule, self.u, self.controller)
        return relay.told(self.events)


class _Call:
    """A run, from what was asked for to its solution. Whatever goes wrong after its beginning, the solution is in the error."""

    def __init__(
        self, case: Case, grid: driver.Grid, setting: _Setting, watch: MakeWatch | None = None,
        sampling: sampled.Sampling | None = None,
    ) -> None:  # fmt: skip
        rule, controller, kept = setting.rule, setting.controller, setting.kept
        self.case, self.grid, self.rule = case, grid, rule
        self.drive = controller.bind(case.system, case.method, case.par) if controller else None
        self.ways = _ways(case, grid, controller, kept)
        if isinstance(rule, Newton):
            self.ways = _literal(self.ways, case, rule, kept)
        self.layout, self.start = self.ways.program, case.state(self.ways.program)
        self.sampling: sampled.Sampling | None = None
        if setting.controllers:
            self._sample(setting, sampling)
        events = setting.events
        self.watch = Watch(case.system, self.layout.fields, events, case.par) if events and watch is None else None
        if watch is not None:
            self.watch = watch(self.case, self.layout, self.case.inputs)
        self.keeper: Keeping | None = None
        kind, path = (Checkpoint, setting.checkpoint) if setting.checkpoint is not None else (Store, setting.store)
        if setting.relay is not None:
            self.keeper = Leg(setting.relay, case, grid, self.start, self.layout, self.watch, self.sampling)
        elif path is not None:
            self.keeper = kind(path, case, grid, self.start, self.layout, rule, setting.u, controller, self.watch, self.sampling)

    def _sample(self, setting: _Setting, earlier: sampled.Sampling | None) -> None:
        """Take controllers into the loop, as they stand after an `earlier` part of the run."""
        case = self.case
        if not isinstance(self.ways, Engine):
            raise MethodError("da.Sampled goes with methods that have steps of their own, without newton=da.Newton(...)")
        make = partial(sampled.Sampler, case.system, self.layout)
        alone = setting.alone(case.inputs)
        samplers = [make(columns, one, case.par, setting.span, alone) for columns, one in setting.controllers]
        for now, before in zip(samplers, earlier.samplers if earlier is not None else (), strict=False):
            now.resume(before)
        self.sampling = sampled.Sampling(case.inputs, samplers, case.system.nu)
        cautious = self.grid.h if any(event.acts for event in setting.events) else 0.0
        self.case, self.ways = replace(case, inputs=self.sampling), SampledWays(self.ways, self.sampling, cautious)

    def solution(self, compile: bool | str, progress: bool | None, begun: float) -> Solution:
        """Run to the end, or read a run that is at its end."""
        with self.keeper or nullcontext():
            finished = self.keeper.finished() if self.keeper else None
            return finished or self._run(compile, progress, begun)

    def _run(self, compile: bool | str, progress: bool | None, begun: float) -> Solution:
        memory = self.ways.start(self.start, self.case.par, self.grid.t0, self.grid.h, self.case.guess())
        setup = time.perf_counter() - begun
        run = driver.integrate(
            self.ways, memory, self.grid, self.case.inputs, rule=self.rule, compile=compile, progress=progress,
            control=self.drive, checkpoint=self.keeper, explain=self._explain,
            watch=guarded(self.case, self.layout, self.watch, self.grid.save_every),
        )  # fmt: skip
        run.stats["setup_seconds"] = setup
        solution: Solution | None = None
        error: BaseException | None = None
        try:
            with undisturbed() if self.keeper is not None else recognised():
                error = self._end(run)
                if not run.first:
                    solution = self._solution(run)
            if solution is None:
                solution = self._solution(run)  # rows that are read again may take a while, and they are safe
        except KeyboardInterrupt:
            if self.keeper is None:  # no file is half written: what was begun is done again
                with suppress(KeyboardInterrupt), undisturbed():
                    error = self._end(run)
                    solution = self._solution(run)
            if error is None or solution is None:
                where = "its store" if solution is None else "error.solution"
                error = Interrupted(f"interrupted at the end of the run, which {where} holds")
        error = error or (None if solution is None else self._inputs_fault(solution))
        if solution is None or error is not None:
            assert error is not None
            error.solution = solution  # type: ignore[attr-defined]
            raise error
        return solution

    def _end(self, run: driver.Run) -> BaseException | None:
        """Look at a run that has ended, and write it; returned is what went wrong."""
        sound = not verdict.check(self.case, run, self.start, self.layout)
        if self.keeper is not None and sound:  # where rows were taken away, the file is as before
            try:
                self.keeper.save(run)
            except DalembertError as late:
                return run.error or late
        return run.error

    def _solution(self, run: driver.Run) -> Solution:
        if self.keeper is not None:
            return self.keeper.solution(run)
        case, sampling = self.case, self.sampling
        if sampling is not None:
            case = replace(case, inputs=sampling.frozen(run.now))
        solution = Solution.of_run(case, run, self.start, self.layout)
        if sampling is not None:
            solution.samples = sampling.results(run.now)
            solution.stats["controllers"] = sampling.ways
        solution.events = self.watch.results() if self.watch is not None else {}
        return solution

    def _explain(self, there: Memory, t: float, h: float) -> DalembertError | None:
        return self.case.explain(self.layout, there.state, t, h)

    def _inputs_fault(self, solution: Solution) -> DalembertError | None:
        """Why inputs at stored times are unknown, where no step had asked for them."""
        if not self.case.system.nu:
            return None
        bad = ~np.isfinite(solution.u).all(axis=1)
        if not bad.any():
            return None
        _, fault = self.case.inputs_at(solution.t[bad][:1])
        return ModelError(f"{fault} (no step depends on it: error.solution holds the whole run, with nan in its u)")


def _rule(tolerance: float | None, max_iterations: int, newton: Newton | None) -> Rule:
    """The library's own rule of Newton's iteration, or that of a source."""
    if newton is None:
        return make_rule(tolerance, max_iterations)
    if not isinstance(newton, Newton) or tolerance is not None:
        raise MethodError("newton must be a da.Newton(...), which has the tolerance and the number of iterations as well")
    return newton


def _literal(ways: driver.Ways, case: Case, rule: Newton, kept: str) -> driver.Ways:
    if not isinstance(ways, Engine) or kept:
        raise MethodError(
            f"newton=da.Newton(...) goes with methods that have implicit steps, and without {kept or 'a checkpoint'}"
        )
    return Literal(ways, case.system, rule)


def _ways(case: Case, grid: driver.Grid, controller: control.Control | None, kept: str) -> driver.Ways:
    """The engine of a method with steps of its own, or the integrator of the index-reduced equations."""
    system, method = case.system, case.method
    if not isinstance(method, Reduced) or not isinstance(system, Constrained):
        return case.engine()
    if controller:
        raise MethodError(f"{method} controls its steps itself; adaptive does not go with it")
    y = np.concatenate([case.values[name] for name in system.state])
    out = Integrators(system, method.reduction(grid.h), case.par, case.inputs, (grid.t0, grid.t_end), grid.h, y)
    if kept and not out.resumable:
        raise MethodError(
            f"{method} cannot go on from {kept}: the history of SciPy's integrator is not written; "
            "use projection or coordinate-partition, or a method of the engine such as rattle"
        )
    return out
