"""Plain data from a file, taken apart with care: each value has the type that is expected, or the file is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dalembert.errors import FileError

T = TypeVar("T")
LARGEST = 1_000_000  # entries of a vector or rows of a matrix at most


def parse(text: str | bytes) -> object:
    """Text as data."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"its data cannot be read: {str(error)[:100]}") from error


def get(data: object, key: str, kind: type[T]) -> T:
    """The value of a key, of this very type: True is no number here."""
    if type(data) is not dict:
        raise FileError(f"a dictionary with {key!r} is expected, not {_short(data)}")
    if key not in data:
        raise FileError(f"{key!r} is missing")
    return of(data[key], key, kind)


def of(value: object, what: str, kind: type[T]) -> T:
    """A value of this very type; a whole number may stand for a float."""
    if kind is float and type(value) is int and abs(value) < 2**53:
        value = float(value)
    if type(value) is not kind:
        raise FileError(f"{what!r} is {_short(value)}, where {kind.__name__} is expected")
    return value


def maybe(data: object, key: str, kind: type[T]) -> T | None:
    """Like `get`, where None is allowed."""
    empty = type(data) is dict and key in data and data[key] is None
    return None if empty else get(data, key, kind)


def each(value: object, what: str, kind: type[T]) -> list[T]:
    """A list of values of one type."""
    return [of(entry, what, kind) for entry in of(value, what, list)]


def size(value: object, what: str, least: int = 0, most: int = LARGEST) -> int:
    """A whole number within bounds."""
    number = of(value, what, int)
    if not least <= number <= most:
        raise FileError(f"{what!r} is {_short(number)}, where a number from {least} to {most} is expected")
    return number


def array(value: object, what: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Nested lists of numbers as an array of a known shape."""
    try:
        out = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FileError(f"{what!r} is no array of numbers") from error
    if math.prod(shape) == 0 == out.size:
        return np.zeros(shape)
    if out.shape != shape:
        raise FileError(f"{what!r} has the shape {out.shape}, where {shape} is expected")
    return out


def guarded(what: str, make: Callable[[], T]) -> T:
    """What is made of data that passed the checks; an error that these did not foresee is one of the data too."""
    try:
        return make()
    except FileError as error:
        raise FileError(f"{what}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise FileError(f"{what}: {str(error)[:200]}") from error


def _short(value: object) -> str:
    if isinstance(value, (str, list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) > 10**20:
        return "a very large number"
    return repr(value)
