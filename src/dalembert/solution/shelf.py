"""The rows of a run in the arrays of a store, and solutions made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dalembert.engine.run import Stat
from dalembert.methods.base import Method
from dalembert.solution.base import Solution
from dalembert.solution.columns import Array, Column
from dalembert.systems.base import System

CHUNK = 1 << 23  # bytes of the rows that are written together
SHORTEST, LONGEST = 64, 1 << 17  # rows of a chunk
HELD = 1 << 27  # bytes of the rows of a solution that is made of a store


@dataclass(frozen=True)
class Block:
    """Rows that follow each other: time and state after each interval, with what belongs to the interval."""

    t: Array
    parts: Mapping[str, Array]
    u: Array
    lam: Array
    t_lam: Array
    work: Array

    def __len__(self) -> int:
        return len(self.t)


def rows_of_chunk(width: int) -> int:
    """How many rows of so many numbers are written together: a power of two."""
    return min(LONGEST, max(SHORTEST, 1 << (CHUNK // (8 * width)).bit_length() >> 1))


class Shelf:
    """The arrays of a run: `t`, the parts of the state and `u` with an entry for the start and each row, others for each row."""

    def __init__(self, path: Path, system: System, multipliers: int, chunk: int | None = None) -> None:
        self.path, self.system, self.multipliers = path, system, multipliers
        self.chunk = chunk or rows_of_chunk(self.width)
        first, *others = system.state
        names: dict[str, tuple[tuple[str, ...], int | None]] = {"t": (("time",), None)}
        names[first] = ("time", "coordinate"), system.size_of(first)
        names |= {name: (("time", f"{name}_index"), system.size_of(name)) for name in others}
        self.timed = {*names, "u"}
        if system.nu:
            names["u"] = ("time", "input"), system.nu
        if multipliers:
            names["lam"] = ("interval", "constraint"), multipliers
        names |= dict.fromkeys(("t_lam", "supplied", "dissipated"), (("interval",), None))
        self.columns = {name: Column(path, name, *shape, self.chunk) for name, shape in names.items()}

    @property
    def width(self) -> int:
        """Numbers that belong to a row."""
        return 4 + sum(self.system.size_of(name) for name in self.system.state) + self.system.nu + self.multipliers

    def write(self, first: int, start: Block, rows: Block) -> None:
        """Rows from number `first` on, where a chunk begins; `start` is the one before them."""
        values = {"t": (start.t, rows.t), "u": (start.u, rows.u), **{k: (start.parts[k], rows.parts[k]) for k in rows.parts}}
        timed = {name: np.concatenate(both) for name, both in values.items()}
        work = {"supplied": rows.work[:, 0], "dissipated": rows.work[:, 1]}
        every = {**timed, "lam": rows.lam, "t_lam": rows.t_lam, **work}
        for name, column in self.columns.items():
            column.write(first, every[name])
            column.resize(first + len(every[name]))

    def check(self, rows: int) -> None:
        """Refuse arrays that were not written here, or whose last chunk is damaged."""
        for name, column in self.columns.items():
            column.check(rows + (name in self.timed), finite=name not in ("u", "lam"))  # these can be unknown

    def _timed(self, name: str, first: int, end: int) -> Array:
        column = self.columns.get(name)
        return np.zeros((end - first, 0)) if column is None else column.read(first, end)

    def rows(self, first: int, end: int) -> Block:
        """The rows `first .. end - 1`; row k is the entry k + 1 of what has one for the start as well."""
        parts = {name: self._timed(name, first + 1, end + 1) for name in self.system.state}
        lam, t_lam, *work = (self._timed(name, first, end) for name in ("lam", "t_lam", "supplied", "dissipated"))
        t, u = self._timed("t", first + 1, end + 1), self._timed("u", first + 1, end + 1)
        return Block(t, parts, u, lam, t_lam, np.stack(work, axis=1))

    def before(self, row: int) -> Block:
        """What stands before a row: the start, or the row before; nothing belongs to an interval."""
        parts = {name: self._timed(name, row, row + 1) for name in self.system.state}
        t, u = self._timed("t", row, row + 1), self._timed("u", row, row + 1)
        return Block(t, parts, u, np.zeros((0, self.multipliers)), np.zeros(0), np.zeros((0, 2)))

    def blocks(self, first: int, end: int) -> Iterator[Block]:
        """The rows `first .. end - 1`, a chunk at a time."""
        while first < end:
            stop = min(end, (first // self.chunk + 1) * self.chunk)
            yield self.rows(first, stop)
            first = stop

    def stride(self, rows: int) -> int:
        """Every how manieth row a solution has that is not too large."""
        return max(1, math.ceil(8 * self.width * rows / HELD))


class Gathered:
    """Every so manieth of the rows that come block by block, and the last; work is added up in between."""

    def __init__(self, start: Block, rows: int, every: int) -> None:
        self.every, self.rows, self.seen = every, rows, 0
        count = -(-rows // every)
        longer = {name: np.concatenate([a, np.empty((count, *a.shape[1:]))]) for name, a in start.parts.items()}
        self.t, self.parts = np.append(start.t, np.empty(count)), longer
        self.u = np.concatenate([start.u, np.empty((count, start.u.shape[1]))])
        self.lam, self.t_lam, self.work = np.empty((count, start.lam.shape[1])), np.empty(count), np.zeros((count, 2))

    def add(self, blocks: Iterable[Block]) -> Gathered:
        for block in blocks:
            numbers = np.arange(self.seen, self.seen + len(block))
            row = numbers // self.every
            kept = np.flatnonzero(((numbers + 1) % self.every == 0) | (numbers == self.rows - 1))
            at = row[kept]
            self.t[at + 1], self.u[at + 1] = block.t[kept], block.u[kept]
            for name, values in block.parts.items():
                self.parts[name][at + 1] = values[kept]
            self.lam[at], self.t_lam[at] = block.lam[kept], block.t_lam[kept]
            np.add.at(self.work, row, block.work)  # one by one, as a run does that keeps fewer rows
            self.seen += len(block)
        return self

    def solution(self, system: System, method: Method, par: Array, step: float, stats: Mapping[str, Stat]) -> Solution:
        stats = {**stats, "save_every": self.every * int(stats.get("save_every", 1))}
        return Solution.of(system)(
            system, method, par, self.t, self.parts,
            lam=self.lam, t_lam=self.t_lam, work=self.work, u=self.u, step=step, stats=stats,
        )  # fmt: skip
