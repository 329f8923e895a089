"""Systems of first order in numbers: ordinary ones, and implicit ones of index one with their consistent values."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.engine import kinds, newton
from dalembert.engine.checks import check_functions
from dalembert.engine.consistent import Consistent
from dalembert.engine.initial import own_values, vector
from dalembert.engine.kinds import Array, Given, Values
from dalembert.engine.kinds.ports import null_spaces
from dalembert.errors import DalembertError, InconsistentState, ModelError
from dalembert.methods.base import Method
from dalembert.systems.base import System
from dalembert.systems.ode import ODE, ImplicitDAE

TOLERANCE = 1e-9  # of the terms of an algebraic equation, at the start
SINGULAR = 1e-11  # of a matrix of rows and columns of size one: its smallest singular value


def _state(system: System, given: Given) -> Array:
    own_values(system, given)
    name = system.state[0]
    value = given.get(name)
    if value is None and name not in system.initial:
        raise InconsistentState(f"{system.name!r} has no default initial values: give {name}=...")
    return vector(system, name, system.initial[name] if value is None else value)


@kinds.choose.register
def _(system: ODE, given: Given, par: Array, t: float, u: Array) -> Values:
    return {"x": _state(system, given)}


@kinds.check.register
def _(system: ODE, values: Values, par: Array, t: float, u: Array, method: Method) -> None:
    check_functions(system, values, par, t, u)


@kinds.project.register
def _(system: ODE, given: Given, par: Array, t: float, u: Array) -> Consistent:
    return Consistent(kinds.choose(system, given, par, t, u), system.state)


@kinds.explain.register
def _(system: ODE, values: Values, par: Array, t: float, h: float, u: Array) -> DalembertError | None:
    try:
        check_functions(system, values, par, t, u)
    except DalembertError as error:
        return error
    return None


# ---- F(t, y, y') = 0 ----------------------------------------------------------------------------------------------


class _Equations:
    """`F` with its slopes by the variables and by the rates."""

    def __init__(self, system: ImplicitDAE) -> None:
        F = system.expression("F")
        slopes = [ca.densify(ca.jacobian(F, x)) for x in (system.y, system.z)]
        self._function = ca.Function("F", system.symbols(), [F, *slopes])

    def __call__(self, y: Array, rate: Array, t: float, u: Array, par: Array) -> tuple[Array, Array, Array]:
        F, B, A = (np.asarray(m.full()) for m in self._function(y, rate, t, u, par))
        return F[:, 0], B, A


def _equations(system: ImplicitDAE) -> _Equations:
    return system.cache.get(_Equations, "equations", lambda: _Equations(system))


def solved(system: ImplicitDAE, y: Array, rate: Array, t: float, u: Array, par: Array, hold: bool = False) -> tuple[Array, Array]:
    """Consistent `y` and `y'`: the differential part of `y` stays, its algebraic part and the rates of the other follow.

    With `V1, V2` the range and the kernel of `F_y'`, `F(t, y + V2 a, V1 b) = 0` has as many unknowns as equations, and is regular
    if the index is one (Brown, Hindmarsh, Petzold 1998). `hold` keeps all of `y` and finds the rates alone, as far as they are
    determined.
    """
    f, n = _equations(system), system.n

    def residual(x: Array) -> tuple[Array, Array]:
        F, B, A = f(x[:n], x[n:], t, u, par)
        return F, np.hstack([B, A])

    def change(x: Array, F: Array, J: newton.Matrix) -> Array:
        rows = np.asarray(J, dtype=float)
        B, A = rows[:, :n], rows[:, n:]
        free = np.zeros((n, 0)) if hold else null_spaces(A)[1]
        if free.shape[1]:
            _index_one(system, A, B, t)
        moving = A if hold else A @ _complement(free)
        basis = np.hstack([B @ free, moving])
        size = np.abs(basis).max(axis=1, initial=0.0, keepdims=True) + 1e-300
        step = np.linalg.lstsq(basis / size, F / size[:, 0], rcond=1e-13)[0]
        a, b = step[: free.shape[1]], step[free.shape[1] :]
        return np.concatenate([free @ a, b if hold else _complement(free) @ b])

    def terms(x: Array) -> Array:
        F, B, A = f(x[:n], x[n:], t, u, par)
        own = np.abs(B) @ np.abs(x[:n]) + np.abs(A) @ np.abs(x[n:])
        return np.asarray(own + np.abs(F - B @ x[:n] - A @ x[n:]) + 1e-12)

    found = newton.solve(
        residual, np.concatenate([y, rate]), change=change, scale=1e-12, terms=terms, what="the equations F = 0", t=t
    )
    return found[:n], found[n:]


def _complement(free: Array) -> Array:
    """An orthonormal basis of what is orthogonal to some columns."""
    if not free.shape[1]:
        return np.eye(len(free))
    U, _, _ = np.linalg.svd(free)
    return np.asarray(U[:, free.shape[1] :])


def _index_one(system: ImplicitDAE, A: Array, B: Array, t: float) -> None:
    """Refuse equations whose algebraic part does not determine the algebraic variables: the index is higher."""
    left, free = null_spaces(A)
    if not free.shape[1]:
        return
    core = left.T @ B @ free
    rows = np.abs(left.T @ B).max(axis=1, initial=0.0)  # what these equations are about
    smallest = float(np.linalg.svd(core / np.where(rows > 0, rows, 1.0)[:, None], compute_uv=False)[-1])
    if smallest < SINGULAR:
        row = int(np.abs(left[:, int(np.argmin(np.abs(core).max(axis=1)))]).argmax())
        raise ModelError(
            f"the index of {system.name!r} is higher than one at t = {t:g}: equation {row + 1} has neither a rate nor a variable "
            "that it determines; replace it by its derivative, or state the system as da.IndexTwoDAE, da.IndexThreeDAE or "
            "da.Mechanical, whose methods keep the constraint"
        )


@kinds.choose.register
def _(system: ImplicitDAE, given: Given, par: Array, t: float, u: Array) -> Values:
    y, rate = _state(system, given), given.get("z")
    rate = system.initial.get("z") if rate is None else rate
    return {"y": y, "z": np.zeros(system.n) if rate is None else vector(system, "z", rate)}


@kinds.check.register
def _(system: ImplicitDAE, values: Values, par: Array, t: float, u: Array, method: Method) -> None:
    y, rate = values["y"], values.get("z", np.zeros(system.n))
    check_functions(system, {"y": y, "z": rate}, par, t, u)
    F, B, A = _equations(system)(y, rate, t, u, par)
    _index_one(system, A, B, t)
    left, _ = null_spaces(A)
    if not left.shape[1]:
        return
    rest = left.T @ F
    terms = np.abs(left.T) @ (np.abs(B) @ np.abs(y) + np.abs(F - B @ y - A @ rate))
    bad = np.abs(rest) > TOLERANCE * terms + 1e-13
    if bad.any():
        k = int(np.argmax(np.abs(rest) / (terms + 1e-300)))
        row = int(np.abs(left[:, k]).argmax())
        raise InconsistentState(
            f"equation {row + 1} of {system.n} of {system.name!r} is algebraic and violated by {abs(rest[k]):.1e} at t = {t:g}; "
            "start from da.consistent(system, y=...)"
        )


@kinds.guess.register
def _(system: ImplicitDAE, values: Values, par: Array, t: float, u: Array) -> Array:
    y, rate = values["y"], values.get("z", np.zeros(system.n))
    return solved(system, y, rate, t, u, par)[1]


@kinds.project.register
def _(system: ImplicitDAE, given: Given, par: Array, t: float, u: Array) -> Consistent:
    values = kinds.choose(system, given, par, t, u)
    check_functions(system, values, par, t, u)
    y, rate = solved(system, values["y"], values["z"], t, u, par)
    return Consistent({"y": y, "z": rate}, ("y", "z"))


@kinds.explain.register
def _(system: ImplicitDAE, values: Values, par: Array, t: float, h: float, u: Array) -> DalembertError | None:
    try:
        at = {"y": values["y"], "z": np.zeros(system.n)}
        check_functions(system, at, par, t, u)
        _, rate = solved(system, values["y"], at["z"], t, u, par)
        _, B, A = _equations(system)(values["y"], rate, t, u, par)
        _index_one(system, A, B, t)
    except DalembertError as error:
        return error
    return None
