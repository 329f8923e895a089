"""What contacts do at a time, in numbers: impacts, holding and releasing, with the momentum balance checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.engine.contacts import Array, Contact
from dalembert.engine.events import Event
from dalembert.engine.inputs import Inputs
from dalembert.engine.kinds.mechanics import accelerations, kkt
from dalembert.engine.rounding import rounding_of
from dalembert.engine.run import Layout
from dalembert.engine.watch import Numeric
from dalembert.errors import EventError, InconsistentState, ModelError
from dalembert.systems.base import System, scalar
from dalembert.systems.batch import batch, dense
from dalembert.systems.engaged import engaged
from dalembert.systems.mechanical import Mechanical

REST = 1e-6  # of a step: a flight so short is none
CLOSED = 1e-13  # of the coordinates: a gap so small is closed
SOON = 1e-9  # of a step: what closes so soon closes now
STILL = 1e-13  # of the velocities: what is so slow does not move
BALANCED = 1e-10  # of the momenta: by how much their balance may be off
STRIKES = 10_000  # at one time


@dataclass(frozen=True)
class Moment:
    """Where a run stands: time, motion, parameters, inputs."""

    t: float
    q: Array
    v: Array
    par: Array
    u: Array


@dataclass(frozen=True)
class Strike:
    """What one contact did: velocities after it, impulses of the contact and of the constraints, work, and who holds."""

    contact: int
    v: Array
    impulse: float
    reactions: Array
    supplied: float
    dissipated: float
    held: tuple[int, ...]


@dataclass(frozen=True)
class Normal:
    """A gap at a moment: its size, slope `G_c`, rate `g_t`, normal velocity, and the rate of this at constant velocities."""

    gap: float
    slope: Array
    rate: float
    velocity: float
    curvature: float
    length: float  # of the slope in the coordinates


class Contacts:
    """The contacts of a run, and which of them hold."""

    def __init__(self, system: System, contacts: Sequence[Contact], h: float) -> None:
        if not isinstance(system, Mechanical):
            raise ModelError(
                f"impacts, stops and latches need a da.Mechanical system; {system.name!r} is a {type(system).__name__}: use "
                "da.Event(..., action=...) there"
            )
        self.system, self.contacts, self.h = system, list(contacts), h
        self.gaps: list[SX] = [scalar(c.name, system._trace(c.name, c.function, ("q", "t"))) for c in self.contacts]
        for c, g in zip(self.contacts, self.gaps, strict=True):
            if not ca.depends_on(g, system.q):
                raise ModelError(f"the gap of {c.name} does not depend on q")
        self._normals = [self._normal(g) for g in self.gaps]
        names, symbols = ["q", "t", "par"], [system.q, system.t, system.par]
        self._values = [ca.Function("gap", symbols, [g], names, ["g"]) for g in self.gaps]
        self.held: tuple[int, ...] = ()
        self._modes: dict[tuple[int, ...], Mechanical] = {}

    def _normal(self, g: SX) -> ca.Function:
        s = self.system
        by_q = ca.jacobian(g, s.q)
        slope = by_q @ s.expression("kinematics") if s.has("kinematics") else by_q
        rate = ca.jacobian(g, s.t)
        velocity = slope @ s.v + rate
        curvature = ca.jtimes(velocity, s.q, s.qdot(s.q, s.v)) + ca.jacobian(velocity, s.t)
        outputs = [g, slope, rate, velocity, curvature, ca.norm_2(by_q)]
        return ca.Function("normal", [s.q, s.v, s.t, s.par], [ca.densify(x) for x in outputs])

    def normal(self, i: int, at: Moment) -> Normal:
        """The gap of a contact at a moment."""
        g, slope, *rest = self._normals[i](at.q, at.v, at.t, at.par)
        return Normal(float(g), np.array(slope).ravel(), *(float(x) for x in rest))

    def mode(self, held: tuple[int, ...]) -> Mechanical:
        """The system on which these contacts hold."""
        if held not in self._modes:
            self._modes[held] = engaged(self.system, [self.gaps[i] for i in held])
        return self._modes[held]

    def _accelerations(self, held: tuple[int, ...], at: Moment) -> tuple[Array, Array]:
        """Accelerations and multipliers while these contacts hold."""
        s = self.mode(held)
        p = s.numeric("momentum", at.par, q=at.q, v=at.v)[0]
        A, F, C, d = accelerations(s)(at.q, at.v, p, at.t, at.u, at.par)
        return kkt(A, s.value("jacobian", at.par, q=at.q, t=at.t), C, ca.densify(F), ca.densify(d))

    # ---- impacts ----------------------------------------------------------------------------------------

    def strike(self, i: int, e: float, at: Moment) -> Strike:
        """One impact; contacts that hold and would have to pull let go of it."""
        held, n = self.held, self.normal(i, at)
        while True:
            s = self.mode(held)
            M, G = s.value("mass", at.par, q=at.q), s.value("jacobian", at.par, q=at.q, t=at.t)
            rows = ca.vertcat(G, ca.DM(n.slope).T)
            change, y = kkt(M, rows, rows, np.zeros(s.nv), np.array([*np.zeros(s.m), -(1 + e) * n.velocity]))
            impulse, reactions, own = -float(y[-1]), y[:-1], self.system._own
            pulls = [c for k, c in enumerate(held) if reactions[own + k] > 0 and np.isfinite(self.contacts[c].strength)]
            if not pulls:
                break
            held = tuple(c for c in held if c not in pulls)
        name = self.contacts[i].name
        momenta = np.array(ca.densify(M @ change)).ravel()
        off = np.abs(momenta + np.array(ca.densify(rows.T @ y)).ravel()).max(initial=0.0)
        if not (np.isfinite(change).all() and off <= BALANCED * np.abs(momenta).max(initial=1e-300) and (impulse >= 0 or e == 0)):
            raise EventError(
                f"the impact of {name} at t = {at.t:g} has no solution: impulse {impulse:.3g}, momenta off by {off:.1e}; its "
                "gap may depend on the constraints of the system, or on coordinates without mass"
            )
        v = at.v + change
        after = float(n.slope @ v) + n.rate
        moving = float(reactions @ s.numeric("rate", at.par, q=at.q, t=at.t)[0]) if s.m else 0.0
        return Strike(i, v, impulse, reactions, moving - impulse * n.rate, -impulse * (n.velocity + after) / 2, held)

    def resolve(self, at: Moment, fired: Sequence[int], released: Sequence[int] = ()) -> tuple[Moment, list[Strike]]:
        """All that contacts do at a moment: those that have `fired`, those that are closed, and those that let go."""
        self.held, strikes = tuple(i for i in self.held if i not in released), []
        closed = [i for i in range(len(self.contacts)) if i not in released and self._closed(i, at, i in fired)]
        for _ in range(STRIKES):
            speeds = {i: self.normal(i, at).velocity for i in closed if i not in self.held}
            closing = {i: v for i, v in speeds.items() if v < -self._still(i, at)}
            if not closing:
                break
            one = self.strike(first := min(closing, key=lambda i: closing[i]), self.contacts[first].restitution, at)
            strikes.append(one)
            at, self.held = replace(at, v=one.v), one.held
        else:
            raise EventError(f"{STRIKES} impacts at t = {at.t:g} did not bring the contacts apart")
        for i in closed:
            if i not in self.held and self._settles(i, at, i in fired):
                if abs(self.normal(i, at).velocity) <= self._still(i, at):
                    self.held = tuple(sorted((*self.held, i)))
                    continue
                one = self.strike(i, 0.0, at)
                self.held = tuple(sorted((*one.held, i)))
                at = replace(at, v=one.v)
                strikes.append(replace(one, held=self.held))
        return at, strikes

    def _closed(self, i: int, at: Moment, fired: bool) -> bool:
        n, contact = self.normal(i, at), self.contacts[i]
        near = CLOSED * self._size(i, at) + SOON * self.h * max(0.0, -n.velocity)
        if contact.catches or i in self.held:
            return fired
        if n.gap < -1e4 * near and not fired:
            raise InconsistentState(
                f"{contact.name} is closed at t = {at.t:g}: gap = {n.gap:.3g}; begin where gaps are not negative"
            )
        return fired or n.gap <= near

    def _size(self, i: int, at: Moment) -> float:
        """The size of the terms of a gap."""
        terms = rounding_of(self._values[i], [at.q, at.t, at.par], ("q", "t", "par"))
        return self.normal(i, at).length * float(np.linalg.norm(at.q)) + float(np.max(terms))

    def _still(self, i: int, at: Moment) -> float:
        n = self.normal(i, at)
        return STILL * (float(np.abs(n.slope).sum() * np.abs(at.v).max(initial=0.0)) + abs(n.rate))

    def _settles(self, i: int, at: Moment, fired: bool) -> bool:
        """Whether a closed contact stays closed; where it would and must not, that is an error."""
        contact, n = self.contacts[i], self.normal(i, at)
        if contact.catches:
            return fired
        a, _ = self._accelerations(self.held, at)
        pressing = -(float(n.slope @ a) + n.curvature)
        if pressing <= CLOSED * self._size(i, at) / self.h**2:  # what it does in a step is rounding
            return False
        if n.velocity > max(REST * self.h * pressing / 2, self._still(i, at)):
            return False
        if contact.rest:
            return True
        raise EventError(
            f"{contact.name} closes again and again: at t = {at.t:.9g} it parts with {n.velocity:.1e}, for a flight of "
            f"{2 * n.velocity / pressing:.1e}; rest=True lets it come to rest there (error.solution holds the run so far)"
        )

    # ---- holding ----------------------------------------------------------------------------------------

    def releases(self, layout: Layout, par: Array, inputs: Inputs) -> list[Numeric]:
        """Events of the contacts that hold: where the pull of each exceeds its strength."""
        out = []
        for k, i in enumerate(self.held):
            contact = self.contacts[i]
            if np.isfinite(contact.strength):
                event = Event(_never, -1, name=f"{contact.name} lets go", action=_never)
                pull = _Pull(self.mode(self.held), self.system._own + k, contact.strength, layout, par, inputs)
                out.append(Numeric(event, pull))
        return out


def _never() -> None:
    """The function of an event of numbers is not called."""


@dataclass(frozen=True)
class _Pull:
    """Strength less pull of a contact that holds, along rows of states."""

    system: Mechanical
    place: int
    strength: float
    layout: Layout
    par: Array
    inputs: Inputs

    def __call__(self, states: Array, times: Array) -> Array:
        s, f = self.system, accelerations(self.system)
        q, v = (states[:, self.layout.fields[name]] for name in ("q", "v"))
        p, u = s.numeric("momentum", self.par, q=q, v=v), self.inputs(times)
        rows = batch(f, [q, v, p, times[:, None], u, self.par], len(times))
        A, F, C, d = (dense(values, f.sparsity_out(i)) for i, values in enumerate(rows))
        G = s.numeric("jacobian", self.par, q=q, t=times).reshape(len(times), s.m, s.nv)
        n = s.nv
        matrix = np.zeros((len(times), n + s.m, n + s.m))
        matrix[:, :n, :n], matrix[:, :n, n:], matrix[:, n:, :n] = A, G.transpose(0, 2, 1), C
        solution = np.linalg.solve(matrix, np.concatenate([F, d], axis=1))[:, :, 0]
        return np.asarray(self.strength - solution[:, n + self.place])
