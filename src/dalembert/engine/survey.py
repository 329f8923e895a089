"""A quick look at a start: one function says whether all is well. Where it does not, the checks one by one say why."""

from __future__ import annotations

from collections.abc import Iterator

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.engine.checks import LARGEST, LOOSE, STEEP, TOLERANCE, Array, finite
from dalembert.systems.batch import Pointwise, batch
from dalembert.systems.constrained import Constrained
from dalembert.systems.hamiltonian import Hamiltonian
from dalembert.systems.mechanical import Mechanical

CLEAR = 1e-8  # a determinant of which it is clear that the matrix is definite
SX = ca.SX


def well(system: Constrained, at: dict[str, Array], par: Array, t: float, u: Array, exact: tuple[str, ...]) -> bool:
    """Whether nothing is wrong with a start; False also where that takes a closer look."""
    if system.n > LARGEST:
        return False
    return system.cache.get(Survey, "survey", lambda: Survey(system)).well(at, par, t, u, exact)


def all_well(
    system: Constrained, values: dict[str, Array], pars: Array, t: float, u: Array, exact: tuple[str, ...]
) -> NDArray[np.bool_]:
    """The same for many starts, one row each."""
    count = len(pars)
    if system.n > LARGEST:
        return np.zeros(count, dtype=bool)
    at = dict(values)
    if isinstance(system, Hamiltonian):
        velocity = system.function("velocity")
        zeros = {name: np.zeros(system.size_of(name)) for name in system.arguments if name != "t"}
        rows = {**zeros, "t": np.array([t]), **values}
        at["v"] = batch(velocity, [*(rows[name] for name in system.arguments), pars], count)[0]
    return system.cache.get(Survey, "survey", lambda: Survey(system)).rows(at, pars, t, u, exact)


class Survey:
    """What must be finite at a start, and what must be small, of a mechanical or Hamiltonian system."""

    def __init__(self, s: Constrained) -> None:
        self._s = s
        G = s.role("jacobian") if s.m else SX(0, s.n)
        position, velocity = SX.sym("position"), SX.sym("velocity")  # tolerances of the levels
        arguments = {name: getattr(s, name) for name in s.arguments}
        point = ca.veccat(*arguments.values(), s.par, position, velocity)
        margins = ca.vertcat(*self._margins(s, G, position, velocity))
        self._zeros = {name: np.zeros(x.numel()) for name, x in arguments.items()}
        steep = STEEP - ca.fabs(finite(s))
        self._function = ca.Function("survey", [point], [ca.densify(ca.vertcat(steep, margins))])
        self._once = Pointwise(self._function)

    @staticmethod
    def _margins(s: Constrained, G: SX, position: SX, velocity: SX) -> Iterator[SX]:
        """What is not negative where all is well: of constraints, of their independence, of masses."""
        if s.mh:
            yield position * (ca.fabs(s.role("normal")) @ ca.fabs(s.q)) - ca.fabs(s.expression("holonomic"))
        if s.m:
            v = getattr(s, "v", s.q)
            slow = 1e-3 * ca.mmax(ca.fabs(v)) * ca.sum2(ca.fabs(G))
            yield velocity * (ca.fabs(G) @ ca.fabs(v) + slow + ca.fabs(s.role("rate"))) + 1e-300 - ca.fabs(s.role("drift"))
            yield _definite(G @ G.T)
        if isinstance(s, Mechanical):
            mass = s.expression("mass")
            yield 1e13 * ca.mmin(ca.diag(mass)) - ca.mmax(ca.diag(mass))
            yield _definite(mass)

    def well(self, at: dict[str, Array], par: Array, t: float, u: Array, exact: tuple[str, ...]) -> bool:
        """Whether nothing is wrong with values; False also where that cannot be told here."""
        given: dict[str, ArrayLike] = {**self._zeros, **at, "t": (t,), "u": u}
        margins = self._once(*(given[name] for name in self._s.arguments), par, _tolerances(exact))[0]
        return bool(margins.min(initial=0.0) >= 0)  # nan is not

    def rows(self, at: dict[str, Array], pars: Array, t: float, u: Array, exact: tuple[str, ...]) -> NDArray[np.bool_]:
        """The same for many values, one row each."""
        count = len(pars)
        given = {**self._zeros, **at, "t": np.array([t]), "u": u}
        columns = [*(given[name] for name in self._s.arguments), pars, np.array(_tolerances(exact))]
        points = np.hstack([np.broadcast_to(a, (count, a.shape[-1])) for a in columns])
        return np.asarray((batch(self._function, [points], count)[0] >= 0).all(axis=1))


def _tolerances(exact: tuple[str, ...]) -> tuple[float, float]:
    """By how much constraints of positions and velocities may be violated."""
    return TOLERANCE if "position" in exact else 1e-3, TOLERANCE if "velocity" in exact else LOOSE


def _definite(matrix: SX) -> SX:
    """What is not negative where a symmetric matrix is clearly definite: of the same, scaled to a diagonal of ones.

    The product of its pivots, its determinant, is at most e times its least eigenvalue. All is nan where the
    diagonal is negative.
    """
    root = ca.sqrt(ca.diag(matrix))
    pivots, _, _ = ca.ldl(matrix / (root @ root.T), False)
    product = SX(1)
    for k in range(pivots.numel()):
        product *= pivots[k]
    return ca.vertcat(ca.vec(pivots), product - CLEAR)
