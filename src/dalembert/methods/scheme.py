"""Runge-Kutta-like methods as data: a tableau for each part of the equations, and the rows in which constraints hold.

A row has a weight for each place at which a constraint is looked at: the stages, further nodes, and the end of the step.

    classical         one tableau, constraints at the stages
    lobatto_pair      Lobatto IIIA for the positions, IIIB for the momenta; g at the stages 2 .. s, G v at the end (Jay 1996)
    murua             Gauss, constraints at the Lobatto nodes beside 0 (Murua 1997)
    specialized       one tableau, moments of the constraints at the stages, and the constraints at the end (Jay 2006)
    spark             the Lobatto family, one for each part, moments by Lobatto IIIA, and the end (Jay 2003)
    exchanged_pair    Lobatto IIIB for the positions, IIIA for the momenta, moments by quadrature, and the end

Facts about a scheme are computed from these data: order, symmetry, symplecticity, what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray

from dalembert.methods.tableaus import TOLERANCE, Tableau, murua_nodes, tableau

Array = NDArray[np.float64]
LOBATTO = ("lobatto-iiia", "lobatto-iiib", "lobatto-iiic", "lobatto-iiic*", "lobatto-iiid")


@dataclass(frozen=True, eq=False)
class Scheme:
    """Tableaus of the parts (the last serves all parts beyond), constraint rows by level, and further nodes `(c, A)`.

    Levels are `"position"`, `"velocity"` (of all constraints) and `"nonholonomic"`. `multipliers` maps the unknown
    multipliers to those that act at the stages, one row a stage; by default each stage has its own. With `carried` the first of
    them is the last one of the step before. `report` are weights of the stages' multipliers, and the node at which this mean
    is defined. `stabilised` is the form of Gear, Gupta and Leimkuhler.
    """

    tables: tuple[Tableau, ...]
    rows: Mapping[str, Array] = field(default_factory=dict)
    nodes: tuple[Array, Array] | None = None
    multipliers: Array | None = None
    carried: bool = False
    report: tuple[tuple[float, ...], float] | None = None
    stabilised: bool = False

    @property
    def stages(self) -> int:
        return self.tables[0].stages

    @property
    def c(self) -> Array:
        """The times of all places, in steps: stages, nodes, end."""
        return np.concatenate([self.tables[0].c, self.nodes[0] if self.nodes else [], [1.0]])

    def table(self, part: int) -> Tableau:
        """The tableau of a part."""
        return self.tables[min(part, len(self.tables) - 1)]

    def weights(self, part: int) -> Array:
        """Coefficients that lead to each place, one row a place."""
        own = self.table(part)
        return np.vstack([own.A, *([self.nodes[1]] if self.nodes else []), own.b])

    # ---- facts ------------------------------------------------------------------------------------------

    @cached_property
    def implicit(self) -> bool:
        """Whether a stage depends on itself or on a later one."""
        return not all(t.explicit for t in self.tables)

    @cached_property
    def divides(self) -> bool:
        """Whether rates must be solved for singly: a singular tableau cannot treat equations without inertia."""
        return any(np.linalg.matrix_rank(t.A) < t.stages for t in self.tables)

    @cached_property
    def ends(self) -> frozenset[str]:
        """The levels that hold at the end of the step."""
        out = set()
        for level, R in self.rows.items():
            # positions are moved by the first part alone
            tables = [self.weights(part) for part in range(1 if level == "position" else len(self.tables))]
            at_end = [all(np.abs(W[i] - W[-1]).max() < TOLERANCE for W in tables) for i in range(len(self.c))]
            if any(_spans(R, unit) for unit in np.eye(len(self.c))[at_end & (self.c == 1.0)]):
                out.add(level)
        return frozenset(out)

    @cached_property
    def free_order(self) -> int:
        """Order on equations without constraints."""
        return min(t.order for t in self.tables)

    @cached_property
    def order(self) -> int:
        """Order on constrained systems.

        That of the tableaus, where the constraints hold at the end of the step. Else `q + 1`, with `q` the stage order, and `q`
        where `R(inf) = 1` (Hairer, Lubich, Roche 1989, theorem 5.9).
        """
        if not self.rows or self.ends:
            return self.free_order
        T = self.tables[0]
        return T.C() if abs(self._limit - 1) < TOLERANCE else T.C() + 1

    @property
    def _limit(self) -> float:
        """`R(inf)` of the first tableau: by it the constraints at the end of a step are multiplied in the next one."""
        T = self.tables[0]
        return float(1 - T.b @ np.linalg.solve(T.A, np.ones(T.stages)))

    @cached_property
    def alternates(self) -> bool:
        """Whether constraints do not hold at the end of a step, but keep their size and change their sign from step to step."""
        return bool(self.rows) and not self.ends and abs(self._limit + 1) < TOLERANCE

    @cached_property
    def symmetric(self) -> bool:
        """Whether the step with `-h` undoes the step with `h`: tableaus and constraint rows are their own mirror image."""
        if self.carried or not all(t.symmetric for t in self.tables):
            return False
        kept = {*self.ends, *(["nonholonomic"] if "velocity" in self.ends else [])}
        return all(self._mirrored(R, level in kept) for level, R in self.rows.items())

    def _mirrored(self, R: Array, kept: bool) -> bool:
        """Whether rows are the same conditions backwards in time; what is kept holds at the beginning as well.

        A row is a functional on functions of time, given here by its values on shifted Legendre polynomials, which are even
        or odd about the middle of the step.
        """
        times = np.append(self.c, 0.0)
        rows = np.hstack([R, np.zeros((len(R), 1))])
        rows = np.vstack([rows, np.eye(len(times))[-2:]]) if kept else rows
        values = rows @ legvander(2 * times - 1, 2 * len(times))
        signs = (-1.0) ** np.arange(values.shape[1])
        return all(_spans(values, row * signs) for row in values)

    @cached_property
    def symplectic(self) -> bool:
        """Whether free Hamiltonian systems keep their symplectic structure: `b_i ab_ij + b_j a_ji = b_i b_j`."""
        A, B = self.table(0), self.table(1)
        defect = A.b[:, None] * B.A + B.b[None, :] * A.A.T - np.outer(A.b, B.b)
        return bool(np.abs(defect).max() < TOLERANCE)

    @cached_property
    def symplectic_on_constraints(self) -> bool:
        """Whether holonomic systems do too: positions satisfy their constraints at every stage (Jay 1996, theorem 2)."""
        if not self.symplectic or "position" not in self.rows or self.stabilised or self.carried:
            return False
        at = {int(np.flatnonzero(row)[0]) for row in self.rows["position"] if np.count_nonzero(row) == 1}
        return all(i in at or not self.table(0).A[i].any() for i in range(self.stages))


def _spans(rows: Array, row: Array) -> bool:
    """Whether a row is a combination of others."""
    weights = np.linalg.lstsq(rows.T, row, rcond=None)[0]
    return bool(np.abs(weights @ rows - row).max() < 1e-9)


def at(places: range | list[int], count: int) -> Array:
    """The constraint at each of these places, of so many."""
    return np.eye(count)[list(places)]


def classical(family: str, s: int) -> Scheme:
    """A classical method: the constraints at the stages (Hilden 2009, eq. 2.15)."""
    return of_tableau(tableau(family, s))


def free(family: str, s: int) -> Scheme:
    """A classical method for equations without constraints: its stages do not determine multipliers."""
    return Scheme((tableau(family, s),))


def of_tableau(table: Tableau) -> Scheme:
    """One tableau, the constraints at its stages; a first stage that is the beginning of the step determines no multiplier."""
    first = int(not table.A[0].any())
    return Scheme((table,), {"velocity": at(range(first, table.stages), table.stages + 1)}, carried=bool(first))


def lobatto_pair(s: int) -> Scheme:
    """Jay's pair: Lobatto IIIA moves the positions, IIIB the momenta (Jay 1996; Symank 2025, sec. 6.2).

    Each stage but the last has its multiplier, which makes the positions of the next satisfy their constraint; that of the last
    makes the velocities at the end satisfy theirs.
    """
    pair = tableau("lobatto-iiia", s), tableau("lobatto-iiib", s)
    return Scheme(pair, {"position": at(range(1, s), s + 1), "velocity": at([s], s + 1)})


def rattle() -> Scheme:
    """The pair of two stages; the mean of its multipliers is that of the middle of the step, to second order."""
    return replace(lobatto_pair(2), report=((0.5, 0.5), 0.5))


def shake() -> Scheme:
    """The pair of two stages with positions alone (Ryckaert, Ciccotti, Berendsen 1977; Symank 2025, sec. 6.2.1).

        q2 - 2 q1 + q0 = h^2 M^-1 (f(q1) - G(q1)^T lam1),   g(q2) = 0

    as a one-step method: a multiplier acts in the second half of one step and in the first half of the next, which makes
    up for the one that was used before it was known.
    """
    pair = lobatto_pair(2)
    rows = {"position": pair.rows["position"]}
    return replace(pair, rows=rows, multipliers=np.array([[-1.0, 2.0], [0.0, 1.0]]), carried=True, report=((0.0, 1.0), 0.0))


def mixed_pair(s: int) -> Scheme:
    """The pair with nonholonomic constraints: moments of their residual take the place of positions (Hilden 2009, eq. 2.25)."""
    pair = lobatto_pair(s)
    moments = np.hstack([pair.tables[0].A[1:], np.zeros((s - 1, 1))])
    return replace(pair, rows={**pair.rows, "nonholonomic": moments})


def murua(s: int, stabilised: bool = False) -> Scheme:
    """Murua's method, on the index-2 form or on the stabilised one (Symank 2025, sec. 6.3)."""
    nodes = murua_nodes(s)
    rows = {"velocity": at(range(s, 2 * s), 2 * s + 1)}
    rows |= {"position": rows["velocity"]} if stabilised else {}
    return Scheme((tableau("gauss", s),), rows, nodes, stabilised=stabilised)


