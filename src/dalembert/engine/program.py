"""A step as a program: the functions that the virtual machine and the compiled loop both run.

For each solve of a step
    guess(state, t, h, u, par, earlier unknowns, last, before) -> first iterate
    factor(state, t, h, u, par, earlier unknowns, x) -> constants
    update(x, scale, constants) -> next iterate, size of the update
    accept(state, t, h, u, par, earlier unknowns, x, scale) -> residual, relative to the size of its terms
    weigh(state, t, h, u, par, earlier unknowns) -> scale        (only every WEIGH_EVERY steps)
    begin = guess, then factor at the guess
and at the end
    finish(state, t, h, u, par, all unknowns) -> next state, multipliers, work, sum of squares (not finite where
    anything is not).

The Jacobian is taken and eliminated at one iterate (in `factor`) and kept while it serves well; with a first guess by
extrapolation it nearly always serves to the end. What does not change between iterations is computed once: `constants`
are the sub-expressions of the update that do not depend on the iterate, the factors of the elimination among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from dalembert.engine import elimination
from dalembert.engine.newton import TINY, Array
from dalembert.engine.rounding import sizes
from dalembert.methods.step import Solve, Step
from dalembert.systems.batch import batch

SX = ca.SX
Order = list[tuple[int, int]]  # the pivots of an elimination: rows and columns
HUGE = 1e300  # what is larger counts as infinite
ROUNDING = 1e-7  # a residual of 1e-8 times this, 4.5 eps, of what rounding can do is round-off
LARGE = 2000  # operations of a residual up to which its terms are followed one by one
WEIGH_EVERY = 64  # steps between two looks at the size of the unknowns: an order of magnitude is all that is needed


@dataclass(frozen=True)
class Stage:
    """The functions of one solve."""

    n: int
    guess: ca.Function
    factor: ca.Function
    update: ca.Function
    begin: ca.Function  # guess and factor in one call, for the virtual machine
    accept: ca.Function
    weigh: ca.Function
    seen: list[int] | None  # the unknowns that are measured; None for the residual
    residual: ca.Function  # (x, everything) -> residual, Jacobian; for the pivoted solver

    @property
    def n_scale(self) -> int:
        return int(self.weigh.size1_out(0))

    @property
    def constants(self) -> int:
        return int(self.update.size1_in(2))


class Program:
    """The functions of a step, their sizes, and where things lie in the state."""

    def __init__(self, step: Step, orders: tuple[Order, ...] | None = None) -> None:
        self.step, self.orders = step, orders
        self.fields: dict[str, slice] = {}
        start = 0
        for name, symbol in step.state.items():
            self.fields[name] = slice(start, start + symbol.numel())
            start += symbol.numel()
        self.n_state = start
        self.n_lam = int(step.lam.numel())
        self.n_u = int(step.u.numel())
        self.state = ca.vertcat(*step.state.values())
        self.common = [self.state, step.t, step.h, ca.vec(step.u), step.par]
        self.stages: list[Stage] = []
        self._looked = False
        known: list[SX] = []
        for k, solve in enumerate(step.solves):
            order = orders[k] if orders else None
            self.stages.append(self._stage(k, solve, known, order))
            known.append(solve.unknowns)
        self.unknowns = known
        sizes = [stage.n for stage in self.stages]
        self.n_unknowns = sum(sizes)
        self.cuts = np.cumsum(sizes)[:-1].tolist()  # where a vector of all unknowns falls into solves
        work = ca.vertcat(step.work["supplied"], step.work["dissipated"])
        self.working = ca.sparsify(SX(work)).nnz() > 0
        after = ca.vertcat(*step.next.values())
        # what is finite vanishes beside the sum of squares at which a state counts as infinite
        other = ca.sum1(step.lam) + ca.sum1(work)
        outputs = [after, step.lam, work, ca.sumsqr(after) + ca.fabs(other) * (1 / HUGE)]
        self.finish = ca.Function("finish", [*self.common, *known], [ca.densify(x) for x in outputs])

    def _missed(self, inputs: list[SX]) -> SX | None:
        """What the next state misses of the constraints that the method keeps, relative to their sizes.

        None where there are none, or the state depends on more than the given unknowns.
        """
        step, kept = self.step, self.step.kept
        if kept is None:
            return None
        after = ca.vertcat(*step.next.values())[: kept.numel_in(0)]
        values = [after, step.t + step.h, step.par]
        rows, size = kept(*values)
        known = {s.element_hash() for s in ca.symvar(ca.veccat(*inputs))}
        if any(s.element_hash() not in known for s in ca.symvar(rows)):
            return None
        _, rounding = sizes(kept, values, [ca.fabs(after), None, None])
        return rows / (size + rounding + TINY)

    def _stage(self, k: int, solve: Solve, known: list[SX], order: Order | None) -> Stage:
        x, n = solve.unknowns, solve.unknowns.numel()
        at, scale = SX.sym("at", n), SX.sym("scale", solve.scale.numel())
        J = ca.jacobian(solve.residual, x)
        order = order or elimination.structural_order(J.sparsity(), solve.levels)
        inputs = [*self.common, *known]
        frozen = ca.Function("J", [x, *inputs], [J])(at, *inputs)
        change = elimination.solve(frozen, solve.residual, order)
        seen = _measured(solve)
        if seen is None:
            size = ca.norm_2(solve.residual / (scale + TINY))
        else:
            size = ca.norm_2(change[seen] / (ca.fabs(x - change)[seen] + scale + TINY))
        outputs, symbols, constants = _split(_shared([x - change, size]), [x, scale])
        guess = ca.Function(f"guess{k}", [*inputs, solve.last, solve.before], [ca.densify(solve.guess)])
        factor = ca.Function(f"factor{k}", [*inputs, at], _shared([constants]))
        first = guess(*inputs, solve.last, solve.before)
        missed = None if self._looked else self._missed([*inputs, x])  # by the first solve that leads to the next positions
        self._looked = self._looked or missed is not None
        return Stage(
            n=n,
            seen=seen,
            guess=guess,
            factor=factor,
            begin=ca.Function(f"begin{k}", [*inputs, solve.last, solve.before], [first, factor(*inputs, first)]),
            update=ca.Function(f"update{k}", [x, scale, symbols], outputs),
            accept=_acceptance(k, solve, inputs, scale, seen, missed),
            weigh=ca.Function(f"weigh{k}", inputs, [ca.densify(solve.scale)]),
            residual=ca.Function(f"residual{k}", [x, *inputs], [ca.densify(solve.residual), J]),
        )

    def first_memory(self, state: Array, t: float, h: float, u: Array, par: Array, known: Array | None = None) -> Array:
        """What stands for the solutions of earlier steps in the first one: rates and multipliers as known, else zero."""
        size = self.step.known.numel()
        known = np.zeros(size) if known is None else known[len(known) - size :]
        out: Array = batch(self._first, [state, [t], [h], u, par, known], 1)[0][0]
        return out

    @cached_property
    def _first(self) -> ca.Function:
        starts = [SX(s.unknowns.numel(), 1) if s.start is None else s.start for s in self.step.solves]
        return ca.Function("first", [*self.common, self.step.known], [ca.densify(ca.vertcat(*starts)) if starts else SX(0, 1)])

    def functions(self) -> list[ca.Function]:
        """All functions in the order in which a step calls them."""
        out = [f for stage in self.stages for f in (stage.guess, stage.factor, stage.update, stage.accept, stage.weigh)]
        return [*out, self.finish]

    @cached_property
    def operations(self) -> int:
        """Operations of one step with three updates a solve: what a step costs."""
        total = int(self.finish.n_instructions())
        for stage in self.stages:
            total += int(stage.factor.n_instructions()) + 3 * int(stage.update.n_instructions())
        return total

    def suited(self, matrices: Sequence[ca.DM | None]) -> tuple[Order, ...]:
        """Pivots of all solves for given numerical Jacobians."""
        return tuple(elimination.numeric_order(m) for m in matrices if m is not None)


def _measured(solve: Solve) -> list[int] | None:
    """The unknowns whose changes are measured: those that have a scale, all or those of level 0; none for the residual."""
    if solve.measure == "residual":
        return None
    n = solve.unknowns.numel()
    return [i for i in range(n) if solve.levels[i] == 0 or solve.scale.numel() == n]


def _acceptance(k: int, solve: Solve, inputs: list[SX], scale: SX, seen: list[int] | None, missed: SX | None) -> ca.Function:
    """The residual of a solve, each row relative to the size of its terms; never small where anything is not finite.

    What is `missed` of the constraints that the method keeps counts as well, whatever rounding can do.

    Where terms cancel before a nonlinear function sees them, or an unknown is smaller than the size at which its round-off
    begins, the row is not defined better than rounding leaves it. Of a large system the terms are those of its linearisation in
    the unknowns and the sizes of its rows: to follow all its operations would take longer than all other preparations.
    """
    x = solve.unknowns
    own, rows = ca.fabs(x), SX(0.0)
    if seen is None:
        rows = scale
    else:
        own[seen] += scale
    residual = ca.Function("residual", [*inputs, x], [ca.densify(solve.residual)])
    if residual.n_instructions() <= LARGE:
        size, rounding = sizes(residual, [*inputs, x], [*(None for _ in inputs), own])
    else:
        size, rounding = ca.fabs(ca.jacobian(solve.residual, x)) @ own + rows, SX(0.0)
    size = size + ROUNDING * (rounding + rows) + TINY
    ratio = ca.if_else(size < HUGE, solve.residual / size, HUGE)
    ratio = ratio if missed is None else ca.vertcat(ratio, missed)
    return ca.Function(f"accept{k}", [*inputs, x, scale], _shared([ca.norm_2(ratio)]))


def _shared(expressions: list[SX]) -> list[SX]:
    """Common sub-expressions taken together, where that does not take longer than it can save."""
    return ca.cse(expressions) if ca.n_nodes(SX(ca.veccat(*expressions))) < 20_000 else expressions  # type: ignore[no-any-return]


def _split(outputs: list[SX], varying: list[SX]) -> tuple[list[SX], SX, SX]:
    """Take out the sub-expressions that do not depend on `varying`: outputs, symbols for them, their values."""
    own = {s.element_hash() for s in ca.symvar(ca.veccat(*varying))}

    def fixed(expressions: list[SX]) -> list[SX]:
        return [s for s in ca.symvar(ca.veccat(*expressions)) if s.element_hash() not in own]

    new, symbols, values = ca.extract_parametric(outputs, ca.veccat(*fixed(outputs)), {"prefix": "c_"})
    taken = {s.name() for s in symbols}
    plain = [s for s in fixed(new) if s.name() not in taken]  # symbols that stand by themselves are left in place
    if not symbols and not plain:
        return new, SX.sym("c", 0), SX(0, 1)
    return new, ca.veccat(*symbols, *plain), SX(ca.veccat(*values, *plain))
