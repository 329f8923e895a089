"""A program compiled to C: whole chunks of steps in one native call, Newton's iteration inside."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib.resources import files

import casadi as ca
import numpy as np

from dalembert.engine import compiler
from dalembert.engine.machine import Memory, Outcome, Records, Task
from dalembert.engine.newton import Array
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.errors import CompilerError


class _Rule(ctypes.Structure):
    _fields_ = [(n, ctypes.c_double) for n in ("tolerance", "refresh", "stagnation", "floor", "limit")] + [
        ("max_iterations", ctypes.c_long)
    ]


class _Outcome(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ("steps", "iterations", "failed")] + [("size", ctypes.c_double)]


def source(program: Program) -> str:
    """The C source of a program: CasADi's functions, then the loop."""
    generator = ca.CodeGenerator("step", {"with_header": False, "casadi_int": "int"})
    for function in program.functions():
        generator.add(function)
    code = generator.dump()
    # all of it is one translation unit: let the compiler see that, and drop what is only needed across units
    code = re.sub(
        r"^CASADI_SYMBOL_EXPORT (?=int (guess|factor|update|accept|weigh)\d+\(|int finish\()", "static ", code, flags=re.M
    )
    for rare in re.findall(r"^static int accept\d+\([^\n]*\{\s*return (casadi_f\d+)\(", code, flags=re.M):
        code = code.replace(f"static int {rare}(", f"__attribute__((noinline)) static int {rare}(")  # out of the way of the loop
    code = re.sub(r"^CASADI_SYMBOL_EXPORT [^\n]*(\}|;)\n", "", code, flags=re.M)
    code = re.sub(r"^CASADI_SYMBOL_EXPORT [^\n]*\{\n.*?^\}\n", "", code, flags=re.M | re.S)
    code = re.sub(r"^(casadi_real casadi_\w+\()", r"static \1", code, flags=re.M)
    # pointers are never null here
    code = re.sub(r"arg\[(\d+)\]\? arg\[\1\]\[(\d+)\] : 0", r"arg[\1][\2]", code)
    code = re.sub(r"if \(res\[(\d+)\]!=0\) ", "", code)
    sizes = [stage.n for stage in program.stages]
    offsets = np.cumsum([0, *sizes]).tolist()
    define = {
        "DA_COUNT": len(sizes),
        "DA_UNKNOWNS": offsets[-1],
        "DA_STATE": program.n_state,
        "DA_LAM": program.n_lam,
        "DA_INPUTS": program.n_u,
        "DA_OFFSETS": "".join(f"{o}, " for o in offsets[:-1]),
        "DA_SOLVES": " ".join(f"DA_SOLVE({k})" for k in range(len(sizes))),
        "DA_SCALES": " ".join(f"double scale{k}[{stage.n_scale + 1}];" for k, stage in enumerate(program.stages)),
        "DA_WEIGH": WEIGH_EVERY,
        "DA_EXPORT": '__attribute__((visibility("default")))',
    }
    for k, stage in enumerate(program.stages):
        define |= {f"DA_N{k}": stage.n, f"DA_C{k}": stage.constants, f"DA_OFFSET{k}": offsets[k]}
    return "\n".join([code, *(f"#define {k} {v}" for k, v in define.items()), _loop()])


@cache
def _loop() -> str:
    """The time loop in C; read once, since a process may give up the right to read it."""
    return files("dalembert.engine").joinpath("loop.c").read_text()


class Native:
    """The compiled program; `run` is that of the virtual machine."""

    name = "compiled"

    def __init__(self, program: Program, code: str | None = None) -> None:
        self.program = program
        self._library = compiler.load(code or source(program))
        try:
            self._run = self._library.da_run
        except AttributeError as error:
            raise CompilerError("the compiler made a library without a step in it; compile='auto' does without") from error
        self._run.restype = None
        long, double, array = ctypes.c_long, ctypes.c_double, ctypes.c_void_p
        self._run.argtypes = [
            long, long, double, double, array, array, array, array, array, long, long, array, array, array, array,
            ctypes.POINTER(_Rule), ctypes.POINTER(_Outcome),
        ]  # fmt: skip

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task in one native call."""
        inputs, rule = np.ascontiguousarray(task.inputs), task.rule
        c_rule = _Rule(rule.tolerance, rule.refresh, rule.stagnation, rule.floor, rule.limit, rule.max_iterations)
        outcome = _Outcome(0, 0, -1, 0.0)
        self._run(
            task.steps, task.first, task.t0, task.h, _pointer(memory.state), _pointer(memory.last), _pointer(memory.before),
            _pointer(memory.par), _pointer(inputs), int(len(inputs) > 1), task.save_every, _pointer(out.state),
            _pointer(out.lam), _pointer(out.work), _pointer(out.unknowns), c_rule, outcome,
        )  # fmt: skip
        return Outcome(outcome.steps, outcome.iterations, outcome.failed, outcome.size)


def _pointer(array: Array | None) -> int | None:
    return None if array is None else array.ctypes.data
