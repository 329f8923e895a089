"""Whether numbers are round-off, which a curve would only blow up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

ROUND_OFF = 2e3 * float(np.finfo(float).eps)  # of a number that was computed in some thousand operations


def noisy(values: ArrayLike, scale: float) -> bool:
    """Whether all values are round-off of numbers as large as `scale`, sums over a long run included.

    The bound is `2000 eps scale sqrt(n / 1000)` for more than a thousand values: errors of steps add up like a random walk.
    """
    sizes = np.abs(np.asarray(values, dtype=float))
    bound = ROUND_OFF * max(scale, np.finfo(float).tiny) * np.sqrt(max(1.0, sizes.size / 1000))
    return bool(sizes.size == 0 or sizes.max() <= bound)
