"""The spanning tree of a mechanism: which joints lead from the ground to each body, as links."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.mechanisms import forces, joints, rotations
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.description import Description
from dalembert.mechanisms.frames import Frame, Marker, along, numbers, turn
from dalembert.mechanisms.joints import Freedom, Joint
from dalembert.mechanisms.recursion import GROUND, Ball, Hinge, Link
from dalembert.mechanisms.rotations import Array

HERE = Marker(np.zeros(3), np.eye(3))
TINY = 1e-15  # of the size of the mechanism, or of 1 in axes: what a zero of the drawing becomes by rounding


@dataclass(frozen=True, eq=False)
class Branch:
    """A joint of the tree, from the body that is nearer to the ground to the next one."""

    joint: Joint
    parent: str
    child: str

    @property
    def forward(self) -> bool:
        """Whether the joint leads in this direction itself."""
        return self.child == self.joint.b

    def markers(self) -> tuple[Marker, Marker]:
        """The frames of the joint on the nearer body and on the other one."""
        one, other = self.joint.on_a, self.joint.on_b
        return (one, other) if self.forward else (other, one)


@dataclass(eq=False)
class Tree:
    """Links, the names of their coordinates, and where each body is: on which link, and at which place of it.

    `values` are those of the freedoms of the joints in the tree: the number of a coordinate with factor and constant, or no
    number and the constant.
    """

    of: Description
    quaternions: bool = False
    links: list[Link] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    places: dict[str, tuple[int, Marker]] = field(default_factory=dict)
    values: dict[tuple[str, str], tuple[int | None, float, float]] = field(default_factory=dict)
    branches: list[Branch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.size = extent(self.of)
        self.places["ground"] = (GROUND, HERE)
        self.branches = spanning(self.of)
        for branch in self.branches:
            self._grow(branch)

    def value(self, joint: str, freedom: str, q: SX) -> SX:
        """The value of a freedom of a joint in the tree."""
        k, factor, rest = self.values[joint, freedom]
        return SX(rest) if k is None else (q[k] if factor == 1 and not rest else factor * q[k] + rest)

    def _grow(self, branch: Branch) -> None:
        """Add the links of a joint, and the body at their end."""
        joint, (near, far) = branch.joint, branch.markers()
        drawn = measured(self.of, joint)
        link, place = self.places[branch.parent]
        place, sense = self.tidy(place.then(near)), 1.0 if branch.forward else -1.0
        freedoms = joint.freedoms if branch.forward else joint.freedoms[::-1]
        moving = [f for f in freedoms if self._moves(branch, f)]
        turning = [f for f in moving if f.turns]
        several = len(moving) > 1 and not isinstance(joint, joints.Screw)
        for freedom in freedoms:
            zero, key = drawn[freedom.name], (joint.name, freedom.name)
            if isinstance(joint, joints.Screw) and freedom.name == "displacement":
                pitch, angle = joint.lead / (2 * np.pi), drawn["angle"]
                self.values[key] = (len(self.names) - (not branch.forward), pitch, zero - pitch * angle)
                place = place.then(_held(freedom, sense * (zero - pitch * angle)))
            elif freedom not in moving:
                self.values[key] = (None, 0.0, zero)
                place = place.then(_held(freedom, sense * zero))
            elif self.quaternions and len(turning) == 3 and freedom in turning:
                if freedom is turning[-1]:
                    link, place = self._add(Ball(link, self.tidy(place), sense), joint.name), HERE
                    self.start += rotations.quaternion(_rotation(self.of, joint)).tolist()
            else:
                self.values[key] = (len(self.names), 1.0, 0.0)
                pitch = joint.lead / (2 * np.pi) if isinstance(joint, joints.Screw) else 0.0
                name = f"{joint.name}.{freedom.name}" if several else joint.name
                link = self._add(Hinge(link, self.tidy(place), sense, freedom.axis, freedom.turns, pitch), name)
                self.start.append(zero)
                place = HERE
        self.places[branch.child] = (link, self.tidy(place.then(far.inverse())))

    def _add(self, link: Link, name: str) -> int:
        """Add a link and the names of its coordinates; returns its number."""
        self.links.append(link)
        self.names += [f"{name}.{own}" if own else name for own in link.names]
        return len(self.links) - 1

    def _moves(self, branch: Branch, freedom: Freedom) -> bool:
        """Whether a freedom moves the next body: a point mass does not turn, and nothing leaves the plane."""
        if freedom.turns and not self.of.get_body(branch.child).rotates:
            return False
        if not self.of.flat:
            return True
        across = abs(float((self.of.get_body(branch.parent).rotation @ branch.markers()[0].axes)[2, freedom.axis]))
        return across > 1 - 1e-9 if freedom.turns else across < 1e-9

    def tidy(self, place: Marker) -> Marker:
        """A place without the rounding of the drawing."""
        point, axes = np.array(place.point), np.array(place.axes)
        point[np.abs(point) <= TINY * self.size] = 0.0
        axes[np.abs(axes) <= TINY] = 0.0
        near = np.abs(np.abs(axes) - 1) <= TINY
        axes[near] = np.sign(axes[near])
        return Marker(point, axes)


def _held(freedom: Freedom, value: float) -> Marker:
    """The motion by a freedom at a value that does not change."""
    R = turn(freedom.axis, SX(value)) if freedom.turns else SX.eye(3)
    shift = SX(3, 1) if freedom.turns else along(freedom.axis, SX(value))
    origin, axes = numbers(Frame(shift, R))
    return Marker(origin, axes)


def _rotation(of: Description, joint: Joint) -> Array:
    """The axes of the second frame of a joint in those of the first, as drawn."""
    ends = [of.get_body(joint.a), of.get_body(joint.b)]
    A, B = (body.rotation @ mark.axes for body, mark in zip(ends, (joint.on_a, joint.on_b), strict=True))
    return np.asarray(A.T @ B)


def measured(of: Description, joint: Joint, bodies: Mapping[str, Body] | None = None) -> dict[str, float]:
    """The freedoms of a joint as drawn, or where bodies are elsewhere."""
    at = of.bodies if bodies is None else bodies
    ends = [at.get(name, of.ground) for name in (joint.a, joint.b)]
    A, B = joints.drawn(joint, *((body.position, body.rotation) for body in ends))
    values = joint.measures(A, B)
    return {f.name: joints.unrounded(float(ca.evalf(ca.densify(x))), *ends) for f, x in zip(joint.freedoms, values, strict=True)}


def spanning(of: Description) -> list[Branch]:
    """Joints that lead from the ground to all bodies, by short ways.

    Joints with few freedoms come first, among them those that are driven: what is left closes loops, with few constraints. Bodies
    that no joint holds have all freedoms. A joint whose friction depends on its load is a constraint: its multipliers are the
    load.
    """
    at: dict[str, list[Joint]] = defaultdict(list)
    rubbed = {part.joint for part in of.forces.values() if isinstance(part, forces.Friction) and part.coulomb}
    for joint in of.joints.values():
        if joint.tree and joint.name not in rubbed:
            at[joint.a].append(joint)
            at[joint.b].append(joint)
    driven = {part.joint for part in of.forces.values() if isinstance(part, forces.Motor | forces.Motion)}
    order = {name: k for k, name in enumerate(of.joints)}
    out: list[Branch] = []
    depth: dict[str, int] = {}

    heap: list[tuple[int, bool, int, int, str, str, str]] = []

    def reach(body: str, steps: int) -> None:
        depth[body] = steps
        for j in at[body]:
            end = j.b if body == j.a else j.a
            if end not in depth:
                heapq.heappush(heap, (len(j.freedoms), j.name not in driven, steps, order[j.name], j.name, body, end))

    reach("ground", 0)
    for body in [*of.bodies, ""]:
        while heap:
            *_, name, parent, child = heapq.heappop(heap)
            if child not in depth:
                out.append(Branch(of.joints[name], parent, child))
                reach(child, depth[parent] + 1)
        if body and body not in depth:
            out.append(Branch(free(of.bodies[body]), "ground", body))
            reach(body, 1)
    return _ordered(out, {**{name: len(order) + k for k, name in enumerate(of.bodies)}, **order})


def _ordered(branches: list[Branch], order: Mapping[str, int]) -> list[Branch]:
    """The branches in the order in which their joints were added, as far as each comes after what it hangs on."""
    below: dict[str, list[Branch]] = defaultdict(list)
    for branch in branches:
        below[branch.parent].append(branch)
    out: list[Branch] = []
    by = {branch.joint.name: branch for branch in branches}
    heap = [(order[b.joint.name], b.joint.name) for b in below["ground"]]
    heapq.heapify(heap)
    while heap:
        branch = by[heapq.heappop(heap)[1]]
        out.append(branch)
        for b in below[branch.child]:
            heapq.heappush(heap, (order[b.joint.name], b.joint.name))
    return out


def free(body: Body) -> Joint:
    """The joint of a body that nothing holds: its centre of mass against the origin of the world."""
    return joints.Free(name=body.name, a="ground", b=body.name, on_a=HERE, on_b=HERE)


def extent(of: Description) -> float:
    """The size of a mechanism: the longest lever on a body, or the distance of a joint from the world's origin."""
    points = [np.linalg.norm(m.point) for joint in of.joints.values() for m in (joint.on_a, joint.on_b)]
    return float(max([*points, *(np.linalg.norm(body.position) for body in of.bodies.values())], default=1.0)) or 1.0
