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
from dalembert.engine.numbers import Matrix, Numbers
from dalembert.engine.rounding import sizes
from dalembert.engine.run import Layout
from dalembert.engine.watch import Numeric
from dalembert.errors import EventError, InconsistentState, ModelError
from dalembert.systems.base import System, column, scalar
from dalembert.systems.batch import batch, dense
from dalembert.systems.engaged import engaged
from dalembert.systems.mechanical import Mechanical

REST = 1e-6  # of a step: a flight so short is none
CLOSED = 1e-13  # of the coordinates: a gap so small is closed
SOON = 1e-9  # of a step: what closes so soon closes now
STILL = 1e-13  # of the velocities: what is so slow does not move
BALANCED = 1e-10  # of the momenta: by how much their balance may be off
STRIKES = 10_000  # at one time
TURNS = 200  # trials of the direction in which friction acts
TURNED = 1e-14
LARGE = 200  # velocities beyond which matrices stay sparse


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
    tangential: Array
    reactions: Array
    supplied: float
    dissipated: float
    held: tuple[int, ...]


@dataclass(frozen=True)
class Normal:
    """A gap at a moment: its size, slope `G_c`, rate `g_t`, normal velocity, and the rate of this at constant velocities."""

    slope: Array
    tangents: Array  # slopes of what changes where it slips
    drag: Array  # rates of these
    gap: float
    rate: float
    velocity: float
    curvature: float
    size: float  # of the terms of the gap


@dataclass(frozen=True)
class Blow:
    """Impulses at a time: of the contact, along its tangents, of the constraints; the change of velocities, and its balance."""

    change: Array
    impulse: float
    tangential: Array
    reactions: Array
    moving: float  # work of constraints that move
    momenta: float
    off: float


