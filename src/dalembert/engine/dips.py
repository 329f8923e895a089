"""Values of one sign at both ends of a step, with a visit to the other side in between: where to look for it.

The cubic through values and slopes at both ends has one extremum towards zero where the values go there at first and come back in
the end. It is an estimate: a step is worth a look where the cubic comes near zero, by `MARGIN` of the way that it goes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MARGIN = 0.2


def extremum(h: Array, a: Array, b: Array, slope_a: Array, slope_b: Array) -> tuple[Array, Array]:
    """Place (0 to 1 in a step) and value of the extremum of the cubic; nan where the slopes at the ends are of one sign."""
    with np.errstate(all="ignore"):
        side = -np.sign(slope_a)  # a minimum where the values fall at first
        p, q = side * h * slope_a, side * h * slope_b
        way = side * (b - a)
        c, d = 3 * way - 2 * p - q, p + q - 2 * way
        x = -p / (c + np.sqrt(np.maximum(c * c - 3 * d * p, 0.0)))
        value = side * a + x * (p + x * (c + x * d))
    there = (p < 0) & (q > 0) & (x > 0) & (x < 1)
    return np.where(there, x, np.nan), np.where(there, side * value, np.nan)


def candidates(h: Array, a: Array, b: Array, slope_a: Array, slope_b: Array) -> Array:
    """Where in a step the other side may be visited; nan where that is not to be expected."""
    x, value = extremum(h, a, b, slope_a, slope_b)
    side = np.sign(a)
    with np.errstate(all="ignore"):
        towards = (side * b > 0) & (side * slope_a < 0)
        near = side * value <= MARGIN * (np.maximum(np.abs(a), np.abs(b)) - side * value)
    return np.where(towards & near, x, np.nan)
