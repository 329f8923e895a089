"""Controllers in a run: samples are taken where steps begin, and what they give is held over the steps up to the next.

A sample is taken once. Steps that are tried again, shortened, or made by another way find what was held then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dalembert.checking import shown
from dalembert.engine.control_laws import Law
from dalembert.engine.controllers import Array, Sampled, Samples
from dalembert.engine.inputs import Columns, Constant, Held, Inputs
from dalembert.engine.machine import Call, Task, bind
from dalembert.engine.run import Grid, Layout
from dalembert.errors import DalembertError, MethodError, ModelError, suggest
from dalembert.systems import plain
from dalembert.systems.base import System

NEAR = 1e-6  # of the time between samples: a step that begins so close to one begins there
AGREES = 1e-9  # of a step: by how much a multiple of it may be off the time between samples

Controllers = list[tuple[list[int], Sampled]]  # columns of the inputs, and who sets them


def split(system: System, u: object) -> tuple[object, Controllers]:
    """Inputs as they were given, and the controllers among them."""
    if isinstance(u, Sampled):
        if not system.nu:
            raise MethodError(f"{system.name!r} has no inputs, but u was given; declare them with inputs=...")
        return None, [(list(range(system.nu)), u)]
    if not isinstance(u, Mapping):
        return u, []
    rest = {key: value for key, value in u.items() if not isinstance(value, Sampled)}
    found: Controllers = []
    for key, value in u.items():
        names = key if isinstance(key, tuple) else (key,)
        for name in names if isinstance(value, Sampled) else ():
            if name not in system.ports or any(system.ports.index(name) in columns for columns, _ in found) or name in rest:
                why = "twice" if name in system.ports else suggest(str(name), system.ports)
                raise MethodError(f"u names an input {shown(name)} of {system.name!r} {why}")
        if isinstance(value, Sampled):
            found.append(([system.ports.index(name) for name in names], value))
    return rest or None, found


class Sampler:
    """One controller: what it measures, what it has held so far, and its state."""

    def __init__(
        self, system: System, layout: Layout, columns: list[int], given: Sampled, par: Array, span: tuple[float, float],
        alone: bool = False,
    ) -> None:  # fmt: skip
        self.columns, self.given, (self.t0, t_end), self.every = columns, given, span, given.every
        self.name = ", ".join(system.ports[i] for i in columns)
        self.wanted = given.arguments(system.parameters)
        own = np.zeros(0) if given.state is None else np.asarray(given.state, dtype=float)
        self.own, self._shape = own.ravel().copy(), own.shape
        law = Law(system, layout, given, self.wanted, own.shape, len(columns))
        function = law.function(alone)
        self.traced, measured = function.n_out() > 1, function.numel_out(0)
        self._x, self._t, self.par, self.hold = np.zeros(layout.n_state), np.zeros(1), par, np.zeros(len(columns))
        self._measured, self._after = np.zeros(measured), np.zeros(self.hold.size + self.own.size)
        self.constants: dict[str, object] = {name: x for name, x in system.unpack(par).items() if name in self.wanted}
        self._makers = self.makers()
        if self.traced:
            known, found = [self._x, self.own, self.hold, self._t, par], [self._measured, self._after]
        else:
            known, found = [self._x, self._t, par], [self._measured]
        self._evaluate, self._kept = bind(function, known, found)
        rows = int((t_end - self.t0) / self.every + NEAR) + 1
        self.count, sizes = 0, (measured, len(columns), own.size)
        self.log = Samples(np.zeros(rows), *(np.zeros((rows, n)) for n in sizes))

    def resume(self, before: Sampler) -> None:
        """Go on from where another stands, of the same controller on an earlier part of the run."""
        self.count, self.log = before.count, before.log
        self.own[:], self.hold[:] = before.own, before.hold

    def number(self, t: float) -> int:
        """The number of the last sample up to a time."""
        return int((t - self.t0) / self.every + NEAR)

    def due(self, t: float) -> bool:
        """Whether there is a sample at a time."""
        return abs(t - self.t0 - self.number(t) * self.every) <= NEAR * self.every

    def after(self, t: float) -> float:
        """The time of the next sample."""
        return self.t0 + (self.number(t) + 1) * self.every

    def held(self, t: float) -> Array:
        """What is held at a time: zero before the first sample."""
        number = self.number(t)
        return self.hold if number >= self.count - 1 else self.log.u[number]

    def take(self, t: float, state: Array) -> None:
        """The sample at a time, unless it was taken."""
        number, log = self.number(t), self.log
        if number < self.count:
            return
        self._x[:], self._t[0] = state, t
        self._evaluate()
        log.t[number], log.y[number], log.state[number] = t, self._measured, self.own
        if not self.traced:
            self._call()
        elif all(map(math.isfinite, self._after.tolist())):
            self.hold[:], self.own[:] = self._after[: self.hold.size], self._after[self.hold.size :]
        else:
            self.refuse()
        log.u[number] = self.hold
        self.count = number + 1

    def makers(self) -> dict[str, Callable[[], Array]]:
        """What makes each argument that is an array of a sample: copies, since the controller may change or keep them."""
        found = {"y": self._measured, "u": self.hold, "state": self.own.reshape(self._shape)}
        return {name: a.copy for name, a in found.items() if name in self.wanted}

    @property
    def measuring(self) -> tuple[Call, Array, Array, Array, Array]:
        """What measures, of a state and a time; where the measured is, and what a traced controller returns."""
        return self._evaluate, self._x, self._t, self._measured, self._after

    def _call(self) -> None:
        """Ask the user's function."""
        values = {**self.constants, **{name: make() for name, make in self._makers.items()}, "t": float(self._t[0])}
        self.accept(self.given.controller(*[values[name] for name in self.wanted]))

    def refuse(self) -> None:
        """What a traced controller returns is not finite: an error, unless the function itself knows better."""
        if not self.given.traced:
            self._call()
            return
        u, own = self._after[: self.hold.size], self._after[self.hold.size :]
        raise ModelError(
            f"the controller of {self.name!r} returns {u} at t = {self._t[0]:g}, and {own} as its state: both must be finite "
            f"(it measured {self._measured})"
        )

    def accept(self, result: object) -> None:
        """Take over what the controller returned."""
        u, t = result, float(self._t[0])
        if self.given.state is not None:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise ModelError(
                    f"the controller of {self.name!r} has a state: it must return the pair (u, state), not {shown(result)}"
                )
            u, own = result
            self._put(self.own, "state", own, t)
        if isinstance(u, float) and len(self.hold) == 1 and math.isfinite(u):
            self.hold[0] = u
        else:
            self._put(self.hold, "u", u, t)

    def _put(self, place: Array, what: str, value: object, t: float) -> None:
        """Numbers that the controller returned; refused where there are too many or too few, or some are not finite."""
        try:
            out = np.array(value, dtype=float).ravel()
        except (TypeError, ValueError) as error:
            raise ModelError(f"the controller of {self.name!r} must return numbers as {what}, not {shown(value)}") from error
        if out.size != place.size:
            raise ModelError(
                f"the controller of {self.name!r} must return {place.size} numbers as {what}, not {out.size}: {shown(value)}"
            )
        place[:] = out
        if not all(map(math.isfinite, out.tolist())):
            raise ModelError(
                f"the controller of {self.name!r} returns {what} = {out} at t = {t:g} (it measured {self._measured})"
            )

    def before(self, end: float) -> int:
        """The number of samples that were taken before a time."""
        return min(self.count, max(0, math.ceil((end - self.t0) / self.every - NEAR)))

    def results(self, end: float) -> Samples:
        """The samples before a time; the first one in any case."""
        return self.part(0, max(self.before(end), min(1, self.count)))

    def part(self, first: int, end: int) -> Samples:
        """The samples of these numbers."""
        return Samples(*(a[first:end].copy() for a in vars(self.log).values()))

    def described(self) -> dict[str, object]:
        """Names and sizes, as plain data."""
        return {"name": self.name, "sizes": [a.shape[1] for a in (self.log.y, self.log.u, self.log.state)]}

    def standing(self, now: float) -> dict[str, object]:
        """Where the controller stood at a time, as plain data: samples that were taken from then on do not count."""
        count = self.before(now)
        own = self.log.state[count] if count < self.count else self.own
        hold = self.log.u[count - 1] if count else np.zeros_like(self.hold)
        return {"count": count, "own": own.tolist(), "hold": hold.tolist()}

    def restore(self, stand: object, samples: Samples) -> None:
        """Go on from there, after these samples."""
        count = plain.size(plain.get(stand, "count", int), "count", 0, len(samples))
        for mine, found in zip(vars(self.log).values(), vars(samples).values(), strict=True):
            mine[:count] = found[:count] if count else mine[:0]
        self.own[:] = plain.array(plain.get(stand, "own", list), "own", self.own.shape)
        self.hold[:] = plain.array(plain.get(stand, "hold", list), "hold", self.hold.shape)
        self.count = count


