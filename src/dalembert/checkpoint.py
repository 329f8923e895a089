"""Runs that survive being killed: the solution so far and where the engine stands, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dalembert.engine.driver import Run
from dalembert.engine.machine import Records
from dalembert.keeper import Keeping
from dalembert.solution import Solution, read, target, write
from dalembert.solution.paths import FORMS


class Checkpoint(Keeping):
    """A file that a run is written to at its start, every half minute and at its end: a solution that `da.load` reads."""

    what, read_by = "checkpoint", "da.load"
    _found: tuple[Solution, dict[str, Any]] | None = None
    _ended: Solution | None = None

    def _place(self, path: str | Path) -> Path:
        return target(path, *FORMS["checkpoint"])

    def _look(self) -> None:
        if not self.path.exists():
            return
        solution, extra = self._found = read(self.path)
        self._compare(extra.get("key"), extra, solution.t, solution.u, float(solution.t[-1]))

    def finished(self) -> Solution | None:
        if self._found is None:
            return None
        solution, extra = self._found
        if not (solution.t[-1] == self.grid.t_end or extra.get("stopped", False)):
            return None
        if self.sampling is None:  # else they are those of the file
            solution.inputs = self.case.inputs
        return solution

    def restore(self, run: Run) -> None:
        if self._found is None:
            self.write(run)
            return
        solution, extra = self._found
        stand, odd, hits = self._stand(extra, float(solution.t[-1]))
        if -(-stand.done // self.grid.save_every) != len(solution.t) - 1:
            raise self._damaged(ValueError(f"{len(solution.t) - 1} rows of {stand.done} steps"))
        self._extends(odd, stand.now)
        self._resume_controllers(extra, solution.samples)
        state = np.zeros((len(solution.t) - 1, self.layout.n_state))
        for name, values in solution.parts.items():
            state[:, self.layout.fields[name]] = values[1:]
        kept = Records(state, solution._lam[:, : self.layout.n_lam], solution._work)
        run.restore(solution.t[1:], solution.t_lam, kept, stand)
        if self.watch is not None:
            self.watch.restore(hits)
        self._found = None  # large, and in the run

    def write(self, run: Run) -> None:
        self._put(self._made(run), run)

    def save(self, run: Run) -> None:
        self._ended = self._made(run)
        self._put(self._ended, run)

    def solution(self, run: Run) -> Solution:
        return self._ended or self._made(run)

    def _made(self, run: Run) -> Solution:
        out = Solution.of_run(self._inputs(run), run, self.start, self.layout)
        if self.sampling is not None:
            out.samples, out.stats["controllers"] = self.sampling.results(run.now), self.sampling.ways
        out.events = self.watch.results() if self.watch else {}
        return out

    def _put(self, solution: Solution, run: Run) -> None:
        extra = {"key": self.key, **self._standing(run)}
        with self._writing():
            write(solution, self.path, extra)
