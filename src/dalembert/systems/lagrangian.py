"""Lagrangian modelling: any `L(q, v, t)` with constraints and generalised forces; and models that come from SymPy.

    d/dt L_v - L_q = Q - G^T lam

Where `L = v^T M(q) v / 2 + b(q, t) . v - V(q, t)` the result is a `Mechanical` system: `b` acts with the gyroscopic force
`(b_j,i - b_i,j) v_j - b_i,t`. Any other Lagrangian becomes an `IndexOneDAE` in `y = (q, v)`, `z = (a, lam)`,
`L_vv a + L_vq v + L_vt - L_q = Q - G^T lam`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.errors import MissingPackage, ModelError
from dalembert.systems.base import SX, System, scalar
from dalembert.systems.dae import IndexOneDAE
from dalembert.systems.instructions import walk
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.picture import Picture


def Lagrangian(
    coordinates: Sequence[str] | int,
    *,
    lagrangian: Any,
    holonomic: Any = None,
    nonholonomic: Any = None,
    dissipation: Any = None,
    force: Any = None,
    inputs: Any = None,
    parameters: Mapping[str, Any] | None = None,
    name: str | None = None,
    initial: Mapping[str, Any] | None = None,
    picture: Picture | None = None,
) -> Any:
    """A system from its Lagrangian `L(q, v, t)`, written in NumPy; the other arguments are those of `Mechanical`."""
    s = Mechanical.__new__(Mechanical)
    System.__init__(s, coordinates, parameters, name or "Lagrangian", initial, None)
    s._define_common(holonomic, nonholonomic, dissipation, force, inputs, None, picture)
    L = scalar("lagrangian", s._trace("lagrangian", lagrangian, ("q", "v", "t")))
    M = ca.hessian(L, s.v)[0]
    still = [c for i, c in enumerate(s.coordinates) if not M[i, :].nnz()]
    if still:
        raise ModelError(
            f"the Lagrangian has no kinetic energy in {still[0]!r}: d2L/dv2 vanishes there; give it a mass, or remove it"
        )
    if ca.depends_on(M, s.v) or ca.depends_on(M, s.t):
        return _general(s, L, M)
    s._define("mass", ca.sparsify(M))
    zero = SX.zeros(s.n)
    s._define("potential", ca.densify(-ca.substitute(L, s.v, zero)))
    b = ca.substitute(ca.gradient(L, s.v), s.v, zero)
    turn = ca.jacobian(b, s.q)
    gyroscopic = ca.sparsify((turn.T - turn) @ s.v - ca.jacobian(b, s.t))
    if gyroscopic.nnz():
        own = s.expression("force") if s.has("force") else SX(s.n, 1)
        s._define("force", ca.densify(own + gyroscopic))
    s._check_numbers("mass", "dissipation")
    return s


def _general(s: Mechanical, L: Any, M: Any) -> Any:
    """The equations of a Lagrangian that is not quadratic in the velocities, solved for nothing."""
    n, m = s.n, s.m
    a, lam = SX.sym("a", n), SX.sym("lam", m)
    p = ca.gradient(L, s.v)
    forces = s.applied(s.q, s.v, s.t, s.u) - s.damping(s.q, s.v, s.t)
    rows = M @ a + ca.jtimes(p, s.q, s.v) + ca.jacobian(p, s.t) - ca.gradient(L, s.q) - forces
    if m:
        G = s.role("jacobian")
        rows = ca.vertcat(rows + G.T @ lam, G @ a + s.role("curvature"))
    names = (*s.coordinates, *(f"v_{c}" for c in s.coordinates))
    initial = {"y": [*s.initial["q"], *s.initial["v"]]} if {"q", "v"} <= set(s.initial) else {}
    return IndexOneDAE.of_expressions(
        s, names, ca.vertcat(s.q, s.v), ca.vertcat(a, lam), [ca.vertcat(s.v, a)], ca.densify(rows), initial
    )


@dataclass(frozen=True)
class Equations:
    """`M(q) q'' + C(q, q') q' + V_q = Q - G^T lam`: the parts as expressions, numbers, text and LaTeX.

    `C` is built from Christoffel symbols, so that `M' - 2 C` is skew.
    """

    system: Any
    M: Any
    C: Any
    gravity: Any

    def _numbers(self, e: Any, q: Any, v: Any = None, t: float = 0.0) -> np.ndarray:
        s = self.system
        f = ca.Function("e", [s.q, s.v, s.t, s.par], [ca.densify(e)])
        return np.asarray(f(q, np.zeros(s.n) if v is None else v, t, s.pack()).full())

    def mass(self, q: Any) -> np.ndarray:
        """The mass matrix at a position."""
        return self._numbers(self.M, q)

    def coriolis(self, q: Any, v: Any) -> np.ndarray:
        """The Coriolis matrix at a state."""
        return self._numbers(self.C, q, v)

    def mass_rate(self, q: Any, v: Any) -> np.ndarray:
        """`M'` along a velocity."""
        s = self.system
        columns = [ca.jtimes(ca.densify(self.M[:, j]), s.q, s.v) for j in range(s.n)]
        return self._numbers(ca.horzcat(*columns), q, v)

    def forces(self, q: Any, t: float = 0.0) -> np.ndarray:
        """The gradient of the potential."""
        return self._numbers(self.gravity, q, None, t)[:, 0]

    def sympy(self) -> dict[str, Any]:
        """The parts as SymPy matrices, with the names of coordinates and parameters."""
        return {key: to_sympy(self.system, value) for key, value in (("M", self.M), ("C", self.C), ("gravity", self.gravity))}

    def latex(self) -> str:
        """The equations of motion in LaTeX."""
        sympy = _sympy()
        parts = self.sympy()
        M, C, g = (sympy.latex(parts[k]) for k in ("M", "C", "gravity"))
        right = "-G^T \\lambda" if self.system.m else "0"
        return f"{M} \\ddot q + {C} \\dot q + {g} = {right}"

    def __str__(self) -> str:
        parts = self.sympy()
        return "\n".join(f"{key} = {parts[key].tolist()}" for key in ("M", "C", "gravity"))


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


def _sympy() -> Any:
    try:
        import sympy
    except ImportError as error:
        raise MissingPackage.of("SymPy", "sympy", "an equation in symbols") from error
    return sympy


def to_sympy(s: Any, expression: Any) -> Any:
    """An expression of a system as a SymPy matrix."""
    sympy = _sympy()

    names = [list(s.coordinates), [f"v_{c}" for c in s.coordinates], ["t"]]
    flat = []
    for key, value in s.parameters.items():
        flat += [key] if value.shape == () else [f"{key}_{i}" for i in range(value.size)]
    inputs = [sympy.symbols(group) if group else [] for group in (*names, flat)]
    f = ca.Function("f", [s.q, s.v, s.t, s.par], [ca.densify(expression)])
    table = {
        ca.OP_NEG: lambda a: -a, ca.OP_SQ: lambda a: a**2, ca.OP_SQRT: sympy.sqrt, ca.OP_SIN: sympy.sin, ca.OP_COS: sympy.cos,
        ca.OP_TAN: sympy.tan, ca.OP_EXP: sympy.exp, ca.OP_LOG: sympy.log, ca.OP_INV: lambda a: 1 / a,
        ca.OP_TWICE: lambda a: 2 * a,
        ca.OP_FABS: sympy.Abs, ca.OP_ASIN: sympy.asin, ca.OP_ACOS: sympy.acos, ca.OP_ATAN: sympy.atan, ca.OP_SINH: sympy.sinh,
        ca.OP_COSH: sympy.cosh, ca.OP_TANH: sympy.tanh,
        ca.OP_ADD: lambda a, b: a + b, ca.OP_SUB: lambda a, b: a - b, ca.OP_MUL: lambda a, b: a * b,
        ca.OP_DIV: lambda a, b: a / b,
        ca.OP_POW: lambda a, b: a**b, ca.OP_CONSTPOW: lambda a, b: a**b, ca.OP_ATAN2: sympy.atan2,
    }  # fmt: skip

    def apply(op: int, values: list[Any]) -> Any:
        if op not in table:
            raise ModelError(f"an operation of the model (number {op}) has no counterpart in SymPy")
        return table[op](*values)

    entries = walk(f, lambda a, k: inputs[a][k], lambda c: sympy.nsimplify(c, rational=True), apply)[0]
    rows, columns = expression.shape
    return sympy.Matrix(rows, columns, lambda r, c: sympy.simplify(entries[r + c * rows]))


def from_sympy(
    model: Any, coordinates: Sequence[Any] | None = None, parameters: Mapping[Any, float] | None = None, **options: Any
) -> Any:
    """A system from SymPy: a Lagrangian expression in `dynamicsymbols`, a `LagrangesMethod`, or a `KanesMethod`.

    `parameters` gives values for the symbols of the model. A `LagrangesMethod` keeps its constraints and forces; a `KanesMethod`
    becomes an `IndexOneDAE` with `y = (q, u)` and `z` the rates of `u`.
    """
    sympy = _sympy()
    from sympy.physics.mechanics import KanesMethod, LagrangesMethod, dynamicsymbols

    t = dynamicsymbols._t
    values = {str(k): float(v) for k, v in (parameters or {}).items()}
    if isinstance(model, KanesMethod):
        return _from_kane(model, values, options)
    hol, nonhol, forces = [], [], None
    if isinstance(model, LagrangesMethod):
        if model.eom is None:
            model.form_lagranges_equations()
        coordinates, expression = list(model.q), model._L[0]
        hol = list(model._hol_coneqs)
        nonhol = list(model.coneqs)[len(hol) :]
        forces = None if not any(model._term4) else list(model._term4)
    else:
        expression = sympy.sympify(model)
        if coordinates is None:
            raise ModelError("give the generalized coordinates of the Lagrangian: from_sympy(L, [q1, q2], ...)")
    q = list(coordinates)
    v = [c.diff(t) for c in q]
    plain = {x: sympy.Symbol(f"qq{i}") for i, x in enumerate(q)} | {x: sympy.Symbol(f"vv{i}") for i, x in enumerate(v)}
    names = _free(sympy, [expression, *hol, *nonhol, *(forces or [])], plain, t, values)

    def function(e: Any) -> Any:
        e = sympy.Matrix(e) if isinstance(e, list) else e
        flat = e.subs({x: plain[x] for x in v}).subs({x: plain[x] for x in q})
        arguments = [plain[x] for x in q] + [plain[x] for x in v] + [t, *(sympy.Symbol(k) for k in names)]
        return sympy.lambdify(arguments, list(flat) if isinstance(e, sympy.MatrixBase) else flat, "numpy")

    def wrap(e: Any) -> Any:
        inner = function(e)
        code = f"lambda q, v, t{''.join(f', {k}' for k in names)}: inner(*q, *v, t{''.join(f', {k}' for k in names)})"
        return eval(code, {"inner": inner})  # the text is ours: names of parameters, checked to be identifiers

    labels = [str(c.func) for c in q]
    return Lagrangian(
        labels, lagrangian=wrap(expression), holonomic=_no_velocity(wrap(hol), names) if hol else None,
        nonholonomic=wrap(nonhol) if nonhol else None, force=wrap(forces) if forces else None,
        parameters={k: values[k] for k in names}, **options,
    )  # fmt: skip


def _no_velocity(f: Any, names: Sequence[str]) -> Any:
    """A constraint on positions: the velocities of the wrapper are not among its arguments."""
    code = f"lambda q, t{''.join(f', {k}' for k in names)}: f(q, [0.0] * len(q), t{''.join(f', {k}' for k in names)})"
    return eval(code, {"f": f})


def _free(sympy: Any, expressions: Sequence[Any], known: Mapping[Any, Any], t: Any, values: Mapping[str, float]) -> list[str]:
    """Names of the parameters of a model, each with a value."""
    symbols = set().union(*(sympy.sympify(e).free_symbols for e in expressions)) - {t}
    names = sorted(str(x) for x in symbols)
    for name in names:
        if not name.isidentifier():
            raise ModelError(f"the symbol {name!r} of the model cannot be a parameter: rename it")
        if name not in values:
            raise ModelError(f"the model has the parameter {name!r}: give its value, parameters={{{name}: ...}}")
    return names


def _from_kane(model: Any, values: Mapping[str, float], options: Mapping[str, Any]) -> IndexOneDAE:
    import sympy
    from sympy.physics.mechanics import dynamicsymbols

    t = dynamicsymbols._t
    q, u = list(model.q), list(model.u)
    kin = model.kindiffdict()
    qdot = sympy.Matrix([kin[c.diff(t)] for c in q])
    # only u appears, not q': Kane's own matrices are in (q, u)
    M, f = model.mass_matrix.subs(kin), model.forcing.subs(kin)
    plain = {x: sympy.Symbol(f"xx{i}") for i, x in enumerate([*q, *u])}
    names = _free(sympy, [*M, *f, *qdot], plain, t, values)
    arguments = [plain[x] for x in (*q, *u)] + [t, *(sympy.Symbol(k) for k in names)]
    numbers = [values[k] for k in names]
    right = sympy.lambdify(arguments, [list(qdot.subs(plain)), M.subs(plain).tolist(), list(f.subs(plain))], "numpy")
    n, k = len(q), len(u)

    def rates(y: Any, z: Any, t: Any) -> Any:
        return [*right(*y, t, *numbers)[0], *(z[i] for i in range(k))]

    def balance(y: Any, z: Any, t: Any) -> Any:
        _, mass, forcing = right(*y, t, *numbers)
        return [sum(mass[i][j] * z[j] for j in range(k)) - forcing[i] for i in range(k)]

    labels = [str(x.func) for x in (*q, *u)]
    return IndexOneDAE(labels[: n + k], f=rates, g=balance, algebraic=k, **options)
