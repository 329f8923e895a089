"""A mechanical system with more constraints: contacts that hold."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.systems.composed import COMPOSED
from dalembert.systems.mechanical import Mechanical


def engaged(system: Mechanical, gaps: Sequence[SX]) -> Mechanical:
    """The same system on the constraints `gaps(q, t) = 0` as well; they come after as many others as it has of its own."""
    if not gaps:
        return system
    out, before, own = copy(system), system._own, {f"own_{role}" for role in COMPOSED}
    kept = (system.given | own) - {"holonomic", "own_holonomic"}
    out._functions = {role: f for role, f in system._functions.items() if role in kept}
    if system.order is not None:
        order = np.where(system.order < before, system.order, system.order + len(gaps))
        out.order = np.insert(order, before, before + np.arange(len(gaps)))
    out._compose("holonomic", ca.densify(ca.vertcat(system.own("holonomic"), *gaps)))
    return out


def places(system: Mechanical, count: int, chosen: Sequence[int]) -> NDArray[np.int64]:
    """Where the multipliers of the system with some of `count` gaps are, among those of the system with all of them."""
    own = system._own if system.mh else 0
    return np.array([*range(own), *(own + i for i in chosen), *range(own + count, system.m + count)], dtype=np.int64)
