"""Contact of curves and surfaces: bodies that stay together at a point which moves on both of them.

The places of this point on the bodies are parameters `s` of their outlines, auxiliary variables without mass with equations
`c(q, s) = 0` of their own: the two points are one, and the tangents of one outline are across the normal of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from casadi import SX
from scipy.optimize import least_squares

from dalembert.checking import positive, shown
from dalembert.errors import ModelError
from dalembert.mechanisms.formulas import spelled, wanted
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.rolling import Contact, carried
from dalembert.mechanisms.rotations import Array, vector
from dalembert.systems.tracing import symbols, to_sx

Given = Callable[..., object] | float | Sequence[float] | Array  # a curve or surface, the radius of a ball, or a point
PLACES = "points of contact"  # by which frames know the parameters


@dataclass(frozen=True, eq=False)
class Outline:
    """What touches, in the frame of its body: a point, a curve or surface of some parameters, or a ball about the origin."""

    function: Callable[..., object] | None
    point: Array
    radius: float
    names: tuple[str, ...]  # of its own parameters
    used: tuple[str, ...]  # of those of the mechanism

    @classmethod
    def of(cls, what: str, given: Given, known: Mapping[str, float], dimension: int) -> Outline:
        """From a function of parameters, a radius, or a point."""
        zero = np.zeros(3)
        if not callable(given):
            if np.ndim(given) == 0:
                return cls(None, zero, positive(f"{what}: the radius of a ball", given, ModelError), (), ())
            return cls(None, vector(f"{what}: a point", given), 0.0, (), ())
        try:
            names = wanted(given, known)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{what}: {shown(given)} has no signature; wrap it in a lambda") from error
        own = tuple(name for name in names if name not in known)
        if not 1 <= len(own) <= dimension - 1:
            most = "one parameter, a curve" if dimension == 2 else "one parameter, a curve, or of two, a surface"
            raise ModelError(f"{what} must be a function of {most}; it has {len(own)} beside those of the mechanism")
        out = cls(given, zero, 0.0, own, tuple(name for name in names if name in known))
        out.at(SX.sym("s", len(own)), {name: SX(known[name]) for name in out.used}, what)
        return out

    def at(self, s: SX, given: Mapping[str, SX], what: str = "an outline") -> SX:
        """The point of some parameters."""
        if self.function is None:
            return SX(ca.DM(self.point))
        values = {name: symbols(s[k], ()) for k, name in enumerate(self.names)}
        found = to_sx(self.function(**values, **{name: symbols(given[name], ()) for name in self.used}))
        found = found.T if found.shape[0] == 1 and found.shape[1] > 1 else found
        if found.shape not in ((2, 1), (3, 1)):
            raise ModelError(f"{what} must return a point, two or three numbers, not the shape {found.shape}")
        return found if found.numel() == 3 else ca.vertcat(found, SX(1, 1))

    def written(self, what: str, known: Mapping[str, float]) -> dict[str, object]:
        """As a table: a point, a radius, or formulas and the names of their own parameters."""
        if self.function is None:
            return {"radius": self.radius} if self.radius else {"point": self.point}
        return {"formulas": spelled(what, self.function, known), "parameters": list(self.names)}

    def tangents(self, s: SX, given: Mapping[str, SX]) -> list[SX]:
        """The slopes of the point by each parameter."""
        if not self.names:
            return []
        x = SX.sym("s", len(self.names))
        slopes = ca.substitute(ca.densify(ca.jacobian(self.at(x, given), x)), x, s)
        return [slopes[:, k] for k in range(len(self.names))]


@dataclass(frozen=True, kw_only=True, eq=False)
class Touch(Contact):
    """Two outlines in contact, with the parameters `start` near which the point of contact is; `rolling` without slipping.

    A ball of radius `r` touches where its centre is at `S(s) + side r n(s)`, with the unit normal `n` of the other outline: it
    needs no parameters of its own.
    """

    one: Outline
    other: Outline
    start: tuple[float, ...]
    side: float
    rolls: bool
    dimension: int

    def check(self) -> None:
        """Refuse outlines that cannot touch, or roll on, each other."""
        what, ends = f"contact {self.name!r}", (self.one, self.other)
        codes = [len(end.names) == self.dimension - 1 for end in ends]
        if self.one.radius or (self.other.radius and not codes[0]):
            raise ModelError(f"{what}: a ball is the second outline, and touches a surface, in the plane a curve")
        if not self.one.names and not self.other.names:
            raise ModelError(f"{what}: one of the outlines must be a function of parameters, a curve or a surface")
        if self.rolls and not (any(codes) and all(end.names or end.radius for end in ends)):
            raise ModelError(f"{what}: bodies roll where a curve, a surface or a ball touches a surface, in the plane a curve")
        if len(self.start) != len(self.parameters):
            raise ModelError(f"{what}: start has {len(self.start)} values, the outlines have {len(self.parameters)} parameters")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters of the point of contact; with that of the body, where both outlines have the same."""
        twice = set(self.one.names) & set(self.other.names)
        ends = ((self.a, self.one), (self.b, self.other))
        return tuple(f"{name}_{body}" if name in twice else name for body, outline in ends for name in outline.names)

    def rows(self, A: Frame, B: Frame, t: SX) -> list[SX]:
        raise NotImplementedError("a contact of outlines has parameters beside frames")

    def placed(self, A: Frame, B: Frame, s: SX, given: Mapping[str, SX]) -> tuple[tuple[SX, list[SX]], tuple[SX, list[SX]]]:
        """Points and tangents of both outlines in the world."""
        cut = len(self.one.names)
        parts = ((A, self.one, s[:cut]), (B, self.other, s[cut:]))
        first, second = (
            (f.origin + f.axes @ o.at(x, given), [f.axes @ tangent for tangent in o.tangents(x, given)]) for f, o, x in parts
        )
        return first, second

    def normal(self, tangents: Sequence[SX]) -> SX | None:
        """The unit normal of a surface, in the plane of a curve; None where there is none."""
        if len(tangents) != self.dimension - 1:
            return None
        n = ca.cross(tangents[0], tangents[1]) if self.dimension == 3 else ca.vertcat(-tangents[0][1], tangents[0][0], 0)
        return n / ca.sqrt(ca.dot(n, n))

    def meets(self, A: Frame, B: Frame, s: SX, given: Mapping[str, SX]) -> SX:
        """What is zero in contact: the two points are one, and tangents are across the normal."""
        (point, along), (end, across) = self.placed(A, B, s, given)
        n, m = self.normal(along), self.normal(across)
        if self.other.radius:
            assert n is not None
            return (end - point - self.side * self.other.radius * n)[: self.dimension]
        rows = ca.vertsplit((end - point)[: self.dimension])
        if n is not None:
            rows += [ca.dot(n, tangent) for tangent in across]
        elif m is not None:
            rows += [ca.dot(m, tangent) for tangent in along]
        return ca.vertcat(*rows)

    @property
    def sided(self) -> bool:
        """Whether the bodies could part: both outlines have an extent, and one of them a normal. A bead on a wire could not."""
        ends = (self.one, self.other)
        return all(end.names or end.radius for end in ends) and any(len(end.names) == self.dimension - 1 for end in ends)

    def outwards(self, A: Frame, B: Frame, s: SX, given: Mapping[str, SX]) -> SX:
        """The normal at the point of contact, towards a ball; of two outlines, either way."""
        (_, along), (_, across) = self.placed(A, B, s, given)
        n = self.normal(along)
        n = self.normal(across) if n is None else n
        assert n is not None
        return self.side * n if self.other.radius else n

    def slipping(self, A: Frame, B: Frame, held: tuple[Frame, Frame], s: SX, given: Mapping[str, SX]) -> SX:
        """What has the rate zero where it rolls: the distance of the two material points that touch, along the tangents."""
        (point, along), (_, across) = self.placed(*held, s, given)
        apart = carried(B, held[1], point) - carried(A, held[0], point)
        return ca.vertcat(*(ca.dot(x, apart) for x in (along if self.normal(along) is not None else across)))


