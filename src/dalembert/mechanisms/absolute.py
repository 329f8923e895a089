"""Absolute coordinates: each body has its own, joints are constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.checking import one_of
from dalembert.errors import ModelError
from dalembert.mechanisms import placements
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.coordinates import Coordinates, Made, Row
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.placements import Placement
from dalembert.mechanisms.repeating import Signed, ground, groups
from dalembert.mechanisms.rotations import Array
from dalembert.mechanisms.terms import Terms
from dalembert.systems.elements import Element

POINTS = {2: placements.FlatPoint(), 3: placements.Point()}
BODIES: dict[int, dict[str, Placement]] = {
    2: {"angles": placements.Angle(), "directors": placements.FlatDirectors()},
    3: {"directors": placements.Directors()},
}


class Absolute(Coordinates):
    """Coordinates of each body, one after another; what is repeated are elements."""

    called: ClassVar[str] = "absolute"

    def __init__(self, terms: Terms, rotation: str | None = None) -> None:
        super().__init__(terms)
        known = BODIES[self.of.dimension]
        chosen = known[one_of("rotation", next(iter(known)) if rotation is None else rotation, known, ModelError)]
        point = POINTS[self.of.dimension]
        self.placements = {name: chosen if body.rotates else point for name, body in self.of.bodies.items()}
        self.flat, start = self.of.flat, 0
        self.index: dict[str, Array] = {}
        for name, kind in self.placements.items():
            self.index[name] = start + np.arange(kind.size)  # type: ignore[assignment]  # whole numbers
            start += kind.size
        self.names = tuple(f"{name}.{axis}" for name, kind in self.placements.items() for axis in kind.names)

    def frames(self, q: SX) -> dict[str, Frame]:
        own = {name: kind.frame(q[self.index[name].tolist()]) for name, kind in self.placements.items()}
        return {"ground": ground(self.flat), **own}

    def start(self, bodies: Mapping[str, Body] | None = None) -> tuple[Array, Array]:
        at = self.of.bodies if bodies is None else bodies
        both = [(at[name], kind) for name, kind in self.placements.items()]
        return np.concatenate([k.start(b) for b, k in both]), np.concatenate([k.rates(b) for b, k in both])

    def velocities_of(self, body: str) -> list[int]:
        return [int(i) for i in self.index[body]]

    @property
    def vectors(self) -> bool:
        return all(kind.vectors for kind in self.placements.values())

    def _mass(self) -> Signed:
        """The mass matrix of all bodies, a function of masses and inertias."""

        def matrix(given: Mapping[str, SX]) -> SX:
            blocks = []
            for name, kind in self.placements.items():
                inertia = given[self.inertias[name]] if kind.inertial else SX(0, 1)
                blocks.append(kind.mass(given[self.masses[name]], inertia))
            return ca.diagcat(*blocks)

        return Signed([*self.masses.values(), *self.inertias.values()], matrix)

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
        roles: dict[str, object] = {"mass": self._mass(), "elements": elements}
        return Made({**roles, **self.driven(terms), **self.rolling(terms)}, rows)
