"""Equations near a point: linear, in as few states as the constraints leave free.

A deviation of the whole vector `w` (the parts of the state, then multipliers) from a point is, to first order,

    s' = rate + A s + B u,    w = T s + U_0 u + U_1 u' + ...,

with states `s` that are entries of `w` themselves, chosen so that the others follow from them.

Mechanical and Hamiltonian systems: `w = (q, v)` has the tangent space of `g(q) = 0`, `G v + g_t = 0`, and the rates are those of
the acceleration level, differentiated. Dependent constraints do no harm. All others: `E w' = A w + B u` is brought to
quasi-Weierstrass form (Berger, Ilchmann, Trenn 2012), whatever the index is. The latter holds at an equilibrium, and for index 0
and 1 anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.analysis.observed import entries
from dalembert.engine.kinds import Values
from dalembert.engine.kinds.mechanics import accelerations
from dalembert.errors import MethodError, ModelError
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained
from dalembert.systems.pencil import Pencil

Array = NDArray[np.float64]
LARGEST = 3000  # unknowns that are treated by dense matrices
RANK = 1e-10  # singular values of scaled matrices below this part of the largest count as zero
STILL = 1e-7  # rates below this part of their terms are those of an equilibrium
NOTHING = 1e-11  # a dependence on inputs below this part of its terms is none


@dataclass(frozen=True)
class Local:
    """The linear equations near a point; see the module. `positions` is how many of the states belong to `q`, where it is one."""

    A: Array
    B: Array
    T: Array
    U: tuple[Array, ...]
    rate: Array
    names: tuple[str, ...]
    positions: int | None
    still: bool


@dataclass(frozen=True)
class Equations:
    """`inertia(w) w' = right(w, t, u)`: all equations of a system in all its unknowns `w`, constraints as they were stated."""

    names: tuple[str, ...]
    w: SX
    inertia: SX
    right: SX

    @classmethod
    def of(cls, system: System) -> Equations:
        """From the form of the system; a holonomic constraint at the level of positions."""
        form = system.rate_form(SX.sym("h"))
        w = ca.vertcat(*form.y.values(), form.w, form.lam)
        levels = [form.levels[name] for name in ("position", "nonholonomic") if name in form.levels]
        levels = levels or list(form.levels.values())
        blocks = [form.inertia.get(name, SX.eye(y.numel())) for name, y in form.y.items()]
        right = ca.vertcat(*(form.total(name) for name in form.y), form.relation, *levels)
        if system.has("constraint"):  # of a mechanism: `0 = G v` stands among the equations
            rows: list[int] = system._constraint[2]  # type: ignore[attr-defined]
            right[rows] = system.expression("constraint")
        rest = right.numel() - sum(block.size1() for block in blocks)
        inertia = ca.diagcat(*blocks, SX(rest, w.numel() - sum(block.size2() for block in blocks)))
        names = [name for part in system.state for name in entries(system, part)]
        names += [f"lam{i}" for i in range(1, w.numel() - len(names) + 1)]
        return cls(tuple(names), w, inertia, ca.densify(right))

    def matrices(self, system: System) -> ca.Function:
        """`(w, w', t, u, par) -> E, A, B, right` of `E dw' = A dw + B du` at any point."""
        rate = SX.sym("rate", self.w.numel())
        rows = self.right - self.inertia @ rate
        out = [self.inertia, ca.jacobian(rows, self.w), ca.jacobian(rows, system.u), self.right]
        return ca.Function("linear", [self.w, rate, system.t, system.u, system.par], [ca.densify(e) for e in out])


def local(system: System, values: Values, t: float, u: Array, par: Array) -> Local:
    """The equations near a consistent point."""
    unknowns = sum(system.size_of(name) for name in system.state) + system.m
    if unknowns > LARGEST:
        raise MethodError(f"{system.name!r} has {unknowns} unknowns; linearisation uses dense matrices, for {LARGEST} at most")
    if isinstance(system, Constrained):
        found = _tangent(system, values, t, u, par)
        if found is not None:
            return found
    return _pencil(system, values, t, u, par)


# ---- mechanical systems ---------------------------------------------------------------------------------


def _tangent(s: Constrained, values: Values, t: float, u: Array, par: Array) -> Local | None:
    """By the tangent space of the constraints; None where accelerations are not determined: coordinates without mass."""
    f = s.cache.get(ca.Function, "tangent", lambda: _rates(s))
    x = np.concatenate([values["q"], values[s.momenta]])
    zero = np.zeros(s.nv + s.m)
    K, _, r, *_ = (np.asarray(m.full()) for m in f(x, zero, t, u, par))
    inverse, null = pseudo_inverse(K)
    if np.abs(null[: s.nv]).max(initial=0.0) > 1e-6:
        return None
    known = -inverse @ r[:, 0]
    K, L, r, fast, slopes, G, Z = (np.asarray(m.full()) for m in f(x, known, t, u, par))
    terms = np.abs(K) @ np.abs(known) + np.abs(r[:, 0] - K @ known)
    if np.abs(r[:, 0]).max(initial=0.0) > 1e-7 * terms.max(initial=0.0):
        raise ModelError(f"{s.name!r} has no accelerations at this point: its constraints contradict each other")
    change = -inverse @ L
    n, size = s.n, len(x)
    T, picked = _tangents(G, Z, n)
    by_x = np.vstack([slopes[:, :size], change[: s.nv, :size]])
    by_u = np.vstack([slopes[:, size:], change[: s.nv, size:]])
    names = [name for part in s.state for name in entries(s, part)]
    whole = np.vstack([T, change[s.nv :, :size] @ T])
    passed = np.vstack([np.zeros((size, s.nu)), change[s.nv :, size:]])
    rate = np.concatenate([fast[:, 0], known[: s.nv]])
    still = bool(np.abs(rate).max(initial=0.0) <= STILL * _pace(by_x, x, known))
    chosen = tuple(names[i] for i in picked)
    count = sum(i < n for i in picked)
    return Local((by_x @ T)[picked], by_u[picked], whole, (passed,), rate[picked], chosen, count, still)


def _pace(slopes: Array, x: Array, known: Array) -> float:
    """The size of rates that are not small."""
    return float((np.abs(slopes) @ np.abs(x)).max(initial=0.0) + np.abs(known).max(initial=0.0)) + 1e-300


def _rates(s: Constrained) -> ca.Function:
    """`(x, (a, lam), t, u, par)` -> slopes and residual of the acceleration level, `q'`, slopes of it and of the constraints."""
    A, F, C, d = (s.of_state(e) for e in accelerations(s)(*s.symbols()))
    a, lam = SX.sym("a", s.nv), SX.sym("lam", s.m)
    G = s.of_state(s.role("jacobian")) if s.m else SX(0, s.nv)
    residual = ca.vertcat(A @ a + G.T @ lam - F, C @ a - d)
    own, known = ca.vertcat(s.q, getattr(s, s.momenta)), ca.vertcat(a, lam)
    rate = s.of_state(s.qdot(s.q, s.v))
    levels = ca.vertcat(s.expression("holonomic") if s.mh else SX(0, 1), s.of_state(s.role("drift")) if s.m else SX(0, 1))
    Z = s.expression("kinematics") if s.has("kinematics") else SX.eye(s.n)
    moved = ca.vertcat(own, s.u)
    out = [
        ca.jacobian(residual, known), ca.jacobian(residual, moved), residual, rate, ca.jacobian(rate, moved),
        ca.jacobian(levels, own), Z,
    ]  # fmt: skip
    return ca.Function("rates", [own, known, s.t, s.u, s.par], [ca.densify(e) for e in out])


def _tangents(G: Array, Z: Array, n: int) -> tuple[Array, list[int]]:
    """A basis of the tangent space in which some entries are coordinates, and which these are: positions, then rates."""
    holonomic = ~np.abs(G[:, n:]).any(axis=1)
    # positions move along Z(q) only: quaternions keep their norm
    free = Z @ null_space(G[holonomic][:, :n] @ Z)
    places = pivots(free)
    free = free @ np.linalg.inv(free[places])
    rates = null_space(G[:, n:])
    same = [i for i in places if i < len(rates)]
    good = len(same) == rates.shape[1] == len(places) and np.linalg.cond(rates[same]) < 1e3
    moving = same if good else pivots(rates)
    rates = rates @ np.linalg.inv(rates[moving])
    across = np.linalg.lstsq(G[:, n:], -G[:, :n] @ free, rcond=RANK)[0] if len(G) else np.zeros((len(rates), free.shape[1]))
    across = across - rates @ across[moving]
    T = np.block([[free, np.zeros((n, rates.shape[1]))], [across, rates]])
    return T, [*places, *(n + i for i in moving)]


# ---- everything else ------------------------------------------------------------------------------------


def _pencil(system: System, values: Values, t: float, u: Array, par: Array) -> Local:
    """By the quasi-Weierstrass form of the linearised equations."""
    eq = Equations.of(system)
    f = eq.matrices(system)
    w = np.concatenate([np.ravel(values[name]) for name in (*system.state, "lam") if name in values])
    w = np.concatenate([w, np.zeros(eq.w.numel() - len(w))])
    E, A, B, right = (np.asarray(m.full()) for m in f(w, np.zeros(len(w)), t, u, par))
    terms = np.abs(A) @ np.abs(w) + np.abs(right[:, 0] - A @ w)
    terms += 1e-4 * np.abs(A).max(axis=1) * np.abs(w).max() + 1e-300  # terms that happen to vanish are rounded like others
    still = bool((np.abs(right[:, 0]) / terms).max(initial=0.0) <= STILL)
    rate = np.zeros(len(w))
    if not still:
        rate = np.linalg.lstsq(E, right[:, 0], rcond=RANK)[0]
        E, A, B, _ = (np.asarray(m.full()) for m in f(w, rate, t, u, par))
    pencil = Pencil(E, A)
    index = pencil.index
    if not still and index > 1:
        raise ModelError(
            f"{system.name!r} is not at rest at this point (a rate is {np.abs(rate).max():.2g}), and has index {index}: away "
            "from an equilibrium its linearisation has no meaning of its own; da.equilibrium(system, ...) finds one"
        )
    form = pencil.weierstrass()
    k = len(form.N)
    fast, slow = form.Q[:, :k], form.Q[:, k:]
    passed = _passed(fast, form.N, form.P[:k], B, max(1, index))
    direct = np.array(np.abs(np.hstack(passed)).max(axis=1, initial=0.0) > 0, dtype=bool)
    picked = pivots(slow, avoid=direct | ~E.any(axis=0))
    own = slow[picked]
    back = np.linalg.inv(own)
    names = tuple(eq.names[i] + (" (free part)" if direct[i] else "") for i in picked)
    return Local(own @ form.J @ back, own @ form.P[k:] @ B, slow @ back, tuple(passed), rate[picked], names, None, still)


def _passed(fast: Array, N: Array, P: Array, B: Array, index: int) -> list[Array]:
    """How the inputs and their rates act on the unknowns at once, `-Q_f N^k P_f B`; what is only rounding is zero."""
    chain, terms, out = P @ B, np.abs(P) @ np.abs(B), []
    for _ in range(index):
        now = -fast @ chain
        out.append(np.where(np.abs(now) <= NOTHING * (np.abs(fast) @ terms), 0.0, now))
        chain, terms = N @ chain, np.abs(N) @ terms
    while len(out) > 1 and not out[-1].any():
        out.pop()
    return out


# ---- linear algebra -------------------------------------------------------------------------------------


def scaled(M: Array) -> tuple[Array, Array, Array]:
    """A matrix with rows and columns of size one, and the factors of both."""
    rows, columns = np.ones(M.shape[0]), np.ones(M.shape[1])
    for _ in range(3):
        now = M * rows[:, None] * columns
        r, c = np.abs(now).max(axis=1, initial=0.0), np.abs(now).max(axis=0, initial=0.0)
        rows, columns = rows / np.sqrt(np.where(r > 0, r, 1.0)), columns / np.sqrt(np.where(c > 0, c, 1.0))
    return M * rows[:, None] * columns, rows, columns


def pseudo_inverse(M: Array) -> tuple[Array, Array]:
    """An inverse for right-hand sides in the range, and the null space; ranks are those of the scaled matrix."""
    if not M.size:
        return np.zeros(M.shape[::-1]), np.zeros((M.shape[1], 0))
    inner, rows, columns = scaled(M)
    U, S, Vt = np.linalg.svd(inner)
    rank = int((RANK * S[0] < S).sum())
    inverse = (Vt[:rank].T / S[:rank]) @ U[:, :rank].T
    null = columns[:, None] * Vt[rank:].T
    return columns[:, None] * inverse * rows, null / np.maximum(np.abs(null).max(axis=0, initial=0.0), 1e-300)


def null_space(M: Array) -> Array:
    """A basis of the null space: of size one, ranks after rows are scaled."""
    if not M.shape[0]:
        return np.eye(M.shape[1])
    size = np.abs(M).max(axis=1, keepdims=True, initial=0.0)
    _, S, Vt = np.linalg.svd(M / np.where(size > 0, size, 1.0))
    rank = int((RANK * max(1.0, S[0] if S.size else 0.0) < S).sum())
    return np.asarray(Vt[rank:].T)


def pivots(basis: Array, avoid: NDArray[np.bool_] | None = None) -> list[int]:
    """Rows of a basis that determine the others, by Gram and Schmidt with pivoting; those to avoid only where they are needed."""
    rest, out = np.array(basis), list[int]()
    shy = np.zeros(len(basis), dtype=bool) if avoid is None else avoid
    for _ in range(basis.shape[1]):
        size = (rest**2).sum(axis=1)
        size[out] = -1.0
        best = int(np.argmax(np.where(shy, 1e-6 * size, size)))
        out.append(best)
        row = rest[best] / np.sqrt(size[best])
        rest = rest - np.outer(rest @ row, row)
    return sorted(out)
