"""Ctrl-C at the right moment: work that must not be left half done is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C waits for the end of what is done inside: files that are written, and locks of other libraries that are held."""
    old = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or old is None:  # it does not come here, or is not Python's
        yield
        return
    met: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: met.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)
        if met:
            signal.raise_signal(signal.SIGINT)


class recognised:
    """Ctrl-C as `KeyboardInterrupt`: inside a conversion of CasADi's arrays NumPy makes a `SystemError` of it.

    No generator: each run enters it several times.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, SystemError) and isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
