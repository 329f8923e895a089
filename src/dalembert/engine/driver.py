"""The time loop: chunks of fixed steps, progress, rescue of single steps, and nothing lost on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalembert.engine import checks, compiler, initial
from dalembert.engine.machine import Memory, Outcome, Pivoted, Records, VirtualMachine
from dalembert.engine.native import Native, source
from dalembert.engine.newton import Rule
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.engine.progress import Bar
from dalembert.errors import CompilerError, ConvergenceError, DalembertError, Interrupted, ModelError

LARGEST_COMPILED = 40_000  # operations of a step beyond which a C compiler takes longer than it can save
RESCUES = 8  # steps taken by the pivoted solver before the pivots are chosen anew


@dataclass(frozen=True)
class Grid:
    """Times counted, never accumulated: step k begins at `t0 + k h`, a last shorter one ends at `t_end`."""

    t0: float
    t_end: float
    h: float
    save_every: int = 1

    @property
    def full(self) -> int:
        ratio = (self.t_end - self.t0) / self.h
        nearest = round(ratio)
        return nearest if abs(ratio - nearest) <= 1e-9 * ratio else int(ratio)

    @property
    def remainder(self) -> float:
        """Length of the last, shorter step; zero where the step divides the time."""
        ratio = (self.t_end - self.t0) / self.h
        if abs(ratio - round(ratio)) <= 1e-9 * ratio:
            return 0.0
        return self.t_end - (self.t0 + self.full * self.h)

    @property
    def steps(self) -> int:
        return self.full + (self.remainder > 0)

    @property
    def saved(self) -> np.ndarray:
        """Numbers of the steps after which a row is saved; the last step always is."""
        rows = np.arange(self.save_every, self.steps + 1, self.save_every)
        return rows if self.steps == 0 or (len(rows) and rows[-1] == self.steps) else np.append(rows, self.steps)

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """The time after each of these steps."""
        return np.where(numbers == self.steps, self.t_end, self.t0 + numbers * self.h)

    def nodes(self, numbers: np.ndarray, node: float) -> np.ndarray:
        """The time of a node of each of these steps."""
        start = self.t0 + (numbers - 1) * self.h
        return start + node * (self.times(numbers) - start)


@dataclass
class Run:
    """What a run left behind, complete or not."""

    grid: Grid
    records: Records
    rows: int = 0
    pending: tuple[float, float] = (0.0, 0.0)  # work done since the last complete row
    error: BaseException | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    t: np.ndarray | None = None  # times of the rows, and of their multipliers, where steps are not all equal
    t_lam: np.ndarray | None = None

    def times(self) -> np.ndarray:
        """The times of the rows that were reached."""
        return self.grid.times(self.grid.saved[: self.rows]) if self.t is None else self.t[: self.rows]

    def nodes(self, node: float) -> np.ndarray:
        """The times at which the multipliers of these rows live."""
        return self.grid.nodes(self.grid.saved[: self.rows], node) if self.t_lam is None else self.t_lam[: self.rows]

    def reserve(self, rows: int) -> None:
        """Make room for so many rows, where their number is not known beforehand."""
        have = len(self.records.state)
        if self.t is None or self.t_lam is None or rows <= have:
            return
        more = max(have, rows - have)

        def longer(a: np.ndarray) -> np.ndarray:
            return np.concatenate([a, np.zeros((more, *a.shape[1:]))])

        r = self.records
        self.records = Records(longer(r.state), longer(r.lam), longer(r.work))
        self.t, self.t_lam = longer(self.t), longer(self.t_lam)


Inputs = Callable[[np.ndarray], np.ndarray]


class Engine:
    """A program with its ways of running, made when first needed and kept with the system."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._machine: VirtualMachine | None = None
        self._native: Native | None = None
        self._pivoted: Pivoted | None = None
        self._source: str | None = None

    def machine(self) -> VirtualMachine:
        self._machine = self._machine or VirtualMachine(self.program)
        return self._machine

    def native(self) -> Native:
        if self._native is None:
            self._source = self._source or source(self.program)
            self._native = Native(self.program, self._source)
        return self._native

    def pivoted(self) -> Pivoted:
        self._pivoted = self._pivoted or Pivoted(self.program)
        return self._pivoted

    def repivoted(self) -> Engine:
        """The same with pivots that suit the matrices which the careful solver met last."""
        return Engine(self.program.repivoted(self.pivoted().matrices))

    def runner(self, compile: bool | str, steps: int) -> VirtualMachine | Native:
        """The way to run so many steps. `"auto"` compiles only where that pays, by count of operations, not by the clock."""
        operations = self.program.operations
        compile = compile if isinstance(compile, str) else bool(compile)
        if compile is True:
            if operations > 5 * LARGEST_COMPILED:
                raise CompilerError(
                    f"a step of {operations} operations is too large for a C compiler; the virtual machine "
                    "(compile=False) runs it at the same cost per operation"
                )
            return self.native()
        if compile is False or operations > LARGEST_COMPILED or compiler.find() is None:
            return self.machine()
        if self._native is not None:
            return self._native
        saved = steps * (8e-6 + 4e-9 * operations)
        if saved < 0.02:
            return self.machine()
        price = 0.1 + (7e-5 if operations < 10_000 else 3e-5) * operations
        if saved > price or compiler.is_cached(self._code()):
            try:
                return self.native()
            except CompilerError:  # a compiler that does not work is as good as none
                return self.machine()
        return self.machine()

    def _code(self) -> str:
        self._source = self._source or source(self.program)
        return self._source


