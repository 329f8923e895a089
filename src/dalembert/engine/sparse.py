"""Large steps: Newton's iteration with sparse factors in numbers, which are kept while they serve.

A factor is taken at one iterate and serves all later ones, those of later steps too, until an iteration converges slowly. It is
dropped wherever the model is looked at, so that a run gives the same numbers whether or not it was interrupted in between.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import casadi as ca
import numpy as np
from scipy.sparse import csc_matrix

from dalembert.engine import compiler
from dalembert.engine.chains import Chain, Single
from dalembert.engine.factored import EXACT, NEAR, NOISE, PACE, PART, STUCK, Factor, Sizes
from dalembert.engine.fused import exact
from dalembert.engine.large import LargeProgram
from dalembert.engine.machine import Call, Memory, Outcome, Place, Records, Task, VirtualMachine
from dalembert.engine.newton import DAMPED, TINY, UNSEEN, Array, Parts, shortened
from dalembert.engine.rounding import rounding_at
from dalembert.engine.stepping import Stepping
from dalembert.engine.work import Scratch
from dalembert.errors import CompilerError

FLOOR = 1e-11  # the size of a change below which one that does not shrink is round-off: with old factors that may be slowness
LEAST = 1e-13  # the same where the rounding of the residual is known
SAVED = 1e-9  # seconds for each entry of each array, where loops are compiled
PRICE = 0.3  # seconds of a compiler
MOST = 1000  # operations on arrays, beyond which a compiler takes longer than it can save
REFRESH = 0.2  # how much an iteration must gain with factors that are dear


class Sparse(VirtualMachine):
    """Large steps: work on whole arrays, factors by qdldl and SuperLU; or all of it in C, where it is compiled."""

    name = "sparse"

    careful = False
    damped, budget = False, 0  # whether the careful way may shorten its changes, and how many of this solve

    def __init__(self, program: LargeProgram) -> None:
        self.large = program
        self.iterations: list[Iteration] = []
        self._stepping: Stepping | None = None
        self._scratch = Scratch()  # of what is looked at now and then
        super().__init__(program)
        self._ahead = np.zeros(1)  # the end of a step
        self._kept = [self._looked_at(function) for function in program.step.kept]

    @cached_property
    def compiled(self) -> Stepping:
        """The loop in C."""
        return Stepping(self)

    def compile(self, wanted: bool | str, steps: int) -> None:
        """Do all work in C where that is `wanted`, or pays, by count of operations and not by the clock."""
        with self._lock:
            self._stepping = self._compiled(wanted, steps)
            self.name = "sparse" if self._stepping is None else "sparse, compiled"
            for k, piece in enumerate(self.pieces):
                piece.calls = piece.plain if self._stepping is None else self._stepping.calls[k]

    @property
    def pieces(self) -> list[Chain | Single]:
        """All work: that of solves, their guesses, the end of a step, and what is looked at now and then."""
        looks = [*(i.sized for i in self.iterations), *(single for single, _, _ in self._kept)]
        return [*self.chains, *(i.guess for i in self.iterations), self.end, *looks]

    @property
    def chains(self) -> list[Chain]:
        return [i.chain for i in self.iterations]

    def _compiled(self, wanted: bool | str, steps: int) -> Stepping | None:
        if wanted is False or (wanted == "auto" and compiler.find() is None):
            return None
        often = [piece for piece in self.pieces if not piece.rare]
        every = [len(piece.nodes.arrays[w.out]) for piece in often for work in piece.work for w in work]
        if wanted == "auto" and len(every) > MOST:
            return None
        # what is not the same to the last bit must not depend on the length of a run
        if wanted == "auto" and exact(self.pieces) and steps * sum(every) * SAVED < PRICE:
            return None
        try:
            return self.compiled
        except CompilerError:
            if wanted != "auto":
                raise
            return None

    def _finish(self, unknowns: list[Array]) -> Call:
        function, out = self.large.last, [self.next, self.lam, self.work, self.check]
        if function is None:
            self.end = Single(self.program.finish, unknowns, out, self._bind)
        else:
            chain = self.chains[-1]
            self.end = Single(function, [*unknowns, *chain.cuts], out, self._bind, chain)
        return self.end.call

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task, up to one that fails."""
        if self.careful:
            self.damped = task.rule.damped
            with np.errstate(all="ignore"):
                return super().run(memory, out, task)
        task = replace(task, rule=replace(task.rule, refresh=max(task.rule.refresh, REFRESH)))
        with np.errstate(all="ignore"):  # what is not finite is found where it matters
            if self._stepping is None or task.feed is not None:
                return super().run(memory, out, task)
            with self._lock:
                self._load(memory, task.h, task.inputs)
                outcome = self._stepping.run(out, task)
                self._leave(memory)
                return outcome

    def _load(self, memory: Memory, h: float, inputs: Array) -> None:
        for iteration in self.iterations:
            iteration.drop()
        super()._load(memory, h, inputs)
        with np.errstate(all="ignore"):
            for piece in self.pieces:
                piece.load()

    def _solve(self, k: int, at: Place, single: memoryview[float]) -> tuple[Call, Parts]:
        own = Iteration(self, k, at)
        self.iterations.append(own)
        # never taken for linear: the factors may be those of an earlier step
        changes = own.begin, own.renew, own.renew if self.careful else own.update
        parts = replace(self._parts(at, single, False, changes, own.accept), floor=own.floor)
        own.factor.rate = parts.rate
        return own.weigh, parts

    def bound(self, k: int, at: Place) -> tuple[Chain, Single, Single]:
        """The work of a solve, its first guess, and its sizes."""
        stage = self.large.large_stages[k]
        chain = Chain(stage, at.x, at.known, self._bind, self.chains)
        guess = Single(stage.guess, [*at.hot, *at.history], [at.x], self._bind)
        return chain, guess, Single(stage.weigh, at.known, [at.scale], self._bind, scratch=self._scratch)

    def missed(self) -> float:
        """What the next state misses of what the step keeps, relative to its sizes: the sum of squares."""
        total, self._ahead[0] = 0.0, self.t[0] + self.h[0]
        self.finish()
        for (single, rows, size), function in zip(self._kept, self.large.step.kept, strict=True):
            single.call()
            if ((size == 0.0) & (rows != 0.0)).any():  # straight in passing: only rounding says how small is small
                n = function.numel_in(0)
                size = size + rounding_at(function, [self.next[:n], self._ahead, self.par, self.state[:n], self.h])
            with np.errstate(all="ignore"):
                total += float(np.square(rows / (size + TINY)).sum())
        return total

    def _looked_at(self, function: ca.Function) -> tuple[Single, Array, Array]:
        """What a step keeps at its end, with its rows and their sizes."""
        n, rows, size = function.numel_in(0), *(np.zeros(function.nnz_out(i)) for i in range(2))
        inputs = [self.next[:n], self._ahead, self.par, self.state[:n], self.h]
        return Single(function, inputs, [rows, size], self._bind, scratch=self._scratch), rows, size


