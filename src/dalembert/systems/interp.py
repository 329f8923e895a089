"""`np.interp` in model functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import reals
from dalembert.errors import ModelError
from dalembert.systems.lookup import table
from dalembert.systems.symbolic import FUNCTIONS, is_symbolic

Array = NDArray[np.float64]


def interp(
    x: object, xp: ArrayLike, fp: ArrayLike, left: object = None, right: object = None, period: float | None = None
) -> object:
    """`np.interp` of symbols: a table that keeps its last values, or repeats itself with a period.

    Points or values that are symbols themselves, parameters of the model, are written out as a sum of hat functions.
    """
    if is_symbolic(xp) or is_symbolic(fp):
        if period is not None:
            raise ModelError("np.interp(..., period=...) needs points and values that are numbers")
        found = _hats(x, xp, fp)
    elif period is not None:
        points, values = _grid_of_period(reals("xp", xp, ModelError), reals("fp", fp, ModelError), float(period))
        return table(points, values, outside="periodic")(x)
    else:
        found = table(xp, fp, outside="hold")(x)
    first, last = (np.asarray(xp, dtype=object)[k] for k in (0, -1))
    if left is not None:
        found = np.where(np.less(x, first), left, found)  # type: ignore[call-overload]
    if right is not None:
        found = np.where(np.greater(x, last), right, found)  # type: ignore[call-overload]
    return found


def _grid_of_period(xp: Array, fp: Array, period: float) -> tuple[Array, Array]:
    """Points brought into one period and sorted, with the first one again at its end; as `np.interp` does."""
    order = np.argsort(xp % period)
    points, values = (xp % period)[order], fp[order]
    return np.append(points, points[0] + period), np.append(values, values[0])


def _hats(x: object, xp: object, fp: object) -> object:
    """The sum of values times the functions that are one at their own point, zero at the others, and straight in between."""
    points, values = (list(np.asarray(a, dtype=object).ravel()) for a in (xp, fp))
    if len(points) != len(values) or len(points) < 2:
        raise ModelError(f"np.interp has {len(points)} points and {len(values)} values; it needs as many, two at least")
    inside = np.clip(x, points[0], points[-1])  # type: ignore[call-overload]
    total: object = 0.0
    for k, value in enumerate(values):
        parts = []
        if k:
            parts.append((inside - points[k - 1]) / (points[k] - points[k - 1]))
        if k + 1 < len(points):
            parts.append((points[k + 1] - inside) / (points[k + 1] - points[k]))
        hat = parts[0] if len(parts) == 1 else np.minimum(*parts)
        total = total + value * np.maximum(hat, 0.0)
    return total


FUNCTIONS[np.interp] = interp
