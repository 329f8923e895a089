"""What tells one run from another: values as plain data, functions by what they do and not by where they lie."""

from __future__ import annotations

import functools
import hashlib
import json
import pickle
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass

import numpy as np

Plain = None | bool | int | float | str | list["Plain"]


def digest(value: object) -> str:
    """The same text for the same value, in any process."""
    return hashlib.sha256(json.dumps(plain(value)).encode()).hexdigest()[:32]


def plain(value: object, inside: tuple[int, ...] = ()) -> Plain:
    """A value as data that can be compared; `inside` are the objects around it, which are not entered again."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if id(value) in inside:
        return "again"
    inside = (*inside, id(value))
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
        return [str(value.dtype), str(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, Mapping):
        return sorted(([str(name), plain(x, inside)] for name, x in value.items()), key=json.dumps)
    if isinstance(value, (set, frozenset)):
        return sorted((plain(x, inside) for x in value), key=json.dumps)
    if isinstance(value, (list, tuple)):
        return [plain(x, inside) for x in value]
    if is_dataclass(value) and not isinstance(value, type):
        return [_name(type(value)), *([f.name, plain(getattr(value, f.name), inside)] for f in fields(value))]
    return _function(value, inside) if callable(value) else _thing(value, inside)


def _name(value: object) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _function(value: Callable[..., object], inside: tuple[int, ...]) -> Plain:
    """A function by its code and by all that the code refers to; an object that can be called, by its content as well."""
    if isinstance(value, functools.partial):
        return ["partial", plain(value.func, inside), plain(value.args, inside), plain(value.keywords, inside)]
    if isinstance(value, types.MethodType):
        return ["method", plain(value.__func__, inside), plain(value.__self__, inside)]
    if isinstance(value, types.FunctionType):
        cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=False))
        closed = {name: _content(cell) for name, cell in cells.items()}
        used = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
        rest = [plain(x, inside) for x in (value.__defaults__, value.__kwdefaults__, closed, used)]
        return ["function", _code(value.__code__), *rest]
    own = isinstance(value, (type, types.BuiltinFunctionType, np.ufunc)) or not hasattr(type(value), "__dict__")
    return _name(value) if own else _thing(value, inside, type(value).__call__)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


def _code(code: types.CodeType) -> Plain:
    constants = [_code(c) if isinstance(c, types.CodeType) else plain(c) for c in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), list(code.co_varnames), constants]


def _names(code: types.CodeType) -> set[str]:
    """The names that a function and those inside it refer to."""
    inner = (_names(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*inner)


def _thing(value: object, inside: tuple[int, ...], call: object = None) -> Plain:
    """Any other object: by its attributes, or as it would be pickled; by its type alone where neither is possible."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    name = _name(type(value))
    if isinstance(call, types.FunctionType):
        return [name, plain(call, inside), plain(vars(value) if hasattr(value, "__dict__") else None, inside)]
    try:
        return [name, hashlib.sha256(pickle.dumps(value)).hexdigest()]
    except Exception:  # whatever an object raises that does not want to be written
        return [name, plain(vars(value), inside)] if hasattr(value, "__dict__") else name
