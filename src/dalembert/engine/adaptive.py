"""Steps of varying length: a controller tries steps until it accepts one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dalembert.engine.machine import Records
from dalembert.engine.run import STRETCH, Array, Grid, Notes, Run, Stand, Stat, Stretch, resolution
from dalembert.engine.steps import Explain, March, room
from dalembert.errors import StepTooSmall

PROGRESS = 1000  # the number of parts in which the length of the run is shown


class Adaptive:
    """Single steps of any length. A controller tries them and takes them back; what stands when it returns is accepted.

    Controllers see `try_step`, `back`, `limit`, `part` and `notes` alone, so that each serves every method.
    """

    total = PROGRESS

    def __init__(self, march: March, grid: Grid, control: Callable[[Adaptive], None], explain: Explain) -> None:
        self.march, self.grid, self.control, self.explain = march, grid, control, explain
        self._fields, self.memory = march.ways.program.fields, march.memory
        self._t = grid.t0
        self.done = self.iterations = self.rejected = 0
        self.shortest, self.longest = np.inf, 0.0
        self.size = np.nan  # of Newton's last change in a step that failed
        self.carried: Notes = {}  # what a controller carries from step to step
        self._rows: Records = room(march.ways.program, 4)
        self._tried: list[tuple[float, float, int]] = []  # length, time after it, and iterations of each step that was tried
        self._hold()

    def _hold(self) -> None:
        self._held = (self._t, self.memory.copy())

    # ---- for controllers --------------------------------------------------------------------------------

    @property
    def t(self) -> float:
        """The time after the steps that were tried."""
        return self._t

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

    def try_step(self, h: float) -> bool:
        """One step of length `h`; False where Newton's iteration fails (then `back` undoes what was tried)."""
        k = len(self._tried)
        if k == len(self._rows.state):
            r, more = self._rows, room(self.march.ways.program, k)
            self._rows = Records(*(np.concatenate(p) for p in ((r.state, more.state), (r.lam, more.lam), (r.work, more.work))))
        row = self._rows.rows(k, k + 1)
        row.work[:] = 0.0
        outcome = self.march.take(self.march.task(h, t0=self._t), row, thorough=False)
        if not outcome.steps:
            self.size = outcome.size
            return False
        t, end = self._t + h, self._stop()
        self._t = end if abs(t - end) <= 4e-16 * max(abs(t), abs(end)) else t
        self._tried.append((h, self._t, outcome.iterations))
        return True

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

    def advance(self, run: Run, each: bool) -> Stretch:
        """The steps that the controller accepts next."""
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
        return {**self.march.notes(), **own, **lengths, **{f"control.{name}": x for name, x in self.carried.items()}}

    def stats(self) -> dict[str, Stat]:
        return {
            "iterations": self.iterations,
            "rejected": self.rejected,
            "shortest_step": float(self.shortest) if np.isfinite(self.shortest) else 0.0,
            "longest_step": float(self.longest),
        }
