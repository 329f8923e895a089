"""Models from SymPy: Lagrangians, `LagrangesMethod` and `KanesMethod`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from types import ModuleType
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from dalembert.errors import ModelError, suggesting
from dalembert.systems.dae import IndexOneDAE
from dalembert.systems.equations import import_sympy
from dalembert.systems.lagrangian import Lagrangian
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.picture import Picture
from dalembert.systems.tracing import Array, Model, Scalar

if TYPE_CHECKING:
    from sympy import Expr, Symbol
    from sympy.physics.mechanics import KanesMethod, LagrangesMethod


@suggesting
def from_sympy(
    model: Expr | LagrangesMethod | KanesMethod,
    coordinates: Sequence[Expr] | None = None,
    parameters: Mapping[Symbol | str, float] | None = None,
    *,
    dissipation: Model | None = None,
    inputs: Model | None = None,
    name: str | None = None,
    initial: Mapping[str, ArrayLike] | None = None,
    picture: Picture | None = None,
) -> Mechanical | IndexOneDAE:
    """A system from SymPy: a Lagrangian expression in `dynamicsymbols`, a `LagrangesMethod`, or a `KanesMethod`.

    `parameters` gives values for the symbols of the model. A `LagrangesMethod` keeps its constraints and forces; a `KanesMethod`
    becomes an `IndexOneDAE` with `y = (q, u)` and `z` the rates of `u`. The keywords are those of `Mechanical`.
    """
    sp, mechanics = import_sympy(), importlib.import_module("sympy.physics.mechanics")
    values = {str(k): float(v) for k, v in (parameters or {}).items()}
    if isinstance(model, mechanics.KanesMethod):
        if dissipation is not None or inputs is not None or picture is not None:
            raise ModelError("a KanesMethod has its own forces and no picture: only name and initial can be added to it")
        return _from_kane(sp, mechanics, model, values, name, initial)
    holonomic: list[Expr] = []
    nonholonomic: list[Expr] = []
    forces: list[Expr] = []
    if isinstance(model, mechanics.LagrangesMethod):
        if model.eom is None:
            model.form_lagranges_equations()
        coordinates, expression = list(model.q), model._L[0]
        holonomic = list(model._hol_coneqs)
        nonholonomic = list(model.coneqs)[len(holonomic) :]
        forces = list(model._term4) if any(model._term4) else []
    else:
        expression = sp.sympify(model)
        if coordinates is None:
            raise ModelError("give the generalized coordinates of the Lagrangian: from_sympy(L, [q1, q2], ...)")
    t = mechanics.dynamicsymbols._t
    names = _names(sp, [expression, *holonomic, *nonholonomic, *forces], t, values)
    translate = _Translation(sp, list(coordinates), t, names)
    return Lagrangian(
        [str(c.func) for c in coordinates], lagrangian=translate(expression),
        holonomic=translate(holonomic, velocity=False) if holonomic else None,
        nonholonomic=translate(nonholonomic) if nonholonomic else None, force=translate(forces) if forces else None,
        parameters={k: values[k] for k in names}, dissipation=dissipation, inputs=inputs, name=name, initial=initial,
        picture=picture,
    )  # fmt: skip


@dataclass(frozen=True)
class _Translation:
    """From expressions in coordinates, their rates, time and parameters to model functions."""

    sp: ModuleType
    coordinates: list[Expr]
    t: Symbol
    names: list[str]

    def __call__(self, e: Expr | list[Expr], velocity: bool = True) -> _Function:
        """A model function; without `velocity` it is one of `q` and `t`."""
        sp, q = self.sp, self.coordinates
        v = [c.diff(self.t) for c in q]
        position = {x: sp.Symbol(f"qq{i}") for i, x in enumerate(q)}
        rate = {x: sp.Symbol(f"vv{i}") for i, x in enumerate(v)}
        flat = (sp.Matrix(e) if isinstance(e, list) else e).subs(rate).subs(position)  # rates first: they contain coordinates
        arguments = [*position.values(), *rate.values(), self.t, *(sp.Symbol(k) for k in self.names)]
        return _Function(sp.lambdify(arguments, list(flat) if isinstance(e, list) else flat, "numpy"), self.names, velocity)


class _Function:
    """A model function of `q`, `v`, `t` and named parameters, from one that takes all of their entries in a row."""

    def __init__(self, evaluate: Callable[..., object], names: list[str], velocity: bool) -> None:
        self._evaluate, self._names = evaluate, names
        own = ("q", "v", "t") if velocity else ("q", "t")
        self.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in (*own, *names)])

    def __call__(self, *, q: Array, t: Scalar, v: Array | None = None, **parameters: object) -> object:
        rates = [0.0] * len(q) if v is None else v
        return self._evaluate(*q, *rates, t, *(parameters[name] for name in self._names))


def _names(sp: ModuleType, expressions: Iterable[Expr], t: Symbol, values: Mapping[str, float]) -> list[str]:
    """Names of the parameters of a model, each with a value."""
    symbols = set().union(*(sp.sympify(e).free_symbols for e in expressions)) - {t}
    names = sorted(str(x) for x in symbols)
    for name in names:
        if not name.isidentifier():
            raise ModelError(f"the symbol {name!r} of the model cannot be a parameter: rename it")
        if name not in values:
            raise ModelError(f"the model has the parameter {name!r}: give its value, parameters={{{name}: ...}}")
    return names


def _from_kane(
    sp: ModuleType,
    mechanics: ModuleType,
    model: KanesMethod,
    values: Mapping[str, float],
    name: str | None,
    initial: Mapping[str, ArrayLike] | None,
) -> IndexOneDAE:
    t = mechanics.dynamicsymbols._t
    q, u = list(model.q), list(model.u)
    kin = model.kindiffdict()
    qdot = sp.Matrix([kin[c.diff(t)] for c in q])
    # only u appears, not q': Kane's own matrices are in (q, u)
    M, f = model.mass_matrix.subs(kin), model.forcing.subs(kin)
    plain = {x: sp.Symbol(f"xx{i}") for i, x in enumerate([*q, *u])}
    names = _names(sp, [*M, *f, *qdot], t, values)
    arguments = [*plain.values(), t, *(sp.Symbol(k) for k in names)]
    numbers = [values[k] for k in names]
    right = sp.lambdify(arguments, [list(qdot.subs(plain)), M.subs(plain).tolist(), list(f.subs(plain))], "numpy")

    def rates(y: Array, z: Array, t: Scalar) -> list[object]:
        return [*right(*y, t, *numbers)[0], *z]

    def balance(y: Array, z: Array, t: Scalar) -> list[object]:
        _, mass, forcing = right(*y, t, *numbers)
        return [sum(m * a for m, a in zip(row, z, strict=True)) - push for row, push in zip(mass, forcing, strict=True)]

    labels = [str(x.func) for x in (*q, *u)]
    return IndexOneDAE(labels, f=rates, g=balance, algebraic=len(u), name=name, initial=initial)
