"""Inputs as functions of time, with the limits that a step sees where they jump."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import shown
from dalembert.engine.controllers import Sampled
from dalembert.errors import InconsistentState, MethodError, suggest
from dalembert.systems.base import System

Array = NDArray[np.float64]

NEAR = 1e-9  # of a step: a jump this close to one of its ends is there
ROUNDED = 1e-12  # of a time: what counting and adding up times may leave
NONE = np.zeros(0)


def slack(begin: Array | float, end: Array | float) -> Array:
    """How far from the ends of a step a jump still is at its ends."""
    h = np.abs(np.subtract(end, begin))
    close = NEAR * h + ROUNDED * np.maximum(np.abs(begin), np.abs(end))
    return np.asarray(np.minimum(close, h / 4), dtype=np.float64)


class Inputs:
    """Rows of inputs at given times: of a function without jumps, of a constant, or none at all.

    `jumps` are the times at which values change at once; steps end there. `plain` says whether they are numbers alone, which can
    be written and compared, and no function of the user's.
    """

    jumps: Array = NONE
    plain: bool = False

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self._function = function

    def __call__(self, t: Array) -> Array:
        return self._function(t)

    def within(self, t: Array, begin: Array, end: Array) -> Array:
        """At times of steps that go from `begin` to `end`: limits from inside, also at times that lie outside."""
        return self(t)

    def next_jump(self, t: float, end: float) -> float:
        """The next jump after `t`, `end` where there is none before it."""
        return end

    def split(self, begin: float, end: float) -> list[tuple[float, float]]:
        """An interval in parts without jumps."""
        cuts = [begin]
        while (cut := self.next_jump(cuts[-1], end)) < end:
            cuts.append(cut)
        return list(zip(cuts, [*cuts[1:], end], strict=True))


class Constant(Inputs):
    """The same inputs at all times."""

    plain = True

    def __init__(self, values: Array) -> None:
        self.values = values

    def __call__(self, t: Array) -> Array:
        return self.values[None].repeat(len(t), axis=0)


class Linear(Inputs):
    """Inputs of which no more is known than rows: linear in between."""

    plain = True

    def __init__(self, times: Array, values: Array) -> None:
        self.times, self.values = times, values

    def __call__(self, t: Array) -> Array:
        columns = [np.interp(t, self.times, column) for column in self.values.T]
        return np.array(columns, dtype=np.float64).T.reshape(len(t), self.values.shape[1])


class Held(Inputs):
    """Samples: each value holds from its time on, the first one also before it."""

    plain = True

    def __init__(self, times: Array, values: Array) -> None:
        self.times, self.values = times, values
        changes = np.flatnonzero((np.diff(values, axis=0) != 0).any(axis=1)) + 1
        self.jumps = times[changes]

    def __call__(self, t: Array) -> Array:
        return self._rows(t + ROUNDED * np.abs(t))

    def _rows(self, t: Array) -> Array:
        return self.values[np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 1)]

    def within(self, t: Array, begin: Array, end: Array) -> Array:
        margin = slack(begin, end)
        return self._rows(np.clip(t, begin + margin, end - margin))

    def next_jump(self, t: float, end: float) -> float:
        close = ROUNDED * max(abs(t), abs(end))
        after = int(np.searchsorted(self.jumps, t + close, side="right"))
        jump = float(self.jumps[after]) if after < len(self.jumps) else np.inf
        return jump if jump < end - close else end


class Columns(Inputs):
    """Inputs of several kinds side by side: each has some of the columns."""

    def __init__(self, parts: Sequence[tuple[list[int], Inputs]], width: int) -> None:
        self.parts, self.width = list(parts), width
        self.plain = all(part.plain for _, part in self.parts)
        self.jumps = np.unique(np.concatenate([NONE, *(part.jumps for _, part in self.parts)]))

    def _side_by_side(self, t: Array, rows: Callable[[Inputs], Array]) -> Array:
        out = np.zeros((len(t), self.width))
        for columns, part in self.parts:
            out[:, columns] = rows(part)
        return out

    def __call__(self, t: Array) -> Array:
        return self._side_by_side(t, lambda part: part(t))

    def within(self, t: Array, begin: Array, end: Array) -> Array:
        return self._side_by_side(t, lambda part: part.within(t, begin, end))

    def next_jump(self, t: float, end: float) -> float:
        return min((part.next_jump(t, end) for _, part in self.parts), default=end)


def joined(parts: Sequence[tuple[list[int], Inputs]], width: int) -> Inputs:
    """Inputs side by side; constants and samples alone make samples again, which need no function to be called."""
    whole = Columns(parts, width)
    kinds = {type(part) for _, part in parts}
    if kinds <= {Constant}:
        return Constant(whole(np.zeros(1))[0])
    if kinds <= {Constant, Held}:
        times = np.unique(np.concatenate([part.times for _, part in parts if isinstance(part, Held)]))
        exact = Columns([(columns, _Exact(part)) for columns, part in parts], width)
        return Held(times, exact(times))
    return whole


class _Exact(Inputs):
    """The values of samples at their very times."""

    def __init__(self, part: Inputs) -> None:
        super().__init__(part._rows if isinstance(part, Held) else part)


def off_grid(inputs: Inputs, t0: float, h: float, t_end: float) -> Array:
    """The jumps that lie inside of equal steps `t0 + k h`, the last of which ends at `t_end`."""
    if not len(inputs.jumps):
        return NONE
    jumps = inputs.jumps[(inputs.jumps > t0) & (inputs.jumps < t_end)]
    nearest = t0 + np.round((jumps - t0) / h) * h
    near = np.minimum(np.abs(jumps - nearest), t_end - jumps)
    return np.asarray(jumps[near > slack(jumps, jumps + h)], dtype=np.float64)


def inputs_of(system: System, u: object, t0: float) -> Inputs:
    """Inputs as they were given, checked at the start."""
    nu = system.nu
    if u is None:
        return Constant(np.zeros(nu))
    if not nu:
        raise MethodError(f"{system.name!r} has no inputs, but u was given; declare them with inputs=...")
    if isinstance(u, Mapping):
        return joined([(c, _of(len(c), f"{system.name!r}, input {k!r}", v, t0)) for k, c, v in _by_name(system, u)], nu)
    return _of(nu, repr(system.name), u, t0)


def _by_name(system: System, u: Mapping[object, object]) -> Iterator[tuple[object, list[int], object]]:
    """Key, columns and value of each entry; a key is the name of an input, or a tuple of them."""
    ports, seen = system.ports, set[str]()
    for key, value in u.items():
        names = key if isinstance(key, tuple) else (key,)
        for name in names:
            if not isinstance(name, str) or name not in ports:
                raise MethodError(f"{system.name!r} has no input {shown(name)}{suggest(str(name), ports)}")
            if name in seen:
                raise MethodError(f"u has the input {name!r} twice")
            seen.add(name)
        yield key, [ports.index(name) for name in names], value


def _of(nu: int, whose: str, u: object, t0: float) -> Inputs:
    """A constant, a function of time, or samples, for so many inputs."""
    if isinstance(u, Sampled):
        raise MethodError(
            "da.Sampled, a controller that looks at a run, goes with da.simulate, da.ensemble and da.sweep only; where inputs as "
            "they were will do, give its samples: u=(samples.t, samples.u) of sol.samples"
        )
    if isinstance(u, tuple) and len(u) == 2 and np.ndim(u[0]) == 1:
        return _held(nu, *u)

    def rows(t: Array) -> Array:
        assert callable(u)
        return np.array([np.atleast_1d(u(float(s))) for s in t], dtype=float).reshape(len(t), nu)

    try:
        inputs = Inputs(rows) if callable(u) else Constant(np.array(u, dtype=float).reshape(nu))
        first = inputs(np.array([t0]))
    except Exception as error:
        if callable(u) and isinstance(error, TypeError) and "argument" in str(error):
            raise InconsistentState(
                f"u is a function of t alone ({error}); what depends on the motion is a controller, da.Sampled(law, every=...), "
                "or belongs to the model: force=... of da.Mechanical, feedback=... of da.PortHamiltonian"
            ) from error
        raise InconsistentState(
            f"u must give {nu} numbers for {whose} (a constant or a function of t): {type(error).__name__}: {error}"
        ) from error
    if not np.isfinite(first).all():
        raise InconsistentState(f"u is not finite at t = {t0:g}: {first[0]}")
    return inputs


def _held(nu: int, times: ArrayLike, values: ArrayLike) -> Held:
    """Sampled inputs, their shapes checked."""
    try:
        t, u = np.array(times, dtype=float), np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InconsistentState(f"u=(times, values) needs numbers, one row of values for each time: {error}") from error
    if not len(t) or not np.isfinite(t).all():
        raise InconsistentState(f"u=(times, values) needs at least one time, and finite ones, not {times!r}")
    u = u[:, None] if u.ndim == 1 else u
    if u.ndim != 2 or len(u) != len(t):
        raise InconsistentState(f"u=(times, values) needs one row of values for each time: {len(t)} times, values {u.shape}")
    if u.shape[1] != nu or not np.isfinite(u).all() or not (np.diff(t) > 0).all():
        raise InconsistentState(f"u=(times, values) needs increasing times and {nu} finite values for each, not {u.shape}")
    return Held(t, u)


def limits(inputs: Inputs, t: Array) -> Array:
    """The inputs at the rows of a run: where they jump, what they were up to then, as all else that a row holds."""
    if not len(inputs.jumps):
        return inputs(t)
    first = t[1] if len(t) > 1 else t[0] + 1.0  # the first row is the beginning of a step
    return inputs.within(t, np.append(t[:1], t[:-1]), np.append(first, t[1:]))
