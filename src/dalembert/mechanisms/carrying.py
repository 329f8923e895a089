"""What the joints of a tree carry: the forces of accelerations, less those that act, of all bodies beyond a joint.

All that acts is written as a virtual power of the bodies' frames, each moving by itself; its gradient has force and torque on
each body. From the ends of the tree inwards, what a joint carries is what the bodies beyond it lack (Newton and Euler).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
from casadi import SX

from dalembert.mechanisms import joints
from dalembert.mechanisms.coordinates import SLIPS, Coordinates, Row
from dalembert.mechanisms.frames import Frame, listed, unlisted
from dalembert.mechanisms.laws import coefficients
from dalembert.mechanisms.rubbing import grip
from dalembert.mechanisms.touching import PLACES
from dalembert.mechanisms.trees import Branch


@dataclass(frozen=True)
class Moment:
    """A motion at one time, as symbols: positions, velocities, accelerations, inputs, and the multipliers of all constraints."""

    q: SX
    v: SX
    a: SX
    t: SX
    u: SX
    lam: SX
    given: Mapping[str, SX]  # parameters by name


def carried(at: Coordinates, branches: Sequence[Branch], rows: Sequence[Row], now: Moment) -> SX:
    """Force and torque of each joint of a tree on its body `b`, at the joint, six entries each, in the order of the joints."""
    frames, lacking = at.frames(now.q), _lacking(at, rows, now)
    sums = {name: lacking[name] for name in at.of.bodies}
    found: dict[str, SX] = {}
    for branch in reversed(branches):
        force, torque = sums[branch.child]
        if branch.parent != "ground":
            before = sums[branch.parent]
            sums[branch.parent] = (before[0] + force, before[1] + torque)
        joint, sense = branch.joint, 1.0 if branch.forward else -1.0
        point = frames[joint.b].at(joint.on_b).origin
        found[joint.name] = sense * ca.vertcat(force, torque - ca.cross(point, force))
    none = SX.zeros(6, 1)
    return ca.densify(ca.vertcat(SX(0, 1), *(found.get(name, none) for name in at.of.joints)))


def _lacking(at: Coordinates, rows: Sequence[Row], now: Moment) -> dict[str, tuple[SX, SX]]:
    """Of each body: the force and, about the origin of the world, the torque that its acceleration asks for beside what acts."""
    frames, names = at.frames(now.q), list(at.of.bodies)
    x = {name: SX.sym(f"x_{name}", 13) for name in names}
    where = ca.vertcat(*(listed(frames[name]) for name in names))
    slope = ca.gradient(_power(at, rows, now, frames, _moving(at, frames, x)), ca.vertcat(*x.values()))
    slope = ca.densify(ca.substitute(slope, ca.vertcat(*x.values()), where))
    rate = at.rate_of(where, now.q, now.v)
    second = ca.densify(at.rate_of(rate, now.q, now.v) + ca.jtimes(rate, now.v, now.a))
    mask = ca.DM([1, 1, 0]) if at.of.flat else ca.DM.ones(3)
    out = {}
    for k, name in enumerate(names):
        f, s, frame = slope[13 * k : 13 * k + 13], second[13 * k : 13 * k + 12], frames[name]
        force = mask * (now.given[at.masses[name]] * s[:3] - f[:3])
        torque = SX(3, 1)
        if at.of.bodies[name].rotates:
            J = at.moments_of(name, now.given)
            E = ca.trace(J) / 2 * SX.eye(3) - J
            turned, pulled = ca.reshape(s[3:], 3, 3) @ E, ca.reshape(f[3:12], 3, 3)
            torque = sum((ca.cross(frame.axes[:, i], turned[:, i] - pulled[:, i]) for i in range(3)), torque)
            torque[2] -= f[12]
            torque *= 1 - mask if at.of.flat else mask
        out[name] = (force, torque + ca.cross(frame.origin, force))
    return out


def _moving(at: Coordinates, frames: Mapping[str, Frame], x: Mapping[str, SX]) -> dict[str, Frame]:
    """Frames that move by themselves. Freedoms that are coordinates keep their values and get the slopes of frames."""
    out = {"ground": frames["ground"]}
    out |= {name: unlisted(own, frames[name]) for name, own in x.items()}
    known = {}
    for (name, freedom), value in next(iter(frames.values())).known.items():
        if name not in at.of.joints:  # of a body that nothing holds
            continue
        if freedom == PLACES or (name, freedom) in at.counting:  # variables beside the frames
            known[name, freedom] = value
            continue
        joint = at.of.joints[name]
        which = [f.name for f in joint.freedoms].index(freedom)
        moved, still = (
            joints.measured(joint.freedoms, which, group[joint.a].at(joint.on_a), group[joint.b].at(joint.on_b))
            for group in (out, frames)
        )
        known[name, freedom] = value + moved - still
    return {name: Frame(f.origin, f.axes, f.angle, known) for name, f in out.items()}


def _power(at: Coordinates, rows: Sequence[Row], now: Moment, frames: Mapping[str, Frame], moving: Mapping[str, Frame]) -> SX:
    """The virtual power of all that acts on frames, those of the motion held."""
    terms, given = at.selected(None), now.given
    out, inputs, count = SX(0.0), 0, 0
    slips = {term.name: acting for term, acting in at.slips()}
    if at.of.gravity.any():
        d = at.of.dimension
        out = sum((given[at.masses[b]] * ca.dot(given["gravity"], moving[b].origin[:d]) for b in at.of.bodies), out)
    places: dict[str, list[tuple[int, int]]] = {}
    for i, row in enumerate(rows):
        places.setdefault("" if row.inner else row.owner, []).append((row.number, i))
    for term in terms:
        here = at.evaluated(term, frames, frames, given, now.t)
        free = at.evaluated(term, moving, frames, given, now.t)
        if term.role == "potential":
            out -= at.evaluated(term, moving, moving, given, now.t)
        elif term.role == "input":
            out += now.u[inputs] * free
            inputs += 1
        elif term.role in ("holonomic", "contact"):
            whole = ca.densify(at.evaluated(term, moving, moving, given, now.t))
            out -= sum((now.lam[i] * whole[number] for number, i in places.get(term.name, [])), SX(0.0))
        elif term.role in SLIPS:
            out -= sum((now.lam[len(rows) + count + k] * free[i] for k, i in enumerate(slips[term.name])), SX(0.0))
            count += len(slips[term.name])
        elif term.role == "dissipation":
            rate = at.rate_of(here[:, 0], now.q, now.v)
            out -= ca.dot(coefficients(here, rate) * rate, free[:, 0])
        elif term.role == "inertia":
            rate = at.rate_of(here[:, 0], now.q, now.v)
            out -= ca.dot(here[:, 1] * (at.rate_of(rate, now.q, now.v) + ca.jtimes(rate, now.v, now.a)), free[:, 0])
        elif term.role == "friction":
            rate = at.rate_of(here[0], now.q, now.v)
            out -= grip(at, term, terms, rows, {**given, "lam": now.lam, "t": now.t}, frames, rate) * free[0]
    return out
