"""The equations of motion of a mechanical system, as expressions, numbers, text and LaTeX."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.errors import MissingPackage, ModelError
from dalembert.systems.instructions import walk
from dalembert.systems.shapes import Array

if TYPE_CHECKING:
    import sympy

    from dalembert.systems.mechanical import Mechanical


@dataclass(frozen=True, repr=False)
class Equations:
    """`M(q) q'' + C(q, q') q' + V_q = Q - G^T lam`: the parts as expressions, numbers, text and LaTeX.

    `C` is built from Christoffel symbols, so that `M' - 2 C` is skew.
    """

    system: Mechanical
    M: SX
    C: SX
    gravity: SX

    def _numbers(self, e: SX, q: ArrayLike, v: ArrayLike | None = None, t: float = 0.0) -> Array:
        s = self.system
        f = ca.Function("e", [s.q, s.v, s.t, s.par], [ca.densify(e)])
        position, velocity = (np.asarray(x, dtype=float) for x in (q, np.zeros(s.n) if v is None else v))
        return np.asarray(f(position, velocity, t, s.pack()).full())

    def mass(self, q: ArrayLike) -> Array:
        """The mass matrix at a position."""
        return self._numbers(self.M, q)

    def coriolis(self, q: ArrayLike, v: ArrayLike) -> Array:
        """The Coriolis matrix at a state."""
        return self._numbers(self.C, q, v)

    def mass_rate(self, q: ArrayLike, v: ArrayLike) -> Array:
        """`M'` along a velocity."""
        s = self.system
        columns = [ca.jtimes(ca.densify(self.M[:, j]), s.q, s.v) for j in range(s.n)]
        return self._numbers(ca.horzcat(*columns), q, v)

    def forces(self, q: ArrayLike, t: float = 0.0) -> Array:
        """The gradient of the potential."""
        return self._numbers(self.gravity, q, None, t)[:, 0]

    def sympy(self) -> dict[str, sympy.Matrix]:
        """The parts as SymPy matrices, with the names of coordinates and parameters."""
        return {key: to_sympy(self.system, value) for key, value in (("M", self.M), ("C", self.C), ("gravity", self.gravity))}

    def latex(self) -> str:
        """The equations of motion in LaTeX."""
        write, parts = import_sympy().latex, self.sympy()
        M, C, g = (write(parts[k]) for k in ("M", "C", "gravity"))
        right = "-G^T \\lambda" if self.system.m else "0"
        return f"{M} \\ddot q + {C} \\dot q + {g} = {right}"

    def __str__(self) -> str:
        parts = self.sympy()
        return "\n".join(f"{key} = {parts[key].tolist()}" for key in ("M", "C", "gravity"))

    __repr__ = __str__

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex()}$"


def equations(s: Mechanical) -> Equations:
    """Mass, Coriolis and gravity of a mechanical system; see `Equations`."""
    n, M = s.n, ca.densify(s.expression("mass"))
    slopes = [ca.jacobian(M[:, k], s.q) for k in range(n)]  # entry (i, j) of the k-th: dM_ik / dq_j
    C = SX(n, n)
    for i in range(n):
        for j in range(n):
            for k in range(n):
                C[i, j] += (slopes[j][i, k] + slopes[k][i, j] - slopes[j][k, i]) / 2 * s.v[k]
    return Equations(s, ca.sparsify(M), ca.sparsify(C), ca.gradient(s.expression("potential"), s.q))


def import_sympy() -> ModuleType:
    """SymPy, which is an optional package."""
    try:
        return importlib.import_module("sympy")
    except ImportError as error:
        raise MissingPackage.of("SymPy", "sympy", "an equation in symbols") from error


def to_sympy(s: Mechanical, expression: SX) -> sympy.Matrix:
    """An expression of a system as a SymPy matrix."""
    sp = import_sympy()
    names = [list(s.coordinates), [f"v_{c}" for c in s.coordinates], ["t"]]
    flat = []
    for key, value in s.parameters.items():
        flat += [key] if value.shape == () else [f"{key}_{i}" for i in range(value.size)]
    inputs = [sp.symbols(group) if group else [] for group in (*names, flat)]
    f = ca.Function("f", [s.q, s.v, s.t, s.par], [ca.densify(expression)])
    table = _operations(sp)

    def apply(op: int, values: list[sympy.Expr]) -> sympy.Expr:
        if op not in table:
            raise ModelError(f"an operation of the model (number {op}) has no counterpart in SymPy")
        return table[op](*values)

    entries = walk(f, lambda a, k: inputs[a][k], lambda c: sp.nsimplify(c, rational=True), apply)[0]
    rows, columns = expression.shape
    return sp.Matrix(rows, columns, lambda r, c: sp.simplify(entries[r + c * rows]))


def _operations(sp: ModuleType) -> dict[int, Callable[..., sympy.Expr]]:
    """CasADi's operations in SymPy."""
    return {
        ca.OP_NEG: lambda a: -a, ca.OP_SQ: lambda a: a**2, ca.OP_SQRT: sp.sqrt, ca.OP_SIN: sp.sin, ca.OP_COS: sp.cos,
        ca.OP_TAN: sp.tan, ca.OP_EXP: sp.exp, ca.OP_LOG: sp.log, ca.OP_INV: lambda a: 1 / a,
        ca.OP_TWICE: lambda a: 2 * a,
        ca.OP_FABS: sp.Abs, ca.OP_ASIN: sp.asin, ca.OP_ACOS: sp.acos, ca.OP_ATAN: sp.atan, ca.OP_SINH: sp.sinh,
        ca.OP_COSH: sp.cosh, ca.OP_TANH: sp.tanh,
        ca.OP_ADD: lambda a, b: a + b, ca.OP_SUB: lambda a, b: a - b, ca.OP_MUL: lambda a, b: a * b,
        ca.OP_DIV: lambda a, b: a / b,
        ca.OP_POW: lambda a, b: a**b, ca.OP_CONSTPOW: lambda a, b: a**b, ca.OP_ATAN2: sp.atan2,
    }  # fmt: skip
