"""Lagrangian modelling: any `L(q, v, t)` with constraints and generalised forces.

    d/dt L_v - L_q = Q - G^T lam

Where `L = v^T M(q) v / 2 + b(q, t) . v - V(q, t)` the result is a `Mechanical` system: `b` acts with the gyroscopic force
`(b_j,i - b_i,j) v_j - b_i,t`. Any other Lagrangian becomes an `IndexOneDAE` in `y = (q, v)`, `z = (a, lam)`,
`L_vv a + L_vq v + L_vt - L_q = Q - G^T lam`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import casadi as ca
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.errors import ModelError, suggesting
from dalembert.systems.base import System
from dalembert.systems.constrained import Roles
from dalembert.systems.dae import IndexOneDAE
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.picture import Picture
from dalembert.systems.shapes import scalar
from dalembert.systems.tracing import Model


@suggesting(options=Roles.__annotations__)
def Lagrangian(
    coordinates: Sequence[str] | int,
    *,
    lagrangian: Model,
    parameters: Mapping[str, ArrayLike] | None = None,
    name: str | None = None,
    initial: Mapping[str, ArrayLike] | None = None,
    picture: Picture | None = None,
    **roles: Unpack[Roles],
) -> Mechanical | IndexOneDAE:
    """A system from its Lagrangian `L(q, v, t)`, written in NumPy.

    `holonomic`, `nonholonomic`, `dissipation`, `force`, `inputs` and the other arguments are those of `Mechanical`.
    """
    s = Mechanical.__new__(Mechanical)
    System.__init__(s, coordinates, parameters, "Lagrangian" if name is None else name, initial, None)
    s._define_common(roles, picture)
    L = scalar("lagrangian", s._trace("lagrangian", lagrangian, ("q", "v", "t")))
    M = ca.hessian(L, s.v)[0]
    still = [c for i, c in enumerate(s.coordinates) if not M[i, :].nnz()]
    if still:
        raise ModelError(
            f"the Lagrangian has no kinetic energy in {still[0]!r}: d2L/dv2 vanishes there; give it a mass, or remove it"
        )
    if ca.depends_on(M, s.v) or ca.depends_on(M, s.t):
        return _general(s, L, M)
    s._define("mass", ca.sparsify(M))
    zero = SX.zeros(s.n)
    s._define("potential", ca.densify(-ca.substitute(L, s.v, zero)))
    b = ca.substitute(ca.gradient(L, s.v), s.v, zero)
    turn = ca.jacobian(b, s.q)
    gyroscopic = ca.sparsify((turn.T - turn) @ s.v - ca.jacobian(b, s.t))
    if gyroscopic.nnz():
        own = s.expression("force") if s.has("force") else SX(s.n, 1)
        s._define("force", ca.densify(own + gyroscopic))
    s._check_numbers("mass", "dissipation")
    return s


def _general(s: Mechanical, L: SX, M: SX) -> IndexOneDAE:
    """The equations of a Lagrangian that is not quadratic in the velocities, in implicit form."""
    n, m = s.n, s.m
    a, lam = SX.sym("a", n), SX.sym("lam", m)
    p = ca.gradient(L, s.v)
    forces = s.applied(s.q, s.v, s.t, s.u) - s.damping(s.q, s.v, s.t)
    rows = M @ a + ca.jtimes(p, s.q, s.v) + ca.jacobian(p, s.t) - ca.gradient(L, s.q) - forces
    if m:
        G = s.role("jacobian")
        rows = ca.vertcat(rows + G.T @ lam, G @ a + s.role("curvature"))
    names = (*s.coordinates, *(f"v_{c}" for c in s.coordinates))
    initial = {"y": [*s.initial["q"], *s.initial["v"]]} if {"q", "v"} <= set(s.initial) else {}
    return IndexOneDAE.of_expressions(
        s, names, ca.vertcat(s.q, s.v), ca.vertcat(a, lam), [ca.vertcat(s.v, a)], ca.densify(rows), initial
    )
