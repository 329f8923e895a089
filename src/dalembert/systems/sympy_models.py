"""Models from SymPy: Lagrangians, `LagrangesMethod` and `KanesMethod`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from keyword import iskeyword
from types import ModuleType
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from dalembert.checking import number, shown
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

    `parameters` gives values for the symbols of the model; a symbol `lambda` becomes the parameter `lambda_`. A
    `LagrangesMethod` keeps its constraints and forces; a `KanesMethod`
    becomes an `IndexOneDAE` with `y = (q, u)` and `z` the rates of `u`. The keywords are those of `Mechanical`.
    """
    sp, mechanics = import_sympy(), importlib.import_module("sympy.physics.mechanics")
    values = _values(parameters)
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
        # a text would be evaluated as Python code: only what is an expression already is taken
        if not isinstance(model, sp.Expr):
            raise ModelError(f"the model must be a SymPy expression, a LagrangesMethod or a KanesMethod, not {shown(model)}")
        expression = model
        if coordinates is None:
            raise ModelError("give the generalized coordinates of the Lagrangian: from_sympy(L, [q1, q2], ...)")
    t = mechanics.dynamicsymbols._t
    coordinates = _coordinates(sp, t, coordinates)
    names = _names([expression, *holonomic, *nonholonomic, *forces], t, values)
    translate = _Translation(sp, coordinates, t, names)
    return Lagrangian(
        [str(c.func) for c in coordinates], lagrangian=translate(expression),
        holonomic=translate(holonomic, velocity=False) if holonomic else None,
        nonholonomic=translate(nonholonomic) if nonholonomic else None, force=translate(forces) if forces else None,
        parameters={name: values[str(symbol)] for symbol, name in names.items()},
        dissipation=dissipation, inputs=inputs, name=name, initial=initial, picture=picture,
    )  # fmt: skip


@dataclass(frozen=True)
class _Translation:
    """From expressions in coordinates, their rates, time and parameters to model functions."""

    sp: ModuleType
    coordinates: list[Expr]
    t: Symbol
    names: Mapping[Symbol, str]

    def __call__(self, e: Expr | list[Expr], velocity: bool = True) -> _Function:
        """A model function; without `velocity` it is one of `q` and `t`."""
        sp, q = self.sp, self.coordinates
        v = [c.diff(self.t) for c in q]
        position, rate = ({x: sp.Dummy() for x in xs} for xs in (q, v))
        flat = (sp.Matrix(e) if isinstance(e, list) else e).subs(rate).subs(position)  # rates first: they contain coordinates
        arguments = [*position.values(), *rate.values(), self.t, *self.names]
        evaluate = sp.lambdify(arguments, list(flat) if isinstance(e, list) else flat, "numpy", dummify=True)
        return _Function(evaluate, list(self.names.values()), velocity)


class _Function:
    """A model function of `q`, `v`, `t` and named parameters, from one that takes all of their entries in a row."""

    def __init__(self, evaluate: Callable[..., object], names: list[str], velocity: bool) -> None:
        self._evaluate, self._names = evaluate, names
        own = ("q", "v", "t") if velocity else ("q", "t")
        self.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in (*own, *names)])

    def __call__(self, *, q: Array, t: Scalar, v: Array | None = None, **parameters: object) -> object:
        rates = [0.0] * len(q) if v is None else v
        return self._evaluate(*q, *rates, t, *(parameters[name] for name in self._names))


def _values(parameters: Mapping[Symbol | str, float] | None) -> dict[str, float]:
    """Values of parameters by the names of their symbols."""
    try:
        given = [] if parameters is None else list(parameters.items())
    except Exception as error:  # the value is the user's, and may be anything
        raise ModelError(f"parameters must be a dictionary of symbols and values, not {shown(parameters)}") from error
    return {str(k): number(f"parameter {str(k)!r}", v, ModelError) for k, v in given}


def _coordinates(sp: ModuleType, t: Symbol, given: Sequence[Expr]) -> list[Expr]:
    """Generalised coordinates: functions of time."""
    try:
        coordinates = list(given)
    except Exception as error:  # the value is the user's, and may be anything
        raise ModelError(f"the coordinates must be a list of dynamicsymbols, not {shown(given)}") from error
    for c in coordinates:
        if not isinstance(c, sp.core.function.AppliedUndef) or c.args != (t,):
            raise ModelError(f"the coordinates must be functions of time, made by dynamicsymbols, not {shown(c)}")
    return coordinates


def _names(expressions: Iterable[Expr], t: Symbol, values: Mapping[str, float]) -> dict[Symbol, str]:
    """The symbols of a model and the names of their parameters, each with a value; `lambda_` for a word of Python's own."""
    symbols = set().union(*(e.free_symbols for e in expressions)) - {t}
    names = {}
    for symbol in sorted(symbols, key=str):
        name = str(symbol)
        if not name.isidentifier():
            raise ModelError(f"the symbol {name!r} of the model cannot be a parameter: rename it")
        if name not in values:
            raise ModelError(f"the model has the parameter {name!r}: give its value, parameters={{{name}: ...}}")
        names[symbol] = f"{name}_" if iskeyword(name) else name
    if len(set(names.values())) < len(names):
        twice = max(names.values(), key=list(names.values()).count)
        raise ModelError(f"the model has two symbols called {twice!r}, with different assumptions: use one")
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
    plain = {x: sp.Dummy() for x in [*q, *u]}
    names = _names([*M, *f, *qdot], t, values)
    arguments = [*plain.values(), t, *names]
    numbers = [values[str(symbol)] for symbol in names]
    rows = [list(qdot.subs(plain)), M.subs(plain).tolist(), list(f.subs(plain))]
    right = sp.lambdify(arguments, rows, "numpy", dummify=True)

    def rates(y: Array, z: Array, t: Scalar) -> list[object]:
        return [*right(*y, t, *numbers)[0], *z]

    def balance(y: Array, z: Array, t: Scalar) -> list[object]:
        _, mass, forcing = right(*y, t, *numbers)
        return [sum(m * a for m, a in zip(row, z, strict=True)) - push for row, push in zip(mass, forcing, strict=True)]

    labels = [str(x.func) for x in (*q, *u)]
    return IndexOneDAE(labels, f=rates, g=balance, algebraic=len(u), name=name, initial=initial)
