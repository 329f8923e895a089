"""Interconnection of port-Hamiltonian systems: the whole is one again, and its Hamiltonian is the sum.

Power-preserving relations between the outputs `y` and inputs `u` of ports that are joined are all of the form

    u = K y - C^T lam + u_outside,    C y = 0,    K skew,

and give `J' = J + B K B^T` and one multiplier for each row of `C` (cf. Kinon, Morandin, Schulze 2025, sec. 1; Duindam et al.
2009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.errors import ModelError, suggest
from dalembert.systems.base import SX
from dalembert.systems.port_hamiltonian import PortHamiltonian


@dataclass(frozen=True)
class Feedback:
    """Output feedback between two ports, `u_a = gain y_b`, `u_b = -gain y_a`: a gyrator. What enters from outside is added."""

    a: str
    b: str
    gain: float = 1.0


@dataclass(frozen=True)
class Couple:
    """Kinematic coupling: `sum of weight * y = 0` over named ports, with one multiplier; `u` gets `-weight * lam`.

    `Couple({"cart.force": 1, "wagon.force": -1})` makes two velocities equal.
    """

    weights: Mapping[str, float]


@dataclass(frozen=True)
class Relation:
    """`M y + N u = 0` over a list of ports, power-preserving: `M N^T + N M^T = 0` and rank `[M N]` full."""

    ports: Sequence[str]
    M: Any
    N: Any


def connect(systems: Mapping[str, PortHamiltonian], rules: Sequence[Any], name: str = "connected") -> PortHamiltonian:
    """Join named systems by their ports, `"system.port"`; ports that are not closed by a rule stay open.

    Parameters of the whole are called `system_parameter`, its states `system_state`.
    """
    if not isinstance(systems, Mapping) or not systems:
        raise ModelError("connect takes a dictionary of named port-Hamiltonian systems, and a list of rules")
    for key, system in systems.items():
        if not isinstance(system, PortHamiltonian):
            raise ModelError(
                f"{key!r} is a {type(system).__name__}; connect joins PortHamiltonian systems (mechanical.to_port_hamiltonian())"
            )
        if not str(key).isidentifier():
            raise ModelError(f"a system cannot be called {key!r}: its name becomes part of names of states")
    ports = [f"{key}.{port}" for key, system in systems.items() for port in system.ports]
    K, rows, closed = _rules(ports, rules)
    n, m = sum(s.n for s in systems.values()), len(rows)
    x, t, u = SX.sym("x", n + m), SX.sym("t"), SX.sym("u", len(ports) - len(closed))
    par = SX.sym("par", sum(s.par.numel() for s in systems.values()))
    parts: dict[str, list[Any]] = {k: [] for k in ("E", "J", "R", "B", "P", "S", "N", "z", "H", "r")}
    names: list[str] = []
    parameters: dict[str, Any] = {}
    start: list[Any] = []
    constraints: list[Any] = []
    where: tuple[list[int], list[int], list[int]] = ([], [], [])
    offset = p_offset = 0
    for key, s in systems.items():
        at = {"q": x[offset : offset + s.n], "t": t}
        own = par[p_offset : p_offset + s.par.numel()]

        def value(role: str, s: Any = s, at: Any = at, own: Any = own) -> Any:
            f = s._functions.get(role)
            return SX(s.n, 1) if f is None else f(at["q"], SX(0, 1), SX(0, 1), t, SX.zeros(s.nu), own)

        if s.has("law"):
            raise ModelError(f"{key!r} has a feedback law of its own; join the system without it")
        for role in ("E", "R", "B", "P", "S", "N"):
            parts[role].append(value(role))
        parts["J"].append(value("J"))
        if s._constraint is not None:  # its blocks of J are left to the method, as they were
            constraints.append(value("constraint"))
            for mine, theirs in zip(where, s._constraint, strict=True):
                mine += [offset + i for i in theirs]
        parts["z"].append(value("z"))
        parts["H"].append(value("hamiltonian"))
        parts["r"].append(value("r"))
        names += [f"{key}_{c}" for c in s.coordinates]
        parameters |= {f"{key}_{k}": v for k, v in s.parameters.items()}
        start.append(np.asarray(s.initial["q"], dtype=float) if "q" in s.initial else None)
        offset += s.n
        p_offset += s.par.numel()
    E, J, R, B, P, S, N = (ca.diagcat(*parts[k]) for k in ("E", "J", "R", "B", "P", "S", "N"))
    touched = [i for i in range(len(ports)) if ports[i] in closed or np.abs(K[i]).any()]
    for i in touched:
        if S[i, :].nnz() or N[i, :].nnz() or P[:, i].nnz():
            raise ModelError(
                f"port {ports[i]!r} has a feedthrough (S, N or P): joining it makes an algebraic loop; put a state between, "
                f"or solve "
                "the loop by hand"
            )
    J = J + B @ SX(K) @ B.T
    C = SX(np.array(rows)) if rows else SX(0, len(ports))
    J = ca.blockcat([[J, -B @ C.T], [C @ B.T, SX(m, m)]])
    open_ = [i for i in range(len(ports)) if ports[i] not in closed]
    matrices = {
        "E": ca.diagcat(E, SX(m, m)),
        "J": ca.sparsify(J),
        "R": ca.diagcat(R, SX(m, m)),
        "B": ca.vertcat(B[:, open_], SX(m, len(open_))),
        "P": ca.vertcat(P[:, open_], SX(m, len(open_))),
        "S": S[open_, open_],
        "N": N[open_, open_],
    }
    z = ca.vertcat(*parts["z"], x[n:]) if m else ca.vertcat(*parts["z"])
    moving = any(s.has("r") for s in systems.values())
    r = ca.vertcat(*parts["r"], SX(m, 1)) if moving else None
    initial = {"q": np.concatenate([*start, np.zeros(m)])} if all(a is not None for a in start) else None
    return PortHamiltonian.of_expressions(
        [*names, *(f"coupling{i}" for i in range(1, m + 1))], parameters, (x, t, u, par), matrices,
        sum(parts["H"][1:], parts["H"][0]), z, r=r, name=name, ports=[ports[i].replace(".", "_") for i in open_], initial=initial,
        constraint=(ca.vertcat(*constraints), *where) if constraints else None,
    )  # fmt: skip


def _rules(ports: list[str], rules: Sequence[Any]) -> tuple[np.ndarray, list[np.ndarray], set[str]]:
    """The skew matrix `K`, the rows of `C`, and the ports that are closed."""
    K, rows, closed = np.zeros((len(ports), len(ports))), [], set[str]()

    def index(port: str) -> int:
        if port not in ports:
            raise ModelError(f"there is no port {port!r}{suggest(str(port), ports)}")
        return ports.index(port)

    for rule in rules:
        if isinstance(rule, tuple) and len(rule) == 2:
            rule = Feedback(*rule)
        if isinstance(rule, Feedback):
            i, j = index(rule.a), index(rule.b)
            if i == j:
                raise ModelError(f"port {rule.a!r} cannot be joined with itself")
            K[i, j] += rule.gain
            K[j, i] -= rule.gain
        elif isinstance(rule, Couple):
            row = np.zeros(len(ports))
            for port, weight in rule.weights.items():
                row[index(port)] = weight
            if not row.any():
                raise ModelError("a coupling needs at least one weight that is not zero")
            rows.append(row)
        elif isinstance(rule, Relation):
            own_K, own_rows = _relation([index(p) for p in rule.ports], rule, len(ports))
            K += own_K
            rows += own_rows
            closed |= set(rule.ports)
        else:
            raise ModelError(f"a rule is a pair of ports, da.Feedback, da.Couple or da.Relation, not {rule!r}")
    return K, rows, closed


def _relation(where: list[int], rule: Relation, count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    M, N = (np.atleast_2d(np.asarray(a, dtype=float)) for a in (rule.M, rule.N))
    k = len(where)
    if M.shape != (k, k) or N.shape != (k, k):
        raise ModelError(
            f"M and N must be {k} x {k}, one row and column a port, not {M.shape} and {N.shape}: ports of different size"
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
