"""heyoka: adaptive Taylor methods, compiled by LLVM."""

from __future__ import annotations

from typing import Any

import heyoka as hy
import numpy as np

from peers.equations import replay
from peers.problems import Problem
from peers.solvers.base import Case, Failed, Rows, tolerances

FIRST = 1e-2  # bound of the first step: at rest every other derivative vanishes, and heyoka's own estimate is off by orders
NAMES = {"sin": hy.sin, "cos": hy.cos, "sqrt": hy.sqrt, "square": lambda x: x**2.0}


class Heyoka:
    """An integrator for each tolerance, since the order follows from it."""

    fixed_step = False
    form = "by hand (minimal coordinates) or multipliers eliminated, the faster; `propagate_grid` of a built integrator"

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
            integrator.step(FIRST)
            times[0] = integrator.time  # a grid has to begin where the integrator is
            return integrator.propagate_grid(times)

        def read(result: Any) -> Rows:
            if len(result[-1]) != len(times):
                raise Failed(f"heyoka stopped: {result[0]}")
            return Rows(form.rows(np.vstack([form.start, result[-1][1:]])), int(result[3]) + 1)

        return Case(run, read)


peer = Heyoka()
