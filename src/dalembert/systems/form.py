"""The equations of a system, stated once, for everything that needs them: methods, consistent values, diagnosis.

    inertia(y, t) y' = sum_m parts[m](y, w, lam, t, u),     0 = relation(y, w, t, u),     0 = levels(y, w, t)

| system | y | w | lam | inertia | relation |
|---|---|---|---|---|---|
| `Mechanical`, constant mass | q, v | | multipliers | M of v' | |
| `Mechanical`, `M(q)` | q, p | v | multipliers | | p = M(q) v |
| `Hamiltonian` | q, p | | multipliers | | |
| `PortHamiltonian` | x | | | E(x) | |
| `IndexOneDAE` | y | z | | | g(y, z) = 0 |
| `IndexTwoDAE`, `IndexThreeDAE` | y | | z | | |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import casadi as ca
from casadi import SX

SMALL = 6  # the largest block of a matrix that is inverted by hand


@dataclass(frozen=True)
class Power:
    """Powers as functions of `(y, w, lam, t, u)`.

    A constraint force `-G^T lam` has the power `-v . G^T lam`, which is `moving = lam . g_t` where the velocity constraint holds.
    """

    supplied: SX = field(default_factory=lambda: SX(0.0))
    reaction: SX = field(default_factory=lambda: SX(0.0))
    moving: SX = field(default_factory=lambda: SX(0.0))
    dissipated: SX = field(default_factory=lambda: SX(0.0))


@dataclass(frozen=True)
class Form:
    """The equations of a system; see the module.

    `state` has the symbols of what a step starts from, `begin` the blocks of `y` (and `w`, `lam` where the state has them)
    as expressions of it. `closing` defines what of the state at the end of a step is not in `y`: `w`, or `lam` where there is
    no `w`. `sizes` are the sizes at which round-off begins: of the rate of each block, of `w`, and of the residual of each level.
    `first` are rates before the first step, where zero is no good guess. `basis` are constant matrices `(U, V)` with
    `y' = V r` and the rows `U^T (...)`, in which the first `rank` rates are differential and the others algebraic; `closing` then
    defines the algebraic part at the end of a step, where the last stage does not. `slopes` are known derivatives: of a level by
    a block, of the right-hand side of a block by `"lam"`; a large system is differentiated without looking for them.
    """

    y: Mapping[str, SX]
    parts: tuple[Mapping[str, SX], ...]
    t: SX
    u: SX
    par: SX
    state: Mapping[str, SX]
    begin: Mapping[str, SX]
    sizes: Mapping[str, SX]
    w: SX = field(default_factory=lambda: SX(0, 1))
    lam: SX = field(default_factory=lambda: SX(0, 1))
    mu: SX = field(default_factory=lambda: SX(0, 1))
    inertia: Mapping[str, SX] = field(default_factory=dict)
    relation: SX = field(default_factory=lambda: SX(0, 1))
    closing: SX = field(default_factory=lambda: SX(0, 1))
    levels: Mapping[str, SX] = field(default_factory=dict)
    normal: SX | None = None
    power: Power = field(default_factory=Power)
    first: Mapping[str, SX] = field(default_factory=dict)
    basis: tuple[SX, SX, int] | None = None
    slopes: Mapping[str, Mapping[str, SX]] = field(default_factory=dict)
    _inverses: dict[str, SX | None] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        kind = type(self.t)
        for name in ("w", "lam", "mu", "relation", "closing"):  # what there is none of, as the other symbols are
            if not isinstance(getattr(self, name), kind):
                object.__setattr__(self, name, kind.sym(name, 0))

    def acting(self, block: str) -> list[int]:
        """The numbers of the parts that act on a block."""
        return [m for m, part in enumerate(self.parts) if block in part]

    def total(self, block: str) -> SX:
        """The whole right-hand side of a block."""
        return sum((part[block] for part in self.parts if block in part), type(self.t)(self.y[block].numel(), 1))

    def inverse(self, block: str) -> SX | None:
        """The inverse of the inertia of a block, where it is constant and of small blocks; else None."""
        if block not in self._inverses:
            varying = ca.vertcat(*self.y.values(), self.t)
            own = self.inertia.get(block)
            self._inverses[block] = type(self.t).eye(self.y[block].numel()) if own is None else inverse_by_blocks(own, varying)
        return self._inverses[block]

    def stabilised(self) -> Form:
        """The form of Gear, Gupta and Leimkuhler (1985): `q' = ... - g_q^T mu`, position constraints beside those of velocity."""
        if self.normal is None or "position" not in self.levels:
            return self
        mu = type(self.t).sym("mu", self.levels["position"].numel())
        shifted = {**self.parts[0], "q": self.parts[0]["q"] - self.normal.T @ mu}
        return replace(self, parts=(shifted, *self.parts[1:]), mu=mu)


def components(sparsity: ca.Sparsity) -> list[list[int]]:
    """The diagonal blocks into which a square matrix falls after a permutation."""
    labels = connected(sparsity)
    return [[i for i, k in enumerate(labels) if k == block] for block in range(max(labels, default=-1) + 1)]


def connected(sparsity: ca.Sparsity) -> list[int]:
    """The number of the part that each row of a square pattern belongs to, where an entry connects its row and its column."""
    n = sparsity.size1()
    both = sparsity.unite(sparsity.T).unite(ca.Sparsity.diag(n)) if n else sparsity
    count, order, cuts = both.scc() if n else (0, [], [0])
    labels = [0] * n
    for block in range(count):
        for i in order[cuts[block] : cuts[block + 1]]:
            labels[i] = block
    first = {k: place for place, k in enumerate(dict.fromkeys(labels))}  # in the order of the rows
    return [first[k] for k in labels]


def inverse_by_blocks(matrix: SX, varying: SX) -> SX | None:
    """The inverse of a matrix of small blocks that does not depend on `varying`; else None: it is then never inverted."""
    if ca.depends_on(matrix, varying):
        return None
    if matrix.sparsity().is_diag():
        return ca.diag(1 / ca.densify(ca.diag(matrix)))
    blocks = components(matrix.sparsity())
    if max(map(len, blocks)) > SMALL:
        return None
    inverse = SX(*matrix.shape)
    for block in blocks:
        inverse[block, block] = ca.inv(ca.densify(matrix[block, block]))
    return inverse
