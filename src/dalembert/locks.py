"""Locks that a forked process can take, whatever the threads of its parent were doing."""

from __future__ import annotations

import os
import threading
from functools import partial
from types import TracebackType

_FORKS: list[None] = []  # an entry for each fork that led to this process


class Lock:
    """One thread at a time, which may enter again.

    A fork copies the lock of a running thread but not the thread that would open it: in the child every lock begins anew.
    """

    def __init__(self) -> None:
        self._locks = {len(_FORKS): threading.RLock()}

    def __enter__(self) -> None:
        self._own().acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._own().release()

    def _own(self) -> threading.RLock:
        """The lock of this process; the first one, where threads made several."""
        found = self._locks.get(len(_FORKS))
        return self._locks.setdefault(len(_FORKS), threading.RLock()) if found is None else found


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(_FORKS.append, None))  # no Python in it: a signal would end it, and be lost
