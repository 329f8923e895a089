"""Calling a user's NumPy functions with symbols.

A model function is plain NumPy. It is called once with arrays of `Scalar` symbols, real object arrays
of NumPy, so that indexing, `len`, unpacking, `reshape`, `np.stack`, `np.dot` and friends are NumPy's own;
element-wise functions and the few routines that cannot treat objects are mapped to CasADi here.
"""

from __future__ import annotations

import inspect
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import casadi as ca
import numpy as np

from dalembert.errors import ModelError, suggest

SX = ca.SX
_LOCK = threading.RLock()


@contextmanager
def _numpy_mode(mode: int = 1) -> Iterator[None]:
    """NumPy calls on CasADi's own values with right shapes and without a FutureWarning, for models that use its functions.

    The option is one for the whole process: it is set while a model function runs, by one thread at a time.
    """
    with _LOCK:
        before = ca.GlobalOptions.getNumpyMode()
        ca.GlobalOptions.setNumpyMode(mode)
        try:
            yield
        finally:
            ca.GlobalOptions.setNumpyMode(before)


_UFUNCS: dict[np.ufunc, Callable[..., SX]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.power: operator.pow,
    np.float_power: operator.pow,
    np.negative: operator.neg,
    np.positive: lambda x: x,
    np.conjugate: lambda x: x,
    np.square: lambda x: x**2,
    np.reciprocal: lambda x: 1 / x,
    np.absolute: ca.fabs,
    np.fabs: ca.fabs,
    np.sign: ca.sign,
    np.sqrt: ca.sqrt,
    np.cbrt: lambda x: ca.sign(x) * ca.fabs(x) ** (1 / 3),
    np.exp: ca.exp,
    np.expm1: ca.expm1,
    np.log: ca.log,
    np.log1p: ca.log1p,
    np.log2: lambda x: ca.log(x) / np.log(2.0),
    np.log10: lambda x: ca.log(x) / np.log(10.0),
    np.sin: ca.sin,
    np.cos: ca.cos,
    np.tan: ca.tan,
    np.arcsin: ca.asin,
    np.arccos: ca.acos,
    np.arctan: ca.atan,
    np.arctan2: ca.atan2,
    np.sinh: ca.sinh,
    np.cosh: ca.cosh,
    np.tanh: ca.tanh,
    np.arcsinh: ca.asinh,
    np.arccosh: ca.acosh,
    np.arctanh: ca.atanh,
    np.hypot: lambda x, y: ca.sqrt(x**2 + y**2),
    np.deg2rad: lambda x: x * (np.pi / 180),
    np.rad2deg: lambda x: x * (180 / np.pi),
    np.radians: lambda x: x * (np.pi / 180),
    np.degrees: lambda x: x * (180 / np.pi),
    np.maximum: ca.fmax,
    np.minimum: ca.fmin,
    np.fmax: ca.fmax,
    np.fmin: ca.fmin,
    np.floor: ca.floor,
    np.ceil: ca.ceil,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.logical_and: ca.logic_and,
    np.logical_or: ca.logic_or,
    np.logical_not: ca.logic_not,
    np.bitwise_and: ca.logic_and,
    np.bitwise_or: ca.logic_or,
    np.invert: ca.logic_not,
    np.heaviside: lambda x, y: ca.if_else(x > 0, 1, ca.if_else(x < 0, 0, y)),
}


