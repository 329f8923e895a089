"""A step as a program: the functions that the virtual machine and the compiled loop both run.

Once for a step size and parameters
    prelude(h, par) -> constants of the run
and with `known = (state, t, h, u, par, constants of the run, earlier unknowns)` for each solve of a step
    begin(known, last, before, scale) -> first iterate changed once, size of the change, constants
    renew(known, x, scale) -> x changed once, size of the change, constants
    update(x, scale, constants) -> x changed once, size of the change
    accept(state, t, h, u, par, earlier unknowns, x, scale) -> size of the residual, relative to that of its terms
    weigh(state, t, h, u, par, earlier unknowns) -> scale        (only every WEIGH_EVERY steps)
and at the end
    finish(known, all unknowns) -> next state, multipliers, work, sum of squares (not finite where anything is not).

The Jacobian is taken and eliminated at one iterate (in `begin`, or anew in `renew`) and kept while it serves well; with a first
guess by extrapolation it nearly always serves to the end. What does not change between iterations is computed once: `constants`
are the sub-expressions of the update that do not depend on the iterate, the factors of the elimination among them. Sizes are
squares: no root is taken in a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import casadi as ca
import numpy as np

from dalembert.engine import elimination
from dalembert.engine.factors import Factors
from dalembert.engine.newton import TINY, Array
from dalembert.engine.rounding import sizes
from dalembert.methods.step import Solve, Step
from dalembert.systems.batch import batch
from dalembert.systems.instructions import as_written

SX = ca.SX
Order = list[tuple[int, int]]  # the pivots of an elimination: rows and columns
HUGE = 1e300  # what is larger counts as infinite
ROUNDING = 1e-7  # a residual of 1e-8 times this, 4.5 eps, of what rounding can do is round-off
LONG = 10_000  # operations of a step up to which it is gone through for quotients
LARGE = 2000  # operations of a residual up to which its terms are followed one by one
WEIGH_EVERY = 64  # steps between two looks at the size of the unknowns: an order of magnitude is all that is needed


@dataclass(frozen=True)
class Stage:
    """The functions of one solve."""

    n: int
    begin: ca.Function
    renew: ca.Function
    update: ca.Function
    accept: ca.Function
    weigh: ca.Function
    guess: ca.Function
    seen: list[int] | None  # the unknowns that are measured; None for the residual
    linear: bool  # whether one update is all that is needed
    solve: Solve
    known: list[SX]

    @cached_property
    def residual(self) -> ca.Function:
        """(x, everything) -> residual, Jacobian; for the pivoted solver."""
        x, residual = self.solve.unknowns, ca.densify(self.solve.residual)
        return ca.Function("residual", [x, *self.known], [residual, ca.jacobian(residual, x)])

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
        factors = Factors()
        fast = _hoisted(step, self.common, factors)
        chosen = orders or (None,) * len(step.solves)
        drafts = [_Draft(self.common, *row, factors) for row in zip(step.solves, fast.solves, chosen, strict=True)]
        self.prelude, self.hot = factors.prelude(step.h, step.par), [*self.common, factors.all]
        self.stages: list[Stage] = []
        self._looked = False
        known: list[SX] = []
        for k, draft in enumerate(drafts):
            self.stages.append(self._stage(k, draft, known))
            known.append(draft.solve.unknowns)
        self.unknowns = known
        sizes = [stage.n for stage in self.stages]
        self.n_unknowns = sum(sizes)
        self.cuts = np.cumsum(sizes)[:-1].tolist()  # where a vector of all unknowns falls into solves
        work = ca.vertcat(fast.work["supplied"], fast.work["dissipated"])
        self.working = ca.sparsify(SX(work)).nnz() > 0
        after = ca.vertcat(*fast.next.values())
        # what is finite vanishes beside the sum of squares at which a state counts as infinite
        other = ca.sum1(fast.lam) + ca.sum1(work)
        with as_written():
            outputs = [after, fast.lam, work, _squares(after) + ca.fabs(other) * (1 / HUGE)]
            self.finish = ca.Function("finish", [*self.hot, *known], [ca.densify(x) for x in outputs])

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

    def _stage(self, k: int, draft: _Draft, known: list[SX]) -> Stage:
        inputs, hot = [*self.common, *known], [*self.hot, *known]
        solve, x, at, scale, seen = draft.solve, draft.x, draft.at, draft.scale, draft.seen
        with as_written():
            outputs, symbols, constants = _split(draft.changed, [x, scale] if seen is None else [x])
            first = ca.Function("first", [x, at, scale, *hot], [*draft.changed, constants])
            guess = ca.Function(f"guess{k}", [*hot, solve.last, solve.before], [ca.densify(draft.guess)])
            renew = ca.Function(f"renew{k}", [*hot, x, scale], _shared(first.call([x, x, scale, *hot])))
            start = guess(*hot, solve.last, solve.before)
            if draft.start:  # the Jacobian is the same everywhere; weights are those of the first iterate
                begin = _shared([*draft.start, first.call([x, draft.start[0], scale, *hot])[2]])
            else:
                begin = _shared(first.call([start, start, scale, *hot]))
        missed = None if self._looked else self._missed([*inputs, x])  # by the first solve that leads to the next positions
        self._looked = self._looked or missed is not None
        weight = 1 / (solve.scale + TINY) if seen is None else solve.scale
        return Stage(
            n=x.numel(),
            begin=ca.Function(f"begin{k}", [*hot, solve.last, solve.before, scale], begin),
            renew=renew,
            update=ca.Function(f"update{k}", [x, scale, symbols], outputs),
            accept=_acceptance(k, solve, inputs, scale, seen, missed),
            weigh=ca.Function(f"weigh{k}", inputs, [ca.densify(weight)]),
            guess=guess,
            seen=seen,
            linear=bool(draft.start),
            solve=solve,
            known=inputs,
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
        out = [f for stage in self.stages for f in (stage.begin, stage.renew, stage.update, stage.accept, stage.weigh)]
        return [self.prelude, *out, self.finish]

    @cached_property
    def operations(self) -> int:
        """Operations of one step with three updates a solve: what a step costs."""
        total = int(self.finish.n_instructions())
        for stage in self.stages:
            total += int(stage.begin.n_instructions()) + 2 * int(stage.update.n_instructions())
        return total

    def suited(self, matrices: Sequence[ca.DM | None]) -> tuple[Order, ...]:
        """Pivots of all solves for given numerical Jacobians."""
        return tuple(elimination.numeric_order(m) for m in matrices if m is not None)


def _hoisted(step: Step, common: list[SX], factors: Factors) -> Step:
    """The step with its fixed factors taken together and out; a large one is left as it is, since nothing compiles it."""
    solves = step.solves
    inputs = [*common, *(y for s in solves for y in (s.unknowns, s.last, s.before))]
    groups = [[e for s in solves for e in (s.residual, s.guess)], list(step.next.values()), [step.lam], list(step.work.values())]
    with as_written():
        outputs = _shared([ca.densify(SX(e)) for group in groups for e in group])
        function = ca.Function("step", inputs, outputs)
        if function.n_instructions() > LONG:
            return step
        new = iter(factors.collected(function, inputs, (2, 4)))  # h and parameters
        changed = tuple(replace(s, residual=next(new), guess=next(new)) for s in solves)
        fast = replace(
            step,
            solves=changed,
            next={name: next(new) for name in step.next},
            lam=next(new),
            work={k: next(new) for k in step.work},
        )
        return fast


class _Draft:
    """The iteration of one solve as expressions: what an iterate `x` changes to with the Jacobian taken `at` another."""

    def __init__(self, common: list[SX], solve: Solve, fast: Solve, order: Order | None, factors: Factors) -> None:
        self.solve, self.x, n = solve, solve.unknowns, solve.unknowns.numel()
        self.at, self.scale, self.seen = SX.sym("at", n), SX.sym("scale", solve.scale.numel()), _measured(solve)
        J = ca.jacobian(fast.residual, self.x)
        order = order or elimination.structural_order(J.sparsity(), solve.levels)
        linear = not ca.depends_on(J, self.x)
        zero = ca.substitute(fast.residual, self.x, SX.zeros(n)) if linear else fast.residual
        own = {v.element_hash() for v in ca.symvar(ca.veccat(self.x, *common, factors.all))}
        others = [v for v in ca.symvar(ca.veccat(J, fast.residual)) if v.element_hash() not in own]
        self.guess = SX.zeros(n) if linear else fast.guess
        with as_written():
            frozen = ca.substitute(J, self.x, self.at)
            self.changed = self._change(frozen, fast.residual, order, self.x)
            self.start = self._change(J, zero, order, SX.zeros(n)) if linear else []
            inputs = [*common, factors.all, ca.veccat(*others), self.x, self.at, self.scale]
            function = ca.Function("change", inputs, [*self.changed, *self.start])
            if function.n_instructions() < LONG:
                new = factors.collected(function, inputs, (2, 4))
                self.changed, self.start = _shared(new[:2]), new[2:]

    def _change(self, J: SX, residual: SX, order: Order, x: SX) -> list[SX]:
        """The next iterate, and the square of the size of the change."""
        change = elimination.solve(J, residual, order)
        if self.seen is None:
            return [x - change, _squares(self.scale * residual)]
        weight = 1 / (ca.fabs(x if x.is_zero() else self.at)[self.seen] + self.scale + TINY)
        return [x - change, _squares(weight * change[self.seen])]


def _squares(x: SX) -> SX:
    """The sum of squares, in pairs: the sums do not wait for each other."""
    terms = [v * v for v in ca.vertsplit(x)]
    while len(terms) > 1:
        terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)] + terms[len(terms) // 2 * 2 :]
    return terms[0] if terms else SX(0.0)


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
    ratio = ratio if missed is None else ca.vertcat(ratio, missed)
    return ca.Function(f"accept{k}", [*inputs, x, scale], _shared([ca.sumsqr(ratio)]))


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
