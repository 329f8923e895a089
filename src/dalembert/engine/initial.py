"""Initial values as they were given, checked for shape."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import reals
from dalembert.errors import InconsistentState
from dalembert.systems.base import System

Array = NDArray[np.float64]


def vector(system: System, name: str, value: object) -> Array:
    """One initial value, its shape and its finiteness checked."""
    size = system.size_of(name)
    array = np.atleast_1d(reals(name, value, InconsistentState, f"{size} numbers"))
    if array.shape != (size,):
        names = ", ".join(system.coordinates[:6]) + (", ..." if size > 6 else "")
        hint = f" ({names})" if size == system.n else ""
        raise InconsistentState(f"{name} has the shape {array.shape}; expected {size} numbers{hint}")
    return array


def own_values(system: System, given: Mapping[str, ArrayLike | None]) -> None:
    """Refuse initial values of another kind of system."""
    for name, value in given.items():
        if value is not None and name not in system.starts:
            names = " and ".join(system.state)
            raise InconsistentState(f"{name} is no initial value of {system.name!r}: it starts from {names}")