def separated(omega: Array, acting: Tableau) -> Array:
    """Rows combined such that each multiplier has its own: what it does to the constraints is then a diagonal."""
    return np.asarray(np.linalg.solve(omega[:, :-1] @ acting.A + np.outer(omega[:, -1], acting.b), omega))


def specialized(family: str, s: int) -> Scheme:
    """The constraint at the end, and its moments `b^T C^(i-1)` over the stages (Hilden 2009, eqs. 2.26, 2.27)."""
    T = tableau(family, s)
    moments = np.array([T.b * T.c**i for i in range(s - 1)]).reshape(s - 1, s)
    omega = np.vstack([np.append(np.zeros(s), 1.0), np.hstack([moments, np.zeros((s - 1, 1))])])
    return Scheme((T,), {"velocity": separated(omega, T)})


def spark(s: int, parts: int) -> Scheme:
    """The Lobatto family, one tableau a part; moments by rows 2 .. s of IIIA, and the end (Hilden 2009, eqs. 2.19, 2.20)."""
    tables = tuple(tableau(family, s) for family in LOBATTO[:parts])
    omega = np.zeros((s, s + 1))
    omega[:-1, :-1], omega[-1, -1] = tables[0].A[1:], 1.0
    return Scheme(tables, {"velocity": separated(omega, tables[-1])})


def exchanged_pair(s: int) -> Scheme:
    """Lobatto IIIB for the positions and IIIA for the momenta: McLachlan and Perlmutter's for two stages.

    (Hilden 2009, sec. 3.3.3.) IIIA begins with an explicit stage and ends at the end of the step: the multipliers of the stages
    enter by `s - 1` combinations only, and one for each stage with as many constraints is too many (the source's own iteration
    fails). Here the multipliers are a polynomial of degree `s - 2` at the stages, and the velocity constraint holds at the end
    and in the mean with all polynomials of degree `s - 3`. The order is `2 s - 2`, by measurement.
    """
    B, A = tableau("lobatto-iiib", s), tableau("lobatto-iiia", s)
    polynomials = legvander(2 * A.c - 1, s - 2)
    rows = np.zeros((s - 1, s + 1))
    rows[:-1, :-1], rows[-1, -1] = (A.b[:, None] * polynomials[:, :-1]).T, 1.0
    return Scheme((B, A), {"velocity": rows}, multipliers=polynomials)
