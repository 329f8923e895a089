"""Many steps with a controller in one native call: the loop in C around a compiled program."""

from __future__ import annotations

import ctypes
import math
from functools import cache

import numpy as np

from dalembert.engine import compiler
from dalembert.engine.asked import Asked
from dalembert.engine.machine import Memory, Outcome, Records, Task
from dalembert.engine.native import Native, limits
from dalembert.engine.program import WEIGH_EVERY
from dalembert.engine.sampled import Sampling, upcoming_step
from dalembert.engine.values import part


def _fields(names: str, kind: type) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class _Sampled(ctypes.Structure):
    """The `da_sampled` of sampled.c."""

    _fields_ = [
        *_fields("step rule work state last before kept par out_state out_lam out_work out_unknowns u", ctypes.c_void_p),
        *_fields("asked result held hold own log_t log_y log_u log_own places", ctypes.c_void_p),
        *_fields("t0 h", ctypes.c_double),
        *_fields("steps first save_every varying n_state n_lam n_unknowns width n_places n_y n_held n_own", ctypes.c_long),
        *_fields("number next stride count look done iterations failed", ctypes.c_long),
        ("size", ctypes.c_double),
    ]


@cache
def _library() -> ctypes.CDLL:
    head = ["#include <math.h>", "#include <stddef.h>", "#include <string.h>", f"#define WEIGH_EVERY {WEIGH_EVERY}"]
    return compiler.load("\n".join([*head, part("asked.c"), part("sampled.c")]))


class SampledLoop:
    """The steps of a run with one controller, by a compiled program."""

    def __init__(self, native: Native, sampling: Sampling, places: list[tuple[int, int]]) -> None:
        self._native, self._sampling = native, sampling
        (self._sampler,) = sampling.samplers
        self._asked = Asked(self._sampler)
        # called with the lock of the interpreter, which it leaves while steps are made; what a controller raises comes through
        self._call = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.POINTER(_Sampled))(("da_sample", _library()))
        self._places = np.array(places, dtype=np.dtype("l"))

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task, up to one that fails, or before which the controller does."""
        s, p, native, sampler, log = _Sampled(), self._native.program, self._native, self._sampler, self._sampler.log
        inputs, rules = np.array(task.inputs, order="C"), limits(task.rule)
        begin = task.t0 + task.first * task.h
        kept = memory.kept if len(memory.kept) else np.zeros(p.n_kept)
        result, room, held = np.zeros(sampler.hold.size + sampler.own.size), np.empty(native.room), np.array(sampler.held(begin))
        arrays = {
            "state": memory.state, "last": memory.last, "before": memory.before, "kept": kept, "par": memory.par, "u": inputs,
            "out_state": out.state, "out_lam": out.lam, "out_work": out.work, "work": room, "result": result,
            "held": held, "hold": sampler.hold, "own": sampler.own, "places": self._places,
            "log_t": log.t, "log_y": log.y, "log_u": log.u, "log_own": log.state,
        }  # fmt: skip
        for name, array in arrays.items():
            setattr(s, name, array.ctypes.data)
        s.out_unknowns = None if out.unknowns is None else out.unknowns.ctypes.data
        s.step, s.rule, s.asked = native.address, ctypes.addressof(rules), self._asked.address
        s.t0, s.h, s.steps, s.first, s.save_every, s.look = task.t0, task.h, task.steps, task.first, task.save_every, task.look
        s.varying, s.width, s.n_places = len(inputs) > 1, p.n_u, len(self._places)
        s.n_state, s.n_lam, s.n_unknowns = p.n_state, p.n_lam, p.n_unknowns
        s.n_y, s.n_held, s.n_own = log.y.shape[1], sampler.hold.size, sampler.own.size
        # where the task begins between samples, what is held is that of the last one
        s.number, s.next, s.count, s.failed = sampler.number(begin), task.first, sampler.count, -1
        s.stride = max(1, round(sampler.every / task.h))
        if not sampler.due(begin):
            s.number, s.next = s.number + 1, upcoming_step(self._sampling, task, task.first)
        try:
            ended = self._call(s)
        except BaseException as error:
            ended = not self._sampling.fail(error, task.t0 + (task.first + s.done) * task.h)
        sampler.count = s.count
        return Outcome(s.done, s.iterations, 0 if ended else s.failed, math.nan if ended else math.sqrt(s.size))
