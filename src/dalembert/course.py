"""Runs with events that act: arc after arc, joined to one solution."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, cast

import numpy as np

from dalembert.engine.acting import Change, act
from dalembert.engine.case import Case, project
from dalembert.engine.contacts import Contact
from dalembert.engine.events import Event
from dalembert.engine.inputs import Inputs
from dalembert.engine.run import Array, Grid, Layout, resolution
from dalembert.engine.sampled import Sampling
from dalembert.engine.striking import REST, Contacts, Moment, Strike
from dalembert.engine.watch import Watch
from dalembert.errors import DalembertError, EventError, InconsistentState, Interrupted, MethodError
from dalembert.methods.base import Method, able, obstacles
from dalembert.relay import Relay
from dalembert.solution import Jump, Solution
from dalembert.solution.arcs import Link, extended, join
from dalembert.systems.base import System
from dalembert.systems.engaged import places

MOST = 1000  # actions in the time of one step
NOTHING = 1e-12  # of the velocities of a run: what is left of them by rounding
DEEP = 1e-9  # of the coordinates: how far a gap may close without an impact, by rounding

MakeWatch = Callable[[Case, Layout, Inputs], Watch | None]


class Call(Protocol):
    """A run from one time to another, without jumps."""

    watch: Watch | None
    sampling: Sampling | None

    def solution(self, compile: bool | str, progress: bool | None, begun: float) -> Solution: ...


Begin = Callable[[Case, Grid, MakeWatch, Sampling | None], Call]
Again = Callable[[System, Method, dict[str, Array], float, dict[str, Array]], Case]


class Course:
    """A run whose events change it: the state, parameters, or the system, from where they are met."""

    def __init__(
        self, case: Case, grid: Grid, events: Sequence[Event], begin: Begin, again: Again, aligned: bool,
        relay: Relay | None = None,
    ) -> None:  # fmt: skip
        self.relay, self._lead = relay, cast("Solution | None", None)
        self.case, self.grid, self.events, self._begin, self._again = case, grid, list(events), begin, again
        self._aligned = aligned  # whether steps return to the grid after a jump
        self.arcs: list[Solution] = []
        self.links: list[Link] = []
        self._held: list[tuple[int, ...]] = []  # contacts that held in each arc
        self._numbers = [k for k, event in enumerate(self.events) if isinstance(event, Contact)]
        self.contacts = self._contacts(case.system)
        self._watches: dict[tuple[int, tuple[int, ...]], Watch] = {}
        self._zeros: list[int] = []
        self._fastest = 0.0  # velocity so far
        self._times: list[float] = []
        self._last: dict[str, float] = {}  # when each event acted
        self._check()

    def _contacts(self, system: System) -> Contacts | None:
        contacts = [event for event in self.events if isinstance(event, Contact)]
        return Contacts(system, contacts, self.grid.h) if contacts else None

    def _check(self) -> None:
        """Refuse a method that cannot treat contacts which hold."""
        if self.contacts is None:
            return
        for i, contact in enumerate(self.contacts.contacts):
            mode = self.contacts.mode((i,))
            if contact.holds and obstacles(self.case.method, mode):
                why, others = obstacles(self.case.method, mode)[0], ", ".join(str(m) for m in able(mode)[:4])
                raise MethodError(
                    f"{contact.name} may hold, as a holonomic constraint, and {self.case.method} does not treat {why}; "
                    f"use {others}"
                )

    # ---- the run ----------------------------------------------------------------------------------------

    def solution(self, compile: bool | str, progress: bool | None, begun: float) -> Solution:
        """All arcs up to the end, or up to an event that ends the run."""
        if self.relay is None:
            return self._run(compile, progress, begun)
        self.relay.joined = self._with
        with self.relay:
            try:
                out = self._run(compile, progress, begun)
            except (DalembertError, Interrupted) as error:
                if error.solution is not None:
                    self.relay.end(error.solution)
                raise
            self.relay.end(out)
            return out

    def _run(self, compile: bool | str, progress: bool | None, begun: float) -> Solution:
        if self.contacts is not None:
            self._first()
        while True:
            call = self._arc(compile, progress, begun)
            watch = call.watch
            if watch is None or not watch.stopped or any(self._ends(watch, k) for k in watch.fired):
                return self._joined()
            try:
                self._act(watch)
            except DalembertError as error:
                error.solution = self._joined()
                raise

    def _ends(self, watch: Watch, k: int) -> bool:
        event = watch.events[k]
        if not event.terminal:
            return False
        return sum(len(arc.events[event.name]) for arc in self.arcs if event.name in arc.events) >= event.terminal

    def _first(self) -> None:
        """Contacts that are closed at the beginning."""
        t, values = self.case.t0, self.case.values
        change, jumps, self._zeros = self._strike(t, dict(values), [], [])
        if jumps:
            self.arcs.append(self._still(t))
            self._held.append(())
            self._go(change, t, jumps)
        elif self.contacts is not None and self.contacts.held:
            self.case = self._again(change.system, self.case.method, change.values, t, change.parameters)

    def _still(self, t: float) -> Solution:
        """An arc without a step."""
        grid = Grid(t, t, self.grid.h, self.grid.save_every)
        return self._begin(self.case, grid, lambda case, layout, inputs: None, None).solution(False, False, 0.0)

    def _arc(self, compile: bool | str, progress: bool | None, begun: float) -> Call:
        t, grid, sampling = self.case.t0, self.grid, getattr(self, "_sampling", None)
        self._held.append(self.contacts.held if self.contacts is not None else ())
        lead: Solution | None = None
        self._lead = None
        begun = time.perf_counter() if self.arcs else begun
        try:
            if self._aligned and (next_time := self._on_grid(t)) is not None:
                call = self._begin(self.case, Grid(t, next_time, next_time - t), self._watch, sampling)
                lead = call.solution(compile, progress, begun)
                self._sampling = sampling = call.sampling
                if call.watch is not None and call.watch.stopped:
                    self.arcs.append(lead)
                    return call
                last = {name: part[-1] for name, part in lead.parts.items()}
                self.case = self._again(
                    self.case.system, self.case.method, last, next_time, self.case.system.unpack(self.case.par)
                )
                t, self._zeros, self._lead = next_time, [], lead
                if self.relay is not None:
                    self.relay.leads()
            call = self._begin(self.case, Grid(t, grid.t_end, grid.h, grid.save_every), self._watch, sampling)
            arc = call.solution(compile, progress, begun)
        except (DalembertError, Interrupted) as error:
            part = [a for a in (lead, error.solution) if a is not None]
            self.arcs += [extended(part[0], part[1]) if len(part) == 2 else part[0]] if part else []
            error.solution = self._joined() if self.arcs else None
            raise
        self._sampling = call.sampling
        self.arcs.append(arc if lead is None else extended(lead, arc))
        return call

    def _on_grid(self, t: float) -> float | None:
        """The next time of the grid, where a time is not one of them."""
        k = (t - self.grid.t0) / self.grid.h
        if abs(k - round(k)) <= 1e-9:
            return None
        after = self.grid.t0 + int(np.ceil(k)) * self.grid.h
        return after if after < self.grid.t_end - resolution(self.grid.t_end) else None

    def _watch(self, case: Case, layout: Layout, inputs: Inputs) -> Watch:
        """What looks for the events of an arc."""
        held = self.contacts.held if self.contacts is not None else ()
        key = (id(case.system), held)
        watch = self._watches.get(key)
        if watch is None or held:
            numeric = self.contacts.releases(layout, case.par, inputs) if self.contacts is not None else []
            watch = self._watches[key] = Watch(case.system, layout.fields, self.events, case.par, numeric)
        watch.reset()
        watch.par, watch.zeros = case.par, self._zeros
        watch.muted = [self._numbers[i] for i in held]
        if self.contacts is not None:
            size = DEEP * max(1.0, float(np.abs(case.values["q"]).max()))
            watch.depths = {k: size for i, k in enumerate(self._numbers) if not self.contacts.contacts[i].catches}
        return watch

    # ---- jumps ------------------------------------------------------------------------------------------

    def _act(self, watch: Watch) -> None:
        """What the events that were met do, one after another."""
        arc, system = self.arcs[-1], self.case.system
        t, values = float(arc.t[-1]), {name: part[-1].copy() for name, part in arc.parts.items()}
        self._accumulate(t, [watch.events[k].name for k in watch.fired])
        change, jumps = Change(system, values, system.unpack(self.case.par)), list[Jump]()
        struck = [k for k in watch.fired if k in self._numbers or k >= len(self.events)]
        self._zeros = [k for k in watch.fired if k < len(self.events)]
        if struck and self.contacts is not None:
            named = {f"{self.contacts.contacts[i].name} lets go": i for i in self.contacts.held}
            released = [named[watch.events[k].name] for k in struck if k >= len(self.events)]
            fired = [self._numbers.index(k) for k in struck if k < len(self.events)]
            change, jumps, closed = self._strike(t, values, fired, released)
            self._zeros = sorted({*self._zeros, *closed})
        for k in watch.fired:
            if k not in struck:
                before, was = change, self._energy(change, t)
                change = act(watch.events[k], before.system, before.values, t, before.system.pack(before.parameters))
                if change.system is not before.system and self.contacts is not None:
                    self.contacts = self._contacts(change.system)
                change = self._settled(change, t, watch.events[k].name)
                gained = self._energy(change, t) - was
                jumps.append(Jump(t, watch.events[k].name, before.values, change.values, supplied=gained, engaged=self._names()))
        self._go(change, t, jumps)

    def _accumulate(self, t: float, names: list[str]) -> None:
        """Refuse to go on where actions follow each other without end."""
        for name in names:
            flight = t - self._last.get(name, -np.inf)
            if flight < REST * self.grid.h and not any(c.name == name for c in (self.contacts.contacts if self.contacts else ())):
                raise EventError(
                    f"{name} acts again and again: at t = {t:.9g}, only {flight:.1e} after the last time, far less than a step "
                    f"of {self.grid.h:g}; events accumulate there (error.solution holds the run so far)"
                )
            self._last[name] = t
        self._times = [s for s in self._times if s > t - self.grid.h] + [t]
        if len(self._times) > MOST:
            raise EventError(
                f"{' and '.join(names)} acted {MOST} times between t = {self._times[0]:.9g} and {t:.9g}, within one step: events "
                "accumulate there (error.solution holds the run so far)"
            )

    def _names(self) -> tuple[str, ...]:
        return tuple(self.contacts.contacts[i].name for i in self.contacts.held) if self.contacts is not None else ()

    def _energy(self, change: Change, t: float) -> float:
        s = change.system
        return float(s.numeric("energy", s.pack(change.parameters), **change.values, t=t)[0, 0]) if s.has_energy else 0.0

    def _settled(self, change: Change, t: float, name: str) -> Change:
        """A state from which the run can go on; it is refused where it is off the constraints."""
        try:
            case = self._again(change.system, self.case.method, change.values, t, change.parameters)
        except InconsistentState as error:
            raise InconsistentState(
                f"the action of {name} at t = {t:g} leaves a state that is not consistent: {error}"
            ) from error
        return replace(change, values=dict(case.values))

    def _strike(
        self, t: float, values: dict[str, Array], fired: list[int], released: list[int]
    ) -> tuple[Change, list[Jump], list[int]]:
        """What contacts do; the events that are on their zero afterwards come last."""
        contacts, par = self.contacts, self.case.par
        assert contacts is not None
        u = self.case.inputs(np.array([t]))[0]
        jumps, before = [Jump(t, f"{contacts.contacts[i].name} lets go", values, values) for i in released], contacts.held
        at, strikes = contacts.resolve(Moment(t, values["q"], values["v"], par, u), fired, released)
        v = values["v"]
        for one in strikes:
            jumps.append(self._jump(t, one, {**values, "v": v}))
            v = one.v
        if not strikes and set(contacts.held) - set(before) and self.arcs:
            name = contacts.contacts[max(set(contacts.held) - set(before))].name
            jumps.append(Jump(t, name, values, values, impulse=0.0))
        system, after = contacts.mode(contacts.held), {"q": at.q, "v": at.v}
        if contacts.held:  # to round-off, by which a gap may be off
            found = project(system, after, par, t, u).values
            after = {name: found[name] for name in system.state}
        jumps = [replace(jump, engaged=self._names()) if i == len(jumps) - 1 else jump for i, jump in enumerate(jumps)]
        latest = self.arcs[-1].parts["v"] if self.arcs else values["v"]
        self._fastest = max(self._fastest, *(float(np.abs(a).max(initial=0.0)) for a in (values["v"], latest)))
        if np.abs(after["v"]).max() <= NOTHING * self._fastest and not system.moving:
            after["v"] = np.zeros(system.nv)
        zeros = [self._numbers[i] for i in {*fired, *released, *(one.contact for one in strikes)}]
        return Change(system, after, self.case.system.unpack(par)), jumps, zeros

    def _jump(self, t: float, one: Strike, before: dict[str, Array]) -> Jump:
        assert self.contacts is not None
        name = self.contacts.contacts[one.contact].name
        return Jump(
            t, name, before, {**before, "v": one.v}, supplied=one.supplied, dissipated=one.dissipated, impulse=one.impulse,
            reactions=one.reactions, tangential=one.tangential,
        )  # fmt: skip

    def _go(self, change: Change, t: float, jumps: list[Jump]) -> None:
        self.case = self._again(change.system, self.case.method, change.values, t, change.parameters)
        self.links.append(Link(tuple(jumps)))

    def _with(self, part: Solution) -> Solution:
        """All arcs and one that is under way, as one solution."""
        part = part if self._lead is None else extended(self._lead, part)
        self.arcs.append(part)
        try:
            return self._joined()
        finally:
            self.arcs.pop()

    def _joined(self) -> Solution:
        """All arcs as one solution."""
        links = self.links[: len(self.arcs) - 1]
        ever = tuple(sorted({i for held in self._held for i in held}))
        if self.contacts is None or not ever:
            return join(self.arcs, links)
        base = self.contacts.system
        columns = [places(base, len(ever), [ever.index(i) for i in held]) for held in self._held[: len(self.arcs)]]
        return join(self.arcs, links, self.contacts.mode(ever), columns)
