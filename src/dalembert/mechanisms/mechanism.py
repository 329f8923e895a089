"""`da.Mechanism`: bodies and joints by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dalembert.checking import one_of, positive, shown
from dalembert.errors import ModelError, suggesting
from dalembert.markup import card, facts, short
from dalembert.mechanisms import rotations, shapes
from dalembert.mechanisms.acting import Acting
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.assembly import assemble
from dalembert.mechanisms.bodies import Body, Particle, weighed
from dalembert.mechanisms.jointing import Jointing
from dalembert.mechanisms.saving import Saving
from dalembert.mechanisms.shapes import Shape

MOST = 60  # parts that a notebook lists


class Mechanism(Jointing, Acting, Saving):
    """Bodies and joints by name; `assemble()` makes a system of them that every method takes.

    Parameters
    ----------
    gravity
        The acceleration: `(0, 0, -9.81)` in space where nothing is said. Two entries make a mechanism in the plane.
    name
        Of the mechanism and of its system.
    dimension
        2 or 3; by default as many as `gravity` has entries.
    parameters
        Names and values that functions of prescribed motions and lengths use.

    Notes
    -----
    Everything is given as it is drawn: positions, points and axes in the world, at one pose. A point or an axis can instead be
    given in the frames of the two bodies (`on_a`, `on_b`, `axis_a`, `axis_b`); the drawing need not be closed then, `assemble()`
    closes it.
    """

    @suggesting
    def __init__(
        self, *, gravity: ArrayLike | None = None, name: str = "mechanism", dimension: int | None = None,
        parameters: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(gravity, name, dimension, parameters)

    @suggesting
    def body(
        self, name: str, *, mass: float | None = None, inertia: ArrayLike | None = None, position: ArrayLike = (0.0, 0.0, 0.0),
        rotation: object = None, shape: Shape | Sequence[Shape] | None = None, density: float | None = None,
        center: ArrayLike | None = None, inertia_about: str = "center", velocity: ArrayLike = (0.0, 0.0, 0.0),
        angular_velocity: ArrayLike = (0.0, 0.0, 0.0),
    ) -> Body:  # fmt: skip
        """Add a rigid body.

        `position` and `rotation` place its frame in the world; `center` is the centre of mass in this frame (its origin where
        nothing is said). Mass and inertia (three moments, a matrix, or in the plane one moment) come from the shapes where they
        are not given: with `density` both, with `mass` the inertia. `velocity`, of the centre of mass, and `angular_velocity`
        are in the world; in the plane the latter is one number.
        """
        name, parts = self._new(name), shapes.listed(shape)
        what = f"body {name!r}"
        one_of("inertia_about", inertia_about, ("center", "origin"), ModelError)
        total, J, c = weighed(what, mass, inertia, center, density, parts, self.flat, inertia_about)
        R = rotations.matrix(f"{what}: rotation", rotation)
        if self.flat and abs(R[2, 2] - 1) > 1e-12:
            raise ModelError(f"{what}: a rotation in the plane is one angle")
        spun = np.append([0.0, 0.0], angular_velocity) if np.ndim(angular_velocity) == 0 else angular_velocity  # type: ignore[arg-type]
        place = self._vector(f"{what}: position", position) + R @ c
        self.bodies[name] = Body(
            name, total, J, self._flat(what, place), R, c, self._vector(f"{what}: velocity", velocity),
            rotations.vector(f"{what}: angular_velocity", spun), parts,
        )  # fmt: skip
        return self.bodies[name]

    @suggesting
    def rod(
        self, name: str, start: ArrayLike, end: ArrayLike, *, mass: float | None = None, density: float | None = None,
        radius: float | None = None, color: str | None = None,
    ) -> Body:  # fmt: skip
        """Add a round rod between two points of the world; its frame is in the middle, its x axis leads from start to end."""
        first, last = self._vector("start", start), self._vector("end", end)
        length = float(np.linalg.norm(last - first))
        if not length:
            raise ModelError(f"the rod {name!r} begins and ends at {shown(start)}")
        x = (last - first) / length
        R = rotations.frame(np.array([0.0, 0.0, 1.0]), x) if self.flat else rotations.frame(x)[:, [2, 0, 1]]
        round_ = length / 40 if radius is None else positive("radius", radius, ModelError)
        shape = shapes.Cylinder(round_, length, axis="x", color=color)
        return self.body(name, mass=mass, density=density, position=(first + last) / 2, rotation=R, shape=shape)

    @suggesting
    def particle(
        self, name: str, *, mass: float, position: ArrayLike = (0.0, 0.0, 0.0), velocity: ArrayLike = (0.0, 0.0, 0.0),
        shape: Shape | Sequence[Shape] | None = None,
    ) -> Particle:  # fmt: skip
        """Add a point mass."""
        name, what = self._new(name), f"particle {name!r}"
        m, zero = positive(f"{what}: mass", mass, ModelError), np.zeros(3)
        place, v = self._vector(f"{what}: position", position), self._vector(f"{what}: velocity", velocity)
        out = Particle(name, m, np.zeros((3, 3)), place, np.eye(3), zero, v, zero, shapes.listed(shape))
        self.bodies[name] = out
        return out

    @suggesting
    def assemble(
        self, *, coordinates: str = "absolute", rotation: str | None = None, redundant: str = "error",
        pinned: Mapping[str, float | None] | Sequence[str] = (), rates: Mapping[str, float] | None = None,
        vary: Sequence[str] = (),
    ) -> Assembled:  # fmt: skip
        """The system of equations of the mechanism, which starts near the drawing with all joints closed.

        Parameters
        ----------
        coordinates
            `"absolute"`: each body has its own, joints are constraints. `"joint"`: the freedoms of the joints of a tree from
            the ground to all bodies, called by the names of the joints; other joints close loops and are constraints.
        rotation
            How bodies turn. With joint coordinates, joints that turn freely have Cardan `"angles"`, or a `"quaternion"` whose
            velocities are the angular velocity in the axes of the body. With absolute ones, in space `"directors"`; in the
            plane `"angles"` (`x, y, theta`) or `"directors"`.
        redundant
            What is done with constraints of closed loops that follow from the others: `"error"`; `"remove"` some; `"least-norm"`
            does so and finds the reactions of least norm of all of them.
        pinned
            Bodies that stay where they are drawn, and joints whose freedom does: names, or `{"crank": 0.5, "rod": None}` with
            values of freedoms; `"elbow.angle_x"` is one of several.
        rates
            Of freedoms of joints, at the start: `{"crank": 10.0}`.
        vary
            Joints whose points on the two bodies are parameters, `point_a_<joint>` and `point_b_<joint>`.

        Notes
        -----
        Parameters are called `gravity`, `mass_<body>`, `inertia_<body>`, `stiffness_<spring>`, `length_<spring or distance>`,
        `damping_<...>`, `rest_<torsion spring>`, `viscous_<friction>`, and as in `Mechanism(parameters=...)`.
        """
        held = dict(pinned) if isinstance(pinned, Mapping) else dict.fromkeys(pinned)
        return assemble(self, coordinates, rotation, redundant, held, dict(rates or {}), tuple(vary))

    def __repr__(self) -> str:
        counts = f"{len(self.bodies)} bodies, {len(self.joints)} joints, {len(self.forces)} forces"
        return f"<Mechanism {self.name!r} in {self.dimension} dimensions: {counts}>"

    def _repr_html_(self) -> str:
        rows = [("gravity", short(self.gravity[: self.dimension]))]
        rows += [(name, f"{_kind(body)}, mass {body.mass:.6g}") for name, body in self.bodies.items()]
        rows += [
            (name, f"{_kind(part)} {_where(part)}") for name, part in {**self.joints, **self.couplings, **self.forces}.items()
        ]
        rows += [(name, f"sensor {_where(part)}") for name, part in self.sensors.items()]
        more = [("", f"... ({len(rows)} in all)")] if len(rows) > MOST else []
        return card(repr(self).strip("<>"), facts([*rows[:MOST], *more]))


def _kind(part: object) -> str:
    """What a part is, in words: `TorsionSpring` is a torsion spring."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(part).__name__).lower()


def _where(part: object) -> str:
    """The joints or bodies that a part belongs to."""
    return " - ".join(
        ".".join(value) if isinstance(value, tuple) else str(value)
        for key in ("joint", "first", "second", "a", "b", "body", "other")
        if (value := getattr(part, key, None)) is not None
    )
