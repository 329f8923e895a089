"""Running a program step by step: the virtual machine, and the careful solver behind every way of running.

A runner advances a `Memory` by the equal steps of a `Task` and writes what is asked for into `Records`. What runners compute
agrees to the last bits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import casadi as ca
import numpy as np

from dalembert.engine.elimination import solve_pivoted as solve_pivoted
from dalembert.engine.newton import DAMPED, TINY, UNSEEN, Array, Parts, Rule, shortened
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.engine.stage import Stage
from dalembert.errors import MethodError
from dalembert.locks import Lock

Call = Callable[[], object]  # does its work on arrays that are bound to it
Feed = Callable[[int, Array, Array], bool]
NONE = np.zeros((1, 0))  # the inputs of all steps, where there are none


@dataclass
class Memory:
    """Where a run stands: state, solutions of the last two steps (all solves in a row), parameters.

    `kept` is what the last look at the model found: of all solves the sizes of unknowns, and whether one change is enough; then
    the length of that step, and the number of steps since, for those who decide when to look again (zero where nothing is known).
    """

    state: Array
    last: Array
    before: Array
    par: Array
    kept: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def start(
        cls, program: Program, state: Array, par: Array, t: float = 0.0, h: float = 1.0, known: Array | None = None
    ) -> Memory:
        first = program.first_memory(state, t, h, np.zeros(program.n_u), par, known)
        return cls(state.copy(), first, first.copy(), par, np.zeros(program.n_kept))

    def copy(self) -> Memory:
        """The same place, which stays as it is while this one goes on; the parameters are shared."""
        return Memory(self.state.copy(), self.last.copy(), self.before.copy(), self.par, self.kept.copy())

    def put(self, other: Memory) -> None:
        """Go where another memory stands."""
        self.state[:], self.last[:], self.before[:] = other.state, other.last, other.before
        self.kept[:] = other.kept if len(other.kept) else 0.0


@dataclass(frozen=True, slots=True)
class Task:
    """What a runner is asked for: `steps` equal steps; step k begins at `t0 + k h` for `k = first, first + 1, ...`.

    `inputs` has one row for each step (or one for all). A row of the records is complete after each step whose number from the
    beginning of the run is a multiple of `save_every`. The row that is not complete holds the last step that was made; work is
    added up in it. Where the first step does not `look` at the model, it goes by what the memory has `kept` of the last look.
    The virtual machine calls `feed` before each step, with its number, the state and the inputs, which it may change; where it
    returns False, the step is not made.
    """

    t0: float
    h: float
    rule: Rule
    steps: int = 1
    first: int = 0
    save_every: int = 1
    inputs: Array = field(default_factory=lambda: NONE)
    look: bool = True
    feed: Feed | None = None


@dataclass
class Records:
    """Rows written after every `save_every`-th step: state, multipliers, work since the last row."""

    state: Array
    lam: Array
    work: Array
    unknowns: Array | None = None

    @classmethod
    def empty(cls, program: Program, rows: int, unknowns: bool = False) -> Records:
        size = 8 * rows * (program.n_state + program.n_lam + 4 + (program.n_unknowns if unknowns else 0))
        if size > memory():
            raise MethodError(
                f"{rows} rows of {program.n_state} numbers and more need {size / 2**30:.0f} GiB of memory; save less often "
                "(save_every) or take larger steps"
            )
        return cls(
            np.empty((rows, program.n_state)),
            np.empty((rows, program.n_lam)),
            np.zeros((rows, 2)),
            np.empty((rows, program.n_unknowns)) if unknowns else None,
        )

    def rows(self, first: int, last: int) -> Records:
        part = slice(first, last)
        unknowns = None if self.unknowns is None else self.unknowns[part]
        return Records(self.state[part], self.lam[part], self.work[part], unknowns)

    def row(self, k: int) -> Records:
        """A copy of one row."""
        unknowns = None if self.unknowns is None else self.unknowns[k : k + 1].copy()
        return Records(self.state[k : k + 1].copy(), self.lam[k : k + 1].copy(), self.work[k : k + 1].copy(), unknowns)

    def put(self, k: int, rows: Records) -> None:
        """Write rows from number `k` on."""
        part = slice(k, k + len(rows.state))
        self.state[part], self.lam[part], self.work[part] = rows.state, rows.lam, rows.work
        if self.unknowns is not None and rows.unknowns is not None:
            self.unknowns[part] = rows.unknowns


@cache
def memory() -> float:
    """Bytes of memory of this machine, where that can be told."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return np.inf


@dataclass
class Outcome:
    """What a call of `run` did: steps completed, Newton iterations, which solve failed and with which last update.

    `failed` is -1 where all went well, and the number of solves where the next state was not finite.
    """

    steps: int
    iterations: int
    failed: int = -1
    size: float = 0.0
    swept: int = 0  # steps that were made by sweeps


