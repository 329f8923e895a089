"""Semi-explicit differential-algebraic systems in numbers."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.engine import kinds, newton
from dalembert.engine.checks import check_functions, check_rank, refuse
from dalembert.engine.consistent import Consistent
from dalembert.engine.initial import own_values, vector
from dalembert.engine.kinds import Array, Given, Values
from dalembert.errors import ConvergenceError, DalembertError, InconsistentState
from dalembert.methods.base import Method
from dalembert.systems.dae import IndexTwoDAE

LEVELS = {1: ("constraint",), 2: ("position", "hidden"), 3: ("position", "velocity", "hidden")}


def _first(system: IndexTwoDAE, given: Given) -> Array:
    """The differential variables as given, or their defaults."""
    own_values(system, given)
    y = given.get("y")
    y = system.initial.get("y") if y is None else y
    if y is None:
        raise InconsistentState(f"{system.name!r} has no default initial values: give y=...")
    return vector(system, "y", y)


@kinds.choose.register
def _(system: IndexTwoDAE, given: Given, par: Array, t: float, u: Array) -> Values:
    y, z = _first(system, given), given.get("z")
    if z is None and given.get("y") is None:
        z = system.initial.get("z")
    return {"y": y, "z": algebraic(system, y, par, t, u, _near(system, given)) if z is None else vector(system, "z", z)}


def _near(system: IndexTwoDAE, given: Given) -> Array | None:
    """The algebraic variables as given, or their defaults: where the equations have several solutions, they choose one."""
    z = given.get("z")
    z = system.initial.get("z") if z is None else z
    return None if z is None else vector(system, "z", z)


def pair(f: ca.Function, *arguments: Array | float) -> tuple[ca.DM, ca.DM]:
    """A residual and its derivative, from a function of two outputs."""
    r, J = f.call([ca.DM(a) for a in arguments])
    return r, J


def algebraic(system: IndexTwoDAE, y: Array, par: Array, t: float, u: Array, near: Array | None = None) -> Array:
    """`z` from the equation that defines it (`g_y f(y, z) + g_t = 0` on index 2): near given values, else near zero or one."""
    hidden = system.role("hidden")
    f = ca.Function("hidden", system.symbols(), [hidden, ca.jacobian(hidden, system.z)])
    starts = [near] if near is not None else []
    for begin in (*starts, np.zeros(system.m), np.ones(system.m)):
        try:
            return newton.solve(lambda z: pair(f, y, z, t, u, par), begin, scale=1.0, what="the equations for z", t=t)
        except ConvergenceError:
            continue
    raise InconsistentState("z could not be found from the (hidden) constraint that defines it; give z=...")


@kinds.check.register
def _(system: IndexTwoDAE, values: Values, par: Array, t: float, u: Array, method: Method) -> None:
    """Each level of the constraint, the last of which defines `z`, and that it does."""
    check_functions(system, values, par, t, u)
    levels = system.levels()
    count = len(levels)
    slopes = [ca.jacobian(level, system.y) for level in levels]
    f = ca.Function("levels", system.symbols(), [*levels, *slopes, ca.jacobian(levels[-1], system.z)])
    found = f(values["y"], values["z"], t, u, par)
    check_rank(found[-1] if system.index == 1 else found[count], "at the initial values")
    for k in range(count):
        last = k == count - 1
        allowed = np.array(ca.densify(ca.fabs(found[count + k]) @ np.abs(values["y"]))).ravel()
        if last:
            allowed = allowed + np.array(ca.densify(ca.fabs(found[-1]) @ np.abs(values["z"]))).ravel()
        tolerance = 1e-6 if last else 1e-9
        names = ("z" if last else "y", "g" + "'" * k, LEVELS[system.index][k])
        refuse(np.abs(np.array(found[k]).ravel()), tolerance * allowed + 1e-13, names, "y=..., z=...")


@kinds.multipliers.register
def _(system: IndexTwoDAE, values: Values, par: Array, t: float, u: Array) -> Array:
    return values["z"]


@kinds.follows.register
def _(system: IndexTwoDAE) -> bool:
    return bool(ca.depends_on(system.role("hidden"), system.u))


@kinds.settled.register
def _(system: IndexTwoDAE, values: Values, par: Array, t: float, u: Array) -> Values:
    return {"y": values["y"], "z": algebraic(system, values["y"], par, t, u, values["z"])}


@kinds.implied.register
def _(system: IndexTwoDAE) -> kinds.Implied:
    z = ca.SX.sym("z", system.z.numel())
    return kinds.Implied(z, ca.substitute(system.role("hidden"), system.z, z), {"z": z})


@kinds.project.register
def _(system: IndexTwoDAE, given: Given, par: Array, t: float, u: Array) -> Consistent:
    """The nearest `y` on all levels that do not contain `z`, and `z` from the one that does."""
    y, near = _first(system, given), _near(system, given)
    levels = system.levels()[:-1]
    if levels:
        stack = ca.vertcat(*levels)
        f = ca.Function("levels", system.symbols(), [stack, ca.jacobian(stack, system.y)])
        zeros = np.zeros(system.m)
        check_rank(f(y, zeros, t, u, par)[1], "at the given values")
        y = newton.solve(lambda x: pair(f, x, zeros, t, u, par), y, scale=1e-3, what="the constraints", t=t)
    return Consistent({"y": y, "z": algebraic(system, y, par, t, u, near)}, system.state)


@kinds.explain.register
def _(system: IndexTwoDAE, values: Values, par: Array, t: float, h: float, u: Array) -> DalembertError | None:
    """Functions that are not finite, or constraints that do not determine `z`, where the step began."""
    hidden = system.role("hidden")
    try:
        check_functions(system, values, par, t, u)
        f = ca.Function("slope", system.symbols(), [ca.jacobian(hidden, system.z)])
        check_rank(f(values["y"], values["z"], t, u, par), f"with respect to z at t = {t:g}")
    except DalembertError as error:
        return error
    return None
