"""How large things are: the sizes at which round-off begins, for Newton's test.

Accelerations of a step are defined to `eps |v| / h` by the velocities and to `eps |q| / h^2` by the positions. The positions'
part is taken with a small factor: it says where round-off may begin, not that digits may be given away before. Multipliers are
not measured at all: an index-3 step defines them to `cond(G M^-1 G^T) eps |q| / h^2` only, while what they do to the
accelerations, or to the constraint itself, is defined well.

Coordinates that act on each other, directly or through others, are of one group and have one size: their root mean square. What
does not act on them has a size of its own, so that a small mechanism beside a large one is solved as well as alone. A size here
has one entry for each group; `spread` gives each coordinate, or row, that of its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.systems.form import connected

if TYPE_CHECKING:
    from dalembert.systems.constrained import Constrained
    from dalembert.systems.port_hamiltonian import PortHamiltonian

POSITIONS = 1e-6
FAR = 1e16  # a step keeps what it holds to 1e-8 of its size: 1e8 times the motion that is known
ASIDE = 2.0**-5
STRAIGHT = 1e10  # of the positions and the smallest radius of curvature: what has a larger one is straight
Labels = tuple[int, ...]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """The groups of variables, and of further rows that couple them."""

    count: int
    variables: tuple[Labels, ...]
    rows: Labels


def groups(variables: Sequence[SX], owned: Sequence[SX], rows: SX) -> Groups:
    """The groups of the entries of variables.

    An entry of `owned` belongs to the variable at its place, one of `rows` to all that it contains.
    """
    i, j = pattern(variables, owned, rows).get_triplet()
    return labelled([v.numel() for v in variables], rows.numel(), (i, j))


def pattern(variables: Sequence[SX], owned: Sequence[SX], rows: SX) -> ca.Sparsity:
    """Which entries of `owned` and then of `rows` contain which variables."""
    n = sum(v.numel() for v in variables)
    between = SX(n - sum(e.numel() for e in owned), 1)
    return ca.jacobian_sparsity(ca.vertcat(*owned, between, rows), ca.vertcat(*variables))


def labelled(sizes: Sequence[int], rows: int, pairs: tuple[list[int], list[int]] | Indices) -> Groups:
    """The groups of variables of given sizes and of further rows, where pairs of them are coupled."""
    size = sum(sizes) + rows
    labels = _joined(pairs, size) if isinstance(pairs, np.ndarray) else connected(ca.Sparsity.triplet(size, size, *pairs))
    cuts = np.cumsum([0, *sizes])
    parts = tuple(tuple(labels[a:b]) for a, b in pairwise(cuts))
    return Groups(max(labels, default=-1) + 1, parts, tuple(labels[sum(sizes) :]))


def _joined(pairs: Indices, size: int) -> list[int]:
    """The same as `connected`, for many pairs."""
    from scipy.sparse import coo_matrix  # which small systems do not need
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(pairs.shape[1], dtype=np.int8), tuple(pairs)), shape=(size, size))
    count, found = connected_components(graph, directed=False)
    first = np.full(count, size)
    np.minimum.at(first, found, np.arange(size))
    order = np.empty(count, dtype=np.int64)
    order[np.argsort(first)] = np.arange(count)
    return [int(k) for k in order[found]]


def typical(x: SX, labels: Labels = (), count: int = 1) -> SX:
    """The root mean square of the entries, of each group."""
    if count == 1:
        return ca.norm_2(ca.densify(x)) / np.sqrt(x.numel()) if x.numel() else type(x)(0.0)
    if isinstance(x, ca.MX):
        return ca.sqrt(_mean(labels, count) @ ca.densify(x) ** 2)
    members: list[list[int]] = [[] for _ in range(count)]
    for i, k in enumerate(labels):
        members[k].append(i)
    return ca.vertcat(*(typical(x[own]) if own else SX(0.0) for own in members))


def _mean(labels: Labels, count: int) -> ca.DM:
    """The matrix that gives the means of groups."""
    shares = ca.DM(1 / np.maximum(np.bincount(labels, minlength=count), 1))
    pattern = ca.Sparsity.triplet(count, len(labels), list(labels), list(range(len(labels))))
    return ca.diag(shares) @ ca.DM.ones(pattern)


def spread(size: SX, labels: Labels) -> SX:
    """For each entry the size of its group; one size for all where there is one group."""
    if isinstance(size, ca.MX) and size.numel() > 1:
        return size[list(labels)]
    return size if size.numel() == 1 else ca.vertcat(*(size[k] for k in labels))


def full(size: SX, n: int) -> SX:
    """A size for each of `n` entries, of one for all of them or of as many."""
    return size if size.numel() == n else ca.repmat(size, n, 1)


def radii(G: SX, q: SX) -> SX:
    """For each row of a constraint matrix its radius of curvature, `|G_j| / |dG_j/dq|`: a rod's length; zero where it is linear.

    `|G_j|` times this is the size of the terms of `g_j`, wherever the origin of the coordinates lies. A row may have no
    curvature in passing, as `x - cos(angle)` at a right angle: the radius a little aside is taken where that is much smaller.
    """
    if not G.size1():
        return type(q)(0, 1)
    entries: SX = G.nz[:]
    rows = ca.Sparsity.triplet(G.size1(), entries.numel(), G.sparsity().row(), list(range(entries.numel())))
    bend = ca.sqrt(type(q).ones(rows) @ ca.densify(ca.sum2(ca.jacobian(entries, q) ** 2)))
    size = ca.sqrt(ca.sum2(G**2))
    here = ca.densify(ca.if_else(bend > 0, size / (bend + 1e-300), 0))
    way = ASIDE * typical(q) * ca.DM(np.cos(np.arange(q.numel())))
    (aside,) = ca.substitute([here], [q], [q + way])
    if G.size1() > 1:  # the rounding of a curvature that is zero, next to those that are not
        near = STRAIGHT * (typical(q) + ca.mmin(ca.if_else(here > 0, here, 1e300)))
        here, aside = ca.if_else(here < near, here, 0), ca.if_else(aside < near, aside, 0)
    return ca.if_else(ca.logic_and(aside > 0, ca.logic_or(2 * aside < here, ca.logic_not(here > 0))), aside, here)


def curved(G: SX, q: SX) -> list[int]:
    """The rows of a constraint matrix that depend on `q`: their constraints are not linear."""
    entries: SX = G.nz[:]
    if not entries.numel():
        return []
    rows = np.array(G.sparsity().row())
    return sorted({int(i) for i in rows[ca.jacobian_sparsity(entries, q).row()]})


class Motion:
    """The sizes of a mechanical or Hamiltonian system in one step, group by group."""

    def __init__(self, s: Constrained, h: SX, own: Groups) -> None:
        self.s, self.h = s, ca.fabs(h)  # sub-steps of a composition may go backwards
        self.count, (self.q, self.v), self.rows = own.count, own.variables, own.rows

    def positions(self, x: SX) -> SX:
        return typical(x, self.q, self.count)

    def velocities(self, x: SX) -> SX:
        return typical(x, self.v, self.count)

    def length(self) -> SX:
        """The size of the positions, and of the rods between them."""
        return self.positions(self.s.q) + typical(self.s.role("radius"), self.rows, self.count)

    def resolved(self, pull: SX, v: SX) -> SX:
        """The size of free accelerations `pull`, but no more than what moves parts by the positions and rods in a step.

        Reactions may cancel any acceleration, but for its round-off. That of a larger one is no excuse: positions are defined
        better. Constraints that are linear have no length to compare with.
        """
        rod = typical(self.s.role("radius"), self.rows, self.count) if self.s.m else type(v)(0.0)
        most = ((self.positions(self.s.q) + rod) / self.h + self.velocities(v)) / self.h
        return ca.if_else(rod > 0, ca.fmin(pull, most), pull) if self.s.m else ca.fmin(pull, most)

    def levels(self, v: SX, pull: SX) -> dict[str, SX]:
        """The sizes of constraint residuals: `|G_j| |q|` and `|G_j| |v|`, and what motion and forces of one step add to them.

        `pull` is the size of the free accelerations.
        """
        s, h = self.s, self.h
        if not s.m:
            return {}
        G = ca.fabs(s.role("jacobian"))
        fast = spread(h * pull + POSITIONS * self.length() / h, self.rows)
        velocity = (G @ ca.fabs(v) + ca.sum2(G) * fast) / 8
        out = {"velocity": velocity, "nonholonomic": velocity[s.mh :]}
        if s.mh:
            N = ca.fabs(s.role("normal"))
            step = spread(h * self.velocities(v) + h**2 * pull, self.rows[: s.mh])
            out["position"] = (N @ ca.fabs(s.q) + ca.sum2(N) * (step + s.role("normal_radius"))) / 8
        return out


class Ports:
    """The sizes of a port-Hamiltonian system in one step, group by group, in bases `V1`, `V2` of the co-range of `E`."""

    def __init__(self, s: PortHamiltonian, h: SX, V1: SX, V2: SX) -> None:
        own = groups((s.x,), (s.role("right") + s.expression("E") @ s.x,), SX(0, 1))
        (self.x,), self.count = own.variables, own.count
        self.one, self.two = self._columns(V1), self._columns(V2)
        self.h = ca.fabs(h)
        self.state = self.of(s.x)
        self.speed = self.of(s.role("right")) + POSITIONS * self.state / self.h + 1e-300 + 1e-3 * self.state

    def of(self, x: SX) -> SX:
        """The size of a vector with an entry for each state."""
        return typical(x, self.x, self.count)

    def _columns(self, V: SX) -> Labels:
        """The group of each vector of a basis; where one has entries of several groups, they are taken for one."""
        sparsity = V.sparsity()
        members = [[self.x[i] for i in sparsity.row()[a:b]] for a, b in pairwise(sparsity.colind())]
        if any(len(set(own)) > 1 for own in members):
            self.count, self.x = 1, (0,) * len(self.x)
            return (0,) * len(members)
        return tuple(own[0] for own in members)
