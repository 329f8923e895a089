"""Joint coordinates: the freedoms of the joints of a spanning tree; the other joints are constraints that close loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX
from scipy.sparse import csc_matrix

from dalembert.checking import one_of
from dalembert.errors import ModelError
from dalembert.mechanisms import recursion
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.direct import Direct
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.laws import Data, Frames, Law, Term
from dalembert.mechanisms.recursion import GROUND, Weight
from dalembert.mechanisms.rotations import Array
from dalembert.mechanisms.terms import Terms
from dalembert.mechanisms.trees import Branch, Tree, measured
from dalembert.mechanisms.turning import NEAR


class Relative(Direct):
    """Values of freedoms; what is known of a freedom by its coordinate is not measured from frames."""

    called: ClassVar[str] = "joint"

    def __init__(self, terms: Terms, rotation: str | None = None) -> None:
        super().__init__(terms)
        chosen = one_of("rotation", "angles" if rotation is None else rotation, ("angles", "quaternion"), ModelError)
        if terms.vary:
            raise ModelError("vary goes with absolute coordinates: with joint coordinates points of joints are numbers")
        self.tree = Tree(self.of, chosen == "quaternion")
        if not self.tree.links:
            raise ModelError(f"nothing of the mechanism {self.of.name!r} can move: all bodies are fixed to the ground")
        if said := self.singular(np.array(self.tree.start)):
            raise ModelError(f"{said}; it is drawn so")
        self.names = tuple(self.tree.names)
        if any(link.speeds != len(link.names) for link in self.tree.links):
            self.kinematics = self._kinematics
        inside = [branch.joint.name for branch in self.tree.branches]
        self.inside = {*inside, *(f"{name} thread" for name in inside)}

    @property
    def branches(self) -> list[Branch]:
        return self.tree.branches

    def singular(self, q: Array) -> str:
        for branch in self.tree.branches:
            turning = [f.name for f in branch.joint.freedoms if f.turns]
            which = (branch.joint.name, turning[1] if len(turning) == 3 else "")
            k, factor, rest = self.tree.values.get(which, (None, 0.0, 0.0))
            if k is not None and abs(np.cos(factor * q[k] + rest)) < NEAR:
                return (
                    f"the angles of {branch.joint.name!r} are singular, the second one is {np.degrees(q[k]):.1f} degrees: the "
                    "first and the third turn about one axis; use rotation='quaternion', or absolute coordinates"
                )
        return ""

    def unit(self, q: SX) -> list[SX]:
        at, _ = recursion.offsets(self.tree.links)
        long = [q[at[k] : at[k + 1]] for k, link in enumerate(self.tree.links) if isinstance(link, recursion.Ball)]
        return [(ca.dot(p, p) - 1) / 2 for p in long]

    def _kinematics(self, q: SX) -> SX:
        at, _ = recursion.offsets(self.tree.links)
        return ca.diagcat(*(link.kinematics(q[at[k] : at[k + 1]]) for k, link in enumerate(self.tree.links)))

    # ---- where bodies are --------------------------------------------------------------------------------

    def frames(self, q: SX) -> dict[str, Frame]:
        links = recursion.frames(self.tree.links, recursion.motions(self.tree.links, q))
        known = {key: self.tree.value(*key, q) for key in self.tree.values}
        angles = self._angles(q)
        out = {}
        for name, (link, place) in self.tree.places.items():
            at = links[link].at(place) if link != GROUND else Frame.fixed(place.point, place.axes)
            out[name] = Frame(ca.densify(at.origin), ca.sparsify(at.axes), angles.get(name), known)
        return out

    def _angles(self, q: SX) -> dict[str, SX]:
        """In the plane: the angles of the bodies, over all turns."""
        if not self.of.flat:
            return {}
        axes: list[Array] = []  # of the links, as drawn
        turned: list[SX] = []
        for k, link in enumerate(self.tree.links):
            assert isinstance(link, recursion.Hinge)  # in the plane nothing turns about more than one axis
            place = link.place.axes if link.parent == GROUND else axes[link.parent] @ link.place.axes
            sense = link.sense * float(np.sign(place[2, link.axis])) if link.turns else 0.0
            value = sense * self.tree.start[k] if link.turns else 0.0
            R = np.array([[np.cos(value), -np.sin(value), 0], [np.sin(value), np.cos(value), 0], [0, 0, 1]])
            axes.append(R @ place)
            before = SX(0.0) if link.parent == GROUND else turned[link.parent]
            turned.append(before + sense * (q[k] - self.tree.start[k]) if link.turns else before)
        out = {"ground": SX(0.0)}
        for name, body in self.of.bodies.items():
            drawn, at = float(np.arctan2(body.rotation[1, 0], body.rotation[0, 0])), self.tree.places[name][0]
            out[name] = drawn + turned[at] if at != GROUND and body.rotates else SX(drawn)
        return out

    def start(self, bodies: Mapping[str, Body] | None = None) -> tuple[Array, Array]:
        at = self.of.bodies if bodies is None else bodies
        q = np.array(self.tree.start)
        if bodies is not None:
            for branch in self.tree.branches:
                for freedom, value in measured(self.of, branch.joint, bodies).items():
                    k, factor, _ = self.tree.values.get((branch.joint.name, freedom), (None, 0.0, 0.0))
                    if k is not None and factor == 1:
                        q[k] = value
        if not any(b.velocity.any() or b.angular_velocity.any() for b in at.values()):
            return q, np.zeros(recursion.offsets(self.tree.links)[1][-1])
        rows = [self.rates_of(body, q) for body in at.values()]
        J, rates = np.vstack([J.toarray() for J, _ in rows]), np.concatenate([rate for _, rate in rows])
        return q, np.linalg.lstsq(J, rates, rcond=None)[0]

    def rates_of(self, body: Body, q: Array) -> tuple[csc_matrix, Array]:
        symbol = SX.sym("q", len(self.names))
        frame = self.frames(symbol)[body.name]
        place = ca.vertcat(frame.origin, ca.vec(ca.densify(frame.axes)) if body.rotates else SX(0, 1))
        J = csc_matrix(ca.Function("J", [symbol], [self.by_velocity(ca.jacobian(place, symbol), symbol)])(q).sparse())
        turning = np.cross(body.angular_velocity, body.rotation.T).ravel() if body.rotates else np.zeros(0)
        return J, np.r_[body.velocity, turning]

    # ---- what acts ---------------------------------------------------------------------------------------

    def _weights(self, given: Mapping[str, SX]) -> list[Weight]:
        """Mass and inertia of each link: those of the bodies on it."""
        out = [Weight.none() for _ in self.tree.links]
        for name, (link, place) in self.tree.places.items():
            if link != GROUND:
                out[link] = out[link].plus(Weight.of(given[self.masses[name]], self.moments_of(name, given), place))
        return out

    def mass(self, q: SX, given: Mapping[str, SX]) -> SX:
        moved = recursion.motions(self.tree.links, q)
        return recursion.mass_matrix(self.tree.links, self._weights(given), moved)

    def weight(self, q: SX, frames: Mapping[str, Frame], given: Mapping[str, SX]) -> SX:
        moved = recursion.motions(self.tree.links, q)
        moment = recursion.first_moment(self.tree.links, self._weights(given), moved)
        still = [(name, place) for name, (link, place) in self.tree.places.items() if link == GROUND and name != "ground"]
        moment += sum((given[self.masses[name]] * SX(ca.DM(place.point)) for name, place in still), SX(3, 1))
        return -ca.dot(given["gravity"], moment[: self.of.dimension])

    def closed(self, term: Term) -> bool:
        return term.name not in self.inside

    def selected(self, kept: Mapping[str, tuple[int, ...]] | None) -> list[Term]:
        """Constraints `x' = 0` on positions, where `x` is linear in the coordinates: it then does not change itself."""
        terms = super().selected(kept)
        if not any(term.role == "nonholonomic" for term in terms):
            return terms
        q, held, given = SX.sym("q", len(self.names)), SX.sym("held", len(self.names)), self.symbols()
        frames, still, out = self.frames(q), self.frames(held), []
        for term in terms:
            slope = ca.jacobian(self.evaluated(term, frames, still, given, SX(0.0)), q) if term.role == "nonholonomic" else q
            out.append(
                term if ca.depends_on(slope, ca.vertcat(q, held)) else replace(term, role="holonomic", law=self._from(term))
            )
        return out

    def _from(self, term: Term) -> Law:
        """The law of a constraint on velocities as one on positions, `x = 0` with all that is held as drawn."""
        bodies = [self.of.get_body(name) for name in term.bodies]
        drawn = [Frame.fixed(body.position, body.rotation) for body in bodies]

        def function(F: Frames, held: Frames, d: Data, t: SX) -> SX:
            return term.law.function(F, drawn, d, t)

        return Law(("drawn", term.law.key), function)
