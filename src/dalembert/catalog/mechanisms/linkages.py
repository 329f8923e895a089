"""Linkages: bars and hinges, in the plane and in space."""

from __future__ import annotations

import numpy as np

from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.mechanisms import Mechanism, shapes
from dalembert.mechanisms.rotations import about

Point = tuple[float, float]


def _bars(m: Mechanism, bars: dict[str, tuple[Point, Point]], density: float) -> None:
    for name, (start, end) in bars.items():
        length = float(np.hypot(end[0] - start[0], end[1] - start[1]))
        m.rod(name, start, end, mass=density * length, radius=0.02)


def _meet(a: Point, r: float, b: Point, s: float, side: float) -> Point:
    """The point at the distance `r` from `a` and `s` from `b`, on one side of the line from `a` to `b`."""
    A, B = np.array(a), np.array(b)
    d = float(np.linalg.norm(B - A))
    x = (d**2 + r**2 - s**2) / (2 * d)
    if r**2 < x**2:
        raise ModelError(f"no point is {r:g} from {a} and {s:g} from {b}: the bars do not reach")
    along = (B - A) / d
    p = A + x * along + side * np.sqrt(r**2 - x**2) * np.array([-along[1], along[0]])
    return float(p[0]), float(p[1])


@declared(ModelError)
def four_bar(crank: float = 0.3, coupler: float = 0.9, rocker: float = 0.7, base: float = 1.0, angle: float = 1.0) -> Mechanism:
    """Four-bar linkage with a motor on its crank; crank and rocker where Grashof's condition holds."""
    m = Mechanism(gravity=(0, -9.81), name="four-bar")
    tip = (crank * float(np.cos(angle)), crank * float(np.sin(angle)))
    top = _meet(tip, coupler, (base, 0.0), rocker, 1.0)
    _bars(m, {"crank": ((0.0, 0.0), tip), "coupler": (tip, top), "rocker": (top, (base, 0.0))}, 2.0)
    m.revolute("shaft", "ground", "crank", at=(0, 0))
    m.revolute("pin", "crank", "coupler", at=tip)
    m.revolute("knee", "coupler", "rocker", at=top)
    m.revolute("pivot", "rocker", "ground", at=(base, 0))
    m.motor("motor", "shaft")
    m.sensor("tracer", "coupler", on=(0.0, 0.25))
    return m


@declared(ModelError)
def slider_crank(crank: float = 0.2, rod: float = 0.6, angle: float = 0.8) -> Mechanism:
    """Slider-crank with a motor on its crank and a piston."""
    m = Mechanism(gravity=(0, -9.81), name="slider-crank")
    tip = (crank * float(np.cos(angle)), crank * float(np.sin(angle)))
    if rod <= abs(tip[1]):
        raise ModelError(f"the rod of length {rod:g} does not reach the line of the piston from the height {tip[1]:g}")
    end = (tip[0] + float(np.sqrt(rod**2 - tip[1] ** 2)), 0.0)
    _bars(m, {"crank": ((0.0, 0.0), tip), "rod": (tip, end)}, 3.0)
    m.body("piston", mass=0.5, position=end, shape=shapes.Box(0.14, 0.12, 0.12))
    m.revolute("shaft", "ground", "crank", at=(0, 0))
    m.revolute("pin", "crank", "rod", at=tip)
    m.revolute("wrist", "rod", "piston", at=end)
    m.prismatic("bore", "ground", "piston", axis=(1, 0))
    m.motor("motor", "shaft")
    return m


@declared(ModelError)
def watt(arm: float = 0.6, link: float = 0.4) -> Mechanism:
    """Watt's linkage: the middle of its link moves almost on a straight line (Watt 1784)."""
    m = Mechanism(gravity=(0, -9.81), name="Watt's linkage")
    left, right, lift = (-arm, 0.0), (arm, 0.0), link / 2
    half = float(np.sqrt(arm**2 - lift**2))
    a, b = (left[0] + half, lift), (right[0] - half, -lift)
    _bars(m, {"left": (left, a), "link": (a, b), "right": (b, right)}, 2.0)
    m.revolute("a", "ground", "left", at=left)
    m.revolute("b", "left", "link", at=a)
    m.revolute("c", "link", "right", at=b)
    m.revolute("d", "right", "ground", at=right)
    m.sensor("middle", "link")
    return m


