"""The times of a run and its record: rows are appended by the loop alone, everyone else reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dalembert.engine.elimination import Order
from dalembert.engine.machine import Memory, Records

Array = NDArray[np.float64]
Stat = float | int | str | bool  # an entry of the statistics of a run
Notes = dict[str, float]
Pivots = tuple[Order, ...]  # of each solve
STRETCH = 1e-4  # of its length by which a last step may be longer
SAME = 4e-16  # of a time: what adding a step to it may be off by
LIKE = 2.0  # times by which a step may be longer or shorter than one whose sizes of unknowns it takes over
ADVANCES = 1e-13  # of the time: the least step by which it advances well above its rounding
_ROWS = 256  # rows of a record whose length is not known beforehand, at first


class Point(Protocol):
    """What a record must know of a step: where inside it the multipliers are defined, and how what it carries begins."""

    @property
    def node(self) -> float: ...
    @property
    def start(self) -> Mapping[str, str]: ...


class Layout(Protocol):
    """Sizes of what a step leaves behind, and where its parts are in the state. A `Program` is one."""

    fields: dict[str, slice]
    n_state: int
    n_lam: int
    n_unknowns: int

    @property
    def step(self) -> Point: ...


def measured(layout: Layout) -> NDArray[np.int64]:
    """The entries of the state whose error is measured: not algebraic variables, and not what a method carries along."""
    own = {name: place for name, place in layout.fields.items() if name != "z" and name not in layout.step.start}
    places = [np.arange(place.start, place.stop) for place in own.values()]
    return np.concatenate([np.zeros(0, int), *places])


def resolution(*times: float) -> float:
    """What times of this size are known to: a few units in the last place."""
    return 4 * math.ulp(max(map(abs, times)))


@dataclass(frozen=True)
class Grid:
    """Times are counted, never accumulated: step k begins at `t0 + k h`; a last one of another length ends at `t_end`.

    Where the step does not divide the time, the last one is shorter; a little longer (by `STRETCH` at most), rather than tiny.
    """

    t0: float
    t_end: float
    h: float
    save_every: int = 1
    full: int = field(init=False, repr=False, compare=False)  # steps of full length
    remainder: float = field(init=False, repr=False, compare=False)  # the length of a last one of another length, or zero
    steps: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        full = self._full()
        left = self.t_end - (self.t0 + full * self.h)
        remainder = left if left > resolution(self.t0, self.t_end) else 0.0
        for name, value in (("full", full), ("remainder", remainder), ("steps", full + (remainder > 0))):
            object.__setattr__(self, name, value)

    def _full(self) -> int:
        ratio = (self.t_end - self.t0) / self.h
        nearest = round(ratio)
        over = self.t_end - (self.t0 + nearest * self.h)
        if abs(over) <= resolution(self.t0, self.t_end):
            return nearest
        return max(0, nearest - 1) if over <= STRETCH * self.h else nearest

    @property
    def rows(self) -> int:
        """Number of the steps after which a row is saved."""
        return -(-self.steps // self.save_every)

    @cached_property
    def saved(self) -> NDArray[np.int64]:
        """Numbers of the steps after which a row is saved; the last step always is."""
        rows = np.arange(self.save_every, self.steps + 1, self.save_every)
        return rows if self.steps == 0 or (len(rows) and rows[-1] == self.steps) else np.append(rows, self.steps)

    def times(self, numbers: NDArray[np.int64]) -> Array:
        """The time after each of these steps."""
        out = np.asarray(self.t0 + numbers * self.h)
        out[numbers == self.steps] = self.t_end
        return out

    def nodes(self, numbers: NDArray[np.int64], node: float) -> Array:
        """The time of a node of each of these steps."""
        start = self.t0 + (numbers - 1) * self.h
        return np.asarray(start + node * (self.times(numbers) - start))


@dataclass(frozen=True)
class Stretch:
    """Steps in a row, not yet recorded: the time before the first and after each, and a row of `rows` for each."""

    t: Array
    rows: Records

    def __len__(self) -> int:
        return len(self.t) - 1

    def cut(self, steps: int) -> Stretch:
        """The first of these steps."""
        return Stretch(self.t[: steps + 1], self.rows.rows(0, steps))


@dataclass(frozen=True)
class Written:
    """Steps that were written into the rows `ahead()` of a run.

    `times` are those before and after the last step of each row, where they are not the ones of the grid.
    """

    steps: int
    times: tuple[Array, Array] | None = None


@dataclass(frozen=True)
class Stand:
    """Where a run stands after the last step that is recorded: all that is needed to go on from there.

    It is replaced as a whole: an interrupt comes before that or after it, and what is written belongs together.
    """

    done: int
    now: float  # the time after that step
    memory: Memory | None = None
    notes: Notes = field(default_factory=dict)  # what the steps to come need to know beside the memory
    pivots: Pivots | None = None
    loose: tuple[Records, float, float] | None = None  # the row that is not complete, its time, that of its multipliers


class Run:
    """What a run left behind, complete or not.

    Every `save_every`-th step is a row, and the last step that was made, whether or not the run came to its end. Work is added
    up in between. The loop is the only owner: it appends, others read.

    With a `window`, it is the memory of a longer run: who keeps the rows elsewhere drops them here.
    """

    def __init__(
        self, grid: Grid, layout: Layout, rows: int | None = None, *, unknowns: bool = False, window: int | None = None
    ) -> None:
        self.grid, self._node = grid, layout.step.node
        self._fixed = rows is not None and window is None
        size = _ROWS if rows is None else rows if window is None else min(rows, window)
        self.records = Records.empty(layout, size, unknowns)  # type: ignore[arg-type]  # it reads the sizes alone
        self._t, self._t_lam = np.empty(size), np.empty(size)
        self.first = 0  # rows of the run that were dropped
        self._before: tuple[float, Array] | None = None  # time and state of the last of them
        self.at = Stand(0, grid.t0)
        self._cut: int | None = None  # rows that count, where an error was found in those after them
        self._table: tuple[tuple[Stand, int, int], tuple[Array, Array]] | None = None  # the last one that was asked for
        self.error: BaseException | None = None
        self.stats: dict[str, Stat] = {}

    # ---- reading ----------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Steps that are recorded."""
        return self.at.done

    @property
    def now(self) -> float:
        """The time after the last step that is recorded."""
        return self.at.now

    @property
    def rows(self) -> int:
        """Rows here that count, the one of the last step included."""
        return -(-self.done // self.grid.save_every) - self.first if self._cut is None else self._cut

    @property
    def complete(self) -> int:
        """Rows here to which no further step belongs."""
        return self.done // self.grid.save_every - self.first

    def times(self) -> Array:
        """The times of the rows."""
        return self._t[: self.rows]

    def table(self, start: Array) -> tuple[Array, Array]:
        """Times and states, those of the start first, or of the last row that was dropped."""
        of = self.at, self.first, self.rows
        if self._table is None or self._table[0][0] is not of[0] or self._table[0][1:] != of[1:]:
            t, state = self._before or (self.grid.t0, start)
            states = np.concatenate((state[None], self.records.state[: self.rows]))
            self._table = of, (np.concatenate(((t,), self.times())), states)
        return self._table[1]

    def nodes(self, node: float | None = None) -> Array:
        """The times at which the multipliers of the rows are defined; those of the method's own `node`, which is recorded."""
        return self._t_lam[: self.rows]

    # ---- recording --------------------------------------------------------------------------------------

    def ahead(self, rows: int = 0) -> Records:
        """The rows from that of the next step on, so many at least, for a runner that writes into them itself."""
        self._reserve(self.complete + rows)
        return self.records.rows(self.complete, len(self.records.state))

    def space(self, unit: int) -> int:
        """Steps for which there are rows `ahead()`: up to a multiple of the unit, where the run goes on after them."""
        end = (self.first + len(self.records.state)) * self.grid.save_every
        return (end if end >= self.grid.steps else end - end % unit) - self.done

    def drop(self, rows: int) -> None:
        """Forget rows that are kept elsewhere, the first ones here."""
        if rows <= 0:
            return
        left, r = self.rows - rows, self.records
        self._before = float(self._t[rows - 1]), r.state[rows - 1].copy()
        for a in (r.state, r.lam, r.work, self._t, self._t_lam, *(() if r.unknowns is None else (r.unknowns,))):
            a[:left] = a[rows : rows + left].copy()
        r.work[left:] = 0.0  # work is added up there
        self.first += rows

    def written(self, made: Written, stand: Stand | None = None) -> None:
        """Record steps that were written into `ahead()`; the run now stands there."""
        grid, every, done = self.grid, self.grid.save_every, self.done + made.steps
        if made.times is not None:
            begin, t = made.times
        else:
            numbers = np.arange(self.done // every + 1, -(-done // every) + 1)
            if every > 1:
                numbers *= every
                numbers[-1] = done  # a row that is not complete holds the last step
            begin, t = np.asarray(grid.t0 + (numbers - 1) * grid.h), np.asarray(grid.t0 + numbers * grid.h)
            if done == grid.steps:
                t[-1] = grid.t_end
        self._mark(self.complete, begin, t)
        self._go(done, float(t[-1]), stand)

    def append(self, stretch: Stretch, stand: Stand | None = None) -> None:
        """Record steps; where not every step is a row, work is added up. The run now stands behind them."""
        steps, every, done = len(stretch), self.grid.save_every, self.done + len(stretch)
        if not steps:
            return
        first, end = self.complete, -(-done // every) - self.first
        self._reserve(end)
        r, new = self.records, stretch.rows
        last: slice | NDArray[np.int64] = slice(0, steps)  # of the steps of each row
        if every == 1:
            r.work[first:end] = new.work
        else:
            last = np.minimum(every * (self.first + np.arange(first + 1, end + 1)), done) - self.done - 1
            if new.work.any():
                rows = np.arange(self.done, done) // every - self.first
                np.add.at(r.work, rows, new.work)  # one by one: however they come
        r.state[first:end], r.lam[first:end] = new.state[last], new.lam[last]
        if r.unknowns is not None and new.unknowns is not None:
            r.unknowns[first:end] = new.unknowns[last]
        self._mark(first, stretch.t[:-1][last], stretch.t[1:][last])
        self._go(done, float(stretch.t[-1]), stand)

    def _mark(self, first: int, begin: Array, t: Array) -> None:
        """The times of rows and of their multipliers, by those before and after the last step of each."""
        rows = slice(first, first + len(t))
        self._t[rows], self._t_lam[rows] = t, begin + self._node * (t - begin)

    def _go(self, done: int, now: float, stand: Stand | None) -> None:
        row, part = divmod(done - self.first * self.grid.save_every, self.grid.save_every)
        loose = (self.records.row(row), float(self._t[row]), float(self._t_lam[row])) if part else None
        stand = stand or self.at
        self.at = Stand(done, now, stand.memory, stand.notes, stand.pivots, loose)

    def _reserve(self, rows: int) -> None:
        """Make room for so many rows, where their number is not known beforehand."""
        have = len(self._t)
        if self._fixed or rows <= have:
            return
        more = max(have, rows - have)

        def longer(a: Array) -> Array:
            out = np.zeros((have + more, *a.shape[1:]))  # pages that are not written to cost nothing
            out[:have] = a
            return out

        r = self.records
        self.records = Records(longer(r.state), longer(r.lam), longer(r.work))
        self._t, self._t_lam = longer(self._t), longer(self._t_lam)

    def close(self) -> None:
        """Take back what steps that are not recorded have left in the last row."""
        if self.at.loose is not None:
            row, (records, t, t_lam) = self.complete, self.at.loose
            self.records.put(row, records)
            self._t[row], self._t_lam[row] = t, t_lam

    def fail(self, error: BaseException, rows: int | None = None) -> None:
        """An error ends the run, after so many rows."""
        self.error, self._cut = error, rows

    def restore(
        self, t: Array, t_lam: Array, rows: Records, stand: Stand, before: tuple[float, Array] | None = None, first: int = 0
    ) -> None:
        """Begin with the rows of an earlier part of the same run, or with the last of them: there are `first` ones `before`."""
        self.first, self._before, count = first, before, len(t)
        self._reserve(count)
        self.records.put(0, rows)
        self._t[:count], self._t_lam[:count] = t, t_lam
        now = float(t[-1]) if count else before[0] if before else self.grid.t0
        self._go(stand.done, now, stand)
