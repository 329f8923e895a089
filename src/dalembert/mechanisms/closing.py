"""Where a mechanism starts: all joints closed, near the drawing, with velocities that the joints allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np
from scipy.sparse import bmat, csc_matrix, diags
from scipy.sparse.linalg import splu

from dalembert.checking import number
from dalembert.errors import InconsistentState, ModelError, suggest
from dalembert.mechanisms import joints
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.coordinates import Coordinates
from dalembert.mechanisms.description import Description
from dalembert.mechanisms.forces import Motion
from dalembert.mechanisms.frames import Frame, numbers
from dalembert.mechanisms.rotations import Array

SLACK = 1e-12  # of the rows of unit length: what lets redundant constraints be solved with the others
CLOSED = 1e-10  # of the size of the mechanism: what a closed joint may be open
UNMOVED = 1e-20  # of the largest square: the rounding of what moves nothing, the length of a quaternion say
MOST = 200  # iterations


def connected(mechanism: Description) -> None:
    """Refuse bodies that nothing holds or moves, in a mechanism that has joints."""
    if not mechanism.joints:
        return
    held = {end for joint in mechanism.joints.values() for end in (joint.a, joint.b)}
    for part in mechanism.forces.values():
        held |= {getattr(part, key) for key in ("a", "b", "body") if hasattr(part, key)}
    alone = [name for name in mechanism.bodies if name not in held]
    if alone:
        raise ModelError(
            f"nothing is joined to {', '.join(map(repr, alone))}, and no force acts on it; join it, "
            f"or say that it is free: .free('name', 'ground', {alone[0]!r})"
        )


class Constraints:
    """The constraints of a system in numbers, at one time, with pins beside them; without those in `out`."""

    def __init__(
        self, system: Assembled, chosen: Coordinates, pins: Sequence[tuple[ca.SX, float]] = (), t: float = 0.0,
        par: Array | None = None, out: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.system, self.chosen, self.t, self.par = system, chosen, t, system.pack() if par is None else par
        self.kept = [i for i in range(system.mh) if i not in out] if out else None
        extra = ca.vertcat(ca.SX(0, 1), *(x - goal for x, goal in pins), *chosen.unit(system.q))
        self.extra = ca.Function("g", [system.q], [ca.densify(extra), ca.jacobian(extra, system.q)])
        frames = system.role("frames")
        self.size = chosen.size
        scale = np.tile(np.r_[np.full(3, 1 / self.size), np.ones(9)], len(system.masses))
        J = ca.Function("J", [system.q], [ca.jacobian(frames, system.q)])(chosen.start()[0])
        moved = np.asarray((diags(scale) @ J.sparse()).power(2).sum(axis=0)).ravel()
        self.weights = np.where(moved > UNMOVED * moved.max(initial=0.0), moved, 1.0)

    def at(self, q: Array) -> tuple[Array, csc_matrix]:
        """Residuals and slopes."""
        g, G = self.extra(q)
        if self.system.mh:
            s, par = self.system, self.par
            own, slopes = (s.value(role, par, q=q, t=self.t) for role in ("holonomic", "normal"))
            g = ca.vertcat(own if self.kept is None else own[self.kept], g)
            G = ca.vertcat(slopes if self.kept is None else slopes[self.kept, :], G)
        return np.asarray(g.full()).ravel(), csc_matrix(G.sparse())

    def scaled(self, q: Array) -> tuple[Array, csc_matrix]:
        """The same with rows of unit length, in coordinates of unit weight: what is left is in the unit of the coordinates."""
        g, G = self.at(q)
        G = G @ diags(1 / np.sqrt(self.weights))
        length = np.sqrt(np.asarray(G.multiply(G).sum(axis=1)).ravel())
        length[length < 1e-12] = 1.0
        return g / length, csc_matrix(diags(1 / length) @ G)

    def correction(self, g: Array, G: csc_matrix) -> Array:
        """The shortest change that the linear constraints ask for."""
        n, m = G.shape[1], G.shape[0]
        K = bmat([[diags(np.ones(n)), G.T], [G, diags(np.full(m, -SLACK))]], format="csc")
        return np.asarray(splu(K).solve(np.concatenate([np.zeros(n), -g]))[:n] / np.sqrt(self.weights))

    def solve(self, q: Array) -> tuple[Array, float]:
        """The nearest pose by Newton's method with shortened steps, and what is left of the constraints."""
        g, G = self.scaled(q)
        size = float(np.linalg.norm(g))
        for _ in range(MOST):
            if size <= 1e-15 * np.sqrt(len(g)) or not len(g):
                break
            change, factor = self.correction(g, G), 1.0
            while factor > 1e-4:
                new_g, new_G = self.scaled(q + factor * change)
                new = float(np.linalg.norm(new_g))
                if new < (1 - factor / 4) * size or new < 1e-13:
                    break
                factor /= 2
            if new >= size:
                break
            q, g, G, size = q + factor * change, new_g, new_G, new
        return q, float(np.abs(g).max(initial=0.0))


