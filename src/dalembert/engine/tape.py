"""The steps of a run in either direction, with the unknowns of each: kept, or made again from places in between.

Of a run whose rows are at most `KEPT` bytes all are kept, also where few of them are stored. Of a longer one only where it stood
at `N / L` places (Griewank 1992, with two levels): the `L` steps from such a place are made again when a sweep comes to them,
which costs one more run and gives the same bits, since chunks begin at multiples of the engine's unit. With `L` of the size of
`sqrt(N)` or larger, what is held at once grows as `sqrt(N)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dalembert.engine import driver
from dalembert.engine.case import Case
from dalembert.engine.inputs import slack
from dalembert.engine.machine import Memory, Records
from dalembert.engine.newton import Array, Rule
from dalembert.engine.program import WEIGH_EVERY
from dalembert.engine.run import Grid, Run, Stand, Stretch
from dalembert.engine.runners import Engine, step_inputs
from dalembert.engine.steps import March
from dalembert.errors import ConvergenceError

KEPT = 1 << 26  # bytes of a run whose rows are all kept
SEGMENT = 1 << 21  # bytes of the rows between two places of a longer one: they stay in the cache


@dataclass(frozen=True)
class Rows:
    """Steps in a row of one length: the states before and after each, its unknowns, the time at which it begins, its inputs."""

    first: int  # steps of the run before these
    before: Array
    after: Array
    unknowns: Array
    t: Array
    h: float
    u: Array
    par: Array
    nodes: tuple[float, ...]  # of the inputs
    settled: bool = False  # no step, but what follows from the rest of a state found anew

    def __len__(self) -> int:
        return len(self.before)

    def __getitem__(self, part: slice) -> Rows:
        u = self.u[part] if len(self.u) > 1 else self.u
        before, after, unknowns = self.before[part], self.after[part], self.unknowns[part]
        return Rows(self.first + (part.start or 0), before, after, unknowns, self.t[part], self.h, u, self.par, self.nodes)

    @property
    def numbers(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The number of each step, from 1 on."""
        return np.arange(self.first + 1, self.first + len(self) + 1)


class Marks:
    """Where a run stood, at places at most `apart` steps from each other; a `Keeper` of the time loop."""

    window: int | None = None

    def __init__(self, start: Memory, apart: int) -> None:
        self.apart, self.stands = apart, [Stand(0, 0.0, start.copy())]

    def restore(self, run: Run) -> None:
        """There is nothing to begin with."""

    def due(self, run: Run) -> bool:
        """Always: where a run stands is little."""
        return True

    def write(self, run: Run) -> None:
        """Keep where the run stands, in place of the last one where that leaves no gap too long."""
        if len(self.stands) > 1 and run.done - self.stands[-2].done <= self.apart:
            self.stands.pop()
        self.stands.append(run.at)


