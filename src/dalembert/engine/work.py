"""What fills arrays of large steps, and the memory of what is needed for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dalembert.engine.patterns import Array, Places

Call = Callable[[], object]
BLOCK = 1 << 18  # numbers of a block of memory at least
ALL, ONE, AT = "{}[i]", "{}[0]", "{}[{}[i]]"  # what of an operand belongs to entry `i`


@dataclass(frozen=True, eq=False)
class Work:
    """What fills a node, by NumPy; and how it is written in C, where it can be.

    `op` is an operation on entries, each operand by what of it belongs to one (`reads`), over `size` entries; or the name of a
    routine of `kernels.c`, with numbers `size` and more.
    """

    call: Call
    out: int
    sources: tuple[int, ...]
    op: int | str | None = None
    reads: tuple[str, ...] = ()
    indices: tuple[Places, ...] = ()
    sizes: tuple[int, ...] = ()


class Scratch:
    """Memory for what is needed while one piece of work is done: the next one takes it again."""

    def __init__(self) -> None:
        self._blocks: list[Array] = []
        self._at = (0, 0)  # the next block, and the next entry of it

    def begin(self) -> None:
        """Another piece of work begins."""
        self._at = (0, 0)

    def take(self, size: int) -> Array:
        """An array that tells itself apart from others in the same memory."""
        block, entry = self._at
        while block < len(self._blocks) and entry + size > len(self._blocks[block]):
            block, entry = block + 1, 0
        if block == len(self._blocks):
            self._blocks.append(np.zeros(max(size, BLOCK)))
        self._at = block, entry + size
        own = memoryview(self._blocks[block].data)[entry : entry + size]
        return np.frombuffer(own) if size else np.zeros(0)
