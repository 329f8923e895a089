"""The picture of a mechanism: its bodies as their shapes, pins of its joints, and lines where a body has no shape."""

from __future__ import annotations

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.mechanisms import joints, shapes
from dalembert.mechanisms.coordinates import Coordinates
from dalembert.mechanisms.description import Description
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.repeating import Signed
from dalembert.mechanisms.rotations import Array
from dalembert.systems.picture import SI, Picture
from dalembert.systems.solids import Solid

MOST = 200  # joints that are drawn as points of their own
COLOURS = ("#4C86B8", "#D98545", "#4FA88A", "#B97BA6", "#C9A23A", "#7FB7DD", "#8A8F98", "#A8665B")  # of bodies, one after another
PIN = "#3A3F46"
UNITS = {"x": "m", "y": "m", "z": "m", "theta": "rad", "angle": "rad", "displacement": "m"}  # of coordinates, by their endings
TIP = 1e-3  # of the mechanism: how long the axes are whose tips are points, so that these are inside of the body


def picture(coordinates: Coordinates) -> Picture:
    """Points: centres of mass, tips of the axes of bodies with shapes, joints of the others; and what joins them."""
    of = coordinates.of
    number = {name: i for i, name in enumerate(of.bodies)}
    axes = 2 if of.flat else 3
    solid = [name for name, body in of.bodies.items() if body.shape]
    tips = {name: len(number) + axes * k for k, name in enumerate(solid)}
    scale = TIP * coordinates.size
    links, marks = _lines(of, number, len(number) + axes * len(solid))

    def points(given: dict[str, SX]) -> SX:
        found = coordinates.frames(given["q"])
        rows = [found[name].origin for name in number]
        rows += [_tip(found[name], i, scale) for name in solid for i in range(axes)]
        rows += [found[name].point(point) for name, point in marks]
        return ca.densify(ca.horzcat(*(row[: of.dimension] for row in rows)).T)

    surfaces = []
    pins = _pins(of, coordinates.size) if len(of.joints) <= MOST else {}
    for k, name in enumerate(solid):
        frame = (number[name], *(tips[name] + i for i in range(axes)))
        own = COLOURS[k % len(COLOURS)]
        # shapes count from the origin of the body's frame, pins from its centre of mass
        parts = [(shape, shape.color or own, of.bodies[name].center) for shape in of.bodies[name].shape]
        parts += [(pin, PIN, np.zeros(3)) for pin in pins.get(name, [])]
        for shape, color, origin in parts:
            corners, faces = shape.drawn()
            surfaces.append(Solid(frame, ((corners - origin) / scale)[:, :axes], faces, color))
    masses = tuple(i for name, i in number.items() if name not in tips)
    trails = range(len(number)) if len(number) <= 3 else ()
    units = SI | {name: unit for name in coordinates.names if (unit := UNITS.get(name.rpartition(".")[2]))}
    return Picture(Signed(["q"], points), links, masses, trails, units=units, solids=surfaces)


def _tip(frame: Frame, axis: int, scale: float) -> SX:
    return frame.origin + scale * frame.axes[:, axis]


def _lines(of: Description, number: dict[str, int], first: int) -> tuple[list[tuple[int, int]], list[tuple[str, Array]]]:
    """Lines from the centres of mass to the joints, of bodies without a shape; and rods that keep a distance."""
    links: list[tuple[int, int]] = []
    marks: list[tuple[str, Array]] = []
    if len(of.joints) > MOST:
        return [(number[j.a], number[j.b]) for j in of.joints.values() if j.a in number and j.b in number], marks
    for joint in of.joints.values():
        ends = ((joint.a, joint.on_a), (joint.b, joint.on_b))
        if isinstance(joint, joints.Distance):
            links.append((first + len(marks), first + len(marks) + 1))
            marks += [(name, marker.point) for name, marker in ends]
            continue
        for name, marker in ends:
            if name in number and not of.bodies[name].shape:
                links.append((number[name], first + len(marks)))
                marks.append((name, marker.point))
    return links, marks


def _pins(of: Description, size: float) -> dict[str, list[shapes.Shape]]:
    """Pins of joints with an axis and balls of the others, on the second body that has a shape."""
    out: dict[str, list[shapes.Shape]] = {}
    for joint in of.joints.values():
        pinned = isinstance(joint, (joints.Revolute, joints.Cylindrical, joints.Universal))
        if not pinned and not isinstance(joint, joints.Spherical):
            continue
        for name, marker in ((joint.b, joint.on_b), (joint.a, joint.on_a)):
            body = of.bodies.get(name)
            if body is None or not body.shape:
                continue
            thick = _thickness(body.shape, size)
            if pinned:
                shape: shapes.Shape = shapes.Cylinder(
                    0.55 * thick,
                    2.6 * thick,
                    axis=marker.axes[:, 0 if isinstance(joint, joints.Universal) else 2],
                    position=marker.point,
                )
            else:
                shape = shapes.Sphere(0.8 * thick, position=marker.point)
            out.setdefault(name, []).append(shape)
            break
    return out


def _thickness(parts: tuple[shapes.Shape, ...], size: float) -> float:
    """Half of the smallest edge of the box around a body, but not next to nothing."""
    corners = np.concatenate([shape.drawn()[0] for shape in parts])
    return float(np.clip(np.ptp(corners, axis=0).min() / 2, 0.015 * size, 0.12 * size))
