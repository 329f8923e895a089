"""Terms as functions of all coordinates at once: for coordinates whose parts are not repeated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping

import casadi as ca
from casadi import SX

from dalembert.errors import ModelError
from dalembert.mechanisms.coordinates import Coordinates, Made, Row
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.laws import Term, resistance
from dalembert.mechanisms.repeating import Signed
from dalembert.mechanisms.rubbing import rubbing


class Direct(Coordinates):
    """Coordinates for which mass, energy and constraints are written out for the whole mechanism."""

    @abstractmethod
    def mass(self, q: SX, given: Mapping[str, SX]) -> SX:
        """The mass matrix of the velocities; `given` has the parameters by name."""

    def inner(self, q: SX) -> list[tuple[Row, SX]]:
        """Constraints among the coordinates themselves."""
        return []

    def closed(self, term: Term) -> bool:
        """Whether a joint is a constraint in these coordinates, and not how they are defined."""
        return True

    def make(self, kept: Mapping[str, tuple[int, ...]] | None = None) -> Made:
        terms = self.selected(kept)
        constraints = [t for t in terms if t.role == "holonomic" and self.closed(t)]
        rows = [row for row, _ in self.inner(SX.sym("q", len(self.names)))]
        chosen = {t.name: self._acting(t) for t in constraints}
        rows += [Row(t.name, i, False) for t in constraints for i in chosen[t.name]]

        def holonomic(given: dict[str, SX]) -> SX:
            frames = self.frames(given["q"])
            own = [value for _, value in self.inner(given["q"])]
            parts = [ca.densify(self.evaluated(t, frames, frames, given, given["t"]))[chosen[t.name]] for t in constraints]
            return ca.vertcat(SX(0, 1), *own, *parts)

        roles: dict[str, object] = {
            "mass": self._signed(lambda given: self._inertia(terms, given), "q"),
            "potential": self._signed(lambda given: self._potential(terms, given), "q"),
            **self._damped([t for t in terms if t.role == "dissipation"]),
            **self.driven(terms),
            **self.rolling(),
            **rubbing(self, terms, rows),
        }
        if rows:
            roles["holonomic"] = self._signed(holonomic, "q", "t")
        if self.kinematics is not None:
            Z = self.kinematics
            roles["kinematics"] = self._signed(lambda given: Z(given["q"]), "q")
        return Made(roles, rows)

    def _inertia(self, terms: list[Term], given: dict[str, SX]) -> SX:
        """The mass matrix, with what turns beside the bodies."""
        q = given["q"]
        out, frames = self.mass(q, given), self.frames(q)
        for term in terms:
            if term.role == "inertia":
                rows = self.evaluated(term, frames, frames, given, SX(0.0))
                out += resistance(rows, self.by_velocity(ca.jacobian(rows[:, 0], q), q), SX(0, 1))
        return out

    def by_velocity(self, slopes: SX, q: SX) -> SX:
        """Slopes by the velocities, from those by the coordinates."""
        return slopes if self.kinematics is None else slopes @ self.kinematics(q)

    def _signed(self, function: Callable[[dict[str, SX]], SX], *names: str) -> Signed:
        return Signed([*names, *self.parameters], function)

    def _acting(self, term: Term) -> list[int]:
        """The rows of a constraint that depend on the coordinates."""
        q, t = SX.sym("q", len(self.names)), SX.sym("t")
        frames = self.frames(q)
        value = ca.densify(self.evaluated(term, frames, frames, self.symbols(), t))
        acting = set(ca.jacobian_sparsity(value, q).row())
        for i in range(value.numel()):
            if i not in acting and (not value[i].is_constant() or abs(float(value[i])) > 1e-9):
                raise ModelError(f"joint {term.name!r}: its constraint {i + 1} does not depend on the coordinates")
        wanted = range(value.numel()) if term.rows is None else term.rows
        if not self.of.flat and not acting.issuperset(wanted):
            self.idle[term.name] = len([i for i in wanted if i not in acting])
        return [i for i in wanted if i in acting]

    def symbols(self) -> dict[str, SX]:
        """Symbols for the parameters, by name."""
        return {name: SX.sym(name, *(value.shape or (1,))) for name, value in self.parameters.items()}

    def weight(self, q: SX, frames: Mapping[str, Frame], given: Mapping[str, SX]) -> SX:
        """The energy of gravity, `-m g . r` of each body."""
        d, masses = self.of.dimension, self.masses
        rows = (given[masses[name]] * ca.dot(given["gravity"], frames[name].origin[:d]) for name in self.of.bodies)
        return -sum(rows, SX(0.0))

    def _potential(self, terms: list[Term], given: dict[str, SX]) -> SX:
        """Gravity, and the energies of springs."""
        frames = self.frames(given["q"])
        out = self.weight(given["q"], frames, given) if self.of.gravity.any() else SX(0.0)
        return sum((self.evaluated(t, frames, frames, given, SX(0.0)) for t in terms if t.role == "potential"), out)

    def _damped(self, terms: list[Term]) -> dict[str, object]:
        """The Rayleigh matrix, `sum c x_v^T x_v` with `x_v` the slope of a rate."""
        if not terms:
            return {}

        def matrix(given: dict[str, SX]) -> SX:
            q, out = given["q"], SX(0, 0)
            frames = self.frames(q)
            for term in terms:
                value = self.evaluated(term, frames, frames, given, SX(0.0))
                J = ca.jacobian(value[:, 0], q)
                part = resistance(value, self.by_velocity(J, q), given["v"])
                out = part if out.is_empty() else out + part
            return out

        return {"dissipation": self._signed(matrix, "q", "v")}
