"""A mechanical system with more constraints: contacts that hold."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.systems.mechanical import Mechanical


def engaged(system: Mechanical, gaps: Sequence[SX]) -> Mechanical:
    """The same system on the constraints `gaps(q, t) = 0` as well; they come after its own and before those of its elements."""
    if not gaps:
        return system
    out = copy(system)
    out._functions = {role: f for role, f in system._functions.items() if role in system.given or role == "own_potential"}
    g = ca.vertsplit(system.expression("holonomic")) if system.mh else []
    out._define("holonomic", ca.densify(ca.vertcat(*g[: system._own], *gaps, *g[system._own :])))
    return out


def places(system: Mechanical, count: int, chosen: Sequence[int]) -> NDArray[np.int64]:
    """Where the multipliers of the system with some of `count` gaps are, among those of the system with all of them."""
    own = system._own if system.mh else 0
    return np.array([*range(own), *(own + i for i in chosen), *range(own + count, system.m + count)], dtype=np.int64)
