"""The acceleration level as an ordinary differential equation: the constraints are differentiated until they give `v'`."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.engine import elimination
from dalembert.engine.inputs import Inputs
from dalembert.engine.kinds.mechanics import accelerations
from dalembert.engine.machine import bind
from dalembert.engine.run import Array
from dalembert.errors import ModelError
from dalembert.systems.constrained import Constrained


def right_side(s: Constrained, xi: float = 0.0, omega: float = 0.0) -> ca.Function:
    """`(q', v')` (or `(q', p')`) as a function of `q`, `v` (or `p`), `t`, `u` and the parameters.

    `M v' + G^T lam = F`, `G v' = d`, with `g'' + 2 xi omega g' + omega^2 g = 0` in place of `g'' = 0` where `omega` is not zero.
    """
    A, F, C, d = accelerations(s)(*s.symbols())
    velocity = s.v if s.momenta == "v" else s.role("velocity")
    if omega and s.m:
        back = 2 * xi * omega * (s.role("jacobian") @ velocity + s.role("rate"))
        if s.mh:
            back[: s.mh] += omega**2 * s.expression("holonomic")
        d = d - back
    matrix = ca.vertcat(ca.horzcat(A, s.role("jacobian").T), ca.horzcat(C, ca.SX(s.m, s.m))) if s.m else A
    right = ca.densify(ca.vertcat(F, d) if s.m else F)
    order = elimination.structural_order(matrix.sparsity(), (0,) * s.nv + (1,) * s.m)
    rate = elimination.solve(matrix, right, order)[: s.nv]
    if s.momenta == "p":
        rate = ca.substitute(rate, s.v, velocity)
    outputs = [ca.densify(ca.vertcat(s.qdot(s.q, velocity), rate))]
    return ca.Function("f", [s.q, getattr(s, s.momenta), s.t, s.u, s.par], outputs)


class Rate:
    """`f(t, y)` with `y = (q, v)` (or `(q, p)`), in numbers."""

    def __init__(self, system: Constrained, par: Array, inputs: Inputs, xi: float = 0.0, omega: float = 0.0) -> None:
        s = system
        self._n, self.inputs = s.n, inputs
        self._span: tuple[Array, Array] | None = None
        self._q, self._second, self._t, self._u = np.zeros(s.n), np.zeros(s.nv), np.zeros(1), np.zeros(s.nu)
        self._out = np.zeros(s.n + s.nv)
        arguments = [self._q, self._second, self._t, self._u, par]
        self._evaluate, self._kept = bind(right_side(s, xi, omega), arguments, [self._out])

    def between(self, begin: float, end: float) -> None:
        """What follows is asked for inside of this interval: at its ends the inputs have their limits from inside."""
        self._span = np.array([begin]), np.array([end])

    def __call__(self, t: float, y: Array) -> Array:
        self._q[:], self._second[:], self._t[0] = y[: self._n], y[self._n :], t
        if len(self._u):
            self._u[:] = self._input(t)
        self._evaluate()
        return self._out.copy()

    def _input(self, t: float) -> Array:
        try:
            times = np.array([t])
            u = (self.inputs(times) if self._span is None else self.inputs.within(times, *self._span))[0]
        except Exception as error:
            raise ModelError(f"u failed at t = {t:g}: {type(error).__name__}: {error}") from error
        if not np.isfinite(u).all():
            raise ModelError(f"u is not finite at t = {t:g}: {u}")
        return np.asarray(u, dtype=np.float64)
