"""Mechanical systems `q' = v`, `M(q) v' = f - G^T lam`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.checking import flag
from dalembert.errors import ModelError, suggesting
from dalembert.systems import batch, conversions, quasi_velocities, scales
from dalembert.systems.constrained import Constrained, Inputs
from dalembert.systems.dae import IndexTwoDAE
from dalembert.systems.elements import Element, parameters_of
from dalembert.systems.equations import Equations, equations
from dalembert.systems.form import Form, components, inverse_by_blocks
from dalembert.systems.hamiltonian import Hamiltonian
from dalembert.systems.needs import Need
from dalembert.systems.picture import Picture, inherit
from dalembert.systems.port_hamiltonian import PortHamiltonian
from dalembert.systems.repetition import regroup
from dalembert.systems.shapes import Array, scalar, square
from dalembert.systems.tracing import Model


class Mechanical(Constrained):
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
        Applied force `f(q, v, t, u)`. It may use the multipliers `lam` too: friction by the normal force, `mu |lam|` where the
        gradient of the constraint has length 1. The Runge-Kutta families treat that (`rattle`, `murua`, `gauss`, ...).
    inputs
        `B(q)`: the force of the inputs `u` is `B u`. A dictionary `{name: column of B(q)}` gives them names, `u1`, `u2`, ...
        otherwise. A number, or a tuple of names, where `force` uses `u` itself.
    kinematics
        `Z(q)` in `q' = Z(q) v`, one column for each velocity: angular velocities with quaternions or angles, say. Mass,
        dissipation, force and inputs are then those of `v`, and the potential acts with `-Z^T V_q`. Gyroscopic terms, `-w x J w`
        of a body, are derived from `Z` and `M` (Hamel 1904). `to_coordinates()` gives the same system with `q' = v`.
    gyroscopic
        False where `force` has the gyroscopic terms that go with `kinematics`.
    parameters
        Name and value of each parameter; functions use them by name, and a name may stand in place of a function: `mass="m"`.
        With True, numbers given as `mass`, `dissipation` and `force` are parameters of these names.
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
    elements
        Parts that are repeated, a list of `da.Element`: springs, rods, dampers. What they have is added to the above.

    Notes
    -----
    Arguments of functions are matched by name: `q`, `v`, `t`, `u`, `invariants`, and any parameter. A constant may
    stand in place of any function.
    """

    kind: ClassVar[str] = "mechanical"
    state: ClassVar[tuple[str, ...]] = ("q", "v")
    starts: ClassVar[tuple[str, ...]] = ("q", "v", "p")
    momenta: ClassVar[str] = "v"
    energy_role: ClassVar[str] = "potential"

    @suggesting
    def __init__(
        self,
        coordinates: Sequence[str] | int,
        *,
        mass: Model,
        potential: Model | None = None,
        holonomic: Model | None = None,
        nonholonomic: Model | None = None,
        dissipation: Model | None = None,
        force: Model | None = None,
        inputs: Inputs | None = None,
        kinematics: Model | None = None,
        gyroscopic: bool = True,
        parameters: Mapping[str, ArrayLike] | bool | None = None,
        invariants: Model | None = None,
        dimension: int | None = None,
        name: str | None = None,
        initial: Mapping[str, ArrayLike] | None = None,
        picture: Picture | None = None,
        elements: Sequence[Element] | None = None,
    ) -> None:
        if isinstance(parameters, bool):
            named = numbers_of({"mass": mass, "dissipation": dissipation, "force": force}) if parameters else {}
            mass = "mass" if "mass" in named else mass
            dissipation, force = (
                x if name not in named else name for name, x in (("dissipation", dissipation), ("force", force))
            )
            parameters = named
        super().__init__(coordinates, parameters_of(elements, parameters), name, initial, dimension)
        if kinematics is not None:
            self._define_kinematics(kinematics)
        extra = self._define_common(
            {"holonomic": holonomic, "nonholonomic": nonholonomic, "dissipation": dissipation, "force": force, "inputs": inputs},
            picture, invariants, elements,
        )  # fmt: skip
        M = self._trace("mass", mass, ("q",))
        self._finite(M, "mass")
        self._define("mass", square("mass", M, self.nv))
        if flag("gyroscopic", gyroscopic, ModelError) and kinematics is not None:
            self._define_gyroscopic()
        given = 0.0 if potential is None else potential
        V = scalar("potential", self._trace("potential", given, ("q", "t", "invariants"), extra))
        self._finite(V, "potential")
        self._compose("potential", V)
        regroup(self)
        self._check_numbers("mass", "dissipation")

    def energies(self) -> list[ca.Function]:
        if not self.repeated:
            return super().energies()
        elements = [e.local("potential") for e in self.repeated if "potential" in e.roles]
        masses = [] if self.constant_mass else [self.function("mass")]
        return [*masses, self.function("own_potential"), *elements]

    def _derived(self, role: str) -> SX:
        if role == "kinetic":
            return ca.densify(self.v.T @ self.expression("mass") @ self.v / 2)
        if role == "own_slope" or (role == "slope" and not self.repeated):  # of the potential
            return ca.densify(ca.gradient(self.own("potential"), self.q))
        if role == "energy_slope" and self.many:
            return ca.vertcat(self.role("slope"), type(self.q)(self.nv, 1))
        if role == "slope":
            parts = (e.column("slope", self) for e in self.repeated if "potential" in e.roles)
            return ca.densify(sum(parts, self.own("slope")))
        if role == "lagrangian_slope":  # (T - V)_q
            slope = self.role("slope")
            return -slope if self.constant_mass else ca.densify(ca.gradient(self.role("kinetic"), self.q) - slope)
        if role == "energy":
            return self.role("kinetic") + self.expression("potential")
        if role == "bias":  # of `M a + bias = 0`, without inputs
            return ca.densify(-ca.substitute(self.force(), self.u, SX.zeros(self.nu, 1)))
        if role == "momentum":
            return ca.densify(self.expression("mass") @ self.v)
        return super()._derived(role)

    def _define_kinematics(self, kinematics: Model) -> None:
        """`q' = Z(q) v`: as many velocities as `Z` has columns."""
        Z = self._trace("kinematics", kinematics, ("q",))
        if Z.shape[0] != self.n or not Z.shape[1]:
            raise ModelError(f"kinematics must return a matrix Z(q) with {self.n} rows, one for each coordinate, got {Z.shape}")
        self.v, self.p = SX.sym("v", Z.shape[1]), SX.sym("p", Z.shape[1])
        self._define("kinematics", Z)

    def _define_gyroscopic(self) -> None:
        """The force that comes with velocities which are no derivatives of coordinates."""
        at = np.random.default_rng(1).normal(size=(3, self.n))
        if "q" in self.initial:  # the columns of Z may be in involution on a surface only
            at = self.initial["q"][None, :]
        Z, M = self.expression("kinematics"), self.expression("mass")
        force = quasi_velocities.gyroscopic(Z, M, self.q, self.v, self.par, at, self.pack())
        if ca.sparsify(force).nnz():
            self._define("gyroscopic", force)

    def own_force(self) -> SX:
        """`(T - V)_q - M' v`, the part of `M v'` that follows from the energies; with kinematics also what is gyroscopic."""
        force = self.role("lagrangian_slope")
        if self.has("kinematics"):
            force = self.expression("kinematics").T @ force
        force = force - self._momentum_rate()
        return force + self.expression("gyroscopic") if self.has("gyroscopic") else force

    def _momentum_rate(self) -> SX:
        """`M'(q) v`, the rate of the momenta at a constant velocity."""
        if self.constant_mass:
            return type(self.v)(self.nv, 1)
        return ca.jtimes(self.expression("mass") @ self.v, self.q, self.qdot(self.q, self.v))

    def force(self) -> SX:
        """All of `M v'` but constraint forces: `(T - V)_q - M' v + f + B u - R v`."""
        applied, damping = self.applied(self.q, self.v, self.t, self.u), self.damping(self.q, self.v, self.t)
        return self.own_force() + applied - damping

    def form(self, h: SX) -> Form:
        """`q' = v`, `p' = (T - V)_q + f + B u - R v - G^T lam`, with `p = M(q) v`; in `(q, v)` where the mass is constant."""
        if self.constant_mass:
            return self.rate_form(h)
        p, M = type(h).sym("p", self.nv), self.expression("mass")
        relation = p - M @ self.v
        begin = {"q": self.q, "p": ca.densify(M @ self.v), "w": self.v}
        form = self._form(h, {"q": self.q, "p": p}, begin, self._momentum_rate())
        return replace(form, w=self.v, relation=relation, closing=relation)

    def rate_form(self, h: SX) -> Form:
        """`q' = Z(q) v`, `M(q) v' = (T - V)_q - M' v + f + B u - R v - G^T lam`."""
        y = {"q": self.q, "v": self.v}
        return replace(self._form(h, y, y, type(h)(self.nv, 1)), inertia={"v": self.expression("mass")})

    def _form(self, h: SX, y: dict[str, SX], begin: dict[str, SX], gained: SX) -> Form:
        """What both forms have in common; `gained` is added to the force."""
        s, second = self, list(y)[1]
        lam = type(h).sym("lam", s.m)
        applied, damping = s.applied(s.q, s.v, s.t, s.u), s.damping(s.q, s.v, s.t)
        push = s.force() + gained - s.reaction(lam)
        if s.friction is not None:
            push += s.rubbing(lam, s.v)
        mass, force = ca.densify(ca.diag(s.expression("mass"))), s.own_force() + applied
        free = force / ca.if_else(mass > 0, mass, 1)
        moved = s.force() + s.expression("mass") @ s.v
        if s.friction is not None:  # what a constraint depends on acts on what its multiplier rubs
            moved += s.rubbing(s.role("drift"), s.v)
        one = scales.Motion(s, h, s._groups(s.v, s.v, moved))
        fast, pull, near = one.velocities(s.v), one.resolved(one.velocities(free), s.v), scales.POSITIONS * one.length()
        size = fast / one.h + pull + near / one.h**2
        sizes = {
            "q": scales.spread(one.h * size, one.q), "v": scales.spread(size, one.v),
            "p": scales.spread(size * one.velocities(mass), one.v), "w": scales.spread(fast + one.h * pull + near / one.h, one.v),
            **one.levels(s.v, pull),
        }  # fmt: skip
        parts = ({"q": s.qdot(s.q, s.v)}, {second: push})
        stated = s._stated(lam, s.v, None, applied, damping)
        slopes: dict[str, dict[str, SX]] = {}
        if s.m:
            G = s.role("jacobian")
            against = -G.T if s.friction is None else ca.jacobian(s.rubbing(lam, s.v), lam) - G.T
            slopes = {"position": {"q": s.role("normal")}, "velocity": {"v": G}, second: {"lam": against}}
        return Form(y=y, parts=parts, state={"q": s.q, "v": s.v}, begin=begin, sizes=sizes, slopes=slopes, **stated)

    @property
    def constant_mass(self) -> bool:
        """Whether the mass matrix does not depend on `q`."""
        return self.cache.get(bool, "constant mass", lambda: not self.depends("mass", "q"))

    def inverse_mass(self) -> SX | None:
        """`M^-1` for a constant mass matrix of small blocks, else None (then it is never inverted)."""
        return inverse_by_blocks(self.expression("mass"), self.q)

    def lacks(self, need: Need) -> str | None:
        if need is Need.SMALL_MASS and self.inverse_mass() is None:
            return f"the mass matrix of {self.name!r}, which is not constant or not of small blocks"
        return super().lacks(need)

    def of_state(self, expression: SX) -> SX:
        return ca.substitute(expression, self.p, ca.densify(self.expression("mass") @ self.v))

    def completed(self, parts: Mapping[str, Array], t: Array | float, par: Array) -> dict[str, Array]:
        return {**parts, "p": self.numeric("momentum", par, **parts) if len(parts["q"]) else np.zeros((0, self.nv))}

    def massless(self, q: Array | None = None, par: Array | None = None) -> tuple[str, ...]:
        """Coordinates without mass, at given or default values; none where the mass depends on an unknown position."""
        if q is None and not self.constant_mass and "q" not in self.initial:
            return ()
        at = self.initial.get("q", np.zeros(self.n)) if q is None else q
        par = self.pack() if par is None else par
        where = b"" if self.constant_mass else np.asarray(at, dtype=np.float64).tobytes()
        return self.cache.get(tuple, ("massless", par.tobytes(), where), lambda: self._massless(at, par))

    def heavier(self, index: int) -> str:
        """What may be done about a coordinate without mass, beside the use of methods that need none."""
        return "give that coordinate a mass, or"

    def _massless(self, q: Array, par: Array) -> tuple[str, ...]:
        M = self.value("mass", par, q=q)
        diagonal = batch.diagonal(M)
        if not np.isfinite(batch.nonzeros(M)).all():
            return ()
        none = np.flatnonzero(diagonal <= 0).tolist()
        root = np.sqrt(np.maximum(diagonal, 1e-300))  # masses of very different size are no reason: look at the shape only
        for block in () if M.sparsity().is_diag() else components(M.sparsity()):
            own = np.asarray(M[block, block].full()) / np.outer(root[block], root[block])
            values, vectors = np.linalg.eigh(own)
            none += [block[int(np.abs(vectors[:, i]).argmax())] for i, x in enumerate(values) if x <= 1e-13]
        names = self.coordinates if self.nv == self.n else [f"velocity {i + 1}" for i in range(self.nv)]
        return tuple(dict.fromkeys(names[i] for i in none))

    def to_dae(self, formulation: str = "index2", *, xi: float = 1.0, omega: float = 10.0) -> IndexTwoDAE:
        """The system as a semi-explicit DAE in `y = (q, v)`.

        `"index3"`: `z = lam`, constraint `g = 0`. `"index2"`: `z = lam`, constraint `G v + g_t = 0`. `"ggl"`: `z = (lam, mu)`,
        `q' = v - G^T mu`, constraints `G v + g_t = 0` and `g = 0` (Gear, Gupta, Leimkuhler 1985). `"index1"`: `z = (a, lam)`,
        `v' = a`, `M a + G^T lam = F` and the constraint at acceleration level. `"baumgarte"`: the same with
        `g'' + 2 xi omega g' + omega^2 g = 0` (Baumgarte 1972). `"index0"`: an ordinary differential equation in
        `y = (q, v, lam)`, with `z = lam'` from the derivative of the acceleration level (Hilden 2009, eq. 2.12); start it from
        the `q`, `v` and `lam` of `da.consistent`. The two parts of the index-2 forms suit `spark-s`.
        Nonholonomic constraints begin at velocity level.
        """
        out = conversions.to_dae(self, formulation, xi, omega)
        inherit(out, self)
        return out

    def equations(self) -> Equations:
        """Mass matrix, Coriolis matrix by Christoffel symbols, and gravity, in a form to print (`latex()` too)."""
        return equations(self)

    def to_port_hamiltonian(self) -> PortHamiltonian:
        """The system as a `PortHamiltonian` in `x = (q, v, lam)`, its inputs as ports.

        `E = diag(I, M, 0)`, `z = (H_q, v, lam)`, `J = [0 I 0; -I K -G^T; 0 G 0]` with the skew matrix `K` of a mass `M(q)`,
        `K_ij = sum_k (dM_jk / dq_i - dM_ik / dq_j) v_k` (Kinon, Morandin, Schulze 2025, eq. 43, there for a constant mass).
        """
        return conversions.to_port_hamiltonian(self)

    def to_coordinates(self, holonomic: Model | None = None) -> Mechanical:
        """The same system with `q' = v` in place of `kinematics`, for methods that need that: `rattle`, `energy-momentum`, ...

        The mass becomes `Z^+^T M Z^+` with `v = Z^+ q'`. Where there are more coordinates than velocities (a quaternion),
        `holonomic` has the constraints that `Z` keeps by itself (`q @ q - 1`), and `N^T N` of their normals `N` is added to the
        mass in proportion: it is no inertia of any motion on the constraints, and makes the matrix regular.
        """
        return conversions.to_coordinates(self, holonomic)

    def to_hamiltonian(self) -> Hamiltonian:
        """The same system with `H(q, p) = p^T M(q)^-1 p / 2 + V(q)`; trajectories agree."""
        return conversions.to_hamiltonian(self)


def numbers_of(roles: Mapping[str, Model | None]) -> dict[str, ArrayLike]:
    """What was given as numbers, and not as a function, an expression or a name."""
    given = {role: value for role, value in roles.items() if value is not None and not callable(value)}
    return {role: value for role, value in given.items() if not isinstance(value, (str, SX, ca.DM, ca.MX))}
