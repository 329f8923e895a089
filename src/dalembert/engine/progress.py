"""Progress bars of long work, on the error stream of a terminal only."""

from __future__ import annotations

import sys
import time
from contextvars import ContextVar, Token
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A bar for work of more than about two seconds (always with `True`, never with `False`); a passing one leaves no trace."""

    def __init__(
        self, wanted: bool | None, total: int, verb: str = "simulating", unit: str = "steps", passing: bool = False
    ) -> None:
        self.wanted, self.total, self.verb, self.unit, self.passing = wanted, total, verb, unit, passing
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
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(self.unit), TimeRemainingColumn(),
                console=Console(stderr=True, force_jupyter=None if widgets else False), transient=self.passing,
            )  # fmt: skip
            self.bar.start()
            self.task = self.bar.add_task(self.verb, total=self.total)
        if self.task is not None:
            self.bar.update(self.task, completed=done, description=self.verb)

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


STAGES = ("the start", "equations", "slopes", "operations", "compiling")  # of what is done before the first step
_SHOWN: ContextVar[Stages | None] = ContextVar("stages", default=None)


class Stages:
    """The bar of what is done before a run, stage by stage; it makes way for that of the run."""

    def __init__(self, wanted: bool | None) -> None:
        self._bar = Bar(wanted, len(STAGES), unit="stages", passing=True)
        self._token: Token[Stages | None] | None = None

    def show(self, name: str) -> None:
        self._bar.verb = f"setting up: {name}"
        self._bar.show(STAGES.index(name))

    def close(self) -> None:
        """Take the bar away; later stages are not shown."""
        self._bar.close()
        self._bar.wanted = False

    def __enter__(self) -> Stages:
        self._token = _SHOWN.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        if self._token is not None:
            _SHOWN.reset(self._token)


def stage(name: str) -> None:
    """Say what is done now, where a call shows it."""
    shown = _SHOWN.get()
    if shown is not None:
        shown.show(name)


def ready() -> None:
    """All is set up: the run begins."""
    shown = _SHOWN.get()
    if shown is not None:
        shown.close()
