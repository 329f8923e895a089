"""What a user gives, checked: numbers, counts, choices, names. Whatever it is, what is wrong is said by an error of ours."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from dalembert.errors import DalembertError, MethodError, suggest, suggesting

P = ParamSpec("P")
R = TypeVar("R")
Array = NDArray[np.float64]
Errors = type[DalembertError]
LARGE = 1e150  # of a number: its square can still be computed with
MOST = 10**6  # coordinates, inputs or algebraic variables: what a system of expressions can hold


def shown(value: object) -> str:
    """A value as text for a message, shortened; an object that cannot print itself is shown by its type."""
    try:
        text = repr(value)
    except Exception:  # the value is the user's: its `__repr__` may do anything, an int of over 4300 digits refuses
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 200 else f"{text[:200]}..."


def reals(what: str, value: object, error: Errors, expected: str = "a number or an array of numbers") -> Array:
    """An array of finite real numbers; complex numbers, text and dates are refused, not converted."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "buifO" or (array.dtype.kind == "O" and any(isinstance(x, str) for x in array.flat)):
            raise TypeError(f"{array.dtype} is not a type of real numbers")
        out = np.array(array, dtype=np.float64)
    except Exception as why:  # conversion runs code of the value's own type, which may raise anything
        raise error(f"{what} must be {expected}, not {shown(value)}") from why
    if not np.isfinite(out).all():
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        if not first:
            raise error(f"{what} must be finite, not {out}")
        place = first[0] + 1 if len(first) == 1 else tuple(i + 1 for i in first)
        raise error(f"{what} is not finite: its entry {place} is {out[first]}")
    return out


def number(what: str, value: object, error: Errors = MethodError) -> float:
    """One finite number."""
    if type(value) is float and math.isfinite(value):
        return value
    out = reals(what, value, error, "a number")
    if out.size != 1 or isinstance(value, (bool, np.bool_)):
        raise error(f"{what} must be a number, not {shown(value)}")
    return float(out.reshape(()))


def positive(what: str, value: object, error: Errors = MethodError) -> float:
    """One finite number above zero."""
    out = number(what, value, error)
    if out <= 0:
        raise error(f"{what} must be positive, not {out:g}")
    return out


def whole(what: str, value: object, error: Errors = MethodError, least: int = 1, most: int | None = None) -> int:
    """A whole number within bounds; 3.0 counts as one."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError("a truth value")
        out = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)  # type: ignore[arg-type]
    except Exception as why:  # `__index__` of the value's own type may raise anything
        raise error(f"{what} must be a whole number, at least {least}, not {shown(value)}") from why
    if out < least:
        raise error(f"{what} must be a whole number, at least {least}, not {shown(value)}")
    if most is not None and out > most:
        raise error(f"{what} is at most {most}, not {shown(value)}")
    return out


def listed(what: str, value: Iterable[R], error: Errors, expected: str) -> list[R]:
    """A list of whatever was given as one; a text is none."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError("a text")
        return list(value)
    except Exception as why:  # iteration runs code of the value's own type
        raise error(f"{what} must be {expected}, not {shown(value)}") from why


def one_of(what: str, value: object, known: Iterable[str], error: Errors = MethodError, extra: str = "") -> str:
    """One of some names; `extra` says what else is taken, where the caller has looked for that."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        hint = suggest(value, names) if isinstance(value, str) else ""
        raise error(
            f"{what} must be one of {', '.join(names)}{extra}, not {shown(value)}{hint if 'did you mean' in hint else ''}"
        )
    return value


def flag(what: str, value: object, error: Errors = MethodError) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise error(f"{what} must be True or False, not {shown(value)}")
    return bool(value)


def text(what: str, value: object, error: Errors = MethodError) -> str:
    """A text."""
    if not isinstance(value, str):
        raise error(f"{what} must be a text, not {shown(value)}")
    return value


def declared(error: Errors) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check the arguments of a function by the types that it declares for them, and refuse unknown keywords."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature, strict = inspect.signature(function), suggesting(function)

        @functools.wraps(function)
        def inner(*arguments: P.args, **keywords: P.kwargs) -> R:
            if not keywords.keys() <= signature.parameters.keys():
                return strict(*arguments, **keywords)  # which says what is wrong
            bound = signature.bind_partial(*arguments, **keywords)
            for name, value in bound.arguments.items():
                bound.arguments[name] = _check(name, value, str(signature.parameters[name].annotation), error)
            return strict(*bound.args, **bound.kwargs)

        return inner

    return decorate


def options(owner: object, error: Errors = MethodError) -> None:
    """Check the fields of a dataclass by the types that it declares for them; numbers become floats."""
    for field in fields(owner):  # type: ignore[arg-type]
        given = getattr(owner, field.name)
        checked = _check(field.name, given, str(field.type), error)
        if checked is not given:
            object.__setattr__(owner, field.name, checked)  # it is still being made, frozen or not


def _check(name: str, value: object, declaration: str, error: Errors) -> object:
    """A value that is declared as one number, whole number, truth value or text; None where that is declared too."""
    kind, _, rest = declaration.partition(" | ")
    if rest not in ("", "None") or (rest and value is None):
        return value
    if kind == "float":
        out = number(name, value, error)
        if abs(out) > LARGE:
            raise error(f"{name} = {out:g} is too large: numbers above {LARGE:g} have no finite squares")
        return out
    if kind == "int":
        whole(name, value, error, most=MOST)
    elif kind == "bool":
        flag(name, value, error)
    elif kind == "str":
        text(name, value, error)
    return value
