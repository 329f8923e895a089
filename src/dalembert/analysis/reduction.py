"""The index-1 form as an ordinary differential equation: accelerations and multipliers from the acceleration level."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine import elimination
from dalembert.engine.consistency import accelerations
from dalembert.engine.initial import inputs_of
from dalembert.engine.machine import bind
from dalembert.errors import MethodError


def ode(
    system: Any, parameters: Mapping[str, Any] | None = None, u: Any = None, *, xi: float = 0.0, omega: float = 0.0
) -> Callable[[float, np.ndarray], np.ndarray]:
    """`f(t, y)` with `y = (q, v)` (or `(q, p)`), for any integrator of ordinary differential equations.

    The constraints hold at acceleration level only: a numerical solution drifts away from those of position and velocity, unless
    `omega` stabilises them, `g'' + 2 xi omega g' + omega^2 g = 0`.
    """
    if system.kind == "dae":
        raise MethodError("ode() treats mechanical and Hamiltonian systems")
    s, par = system, system.pack(parameters)
    inputs = inputs_of(s, u, 0.0)
    A, F, C, d = accelerations(s)(s.q, s.v, s.p, s.t, s.u, s.par)
    if omega and s.m:
        velocity = s.v if s.momenta == "v" else s.role("velocity")
        back = 2 * xi * omega * (s.role("jacobian") @ velocity + s.role("rate"))
        if s.mh:
            back[: s.mh] += omega**2 * s.expression("holonomic")
        d = d - back
    matrix = ca.vertcat(ca.horzcat(A, s.role("jacobian").T), ca.horzcat(C, ca.SX(s.m, s.m))) if s.m else A
    right_side = ca.densify(ca.vertcat(F, d) if s.m else F)
    order = elimination.structural_order(matrix.sparsity(), (0,) * s.nv + (1,) * s.m)
    rate = elimination.solve(matrix, right_side, order)[: s.nv]
    velocity = s.v
    if s.momenta == "p":
        velocity = s.role("velocity")
        rate = ca.substitute(rate, s.v, velocity)
    second = getattr(s, s.momenta)
    f = ca.Function("f", [s.q, second, s.t, s.u, s.par], [ca.densify(ca.vertcat(s.qdot(s.q, velocity), rate))])
    q, y2, t_, u_, out = np.zeros(s.n), np.zeros(s.nv), np.zeros(1), np.zeros(s.nu), np.zeros(s.n + s.nv)
    evaluate, kept = bind(f, [q, y2, t_, u_, par], [out])

    def right(t: float, y: np.ndarray, kept: Any = kept) -> np.ndarray:
        q[:], y2[:], t_[0] = y[: s.n], y[s.n :], t
        if s.nu:
            u_[:] = inputs(np.array([t]))[0]
        evaluate()
        return out.copy()

    return right