def pose(system: Assembled, chosen: Coordinates, mechanism: Description, pinned: Mapping[str, float | None]) -> Array:
    """Coordinates near those of the drawing that close all joints, with bodies and freedoms of joints held as pinned."""
    q = _clean(chosen.start()[0], chosen.size)
    rows = Constraints(system, chosen, _pins(system, chosen, mechanism, pinned, q))
    g, _ = rows.scaled(q)
    if float(np.abs(g).max(initial=0.0)) <= 1e-15:
        return q
    found, left = rows.solve(q)
    if left > CLOSED:
        raise InconsistentState(unclosed(system, chosen, mechanism, rows, found, " with what is pinned" if pinned else ""))
    return _clean(found, chosen.size)


def _clean(q: Array, size: float) -> Array:
    """Coordinates without the rounding of a drawing: next to those of the size of the mechanism, such numbers are zero."""
    return np.where(np.abs(q) <= 1e-16 * max(1.0, size), 0.0, q)


def _pins(
    system: Assembled, chosen: Coordinates, mechanism: Description, pinned: Mapping[str, float | None], q: Array
) -> list[tuple[ca.SX, float]]:
    """What is held: expressions and their values."""
    out: list[tuple[ca.SX, float]] = []
    for name, value in pinned.items():
        if name in mechanism.bodies:
            if value is not None:
                raise ModelError(f"pinned: {name!r} is a body, it is held as drawn; give None, or pin a joint at a value")
            frame, body = chosen.frames(system.q)[name], mechanism.bodies[name]
            gaps = [frame.origin - ca.DM(body.position), *(frame.axes[:, i] - ca.DM(body.rotation[:, i]) for i in range(2))]
            out += [(x, 0.0) for x in ca.vertsplit(ca.vertcat(*gaps)) if ca.depends_on(x, system.q)]
            continue
        joint, _, freedom = name.partition(".")
        if joint not in mechanism.joints:
            raise ModelError(
                f"pinned: there is no body or joint {joint!r}{suggest(joint, [*mechanism.bodies, *mechanism.joints])}"
            )
        x = measured(system, chosen, joint, freedom or None)
        drawn = float(ca.Function("x", [system.q], [x])(q)) if value is None else number(f"pinned: {name!r}", value, ModelError)
        turns = chosen.terms.is_angle(joint, mechanism._freedom(mechanism.joints[joint], freedom or None))
        out.append((2 * ca.sin((x - drawn) / 2) if turns else x - drawn, 0.0))
    return out + _driven(system, chosen, mechanism)


def _driven(system: Assembled, chosen: Coordinates, mechanism: Description) -> list[tuple[ca.SX, float]]:
    """Angles of prescribed motions at the start: their constraints `sin(angle - given)` would take half a turn more as well."""
    out: list[tuple[ca.SX, float]] = []
    for part in mechanism.forces.values():
        if isinstance(part, Motion) and chosen.terms.is_angle(part.joint, part.freedom):
            value, used = chosen.terms.timed(part.name, part.function)
            given = value({k: ca.SX(mechanism.parameters[k]) for k in used}, ca.SX(0.0))
            out.append((2 * ca.sin((measured(system, chosen, part.joint, part.freedom) - given) / 2), 0.0))
    return out


def measured(system: Assembled, chosen: Coordinates, joint: str, freedom: str | None) -> ca.SX:
    """The value of a freedom of a joint in the coordinates of a system."""
    which = chosen.of._freedom(chosen.of.joints[joint], freedom)
    (a, b), _, value, data = chosen.terms.measure(joint, which)
    frames = chosen.frames(system.q)
    return value(frames[a], frames[b], chosen.terms.numbers(data))


