"""The equations of rest in numbers: Newton's iteration with the smallest changes, and the way downhill to where it can begin."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.analysis.local import Equations, null_space
from dalembert.engine import newton
from dalembert.engine.kinds import Values
from dalembert.errors import ConvergenceError
from dalembert.named import Array
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained

NEAR = 0.5  # of the largest coordinate: a solution within this distance from the start is near
SETTLING = 200  # steps downhill
FLOW = 200  # steps of the flow of a displacement by one, of fourth order
FAR = 100.0  # a displacement beyond this, in radians say, leads nowhere


class Balance:
    """`right(w) = 0` in numbers; rows of rates, of relations and of constraints."""

    def __init__(self, system: System, eq: Equations, t: float, u: Array, par: Array) -> None:
        self.system, self.eq, self.t = system, eq, t
        right = eq.right
        if system.has("constraint"):  # both levels: one row of them may be all that the other says
            right = ca.vertcat(right, system.role("constraint_rate"))
        f = ca.Function("statics", [eq.w, system.t, system.u, system.par], [right, ca.densify(ca.jacobian(right, eq.w))])
        self._f, self._rest = f, (t, u, par)

    def residual(self, w: Array) -> tuple[Array, Array]:
        r, J = self._f(w, *self._rest)
        return np.asarray(r.full())[:, 0], np.asarray(J.full())

    def terms(self, w: Array) -> Array:
        r, J = self.residual(w)
        own = np.abs(J) @ np.abs(w) + np.abs(r - J @ w) + 1e-12
        return np.asarray(own + 1e-6 * own.max(initial=0.0))  # terms that cancel inside of a row leave their rounding too

    def change(self, w: Array, r: Array, J: newton.Matrix) -> Array:
        """The smallest change of a matrix that may have any rank."""
        rows = np.asarray(J)
        if not (np.isfinite(rows).all() and np.isfinite(r).all()):
            return np.full(rows.shape[1], np.nan)
        size = np.abs(rows).max(axis=1, initial=0.0)
        size = np.where(size > 0, size, 1.0)
        return np.asarray(np.linalg.lstsq(rows / size[:, None], r / size, rcond=1e-10)[0])

    def solve(self, start: Values) -> tuple[Array, float]:
        """The nearest zero, and its residual relative to its terms."""
        w = np.concatenate([*start.values(), np.zeros(self.eq.w.numel() - sum(map(len, start.values())))])
        r, J = self.residual(w)
        if not (np.isfinite(r).all() and np.isfinite(J).all()):
            bad = self.row(int(np.argmin(np.isfinite(r) & np.isfinite(J).all(axis=1))))
            raise ConvergenceError(f"{bad} is not finite at the given values", t=self.t, step=0.0, residual=np.nan)
        begin = self._supported(w)
        found = self._newton(begin)
        far = found is None or np.abs(found - begin)[: self.n].max() > NEAR * np.abs(begin[: self.n]).max()
        if far and isinstance(self.system, Constrained):
            settled = self._newton(self._settle(self.system, begin))
            found = found if settled is None else settled
        if found is None:
            near = self._descend(begin)
            found = self._newton(near)
            if found is None:
                raise self._none(near)
        r, _ = self.residual(found)
        return found, float((np.abs(r) / self.terms(found)).max(initial=0.0))

    @property
    def n(self) -> int:
        """Coordinates, or states."""
        return self.system.n

    def _kinematics(self, s: Constrained, w: Array) -> Array:
        """`Z(q)` in `q' = Z(q) v`."""
        return np.asarray(s.value("kinematics", self._rest[2], q=w[: s.n]).full()) if s.has("kinematics") else np.eye(s.n)

    def _moved(self, s: Constrained, w: Array, way: Array) -> Array:
        """The same after a displacement along velocities: by their flow, so that quaternions keep their norm."""
        out = w.copy()
        if not s.has("kinematics"):
            out[: s.n] += way
            return out
        if not np.abs(way).max(initial=0.0) < FAR:  # nan as well
            out[: s.n] = np.nan
            return out
        count = int(np.clip(np.ceil(FLOW * np.abs(way).max(initial=0.0)), 1, FLOW))
        Z, par, h = s.function("kinematics"), self._rest[2], 1.0 / count
        zeros = [np.zeros(s.size_of(name)) if name != "t" else 0.0 for name in s.arguments[1:]]

        def rate(q: Array) -> Array:
            return np.asarray(Z(q, *zeros, par).full()) @ way

        q = w[: s.n].copy()
        with np.errstate(all="ignore"):  # angles may meet their singularity, where nothing is finite
            for _ in range(count):
                a = rate(q)
                b = rate(q + h / 2 * a)
                c = rate(q + h / 2 * b)
                q = q + h / 6 * (a + 2 * b + 2 * c + rate(q + h * c))
                if not np.abs(q).max() < 1e6:
                    q = np.full(s.n, np.nan)
                    break
        out[: s.n] = q
        return out

    def _settle(self, s: Constrained, w: Array) -> Array:
        """Where a motion with much friction comes to rest: steps along the forces on the constraints, until these are small.

        A step divides the force in each direction by the size of its stiffness, negative or not: it goes downhill at a saddle.
        """
        largest = 0.2 * (float(np.abs(w[: s.n]).max()) or 1.0)
        reach, before, w = largest, np.zeros(s.n), self._nearest(s, w)
        for _ in range(SETTLING):
            way = self._downhill(s, self._supported(w), reach)
            if way is None:
                break
            step = self._kinematics(s, w) @ way
            size = float(np.abs(step).max(initial=0.0))
            ahead = self._nearest(s, self._moved(s, w, way))
            moved = ahead[: s.n] - w[: s.n]
            back = moved @ before < -0.5 * np.linalg.norm(moved) * np.linalg.norm(before)
            if not np.abs(moved - step).max() <= 0.5 * size or back:
                reach, before = reach / 2, np.zeros(s.n)  # around a curve of the constraints, or to and fro
                if reach < 1e-9 * largest:
                    break
                continue
            w, before, reach = ahead, moved, min(1.5 * reach, largest)
            if size < 1e-3 * reach:
                break
        return self._supported(w)

    def _downhill(self, s: Constrained, w: Array, reach: float) -> Array | None:
        """A displacement along the constraints, not further than `reach`; None where there are no finite forces."""
        r, J = self.residual(w)
        n, end, Z = s.n, s.n + s.nv, self._kinematics(s, w)
        if not (np.isfinite(r).all() and np.isfinite(J).all() and np.isfinite(Z).all()):
            return None
        free = null_space(J[end : end + s.mh, :n] @ Z)
        K, force = -free.T @ J[n:end, :n] @ Z @ free, free.T @ r[n:end]
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        floor = np.maximum(np.abs(values), max(np.abs(force).max(initial=0.0), 1e-300) / reach)
        way = free @ vectors @ ((vectors.T @ force) / floor)
        return np.asarray(way * min(1.0, reach / max(float(np.abs(Z @ way).max(initial=0.0)), 1e-300)))

    def _nearest(self, s: Constrained, w: Array) -> Array:
        """The same with positions on the constraints, as far as a few iterations bring them there."""
        out, end = w.copy(), s.n + s.nv
        for _ in range(6 if s.mh else 0):
            r, J = self.residual(out)
            slopes = J[end : end + s.mh, : s.n] @ self._kinematics(s, out)
            if not np.isfinite(slopes).all():
                break
            way = -np.asarray(np.linalg.lstsq(slopes, r[end : end + s.mh], rcond=1e-10)[0], dtype=np.float64)
            out = self._moved(s, out, way)
            if np.abs(way).max(initial=0.0) < 1e-12:
                break
        return out

    def _flowing(self, s: Constrained, w: Array) -> Array | None:
        """Newton's iteration in displacements along velocities; None where it does not end."""
        previous = np.inf
        for _ in range(60):
            r, J = self.residual(w)
            slopes = np.hstack([J[:, : s.n] @ self._kinematics(s, w), J[:, s.n :]])
            if not (np.isfinite(r).all() and np.isfinite(slopes).all()):
                return None
            step, rows, factor = -self.change(w, r, slopes), self.terms(w), 1.0
            size = float(np.abs(step).max(initial=0.0)) / (1e-3 + float(np.abs(w).max()))
            if size <= 1e-14 or 0.5 * previous <= size <= 1e-9:
                return w if float((np.abs(r) / rows).max()) <= 1e-8 else None
            while True:
                ahead = self._moved(s, w, factor * step[: s.nv])
                ahead[s.n :] += factor * step[s.nv :]
                reached = float(np.abs(self.residual(ahead)[0] / rows).max())
                if reached <= (1 - 1e-4 * factor) * float(np.abs(r / rows).max()) or reached <= 1e-14:
                    break
                factor /= 2
                if factor < 2.0**-12:
                    return None
            w, previous = ahead, size
        return None

    def _supported(self, w: Array) -> Array:
        """A start whose multipliers bear as much of the forces as they can."""
        size = sum(self.system.size_of(name) for name in self.system.state)
        if len(w) == size:
            return w
        r, J = self.residual(w)
        out = w.copy()
        if not (np.isfinite(r).all() and np.isfinite(J).all()):
            return out
        out[size:] -= np.linalg.lstsq(J[:, size:], r, rcond=1e-10)[0]
        return out

    def _newton(self, w: Array) -> Array | None:
        """A zero near a point, or None."""
        if isinstance(self.system, Constrained) and self.system.has("kinematics"):
            return self._flowing(self.system, w)
        scale = 1e-3 * (1.0 + float(np.abs(w).max(initial=0.0)))
        try:
            return newton.solve(self.residual, w, change=self.change, scale=scale, terms=self.terms, t=self.t)
        except ConvergenceError:
            return None

    def _descend(self, w: Array) -> Array:
        """A point where the sum of squares of the equations, each of size one at the start, is smallest."""
        if isinstance(self.system, Constrained) and self.system.has("kinematics"):
            return w
        from scipy.optimize import least_squares

        size = self.terms(w)
        size = np.maximum(size, 1e-6 * size.max())
        found = least_squares(
            lambda v: np.nan_to_num(self.residual(v)[0] / size, nan=1e6), w, jac=lambda v: self.residual(v)[1] / size[:, None],
            x_scale=np.maximum(np.abs(w), 1.0), ftol=1e-15, xtol=1e-15, gtol=1e-15, max_nfev=500,
        )  # fmt: skip
        return np.asarray(found.x)

    def _none(self, w: Array) -> ConvergenceError:
        r, _ = self.residual(w)
        k = int(np.argmax(np.abs(r) / self.terms(w)))
        return ConvergenceError(
            f"no equilibrium of {self.system.name!r} was found near the given values: at the nearest point {self.row(k)} is "
            f"still {r[k]:.3g}; start elsewhere, hold other inputs (u=...), or look whether anything balances that force",
            t=self.t, step=0.0, residual=float(np.abs(r[k])),
        )  # fmt: skip

    def row(self, k: int) -> str:
        """What an equation says, in words."""
        s, names = self.system, self.eq.names
        if isinstance(s, Constrained):
            if k < s.n:
                return f"the rate of {names[k]}"
            if k < s.n + s.nv:
                return f"the force on {s.coordinates[k - s.n] if s.nv == s.n else f'velocity {k - s.n + 1}'}"
            return f"constraint {k - s.n - s.nv + 1}"
        return f"equation {k + 1}"
