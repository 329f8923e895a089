"""Zero crossings along a run: found between steps as these are made, refined to round-off by shortened steps of the method."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import casadi as ca
import numpy as np

from dalembert.engine.dips import candidates, extremum
from dalembert.engine.events import Event, Hits
from dalembert.engine.machine import Records
from dalembert.engine.numbers import Numbers
from dalembert.engine.run import Array, Layout, Stretch, resolution
from dalembert.engine.values import Watched
from dalembert.errors import CompilerError, DalembertError, EventError, ModelError
from dalembert.systems.base import System, scalar
from dalembert.systems.batch import batch, dense
from dalembert.systems.constrained import Constrained
from dalembert.systems.operations import fingerprint

Inside = Callable[[float, Array, float], Records]  # (t, state, h): one row, what a step of length h from there gives
Hit = tuple[float, Array]  # time and state of a crossing
Rows = Callable[[Array, Array], Array]  # (states, times) -> one value for each

EPS = float(np.finfo(float).eps)
THIRD = (3 - 5**0.5) / 2  # of an interval: the golden section
NOISE = 1e-4  # of a depth: what of it is rounding
LOOKS = 40  # inside of a step at most, for a visit to the other side


@dataclass(frozen=True)
class Numeric:
    """An event whose function is one of numbers: of rows of states, and their times."""

    event: Event
    rows: Rows


@dataclass(frozen=True)
class Span:
    """A part of a step at whose ends the values of an event have different signs: offsets from its beginning, and values."""

    a: float
    b: float
    fa: float
    fb: float


class Watch:
    """Looks for the events of a run between states that follow each other."""

    def __init__(
        self, system: System, fields: Mapping[str, slice], events: Sequence[Event], par: Array, numeric: Sequence[Numeric] = ()
    ) -> None:
        self.system, self.par, self._numeric = system, par, list(numeric)
        self.events = [*events, *(n.event for n in numeric)]
        self._fields = {name: fields[name] for name in system.state}
        self._width = max((place.stop for place in fields.values()), default=0)
        self._function, self._slopes = self._build(events)
        self._rated = np.unique(self._slopes.jac_sparsity(0, self._slopes.n_in() - 1).get_col()) if events else np.zeros(0, int)
        self.compiled: Watched | None = None  # the same in C
        self._single: Numbers | None = None  # the same at one point
        self.muted: Collection[int] = ()  # events that are not looked for
        self.depths: Mapping[int, float] = {}  # of events that are met, at the latest, where their values are so far below zero
        self.reset()

    def reset(self) -> None:
        """Forget all that was found."""
        self.hits: list[list[Hit]] = [[] for _ in self.events]
        self.stop: Hit | None = None
        self.fired: list[int] = []  # the events that stopped the run
        self.fault: DalembertError | None = None  # why the search cannot go on
        self._state: Array = np.zeros(0)
        self._states: Array = np.zeros((0, 0))
        self._inside: Inside | None = None
        self._t0: float | None = None  # where the run begins, if that is not yet behind
        self.zeros: Collection[int] = ()  # events that begin on their zero, from where they have just acted

    @property
    def stopped(self) -> bool:
        """Whether an event was met that ends the run, or acts."""
        return self.stop is not None

    def _build(self, events: Sequence[Event]) -> tuple[ca.Function, ca.Function]:
        """All functions, and their rates along the motion: positions move with the velocities, the rest as `rate` says."""
        s = self.system
        own = [getattr(s, name) for name in s.state]
        values = []
        for event in events:
            value = s.of_state(scalar(event.name, s._trace(event.name, event.function, (*s.variables, "t"))))
            if not ca.depends_on(value, ca.vertcat(*own, s.t)):
                raise ModelError(f"{event.name} does not depend on the motion: it cannot be crossed")
            values.append(value)
        g, rate = ca.densify(ca.vertcat(*values)), ca.SX.sym("rate", self._width)
        rates = [rate[self._fields[name]] for name in s.state]
        if isinstance(s, Constrained):
            v = s.v if "v" in s.state else s.role("velocity")
            rates[0] = s.qdot(s.q, v)
        slope = ca.jtimes(g, ca.vertcat(*own), ca.vertcat(*rates)) + ca.jacobian(g, s.t)
        arguments = [*own, s.t, s.par]
        return ca.Function("events", arguments, [g]), ca.Function("slopes", [*arguments, rate], [ca.densify(slope)])

    def compile(self, layout: Layout) -> Watched | None:
        """The functions of all events in C, for runs whose steps are; None where they cannot be written."""
        if self._numeric or self.muted:
            return None
        try:
            self.compiled = self.compiled or Watched(self._function, self._slopes, (*self._fields, "t", "par"), layout)
        except CompilerError:
            self.compiled = None
        return self.compiled

    def spec(self) -> list[object]:
        """Names, options and functions as text, to tell one run from another."""
        return [[[e.name, e.direction, e.terminal] for e in self.events], fingerprint(self._function)]

    # ---- values along a run -----------------------------------------------------------------------------

    def values(self, states: Array, times: Array) -> Array:
        """The functions of all events at states, one row each."""
        parts = [states[:, part] for part in self._fields.values()]
        out = np.empty((len(states), len(self.events)))
        known = len(self.events) - len(self._numeric)
        if known:
            rows = batch(self._function, [*parts, times[:, None], self.par], len(states))[0]
            out[:, :known] = dense(rows, self._function.sparsity_out(0))[:, :, 0]
        for i, numeric in enumerate(self._numeric, known):
            out[:, i] = numeric.rows(states, times)
        out[:, list(self.muted)] = 1.0
        return out

    def rates(self, states: Array, times: Array) -> Array:
        """How states change, from their neighbours, where that is asked for."""
        if not len(self._rated):
            return np.broadcast_to(np.zeros(self._width), (len(states), self._width))
        out = np.zeros((len(states), self._width))
        if len(times) > 1:
            edges: Literal[1, 2] = 2 if len(times) > 2 else 1
            out[:, self._rated] = np.gradient(states[:, self._rated], times, axis=0, edge_order=edges)
        return out

    def slopes(self, states: Array, times: Array, rates: Array) -> Array:
        """The rates of the values; nan where they are not known."""
        out, known = np.full((len(states), len(self.events)), np.nan), len(self.events) - len(self._numeric)
        if known:
            parts = [states[:, part] for part in self._fields.values()]
            rows = batch(self._slopes, [*parts, times[:, None], self.par, rates], len(states))[0]
            out[:, :known] = dense(rows, self._slopes.sparsity_out(0))[:, :, 0]
        return out

    # ---- a run ------------------------------------------------------------------------------------------

    def begin(self, state: Array, inside: Inside, t: float | None = None) -> None:
        """A run begins at a state, or goes on there where no time is given; `inside` makes steps that end between its own."""
        self._state, self._inside, self._t0 = state.copy(), inside, t

    def look(self, stretch: Stretch) -> Stretch:
        """Find the crossings in a stretch of steps; where one stops the run, the stretch that ends there."""
        times, count = stretch.t, len(stretch) + 1
        if len(self._states) < count:
            self._states = np.empty((count, len(self._state)))  # for all stretches: fresh memory costs more than steps
        states = np.concatenate((self._state[None], stretch.rows.state), out=self._states[:count])
        self._state, rates = states[-1].copy(), self.rates(states, times)
        try:
            for part in self._lively(times, states, rates):
                self.search(times[part], states[part], rates[part])
                if self.stop is not None:
                    break
        except DalembertError as error:
            self.fault = error
            if isinstance(error, EventError):
                return stretch.cut(0)
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

    def _lively(self, times: Array, states: Array, rates: Array) -> Iterator[slice]:
        """The states to search: all, or the ends of those steps alone in which a look in C says that something may cross."""
        steps, first = len(times) - 1, 0
        if self.compiled is None or self.zeros or self.muted or self.depths:
            yield slice(0, steps + 1)
            return
        while first < steps:
            quiet = self.compiled.quiet(states[first:], times[first:], self.par, rates[first:])
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

    # ---- the search -------------------------------------------------------------------------------------

    def search(self, times: Array, states: Array, rates: Array | None = None) -> None:
        """Find crossings between states that follow each other, up to one that stops the run.

        Each step has its end, not its beginning, which is the end of the one before. A run that begins on a zero and leaves it
        crosses it there; that does not end the run.
        """
        g = self.values(states, times)
        slopes = self.slopes(states, times, self.rates(states, times) if rates is None else rates)
        bad = ~np.isfinite(g)
        rows = int(np.argmax(bad.any(axis=1))) if bad.any() else len(g)
        if self._t0 is not None:
            g[0, list(self.zeros)] = 0.0
            self._stuck(float(times[0]), g[:rows], slopes)
        located: list[tuple[float, Array, int]] = []
        for k, event in enumerate(self.events):
            for row, visit in self._crossed(k, times[:rows], g[:rows, k], slopes[:rows, k]):
                for span in self._spans(k, row, times, states, g[:, k], slopes[:, k], visit):
                    if event.direction in (0, np.sign(span.fb - span.fa)):
                        located.append((*self._refine(k, times[row], states[row : row + 2], times[row + 1], span), k))
        located.sort(key=lambda hit: hit[0])
        self._record(located)
        self._t0, self.zeros = None, ()
        if self.stop is None and bad.any():
            row, k = np.argwhere(bad)[0]
            raise ModelError(f"{self.events[k].name} is not finite at t = {times[row]:g}")

    def _stuck(self, t: float, g: Array, slopes: Array) -> None:
        """Refuse an event that has acted, and whose value then neither leaves its zero nor crosses it, but falls through it."""
        for k in self.zeros:
            direction = self.events[k].direction
            if k not in self.depths and direction and slopes[0, k] == 0 and len(g) > 1 and g[1, k] * direction > 0:
                raise EventError(
                    f"{self.events[k].name} acted at t = {t:g} and left its value at rest on zero, from where it goes on as if "
                    "nothing had been done; da.stop or da.impact(..., rest=True) hold it there (see error.solution)"
                )

    def _record(self, located: list[tuple[float, Array, int]]) -> None:
        """Note crossings in the order of time, up to one that ends the run or acts; others at the very same time act as well."""
        for t, state, k in located:
            if self.stop is not None and t > self.stop[0] + resolution(t):
                break
            event = self.events[k]
            halts = (event.acts or bool(event.terminal and len(self.hits[k]) + 1 >= event.terminal)) and t != self._t0
            if self.stop is not None and t > self.stop[0] and not halts:
                break
            self.hits[k].append((t, state))
            if halts:
                self.stop = self.stop or (t, state)
                self.fired = [*self.fired, k]

    def _crossed(self, k: int, times: Array, g: Array, slopes: Array) -> Iterator[tuple[int, float]]:
        """Steps in which an event may be crossed, with nan; or with the place where the other side may be visited, if at all."""
        if len(g) < 2:
            return
        a, b, h = g[:-1], g[1:], np.diff(times)
        plain = ((a < 0) & (b >= 0)) | ((a > 0) & (b <= 0))
        zero = (a == 0) & (b != 0)
        zero[1:] &= slopes[1:-1] * b[1:] < 0  # it was crossed at the end of the step before
        zero[0] &= self._t0 is not None or slopes[0] * b[0] < 0
        visits = candidates(h, a, b, slopes[:-1], slopes[1:])
        if k in self.depths:  # what is no more than rounding is not met; where it sinks in, it is
            real = b < -NOISE * self.depths[k]
            plain, zero = plain & real, zero & real
            plain |= (a <= 0) & (a > -self.depths[k]) & (b <= -self.depths[k])
        for row in np.flatnonzero(plain | zero | np.isfinite(visits)):
            yield int(row), float(visits[row])

    def _spans(self, k: int, row: int, times: Array, states: Array, g: Array, slopes: Array, visit: float) -> list[Span]:
        """The parts of a step in which the values change their sign once."""
        a, b, h = float(g[row]), float(g[row + 1]), float(times[row + 1] - times[row])
        at = times[row], states[row], h
        if a < 0 and b < 0 and not np.isfinite(visit):  # it has sunk in, slowly
            return [Span(0.0, 0.0, 1.0, -1.0)]
        if a and not np.isfinite(visit):
            return [Span(0.0, h, a, b)]
        if a:
            found = self._visit(k, *at, visit * h, np.sign(a))
            return [] if found is None else [Span(0.0, found[0], a, found[1]), Span(found[0], h, found[1], b)]
        leaving = float(np.sign(slopes[row])) if np.isfinite(slopes[row]) and slopes[row] else float(np.sign(b))
        begun = self._t0 is not None and row == 0 and k not in self.zeros
        out = [Span(0.0, 0.0, -leaving, leaving)] if begun else []
        if leaving * b < 0:
            x, _ = extremum(*(np.array([v]) for v in (h, a, b, slopes[row], slopes[row + 1])))
            found = self._visit(k, *at, float(x[0]) * h if np.isfinite(x[0]) else h / 2, -leaving)
            out += [] if found is None else [Span(found[0], h, found[1], b)]
        return out

    def _visit(self, k: int, t: float, state: Array, h: float, first: float, side: float) -> tuple[float, float] | None:
        """A place inside a step where the values are not on a given side, and the value there: by the golden section."""

        def value(c: float) -> float:
            return side * self._value(k, self._short(t, state, c).state[0], t + c)

        low, high, x = 0.0, h, first
        fx, below = value(x), -NOISE * self.depths.get(k, 0.0) if side > 0 else 0.0
        for _ in range(LOOKS):
            if fx <= below:
                return x, side * fx
            if high - low <= 1e-7 * h:
                return None
            other = x + THIRD * (high - x) if high - x > x - low else x - THIRD * (x - low)
            f = value(other)
            low, high = (
                (x, high) if f < fx and other > x else (low, x) if f < fx else (low, other) if other > x else (other, high)
            )
            x, fx = (other, f) if f < fx else (x, fx)
        return None

    def _short(self, t: float, state: Array, h: float) -> Records:
        if self._inside is None:
            raise TypeError("begin() comes before the search")
        return self._inside(t, state, h)

    def _value(self, k: int, state: Array, t: float) -> float:
        known = len(self.events) - len(self._numeric)
        if k >= known:
            return float(self._numeric[k - known].rows(state[None], np.array([t]))[0])
        self._single = self._single or Numbers(self._function)
        return float(self._single(*(state[part] for part in self._fields.values()), t, self.par)[0][k, 0])

    def _refine(self, k: int, t: float, states: Array, end: float, span: Span) -> Hit:
        """The crossing inside a part of a step: regula falsi with the Illinois rule, until the bracket is round-off."""
        if span.b == span.a:
            return float(t), states[0].copy()
        h, (a, b, fa, fb), side = end - t, (span.a, span.b, span.fa, span.fb), 0
        whole = span.b == h
        best = abs(fb)
        found = (float(end), states[1].copy()) if whole else (float(t + b), self._short(t, states[0], b).state[0].copy())
        enough = EPS * max(abs(fa), abs(fb))
        for _ in range(60):
            if best <= enough or b - a <= EPS * max(h, abs(t)):
                break
            c = (fa * b - fb * a) / (fa - fb)
            c = c if a < c < b else (a + b) / 2
            state = self._short(t, states[0], c).state[0]
            f = self._value(k, state, t + c)
            if abs(f) < best:
                best, found = abs(f), (float(t + c), state.copy())
            if f * fb > 0:
                b, fb, fa = c, f, fa / 2 if side < 0 else fa
                side = -1
            else:
                a, fa, fb = c, f, fb / 2 if side > 0 else fb
                side = 1
        return found

    # ---- results ----------------------------------------------------------------------------------------

    def results(self) -> dict[str, Hits]:
        """All crossings by the name of their event."""
        out = {}
        for event, hits in zip(self.events, self.hits, strict=True):
            t = np.array([t for t, _ in hits])
            states = np.array([state for _, state in hits]).reshape(len(hits), len(hits[0][1]) if hits else self._width)
            parts = {name: states[:, part] for name, part in self._fields.items()}
            out[event.name] = Hits(t, self.system.completed(parts, t, self.par))
        return out

    def dump(self) -> list[list[list[object]]]:
        """The crossings so far as plain data; `restore` reads them."""
        return [[[t, state.tolist()] for t, state in hits] for hits in self.hits]

    def restore(self, hits: list[list[tuple[float, list[float]]]]) -> None:
        """Begin with the crossings of an earlier part of the same run."""
        self.hits = [[(t, np.array(state)) for t, state in found] for found in hits]
