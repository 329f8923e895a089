"""Discrete gradients and discrete Jacobians as numbers, for functions written in NumPy.

    D f(x0, x1) (x1 - x0) = f(x1) - f(x0),    D f(x, x) = f'(x)

(Kinon, Morandin, Schulze 2025, definitions 4 to 6). They obey a chain rule, `D(f o phi) = D f(phi) D phi`, and if `D phi` is
invertible, its inverse is a discrete Jacobian of the inverse map (eq. 35, lemma 3).
"""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import one_of, reals
from dalembert.discrete.differences import Ends
from dalembert.discrete.gradients import GRADIENTS, Field
from dalembert.discrete.pairs import Pair, pair
from dalembert.errors import ModelError, suggesting
from dalembert.systems.base import column
from dalembert.systems.tracing import call, symbols

__all__ = ["Pair", "gradient", "jacobian", "pair"]


@suggesting
def jacobian(f: Callable[..., object], x0: ArrayLike, x1: ArrayLike, kind: str = "gonzalez") -> NDArray[np.float64]:
    """The discrete Jacobian of `f(x)` between two points, one row for each entry of `f`."""
    one_of("kind", kind, GRADIENTS)
    a, b = (np.atleast_1d(reals(name, v, ModelError, "a vector of numbers")) for name, v in (("x0", x0), ("x1", x1)))
    if a.shape != b.shape or a.ndim != 1 or not a.size:
        raise ModelError(f"x0 and x1 must be vectors of the same length, not empty, not {x0!r} and {x1!r}")
    n = len(a)
    x, t = SX.sym("x", n), SX.sym("t")
    known = {"x": symbols(x, (n,))}
    value = column("f", call("f", f, known, known))
    start, end = SX.sym("x0", n), SX.sym("x1", n)
    ends = Ends(start, end, t, t)
    rows = [GRADIENTS[kind](Field(value[i], x, t), ends, SX(1.0))[0].T for i in range(value.numel())]
    D = ca.Function("D", [start, end, t], [ca.densify(ca.vertcat(*rows))])
    return np.asarray(D(a, b, 0.0).full())


@suggesting
def gradient(f: Callable[..., object], x0: ArrayLike, x1: ArrayLike, kind: str = "gonzalez") -> NDArray[np.float64]:
    """The discrete gradient of a scalar function."""
    D = jacobian(f, x0, x1, kind)
    if len(D) != 1:
        raise ModelError(f"f has {len(D)} entries; its discrete derivative is a matrix: use da.discrete.jacobian")
    return np.asarray(D[0])
