"""Symbols that behave like NumPy's numbers: what a model function gets, and what it may return.

A `Scalar` is one symbolic number, an `Array` a real object array of them, so that indexing, `len`, unpacking, `reshape`,
`np.stack`, `np.dot` and friends are NumPy's own; element-wise functions and the few routines that cannot treat objects are
mapped to CasADi here.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import cast, overload

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.errors import ModelError
from dalembert.systems.elementary import UFUNCS, power

LONG = 64  # entries, from which on an operation is made on a whole column at once
FEW = 8  # how much longer a column may be than the array that has entries of it
KINKED = frozenset([np.sqrt, np.power, np.float_power, np.hypot])  # what they do depends on whether an entry is a number


class _Symbolic:
    """NumPy's protocol for scalars and arrays of symbols."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        kwargs.pop("dtype", None)
        operands = tuple(_object_array(x) for x in inputs)
        whole = None if kwargs else _whole(ufunc, method, operands)
        if whole is not None:
            return whole
        if method != "__call__" or ufunc not in UFUNCS:
            # reductions and the rest: NumPy's object loops, which call back into Scalar's operators
            result = getattr(ufunc, method)(*operands, **kwargs)
        else:
            rule = UFUNCS[ufunc]
            result = np.frompyfunc(lambda *a: Scalar(rule(*map(_sx, a))), ufunc.nin, 1)(*operands)
            out = kwargs.get("out")
            if isinstance(out, tuple):
                out[0][...] = result
                result = out[0]
        return result.view(Array) if isinstance(result, np.ndarray) else result

    def __array_function__(
        self, func: Callable[..., object], types: Iterable[type], args: Iterable[object], kwargs: Mapping[str, object]
    ) -> object:
        if func in FUNCTIONS:
            return FUNCTIONS[func](*args, **kwargs)
        return _dress(func(*(_strip(x) for x in args), **{k: _strip(x) for k, x in kwargs.items()}))


class Scalar(_Symbolic):
    """One symbolic number, the element of the arrays that a model function sees."""

    __slots__ = ("sx",)
    shape = ()
    ndim = 0
    size = 1

    def __init__(self, sx: SX) -> None:
        self.sx = sx

    def __SX__(self) -> SX:
        return self.sx

    def __bool__(self) -> bool:
        raise ModelError(
            "a model function asks for the truth of a symbol (if, and, max, ==); use np.where(condition, a, b), "
            "np.maximum or np.minimum, and build arrays for them with np.stack, not np.array"
        )

    def __float__(self) -> float:
        raise ModelError("a model function turns a symbol into a float; use NumPy functions and keep it symbolic")

    def __repr__(self) -> str:
        return str(self.sx)

    __hash__ = None  # type: ignore[assignment]

    @property
    def T(self) -> Scalar:
        return self

    def item(self) -> Scalar:
        return self


class _Whole:
    """A long column, of which `Entry` is one; all are made when the first of them is asked for."""

    def __init__(self, column: SX) -> None:
        self.column, self.size = column, column.numel()

    @functools.cached_property
    def entries(self) -> list[SX]:
        out: list[SX] = ca.vertsplit(self.column)
        return out


class Entry(Scalar):
    """An entry of a long column: what is done with whole arrays goes by its place."""

    __slots__ = ("place", "whole")

    def __init__(self, whole: _Whole, place: int) -> None:
        self.whole, self.place = whole, place

    @property
    def sx(self) -> SX:  # type: ignore[override]
        return self.whole.entries[self.place]


def _binary(rule: Callable[..., SX], swapped: bool = False) -> Callable[[Scalar, object], object]:
    def method(self: Scalar, other: object) -> object:
        if isinstance(other, np.ndarray) and other.ndim:
            operands = (other, self) if swapped else (self, other)
            entries: np.ufunc = np.frompyfunc(lambda a, b: Scalar(rule(_sx(a), _sx(b))), 2, 1)
            return entries(*(_object_array(x) for x in operands)).view(Array)
        if not isinstance(other, (Scalar, SX, int, float, np.generic, np.ndarray, ca.DM)):
            return NotImplemented
        value = _sx(other)
        if not value.is_scalar():  # a matrix of CasADi's own
            return rule(value, self.sx) if swapped else rule(self.sx, value)
        return Scalar(rule(value, self.sx) if swapped else rule(self.sx, value))

    return method


