"""Auxiliary variables beside any coordinates: parameters of points of contact, and angles counted over all turns.

They are coordinates without mass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import casadi as ca
import numpy as np
from casadi import SX
from scipy.sparse import csc_matrix, hstack

from dalembert.errors import ModelError
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.coordinates import COUNTED, Coordinates, Made, Row
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.laws import Term
from dalembert.mechanisms.repeating import Signed
from dalembert.mechanisms.rotations import Array
from dalembert.mechanisms.touching import PLACES, Touch
from dalembert.mechanisms.trees import Branch


def _beside(rest: SX, value: SX) -> SX:
    return ca.diagcat(value, rest)


class Pointed(Coordinates):
    """Coordinates of the bodies, and after them the parameters of all points of contact and the angles that are counted."""

    def __init__(self, inner: Coordinates, touches: list[Touch], counting: Sequence[tuple[str, str]] = ()) -> None:
        self.inner, self.touches, self.counting = inner, touches, tuple(counting)
        self.terms, self.of, self.idle, self.spare = inner.terms, inner.of, inner.idle, {}
        self.masses, self.inertias, self.called = inner.masses, inner.inertias, inner.called  # type: ignore[misc]
        self.terms.all = [self._own_role(term) for term in self.terms.all]
        for which in self.counting:
            self.terms.count(*which)
        places = [f"{one.name}.{name}" for one in touches for name in one.parameters]
        self.names = (*inner.names, *places, *(f"{joint}.{freedom}{COUNTED}" for joint, freedom in self.counting))
        self.count = len(self.names) - len(inner.names)
        if inner.kinematics is not None:
            self.kinematics = self._kinematics
        if rubbing := inner.terms.role("friction"):
            raise ModelError(
                f"friction {rubbing[0].name!r} depends on a load, which does not go with points of contact: these have no mass; "
                "give a friction that does not depend on it, dry=..."
            )

    def _own_role(self, term: Term) -> Term:
        """A term that needs a counted angle, with the role of those that are made here."""
        roles = {"holonomic": "contact", "potential": "stored"}
        return replace(term, role=roles[term.role]) if set(term.counts) & set(self.counting) else term

    def _kinematics(self, q: SX) -> SX:
        assert self.inner.kinematics is not None
        return ca.diagcat(self.inner.kinematics(self._own(q)), SX.eye(self.count))

    def _own(self, q: SX) -> SX:
        return q[: len(self.inner.names)]

    @property
    def plates(self) -> dict[str, int]:
        return self.inner.plates

    @property
    def branches(self) -> list[Branch]:
        return self.inner.branches

    def selected(self, kept: Mapping[str, tuple[int, ...]] | None) -> list[Term]:
        return self.inner.selected(kept)

    def singular(self, q: Array) -> str:
        return self.inner.singular(q[: len(self.inner.names)])

    def unit(self, q: SX) -> list[SX]:
        return self.inner.unit(self._own(q))

    def frames(self, q: SX) -> dict[str, Frame]:
        found, at, known = self.inner.frames(self._own(q)), len(self.inner.names), {}
        for one in self.touches:
            known[one.name, PLACES] = q[at : at + len(one.parameters)]
            at += len(one.parameters)
        known |= {which: q[at + k] for k, which in enumerate(self.counting)}
        return {name: replace(frame, known={**frame.known, **known}) for name, frame in found.items()}

    def start(self, bodies: Mapping[str, Body] | None = None) -> tuple[Array, Array]:
        q, v = self.inner.start(bodies)
        found = self.inner.frames(SX(q))
        turned = []
        for which in self.counting:
            (a, b), _, measured, data = self.terms.measure(*which)
            turned.append(float(ca.evalf(measured(found[a], found[b], self.terms.numbers(data)))))
        return np.concatenate([q, *(one.start for one in self.touches), turned]), np.concatenate([v, np.zeros(self.count)])

    def rates_of(self, body: Body, q: Array) -> tuple[csc_matrix, Array]:
        J, rates = self.inner.rates_of(body, q[: len(self.inner.names)])
        return csc_matrix(hstack([J, csc_matrix((J.shape[0], self.count))])), rates

    def make(self, kept: Mapping[str, tuple[int, ...]] | None = None) -> Made:
        made = self.inner.make(kept)
        roles = dict(made.roles)
        for role in ("mass", "dissipation", "kinematics"):
            if role in roles:
                rest = SX.eye(self.count) if role == "kinematics" else SX(self.count, self.count)
                roles[role] = self._widened(roles[role], partial(_beside, rest))
        if "potential" in roles or self.terms.role("stored"):
            roles["potential"] = self._energy(roles.get("potential"))
        if isinstance(columns := roles.get("inputs"), dict):
            longer = {
                name: self._widened(one, lambda value: ca.vertcat(value, SX(self.count, 1))) for name, one in columns.items()
            }
            roles["inputs"] = longer
        roles["holonomic"], rows = self._meeting(roles.get("holonomic"))
        rows = [*made.rows, *rows] if "holonomic" in made.roles else [*rows, *made.rows]
        return Made({**roles, **self.rolling()}, rows)

    def _energy(self, own: object) -> Signed:
        """The potential of what is no element, with that of springs on counted angles."""
        terms, first = self.terms.role("stored"), None if own is None else self._widened(own, lambda value: value)

        def potential(given: dict[str, SX]) -> SX:
            found = self.frames(given["q"])
            before = SX(0.0) if first is None else first(**{k: given[k] for k in first.__signature__.parameters})
            return sum((self.evaluated(t, found, found, given, SX(0.0)) for t in terms), before)

        return Signed(["q", *self.parameters], potential)

    def _meeting(self, own: object) -> tuple[Signed, list[Row]]:
        """All constraints that are no elements, with those of the points of contact after them, and whose the latter are."""
        terms, first = self.terms.role("contact"), None if own is None else self._widened(own, lambda value: value)
        q = SX.sym("q", len(self.names))
        frames, given = self.frames(q), {name: SX.sym(name, *(x.shape or (1,))) for name, x in self.parameters.items()}
        sizes = {t.name: self.evaluated(t, frames, frames, given, SX(0.0)).numel() for t in terms}

        def holonomic(given: dict[str, SX]) -> SX:
            found = self.frames(given["q"])
            before = [] if first is None else [first(**given)]
            return ca.vertcat(*before, *(self.evaluated(t, found, found, given, given["t"]) for t in terms))

        return Signed(["q", "t", *self.parameters], holonomic), [
            Row(n, i, False) for n, size in sizes.items() for i in range(size)
        ]

    def _widened(self, role: object, change: Callable[[SX], SX]) -> Signed:
        """A role of the inner coordinates as one of all."""
        assert isinstance(role, Signed)
        names, n = list(role.__signature__.parameters), len(self.inner.names)

        def function(given: dict[str, SX]) -> SX:
            speeds = given["v"].numel() - self.count if "v" in given else 0
            own = {name: x[:n] if name == "q" else x[:speeds] if name == "v" else x for name, x in given.items()}
            return change(role(**{name: own[name] for name in names}))

        return Signed(names, function)
