"""NumPy's element-wise functions in CasADi's symbols, with finite derivatives where they have a kink."""

from __future__ import annotations

import operator
from collections.abc import Callable

import casadi as ca
import numpy as np
from casadi import SX

KINK = 1e-100  # added under roots, so that their derivatives at zero are finite; beside any number above 1e-84 it is nothing


def root(x: SX) -> SX:
    """The square root; at zero, the slope of a distance is zero and not nan."""
    return ca.sqrt(x if x.is_constant() else x + KINK)


def power(x: SX, exponent: SX) -> SX:
    """`x^exponent`, with finite derivatives where a power that is not whole begins, at zero."""
    known = exponent.is_scalar() and exponent.is_constant()
    if x.is_constant() or (known and (float(exponent) < 0 or float(exponent).is_integer())):
        return x**exponent
    return (x + KINK) ** exponent


UFUNCS: dict[np.ufunc, Callable[..., SX]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.power: power,
    np.float_power: power,
    np.negative: operator.neg,
    np.positive: lambda x: x,
    np.conjugate: lambda x: x,
    np.square: lambda x: x**2,
    np.reciprocal: lambda x: 1 / x,
    np.absolute: ca.fabs,
    np.fabs: ca.fabs,
    np.sign: ca.sign,
    np.sqrt: root,
    np.cbrt: lambda x: ca.sign(x) * (ca.fabs(x) + KINK) ** (1 / 3),
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
    np.hypot: lambda x, y: root(x**2 + y**2),
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
