"""SciPy's solve_ivp on the index-1 form with Baumgarte's stabilisation."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp

from peers.equations import Array, Explicit, as_ode, buffered
from peers.problems import Problem
from peers.solvers.base import Case, Failed, Rows, tolerances

RATE = 5.0  # of the decay of constraint errors, 1 / s


class SciPy:
    """The right-hand side is a CasADi function called through its buffers."""

    fixed_step = False
    form = "multipliers eliminated, Baumgarte's stabilisation with rate 5 / s; DOP853, or Radau with its Jacobian where stiff"

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """An explicit method, and an implicit one where the problem is stiff."""
        knobs = tolerances(3, 14)[::2]
        return {"DOP853": knobs} | ({"Radau": knobs} if problem.kind == "stiff" else {})

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """States at the times of the problem by SciPy's dense output."""
        e = problem.equations
        form = as_ode(Explicit(e.y, e.ode(RATE), e.y), problem.start)
        f = buffered(form.rhs)
        options: dict[str, Any] = {}
        if variant == "Radau":
            J = buffered(ca.Function("J", [e.y], [ca.densify(ca.jacobian(e.ode(RATE), e.y)).T], {"cse": True}))
            options["jac"] = lambda t, y: J(y).reshape(len(y), len(y)).copy()

        def rates(t: float, y: Array) -> Array:
            return f(y).copy()

        def run() -> Any:
            return solve_ivp(
                rates, (0.0, problem.t_end), form.start, method=variant, t_eval=problem.times, rtol=max(knob, 3e-14), atol=knob,
                **options,
            )  # fmt: skip

        def read(result: Any) -> Rows:
            if not result.success:
                raise Failed(result.message)
            return Rows(np.ascontiguousarray(result.y.T), 0)

        return Case(run, read)


peer = SciPy()
