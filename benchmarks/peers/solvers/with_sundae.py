"""scikit-sundae: CVODE on explicit equations, IDA on those with multipliers."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import sksundae as sun

from peers.equations import Array, buffered
from peers.problems import Problem
from peers.solvers.base import Case, Failed, Rows, tolerances


class Sundae:
    """Right-hand sides and Jacobians are CasADi functions called through their buffers."""

    fixed_step = False
    form = (
        "CVODE (Adams; BDF where stiff) by hand (minimal coordinates) or multipliers eliminated, or IDA on index 1, the fastest"
    )

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """Adams where nothing is stiff, BDF where something is."""
        method = "BDF" if problem.kind == "stiff" else "Adams"
        knobs = tolerances(3, 14)[::2]
        out = {f"CVODE {method}, {form}": knobs for form in problem.forms}
        return out | ({"IDA, index 1": knobs} if problem.kind != "network" else {})

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """A solver object; its solution is asked for at the times of the problem."""
        options = {"rtol": knob, "atol": knob, "max_num_steps": 20_000}
        if variant.startswith("IDA"):
            return self._index_one(problem, options)
        method, name = variant.removeprefix("CVODE ").split(", ")
        form = problem.forms[name]
        f = buffered(form.rhs)

        def rates(t: float, y: Array, yp: Array) -> None:
            yp[:] = f(y)

        if method == "BDF":
            y = ca.MX.sym("y", len(form.start))
            J = buffered(ca.Function("J", [y], [ca.densify(ca.jacobian(form.rhs(y), y)).T]))

            def jacobian(t: float, y: Array, yp: Array, out: Array) -> None:
                out[:, :] = J(y).reshape(out.shape)

            options["jacfn"] = jacobian  # type: ignore[assignment]
        solver = sun.cvode.CVODE(rates, method=method, **options)
        return Case(lambda: solver.solve(problem.times, form.start), lambda result: self._rows(result, form.rows))

    def _index_one(self, problem: Problem, options: dict[str, Any]) -> Case:
        e = problem.equations
        lam, ode, alg = e.index_one()
        n, x = e.y.numel(), ca.vertcat(e.y, lam)
        xp, c = ca.SX.sym("xp", x.numel()), ca.SX.sym("c")
        residual = ca.vertcat(xp[:n] - ode, alg)
        F = buffered(ca.Function("F", [x, xp], [ca.densify(residual)], {"cse": True}))
        matrix = ca.jacobian(residual, x) + c * ca.jacobian(residual, xp)
        J = buffered(ca.Function("J", [x, c], [ca.densify(matrix.T)], {"cse": True}))
        at = ca.Function("at", [e.y, lam], [alg, ca.jacobian(alg, lam), ode])
        value, slope, _ = at(problem.start, np.zeros(lam.numel()))
        first = -np.linalg.solve(np.asarray(slope), np.asarray(value).ravel())
        y0 = np.concatenate([problem.start, first])
        yp0 = np.concatenate([np.asarray(at(problem.start, first)[2]).ravel(), np.zeros(lam.numel())])

        def resfn(t: float, y: Array, yp: Array, res: Array) -> None:
            res[:] = F(y, yp)

        def jacfn(t: float, y: Array, yp: Array, res: Array, cj: float, out: Array) -> None:
            out[:, :] = J(y, np.array([cj])).reshape(out.shape)

        solver = sun.ida.IDA(resfn, jacfn=jacfn, algebraic_idx=list(range(n, x.numel())), **options)
        return Case(lambda: solver.solve(problem.times, y0, yp0), lambda result: self._rows(result, lambda y: y[:, :n]))

    def _rows(self, result: Any, full: Any) -> Rows:
        if not result.success:
            raise Failed(str(result.message))
        return Rows(full(np.asarray(result.y)), 0)


peer = Sundae()
