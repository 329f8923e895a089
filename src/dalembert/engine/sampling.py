"""Running steps with controllers in the loop: around any way to run them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dalembert.engine.inputs import Constant, Inputs
from dalembert.engine.machine import Feed, Memory, Outcome, Records, Task, VirtualMachine
from dalembert.engine.native import Native
from dalembert.engine.program import WEIGH_EVERY
from dalembert.engine.run import Array, Layout, Pivots
from dalembert.engine.runner import Runner
from dalembert.engine.runners import Engine, Settle
from dalembert.engine.sampled import Sampling, upcoming_step
from dalembert.engine.sampled_loop import SampledLoop
from dalembert.engine.swept import rest
from dalembert.engine.walking import EQUAL, SINGLE, Pace


class SampledWays:
    """An engine whose runners take the samples of a run."""

    stepwise = True
    settle: Settle | None = None  # done with each sample

    def __init__(self, engine: Engine, sampling: Sampling, cautious: float = 0.0) -> None:
        self.engine, self.sampling, self.chunk = engine, sampling, engine.chunk
        self._cautious = cautious
        if cautious:  # the length of steps, where none may be made beyond a sample before those up to it were looked at
            strides = [max(1, round(s.every / cautious)) for s in sampling.samplers]
            self.chunk = (math.gcd(*strides), math.gcd(*strides))

    @property
    def program(self) -> Layout:
        return self.engine.program

    def start(self, state: Array, par: Array, t: float, h: float, known: Array | None = None) -> Memory:
        """The memory of a run that begins there."""
        return self.engine.start(state, par, t, h, known)

    def runner(self, compile: bool | str, steps: int, pace: Pace = EQUAL) -> Runner:
        """The way to run so many steps; sweeps carry on over many steps, and are not used."""
        return SampledRunner(self.engine.runner(compile, steps, SINGLE), self)

    def careful(self) -> Runner:
        """Newton's iteration with partial pivoting."""
        return SampledRunner(self.engine.careful(), self)

    @property
    def pivots(self) -> Pivots | None:
        """The pivots of all solves, where they are not those of the structure."""
        return self.engine.pivots

    def using(self, pivots: Pivots | None) -> SampledWays:
        """The same with these pivots."""
        return SampledWays(self.engine.using(pivots), self.sampling, self._cautious)

    def repivoted(self) -> SampledWays:
        """The same with pivots that suit the matrices which the pivoted solver met last."""
        return SampledWays(self.engine.repivoted(), self.sampling, self._cautious)

    def step_inputs(self, inputs: Inputs, t0: float, first: int, steps: int, h: float) -> Array:
        """The inputs beside those that controllers set: one row where they are the same for all steps."""
        others = self.sampling.others
        return np.array(self.engine.step_inputs(others, t0, first, 1 if isinstance(others, Constant) else steps, h))


class SampledRunner:
    """Takes the samples that are due where a step begins, and has another runner make the steps up to the next."""

    def __init__(self, inner: Runner, ways: SampledWays) -> None:
        self._inner, self._sampling, self._settle = inner, ways.sampling, ways.engine.settle
        starts = range(0, ways.engine.program.n_u, self._sampling.width)  # the inputs at the nodes of a step, one after another
        self._places = [[(at + c, i) for at in starts for i, c in enumerate(s.columns)] for s in self._sampling.samplers]
        self._loop: SampledLoop | None = None
        if isinstance(inner, Native) and len(self._places) == 1 and self._settle is None:
            self._loop = SampledLoop(inner, self._sampling, self._places[0])

    @property
    def name(self) -> str:
        return f"{self._inner.name}, sampled"

    def run(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """Advance a memory by the steps of a task, up to one that fails, or before which a controller does."""
        if self._sampling.fault is not None:
            raise self._sampling.fault
        if isinstance(self._inner, VirtualMachine):
            return self._inner.run(memory, out, replace(task, feed=self._feed(task, memory.par)))
        return self._loop.run(memory, out, task) if self._loop is not None else self._segments(memory, out, task)

    def _ready(self, t: float, state: Array, par: Array, u: Array) -> bool:
        """Take the samples that are due, and write what is held into the inputs of steps, the last axis of `u`."""
        sampling = self._sampling
        if not sampling.take(t, state):
            return False
        for s, places in zip(sampling.samplers, self._places, strict=True):
            held = s.held(t)
            for place, i in places:
                u[..., place] = held[i]
        if self._settle is not None and sampling.due(t):
            self._settle(state, par, t, u.reshape(-1, u.shape[-1])[0, : sampling.width])
        return True

    def _feed(self, task: Task, par: Array) -> Feed:
        """What the virtual machine calls before each step."""
        t0, h, upcoming, sampling = task.t0, task.h, task.first, self._sampling
        if len(task.inputs) > 1 or len(sampling.samplers) > 1 or self._settle is not None:
            return lambda k, state, u: self._ready(t0 + k * h, state, par, u)
        (sampler,), (places,) = sampling.samplers, self._places
        stride = max(1, round(sampler.every / h))
        if not sampler.due(t0 + upcoming * h):
            upcoming = upcoming_step(sampling, task, upcoming)

        def feed(k: int, state: Array, u: Array) -> bool:
            nonlocal upcoming
            if k >= upcoming:
                try:
                    sampler.take(t0 + k * h, state)
                except BaseException as error:
                    return sampling.fail(error, t0 + k * h)
                upcoming += stride
            elif k > task.first:
                return True
            held = sampler.held(t0 + k * h)
            for place, i in places:
                u[place] = held[i]
            return True

        return feed

    def _segments(self, memory: Memory, out: Records, task: Task) -> Outcome:
        """The steps between samples, one call for each."""
        total = Outcome(0, 0)
        while (done := total.steps) < task.steps:
            k = task.first + done
            end = min(task.steps, upcoming_step(self._sampling, task, k) - task.first)
            rows, part = rest(out, task, done, end)
            part = replace(part, inputs=np.array(part.inputs), look=task.look if not done else k % WEIGH_EVERY == 0)
            if not self._ready(task.t0 + k * task.h, memory.state, memory.par, part.inputs):
                return replace(total, failed=0, size=math.nan)
            outcome = self._inner.run(memory, rows, part)
            total = Outcome(done + outcome.steps, total.iterations + outcome.iterations, outcome.failed, outcome.size)
            if outcome.failed >= 0:
                break
        return total
