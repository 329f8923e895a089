"""What each kind of system does with numbers: how it starts, what it refuses, consistent values, why a step failed.

One function for each question, one module for each kind (`mechanics`, `daes`, `odes`, `ports`), chosen by the type of the system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from casadi import SX
from numpy.typing import ArrayLike, NDArray

from dalembert.engine.consistent import Consistent
from dalembert.errors import DalembertError
from dalembert.methods.base import Method
from dalembert.systems.base import System

Array = NDArray[np.float64]
Values = dict[str, Array]  # the parts of a state by name
Given = Mapping[str, ArrayLike | None]  # initial values as a user gives them


@singledispatch
def choose(system: System, given: Given, par: Array, t: float, u: Array) -> Values:
    """The state to start from: what was given, the system's defaults, or rest."""
    raise TypeError(f"there is no start for {type(system).__name__}")


@singledispatch
def complete(system: System, values: Values, t: float, par: Array) -> Values:
    """All variables of a system's functions at a state."""
    return values


@singledispatch
def check(system: System, values: Values, par: Array, t: float, u: Array, method: Method) -> None:
    """Refuse a state from which the method cannot start."""


@singledispatch
def multipliers(system: System, values: Values, par: Array, t: float, u: Array) -> Array:
    """The multipliers that belong to a state, for methods that carry them along."""
    return np.zeros(system.m)


@singledispatch
def guess(system: System, values: Values, par: Array, t: float, u: Array) -> Array | None:
    """Rates and multipliers without which the first step cannot be solved; None where zeros are as good."""
    return None


@singledispatch
def follows(system: System) -> bool:
    """Whether a part of the state follows from the inputs at once, so that it jumps where they do."""
    return False


@singledispatch
def settled(system: System, values: Values, par: Array, t: float, u: Array) -> Values:
    """A state after a jump of the inputs: what follows from them is found anew."""
    return values


@dataclass(frozen=True)
class Implied:
    """What of a state follows from the rest: `residual(unknowns) = 0` in the system's symbols; the last unknowns are `parts`."""

    unknowns: SX
    residual: SX
    parts: Mapping[str, SX]


@singledispatch
def implied(system: System) -> Implied | None:
    """The equations of `multipliers` or `settled`, for derivatives; None where nothing follows."""
    return None


@singledispatch
def project(system: System, given: Given, par: Array, t: float, u: Array) -> Consistent:
    """Consistent values near given ones."""
    raise TypeError(f"there are no consistent values for {type(system).__name__}")


@singledispatch
def explain(system: System, values: Values, par: Array, t: float, h: float, u: Array) -> DalembertError | None:
    """Why a step failed that began there, where that can be told."""
    return None


@singledispatch
def fault(system: System, values: Values, times: Array, par: Array) -> tuple[int, DalembertError] | None:
    """The first row of a run at which the equations have changed their character, and what to say of it.

    `values` are the states of all rows by name.
    """
    return None


@singledispatch
def fleeting(system: System) -> bool:
    """Whether what `fault` looks for may come and go between rows, if these do not have all steps."""
    return False


from dalembert.engine.kinds import daes, mechanics, odes, ports  # noqa: E402, F401 - they register themselves
