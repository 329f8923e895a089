"""diffrax: explicit and diagonally implicit Runge-Kutta methods, compiled by XLA."""

from __future__ import annotations

from functools import cache
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from peers.equations import Ode, replay
from peers.problems import Problem
from peers.solvers.base import Case, Failed, Rows, tolerances

jax.config.update("jax_enable_x64", True)
NAMES = {"sin": jnp.sin, "cos": jnp.cos, "sqrt": jnp.sqrt}
SOLVERS = {"Tsit5": diffrax.Tsit5, "Dopri8": diffrax.Dopri8, "Kvaerno5": diffrax.Kvaerno5}


def rates(form: Ode, y: Any) -> Any:
    """The right-hand side as a JAX function."""
    return jnp.stack([jnp.asarray(e, dtype=float) for e in replay(form.rhs, [[y[i] for i in range(len(form.start))]], NAMES)])


@cache
def compiled(problem: Problem, variant: str) -> Any:
    """One compiled solve for all tolerances."""
    solver, name = variant.split(", ")
    form, times = problem.forms[name], jnp.asarray(problem.times)
    term = diffrax.ODETerm(lambda t, y, args: rates(form, y))

    @jax.jit
    def solve(y: Any, tolerance: Any) -> Any:
        return diffrax.diffeqsolve(
            term, SOLVERS[solver](), 0.0, problem.t_end, None, y, saveat=diffrax.SaveAt(ts=times), max_steps=10**6, throw=False,
            stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
        )  # fmt: skip

    return solve


class Diffrax:
    """Double precision on the CPU."""

    fixed_step = False
    form = "by hand (minimal coordinates) or multipliers eliminated, the faster; a jitted `diffeqsolve` in double precision"

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """An explicit method of order 8; one of order 5, implicit where the problem is stiff."""
        solvers = ["Dopri8", "Kvaerno5" if problem.kind == "stiff" else "Tsit5"]
        forms = list(problem.forms)
        names = [f"{solver}, {forms[0]}" for solver in solvers] + [f"Dopri8, {form}" for form in forms[1:]]
        return dict.fromkeys(names, tolerances(3, 14)[::2])

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """Compiled at the first run."""
        form, solve = problem.forms[variant.split(", ")[1]], compiled(problem, variant)
        y = jnp.asarray(form.start)

        def run() -> Any:
            return jax.block_until_ready(solve(y, knob))

        def read(result: Any) -> Rows:
            if result.result != diffrax.RESULTS.successful:
                raise Failed("diffrax did not come to the end")
            return Rows(form.rows(np.asarray(result.ys)), int(result.stats["num_steps"]))

        return Case(run, read)


peer = Diffrax()
