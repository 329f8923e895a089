"""What a user gives, checked: names, numbers, and the shapes of expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import MOST, reals, shown, whole
from dalembert.errors import ModelError

Array = NDArray[np.float64]


def mapping(what: str, value: Mapping[str, ArrayLike] | None) -> dict[str, ArrayLike]:
    """A dictionary with names as keys."""
    try:
        out = {} if value is None else dict(value)
    except Exception as error:  # iteration runs code of the value's own type
        raise ModelError(f"{what} must be a dictionary of names and values, not {shown(value)}") from error
    for key in out:
        if not isinstance(key, str):
            raise ModelError(f"{what} must have names as keys, not {shown(key)}")
    return out


def names(coordinates: Sequence[str] | int) -> tuple[str, ...]:
    """The names of coordinates; a number of them is `q0`, `q1`, ..."""
    if isinstance(coordinates, (bool, np.bool_)):
        raise ModelError(f"coordinates is a tuple of names or a number, not {coordinates}")
    if isinstance(coordinates, (int, np.integer)):
        if coordinates < 1:
            raise ModelError(f"a system needs at least one coordinate, not {coordinates}")
        return tuple(f"q{i}" for i in range(whole("the number of coordinates", coordinates, ModelError, most=MOST)))
    if isinstance(coordinates, str):
        raise ModelError(f"coordinates is a tuple of names or a number; for one name write ({coordinates!r},)")
    given = texts("coordinates", coordinates, "a tuple of names or a whole number")
    if not given:
        raise ModelError("a system needs at least one coordinate")
    return given


def texts(what: str, value: object, expected: str) -> tuple[str, ...]:
    """Different names, as a tuple."""
    try:
        given: tuple[str, ...] = tuple(value)  # type: ignore[arg-type]
    except Exception as error:  # iteration runs code of the value's own type
        raise ModelError(f"{what} is {expected}, not {shown(value)}") from error
    for name in given:
        if not isinstance(name, str):
            raise ModelError(f"{what} is {expected}; {shown(name)} is no name")
    if len(set(given)) < len(given):
        raise ModelError(f"{what}: {max(given, key=given.count)!r} is named twice")
    return given


def port_names(ports: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Names that were given for inputs; none where they are called `u1`, `u2`, ..."""
    if ports is None:
        return ()
    expected = f"{count} different names, one for each input"
    given = (ports,) if isinstance(ports, str) else texts("ports", ports, expected)
    if len(given) != count:
        raise ModelError(f"ports must be {expected}, not {ports!r}")
    return given


def numbers(what: str, value: ArrayLike) -> Array:
    """An array of finite numbers."""
    return reals(what, value, ModelError)


def square(role: str, value: SX, n: int) -> SX:
    """A scalar (times identity), a diagonal, or a full matrix, as an n x n SX."""
    if value.is_scalar() and n != 1:
        value = value if value.nnz() else SX(0.0)
        return SX(ca.Sparsity.diag(n), value)
    if value.is_vector() and value.numel() == n and n != 1:
        return ca.sparsify(ca.diag(ca.densify(ca.vec(value))))
    if value.shape != (n, n):
        raise ModelError(f"{role} has the shape {value.shape}; expected {n} x {n}, a diagonal of {n} entries, or a scalar")
    return value


def column(role: str, value: SX, size: int | None = None) -> SX:
    """A vector as a dense column, its length checked."""
    if not value.is_vector() and value.numel() > 0:
        raise ModelError(f"{role} must return a vector, got the shape {value.shape}")
    value = ca.vec(value)
    if size is not None and value.numel() != size:
        raise ModelError(f"{role} must return {size} entries, one for each coordinate, got {value.numel()}")
    return value


def scalar(role: str, value: SX) -> SX:
    """One number, checked."""
    if not value.is_scalar():
        raise ModelError(f"{role} must return one number, got the shape {value.shape}")
    return ca.densify(value)


def spoken(names: Sequence[str]) -> str:
    """Names in a row: `q, v or p`."""
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
