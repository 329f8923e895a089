"""Steps by sweeps where they contract, and by Newton's iteration where they do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dalembert.engine.machine import Memory, Outcome, Records, Task
from dalembert.engine.native import Native
from dalembert.engine.runner import Runner
from dalembert.engine.sweeps import BLOCK


class Swept:
    """Blocks of steps by sweeps; the rest of a block in which they fail by another runner.

    Blocks are counted from the beginning of a run: which way a step is made does not depend on where calls begin and end.
    """

    name = "compiled, by sweeps"

    def __init__(self, sweeps: Native, other: Callable[[], Runner]) -> None:
        self._sweeps, self._other = sweeps, other

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task, up to one that fails."""
        total = Outcome(0, 0)
        while total.steps < task.steps:
            outcome = self._sweeps.run(memory, *rest(out, task, total.steps, task.steps))
            total.swept += outcome.steps
            _add(total, outcome)
            if outcome.failed >= 0:
                end = (task.first + total.steps) // BLOCK * BLOCK + BLOCK - task.first
                memory.before[:] = memory.last  # sweeps keep something else there
                outcome = self._other().run(memory, *rest(out, task, total.steps, min(end, task.steps)))
                _add(total, outcome)
                if outcome.failed >= 0:
                    return replace(total, failed=outcome.failed, size=outcome.size)
        return total


def _add(total: Outcome, part: Outcome) -> None:
    total.steps, total.iterations = total.steps + part.steps, total.iterations + part.iterations


def rest(out: Records, task: Task, begin: int, end: int) -> tuple[Records, Task]:
    """The steps of a task from one to another, with the rows that they write."""
    if begin == 0 and end == task.steps:
        return out, task
    row = (task.first + begin) // task.save_every - task.first // task.save_every
    inputs = task.inputs[begin:end] if len(task.inputs) > 1 else task.inputs
    return out.rows(row, len(out.state)), replace(task, first=task.first + begin, steps=end - begin, inputs=inputs)
