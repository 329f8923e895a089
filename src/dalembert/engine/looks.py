"""What is looked at now and then: how large the unknowns of a solve are, and whether its equations hold."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from dalembert.engine.newton import TINY
from dalembert.engine.rounding import sizes
from dalembert.methods.step import Solve, Step

SX = ca.SX
HUGE = 1e300  # what is larger counts as infinite
ROUNDING = 1e-7  # a residual of 1e-8 times this, 4.5 eps, of what rounding can do is round-off
LARGE = 2000  # operations of a residual up to which its terms are followed one by one
SHARED = 20_000  # nodes up to which common sub-expressions are taken together


@dataclass(frozen=True)
class Look:
    """The functions of one solve that are called now and then, of `(state, t, h, u, par, earlier unknowns)`.

    `weigh` has no further arguments; those of `accept` are the unknowns and what `weigh` gave.
    """

    n: int
    seen: list[int] | None  # the unknowns that are measured; None for the residual
    weigh: ca.Function
    accept: ca.Function

    @property
    def n_scale(self) -> int:
        return int(self.weigh.size1_out(0))


def looks(step: Step, common: list[SX]) -> list[Look]:
    """Those of all solves of a step."""
    out, known, kept = [], list(common), list(step.kept)
    for k, solve in enumerate(step.solves):
        x, seen, scale = solve.unknowns, measured(solve), SX.sym("scale", solve.scale.numel())
        missed, kept = _missed(step, kept, k)
        out.append(Look(x.numel(), seen, weighing(k, solve, known), _acceptance(k, solve, known, scale, seen, missed)))
        known = [*known, x]
    return out


def weighing(k: int, solve: Solve, known: list[SX]) -> ca.Function:
    """The sizes of what is measured: those at which the round-off of the unknowns begins, or one over those of the residual."""
    weight = 1 / (solve.scale + TINY) if solve.measure == "residual" else solve.scale
    return ca.Function(f"weigh{k}", known, [ca.densify(weight)])


def _missed(step: Step, kept: list[ca.Function], k: int) -> tuple[SX, list[ca.Function]]:
    """What the next state misses of what the step keeps, relative to its sizes, and what solves after number `k` have to look at.

    A solve looks at all that its unknowns lead to first.
    """
    out, later = [], []
    unknown = ca.vertcat(*(solve.unknowns for solve in step.solves[k + 1 :]))
    before, next_state = ca.vertcat(*step.state.values()), ca.vertcat(*step.next.values())
    for function in kept:
        n = function.numel_in(0)
        after = next_state[:n]
        values = [after, step.t + step.h, step.par, before[:n], step.h]
        rows, size = function(*values)
        if unknown.numel() and ca.depends_on(ca.vertcat(rows, size), unknown):
            later.append(function)
            continue
        rounding = sizes(function, values, [ca.fabs(after), None, None, None, None])[1]
        out.append(rows / (size + rounding + TINY))
    return ca.vertcat(*out), later


def measured(solve: Solve) -> list[int] | None:
    """The unknowns whose changes are measured: those that have a scale, all or those of level 0; none for the residual."""
    if solve.measure == "residual":
        return None
    n = solve.unknowns.numel()
    return [i for i in range(n) if solve.levels[i] == 0 or solve.scale.numel() == n]


def _acceptance(k: int, solve: Solve, inputs: list[SX], scale: SX, seen: list[int] | None, missed: SX) -> ca.Function:
    """The residual of a solve, each row relative to the size of its terms; never small where anything is not finite.

    What is `missed` of what the step keeps counts as well, whatever rounding can do.

    Where terms cancel before a nonlinear function sees them, or an unknown is smaller than the size at which its round-off
    begins, the row is not defined better than rounding leaves it. Of a large system the terms are those of its linearisation in
    the unknowns and the sizes of its rows: to follow all its operations would take longer than all other preparations.
    """
    x = solve.unknowns
    own, rows = ca.fabs(x), SX(0.0)
    if seen is None:
        rows = 1 / scale
    else:
        own[seen] += scale
    residual = ca.Function("residual", [*inputs, x], [ca.densify(solve.residual)])
    if residual.n_instructions() <= LARGE:
        size, rounding = sizes(residual, [*inputs, x], [*(None for _ in inputs), own])
    else:
        size, rounding = ca.fabs(ca.jacobian(solve.residual, x)) @ own + rows, SX(0.0)
    size = size + ROUNDING * (rounding + rows) + TINY
    ratio = ca.if_else(size < HUGE, solve.residual / size, HUGE)
    size = ca.sumsqr(ca.vertcat(ratio, missed))
    size = size if ca.n_nodes(size) > SHARED else ca.cse(size)
    return ca.Function(f"accept{k}", [*inputs, x, scale], [size])
