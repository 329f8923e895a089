"""Zero crossings along a run: found between steps as these are made, refined to round-off by shortened steps of the method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dalembert.checking import flag, listed, shown, text, whole
from dalembert.engine.machine import Records
from dalembert.engine.run import Array, Layout, Stretch, resolution
from dalembert.engine.values import Values
from dalembert.errors import CompilerError, DalembertError, MethodError, ModelError, strict
from dalembert.named import Named
from dalembert.systems.base import System, scalar
from dalembert.systems.batch import batch, dense
from dalembert.systems.operations import fingerprint

Inside = Callable[[float, Array, float], Records]  # (t, state, h): one row, what a step of length h from there gives
Hit = tuple[float, Array]  # time and state of a crossing

EPS = float(np.finfo(float).eps)


@strict
@dataclass(frozen=True)
class Event:
    """A function of `q`, `v`, `p` (or `x`; or `y`, `z`), `t` and parameters whose zeros are looked for.

    `direction` is +1 for crossings from below, -1 from above, 0 for both. A terminal event ends the run there.
    """

    function: Callable[..., object]
    direction: int = 0
    terminal: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise MethodError(f"an event is a function of q, v, t and parameters, not {shown(self.function)}")
        if whole("direction", self.direction, least=-1) > 1:
            raise MethodError(f"direction must be 1 (from below), -1 (from above) or 0 (both), not {self.direction!r}")
        flag("terminal", self.terminal)
        text("name", self.name)


@dataclass(frozen=True)
class Hits(Named):
    """The crossings of one event: times, and the motion there by the names of its parts."""

    t: Array
    values: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.t)


def make(events: object) -> list[Event]:
    """Events from what `simulate` was given: one or several, functions or `Event` objects, with names of their own."""
    if isinstance(events, Mapping):  # as `sol.events` has them
        ready = {k: e if isinstance(e, Event) else Event(e) for k, e in events.items()}
        events = [Event(e.function, e.direction, e.terminal, str(k)) for k, e in ready.items()]
    if callable(events) or isinstance(events, Event):
        events = [events]
    elif events is None:
        events = ()
    expected = "a function, an Event, or several of them"
    given: Sequence[Event | Callable[..., object]] = listed("events", events, MethodError, expected)  # type: ignore[arg-type]
    out = []
    for i, event in enumerate(given, 1):
        one = event if isinstance(event, Event) else Event(event)
        name = one.name or getattr(one.function, "__name__", "").replace("<lambda>", "") or f"event {i}"
        out.append(Event(one.function, one.direction, one.terminal, name))
    names = [e.name for e in out]
    if len(set(names)) < len(names):
        raise MethodError(f"two events are called {max(names, key=names.count)!r}; give them names, da.Event(f, name=...)")
    return out


class Watch:
    """Looks for the events of a run between states that follow each other."""

    def __init__(self, system: System, fields: Mapping[str, slice], events: list[Event], par: Array) -> None:
        self.system, self.events, self.par = system, events, par
        self._fields = {name: fields[name] for name in system.state}
        self.hits: list[list[Hit]] = [[] for _ in events]
        self.stop: Hit | None = None
        self.fault: DalembertError | None = None  # why the search cannot go on
        self._function = self._build()
        self.compiled: Values | None = None  # the same in C
        self._state: Array = np.zeros(0)
        self._inside: Inside | None = None
        self._t0: float | None = None  # where the run begins, if that is not yet behind

    @property
    def stopped(self) -> bool:
        """Whether a terminal event was met."""
        return self.stop is not None

    def _build(self) -> ca.Function:
        s = self.system
        values = []
        for event in self.events:
            value = s.of_state(scalar(event.name, s._trace(event.name, event.function, (*s.variables, "t"))))
            if not ca.depends_on(value, ca.vertcat(*(getattr(s, name) for name in s.state), s.t)):
                raise ModelError(f"{event.name} does not depend on the motion: it cannot be crossed")
            values.append(value)
        return ca.Function("events", [*(getattr(s, name) for name in s.state), s.t, s.par], [ca.densify(ca.vertcat(*values))])

    def compile(self, layout: Layout) -> Values | None:
        """The functions of all events in C, for runs whose steps are; None where they cannot be written."""
        try:
            self.compiled = Values(self._function, (*self._fields, "t", "par"), layout)
        except CompilerError:
            self.compiled = None
        return self.compiled

    def spec(self) -> list[object]:
        """Names, options and functions as text, to tell one run from another."""
        return [[[e.name, e.direction, e.terminal] for e in self.events], fingerprint(self._function)]

    def values(self, states: Array, times: Array) -> Array:
        """The functions of all events at states, one row each."""
        parts = [states[:, part] for part in self._fields.values()]
        rows = batch(self._function, [*parts, times[:, None], self.par], len(states))[0]
        return np.asarray(dense(rows, self._function.sparsity_out(0))[:, :, 0])

    def begin(self, state: Array, inside: Inside, t: float | None = None) -> None:
        """A run begins at a state, or goes on there where no time is given; `inside` makes steps that end between its own."""
        self._state, self._inside, self._t0 = state.copy(), inside, t

    def look(self, stretch: Stretch) -> Stretch:
        """Find the crossings in a stretch of steps; where one is terminal, the stretch that ends there."""
        times, states = stretch.t, np.vstack([self._state, stretch.rows.state])
        self._state = states[-1].copy()
        try:
            for part in self._lively(times, states):
                self.search(times[part], states[part])
                if self.stop is not None:
                    break
        except DalembertError as error:
            self.fault = error
        if self.stop is None:
            return stretch
        t, state = self.stop
        keep = int(np.searchsorted(times[1:], t - 2 * EPS * abs(t)))
        begin, whole = times[keep], stretch.cut(keep)
        if t - begin <= 2 * EPS * abs(t):  # where the stretch begins, up to rounding
            return whole
        last, r = self._short(begin, states[keep], t - begin), whole.rows
        rows = Records(np.vstack([r.state, state]), np.vstack([r.lam, last.lam]), np.vstack([r.work, last.work]))
        return Stretch(np.append(whole.t, t), rows)

    def _lively(self, times: Array, states: Array) -> Iterator[slice]:
        """The states to search: all, or the ends of those steps alone in which the signs in C say that something may cross."""
        steps, first = len(times) - 1, 0
        if self.compiled is None:
            yield slice(0, steps + 1)
            return
        while first < steps:
            quiet = self.compiled.quiet(states[first:], times[first:], self.par)
            first += quiet
            if quiet:
                self._t0 = None  # what a run begins with is behind
            if first < steps:
                yield slice(first, first + 2)
            first += 1

    def forget(self, t: float) -> None:
        """Steps after `t` were not recorded: drop the crossings in them."""
        t += resolution(t)  # a crossing at the end of a step may be off by rounding
        self.hits = [[hit for hit in found if hit[0] <= t] for found in self.hits]
        self.stop = None if self.stop is not None and self.stop[0] > t else self.stop

    def search(self, times: Array, states: Array) -> None:
        """Find crossings between states that follow each other, up to a terminal one.

        Each step has its end, not its beginning, which is the end of the one before. A run that begins on a zero and leaves it
        crosses it there; that does not end the run.
        """
        g = self.values(states, times)
        bad = ~np.isfinite(g)
        g = g[: np.argmax(bad.any(axis=1))] if bad.any() else g
        up, down = (g[:-1] < 0) & (g[1:] >= 0), (g[:-1] > 0) & (g[1:] <= 0)
        if self._t0 is not None and len(g) > 1:
            up[0], down[0] = up[0] | (g[0] == 0) & (g[1] > 0), down[0] | (g[0] == 0) & (g[1] < 0)
        located: list[tuple[float, Array, int]] = []
        for k, event in enumerate(self.events):
            crossed = up[:, k] if event.direction > 0 else down[:, k] if event.direction < 0 else up[:, k] | down[:, k]
            for row in np.flatnonzero(crossed):
                ends = (times[row], times[row + 1]), (states[row], states[row + 1]), (g[row, k], g[row + 1, k])
                located.append((*self._refine(k, *ends), k))
        located.sort(key=lambda hit: hit[0])
        ending = [(t, state) for t, state, k in located if self.events[k].terminal and t != self._t0]
        self.stop = ending[0] if ending else None
        for t, state, k in located:
            if self.stop is None or t <= self.stop[0]:
                self.hits[k].append((t, state))
        self._t0 = None
        if self.stop is None and bad.any():
            row, k = np.argwhere(bad)[0]
            raise ModelError(f"{self.events[k].name} is not finite at t = {times[row]:g}")

    def _short(self, t: float, state: Array, h: float) -> Records:
        if self._inside is None:
            raise TypeError("begin() comes before the search")
        return self._inside(t, state, h)

    def _value(self, k: int, state: Array, t: float) -> float:
        return float(self._function(*(state[part] for part in self._fields.values()), t, self.par)[k])

    def _refine(self, k: int, t: tuple[float, float], states: tuple[Array, Array], g: tuple[float, float]) -> Hit:
        """The crossing inside a step, by times, states and values at its ends.

        Regula falsi with the Illinois rule, until the bracket is round-off.
        """
        if g[0] == 0:
            return float(t[0]), states[0].copy()
        h = t[1] - t[0]
        a, fa, b, fb, side = 0.0, g[0], h, g[1], 0
        best, found = abs(g[1]), (float(t[1]), states[1].copy())
        enough = EPS * max(abs(g[0]), abs(g[1]))
        for _ in range(60):
            if best <= enough or b - a <= EPS * max(h, abs(t[0])):
                break
            c = (fa * b - fb * a) / (fa - fb)
            c = c if a < c < b else (a + b) / 2
            state = self._short(t[0], states[0], c).state[0]
            f = self._value(k, state, t[0] + c)
            if abs(f) < best:
                best, found = abs(f), (float(t[0] + c), state.copy())
            if f * fb > 0:
                b, fb, fa = c, f, fa / 2 if side < 0 else fa
                side = -1
            else:
                a, fa, fb = c, f, fb / 2 if side > 0 else fb
                side = 1
        return found

    def results(self) -> dict[str, Hits]:
        """All crossings by the name of their event."""
        out = {}
        for event, hits in zip(self.events, self.hits, strict=True):
            t = np.array([t for t, _ in hits])
            states = np.array([state for _, state in hits]).reshape(len(hits), len(self._state))
            parts = {name: states[:, part] for name, part in self._fields.items()}
            out[event.name] = Hits(t, self.system.completed(parts, t, self.par))
        return out

    def dump(self) -> list[list[list[object]]]:
        """The crossings so far as plain data; `restore` reads them."""
        return [[[t, state.tolist()] for t, state in hits] for hits in self.hits]

    def restore(self, hits: list[list[tuple[float, list[float]]]]) -> None:
        """Begin with the crossings of an earlier part of the same run."""
        self.hits = [[(t, np.array(state)) for t, state in found] for found in hits]
