"""Newton's iteration in plain NumPy, for the sources' own algorithms, independent of the library's methods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dalembert.catalog.symbols import Array

Residual = Callable[[Array], Array]


def differences(residual: Residual, x: Array) -> Array:
    """The Jacobian by central differences."""
    steps = 6e-6 * np.maximum(1.0, np.abs(x))
    columns = [(residual(x + d) - residual(x - d)) / (2 * d.sum()) for d in np.diag(steps)]
    return np.stack(columns, axis=1)


def newton(residual: Residual, x: Array, iterations: int = 30) -> Array:
    """Newton's iteration until the updates stop to shrink at round-off."""
    before = np.inf
    for _ in range(iterations):
        update = np.linalg.solve(differences(residual, x), -residual(x))
        x = x + update
        size = float(np.abs(update).max() / (1 + np.abs(x).max()))
        if size == 0.0 or (size < 1e-11 and size >= before / 4):
            return x
        before = size
    return x
