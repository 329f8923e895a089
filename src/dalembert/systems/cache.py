"""What was made for a system and is needed again: engines of methods, derived functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import casadi as ca

from dalembert.locks import Lock

MOST = 16  # values of one type that are kept
T = TypeVar("T")
_NONE: dict[Hashable, object] = {}


class Cache:
    """Values by type and key, made when first asked for; of each type only the newest are kept. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[type, dict[Hashable, object]] = {}
        self._marked: dict[int, ca.Function] = {}

    def mark(self, function: ca.Function) -> int:
        """What stands for a function in keys: its address, which is not used again while the cache is there."""
        number: int = function.__hash__()
        self._marked.setdefault(number, function)
        return number

    def get(self, kind: type[T], key: Hashable, make: Callable[[], T], most: int = MOST) -> T:
        """The value of a key, made by `make` if there is none; then the oldest beyond `most` are dropped."""
        found = self._kept.get(kind, _NONE).get(key)  # what is there needs no lock
        if isinstance(found, kind):
            return found
        made = make()  # without the lock: it may take long, and threads that need something else go on
        with self._lock:
            values = self._kept.setdefault(kind, {})
            found = values.setdefault(key, made)  # the first one, where threads made several
            for old in list(values)[:-most]:
                del values[old]
        return found if isinstance(found, kind) else made

    def has(self, kind: type, key: Hashable) -> bool:
        """Whether there is a value of a key."""
        return key in self._kept.get(kind, _NONE)

    def count(self, kind: type) -> int:
        """How many values of a type are kept."""
        return len(self._kept.get(kind, {}))
