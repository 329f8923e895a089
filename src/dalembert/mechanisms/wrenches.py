"""What results ask of a mechanism, as functions of its coordinates: frames, measures of joints, forces of constraints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import casadi as ca
from casadi import SX

from dalembert.mechanisms.coordinates import SLIPS, Coordinates, Row
from dalembert.mechanisms.description import Description
from dalembert.mechanisms.frames import Frame, listed, unlisted
from dalembert.mechanisms.laws import Term, marked
from dalembert.mechanisms.rolling import Rolling
from dalembert.mechanisms.touching import PLACES, Touch


def frames(coordinates: Coordinates, q: SX) -> SX:
    """Centre of mass and axes of each body, one after another: 12 entries each."""
    found = coordinates.frames(q)
    return ca.densify(ca.vertcat(SX(0, 1), *(ca.vertcat(found[b].origin, ca.vec(found[b].axes)) for b in coordinates.of.bodies)))


def measures(coordinates: Coordinates, q: SX, given: Mapping[str, SX]) -> SX:
    """The values of the freedoms of all joints, one after another."""
    found, out = coordinates.frames(q), []
    for joint in coordinates.of.joints.values():
        for freedom in joint.freedoms:
            (a, b), _, value, data = coordinates.terms.measure(joint.name, freedom.name)
            numbers = {k: given[x] if isinstance(x, str) else SX(ca.DM(x)) for k, x in data.items()}
            out.append(value(found[a], found[b], numbers))
    return ca.densify(ca.vertcat(SX(0, 1), *out))


def sensed(coordinates: Coordinates, q: SX) -> SX:
    """The points of all sensors, or the distances."""
    found, out = coordinates.frames(q), []
    for sensor in coordinates.of.sensors.values():
        point = found[sensor.body].point(sensor.point)
        if sensor.other is not None and sensor.other_point is not None:
            apart = point - found[sensor.other].point(sensor.other_point)
            out.append(ca.sqrt(ca.dot(apart, apart)))
        else:
            out.append(point[: coordinates.of.dimension])
    return ca.densify(ca.vertcat(SX(0, 1), *out))


def wrench(coordinates: Coordinates, rows: Sequence[Row], q: SX, t: SX, given: Mapping[str, SX]) -> SX:
    """`W` with `-W lam` the forces and torques of all joints on their bodies `b`, at the joint, six entries each.

    With the rows `g(r, d_1, d_2, d_3)` in the frame of `b`: the force is `-g_r^T lam`, the torque about the centre of mass
    `-sum_i d_i x g_{d_i}^T lam`. Multipliers of constraints on velocities are after those of the rows.
    """
    found = coordinates.frames(q)
    bound = ("holonomic", "contact", *SLIPS)
    terms = {term.name: term for term in reversed(coordinates.terms.all) if term.role in bound}  # the first of a name
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    whose = [("" if row.inner else row.owner, row.number) for row in rows]
    whose += [(term.name, number) for term, acting in coordinates.slips() for number in acting]
    for i, (owner, number) in enumerate(whose):
        places[owner].append((number, i))
    out = SX(6 * len(coordinates.of.joints), len(whose))
    for k, joint in enumerate(coordinates.of.joints.values()):
        for name in (joint.name, f"{joint.name} thread", f"{joint.name} slip"):
            if name not in places:
                continue
            part = local(coordinates, terms[name], found, given, t)
            for number, i in places[name]:
                out[6 * k : 6 * k + 6, i] = part[:, number]
    return out


def pressed(of: Description) -> dict[str, bool]:
    """Contacts whose bodies could part, and whether it is known which way they push."""
    out = {joint.name: True for joint in of.joints.values() if isinstance(joint, Rolling)}
    touches = [joint for joint in of.joints.values() if isinstance(joint, Touch) and joint.sided]
    return out | {joint.name: bool(joint.other.radius) for joint in touches}


def pressing(coordinates: Coordinates, rows: Sequence[Row], q: SX, t: SX, given: Mapping[str, SX]) -> SX:
    """`P` with `-P lam` the forces with which bodies in contact press on each other, one for each contact."""
    found, names = coordinates.frames(q), list(pressed(coordinates.of))
    terms = {term.name: term for term in reversed(coordinates.terms.all) if term.role in ("holonomic", "contact")}
    out = SX(len(names), len(rows))
    for k, name in enumerate(names):
        term, joint = terms[name], coordinates.of.joints[name]
        data = {key: given[x] if isinstance(x, str) else SX(ca.DM(x)) for key, x in term.data.items()}
        A, B = (marked(found[body], data, which) for body, which in zip(term.bodies, "ab", strict=True))
        if isinstance(joint, Touch):
            normal = joint.outwards(A, B, found[term.bodies[0]].known[name, PLACES], data)
        else:
            normal = ca.sign(ca.dot(A.z, B.origin - A.origin)) * A.z
        force = local(coordinates, term, found, given, t)[:3, :]
        for i, row in enumerate(rows):
            if row.owner == name and not row.inner:
                out[k, i] = ca.dot(normal, force[:, row.number])
    return out


def local(coordinates: Coordinates, term: Term, found: Mapping[str, Frame], given: Mapping[str, SX], t: SX) -> SX:
    """Force and torque on the second body of a joint, at its point there, for a unit of each multiplier."""
    name = term.bodies[1]
    B, x = found[name], SX.sym("x", 13)
    moving = {**found, name: unlisted(x, B, B.known)}
    rows = ca.densify(coordinates.evaluated(term, moving, found if term.role in SLIPS else moving, given, t))
    slopes = ca.substitute(ca.jacobian(rows, x), x, listed(B))
    force = slopes[:, :3].T
    torque = SX(3, rows.numel())
    for i in range(3):
        torque += ca.skew(B.axes[:, i]) @ slopes[:, 3 + 3 * i : 6 + 3 * i].T
    torque[2, :] += slopes[:, 12].T
    point = term.data["point_b" if "point_b" in term.data else "point_b1"]  # of a screw's thread: the first of two freedoms
    arm = B.placed(given[point] if isinstance(point, str) else SX(ca.DM(point)), SX.eye(3)).origin - B.origin
    return ca.vertcat(force, torque - ca.skew(arm) @ force)