def integrate(
    engine: Engine,
    memory: Memory,
    grid: Grid,
    inputs: Inputs,
    *,
    rule: Rule,
    compile: bool | str = "auto",
    progress: bool | None = None,
    unknowns: bool = False,
    explain: Callable[[Memory, float, float], DalembertError | None] = lambda memory, t, h: None,
    checkpoint: Any = None,
    watch: Any = None,
) -> Run:
    """Run a program over a grid of times. An error ends the run and is kept in it: no trajectory is lost.

    `checkpoint`, where given, has `restore(run, memory)`, the number of steps already done, and `write(run, memory, done)`;
    `watch` has `catch_up(run)`, true where the run is to end.
    """
    begun = time.perf_counter()
    saved = grid.saved
    run = Run(grid, Records.empty(engine.program, len(saved), unknowns))
    loop = _Loop(engine, memory, grid, inputs, rule, compile, run, explain)
    ready = time.perf_counter()
    bar = Bar(progress, grid.steps)
    if checkpoint is not None:
        loop.done = checkpoint.restore(run, memory)
    try:
        main = grid.full // grid.save_every * grid.save_every
        loop.advance(main, grid.h, run.records, grid.save_every, bar, checkpoint, watch)
        if not (watch and watch.catch_up(run)):
            loop.tail(grid.steps - loop.done, grid.remainder)
    except KeyboardInterrupt:
        t = grid.t0 + loop.done * grid.h
        run.error = Interrupted(
            f"interrupted at t = {t:g} after {loop.done} of {grid.steps} steps; error.solution holds what was computed"
        )
    except DalembertError as error:
        run.error = error
    finally:
        bar.close()
    seconds = time.perf_counter() - ready
    run.stats = {
        "steps": loop.done,
        "iterations": loop.iterations,
        "iterations_per_step": loop.iterations / max(1, loop.done),
        "pivoted_steps": loop.rescued,
        "engine": loop.runner.name if loop.runner else "none",
        "seconds": seconds,
        "compile_seconds": ready - begun,
    }
    return run


def step_inputs(program: Program, inputs: Inputs, begin: np.ndarray, h: float) -> np.ndarray:
    """The inputs of steps that begin at given times, one row a step, at all the nodes that the method looks at."""
    if not program.step.u.numel():
        return np.zeros((1, 0))
    try:
        rows = np.hstack([inputs(begin + c * h) for c in program.step.input_nodes])
    except Exception as error:
        raise ModelError(f"u failed between t = {begin[0]:g} and {begin[-1] + h:g}: {type(error).__name__}: {error}") from error
    if not np.isfinite(rows).all():
        k = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise ModelError(f"u is not finite in the step from t = {begin[k]:g}: {rows[k]}")
    return rows


