"""The time loop: it drives a stepper to the end, records, looks for events, and keeps an error with what was computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from dalembert.engine.adaptive import Adaptive, pace_of
from dalembert.engine.inputs import Inputs
from dalembert.engine.interrupts import recognised
from dalembert.engine.machine import Memory
from dalembert.engine.newton import Rule
from dalembert.engine.progress import Bar, ready
from dalembert.engine.run import Array, Grid, Layout, Run, Stand, Stat, Stretch, Written
from dalembert.engine.runners import Engine, Ways, step_inputs
from dalembert.engine.steps import Equal, Explain, March, Shortened, Stepper
from dalembert.engine.values import Values
from dalembert.engine.walking import EQUAL
from dalembert.errors import DalembertError, Interrupted

__all__ = ["Array", "Engine", "Grid", "Inputs", "Layout", "Run", "Ways", "integrate", "step_inputs"]


class Keeper(Protocol):
    """Keeps a run in a file."""

    window: int | None  # rows that the run has in memory, where it drops those that are kept

    def restore(self, run: Run) -> None:
        """Begin with what the file holds, if there is one."""

    def due(self, run: Run) -> bool:
        """Whether it is time to write."""

    def write(self, run: Run) -> None:
        """Write the run as it stands."""


class Observer(Protocol):
    """Looks at each step as it is made, and may end the run."""

    @property
    def fault(self) -> DalembertError | None:
        """Why it cannot look on."""

    @property
    def stopped(self) -> bool:
        """Whether the run is to end."""

    def compile(self, layout: Layout) -> Values | None:
        """What it looks at in C, for runs whose steps are; None where that cannot be had."""

    def begin(self, state: Array, inside: Shortened, t: float | None = None) -> None:
        """The run begins there, or goes on where no time is given; `inside` makes steps that end between those of the run."""

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
    varying = control is not None and grid.steps > 0
    march = March(ways, memory, inputs, rule, compile, grid.steps, pace_of(control, inputs) if varying else EQUAL)
    signs = watch.compile(ways.program) if watch is not None and march.compiled else None
    stepper: Stepper = Adaptive(march, grid, control, explain, signs) if varying and control else Equal(march, grid, explain)
    window = checkpoint.window if checkpoint is not None else None
    run = Run(grid, ways.program, None if varying else grid.rows, unknowns=unknowns, window=window)
    clock = _Clock(begun)
    loop = _Loop(stepper, run, memory, clock, checkpoint, watch)
    if checkpoint is not None:
        run.stats = loop.stats()
        checkpoint.restore(run)
        loop.resume()
    if watch is not None:
        watch.begin(memory.state, Shortened(ways, march.runner, inputs, rule, memory.par), None if run.done else grid.t0)
    ready()
    with Bar(progress, stepper.total) as bar:
        try:
            with recognised():
                loop.go(bar)
        except KeyboardInterrupt:
            of = "" if varying else f" of {grid.steps}"
            run.fail(
                Interrupted(f"interrupted at t = {run.now:g} after {run.done}{of} steps; error.solution holds what was computed")
            )
        except Exception as error:
            run.fail(error)
    run.close()
    if watch is not None:
        watch.forget(run.now)
    run.stats = loop.stats()
    return run


class _Clock:
    """Seconds of a run, those of its earlier parts included."""

    def __init__(self, begun: float) -> None:
        self._ready, self.earlier = time.perf_counter(), 0.0
        self.compiling = self._ready - begun

    @property
    def seconds(self) -> float:
        return self.earlier + time.perf_counter() - self._ready


class _Loop:
    """Stretch after stretch to the end of a run; after each the run stands behind it, as a whole."""

    def __init__(
        self, stepper: Stepper, run: Run, memory: Memory, clock: _Clock, checkpoint: Keeper | None, watch: Observer | None
    ) -> None:
        self.stepper, self.run, self.memory, self.clock = stepper, run, memory, clock
        self.checkpoint, self.watch = checkpoint, watch

    def resume(self) -> None:
        """Go on where the run stands."""
        at = self.run.at
        if at.memory is None:
            return
        self.memory.put(at.memory)
        self.stepper.resume(at)
        self.clock.earlier = at.notes.get("seconds", 0.0)

    def go(self, bar: Bar) -> None:
        """To the end of the run, or to an event that ends it."""
        stepper, run, watch, checkpoint = self.stepper, self.run, self.watch, self.checkpoint
        while not stepper.finished and not (watch and watch.stopped):
            made = stepper.advance(run, each=watch is not None)
            stand = None if checkpoint is None else self._stand()
            if isinstance(made, Written):
                run.written(made, stand)
            else:
                run.append(watch.look(made) if watch else made, stand)
            if watch is not None and watch.fault is not None:
                raise watch.fault
            bar.show(stepper.progress)
            if checkpoint is not None and checkpoint.due(run):
                run.stats = self.stats()
                checkpoint.write(run)

    def _stand(self) -> Stand:
        """Where the engine stands; the run adds what it has recorded."""
        notes = {**self.stepper.notes(), "seconds": self.clock.seconds}
        return Stand(self.run.done, self.run.now, self.memory.copy(), notes, self.stepper.march.ways.pivots)

    def stats(self) -> dict[str, Stat]:
        """Counts of the work that was done, that of earlier parts of the run included."""
        stepper, counts = self.stepper, self.stepper.stats()
        return {
            "steps": self.run.done,
            **counts,
            "iterations_per_step": float(counts["iterations"]) / max(1, stepper.done),
            "pivoted_steps": stepper.march.rescued,
            "swept_steps": stepper.march.swept,
            "engine": stepper.march.name,
            "seconds": self.clock.seconds,
            "compile_seconds": self.clock.compiling,
        }
