"""Operations entry by entry on whole arrays, by NumPy."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _where(a: Array, b: Array, out: Array) -> None:
    out[...] = 0.0
    np.copyto(out, b, where=a != 0)


def _twice(a: Array, out: Array) -> None:
    np.add(a, a, out=out)


def _both(a: Array, b: Array, out: Array) -> None:
    np.logical_and(a != 0, b != 0, out=out)


UNARY: dict[int, Callable[..., object]] = {
    ca.OP_NEG: np.negative, ca.OP_SQ: np.square, ca.OP_TWICE: _twice, ca.OP_INV: lambda a, out: np.divide(1.0, a, out=out),
    ca.OP_SQRT: np.sqrt, ca.OP_FABS: np.abs, ca.OP_SIN: np.sin, ca.OP_COS: np.cos, ca.OP_TAN: np.tan, ca.OP_ASIN: np.arcsin,
    ca.OP_ACOS: np.arccos, ca.OP_ATAN: np.arctan, ca.OP_SINH: np.sinh, ca.OP_COSH: np.cosh, ca.OP_TANH: np.tanh,
    ca.OP_ASINH: np.arcsinh, ca.OP_ACOSH: np.arccosh, ca.OP_ATANH: np.arctanh, ca.OP_EXP: np.exp, ca.OP_LOG: np.log,
    ca.OP_LOG1P: np.log1p, ca.OP_EXPM1: np.expm1, ca.OP_FLOOR: np.floor, ca.OP_CEIL: np.ceil, ca.OP_SIGN: np.sign,
    ca.OP_NOT: np.logical_not,
}  # fmt: skip
BINARY: dict[int, Callable[..., object]] = {
    ca.OP_ADD: np.add, ca.OP_SUB: np.subtract, ca.OP_MUL: np.multiply, ca.OP_DIV: np.divide, ca.OP_POW: np.power,
    ca.OP_CONSTPOW: np.power, ca.OP_FMIN: np.fmin, ca.OP_FMAX: np.fmax, ca.OP_ATAN2: np.arctan2, ca.OP_HYPOT: np.hypot,
    ca.OP_LT: np.less, ca.OP_LE: np.less_equal, ca.OP_EQ: np.equal, ca.OP_NE: np.not_equal, ca.OP_AND: _both,
    ca.OP_OR: np.logical_or, ca.OP_IF_ELSE_ZERO: _where, ca.OP_COPYSIGN: np.copysign, ca.OP_FMOD: np.fmod,
}  # fmt: skip
