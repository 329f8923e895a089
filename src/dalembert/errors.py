"""Errors of dalembert. Each message is one sentence that says what to do."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from dalembert.solution import Solution

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)
C = TypeVar("C", bound=type)

__all__ = [
    "CompilerError",
    "ConvergenceError",
    "DalembertError",
    "DalembertWarning",
    "EventError",
    "FileError",
    "InconsistentState",
    "Interrupted",
    "MethodError",
    "MissingPackage",
    "ModelError",
    "SingularConstraints",
    "UnknownKeyword",
    "UnknownQuantity",
]


class DalembertError(Exception):
    """Base class of the errors of dalembert.

    `solution` holds what was computed before the error (None if nothing was).
    """

    solution: Solution | None = None

    def __reduce__(self) -> tuple[Callable[..., BaseException], tuple[object, ...]]:
        # Python's own way calls the class with `args` alone, which fails where it takes keywords
        return _restored, (type(self), self.args, vars(self))


def _restored(cls: type[E], arguments: tuple[object, ...], attributes: dict[str, object]) -> E:
    """An error read from a pickle."""
    error = cls.__new__(cls, *arguments)
    vars(error).update(attributes)
    return error


class DalembertWarning(UserWarning):
    """A result is less than it could be; the message says what to do."""


class ModelError(DalembertError, ValueError):
    """A system is not valid: shapes, symmetry, names of arguments, nan."""


class InconsistentState(DalembertError, ValueError):
    """Initial values violate a constraint; `da.consistent` projects them."""


class SingularConstraints(DalembertError, ValueError):
    """Constraints are linearly dependent; `rows` are the numbers of the dependent ones, from 1."""

    def __init__(self, message: str, rows: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.rows = rows


class MethodError(DalembertError, ValueError):
    """A method does not exist, does not support a system, or got an invalid option."""


class UnknownQuantity(MethodError, AttributeError):
    """A result has no such quantity: `hasattr(sol, "q")` is False, and `sol.q` says what there is."""


class FileError(MethodError):
    """A file cannot be written, or is none that can be read: damaged, of another version, or of another program."""


class MissingPackage(DalembertError, ImportError):
    """An optional package is not installed; the message says what to install."""

    @classmethod
    def of(cls, package: str, extra: str, what: str) -> MissingPackage:
        return cls(f"{what} needs {package}: pip install 'dalembert[{extra}]'")


class UnknownKeyword(DalembertError, TypeError):
    """An unknown keyword; the message suggests a known one."""

    @classmethod
    def of(cls, name: str, unknown: Mapping[str, object], function: Callable[..., object]) -> UnknownKeyword:
        known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        wrong = next(iter(unknown))
        return cls(f"{name} has no keyword {wrong!r}{suggest(wrong, known)}")


class CompilerError(DalembertError, RuntimeError):
    """Compilation was requested (`compile=True`) and is not possible."""


class ConvergenceError(DalembertError, RuntimeError):
    """Newton's iteration failed at time `t` with step `step`; `solution` is valid up to `t`."""

    def __init__(self, message: str, *, t: float, step: float, residual: float) -> None:
        super().__init__(message)
        self.t = t
        self.step = step
        self.residual = residual


class EventError(DalembertError, RuntimeError):
    """Events follow each other without end, or what one asks for is not possible; `solution` holds the run up to there."""


class StepTooSmall(ConvergenceError):
    """A step-size controller reached its lower bound at time `t`; `solution` is valid up to `t`."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; `solution` holds what was computed.

    Like `KeyboardInterrupt`, and unlike the errors above, it is not caught by `except Exception` or `except DalembertError`:
    Ctrl-C ends a loop over runs that skips those which fail.
    """

    solution: Solution | None = None


def suggest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the closest known name; the list of known names if none is close."""
    known, name = list(known), str(name)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(known)}" if known else ""


@overload
def suggesting(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def suggesting(*, options: Iterable[str]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def suggesting(
    function: Callable[P, R] | None = None, /, *, options: Iterable[str] = ()
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function, or the `__init__` of a class, raise `UnknownKeyword` with a suggestion instead of a bare TypeError.

    The signature stays as it is written, so that a type checker sees an unknown keyword too. Keywords are checked before the
    call: a TypeError raised inside the function is not touched. `options` are the keywords that a function with `**options`
    passes on.
    """
    if function is None:
        return lambda decorated: _checked(decorated, options)
    return _checked(function, options)


def _checked(function: Callable[P, R], options: Iterable[str]) -> Callable[P, R]:
    parameters = inspect.signature(function).parameters.values()
    by_name = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    of_class = function.__name__ == "__init__"
    known = dict.fromkeys(name for name in (*by_name, *options) if name != "self")
    if not options and any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise TypeError(f"{function.__qualname__} takes any keyword: say which by suggesting(options=...)")

    @functools.wraps(function)
    def inner(*arguments: P.args, **keywords: P.kwargs) -> R:
        if not keywords.keys() <= known.keys():
            name = type(arguments[0]).__name__ if of_class else function.__name__
            wrong = next(key for key in keywords if key not in known)
            raise UnknownKeyword(f"{name} has no keyword {wrong!r}{suggest(wrong, known)}")
        return function(*arguments, **keywords)

    return inner


def strict(cls: C) -> C:
    """Make the constructor of a class, a dataclass for example, raise `UnknownKeyword` with a suggestion."""
    cls.__init__ = suggesting(cls.__init__)  # type: ignore[misc]  # of this very class, not of an instance
    return cls
