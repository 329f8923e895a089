"""Discrete gradient pairs `E(x0, x1)`, `z(x0, x1)` of port-Hamiltonian systems (Kinon, Morandin, Schulze 2025, definition 7).

    (i) z . E (x1 - x0) = H(x1) - H(x0),    (ii) E(x, x) = E(x),    (iii) z(x, x) = z(x)

With `E = U1 C V1^T`, `C` invertible, the pair is made of a discrete gradient of `H1(V1^T x) = H(x)`:

    E = E(in the step),    z = U1 C^-T D H1 + U2 z2(in the step)     (theorem 4, proposition 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import one_of, reals
from dalembert.discrete.differences import Ends
from dalembert.discrete.gradients import GRADIENTS, Field, Pullback, itoh_abe
from dalembert.errors import MethodError, ModelError, suggesting
from dalembert.systems.bases import Bases, structured_bases
from dalembert.systems.form import components
from dalembert.systems.port_hamiltonian import PortHamiltonian

RULES = {"midpoint": 0.5, "left": 0.0, "right": 1.0}
COMPLETIONS = ("auto", "midpoint", "right")


class Pair(NamedTuple):
    """`E(x0, x1)` and `z(x0, x1)` as numbers."""

    E: NDArray[np.float64]
    z: NDArray[np.float64]


def energy(s: PortHamiltonian, h: SX, V1: SX, alpha: SX, D: Pullback) -> tuple[SX, SX]:
    """The discrete gradient of `H1(V1^T x)`, whose argument has the rate `alpha`, and its rate of time."""
    xi, x = SX.sym("xi", alpha.numel()), V1.T @ s.x
    H = ca.substitute(s.expression("hamiltonian"), s.x, ca.densify(V1 @ xi))
    if not alpha.numel():  # no energy, or one of time alone
        return SX(0, 1), itoh_abe(Field(H, s.x, s.t, (s.par,)), Ends(s.x, s.x, s.t, s.t + h), SX(1.0))[1]
    ends = Ends(x, x + h * alpha, s.t, s.t + h, change=h * alpha)
    return D(Field(H, xi, s.t, (s.par,), parts=_parts(s, H, xi, V1)), ends, SX(1.0))


def _parts(s: PortHamiltonian, H: SX, xi: SX, V1: SX) -> list[list[int]]:
    """Groups of `xi` with an energy of their own: those that the system knows, else where `H` is a sum."""
    if s.parts and V1.nnz() == V1.size2():  # columns are unit vectors
        states = V1.sparsity().row()
        groups = [[i for i, state in enumerate(states) if state in part] for part in s.parts]
        return [*filter(None, groups), *([i] for i, state in enumerate(states) if not any(state in part for part in s.parts))]
    return components(ca.jacobian_sparsity(ca.gradient(H, xi), xi))


def index_one(s: PortHamiltonian, F: Bases) -> bool:
    """Whether the algebraic equations can be solved for the algebraic states."""
    if F.rank == s.n:
        return True
    rows = ca.vertcat(F.U2.T @ ca.jacobian(s.role("right"), s.x) @ F.V2, F.U3.T @ s.expression("E") @ F.V2)
    block = ca.Function("b", [s.x, s.t, s.u, s.par], [rows])
    for x, t in s.samples():
        value = np.asarray(block(x, t, np.zeros(s.nu), s.pack()).full())
        if np.isfinite(value).all() and np.linalg.cond(value) > 1e10:
            return False
    return True


def completion(z2: str, at: str, solvable: bool) -> str:
    """Where the algebraic costates are: at the midpoint algebraic states alternate, which matrices at the left end amplify."""
    if z2 != "auto":
        return z2
    return "midpoint" if solvable and at != "left" else "right"


@suggesting
def pair(
    system: PortHamiltonian, x0: ArrayLike, x1: ArrayLike, *, t: float = 0.0, kind: str = "equivariant", at: str = "midpoint",
    z2: str = "auto", parameters: Mapping[str, ArrayLike] | None = None,
) -> Pair:  # fmt: skip
    """The discrete gradient pair that `discrete-gradient` uses between two states, as numbers.

    `kind` is the discrete gradient, `at` where `E` is taken, `z2` where the costates of the algebraic equations are (`"auto"`:
    at the midpoint on index 1 unless matrices are at the left end, at the end else).
    """
    for name, value, known in (("kind", kind, GRADIENTS), ("at", at, RULES), ("z2", z2, COMPLETIONS)):
        one_of(name, value, known)
    if not isinstance(system, PortHamiltonian):
        raise MethodError("a discrete gradient pair is that of a PortHamiltonian system")
    s = system
    a, b = (reals(name, v, ModelError, "a vector of numbers") for name, v in (("x0", x0), ("x1", x1)))
    if a.shape != (s.n,) or b.shape != (s.n,):
        raise ModelError(f"x0 and x1 must be {s.n} numbers each, not of the shapes {a.shape} and {b.shape}")
    F = structured_bases(s)
    end = SX.sym("x1", s.n)
    DH, _ = energy(s, SX(1.0), F.V1, F.V1.T @ (end - s.x), GRADIENTS[kind])
    rule = completion(z2, at, index_one(s, F))
    E, z = (s.expression(role, x=s.x + RULES[where] * (end - s.x), t=s.t) for role, where in (("E", at), ("z", rule)))
    f = ca.Function("pair", [s.x, end, s.t, s.par], [E, F.U1.T @ E @ F.V1, ca.densify(DH), z])
    E1, C, slope, costate = (np.asarray(m.full()) for m in f(a, b, t, s.pack(parameters)))
    U1, U2 = (np.asarray(ca.DM(m).full()) for m in (F.U1, F.U2))
    return Pair(E1, (U1 @ np.linalg.solve(C.T, slope) + U2 @ (U2.T @ costate))[:, 0])
