"""Equivalent forms of a port-Hamiltonian system: semi-explicit, in other coordinates, autonomous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.errors import MethodError
from dalembert.systems.base import System
from dalembert.systems.shapes import column
from dalembert.systems.tracing import Model

if TYPE_CHECKING:
    from dalembert.systems.port_hamiltonian import PortHamiltonian

MATRICES = ("E", "J", "R", "B", "P", "S", "N")


def semi_explicit(s: PortHamiltonian, parameters: Mapping[str, ArrayLike] | None) -> PortHamiltonian:
    """See `PortHamiltonian.semi_explicit`."""
    if s.blocks() is not None:
        return s
    if not s.constant_E:
        raise MethodError(
            "E depends on the state and is singular: a semi-explicit form cannot be found by algebra alone; give a "
            "transformation "
            "with system.transformed(phi, U)"
        )
    U, S, Vt = np.linalg.svd(s.at("E", np.zeros(s.n), 0.0, parameters))
    rank = int((1e-12 * S[0] < S).sum())
    names = [f"w{i}" for i in range(1, s.n + 1)]
    new = s.transformed(lambda x: Vt.T @ x, U, names)
    E = SX(s.n, s.n)
    for i in range(rank):
        E[i, i] = float(S[i])
    new._define("E", E)
    new.name = f"{s.name}, semi-explicit"
    return new


def transformed(
    s: PortHamiltonian, phi: Model, U: Model | None, coordinates: Sequence[str] | None, initial: ArrayLike | None
) -> PortHamiltonian:
    """See `PortHamiltonian.transformed`."""
    n = s.n
    new = SX.sym("x", n)
    host = System.__new__(type(s))
    System.__init__(host, list(coordinates or s.coordinates), s.parameters, s.name, None)
    host.x, host.t, host.u, host.par = new, s.t, s.u, s.par
    old = column("phi", host._trace("phi", phi, ("x", "t")), n)
    factor = SX.eye(n) if U is None else host._matrix("U", host._trace("U", U, ("x", "t")), (n, n))
    D = ca.jacobian(old, new)
    m = {k: s.expression(k, x=old) for k in MATRICES}
    m["J"] = s.structure(x=old)
    matrices = {
        "E": ca.sparsify(factor.T @ m["E"] @ D), "J": ca.sparsify(factor.T @ m["J"] @ factor),
        "R": ca.sparsify(factor.T @ m["R"] @ factor), "B": factor.T @ m["B"], "P": factor.T @ m["P"], "S": m["S"], "N":
    m["N"], }  # fmt: skip
    z = ca.solve(ca.densify(factor), s.expression("z", x=old))
    r = factor.T @ s.expression("r", x=old) if s.has("r") else None
    start = {"x": np.asarray(initial, dtype=float)} if initial is not None else None
    out = type(s).of_expressions(
        list(coordinates or s.coordinates), s.parameters, (new, s.t, s.u, s.par), matrices,
        s.expression("hamiltonian", x=old), z, r=r, name=f"{s.name}, transformed", ports=s.ports, initial=start,
        check=initial is not None,
    )  # fmt: skip
    if s.has("law"):
        out._define("law", s.expression("law", x=old))
    return out


def autonomous(s: PortHamiltonian) -> PortHamiltonian:
    """See `PortHamiltonian.autonomous`."""
    n = s.n
    x, tau = SX.sym("x", n + 1), SX.sym("t")
    at = {"x": x[:n], "t": x[n]}
    z = s.expression("z", **at)
    r = s.expression("r", **at) if s.has("r") else SX(n, 1)
    # with z_t = 0 the row of time is t' = 1; its power, z . r, belongs to the column of E
    E = ca.blockcat([[s.expression("E", **at), r], [SX(1, n), SX(1, 1)]])
    E[n, n] = 1
    p = s.nu
    u = SX.sym("u", p + 1)
    B = ca.blockcat([[s.expression("B", **at), SX(n, 1)], [SX(1, p), SX(1, 1)]])
    B[n, p] = 1

    def pad(m: SX) -> SX:
        return ca.blockcat([[m, SX(m.shape[0], 1)], [SX(1, m.shape[1]), SX(1, 1)]])

    matrices = {"E": E, "B": B, "J": pad(s.structure(**at)), "R": pad(s.expression("R", **at))}
    matrices["P"] = pad(s.expression("P", **at))
    matrices["S"], matrices["N"] = pad(s.expression("S", **at)), pad(s.expression("N", **at))
    start = {"x": np.append(s.initial["x"], 0.0)} if "x" in s.initial else None
    return type(s).of_expressions(
        [*s.coordinates, "time"], s.parameters, (x, tau, u, s.par), matrices, s.expression("hamiltonian", **at),
        ca.vertcat(z, 0), name=f"{s.name}, autonomous", ports=[*s.ports, "clock"], initial=start,
    )  # fmt: skip
