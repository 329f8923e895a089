"""Functions whose gradients are combinations of the rows of `E`, and coordinates made of them (Kinon et al. 2025, theorem 8).

With `U^T E P = [I Y; 0 0]` and `x = P (x1, x2)` the functions `f` of the theorem solve `D_x2 f = D_x1 f Y` (eq. F.3). This says
that each `grad f` lies in the row space of `E`, in any coordinates; the energy is one of them, for `grad H = E^T z`.
In coordinates `w = (f(x), some of the states)` the energy depends on `f` alone, and the first rows of `E` are `[I 0]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import MethodError, ModelError
from dalembert.systems.base import System
from dalembert.systems.shapes import Array, column
from dalembert.systems.tracing import Model

if TYPE_CHECKING:
    from dalembert.systems.port_hamiltonian import PortHamiltonian

TOLERANCE = 1e-9
ILL = 1e8  # condition number of a block that is called singular


@dataclass(frozen=True)
class Coordinates:
    """New coordinates `w`, the old ones as functions of them, their names, and the start."""

    w: SX
    old: SX
    names: list[str]
    start: Array | None


def residuals(s: PortHamiltonian, f: SX) -> Array:
    """The part of each `grad f` outside of the row space of `E`, relative to its size, the largest of a few states."""
    slope, worst = ca.Function("Df", [s.x, s.par], [ca.densify(ca.jacobian(f, s.x))]), np.zeros(f.numel())
    for x, t in s.samples():
        E, D = s.matrix("E", x, t, s.pack()), np.asarray(slope(x, s.pack()).full())
        if not (np.isfinite(E).all() and np.isfinite(D).all()):
            continue
        _, values, vt = np.linalg.svd(E)
        rows = vt[: int((values > 1e-10 * values[0]).sum())]
        off = np.linalg.norm(D - D @ rows.T @ rows, axis=1) / np.maximum(np.linalg.norm(D, axis=1), 1e-300)
        worst = np.maximum(worst, off)
    return worst


def generators(s: PortHamiltonian, functions: Model) -> SX:
    """The functions of a user as an expression: solutions of the equation of theorem 8, independent of each other."""
    value = s._trace("functions", functions, ("x",))
    f = column("functions", value, value.numel())
    if not 0 < f.numel() <= s.n:
        raise ModelError(f"there can be 1 to {s.n} functions, not {f.numel()}")
    off = residuals(s, f)
    if off.max() > TOLERANCE:
        raise MethodError(
            f"function {int(off.argmax()) + 1} of {f.numel()} does not solve the equation of theorem 8: its gradient is outside "
            f"of the row space of E by {off.max():.1e} of its size"
        )
    if not all(np.linalg.cond(D) < ILL for D in _slopes(s, f)):
        raise MethodError("the functions depend on each other: their gradients are not independent")
    return f


def _slopes(s: PortHamiltonian, f: SX) -> list[Array]:
    slope = ca.Function("Df", [s.x, s.par], [ca.densify(ca.jacobian(f, s.x))])
    found = (np.asarray(slope(x, s.pack()).full()) for x, _ in s.samples())
    return [D for D in found if np.isfinite(D).all()]


def coordinates(s: PortHamiltonian, f: SX, inverse: Model | None) -> Coordinates:
    """`w = (f(x), n - p of the states)`, and `x` of it: as the user gives it, or solved for where `f` is affine in `p` states."""
    p, w = f.numel(), SX.sym("x", s.n)
    old, rest = _solved(s, f, w) if inverse is None else _given(s, p, w, inverse)
    names = [*(f"f{i}" for i in range(1, p + 1)), *(s.coordinates[i] for i in rest)]
    forward = ca.Function("psi", [s.x, s.par], [ca.densify(ca.vertcat(f, s.x[rest]))])
    back = ca.Function("phi", [w, s.par], [ca.densify(old)])
    for x, _ in s.samples():
        again = np.asarray(back(forward(x, s.pack()), s.pack()).full())[:, 0]
        if np.isfinite(again).all() and np.abs(again - x).max() > TOLERANCE * max(1.0, float(np.abs(x).max())):
            raise MethodError(
                f"inverse is not that of the functions: a state comes back with an error of {np.abs(again - x).max():.1e}; its "
                f"arguments are the {p} functions and then states that it keeps"
            )
    start = None
    if "x" in s.initial:
        start = np.asarray(forward(np.asarray(s.initial["x"], dtype=float), s.pack()).full())[:, 0]
    return Coordinates(w, old, names, start)


def _given(s: PortHamiltonian, p: int, w: SX, inverse: Model) -> tuple[SX, list[int]]:
    host = System.__new__(type(s))
    System.__init__(host, [f"w{i}" for i in range(1, s.n + 1)], s.parameters, s.name, None)
    host.x, host.t, host.u, host.par = w, s.t, s.u, s.par
    old = column("inverse", host._trace("inverse", inverse, ("x",)), s.n)
    rest = []
    for j in range(p, s.n):
        kept = [i for i in range(s.n) if ca.is_equal(old[i], w[j])]
        if not kept:
            raise MethodError(f"inverse must keep {s.n - p} states: none of its entries is its argument {j + 1} as it is")
        rest.append(kept[0])
    return old, rest


def _solved(s: PortHamiltonian, f: SX, w: SX) -> tuple[SX, list[int]]:
    """The choice of states with the best conditioned block of `Df`."""
    p, best = f.numel(), (ILL, list[int]())
    slopes, curved = _slopes(s, f), ca.jacobian(f, s.x)
    for some in combinations(range(s.n), p):
        chosen = list(some)
        if ca.depends_on(curved[:, chosen], s.x[chosen]):
            continue
        worst = max((float(np.linalg.cond(D[:, chosen])) for D in slopes), default=np.inf)
        if worst < 0.9 * best[0]:
            best = (worst, chosen)
    chosen = best[1]
    if not chosen:
        raise MethodError(
            "the functions are not affine in any states that they determine: give inverse=..., x as a function of them"
        )
    rest = [i for i in range(s.n) if i not in chosen]
    zero = SX(s.x)
    zero[chosen], zero[rest] = 0.0, w[p:]
    block, constant = (ca.substitute(e, s.x, zero) for e in (curved[:, chosen], f))
    old = SX(s.n, 1)
    old[chosen], old[rest] = ca.solve(ca.densify(block), w[:p] - constant), w[p:]
    return ca.densify(old), rest
