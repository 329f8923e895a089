"""Many steps with a controller in one native call: the loop in C around a compiled program."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache

import casadi as ca
import numpy as np

from dalembert.engine import compiler
from dalembert.engine.machine import Memory, Outcome, Records, Task
from dalembert.engine.native import Native, limits
from dalembert.engine.program import WEIGH_EVERY
from dalembert.engine.run import Layout, Point
from dalembert.engine.sampled import KEPT, Sampler, Sampling, upcoming_step
from dalembert.engine.values import Values, part
from dalembert.errors import CompilerError

TAKE = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, ctypes.c_double)


def _fields(names: str, kind: type) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class _Sampled(ctypes.Structure):
    """The `da_sampled` of sampled.c."""

    _fields_ = [
        *_fields("step rule work state last before kept par out_state out_lam out_work out_unknowns u law", ctypes.c_void_p),
        ("take", TAKE),
        *_fields("extended result held hold own log_t log_y log_u log_own places", ctypes.c_void_p),
        *_fields("t0 h", ctypes.c_double),
        *_fields("steps first save_every varying n_state n_lam n_unknowns width n_places n_y n_held n_own", ctypes.c_long),
        *_fields("number next stride count look done iterations failed", ctypes.c_long),
        ("size", ctypes.c_double),
    ]


@cache
def _library() -> ctypes.CDLL:
    library = compiler.load("\n".join([f"#define WEIGH_EVERY {WEIGH_EVERY}", part("sampled.c")]))
    library.da_sample.argtypes = [ctypes.POINTER(_Sampled)]
    library.da_sample.restype = ctypes.c_long
    return library


@dataclass
class _Extended:
    """The state of a run, and then what a controller keeps."""

    fields: dict[str, slice]
    n_state: int
    n_lam: int
    n_unknowns: int
    step: Point


class SampledLoop:
    """The steps of a run with one controller, by a compiled program."""

    def __init__(self, native: Native, sampling: Sampling, places: list[tuple[int, int]]) -> None:
        self._native, self._sampling, self._call = native, sampling, _library().da_sample
        (self._sampler,) = sampling.samplers
        self._places = np.array(places, dtype=np.dtype("l"))
        self._law = _compiled(self._sampler, native.program)

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task, up to one that fails, or before which the controller does."""
        s, p, native, sampler, log = _Sampled(), self._native.program, self._native, self._sampler, self._sampler.log
        inputs, rules = np.array(task.inputs, order="C"), limits(task.rule)
        begin = task.t0 + task.first * task.h
        kept = memory.kept if len(memory.kept) else np.zeros(p.n_kept)
        extended, result = np.zeros(p.n_state + sampler.own.size + sampler.hold.size), np.zeros(_width(sampler))
        room, held = np.empty(native.room), np.array(sampler.held(begin))

        def take(number: int, t: float) -> int:
            done = self._sampling.take(t, memory.state)
            s.count = sampler.count
            return not done

        arrays = {
            "state": memory.state, "last": memory.last, "before": memory.before, "kept": kept, "par": memory.par, "u": inputs,
            "out_state": out.state, "out_lam": out.lam, "out_work": out.work, "work": room, "extended": extended,
            "result": result, "held": held, "hold": sampler.hold, "own": sampler.own, "places": self._places,
            "log_t": log.t, "log_y": log.y, "log_u": log.u, "log_own": log.state,
        }  # fmt: skip
        for name, array in arrays.items():
            setattr(s, name, array.ctypes.data)
        s.out_unknowns = None if out.unknowns is None else out.unknowns.ctypes.data
        s.step, s.rule, s.take = native.address, ctypes.addressof(rules), TAKE(take)
        s.law = None if self._law is None else self._law.address
        s.t0, s.h, s.steps, s.first, s.save_every, s.look = task.t0, task.h, task.steps, task.first, task.save_every, task.look
        s.varying, s.width, s.n_places = len(inputs) > 1, p.n_u, len(self._places)
        s.n_state, s.n_lam, s.n_unknowns = p.n_state, p.n_lam, p.n_unknowns
        s.n_y, s.n_held, s.n_own = log.y.shape[1], sampler.hold.size, sampler.own.size
        # where the task begins between samples, what is held is that of the last one
        s.number, s.next, s.count, s.failed = sampler.number(begin), task.first, sampler.count, -1
        s.stride = max(1, round(sampler.every / task.h))
        if not sampler.due(begin):
            s.number, s.next = s.number + 1, upcoming_step(self._sampling, task, task.first)
        ended = self._call(s)
        sampler.count = s.count
        return Outcome(s.done, s.iterations, 0 if ended else s.failed, math.nan if ended else math.sqrt(s.size))


def _width(sampler: Sampler) -> int:
    return int(sampler.log.y.shape[1] + sampler.hold.size + sampler.own.size)


def _compiled(sampler: Sampler, layout: Layout) -> Values | None:
    """The law of a traced controller in C; None where there is none, or where it cannot be written: then it is called back."""
    if not sampler.given.traced:
        return None
    n, own, held = layout.n_state, sampler.own.size, sampler.hold.size
    fields = {"state": slice(0, n), "own": slice(n, n + own), "held": slice(n + own, n + own + held)}
    whole = _Extended(fields, n + own + held, layout.n_lam, layout.n_unknowns, layout.step)
    try:
        return _values(sampler.function, whole)
    except CompilerError:
        return None


_MADE: dict[int, tuple[ca.Function, Values]] = {}  # the last ones


def _values(function: ca.Function, layout: _Extended) -> Values:
    """A law in C, which a run with the same controller needs again."""
    found = _MADE.get(function.__hash__())
    if found is None:
        found = function, Values(function, ("state", "own", "held", "t", "par"), layout)
        while len(_MADE) >= KEPT:
            _MADE.pop(next(iter(_MADE)))
        _MADE[function.__hash__()] = found  # with the function: hashes are addresses
    return found[1]
