"""The joints of a body in an MJCF file, several one after another, as one joint of a mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.mechanisms import joints, rotations
from dalembert.mechanisms.frames import Frame, Marker, numbers
from dalembert.mechanisms.importing import HERE
from dalembert.mechanisms.markup import Node
from dalembert.mechanisms.mjcf_elements import ZERO, Settings, unit
from dalembert.mechanisms.rotations import Array

NEAR = 1e-9


@dataclass(eq=False)
class Several:
    """A joint: its frame in that of the body, which of its freedoms each joint of the file is, and their values as drawn.

    A free joint has the coordinates of the `world`.
    """

    name: str
    kind: type[joints.Joint]
    frame: Marker
    hinges: list[tuple[str, Node]] = field(default_factory=list)
    drawn: dict[str, float] = field(default_factory=dict)
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    world: bool = False

    def offsets(self, body: Node) -> tuple[Marker, Marker]:
        """What leads from the drawing to values of zero, on the side of the parent and on that of the body.

        The file counts each value from where it is drawn: `S(x - x0) T1(a - a0) T2(b - b0) ...`. Shifts come first, and go to the
        parent; the last turn goes to the body; the first of several turns to the parent, where nothing is shifted.
        """
        turning = [f for f in self.kind.freedoms if f.turns]
        shifts = [f for f in self.kind.freedoms if not f.turns]
        near, far = HERE, HERE
        for freedom in self.kind.freedoms:
            value = self.drawn.get(freedom.name, 0.0)
            if not value:
                continue
            if not freedom.turns or (freedom is turning[0] and len(turning) > 1 and not shifts):
                near = near.then(_moved(freedom, -value))
            elif freedom is turning[-1]:
                far = _moved(freedom, -value)
            else:
                body.refuse("ref of the joint in the middle of several is not supported")
        return near, far


def _moved(freedom: joints.Freedom, value: float) -> Marker:
    frame = freedom.apply(Frame.fixed(np.zeros(3), np.eye(3)), SX(value))
    return Marker(*numbers(Frame(ca.densify(frame.origin), ca.densify(frame.axes))))


def joined(body: Node, given: list[Node], settings: Settings) -> Several:
    """The joint between a body and its parent: none is a weld."""
    name = body.attributes.get("name", f"body of line {body.line}")
    called = "_".join(j.attributes.get("name", f"{name}_joint{k or ''}") for k, j in enumerate(given)) or f"{name}_weld"
    kinds = ["free" if j.tag == "freejoint" else j.text("type", "hinge") for j in given]
    for kind, node in zip(kinds, given, strict=True):
        if kind not in ("hinge", "slide", "ball", "free"):
            node.refuse(f"there is no joint of the type {kind!r}; hinge, slide, ball and free are")
    if not given:
        return Several(called, joints.Fixed, HERE)
    if kinds == ["free"]:
        return Several(called, joints.Free, HERE, world=True)
    if kinds == ["ball"]:
        ball = Several(called, joints.Spherical, Marker(given[0].numbers("pos", 3, ZERO), np.eye(3)))
        for key in ("damping", "stiffness", "armature", "frictionloss"):
            if given[0].number(key, 0.0):
                given[0].refuse(f"{key} of a ball joint is not supported")
        return ball
    found = _chain(called, kinds, given)
    if found is None:
        body.refuse(
            f"its joints ({', '.join(kinds)}) are none that can be one joint: a universal, ball, planar or cylindrical joint at "
            "one point, or three slides and three hinges; put a body with a mass between them"
        )
    for freedom, node in found.hinges:
        turns = next(f.turns for f in found.kind.freedoms if f.name == freedom)
        ref = node.number("ref", 0.0)
        found.drawn[freedom] = settings.angle(ref) if turns else ref
        limited = node.text("limited", "auto" if settings.compiler.get("autolimits", "true") == "true" else "false")
        if "range" in node.attributes and limited in ("auto", "true"):
            low, high = node.numbers("range", 2)
            found.limits[freedom] = (settings.angle(low), settings.angle(high)) if turns else (float(low), float(high))
    return found


def _chain(called: str, kinds: list[str], given: list[Node]) -> Several | None:
    """Hinges and slides one after another; None where they are no joint that there is."""
    axes = [unit(node, "axis", node.numbers("axis", 3, (0.0, 0.0, 1.0))) for node in given]
    points = [node.numbers("pos", 3, ZERO) for node in given]
    turning = [k for k, kind in enumerate(kinds) if kind == "hinge"]
    at = points[turning[0]] if turning else points[0]
    size = 1 + float(np.abs(at).max())
    if any(np.abs(points[k] - at).max() > NEAR * size for k in turning):
        return None
    if len(given) == 1:
        kind = joints.Revolute if turning else joints.Prismatic
        return _named(called, kind, at, rotations.frame(axes[0]), given, [kind.freedoms[0].name])
    if sorted(kinds) == ["hinge", "slide"] and np.linalg.norm(np.cross(axes[0], axes[1])) < NEAR and axes[0] @ axes[1] > 0:
        names = ["angle" if kind == "hinge" else "displacement" for kind in kinds]
        return _named(called, joints.Cylindrical, at, rotations.frame(axes[0]), given, names)
    if kinds == ["hinge", "hinge"] and abs(axes[0] @ axes[1]) < NEAR:
        R = np.column_stack([*axes, np.cross(axes[0], axes[1])])
        return _named(called, joints.Universal, at, R, given, ["angle_x", "angle_y"])
    if kinds == ["slide", "slide", "hinge"] and _cross(axes):
        swapped = np.cross(axes[0], axes[1]) @ axes[2] < 0
        R = np.column_stack([axes[1], axes[0], axes[2]] if swapped else axes)
        return _named(called, joints.Planar, at, R, given, ["y", "x", "angle"] if swapped else ["x", "y", "angle"])
    if kinds == ["hinge"] * 3 and _cross(axes) and np.linalg.det(np.array(axes)) > 0:
        return _named(called, joints.Spherical, at, np.column_stack(axes), given, ["angle_x", "angle_y", "angle_z"])
    return _six(called, kinds, given, axes, at)


def _six(called: str, kinds: list[str], given: list[Node], axes: list[Array], at: Array) -> Several | None:
    """Three slides and three hinges along the same axes: all motions."""
    if kinds != ["slide"] * 3 + ["hinge"] * 3 or not _cross(axes[:3]) or not np.allclose(axes[:3], axes[3:], atol=NEAR):
        return None
    if np.linalg.det(np.array(axes[:3])) < 0:
        return None
    return _named(called, joints.Free, at, np.column_stack(axes[:3]), given, [f.name for f in joints.Free.freedoms])


def _cross(axes: list[Array]) -> bool:
    """Whether three directions are perpendicular to one another."""
    return bool(np.allclose(np.array(axes) @ np.array(axes).T, np.eye(3), atol=NEAR))


def _named(called: str, kind: type[joints.Joint], at: Array, R: Array, given: list[Node], names: list[str]) -> Several:
    return Several(called, kind, Marker(at, R), list(zip(names, given, strict=True)))
