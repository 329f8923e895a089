"""Port-Hamiltonian differential-algebraic equations `E x' + r = (J - R) z + (B - P) u`, `y = (B + P)^T z + (S - N) u`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.errors import MethodError, ModelError, suggest, suggesting
from dalembert.systems import normal_forms, plain, port_changes, port_checks, port_parts, scales
from dalembert.systems.base import System
from dalembert.systems.bases import bases, structured_bases
from dalembert.systems.closure import closure
from dalembert.systems.dirac import DiracStructure
from dalembert.systems.form import Form, Power
from dalembert.systems.needs import Need
from dalembert.systems.picture import Picture, attach
from dalembert.systems.port_changes import MATRICES
from dalembert.systems.shapes import Array, column, port_names, scalar
from dalembert.systems.tracing import Model


class PortHamiltonian(System):
    """A port-Hamiltonian system with Hamiltonian `H(x, t)`, its structure checked.

    ``E x' + r = (J - R) z + (B - P) u``,  ``y = (B + P)^T z + (S - N) u``

    with ``[J B; -B^T N]`` skew, ``[R P; P^T S]`` symmetric and positive semidefinite, ``E^T z = grad H`` and ``z . r = H_t``.
    Then ``H' = y . u - [z; u]^T W [z; u]`` (Mehrmann, Morandin 2019; Kinon, Morandin, Schulze 2025, definition 2).

    Parameters
    ----------
    coordinates
        Names of the states, or their number.
    hamiltonian
        `H(x, t)`, one number.
    E, J, R, B, P, S, N
        Matrices, constant or functions of `x` and `t`; `E` is the identity and the others are zero by default. A
        vector for `E` or `R` is a diagonal.
    z
        The costate `z(x)`. By default `E^-T grad H`; where `E` is block diagonal with zero rows, the states that belong to its
        zero columns stand for the costates of its zero rows (multipliers, say).
    r
        `r(x, t)`; by default the multiple of `z` that the time dependence of `H` needs.
    ports
        Names of the inputs, one for each column of `B`.
    feedback
        A law `u(x, t, u)` that replaces the inputs; its own `u` is what is then given from outside.
    parameters, name, initial, picture
        As for `Mechanical`; the initial value is called `x`, and so is the argument of `picture.points`.

    Notes
    -----
    Arguments of functions are matched by name: `x`, `t`, `u` (in `feedback`) and any parameter.
    """

    kind: ClassVar[str] = "port-hamiltonian"
    variables: ClassVar[tuple[str, ...]] = ("x",)
    state: ClassVar[tuple[str, ...]] = ("x",)
    starts: ClassVar[tuple[str, ...]] = ("x",)
    energy_role: ClassVar[str] = "hamiltonian"
    given: ClassVar[frozenset[str]] = frozenset([*MATRICES, "hamiltonian", "z", "r", "law", "constraint", "points"])

    @suggesting
    def __init__(
        self,
        coordinates: Sequence[str] | int,
        *,
        hamiltonian: Model,
        E: Model | None = None,
        J: Model | None = None,
        R: Model | None = None,
        B: Model | None = None,
        P: Model | None = None,
        S: Model | None = None,
        N: Model | None = None,
        z: Model | None = None,
        r: Model | None = None,
        ports: Sequence[str] | None = None,
        feedback: Model | None = None,
        parameters: Mapping[str, ArrayLike] | None = None,
        name: str | None = None,
        initial: Mapping[str, ArrayLike] | None = None,
        picture: Picture | None = None,
    ) -> None:
        super().__init__(coordinates, parameters, name, initial)
        n = self.n
        given = {"E": E, "J": J, "R": R, "B": B, "P": P, "S": S, "N": N}
        traced = {k: self._trace(k, m, ("x", "t")) for k, m in given.items() if m is not None}
        inputs = port_parts.port_number(n, traced)
        self.u = SX.sym("u", inputs)
        matrices = {k: self._matrix(k, traced.get(k), shape) for k, shape in port_parts.shapes(n, inputs).items()}
        H = scalar("hamiltonian", self._trace("hamiltonian", hamiltonian, ("x", "t")))
        costate = None if z is None else column("z", self._trace("z", z, ("x", "t")), n)
        rest = None if r is None else column("r", self._trace("r", r, ("x", "t")), n)
        law = None
        if feedback is not None:
            law = column("feedback", self._trace("feedback", feedback, ("x", "t", "u")), inputs)
        self._set(matrices, H, costate, rest, law)
        self._ports = port_names(ports, self.nu)
        self._check_structure()
        attach(self, picture)

    def _set(self, matrices: Mapping[str, SX], H: SX, z: SX | None, r: SX | None, law: SX | None = None) -> None:
        """Define all roles from expressions."""
        for key, matrix in matrices.items():
            self._define(key, matrix)
        self._define("hamiltonian", H)
        gradient = ca.densify(ca.gradient(H, self.x))
        self._define("z", ca.densify(z) if z is not None else port_parts.costate(matrices["E"], gradient, self.x))
        costate = self.expression("z")
        rate = ca.jacobian(H, self.t)
        if r is not None:
            self._define("r", ca.densify(r))
        elif rate.nnz():
            self._define("r", ca.densify(costate * rate / (ca.sumsqr(costate) + 1e-300)))
        if law is not None:
            self._define("law", ca.densify(law))

    @classmethod
    @suggesting
    def descriptor(
        cls, coordinates: Sequence[str] | int, *, E: Model, f: Model, B: Model | None = None, ports: Sequence[str] | None = None,
        parameters: Mapping[str, ArrayLike] | None = None, name: str | None = None,
        initial: Mapping[str, ArrayLike] | None = None,
    ) -> PortHamiltonian:  # fmt: skip
        """Any equations `E(x, t) x' = f(x, t, u) + B u`: a port-Hamiltonian system without energy, `H = 0`, `z = 0`, `r = -f`.

        There are as many inputs as `B` has columns, or without it as there are names of `ports`. Outputs and power balance are
        zero. Where the range of `E` turns with the state, `discrete-gradient` treats it, which is the midpoint rule here.
        """
        n = coordinates if isinstance(coordinates, int) else len(coordinates)
        self = cls(
            coordinates, hamiltonian=0.0, E=E, B=np.zeros((n, len(ports))) if B is None and ports else B, z=lambda x: 0 * x,
            ports=ports, parameters=parameters, name=name, initial=initial,
        )  # fmt: skip
        self._define("r", ca.densify(-column("f", self._trace("f", f, ("x", "t", "u") if self.nu else ("x", "t")), self.n)))
        return self

    @classmethod
    def of_expressions(
        cls, names: Sequence[str], parameters: Mapping[str, ArrayLike], symbols: tuple[SX, SX, SX, SX],
        matrices: Mapping[str, SX], H: SX, z: SX, *, r: SX | None = None, name: str = "", ports: Sequence[str] | None = None,
        initial: Mapping[str, ArrayLike] | None = None,
        constraint: tuple[SX, Sequence[int], Sequence[int], Sequence[int]] | None = None, parts: Sequence[Sequence[int]] = (),
        check: bool = True,
    ) -> Self:  # fmt: skip
        """From expressions in given symbols `(x, t, u, par)`.

        `constraint` is `(g, states of q, costates of v, costates of lam)`: the blocks of `J` that hold `Dg` are then left to
        the method, which may take a discrete Jacobian for them. `parts` are groups of states whose energies are separate, those
        of positions and of velocities.
        """
        self = cls.__new__(cls)
        System.__init__(self, names, parameters, name or None, initial)
        self.x, self.t, self.u, self.par = symbols
        full = {k: self._matrix(k, matrices.get(k), shape) for k, shape in port_parts.shapes(self.n, self.nu).items()}
        self._constraint = None
        if constraint is not None:
            g, q_states, v_costates, lam_costates = constraint
            self._define("constraint", ca.densify(g))
            self._constraint = (list(q_states), list(v_costates), list(lam_costates))
        self._set(full, H, z, r)
        self._ports = port_names(ports, self.nu)
        self.parts = tuple(tuple(part) for part in parts)
        if check:
            self._check_structure()
        return self

    _matrix = staticmethod(port_parts.fitted)
    _constraint: tuple[list[int], list[int], list[int]] | None = None
    parts: tuple[tuple[int, ...], ...] = ()  # groups of states with an energy of their own, where these are known
    x: SX

    @property
    def positions(self) -> list[int]:
        """The states on which the constraint of a mechanism depends."""
        return self._constraint[0] if self._constraint else []

    def samples(self, count: int = 3) -> list[tuple[Array, float]]:
        """A few states and times, at which the structure is checked."""
        rng = np.random.default_rng(0)
        center = np.asarray(self.initial["x"], dtype=float) if "x" in self.initial else np.zeros(self.n)
        if center.shape != (self.n,):
            raise ModelError(f"the initial value x must be {self.n} numbers, not {self.initial['x']!r}")
        points = [center + rng.normal(size=self.n) * (0.1 + 0.3 * np.abs(center)) for _ in range(count)]
        if "x" not in self.initial:
            points = [np.abs(x) + 0.5 for x in points] + points
        return [(x, float(rng.uniform())) for x in points]

    @suggesting
    def at(
        self,
        role: str,
        x: ArrayLike,
        t: float = 0.0,
        parameters: Mapping[str, ArrayLike] | None = None,
        u: ArrayLike | None = None,
    ) -> Array:
        """A matrix or vector of the system at a state, as numbers: `"E"`, `"J"`, `"z"`, ..., `"H"` for the Hamiltonian."""
        inputs = None if u is None else np.asarray(u, dtype=float)
        role = {"H": "hamiltonian"}.get(role, role)
        try:
            self.function(role)
        except KeyError as error:
            raise ModelError(f"{self.name!r} has no {role!r}{suggest(str(role), ('H', *self._functions))}") from error
        return self.matrix(role, np.asarray(x, dtype=float), t, self.pack(parameters), inputs)

    def _check_structure(self) -> None:
        port_checks.check_structure(self)

    def _derived(self, role: str) -> SX:
        if role == "energy":
            return self.expression("hamiltonian")
        if role == "gradient":
            return ca.densify(ca.gradient(self.expression("hamiltonian"), self.x))
        if role == "rate_of_energy":
            return ca.densify(ca.jacobian(self.expression("hamiltonian"), self.t))
        if role == "constraint_slope":
            return ca.jacobian(self.expression("constraint"), self.x)
        if role == "constraint_rate":  # Dg v, with the costates of the velocities
            assert self._constraint is not None
            states, v, _ = self._constraint
            jacobian = ca.jacobian(self.expression("constraint"), self.x[states])
            return ca.densify(jacobian @ self.expression("z")[v] + ca.jacobian(self.expression("constraint"), self.t))
        if role == "output":
            u = self.expression("law") if self.has("law") else self.u
            return ca.densify(
                (self.expression("B") + self.expression("P")).T @ self.expression("z")
                + (self.expression("S") - self.expression("N")) @ u
            )
        if role == "right":  # (J - R) z + (B - P) u - r
            u = self.expression("law") if self.has("law") else self.u
            rest = self.expression("r") if self.has("r") else SX(self.n, 1)
            return ca.densify(
                (self.structure() - self.expression("R")) @ self.expression("z")
                + (self.expression("B") - self.expression("P")) @ u
                - rest
            )
        return super()._derived(role)

    def structure(self, x: SX | None = None, t: SX | None = None, jacobian: SX | None = None) -> SX:
        """`J`, with the blocks of a constraint filled in: by its Jacobian, or by a given (discrete) one."""
        J = SX(self.expression("J", x=x, t=t))
        if self._constraint is None:
            return J
        q_states, v, lam = self._constraint
        if jacobian is None:
            f = ca.Function("Dg", [self.x, self.t, self.par], [ca.jacobian(self.expression("constraint"), self.x[q_states])])
            jacobian = f(self.x if x is None else x, self.t if t is None else t, self.par)
        J[lam, v] = jacobian
        J[v, lam] = -jacobian.T
        return J

    def blocks(self) -> tuple[list[int], list[int]] | None:
        """Rows and columns of `E` that are not zero, where they form an invertible block: the semi-explicit form."""
        return port_parts.block(self)

    @property
    def constant_E(self) -> bool:
        """Whether `E` depends neither on the state nor on time."""
        return not self.depends("E", "x", "t")

    @suggesting
    def semi_explicit(self, parameters: Mapping[str, ArrayLike] | None = None) -> PortHamiltonian:
        """An equivalent system whose `E` is block diagonal with zeros at the end.

        For constant `E` by its singular values: `E = U S V^T` gives `x = V x~` and the factor `U^T` (Kinon, Morandin, Schulze
        2025, proposition 2). Where the null space of `E` depends on time alone, by elimination, near the initial value:
        `x = V(t) x~`, where the last columns of `V` span the null space, and `E V' x~` joins `r` (Symank 2025, theorem 4.3). The
        energy does not depend on the algebraic states.
        """
        return port_changes.semi_explicit(self, parameters)

    @suggesting
    def parametrised(self, functions: Model | None = None, inverse: Model | None = None) -> PortHamiltonian:
        """An equivalent system with `E = [I 0 0; 0 0 0; 0 E32(x) I]`, `z = (grad H1, z2, 0)`, near the initial value.

        Its first two rows are a semi-explicit system in `(x1, x2)` with the parameter `x3`; the third is an equation of any kind
        for that (Kinon, Morandin, Schulze 2025, theorem 8, corollary 3). `discrete-gradient` treats it. It is found by
        elimination where rates of the states on which the energy depends can be separated. In general `x1` are `functions` of `x`
        that solve eq. F.3, which is checked: gradients in the row space of `E`, as that of the energy is. `x` as a function of
        them and of some states, in this order, is `inverse`, and found where the functions are affine in some states.
        """
        return port_changes.parametrised(self, functions, inverse)

    @suggesting
    def factors(self, x: ArrayLike, t: float = 0.0, parameters: Mapping[str, ArrayLike] | None = None) -> tuple[Array, Array]:
        """Orthogonal `U` and `V` with `U^T E V = [E11 0; 0 0]`, `E11` invertible, as smooth as `E` near the initial value.

        Kinon, Morandin, Schulze 2025, theorem 11: by elimination, then by Gram and Schmidt's process from the last column on.
        """
        return normal_forms.orthogonal(self, np.asarray(x, dtype=float), t, self.pack(parameters))

    @suggesting
    def transformed(
        self, phi: Model, U: Model | None = None, coordinates: Sequence[str] | None = None, initial: ArrayLike | None = None
    ) -> PortHamiltonian:
        """The system in other coordinates, `x = phi(x~)`, its equations multiplied by `U(x~)^T`.

        `E~ = U^T E Dphi`, `J~ = U^T J U`, `R~ = U^T R U`, `B~ = U^T B`, `z~ = U^-1 z`, `H~ = H(phi)` (Kinon, Morandin, Schulze
        2025, eq. 32). `phi` and `U` are functions of `x` (the new state) and `t`, or constants; `E dphi/dt` joins `r`.
        """
        return port_changes.transformed(self, phi, U, coordinates, initial)

    def autonomous(self) -> PortHamiltonian:
        """Time as one more state: `E` gets a row for it, and the Hamiltonian does not depend on time any more."""
        return port_changes.autonomous(self)

    @suggesting
    def dirac(self, x: ArrayLike, t: float = 0.0) -> DiracStructure:
        """The Dirac structure at a state: flows `(-E x', -z, y)` against efforts `(z, R z, u)`.

        With feedthrough, `P` or `S`, the flows are `(-E x', -(z, u), y)` and the efforts `(z, [R P; P^T S] (z, u), u)`.
        """
        J = self.at("J", x, t)
        if self._constraint is not None:
            f = ca.Function("J", [self.x, self.t, self.par], [self.structure()])
            J = np.asarray(f(np.asarray(x, dtype=float), t, self.pack()).full())
        through = self.has("P") or self.has("S")
        return DiracStructure.of_ports(J, self.at("B", x, t), self.at("N", x, t), through=through)

    @property
    def algebraic(self) -> bool:
        """Whether there are equations without a rate."""
        return ca.sprank(self._functions["E"].sparsity_out(0)) < self.n

    def lacks(self, need: Need) -> str | None:
        if need is Need.RATES and not self.has("E"):
            return f"{self.name!r}, which has no state with a rate (E is zero)"
        if need is Need.INERTIA and self.algebraic:
            return f"the algebraic equations of {self.name!r}"
        if need in (Need.BASES, Need.INERTIA, Need.PAIR):
            try:
                rank = (structured_bases if need is Need.PAIR else bases)(self).rank
            except MethodError as error:
                return f"{self.name!r}: {error}"
            if need is Need.INERTIA and rank < self.n:
                return f"the algebraic equations of {self.name!r}"
        return super().lacks(need)

    def form(self, h: SX) -> Form:
        """`E x' = (J - R) z + (B - P) u - r`, in bases of the range and co-range of `E`."""
        basis = bases(self)
        z, whole = self.expression("z"), self.expression("law") if self.has("law") else self.u
        supplied = ca.dot(self.role("output"), whole)
        if self.has("r"):
            supplied += self.role("rate_of_energy") - ca.dot(z, self.expression("r"))
        R, P, S = (self.expression(key) for key in ("R", "P", "S"))
        dissipated = ca.dot(z, R @ z) + 2 * ca.dot(z, P @ whole) + ca.dot(whole, S @ whole)
        one = scales.Ports(self, h, basis.V1, basis.V2)
        algebraic = one.speed + one.state / one.h  # defined to round-off of the state, whatever the step is
        rank, sizes = basis.rank, (scales.spread(one.speed, one.one), scales.spread(algebraic, one.two))
        found = closure(self)
        return Form(
            y={"x": self.x}, parts=({"x": self.role("right")},), inertia={"x": self.expression("E")},
            t=self.t, u=self.u, par=self.par, state={"x": self.x}, begin={"x": self.x, "lam": basis.V2.T @ self.x},
            sizes={
                "x": ca.vertcat(scales.full(sizes[0], rank), scales.full(sizes[1], self.n - rank)),
                "w": scales.spread(one.state + one.h * one.speed, one.two),
            },
            closing=SX(0, 1) if found is None else found[0],
            power=Power(supplied=supplied, dissipated=dissipated),
            basis=(basis.U, basis.V, basis.rank),
        )  # fmt: skip

    def rate_form(self, h: SX) -> Form:
        return self.form(h)

    def matrix(self, role: str, x: Array, t: float, par: Array, u: Array | None = None) -> Array:
        """Like `at`, with the parameter vector."""
        return np.asarray(self.function(role)(x, t, np.zeros(self.nu) if u is None else u, par).full())

    def _written(self) -> dict[str, object]:
        return {**super()._written(), "constraint": self._constraint, "parts": self.parts}

    def _counts(self) -> dict[str, int]:
        return {"states": self.n, "constraints": self.m, "ports": self.nu}

    @property
    def m(self) -> int:
        """Number of the constraints of a mechanism."""
        return int(self._functions["constraint"].size1_out(0)) if "constraint" in self._functions else 0

    def _restore(self, data: Mapping[str, Any]) -> None:
        super()._restore(data)
        blocks = plain.maybe(data, "constraint", list)
        if blocks is not None:
            each = (plain.each(block, "constraint", int) for block in blocks)
            states, v, lam = ([plain.size(i, "constraint", 0, self.n - 1) for i in block] for block in each)
            self._constraint = (states, v, lam)
        parts = plain.maybe(data, "parts", list) or []
        self.parts = tuple(tuple(plain.size(i, "parts", 0, self.n - 1) for i in plain.each(part, "parts", int)) for part in parts)