def _view(array: Array) -> memoryview[float]:
    """The memory of an array: entries are read and written as plain floats, faster than through NumPy."""
    return memoryview(array)  # type: ignore[arg-type,return-value]


def bind(function: ca.Function, inputs: list[Array], outputs: list[Array]) -> tuple[Call, object]:
    """A call without arguments that evaluates a function on given arrays, and what must be kept alive for it."""
    buffer, evaluate = function.buffer()
    for i, array in enumerate(inputs):
        if array.size:
            buffer.set_arg(i, _view(array))  # type: ignore[call-arg,arg-type]  # the stub is that of C
    for i, array in enumerate(outputs):
        if array.size:
            buffer.set_res(i, _view(array))  # type: ignore[call-arg,arg-type]
    return evaluate, (buffer, function, inputs, outputs)


@dataclass(frozen=True)
class Place:
    """The arrays that one solve works on."""

    x: Array
    known: list[Array]  # what the residual depends on beside the unknowns
    hot: list[Array]  # the same with constants
    history: list[Array]  # the solutions of the last two steps
    scale: Array
    size: Array


class VirtualMachine:
    """CasADi's virtual machine, driven from Python through preset buffers."""

    name = "virtual machine"

    def __init__(self, program: Program) -> None:
        self.program = p = program
        # what a step leaves lies side by side, and so does what it is moved to: one copy moves all of it
        cuts = np.cumsum([p.n_state, p.n_unknowns, p.n_lam])
        self.now, self.after = np.zeros(cuts[-1] + p.n_unknowns), np.zeros(cuts[-1])
        self.state, self.last, self.made, self.before = np.split(self.now, cuts)
        self.next, self.x, self.lam = np.split(self.after, cuts[:-1])
        self.t, self.h = np.zeros(1), np.zeros(1)
        self.u, self.par, self.constants = np.zeros(p.n_u), np.zeros(p.step.par.numel()), np.zeros(p.prelude.numel_out(0))
        common = [self.state, self.t, self.h, self.u, self.par]
        x, last, before = (np.split(a, p.cuts) for a in (self.x, self.last, self.before))
        self.work, self.check = np.zeros(2), np.zeros(1)
        self._lock = Lock()  # the buffers serve one run at a time
        self.solves: list[tuple[Call, Parts]] = []
        self._keep: list[object] = []
        self.looked, self.seen = np.zeros(p.n_kept - 2), [False]
        *scales, singles = np.split(self.looked, np.cumsum([solve.scale.numel() for solve in p.step.solves]))
        for k, scale in enumerate(scales):
            known = [*common, *x[:k]]
            place = Place(x[k], known, [*common, self.constants, *x[:k]], [last[k], before[k]], scale, np.zeros(1))
            self.solves.append(self._solve(k, place, _view(singles[k : k + 1])))
        self.prelude = self._bind(p.prelude, [self.h, self.par], [self.constants])
        self.finish = self._finish([*common, self.constants, *x])

    def _finish(self, unknowns: list[Array]) -> Call:
        """The end of a step, from all unknowns."""
        return self._bind(self.program.finish, unknowns, [self.next, self.lam, self.work, self.check])

    def _solve(self, k: int, at: Place, single: memoryview[float]) -> tuple[Call, Parts]:
        """The look at the sizes of a solve, and its iteration."""
        stage = self.program.stages[k]
        weigh = self._bind(stage.look.weigh, at.known, [at.scale])
        accept = self._bind(stage.look.accept, [*at.known, at.x, at.scale], [at.size])
        return weigh, self._parts(at, single, stage.linear, self._linear_solver(stage, at), accept)

    def _parts(
        self,
        at: Place,
        single: memoryview[float],
        linear: bool,
        changes: tuple[Call, Call, Call],
        accept: Call,
        rate: float = 0.0,
    ) -> Parts:
        return Parts(*changes, accept, _view(at.size), linear, single, self.seen, [rate])

    def _linear_solver(self, stage: Stage, at: Place) -> tuple[Call, Call, Call]:
        """The parts of an iteration: the first change from a guess; one with a new Jacobian; one with the last."""
        constants = np.zeros(stage.constants)
        # x_i is read before its new value, which depends on it, is written: both may share one place
        begin = self._bind(stage.begin, [*at.hot, *at.history, at.scale], [at.x, at.size, constants])
        renew = self._bind(stage.renew, [*at.hot, at.x, at.scale], [at.x, at.size, constants])
        return begin, renew, self._bind(stage.update, [at.x, at.scale, constants], [at.x, at.size])

    def _bind(self, function: ca.Function, inputs: list[Array], outputs: list[Array]) -> Call:
        evaluate, kept = bind(function, inputs, outputs)
        self._keep.append(kept)
        return evaluate

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task, up to one that fails."""
        t0, h, first, steps, save_every, inputs = task.t0, task.h, task.first, task.steps, task.save_every, task.inputs
        with self._lock:
            self._load(memory, h, inputs)
            varying = len(inputs) > 1
            # everything the loop touches as a local name: at a few microseconds a step, looking things up costs
            before, last, after = _view(self.before), _view(self.last), _view(self.after)
            now = _view(self.now)[: len(after)]
            t, check, work, finish = _view(self.t), _view(self.check), _view(self.work), self.finish
            works, working = _view(out.work), self.program.working
            solves, looked = [(weigh, task.rule.bind(parts)) for weigh, parts in self.solves], self.seen
            iterations, row, failed, done, feed = 0, 0, -1, steps, task.feed
            for k in range(first, first + steps):
                t[0] = t0 + k * h
                if varying:
                    self.u[:] = inputs[k - first]
                if feed is not None and not feed(k, self.state, self.u):
                    failed, done = len(solves), k - first
                    break
                look = task.look if k == first else k % WEIGH_EVERY == 0
                looked[0] = look
                for number, (weigh, iterate) in enumerate(solves):
                    if look:
                        weigh()
                    count = iterate(looked[0])
                    if count < 0:
                        failed = number
                        break
                    iterations += count
                if failed < 0:
                    finish()
                    if not check[0] < 1e300:
                        failed = len(solves)
                if failed >= 0:
                    done = k - first
                    break
                before[:] = last
                now[:] = after
                if working:
                    works[row, 0] += work[0]
                    works[row, 1] += work[1]
                if (k + 1) % save_every == 0:
                    self._write(out, row)
                    row += 1
            if done and (first + done) % save_every:
                self._write(out, row)
            self._leave(memory)
            size = 0.0 if failed < 0 else math.nan if failed == len(solves) else math.sqrt(self.solves[failed][1].sizes[0])
            return Outcome(done, iterations, failed, size)

    def _load(self, memory: Memory, h: float, inputs: Array) -> None:
        self.state[:], self.par[:], self.h[0] = memory.state, memory.par, h
        self.last[:], self.before[:] = memory.last, memory.before
        if inputs.size:
            self.u[:] = inputs[0]
        self.prelude()
        self.looked[:] = memory.kept[:-2] if len(memory.kept) else 0.0

    def _leave(self, memory: Memory) -> None:
        memory.state[:], memory.last[:], memory.before[:] = self.state, self.last, self.before
        if len(memory.kept):
            memory.kept[:-2] = self.looked

    def _write(self, out: Records, row: int) -> None:
        out.state[row] = self.state
        out.lam[row] = self.made
        if out.unknowns is not None:
            out.unknowns[row] = self.last


class Pivoted(VirtualMachine):
    """The careful way for single steps: Newton with a new Jacobian each time, solved with partial pivoting.

    It takes over where the fixed pivots of the straight-line elimination fail, and keeps the matrices that it met, from which
    better pivots can be chosen.
    """

    name = "pivoted"
    _damped, _budget = False, 0  # whether changes may be shortened, and how many of this solve may still be

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        self._damped = task.rule.damped
        return super().run(memory, out, task)

    def _linear_solver(self, stage: Stage, at: Place) -> tuple[Call, Call, Call]:
        self.matrices = getattr(self, "matrices", [])
        self.matrices.append(None)
        index, x = len(self.matrices) - 1, at.x
        guess = self._bind(stage.guess, [*at.hot, *at.history], [x])

        def size(rows: Array, change: Array) -> float:
            with np.errstate(over="ignore", invalid="ignore"):
                own = np.abs(x[stage.look.seen]) + at.scale + TINY if stage.look.seen is not None else None
                sizes = rows * at.scale if own is None else change[stage.look.seen] / own
                return float(sizes @ sizes + 0.0 * change.sum())

        def update() -> None:
            while True:
                residual, J = stage.residual(x, *at.known)
                self.matrices[index] = J
                rows = np.array(residual).ravel()
                change, part = solve_pivoted(J, rows), 1.0

                def ahead(part: float, J: ca.DM = J, change: Array = change) -> float:
                    there = np.array(stage.residual(x - part * change, *at.known)[0]).ravel()
                    return size(there, solve_pivoted(J, there))

                if self._budget > 0:
                    part, self._budget = shortened(ahead, size(rows, change)), self._budget - 1
                x[:] -= part * change
                if part == 1.0:
                    break
            at.size[0] = size(rows, change)

        def begin() -> None:
            guess()
            self._budget = DAMPED if self._damped else 0
            update()
            if at.size[0] <= UNSEEN:
                update()

        return begin, update, update
