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
from dalembert.systems.generators import coordinates, generators
from dalembert.systems.normal_forms import SMALL, eliminated, values, without_state
from dalembert.systems.shapes import Array, column
from dalembert.systems.tracing import Model

if TYPE_CHECKING:
    from dalembert.systems.port_hamiltonian import PortHamiltonian

MATRICES = ("E", "J", "R", "B", "P", "S", "N")


def semi_explicit(s: PortHamiltonian, parameters: Mapping[str, ArrayLike] | None) -> PortHamiltonian:
    """See `PortHamiltonian.semi_explicit`."""
    if s.blocks() is not None:
        return s
    if not s.constant_E:
        return _by_elimination(s)
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


def _by_elimination(s: PortHamiltonian) -> PortHamiltonian:
    """The semi-explicit form where the null space of `E` depends on time alone."""
    e = eliminated(s)
    Y = without_state(s, e.Y)
    if Y is None:
        raise MethodError(
            "E is singular and its null space depends on the state: a semi-explicit form cannot be found by algebra alone; "
            "give a transformation with system.transformed(phi, U), or try system.parametrised()"
        )
    w, r = SX.sym("x", s.n), len(e.rows)
    old = SX(s.n, 1)
    old[e.columns], old[e.rest] = w[:r] - Y @ w[r:], w[r:]
    start = None
    if "x" in s.initial:
        x = np.asarray(s.initial["x"], dtype=float)
        shift = np.asarray(ca.Function("Y", [s.t, s.par], [Y])(0.0, s.pack()).full())
        start = np.concatenate([x[e.columns] + shift @ x[e.rest], x[e.rest]])
    at = {"x": ca.densify(old)}
    # the energy does not depend on the algebraic states: they are left out of its expression
    H = ca.substitute(s.expression("hamiltonian", **at), w[r:], SX(ca.DM(s.samples()[0][0][e.rest])))
    E = ca.diagcat(_moved(s, e.C, at["x"]), SX(s.n - r, s.n - r))
    known = {"E": E, "H": H, "z": _moved(s, ca.vertcat(*e.costates(s.expression("z"))), at["x"])}
    names = [f"w{i}" for i in range(1, s.n + 1)]
    new = _changed(s, w, at["x"], _moved(s, e.factor(), at["x"]), names, start, known)
    new.name = f"{s.name}, semi-explicit"
    return new


def parametrised(s: PortHamiltonian, functions: Model | None, inverse: Model | None) -> PortHamiltonian:
    """See `PortHamiltonian.parametrised`."""
    if functions is None:
        if inverse is not None:
            raise MethodError("inverse=... is that of functions=...")
        return _parametrised(s, 0)
    f = generators(s, functions)
    c = coordinates(s, f, inverse)
    new = _changed(s, c.w, c.old, SX.eye(s.n), c.names, c.start, {})
    new.name = s.name
    return _parametrised(new, f.numel())


