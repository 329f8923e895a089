"""An ensemble as it was asked for, checked: the same for threads of this process and for the workers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dalembert.engine import control
from dalembert.engine import events as watching
from dalembert.engine.case import check_call, make_grid, make_rule
from dalembert.engine.machine import memory
from dalembert.ensembles.collecting import Collected, Reduced, Whole
from dalembert.ensembles.members import Task
from dalembert.ensembles.reductions import Reduction, Reductions, only_final, parse
from dalembert.ensembles.running import Blocks
from dalembert.ensembles.samples import Samples, draw
from dalembert.errors import MethodError
from dalembert.methods.base import Method, find
from dalembert.systems.base import System

BLOCK = 1 << 12  # members of a block, at most
PATIENCE = 2.0  # seconds that a block may take, about: what is lost at most where a worker is killed
ROOM = 1 << 26  # bytes that the rows of a block may take


@dataclass(frozen=True)
class Job:
    """What is to be run for all members, and what is kept of each."""

    task: Task
    functions: Mapping[str, str | Reduction]
    options: Mapping[str, object]
    tolerance: float | None
    max_iterations: int
    compile: bool | str

    def blocks(self, members: int) -> Blocks:
        """What runs members, when there are so many of them in all."""
        return Blocks(
            self.task, members, tolerance=self.tolerance, max_iterations=self.max_iterations, compile=self.compile,
            options=self.options,
        )  # fmt: skip

    def collected(self, samples: Samples) -> Collected:
        """What keeps them."""
        return Reduced(self.task, samples, self.functions) if self.functions else Whole(self.task, samples)

    @property
    def row(self) -> int:
        """Numbers of a row, about."""
        sizes = (self.task.system.size_of(name) for name in self.task.system.state)
        return sum(sizes) + int(getattr(self.task.system, "m", 0)) + 4

    def check_room(self, samples: Samples) -> None:
        """Refuse more rows than memory can hold."""
        rows = len(self.task.grid.saved)
        size = 8 * samples.members * (rows + 1) * self.row
        if not self.functions and size > memory() / 2:
            raise MethodError(
                f"{samples.members} members of {rows} rows need {size / 2**30:.0f} GiB of memory; save less often (save_every), "
                "keep what is needed of each with reduce=..., or write them to a store with da.sweep(..., store=...)"
            )

    @property
    def seconds(self) -> float:
        """What a member takes, about: by count of operations in lanes, and more where Python has a part in each step."""
        slow = bool(self.options) or self.task.method.external or self.task.engine().program.large
        step = 1e-4 if slow else 1e-9 * self.task.engine().program.operations
        return max(1, self.task.grid.steps) * step

    def size(self, members: int, workers: int, width: int = 8) -> int:
        """Members of a block: enough blocks to keep all workers busy, small enough to stay in memory."""
        rows = 8 * (len(self.task.grid.saved) + 1) * self.row
        size = min(BLOCK, max(1, ROOM // rows), max(1, int(PATIENCE / self.seconds)), -(-members // (8 * workers)))
        return -(-size // width) * width


def make(
    system: System, method: str | Method, *, samples: Mapping[str, object], t_end: float, step: float, members: int | None,
    seed: int | None, given: Mapping[str, ArrayLike | None], t0: float, u: object, parameters: Mapping[str, ArrayLike] | None,
    tolerance: float | None, max_iterations: int, adaptive: bool | str | control.Control | None, events: object,
    save_every: int, reduce: Reductions, compile: bool | str, progress: bool | None,
) -> tuple[Job, Samples]:  # fmt: skip
    """The job of a call and its members; what is wrong is said before any work is done."""
    check_call(system, compile, progress)
    method = find(method)
    method.check(system)
    make_rule(tolerance, max_iterations)
    options: dict[str, object] = {}
    if control.find(adaptive) is not None:
        options["adaptive"] = adaptive
    if watching.make(events):
        options["events"] = events
    functions = parse(reduce)
    if options and not functions:
        raise MethodError("adaptive runs and events have times of their own: say what to keep of them with reduce=...")
    grid = make_grid(t0, t_end, step, save_every)
    if only_final(functions) and not options:
        grid = make_grid(t0, t_end, step, max(1, grid.steps))
    drawn = draw(system, samples, members, seed)
    known = {k: np.array(a, dtype=float) for k, a in given.items() if a is not None}
    task = Task(system, method, grid, known, u, dict(parameters or {}))
    system.pack(task.parameters)
    return Job(task, functions, options, tolerance, max_iterations, compile), drawn
