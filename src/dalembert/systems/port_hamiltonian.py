"""Port-Hamiltonian differential-algebraic equations `E x' + r = (J - R) z + (B - P) u`, `y = (B + P)^T z + (S - N) u`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.errors import MethodError, ModelError, UnknownKeyword
from dalembert.systems import tracing
from dalembert.systems.base import SX, System, column, scalar
from dalembert.systems.picture import Picture, attach

MATRICES = ("E", "J", "R", "B", "P", "S", "N")


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
        Matrices, constant or functions of `x` and `t`; `E` is the identity and the others are zero where nothing is said. A
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

    kind = "port-hamiltonian"
    momenta = "v"
    given: ClassVar[frozenset[str]] = frozenset([*MATRICES, "hamiltonian", "z", "r", "law", "constraint", "points"])

    def __init__(
        self,
        coordinates: Sequence[str] | int,
        *,
        hamiltonian: Any,
        E: Any = None,
        J: Any = None,
        R: Any = None,
        B: Any = None,
        P: Any = None,
        S: Any = None,
        N: Any = None,
        z: Any = None,
        r: Any = None,
        ports: Sequence[str] | None = None,
        feedback: Callable[..., Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
        initial: Mapping[str, Any] | None = None,
        picture: Picture | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise UnknownKeyword.of(type(self).__name__, unknown, type(self).__init__)
        super().__init__(coordinates, parameters, name, {"q" if k == "x" else k: v for k, v in (initial or {}).items()}, None)
        self.v, self.p = SX.sym("v", 0), SX.sym("p", 0)
        n = self.n
        given = {"E": E, "J": J, "R": R, "B": B, "P": P, "S": S, "N": N}
        traced = {k: self._trace(k, m, ("x", "t")) for k, m in given.items() if m is not None}
        inputs = self._port_number(traced)
        self.u = SX.sym("u", inputs)
        shapes = {
            "E": (n, n),
            "J": (n, n),
            "R": (n, n),
            "B": (n, inputs),
            "P": (n, inputs),
            "S": (inputs, inputs),
            "N": (inputs, inputs),
        }
        matrices = {k: self._matrix(k, traced.get(k), shape) for k, shape in shapes.items()}
        H = scalar("hamiltonian", self._trace("hamiltonian", hamiltonian, ("x", "t")))
        costate = None if z is None else column("z", self._trace("z", z, ("x", "t")), n)
        rest = None if r is None else column("r", self._trace("r", r, ("x", "t")), n)
        law = None
        if feedback is not None:
            law = column("feedback", self._trace("feedback", feedback, ("x", "t", "u")), inputs)
        self._set(matrices, H, costate, rest, law)
        self.ports = self._port_names(ports)
        self._check_structure()
        attach(self, picture)

    def _port_number(self, traced: dict[str, Any]) -> int:
        for key in ("B", "P"):
            if key in traced:
                shape = traced[key].shape
                if shape[0] != self.n and shape == (1, self.n):
                    return 1
                if shape[0] != self.n:
                    raise ModelError(f"{key} has the shape {shape}; it needs {self.n} rows, one for each state")
                return int(shape[1])
        for key in ("S", "N"):
            if key in traced:
                return int(traced[key].shape[0])
        return 0

    def _matrix(self, role: str, value: Any, shape: tuple[int, int]) -> Any:
        if value is None:
            return SX.eye(shape[0]) if role == "E" else SX(*shape)
        if value.shape == shape:
            return ca.sparsify(value)
        if value.shape == shape[::-1] and 1 in shape and role in ("B", "P"):
            return ca.sparsify(value.T)
        if role in ("E", "R") and value.is_vector() and value.numel() == shape[0]:
            return ca.sparsify(ca.diag(ca.densify(ca.vec(value))))
        if value.is_scalar() and shape[0] == shape[1]:
            return ca.sparsify(value * SX.eye(shape[0]))
        raise ModelError(f"{role} has the shape {value.shape}; expected {shape[0]} x {shape[1]}")

    def _set(self, matrices: dict[str, Any], H: Any, z: Any, r: Any, law: Any = None) -> None:
        """Define all roles from expressions."""
        for key, matrix in matrices.items():
            self._define(key, matrix)
        self._define("hamiltonian", H)
        gradient = ca.densify(ca.gradient(H, self.q))
        self._define("z", ca.densify(z) if z is not None else self._costate(matrices["E"], gradient))
        costate = self.expression("z")
        rate = ca.jacobian(H, self.t)
        if r is not None:
            self._define("r", ca.densify(r))
        elif rate.nnz():
            self._define("r", ca.densify(costate * rate / (ca.sumsqr(costate) + 1e-300)))
        if law is not None:
            self._define("law", ca.densify(law))

    def _costate(self, E: Any, gradient: Any) -> Any:
        rows, columns = _blocks(E)
        if len(rows) != len(columns):
            raise ModelError(
                f"E has {len(rows)} rows and {len(columns)} columns that are not zero: give the costate z with E^T z = grad H"
            )
        z = SX.zeros(self.n)
        if rows:
            z[rows] = ca.solve(E[rows, columns].T, gradient[columns])
        others = ([i for i in range(self.n) if i not in rows], [j for j in range(self.n) if j not in columns])
        for i, j in zip(*others, strict=True):
            z[i] = self.q[j]
        return ca.densify(z)

    def _arguments(self) -> dict[str, Any]:
        return {
            "x": tracing.symbols(self.q, (self.n,)),
            "t": tracing.symbols(self.t, ()),
            "u": tracing.symbols(self.u, (self.u.numel(),)),
        }

    def _port_names(self, ports: Sequence[str] | None) -> tuple[str, ...]:
        if ports is None:
            return tuple(f"u{i}" for i in range(1, self.nu + 1))
        names = (ports,) if isinstance(ports, str) else tuple(str(p) for p in ports)
        if len(names) != self.nu or len(set(names)) < len(names):
            raise ModelError(f"ports must be {self.nu} different names, one for each column of B, not {ports!r}")
        return names

    @classmethod
    def of_expressions(
        cls, names: Sequence[str], parameters: Mapping[str, Any], symbols: tuple[Any, Any, Any, Any], matrices: dict[str, Any],
        H: Any, z: Any, *, r: Any = None, name: str = "", ports: Sequence[str] | None = None, initial: Any = None,
        constraint: tuple[Any, Sequence[int], Sequence[int], Sequence[int]] | None = None, check: bool = True,
    ) -> PortHamiltonian:  # fmt: skip
        """From expressions in given symbols `(x, t, u, par)`.

        `constraint` is `(g, states of q, costates of v, costates of lam)`: the blocks of `J` that hold `Dg` are then left to
        the method, which may take a discrete Jacobian for them.
        """
        self = cls.__new__(cls)
        System.__init__(self, names, parameters, name or None, initial, None)
        self.v, self.p = SX.sym("v", 0), SX.sym("p", 0)
        self.q, self.t, self.u, self.par = symbols
        n, p = len(names), self.u.numel()
        shapes = {"E": (n, n), "J": (n, n), "R": (n, n), "B": (n, p), "P": (n, p), "S": (p, p), "N": (p, p)}
        full = {k: matrices.get(k, SX.eye(n) if k == "E" else SX(*shape)) for k, shape in shapes.items()}
        self._constraint = None
        if constraint is not None:
            g, q_states, v_costates, lam_costates = constraint
            self._define("constraint", ca.densify(g))
            self._constraint = (list(q_states), list(v_costates), list(lam_costates))
        self._set(full, H, z, r)
        self.ports = self._port_names(ports)
        if check:
            self._check_structure()
        return self

    _constraint: tuple[list[int], list[int], list[int]] | None = None
    ports: tuple[str, ...] = ()

    def rank_fault(self, states: np.ndarray, times: np.ndarray, par: np.ndarray) -> tuple[int, ModelError] | None:
        """The first row at which the invertible block of a state-dependent `E` has become singular, or has passed through it."""
        blocks = self.blocks()
        if blocks is None or not self.depends("E", "q", "t") or not len(states):
            return None
        values = self.numeric("E", par, q=states, t=times).reshape(len(states), self.n, self.n)
        core = values[:, blocks[0]][:, :, blocks[1]]
        sign, size = np.linalg.slogdet(core)
        bad = (sign != sign[0]) | (size < np.median(size) - 25)
        if not bad.any():
            return None
        k = int(np.argmax(bad))
        return k, ModelError(
            f"the rank of E falls below {len(blocks[0])} at about t = {times[k]:g}: the equations change their character there "
            "(error.solution holds what was computed before)"
        )

    # ---- structure --------------------------------------------------------------------------------------

    def _samples(self, count: int = 3) -> list[tuple[np.ndarray, float]]:
        rng = np.random.default_rng(0)
        center = np.asarray(self.initial["q"], dtype=float) if "q" in self.initial else np.zeros(self.n)
        if center.shape != (self.n,):
            raise ModelError(f"the initial value x must be {self.n} numbers, not {self.initial['q']!r}")
        points = [center + rng.normal(size=self.n) * (0.1 + 0.3 * np.abs(center)) for _ in range(count)]
        if "q" not in self.initial:
            points = [np.abs(x) + 0.5 for x in points] + points
        return [(x, float(rng.uniform())) for x in points]

    def at(self, role: str, x: Any, t: float = 0.0, parameters: Mapping[str, Any] | None = None, u: Any = None) -> np.ndarray:
        """A matrix or vector of the system at a state, as numbers."""
        if role not in self._functions:
            self._define(role, self._derived(role))
        f = self._functions[role]
        value = f(np.asarray(x, dtype=float), [], [], t, np.zeros(self.nu) if u is None else u, self.pack(parameters))
        return np.asarray(value.full())

    def _check_structure(self) -> None:
        for x, t in self._samples():
            m = {k: self.at(k, x, t) for k in MATRICES}
            z, gradient = self.at("z", x, t)[:, 0], self.at("gradient", x, t)[:, 0]
            if not all(np.isfinite(a).all() for a in (*m.values(), z, gradient)):
                continue  # outside of where the functions are defined
            gamma = np.block([[m["J"], m["B"]], [-m["B"].T, m["N"]]])
            W = np.block([[m["R"], m["P"]], [m["P"].T, m["S"]]])
            for name, matrix in (("J", m["J"]), ("N", m["N"])):
                _refuse_entry(name, "skew", matrix + matrix.T, np.abs(gamma).max(initial=0.0), matrix)
            for name, matrix in (("R", m["R"]), ("S", m["S"])):
                _refuse_entry(name, "symmetric", matrix - matrix.T, np.abs(W).max(initial=0.0), matrix)
            if W.size:
                low = float(np.linalg.eigvalsh((W + W.T) / 2)[0])
                if low < -1e-10 * max(1.0, float(np.abs(W).max())):
                    what = "R" if not m["P"].any() and not m["S"].any() else "[R P; P^T S]"
                    raise ModelError(
                        f"{what} is not positive semidefinite (eigenvalue {low:.3g}): it would feed energy in, not dissipate it"
                    )
            defect = m["E"].T @ z - gradient
            worst = int(np.abs(defect).argmax()) if defect.size else 0
            if np.abs(defect).max(initial=0.0) > 1e-8 * max(1.0, np.abs(gradient).max(initial=0.0)):
                raise ModelError(
                    f"E^T z is not the gradient of the Hamiltonian: entry {worst + 1} ({self.coordinates[worst]!r}) is "
                    f"{(m['E'].T @ z)[worst]:.6g}, dH/d{self.coordinates[worst]} is {gradient[worst]:.6g}"
                )
            if self.has("r"):
                rate = float(self.at("rate_of_energy", x, t)[0, 0])
                have = float(z @ self.at("r", x, t)[:, 0])
                if abs(have - rate) > 1e-8 * max(1.0, abs(rate)):
                    raise ModelError(f"z . r is {have:.6g}, but the partial derivative of H with respect to time is {rate:.6g}")

    def _derived(self, role: str) -> Any:
        if role == "energy":
            return self.expression("hamiltonian")
        if role == "gradient":
            return ca.densify(ca.gradient(self.expression("hamiltonian"), self.q))
        if role == "rate_of_energy":
            return ca.densify(ca.jacobian(self.expression("hamiltonian"), self.t))
        if role == "constraint_rate":  # Dg v, with the costates of the velocities
            assert self._constraint is not None
            states, v, _ = self._constraint
            jacobian = ca.jacobian(self.expression("constraint"), self.q[states])
            return ca.densify(jacobian @ self.expression("z")[v] + ca.jacobian(self.expression("constraint"), self.t))
        if role == "output":
            u = self.expression("law") if self.has("law") else self.u
            return ca.densify((self.full("B") + self.full("P")).T @ self.expression("z") + (self.full("S") - self.full("N")) @ u)
        if role == "right":  # (J - R) z + (B - P) u - r
            u = self.expression("law") if self.has("law") else self.u
            rest = self.expression("r") if self.has("r") else SX(self.n, 1)
            return ca.densify(
                (self.structure() - self.full("R")) @ self.expression("z") + (self.full("B") - self.full("P")) @ u - rest
            )
        return super()._derived(role)

    def full(self, role: str, **arguments: Any) -> Any:
        """A matrix as an expression."""
        return self.expression(role, **arguments)

    def structure(self, q: Any = None, t: Any = None, jacobian: Any = None) -> Any:
        """`J`, with the blocks of a constraint filled in: by its Jacobian, or by a given (discrete) one."""
        J = SX(self.expression("J", q=q, t=t))
        if self._constraint is None:
            return J
        q_states, v, lam = self._constraint
        if jacobian is None:
            f = ca.Function("Dg", [self.q, self.t, self.par], [ca.jacobian(self.expression("constraint"), self.q[q_states])])
            jacobian = f(self.q if q is None else q, self.t if t is None else t, self.par)
        J[lam, v] = jacobian
        J[v, lam] = -jacobian.T
        return J

    def blocks(self) -> tuple[list[int], list[int]] | None:
        """Rows and columns of `E` that are not zero, where they form an invertible block: the semi-explicit form."""
        rows, columns = _blocks(self.expression("E"))
        if len(rows) != len(columns):
            return None
        for x, t in self._samples():
            block = self.at("E", x, t)[np.ix_(rows, columns)]
            if not np.isfinite(block).all():
                continue
            if rows and np.linalg.cond(block) > 1e12:
                return None
        return rows, columns

    @property
    def constant_E(self) -> bool:
        """Whether `E` depends neither on the state nor on time."""
        return not self.depends("E", "q", "t")

    def semi_explicit(self, parameters: Mapping[str, Any] | None = None) -> PortHamiltonian:
        """An equivalent system whose `E` is diagonal with zeros at the end, for constant `E`, by its singular values.

        `E = U S V^T` gives `x = V x~` and the factor `U^T` (Kinon, Morandin, Schulze 2025, proposition 2).
        """
        if self.blocks() is not None:
            return self
        if not self.constant_E:
            raise MethodError(
                "E depends on the state and is singular: a semi-explicit form cannot be found by algebra alone; give a "
                "transformation "
                "with system.transformed(phi, U)"
            )
        U, S, Vt = np.linalg.svd(self.at("E", np.zeros(self.n), 0.0, parameters))
        rank = int((1e-12 * S[0] < S).sum())
        names = [f"w{i}" for i in range(1, self.n + 1)]
        new = self.transformed(lambda x: _times(Vt.T, x), U, names)
        E = SX(self.n, self.n)
        for i in range(rank):
            E[i, i] = float(S[i])
        new._define("E", E)
        new.name = f"{self.name}, semi-explicit"
        return new

    def transformed(
        self, phi: Callable[..., Any], U: Any = None, coordinates: Sequence[str] | None = None, initial: Any = None
    ) -> PortHamiltonian:
        """The system in other coordinates, `x = phi(x~)`, its equations multiplied by `U(x~)^T`.

        `E~ = U^T E Dphi`, `J~ = U^T J U`, `R~ = U^T R U`, `B~ = U^T B`, `z~ = U^-1 z`, `H~ = H(phi)` (Kinon, Morandin, Schulze
        2025, eq. 32). `phi` and `U` are functions of `x` (the new state), or constants.
        """
        n = self.n
        new = SX.sym("x", n)
        host = System.__new__(PortHamiltonian)
        System.__init__(host, list(coordinates or self.coordinates), self.parameters, self.name, None, None)
        host.q, host.v, host.p, host.t, host.u, host.par = new, SX.sym("v", 0), SX.sym("p", 0), self.t, self.u, self.par
        old = column("phi", host._trace("phi", phi, ("x", "t")), n)
        factor = SX.eye(n) if U is None else host._matrix("U", host._trace("U", U, ("x", "t")), (n, n))
        D = ca.jacobian(old, new)
        m = {k: self.expression(k, q=old) for k in MATRICES}
        m["J"] = self.structure(q=old)
        matrices = {
            "E": ca.sparsify(factor.T @ m["E"] @ D), "J": ca.sparsify(factor.T @ m["J"] @ factor),
            "R": ca.sparsify(factor.T @ m["R"] @ factor), "B": factor.T @ m["B"], "P": factor.T @ m["P"], "S": m["S"], "N":
        m["N"], }  # fmt: skip
        z = ca.solve(ca.densify(factor), self.expression("z", q=old))
        r = factor.T @ self.expression("r", q=old) if self.has("r") else None
        start = {"q": np.asarray(initial, dtype=float)} if initial is not None else None
        out = PortHamiltonian.of_expressions(
            list(coordinates or self.coordinates), self.parameters, (new, self.t, self.u, self.par), matrices,
            self.expression("hamiltonian", q=old), z, r=r, name=f"{self.name}, transformed", ports=self.ports, initial=start,
            check=initial is not None,
        )  # fmt: skip
        if self.has("law"):
            out._define("law", self.expression("law", q=old))
        return out

    def autonomous(self) -> PortHamiltonian:
        """Time as one more state: `E` gets a row for it, and the Hamiltonian does not depend on time any more."""
        n = self.n
        x, tau = SX.sym("x", n + 1), SX.sym("t")
        at = {"q": x[:n], "t": x[n]}
        z = self.expression("z", **at)
        r = self.expression("r", **at) if self.has("r") else SX(n, 1)
        # with z_t = 0 the row of time is t' = 1; its power, z . r, belongs to the column of E
        E = ca.blockcat([[self.expression("E", **at), r], [SX(1, n), SX(1, 1)]])
        E[n, n] = 1
        p = self.nu
        u = SX.sym("u", p + 1)
        B = ca.blockcat([[self.expression("B", **at), SX(n, 1)], [SX(1, p), SX(1, 1)]])
        B[n, p] = 1

        def pad(m: Any) -> Any:
            return ca.blockcat([[m, SX(m.shape[0], 1)], [SX(1, m.shape[1]), SX(1, 1)]])

        matrices = {"E": E, "B": B, "J": pad(self.structure(**at)), "R": pad(self.expression("R", **at))}
        matrices["P"] = pad(self.expression("P", **at))
        matrices["S"], matrices["N"] = pad(self.expression("S", **at)), pad(self.expression("N", **at))
        start = {"q": np.append(self.initial["q"], 0.0)} if "q" in self.initial else None
        return PortHamiltonian.of_expressions(
            [*self.coordinates, "time"], self.parameters, (x, tau, u, self.par), matrices, self.expression("hamiltonian", **at),
            ca.vertcat(z, 0), name=f"{self.name}, autonomous", ports=[*self.ports, "clock"], initial=start,
        )  # fmt: skip

    def dirac(self, x: Any, t: float = 0.0) -> Any:
        """The Dirac structure at a state: flows `(-E x', -z, y)` against efforts `(z, R z, u)`."""
        from dalembert.systems.dirac import of_system

        return of_system(self, x, t)

    @property
    def algebraic(self) -> bool:
        """Whether there are equations without a rate."""
        return ca.sprank(self._functions["E"].sparsity_out(0)) < self.n

    def violated(self, x: np.ndarray, t: float, par: np.ndarray, u: np.ndarray) -> tuple[int, float, float]:
        """The algebraic equation (one in which `E` has no rate) that is violated most, by its own scale.

        Returns its row, what is left of it, and that by the size of its terms: the right-hand side is `A x + b` near `x`, and
        the terms are `|A| |x| + |b|`.
        """
        left, _ = _null_spaces(self._at_numbers("E", x, t, par, u))
        if not left.size:
            return 0, 0.0, 0.0
        value, slope = (np.asarray(m.full()) for m in self._right()(x, t, u, par))
        terms = np.abs(left.T) @ (np.abs(slope) @ np.abs(x) + np.abs(value[:, 0] - slope @ x))
        rest = left.T @ value[:, 0]
        relative = np.abs(rest) / np.maximum(terms, 1e-300)
        k = int(relative.argmax())
        return int(np.abs(left[:, k]).argmax()), float(rest[k]), float(relative[k])

    def _at_numbers(self, role: str, x: np.ndarray, t: float, par: np.ndarray, u: np.ndarray) -> np.ndarray:
        self.role(role)
        return np.asarray(self._functions[role](x, [], [], t, u, par).full())

    def _right(self) -> ca.Function:
        """The right-hand side and its derivative by the state."""
        right = self.role("right")
        return ca.Function("right", [self.q, self.t, self.u, self.par], [right, ca.jacobian(right, self.q)])

    def consistent_state(self, x: np.ndarray, t: float, par: np.ndarray, u: np.ndarray) -> np.ndarray:
        """A state that satisfies the algebraic equations, by the algebraic states where these are defined, the nearest one else.

        The positions of a mechanism are brought to their constraint as well.
        """
        f = self._right()
        if self.has("constraint"):
            g = self.role("constraint")
            position = ca.Function("position", [self.q, self.t, self.par], [g, ca.jacobian(g, self.q)])
        for _ in range(50):
            left, free = _null_spaces(self._at_numbers("E", x, t, par, u))
            if not left.size:
                return x
            value, slope = (np.asarray(m.full()) for m in f(x, t, u, par))
            rest = left.T @ value[:, 0]
            change = free @ np.linalg.lstsq(left.T @ slope @ free, rest, rcond=1e-10)[0]
            beyond = rest - left.T @ slope @ change  # what the algebraic states cannot mend
            rows, goal = left.T @ slope, beyond
            if self.has("constraint"):
                gap, normal = (np.asarray(m.full()) for m in position(x, t, par))
                rows[:, self._constraint[0]] = 0.0  # type: ignore[index]  # positions answer to g alone, velocities to G v
                rows, goal = np.vstack([rows, normal]), np.concatenate([goal, gap[:, 0]])
            change = change + np.linalg.lstsq(rows, goal, rcond=1e-10)[0]
            x = x - change
            if np.abs(change).max() <= 1e-15 * max(1e-300, float(np.abs(x).max())):
                break
        return x

    def explain(self, x: np.ndarray, t: float, par: np.ndarray, u: np.ndarray) -> None:
        """Raise what may have made a step fail: functions that are not finite, a rank of E that has changed."""
        for role in ("E", "J", "R", "hamiltonian", "z", "gradient"):
            self.role(role)
            value = np.asarray(self._functions[role](x, [], [], t, u, par).full())
            if not np.isfinite(value).all():
                raise ModelError(f"{role} is not finite at t = {t:g}, x = {np.array2string(x, precision=4, threshold=8)}")
        E = np.asarray(self._functions["E"](x, [], [], t, u, par).full())
        S = np.linalg.svd(E, compute_uv=False)
        usual = max(np.linalg.matrix_rank(self.at("E", *sample), tol=1e-9) for sample in self._samples())
        rank = int((1e-7 * max(1.0, S[0] if S.size else 0.0) < S).sum())
        if rank < usual:
            raise ModelError(
                f"the rank of E has fallen from {usual} to {rank} at t = {t:g}: the equations change their character there"
            )

    def dumps(self) -> str:
        import json

        data = json.loads(super().dumps())
        data["ports"], data["constraint"] = list(self.ports), self._constraint
        return json.dumps(data)

    def __repr__(self) -> str:
        return f"<PortHamiltonian {self.name!r}: {self.n} states, {self.nu} ports>"


def _null_spaces(E: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bases of the left and the right null space, by singular values after rows and columns were brought to size one."""
    rows = np.abs(E).max(axis=1, initial=0.0)
    rows = np.where(rows > 0, rows, 1.0)
    columns = np.abs(E / rows[:, None]).max(axis=0, initial=0.0)
    columns = np.where(columns > 0, columns, 1.0)
    U, S, Vt = np.linalg.svd(E / rows[:, None] / columns)
    rank = int((1e-12 * max(1.0, S[0] if S.size else 0.0) < S).sum())
    left, free = U[:, rank:] / rows[:, None], Vt[rank:].T / columns[:, None]
    return left / np.abs(left).max(axis=0, initial=1e-300), free / np.abs(free).max(axis=0, initial=1e-300)


def _blocks(E: Any) -> tuple[list[int], list[int]]:
    """Rows and columns with an entry."""
    pattern = ca.sparsify(E).sparsity()
    return sorted(set(pattern.row())), sorted(set(pattern.get_col()))


def _times(matrix: np.ndarray, x: Any) -> list[Any]:
    """A constant matrix times a vector of symbols, entries of zero left out."""
    out = []
    for row in matrix:
        terms = [float(a) * x[j] for j, a in enumerate(row) if a]
        out.append(sum(terms[1:], terms[0]) if terms else 0.0)
    return out


def _refuse_entry(name: str, what: str, defect: np.ndarray, scale: float, matrix: np.ndarray) -> None:
    if defect.size and np.abs(defect).max() > 1e-10 * max(1.0, scale):
        i, j = np.unravel_index(np.abs(defect).argmax(), defect.shape)
        raise ModelError(
            f"{name} is not {what}: entry ({i + 1}, {j + 1}) is {matrix[i, j]:.6g}, "
            f"entry ({j + 1}, {i + 1}) is {matrix[j, i]:.6g}"
        )
