"""Initial values and inputs as they were given, checked for shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import reals
from dalembert.errors import InconsistentState, MethodError
from dalembert.systems.base import System

Array = NDArray[np.float64]
Inputs = Callable[[Array], Array]


def vector(system: System, name: str, value: object) -> Array:
    """One initial value, its shape and its finiteness checked."""
    size = system.size_of(name)
    array = np.atleast_1d(reals(name, value, InconsistentState, f"{size} numbers"))
    if array.shape != (size,):
        names = ", ".join(system.coordinates[:6]) + (", ..." if size > 6 else "")
        hint = f" ({names})" if size == system.n else ""
        raise InconsistentState(f"{name} has the shape {array.shape}; expected {size} numbers{hint}")
    return array


def inputs_of(system: System, u: object, t0: float) -> Inputs:
    """Inputs as a function from times to rows, checked at the start."""
    nu = system.nu
    if u is None:
        return lambda t: np.zeros((len(t), nu))
    if not nu:
        raise MethodError(f"{system.name!r} has no inputs, but u was given; declare them with inputs=...")

    if isinstance(u, tuple) and len(u) == 2 and np.ndim(u[0]) == 1:
        return _held(nu, *u)

    def rows(t: Array) -> Array:
        if not callable(u):
            return np.broadcast_to(np.asarray(u, dtype=float).reshape(1, nu), (len(t), nu))
        return np.array([np.atleast_1d(u(float(s))) for s in t], dtype=float).reshape(len(t), nu)

    try:
        first = rows(np.array([t0]))
    except Exception as error:
        if callable(u) and isinstance(error, TypeError) and "argument" in str(error):
            raise InconsistentState(
                f"u is a function of t alone ({error}); what depends on the motion belongs in force=... or feedback=..."
            ) from error
        raise InconsistentState(
            f"u must give {nu} numbers for {system.name!r} (a constant or a function of t): {type(error).__name__}: {error}"
        ) from error
    if not np.isfinite(first).all():
        raise InconsistentState(f"u is not finite at t = {t0:g}: {first[0]}")
    return rows


def _held(nu: int, times: ArrayLike, values: ArrayLike) -> Inputs:
    """Sampled inputs: each value holds from its time on."""
    try:
        t, u = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InconsistentState(f"u=(times, values) needs numbers, one row of values for each time: {error}") from error
    if not len(t) or not np.isfinite(t).all():
        raise InconsistentState(f"u=(times, values) needs at least one time, and finite ones, not {times!r}")
    u = u[:, None] if u.ndim == 1 else u
    if u.ndim != 2 or len(u) != len(t):
        raise InconsistentState(f"u=(times, values) needs one row of values for each time: {len(t)} times, values {u.shape}")
    if u.shape[1] != nu or not np.isfinite(u).all() or not (np.diff(t) > 0).all():
        raise InconsistentState(f"u=(times, values) needs increasing times and {nu} finite values for each, not {u.shape}")
    return lambda s: u[np.clip(np.searchsorted(t, s + 1e-12 * np.abs(s), side="right") - 1, 0, len(t) - 1)]


def own_values(system: System, given: Mapping[str, ArrayLike | None]) -> None:
    """Refuse initial values of another kind of system."""
    for name, value in given.items():
        if value is not None and name not in system.starts:
            names = " and ".join(system.state)
            raise InconsistentState(f"{name} is no initial value of {system.name!r}: it starts from {names}")