def _parametrised(s: PortHamiltonian, functions: int) -> PortHamiltonian:
    """By elimination; the first states are the functions of theorem 8."""
    slopes = np.concatenate([each[:, :, 0] for each in values(s, s.role("gradient"))])
    sizes = np.abs(slopes).max(axis=0, initial=0.0)
    stored = [j for j in range(s.n) if j < functions or sizes[j] > SMALL * sizes.max(initial=0.0)]
    e = eliminated(s, stored)
    missing = [s.coordinates[j] for j in stored if j not in e.columns]
    tops = [e.columns.index(j) for j in stored if j in e.columns]
    turning = max((float(np.abs(Y[:, tops]).max(initial=0.0)) for Y in values(s, e.Y)), default=0.0)
    if missing or turning > SMALL:
        raise MethodError(
            "the rates of states on which the energy depends cannot be separated from the others: give functions=..., of which "
            "the energy is a function and whose gradients are combinations of the rows of E"
        )
    r, p = len(e.rows), len(tops)
    thetas = [k for k in range(r) if k not in tops]
    w = SX.sym("x", s.n)
    old = SX(s.n, 1)
    order = [*(e.columns[k] for k in tops), *e.rest, *(e.columns[k] for k in thetas)]
    old[order] = w
    old = ca.densify(old)
    rows = [*tops, *range(r, s.n), *thetas]
    E = SX(s.n, s.n)
    E[:p, :p] = SX.eye(p)
    E[s.n - r + p :, p : s.n - r + p] = _moved(s, e.Y[thetas, :], old)
    E[s.n - r + p :, s.n - r + p :] = SX.eye(r - p)
    energy = ca.substitute(s.expression("hamiltonian", x=old), w[p:], SX(ca.DM(s.samples()[0][0][order[p:]])))
    z = ca.vertcat(ca.gradient(energy, w)[:p], s.expression("z", x=old)[e.others], SX(r - p, 1))
    start = np.asarray(s.initial["x"], dtype=float)[order] if "x" in s.initial else None
    names = [s.coordinates[i] for i in order]
    new = _changed(s, w, old, _moved(s, e.factor(scaled=True)[:, rows], old), names, start, {"E": E, "H": energy, "z": z})
    new.name = f"{s.name}, parametrised"
    return new


def _moved(s: PortHamiltonian, expression: SX, old: SX) -> SX:
    """An expression of the state in other coordinates."""
    return ca.substitute(expression, s.x, old)


def transformed(
    s: PortHamiltonian, phi: Model, U: Model | None, names: Sequence[str] | None, initial: ArrayLike | None
) -> PortHamiltonian:
    """See `PortHamiltonian.transformed`."""
    n = s.n
    new = SX.sym("x", n)
    host = System.__new__(type(s))
    names = list(names or s.coordinates)
    System.__init__(host, names, s.parameters, s.name, None)
    host.x, host.t, host.u, host.par = new, s.t, s.u, s.par
    old = column("phi", host._trace("phi", phi, ("x", "t")), n)
    factor = SX.eye(n) if U is None else host._matrix("U", host._trace("U", U, ("x", "t")), (n, n))
    start = None if initial is None else np.asarray(initial, dtype=float)
    return _changed(s, new, old, factor, names, start, {})


def _changed(
    s: PortHamiltonian, new: SX, old: SX, factor: SX, names: Sequence[str], start: Array | None, known: Mapping[str, SX]
) -> PortHamiltonian:
    """The system with `x = old(new, t)` and equations times `factor^T`; `known` are `E`, `H` and `z` where they are simpler."""
    m = {k: s.expression(k, x=old) for k in MATRICES}
    m["J"] = s.structure(x=old)
    matrices = {
        "E": ca.sparsify(known.get("E", factor.T @ m["E"] @ ca.jacobian(old, new))), "J": ca.sparsify(factor.T @ m["J"] @ factor),
        "R": ca.sparsify(factor.T @ m["R"] @ factor), "B": factor.T @ m["B"], "P": factor.T @ m["P"], "S": m["S"], "N": m["N"],
    }  # fmt: skip
    z = known["z"] if "z" in known else ca.solve(ca.densify(factor), s.expression("z", x=old))
    rest = s.expression("r", x=old) if s.has("r") else SX(s.n, 1)
    moving = ca.jacobian(old, s.t)
    if moving.nnz():  # E x' contains what time alone moves
        rest += m["E"] @ moving
    out = type(s).of_expressions(
        names, s.parameters, (new, s.t, s.u, s.par), matrices, known.get("H", s.expression("hamiltonian", x=old)), z,
        r=factor.T @ rest if s.has("r") or moving.nnz() else None, name=f"{s.name}, transformed", ports=s.ports,
        initial=None if start is None else {"x": start}, check=start is not None,
    )  # fmt: skip
    if s.has("law"):
        out._define("law", s.expression("law", x=old))
    return out


def autonomous(s: PortHamiltonian) -> PortHamiltonian:
    """See `PortHamiltonian.autonomous`."""
    if s.depends("r", "u"):
        raise MethodError("inputs inside of f would become part of E: give time as a state of your own")
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