def unclosed(system: Assembled, chosen: Coordinates, mechanism: Description, rows: Constraints, q: Array, advice: str) -> str:
    """Which joint stays open, and by how much."""
    g, _ = rows.scaled(q)
    at = bodies_at(system, chosen, q)
    worst: dict[str, float] = {}
    for row, gap in zip(system.rows, np.abs(g), strict=False):  # pins come after
        worst[row.owner] = max(worst.get(row.owner, 0.0), float(gap))
    name = max((n for n in worst if n in mechanism.joints), key=lambda n: worst[n], default="")
    if not name:
        name = max(worst, key=lambda n: worst[n], default="the pins")
        return f"{name!r} cannot be satisfied{advice}: it stays off by {worst.get(name, 0.0):.3g}"
    joint = mechanism.joints[name]
    ends = [at.get(end, mechanism.ground) for end in (joint.a, joint.b)]
    A, B = (numbers(Frame.fixed(b.position, b.rotation).at(m)) for b, m in zip(ends, (joint.on_a, joint.on_b), strict=True))
    apart = float(np.linalg.norm(A[0] - B[0]))
    if isinstance(joint, joints.Distance):
        said = f"its points are {apart:.6g} apart"
    else:
        angle = np.degrees(np.arccos(np.clip(A[1][:, 2] @ B[1][:, 2], -1, 1)))
        said = f"its points stay {apart:.6g} apart" + (f", its axes {angle:.3g} degrees" if joint.places and angle > 0.01 else "")
    return f"joint {name!r} between {joint.a!r} and {joint.b!r} cannot be closed{advice}: {said}; check lengths and points"


def bodies_at(system: Assembled, chosen: Coordinates, q: Array) -> dict[str, Body]:
    """The bodies where coordinates put them."""
    values = system.numeric("frames", system.pack(), q=q)[0].reshape(-1, 12)
    return {
        name: body.at(row[:3], row[3:].reshape(3, 3).T)
        for (name, body), row in zip(chosen.of.bodies.items(), values, strict=True)
    }


def velocities(system: Assembled, chosen: Coordinates, q: Array, rates: Mapping[str, float]) -> Array:
    """Velocities that the constraints allow: those that were given for bodies and joints, the others as small as they can be.

    Where bodies' velocities contradict the joints, the nearest ones in the norm of the kinetic energy.
    """
    at, par = bodies_at(system, chosen, q), system.pack()
    _, v = chosen.start(at)
    G = csc_matrix(system.value("jacobian", par, q=q).sparse()) if system.m else csc_matrix((0, system.nv))
    rate = system.numeric("rate", par, q=q)[0] if system.m else np.zeros(0)
    M = csc_matrix(system.value("mass", par, q=q).sparse())
    Z = None if chosen.kinematics is None else system.expression("kinematics")
    wanted, values = [], []
    for name, value in rates.items():
        joint, _, freedom = name.partition(".")
        chosen.of.get_joint(joint)
        slope = ca.jacobian(measured(system, chosen, joint, freedom or None), system.q)
        slope = slope if Z is None else slope @ Z
        wanted.append(csc_matrix(ca.Function("J", [system.q], [slope])(q).sparse()))
        values.append(number(f"rates: {name!r}", value, ModelError))
    told = [body for body in at.values() if body.velocity.any() or body.angular_velocity.any()]
    own = [chosen.rates_of(body, q) for body in told]
    right = np.concatenate([-rate, np.array(values), *(given for _, given in own)])
    if not right.any():
        return np.zeros(system.nv)  # without the rounding of a solution
    found, left = _least(M, bmat([[x] for x in (G, *wanted, *(J for J, _ in own))], format="csc"), np.zeros(system.nv), right)
    if left <= 1e-9 * (1 + np.abs(right).max(initial=0.0)):
        return found
    right = np.concatenate([-rate, np.array(values)])
    found, left = _least(M, bmat([[x] for x in (G, *wanted)], format="csc"), M @ v, right)
    if left > 1e-9 * (1 + np.abs(right).max(initial=0.0)):
        what = f"the rates {dict(rates)} contradict the joints" if rates else "the prescribed motions contradict the joints"
        raise InconsistentState(f"{what}: they cannot be satisfied together, by {left:.3g}")
    return found


def _least(M: csc_matrix, C: csc_matrix, b: Array, d: Array) -> tuple[Array, float]:
    """`v` of least `v^T M v / 2 - b . v` with `C v = d`, and how far off that is."""
    if not C.shape[0]:
        return np.asarray(splu(csc_matrix(M)).solve(b)), 0.0
    length = np.sqrt(np.asarray(C.multiply(C).sum(axis=1)).ravel())
    empty = length <= 1e-12 * length.max()  # rows of zeros and their rounding: what they ask for cannot be had, or is zero
    length[empty] = 1.0
    C, d = csc_matrix(diags(np.where(empty, 0.0, 1 / length)) @ C), d / length
    size = float(M.diagonal().max())
    m = C.shape[0]
    K = splu(bmat([[M / size, C.T], [C, diags(np.full(m, -SLACK))]], format="csc"))
    x = np.zeros(C.shape[1] + m)
    for _ in range(12):  # the slack is taken out again by refinement
        v, lam = x[: C.shape[1]], x[C.shape[1] :]
        x = x + K.solve(np.concatenate([b / size - M @ v / size - C.T @ lam, d - C @ v]))
    v = x[: C.shape[1]]
    return v, float(np.abs(C @ v - d).max(initial=0.0))
