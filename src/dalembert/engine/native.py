"""A program compiled to C: whole chunks of steps in one native call, Newton's iteration inside."""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache

import numpy as np

from dalembert.engine import compiler
from dalembert.engine.addresses import address
from dalembert.engine.emission import source
from dalembert.engine.machine import Memory, Outcome, Records, Task
from dalembert.engine.newton import Rule
from dalembert.engine.program import Program
from dalembert.errors import CompilerError


class Rules(ctypes.Structure):
    _fields_ = [(n, ctypes.c_double) for n in ("tolerance", "refresh", "stagnation", "floor", "limit", "exact")] + [
        ("max_iterations", ctypes.c_long)
    ]


@lru_cache(64)
def limits(rule: Rule) -> Rules:
    """The rule for stopping as the loop reads it: in squares."""
    squares = (x * x for x in (rule.tolerance, rule.refresh, rule.stagnation, rule.floor, rule.limit, rule.exact))
    return Rules(*squares, rule.max_iterations)


class _Outcome(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ("steps", "iterations", "failed")] + [("size", ctypes.c_double)]


class Native:
    """The compiled program; `run` is that of the virtual machine."""

    name = "compiled"

    def __init__(self, program: Program, code: str | None = None, flags: tuple[str, ...] = ()) -> None:
        self.program = program
        self.library = compiler.load(code or source(program), flags)
        try:
            self._run = self.library.da_run
        except AttributeError as error:
            raise CompilerError("the compiler made a library without a step in it; compile='auto' does without") from error
        self._run.restype = None
        long, double, array = ctypes.c_long, ctypes.c_double, ctypes.c_void_p
        self._run.argtypes = [
            long, long, double, double, array, array, array, array, array, long, long, array, array, array, array,
            ctypes.POINTER(Rules), ctypes.POINTER(_Outcome), array, long, array,
        ]  # fmt: skip
        self.room = long.in_dll(self.library, "da_work").value  # numbers that the loop needs to work with
        self.address = ctypes.cast(self._run, ctypes.c_void_p).value

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task in one native call."""
        inputs = np.ascontiguousarray(task.inputs)
        outcome, work = _Outcome(0, 0, -1, 0.0), np.empty(self.room)
        kept = memory.kept if len(memory.kept) else np.zeros(self.program.n_kept)
        self._run(
            task.steps, task.first, task.t0, task.h, address(memory.state), address(memory.last), address(memory.before),
            address(memory.par), address(inputs), int(len(inputs) > 1), task.save_every, address(out.state),
            address(out.lam), address(out.work), None if out.unknowns is None else address(out.unknowns), limits(task.rule),
            outcome, address(kept), int(task.look), address(work),
        )  # fmt: skip
        return Outcome(outcome.steps, outcome.iterations, outcome.failed, math.sqrt(outcome.size))
