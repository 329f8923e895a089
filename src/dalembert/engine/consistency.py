"""Consistent values: projections to the constraints at each level, and multipliers from the acceleration level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine.checks import check_functions, check_mass, check_rank
from dalembert.engine.initial import algebraic, arguments, choose, inputs_of, jacobian, kkt, number, own_values, vector
from dalembert.engine.machine import solve_pivoted
from dalembert.errors import ConvergenceError, InconsistentState, MethodError, UnknownKeyword
from dalembert.systems.base import System


@dataclass(frozen=True)
class Consistent:
    """Consistent values `q`, `v` (and `p`), and the multipliers `lam` of the acceleration level.

    Unpacks as `q, v, lam = ...` and as keywords, `da.simulate(system, method, **da.consistent(...), ...)`.
    """

    q: np.ndarray
    v: np.ndarray
    p: np.ndarray
    lam: np.ndarray
    momenta: str = "v"

    @property
    def y(self) -> np.ndarray:
        """The differential variables of a semi-explicit system."""
        return self.q

    @property
    def z(self) -> np.ndarray:
        """Its algebraic variables."""
        return self.v

    def __iter__(self) -> Iterator[np.ndarray]:
        if self.momenta == "x":
            return iter((self.q,))
        return iter((self.y, self.z) if self.momenta == "z" else (self.q, getattr(self, self.momenta), self.lam))

    @property
    def x(self) -> np.ndarray:
        """The state of a port-Hamiltonian system."""
        return self.q

    def keys(self) -> tuple[str, ...]:
        if self.momenta == "x":
            return ("x",)
        return ("y", "z") if self.momenta == "z" else ("q", self.momenta)

    def __getitem__(self, key: str) -> np.ndarray:
        return np.asarray(getattr(self, key))


def _consistent_dae(system: Any, y: np.ndarray, z: Any, t: float, par: np.ndarray, u: np.ndarray) -> Consistent:
    """The nearest `y` on all levels that do not contain `z`, and `z` from the one that does."""
    levels = system.levels()[:-1]
    if levels:
        stack = ca.vertcat(*levels)
        f = ca.Function("levels", [system.q, system.t, system.u, system.par], [stack, ca.jacobian(stack, system.q)])
        size = np.inf
        for _ in range(50):
            r, J = (np.array(x.full()) for x in f(y, t, u, par))
            check_rank(ca.DM(J), "at the given values")
            change = np.linalg.lstsq(J, r[:, 0], rcond=None)[0]
            y = y - change
            previous, size = size, float(np.abs(change).max())
            if size <= 4e-16 * max(1.0, float(np.abs(y).max())) or (size < 1e-12 and size >= 0.5 * previous):
                break
        else:
            raise ConvergenceError("no y near the given one satisfies the constraints", t=t, step=0.0, residual=size)
    return Consistent(y, algebraic(system, y, par, t, u), np.zeros(0), np.zeros(0), "z")


def multipliers(system: Any, at: Mapping[str, Any], par: np.ndarray, u: Any = None) -> np.ndarray:
    """`lam` of the acceleration level: `G v' + (G v)_q v + 2 G_t v + g_tt = 0` with `M v' = F - G^T lam`."""
    if not system.m:
        return np.zeros(0)
    A, F, C, d = accelerations(system)(
        at["q"], at["v"], at.get("p", np.zeros(system.nv)), at["t"], np.zeros(system.nu) if u is None else u, par
    )
    G = jacobian(system, at, par)
    return kkt(A, G, C, ca.densify(F), ca.densify(d))[1]


def accelerations(s: Any) -> ca.Function:
    """`A a + G^T lam = F`, `C a = d` for `a = v'` (mechanical) or `a = p'` (Hamiltonian)."""
    if "accelerations" not in s._steps:
        G = s.role("jacobian")
        if s.kind == "mechanical":
            F = s.own_force() + s.applied(s.q, s.v, s.t, s.u) - s.damping(s.q, s.v, s.t)
            parts = [s.expression("mass"), F, G, -s.role("curvature")]
        else:
            H, velocity = s.expression("hamiltonian"), s.role("velocity")
            F = -ca.gradient(H, s.q) + s.applied(s.q, s.v, s.t, s.u, s.p) - s.damping(s.q, s.v, s.t, s.p)
            rest = ca.jtimes(velocity, s.q, s.v) + ca.jacobian(velocity, s.t)
            parts = [ca.SX.eye(s.n), F, G @ ca.jacobian(velocity, s.p), -s.role("curvature") - G @ rest]
        s._steps["accelerations"] = ca.Function("accelerations", [s.q, s.v, s.p, s.t, s.u, s.par], parts)
    return s._steps["accelerations"]  # type: ignore[no-any-return]


def consistent(
    system: Any,
    *,
    q: Any = None,
    v: Any = None,
    p: Any = None,
    x: Any = None,
    y: Any = None,
    z: Any = None,
    t0: float = 0.0,
    u: Any = None,
    parameters: Mapping[str, Any] | None = None,
    **unknown: Any,
) -> Consistent:
    """Consistent initial values near given ones.

    Positions are projected to `g(q, t0) = 0` along `M^-1 G^T` (nearest in the norm of the kinetic energy), velocities to
    `G v + g_t = 0` (and `A v + a = 0`) in the same way, and the multipliers follow from the acceleration level. For a
    port-Hamiltonian system the algebraic states follow from the algebraic equations (index 1); for a
    semi-explicit system `y` is projected to the nearest values on all levels, and `z` follows from the one that defines it.

    >>> start = da.consistent(system, q=[0.9, 0.1], v=[0.0, 1.0])
    >>> da.simulate(system, "rattle", **start, t_end=1.0, step=0.01)
    """
    if unknown:
        raise UnknownKeyword.of("consistent", unknown, consistent)
    if not isinstance(system, System):
        raise MethodError(f"the first argument must be a system such as da.Mechanical(...), not {type(system).__name__}")
    t0 = number("t0", t0)
    own_values(system, {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z})
    par = system.pack(parameters)
    inputs = inputs_of(system, u, t0)(np.array([t0]))[0]
    if system.kind == "dae":
        start = y if y is not None else q if q is not None else system.initial.get("q")
        if start is None:
            raise InconsistentState(f"{system.name!r} has no default initial values: give y=...")
        return _consistent_dae(system, vector(system, "q", start), z, t0, par, inputs)
    if system.kind == "port-hamiltonian":
        start = x if x is not None else q if q is not None else system.initial.get("q")
        if start is None:
            raise InconsistentState(f"{system.name!r} has no default initial values: give x=...")
        state = system.consistent_state(vector(system, "q", start), t0, par, inputs)  # type: ignore[attr-defined]
        return Consistent(state, np.zeros(0), np.zeros(0), np.zeros(0), "x")
    q, second = choose(system, q, v, p, par)
    check_functions(system, {**arguments(system, q, second, t0, par), "u": inputs}, par)
    check_mass(system, q, par)
    zeros = np.zeros(system.nv)
    at: dict[str, Any] = {"q": q, "t": float(t0)}
    if system.m:
        check_rank(jacobian(system, at, par), "at the given position")
        q = _project_position(system, q, float(t0), par) if system.mh else q
        at["q"] = q
        G = jacobian(system, at, par)
        check_rank(G, "at the projected position")
        rate = system.numeric("rate", par, **at)[0]
        if system.momenta == "v":
            A = system._functions["mass"](q, zeros, zeros, 0.0, np.zeros(system.nu), par)
            second = kkt(A, G, G, ca.densify(A @ second), -rate)[0]
        else:
            for _ in range(30):
                here = arguments(system, q, second, float(t0), par)
                C = accelerations(system)(q, here["v"], second, t0, np.zeros(system.nu), par)[2]
                mu = solve_pivoted(C @ G.T, np.array(ca.densify(G @ here["v"])).ravel() + rate)
                change = G.full().T @ mu
                second = second - change
                if np.abs(change).max() <= 1e-15 * (np.abs(second).max() + 1e-300):
                    break
    at = arguments(system, q, second, float(t0), par)
    lam = multipliers(system, at, par, inputs)
    momentum = second if system.momenta == "p" else system.numeric("momentum", par, q=q, v=second)[0]
    return Consistent(q, at["v"], momentum, lam, system.momenta)


def _project_position(system: Any, q: np.ndarray, t: float, par: np.ndarray) -> np.ndarray:
    zeros, start = np.zeros(system.nv), q
    previous = np.inf
    for _ in range(50):
        at = {"q": q, "t": t}
        g = system.numeric("holonomic", par, **at)[0]
        if system.kind == "mechanical":
            A = system._functions["mass"](q, zeros, zeros, 0.0, np.zeros(system.nu), par)
        if system.kind != "mechanical" or system.has("kinematics"):
            A = ca.DM.eye(system.n)
        G = jacobian(system, at, par, "normal")
        change = kkt(A, G, G, np.zeros(system.n), -g)[0]
        size = float(np.abs(change).max())
        if not np.isfinite(size):
            break
        q = q + change
        if size <= 4e-16 * max(1.0, float(np.abs(q).max())) or (size < 1e-12 and size >= 0.5 * previous):
            return q
        previous = size
    worst = int(np.argmax(np.abs(system.numeric("holonomic", par, q=start, t=t)[0]))) + 1
    raise ConvergenceError(
        f"no position near the given one satisfies the constraints (constraint {worst} of {system.m} is the worst); "
        "start closer to the constraints",
        t=t,
        step=0.0,
        residual=previous,
    )
