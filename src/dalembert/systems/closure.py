"""The equations that define the algebraic states of a port-Hamiltonian system, given the others.

With bases of the range and co-range of `E`, `x = V1 x1 + V2 x2`, the algebraic equations are `0 = U2^T right(x)`. Where one of
them contains an algebraic state it defines one (index 1). Where it contains none, its rate along the motion does (index 2):

    d/dt (U2^T right) = U2^T (right_x V1 x1' + right_t) = 0,    U1^T E V1 x1' = U1^T right.

Methods that do not end with a stage, Gauss for example, do not determine `x2` at the end of a step; these equations do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import casadi as ca
from casadi import SX

from dalembert.errors import MethodError
from dalembert.systems.bases import Bases, bases
from dalembert.systems.form import components

if TYPE_CHECKING:
    from dalembert.systems.port_hamiltonian import PortHamiltonian

BLOCK = 6  # the largest block of `U1^T E V1` that is inverted by formula


def closure(s: PortHamiltonian) -> tuple[SX, Bases] | None:
    """As many equations as there are algebraic states, and the bases; None where there are none, or no such ones."""
    try:
        F = bases(s)
    except MethodError:
        return None
    if F.rank == s.n:
        return None
    right = s.role("right")
    stated = F.U2.T @ right
    free = ca.jacobian(stated, s.x) @ F.V2
    hidden = [i for i in range(stated.numel()) if not ca.sparsify(free[i, :]).nnz()]
    rows = [stated[i] for i in range(stated.numel()) if i not in hidden]
    if hidden:
        below = stated[hidden]
        if ca.depends_on(below, s.u):  # its rate contains that of the input, which is not known
            return None
        rate = _solved(F.U1.T @ s.expression("E") @ F.V1, F.U1.T @ right)
        if rate is None:
            return None
        rows.append(ca.jacobian(below, s.x) @ (F.V1 @ rate) + ca.jacobian(below, s.t))
    out = ca.densify(ca.vertcat(*rows))
    slopes = ca.jacobian(out, s.x) @ F.V2
    return (out, F) if ca.sprank(slopes.sparsity()) == s.n - F.rank else None


def _solved(matrix: SX, b: SX) -> SX | None:
    """`matrix^-1 b` by small blocks."""
    out = SX(b.numel(), 1)
    for block in components(matrix.sparsity()):
        if len(block) > BLOCK:
            return None
        out[block] = ca.inv(ca.densify(matrix[block, block])) @ b[block]
    return out