for _name, _rule in {**{k: getattr(operator, k) for k in ("add", "sub", "mul", "truediv")}, "pow": power}.items():
    setattr(Scalar, f"__{_name}__", _binary(_rule))
    setattr(Scalar, f"__r{_name}__", _binary(_rule, swapped=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Scalar, f"__{_name}__", _binary(getattr(operator, _name)))
for _name, _logic in {"and": ca.logic_and, "or": ca.logic_or}.items():
    setattr(Scalar, f"__{_name}__", _binary(_logic))
    setattr(Scalar, f"__r{_name}__", _binary(_logic, swapped=True))
for _name, _rule in {"neg": operator.neg, "pos": operator.pos, "abs": ca.fabs, "invert": ca.logic_not}.items():
    setattr(Scalar, f"__{_name}__", lambda self, rule=_rule: Scalar(rule(self.sx)))
for _ufunc, _rule in UFUNCS.items():
    # NumPy's object loops call the method that has the ufunc's name
    if _ufunc.nin == 1:
        setattr(Scalar, _ufunc.__name__, lambda self, rule=_rule: Scalar(rule(self.sx)))
    elif _ufunc.__name__ in ("arctan2", "hypot"):
        setattr(Scalar, _ufunc.__name__, lambda self, other, rule=_rule: Scalar(rule(self.sx, _sx(other))))


class Array(_Symbolic, np.ndarray[tuple[int, ...], np.dtype[np.object_]]):
    """An object array of `Scalar`: what a model function gets for `q`, `v`, `p`, `u` and array parameters."""

    def __SX__(self) -> SX:
        return to_sx(self)

    def clip(self, *limits: object, **named: object) -> object:  # type: ignore[override]
        return _clip(self, *limits, **named)

    def sum(self, axis: int | None = None, **named: object) -> object:  # type: ignore[override]
        return _sum(self, axis, **named)

    def max(self, axis: int | None = None) -> object:  # type: ignore[override]
        return _extreme(np.maximum, self, axis)

    def min(self, axis: int | None = None) -> object:  # type: ignore[override]
        return _extreme(np.minimum, self, axis)


@overload
def symbols(sx: SX, shape: tuple[int, *tuple[int, ...]]) -> Array: ...
@overload
def symbols(sx: SX, shape: tuple[int, ...]) -> Scalar | Array: ...
def symbols(sx: SX, shape: tuple[int, ...]) -> Scalar | Array:
    """Dress an SX of the right number of entries (C order) as a Scalar or an Array of the given shape."""
    if shape == ():
        return Scalar(sx)
    flat, whole = np.empty(int(np.prod(shape)), dtype=object), _Whole(ca.densify(ca.vec(sx)))
    flat[:] = [Entry(whole, i) for i in range(flat.size)] if flat.size >= LONG else [Scalar(x) for x in whole.entries]
    return flat.reshape(shape).view(Array)


def _whole(ufunc: np.ufunc, method: str, operands: tuple[np.ndarray, ...]) -> Scalar | Array | None:
    """An operation on long arrays, made at once in place of entry by entry; None for any other."""
    if method != "__call__" or ufunc not in UFUNCS:
        return None
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    if np.prod(shape) < LONG or (ufunc in KINKED and not _alike(*operands)):
        return None
    columns = [_column(x if x.size == 1 else np.broadcast_to(x, shape)) for x in operands]
    return symbols(UFUNCS[ufunc](*columns), shape)


def _alike(x: np.ndarray, exponent: np.ndarray | None = None) -> bool:
    """Whether all entries are symbols, and taken to one power."""
    one = exponent is None or (exponent.size == 1 and _sx(exponent.item()).is_constant())
    return one and x.dtype == object and not any(_sx(entry).is_constant() for entry in x.ravel())


def _diff(a: object, n: int = 1, axis: int = -1, **named: object) -> object:
    """NumPy's own, for whole arrays."""
    if not isinstance(a, Array) or named or n < 0:
        return _dress(np.diff(_strip(a), n, axis, **named))  # type: ignore[call-overload]
    out = a
    for _ in range(n):
        rows = np.moveaxis(out, axis, 0)
        out = np.moveaxis(rows[1:] - rows[:-1], 0, axis)
    return out


def _sum(a: object, axis: int | None = None, **named: object) -> object:
    """Terms one after another, as in NumPy's loop over objects: long ones at once, and along a short axis whole rows of them."""
    x = a.view(np.ndarray) if isinstance(a, Array) and not named else None
    if x is not None and axis is None and x.size >= LONG:
        return Scalar(ca.sum1(_column(x)))
    if x is not None and isinstance(axis, int) and x.ndim > 1:
        rows = np.moveaxis(x, axis, 0)
        if len(rows) and rows[0].size >= max(LONG, len(rows)):
            return functools.reduce(operator.add, (row.view(Array) for row in rows))
    return _dress(np.sum(_strip(a), axis=axis, **named))  # type: ignore[call-overload]


def _column(x: np.ndarray) -> SX:
    """The entries of an array, one after another."""
    if x.dtype.kind in "fiu":
        return SX(x.ravel())
    begin: dict[int, int] = {}
    parts: list[SX] = []
    places, size = [], 0
    for entry in x.ravel():
        if isinstance(entry, Entry) and entry.whole.size <= FEW * x.size:
            part, place = entry.whole.column, entry.place
        else:
            part, place = _sx(entry), 0
        if id(part) not in begin:
            begin[id(part)] = size
            parts.append(part)
            size += part.numel()
        places.append(begin[id(part)] + place)
    column = parts[0] if len(parts) == 1 else ca.vertcat(*parts)
    return column if places == list(range(size)) else column[places]


def _sx(x: object) -> SX:
    if isinstance(x, Scalar):
        return x.sx
    if isinstance(x, SX):
        return x
    plain = x.item() if isinstance(x, np.generic | np.ndarray) and x.ndim == 0 else x
    return SX(cast(float, plain))  # CasADi refuses what is no number


def _object_array(x: object) -> np.ndarray:
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray)
    cell = np.empty((), dtype=object)
    cell[()] = x
    return cell


