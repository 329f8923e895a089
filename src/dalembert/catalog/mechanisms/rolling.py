"""Bodies that roll: Euler's disc, the rattleback, the bicycle."""

from __future__ import annotations

import numpy as np

from dalembert.catalog.mechanisms.linkages import turned
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.mechanisms import Mechanism, shapes


@declared(ModelError)
def euler_disc(radius: float = 0.04, thickness: float = 0.013, tilt: float = 0.5, spin: float = 0.3) -> Mechanism:
    """Euler's disc: it rolls on its rim on a table, inclined by `tilt`, near the steady motion with its centre at rest."""
    m, R = Mechanism(name="Euler's disc"), turned("x", tilt)
    mass = 7800 * np.pi * radius**2 * thickness
    A, C = mass * (radius**2 / 4 + thickness**2 / 12), mass * radius**2 / 2
    # with the centre at rest the disc turns about the line through its lowest point: A rate^2 sin(tilt) = m g r
    rate = float(np.sqrt(mass * 9.81 * radius / (A * np.sin(tilt))))
    up = R[:, 1]  # from the lowest point to the centre
    omega = rate * np.sin(tilt) * up + spin * R[:, 2]
    centre = radius * np.sin(tilt) * np.array([0.0, 0.0, 1.0]) + radius * np.cos(tilt) * np.array([0.0, 1.0, 0.0])
    m.body(
        "disc", mass=mass, inertia=[A, A, C], position=centre, rotation=R, angular_velocity=omega,
        velocity=np.cross(omega, radius * up), shape=shapes.Cylinder(radius, thickness),
    )  # fmt: skip
    m.rolling("rim", "ground", "disc", radius=radius, axis=R[:, 2])
    return m


@declared(ModelError)
def rattleback(a: float = 0.2, b: float = 0.03, c: float = 0.02, skew: float = 0.15, spin: float = -5.0) -> Mechanism:
    """A celt: half an ellipsoid whose axes of inertia are turned against those of its shape; it reverses its spin.

    After Kane and Levinson (1982): semi-axes `a`, `b`, `c`, and the angle `skew` between the axes.
    """
    m, mass, depth = Mechanism(name="rattleback"), 1.0, 0.01
    J = turned("z", skew) @ np.diag([2.0e-4, 1.6e-3, 1.7e-3]) @ turned("z", skew).T
    m.body(
        "celt", mass=mass, inertia=J, center=(0, 0, -depth), position=(0, 0, c), angular_velocity=(0.02, 0.0, spin),
        velocity=np.cross((0.02, 0.0, spin), (0, 0, c - depth)), shape=_bowl(a, b, c),
    )  # fmt: skip
    m.rolling("contact", "ground", "celt", radius=(a, b, c))
    return m


def _bowl(a: float, b: float, c: float) -> shapes.Shape:
    """The lower half of an ellipsoid."""
    corners, faces = shapes.Sphere(1.0).surface()
    return shapes.Mesh(np.column_stack([corners[:, :2], np.minimum(corners[:, 2], 0.0)]) * np.array([a, b, c]), faces)


@declared(ModelError)
def bicycle(speed: float = 5.0, lean_rate: float = 0.1) -> Mechanism:
    """Whipple's bicycle with the benchmark's numbers (Meijaard, Papadopoulos, Ruina, Schwab 2007): stable from 4.3 to 6.0 m/s.

    Axes here: x ahead, y to the left, z up; the paper has z down and y to the right.
    """
    m, w, c, tilt = Mechanism(name="bicycle"), 1.02, 0.08, np.pi / 10
    r, R = 0.3, 0.35
    ahead, rolling = np.array([speed, 0.0, 0.0]), np.array([lean_rate, 0.0, 0.0])

    def moving(point: tuple[float, float, float]) -> np.ndarray:
        return np.asarray(ahead + np.cross(rolling, point))

    frame = [shapes.Box(0.9, 0.03, 0.03, position=(0.13, 0, -0.3), rotation=turned("y", -0.15)),
             shapes.Box(0.2, 0.3, 0.7, position=(0, 0, 0.15), color="#8A8F98")]  # fmt: skip
    fork = [shapes.Box(0.03, 0.03, 0.75, position=(0.05, 0, -0.05), rotation=turned("y", -tilt)),
            shapes.Box(0.03, 0.5, 0.03, position=(-0.07, 0, 0.32))]  # fmt: skip
    m.body("rear wheel", mass=2.0, inertia=[0.0603, 0.12, 0.0603], position=(0, 0, r), shape=shapes.Cylinder(r, 0.03, axis="y"),
           velocity=moving((0, 0, r)), angular_velocity=rolling + [0, speed / r, 0])  # fmt: skip
    m.body("rear frame", mass=85.0, inertia=[[9.2, 0, -2.4], [0, 11.0, 0], [-2.4, 0, 2.8]], position=(0.3, 0, 0.9),
           shape=frame, velocity=moving((0.3, 0, 0.9)), angular_velocity=rolling)  # fmt: skip
    m.body("fork", mass=4.0, inertia=[[0.05892, 0, 0.00756], [0, 0.06, 0], [0.00756, 0, 0.00708]], position=(0.9, 0, 0.7),
           shape=fork, velocity=moving((0.9, 0, 0.7)), angular_velocity=rolling)  # fmt: skip
    m.body("front wheel", mass=3.0, inertia=[0.1405, 0.28, 0.1405], position=(w, 0, R), shape=shapes.Cylinder(R, 0.03, axis="y"),
           velocity=moving((w, 0, R)), angular_velocity=rolling + [0, speed / R, 0])  # fmt: skip
    m.revolute("rear axle", "rear frame", "rear wheel", at=(0, 0, r), axis="y")
    m.revolute("steer", "rear frame", "fork", at=(w + c, 0, 0), axis=(-np.sin(tilt), 0, np.cos(tilt)))
    m.revolute("front axle", "fork", "front wheel", at=(w, 0, R), axis="y")
    m.rolling("rear contact", "ground", "rear wheel", radius=r, axis="y")
    m.rolling("front contact", "ground", "front wheel", radius=R, axis="y")
    m.motor("handlebar", "steer")
    return m
