"""Statics: states that stay as they are, with inputs held, and the multipliers that hold them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.analysis.local import Equations, Local, local, null_space, pseudo_inverse
from dalembert.analysis.spectrum import eigenvalues
from dalembert.checking import number
from dalembert.engine import kinds, newton
from dalembert.engine.case import check_call
from dalembert.engine.initial import vector
from dalembert.engine.inputs import inputs_of
from dalembert.engine.kinds import Values
from dalembert.errors import ConvergenceError, InconsistentState, suggesting
from dalembert.named import Array, Named
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained

MARGIN = 1e-7  # of the largest eigenvalue: real parts below this may be those of a multiple eigenvalue zero
NEAR = 0.5  # of the largest coordinate: a solution within this distance from the start is near
SETTLING = 200  # steps downhill
VERDICTS = {
    "asymptotically stable": "all eigenvalues lie in the left half plane",
    "stable": "the potential energy has a minimum there",
    "marginal": "no eigenvalue lies in the right half plane, some lie on the imaginary axis: linear equations do not decide",
    "unstable": "an eigenvalue lies in the right half plane",
}


@dataclass(frozen=True)
class Equilibrium(Named):
    """A state of rest: `q` and `lam` (or `x`; or `y`, `z`), what is left of the equations, and whether it is stable.

    Unpacks as keywords, `da.simulate(system, method, **da.equilibrium(system), ...)`. Of dependent constraints, `lam` are the
    multipliers of least norm.
    """

    system: System
    values: Mapping[str, Array]
    t: float
    u: Array
    par: Array
    residual: float

    def keys(self) -> tuple[str, ...]:
        return self.system.state

    def __getitem__(self, key: str) -> Array:
        return self.named(key)

    @cached_property
    def local(self) -> Local:
        """The equations near it."""
        return local(self.system, dict(self.values), self.t, self.u, self.par)

    @cached_property
    def eigenvalues(self) -> NDArray[np.complex128]:
        """Of the linearised equations, as many as there are free states."""
        return eigenvalues(self.local)

    @cached_property
    def stability(self) -> str:
        """`"asymptotically stable"`, `"stable"`, `"marginal"` or `"unstable"`."""
        real, margin = self.eigenvalues.real, MARGIN * np.abs(self.eigenvalues).max(initial=1e-300)
        if (real > margin).any():
            return "unstable"
        if (real < -margin).all():
            return "asymptotically stable"
        return "stable" if isinstance(self.system, Constrained) and self._minimum(self.system) else "marginal"

    def _minimum(self, s: Constrained) -> bool:
        """Whether an energy has a minimum on the constraints (Lagrange, Dirichlet): not with forces that have no potential."""
        if s.has("force") or s.mn or s.moving or (self.u.any() and s.depends("inputs", "q")):
            return False
        eq = Equations.of(s)
        A = np.asarray(eq.matrices(s)(_whole(self, eq), np.zeros(eq.w.numel()), self.t, self.u, self.par)[1].full())
        n = s.n
        Z = np.asarray(s.value("kinematics", self.par, q=self.q).full()) if s.has("kinematics") else np.eye(n)
        normal = s.value("normal", self.par, q=self.q, t=self.t).full() if s.mh else np.zeros((0, n))
        free = null_space(np.asarray(normal) @ Z)
        stiffness = -free.T @ A[n : n + s.nv, :n] @ Z @ free
        if not stiffness.size:
            return True
        values = np.linalg.eigvalsh((stiffness + stiffness.T) / 2)
        return bool(values[0] > 1e-9 * max(values[-1], 0.0))

    def __str__(self) -> str:
        rows = [(name, _text(value)) for name, value in self.values.items()]
        said = f"{self.stability}: {VERDICTS[self.stability]}"
        rows += [("residual", f"{self.residual:.1e} of the terms"), ("stability", said)]
        if self.stability == "unstable":
            fastest = self.eigenvalues[int(np.argmax(self.eigenvalues.real))]
            rows.append(("fastest growth", f"{fastest.real:.6g} per unit of time"))
        head = f"equilibrium of {self.system.name}" + (f", u = {self.u}" if self.u.any() else "")
        return "\n".join([head, *(f"  {name:<14}  {value}" for name, value in rows)])


def _text(value: Array) -> str:
    """Numbers in a line, without what is only rounding."""
    shown = np.where(np.abs(value) <= 1e-12 * np.abs(value).max(initial=0.0), 0.0, value)
    return np.array2string(shown, precision=6, threshold=12)


@suggesting
def equilibrium(
    system: System,
    *,
    q: ArrayLike | None = None,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    z: ArrayLike | None = None,
    t0: float = 0.0,
    u: ArrayLike | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
) -> Equilibrium:
    """The state of rest near given values, the system's own where none are given.

    It solves `f(q, 0, t0, u) = G(q)^T lam`, `g(q, t0) = 0` for a mechanical system, `(J - R) z + (B - P) u = r` and so on for
    others, by Newton's iteration with the smallest change where the equations leave a choice (dependent constraints, bodies that
    float). Of several, it is the one near the start, stable or not; where none is near, that in which a motion with much
    friction would end. `stability` says what kind it is. Where there is none, a `ConvergenceError` has the `residual` of the
    nearest point.

    >>> rest = da.equilibrium(pendulum, q=[0.1, -0.9])
    >>> rest.q, rest.lam, rest.stability
    """
    check_call(system, "auto")
    t0, par = number("t0", t0), system.pack(parameters)
    held = inputs_of(system, u, t0)(np.array([t0]))[0]
    start = _start(system, {"q": q, "x": x, "y": y, "z": z})
    eq = Equations.of(system)
    found, residual = _Statics(system, eq, t0, held, par).solve(start)
    values, place = {}, 0
    for name in system.state:
        values[name] = found[place : place + system.size_of(name)]
        place += system.size_of(name)
    if isinstance(system, Constrained):
        values["lam"] = found[place:]
        if "v" in values:
            values["v"] = np.zeros(system.nv)  # solved for to round-off
        if system.m:
            values["lam"] = _least(system, values, t0, held, par)
    return Equilibrium(system, values, t0, held, par, residual)


def _start(system: System, given: Mapping[str, ArrayLike | None]) -> Values:
    """Where to begin: what was given, else the system's own values, else zero."""
    out = {}
    for name, value in given.items():
        if value is not None and name not in system.state:
            raise InconsistentState(f"{name} is no part of the state of {system.name!r}, which has {' and '.join(system.state)}")
    for name in system.state:
        value = given.get(name)
        rest = np.zeros(system.size_of(name)) if name in ("v", "p") else system.initial.get(name, np.zeros(system.size_of(name)))
        out[name] = vector(system, name, rest if value is None else value)
    return out


