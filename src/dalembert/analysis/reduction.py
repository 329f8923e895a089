"""The index-1 form as an ordinary differential equation, for any integrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from dalembert.checking import number
from dalembert.engine.case import check_call
from dalembert.engine.inputs import inputs_of
from dalembert.engine.ode import Rate
from dalembert.errors import MethodError, suggesting
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained


@suggesting
def ode(
    system: System,
    parameters: Mapping[str, ArrayLike] | None = None,
    u: ArrayLike | Callable[[float], ArrayLike] | None = None,
    *,
    xi: float = 0.0,
    omega: float = 0.0,
) -> Callable[[float, np.ndarray], np.ndarray]:
    """`f(t, y)` with `y = (q, v)` (or `(q, p)`), for any integrator of ordinary differential equations.

    The constraints hold at acceleration level only: a numerical solution drifts away from those of position and velocity, unless
    `omega` stabilises them, `g'' + 2 xi omega g' + omega^2 g = 0`.
    """
    check_call(system, "auto")
    if not isinstance(system, Constrained):
        raise MethodError(f"ode() treats mechanical and Hamiltonian systems; {system.name!r} is a {system.kind} system")
    return Rate(system, system.pack(parameters), inputs_of(system, u, 0.0), number("xi", xi), number("omega", omega))
