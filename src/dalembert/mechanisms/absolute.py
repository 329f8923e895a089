"""Absolute coordinates: each body has its own, joints are constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from dalembert.checking import one_of
from dalembert.errors import ModelError
from dalembert.mechanisms import placements, turning
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.coordinates import Coordinates, Made, Row
from dalembert.mechanisms.direct import Direct
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.placements import Placement
from dalembert.mechanisms.repeating import Signed, ground, groups
from dalembert.mechanisms.rotations import Array
from dalembert.mechanisms.rubbing import rubbing
from dalembert.mechanisms.terms import Terms
from dalembert.systems.elements import Element

Whole = NDArray[np.int64]

POINTS = {2: placements.FlatPoint(), 3: placements.Point()}
BODIES: dict[int, dict[str, Placement]] = {
    2: {"angles": placements.Angle(), "directors": placements.FlatDirectors()},
    3: {
        "directors": placements.Directors(), "quaternion": turning.Quaternion(), "angles": turning.Angles((0, 1, 2)),
        "euler": turning.Angles((2, 0, 2)),
    },
}  # fmt: skip


def _kind(body: Body, kind: Placement) -> Placement:
    """Coordinates of a body; of a flat one with directors, those of a plate."""
    if not isinstance(kind, placements.Directors):
        return kind
    across = placements.flat_across(body.inertia)
    return kind if across is None else placements.PLATES[across]


class Placed(Coordinates):
    """Coordinates of each body, one after another."""

    called: ClassVar[str] = "absolute"

    def __init__(self, terms: Terms, kind: Placement) -> None:
        of = terms.of
        self.placements = {name: _kind(body, kind) if body.rotates else POINTS[of.dimension] for name, body in of.bodies.items()}
        super().__init__(terms)
        self.flat = self.of.flat
        self.index: dict[str, Whole] = {}
        self.speeds: dict[str, Whole] = {}
        start = begin = 0
        for name, one in self.placements.items():
            self.index[name], self.speeds[name] = start + np.arange(one.size), begin + np.arange(one.speeds)
            start, begin = start + one.size, begin + one.speeds
        self.names = tuple(f"{name}.{axis}" for name, one in self.placements.items() for axis in one.names)

    def moments(self, body: Body) -> Array:
        kind = self.placements[body.name]
        return np.diag(body.inertia)[kind.kept] if isinstance(kind, placements.Plate) else super().moments(body)

    @property
    def plates(self) -> dict[str, int]:
        return {name: kind.across for name, kind in self.placements.items() if isinstance(kind, placements.Plate)}

    def frames(self, q: SX) -> dict[str, Frame]:
        own = {name: kind.frame(q[self.index[name].tolist()]) for name, kind in self.placements.items()}
        return {"ground": ground(self.flat), **own}

    def start(self, bodies: Mapping[str, Body] | None = None) -> tuple[Array, Array]:
        at = self.of.bodies if bodies is None else bodies
        both = [(at[name], kind) for name, kind in self.placements.items()]
        return np.concatenate([k.start(b) for b, k in both]), np.concatenate([k.rates(b) for b, k in both])

    def rates_of(self, body: Body, q: Array) -> tuple[csc_matrix, Array]:
        own, size = self.speeds[body.name], sum(len(x) for x in self.speeds.values())
        one = csc_matrix((np.ones(len(own)), (np.arange(len(own)), own)), shape=(len(own), size))
        return one, self.placements[body.name].rates(body)

    @property
    def vectors(self) -> bool:
        return all(kind.vectors for kind in self.placements.values())

    def matrix(self, given: Mapping[str, SX]) -> SX:
        """The mass matrix of all bodies, a function of masses and inertias."""
        blocks = []
        for name, kind in self.placements.items():
            inertia = given[self.inertias[name]] if kind.inertial else SX(0, 1)
            blocks.append(kind.mass(given[self.masses[name]], inertia))
        return ca.diagcat(*blocks)


class Rated(Placed, Direct):
    """Bodies with quaternions or angles, and angular velocities in their own axes."""

    def __init__(self, terms: Terms, kind: Placement) -> None:
        super().__init__(terms, kind)
        self.kinematics = self._kinematics

    def _kinematics(self, q: SX) -> SX:
        return ca.diagcat(*(kind.kinematics(q[self.index[name].tolist()]) for name, kind in self.placements.items()))

    def mass(self, q: SX, given: Mapping[str, SX]) -> SX:
        return self.matrix(given)

    def unit(self, q: SX) -> list[SX]:
        return [row for name, kind in self.placements.items() for row in kind.unit(q[self.index[name].tolist()])]

    def singular(self, q: Array) -> str:
        for name, kind in self.placements.items():
            if said := kind.singular(q[self.index[name]]):
                return f"body {name!r} is {said}"
        return ""


class Absolute(Placed):
    """Bodies whose velocities are the rates of their coordinates; what is repeated are elements."""

    def _weights(self) -> list[Element]:
        """Gravity, `V = -m g . r`."""
        if not self.of.gravity.any():
            return []
        d, names = self.of.dimension, list(self.placements)

        def potential(given: Mapping[str, SX]) -> SX:
            return -given["weight"] * ca.dot(given["gravity"], given["q"])

        nodes = np.array([self.index[name][:d] for name in names])
        masses = {"weight": [self.masses[name] for name in names]}
        return [Element(nodes, potential=Signed(["q", "weight", "gravity"], potential), parameters=masses, name="gravity")]  # type: ignore[arg-type]

    def _inner(self) -> list[tuple[Element, list[Row]]]:
        """Constraints among the coordinates of each body."""
        out = []
        for kind in dict.fromkeys(self.placements.values()):
            names = [name for name, one in self.placements.items() if one is kind]
            count = len(kind.inner(SX.sym("q", kind.size)))
            if not count:
                continue
            nodes = np.array([self.index[name] for name in names])

            def holonomic(given: Mapping[str, SX], kind: Placement = kind) -> SX:
                return ca.vertcat(*kind.inner(given["q"]))

            rows = [Row(name, i, True) for name in names for i in range(count)]
            out.append((Element(nodes, holonomic=Signed(["q"], holonomic), name="axes of bodies"), rows))
        return out

    def make(self, kept: Mapping[str, tuple[int, ...]] | None = None) -> Made:
        terms = self.selected(kept)
        if rotors := [t.name for t in terms if t.role == "inertia"]:
            raise ModelError(f"the rotor {rotors[0]!r} needs a mass matrix that depends on the pose: use coordinates='joint'")
        elements, rows = self._weights(), []
        for element, own in self._inner():
            elements.append(element)
            rows += own
        found = groups([t for t in terms if t.role in ("holonomic", "potential", "dissipation")], self)
        for number, group in enumerate(found, 1):
            if group.first.role == "holonomic" and not group.kept:
                continue
            elements.append(group.element(number))
            rows += [Row(term.name, i, False) for term in group.terms for i in group.kept]
        mass = Signed([*self.masses.values(), *self.inertias.values()], self.matrix)
        roles: dict[str, object] = {"mass": mass, "elements": elements}
        return Made({**roles, **self.driven(terms), **self.rolling(), **rubbing(self, terms, rows)}, rows)


def absolute(terms: Terms, rotation: str | None) -> Coordinates:
    """Absolute coordinates with a description of rotations: the first one that there is where none is asked for."""
    known = BODIES[terms.of.dimension]
    kind = known[one_of("rotation", next(iter(known)) if rotation is None else rotation, known, ModelError)]
    return Rated(terms, kind) if isinstance(kind, turning.Turning) else Absolute(terms, kind)
