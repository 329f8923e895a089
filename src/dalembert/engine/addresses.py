"""Where the numbers of arrays lie in memory, for native calls."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

_Nothing = ctypes.c_char * 0


def address(array: NDArray[np.float64]) -> int:
    """The address of the first number of an array without gaps."""
    if not array.flags.writeable:
        return int(array.ctypes.data)  # which takes five times as long
    return ctypes.addressof(_Nothing.from_buffer(array))  # type: ignore[arg-type]
