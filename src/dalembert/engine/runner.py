"""What runs a program."""

from __future__ import annotations

from typing import Protocol

from dalembert.engine.machine import Memory, Outcome, Records, Task


class Runner(Protocol):
    """Advances a memory by the steps of a task and writes rows; see `Task`."""

    @property
    def name(self) -> str: ...

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome: ...
