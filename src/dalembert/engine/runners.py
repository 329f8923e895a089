"""The ways to run a program, chosen by what they cost, and what the loop asks of any of them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dalembert.engine import compiler, sweeps
from dalembert.engine.inputs import Inputs
from dalembert.engine.machine import NONE, Memory, Pivoted, VirtualMachine
from dalembert.engine.native import Native
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.engine.run import Array, Layout, Pivots
from dalembert.engine.runner import Runner
from dalembert.engine.swept import Swept
from dalembert.engine.walking import EQUAL, Pace
from dalembert.errors import CompilerError, ModelError
from dalembert.systems.cache import Cache

if TYPE_CHECKING:
    from dalembert.engine.large import LargeProgram
    from dalembert.engine.sparse import Careful, Sparse

LARGEST_COMPILED = 120_000  # operations of a step that a C compiler is given unasked: it takes some twelve seconds
OTHERS = 4  # engines with other pivots that are kept
Settle = Callable[[Array, Array, float, Array], None]  # (state, parameters, t, u): it changes the state


class Ways(Protocol):
    """Where the loop gets its runners from: an `Engine`, or the integrators of the reduced equations."""

    chunk: tuple[int, int]  # steps of a call at first, and at most
    stepwise: bool  # whether a step sees the inputs at its nodes only
    settle: Settle | None  # finds anew, after a jump of the inputs, what of a state follows from them

    @property
    def program(self) -> Layout: ...

    def start(self, state: Array, par: Array, t: float, h: float, known: Array | None = None) -> Memory:
        """The memory of a run that begins there; `known` are rates and multipliers to guess from."""

    def runner(self, compile: bool | str, steps: int, pace: Pace = EQUAL) -> Runner:
        """The way to run so many steps, all of one length or not."""

    def careful(self) -> Runner | None:
        """A slower way for single steps on which the runner fails; None where there is none and the runner raises."""

    @property
    def pivots(self) -> Pivots | None:
        """The pivots of all solves, where they are not those of the structure; a run goes on with the same."""

    def using(self, pivots: Pivots | None) -> Ways:
        """The same with these pivots."""

    def repivoted(self) -> Ways:
        """The same, adapted to the steps that only the careful way could make."""

    def step_inputs(self, inputs: Inputs, t0: float, first: int, steps: int, h: float) -> Array:
        """The inputs of steps that begin at `t0 + k h`, k = first, first + 1, ..., one row for each step (or one for all)."""


class Engine:
    """A program with its ways of running, made when first needed and kept with the system."""

    chunk = (WEIGH_EVERY, WEIGH_EVERY << 16)
    stepwise = True

    def __init__(self, program: Program, settle: Settle | None = None, others: Cache | None = None) -> None:
        self.program, self.settle = program, settle
        self._others = others or Cache()
        self._machine: VirtualMachine | None = None
        self._compiled = Cache()
        self._sweeps: Native | None = None
        self._pivoted: Pivoted | None = None
        self._sparse: Sparse | None = None
        self._careful: Careful | None = None

    def start(self, state: Array, par: Array, t: float, h: float, known: Array | None = None) -> Memory:
        """The memory of a run that begins there; `known` are rates and multipliers to guess from."""
        return Memory.start(self.program, state, par, t, h, known)

    def machine(self) -> VirtualMachine:
        self._machine = self._machine or VirtualMachine(self.program)
        return self._machine

    def native(self, pace: Pace = EQUAL) -> Native:
        """The compiled step, with a loop for equal steps, and one for steps under a controller where there is one."""
        return self._compiled.get(Native, pace.written, lambda: Native(self.program, self._code(pace)))

    def pivoted(self) -> Pivoted:
        self._pivoted = self._pivoted or Pivoted(self.program)
        return self._pivoted

    def sparse(self) -> Sparse:
        """Newton's iteration with sparse factors in numbers, for large steps."""
        from dalembert.engine.sparse import Sparse  # with SciPy's sparse matrices, which small systems do not need

        self._sparse = self._sparse or Sparse(self._large)
        return self._sparse

    @cached_property
    def _large(self) -> LargeProgram:
        from dalembert.engine.large import LargeProgram

        return LargeProgram(self.program.step)

    def careful(self) -> Runner:
        """Newton's iteration with partial pivoting."""
        if not self.program.large:
            return self.pivoted()
        from dalembert.engine.sparse import Careful

        self._careful = self._careful or Careful(self._large)
        return self._careful

    @property
    def pivots(self) -> Pivots | None:
        """The pivots of all solves, where they are not those of the structure."""
        return self.program.orders

    def using(self, pivots: Pivots | None) -> Engine:
        """The same with these pivots; it is kept, since the next run will need it again."""
        if pivots == self.pivots:
            return self
        key = repr(pivots)
        return self._others.get(
            Engine, key, lambda: Engine(Program(self.program.step, pivots), self.settle, self._others), OTHERS
        )

    def in_chunks(self, largest: int) -> Engine:
        """The same with chunks of at most so many steps."""
        out = copy(self)
        out.chunk = (self.chunk[0], min(self.chunk[1], largest))
        return out

    def repivoted(self) -> Engine:
        """The same with pivots that suit the matrices which the pivoted solver met last."""
        return self if self.program.large else self.using(self.program.suited(self.pivoted().matrices))

    def step_inputs(self, inputs: Inputs, t0: float, first: int, steps: int, h: float) -> Array:
        """The inputs of steps, at all the nodes of the method."""
        if not self.program.n_u:
            return NONE
        return step_inputs(self.program, inputs, np.asarray(t0 + np.arange(first, first + steps) * h, dtype=np.float64), h)

    @cached_property
    def _sweepable(self) -> bool:
        return sweeps.suits(self.program)

    def swept(self, steps: int) -> Swept:
        """Sweeps, in a run of so many steps."""
        self._sweeps = self._sweeps or Native(self.program, sweeps.source(self.program), sweeps.FLAGS)
        return Swept(self._sweeps, partial(self._newton, steps))

    def _newton(self, steps: int) -> Runner:
        """Newton's iteration for what cannot be swept: compiled where that would pay for a run of so many steps."""
        if self.program.large:
            return self.sparse()
        if self.program.written > LARGEST_COMPILED or not self._pays(steps):
            return self.machine()
        try:
            return self.native()
        except CompilerError:
            return self.machine()

    def _saved(self, steps: int) -> float:
        """Seconds that compiled steps save."""
        return steps * (8e-6 + 4e-9 * self.program.operations)

    def _pays(self, steps: int) -> bool:
        """Whether that is more than a compiler takes."""
        return self._saved(steps) > 0.1 + 1e-4 * self.program.written

    def runner(self, compile: bool | str, steps: int, pace: Pace = EQUAL) -> Runner:
        """The way to run so many steps. `"auto"` compiles only where that pays, by count of operations, not by the clock.

        Equal steps that can be swept are, where they are compiled, unless `"newton"` is asked for. Sweeps and Newton's iteration
        differ in their last bits, so that which of them it is depends on the run alone, never on what was compiled before.
        """
        compile = compile if isinstance(compile, str) else bool(compile)
        swept = pace.equal and compile in (True, "auto") and self._sweepable
        if swept and (compile is True or (compiler.find() and steps * sweeps.saved(self.program) > sweeps.PRICE)):
            try:
                return self.swept(steps)
            except CompilerError:  # a compiler that does not work is as good as none
                if compile is True:
                    raise
        if self.program.large:
            sparse = self.sparse()
            sparse.compile(compile, steps)
            return sparse
        if compile is False or swept or (compile == "auto" and compiler.find() is None):
            return self.machine()
        written = self.program.written
        if compile in (True, "newton"):
            if written > 2 * LARGEST_COMPILED:
                raise CompilerError(
                    f"a step of {written} operations is too large for a C compiler; the virtual machine "
                    "(compile=False) runs it at the same cost per operation"
                )
            return self.native(pace)
        if written > LARGEST_COMPILED:
            return self.machine()
        if self._compiled.has(Native, pace.written):
            return self.native(pace)
        if self._saved(steps) < 0.02:
            return self.machine()
        try:
            if self._pays(steps) or compiler.is_cached(self._code(pace)):
                return self.native(pace)
        except CompilerError:
            return self.machine()
        return self.machine()

    def _code(self, pace: Pace) -> str:
        return self._compiled.get(str, pace.written, lambda: pace.text(self.program))


def step_inputs(program: Program, inputs: Inputs, begin: Array, h: Array | float) -> Array:
    """The inputs of steps that begin at given times, one row for each step, at all the nodes of the method."""
    if not program.n_u:
        return NONE
    try:
        rows = np.hstack([inputs.within(begin + c * h, begin, begin + h) for c in program.step.input_nodes])
    except Exception as error:
        raise ModelError(
            f"u failed between t = {begin[0]:g} and {np.max(begin + h):g}: {type(error).__name__}: {error}"
        ) from error
    if not np.isfinite(rows).all():
        k = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise ModelError(f"u is not finite in the step from t = {begin[k]:g}: {rows[k]}")
    return rows
