"""The differentiable way to run: derivatives of each step by the implicit function theorem.

With all unknowns `x` of a step in one vector, `R(x, s, par) = 0` and `s1 = N(x, s, par)`,

    ds1/ds = N_s - N_x R_x^-1 R_s,    ds1/dpar = N_par - N_x R_x^-1 R_par,

exactly for the step that was computed, not for the iteration that computed it. The run itself is that of any other engine,
with the unknowns of each step recorded, so that its values are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator

import casadi as ca
import numpy as np

from dalembert.engine.newton import Array
from dalembert.engine.program import Program
from dalembert.systems.batch import batch, dense

CHUNK = 2048  # steps whose derivatives are held in memory at once


class Linearization:
    """The derivatives of a program's step, evaluated for many steps at once."""

    def __init__(self, program: Program) -> None:
        step = program.step
        x = ca.vertcat(*program.unknowns) if program.unknowns else ca.SX(0, 1)
        R = ca.vertcat(*(solve.residual for solve in step.solves)) if step.solves else ca.SX(0, 1)
        N = ca.vertcat(*step.next.values())
        inputs = [*program.common, x]
        blocks = [ca.jacobian(f, y) for f in (R, N) for y in (x, program.state, step.par)]
        self.sparsities = [b.sparsity() for b in blocks]
        self.function = ca.Function("derivatives", inputs, blocks)

    def matrices(self, states: Array, t: Array, h: Array, u: Array, par: Array, x: Array) -> tuple[Array, Array]:
        """`ds1/ds` and `ds1/dpar` of each step; arguments have one row a step."""
        values = batch(self.function, [states, t[:, None], h[:, None], u, par, x], len(t))
        R_x, R_s, R_p, N_x, N_s, N_p = (dense(v, s) for v, s in zip(values, self.sparsities, strict=True))
        if not R_x.shape[1]:
            return N_s, N_p
        solved = np.linalg.solve(R_x, np.concatenate([R_s, R_p], axis=2))
        both = np.concatenate([N_s, N_p], axis=2) - N_x @ solved
        return both[:, :, : N_s.shape[2]], both[:, :, N_s.shape[2] :]


def chunks(count: int, backwards: bool = False) -> Iterator[slice]:
    """Slices of at most CHUNK steps, in either direction."""
    starts = range(0, count, CHUNK)
    for start in reversed(starts) if backwards else starts:
        yield slice(start, min(start + CHUNK, count))