class Iteration:
    """The changes of one solve."""

    def __init__(self, machine: Sparse, k: int, at: Place) -> None:
        self.machine, self.at = machine, at
        self.chain, self.guess, self.sized = machine.bound(k, at)
        self.factor = Factor(self.chain.pattern, self.chain.matrix)
        self.sizes = Sizes(machine.large.large_stages[k])
        self.base = np.inf if machine.careful else LEAST**2 if self.sizes.residual else FLOOR**2
        self.floor = [self.base]  # the square of the size below which changes that do not shrink are round-off
        self._last = k == len(machine.program.step.solves) - 1
        self.kin: Iteration | None = None  # a later solve, whose matrix has the same pattern
        self.times = np.zeros(1)  # that many inverses of it stand for that of the own matrix; zero where none does
        for other in machine.iterations:
            if self.factor.symmetric and other.chain.pattern.same(self.chain.pattern):
                other.kin = self

    @property
    def lender(self) -> Iteration | None:
        """The solve whose factors serve this one: those of the step before."""
        return self.kin if self.kin is not None and self.times[0] and self.kin.factor.definite else None

    def lend(self) -> None:
        """Offer the factors to earlier solves whose matrix in the next step is a multiple of this one, but for the motion.

        Velocities have `G(q0) M^-1 G(q0)^T` at the end of a step, positions `G(q1) M^-1 G(q0)^T` in the next. The first serves
        the second better than its symmetric part, whose changes come in pairs, and is there already.
        """
        own = self.chain.matrix.data
        for other in self.machine.iterations:
            if other.kin is self:
                theirs = other.chain.matrix.data
                times = (own * theirs).sum() / np.square(own).sum()
                near = np.abs(theirs - times * own).sum() <= NEAR * np.abs(theirs).sum()
                other.times[0] = 1 / times if near else 0.0

    def _change(self) -> None:
        x, r, lender = self.at.x, self.chain.residual, self.lender
        own = (lender or self).factor
        assert own.solve is not None
        step = own.solve(r)
        if lender is not None:
            step *= self.times
        np.subtract(x, step, out=x)
        self.factor.look(r)
        self.at.size[0] = self.sizes.size(x, step, r, self.at.scale)

    def renew(self) -> None:
        """A change with new factors, where those that are there do not serve.

        Where these are new, the change before was made with older ones and tells nothing. Where the iteration as a whole
        converges as it should, one slow change is none to worry about: changes of a skew matrix come in pairs.
        """
        if (self.factor.new or self.at.size[0] <= self.factor.goal) and not self.machine.careful:
            self.update()
        else:
            self._anew()

    def _anew(self) -> None:
        first, self.times[0] = self.factor.solve is None, 0.0
        self.chain.both()
        if first:
            self.round()
        self.factor.take(self.machine.careful)
        if first and self.factor.definite and self.factor.cheap:
            self.lend()
        while self.machine.budget and self._shorten():
            self.chain.both()
            self.factor.take(True)
        self._change()
        self.factor.new, self.factor.goal = True, 0.0

    def _shorten(self) -> bool:
        """Make a part of a change, where the whole one would not help; otherwise none."""
        assert self.factor.solve is not None
        x, r, solve, scale, sizes = self.at.x, self.chain.residual, self.factor.solve, self.at.scale, self.sizes
        begin, step = x.copy(), solve(r)

        def ahead(part: float) -> float:
            np.subtract(begin, part * step, out=x)
            self.chain.values()
            return sizes.size(x, solve(r), r, scale)

        part = shortened(ahead, sizes.size(x, step, r, scale))
        self.machine.budget -= 1
        if part < 1.0:
            np.subtract(begin, part * step, out=x)
            return True
        x[:] = begin
        self.chain.values()
        return False

    def update(self) -> None:
        """A change with the factors that are there."""
        factor, size = self.factor, self.at.size
        before, previous, first, factor.new = size[0], factor.left, factor.new, False
        factor.goal *= PACE
        if first and factor.single and not self.machine.seen[0]:  # one change with its own factors solves a linear equation
            size[0] = 0.0
            return
        self.chain.values()
        self._change()
        factor.learn(before, size[0], previous)
        if first and self.chain.linear:
            factor.single = bool(size[0] <= EXACT or factor.left < factor.rounding[0])
        if factor.fresh and not factor.definite and STUCK * before < size[0] <= NOISE:
            self.floor[0] = max(self.floor[0], 4 * float(size[0]))  # no slowness: the factors are its own
        if factor.settled(before, size[0]):
            size[0] = 0.0

    def begin(self) -> None:
        """The first guess, changed once."""
        self.machine.budget = DAMPED if self.machine.damped else 0
        factor = self.factor
        factor.fresh = factor.new = False
        self.guess.call()
        self.chain.start()
        lent = self.lender is not None and not self.machine.careful
        if not lent and (factor.solve is None or factor.cheap or self.machine.careful):
            self._anew()
            if self.machine.careful and self.at.size[0] <= UNSEEN:
                self._anew()
        else:
            if lent:
                factor.rate[0] = 0.0  # they are new
            self.chain.values()
            self._change()
        factor.goal = self.at.size[0]

    def round(self) -> None:
        """How large the rounding of the residual is, where that is what is measured."""
        self.factor.rounding[0] = PART * self.chain.terms().max() if self.sizes.residual else 0.0

    def accept(self) -> None:
        """The residual relative to its terms."""
        at, chain = self.at, self.chain
        chain.both()
        missed = self.machine.missed() if self._last else 0.0
        np.abs(chain.matrix.data, out=self._sizes.data)
        at.size[0] = self.sizes.ratio(at.x, chain.residual, self._sizes, at.scale) + missed

    @cached_property
    def _sizes(self) -> csc_matrix:
        """The sizes of the entries of the matrix, to be filled in."""
        return self.chain.pattern.matrix()

    def weigh(self) -> None:
        """The sizes of what is measured; old factors are dropped."""
        self.sized.call()
        self.drop()

    def drop(self) -> None:
        """Forget all factors, whose they are, and what was found with them."""
        self.factor.drop()
        self.times[0], self.floor[0] = 0.0, self.base


class Careful(Sparse):
    """The careful way for single steps: a new Jacobian each time, factorised with partial pivoting."""

    name = "pivoted"
    careful = True
