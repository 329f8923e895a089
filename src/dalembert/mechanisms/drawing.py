"""A plain picture of a mechanism: centres of mass, joints, and lines between them."""

from __future__ import annotations

import casadi as ca
from casadi import SX

from dalembert.mechanisms.coordinates import Coordinates
from dalembert.mechanisms.repeating import Signed
from dalembert.mechanisms.rotations import Array
from dalembert.systems.picture import SI, Picture

MOST = 200  # joints that are drawn as points of their own


def picture(coordinates: Coordinates) -> Picture:
    """Points and lines: each body has lines from its centre of mass to its joints."""
    of = coordinates.of
    number = {name: i for i, name in enumerate(of.bodies)}
    links: list[tuple[int, int]] = []
    marks: list[tuple[str, Array]] = []
    if len(of.joints) <= MOST:
        for joint in of.joints.values():
            for name, marker in ((joint.a, joint.on_a), (joint.b, joint.on_b)):
                if name in number:
                    links.append((number[name], len(number) + len(marks)))
                    marks.append((name, marker.point))
    else:
        links = [(number[j.a], number[j.b]) for j in of.joints.values() if j.a in number and j.b in number]

    def points(given: dict[str, SX]) -> SX:
        found = coordinates.frames(given["q"])
        rows = [found[name].origin for name in number] + [found[name].point(point) for name, point in marks]
        return ca.densify(ca.horzcat(*(row[: of.dimension] for row in rows)).T)

    trails = range(len(number)) if len(number) <= 6 else ()
    return Picture(Signed(["q"], points), links, tuple(number.values()), trails, units=SI)