def _strip(x: object) -> object:
    if isinstance(x, Array):
        return x.view(np.ndarray)
    if isinstance(x, (tuple, list)):
        return type(x)(_strip(y) for y in x)
    if isinstance(x, dict):
        return {k: _strip(y) for k, y in x.items()}
    return _object_array(x) if isinstance(x, Scalar) else x


def _dress(x: object) -> object:
    if isinstance(x, np.ndarray) and x.dtype == object:
        return x.view(Array) if x.ndim else x.item()
    if isinstance(x, (tuple, list)):
        return type(x)(_dress(y) for y in x)
    return x


def is_symbolic(x: object) -> bool:
    """Whether a value has symbols in it."""
    if isinstance(x, (list, tuple)):
        return any(is_symbolic(y) for y in x)
    return isinstance(x, (Scalar, SX)) or (isinstance(x, np.ndarray) and x.dtype == object)


def elementwise(rule: Callable[..., SX], at: Iterable[object]) -> object:
    """A function of scalars applied to symbols, numbers and arrays of them."""
    operands = [_object_array(x.view(np.ndarray) if isinstance(x, Array) else _lifted(x)) for x in at]
    entries: np.ufunc = np.frompyfunc(lambda *a: Scalar(rule(*map(_sx, a))), len(operands), 1)
    return _dress(entries(*operands))


def _lifted(x: object) -> object:
    return x if isinstance(x, (Scalar, SX, np.ndarray)) or np.ndim(x) == 0 else _nested(x)  # type: ignore[arg-type]


def _where(condition: object, a: object, b: object) -> object:
    choose: np.ufunc = np.frompyfunc(lambda c, x, y: Scalar(ca.if_else(_sx(c), _sx(x), _sx(y))), 3, 1)
    return _dress(choose(*(_object_array(x) if isinstance(x, (Scalar, np.ndarray)) else x for x in (condition, a, b))))