def nearest(joint: Touch, A: Frame, B: Frame, given: Mapping[str, float]) -> Touch:
    """The contact with the parameters at which the outlines are closest as drawn, near its start, and with the side of a ball."""
    s, known = SX.sym("s", len(joint.parameters)), {name: SX(x) for name, x in given.items()}
    (point, along), (end, _) = joint.placed(A, B, s, known)
    gap = ca.Function("gap", [s], [end - point, ca.jacobian(end - point, s)])
    found = least_squares(
        lambda x: np.asarray(gap(x)[0].full()).ravel(), joint.start, jac=lambda x: np.asarray(gap(x)[1].full()),
        xtol=1e-15, ftol=1e-15, gtol=1e-15,
    )  # fmt: skip
    at, newton = found.x, ca.Function("newton", [s], list(ca.hessian(ca.dot(end - point, end - point), s)))
    for _ in range(3):  # least squares end at half the digits where the gap is not zero
        H, slope = newton(at)
        at = at - np.linalg.lstsq(H.full(), slope.full().ravel(), rcond=1e-9)[0]
    side = joint.side
    if joint.other.radius:
        n = joint.normal(along)
        assert n is not None
        side = float(np.sign(float(ca.Function("side", [s], [ca.dot(end - point, n)])(at)))) or 1.0
    return replace(joint, start=tuple(float(x) for x in at), side=side)
