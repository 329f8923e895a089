"""Making steps: by a runner, by the careful way where it fails, and in chunks of equal steps over a grid."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from dalembert.engine.inputs import Inputs, off_grid, slack
from dalembert.engine.machine import Memory, Outcome, Records, Task
from dalembert.engine.native import Native
from dalembert.engine.newton import Rule
from dalembert.engine.run import Array, Grid, Layout, Notes, Run, Stand, Stat, Stretch, Written
from dalembert.engine.runner import Runner
from dalembert.engine.runners import Ways
from dalembert.engine.swept import Swept
from dalembert.engine.walking import EQUAL, Pace
from dalembert.errors import ConvergenceError, DalembertError, DalembertWarning, ModelError

QUICK = 5  # doublings of the first chunk, where steps are compiled
RESCUES = 8  # steps by the careful way after which the pivots are chosen anew
CHOICES = 4  # of pivots in a run, at most: where these do not help, others will not, and each takes as long as setting up
LONGEST = 1 << 14  # steps of a stretch at most, where each step is looked at: they stay near the processor

Explain = Callable[[Memory, float, float], DalembertError | None]


class Stepper(Protocol):
    """What the loop drives: it makes stretches of steps until it is finished."""

    march: March
    total: int  # of what `progress` counts
    done: int  # steps made

    @property
    def finished(self) -> bool: ...
    @property
    def progress(self) -> int: ...

    def advance(self, run: Run, each: bool) -> Stretch | Written:
        """The next steps; they may be written into the run, unless `each` is to be looked at."""

    def resume(self, stand: Stand) -> None:
        """Go on from there."""

    def notes(self) -> Notes:
        """What `resume` needs beside the memory, and the counts of the work that was done."""

    def stats(self) -> dict[str, Stat]:
        """Counts of the work that was done."""


def room(layout: Layout, rows: int, unknowns: bool = False) -> Records:
    """Records to write single steps into."""
    return Records.empty(layout, rows, unknowns)  # type: ignore[arg-type]  # it reads the sizes alone


def settle(ways: Ways, inputs: Inputs, state: Array, par: Array, t: float, h: float) -> float | None:
    """Where inputs jump at `t`, find anew what of the state follows from them. Returned is the next jump that matters."""
    jumps = inputs.jumps
    if ways.settle is None or not len(jumps):
        return None
    close = float(slack(t, t + h))
    near, after = np.searchsorted(jumps, (t - close, t + close))
    if near < after:
        begin = np.array([t])
        ways.settle(state, par, t, inputs.within(begin, begin, begin + h)[0])
    return float(jumps[after]) if after < len(jumps) else None


class March:
    """Steps from where a memory stands. A step that the runner cannot make is tried by the careful way."""

    def __init__(
        self, ways: Ways, memory: Memory, inputs: Inputs, rule: Rule, compile: bool | str, steps: int, pace: Pace = EQUAL
    ) -> None:
        self.ways, self.memory, self.inputs, self.rule = ways, memory, inputs, rule
        self._compile, self._steps, self._pace = compile, steps, pace
        self.runner: Runner | None = ways.runner(compile, steps, pace) if steps else None
        self.made = self.rescued = self.swept = self._recent = self._choices = 0
        self._failed = False  # whether the next step is one that the runner could not make

    @property
    def name(self) -> str:
        return self.runner.name if self.runner else "none"

    @property
    def compiled(self) -> bool:
        return isinstance(self.runner, (Native, Swept))

    def resume(self, stand: Stand) -> None:
        """Go on as a run did that stood there: with the same pivots, and to the same next choice of them."""
        notes = stand.notes
        self.made, self.rescued, self._recent = (int(notes.get(name, 0)) for name in ("made", "rescued", "recent"))
        self.swept, self._choices = int(notes.get("swept", 0)), int(notes.get("choices", 0))
        if self.runner is not None and stand.pivots != self.ways.pivots:
            self._change(self.ways.using(stand.pivots))

    def notes(self) -> Notes:
        """What `resume` needs beside the pivots."""
        counts: Notes = {"made": self.made, "rescued": self.rescued, "recent": self._recent, "swept": self.swept}
        return counts | {"choices": self._choices}

    def task(self, h: float, *, t0: float, first: int = 0, steps: int = 1, every: int = 1, look: bool = True) -> Task:
        """Steps with the inputs that belong to them; half of them, where the inputs of some are not to be had."""
        steps = self._settle(steps, h, t0 + first * h)
        try:
            inputs = self.ways.step_inputs(self.inputs, t0, first, steps, h)
        except ModelError:
            if steps == 1:
                raise
            return self.task(h, t0=t0, first=first, steps=steps // 2, every=every, look=look)
        return Task(t0, h, self.rule, steps, first, every, inputs, look)

    def take(self, task: Task, out: Records, *, thorough: bool = True) -> Outcome:
        """Up to all steps: fewer where one fails, which is then the first of the next call; none where it fails in all ways.

        The careful way begins with the usual guess; a `thorough` call also tries the last solution, zero, and damping.
        """
        outcome = Outcome(0, 0, 0)
        if not self._failed:
            assert self.runner is not None
            outcome = self.runner.run(self.memory, out, task)
            if outcome.steps:
                self.made += outcome.steps
                self.swept += outcome.swept
                self._failed = outcome.failed >= 0
                return outcome
        careful = self.ways.careful()
        if careful is not None:
            outcome = self._rescue(careful, replace(task, steps=1, inputs=task.inputs[:1], look=True), out, thorough)
        self._failed = False
        return outcome

    def _settle(self, steps: int, h: float, t: float) -> int:
        """Find anew what follows from inputs that jump at `t`. Returned are the steps from there up to the next jump."""
        jump = settle(self.ways, self.inputs, self.memory.state, self.memory.par, t, h)
        return steps if jump is None else min(steps, max(1, round((jump - t) / h)))

    def _rescue(self, careful: Runner, task: Task, out: Records, thorough: bool) -> Outcome:
        """One step by the careful way: from the usual guess, then from the last solution, then from zero; then shortened."""
        memory = self.memory
        last, before = memory.last.copy(), memory.before.copy()
        outcome = Outcome(0, 0, 0)
        shorter, zero = replace(task, rule=replace(task.rule, damped=True)), 0 * last
        ways = [(task, last, before), (task, last, last), (task, zero, zero), (shorter, last, before), (shorter, last, last)]
        for how, a, b in ways if thorough else ways[:1]:
            memory.last[:], memory.before[:] = a, b
            outcome = careful.run(memory, out, how)
            if outcome.failed < 0:
                memory.before[:] = last
                self.made, self.rescued, self._recent = self.made + 1, self.rescued + 1, self._recent + 1
                self._adapt()
                return outcome
        memory.last[:], memory.before[:] = last, before
        return outcome

    def _adapt(self) -> None:
        """Choose pivots anew where the careful way had to make many of the steps."""
        if self._recent >= RESCUES and self.rescued >= self.made // 10 and self._choices < CHOICES:
            self._recent, self._choices = 0, self._choices + 1
            self._change(self.ways.repivoted())

    def _change(self, ways: Ways) -> None:
        self.ways, self.runner = ways, ways.runner(self._compile, max(1, self._steps - self.made), self._pace)


class Shortened:
    """Steps from states of a run, shortened to end between them."""

    def __init__(self, ways: Ways, runner: Runner | None, inputs: Inputs, rule: Rule, par: Array) -> None:
        self.ways, self.runner, self.inputs, self.rule, self.par = ways, runner, inputs, rule, par
        self._row = room(ways.program, 1)
        self._asked: tuple[float, Array] | None = None

    def __call__(self, t: float, state: Array, h: float) -> Records:
        """One row: what a step of length `h` from there gives; it holds until the next call."""
        row, begun = self._row, self._begin(t, state, h)
        u = self.ways.step_inputs(self.inputs, t, 0, 1, h)
        for careful in (False, True):
            runner = self.ways.careful() if careful else self.runner
            if runner is None:
                continue
            row.work[:] = 0.0
            outcome = runner.run(begun.copy(), row, Task(t, h, self.rule, inputs=u))
            if outcome.failed < 0:
                return row
        raise ConvergenceError(
            f"between the steps, the motion after t = {t:g} could not be found: a step of {h:g} from there did not converge",
            t=t,
            step=h,
            residual=outcome.size,
        )

    def _begin(self, t: float, state: Array, h: float) -> Memory:
        """What a step from there begins with; many that differ in their length only are asked for one after the other."""
        if self._asked is None or t != self._asked[0] or not np.array_equal(state, self._asked[1]):
            self._begun = self.ways.start(self.settled(t, state, h), self.par, t, h)
            self._asked = t, state.copy()
        return self._begun

    def settled(self, t: float, state: Array, h: float) -> Array:
        """The state where such a step begins: after a jump of the inputs, where there is one."""
        out = state.copy()
        settle(self.ways, self.inputs, out, self.par, t, h)
        return out


class Equal:
    """Equal steps over a grid and a last shorter one, in chunks that are short enough to show progress and notice Ctrl-C."""

    def __init__(self, march: March, grid: Grid, explain: Explain) -> None:
        self.march, self.grid, self.explain = march, grid, explain
        self.total, self.done, self.iterations = grid.steps, 0, 0
        self._full, self._remainder = grid.full, grid.remainder
        self._unit, self._largest = march.ways.chunk
        self._chunk = min(self._unit << (QUICK if march.compiled else 0), self._largest)
        self._rows: Records | None = None
        self._plain = self._on = False  # whether the last call made all its steps; whether the next goes on amid a longer one
        self._warn()

    def _warn(self) -> None:
        """Say where steps cannot have their order: over a jump of the inputs inside of them."""
        inside = off_grid(self.march.inputs, self.grid.t0, self.grid.h, self.grid.t_end)
        if len(inside) and self.march.ways.stepwise:
            warnings.warn(
                f"u jumps inside of {len(inside)} steps of {self.grid.h:g}, first at t = {inside[0]:.9g}: these steps are of "
                "first order only; use a step that divides the times of u, or adaptive=True, whose steps end at the jumps",
                DalembertWarning,
                stacklevel=6,
            )

    @property
    def finished(self) -> bool:
        return self.done >= self.total

    @property
    def progress(self) -> int:
        return self.done

    def advance(self, run: Run, each: bool) -> Stretch | Written:
        """A chunk of steps: straight into the rows of the run, or into rows of their own where each is wanted."""
        grid, begin, march = self.grid, self.done, self.march
        every = 1 if each else grid.save_every
        if begin < self._full:  # chunks end at multiples of the unit, whatever their length: runs can be repeated
            most = LONGEST if each else min(self._largest, run.space(self._unit))
            steps = min(self._chunk - begin % self._unit, self._full - begin, most)
            task = march.task(grid.h, t0=grid.t0, first=begin, steps=steps, every=every, look=not self._on)
        else:  # it ends the last row
            task = march.task(self._remainder, t0=grid.t0 + begin * grid.h)
        out = self._own(task.steps, run.records.unknowns is not None) if each else run.ahead()
        made = self._take(task, out)
        return Stretch(grid.times(np.arange(begin, begin + made + 1)), out.rows(0, made)) if each else Written(made)

    def _own(self, steps: int, unknowns: bool) -> Records:
        """Rows that are read before the next call; the same ones for all, since fresh memory costs more than steps."""
        if self._rows is None or len(self._rows.state) < steps:
            self._rows = room(self.march.ways.program, steps, unknowns)
        self._rows.work[:steps] = 0.0
        return self._rows.rows(0, steps)

    def _take(self, task: Task, out: Records) -> int:
        before, rescued = time.perf_counter(), self.march.rescued
        outcome = self.march.take(task, out)
        if not outcome.steps:
            raise self._failure(task.h, outcome)
        self._plain, self._on = outcome.failed < 0 and self.march.rescued == rescued, False
        self.done += outcome.steps
        self.iterations += outcome.iterations
        taken = time.perf_counter() - before
        if taken < 0.1:
            self._chunk = min((2 if taken > 0.01 else 4) * self._chunk, self._largest)
        return outcome.steps

    def _failure(self, h: float, outcome: Outcome) -> DalembertError:
        """Why a step could not be made: what is wrong with the model there, or with Newton's iteration."""
        t = self.grid.t0 + self.done * self.grid.h
        reason = self.explain(self.march.memory, t, h)
        if reason is not None:
            return reason
        size, count = outcome.size, self.march.rule.max_iterations
        what = "became nan" if not np.isfinite(size) else f"is still off by {size:.1e} (relative) after {count} iterations"
        remedy = "use a smaller step" if count >= 10 else "allow more with max_iterations, or use a smaller step"
        return ConvergenceError(
            f"step {self.done + 1} of {self.total} did not converge: from t = {t:g} with h = {h:g}, "
            f"Newton's iteration {what}; {remedy} (error.solution holds the {self.done} steps before)",
            t=t,
            step=h,
            residual=float(size),
        )

    def resume(self, stand: Stand) -> None:
        self.march.resume(stand)
        self.done, self.iterations = stand.done, int(stand.notes.get("iterations", 0))
        self._on = bool(stand.notes.get("ended")) and self.done % self._unit > 0 and not isinstance(self.march.runner, Swept)

    def notes(self) -> Notes:
        # a longer run would not look at the model at this end of the grid, nor does one that goes on from it
        ended = self._plain and self.done == self.total == self._full and not len(self.march.inputs.jumps)
        return {**self.march.notes(), "iterations": self.iterations, "ended": float(ended)}

    def stats(self) -> dict[str, Stat]:
        return {"iterations": self.iterations}
