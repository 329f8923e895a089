"""The joints of a mechanism: how each is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from dalembert.checking import flag, number, positive, reals, shown
from dalembert.errors import ModelError, suggest, suggesting
from dalembert.mechanisms import joints, rotations
from dalembert.mechanisms import rolling as contacts
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.description import Description, Where
from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.rotations import Array
from dalembert.mechanisms.touching import Given, Outline, Touch, nearest


class Jointing(Description):
    """Adds joints and couplings."""

    def _join(
        self, kind: type[joints.Joint], name: str, a: Where, b: Where, at: object = None, axis: object = None,
        second: object = None, on_a: object = None, on_b: object = None, axis_a: object = None, axis_b: object = None,
        limits: Mapping[str, tuple[float, float]] | None = None, **more: object,
    ) -> joints.Joint:  # fmt: skip
        """A joint of a kind between two bodies, its frames found from points and axes."""
        name, first, other = self._new(name), self.get_body(a), self.get_body(b)
        what = f"{kind.__name__.lower()} joint {name!r}"
        if first.name == other.name:
            raise ModelError(f"{what} joins {first.name!r} with itself")
        for body in (first, other):
            if not body.rotates and kind.places:
                raise ModelError(f"{what}: {body.name!r} is a point mass, it has no axis; use a spherical joint or a distance")
        drawn = at is not None
        frames = []
        for body, inside, own in ((first, on_a, axis_a), (other, on_b, axis_b)):
            point = (
                self._point(f"{what}: at", body, at if inside is None else None, inside) if drawn or inside is not None else None
            )
            if point is None:
                raise ModelError(
                    f"{what} needs the point `at`, in the world as drawn, or `on_a` and `on_b` in the bodies' frames"
                )
            frames.append(Marker(point, self._axes(what, kind, body, axis, second, own)))
        return self._place(kind, name, first, other, frames[0], frames[1], limits, **more)

    def _place(
        self, kind: type[joints.Joint], name: str, a: Where, b: Where, on_a: Marker, on_b: Marker,
        limits: Mapping[str, tuple[float, float]] | None = None, **more: object,
    ) -> joints.Joint:  # fmt: skip
        """A joint of a kind between two frames that are known."""
        first, other = self.get_body(a), self.get_body(b)
        bounds = _bounds(f"{kind.__name__.lower()} joint {name!r}", kind, limits or {})
        joint = kind(name=self._new(name), a=first.name, b=other.name, on_a=on_a, on_b=on_b, limits=bounds, **more)  # type: ignore[arg-type]
        self.joints[name] = joint
        return joint

    def _axes(self, what: str, kind: type[joints.Joint], body: Body, axis: object, second: object, own: object) -> Array:
        """The axes of a joint in those of a body: from the drawing, or from directions in the body's own frame."""
        if axis is None and own is None and kind.places and not (self.flat and kind in (joints.Revolute, joints.Planar)):
            raise ModelError(f"{what} needs an axis")
        if own is None:
            z = rotations.direction(f"{what}: axis", axis)
            R = _universal(what, z, second) if kind.places == 2 else rotations.frame(z)
            return np.asarray(body.rotation.T @ R)
        if kind.places < 2:
            return rotations.frame(rotations.direction(f"{what}: axis", own))
        if not isinstance(own, (tuple, list)) or len(own) != 2:
            raise ModelError(f"{what}: axis_a and axis_b are pairs of directions, of the first and of the second axis")
        return _universal(what, rotations.direction(f"{what}: axis", own[0]), own[1])

    @suggesting
    def fixed(
        self,
        name: str,
        a: Where,
        b: Where,
        *,
        at: ArrayLike | None = None,
        on_a: ArrayLike | None = None,
        on_b: ArrayLike | None = None,
    ) -> joints.Joint:
        """Weld two bodies together."""
        middle = self.get_body(b).origin if at is None and on_a is None and on_b is None else at
        return self._join(joints.Fixed, name, a, b, middle, on_a=on_a, on_b=on_b)

    @suggesting
    def revolute(
        self, name: str, a: Where, b: Where, *, at: ArrayLike | None = None, axis: ArrayLike | str | None = None,
        on_a: ArrayLike | None = None, on_b: ArrayLike | None = None, axis_a: ArrayLike | str | None = None,
        axis_b: ArrayLike | str | None = None, limits: Mapping[str, tuple[float, float]] | None = None,
    ) -> joints.Joint:  # fmt: skip
        """A hinge: a rotation about `axis` through the point `at`. In the plane the axis is z."""
        return self._join(joints.Revolute, name, a, b, at, axis, None, on_a, on_b, axis_a, axis_b, limits)

    @suggesting
    def prismatic(
        self, name: str, a: Where, b: Where, *, axis: ArrayLike | str | None = None, at: ArrayLike | None = None,
        on_a: ArrayLike | None = None, on_b: ArrayLike | None = None, axis_a: ArrayLike | str | None = None,
        axis_b: ArrayLike | str | None = None, limits: Mapping[str, tuple[float, float]] | None = None,
    ) -> joints.Joint:  # fmt: skip
        """A slide along `axis`, through the point `at` (where nothing is said, the origin of the frame of `b`)."""
        middle = self.get_body(b).origin if at is None and on_a is None and on_b is None else at
        return self._join(joints.Prismatic, name, a, b, middle, axis, None, on_a, on_b, axis_a, axis_b, limits)

    @suggesting
    def cylindrical(
        self, name: str, a: Where, b: Where, *, axis: ArrayLike | str | None = None, at: ArrayLike | None = None,
        on_a: ArrayLike | None = None, on_b: ArrayLike | None = None, axis_a: ArrayLike | str | None = None,
        axis_b: ArrayLike | str | None = None, limits: Mapping[str, tuple[float, float]] | None = None,
    ) -> joints.Joint:  # fmt: skip
        """A slide along `axis` and a rotation about it."""
        return self._join(joints.Cylindrical, name, a, b, at, axis, None, on_a, on_b, axis_a, axis_b, limits)

    @suggesting
    def screw(
        self, name: str, a: Where, b: Where, *, lead: float, axis: ArrayLike | str | None = None, at: ArrayLike | None = None,
        on_a: ArrayLike | None = None, on_b: ArrayLike | None = None, axis_a: ArrayLike | str | None = None,
        axis_b: ArrayLike | str | None = None,
    ) -> joints.Joint:  # fmt: skip
        """A screw: a slide of `lead` along `axis` for each turn about it."""
        return self._join(
            joints.Screw, name, a, b, at, axis, None, on_a, on_b, axis_a, axis_b, lead=number("lead", lead, ModelError)
        )

    @suggesting
    def spherical(
        self,
        name: str,
        a: Where,
        b: Where,
        *,
        at: ArrayLike | None = None,
        on_a: ArrayLike | None = None,
        on_b: ArrayLike | None = None,
    ) -> joints.Joint:
        """A ball joint at a point."""
        return self._join(joints.Spherical, name, a, b, at, on_a=on_a, on_b=on_b)

    @suggesting
    def universal(
        self, name: str, a: Where, b: Where, *, at: ArrayLike | None = None, axis: ArrayLike | str | None = None,
        second: ArrayLike | str | None = None, on_a: ArrayLike | None = None, on_b: ArrayLike | None = None,
        axis_a: object = None, axis_b: object = None,
    ) -> joints.Joint:  # fmt: skip
        """A Cardan joint: rotations about `axis`, fixed in `a`, and about `second`, fixed in `b` and across it."""
        return self._join(joints.Universal, name, a, b, at, axis, second, on_a, on_b, axis_a, axis_b)

    @suggesting
    def planar(
        self, name: str, a: Where, b: Where, *, axis: ArrayLike | str | None = None, at: ArrayLike | None = None,
        on_a: ArrayLike | None = None, on_b: ArrayLike | None = None, axis_a: ArrayLike | str | None = None,
        axis_b: ArrayLike | str | None = None,
    ) -> joints.Joint:  # fmt: skip
        """Two planes that stay together: shifts in the plane with the normal `axis`, and rotations about it."""
        return self._join(joints.Planar, name, a, b, at, axis, None, on_a, on_b, axis_a, axis_b)

    @suggesting
    def distance(
        self, name: str, a: Where, b: Where, *, length: float | Callable[..., object] | None = None,
        start: ArrayLike | None = None, end: ArrayLike | None = None, on_a: ArrayLike | None = None,
        on_b: ArrayLike | None = None,
    ) -> joints.Joint:  # fmt: skip
        """A massless rod with ball joints: a point of `a` and one of `b` at a distance, as drawn where none is given.

        `start` and `end` are these points in the world, `on_a` and `on_b` in the frames. A function of `t` as `length` drives it.
        """
        first, other = self.get_body(a), self.get_body(b)
        what = f"distance {name!r}"
        here, there = self._point(f"{what}: start", first, start, on_a), self._point(f"{what}: end", other, end, on_b)
        far = float(np.linalg.norm(first.world(here) - other.world(there)))
        kept = length if callable(length) else positive(f"{what}: length", far if length is None else length, ModelError)
        if first.name == other.name:
            raise ModelError(f"{what} joins {first.name!r} with itself")
        joint = joints.Distance(
            name=self._new(name),
            a=first.name,
            b=other.name,
            on_a=Marker(here, np.eye(3)),
            on_b=Marker(there, np.eye(3)),
            length=kept,
        )
        self.joints[name] = joint
        return joint

    @suggesting
    def free(self, name: str, a: Where, b: Where) -> joints.Joint:
        """No joint at all: says that nothing is meant to hold `b`."""
        return self._join(joints.Free, name, a, b, self.get_body(b).origin)

    @suggesting
    def rolling(
        self, name: str, on: Where, body: Where, *, radius: ArrayLike, normal: ArrayLike | str | None = None,
        at: ArrayLike | None = None, axis: ArrayLike | str | None = None, center: ArrayLike | None = None,
    ) -> joints.Joint:  # fmt: skip
        """Let a body roll without slipping on a plane of `on`: a ball, a thin disc with an `axis`, or an ellipsoid.

        The plane goes through the point `at` of the world as drawn, the origin where nothing is said, with this `normal` (z; of a
        mechanism in the plane, y). `center` is the centre of what rolls, by default the origin of the body's frame. Three numbers
        as `radius` are the semi-axes of an ellipsoid along the axes of the body.
        """
        up = rotations.direction("normal", normal, (0.0, 1.0, 0.0) if self.flat else (0.0, 0.0, 1.0))
        axis = "z" if self.flat and axis is None else axis
        other, ground = self.get_body(body), self.get_body(on)
        middle = other.origin if center is None else self._vector("center", center)
        semi = reals("radius", radius, ModelError, "one radius, or three semi-axes")
        if semi.shape not in ((), (3,)) or (semi <= 0).any() or (semi.ndim and axis is not None):
            raise ModelError(f"radius is one positive number, or three semi-axes without an axis, not {shown(radius)}")
        own = np.eye(3) if axis is None else np.asarray(other.rotation.T @ rotations.frame(rotations.direction("axis", axis)))
        r = [float(x) for x in np.broadcast_to(semi, (3,))]
        marks = [
            Marker(
                ground.inside(self._vector("at", (0.0, 0.0, 0.0) if at is None else at)), ground.rotation.T @ rotations.frame(up)
            ),
            Marker(other.inside(middle), own),
        ]
        return self._touch(contacts.Rolling, name, ground, other, marks, semi=(r[0], r[1], 0.0 if axis is not None else r[2]))

    @suggesting
    def contact(
        self, name: str, a: Where, one: Given, b: Where, other: Given, *, start: ArrayLike | None = None, rolling: bool = False
    ) -> joints.Joint:
        """Keep two bodies in contact, at a point that moves on both of them.

        `one` and `other` are outlines in the frames of `a` and `b`: functions of one parameter, curves, or of two, surfaces,
        written with NumPy; a point of a body; or, for `other`, the radius of a ball (a disc in the plane) about the origin of the
        frame. Functions may use parameters of the mechanism by their names. `start` are values of the outlines' parameters, those
        of `one` first, near which they touch as drawn (zeros where nothing is said). With `rolling` they do not slip.

        The parameters are coordinates without mass, `<contact>.<parameter>`: `murua-ggl`, `gauss` and `radau-iia` take these.
        Contact is kept, not released: a warning says where it pulls.
        """
        first, second, what = self.get_body(a), self.get_body(b), f"contact {name!r}"
        if first.name == second.name or not all(body.rotates for body in (first, second)):
            raise ModelError(
                f"{what}: {first.name!r} and {second.name!r} must be two bodies with an orientation, or a body and the ground"
            )
        ends = [Outline.of(what, shape, self.parameters, self.dimension) for shape in (one, other)]
        count = len(ends[0].names) + len(ends[1].names)
        near = np.zeros(count) if start is None else np.atleast_1d(reals(f"{what}: start", start, ModelError))
        marks = [Marker(-body.center, np.eye(3)) for body in (first, second)]
        joint = Touch(
            name=self._new(name), a=first.name, b=second.name, on_a=marks[0], on_b=marks[1], one=ends[0], other=ends[1],
            start=tuple(near.ravel().tolist()), side=1.0, rolls=flag("rolling", rolling, ModelError), dimension=self.dimension,
        )  # fmt: skip
        joint.check()
        frames = joints.drawn(joint, (first.position, first.rotation), (second.position, second.rotation))
        self.joints[name] = nearest(joint, *frames, self.parameters)
        return self.joints[name]

    @suggesting
    def knife_edge(self, name: str, on: Where, body: Where, *, at: ArrayLike, axis: ArrayLike | str) -> joints.Joint:
        """A blade of a body at the point `at`, along `axis`: it does not move across, in the plane with the normal z."""
        other, ground = self.get_body(body), self.get_body(on)
        along, point = rotations.direction("axis", axis), self._vector("at", at)
        R = rotations.frame(along, np.cross(along, (0.0, 0.0, 1.0)))
        marks = [Marker(b.inside(point), np.asarray(b.rotation.T @ R)) for b in (ground, other)]
        return self._touch(contacts.KnifeEdge, name, ground, other, marks)

    def _touch(
        self, kind: type[contacts.Contact], name: str, on: Body, body: Body, marks: list[Marker], **more: object
    ) -> joints.Joint:
        name = self._new(name)
        if not body.rotates or body.name == on.name:
            raise ModelError(f"{name!r}: a body that rolls or skates has an orientation, and is not what it rolls on")
        joint: joints.Joint = kind(name=name, a=on.name, b=body.name, on_a=marks[0], on_b=marks[1], **more)  # type: ignore[arg-type]
        self.joints[name] = joint
        return joint

    @suggesting
    def gear(
        self,
        name: str,
        first: joints.Joint | str,
        second: joints.Joint | str,
        *,
        ratio: float,
        freedoms: tuple[str, str] | None = None,
    ) -> joints.Coupling:
        """Gears or a belt: the angle of the first joint is `ratio` times that of the second, both counted from the start."""
        one, two = self.get_joint(first), self.get_joint(second)
        chosen = freedoms or (None, None)
        ends = ((one.name, self._freedom(one, chosen[0])), (two.name, self._freedom(two, chosen[1])))
        if ends[0] == ends[1]:
            raise ModelError(f"gear {name!r} couples {'.'.join(ends[0])!r} with itself, which would hold it; give two freedoms")
        out = joints.Coupling(self._new(name), *ends, number("ratio", ratio, ModelError))
        self.couplings[name] = out
        return out

    @suggesting
    def rack(self, name: str, slide: joints.Joint | str, pinion: joints.Joint | str, *, radius: float) -> joints.Coupling:
        """A rack and its pinion: the displacement of `slide` is `radius` times the angle of `pinion`."""
        return self.gear(name, slide, pinion, ratio=number("radius", radius, ModelError))


def _bounds(what: str, kind: type[joints.Joint], limits: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Limits of freedoms that the joint has, of its velocity and its effort, the lower one first."""
    out, known = {}, [*(freedom.name for freedom in kind.freedoms), "velocity", "effort"]
    for name, pair in limits.items():
        if name not in known:
            raise ModelError(f"{what}: limits of {name!r}{suggest(name, known)}")
        try:
            low, high = (float(x) for x in pair)  # one of them may be infinite
        except (TypeError, ValueError):
            low = high = np.nan
        if not low <= high:
            raise ModelError(f"{what}: limits of {name!r} are a lower and an upper number, not {shown(pair)}")
        out[name] = (low, high)
    return out


def _universal(what: str, x: Array, second: object) -> Array:
    """Axes whose x and y are the two axes of a universal joint."""
    if second is None:
        raise ModelError(f"{what} needs a second axis, fixed in b and across the first")
    y = rotations.direction(f"{what}: second", second)
    if abs(x @ y) > 1e-6:
        raise ModelError(f"{what}: its axes must be perpendicular; the cosine of their angle is {x @ y:.1e}")
    return rotations.frame(x, y)[:, [2, 0, 1]]
