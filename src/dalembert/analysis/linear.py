"""Runs of linear differential-algebraic equations."""

from __future__ import annotations

import numpy as np

from dalembert.methods.base import Method
from dalembert.simulation import simulate
from dalembert.systems import linear_dae
from dalembert.systems.linear_dae import LinearDAE, SolveOptions
from dalembert.systems.pencil import Array


def solve(
    dae: LinearDAE, x0: Array, t_end: float, step: float, method: str | Method, options: SolveOptions
) -> tuple[Array, Array]:
    """Times and states of the index-1 form, from a consistent value: what `dae.solve(...)` does."""
    w = dae.weierstrass()
    free = np.linalg.solve(w.Q, x0)[len(w.N) :]
    sol = simulate(dae.system(), method, y=free if len(free) else [0.0], z=x0, t_end=t_end, step=step, **options)
    return sol.t, sol.z


linear_dae.SOLVE.set(solve)
