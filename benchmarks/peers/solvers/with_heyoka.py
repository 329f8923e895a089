"""heyoka: adaptive Taylor methods, compiled by LLVM."""

from __future__ import annotations

from typing import Any

import heyoka as hy

from peers.equations import replay
from peers.problems import Problem
from peers.solvers.base import Case, Failed, Rows, tolerances

NAMES = {"sin": hy.sin, "cos": hy.cos, "sqrt": hy.sqrt}


class Heyoka:
    """An integrator for each tolerance, since the order follows from it."""

    fixed_step = False
    form = "minimal coordinates by hand or multipliers eliminated, whichever is faster; `propagate_grid` of a built integrator"

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """One for each form of the equations."""
        return {form: tolerances(3, 16) for form in problem.forms}

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """The right-hand side as heyoka's expressions."""
        form = problem.forms[variant]
        names = [f"y{i:03d}" for i in range(len(form.start))]
        y = [hy.expression(name) for name in names]
        rates = [e if isinstance(e, hy.expression) else hy.expression(float(e)) for e in replay(form.rhs, [y], NAMES)]
        integrator = hy.taylor_adaptive(list(zip(y, rates, strict=True)), form.start, tol=knob)
        times = problem.times

        def run() -> Any:
            integrator.time = 0.0
            integrator.state[:] = form.start
            # a bound on the step: at rest the highest derivatives vanish, and the first step would be without one
            return integrator.propagate_grid(times, max_delta_t=0.5)

        def read(result: Any) -> Rows:
            if len(result[-1]) != len(times):
                raise Failed(f"heyoka stopped: {result[0]}")
            return Rows(form.rows(result[-1]), int(result[3]))

        return Case(run, read)


peer = Heyoka()
