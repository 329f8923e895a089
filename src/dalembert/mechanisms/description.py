"""What a mechanism is made of, by name, and how points and axes are given."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from dalembert.checking import number, one_of, shown, text, whole
from dalembert.errors import ModelError, suggest
from dalembert.mechanisms import forces, joints, rotations
from dalembert.mechanisms.bodies import Body, ground
from dalembert.mechanisms.rotations import Array

Where = Body | str


class Description:
    """What a mechanism is made of: bodies, joints, forces and sensors by name, in the order in which they were added."""

    def __init__(
        self, gravity: ArrayLike | None, name: str, dimension: int | None, parameters: Mapping[str, float] | None
    ) -> None:
        given = None if gravity is None else np.atleast_1d(np.asarray(gravity))
        self.dimension = (
            whole("dimension", 3 if given is None else len(given), ModelError, 2, 3)
            if dimension is None
            else whole("dimension", dimension, ModelError, 2, 3)
        )
        usual = (0.0, -9.81, 0.0) if self.flat else (0.0, 0.0, -9.81)
        self.gravity = np.array(usual) if gravity is None else rotations.vector("gravity", gravity)
        if self.flat and self.gravity[2]:
            raise ModelError(f"gravity of a mechanism in the plane has two entries, not {shown(gravity)}")
        self.name = text("name", name, ModelError)
        self.parameters = {
            text("a parameter's name", k, ModelError): number(k, x, ModelError) for k, x in (parameters or {}).items()
        }
        self.ground = ground()
        self.bodies: dict[str, Body] = {}
        self.joints: dict[str, joints.Joint] = {}
        self.couplings: dict[str, joints.Coupling] = {}
        self.forces: dict[str, forces.Part] = {}
        self.sensors: dict[str, forces.Sensor] = {}
        self.notes: list[str] = []  # what a file says beside that, and what of it is left out

    @property
    def flat(self) -> bool:
        """Whether all motion is in the plane of x and y."""
        return self.dimension == 2

    def get_body(self, where: Where) -> Body:
        """A body by its name, or itself; `"ground"` is one."""
        name = where.name if isinstance(where, Body) else text("a body", where, ModelError)
        if name == "ground":
            return self.ground
        if name not in self.bodies:
            raise ModelError(f"there is no body {name!r}{suggest(name, ['ground', *self.bodies])}")
        return self.bodies[name]

    def get_joint(self, where: joints.Joint | str) -> joints.Joint:
        """A joint by its name, or itself."""
        name = where.name if isinstance(where, joints.Joint) else text("a joint", where, ModelError)
        if name not in self.joints:
            raise ModelError(f"there is no joint {name!r}{suggest(name, self.joints)}")
        return self.joints[name]

    def _new(self, name: object) -> str:
        """A name that nothing has yet."""
        name = text("name", name, ModelError)
        taken: list[Mapping[str, object]] = [self.bodies, self.joints, self.couplings, self.forces, self.sensors]
        if not name or name == "ground" or any(name in there for there in taken):
            what = "is empty" if not name else "is taken"
            raise ModelError(f"the name {name!r} {what}: each body, joint, force and sensor has its own")
        return name

    def _flat(self, what: str, value: Array) -> Array:
        if self.flat and abs(value[2]) > 0:
            raise ModelError(f"{what}: the mechanism is in the plane, {shown(value.tolist())} is not")
        return value

    def _vector(self, what: str, given: object) -> Array:
        return self._flat(what, rotations.vector(what, given))

    def _point(self, what: str, body: Body, world: object, inside: object) -> Array:
        """A point of a body counted from its centre of mass: given in the world as drawn, or in the frame of the body."""
        if world is not None and inside is not None:
            raise ModelError(f"{what}: give a point in the world or in the frame of the body, not both")
        if world is not None:
            return body.inside(self._vector(what, world))
        return self._vector(what, (0.0, 0.0, 0.0) if inside is None else inside) - body.center

    def _freedom(self, joint: joints.Joint, freedom: str | None) -> str:
        known = [f.name for f in joint.freedoms]
        if freedom is None and len(known) == 1:
            return known[0]
        if not known:
            raise ModelError(f"{joint.name!r} is a {type(joint).__name__.lower()} joint: it has no freedom that could be driven")
        if freedom is None:
            said = ", ".join(f"'{joint.name}.{name}'" for name in known)
            raise ModelError(f"{joint.name!r} has several freedoms: say which, as {said} in rates and pinned, or by freedom=...")
        return one_of(f"freedom of {joint.name!r}", freedom, known, ModelError)
