"""What every keeper of a run does: it claims its place, tells one run from another, and writes where the engine stands."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import numpy as np

from dalembert.engine.case import Case
from dalembert.engine.control import Control
from dalembert.engine.controllers import Samples
from dalembert.engine.driver import Array, Grid, Layout, Run
from dalembert.engine.identity import digest
from dalembert.engine.interrupts import undisturbed
from dalembert.engine.machine import Memory
from dalembert.engine.newton import Rule
from dalembert.engine.run import Stand, resolution
from dalembert.engine.sampled import Sampling
from dalembert.engine.watch import Watch
from dalembert.errors import DalembertError, DalembertWarning, FileError, MethodError
from dalembert.solution import Solution
from dalembert.solution.claims import Claim
from dalembert.systems import plain

EVERY = 30.0  # seconds between two writes
SAMPLES = 64  # times beside the rows at which inputs that are a function are compared
Hits = list[list[tuple[float, list[float]]]]


class Keeping(ABC):
    """A place that a run is written to, and that the same run goes on from.

    A run is the same if all is that it depends on: `key` has it by name. `t_end` may be later. Inputs that are a function are
    compared by their code and what it refers to, and by their values. While a keeper is open no other run can have its place.
    """

    what: ClassVar[str]  # the option of `simulate`
    read_by: ClassVar[str]  # what reads such a place
    _told = False  # whether it was said that the run cannot go on
    window: int | None = None  # rows that the run has in memory, where it drops those that are kept

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
        sampling: Sampling | None = None,
    ) -> None:
        self.path = self._place(path)
        self.case, self.start, self.layout, self.grid, self.watch = case, start, layout, grid, watch
        self.sampling, self._laws = sampling, laws(sampling)
        self.adaptive, self._of_time = control is not None, not case.inputs.plain
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

    def __enter__(self) -> Self:
        self._claim.take()
        try:
            with undisturbed():
                self._look()
        except BaseException:
            self._claim.leave()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._claim.leave()

    # ---- what a kind of place does ----------------------------------------------------------------------

    @abstractmethod
    def _place(self, path: str | Path) -> Path:
        """The path, checked."""

    @abstractmethod
    def _look(self) -> None:
        """Look at what is there, if anything; that of another run is refused."""

    @abstractmethod
    def finished(self) -> Solution | None:
        """The solution that is there, where it is this run to its very end."""

    @abstractmethod
    def restore(self, run: Run) -> None:
        """Begin with what is there; where nothing is, write, so that a bad place is found before any work."""

    @abstractmethod
    def write(self, run: Run) -> None:
        """Write the run as it stands."""

    @abstractmethod
    def save(self, run: Run) -> None:
        """Write a run that has ended."""

    @abstractmethod
    def solution(self, run: Run) -> Solution:
        """The solution of a run that has ended."""

    # ---- one run or another -----------------------------------------------------------------------------

    def _compare(self, key: object, found: Mapping[str, object], t: Array, u: Array, now: float) -> None:
        """Refuse what belongs to another run, and say what differs; inputs are compared at rows, and at times before `now`."""
        if not isinstance(key, dict):
            raise MethodError(
                f"{self.what}: {str(self.path)!r} is no {self.what} that a run could go on from; choose another file"
            )
        differing = [name for name in self.key if key.get(name) != self.key[name]]
        if not differing and self._of_time and not self._same_inputs(found, t, u, now):
            differing = ["inputs u"]
        if differing:
            raise MethodError(
                f"{self.what}: {str(self.path)!r} belongs to another run ({', '.join(differing)} differ); delete it or "
                "choose another file"
            )

    def _samples(self, now: float) -> Array:
        """Times up to now, spread evenly and unlike any grid: by the golden ratio."""
        return np.asarray(self.grid.t0 + (now - self.grid.t0) * (np.arange(SAMPLES) * 0.6180339887498949 % 1.0))

    def _same_inputs(self, found: Mapping[str, object], t: Array, u: Array, now: float) -> bool:
        values = self.case.inputs_at(self._samples(now))[0]
        then = np.array(found.get("samples"), dtype=float).reshape(-1, self.case.system.nu)
        free = [i for i in range(self.case.system.nu) if self.sampling is None or i not in self.sampling.set]
        rows = self.case.inputs_at(t)[0][:, free], u[:, free]  # what controllers set, they set again
        return np.array_equal(values, then, equal_nan=True) and np.array_equal(*rows, equal_nan=True)

    def _extends(self, odd: bool, now: float) -> None:
        """Refuse a run that does not lead to the end that is asked for."""
        near = resolution(self.grid.t_end)
        if (odd and abs(now - self.grid.t_end) > near) or now > self.grid.t_end + near:
            raise MethodError(
                f"{self.what}: {str(self.path)!r} holds a run that ended at t = {now:g} and cannot be continued to "
                f"t_end = {self.grid.t_end:g}; read it with {self.read_by}, or delete it"
            )

    # ---- where a run stands -----------------------------------------------------------------------------

    def _standing(self, run: Run) -> dict[str, object]:
        """Where a run stands, as plain data."""
        at, memory = run.at, run.at.memory
        return {
            "done": at.done,
            "odd": not self.adaptive and self.grid.remainder > 0 and at.done == self.grid.steps,
            "stopped": self.watch is not None and self.watch.stopped,
            "notes": at.notes,
            "pivots": at.pivots,
            "hits": self.watch.dump() if self.watch else [],
            "memory": [a.tolist() for a in (memory.state, memory.last, memory.before, memory.kept)] if memory else None,
            "controllers": self.sampling.standing(at.now) if self.sampling else [],
            "changed": self._changed(),
            "samples": self.case.inputs_at(self._samples(at.now))[0].tolist() if self._of_time else [],
        }

    def _stand(self, found: Mapping[str, object], now: float) -> tuple[Stand, bool, Hits]:
        """The inverse: where a run stood, whether its last step was of another length than the others, and its events."""
        try:
            done, memory, pivots = found["done"], found["memory"], found["pivots"]
            if type(done) is not int or done < 0:
                raise ValueError(f"{done!r} steps")
            layout, there = self.layout, None
            sizes = (layout.n_state, layout.n_unknowns, layout.n_unknowns, getattr(layout, "n_kept", 0))
            if done:
                state, last, before, kept = (np.array(a, dtype=float).reshape(n) for a, n in zip(memory, sizes, strict=True))  # type: ignore[call-overload]
                there = Memory(state, last, before, self.case.par, kept)
            orders = tuple([(int(i), int(j)) for i, j in order] for order in pivots) if pivots is not None else None  # type: ignore[attr-defined]
            notes = {str(name): x for name, x in dict(found["notes"]).items()}  # type: ignore[call-overload]
            return Stand(done, now, there, notes, orders), bool(found["odd"]), list(found["hits"])  # type: ignore[call-overload]
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(error) from error

    def _changed(self) -> list[str]:
        """Controllers that have changed what they refer to: what they remember beside their state is not written."""
        now = laws(self.sampling)
        changed = [name for name, law in now.items() if law != self._laws[name]]
        if changed and not self._told:
            self._told = True
            warnings.warn(
                f"{self.what}: the controller of {changed[0]!r} changes what it refers to (a list, an attribute, a number "
                f"outside of it), which is not written: the run cannot go on from {str(self.path)!r}; what it "
                "remembers belongs in da.Sampled(..., state=...)",
                DalembertWarning,
                stacklevel=2,
            )
        return changed

    def _resume_controllers(self, found: Mapping[str, object], samples: Mapping[str, Samples]) -> None:
        """Have controllers go on from where they stood."""
        if self.sampling is None:
            return
        if changed := plain.each(found.get("changed"), "changed", str):
            raise MethodError(
                f"{self.what}: the run in {str(self.path)!r} cannot go on: the controller of {changed[0]!r} had changed what it "
                "refers to, which is not written; keep what it remembers in da.Sampled(..., state=...)"
            )
        try:
            self.sampling.restore(found.get("controllers"), samples)
        except (FileError, KeyError, ValueError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> MethodError:
        return MethodError(f"{self.what}: {str(self.path)!r} is damaged ({error!r}); delete it")

    def _inputs(self, run: Run) -> Case:
        """The case with the inputs as they were up to now: those that controllers held are samples like any others."""
        return self.case if self.sampling is None else replace(self.case, inputs=self.sampling.frozen(run.now))

    # ---- writing ----------------------------------------------------------------------------------------

    def due(self, run: Run) -> bool:
        """Whether it is time to write."""
        return time.perf_counter() - self.written >= EVERY

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write without being disturbed; what goes wrong is an error of ours."""
        try:
            with undisturbed():
                yield
        except DalembertError:
            raise
        except Exception as error:  # the layers below raise of their own what a full disk, say, brings about
            raise MethodError(f"{self.what}: {str(self.path)!r} could not be written: {error}") from error
        self.written = time.perf_counter()


def laws(sampling: Sampling | None) -> dict[str, str]:
    """Controllers by what they do and refer to."""
    return {} if sampling is None else {s.name: digest(s.given.controller) for s in sampling.samplers}
