"""Machines in space: governor, Stewart platform, suspension, robot arm, chain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dalembert.catalog.mechanisms.linkages import turned
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.mechanisms import Mechanism, shapes


@declared(ModelError)
def governor(spin: float = 12.0, angle: float = 0.8, arm: float = 0.4, ball: float = 1.0, stiffness: float = 150.0) -> Mechanism:
    """Watt's governor: two balls on arms that turn with a shaft, and a sleeve on a spring."""
    m = Mechanism(name="governor")
    top, lower = 0.6, 0.6 - 2 * arm * np.cos(angle) * 0.6
    m.body("shaft", mass=1.0, shape=shapes.Cylinder(0.02, 0.7, position=(0, 0, 0.3)), angular_velocity=(0, 0, spin))
    m.body("sleeve", mass=0.8, position=(0, 0, lower), shape=shapes.Cylinder(0.05, 0.08), angular_velocity=(0, 0, spin))
    m.revolute("bearing", "ground", "shaft", at=(0, 0, 0), axis="z")
    m.prismatic("slide", "shaft", "sleeve", axis="z")
    for side, name in ((1, "right"), (-1, "left")):
        out = np.array([side * np.sin(angle), 0.0, -np.cos(angle)])
        tip, knee = np.array([0, 0, top]) + arm * out, np.array([0, 0, top]) + 0.6 * arm * out
        m.body(
            f"{name} arm", mass=ball, position=tip, inertia=[4e-3, 4e-3, 4e-3], velocity=np.cross((0, 0, spin), tip),
            angular_velocity=(0, 0, spin), shape=[shapes.Sphere(0.06), _bar((0, 0, top) - tip)],
        )  # fmt: skip
        low = np.array([0, 0, lower])
        m.rod(f"{name} link", knee, low, mass=0.1, radius=0.012)
        m.revolute(f"{name} hinge", "shaft", f"{name} arm", at=(0, 0, top), axis="y")
        m.spherical(f"{name} knee", f"{name} arm", f"{name} link", at=knee)
        m.universal(f"{name} foot", "sleeve", f"{name} link", at=low, axis="y", second=np.cross((0, 1, 0), knee - low))
    m.spring("spring", "shaft", "sleeve", stiffness=stiffness, start=(0, 0, top), end=(0, 0, lower))
    return m


def _bar(along: np.ndarray) -> shapes.Shape:
    """A thin bar from the origin of a body's frame."""
    return shapes.Cylinder(0.012, float(np.linalg.norm(along)), axis=along, position=along / 2)


