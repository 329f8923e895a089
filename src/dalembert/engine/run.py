"""The times of a run and its record: rows are appended by the loop alone, everyone else reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dalembert.engine.machine import Records

Array = NDArray[np.float64]
Stat = float | int | str | bool  # an entry of the statistics of a run
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


@dataclass(frozen=True)
class Grid:
    """Times are counted, never accumulated: step k begins at `t0 + k h`; a last shorter one ends at `t_end`."""

    t0: float
    t_end: float
    h: float
    save_every: int = 1

    @property
    def full(self) -> int:
        """Stat of steps of full length."""
        ratio = (self.t_end - self.t0) / self.h
        nearest = round(ratio)
        return nearest if abs(ratio - nearest) <= 1e-9 * ratio else int(ratio)

    @property
    def remainder(self) -> float:
        """Length of the last, shorter step; zero where the step divides the time."""
        ratio = (self.t_end - self.t0) / self.h
        if abs(ratio - round(ratio)) <= 1e-9 * ratio:
            return 0.0
        return self.t_end - (self.t0 + self.full * self.h)

    @property
    def steps(self) -> int:
        return self.full + (self.remainder > 0)

    @property
    def saved(self) -> NDArray[np.int64]:
        """Numbers of the steps after which a row is saved; the last step always is."""
        rows = np.arange(self.save_every, self.steps + 1, self.save_every)
        return rows if self.steps == 0 or (len(rows) and rows[-1] == self.steps) else np.append(rows, self.steps)

    def times(self, numbers: NDArray[np.int64]) -> Array:
        """The time after each of these steps."""
        return np.where(numbers == self.steps, self.t_end, self.t0 + numbers * self.h)

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

    def last(self) -> Stretch:
        """The last of these steps, copied; its work is not."""
        k, r = len(self) - 1, self.rows
        unknowns = None if r.unknowns is None else r.unknowns[k:].copy()
        return Stretch(self.t[k:], Records(r.state[k:].copy(), r.lam[k:].copy(), r.work[k:], unknowns))


class Run:
    """What a run left behind, complete or not.

    Every `save_every`-th step is a row, and the last step of a run that came to its end. Work is added up in between; that of a
    row which is not complete is `pending`. The loop is the only owner: it appends, others read.
    """

    def __init__(self, grid: Grid, layout: Layout, rows: int | None = None, *, unknowns: bool = False) -> None:
        self.grid, self._node = grid, layout.step.node
        self._fixed = rows is not None
        size = _ROWS if rows is None else rows
        self.records = Records.empty(layout, size, unknowns)  # type: ignore[arg-type]  # it reads the sizes alone
        self._t, self._t_lam = np.empty(size), np.empty(size)
        self.rows = self.done = 0
        self.now = grid.t0  # the time after the last step that is recorded, in a row or in the work of the next
        self.pending = (0.0, 0.0)  # work since the last complete row
        self.notes: dict[str, float] = {}  # what the steps to come need to know beside the state
        self.error: BaseException | None = None
        self.stats: dict[str, Stat] = {}
        self._loose: Stretch | None = None  # the last step, where it is not a row

    # ---- reading ----------------------------------------------------------------------------------------

    def times(self) -> Array:
        """The times of the rows."""
        return self._t[: self.rows]

    def nodes(self, node: float | None = None) -> Array:
        """The times at which the multipliers of the rows are defined; those of the method's own `node`, which is recorded."""
        return self._t_lam[: self.rows]

    # ---- recording --------------------------------------------------------------------------------------

    def ahead(self) -> Records:
        """The rows from that of the next step on, for a runner that writes every `save_every`-th step into them itself."""
        return self.records.rows(self.rows, len(self.records.state))

    def written(self, steps: int) -> None:
        """So many steps of the grid were written into `ahead()`."""
        grid, rows = self.grid, (self.done + steps) // self.grid.save_every
        numbers = grid.save_every * np.arange(self.rows + 1, rows + 1)
        begin = np.asarray(grid.t0 + (numbers - 1) * grid.h, dtype=np.float64)
        self._mark(slice(self.rows, rows), begin, grid.times(numbers))
        self.rows, self.done, self.now = rows, self.done + steps, grid.t0 + (self.done + steps) * grid.h
        self._note()

    def _mark(self, rows: slice, begin: Array, t: Array) -> None:
        """The times of rows and of their multipliers, by those before and after the last step of each."""
        self._t[rows], self._t_lam[rows] = t, begin + self._node * (t - begin)

    def _note(self) -> None:
        """Keep the work of the row that is not complete: a call that is interrupted may leave some more in its place."""
        work = self.records.work
        self.pending = (float(work[self.rows, 0]), float(work[self.rows, 1])) if self.rows < len(work) else (0.0, 0.0)

    def append(self, stretch: Stretch) -> None:
        """Record steps; where not every step is a row, the work of those between goes to the next one that is."""
        steps, every = len(stretch), self.grid.save_every
        if not steps:
            return
        count = (self.done + steps) // every - self.done // every
        if every == 1:
            self._put(stretch, slice(0, steps), count)
            self.records.work[self.rows : self.rows + steps] = stretch.rows.work
            self.rows, self.done, self.now = self.rows + steps, self.done + steps, float(stretch.t[-1])
            return
        if not count:
            self.records.work[self.rows] += stretch.rows.work.sum(axis=0)
        else:
            numbers = np.arange(self.done + 1, self.done + steps + 1)
            self._put(stretch, np.flatnonzero(numbers % every == 0), count)
            np.add.at(self.records.work, self.rows + (numbers - 1) // every - self.done // every, stretch.rows.work)
        self.rows, self.done, self.now = self.rows + count, self.done + steps, float(stretch.t[-1])
        self._loose = None if self.done % every == 0 else stretch.last()
        self._note()

    def _put(self, stretch: Stretch, which: slice | NDArray[np.int64], count: int) -> None:
        """States, multipliers and times of some of these steps into the rows that come next."""
        self._reserve(self.rows + count + 1)
        to, r = slice(self.rows, self.rows + count), self.records
        r.state[to], r.lam[to] = stretch.rows.state[which], stretch.rows.lam[which]
        if r.unknowns is not None and stretch.rows.unknowns is not None:
            r.unknowns[to] = stretch.rows.unknowns[which]
        self._mark(to, stretch.t[:-1][which], stretch.t[1:][which])

    def _reserve(self, rows: int) -> None:
        """Make room for so many rows, where their number is not known beforehand."""
        have = len(self._t)
        if self._fixed or rows <= have:
            return
        more = max(have, rows - have)

        def longer(a: Array) -> Array:
            return np.concatenate([a, np.zeros((more, *a.shape[1:]))])

        r = self.records
        self.records = Records(longer(r.state), longer(r.lam), longer(r.work))
        self._t, self._t_lam = longer(self._t), longer(self._t_lam)

    def end(self) -> None:
        """The run is complete: its last step becomes a row, where it is not one already."""
        if self._loose is not None:
            self._put(self._loose, slice(0, 1), 1)
            self.rows, self._loose = self.rows + 1, None
            self._note()

    def fail(self, error: BaseException, rows: int | None = None) -> None:
        """An error ends the run, after so many rows."""
        self.error, self.rows = error, self.rows if rows is None else rows

    def restore(
        self, t: Array, t_lam: Array, rows: Records, pending: tuple[float, float], done: int, notes: dict[str, float]
    ) -> None:
        """Begin with the rows of an earlier part of the same run."""
        count = len(t)
        self._reserve(count + 1)
        r = self.records
        r.state[:count], r.lam[:count], r.work[:count] = rows.state, rows.lam, rows.work
        self._t[:count], self._t_lam[:count] = t, t_lam
        if count < len(r.work):
            r.work[count] = pending
        self.rows, self.done, self.pending, self.notes = count, done, pending, dict(notes)