@declared(ModelError)
def peaucellier(arm: float = 1.0, side: float = 0.5, crank: float = 0.35, angle: float = 0.3) -> Mechanism:
    """Peaucellier's inversor: seven bars that draw an exact straight line (Peaucellier 1864)."""
    m = Mechanism(gravity=(0, -9.81), name="Peaucellier's inversor")
    o, c = (0.0, 0.0), (crank, 0.0)
    p = (crank + crank * float(np.cos(angle)), crank * float(np.sin(angle)))
    a, b = _meet(o, arm, p, side, 1.0), _meet(o, arm, p, side, -1.0)
    q = (a[0] + b[0] - p[0], a[1] + b[1] - p[1])
    bars = {"crank": (c, p), "upper arm": (o, a), "lower arm": (o, b), "ap": (a, p), "bp": (b, p), "aq": (a, q), "bq": (b, q)}
    _bars(m, bars, 1.0)
    m.revolute("O upper", "ground", "upper arm", at=o)
    m.revolute("O lower", "ground", "lower arm", at=o)
    m.revolute("C", "ground", "crank", at=c)
    for name, point, joined in (("A", a, ("upper arm", "ap", "aq")), ("B", b, ("lower arm", "bp", "bq"))):
        for other in joined[1:]:
            m.revolute(f"{name} {other}", joined[0], other, at=point)
    m.revolute("P ap", "crank", "ap", at=p)
    m.revolute("P bp", "crank", "bp", at=p)
    m.revolute("Q", "aq", "bq", at=q)
    m.sensor("pen", "aq", at=q)
    m.motor("motor", "C")
    return m


@declared(ModelError)
def parallelogram(cranks: int = 3, length: float = 0.5, spacing: float = 0.6, angle: float = 1.2) -> Mechanism:
    """A platform on parallel cranks in the plane: with more than two of them, constraints are redundant.

    Assemble it with `redundant="remove"` or `redundant="least-norm"`.
    """
    m = Mechanism(gravity=(0, -9.81), name="parallelogram")
    reach = (length * float(np.cos(angle)), length * float(np.sin(angle)))
    tips = [(spacing * k + reach[0], reach[1]) for k in range(cranks)]
    middle = (spacing * (cranks - 1) / 2 + reach[0], reach[1])
    m.body("platform", mass=4.0, position=middle, shape=shapes.Box(spacing * (cranks - 1) + 0.1, 0.05, 0.1))
    for k, tip in enumerate(tips, 1):
        m.rod(f"crank {k}", (spacing * (k - 1), 0), tip, mass=1.0, radius=0.02)
        m.revolute(f"foot {k}", "ground", f"crank {k}", at=(spacing * (k - 1), 0))
        m.revolute(f"head {k}", f"crank {k}", "platform", at=tip)
    return m


@declared(ModelError)
def bricard(length: float = 1.0) -> Mechanism:
    """Bricard's linkage: five bars and six hinges in space, which Grueber's formula counts as rigid, and which moves.

    The hinges are at corners of a cube, their axes along its edges (Bricard 1897). Assemble it with
    `redundant="remove"` or `redundant="least-norm"`.
    """
    m, e = Mechanism(gravity=(0, 0, -9.81), name="Bricard's linkage"), length
    corners = [(0, 0, 0), (e, 0, 0), (e, -e, 0), (e, -e, e), (0, -e, e), (0, 0, e)]
    hinges = [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, -1, 0), (0, 0, 1), (1, 0, 0)]
    for k in range(5):
        m.rod(f"bar {k + 1}", corners[k], corners[k + 1], mass=1.0, radius=0.04)
    chain = ["ground", *(f"bar {k}" for k in range(1, 6)), "ground"]
    for k, (corner, axis) in enumerate(zip(corners, hinges, strict=True)):
        m.revolute(f"hinge {k + 1}", chain[k], chain[k + 1], at=corner, axis=axis)
    return m


def turned(axis: str, angle: float) -> np.ndarray:
    """A rotation about an axis of the world."""
    return about(np.eye(3)["xyz".index(axis)], angle)
