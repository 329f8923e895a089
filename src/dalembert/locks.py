"""Locks that a forked process can take, whatever the threads of its parent were doing."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from weakref import WeakSet

_ALL: WeakSet[Lock] = WeakSet()


class Lock:
    """One thread at a time, which may enter again.

    A fork copies the lock of a running thread but not the thread that would open it: in the child every lock begins anew.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _ALL.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()


def _open_all() -> None:
    for lock in list(_ALL):
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
