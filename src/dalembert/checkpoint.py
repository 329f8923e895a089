"""Runs that survive being killed: the solution so far and where the engine stands, in one file."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from dalembert.engine.driver import Grid, Run
from dalembert.engine.machine import Memory
from dalembert.engine.program import Program
from dalembert.errors import MethodError
from dalembert.methods.base import Method
from dalembert.solution import Solution, read, target, write
from dalembert.systems.base import System

EVERY = 30.0  # seconds between two writes


class Checkpoint:
    """A file that a run is written to every half minute and at its end, and that the same run goes on from.

    The file is a solution that `da.load` reads. A run is the same if system, method, parameters, initial values, `t0`, `step`
    and `save_every` are; `t_end` may be later. Inputs given as a function cannot be compared: they are the caller's to keep.
    """

    def __init__(
        self,
        path: str | Path,
        system: System,
        method: Method,
        par: np.ndarray,
        grid: Grid,
        start: np.ndarray,
        program: Program,
        inputs: Any,
        control: Any = None,
    ) -> None:
        self.path = target(path)
        self._parts = (system, method, par, start, program, inputs)
        self.system, self.program, self.grid = system, program, grid
        key = [system.dumps(), str(method), par.tolist(), start.tolist(), grid.t0, grid.h, grid.save_every]
        key += [control.spec()] if control else []
        self.adaptive, self.notes = control is not None, dict[str, float]()
        self.key = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        self.written = time.perf_counter()

    def restore(self, run: Run, memory: Memory) -> int:
        """Fill a fresh run and its memory from the file, if there is one: the number of steps that are done."""
        if not self.path.exists():
            return 0
        solution, extra = read(self.path)
        if extra.get("key") != self.key:
            raise MethodError(
                f"checkpoint: {str(self.path)!r} belongs to another run (system, method, parameters, start or step differ); "
                "delete it or choose another file"
            )
        done, rows = int(extra["done"]), len(solution.t) - 1
        if not self.adaptive and (done > self.grid.full or extra["odd_end"]):
            raise MethodError(
                f"checkpoint: {str(self.path)!r} holds a run that ended at t = {solution.t[-1]:g} and cannot be continued to "
                f"t_end = {self.grid.t_end:g}; read it with da.load, or delete it"
            )
        run.reserve(rows)
        if run.t is not None and run.t_lam is not None:
            run.t[:rows], run.t_lam[:rows] = solution.t[1:], solution.t_lam
        self.notes = extra.get("notes", {})
        fields = self.program.fields
        run.records.state[:rows, fields["q"]] = solution.q[1:]
        run.records.state[:rows, fields[self.system.momenta]] = solution._second[1:]
        run.records.lam[:rows], run.records.work[:rows], run.rows = solution.lam, solution._work, rows
        if rows < len(run.records.work):
            run.records.work[rows] = extra["pending"]
        run.pending = tuple(extra["pending"])
        memory.state[:], memory.last[:], memory.before[:] = extra["state"], extra["last"], extra["before"]
        return done

    def finished(self) -> Solution | None:
        """The solution in the file, where it is this run to its very end."""
        if not self.path.exists():
            return None
        solution, extra = read(self.path)
        complete = extra.get("key") == self.key and solution.t[-1] == self.grid.t_end
        return solution if complete else None

    def write(self, run: Run, memory: Memory, done: int, *, end: bool = False) -> None:
        """Write the file, if it is time to."""
        if not end and time.perf_counter() - self.written < EVERY:
            return
        extra = {
            "key": self.key,
            "done": done,
            "odd_end": end and (self.grid.remainder > 0 or done % self.grid.save_every != 0) and done == self.grid.steps,
            "pending": list(run.pending),
            "notes": self.notes,
            "state": memory.state.tolist(),
            "last": memory.last.tolist(),
            "before": memory.before.tolist(),
        }
        system, method, par, start, program, inputs = self._parts
        write(Solution.of_run(system, method, par, run, start, program, inputs), self.path, extra)
        self.written = time.perf_counter()
