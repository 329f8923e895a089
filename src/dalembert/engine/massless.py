"""Mechanical systems with a singular mass matrix: consistent values and multipliers by the derivative array.

Where a coordinate has no mass, its equation `0 = F - G^T lam` is algebraic: it defines that coordinate's velocity where a damper
acts (index 1), else a position, a velocity and a multiplier by its derivatives. The array shows all of these.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.engine.array import LARGEST, SOLVED, DerivativeArray, Index, Point, rank
from dalembert.errors import ConvergenceError, InconsistentState, MethodError
from dalembert.named import Array
from dalembert.systems.mechanical import Mechanical

OFF = 1e-3  # of its terms: what an equation without mass may be off at the start


class Massless:
    """A system with a singular mass matrix at one time: `x = (q, v, lam)`."""

    def __init__(self, system: Mechanical, q: Array, v: Array, t: float, u: Array, par: Array) -> None:
        self.system, self.t, self.given = system, t, (u, par)
        self.array = system.cache.get(DerivativeArray, "massless", lambda: _array(system))
        self.cuts = (system.n, system.n + system.nv)
        self.x = np.concatenate([q, v, np.zeros(system.m)])
        M = system.value("mass", par, q=q).full()
        diagonal = np.maximum(np.diag(M), 0.0)
        self.light = diagonal <= 1e-13 * max(float(diagonal.max(initial=0.0)), 1e-300)
        self.index: Index | None = self.array.index(self.x, t, self.given)

    @classmethod
    def of(cls, system: object, q: Array, v: Array, t: float, u: Array, par: Array) -> Massless | None:
        """None where masses are positive, where constraints define all that has no mass, or the array would be too large."""
        if not isinstance(system, Mechanical) or not system.massless(q, par) or _determined(system, q, t, par):
            return None
        return cls(system, q, v, t, u, par) if system.n + system.nv + system.m <= LARGEST else None

    def _solve(self, *free: str) -> Point:
        """The array where these parts of `x` may move: `"light"` are velocities without mass, `"place"` their coordinates."""
        n, nv, m = self.system.n, self.system.nv, self.system.m
        weights = np.concatenate([np.full(n, "q" in free), np.full(nv, "v" in free), np.ones(m)]).astype(float)
        if "light" in free:
            weights[n : n + nv][self.light] = 1.0
        if "place" in free and n == nv:
            weights[:n][self.light] = 1.0
        assert self.index is not None
        return self.array.solve(max(self.index.index - 1, 0), self.x, self.t, self.given, weights)

    def guess(self) -> Array:
        """The accelerations and multipliers that belong to the values; where all multipliers are zero, some of the forces' size.

        At zero multipliers the equations of a massless coordinate are singular: they are no guess to begin with.
        """
        point = self._solve() if self.index is not None else Point(self.x, 0 * self.x, np.inf)
        found, rates = point.x[self.cuts[1] :], point.jet[slice(*self.cuts)]
        q, v, (u, par) = self.x[: self.cuts[0]], self.x[slice(*self.cuts)], self.given
        G = self.system.value("jacobian", par, q=q, t=self.t).full()
        if self.system.friction is not None:
            raise MethodError(f"{self.system.name!r} has a force that depends on multipliers: all coordinates need a mass then")
        forces = ca.Function("force", self.system.symbols(), [ca.densify(self.system.force())])
        F = np.asarray(forces(q, v, np.zeros(self.system.nv), self.t, u, par).full())
        size = float(np.abs(F).max(initial=0.0)) / max(float(np.abs(G).max(initial=0.0)), 1e-300)
        lam = found if np.abs(found).max(initial=0.0) > 1e-8 * size else np.full(self.system.m, size)
        return np.concatenate([rates, lam])

    def check(self) -> None:
        """Refuse values that are off an equation without mass."""
        if self.index is None:
            return
        here = self._solve()
        if here.residual <= OFF:
            return
        near = self._nearest()
        told = "" if near is None else f"the nearest values are {self._text(near)}; "
        raise InconsistentState(
            f"the values violate the equation of a coordinate without mass (by {here.residual:.1e} of its terms); "
            f"{told}start from da.consistent(system, q=..., v=...)"
        )

    def values(self) -> tuple[Array, Array, Array]:
        """Consistent `q`, `v` and `lam`: massless velocities move first, then all velocities, massless coordinates, all."""
        near = None if self.index is None else self._nearest()
        if near is None:
            raise ConvergenceError(
                "no consistent values were found near these for a system with coordinates without mass; start closer to them",
                t=self.t, step=0.0, residual=np.inf if self.index is None else self._solve("q", "v").residual,
            )  # fmt: skip
        q, v, lam = np.split(near.x, self.cuts)
        return q, v, lam

    def _nearest(self) -> Point | None:
        for free in ((), ("light",), ("v",), ("light", "place"), ("v", "place"), ("q", "v")):
            point = self._solve(*free)
            if point.residual <= SOLVED:
                return point
        return None

    def _text(self, point: Point) -> str:
        q, v, _ = np.split(point.x, self.cuts)
        return f"q = {[float(f'{x:.6g}') for x in q]}, v = {[float(f'{x:.6g}') for x in v]}"


def _determined(s: Mechanical, q: Array, t: float, par: Array) -> bool:
    """Whether accelerations and multipliers follow from forces and constraints: nothing is hidden then, as of contacts."""
    if not s.m:
        return False
    M, G = s.value("mass", par, q=q).full(), s.value("jacobian", par, q=q, t=t).full()
    return rank(np.block([[M, G.T], [G, np.zeros((s.m, s.m))]])) == s.nv + s.m


def _array(s: Mechanical) -> DerivativeArray:
    """`q' = Z v`, `M v' = F - G^T lam`, the constraints."""
    lam = SX.sym("lam", s.m)
    x, rate = ca.vertcat(s.q, s.v, lam), SX.sym("rate", s.n + s.nv + s.m)
    slope, acceleration = rate[: s.n], rate[s.n : s.n + s.nv]
    rows = [slope - s.qdot(s.q, s.v), s.expression("mass") @ acceleration - s.force()]
    if s.m:
        rows[1] += s.role("jacobian").T @ lam
        rows += [s.expression("holonomic")] if s.mh else []
        rows += [s.role("drift")[s.mh :]] if s.mn else []
    return DerivativeArray(ca.vertcat(*rows), x, rate, s.t, (s.u, s.par))