class _Symbolic:
    """NumPy's protocol for scalars and arrays of symbols."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        kwargs.pop("dtype", None)
        inputs = tuple(_object_array(x) for x in inputs)
        if method != "__call__" or ufunc not in _UFUNCS:
            # reductions and the rest: NumPy's object loops, which call back into Scalar's operators
            result = getattr(ufunc, method)(*inputs, **kwargs)
        else:
            rule = _UFUNCS[ufunc]
            result = np.frompyfunc(lambda *a: Scalar(rule(*map(_sx, a))), ufunc.nin, 1)(*inputs)
            out = kwargs.get("out")
            if out is not None:
                out[0][...] = result
                result = out[0]
        return result.view(Array) if isinstance(result, np.ndarray) else result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in _FUNCTIONS:
            return _FUNCTIONS[func](*args, **kwargs)
        plain = _strip(args), _strip(kwargs)
        result = func(*plain[0], **plain[1])
        return _dress(result)


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


def _binary(rule: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    def method(self: Scalar, other: Any) -> Any:
        if isinstance(other, np.ndarray) and other.ndim:
            operands = (other, self) if swapped else (self, other)
            return np.frompyfunc(lambda a, b: Scalar(rule(_sx(a), _sx(b))), 2, 1)(*(_object_array(x) for x in operands)).view(
                Array
            )
        if not isinstance(other, (Scalar, SX, int, float, np.generic, np.ndarray, ca.DM)):
            return NotImplemented
        value = _sx(other)
        if not value.is_scalar():
            return rule(value, self.sx) if swapped else rule(self.sx, value)
        return Scalar(rule(value, self.sx) if swapped else rule(self.sx, value))

    return method


for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(Scalar, f"__{_name}__", _binary(getattr(operator, _name)))
    setattr(Scalar, f"__r{_name}__", _binary(getattr(operator, _name), swapped=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Scalar, f"__{_name}__", _binary(getattr(operator, _name)))
for _name, _logic in {"and": ca.logic_and, "or": ca.logic_or}.items():
    setattr(Scalar, f"__{_name}__", _binary(_logic))
    setattr(Scalar, f"__r{_name}__", _binary(_logic, swapped=True))
for _name, _rule in {"neg": operator.neg, "pos": operator.pos, "abs": ca.fabs, "invert": ca.logic_not}.items():
    setattr(Scalar, f"__{_name}__", lambda self, rule=_rule: Scalar(rule(self.sx)))
for _ufunc, _rule in _UFUNCS.items():
    # NumPy's object loops call the method that has the ufunc's name
    if _ufunc.nin == 1:
        setattr(Scalar, _ufunc.__name__, lambda self, rule=_rule: Scalar(rule(self.sx)))
    elif _ufunc.__name__ in ("arctan2", "hypot"):
        setattr(Scalar, _ufunc.__name__, lambda self, other, rule=_rule: Scalar(rule(self.sx, _sx(other))))


class Array(_Symbolic, np.ndarray):
    """An object array of `Scalar`: what a model function gets for `q`, `v`, `p`, `u` and array parameters."""

    def __SX__(self) -> SX:
        return to_sx(self)

    def clip(self, *limits: Any, **named: Any) -> Any:  # type: ignore[override]
        return _clip(self, *limits, **named)

    def max(self, axis: Any = None) -> Any:  # type: ignore[override]
        return _extreme(np.maximum, self, axis)

    def min(self, axis: Any = None) -> Any:  # type: ignore[override]
        return _extreme(np.minimum, self, axis)


def symbols(sx: SX, shape: tuple[int, ...]) -> Any:
    """Dress an SX of the right number of entries (C order) as a Scalar or an Array of the given shape."""
    if shape == ():
        return Scalar(sx)
    flat = np.empty(int(np.prod(shape)), dtype=object)
    for i, element in enumerate(ca.vertsplit(ca.densify(ca.vec(sx)))):
        flat[i] = Scalar(element)
    return flat.reshape(shape).view(Array)


def _sx(x: Any) -> SX:
    if isinstance(x, Scalar):
        return x.sx
    if isinstance(x, SX):
        return x
    return SX(x.item() if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0) else x)


def _object_array(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray)
    cell = np.empty((), dtype=object)
    cell[()] = x
    return cell


def _strip(x: Any) -> Any:
    if isinstance(x, Array):
        return x.view(np.ndarray)
    if isinstance(x, (tuple, list)):
        return type(x)(_strip(y) for y in x)
    if isinstance(x, dict):
        return {k: _strip(y) for k, y in x.items()}
    return _object_array(x) if isinstance(x, Scalar) else x


def _dress(x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.dtype == object:
        return x.view(Array) if x.ndim else x.item()
    if isinstance(x, (tuple, list)):
        return type(x)(_dress(y) for y in x)
    return x


def _where(condition: Any, a: Any, b: Any) -> Any:
    choose = np.frompyfunc(lambda c, x, y: Scalar(ca.if_else(_sx(c), _sx(x), _sx(y))), 3, 1)
    return _dress(choose(*(_object_array(x) if isinstance(x, (Scalar, np.ndarray)) else x for x in (condition, a, b))))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord not in (None, 2, "fro"):
        raise ModelError(f"np.linalg.norm(..., ord={ord!r}) of symbols is not available; write it out")
    return np.sqrt(np.sum(np.asarray(x, dtype=object).view(Array) ** 2, axis=axis, keepdims=keepdims))


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    a = a if low is None else np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


def _extreme(rule: Any, a: Any, axis: Any = None) -> Any:
    parts = list(np.ravel(a)) if axis is None else list(np.moveaxis(a, axis, 0))
    out = parts[0]
    for part in parts[1:]:
        out = rule(out, part)
    return out


def _solve(a: Any, b: Any) -> Any:
    return symbols(ca.solve(to_sx(a), to_sx(b)).T, np.shape(b))


def _inv(a: Any) -> Any:
    return symbols(ca.inv(to_sx(a)).T, np.shape(a))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.linalg.norm: _norm,
    np.linalg.solve: _solve,
    np.linalg.inv: _inv,
    np.linalg.det: lambda a: Scalar(ca.det(to_sx(a))),
    np.clip: _clip,
    np.max: lambda a, axis=None: _extreme(np.maximum, a, axis),
    np.min: lambda a, axis=None: _extreme(np.minimum, a, axis),
    np.ndim: lambda a: a.ndim,
    np.shape: lambda a: a.shape,
    np.size: lambda a: a.size,
}


def to_sx(value: Any) -> SX:
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
    elements = [_sx(x) for x in array.ravel(order="F")]
    if any(not e.is_scalar() for e in elements):
        raise ModelError("a list that mixes scalars and vectors; use np.concatenate to join vectors")
    rows, columns = (len(array), array[0].size) if array.ndim == 2 else (array.size, 1)
    return ca.sparsify(ca.reshape(ca.vertcat(*elements), rows, columns)) if elements else SX(0, 1)


def _nested(value: Any) -> Any:
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
        with _numpy_mode():
            return evaluate()
    except ModelError as error:
        raise ModelError(f"{role}: {error}") from error
    except Exception as error:
        text = str(error).strip().splitlines()
        hint = "Write it with NumPy functions of its arguments"
        if "no callable" in str(error) or "dtype('O')" in str(error):
            hint = "np.array([...]) of symbols and numbers is a plain array that NumPy cannot treat: build it with np.stack"
        raise ModelError(
            f"{role} could not be evaluated with symbols: {type(error).__name__}: {text[0] if text else ''}. {hint}"
        ) from error


def unpack(x: Any) -> tuple[Any, ...]:
    """The entries of a vector as a tuple: `x, y = da.unpack(q)`, for symbols and for numbers."""
    if isinstance(x, (SX, ca.DM)):
        return tuple(x[i] for i in range(x.numel()))
    return tuple(x)
