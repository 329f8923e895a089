"""Bodies: mass, inertia, where they are drawn, and their shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dalembert.checking import positive, reals
from dalembert.errors import ModelError
from dalembert.mechanisms import shapes
from dalembert.mechanisms.rotations import Array, vector
from dalembert.mechanisms.shapes import Shape


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body. Its frame has the axes of the drawing; what is given in it counts from `origin`.

    `position` is the centre of mass in the world, `rotation` has the axes of the body as columns, `inertia` is about the
    centre of mass in the axes of the body, `center` is the centre of mass counted from the origin of the frame.
    """

    name: str
    mass: float
    inertia: Array
    position: Array
    rotation: Array
    center: Array
    velocity: Array
    angular_velocity: Array
    shape: tuple[Shape, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether it can move: all but the ground."""
        return True

    @property
    def rotates(self) -> bool:
        """Whether it has an orientation."""
        return True

    def inside(self, point: Array) -> Array:
        """A point of the world in the axes of the body, counted from the centre of mass."""
        return np.asarray(self.rotation.T @ (point - self.position))

    def world(self, point: Array) -> Array:
        """A point of the body, counted from the centre of mass, in the world."""
        return np.asarray(self.position + self.rotation @ point)

    @property
    def origin(self) -> Array:
        """The origin of the body's frame in the world."""
        return self.world(-self.center)

    def at(self, position: Array, rotation: Array) -> Body:
        """The same body elsewhere; `position` is that of its centre of mass."""
        return replace(self, position=position, rotation=rotation)


@dataclass(frozen=True, eq=False)
class Particle(Body):
    """A point mass: no orientation."""

    @property
    def rotates(self) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class Ground(Body):
    """What does not move."""

    @property
    def moves(self) -> bool:
        return False


def ground() -> Ground:
    """The body that everything may be joined to."""
    zero = np.zeros(3)
    return Ground("ground", np.inf, np.full((3, 3), np.inf), zero, np.eye(3), zero, zero, zero)


def weighed(
    what: str, mass: object, inertia: object, center: object, density: object, parts: tuple[Shape, ...], planar: bool, about: str
) -> tuple[float, Array, Array]:
    """Mass, inertia about the centre of mass, and this centre in the frame of the body, from what was given.

    With a density, or with a mass and no inertia, they come from the shapes. An inertia about the origin of the frame is
    moved by `J = J_0 - m (|c|^2 - c c^T)` (parallel axes).
    """
    if density is not None and (mass is not None or inertia is not None):
        raise ModelError(f"{what}: give a density, or mass and inertia, not both")
    if density is None and mass is None:
        raise ModelError(f"{what} needs a mass, or a shape with a density")
    if mass is not None:
        mass = positive(f"{what}: mass", mass, ModelError)
    if inertia is None:
        if not parts:
            raise ModelError(f"{what} needs an inertia, or a shape that has one; a point mass is added by .particle(...)")
        volume, middle, unit = shapes.solid(parts)
        middle = np.where(np.abs(middle) <= 1e-14 * np.sqrt(np.trace(unit) / volume), 0.0, middle)  # sums over a mesh are rounded
        total = positive(f"{what}: density", density, ModelError) * volume if density is not None else float(mass)  # type: ignore[arg-type]
        c = middle if center is None else vector(f"{what}: center", center)
        if np.abs(c - middle).max() > 1e-9 * (1 + np.abs(middle).max()):
            raise ModelError(
                f"{what}: the centre of its shapes is at {middle}, not at {c}; leave center out, or give the inertia"
            )
        return total, _checked(what, unit * total / volume, planar), middle
    c = np.zeros(3) if center is None else vector(f"{what}: center", center)
    J = _matrix(what, inertia, planar)
    total = float(mass)  # type: ignore[arg-type]  # there is one: without, a density was given, and that goes without inertia
    if about == "origin":
        J = J - total * ((c @ c) * np.eye(3) - np.outer(c, c))
    return total, _checked(what, J, planar), c


def _matrix(what: str, given: object, planar: bool) -> Array:
    """An inertia as a matrix: three moments, a symmetric matrix, or one moment in the plane."""
    value = reals(f"{what}: inertia", given, ModelError, "three moments, a symmetric 3 x 3 matrix, or in the plane one moment")
    if value.shape == () and planar:
        return np.diag([0.0, 0.0, float(value)])
    if value.shape == (3,):
        return np.diag(value)
    if value.shape != (3, 3):
        wanted = "one moment about z" if planar else "three moments or a 3 x 3 matrix"
        raise ModelError(f"{what}: inertia must be {wanted}, got the shape {value.shape}")
    skew = float(np.abs(value - value.T).max())
    if skew > 1e-9 * np.abs(value).max():
        raise ModelError(f"{what}: the inertia is not symmetric, by {skew:.1e}")
    return np.asarray((value + value.T) / 2)


def _checked(what: str, J: Array, planar: bool) -> Array:
    """An inertia that a body can have: positive, and no moment above the sum of the two others."""
    if planar:
        if J[2, 2] <= 0:
            raise ModelError(f"{what}: the inertia about z must be positive, not {J[2, 2]:g}")
        return J
    a, b, c = np.linalg.eigvalsh(J)
    if a <= 0:
        raise ModelError(f"{what}: the inertia must be positive, its principal moments are {a:g}, {b:g}, {c:g}")
    if c > (a + b) * (1 + 1e-9):
        raise ModelError(
            f"{what}: no body has the principal moments {a:g}, {b:g}, {c:g}: the largest is above the sum of the others; "
            "is the inertia about the centre of mass? (inertia_about='origin' moves it there)"
        )
    return J
