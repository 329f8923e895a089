"""Interconnection of port-Hamiltonian systems: the whole is one again, and its Hamiltonian is the sum.

All power-preserving relations between the outputs `y` and inputs `u` of connected ports have the form

    u = K y - C^T lam + u_outside,    C y = 0,    K skew,

and give `J' = J + B K B^T` and one multiplier for each row of `C` (cf. Kinon, Morandin, Schulze 2025, sec. 1; Duindam et al.
2009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import listed, number, reals, shown, text
from dalembert.errors import ModelError, strict, suggest, suggesting
from dalembert.systems.port_hamiltonian import PortHamiltonian
from dalembert.systems.shapes import mapping


@strict
@dataclass(frozen=True)
class Feedback:
    """Output feedback between two ports, `u_a = gain y_b`, `u_b = -gain y_a`: a gyrator."""

    a: str
    b: str
    gain: float = 1.0


@strict
@dataclass(frozen=True)
class Couple:
    """Kinematic coupling: `sum of weight * y = 0` over named ports, with one multiplier; `u` gets `-weight * lam`.

    `Couple({"cart.force": 1, "wagon.force": -1})` makes two velocities equal.
    """

    weights: Mapping[str, float]


@strict
@dataclass(frozen=True)
class Relation:
    """`M y + N u = 0` over a list of ports, power-preserving: `M N^T + N M^T = 0` and rank `[M N]` full."""

    ports: Sequence[str]
    M: ArrayLike
    N: ArrayLike


Rule = Feedback | Couple | Relation | tuple[str, str]  # a pair of ports is a feedback of gain one
ROLES = ("E", "J", "R", "B", "P", "S", "N", "z", "hamiltonian", "r")


@suggesting
def connect(
    systems: Mapping[str, PortHamiltonian], rules: Sequence[Rule], name: str = "connected", *, open: Sequence[str] = ()
) -> PortHamiltonian:
    """Connect named systems at their ports, `"system.port"`. Ports that are joined by a rule are closed; all others stay open.

    Ports in `open` get an input from outside as well, beside what their rules say: a force on a joint, a current into a node.

    Parameters of the whole are called `system_parameter`, its states `system_state`, its ports `system_port`.
    """
    _check(systems)
    text("name", name, ModelError)
    ports = [f"{key}.{port}" for key, system in systems.items() for port in system.ports]
    K, rows, joined, fixed = _rules(ports, rules)
    free = [i for i, port in enumerate(ports) if port not in joined - _opened(open, ports, fixed)]
    parts = _Parts(systems, len(rows), len(free))
    parts.check_feedthrough({i: port for i, port in enumerate(ports) if port in joined})
    return PortHamiltonian.of_expressions(
        [*parts.names, *(f"coupling{i}" for i in range(1, len(rows) + 1))], parts.parameters,
        (parts.x, parts.t, parts.u, parts.par), parts.matrices(K, rows, free), parts.energy(), parts.costates(), r=parts.source(),
        name=name, ports=[ports[i].replace(".", "_") for i in free], initial=parts.initial(), constraint=parts.constraint(),
    )  # fmt: skip


def _check(systems: Mapping[str, PortHamiltonian]) -> None:
    """Raise an error for what cannot be connected."""
    if not isinstance(systems, Mapping) or not systems:
        raise ModelError("connect takes a dictionary of named port-Hamiltonian systems, and a list of rules")
    for key, system in systems.items():
        if not isinstance(system, PortHamiltonian):
            raise ModelError(
                f"{key!r} is a {type(system).__name__}; connect takes PortHamiltonian systems (mechanical.to_port_hamiltonian())"
            )
        if not str(key).isidentifier():
            raise ModelError(f"a system cannot be called {key!r}: its name becomes part of the names of states")
        if system.has("law"):
            raise ModelError(f"{key!r} has a feedback law of its own; connect the system without it")
        if system.depends("r", "u"):
            raise ModelError(f"{key!r} has inputs inside of f; connect takes those that enter by B")


class _Parts:
    """The systems side by side in common symbols: states `x` (`m` multipliers last), time, `nu` inputs and parameters."""

    def __init__(self, systems: Mapping[str, PortHamiltonian], m: int, nu: int) -> None:
        self.systems, self.m = systems, m
        self.n = sum(s.n for s in systems.values())
        self.x, self.t, self.u = SX.sym("x", self.n + m), SX.sym("t"), SX.sym("u", nu)
        self.par = SX.sym("par", sum(s.par.numel() for s in systems.values()))
        self.values: dict[str, list[SX]] = {role: [] for role in ROLES}
        self.names: list[str] = []
        self.parameters: dict[str, NDArray[np.float64]] = {}
        self.constraints: list[SX] = []
        self.where: tuple[list[int], list[int], list[int]] = ([], [], [])
        offset = p_offset = 0
        for key, s in systems.items():
            x, par = self.x[offset : offset + s.n], self.par[p_offset : p_offset + s.par.numel()]
            for role in ROLES:
                self.values[role].append(self._value(s, role, x, par))
            if s._constraint is not None:  # its blocks of J are left to the method, as in the single system
                self.constraints.append(self._value(s, "constraint", x, par))
                for mine, theirs in zip(self.where, s._constraint, strict=True):
                    mine += [offset + i for i in theirs]
            self.names += [f"{key}_{c}" for c in s.coordinates]
            self.parameters |= {f"{key}_{k}": v for k, v in s.parameters.items()}
            offset, p_offset = offset + s.n, p_offset + s.par.numel()

    def _value(self, s: PortHamiltonian, role: str, x: SX, par: SX) -> SX:
        """A role of one system in the common symbols; zero if it does not have it."""
        f = s._functions.get(role)
        return SX(s.n, 1) if f is None else f(x, self.t, SX.zeros(s.nu), par)

    def _block(self, role: str) -> SX:
        return ca.diagcat(*self.values[role])

    def check_feedthrough(self, ports: Mapping[int, str]) -> None:
        """Raise an error if one of these ports has a feedthrough."""
        S, N, P = self._block("S"), self._block("N"), self._block("P")
        for i, port in ports.items():
            if S[i, :].nnz() or N[i, :].nnz() or P[:, i].nnz():
                raise ModelError(
                    f"port {port!r} has a feedthrough (S, N or P): connecting it makes an algebraic loop; put a state between, "
                    "or solve the loop by hand"
                )

    def matrices(self, K: NDArray[np.float64], rows: list[NDArray[np.float64]], free: list[int]) -> dict[str, SX]:
        """The matrices of the whole: `J + B K B^T`, bordered by the multipliers, and the ports that stay open."""
        E, J, R, B, P, S, N = (self._block(role) for role in ("E", "J", "R", "B", "P", "S", "N"))
        m, nu = self.m, len(free)
        C = SX(np.array(rows)) if rows else SX(0, B.shape[1])
        J = ca.blockcat([[J + B @ SX(K) @ B.T, -B @ C.T], [C @ B.T, SX(m, m)]])
        return {
            "E": ca.diagcat(E, SX(m, m)), "J": ca.sparsify(J), "R": ca.diagcat(R, SX(m, m)),
            "B": ca.vertcat(B[:, free], SX(m, nu)), "P": ca.vertcat(P[:, free], SX(m, nu)),
            "S": S[free, free], "N": N[free, free],
        }  # fmt: skip

    def energy(self) -> SX:
        """The sum of the Hamiltonians."""
        H = self.values["hamiltonian"]
        return sum(H[1:], H[0])

    def costates(self) -> SX:
        """The costates, multipliers last."""
        z = ca.vertcat(*self.values["z"])
        return ca.vertcat(z, self.x[self.n :]) if self.m else z

    def source(self) -> SX | None:
        """The right-hand side `r`; None if no system has one."""
        given = any(s.has("r") for s in self.systems.values())
        return ca.vertcat(*self.values["r"], SX(self.m, 1)) if given else None

    def initial(self) -> dict[str, NDArray[np.float64]] | None:
        """The initial values of all systems; None if one has none."""
        if not all("x" in s.initial for s in self.systems.values()):
            return None
        start = [np.asarray(s.initial["x"], dtype=float) for s in self.systems.values()]
        return {"x": np.concatenate([*start, np.zeros(self.m)])}

    def constraint(self) -> tuple[SX, list[int], list[int], list[int]] | None:
        """The constraints that keep their structure, and where their states and costates lie."""
        return (ca.vertcat(*self.constraints), *self.where) if self.constraints else None


def _find(port: object, ports: list[str]) -> int:
    if not isinstance(port, str) or port not in ports:
        raise ModelError(f"there is no port {shown(port)}{suggest(port, ports) if isinstance(port, str) else ''}")
    return ports.index(port)


def _opened(open: Sequence[str], ports: list[str], fixed: set[str]) -> set[str]:
    """Joined ports that get an input from outside as well."""
    given = listed("open", open, ModelError, "a list of ports")
    for port in given:
        _find(port, ports)
        if port in fixed:
            raise ModelError(f"port {port!r} cannot stay open: a da.Relation says all of its input; use da.Feedback or da.Couple")
    return set(given)


def _rules(ports: list[str], rules: Sequence[Rule]) -> tuple[NDArray[np.float64], list[NDArray[np.float64]], set[str], set[str]]:
    """The skew matrix `K`, the rows of `C`, the ports that are joined, and those of them whose input is fixed by a relation."""
    K, rows, joined, fixed = np.zeros((len(ports), len(ports))), [], set[str](), set[str]()

    def index(port: str) -> int:
        found = _find(port, ports)
        joined.add(port)
        return found

    for rule in listed("rules", rules, ModelError, "a list of pairs of ports, da.Feedback, da.Couple or da.Relation"):
        if isinstance(rule, tuple) and len(rule) == 2:
            rule = Feedback(*rule)
        if isinstance(rule, Feedback):
            i, j = index(rule.a), index(rule.b)
            if i == j:
                raise ModelError(f"port {rule.a!r} cannot be connected with itself")
            gain = number("gain", rule.gain, ModelError)
            K[i, j] += gain
            K[j, i] -= gain
        elif isinstance(rule, Couple):
            row = np.zeros(len(ports))
            for port, weight in mapping("weights", rule.weights).items():
                row[index(port)] = number(f"the weight of {port!r}", weight, ModelError)
            if not row.any():
                raise ModelError("a coupling needs at least one weight that is not zero")
            rows.append(row)
        elif isinstance(rule, Relation):
            own_K, own_rows = _relation(
                [index(p) for p in listed("ports", rule.ports, ModelError, "a list of ports")], rule, len(ports)
            )
            K += own_K
            rows += own_rows
            fixed |= set(rule.ports)
        else:
            raise ModelError(f"a rule is a pair of ports, da.Feedback, da.Couple or da.Relation, not {shown(rule)}")
    return K, rows, joined, fixed


def _relation(where: list[int], rule: Relation, count: int) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    M, N = (np.atleast_2d(reals(name, a, ModelError)) for name, a in (("M", rule.M), ("N", rule.N)))
    k = len(where)
    if M.shape != (k, k) or N.shape != (k, k):
        raise ModelError(
            f"M and N must be {k} x {k}, one row and column for each port, not {M.shape} and {N.shape}: ports of different size"
        )
    if np.linalg.matrix_rank(np.hstack([M, N])) < k:
        raise ModelError("the rows of [M N] are dependent: the relation does not fix all ports")
    power = M @ N.T + N @ M.T
    if np.abs(power).max() > 1e-10 * max(1.0, np.abs(M).max() * np.abs(N).max()):
        i, j = np.unravel_index(np.abs(power).argmax(), power.shape)
        raise ModelError(
            f"the relation does not preserve power: M N^T + N M^T has the entry ({i + 1}, {j + 1}) = {power[i, j]:.4g}"
        )
    # all (y, u) of the relation: y = Y a, u = U a
    basis = np.linalg.svd(np.hstack([M, N]))[2][k:].T
    Y, U = basis[:k], basis[k:]
    left, sizes, _ = np.linalg.svd(Y)
    rank = int((sizes > 1e-12).sum())
    inside, outside = left[:, :rank], left[:, rank:]
    own = inside @ (inside.T @ U @ np.linalg.pinv(Y) @ inside) @ inside.T
    K = np.zeros((count, count))
    K[np.ix_(where, where)] = (own - own.T) / 2
    rows = []
    for column in outside.T:
        row = np.zeros(count)
        row[where] = column
        rows.append(row)
    return K, rows
