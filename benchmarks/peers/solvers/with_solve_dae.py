"""solve_dae: Radau IIA and BDF for implicit equations `F(t, y, y') = 0`, in Python."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
from solve_dae.integrate import solve_dae

from peers.equations import Array, buffered
from peers.problems import Problem
from peers.solvers.base import Case, Failed, Rows, tolerances


class SolveDae:
    """The residual and its Jacobians are CasADi functions called through their buffers."""

    fixed_step = False
    form = "index-1 equations with multipliers as unknowns, exact Jacobians; Radau IIA (BDF too where stiff)"

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """Radau IIA, and BDF where the problem is stiff: elsewhere it is slower throughout."""
        return dict.fromkeys(("Radau", "BDF") if problem.kind == "stiff" else ("Radau",), tolerances(3, 12)[::2])

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """Consistent multipliers first; their integral is no part of the equations."""
        e = problem.equations
        lam, ode, alg = e.index_one()
        n, m = e.y.numel(), lam.numel()
        x, xp = ca.vertcat(e.y, lam), ca.SX.sym("xp", n + m)
        residual = ca.vertcat(xp[:n] - ode, alg)
        F = buffered(ca.Function("F", [x, xp], [ca.densify(residual)], {"cse": True}))
        J = buffered(ca.Function("J", [x, xp], [ca.densify(ca.jacobian(residual, x)).T], {"cse": True}))
        by_rates = np.asarray(ca.Function("P", [], [ca.densify(ca.jacobian(residual, xp))])()["o0"])
        at = ca.Function("at", [e.y, lam], [alg, ca.densify(ca.jacobian(alg, lam)), ode])
        first = np.zeros(m)
        if m:
            value, slope, _ = at(problem.start, first)
            first = -np.linalg.solve(np.asarray(slope), np.asarray(value).ravel())
        y0 = np.concatenate([problem.start, first])
        yp0 = np.concatenate([np.asarray(at(problem.start, first)[2]).ravel(), np.zeros(m)])

        def f(t: float, y: Array, yp: Array) -> Array:
            return F(y, yp).copy()

        def jac(t: float, y: Array, yp: Array) -> tuple[Array, Array]:
            return J(y, yp).reshape(n + m, n + m).copy(), by_rates

        def run() -> Any:
            return solve_dae(
                f, (0.0, problem.t_end), y0, yp0, method=variant, t_eval=problem.times, rtol=knob, atol=knob, jac=jac
            )

        def read(result: Any) -> Rows:
            if not result.success or result.y.shape[1] != len(problem.times):
                raise Failed(str(result.message))
            return Rows(np.ascontiguousarray(result.y[:n].T), 0)

        return Case(run, read)


peer = SolveDae()
