"""Normal forms of a matrix `E(x, t)` of constant rank, by elimination (Kinon, Morandin, Schulze 2025, appendix F).

Near a few states some rows `I` and columns `K` of `E` form an invertible block `C`, and with `Y = C^-1 E_IK'`, `L = E_I'K C^-1`

    U^T E P = [C  C Y; 0  0],    U^T = [P_I; P_I' - L P_I]     (corollary 4, without the factor C^-1).

Where `Y` does not depend on the state, `x_K = w1 - Y(t) w2`, `x_K' = w2` makes the system semi-explicit; for `E(t)` this is the
transformation of a linear time-varying system (Symank 2025, theorem 4.3). Where it does, but not in the rows of states on which
the energy depends, the system is a semi-explicit one with parameters, and an equation for these (corollary 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import MethodError
from dalembert.systems.shapes import Array

if TYPE_CHECKING:
    from dalembert.systems.port_hamiltonian import PortHamiltonian

SMALL = 1e-10


@dataclass(frozen=True)
class Eliminated:
    """Rows and columns of the invertible block `C`, the others, and `Y` and `L`."""

    rows: list[int]
    others: list[int]
    columns: list[int]
    rest: list[int]
    C: SX
    Y: SX
    L: SX

    def factor(self, scaled: bool = False) -> SX:
        """`U`, and `U` times `C^-T` in its first columns if `scaled`."""
        n = len(self.rows) + len(self.others)
        eye = SX.eye(n)
        first = eye[:, self.rows]
        top = first @ ca.solve(self.C, SX.eye(len(self.rows))).T if scaled else first
        return ca.horzcat(top, eye[:, self.others] - first @ self.L.T)

    def costates(self, z: SX) -> tuple[SX, SX]:
        """`U^-1 z`, in its two parts."""
        return z[self.rows] + self.L.T @ z[self.others], z[self.others]


def eliminated(s: PortHamiltonian, first: Sequence[int] = ()) -> Eliminated:
    """The elimination of `E`, with pivots in the columns `first` as far as there are some."""
    samples = [s.matrix("E", x, t, s.pack()) for x, t in s.samples()]
    rows, columns = _pivots([E for E in samples if np.isfinite(E).all()], list(first))
    others, rest = ([i for i in range(s.n) if i not in part] for part in (rows, columns))
    E = s.expression("E")
    C = ca.densify(E[rows, columns])
    Y, L = ca.solve(C, ca.densify(E[rows, rest])), ca.solve(C.T, ca.densify(E[others, columns]).T).T
    return Eliminated(rows, others, columns, rest, C, ca.densify(Y), ca.densify(L))


def _pivots(samples: list[Array], first: list[int]) -> tuple[list[int], list[int]]:
    """Rows and columns of an invertible block that all samples have in common, as large as their rank."""
    left = [E.copy() for E in samples]
    size = max((float(np.abs(E).max(initial=0.0)) for E in left), default=0.0)
    rows: list[int] = []
    columns: list[int] = []
    while True:
        least = np.min([np.abs(E) for E in left], axis=0)
        least[rows], least[:, columns] = 0.0, 0.0
        if max(float(np.abs(E).max(initial=0.0)) for E in left) <= SMALL * size:
            return rows, columns
        wanted = [j for j in first if j not in columns and least[:, j].max(initial=0.0) > 1e-6 * size]
        within = least[:, wanted] if wanted else least
        i, k = (int(v) for v in np.unravel_index(within.argmax(), within.shape))
        j = wanted[k] if wanted else k
        if least[i, j] <= 1e-6 * size:
            raise MethodError("the rank of E changes from state to state, or no entries of it can be eliminated at all of them")
        left = [E - np.outer(E[:, j], E[i]) / E[i, j] for E in left]
        for E in left:
            E[i], E[:, j] = 0.0, 0.0
        rows.append(i)
        columns.append(j)


def values(s: PortHamiltonian, expression: SX) -> list[Array]:
    """An expression at the samples of a system: at each time all states."""
    f = ca.Function("f", [s.x, s.t, s.par], [expression])
    samples = s.samples()
    found = [np.array([f(x, t, s.pack()).full() for x, _ in samples]) for _, t in samples]
    return [each for each in found if np.isfinite(each).all()]


def without_state(s: PortHamiltonian, expression: SX) -> SX | None:
    """The same without the state where it does not matter, as a few states tell; else None."""
    if not ca.depends_on(expression, s.x):
        return expression
    for each in values(s, expression):
        if np.abs(each - each[0]).max(initial=0.0) > SMALL * max(1.0, float(np.abs(each).max(initial=0.0))):
            return None
    return ca.substitute(expression, s.x, SX(ca.DM(s.samples()[0][0])))


def orthogonal(s: PortHamiltonian, x: Array, t: float, par: Array) -> tuple[Array, Array]:
    """See `PortHamiltonian.factors`; rows and columns of the block are those of the elimination, so that nothing jumps."""
    E, e = s.matrix("E", x, t, par), eliminated(s)
    C, n = E[np.ix_(e.rows, e.columns)], s.n
    U, V = np.zeros((n, n)), np.zeros((n, n))
    r = len(e.rows)
    U[e.rows, np.arange(r)], V[e.columns, np.arange(r)] = 1.0, 1.0
    U[e.others, np.arange(r, n)], V[e.rest, np.arange(r, n)] = 1.0, 1.0
    U[np.ix_(e.rows, range(r, n))] = -np.linalg.solve(C.T, E[np.ix_(e.others, e.columns)].T)
    V[np.ix_(e.columns, range(r, n))] = -np.linalg.solve(C, E[np.ix_(e.rows, e.rest)])
    return _last_first(U), _last_first(V)


def _last_first(M: Array) -> Array:
    """`Q` of `M = Q L`, `L` lower triangular with a positive diagonal."""
    Q, R = np.linalg.qr(M[:, ::-1])
    return np.asarray((Q * np.where(np.diag(R) < 0, -1.0, 1.0))[:, ::-1])
