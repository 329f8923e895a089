"""`consistent`: initial values on the constraints, near given ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from dalembert.checking import number
from dalembert.engine.case import check_system, project
from dalembert.engine.consistent import Consistent
from dalembert.engine.inputs import inputs_of
from dalembert.errors import suggesting
from dalembert.systems.base import System


@suggesting
def consistent(
    system: System,
    *,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    p: ArrayLike | None = None,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    z: ArrayLike | None = None,
    t0: float = 0.0,
    u: object = None,
    parameters: Mapping[str, ArrayLike] | None = None,
) -> Consistent:
    """Consistent initial values near given ones.

    Positions are projected to `g(q, t0) = 0` along `M^-1 G^T` (nearest in the norm of the kinetic energy), velocities to
    `G v + g_t = 0` (and `A v + a = 0`) in the same way, and the multipliers follow from the acceleration level. For a
    port-Hamiltonian system the algebraic states follow from the algebraic equations (index 1); for a
    semi-explicit system `y` is projected to the nearest values on all levels, and `z` follows from the one that defines it: of
    several solutions the one near a given `z`, else near the default, zero or one.

    >>> start = da.consistent(system, q=[0.9, 0.1], v=[0.0, 1.0])
    >>> da.simulate(system, "rattle", **start, t_end=1.0, step=0.01)
    """
    check_system(system)
    t0 = number("t0", t0)
    given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    inputs = inputs_of(system, u, t0)(np.array([t0]))[0]
    return project(system, given, system.pack(parameters), t0, inputs)