def _norm(x: object, ord: object = None, axis: int | None = None, keepdims: bool = False) -> object:
    if ord not in (None, 2, "fro"):
        raise ModelError(f"np.linalg.norm(..., ord={ord!r}) of symbols is not available; write it out")
    return np.sqrt(np.sum(np.asarray(x, dtype=object).view(Array) ** 2, axis=axis, keepdims=keepdims))


def _clip(a: object, a_min: object = None, a_max: object = None, *, min: object = None, max: object = None) -> object:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    lower, upper = cast(np.ufunc, np.maximum), cast(np.ufunc, np.minimum)
    a = a if low is None else lower(a, low)
    return a if high is None else upper(a, high)


def _extreme(rule: np.ufunc, a: object, axis: int | None = None) -> object:
    array = np.asarray(a, dtype=object).view(Array)
    first, *others = array.ravel() if axis is None else np.moveaxis(array, axis, 0)
    return functools.reduce(rule, others, first)


def _solve(a: object, b: NDArray[np.object_]) -> Scalar | Array:
    return symbols(ca.solve(to_sx(a), to_sx(b)).T, np.shape(b))


def _inv(a: NDArray[np.object_]) -> Scalar | Array:
    return symbols(ca.inv(to_sx(a)).T, np.shape(a))


FUNCTIONS: dict[Callable[..., object], Callable[..., object]] = {
    np.where: _where,
    np.linalg.norm: _norm,
    np.linalg.solve: _solve,
    np.linalg.inv: _inv,
    np.linalg.det: lambda a: Scalar(ca.det(to_sx(a))),
    np.clip: _clip,
    np.sum: _sum,
    np.diff: _diff,
    np.max: lambda a, axis=None: _extreme(np.maximum, a, axis),
    np.min: lambda a, axis=None: _extreme(np.minimum, a, axis),
    np.ndim: lambda a: a.ndim,
    np.shape: lambda a: a.shape,
    np.size: lambda a: a.size,
}


def to_sx(value: object) -> SX:
    """Any value that a model function may return, as a sparse SX matrix (vectors are columns)."""
    if isinstance(value, Scalar):
        return value.sx
    if isinstance(value, (SX, ca.DM)):
        return ca.sparsify(SX(value))
    if hasattr(value, "to_casadi"):
        return ca.sparsify(SX(value.to_casadi()))
    if hasattr(value, "tocoo"):
        coo = value.tocoo()
        out = SX(*coo.shape)
        for i, j, x in zip(coo.row, coo.col, coo.data, strict=True):
            out[int(i), int(j)] = _sx(x)
        return out
    if value is None:
        raise ModelError("the function returned nothing; is a `return` missing?")
    array = _nested(value)
    if array.ndim > 2:
        raise ModelError(f"a value of {array.ndim} dimensions {array.shape}, at most a matrix is expected")
    if array.dtype != object:
        return ca.sparsify(SX(ca.DM(np.asarray(array, dtype=float))))
    elements = array.ravel(order="F")
    if any(not (isinstance(x, Entry) or _sx(x).is_scalar()) for x in elements):
        raise ModelError("a list that mixes scalars and vectors; use np.concatenate to join vectors")
    rows, columns = (len(array), array[0].size) if array.ndim == 2 else (array.size, 1)
    return ca.sparsify(ca.reshape(_column(elements), rows, columns)) if len(elements) else SX(0, 1)


def _nested(value: object) -> np.ndarray:
    """Lists of lists of anything, as an array; CasADi columns inside a list count as vectors."""
    if isinstance(value, (list, tuple)):
        parts = [_nested(x) for x in value]
        if not parts:
            return np.zeros(0)
        if len({p.shape for p in parts}) > 1:
            raise ModelError(f"a ragged list: its entries have the shapes {[p.shape for p in parts]}")
        return np.stack([np.asarray(p) for p in parts])
    if isinstance(value, (SX, ca.DM)) or hasattr(value, "to_casadi"):
        sx = to_sx(value)
        if sx.is_scalar():
            return _object_array(Scalar(sx if sx.nnz() else SX(0.0)))
        shape = (sx.numel(),) if sx.is_vector() else sx.shape
        return symbols(ca.densify(sx if sx.is_vector() else sx.T), shape).view(np.ndarray)
    if isinstance(value, Scalar):
        return _object_array(value)
    return np.asarray(value)
