"""The same mechanical system as a semi-explicit DAE, a Hamiltonian or a port-Hamiltonian system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import MethodError
from dalembert.systems.base import System
from dalembert.systems.dae import IndexOneDAE, IndexThreeDAE, IndexTwoDAE
from dalembert.systems.hamiltonian import Hamiltonian
from dalembert.systems.picture import inherit
from dalembert.systems.port_hamiltonian import PortHamiltonian
from dalembert.systems.quasi_velocities import commutator, left_inverse
from dalembert.systems.shapes import column
from dalembert.systems.tracing import Model

if TYPE_CHECKING:
    from dalembert.systems.mechanical import Mechanical

FORMULATIONS = ("index3", "index2", "ggl", "index1", "index0", "baumgarte")


def to_dae(system: Mechanical, formulation: str, xi: float, omega: float) -> IndexTwoDAE:
    """The semi-explicit forms of a constrained mechanical system; see `Mechanical.to_dae`."""
    s = system
    if formulation not in FORMULATIONS:
        raise MethodError(f"formulation must be one of {', '.join(FORMULATIONS)}, not {formulation!r}")
    _frictionless(s)
    if not s.m:
        raise MethodError(f"{s.name!r} has no constraints: it is an ordinary differential equation already")
    if formulation == "index3" and s.mn:
        raise MethodError("nonholonomic constraints have no position level; use 'index2', 'ggl' or 'index1'")
    n, nv, m, G = s.n, s.nv, s.m, s.role("jacobian")
    y, velocity, drift = ca.vertcat(s.q, s.v), s.qdot(s.q, s.v), s.role("drift")
    F = s.force()
    names = (*s.coordinates, *(f"v_{c}" for c in (s.coordinates if nv == n else range(nv))))
    initial = {"y": [*s.initial["q"], *s.initial["v"]]} if {"q", "v"} <= set(s.initial) else {}
    if formulation in ("index1", "baumgarte"):
        a, lam = SX.sym("a", nv), SX.sym("lam", m)
        level = G @ a + s.role("curvature")
        if formulation == "baumgarte":
            xi, omega = float(xi), float(omega)
            level += 2 * xi * omega * drift
            if s.mh:
                level[: s.mh] += omega**2 * s.expression("holonomic")
        g = ca.vertcat(s.expression("mass") @ a - F + G.T @ lam, level)
        return IndexOneDAE.of_expressions(s, names, y, ca.vertcat(a, lam), [ca.vertcat(velocity, a)], g, initial)
    if formulation == "index0":
        return _index_zero(s, names, initial)
    z = SX.sym("z", m + (s.mh if formulation == "ggl" else 0))
    F -= G.T @ z[:m]
    inverse = s.inverse_mass()
    acceleration = inverse @ F if inverse is not None else ca.solve(s.expression("mass"), F)
    shift = -(s.role("normal").T @ z[m:]) if formulation == "ggl" and s.mh else SX(n, 1)
    parts = [ca.vertcat(velocity, SX(nv, 1)), ca.vertcat(shift, acceleration)]
    if formulation == "index3":
        return IndexThreeDAE.of_expressions(s, names, y, z, parts, s.expression("holonomic"), initial)
    g = ca.vertcat(drift, s.expression("holonomic")) if formulation == "ggl" and s.mh else drift
    return IndexTwoDAE.of_expressions(s, names, y, z, parts, g, initial)


def _frictionless(s: Mechanical) -> None:
    if s.friction is not None:
        raise MethodError(f"the force of {s.name!r} depends on multipliers: friction is not converted, leave it out")


def _index_zero(s: Mechanical, names: tuple[str, ...], initial: dict[str, list[float]]) -> IndexTwoDAE:
    """The multipliers as states: `lam' = mu`, with `mu` from the derivative of the acceleration level, in which it is linear."""
    lam, mu, G, inverse = SX.sym("lam", s.m), SX.sym("mu", s.m), s.role("jacobian"), s.inverse_mass()
    F = s.force() - G.T @ lam
    a = inverse @ F if inverse is not None else ca.solve(s.expression("mass"), F)
    level, y = G @ a + s.role("curvature"), ca.vertcat(s.q, s.v, lam)
    rate = ca.vertcat(s.qdot(s.q, s.v), a, mu)
    g = ca.jtimes(level, y, rate) + ca.jacobian(level, s.t)
    names = (*names, *(f"lam{i}" for i in range(1, s.m + 1)))
    return IndexOneDAE.of_expressions(s, names, y, mu, [rate], g, {})


def to_port_hamiltonian(s: Mechanical) -> PortHamiltonian:
    """See `Mechanical.to_port_hamiltonian`."""
    _frictionless(s)
    if s.has("force"):
        raise MethodError(
            "a force that is neither potential nor dissipation has no place in a port-Hamiltonian system; give it as inputs"
        )
    if s.has("kinematics") or s.depends("potential", "t") or s.moving:
        raise MethodError("to_port_hamiltonian treats q' = v, energies and constraints that do not depend on time")
    n, m = s.n, s.m
    names = (*s.coordinates, *(f"v_{c}" for c in s.coordinates), *(f"lam{i}" for i in range(1, m + 1)))
    x = SX.sym("x", 2 * n + m)
    q, v, lam = x[:n], x[n : 2 * n], ca.vertcat(x[2 * n :]) if m else SX(0, 1)
    M = s.expression("mass", q=q)
    H = s.role("kinetic", q=q, v=v) + s.expression("potential", q=q)
    E = ca.diagcat(SX.eye(n), M, SX(m, m))
    K = SX(n, n)
    if not s.constant_mass:
        slopes = [ca.jacobian(M[:, k], q) for k in range(n)]  # entry (i, j) of the k-th: dM_ik / dq_j
        for i in range(n):
            for j in range(n):
                K[i, j] = sum(((slopes[k][j, i] - slopes[k][i, j]) * v[k] for k in range(n)), SX(0.0))
        K = ca.sparsify(K)
    J = SX(2 * n + m, 2 * n + m)
    J[:n, n : 2 * n], J[n : 2 * n, :n], J[n : 2 * n, n : 2 * n] = SX.eye(n), -SX.eye(n), K
    if s.mn:
        A = s.role("jacobian", q=q)[s.mh :, :]
        J[2 * n + s.mh :, n : 2 * n], J[n : 2 * n, 2 * n + s.mh :] = A, -A.T
    R = SX(2 * n + m, 2 * n + m)
    if s.has("dissipation"):
        R[n : 2 * n, n : 2 * n] = s.expression("dissipation", q=q, v=v)
    B = SX(2 * n + m, s.nu)
    if s.has("inputs"):
        B[n : 2 * n, :] = s.expression("inputs", q=q)
    z = ca.vertcat(ca.gradient(H, q), v, lam)
    constraint = None
    if s.mh:
        rows = list(range(2 * n, 2 * n + s.mh))
        constraint = (s.expression("holonomic", q=q), list(range(n)), list(range(n, 2 * n)), rows)
    initial = None
    if {"q", "v"} <= set(s.initial):
        initial = {"x": np.concatenate([s.initial["q"], s.initial["v"], np.zeros(m)])}
    out = PortHamiltonian.of_expressions(
        names, s.parameters, (x, s.t, s.u, s.par), {"E": ca.sparsify(E), "J": ca.sparsify(J), "R": ca.sparsify(R), "B": B}, H, z,
        name=s.name, ports=s.ports, initial=initial, constraint=constraint, parts=(range(n), range(n, 2 * n)),
    )  # fmt: skip
    inherit(out, s)
    return out


def to_coordinates(s: Mechanical, holonomic: Model | None) -> Mechanical:
    """See `Mechanical.to_coordinates`."""
    _frictionless(s)
    if not s.has("kinematics"):
        raise MethodError(f"{s.name!r} has q' = v already")
    Z = s.expression("kinematics")
    if not s.has("gyroscopic") and s.depends("force", "v") and ca.sparsify(commutator(Z, s.q, s.v)).nnz():
        raise MethodError("force has the gyroscopic terms (gyroscopic=False), which q' = v has in its mass: leave them out of it")
    inverse, n = left_inverse(Z), s.n
    other = type(s).__new__(type(s))
    initial = dict(s.initial)
    if {"q", "v"} <= initial.keys():
        initial["v"] = np.asarray(s.value("kinematics", s.pack(), q=initial["q"]).full() @ initial["v"])
    initial.pop("p", None)
    System.__init__(other, s.coordinates, s.parameters, s.name, initial, s.dimension)
    other.q, other.t, other.par, other.u, other.v, other.p = s.q, s.t, s.par, s.u, SX.sym("v", n), SX.sym("p", n)
    other.repeated, other._ports = (), s._ports
    M, kept = inverse.T @ s.expression("mass") @ inverse, _kept(s, other, holonomic)
    if kept.numel():
        N = ca.jacobian(kept, s.q)
        M += ca.trace(s.expression("mass")) / s.nv * N.T @ N
    own = {"v": inverse @ other.v}
    other._define("mass", ca.densify(M))
    other._define("potential", s.expression("potential"))
    g = ca.vertcat(kept, s.expression("holonomic")) if s.mh else kept
    if g.numel():
        other._define("holonomic", ca.densify(g))
    if s.has("nonholonomic"):
        other._define("nonholonomic", s.expression("nonholonomic", **own))
    if s.has("force"):
        other._define("force", ca.densify(inverse.T @ s.expression("force", **own)))
    if s.has("inputs"):
        other._define("inputs", inverse.T @ s.expression("inputs"))
    if s.has("dissipation"):
        other._define("dissipation", inverse.T @ s.expression("dissipation", **own) @ inverse)
    inherit(other, s)
    return other


def _kept(s: Mechanical, other: Mechanical, holonomic: Model | None) -> SX:
    """The constraints that `q' = Z(q) v` keeps by itself, as many as there are more coordinates than velocities."""
    missing = s.n - s.nv
    if holonomic is None and missing:
        raise MethodError(
            f"{s.name!r} has {s.n} coordinates and {s.nv} velocities: give to_coordinates(holonomic=...) the {missing} "
            "constraints that q' = Z(q) v keeps, such as q @ q - 1 of a quaternion"
        )
    g = SX(0, 1) if holonomic is None else column("holonomic", other._trace("holonomic", holonomic, ("q", "t")))
    if g.numel() != missing:
        raise MethodError(f"q' = Z(q) v keeps {missing} constraints, not {g.numel()}")
    if missing:
        slip = ca.Function("slip", [s.q, s.t, s.par], [ca.jacobian(g, s.q) @ s.expression("kinematics")])
        at = s.initial.get("q", np.random.default_rng(2).normal(size=s.n))
        worst = float(np.abs(slip(at, 0.0, s.pack()).full()).max())
        if not worst < 1e-8:
            raise MethodError(f"q' = Z(q) v does not keep this constraint: N Z is not zero, but up to {worst:.1e}")
    return g


def to_hamiltonian(s: Mechanical) -> Hamiltonian:
    """See `Mechanical.to_hamiltonian`."""
    _frictionless(s)
    if s.has("kinematics"):
        raise MethodError("to_hamiltonian treats q' = v, other momenta are not canonical: use to_coordinates() first")
    inverse = s.inverse_mass()
    M = s.expression("mass")
    velocity = inverse @ s.p if inverse is not None else ca.solve(M, s.p)
    H = ca.dot(s.p, velocity) / 2 + s.expression("potential")
    other = Hamiltonian.__new__(Hamiltonian)
    initial = dict(s.initial)
    if "v" in initial and "q" in initial:
        initial["p"] = s.numeric("momentum", s.pack(), q=initial["q"], v=initial.pop("v"))[0]
    System.__init__(other, s.coordinates, s.parameters, s.name, initial, s.dimension)
    other.u, other._ports = s.u, s._ports
    for symbol in ("q", "v", "p", "t", "par"):
        setattr(other, symbol, getattr(s, symbol))
    kept = s.given - {"mass", "potential"}
    other._functions = {k: s.function(k) for k in s.stated() if k in kept}
    other.picture = s.picture
    other._define("hamiltonian", H)
    return other