class Sampling(Inputs):
    """The inputs of a run with controllers: what they hold, beside `others`."""

    def __init__(self, others: Inputs, samplers: Sequence[Sampler], width: int) -> None:
        self.others, self.samplers, self.width = others, list(samplers), width
        self.fault: BaseException | None = None  # why no more samples can be taken

    def __call__(self, t: Array) -> Array:
        return self._rows(self.others(t), t)

    def within(self, t: Array, begin: Array, end: Array) -> Array:
        return self._rows(self.others.within(t, begin, end), np.broadcast_to((begin + end) / 2, t.shape))

    def _rows(self, rows: Array, times: Array) -> Array:
        out = np.array(rows)
        for s in self.samplers:
            out[:, s.columns] = [s.held(float(t)) for t in times]
        return out

    def next_jump(self, t: float, end: float) -> float:
        after = min(s.after(t) for s in self.samplers)
        return self.others.next_jump(t, after if after < end - NEAR * min(s.every for s in self.samplers) else end)

    def take(self, t: float, state: Array) -> bool:
        """Take the samples that are due; False where a controller fails."""
        try:
            for s in self.samplers:
                s.take(t, state)
        except BaseException as error:
            return self.fail(error, t)
        return True

    def fail(self, error: BaseException, t: float) -> bool:
        """Keep why a controller failed: the steps before are recorded first, then it is raised."""
        ours = isinstance(error, (DalembertError, KeyboardInterrupt))
        self.fault = error if ours else ModelError(f"the controller failed at t = {t:g}: {type(error).__name__}: {error}")
        self.fault.__cause__ = None if ours else error
        return False

    def due(self, t: float) -> bool:
        """Whether a controller is called at a time."""
        return any(s.due(t) for s in self.samplers)

    def after(self, t: float) -> float:
        """When a controller is called next."""
        return min(s.after(t) for s in self.samplers)

    def standing(self, now: float) -> list[dict[str, object]]:
        """Where all controllers stood at a time, as plain data."""
        return [s.standing(now) for s in self.samplers]

    def restore(self, stands: object, samples: Mapping[str, Samples]) -> None:
        """Have all controllers go on from there."""
        for s, stand in zip(self.samplers, plain.of(stands, "controllers", list), strict=True):
            s.restore(stand, samples[s.name])

    @property
    def set(self) -> list[int]:
        """The columns that controllers set."""
        return [i for s in self.samplers for i in s.columns]

    @property
    def ways(self) -> str:
        """Which controllers are traced and which are called, in words."""
        return ", ".join(f"{s.name} {'traced' if s.traced else 'called'}" for s in self.samplers)

    def results(self, end: float) -> dict[str, Samples]:
        """The samples of all controllers, by the names of the inputs that they set."""
        return {s.name: s.results(end) for s in self.samplers}

    def frozen(self, end: float) -> Inputs:
        """The inputs of a run that has ended: samples like any others."""
        parts = [(s.columns, Held(r.t, r.u)) for s in self.samplers if len(r := s.results(end))]
        if isinstance(self.others, Constant) and len(parts) == 1:
            columns, held = parts[0]
            values = np.repeat(self.others.values[None], len(held.times), axis=0)
            values[:, columns] = held.values
            return Held(held.times, values)
        return Columns([(list(range(self.width)), self.others), *parts], self.width)


def check(controllers: Controllers, grid: Grid, varying: bool) -> None:
    """Refuse samples between which equal steps do not end."""
    for _, given in controllers:
        ratio = given.every / grid.h
        if not varying and (ratio < 1 - AGREES or abs(ratio - round(ratio)) > AGREES * max(1.0, ratio)):
            fits = given.every / max(1, math.ceil(ratio - AGREES))
            raise MethodError(
                f"a controller is called every {given.every:g}, which is {ratio:.6g} steps of {grid.h:g}: equal steps must end "
                f"at its samples; use step={fits:.9g}, or adaptive=True, whose steps end there"
            )


def upcoming_step(sampling: Sampling, task: Task, k: int) -> int:
    """The number of the first step of a task after step `k` that begins at a sample."""
    return math.ceil((sampling.after(task.t0 + k * task.h) - task.t0) / task.h - NEAR)
