"""CasADi's interface to IDAS: BDF on the index-1 equations with the multipliers as algebraic variables."""

from __future__ import annotations

import casadi as ca
import numpy as np

from peers.problems import Problem
from peers.solvers.base import Case, Failed, Rows, tolerances


class Idas:
    """`ca.integrator(..., "idas", ...)`."""

    fixed_step = False
    form = "index-1 equations with multipliers as algebraic variables (the network: its state space), exact Jacobians by CasADi"

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """One."""
        return {"BDF": tolerances(3, 13)[::2]}

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """Consistent multipliers, then an integrator to all times."""
        e = problem.equations
        lam, ode, alg = e.index_one()
        options = {"reltol": knob, "abstol": knob, "max_num_steps": 20_000}
        dae = {"x": e.y, "z": lam, "ode": ode, "alg": alg}
        integrator = ca.integrator("idas", "idas", dae, 0.0, list(problem.times[1:]), options)
        first = np.zeros(lam.numel())
        if lam.numel():
            at = ca.Function("at", [e.y, lam], [alg, ca.jacobian(alg, lam)])
            residual, matrix = at(problem.start, first)
            first = -np.linalg.solve(np.asarray(matrix), np.asarray(residual).ravel())

        def run() -> dict[str, ca.DM]:
            try:
                return integrator(x0=problem.start, z0=first)
            except RuntimeError as error:
                raise Failed(str(error).splitlines()[-1]) from error

        def read(result: dict[str, ca.DM]) -> Rows:
            steps = integrator.stats().get("nsteps", 0)
            return Rows(np.vstack([problem.start, np.asarray(result["xf"]).T]), int(steps))

        return Case(run, read)


peer = Idas()
