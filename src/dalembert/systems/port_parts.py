"""The matrices, costates and names of a port-Hamiltonian system, from what a user gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import ModelError

if TYPE_CHECKING:
    from dalembert.systems.port_hamiltonian import PortHamiltonian


def port_number(n: int, traced: Mapping[str, SX]) -> int:
    """The number of inputs, from the shapes of `B`, `P`, `S` or `N`."""
    for key in ("B", "P"):
        if key in traced:
            shape = traced[key].shape
            if shape[0] != n and shape == (1, n):
                return 1
            if shape[0] != n:
                raise ModelError(f"{key} has the shape {shape}; it needs {n} rows, one for each state")
            return int(shape[1])
    for key in ("S", "N"):
        if key in traced:
            return int(traced[key].shape[0])
    return 0


def fitted(role: str, value: SX | None, shape: tuple[int, int]) -> SX:
    """A matrix of a given shape, from a matrix, a diagonal or a scalar; by default zero, or the identity for `E`."""
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


def costate(E: SX, gradient: SX, x: SX) -> SX:
    """`E^-T grad H`; states of zero columns of `E` stand for the costates of its zero rows."""
    n = x.numel()
    rows, columns = blocks(E)
    if len(rows) != len(columns):
        raise ModelError(
            f"E has {len(rows)} rows and {len(columns)} columns that are not zero: give the costate z with E^T z = grad H"
        )
    z = SX.zeros(n)
    if rows:
        z[rows] = ca.solve(E[rows, columns].T, gradient[columns])
    others = ([i for i in range(n) if i not in rows], [j for j in range(n) if j not in columns])
    for i, j in zip(*others, strict=True):
        z[i] = x[j]
    return ca.densify(z)


def shapes(n: int, p: int) -> dict[str, tuple[int, int]]:
    """The shapes of the matrices for `n` states and `p` inputs."""
    return {"E": (n, n), "J": (n, n), "R": (n, n), "B": (n, p), "P": (n, p), "S": (p, p), "N": (p, p)}


def blocks(E: SX) -> tuple[list[int], list[int]]:
    """Rows and columns with an entry."""
    pattern = ca.sparsify(E).sparsity()
    return sorted(set(pattern.row())), sorted(set(pattern.get_col()))


def block(s: PortHamiltonian) -> tuple[list[int], list[int]] | None:
    """See `PortHamiltonian.blocks`."""
    rows, columns = blocks(s.expression("E"))
    if len(rows) != len(columns):
        return None
    for x, t in s.samples():
        own = s.at("E", x, t)[np.ix_(rows, columns)]
        if np.isfinite(own).all() and rows and np.linalg.cond(own) > 1e12:
            return None
    return rows, columns
