"""Runs without end: rows go to a Zarr store as they come, and memory holds a window of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dalembert.engine import verdict
from dalembert.engine.driver import Run
from dalembert.engine.machine import Records
from dalembert.engine.sampled import Sampler
from dalembert.errors import FileError
from dalembert.keeper import Keeping
from dalembert.solution import Solution
from dalembert.solution.columns import Array, available
from dalembert.solution.paths import FORMS, target
from dalembert.solution.record import ROOT, Record, latest, model
from dalembert.solution.shelf import Block, Gathered, Shelf
from dalembert.solution.stored import Stored, crossings_of
from dalembert.systems import plain


class Store(Keeping):
    """A folder of arrays that a run is written to: whenever a chunk of rows is full, every half minute, and at its end.

    Rows are written first; then the record that says how many of them count is replaced as a whole. Up to that moment, what is
    there is the run as it stood before: of the rows that count, none is ever changed.

    A row to which steps are still to come is in the record. It is written to the arrays when the run ends. Where such a run goes
    on, the record is replaced by one without that row before anything is written.
    """

    what, read_by = "store", "da.open"

    def _place(self, path: str | Path) -> Path:
        available()
        return target(path, *FORMS["store"], folder=True).resolve()

    def _look(self) -> None:
        """The store that is there, or a new one, of which nothing is written yet."""
        self._stored: Stored | None = None
        system, layout = self.case.system, self.layout
        self._shelf = Shelf(self.path, system, layout.n_lam)
        names = [event.name for event in self.watch.events] if self.watch else []
        self._hits = [0 for _ in names]  # crossings in the arrays
        self._kept: list[int] = []  # samples in the arrays, by controller
        text = system.dumps()
        self._record = Record(self.path, {
            "key": self.key,
            "method": self.case.method.spec(),
            "parameters": self.case.par.tolist(),
            "step": self.grid.h,
            "model": len(text.encode()),
            "multipliers": layout.n_lam,
            "chunk": self._shelf.chunk,
            "events": names,
            "together": max(1, self._shelf.chunk >> 6),
            "controllers": [] if self.sampling is None else [s.described() for s in self.sampling.samplers],
        })  # fmt: skip
        if (self.path / ROOT).exists():
            self._open()
        elif self.path.is_dir():
            known = {*self._shelf.columns, "model", *(column.name for column in self._record.series(system))}
            if strange := sorted(entry.name for entry in self.path.iterdir() if entry.name not in known):
                raise FileError(f"the directory {str(self.path)!r} holds {strange[0]!r}, and no run; give another name")
        self._crossings, self._samplings = self._record.crossings(system), self._record.samples()
        self._kept = self._kept or [0 for _ in self._samplings]
        self.window = 2 * self._shelf.chunk

    def _open(self) -> None:
        """Read the record of the store; that of another run is refused."""
        try:
            record = plain.guarded("its content is not valid", lambda: Record.read(self.path))
            key = record.fixed.get("key")
            if isinstance(key, dict) and all(key.get(name) == digest for name, digest in self.key.items()):
                stored = self._stored = plain.guarded("its content is not valid", lambda: Stored(self.path, self.case.system))
                self._shelf, self._record = stored.shelf, stored.record
                last = self._shelf.rows(max(0, stored.rows - 1) // self._shelf.chunk * self._shelf.chunk, stored.rows)
                now = plain.get(self._record.stand, "t", float)
            else:
                last, now = _nothing(self._shelf), 0.0
        except (FileError, OSError) as error:
            raise FileError(f"{str(self.path)!r} cannot be read as a store: {error}") from error
        self._compare(key, self._record.stand, last.t, last.u, now)

    def finished(self) -> Solution | None:
        stored = self._stored
        if stored is None:
            return None
        stand = stored.record.stand
        if not (stand.get("finished") and (stand.get("t") == self.grid.t_end or stand.get("stopped"))):
            return None
        out = stored.solution()
        if self.sampling is None:
            out.inputs = self.case.inputs
        return out

    # ---- beginning --------------------------------------------------------------------------------------

    def restore(self, run: Run) -> None:
        if self._stored is None:
            self._create(run)
            return
        record, chunk, layout = self._record, self._shelf.chunk, self.layout
        found = record.stand
        stand, odd, _ = self._stand(found, plain.get(found, "t", float))
        self._extends(odd, stand.now)
        self._resume_controllers(found, self._stored.samples)
        self._kept = plain.each(found.get("stored samples", []), "stored samples", int)
        complete, part = divmod(stand.done, self.grid.save_every)
        first = complete // chunk * chunk
        rows = self._shelf.rows(first, complete)
        t, t_lam, kept = rows.t, rows.t_lam, Records(self._states(rows), rows.lam, rows.work)
        if part:
            sizes = (layout.n_state, layout.n_lam, 2, 1, 1)
            loose = plain.get(found, "loose", list)
            state, lam, work, when, node = (plain.array(a, "loose", (n,)) for a, n in zip(loose, sizes, strict=True))
            t, t_lam = np.append(t, when), np.append(t_lam, node)
            kept = Records(np.vstack([kept.state, state]), np.vstack([kept.lam, lam]), np.vstack([kept.work, work]))
        before = self._shelf.before(first)
        run.restore(t, t_lam, kept, stand, (float(before.t[0]), self._states(before)[0]) if first else None, first)
        if self.watch is not None:
            self._hits = plain.each(found.get("stored hits"), "stored hits", int)
            self.watch.restore([self._late(rows) for rows in plain.get(found, "late hits", list)])
        run.stats = dict(self._stored.stats)
        self._stored = None
        with self._writing():  # from here on the last row may change: it no longer counts
            self._mark(run, complete, finished=False)

    def _create(self, run: Run) -> None:
        """A new store, which begins to be one with its first record."""
        text = np.frombuffer(self.case.system.dumps().encode(), np.uint8)
        with self._writing():
            self.path.mkdir(exist_ok=True)
            model_of = model(self.path, len(text))
            for column in (model_of, *self._shelf.columns.values(), *self._record.series(self.case.system)):
                column.create()
            model_of.write(0, text)
            model_of.resize(len(text))
        self._commit(run)

    def _states(self, rows: Block) -> Array:
        """The states of rows, as the engine has them; what a method carries along is not kept in rows."""
        state = np.zeros((len(rows), self.layout.n_state))
        for name, values in rows.parts.items():
            state[:, self.layout.fields[name]] = values
        return state

    def _late(self, rows: object) -> list[tuple[float, list[float]]]:
        """Crossings that are not yet in an array, as they are looked for."""
        cuts = np.cumsum([1, *(self.case.system.size_of(name) for name in self.case.system.state)])
        found = plain.array(rows, "late hits", (len(plain.of(rows, "late hits", list)), int(cuts[-1])))
        t, *parts = np.split(found, cuts[:-1], axis=1)
        nothing = np.zeros(0)
        named = dict(zip(self.case.system.state, parts, strict=True))
        states = self._states(Block(t[:, 0], named, nothing, nothing, nothing, nothing))
        return [(float(when), state.tolist()) for when, state in zip(t[:, 0], states, strict=True)]

    # ---- writing ----------------------------------------------------------------------------------------

    def due(self, run: Run) -> bool:
        many = self.watch is not None and any(
            len(hits) >= 2 * column.chunk for hits, column in zip(self.watch.hits, self._crossings, strict=True)
        )
        return many or run.complete >= self._shelf.chunk or super().due(run)

    def write(self, run: Run) -> None:
        error = verdict.check(self.case, run, self.start, self.layout)
        if error is not None:
            raise error
        self._commit(run)

    def save(self, run: Run) -> None:
        self._commit(run, ended=True)

    def _window(self, run: Run, rows: int) -> tuple[Block, Block]:
        """What stands before the rows in memory, and these."""
        t, states = run.table(self.start)
        lead = t[:1] - self.grid.h if run.first else t[:0]  # only the row of the very start is the beginning of a step
        u = self._inputs(run).inputs_at(np.append(lead, t))[0][len(lead) :]
        parts = {name: states[:, self.layout.fields[name]] for name in self.case.system.state}
        nothing, r = _nothing(self._shelf), run.records
        start = Block(t[:1], {k: a[:1] for k, a in parts.items()}, u[:1], nothing.lam, nothing.t_lam, nothing.work)
        some = slice(1, rows + 1)
        after = {name: values[some] for name, values in parts.items()}
        return start, Block(t[some], after, u[some], r.lam[:rows], run.nodes()[:rows], r.work[:rows])

    def _commit(self, run: Run, ended: bool = False) -> None:
        """Write what is in memory, then the record by which it counts, and let go of whole chunks."""
        rows = run.rows if ended else run.complete
        with self._writing():
            self._shelf.write(run.first, *self._window(run, rows))
            self._keep_hits()
            self._keep_samples(run)
            self._mark(run, run.first + rows, ended and run.error is None)
            run.drop(run.complete // self._shelf.chunk * self._shelf.chunk)

    def _keep_hits(self) -> None:
        """Write whole chunks of crossings, and let go of them."""
        if self.watch is None:
            return
        for k, column in enumerate(self._crossings):
            whole = len(self.watch.hits[k]) // column.chunk * column.chunk
            if whole:
                column.write(self._hits[k], self._crossed(k)[:whole])
                self._hits[k] += whole
                column.resize(self._hits[k])
                del self.watch.hits[k][:whole]

    def _keep_samples(self, run: Run) -> None:
        """Write whole chunks of samples."""
        for k, (one, sampler) in enumerate(zip(self._samplings, self._samplers, strict=True)):
            whole = sampler.before(run.now) // one.column.chunk * one.column.chunk
            if whole > self._kept[k]:
                one.column.write(self._kept[k], one.rows(sampler.part(self._kept[k], whole)))
                self._kept[k] = whole
                one.column.resize(whole)

    @property
    def _samplers(self) -> list[Sampler]:
        return [] if self.sampling is None else self.sampling.samplers

    def _late_samples(self, run: Run) -> list[list[list[float]]]:
        """Samples that are not in the arrays."""
        found = zip(self._samplings, self._samplers, self._kept, strict=True)
        return [one.rows(sampler.part(kept, sampler.before(run.now))).tolist() for one, sampler, kept in found]

    def _crossed(self, event: int) -> Array:
        """The crossings in memory: time and state of each."""
        width = self._crossings[event].width or 1
        fields = [self.layout.fields[name] for name in self.case.system.state]
        hits = self.watch.hits[event] if self.watch else []
        rows = [np.concatenate([[t], *(state[part] for part in fields)]) for t, state in hits]
        return np.array(rows).reshape(len(rows), width)

    def _mark(self, run: Run, rows: int, finished: bool) -> None:
        """Replace the record: so many rows count."""
        at = run.at
        loose = at.loose and [at.loose[0].state[0], at.loose[0].lam[0], at.loose[0].work[0], [at.loose[1]], [at.loose[2]]]
        stand = {
            **self._standing(run),
            "hits": [],  # the late ones are below
            "rows": rows,
            "t": at.now,
            "finished": finished,
            "stats": {**run.stats, "save_every": self.grid.save_every},
            "loose": loose and [np.asarray(a).tolist() for a in loose],
            "stored hits": list(self._hits),
            "stored samples": list(self._kept),
            "late samples": self._late_samples(run),
            "late hits": [self._crossed(k).tolist() for k in range(len(self._crossings))],
        }
        self._record = self._record.advanced(stand, self._shelf.chunk)
        self._record.write()

    # ---- the result -------------------------------------------------------------------------------------

    def solution(self, run: Run) -> Solution:
        """All rows where they fit well into memory, or every so manieth: from the store, and those in memory."""
        start, rows = self._window(run, run.rows)
        total, shelf, case = run.first + run.rows, self._shelf, self.case
        gathered = Gathered(shelf.before(0) if run.first else start, total, shelf.stride(total))
        gathered.add(shelf.blocks(0, run.first)).add([rows])
        stats = {**run.stats, "save_every": self.grid.save_every}
        out = gathered.solution(case.system, case.method, case.par, self.grid.h, stats)
        out.inputs = self._inputs(run).inputs
        for one, sampler in zip(self._samplings, self._samplers, strict=True):
            one.put(out, sampler.results(run.now))
        if self.sampling is not None:
            out.stats["controllers"] = self.sampling.ways
        if self.watch is not None:
            for k, event in enumerate(self.watch.events):
                hits = np.concatenate([latest(self._crossings[k], self._hits[k]), self._crossed(k)])
                out.events[event.name] = crossings_of(case.system, case.par, hits)
        return out


def _nothing(shelf: Shelf) -> Block:
    """No row."""
    parts = {name: np.zeros((0, shelf.system.size_of(name))) for name in shelf.system.state}
    return Block(
        np.zeros(0), parts, np.zeros((0, shelf.system.nu)), np.zeros((0, shelf.multipliers)), np.zeros(0), np.zeros((0, 2))
    )
