"""Progress bars of long work, on the error stream of a terminal only."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A bar for work of more than about two seconds (always with `True`, never with `False`)."""

    def __init__(self, wanted: bool | None, total: int, verb: str = "simulating", unit: str = "steps") -> None:
        self.wanted, self.total, self.verb, self.unit = wanted, total, verb, unit
        self.begun = time.perf_counter()
        self.bar: Progress | None = None
        self.task: TaskID | None = None

    def show(self, done: int, elapsed: float | None = None) -> None:
        """Tell how much is done."""
        if self.wanted is False:
            return
        if self.bar is None:
            elapsed = time.perf_counter() - self.begun if elapsed is None else elapsed
            if not self.wanted and elapsed < 0.3:
                return
            left = elapsed * (self.total - done) / max(1, done)
            widgets = "ipykernel" in sys.modules and find_spec("ipywidgets") is not None  # without them rich prints a warning
            terminal = sys.stderr.isatty() or widgets
            if not (self.wanted or (terminal and (elapsed > 2.0 or elapsed + left > 2.5))):
                return
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self.bar = Progress(
                TextColumn(self.verb), BarColumn(), MofNCompleteColumn(), TextColumn(self.unit), TimeRemainingColumn(),
                console=Console(stderr=True, force_jupyter=None if widgets else False),
            )  # fmt: skip
            self.bar.start()
            self.task = self.bar.add_task("run", total=self.total)
        if self.task is not None:
            self.bar.update(self.task, completed=done)

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
