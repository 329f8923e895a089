"""Mechanical systems `q' = v`, `M(q) v' = f - G^T lam`, and Hamiltonian ones `q' = H_p`, `p' = -H_q - G^T lam`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import casadi as ca
import numpy as np

from dalembert.errors import MethodError, ModelError, UnknownKeyword
from dalembert.systems.base import SX, System, column, scalar, square
from dalembert.systems.picture import Picture, attach, inherit


class _Constrained(System):
    """Constraints, dissipation, forces and inputs: common to the Lagrangian and the Hamiltonian side."""

    def _define_common(
        self,
        holonomic: Any,
        nonholonomic: Any,
        dissipation: Any,
        force: Any,
        inputs: Any,
        invariants: Any,
        picture: Picture | None,
    ) -> dict[str, Any]:
        n, moving = self.nv, ("p",) if self.momenta == "p" else ()
        if isinstance(inputs, (int, np.integer)) and not isinstance(inputs, bool) and inputs < 0:
            raise ModelError(f"inputs is a matrix B(q) or a number of inputs, not {inputs}")
        if isinstance(inputs, (int, np.integer)) and not isinstance(inputs, bool):
            self.u = SX.sym("u", int(inputs))
        elif inputs is not None:
            B = self._trace("inputs", inputs, ("q", "t"))
            B = B if B.shape[0] == n else B.T if B.shape == (1, n) else B
            if B.shape[0] != n:
                raise ModelError(f"inputs must return a matrix with {n} rows (B(q), one column an input), got {B.shape}")
            self.u = SX.sym("u", B.shape[1])
            self._define("inputs", B)
        extra: dict[str, Any] = {}
        if invariants is not None:
            value = column("invariants", self._trace("invariants", invariants, ("q",)))
            _check_quadratic(value, self.q)
            self._define("invariants", value)
            # handed on as they were written, so that the discrete gradients see them
            from dalembert.systems.tracing import symbols

            extra["invariants"] = symbols(ca.densify(value), (value.numel(),))
        if holonomic is not None:
            g = column("holonomic", self._trace("holonomic", holonomic, ("q", "t", "invariants"), extra))
            self._finite(g, "holonomic")
            acting = set(ca.jacobian(g, self.q).sparsity().row())
            for i in range(g.numel()):
                if i not in acting:
                    raise ModelError(f"holonomic constraint {i + 1} does not depend on q")
            if g.numel():
                self._define("holonomic", ca.densify(g))
        if dissipation is not None:
            R = square("dissipation", self._trace("dissipation", dissipation, ("q", "v", *moving, "t")), n)
            self._define("dissipation", R)
        if force is not None:
            if not self.nu and callable(force) and "u" in getattr(getattr(force, "__code__", None), "co_varnames", ()):
                raise ModelError("force uses u, but the system has no inputs: say how many, inputs=1, or give their matrix B(q)")
            f = column("force", self._trace("force", force, ("q", "v", *moving, "t", "u")), n)
            self._finite(f, "force")
            self._define("force", f)
        if nonholonomic is not None:
            self._define_nonholonomic(nonholonomic)
        attach(self, picture)
        return extra

    def _define_nonholonomic(self, nonholonomic: Any) -> None:
        """`A(q) v + a(q, t)`, checked to be linear in `v`; a matrix `A(q)` may be given instead."""
        a = self._trace("nonholonomic", nonholonomic, ("q", "v", "t"))
        if a.shape[1] == self.nv and self.nv > 1 and not ca.depends_on(a, self.v):
            a = a @ self.v
        a = column("nonholonomic", a)
        A = ca.jacobian(a, self.v)
        for i in range(a.numel()):
            if A[i, :].nnz() == 0:
                raise ModelError(f"nonholonomic constraint {i + 1} does not depend on v; a constraint on q is holonomic")
            if ca.depends_on(A[i, :], self.v):
                raise ModelError(f"nonholonomic constraint {i + 1} is not linear in v: A(q) v + a(q, t) is expected")
        if a.numel():
            self._define("nonholonomic", ca.densify(a))

    def _check_numbers(self, *symmetric: str) -> None:
        """At a few points: mass and dissipation symmetric, dissipation positive semidefinite."""
        rng = np.random.default_rng(0)
        par = self.pack()
        if self.n > 400:
            return
        for _ in range(3):
            q, v = rng.normal(size=self.n), rng.normal(size=self.nv)
            for role in symmetric:
                if not self.has(role):
                    continue
                A = self.numeric(role, par, q=q, v=v, p=v)[0]
                A = A.reshape(self.nv, self.nv)
                if not np.isfinite(A).all():
                    continue
                skew = np.abs(A - A.T)
                if skew.max() > 1e-10 * max(1.0, np.abs(A).max()):
                    i, j = np.unravel_index(skew.argmax(), skew.shape)
                    raise ModelError(
                        f"{role} is not symmetric: entry ({i + 1}, {j + 1}) is {A[i, j]:.6g}, "
                        f"entry ({j + 1}, {i + 1}) is {A[j, i]:.6g}"
                    )
                if role == "dissipation":
                    low = float(np.linalg.eigvalsh(A)[0])
                    if low < -1e-10 * max(1.0, np.abs(A).max()):
                        raise ModelError(
                            f"dissipation is not positive semidefinite (eigenvalue {low:.3g}): it would feed energy in; "
                            "give such a term as force"
                        )

    def applied(self, q: Any, v: Any, t: Any, u: Any, p: Any = None) -> Any:
        """Applied force plus inputs, `f(q, v, t, u) + B(q) u` (None where there is neither)."""
        f = SX(self.nv, 1)
        if self.has("force"):
            f += self.expression("force", q=q, v=v, t=t, u=u, p=p)
        if self.has("inputs"):
            f += self.expression("inputs", q=q, t=t) @ u
        return f

    def damping(self, q: Any, v: Any, t: Any, p: Any = None) -> Any:
        """The dissipative force `R(q, v) v`."""
        if not self.has("dissipation"):
            return SX(self.nv, 1)
        return self.expression("dissipation", q=q, v=v, t=t, p=p) @ v

    def energy_rate(self, q: Any, p: Any, t: Any) -> Any:
        """The partial derivative of the energy with respect to time."""
        role = "potential" if self.kind == "mechanical" else "hamiltonian"
        if not self.depends(role, "t"):
            return SX(0.0)
        rate = ca.Function("H_t", [self.q, self.p, self.t, self.par], [ca.jacobian(self.expression(role), self.t)])
        return rate(q, self.p if p is None else p, t, self.par)

    def supplied_power(self, q: Any, v: Any, t: Any, applied: Any, lam: Any, p: Any = None) -> Any:
        """`v . f + H_t + lam . g_t`: a constraint force `-G^T lam` has the power `lam . g_t`, since `G v = -g_t`."""
        power = ca.dot(v, applied) + self.energy_rate(q, p, t)
        if self.moving:
            power += ca.dot(lam, self.role("rate", q=q, t=t))
        return power

    @property
    def velocity_forces(self) -> bool:
        """Whether a force depends on the velocity."""
        return self.has("dissipation") or self.depends("force", "v", "p")


class Mechanical(_Constrained):
    """A mechanical system from its mass, energy and constraints, all written as plain NumPy functions.

    ``q' = v``, ``M(q) v' = -V_q + (M-terms) - R(q, v) v + f(q, v, t, u) + B(q) u - G^T lam``, ``g(q, t) = 0``.

    Parameters
    ----------
    coordinates
        Names of the coordinates, or their number.
    mass
        `M(q)`: a matrix, its diagonal, or one mass for all; constant or a function.
    potential
        `V(q, t)`, one number.
    holonomic
        `g(q, t)`, zero on the motion; a constraint acts with `-G^T lam`.
    nonholonomic
        `A(q) v + a(q, t)`, zero on the motion; or the matrix `A(q)`.
    dissipation
        Rayleigh matrix `R(q, v)`, symmetric and positive semidefinite.
    force
        Applied force `f(q, v, t, u)`.
    inputs
        `B(q)`: the force of the inputs `u` is `B u`; or a number of inputs that `force` uses itself.
    kinematics
        `Z(q)` in `q' = Z(q) v`, one column for each velocity: angular velocities with quaternions or angles, say. Mass,
        dissipation, force and inputs are then those of `v`, the potential acts with `-Z^T V_q`, and the mass is constant;
        gyroscopic terms belong to `force`.
    parameters
        Name and value of each parameter; functions use them by name.
    invariants
        `w(q)`, at most quadratic (squared distances, say). `potential` and `holonomic` may then use
        the argument `invariants`, which makes the discrete gradients of `energy-momentum` equivariant.
        Functions written with squared distances directly are recognised without it.
    dimension
        Dimension of space where the coordinates are those of particles one after another.
    initial
        Default initial values, `{"q": ..., "v": ...}`.
    picture
        What to draw, a `Picture`.

    Notes
    -----
    Arguments of functions are matched by name: `q`, `v`, `t`, `u`, `invariants`, and any parameter. A constant may
    stand in place of any function.
    """

    kind = "mechanical"
    momenta = "v"

    def __init__(
        self,
        coordinates: Sequence[str] | int,
        *,
        mass: Any,
        potential: Any = None,
        holonomic: Any = None,
        nonholonomic: Any = None,
        dissipation: Any = None,
        force: Any = None,
        inputs: Any = None,
        kinematics: Any = None,
        parameters: Mapping[str, Any] | None = None,
        invariants: Any = None,
        dimension: int | None = None,
        name: str | None = None,
        initial: Mapping[str, Any] | None = None,
        picture: Picture | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise UnknownKeyword.of(type(self).__name__, unknown, type(self).__init__)
        super().__init__(coordinates, parameters, name, initial, dimension)
        if kinematics is not None:
            self._define_kinematics(kinematics)
        extra = self._define_common(holonomic, nonholonomic, dissipation, force, inputs, invariants, picture)
        M = square("mass", self._trace("mass", mass, ("q",)), self.nv)
        self._finite(M, "mass")
        if kinematics is not None and ca.depends_on(M, self.q):
            raise ModelError("with kinematics the mass matrix must be constant; give its gyroscopic terms as force")
        self._define("mass", M)
        V = 0.0 if potential is None else potential
        V = scalar("potential", self._trace("potential", V, ("q", "t", "invariants"), extra))
        self._finite(V, "potential")
        self._define("potential", V)
        self._check_numbers("mass", "dissipation")

    def _derived(self, role: str) -> Any:
        if role == "kinetic":
            return ca.densify(self.v.T @ self.expression("mass") @ self.v / 2)
        if role == "energy":
            return self.role("kinetic") + self.expression("potential")
        if role == "momentum":
            return ca.densify(self.expression("mass") @ self.v)
        return super()._derived(role)

    def _define_kinematics(self, kinematics: Any) -> None:
        """`q' = Z(q) v`: as many velocities as `Z` has columns."""
        Z = self._trace("kinematics", kinematics, ("q",))
        if Z.shape[0] != self.n or not Z.shape[1]:
            raise ModelError(f"kinematics must return a matrix Z(q) with {self.n} rows, one for each coordinate, got {Z.shape}")
        self.v, self.p = SX.sym("v", Z.shape[1]), SX.sym("p", Z.shape[1])
        self._define("kinematics", Z)

    def own_force(self) -> Any:
        """`(T - V)_q - M' v`, the part of `M v'` that follows from the energies; `-Z^T V_q` with kinematics."""
        if self.has("kinematics"):
            return -self.expression("kinematics").T @ ca.gradient(self.expression("potential"), self.q)
        L = self.role("kinetic") - self.expression("potential")
        own = ca.gradient(L, self.q)
        return own if self.constant_mass else own - ca.jtimes(self.expression("mass") @ self.v, self.q, self.v)

    @property
    def constant_mass(self) -> bool:
        """Whether the mass matrix does not depend on `q`."""
        return not self.depends("mass", "q")

    def inverse_mass(self) -> Any | None:
        """`M^-1` for a constant mass matrix of small blocks, else None (then it is never inverted)."""
        if not self.constant_mass:
            return None
        M = self.expression("mass")
        if M.sparsity().is_diag():
            return ca.diag(1 / ca.densify(ca.diag(M)))
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        rows, cols = M.sparsity().get_triplet()
        count, label = connected_components(coo_matrix((np.ones(len(rows)), (rows, cols)), shape=M.shape), directed=False)
        blocks = [np.flatnonzero(label == k).tolist() for k in range(count)]
        if max(map(len, blocks)) > 6:
            return None
        inverse = SX(self.n, self.n)
        for block in blocks:
            inverse[block, block] = ca.inv(ca.densify(M[block, block]))
        return inverse

    def to_dae(self, formulation: str = "index2", *, xi: float = 1.0, omega: float = 10.0) -> Any:
        """The system as a semi-explicit DAE in `y = (q, v)`.

        `"index3"`: `z = lam`, constraint `g = 0`. `"index2"`: `z = lam`, constraint `G v + g_t = 0`. `"ggl"`: `z = (lam, mu)`,
        `q' = v - G^T mu`, constraints `G v + g_t = 0` and `g = 0` (Gear, Gupta, Leimkuhler 1985). `"index1"`: `z = (a, lam)`,
        `v' = a`, `M a + G^T lam = F` and the constraint at acceleration level. `"baumgarte"`: the same with
        `g'' + 2 xi omega g' + omega^2 g = 0` (Baumgarte 1972). The two parts of the index-2 forms suit `spark-s`.
        Nonholonomic constraints begin at velocity level.
        """
        out = to_dae(self, formulation, xi, omega)
        inherit(out, self)
        return out

    def equations(self) -> Any:
        """Mass matrix, Coriolis matrix by Christoffel symbols, and gravity, in a form to print (`latex()` too)."""
        from dalembert.systems.lagrangian import equations

        return equations(self)

    def to_port_hamiltonian(self) -> Any:
        """The system as a `PortHamiltonian` in `x = (q, v, lam)`, its inputs as ports.

        `E = diag(I, M, 0)`, `z = (H_q, v, lam)`, `J = [0 I 0; -I K -G^T; 0 G 0]` with the skew matrix `K` of a mass `M(q)`,
        `K_ij = sum_k (dM_jk / dq_i - dM_ik / dq_j) v_k` (Kinon, Morandin, Schulze 2025, eq. 43, there for a constant mass).
        """
        return to_port_hamiltonian(self)

    def to_hamiltonian(self) -> Hamiltonian:
        """The same system with `H(q, p) = p^T M(q)^-1 p / 2 + V(q)`; trajectories agree."""
        inverse = self.inverse_mass()
        M = self.expression("mass")
        velocity = inverse @ self.p if inverse is not None else ca.solve(M, self.p)
        H = ca.dot(self.p, velocity) / 2 + self.expression("potential")
        other = Hamiltonian.__new__(Hamiltonian)
        initial = dict(self.initial)
        if "v" in initial and "q" in initial:
            initial["p"] = self.numeric("momentum", self.pack(), q=initial["q"], v=initial.pop("v"))[0]
        System.__init__(other, self.coordinates, self.parameters, self.name, initial, self.dimension)
        other.u = self.u
        for symbol in ("q", "v", "p", "t", "par"):
            setattr(other, symbol, getattr(self, symbol))
        kept = self.given - {"mass", "potential"}
        other._functions = {k: f for k, f in self._functions.items() if k in kept}
        other.picture = self.picture
        other._define("hamiltonian", H)
        return other


FORMULATIONS = ("index3", "index2", "ggl", "index1", "baumgarte")


def to_dae(system: Mechanical, formulation: str, xi: float, omega: float) -> Any:
    """The semi-explicit forms of a constrained mechanical system; see `Mechanical.to_dae`."""
    from dalembert.systems.dae import IndexOneDAE, IndexThreeDAE, IndexTwoDAE

    s = system
    if formulation not in FORMULATIONS:
        raise MethodError(f"formulation must be one of {', '.join(FORMULATIONS)}, not {formulation!r}")
    if not s.m:
        raise MethodError(f"{s.name!r} has no constraints: it is an ordinary differential equation already")
    if formulation == "index3" and s.mn:
        raise MethodError("nonholonomic constraints have no position level; use 'index2', 'ggl' or 'index1'")
    n, nv, m, G = s.n, s.nv, s.m, s.role("jacobian")
    y, velocity, drift = ca.vertcat(s.q, s.v), s.qdot(s.q, s.v), s.role("drift")
    F = s.own_force() + s.applied(s.q, s.v, s.t, s.u) - s.damping(s.q, s.v, s.t)
    names = (*s.coordinates, *(f"v_{c}" for c in (s.coordinates if nv == n else range(nv))))
    initial = {"q": [*s.initial["q"], *s.initial["v"]]} if {"q", "v"} <= set(s.initial) else {}
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


def to_port_hamiltonian(s: Mechanical) -> Any:
    """See `Mechanical.to_port_hamiltonian`."""
    from dalembert.systems.port_hamiltonian import PortHamiltonian

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
        initial = {"q": np.concatenate([s.initial["q"], s.initial["v"], np.zeros(m)])}
    out = PortHamiltonian.of_expressions(
        names, s.parameters, (x, s.t, s.u, s.par), {"E": ca.sparsify(E), "J": ca.sparsify(J), "R": ca.sparsify(R), "B": B}, H, z,
        name=s.name, initial=initial, constraint=constraint,
    )  # fmt: skip
    inherit(out, s)
    return out


class Hamiltonian(_Constrained):
    """A Hamiltonian system: ``q' = H_p``, ``p' = -H_q - R v + f + B u - G^T lam``, ``g(q, t) = 0``, with `v = H_p`.

    `hamiltonian(q, p, t)` may be any function of one number, separable or not. The other arguments are those of
    `Mechanical`; forces may use `q`, `p`, `v`, `t`, `u` and parameters.
    """

    kind = "hamiltonian"
    momenta = "p"

    def __init__(
        self,
        coordinates: Sequence[str] | int,
        *,
        hamiltonian: Any,
        holonomic: Any = None,
        nonholonomic: Any = None,
        dissipation: Any = None,
        force: Any = None,
        inputs: Any = None,
        parameters: Mapping[str, Any] | None = None,
        invariants: Any = None,
        dimension: int | None = None,
        name: str | None = None,
        initial: Mapping[str, Any] | None = None,
        picture: Picture | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise UnknownKeyword.of(type(self).__name__, unknown, type(self).__init__)
        super().__init__(coordinates, parameters, name, initial, dimension)
        extra = self._define_common(holonomic, nonholonomic, dissipation, force, inputs, invariants, picture)
        H = scalar("hamiltonian", self._trace("hamiltonian", hamiltonian, ("q", "p", "t", "invariants"), extra))
        self._finite(H, "hamiltonian")
        moving = ca.jacobian(H, self.p).sparsity().get_col()
        missing = [c for i, c in enumerate(self.coordinates) if i not in moving]
        if missing:
            raise ModelError(f"hamiltonian does not depend on the momentum of {missing[0]!r}: it has no kinetic energy")
        self._define("hamiltonian", H)
        self._check_numbers("dissipation")

    def _derived(self, role: str) -> Any:
        if role == "energy":
            return self.expression("hamiltonian")
        if role == "velocity":
            return ca.densify(ca.gradient(self.expression("hamiltonian"), self.p))
        if role == "potential":  # the energy at p = 0: exact where the kinetic energy is homogeneous in p
            return self.expression("hamiltonian", p=SX.zeros(self.n))
        if role == "kinetic":
            return self.expression("hamiltonian") - self.role("potential")
        return super()._derived(role)


def _check_quadratic(value: Any, q: Any) -> None:
    for i in range(value.numel()):
        if ca.depends_on(ca.hessian(value[i], q)[0], q):
            raise ModelError(
                f"invariant {i + 1} is not quadratic in q: a momentum map is kept only through invariants of degree "
                "at most two (a squared distance, not a distance)"
            )