def _solved(M: Matrix, G: Matrix, moving: Matrix, directions: Array, along: Array, wanted: Array) -> Blow:
    """`M dv = (along directions)^T J - G^T lam`, the constraints keep, and `directions dv = wanted` as far as it goes."""
    m, k = G.shape[0], len(along)
    push, kept = along @ directions, directions[:k]
    small = isinstance(M, np.ndarray)
    forces, rates = (np.vstack([G, a]) if small else ca.vertcat(G, ca.DM(a)) for a in (push, kept))
    change, y = kkt(M, forces, rates, np.zeros(M.shape[0]), np.concatenate([np.zeros(m), wanted]))
    impulses, reactions = -y[m:] @ along, y[:m]
    momenta = np.array(M @ change).ravel()
    off = np.abs(momenta + np.array(forces.T @ y).ravel()).max(initial=0.0)
    work = float(reactions @ np.array(moving).ravel()) if m else 0.0
    return Blow(change, float(impulses[0]), impulses[1:], reactions, work, np.abs(momenta).max(initial=1e-300), off)


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
        self._normals = [Numbers(self._normal(c, g)) for c, g in zip(self.contacts, self.gaps, strict=True)]
        self.held: tuple[int, ...] = ()
        self._modes: dict[tuple[int, ...], Mechanical] = {}
        self._inertia: dict[tuple[int, ...], Numbers] = {}
        self._forces: dict[tuple[int, ...], Numbers] = {}
        self._large = system.nv > LARGE
        self._seen: tuple[Moment, dict[int, Normal]] | None = None

    def _normal(self, contact: Contact, g: SX) -> ca.Function:
        s = self.system
        slip = SX(0, 1) if contact.slip is None else column("slip", s._trace("slip", contact.slip, ("q", "t")))
        by_q, by_slip = ca.jacobian(g, s.q), ca.jacobian(slip, s.q)
        Z = s.expression("kinematics") if s.has("kinematics") else SX.eye(s.n)
        slope, rate = by_q @ Z, ca.jacobian(g, s.t)
        velocity = slope @ s.v + rate
        curvature = ca.jtimes(velocity, s.q, s.qdot(s.q, s.v)) + ca.jacobian(velocity, s.t)
        known = [s.q, s.t, s.par]
        rounded = sizes(ca.Function("gap", known, [ca.densify(g)]), known, [ca.fabs(x) for x in known])[1]
        size = ca.norm_2(by_q) * ca.norm_2(s.q) + rounded
        outputs = [g, slope, rate, velocity, curvature, size, by_slip @ Z, ca.jacobian(slip, s.t)]
        return ca.Function("normal", [s.q, s.v, s.t, s.par], outputs)

    def normal(self, i: int, at: Moment) -> Normal:
        """The gap of a contact at a moment."""
        if self._seen is None or self._seen[0] is not at:
            self._seen = at, {}
        found = self._seen[1]
        if i not in found:
            g, slope, rate, velocity, curvature, size, tangents, drag = self._normals[i](at.q, at.v, at.t, at.par)
            single = [float(x[0, 0]) for x in (g, rate, velocity, curvature, size)]
            found[i] = Normal(np.array(slope)[0], np.array(tangents), np.array(drag)[:, 0], *single)
        return found[i]

    def mode(self, held: tuple[int, ...]) -> Mechanical:
        """The system on which these contacts hold."""
        if held not in self._modes:
            self._modes[held] = engaged(self.system, [self.gaps[i] for i in held])
        return self._modes[held]

    def _accelerations(self, held: tuple[int, ...], at: Moment) -> tuple[Array, Array]:
        """Accelerations and multipliers while these contacts hold."""
        if held not in self._forces:
            s = self.mode(held)
            A, F, C, d = accelerations(s)(s.q, s.v, s.role("momentum"), s.t, s.u, s.par)
            self._forces[held] = Numbers(
                ca.Function("forces", [s.q, s.v, s.t, s.u, s.par], [A, s.role("jacobian"), C, F, d]), self._large
            )
        return kkt(*self._forces[held](at.q, at.v, at.t, at.u, at.par))

    # ---- impacts ----------------------------------------------------------------------------------------

    def strike(self, i: int, e: float, at: Moment) -> Strike:
        """One impact; contacts that hold and would have to pull let go of it."""
        held, n, own = self.held, self.normal(i, at), self.system._own
        while True:
            blow = self._blow(held, i, e, at)
            pulls = [c for k, c in enumerate(held) if blow.reactions[own + k] > 0 and np.isfinite(self.contacts[c].strength)]
            if not pulls:
                break
            held = tuple(c for c in held if c not in pulls)
        v, J, T = at.v + blow.change, blow.impulse, blow.tangential
        sound = np.isfinite(blow.change).all() and blow.off <= BALANCED * blow.momenta and (J >= 0 or e == 0)
        if not sound:
            raise EventError(
                f"the impact of {self.contacts[i].name} at t = {at.t:g} has no solution: impulse {J:.3g}, momenta off by "
                f"{blow.off:.1e}; its gap may depend on the constraints of the system, or on coordinates without mass"
            )
        after, slips = float(n.slope @ v) + n.rate, n.tangents @ (at.v + v) + 2 * n.drag
        lost = -J * (n.velocity + after) / 2 - float(T @ slips) / 2
        if lost < -BALANCED * abs(J * n.velocity):
            raise EventError(
                f"the impact of {self.contacts[i].name} at t = {at.t:g} would gain the energy {-lost:.3g}: restitution {e:g} and "
                f"friction {self.contacts[i].friction:g} do not go together there (Newton's law of impact)"
            )
        given = blow.moving - J * n.rate - float(T @ n.drag)
        return Strike(i, v, J, T, blow.reactions, given, lost, held)

    def _blow(self, held: tuple[int, ...], i: int, e: float, at: Moment) -> Blow:
        """Impulses and changes of velocities: the normal velocity as restitution says, the slipping as friction does."""
        n, mu = self.normal(i, at), self.contacts[i].friction
        if held not in self._inertia:
            s = self.mode(held)
            roles = [s.role(name, q=s.q, t=s.t) for name in ("mass", "jacobian", "rate")]
            self._inertia[held] = Numbers(ca.Function("inertia", [s.q, s.t, s.par], roles), self._large)
        M, G, moving = self._inertia[held](at.q, at.t, at.par)
        rows = (M, G, moving, np.vstack([n.slope, n.tangents]))
        normal = -(1 + e) * n.velocity
        if not mu:
            return _solved(*rows, np.eye(1, len(rows[3])), np.array([normal]))
        slip = n.tangents @ at.v + n.drag
        stuck = _solved(*rows, np.eye(len(rows[3])), np.array([normal, *-slip]))
        size = float(np.linalg.norm(stuck.tangential))
        if not size > mu * stuck.impulse:
            return stuck
        way, share, before = stuck.tangential / size, 1.0, np.inf
        for _ in range(TURNS):
            slides = _solved(*rows, np.array([[1.0, *(mu * way)]]), np.array([normal]))
            left = slip + n.tangents @ slides.change
            length = float(np.linalg.norm(left))
            off = float(np.abs(way + left / length).max()) if length > STILL * float(np.linalg.norm(slip)) else 0.0
            if off < TURNED:
                return slides
            share, before = share if off < before else share / 2, off
            way = way - share * (way + left / length)
            way = way / np.linalg.norm(way)
        raise EventError(f"the friction of {self.contacts[i].name} at t = {at.t:g} has no direction against the slipping")

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
        near = CLOSED * n.size + SOON * self.h * max(0.0, -n.velocity)
        if contact.catches or i in self.held:
            return fired
        if n.gap < -1e4 * near and not fired:
            raise InconsistentState(
                f"{contact.name} is closed at t = {at.t:g}: gap = {n.gap:.3g}; begin where gaps are not negative"
            )
        return fired or n.gap <= near

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
        if pressing <= CLOSED * n.size / self.h**2:  # what it does in a step is rounding
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
