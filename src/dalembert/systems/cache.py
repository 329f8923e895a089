"""What was made for a system and is needed again: engines of methods, derived functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

MOST = 16  # values of one type that are kept
T = TypeVar("T")


class Cache:
    """Values by type and key, made when first asked for; of each type only the newest are kept."""

    def __init__(self) -> None:
        self._kept: dict[type, dict[Hashable, object]] = {}

    def get(self, kind: type[T], key: Hashable, make: Callable[[], T], most: int = MOST) -> T:
        """The value of a key, made by `make` if there is none; then the oldest beyond `most` are dropped."""
        values = self._kept.setdefault(kind, {})
        found = values.get(key)
        if isinstance(found, kind):
            return found
        made = make()
        values[key] = made
        for old in list(values)[:-most]:
            del values[old]
        return made

    def count(self, kind: type) -> int:
        """How many values of a type are kept."""
        return len(self._kept.get(kind, {}))
