"""Large steps: Newton's iteration with sparse factors in numbers, which are kept while they serve.

A factor is taken at one iterate and serves all later ones, those of later steps too, until an iteration converges slowly. It is
dropped wherever the model is looked at, so that a run gives the same numbers whether or not it was interrupted in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
import qdldl
from numpy.typing import NDArray
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu

from dalembert.engine import compiler
from dalembert.engine.chains import Chain
from dalembert.engine.fused import Fused, exact
from dalembert.engine.large import LargeProgram, LargeStage
from dalembert.engine.looks import HUGE, ROUNDING
from dalembert.engine.machine import Call, Memory, Outcome, Place, Records, Task, VirtualMachine
from dalembert.engine.newton import EPS, TINY, Array, Parts
from dalembert.engine.patterns import Pattern
from dalembert.errors import CompilerError

SYMMETRIC = 0.25  # of a matrix: the skew part up to which the symmetric part is tried in its place
NOISE = 1e-26  # the square of a size at which rounding may be all that is left
CHEAP = 8  # operations of a factorisation for each entry of the matrix, up to which it is taken anew in each step
EXACT = (16 * EPS) ** 2  # the square of a size that is rounding
FLOOR = 1e-11  # the size of a change below which one that does not shrink is round-off
SAVED = 1e-9  # seconds for each entry of each array, where loops are compiled
PRICE = 0.3  # seconds of a compiler
MOST = 1000  # operations on arrays, beyond which a compiler takes longer than it can save
REFRESH = 0.2  # how much an iteration must gain with factors that are dear


class Factor:
    """A matrix of a fixed pattern, factorised: `L D L^T` of its symmetric part where that is definite, else `L U`."""

    def __init__(self, pattern: Pattern, matrix: csc_matrix) -> None:
        self.n, self.matrix = pattern.shape[0], matrix
        self.solve: Callable[[Array], Array] | None = None
        self.fresh = False  # whether it was taken in the solve that is under way
        self.new = False  # and just now
        self.single = False  # whether one change with new factors is known to be enough
        self.rate = [0.0]  # the square of the slowest convergence that was seen with it
        self._ldl: qdldl.Solver | None = None
        rows, columns = pattern.rows, pattern.columns
        # where the entries of the transpose are: sorted by rows, they come in the order of its columns
        turned = np.lexsort((columns, rows))
        same = np.array_equal(rows[turned], columns) and np.array_equal(columns[turned], rows)
        self._symmetric = bool(same and np.count_nonzero(rows == columns) == self.n)
        self._try, self.cheap = self._symmetric, False
        self._upper: NDArray[np.int64] = np.flatnonzero(rows <= columns)
        self._lower: NDArray[np.int64] = turned[self._upper]
        self._half = Pattern(rows[self._upper], columns[self._upper], pattern.shape).matrix()

    def drop(self) -> None:
        """Forget what was factorised, and what was found of it."""
        self.solve, self._try, self.cheap, self.single = None, self._symmetric, False, False

    def learn(self, before: float, after: float) -> None:
        """Keep how slowly an iteration converges: a lucky change in a later step is no sign that it is done."""
        if NOISE < after < before:
            self.rate[0] = max(self.rate[0], after / before)

    def take(self, careful: bool = False) -> None:
        """Factorise the matrix as it stands; a `careful` look takes it as it is, with partial pivoting."""
        self.rate[0] = 0.0
        self._try, self.fresh = self._try and not self.fresh, True  # the symmetric part did not serve in this very solve
        if self._try and not careful and self._definite():
            assert self._ldl is not None
            self.solve = self._ldl.solve
            return
        self._try = self.cheap = False
        try:
            self.solve = splu(self.matrix).solve
        except (RuntimeError, ValueError):  # singular, or not finite
            self.solve = self._nothing

    def _definite(self) -> bool:
        """Factorise the symmetric part; False where that is no good."""
        data, first = self.matrix.data, self.solve is None
        own, other = data[self._upper], data[self._lower]
        if first:
            skew, size = np.abs(own - other).sum(), np.abs(own).sum()
            if not np.isfinite(size) or skew > SYMMETRIC * size:
                return False
        np.add(own, other, out=own)
        np.multiply(own, 0.5, out=self._half.data)
        try:
            if self._ldl is None:
                self._ldl = qdldl.Solver(self._half, upper=True)
            else:
                self._ldl.update(self._half, upper=True)
            if first:  # one look at the signs of all pivots, for as long as the matrix is of one kind
                L, D, _ = self._ldl.factors()
                self.cheap = bool(np.square(np.diff(L.indptr)).sum() < CHEAP * len(data))
                return bool((D > 0).all() or (D < 0).all())
        except (RuntimeError, ValueError):
            self._ldl = None
            return False
        return True

    def _nothing(self, right: Array) -> Array:
        return np.full(self.n, np.nan)


class Sparse(VirtualMachine):
    """Large steps, driven from Python: functions in CasADi's virtual machine, factors by qdldl and SuperLU."""

    name = "sparse"

    careful = False

    def __init__(self, program: LargeProgram) -> None:
        self.large, self._factors = program, list[Factor]()
        self._chains: list[Chain] = []
        super().__init__(program)

    @cached_property
    def _fused(self) -> Fused:
        return Fused(self._chains)

    def compile(self, wanted: bool | str, steps: int) -> None:
        """Do the work of chains in C where that is `wanted`, or pays, by count of operations and not by the clock."""
        with self._lock:
            compiled = self._compiled(wanted, steps)
            self.name = "sparse, compiled" if compiled else "sparse"
            for k, chain in enumerate(self._chains):
                chain.calls = self._fused.calls[k] if compiled else chain.plain

    def _compiled(self, wanted: bool | str, steps: int) -> bool:
        if wanted is False or (wanted == "auto" and compiler.find() is None):
            return False
        every = [len(chain.nodes.arrays[w.out]) for chain in self._chains for work in chain.work for w in work]
        if wanted == "auto" and len(every) > MOST:
            return False
        # what is not the same to the last bit must not depend on the length of a run
        if wanted == "auto" and exact(self._chains) and steps * sum(every) * SAVED < PRICE:
            return False
        try:
            return bool(self._fused.calls)
        except CompilerError:
            if wanted != "auto":
                raise
            return False

    def _finish(self, unknowns: list[Array]) -> Call:
        function = self.large.last
        if function is None:
            return super()._finish(unknowns)
        chain = self._chains[-1]
        end = self._bind(function, [*unknowns, *chain.cuts], [self.next, self.lam, self.work, self.check])

        def finish() -> None:
            chain.refresh()
            end()

        return finish

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task, up to one that fails."""
        if self.careful:
            with np.errstate(all="ignore"):
                return super().run(memory, out, task)
        # a slow change with old factors is no sign of round-off
        rule = replace(task.rule, refresh=max(task.rule.refresh, REFRESH), floor=min(task.rule.floor, FLOOR))
        with np.errstate(all="ignore"):  # what is not finite is found where it matters
            return super().run(memory, out, replace(task, rule=rule))

    def _load(self, memory: Memory, h: float, inputs: Array) -> None:
        for factor in self._factors:
            factor.drop()
        super()._load(memory, h, inputs)
        with np.errstate(all="ignore"):
            for chain in self._chains:
                chain.load()

    def _solve(self, k: int, at: Place, single: memoryview[float]) -> tuple[Call, Parts]:
        stage = self.large.large_stages[k]
        chain = Chain(stage, at.x, at.known, self._bind, self._chains)
        factor, own, x, r = Factor(chain.pattern, chain.matrix), _Own(stage), at.x, chain.residual
        self._factors.append(factor)
        self._chains.append(chain)
        guess = self._bind(stage.guess, [*at.hot, *at.history], [x])
        sized = self._bind(stage.weigh, at.known, [at.scale])
        last = k == len(self.program.step.solves) - 1

        def change() -> None:
            assert factor.solve is not None
            step = factor.solve(r)
            np.subtract(x, step, out=x)
            at.size[0] = own.size(x, step, r, at.scale)

        def renew() -> None:
            if factor.new and not self.careful:  # the change before was made with older factors: it tells nothing of these
                update()
                return
            chain.both()
            factor.take(self.careful)
            change()
            factor.new = True

        def update() -> None:
            before, first, factor.new = at.size[0], factor.new, False
            if first and factor.single and not self.seen[0]:  # one change with its own factors solves a linear equation
                at.size[0] = 0.0
                return
            chain.values()
            change()
            factor.learn(before, at.size[0])
            if first and chain.linear:
                factor.single = bool(at.size[0] <= EXACT)

        def begin() -> None:
            factor.fresh = factor.new = False
            guess()
            chain.start()
            if factor.solve is None or factor.cheap:
                renew()
            else:
                chain.values()
                change()

        def accept() -> None:
            chain.both()
            at.size[0] = own.ratio(x, r, abs(chain.matrix), at.scale) + (self._missed() if last else 0.0)

        def weigh() -> None:
            sized()
            factor.drop()

        # never taken for linear: the factors may be those of an earlier step
        parts = self._parts(at, single, False, (begin, renew, renew if self.careful else update), accept)
        factor.rate = parts.rate
        return weigh, parts

    def _missed(self) -> float:
        """What the next state misses of what the step keeps, relative to its sizes: the sum of squares."""
        total = 0.0
        self.finish()
        for function in self.program.step.kept:
            n = function.numel_in(0)
            found = function(self.next[:n], self.t + self.h, self.par, self.state[:n], self.h)
            rows, size = (np.array(x, dtype=np.float64).ravel() for x in found)
            with np.errstate(all="ignore"):
                total += float(np.square(rows / (size + TINY)).sum())
        return total


class Careful(Sparse):
    """The careful way for single steps: a new Jacobian each time, factorised with partial pivoting."""

    name = "pivoted"
    careful = True


class _Own:
    """The sizes of changes and of residuals of one solve."""

    def __init__(self, stage: LargeStage) -> None:
        self.seen = None if stage.seen is None or len(stage.seen) == stage.n else np.array(stage.seen)
        self.residual = stage.seen is None

    def size(self, x: Array, change: Array, residual: Array, scale: Array) -> float:
        """The square of the size of a change, as in `Draft`, but the mean of all: the rounding of many would add up."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.residual:
                relative = residual * scale
            else:
                own, by = (x, change) if self.seen is None else (x[self.seen], change[self.seen])
                relative = by / (np.abs(own) + scale + TINY)
            return float(np.square(relative).sum() / len(relative) + 0.0 * change.sum())

    def ratio(self, x: Array, residual: Array, J: csc_matrix, scale: Array) -> float:
        """The square of the residual relative to the size of its terms, as in `looks`."""
        with np.errstate(all="ignore"):
            own, rows = np.abs(x), np.zeros(1)
            if self.residual:
                rows = 1 / scale
            elif self.seen is None:
                own = own + scale
            else:
                own[self.seen] += scale
            terms = J @ own + (1 + ROUNDING) * rows + TINY
            ratio = np.where(terms < HUGE, residual / terms, HUGE)
            return float(np.square(ratio).sum())
