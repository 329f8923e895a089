"""Tops and gyroscopes."""

from __future__ import annotations

import numpy as np

from dalembert.catalog.mechanisms.linkages import turned
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.mechanisms import Mechanism, shapes


def _top(name: str, tilt: float, spin: float, precession: float, height: float, mass: float) -> Mechanism:
    """A disc on a stick, held at its tip."""
    m, R = Mechanism(name=name), turned("x", tilt)
    axis = R[:, 2]
    omega = spin * axis + precession * np.array([0.0, 0.0, 1.0])
    stick = shapes.Cylinder(0.012, height + 0.08, position=(0, 0, (height + 0.08) / 2), color="#3A3F46")
    disc = shapes.Cylinder(0.12, 0.04, position=(0, 0, height))
    m.body(
        "top", mass=mass, inertia=[mass * 0.12**2 * 0.28, mass * 0.12**2 * 0.28, mass * 0.12**2 / 2], center=(0, 0, height),
        rotation=R, angular_velocity=omega, velocity=np.cross(omega, height * axis), shape=[stick, disc],
    )  # fmt: skip
    m.spherical("tip", "ground", "top", at=(0, 0, 0))
    return m


@declared(ModelError)
def heavy_top(
    tilt: float = 0.6, spin: float = 120.0, precession: float = 0.0, height: float = 0.15, mass: float = 0.5
) -> Mechanism:
    """Lagrange's top: a symmetric body held at a point of its axis, under gravity."""
    return _top("heavy top", tilt, spin, precession, height, mass)


@declared(ModelError)
def sleeping_top(tilt: float = 1e-3, spin: float = 60.0, height: float = 0.15, mass: float = 0.5) -> Mechanism:
    """An upright top: it sleeps as long as `(C spin)^2 > 4 A m g l`, and falls below that."""
    return _top("sleeping top", tilt, spin, 0.0, height, mass)


@declared(ModelError)
def gyroscope(spin: float = 200.0, outer: float = 0.0, load: float = 0.05) -> Mechanism:
    """A rotor in two gimbals, with a load on the inner one that makes it precess."""
    m = Mechanism(name="gyroscope")
    ring = [shapes.Box(0.02, 0.52, 0.02, position=(x, 0, 0)) for x in (-0.25, 0.25)]
    ring += [shapes.Box(0.48, 0.02, 0.02, position=(0, y, 0)) for y in (-0.25, 0.25)]
    frame = [shapes.Box(0.02, 0.02, 0.66, position=(0, y, 0)) for y in (-0.32, 0.32)]
    frame += [shapes.Box(0.02, 0.66, 0.02, position=(0, 0, z)) for z in (-0.32, 0.32)]
    m.body("outer", density=2700.0, shape=frame, angular_velocity=(0, 0, outer))
    m.body("inner", density=2700.0, shape=ring, angular_velocity=(0, 0, outer))
    rotor = [shapes.Cylinder(0.18, 0.05, axis="x"), shapes.Cylinder(0.015, 0.48, axis="x", color="#3A3F46")]
    m.body("rotor", density=7800.0, shape=rotor, angular_velocity=(spin, 0, outer))
    m.particle("weight", mass=max(load, 1e-6), position=(0.27, 0, 0), shape=shapes.Sphere(0.03), velocity=(0, 0.27 * outer, 0))
    m.revolute("mast", "ground", "outer", at=(0, 0, -0.32), axis="z")
    m.revolute("gimbal", "outer", "inner", at=(0, 0.32, 0), axis="y")
    m.revolute("bearing", "inner", "rotor", at=(0.24, 0, 0), axis="x")
    m.fixed("hook", "inner", "weight", at=(0.27, 0, 0))
    return m
