"""The errors of dalembert: one base, one sentence each that says what to do."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dalembert.solution import Solution

__all__ = [
    "CompilerError",
    "ConvergenceError",
    "DalembertError",
    "InconsistentState",
    "Interrupted",
    "MethodError",
    "MissingPackage",
    "ModelError",
    "SingularConstraints",
    "UnknownKeyword",
]


class DalembertError(Exception):
    """Base of all errors raised by dalembert.

    `solution` holds what was computed before the error (None where nothing was).
    """

    solution: Solution | None = None


class ModelError(DalembertError, ValueError):
    """A system is not what it should be: shapes, symmetry, names of arguments, nan."""


class InconsistentState(DalembertError, ValueError):
    """Initial values violate a constraint; `da.consistent` projects them."""


class SingularConstraints(DalembertError, ValueError):
    """Constraints are linearly dependent; `rows` are the dependent ones, counted from 1."""

    def __init__(self, message: str, rows: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.rows = rows


class MethodError(DalembertError, ValueError):
    """A method does not exist, cannot treat a system, or got an option that makes no sense."""


class MissingPackage(DalembertError, ImportError):
    """An optional package is not installed; the message says what to install."""

    @classmethod
    def of(cls, package: str, extra: str, what: str) -> MissingPackage:
        return cls(f"{what} needs {package}: pip install 'dalembert[{extra}]'")


class UnknownKeyword(DalembertError, TypeError):
    """A keyword that does not exist, with the one that was probably meant."""

    @classmethod
    def of(cls, name: str, unknown: Mapping[str, Any], function: Callable[..., Any]) -> UnknownKeyword:
        known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        wrong = next(iter(unknown))
        return cls(f"{name} has no keyword {wrong!r}{suggest(wrong, known)}")


class CompilerError(DalembertError, RuntimeError):
    """Compilation was demanded and is not possible here."""


class ConvergenceError(DalembertError, RuntimeError):
    """Newton's iteration failed at time `t` with step `step`; `solution` is valid up to `t`."""

    def __init__(self, message: str, *, t: float, step: float, residual: float) -> None:
        super().__init__(message)
        self.t = t
        self.step = step
        self.residual = residual


class StepTooSmall(ConvergenceError):
    """A step size controller has come to its lower bound at time `t`; `solution` is valid up to there."""


class Interrupted(DalembertError, KeyboardInterrupt):
    """Ctrl-C during a run; `solution` holds everything up to then."""


def suggest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest known name, else the list of known names."""
    known, name = list(known), str(name)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(known)}" if known else ""
