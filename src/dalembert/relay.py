"""Checkpoints of runs with events that act: all arcs in one file, and where the last of them stands.

A run that goes on reads the arcs that are there and has the events act again between them, as they did: what actions remember is
then as it was. From the place where the last arc stands, steps are made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np

from dalembert import keeper
from dalembert.checkpoint import Checkpoint
from dalembert.engine.case import Case
from dalembert.engine.driver import Array, Grid, Layout, Run
from dalembert.engine.events import Event
from dalembert.engine.identity import digest
from dalembert.engine.sampled import Sampling
from dalembert.engine.watch import Watch
from dalembert.errors import FileError, MethodError
from dalembert.solution import Solution, read, write
from dalembert.systems import plain

Plain = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """A part of an arc as it was read: rows, and what was said of it beside them."""

    rows: Solution
    said: Plain


class Relay(Checkpoint):
    """The file of a run of many arcs. `pieces` say what each run between two jumps was, in the order of time."""

    joined: Callable[[Solution], Solution]  # all arcs and one that is under way

    def told(self, events: Sequence[Event]) -> Self:
        """The same, told from other runs by its events as well."""
        self.key["events"] = digest(events)
        self.pieces: list[Plain] = []
        self._recorded: list[Piece] = []
        self.where: Plain = {}
        self._new = False
        return self

    def _look(self) -> None:
        if not self.path.exists():
            return
        solution, extra = read(self.path)
        nothing = slice(0, 0)
        self._compare(extra.get("key"), extra, solution.t[nothing], solution.u[nothing], float(solution.t[-1]))
        try:
            pieces = plain.get(extra, "pieces", list)
            self.where = {name: extra[name] for name in extra if name not in ("key", "pieces")}
            self._recorded = list(_cut(solution, pieces))
        except (FileError, IndexError) as error:
            raise self._damaged(error) from error
        self.samples = solution.samples

    def next(self) -> Piece | None:
        """What was read of the run that begins now."""
        return self._recorded.pop(0) if self._recorded else None

    @property
    def last(self) -> bool:
        """Whether no more was read."""
        return not self._recorded

    def due(self, run: Run) -> bool:
        return time.perf_counter() - self.written >= keeper.EVERY

    def add(self, piece: Plain, stand: Plain) -> None:
        """A run between two jumps has ended."""
        self.pieces.append(piece)
        self.where, self._new = stand, True

    def leads(self) -> None:
        """The last run is only the lead of an arc: the next one goes on from it, without a jump."""
        self.pieces[-1]["lead"] = True

    def keep(self, solution: Solution, pieces: list[Plain], stand: Plain) -> None:
        """Write all that there is."""
        with self._writing():
            write(solution, self.path, {**stand, "key": self.key, "pieces": pieces})

    def end(self, solution: Solution) -> None:
        """Write a run that has ended, unless it was read."""
        if self._new:
            self.keep(solution, self.pieces, self.where)
            self._new = False


def _cut(solution: Solution, pieces: list[object]) -> list[Piece]:
    """The runs between jumps that arcs were made of: an arc may begin with a lead, whose last row is the first of the next."""
    out, arcs, first = [], list(solution.arcs), 0
    for said in pieces:
        rows = plain.size(plain.get(said, "rows", int), "rows", 1, len(arcs[0].t) - first)
        out.append(Piece(_part(arcs[0], first, first + rows), plain.of(said, "piece", dict)))
        if plain.get(said, "lead", bool):
            first += rows - 1
        elif first + rows != len(arcs.pop(0).t):
            raise FileError("its arcs are not those of its rows")
        else:
            first = 0
    return out


def _part(arc: Solution, first: int, end: int) -> Solution:
    between = slice(first, end - 1)
    return type(arc)(
        arc.system, arc.method, arc._par, arc.t[first:end], {name: a[first:end] for name, a in arc.parts.items()},
        lam=arc._lam[between], t_lam=arc.t_lam[between], work=arc._work[between], u=arc.u[first:end], step=arc.step,
        stats=dict(arc.stats),
    )  # fmt: skip


class Leg(Checkpoint):
    """The part of a relay that one run between two jumps is; the file is the relay's."""

    def __init__(
        self, relay: Relay, case: Case, grid: Grid, start: Array, layout: Layout, watch: Watch | None, sampling: Sampling | None
    ) -> None:
        self.relay, self.path, self.key, self.written = relay, relay.path, relay.key, relay.written
        self.case, self.start, self.layout, self.grid, self.watch = case, start, layout, grid, watch
        self.sampling = sampling
        if not relay._laws:
            relay._laws = keeper.laws(sampling)
        self.adaptive, self._of_time = relay.adaptive, relay._of_time

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return

    def finished(self) -> Solution | None:
        piece = self.relay.next()
        if piece is None:
            return None
        rows, said, case = piece.rows, piece.said, self.case
        out = Solution.of(case.system)(
            case.system, case.method, case.par, rows.t, rows.parts, lam=rows._lam, t_lam=rows.t_lam, work=rows._work, u=rows.u,
            step=self.grid.h, stats=plain.get(said, "stats", dict),
        )  # fmt: skip
        out.inputs, out.samples = case.inputs, self.relay.samples
        stop = plain.maybe(said, "stop", list)
        if stop is None and rows.t[-1] != self.grid.t_end and self.relay.last:  # it goes on from there
            if self.relay.where.get("odd") and self.relay.pieces:
                return None  # its last step was shortened to end there: the arc is made again
            self._found = out, self.relay.where
            return None
        if self.watch is not None:
            self.watch.restore(plain.get(said, "hits", list))
            self.watch.fired = plain.each(plain.get(said, "fired", list), "fired", int)
            self.watch.stop = None if stop is None else (float(stop[0]), np.array(stop[1], dtype=float))
            out.events = self.watch.results()
        if self.sampling is not None:
            self.sampling.restore(said.get("controllers"), self.relay.samples)
            out.inputs, out.samples = self.sampling.frozen(float(out.t[-1])), self.sampling.results(float(out.t[-1]))
        self.relay.pieces.append({**said, "lead": False})
        return out

    def restore(self, run: Run) -> None:
        if self._found is not None:
            super().restore(run)
        elif not self.relay.pieces and not self.relay.path.exists():
            self.write(run)

    def due(self, run: Run) -> bool:
        return self.relay.due(run)

    def write(self, run: Run) -> None:
        made = self._made(run)
        whole = self.relay.joined(made)
        self.relay.keep(whole, [*self.relay.pieces, self._said(run, made)], self._standing(run))

    def save(self, run: Run) -> None:
        self._ended = self._made(run)
        self.relay.add(self._said(run, self._ended), self._standing(run))

    def _samples(self, now: float) -> Array:
        return self.relay._samples(now)  # from the very beginning

    def _changed(self) -> list[str]:
        self.relay.sampling = self.sampling
        return self.relay._changed()

    def _said(self, run: Run, made: Solution) -> Plain:
        """What is written of the run beside its rows."""
        watch = self.watch
        stop = watch.stop if watch is not None else None
        return {
            "rows": len(made.t),
            "lead": False,
            "hits": watch.dump() if watch is not None else [],
            "fired": list(watch.fired) if watch is not None else [],
            "stop": None if stop is None else [stop[0], stop[1].tolist()],
            "controllers": self.sampling.standing(run.now) if self.sampling is not None else [],
            "stats": dict(made.stats),
        }


def refuse_store(acting: Sequence[Event]) -> MethodError:
    """Rows of arcs are not written to stores."""
    names = ", ".join(event.name for event in acting)
    return MethodError(f"a store has no arcs, and {names} would make some; use checkpoint='run.nc', which has, or leave one out")
