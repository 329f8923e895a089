"""What a manoeuvre is asked for: where it ends, what it costs, and what may not be left on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.analysis.local import null_space, pivots
from dalembert.analysis.observed import entries
from dalembert.analysis.starts import conditions
from dalembert.checking import number
from dalembert.engine.case import Case
from dalembert.engine.initial import vector
from dalembert.errors import MethodError, suggest
from dalembert.named import Array
from dalembert.systems.base import System
from dalembert.systems.shapes import column, mapping, scalar

Pair = tuple[float | None, float | None]
Function = Callable[..., object]
BRANCH = 0.2  # of its size: how far an entry that follows from the constraints may be from where it is wanted


@dataclass(frozen=True)
class Target:
    """Rows that are zero at the end, and bounds of entries of the state there, which choose a branch of the constraints."""

    rows: SX
    near: Mapping[int, tuple[float, float]]
    every: SX  # the same with what follows from the constraints


def target(system: System, end: Function | Mapping[str, ArrayLike], case: Case, t_end: float) -> Target:
    """What is wanted at the end: a function that is zero there, or values of parts of the state, or of single entries."""
    if callable(end):
        rows = column("end", system._trace("end", end, (*system.variables, "t")))
        return Target(ca.densify(system.of_state(rows)), {}, ca.densify(system.of_state(rows)))
    wanted = _wanted(system, mapping("end", end))
    x = np.concatenate([np.ravel(case.values[name]) for name in system.state])
    x[list(wanted)] = list(wanted.values())
    own = ca.vertcat(*(getattr(system, name) for name in system.state))
    c = conditions(system)
    slopes = ca.Function("c", [own, system.t, system.u, system.par], [ca.densify(ca.jacobian(c, own))])
    C = np.asarray(slopes(x, t_end, np.zeros(system.nu), case.par).full())
    asked = np.array([i in wanted for i in range(len(x))])
    # what follows from the constraints is not asked for twice: dependent equations have no multipliers
    free = [i for i in pivots(null_space(C), avoid=~asked) if i in wanted]
    near = {}
    for i, value in wanted.items():
        if i not in free:
            width = BRANCH * max(abs(value), 1e-3 * float(np.abs(x).max()))
            near[i] = value - width, value + width
    every = own[list(wanted)] - ca.DM(list(wanted.values()))
    return Target(own[free] - ca.DM([wanted[i] for i in free]), near, every)


def _wanted(system: System, given: Mapping[str, ArrayLike]) -> dict[int, float]:
    """Values by the numbers of entries of the state."""
    names = [name for part in system.state for name in entries(system, part)]
    out: dict[int, float] = {}
    for name, value in given.items():
        if name in names:
            out[names.index(name)] = number(f"end {name!r}", value)
        elif name in system.state:
            first = names.index(entries(system, name)[0])
            out |= {first + i: float(v) for i, v in enumerate(vector(system, name, value))}
        else:
            raise MethodError(f"end has {name!r}, which is no part of the state{suggest(name, [*system.state, *names])}")
    if not out:
        raise MethodError("end is empty: say where the manoeuvre is to end, end={'q': [...], 'v': [...]}")
    return out


def cost(system: System, role: str, function: Function | None) -> ca.Function:
    """A cost as a function of `(state, t, u, par)`; the sum of squares of the inputs where no running one is given."""
    own = ca.vertcat(*(getattr(system, name) for name in system.state))
    if function is None:
        value = ca.sumsqr(system.u) if role == "running" else SX(0.0)
    else:
        value = system.of_state(scalar(role, system._trace(role, function, (*system.variables, "t", "u"))))
    return ca.Function(role, [own, system.t, system.u, system.par], [ca.densify(value)])


def limits(names: tuple[str, ...] | list[str], given: Mapping[str, Pair] | Pair | None, what: str) -> tuple[Array, Array]:
    """Lower and upper bounds of named numbers: one pair for all, or pairs by name."""
    low, high = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    if given is None:
        return low, high
    each = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    for name, pair in each.items():
        if name not in names:
            raise MethodError(f"{what} has {name!r}{suggest(str(name), names)}")
        try:
            lower, upper = pair
        except (TypeError, ValueError) as error:
            raise MethodError(f"{what} of {name!r} must be a pair (lower, upper), None for none") from error
        i = names.index(name)
        low[i] = -np.inf if lower is None else number(f"the lower {what} of {name!r}", lower)
        high[i] = np.inf if upper is None else number(f"the upper {what} of {name!r}", upper)
        if not low[i] < high[i]:
            raise MethodError(f"{what} of {name!r} leave nothing between {low[i]:g} and {high[i]:g}")
    return low, high
