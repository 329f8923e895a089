"""Zero crossings along a run: found between steps, refined to round-off by shortened steps of the method itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine.driver import Engine, Inputs, Run, step_inputs
from dalembert.engine.machine import Memory, Records
from dalembert.engine.newton import Rule
from dalembert.errors import MethodError, ModelError
from dalembert.systems.base import scalar
from dalembert.systems.batch import batch, dense

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Event:
    """A function of `q`, `v`, `p`, `t` and parameters whose zeros are looked for.

    `direction` is +1 for crossings from below, -1 from above, 0 for both. A terminal event ends the run there.
    """

    function: Callable[..., Any]
    direction: int = 0
    terminal: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise MethodError(f"an event is a function of q, v, t and parameters, not {self.function!r}")
        if self.direction not in (-1, 0, 1):
            raise MethodError(f"direction must be 1 (from below), -1 (from above) or 0 (both), not {self.direction!r}")


@dataclass(frozen=True)
class Hits:
    """The crossings of one event: times, and the motion there."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    p: np.ndarray

    def __len__(self) -> int:
        return len(self.t)


def make(events: Any) -> list[Event]:
    """Events from what `simulate` was given: one or several, functions or `Event` objects, with names of their own."""
    if isinstance(events, Mapping):  # as `sol.events` has them
        ready = {k: e if isinstance(e, Event) else Event(e) for k, e in events.items()}
        events = [Event(e.function, e.direction, e.terminal, str(k)) for k, e in ready.items()]
    given: Sequence[Any] = [events] if callable(events) or isinstance(events, Event) else list(events or ())
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

    def __init__(
        self,
        system: Any,
        engine: Engine,
        events: list[Event],
        par: np.ndarray,
        inputs: Inputs,
        rule: Rule,
        start: tuple[float, np.ndarray],
        runner: Any = None,
    ) -> None:
        self.system, self.program, self.events, self.par = system, engine.program, events, par
        self.inputs, self.rule, self.engine = inputs, rule, engine
        self.runner = runner or engine.machine()
        self.hits: list[list[tuple[float, np.ndarray]]] = [[] for _ in events]
        self.stop: tuple[float, np.ndarray] | None = None
        self._function = self._build()
        self._seen, self._last = 0, (start[0], start[1].copy())
        program = self.program
        self._row = Records.empty(program, 1, False)
        self._memory = Memory(np.zeros(program.n_state), np.zeros(program.n_unknowns), np.zeros(program.n_unknowns), par)

    def _build(self) -> ca.Function:
        s = self.system
        values = []
        for event in self.events:
            value = scalar(event.name, s._trace(event.name, event.function, ("q", "v", "p", "x", "y", "z", "t")))
            if s.kind not in ("dae", "port-hamiltonian"):
                if s.momenta == "v":
                    value = ca.substitute(value, s.p, s.expression("mass") @ s.v)
                else:
                    value = ca.substitute(value, s.v, s.role("velocity"))
            if not ca.depends_on(value, ca.vertcat(s.q, s.v, s.p, s.t)):
                raise ModelError(f"{event.name} does not depend on the motion: it cannot be crossed")
            values.append(value)
        second = getattr(s, s.momenta)
        return ca.Function("events", [s.q, second, s.t, s.par], [ca.densify(ca.vertcat(*values))])

    def values(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The functions of all events at states, one row each."""
        fields = self.program.fields
        q, second = states[:, fields["q"]], states[:, fields[self.system.momenta]]
        rows = batch(self._function, [q, second, times[:, None], self.par], len(states))[0]
        return np.asarray(dense(rows, self._function.sparsity_out(0))[:, :, 0])

    def catch_up(self, run: Run) -> bool:
        """Look at the rows of a run that are new; True where a terminal event was found among them."""
        if self.stop is None and run.rows > self._seen:
            rows = slice(self._seen, run.rows)
            numbers = np.arange(self._seen + 1, run.rows + 1)
            times = run.grid.times(numbers) if run.t is None else run.t[rows]
            t = np.concatenate([[self._last[0]], times])
            states = np.vstack([self._last[1], run.records.state[rows]])
            self._seen, self._last = run.rows, (float(t[-1]), states[-1].copy())
            self.look(t, states)
        return self.stop is not None

    def look(self, times: np.ndarray, states: np.ndarray) -> bool:
        """Find crossings between states that follow each other; True where a terminal one was found."""
        g = self.values(states, times)
        if not np.isfinite(g).all():
            row, k = np.argwhere(~np.isfinite(g))[0]
            raise ModelError(f"{self.events[k].name} is not finite at t = {times[row]:g}")
        up, down = (g[:-1] < 0) & (g[1:] >= 0), (g[:-1] > 0) & (g[1:] <= 0)
        found = []
        for k, event in enumerate(self.events):
            crossed = up[:, k] if event.direction > 0 else down[:, k] if event.direction < 0 else up[:, k] | down[:, k]
            found += [(row, k) for row in np.flatnonzero(crossed)]
        located = []
        for row, k in found:
            h = times[row + 1] - times[row]
            located.append((*self._refine(k, times[row], h, states[row], g[row, k], g[row + 1, k], states[row + 1]), k))
        located.sort(key=lambda hit: hit[0])
        for t, state, k in located:
            self.hits[k].append((t, state))
            if self.events[k].terminal:
                self.stop = (t, state)
                return True
        return False

    def _short(self, state: np.ndarray, t: float, h: float) -> np.ndarray:
        """The state after a step of length `h` from a state."""
        memory = self._memory
        for runner in (self.runner, self.engine.pivoted):
            memory.state[:], memory.last[:], memory.before[:] = state, 0.0, 0.0
            one = runner() if callable(runner) else runner
            u = step_inputs(self.program, self.inputs, np.array([t]), h)
            outcome = one.run(memory, self._row, t0=t, first=0, steps=1, h=h, inputs=u, save_every=1, rule=self.rule)
            if outcome.failed < 0:
                return memory.state
        raise MethodError(f"the event after t = {t:g} could not be refined: a step of {h:g} did not converge")

    def _value(self, k: int, state: np.ndarray, t: float) -> float:
        fields = self.program.fields
        return float(self._function(state[fields["q"]], state[fields[self.system.momenta]], t, self.par)[k])

    def _refine(
        self, k: int, t: float, h: float, begin: np.ndarray, g0: float, g1: float, end: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """The crossing inside a step: regula falsi with the Illinois rule, until the bracket is round-off."""
        a, fa, b, fb, side = 0.0, g0, h, g1, 0
        best, tau, there = abs(g1), h, end.copy()
        enough = EPS * max(abs(g0), abs(g1))
        for _ in range(60):
            if best <= enough or b - a <= EPS * max(h, abs(t)):
                break
            c = (fa * b - fb * a) / (fa - fb)
            c = c if a < c < b else (a + b) / 2
            state = self._short(begin, t, c)
            f = self._value(k, state, t + c)
            if abs(f) < best:
                best, tau, there = abs(f), c, state.copy()
            if f * fb > 0:
                b, fb, fa = c, f, fa / 2 if side < 0 else fa
                side = -1
            else:
                a, fa, fb = c, f, fb / 2 if side > 0 else fb
                side = 1
        return t + tau, there

    def results(self) -> dict[str, Hits]:
        """All crossings by the name of their event."""
        s, fields = self.system, self.program.fields
        out = {}
        for event, hits in zip(self.events, self.hits, strict=True):
            t = np.array([t for t, _ in hits])
            states = np.array([state for _, state in hits]).reshape(len(hits), self.program.n_state)
            q, second = states[:, fields["q"]], states[:, fields[s.momenta]]
            out[event.name] = hits_of(s, self.par, t, q, second)
        return out


def hits_of(system: Any, par: np.ndarray, t: np.ndarray, q: np.ndarray, second: np.ndarray) -> Hits:
    """Crossings with velocities and momenta both."""
    if system.kind in ("dae", "port-hamiltonian"):
        return Hits(t, q, second, second)
    if not len(t):
        return Hits(t, q, second, second)
    if system.momenta == "v":
        return Hits(t, q, second, system.numeric("momentum", par, q=q, v=second))
    return Hits(t, q, system.numeric("velocity", par, q=q, p=second, t=t), second)


def finish(run: Run, watch: Watch, start: np.ndarray) -> None:
    """Let a run that a terminal event has stopped end just there."""
    if watch.stop is None:
        return
    t, state = watch.stop
    times = run.times()
    keep = int(np.searchsorted(times, t - 2 * EPS * abs(t)))
    begin = np.vstack([start, run.records.state])[keep]
    t_begin = run.grid.t0 if keep == 0 else float(times[keep - 1])
    node = watch.program.step.node
    nodes = run.nodes(node)[:keep]
    watch._row.work[:] = 0
    watch._short(begin, t_begin, t - t_begin)
    row, r = watch._row, run.records
    row.state[0] = state
    run.records = Records(
        np.vstack([r.state[:keep], row.state]), np.vstack([r.lam[:keep], row.lam]), np.vstack([r.work[:keep], row.work])
    )
    run.t = np.append(times[:keep], t)
    run.t_lam = np.append(nodes, t_begin + node * (t - t_begin))
    run.rows = keep + 1
    run.stats["steps"] = keep + 1


def thin(run: Run, every: int, node: float) -> None:
    """Keep every so many rows and the last, work added up in between."""
    if every == 1 or not run.rows:
        return
    rows = np.arange(every, run.rows + 1, every)
    rows = rows if len(rows) and rows[-1] == run.rows else np.append(rows, run.rows)
    edges = np.concatenate([[0], rows])
    total = np.vstack([np.zeros(2), np.cumsum(run.records.work[: run.rows], axis=0)])
    work = total[edges[1:]] - total[edges[:-1]]
    r = run.records
    run.t, run.t_lam = run.times()[rows - 1], run.nodes(node)[rows - 1]
    run.records, run.rows = Records(r.state[rows - 1], r.lam[rows - 1], work), len(rows)
