"""The time loop: it drives a stepper to the end, records, looks for events, and keeps an error with what was computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from dalembert.engine.adaptive import Adaptive
from dalembert.engine.inputs import Inputs
from dalembert.engine.machine import Memory
from dalembert.engine.newton import Rule
from dalembert.engine.progress import Bar
from dalembert.engine.run import Array, Grid, Layout, Run, Stretch
from dalembert.engine.runners import Engine, Ways, step_inputs
from dalembert.engine.steps import Equal, Explain, March, Shortened, Stepper
from dalembert.errors import DalembertError, Interrupted

__all__ = ["Array", "Engine", "Grid", "Inputs", "Layout", "Run", "Ways", "integrate", "step_inputs"]


class Keeper(Protocol):
    """Keeps a run in a file."""

    def restore(self, run: Run, memory: Memory) -> None:
        """Begin with what the file holds, if there is one."""

    def write(self, run: Run, memory: Memory) -> None:
        """Write the run as it stands, if it is time to."""


class Observer(Protocol):
    """Looks at each step as it is made, and may end the run."""

    fault: DalembertError | None  # why it cannot look on

    @property
    def stopped(self) -> bool:
        """Whether the run is to end."""

    def begin(self, state: Array, inside: Shortened) -> None:
        """The run begins there; `inside` makes steps that end between those of the run."""

    def look(self, stretch: Stretch) -> Stretch:
        """The same stretch, or what is left of it where the run ends inside."""

    def forget(self, t: float) -> None:
        """Steps after `t` were not recorded: what was seen in them does not count."""


def integrate(
    ways: Ways,
    memory: Memory,
    grid: Grid,
    inputs: Inputs,
    *,
    rule: Rule,
    compile: bool | str = "auto",
    progress: bool | None = None,
    unknowns: bool = False,
    control: Callable[[Adaptive], None] | None = None,
    explain: Explain = lambda memory, t, h: None,
    checkpoint: Keeper | None = None,
    watch: Observer | None = None,
) -> Run:
    """Run from the beginning of a grid to its end, with equal steps or under a controller.

    An error ends the run and is kept in it, with all rows before.
    """
    begun = time.perf_counter()
    march = March(ways, memory, inputs, rule, compile, grid.steps)
    varying = control is not None and grid.steps > 0
    stepper: Stepper = Adaptive(march, grid, control, explain) if varying and control else Equal(march, grid, explain)
    run = Run(grid, ways.program, None if varying else len(grid.saved), unknowns=unknowns)
    ready = time.perf_counter()
    if checkpoint is not None:
        checkpoint.restore(run, memory)
        stepper.resume(run.done, run.notes)
    if watch is not None:
        watch.begin(memory.state, Shortened(ways, march.runner, inputs, rule, memory.par))
    with Bar(progress, stepper.total) as bar:
        try:
            _loop(stepper, run, memory, bar, checkpoint, watch)
        except KeyboardInterrupt:
            of = "" if varying else f" of {grid.steps}"
            run.fail(
                Interrupted(f"interrupted at t = {run.now:g} after {run.done}{of} steps; error.solution holds what was computed")
            )
        except DalembertError as error:
            run.fail(error)
    counts = stepper.stats()
    run.stats = {
        "steps": run.done,
        **counts,
        "iterations_per_step": float(counts["iterations"]) / max(1, stepper.done),
        "pivoted_steps": march.rescued,
        "engine": march.name,
        "seconds": time.perf_counter() - ready,
        "compile_seconds": ready - begun,
    }
    return run


def _loop(stepper: Stepper, run: Run, memory: Memory, bar: Bar, checkpoint: Keeper | None, watch: Observer | None) -> None:
    """Stretch after stretch to the end of the run."""
    while not stepper.finished and not (watch and watch.stopped):
        held = (memory.state.copy(), memory.last.copy(), memory.before.copy()) if checkpoint is not None else None
        try:
            stretch = stepper.advance(run, each=watch is not None)
            if stretch is not None:
                run.append(stretch if watch is None else watch.look(stretch))
        except BaseException:
            # steps that were made and not recorded: what is written must not go on behind them
            if held is not None:
                memory.state[:], memory.last[:], memory.before[:] = held
            if watch is not None:
                watch.forget(run.now)
            raise
        if watch is not None and watch.fault is not None:
            raise watch.fault
        bar.show(stepper.progress)
        if checkpoint is not None:
            run.notes = stepper.notes()
            checkpoint.write(run, memory)
    run.end()
