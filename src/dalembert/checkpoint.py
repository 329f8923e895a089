"""Runs that survive being killed: the solution so far and where the engine stands, in one file."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType

import numpy as np

from dalembert.engine.case import Case
from dalembert.engine.control import Control
from dalembert.engine.driver import Array, Grid, Layout, Run
from dalembert.engine.events import Watch
from dalembert.engine.identity import digest
from dalembert.engine.interrupts import undisturbed
from dalembert.engine.machine import Memory, Records
from dalembert.engine.newton import Rule
from dalembert.engine.run import Stand, resolution
from dalembert.errors import DalembertError, MethodError
from dalembert.solution import Solution, read, target, write
from dalembert.solution.claims import Claim
from dalembert.solution.paths import FORMS

EVERY = 30.0  # seconds between two writes
SAMPLES = 64  # times beside the rows at which inputs that are a function are compared


class Checkpoint:
    """A file that a run is written to at its start, every half minute and at its end, and that the same run goes on from.

    The file is a solution that `da.load` reads. A run is the same if all is that it depends on: `key` has it by name. `t_end` may
    be later. Inputs that are a function are compared by their code and what it refers to, and by their values.

    While it is open no other run can have the file.
    """

    def __init__(
        self,
        path: str | Path,
        case: Case,
        grid: Grid,
        start: Array,
        layout: Layout,
        rule: Rule,
        u: object = None,
        control: Control | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.path = target(path, *FORMS["output"])
        self.case, self.start, self.layout, self.grid, self.watch = case, start, layout, grid, watch
        self.adaptive, self._of_time = control is not None, callable(u)
        parts = {
            "system": case.system.dumps(),
            "method": case.method,
            "parameters": case.par,
            "initial values": start,
            "t0": grid.t0,
            "step": grid.h,
            "save_every": grid.save_every,
            "inputs u": u,
            "tolerance": rule.tolerance,
            "max_iterations": rule.max_iterations,
            "adaptive": control,
            "events": watch.spec() if watch else None,
        }
        self.key = {name: digest(part) for name, part in parts.items()}
        self.written = time.perf_counter()
        self._claim = Claim(self.path)
        self._found: tuple[Solution, dict[str, object]] | None = None

    def __enter__(self) -> Checkpoint:
        self._claim.take()
        try:
            self._found = self._read()
        except BaseException:
            self._claim.leave()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._claim.leave()

    # ---- reading ----------------------------------------------------------------------------------------

    def _read(self) -> tuple[Solution, dict[str, object]] | None:
        """What the file holds, if there is one; that of another run is refused."""
        if not self.path.exists():
            return None
        with undisturbed():
            solution, extra = read(self.path)
        key = extra.get("key")
        if not isinstance(key, dict):
            raise MethodError(f"checkpoint: {str(self.path)!r} is no checkpoint that a run could go on from; choose another file")
        differing = [name for name in self.key if key.get(name) != self.key[name]]
        if not differing and self._of_time and not self._same_inputs(solution, extra):
            differing = ["inputs u"]
        if differing:
            raise MethodError(
                f"checkpoint: {str(self.path)!r} belongs to another run ({', '.join(differing)} differ); delete it or "
                "choose another file"
            )
        return solution, extra

    def _samples(self, now: float) -> Array:
        """Times up to now, spread evenly and unlike any grid: by the golden ratio."""
        return np.asarray(self.grid.t0 + (now - self.grid.t0) * (np.arange(SAMPLES) * 0.6180339887498949 % 1.0))

    def _same_inputs(self, solution: Solution, extra: dict[str, object]) -> bool:
        values = self.case.inputs_at(self._samples(float(solution.t[-1])))[0]
        rows = self.case.inputs_at(solution.t)[0]
        then = np.array(extra.get("samples"), dtype=float).reshape(-1, self.case.system.nu)
        return np.array_equal(values, then, equal_nan=True) and np.array_equal(rows, solution.u, equal_nan=True)

    def finished(self) -> Solution | None:
        """The solution in the file, where it is this run to its very end."""
        if self._found is None:
            return None
        solution, extra = self._found
        if not (solution.t[-1] == self.grid.t_end or extra.get("stopped", False)):
            return None
        solution.inputs = self.case.inputs
        return solution

    def restore(self, run: Run) -> None:
        """Fill a fresh run from the file; where there is none, write one, so that a bad place is found before any work."""
        if self._found is None:
            self.write(run)
            return
        solution, extra = self._found
        try:
            stand, odd, hits = self._stand(solution, extra)
        except (KeyError, TypeError, ValueError) as error:
            raise MethodError(f"checkpoint: {str(self.path)!r} is damaged ({error!r}); delete it") from error
        if odd or solution.t[-1] > self.grid.t_end + resolution(self.grid.t_end):
            raise MethodError(
                f"checkpoint: {str(self.path)!r} holds a run that ended at t = {solution.t[-1]:g} and cannot be continued to "
                f"t_end = {self.grid.t_end:g}; read it with da.load, or delete it"
            )
        state = np.zeros((len(solution.t) - 1, self.layout.n_state))
        for name, values in solution.parts.items():
            state[:, self.layout.fields[name]] = values[1:]
        kept = Records(state, solution._lam[:, : self.layout.n_lam], solution._work)
        run.restore(solution.t[1:], solution.t_lam, kept, stand)
        if self.watch is not None:
            self.watch.restore(hits)
        self._found = None  # large, and in the run

    def _stand(self, solution: Solution, extra: dict[str, object]) -> tuple[Stand, bool, list[list[tuple[float, list[float]]]]]:
        """Where the run in the file stands, whether its last step was of another length than the others, and its events."""
        done, memory, pivots = extra["done"], extra["memory"], extra["pivots"]
        if not isinstance(done, int) or -(-done // self.grid.save_every) != len(solution.t) - 1:
            raise ValueError(f"{len(solution.t) - 1} rows of {done} steps")
        sizes = (self.layout.n_state, self.layout.n_unknowns, self.layout.n_unknowns)
        there = None
        if done:
            state, last, before = (np.array(a, dtype=float).reshape(n) for a, n in zip(memory, sizes, strict=True))  # type: ignore[call-overload]
            there = Memory(state, last, before, self.case.par)
        orders = tuple([(int(i), int(j)) for i, j in order] for order in pivots) if pivots is not None else None  # type: ignore[attr-defined]
        notes = {str(name): x for name, x in dict(extra["notes"]).items()}  # type: ignore[call-overload]
        return Stand(done, float(solution.t[-1]), there, notes, orders), bool(extra["odd"]), list(extra["hits"])  # type: ignore[call-overload]

    # ---- writing ----------------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Whether it is time to write."""
        return time.perf_counter() - self.written >= EVERY

    def write(self, run: Run) -> None:
        """Write the run as it stands."""
        solution = Solution.of_run(self.case, run, self.start, self.layout)
        solution.events = self.watch.results() if self.watch else {}
        self.save(solution, run)

    def save(self, solution: Solution, run: Run) -> None:
        """Write the solution of a run, and where the run stands."""
        at, memory = run.at, run.at.memory
        extra = {
            "key": self.key,
            "done": at.done,
            "odd": not self.adaptive and self.grid.remainder > 0 and at.done == self.grid.steps,
            "stopped": self.watch is not None and self.watch.stopped,
            "notes": at.notes,
            "pivots": at.pivots,
            "hits": self.watch.dump() if self.watch else [],
            "memory": [a.tolist() for a in (memory.state, memory.last, memory.before)] if memory else None,
            "samples": self.case.inputs_at(self._samples(float(solution.t[-1])))[0].tolist() if self._of_time else [],
        }
        try:
            with undisturbed():
                write(solution, self.path, extra)
        except DalembertError:
            raise
        except Exception as error:  # the layers below raise of their own what a full disk, say, brings about
            raise MethodError(f"checkpoint: {str(self.path)!r} could not be written: {error}") from error
        self.written = time.perf_counter()