class Tape:
    """A run that was made, and its rows."""

    def __init__(self, case: Case, grid: Grid, rule: Rule, compile: bool | str, progress: bool | None) -> None:
        self.case, self.grid, self._rule, self._compile = case, grid, rule, compile
        self.engine = case.engine()
        p = self.program = self.engine.program
        self.start = case.state(p)
        row = 8 * (p.n_state + p.n_unknowns)
        jumps = self.engine.settle is not None and len(case.inputs.jumps) > 0
        self.keeps = grid.steps * row <= KEPT and not jumps
        self.apart = spacing(grid.steps, row)
        self.held = 0  # rows in memory at once, at most
        memory = self.engine.start(self.start, case.par, grid.t0, grid.h, case.guess())
        self._marks = Marks(memory, self.apart)
        every = replace(grid, save_every=1) if self.keeps else grid
        made = self._made(memory, every, progress)
        self._records, self.run = made.records, self._stored(made)

    def _stored(self, made: Run) -> Run:
        """A run with the rows that are to be stored, of one that has those of all steps or these."""
        if made.grid.save_every == self.grid.save_every:
            return made
        out = Run(self.grid, self.program, self.grid.rows)
        t = np.concatenate(((self.grid.t0,), made.times()))
        out.append(Stretch(t, replace(made.records.rows(0, made.rows), unknowns=None)), made.at)
        out.stats, out.error = made.stats, made.error
        return out

    def _made(self, memory: Memory, grid: Grid, progress: bool | None) -> Run:
        if self.grid.steps:
            self.engine.runner(self._compile, self.grid.steps)  # made once, for the engine and its copy
        ways: Engine = self.engine if self.keeps else self.engine.in_chunks(self.apart)
        return driver.integrate(
            ways, memory, grid, self.case.inputs, rule=self._rule, compile=self._compile, progress=progress,
            unknowns=self.keeps, checkpoint=None if self.keeps else self._marks,
            explain=lambda there, t, h: self.case.explain(self.program, there.state, t, h),
        )  # fmt: skip

    @property
    def places(self) -> int:
        """Places that the run can be made again from."""
        return len(self._marks.stands)

    def segments(self, backwards: bool = False) -> Iterator[Rows]:
        """All steps of the run, many at a time. Rows hold until the next ones are asked for."""
        first = [self._settled(0, self.start, self.start)] if self._begins else []
        yield from [] if backwards else first
        yield from self._again(backwards) if not self.keeps else self._kept(backwards)
        yield from first if backwards else []

    @property
    def _begins(self) -> bool:
        """Whether a part of the state at the start was found from the rest."""
        return "lam" in self.program.step.start.values() and self.case.system.m > 0 and self.case.lam is None

    def _settled(self, first: int, before: Array, after: Array) -> Rows:
        """What follows from the rest of a state, found anew."""
        h = self.grid.h if first < self.grid.full else self.grid.remainder
        t = np.array([self.grid.t0 + first * self.grid.h])
        u = self.case.inputs.within(t, t, t + h)
        return Rows(first, before[None], after[None], np.zeros((1, 0)), t, h, u, self.case.par, (0.0,), True)

    def _kept(self, backwards: bool) -> Iterator[Rows]:
        cuts = [*range(0, self.grid.full, self.apart), *([self.grid.full] if self.grid.remainder > 0 else [])]
        spans = list(pairwise([*cuts, self.grid.steps]))
        self.held = self.grid.steps
        for begin, end in reversed(spans) if backwards else spans:
            state, unknowns = self._records.state, self._records.unknowns
            assert unknowns is not None
            before = state[begin - 1 : end - 1] if begin else np.vstack([self.start, state[: end - 1]])
            yield self._rows(begin, before, state[begin:end], unknowns[begin:end])

    def _rows(self, first: int, before: Array, after: Array, unknowns: Array) -> Rows:
        grid, short = self.grid, first >= self.grid.full
        h = grid.remainder if short else grid.h
        t = np.asarray(grid.t0 + np.arange(first, first + len(before)) * grid.h, dtype=np.float64)
        u = step_inputs(self.program, self.case.inputs, t, h)
        return Rows(first, before, after, unknowns, t, h, u, self.case.par, self.program.step.input_nodes)

    def _again(self, backwards: bool) -> Iterator[Rows]:
        stands = self._marks.stands
        spans = [(stand, end) for stand, end in zip(stands, [s.done for s in stands[1:]], strict=False) if end > stand.done]
        room = np.empty((self.apart + 1, self.program.n_state))
        out = Records.empty(self.program, self.apart, unknowns=True)
        out.state = room[1:]
        self.held = self.apart + len(stands)
        for stand, end in reversed(spans) if backwards else spans:
            parts = self._segment(stand, end, room, out)
            yield from reversed(parts) if backwards else parts

    def _jumps(self, done: int) -> bool:
        """Whether inputs jump after so many steps, and the state with them."""
        jumps, t = self.case.inputs.jumps, self.grid.t0 + done * self.grid.h
        return self.engine.settle is not None and bool(np.any(np.abs(jumps - t) <= slack(t, t + self.grid.h)))

    def _segment(self, stand: Stand, end: int, room: Array, out: Records) -> list[Rows]:
        """Steps from a place on, made again: in parts, where inputs jump or a step is of another length."""
        assert stand.memory is not None
        memory, grid, begin = stand.memory.copy(), self.grid, stand.done
        march = March(self.engine, memory, self.case.inputs, self._rule, self._compile, grid.steps)
        march.resume(stand)
        out.work[:] = 0.0
        room[0], done, parts = memory.state, begin, []
        while done < end:
            if done < grid.full:
                task = march.task(grid.h, t0=grid.t0, first=done, steps=min(end, grid.full) - done)
            else:
                task = march.task(grid.remainder, t0=grid.t0 + done * grid.h)
            at, before = done - begin, room[done - begin]
            settled = memory.state.copy()
            made = march.take(task, out.rows(at, at + task.steps)).steps
            if not made:
                raise ConvergenceError(
                    f"step {done + 1} could not be made again", t=grid.t0 + done * grid.h, step=task.h, residual=np.nan
                )
            rows = slice(at, at + made)
            states = room[rows]
            if self._jumps(done):
                parts.append(self._settled(done, before.copy(), settled))
                states = np.vstack([settled, states[1:]])
            assert out.unknowns is not None
            parts.append(self._rows(done, states, out.state[rows], out.unknowns[rows]))
            done += made
        return parts


def spacing(steps: int, row: int) -> int:
    """Steps between two places, at most, for rows of so many bytes: a multiple of those after which the engine looks at sizes."""
    wanted = min(max(SEGMENT // row, math.isqrt(steps)), max(1, steps))
    return -(-wanted // WEIGH_EVERY) * WEIGH_EVERY
