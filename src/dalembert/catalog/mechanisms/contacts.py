"""Bodies that touch along curves and planes: a cam with its follower, a ball on a turntable, a wheel."""

from __future__ import annotations

import numpy as np

from dalembert.catalog.mechanisms.linkages import turned
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.mechanisms import Mechanism, shapes
from dalembert.mechanisms.rotations import Array

CORNERS = 96  # of the outline of a cam as it is drawn


@declared(ModelError)
def cam_follower(base: float = 0.25, lift: float = 0.15, roller: float = 0.08, speed: float = 6.0) -> Mechanism:
    """A cam at a constant speed under a roller on a spring: its radius rises from `base` by `lift` and falls again.

    The outline is `r(s) (cos s, sin s)` with `r = base + lift ((1 - cos s) / 2)^2`; the guide goes through the shaft.
    """
    m = Mechanism(gravity=(0, -9.81), name="cam and follower", parameters={"base": base, "lift": lift, "speed": speed})
    rim = np.stack(_outline(2 * np.pi * np.arange(CORNERS) / CORNERS, base, lift), axis=1)
    high = base + lift / 4 + roller
    m.body("cam", density=200.0, shape=_plate(rim, 0.05))
    m.body(
        "follower", mass=1.5, inertia=0.02, position=(0, high),
        shape=[shapes.Cylinder(roller, 0.06), shapes.Box(0.05, 0.5, 0.04, position=(0, 0.25, 0))],
    )  # fmt: skip
    m.revolute("shaft", "ground", "cam", at=(0, 0))
    m.prismatic("guide", "ground", "follower", axis=(0, 1))
    m.spring("spring", "ground", "follower", stiffness=300.0, length=0.8, start=(0, high + 0.7), end=(0, high))
    m.motion("drive", "shaft", lambda t, speed: speed * t)
    m.contact("touch", "cam", _outline, "follower", roller, start=1.4)
    return m


def _outline(s: Array, base: float, lift: float) -> tuple[Array, Array]:
    r = base + lift * ((1 - np.cos(s)) / 2) ** 2
    return r * np.cos(s), r * np.sin(s)


def _plate(outline: Array, thickness: float) -> shapes.Mesh:
    """A plate with this outline, in the plane of x and y; its middle is a corner on both sides."""
    n = len(outline)
    rim = [np.column_stack([outline, np.full(n, z)]) for z in (-thickness / 2, thickness / 2)]
    corners = np.vstack([*rim, [0, 0, -thickness / 2], [0, 0, thickness / 2]])
    k, after = np.arange(n), (np.arange(n) + 1) % n
    sides = [np.stack(x, axis=1) for x in ((k, after, n + after), (k, n + after, n + k))]
    lids = [np.stack([after, k, np.full(n, 2 * n)], axis=1), np.stack([n + k, n + after, np.full(n, 2 * n + 1)], axis=1)]
    return shapes.Mesh(corners, np.vstack([*sides, *lids]))


@declared(ModelError)
def turntable(rate: float = 3.0, radius: float = 0.05, velocity: float = 0.2) -> Mechanism:
    """A ball that rolls on a turntable: its centre moves on a circle, at 2/7 of the rate of the table (Neimark, Fufaev 1972)."""
    m = Mechanism(name="ball on a turntable", parameters={"rate": rate})
    start = np.array([0.3, 0.0, radius])
    m.body("table", mass=4.0, shape=shapes.Cylinder(0.6, 0.03, position=(0, 0, -0.015)))
    # where it touches, the ball has the velocity of the table: v = rate e_z x s + omega x radius e_z
    slip = np.array([0.0, velocity - rate * start[0], 0.0])
    m.body(
        "ball", mass=0.5, position=start, velocity=(0, velocity, 0), angular_velocity=np.cross((0, 0, 1), slip) / radius,
        shape=shapes.Sphere(radius),
    )  # fmt: skip
    m.revolute("axle", "ground", "table", at=(0, 0, 0), axis="z")
    m.motion("drive", "axle", lambda t, rate: rate * t)
    m.rolling("contact", "table", "ball", radius=radius)
    return m


@declared(ModelError)
def rolling_wheel(radius: float = 0.3, speed: float = 1.5, lean: float = 0.1) -> Mechanism:
    """A wheel that rolls ahead on a plane, leaning by `lean`; a thin disc stays up where `v^2 > g r / 3`."""
    m, R = Mechanism(name="rolling wheel"), turned("x", np.pi / 2 - lean)
    up, omega = R[:, 1], speed / radius * -R[:, 2]
    m.body(
        "wheel", mass=2.0, inertia=[0.5 * radius**2, 0.5 * radius**2, radius**2], position=radius * up, rotation=R,
        angular_velocity=omega, velocity=np.cross(omega, radius * up),
        shape=shapes.Cylinder(radius, 0.04),
    )  # fmt: skip
    m.rolling("rim", "ground", "wheel", radius=radius, axis=R[:, 2])
    return m