class _Loop:
    """The state of one run through its chunks."""

    def __init__(
        self, engine: Engine, memory: Memory, grid: Grid, inputs: Inputs, rule: Rule, compile: bool | str, run: Run, explain: Any
    ) -> None:
        self.engine, self.memory, self.grid, self.inputs = engine, memory, grid, inputs
        self.rule, self.compile, self.run, self.explain = rule, compile, run, explain
        self.done = self.iterations = self.rescued = 0
        self.recent = 0
        self.runner = engine.runner(compile, grid.steps) if grid.steps else None

    def advance(self, steps: int, h: float, out: Records, save_every: int, bar: Bar, checkpoint: Any, watch: Any) -> None:
        """Steps of equal length, in chunks that are short enough to show progress and hear Ctrl-C."""
        chunk = WEIGH_EVERY
        begun = time.perf_counter()
        while self.done < steps:
            count = min(chunk, steps - self.done)
            before = time.perf_counter()
            self._chunk(count, h, out, save_every)
            now = time.perf_counter()
            if now - before < 0.1:
                chunk = min(2 * chunk, WEIGH_EVERY << 16)
            bar.show(self.done, now - begun)
            if checkpoint is not None:
                checkpoint.write(self.run, self.memory, self.done)
            if watch is not None and watch.catch_up(self.run):
                return

    def _chunk(self, count: int, h: float, out: Records, save_every: int) -> None:
        end = self.done + count
        while self.done < end:
            rest = end - self.done
            outcome = self._call(self.runner, rest, h, out.rows(self.done // save_every, len(out.state)), save_every)
            self._count(outcome, save_every)
            if outcome.failed >= 0:
                self._rescue(h, out, save_every, outcome)

    def _call(self, runner: Any, steps: int, h: float, out: Records, save_every: int) -> Outcome:
        t0 = self.grid.t0
        begin = t0 + np.arange(self.done, self.done + steps) * self.grid.h
        return runner.run(  # type: ignore[no-any-return]
            self.memory, out, t0=t0 if h == self.grid.h else float(begin[0]) - self.done * h, first=self.done, steps=steps,
            h=h, inputs=step_inputs(self.engine.program, self.inputs, begin, h), save_every=save_every, rule=self.rule,
        )  # fmt: skip

    def _count(self, outcome: Outcome, save_every: int) -> None:
        self.done += outcome.steps
        self.iterations += outcome.iterations
        rows = self.run.rows = min(self.done // self.grid.save_every, len(self.run.records.state))
        work = self.run.records.work
        self.run.pending = (float(work[rows, 0]), float(work[rows, 1])) if rows < len(work) else (0.0, 0.0)

    def _rescue(self, h: float, out: Records, save_every: int, failure: Outcome) -> None:
        """One step by the careful solver: from the usual guess, then from the last solution, then from zero."""
        last, before = self.memory.last.copy(), self.memory.before.copy()
        for a, b in ((last, before), (last, last), (0 * last, 0 * last)):
            self.memory.last[:], self.memory.before[:] = a, b
            outcome = self._call(self.engine.pivoted(), 1, h, out.rows(self.done // save_every, len(out.state)), save_every)
            if outcome.failed < 0:
                self.memory.before[:] = last
                break
        else:
            raise self._failure(h, outcome)
        self._count(outcome, save_every)
        self.rescued += 1
        self.recent += 1
        if self.recent >= RESCUES and self.rescued >= self.done // 10:
            self.recent = 0
            self.engine = self.engine.repivoted()
            self.runner = self.engine.runner(self.compile, self.grid.steps - self.done)

    def _failure(self, h: float, outcome: Outcome) -> DalembertError:
        t = self.grid.t0 + self.done * self.grid.h
        reason: DalembertError | None = self.explain(self.memory, t, h)
        if reason is not None:
            return reason
        size = outcome.size
        count = self.rule.max_iterations
        what = "became nan" if not np.isfinite(size) else f"is still off by {size:.1e} (relative) after {count} iterations"
        remedy = "use a smaller step" if count >= 10 else "allow more with max_iterations, or use a smaller step"
        return ConvergenceError(
            f"step {self.done + 1} of {self.grid.steps} did not converge: from t = {t:g} with h = {h:g}, "
            f"Newton's iteration {what}; {remedy} (error.solution holds the {self.done} steps before)",
            t=t,
            step=h,
            residual=float(size),
        )

    def tail(self, steps: int, remainder: float) -> None:
        """What is left after the last full row: single steps and the shorter last one, into one row."""
        if not steps:
            return
        count, steps = steps, steps - (remainder > 0)
        part = Records.empty(self.engine.program, count, self.run.records.unknowns is not None)
        first = self.done
        while self.done < first + count:
            i = self.done - first
            h = self.grid.h if i < steps else remainder
            outcome = self._call(self.runner, 1, h, part.rows(i, i + 1), 1)
            if outcome.failed >= 0:
                self._rescue_single(h, part.rows(i, i + 1), outcome)
            else:
                self._count(outcome, 1)
        records, row = self.run.records, len(self.run.records.state) - 1
        records.state[row], records.lam[row], records.work[row] = part.state[-1], part.lam[-1], part.work.sum(axis=0)
        if records.unknowns is not None and part.unknowns is not None:
            records.unknowns[row] = part.unknowns[-1]
        self.run.rows = row + 1

    def _rescue_single(self, h: float, out: Records, failure: Outcome) -> None:
        outcome = self._call(self.engine.pivoted(), 1, h, out, 1)
        if outcome.failed >= 0:
            raise self._failure(h, outcome)
        self._count(outcome, 1)
        self.rescued += 1


def explain(system: Any, fields: dict[str, slice], inputs: Inputs, memory: Memory, t: float, h: float) -> DalembertError | None:
    """Why a step failed: model functions not finite, or constraints dependent, where it began or where it was heading."""
    q, second = memory.state[fields["q"]], memory.state[fields[system.momenta]]
    try:
        if system.kind == "port-hamiltonian":
            system.explain(q, t, memory.par, inputs(np.array([t]))[0])
            return None
        here = initial.arguments(system, q, second, t, memory.par)
        ahead = {**here, "q": q + h * here["v"], "t": t + h}
        for at in (here, ahead):
            u = inputs(np.array([at["t"]]))[0]
            checks.check_functions(system, {**at, "u": u}, memory.par)
            if system.m:
                checks.check_rank(initial.jacobian(system, at, memory.par), f"at t = {at['t']:g}")
    except DalembertError as error:
        return error
    return None
