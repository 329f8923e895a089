"""Whether a function is a formula: it computes what it returns from its arguments, and does nothing else.

Read from its instructions. What is not known to be harmless is not: branches, loops, `print`, attributes, random numbers, or
anything that is remembered. Such a function must be called each time; a formula can be called once, with symbols.
"""

from __future__ import annotations

import builtins
import dis
import math
import types
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS

import numpy as np

_MOVES = (
    "RESUME NOP CACHE PRECALL CALL CALL_KW KW_NAMES PUSH_NULL COPY_FREE_VARS LOAD_CONST LOAD_SMALL_INT LOAD_FAST LOAD_FAST_CHECK "
    "LOAD_FAST_BORROW LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW_LOAD_FAST_BORROW STORE_FAST STORE_FAST_STORE_FAST "
    "STORE_FAST_LOAD_FAST LOAD_GLOBAL LOAD_DEREF LOAD_ATTR LOAD_METHOD BINARY_OP BINARY_SUBSCR BINARY_SLICE BUILD_LIST "
    "BUILD_TUPLE BUILD_SLICE LIST_EXTEND UNPACK_SEQUENCE UNARY_NEGATIVE COMPARE_OP COPY SWAP RETURN_VALUE RETURN_CONST"
)
_HARMLESS = frozenset(_MOVES.split())
_CHANGES = frozenset(["STORE_SUBSCR"])  # of what the function was given or made: harmless where it reaches nothing else
_OPERATORS = ("+", "-", "*", "/", "**", "@")
_NUMPY = (
    "pi sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh exp log sqrt abs absolute sign square maximum minimum clip where "
    "hypot dot sum stack concatenate hstack vstack array asarray linalg norm diff T"
)
_ATTRIBUTES = frozenset(_NUMPY.split())
_BUILTINS = frozenset([abs, sum, len, tuple, list, float])


def formula(function: object) -> bool:
    """Whether calling a function once, with symbols, shows all that it will ever do."""
    return isinstance(function, types.FunctionType) and _pure(function, ())


def _pure(function: types.FunctionType, inside: tuple[object, ...]) -> bool:
    read = _read(function.__code__)
    if read is None or function in inside:
        return False
    changes, names = read
    around = [*_around(function, names)]
    return all(_known(x, (*inside, function)) for x in around) and not (changes and any(_mutable(x) for x in around))


@lru_cache(64)
def _read(code: types.CodeType) -> tuple[bool, tuple[str, ...]] | None:
    """Whether a function changes things in place, and the global names that it asks for; None where it is no formula."""
    changes, names = False, list[str]()
    if code.co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR):
        return None
    for one in dis.get_instructions(code):
        operator = one.argrepr if one.opname == "BINARY_OP" else ""
        changes |= one.opname in _CHANGES or operator.endswith("=")
        if one.opname not in _HARMLESS and one.opname not in _CHANGES:
            return None
        if operator.rstrip("=") not in ("", "[]", *_OPERATORS):
            return None
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD") and one.argval not in _ATTRIBUTES:
            return None
        if one.opname == "LOAD_GLOBAL":
            names.append(one.argval)
    return changes, tuple(names)


def _around(function: types.FunctionType, names: Sequence[str]) -> Iterator[object]:
    """What a function refers to beside its arguments."""
    for cell in function.__closure__ or ():
        yield _MISSING if cell == types.CellType() else cell.cell_contents
    for name in names:
        yield function.__globals__.get(name, getattr(builtins, name, _MISSING))
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


_MISSING = object()


def _mutable(value: object) -> bool:
    return isinstance(value, (np.ndarray, list))


def _known(value: object, inside: tuple[object, ...]) -> bool:
    """Numbers, arrays and lists of them, NumPy, its functions, and other formulas."""
    if value is None or isinstance(value, (bool, int, float, np.floating, np.integer)) or value is np:
        return True
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub"
    if isinstance(value, (tuple, list)):
        return all(_known(x, inside) for x in value)
    if isinstance(value, types.FunctionType):
        own = getattr(np, value.__name__, None) is value  # NumPy's own, such as np.where, imported by name
        return value.__name__ in _ATTRIBUTES if own else _pure(value, inside)
    if isinstance(value, np.ufunc):
        return value.__name__ in _ATTRIBUTES
    return isinstance(value, Callable) and value in _BUILTINS  # type: ignore[arg-type]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two results agree to rounding; what is not finite must be so in both."""
    size = max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=math.sqrt(math.ulp(1.0)) * 1e-6 * size, equal_nan=True)
