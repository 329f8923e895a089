"""The elements of a URDF file: links, joints, places and limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dalembert.checking import one_of
from dalembert.errors import ModelError
from dalembert.mechanisms import importing, joints
from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.importing import HERE
from dalembert.mechanisms.joints import Freedom
from dalembert.mechanisms.markup import Node
from dalembert.mechanisms.rotations import Array, about

KINDS: dict[str, type[joints.Joint]] = {
    "revolute": joints.Revolute, "continuous": joints.Revolute, "prismatic": joints.Prismatic, "fixed": joints.Fixed,
    "floating": joints.Free, "planar": joints.Planar,
}  # fmt: skip


@dataclass(eq=False)
class Link:
    """A link: its inertia about the centre of mass in its own axes, its shapes as nodes, and the joint that leads to it."""

    node: Node
    mass: float
    inertia: Array
    center: Array
    joint: Hinge | None = None


@dataclass(eq=False)
class Hinge:
    """A joint of the file: the place of its frame, which is that of the child, in the frame of the parent."""

    node: Node
    name: str
    kind: type[joints.Joint]
    parent: str
    child: str
    place: Marker
    axis: Array
    value: float = 0.0

    @property
    def fixed(self) -> bool:
        return not self.kind.freedoms

    @property
    def freedom(self) -> Freedom | None:
        """The freedom of a joint that has one."""
        return self.kind.freedoms[0] if len(self.kind.freedoms) == 1 else None

    @property
    def moved(self) -> Marker:
        """The frame of the child in that of the parent, where the joint has its value."""
        if self.freedom is None or not self.value:
            return self.place
        turned = Marker(np.zeros(3), about(self.axis, self.value))
        return self.place.then(turned if self.freedom.turns else Marker(self.axis * self.value, np.eye(3)))


def place(node: Node | None) -> Marker:
    """The place of `<origin xyz rpy>`; rpy are angles about fixed axes x, y, z."""
    origin = None if node is None else node.one("origin")
    if origin is None:
        return HERE
    zero = (0.0, 0.0, 0.0)
    return Marker(origin.numbers("xyz", 3, zero), importing.turned("xyz", origin.numbers("rpy", 3, zero)))


def color(material: Node) -> str | None:
    given = material.one("color")
    return None if given is None else importing.color(given.numbers("rgba", 4))


def link(node: Node) -> Link:
    inertial = node.one("inertial")
    zero = Link(node, 0.0, np.zeros((3, 3)), np.zeros(3))
    if inertial is None:
        return zero
    mass, moments = inertial.one("mass"), inertial.one("inertia")
    if mass is None:
        inertial.refuse("it needs a <mass value=...>")
    value = mass.number("value")
    if value < 0:
        mass.refuse(f"the mass must not be negative, it is {value:g}")
    if not value:
        return zero
    if moments is None:
        inertial.refuse("it needs an <inertia ixx=... iyy=... izz=...>")
    at = place(inertial)
    return Link(node, value, at.axes @ importing.inertia(moments) @ at.axes.T, at.point)


def hinge(node: Node) -> Hinge:
    kind = one_of(f"{node.where}: type", node.text("type"), KINDS, ModelError)
    ends = []
    for tag in ("parent", "child"):
        end = node.one(tag)
        if end is None:
            node.refuse(f"it needs a <{tag} link=...>")
        ends.append(end.text("link"))
    axis, given = np.array([1.0, 0.0, 0.0]), node.one("axis")
    if given is not None and kind not in ("fixed", "floating"):
        axis = given.numbers("xyz", 3)
        if not np.linalg.norm(axis):
            given.refuse("the axis must not be zero")
    return Hinge(node, node.text("name"), KINDS[kind], ends[0], ends[1], place(node), axis / np.linalg.norm(axis))


def limits(hinge: Hinge) -> dict[str, tuple[float, float]]:
    """What a joint may do: its value, its velocity and its effort."""
    node = hinge.node.one("limit")
    if node is None or hinge.freedom is None:
        return {}
    out: dict[str, tuple[float, float]] = {}
    low, high = node.number("lower", 0.0), node.number("upper", 0.0)
    if low > high:
        node.refuse(f"lower is {low:g}, above upper, {high:g}")
    if hinge.node.text("type") != "continuous":
        out[hinge.freedom.name] = (low, high)
    for name in ("velocity", "effort"):
        if name in node.attributes:
            most = node.number(name)
            out[name] = (-most, most)
    return out
