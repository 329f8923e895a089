"""Many steps under a controller in one native call: the loop in C, in one piece with the step.

Controllers in Python are the reference. The loop in C makes the same steps to the last bit, and leaves to Python every step that
is not plain.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dalembert.engine.addresses import address
from dalembert.engine.inputs import Constant, Held, Inputs
from dalembert.engine.machine import Memory, Records
from dalembert.engine.native import Native, limits
from dalembert.engine.newton import Rule
from dalembert.engine.run import Array, Grid, Notes
from dalembert.engine.runners import step_inputs
from dalembert.engine.values import Values
from dalembert.engine.walking import Pace
from dalembert.errors import CompilerError

NUMBERS, CARRIED = 8, 3
PLACES = 4  # memories of a decision: where it begins, after a whole step, and after each of two halves


@dataclass(frozen=True)
class Plan:
    """A controller as the loop in C knows it."""

    pace: Pace
    bounds: Callable[[Grid], tuple[float, float]]  # the shortest and the longest step of a run
    carried: tuple[str, ...]  # names of what it carries from step to step
    numbers: tuple[float, ...] = ()


def _fields(names: str, kind: type) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class _Walk(ctypes.Structure):
    """The `da_walk` of control.c."""

    _fields_ = [
        *_fields("rule work memory par out_begin out_t out_state out_lam out_work u", ctypes.c_void_p),
        *_fields("times values jumps nodes watch watched", ctypes.c_void_p),
        *_fields("t t_end low high end resolution", ctypes.c_double),
        ("carried", CARRIED * ctypes.c_double),
        ("numbers", NUMBERS * ctypes.c_double),
        *_fields("shortest longest", ctypes.c_double),
        *_fields("n_u n_times n_jumps n_nodes n_watched settles", ctypes.c_long),
        *_fields("capacity most every left done row iterations rejected made time jump", ctypes.c_long),
    ]


@dataclass(frozen=True)
class Made:
    """What a native call did: steps, the times before and after the last one of each row, and what is to be added up."""

    steps: int
    begin: Array
    t: Array
    iterations: int
    rejected: int
    made: int
    ask: bool  # whether the next step is Python's to make


def possible(inputs: Inputs) -> bool:
    """Whether the inputs are known without asking a function of the user's at each step."""
    return type(inputs) in (Constant, Held)


class Controlled:
    """The steps of a run under a controller, by a compiled program."""

    def __init__(
        self, native: Native, plan: Plan, grid: Grid, inputs: Inputs, rule: Rule, memory: Memory, watch: Values | None,
        settles: bool,
    ) -> None:  # fmt: skip
        try:
            self.native, self.plan, self._call = native, plan, native.library.da_control
        except AttributeError as error:
            raise CompilerError("the loop of this controller cannot be written in C") from error
        self._call.argtypes, self._call.restype = [ctypes.POINTER(_Walk)], ctypes.c_long
        self._kept: list[object] = [watch]  # what the loop has addresses of
        p, w = native.program, _Walk()
        self._walk = w
        (low, high), rules = plan.bounds(grid), limits(rule)
        self._kept.append(rules)
        w.rule, w.t_end, w.low, w.high = ctypes.addressof(rules), grid.t_end, low, high
        w.numbers = (*plan.numbers, *(NUMBERS - len(plan.numbers)) * [0.0])
        w.n_u, w.settles, w.end = p.n_u, settles, np.nan
        cuts = np.cumsum([p.n_state, p.n_unknowns, p.n_unknowns, p.n_kept])
        places = np.zeros(PLACES * (int(cuts[-1]) + p.n_lam + 2))
        state, last, before, kept, _ = np.split(places, cuts)
        self._outside, self._here = memory, Memory(state, last, before, memory.par, kept)
        w.memory, w.par, w.work = (self._keep(a) for a in (places, memory.par, np.empty(native.room)))
        if watch is not None:
            w.watch, w.n_watched, w.watched = watch.address, watch.count, self._keep(np.empty(2 * watch.count))
        self._sample(inputs)

    def _keep(self, array: np.ndarray[tuple[int, ...], np.dtype[np.float64 | np.int_]]) -> int:
        self._kept.append(array)
        return array.ctypes.data

    def _sample(self, inputs: Inputs) -> None:
        """Inputs that are the same for all steps, or the samples from which they are taken, and where they jump."""
        w, p = self._walk, self.native.program
        w.u = self._keep(
            np.ascontiguousarray(step_inputs(p, inputs, np.zeros(1), 0.0)) if type(inputs) is Constant else np.zeros(p.n_u)
        )
        if isinstance(inputs, Held):
            w.times, w.n_times = self._keep(np.ascontiguousarray(inputs.times)), len(inputs.times)
            w.values, w.jumps = self._keep(np.ascontiguousarray(inputs.values)), self._keep(np.ascontiguousarray(inputs.jumps))
            nodes = np.array(p.step.input_nodes if p.n_u else ())
            w.n_jumps, w.nodes, w.n_nodes = len(inputs.jumps), self._keep(nodes), len(nodes)

    def run(
        self, t: float, carried: Notes, lengths: tuple[float, float], out: Records, steps: int, every: int = 1, before: int = 0
    ) -> tuple[Made, Notes, tuple[float, float]]:
        """Steps from `t` on until there are so many, the end is reached, or one is Python's to make or to look at.

        Rows are written after every so many steps, of which `before` were made in earlier calls, and after the last one.
        Returned are also what the controller carries then, and the shortest and the longest step.
        """
        w = self._walk
        w.t, w.most, w.every, w.left = t, steps, every, every - before % every
        w.capacity = min(len(out.state), steps // every + 3)
        times = np.empty((2, w.capacity))
        w.carried = tuple(carried[name] for name in self.plan.carried)
        w.shortest, w.longest = lengths
        w.done = w.row = w.iterations = w.rejected = w.made = 0
        w.out_begin, w.out_t = map(address, times)
        w.out_state, w.out_lam, w.out_work = map(address, (out.state, out.lam, out.work))
        self._here.put(self._outside)
        ask = bool(self._call(w))
        self._outside.put(self._here)
        rows = w.row + (w.left < every)
        made = Made(w.done, times[0, :rows], times[1, :rows], w.iterations, w.rejected, w.made, ask)
        return made, dict(zip(self.plan.carried, w.carried, strict=False)), (w.shortest, w.longest)
