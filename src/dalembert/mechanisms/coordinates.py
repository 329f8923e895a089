"""What any set of coordinates of a mechanism says of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX
from scipy.sparse import csc_matrix

from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.laws import Term
from dalembert.mechanisms.repeating import Signed, plain
from dalembert.mechanisms.rotations import Array
from dalembert.mechanisms.terms import Terms
from dalembert.mechanisms.trees import Branch

SLIPS = ("nonholonomic", "slip")  # roles of constraints on velocities
COUNTED = "_counted"  # ends the name of a coordinate that counts the turns of a joint


@dataclass(frozen=True)
class Row:
    """A constraint of the system: of which joint (or, `inner`, of which body), and which of its rows."""

    owner: str
    number: int
    inner: bool


@dataclass(frozen=True)
class Made:
    """What `Mechanical` takes, and whose constraints its holonomic ones are, in their order."""

    roles: Mapping[str, object]
    rows: Sequence[Row]


class Coordinates(ABC):
    """A set of coordinates: frames of the bodies, mass, constraints among the coordinates themselves, where they start."""

    called: ClassVar[str]
    names: tuple[str, ...]
    kinematics: Callable[[SX], SX] | None = None  # Z(q) in q' = Z(q) v, where velocities are not q'
    counting: tuple[tuple[str, str], ...] = ()  # angles of joints that auxiliary coordinates count over all turns

    def __init__(self, terms: Terms) -> None:
        self.terms, self.of = terms, terms.of
        self.idle: dict[str, int] = {}  # how many rows of a constraint hold in all poses
        self.spare: dict[str, set[int]] = {}  # rows of constraints on velocities that follow from others and are left out
        self.masses: dict[str, str] = {}
        self.inertias: dict[str, str] = {}
        for name, body in self.of.bodies.items():
            self.masses[name] = terms.parameters.add("mass", name, body.mass)
            if body.rotates:
                self.inertias[name] = terms.parameters.add("inertia", name, self.moments(body))
        if self.of.gravity.any():
            terms.parameters.add("gravity", "", self.of.gravity[: self.of.dimension])

    def moments(self, body: Body) -> Array:
        """The inertia as a parameter: one moment in the plane, three where the axes are principal ones, else the matrix."""
        J = body.inertia
        if self.of.flat:
            return np.array(J[2, 2])
        return np.diag(J).copy() if np.abs(J - np.diag(np.diag(J))).max() <= 1e-14 * np.abs(J).max() else np.array(J)

    @property
    def plates(self) -> dict[str, int]:
        """Bodies that are flat across one of their axes, where the coordinates make use of it."""
        return {}

    @abstractmethod
    def frames(self, q: SX) -> dict[str, Frame]:
        """The frame of each body, and of the ground: centre of mass and axes."""

    @abstractmethod
    def start(self, bodies: Mapping[str, Body] | None = None) -> tuple[Array, Array]:
        """Coordinates and velocities of bodies as drawn, or as given."""

    @abstractmethod
    def rates_of(self, body: Body, q: Array) -> tuple[csc_matrix, Array]:
        """What the velocities that were given for a body say: `J v = rates` at a pose."""

    @abstractmethod
    def make(self, kept: Mapping[str, tuple[int, ...]] | None = None) -> Made:
        """What the system is made of; `kept` has for some joints the rows that are."""

    def unit(self, q: SX) -> list[SX]:
        """Constraints among the coordinates that `q' = Z(q) v` keeps by itself: a start has to satisfy them."""
        return []

    def singular(self, q: Array) -> str:
        """Why the coordinates cannot be used at a pose; empty where they can."""
        return ""

    @property
    def vectors(self) -> bool:
        """Whether the coordinates are vectors one after another, all turned alike by a rotation of the world."""
        return False

    @cached_property
    def size(self) -> float:
        """How large the mechanism is: the largest distance of its bodies and joints from their middle, or of its masses."""
        points = [body.position for body in self.of.bodies.values()]
        for joint in self.of.joints.values():
            ends = ((joint.a, joint.on_a), (joint.b, joint.on_b))
            points += [self.of.get_body(name).world(marker.point) for name, marker in ends]
        far = float(np.linalg.norm(np.array(points) - np.mean(points, axis=0), axis=1).max())
        spread = [float(np.sqrt(np.trace(b.inertia) / b.mass)) for b in self.of.bodies.values() if b.rotates]
        return max(far, *spread, 1e-9, 1e-9)

    @property
    def parameters(self) -> dict[str, Array]:
        """Names and values."""
        return self.terms.parameters.values

    def rate_of(self, value: SX, q: SX, v: SX) -> SX:
        """The rate of a function of the positions, at constant velocities."""
        return ca.jtimes(value, q, v if self.kinematics is None else self.kinematics(q) @ v)

    def moments_of(self, name: str, given: Mapping[str, SX]) -> SX:
        """The inertia of a body as a matrix in its axes, from the parameters; zero for a point mass."""
        if name not in self.inertias:
            return SX(3, 3)
        J = given[self.inertias[name]]
        if self.of.flat:
            out = SX(3, 3)
            out[2, 2] = J
            return out
        return ca.diag(J) if J.is_column() else J

    @property
    def branches(self) -> list[Branch]:
        """Joints that are no constraints, since they define the coordinates: from the ground outwards."""
        return []

    def selected(self, kept: Mapping[str, tuple[int, ...]] | None) -> list[Term]:
        """The terms, with those rows of constraints that are kept."""
        kept = kept or {}
        return [
            replace(t, rows=kept[t.name]) if t.role == "holonomic" and t.name in kept else t
            for t in self.terms.all
            if not (t.role == "holonomic" and kept.get(t.name) == ())
        ]

    def evaluated(self, term: Term, frames: Mapping[str, Frame], held: Mapping[str, Frame], given: Mapping[str, SX], t: SX) -> SX:
        """What the law of a term gives, at frames of all bodies and values of the parameters."""
        data = {k: given[x] if isinstance(x, str) else ca.sparsify(SX(ca.DM(plain(x)))) for k, x in term.data.items()}
        return term.law.function([frames[b] for b in term.bodies], [held[b] for b in term.bodies], data, t)

    def driven(self, terms: Sequence[Term]) -> dict[str, object]:
        """The inputs by name: for each the slope of what it works on."""
        return {"inputs": {t.name: self._column(t) for t in terms if t.role == "input"} or None}

    def slips(self) -> list[tuple[Term, list[int]]]:
        """The constraints on velocities, and of each the rows that depend on the motion: in the plane some do not."""
        q, still = (SX.sym(name, len(self.names)) for name in ("q", "held"))
        frames, held = self.frames(q), self.frames(still)
        given = {name: SX.sym(name, *(value.shape or (1,))) for name, value in self.parameters.items()}
        out = []
        for term in (t for t in self.selected(None) if t.role in SLIPS):
            acting = set(ca.jacobian_sparsity(self.evaluated(term, frames, held, given, SX(0.0)), q).row())
            out.append((term, sorted(acting - self.spare.get(term.name, set()))))
        return out

    def rolling(self) -> dict[str, object]:
        """Constraints on velocities: `x' = 0`."""
        terms = [t for t in self.selected(None) if t.role in SLIPS]
        if not terms or (self.spare and not any(acting for _, acting in self.slips())):
            return {}

        def rates(given: dict[str, SX]) -> SX:
            q, v = given["q"], given["v"]
            still = SX.sym("held", q.numel())
            frames, held = self.frames(q), self.frames(still)
            x = ca.vertcat(*(self.evaluated(t, frames, held, given, SX(0.0))[acting] for t, acting in self.slips()))
            return ca.substitute(self.rate_of(x, q, v), still, q)

        return {
            "nonholonomic": Signed(["q", "v", *sorted({x for t in terms for x in t.data.values() if isinstance(x, str)})], rates)
        }

    def _column(self, term: Term) -> Signed:
        def column(given: dict[str, SX]) -> SX:
            q = given["q"]
            still = SX.sym("held", q.numel())
            x = self.evaluated(term, self.frames(q), self.frames(still), given, SX(0.0))
            slope = ca.densify(ca.substitute(ca.jacobian(x, q), still, q)).T
            return slope if self.kinematics is None else self.kinematics(q).T @ slope

        return Signed(["q", *sorted(x for x in term.data.values() if isinstance(x, str))], column)