class _Statics:
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
        return np.asarray(np.abs(J) @ np.abs(w) + np.abs(r - J @ w) + 1e-12)

    def change(self, w: Array, r: Array, J: newton.Matrix) -> Array:
        """The smallest change of a matrix that may have any rank."""
        rows = np.asarray(J)
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

    def _settle(self, s: Constrained, w: Array) -> Array:
        """Where a motion with much friction comes to rest: steps along the forces on the constraints, until these are small.

        A step divides the force in each direction by the size of its stiffness, negative or not: it goes downhill at a saddle.
        """
        reach, before = 0.2 * max(float(np.abs(w[: s.n]).max()), 1e-2), np.zeros(s.n)
        w = self._nearest(s, w)
        for _ in range(SETTLING):
            step = self._downhill(s, self._supported(w), reach)
            size = float(np.abs(step).max(initial=0.0))
            ahead = w.copy()
            ahead[: s.n] += step
            ahead = self._nearest(s, ahead)
            moved = ahead[: s.n] - w[: s.n]
            if np.abs(moved - step).max() > 0.5 * size or moved @ before < -0.5 * np.linalg.norm(moved) * np.linalg.norm(before):
                reach /= 2  # around a curve of the constraints, or to and fro
                before = np.zeros(s.n)
                continue
            w, before = ahead, moved
            if size < 1e-3 * reach or reach < 1e-6:
                break
        return self._supported(w)

    def _downhill(self, s: Constrained, w: Array, reach: float) -> Array:
        """A step along the constraints, not further than `reach`."""
        r, J = self.residual(w)
        n, end = s.n, s.n + s.nv
        Z = np.asarray(s.value("kinematics", self._rest[2], q=w[:n]).full()) if s.has("kinematics") else np.eye(n)
        free = null_space(J[end : end + s.mh, :n] @ Z)
        K, force = -free.T @ J[n:end, :n] @ Z @ free, free.T @ r[n:end]
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        floor = np.maximum(np.abs(values), max(np.abs(force).max(initial=0.0), 1e-300) / reach)
        step = Z @ free @ vectors @ ((vectors.T @ force) / floor)
        return np.asarray(step * min(1.0, reach / max(float(np.abs(step).max(initial=0.0)), 1e-300)))

    def _nearest(self, s: Constrained, w: Array) -> Array:
        """The same with positions on the constraints, as far as a few iterations bring them there."""
        out, end = w.copy(), s.n + s.nv
        for _ in range(6 if s.mh else 0):
            r, J = self.residual(out)
            out[: s.n] -= np.linalg.lstsq(J[end : end + s.mh, : s.n], r[end : end + s.mh], rcond=1e-10)[0]
        return out

    def _supported(self, w: Array) -> Array:
        """A start whose multipliers bear as much of the forces as they can."""
        size = sum(self.system.size_of(name) for name in self.system.state)
        if len(w) == size:
            return w
        r, J = self.residual(w)
        out = w.copy()
        out[size:] -= np.linalg.lstsq(J[:, size:], r, rcond=1e-10)[0]
        return out

    def _newton(self, w: Array) -> Array | None:
        """A zero near a point, or None."""
        scale = 1e-3 * (1.0 + float(np.abs(w).max(initial=0.0)))
        try:
            return newton.solve(self.residual, w, change=self.change, scale=scale, terms=self.terms, t=self.t)
        except ConvergenceError:
            return None

    def _descend(self, w: Array) -> Array:
        """A point where the sum of squares of the equations, each of size one at the start, is smallest."""
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


def _whole(at: Equilibrium, eq: Equations) -> Array:
    """All unknowns of the equations at an equilibrium."""
    return np.concatenate([at.values[name] for name in (*at.system.state, "lam") if name in at.values])


def _least(s: Constrained, values: Values, t: float, u: Array, par: Array) -> Array:
    """The multipliers of least norm that hold a state: `G^T lam = f`."""
    at = kinds.complete(s, {name: values[name] for name in s.state}, t, par)
    G = np.asarray(s.value("jacobian", par, q=at["q"], t=t).full())
    f = ca.Function("force", s.symbols(), [ca.densify(s.force())])
    force = f(at["q"], at["v"], at.get("p", np.zeros(s.nv)), t, u, par)
    _, null = pseudo_inverse(G.T)
    lam = values["lam"] + np.linalg.lstsq(G.T, np.asarray(force.full())[:, 0] - G.T @ values["lam"], rcond=1e-10)[0]
    if null.shape[1]:
        lam -= null @ np.linalg.lstsq(null, lam, rcond=None)[0]
    return np.asarray(lam)
