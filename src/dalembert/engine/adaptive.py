"""Steps of varying length: a controller tries steps until it accepts one.

Where the step is compiled, the controller is too, and steps come in chunks; what stands after each accepted step is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dalembert.engine.controlled import Controlled, Plan, possible
from dalembert.engine.inputs import Inputs
from dalembert.engine.machine import Records
from dalembert.engine.native import Native
from dalembert.engine.program import WEIGH_EVERY
from dalembert.engine.run import LIKE, SAME, STRETCH, Array, Grid, Notes, Run, Stand, Stat, Stretch, Written, measured, resolution
from dalembert.engine.steps import LONGEST, Explain, March, room
from dalembert.engine.values import Values
from dalembert.engine.walking import SINGLE, Pace
from dalembert.errors import CompilerError, StepTooSmall

PROGRESS = 1000  # the number of parts in which the length of the run is shown
CHUNK = 64  # steps of a native call at first
LARGEST = 1 << 16  # and at most, where they are written into the run


@dataclass(frozen=True)
class Bound:
    """A controller bound to a system and a method: it makes the steps that are accepted next. `plan` is the same for C."""

    step: Callable[[Adaptive], None]
    plan: Plan

    def __call__(self, walk: Adaptive) -> None:
        self.step(walk)


def plan_of(control: Callable[[Adaptive], None] | None, inputs: Inputs) -> Plan | None:
    """A controller as the loop in C knows it, where that can serve a run with these inputs."""
    return control.plan if isinstance(control, Bound) and possible(inputs) else None


def pace_of(control: Callable[[Adaptive], None] | None, inputs: Inputs) -> Pace:
    """The loop that goes with a controller."""
    plan = plan_of(control, inputs)
    return SINGLE if plan is None else plan.pace


class Adaptive:
    """Single steps of any length. A controller tries them and takes them back; what stands when it returns is accepted.

    Controllers see `try_step`, `back`, `limit`, `part` and `notes` alone, so that each serves every method.
    """

    total = PROGRESS

    def __init__(
        self, march: March, grid: Grid, control: Callable[[Adaptive], None], explain: Explain, watch: Values | None = None
    ) -> None:
        self.march, self.grid, self.control, self.explain = march, grid, control, explain
        self._fields, self.memory = march.ways.program.fields, march.memory
        self._measured = measured(march.ways.program)
        self._t = grid.t0
        self.done = self.iterations = self.rejected = 0
        self.shortest, self.longest = np.inf, 0.0
        self.size = np.nan  # of Newton's last change in a step that failed
        self.carried: Notes = {}  # what a controller carries from step to step
        self._rows: Records = room(march.ways.program, 4)
        self._tried: list[tuple[float, float, int]] = []  # length, time after it, and iterations of each step that was tried
        self._hold()
        self._plan = plan_of(control, march.inputs)
        self._watch = watch
        self._loop: Controlled | None = None
        self._chunk = CHUNK
        self._asked = False  # whether the next step is not one for C

    def _hold(self) -> None:
        self._held = (self._t, self.memory.copy())

    # ---- for controllers --------------------------------------------------------------------------------

    @property
    def t(self) -> float:
        """The time after the steps that were tried."""
        return self._t

    @property
    def measured(self) -> Array:
        """What of the state after the steps that were tried has an error that is measured."""
        return self.memory.state[self._measured]

    def part(self, name: str) -> Array:
        """A part of the state after the steps that were tried, by name: `q`, `v` or `p`."""
        return self.memory.state[self._fields[name]]

    def limit(self, h: float) -> float:
        """`h`, or what is left to the end or to the next jump of the inputs; a little more, rather than a tiny last step."""
        stop = self._stop()
        left = stop - self._t
        return left if left - h <= max(STRETCH * h, 2 * resolution(stop)) else h

    def _stop(self) -> float:
        """Where steps have to end next."""
        return self.march.inputs.next_jump(self._t, self.grid.t_end)

    def try_step(self, h: float, pace: float | None = None) -> bool:
        """One step of length `h`; False where Newton's iteration fails (then `back` undoes what was tried).

        `pace` is the length of the steps that are kept, where this one is tried for comparison only: it takes over what is known.
        """
        known, pace = pace is not None and self.memory.kept[-1] > 0, h if pace is None else pace
        k = len(self._tried)
        if k == len(self._rows.state):
            r, more = self._rows, room(self.march.ways.program, k)
            self._rows = Records(*(np.concatenate(p) for p in ((r.state, more.state), (r.lam, more.lam), (r.work, more.work))))
        row = self._rows.rows(k, k + 1)
        row.work[:] = 0.0
        look, kept, rescued = not known and self._look(pace), self.memory.kept, self.march.rescued
        outcome = self.march.take(self.march.task(h, t0=self._t, look=look), row, thorough=False)
        if not outcome.steps:
            self.size = outcome.size
            return False
        if self.march.rescued > rescued:
            kept[:] = 0.0  # the careful way has sizes of its own
        else:
            kept[-2:] = (pace, 1) if look else (kept[-2], kept[-1] + 1)
        t, end = self._t + h, self._stop()
        self._t = end if abs(t - end) <= SAME * max(abs(t), abs(end)) else t
        self._tried.append((h, self._t, outcome.iterations))
        return True

    def _look(self, h: float) -> bool:
        """Whether a step looks at the model anew: now and then, and where its length is another."""
        length, since = self.memory.kept[-2:]
        return not (since < WEIGH_EVERY and length <= LIKE * h and h <= LIKE * length)

    def back(self, *, rejected: bool = True) -> None:
        """Undo what was tried since the last accepted step."""
        self._t, held = self._held
        self.memory.put(held)
        self.rejected += rejected
        self._tried.clear()

    def fail(self, h: float, smallest: float, why: str) -> StepTooSmall:
        """The error of a controller that has reached its lower bound."""
        return StepTooSmall(
            f"at t = {self._t:g} the step would have to be smaller than the smallest allowed, {smallest:.3g}: {why}; allow a "
            f"smaller one, loosen the tolerance, or use another method (error.solution holds the {self.done} steps before)",
            t=self._t,
            step=h,
            residual=float(self.size),
        )

    # ---- for the loop -----------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        return self._t >= self.grid.t_end

    @property
    def progress(self) -> int:
        return int(PROGRESS * (self._t - self.grid.t0) / (self.grid.t_end - self.grid.t0))

    def advance(self, run: Run, each: bool) -> Stretch | Written:
        """The steps that the controller accepts next: a chunk by the loop in C, or those of one decision."""
        loop = None if self._asked or not self.carried else self._compiled(each)
        made = self._many(loop, run, each) if loop is not None else None
        self._asked = self._asked and made is not None
        return self._few() if made is None else made

    def _compiled(self, each: bool) -> Controlled | None:
        """The loop in C, where there is one for all that the run asks for."""
        march, plan = self.march, self._plan
        if plan is None or not isinstance(march.runner, Native) or (each and self._watch is None):
            return None
        if self._loop is None or self._loop.native is not march.runner:
            settles = march.ways.settle is not None
            try:
                self._loop = Controlled(
                    march.runner, plan, self.grid, march.inputs, march.rule, self.memory, self._watch, settles
                )
            except CompilerError:  # what cannot be compiled is done here
                self._plan = None
        return self._loop if self._plan else None

    def _many(self, loop: Controlled, run: Run, each: bool) -> Stretch | Written | None:
        """A chunk of accepted steps; None where the first is one to be made here."""
        begun, begin, steps = time.perf_counter(), self._t, self._chunk
        every, before = (1, 0) if each else (self.grid.save_every, self.done)
        if each and len(self._rows.state) < steps + 2:
            self._rows = room(self.march.ways.program, steps + 2)
        rows = self._rows if each else run.ahead(steps // every + 3)
        if each:
            rows.work[:] = 0.0  # it is added up there, and rows are used again
        lengths = self.shortest, self.longest
        made, self.carried, (self.shortest, self.longest) = loop.run(begin, self.carried, lengths, rows, steps, every, before)
        self._asked = made.ask
        if made.steps >= steps and time.perf_counter() - begun < 0.1:
            self._chunk = min(2 * steps, LONGEST if each else LARGEST)
        if not made.steps:
            return None
        self._t = float(made.t[-1])
        self.done, self.iterations = self.done + made.steps, self.iterations + made.iterations
        self.rejected, self.march.made = self.rejected + made.rejected, self.march.made + made.made
        self._hold()
        if each:
            return Stretch(np.concatenate(((begin,), made.t)), rows.rows(0, made.steps))
        return Written(made.steps, (made.begin, made.t))

    def _few(self) -> Stretch:
        """The steps that the controller accepts next, one decision of its own."""
        try:
            self.control(self)
        except StepTooSmall as error:
            self.back(rejected=False)
            raise (self.explain(self.memory, self._t, error.step) or error) from None
        except BaseException:
            self.back(rejected=False)
            raise
        steps, times, iterations = zip(*self._tried, strict=True)
        t = np.array((self._held[0], *times))
        self.done += len(times)
        self.iterations += sum(iterations)
        self.shortest, self.longest = min(self.shortest, *steps), max(self.longest, *steps)
        self._tried.clear()
        self._hold()
        return Stretch(t, self._rows.rows(0, len(times)))

    def resume(self, stand: Stand) -> None:
        self.march.resume(stand)
        self.done, notes = stand.done, stand.notes
        self.carried = {name.removeprefix("control."): x for name, x in notes.items() if name.startswith("control.")}
        self._t = notes["t"]
        self.iterations, self.rejected = int(notes["iterations"]), int(notes["rejected"])
        self.shortest, self.longest = notes["shortest"], notes["longest"]
        self._hold()

    def notes(self) -> Notes:
        own = {"t": self._t, "iterations": self.iterations, "rejected": self.rejected}
        lengths = {"shortest": float(self.shortest), "longest": float(self.longest)}
        control = {f"control.{name}": x for name, x in self.carried.items()}
        return {**self.march.notes(), **own, **lengths, **control}

    def stats(self) -> dict[str, Stat]:
        return {
            "iterations": self.iterations,
            "rejected": self.rejected,
            "shortest_step": float(self.shortest) if np.isfinite(self.shortest) else 0.0,
            "longest_step": float(self.longest),
        }