@declared(ModelError)
def stewart_platform(height: float = 0.6, base: float = 0.5, top: float = 0.3, lift: float = 0.1, rate: float = 3.0) -> Mechanism:
    """A platform on six legs of prescribed length (Gough 1947, Stewart 1965), which tilt and lift it."""
    m = Mechanism(name="Stewart platform", parameters={"lift": lift, "rate": rate})
    m.body("platform", mass=5.0, position=(0, 0, height), shape=shapes.Cylinder(1.15 * top, 0.04))
    for k in range(6):
        side = 1 if k % 2 else -1
        low, high = (2 * np.pi * (k // 2) / 3 + side * d for d in (0.25, np.pi / 3 - 0.25))
        foot = np.array([base * np.cos(low), base * np.sin(low), 0.0])
        head = np.array([top * np.cos(high), top * np.sin(high), height])
        length, phase = float(np.linalg.norm(head - foot)), np.pi * (k // 2) / 3

        m.distance(f"leg {k + 1}", "ground", "platform", start=foot, end=head, length=_driven(length, float(np.cos(phase) ** 2)))
    return m


def _driven(length: float, share: float) -> Callable[[np.ndarray, np.ndarray, np.ndarray], object]:
    """A leg that grows by a share of `lift` and shrinks again."""
    return lambda t, lift, rate: length + share * lift * (1 - np.cos(rate * t)) / 2


@declared(ModelError)
def double_wishbone(stiffness: float = 25_000.0, damping: float = 1500.0) -> Mechanism:
    """A wheel suspension: two wishbones, an upright, a track rod, and a strut; the road is an input force."""
    m = Mechanism(name="double wishbone")
    low = {"front": (0.15, 0.3, 0.2), "rear": (-0.15, 0.3, 0.2), "ball": (0.0, 0.75, 0.18)}
    high = {"front": (0.1, 0.35, 0.45), "rear": (-0.15, 0.35, 0.45), "ball": (-0.02, 0.7, 0.46)}
    for name, arm in (("lower", low), ("upper", high)):
        ball, hinge = np.array(arm["ball"]), (np.array(arm["front"]) + np.array(arm["rear"])) / 2
        middle = (ball + hinge) / 2
        bars = [_between(np.array(arm[end]) - middle, ball - middle) for end in ("front", "rear")]
        m.body(f"{name} arm", mass=2.5, position=middle, inertia=[0.05, 0.03, 0.06], shape=bars)
        axis = np.array(arm["front"]) - np.array(arm["rear"])
        m.revolute(f"{name} hinge", "ground", f"{name} arm", at=hinge, axis=axis)
    wheel = np.array([0.0, 0.8, 0.3])
    m.body("upright", mass=30.0, position=wheel, inertia=[0.9, 1.2, 0.9], shape=shapes.Cylinder(0.3, 0.18, axis="y"))
    m.spherical("lower ball", "lower arm", "upright", at=low["ball"])
    m.spherical("upper ball", "upper arm", "upright", at=high["ball"])
    m.distance("track rod", "ground", "upright", start=(-0.12, 0.32, 0.25), end=(-0.12, 0.73, 0.24))
    m.spring("strut", "ground", "lower arm", stiffness=stiffness, damping=damping, start=(0, 0.4, 0.7), end=(0, 0.6, 0.19))
    m.force("road", "upright", direction="z", at=(0, 0.8, 0.0))
    m.sensor("hub", "upright")
    return m


def _between(a: np.ndarray, b: np.ndarray) -> shapes.Shape:
    """A round bar between two points of a body."""
    return shapes.Cylinder(0.015, float(np.linalg.norm(b - a)), axis=b - a, position=(a + b) / 2)


@declared(ModelError)
def six_axis_arm(payload: float = 2.0) -> Mechanism:
    """A robot arm with six hinges and motors, of the size of a small industrial robot."""
    m = Mechanism(name="six-axis arm")
    links = [  # name, joint at, axis, centre, mass, shape
        ("base", (0, 0, 0.1), "z", (0, 0, 0.2), 12.0, shapes.Cylinder(0.11, 0.2)),
        ("shoulder", (0, 0, 0.35), "y", (0, 0, 0.58), 9.0, shapes.Box(0.1, 0.12, 0.5)),
        ("elbow", (0, 0, 0.8), "y", (0.12, 0, 0.82), 6.0, shapes.Box(0.3, 0.1, 0.1)),
        ("forearm", (0.25, 0, 0.82), "x", (0.4, 0, 0.82), 3.5, shapes.Cylinder(0.045, 0.32, axis="x")),
        ("wrist", (0.58, 0, 0.82), "y", (0.61, 0, 0.82), 1.5, shapes.Sphere(0.055)),
        ("flange", (0.66, 0, 0.82), "x", (0.7, 0, 0.82), 0.5 + payload, shapes.Cylinder(0.05, 0.06, axis="x")),
    ]
    before = "ground"
    for name, at, axis, centre, mass, shape in links:
        m.body(name, mass=mass, position=centre, shape=shape)
        m.revolute(f"{name} joint", before, name, at=at, axis=axis)
        m.motor(f"{name} motor", f"{name} joint")
        before = name
    m.sensor("tool", "flange", at=(0.73, 0, 0.82))
    return m


@declared(ModelError)
def chain_in_space(links: int = 10, length: float = 0.2, mass: float = 0.1) -> Mechanism:
    """A chain of rods and ball joints in space, let go from the horizontal."""
    m, R = Mechanism(name="chain in space"), turned("z", 0.3)
    before = "ground"
    for k in range(links):
        start, end = R @ (k * length, 0, 0), R @ ((k + 1) * length, 0, 0)
        m.rod(f"link {k + 1}", start, end, mass=mass, radius=0.1 * length)
        m.spherical(f"ball {k + 1}", before, f"link {k + 1}", at=start)
        before = f"link {k + 1}"
    return m
