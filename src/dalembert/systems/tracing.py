"""Calling a user's NumPy functions with symbols.

A model function is plain NumPy. It is called once with symbols in the shapes of its arguments (`systems/symbolic.py`), and
what it returns becomes a CasADi expression.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar, overload

import casadi as ca
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.errors import ModelError, suggest
from dalembert.systems import interp as interp  # what NumPy's own function does with symbols
from dalembert.systems.options import option
from dalembert.systems.symbolic import Array, Scalar, symbols, to_sx

__all__ = ["Array", "Model", "Scalar", "call", "symbols", "to_sx", "unpack"]

Model = Callable[..., object] | ArrayLike | SX  # what a user gives for a role: a function of NumPy arrays, or a constant
T = TypeVar("T")
_OURS = str(Path(__file__).parents[1])  # where this package lies


class Lazy(Mapping[str, object]):
    """Arguments that are made when they are asked for: of a large system each has many symbols."""

    def __init__(self, makers: Mapping[str, Callable[[], object]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> object:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def call(role: str, function: object, arguments: Mapping[str, object], known: Mapping[str, object]) -> SX:
    """Call `function` with the arguments that its signature names, as an SX matrix.

    `arguments` are those that this role may use, `known` all the names of the system; a constant
    stands for a function that returns it.
    """
    if not callable(function):
        return _guarded(role, lambda: to_sx(function))
    given = {}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{role}: {function!r} has no signature to match arguments with; wrap it in a lambda") from error
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ModelError(f"{role}: arguments are matched by name, so *args and **kwargs cannot be used")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ModelError(f"{role}: arguments are matched by name, {parameter.name!r} is positional-only")
        if parameter.name in arguments:
            given[parameter.name] = arguments[parameter.name]
        elif parameter.name in known:
            raise ModelError(f"{role} cannot depend on {parameter.name!r}; it may use {', '.join(arguments)}")
        elif parameter.default is parameter.empty:
            raise ModelError(
                f"{role} has an unknown argument {parameter.name!r}{suggest(parameter.name, arguments)} "
                "(add it to parameters=... if it is one)"
            )
    return _guarded(role, lambda: to_sx(function(**given)))


def _guarded(role: str, evaluate: Callable[[], SX]) -> SX:
    try:
        with option("NumpyMode", 1):  # NumPy calls on CasADi's own values with right shapes and without a FutureWarning
            return evaluate()
    except ModelError as error:
        raise ModelError(f"{role}: {error}{_place(error)}") from error
    except Exception as error:
        text = str(error).strip().splitlines()
        hint = "Write it with NumPy functions of its arguments"
        if "no callable" in str(error) or "dtype('O')" in str(error):
            hint = "np.array([...]) of symbols and numbers is a plain array that NumPy cannot treat: build it with np.stack"
        raise ModelError(
            f"{role} could not be evaluated with symbols: {type(error).__name__}: {text[0] if text else ''}{_place(error)}. "
            f"{hint}"
        ) from error


def _place(error: BaseException) -> str:
    """The line of the model that raised an error: the last one outside of this package and of installed ones."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(_OURS) and "site-packages" not in f.filename]
    if not own:
        return ""
    line = f": {own[-1].line}" if own[-1].line else ""
    return f" [{Path(own[-1].filename).name}, line {own[-1].lineno}{line}]"


@overload
def unpack(x: SX) -> tuple[SX, ...]: ...
@overload
def unpack(x: ca.DM) -> tuple[ca.DM, ...]: ...
@overload
def unpack(x: Iterable[T]) -> tuple[T, ...]: ...
def unpack(x: SX | ca.DM | Iterable[T]) -> tuple[object, ...]:
    """The entries of a vector as a tuple: `x, y = da.unpack(q)`, for symbols and for numbers."""
    if isinstance(x, (SX, ca.DM)):
        return tuple(x[i] for i in range(x.numel()))
    return tuple(x)
