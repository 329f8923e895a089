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
from functools import cached_property

import casadi as ca
import numpy as np

from dalembert.engine import elimination
from dalembert.engine.drafts import Draft, hoisted, squares
from dalembert.engine.elimination import Order
from dalembert.engine.factors import Factors
from dalembert.engine.looks import HUGE, Look, looks
from dalembert.engine.newton import Array
from dalembert.engine.stage import Stage
from dalembert.methods.step import Solve, Step
from dalembert.systems.batch import Pointwise, batch
from dalembert.systems.instructions import as_written

SX = ca.SX
LARGE = 8_000  # operations of the equations of a step, beyond which they are not eliminated by expressions
PRODUCTS = 80_000  # of an elimination: more are too many for a C compiler, and are left to numbers as well
MANY = 100  # unknowns: fewer are always eliminated by expressions
WORK = ("supplied", "dissipated")
WEIGH_EVERY = 128  # steps between two looks at the size of the unknowns: an order of magnitude is all that is needed


class Program:
    """The functions of a step, made when first needed, their sizes, and where things lie in the state."""

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
        self.unknowns = [solve.unknowns for solve in step.solves]
        sizes = [x.numel() for x in self.unknowns]
        self.n_unknowns = sum(sizes)
        self.n_kept = sum(int(solve.scale.numel()) + 1 for solve in step.solves) + 2  # see Memory
        self.cuts = np.cumsum(sizes)[:-1].tolist()  # where a vector of all unknowns falls into solves
        self.working = not all(ca.densify(x).is_zero() for x in step.work.values())

    @cached_property
    def looks(self) -> list[Look]:
        """What is looked at now and then, solve by solve."""
        return looks(self.step, self.common)

    @cached_property
    def _fast(self) -> tuple[Step, list[Draft], Factors]:
        factors, step = Factors(), self.step
        fast = hoisted(step, self.common, factors)
        chosen = self.orders or (None,) * len(step.solves)
        drafts = [Draft(self.common, *row, factors) for row in zip(step.solves, fast.solves, chosen, strict=True)]
        return fast, drafts, factors

    @cached_property
    def prelude(self) -> ca.Function:
        return self._fast[2].prelude(self.step.h, self.step.par)

    @cached_property
    def hot(self) -> list[SX]:
        return [*self.common, self._fast[2].all]

    @cached_property
    def stages(self) -> list[Stage]:
        """The iterations of all solves."""
        rows = zip(self.looks, self._fast[1], strict=True)
        return [Stage(k, *row, self.common, self.hot, self.unknowns[:k]) for k, row in enumerate(rows)]

    @cached_property
    def finish(self) -> ca.Function:
        fast = self._fast[0]
        return self._finish(ca.vertcat(*fast.next.values()), fast.lam, ca.vertcat(*(fast.work[k] for k in WORK)))

    def _finish(self, after: SX, lam: SX, work: SX, *more: SX) -> ca.Function:
        """The end of a step as a function of all unknowns, and of `more`."""
        # what is finite vanishes beside the sum of squares at which a state counts as infinite
        other = ca.sum1(lam) + ca.sum1(work)
        with as_written():
            outputs = [after, lam, work, self._squares(after) + ca.fabs(other) * (1 / HUGE)]
            free = {"allow_free": bool(more)}
            return ca.Function("finish", [*self.hot, *self.unknowns, *more], [ca.densify(x) for x in outputs], free)

    def _squares(self, x: SX) -> SX:
        return squares(x)

    def first_memory(self, state: Array, t: float, h: float, u: Array, par: Array, known: Array | None = None) -> Array:
        """What stands for the solutions of earlier steps in the first one: rates and multipliers as known, else zero."""
        known = np.zeros(self._n_known) if known is None else known[len(known) - self._n_known :]
        return self._first_once(state, (t, h), u, par, known)[0]

    def first_memories(self, states: Array, t: float, h: float, pars: Array) -> Array:
        """The same for many states, of which nothing is known; one row each."""
        count = len(states)
        if not self._begins_with_state:
            return np.tile(self.first_memory(states[0], t, h, np.zeros(self.n_u), pars[0]), (count, 1))
        times, rest = np.tile((t, h), (count, 1)), np.zeros((count, self.n_u))
        points = np.hstack([states, times, rest, pars, np.zeros((count, self.step.known.numel()))])
        return batch(self._first, [points], count)[0]

    @cached_property
    def _begins_with_state(self) -> bool:
        """Whether what stands for earlier steps depends on the state, on time or on parameters."""
        starts = [solve.start for solve in self.step.solves if solve.start is not None]
        return bool(starts) and bool(ca.depends_on(ca.vertcat(*starts), ca.vertcat(*self.common)))

    @cached_property
    def _n_known(self) -> int:
        return int(self.step.known.numel())

    @cached_property
    def _first_once(self) -> Pointwise:
        return Pointwise(self._first)

    @cached_property
    def _first(self) -> ca.Function:
        starts = [type(s.unknowns)(s.unknowns.numel(), 1) if s.start is None else s.start for s in self.step.solves]
        known = ca.veccat(*self.common, self.step.known)
        return ca.Function("first", [known], [ca.densify(ca.vertcat(*starts)) if starts else type(known)(0, 1)])

    def functions(self) -> list[ca.Function]:
        """All functions in the order in which a step calls them."""
        out = [f for s in self.stages for f in (s.begin, s.renew, s.update, s.look.accept, s.look.weigh)]
        return [self.prelude, *out, self.finish]

    @cached_property
    def size(self) -> int:
        """Operations of the equations of a step, before anything is eliminated."""
        return int(ca.n_nodes(ca.veccat(*(solve.residual for solve in self.step.solves)))) if self.step.solves else 0

    @cached_property
    def large(self) -> bool:
        """Whether the step is left as it is, and factorised in numbers."""
        if isinstance(self.step.t, ca.MX) or self.n_unknowns > LARGE:
            return True
        return self.n_unknowns > MANY and (self.size > LARGE or any(map(self._fills, self.step.solves)))

    @staticmethod
    def _fills(solve: Solve) -> bool:
        """Whether eliminating the unknowns by expressions takes too many of them."""
        return elimination.exceeds(PRODUCTS, ca.jacobian_sparsity(solve.residual, solve.unknowns), solve.levels)

    @cached_property
    def operations(self) -> int:
        """Operations of one step with three updates a solve: what a step costs."""
        return int(self.finish.n_instructions()) + sum(stage.operations[0] for stage in self.stages)

    @cached_property
    def written(self) -> int:
        """How many of them a compiler is given; the others are done in loops."""
        return int(self.finish.n_instructions()) + sum(stage.operations[1] for stage in self.stages)

    def suited(self, matrices: Sequence[ca.DM | None]) -> tuple[Order, ...]:
        """Pivots of all solves for given numerical Jacobians."""
        return tuple(elimination.numeric_order(m) for m in matrices if m is not None)
