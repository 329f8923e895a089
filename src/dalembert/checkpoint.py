"""Runs that survive being killed: the solution so far and where the engine stands, in one file."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import numpy as np

from dalembert.engine.case import Case
from dalembert.engine.control import Control
from dalembert.engine.driver import Array, Grid, Layout, Run
from dalembert.engine.events import Watch
from dalembert.engine.machine import Memory, Records
from dalembert.errors import MethodError
from dalembert.solution import Solution, read, target, write

EVERY = 30.0  # seconds between two writes


class Checkpoint:
    """A file that a run is written to every half minute and at its end, and that the same run goes on from.

    The file is a solution that `da.load` reads. A run is the same if system, method, parameters, initial values, `t0`, `step`,
    `save_every` and events are; `t_end` may be later. Inputs given as a function cannot be compared: keep them the same.
    """

    def __init__(
        self,
        path: str | Path,
        case: Case,
        grid: Grid,
        start: Array,
        program: Layout,
        control: Control | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.path = target(path)
        self.case, self.start = case, start
        self.program, self.grid, self.watch, self.adaptive = program, grid, watch, control is not None
        key = [case.system.dumps(), str(case.method), case.par.tolist(), start.tolist(), grid.t0, grid.h, grid.save_every]
        key += [control.spec()] if control else []
        key += [watch.spec()] if watch else []
        self.key = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        self.written = time.perf_counter()

    def restore(self, run: Run, memory: Memory) -> None:
        """Fill a fresh run and its memory from the file, if there is one."""
        if not self.path.exists():
            return
        solution, extra = read(self.path)
        if extra.get("key") != self.key:
            raise MethodError(
                f"checkpoint: {str(self.path)!r} belongs to another run (system, method, parameters, start, step or events "
                "differ); delete it or choose another file"
            )
        done, rows = int(extra["done"]), len(solution.t) - 1
        if not self.adaptive and (done > self.grid.full or extra["odd_end"]):
            raise MethodError(
                f"checkpoint: {str(self.path)!r} holds a run that ended at t = {solution.t[-1]:g} and cannot be continued to "
                f"t_end = {self.grid.t_end:g}; read it with da.load, or delete it"
            )
        fields, state = self.program.fields, np.zeros((rows, self.program.n_state))
        for name, values in solution.parts.items():
            state[:, fields[name]] = values[1:]
        supplied, dissipated = extra["pending"]
        kept = Records(state, solution._lam[:, : self.program.n_lam], solution._work)
        run.restore(solution.t[1:], solution.t_lam, kept, (supplied, dissipated), done, extra.get("notes", {}))
        memory.state[:], memory.last[:], memory.before[:] = extra["state"], extra["last"], extra["before"]
        if self.watch is not None:
            self.watch.restore(extra["hits"])

    def finished(self) -> Solution | None:
        """The solution in the file, where it is this run to its very end."""
        if not self.path.exists():
            return None
        solution, extra = read(self.path)
        complete = extra.get("key") == self.key and (solution.t[-1] == self.grid.t_end or extra.get("stopped", False))
        return solution if complete else None

    def write(self, run: Run, memory: Memory, *, end: bool = False) -> None:
        """Write the file, if it is time to."""
        if not end and time.perf_counter() - self.written < EVERY:
            return
        extra = {
            "key": self.key,
            "done": run.done,
            "odd_end": end and (self.grid.remainder > 0 or run.done % self.grid.save_every != 0) and run.done == self.grid.steps,
            "stopped": self.watch is not None and self.watch.stopped,
            "pending": list(run.pending),
            "notes": run.notes,
            "hits": self.watch.dump() if self.watch else [],
            "state": memory.state.tolist(),
            "last": memory.last.tolist(),
            "before": memory.before.tolist(),
        }
        solution = Solution.of_run(self.case, run, self.start, self.program)
        solution.events = self.watch.results() if self.watch else {}
        write(solution, self.path, extra)
        self.written = time.perf_counter()
