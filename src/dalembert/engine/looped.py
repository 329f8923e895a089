"""Elimination in loops of C, for matrices that are too full to be written out as straight lines.

A full matrix of 43 unknowns takes 25 000 products: as expressions they take a compiler a quarter of a minute, and more than
the processor's caches hold. The same products in the same order, in loops over rows, give the same bits. Rows and columns
stand in the order of elimination, so that what a pivot acts on lies together; runs of columns are lengthened to whole vectors
over zeros, which change nothing (but what is not finite, and fails either way).
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.engine.elimination import Order
from dalembert.engine.writing import Writer

MANY = 2000  # products of an elimination from which it is done in loops
OFTEN = 4  # products for each entry of the factors: where there are fewer, loops take longer than straight lines
LARGEST = 256  # unknowns of a matrix that is stored with its zeros
VECTOR = 4  # numbers that are worked on together
NEAR = 4  # zeros between two runs up to which they are one

Runs = list[tuple[int, int]]  # columns from, and to


@dataclass(frozen=True)
class Filled:
    """A matrix in the order of elimination: the places of rows and unknowns, of its entries, and of those of its factors."""

    rows: list[int]
    unknowns: list[int]
    at: list[tuple[int, int]]  # of the entries, column by column as CasADi keeps them
    full: NDArray[np.bool_]
    below: list[list[int]]  # for each pivot the rows that it acts on
    products: int

    @classmethod
    def of(cls, sparsity: ca.Sparsity, order: Order) -> Filled:
        n = sparsity.size1()
        rows, unknowns = [0] * n, [0] * n
        for place, (i, j) in enumerate(order):
            rows[i], unknowns[j] = place, place
        at = [(rows[i], unknowns[j]) for i, j in zip(*sparsity.get_triplet(), strict=True)]
        full, products = np.zeros((n, n), dtype=bool), 0
        for i, j in at:
            full[i, j] = True
        full[np.arange(n), np.arange(n)] = True
        below: list[list[int]] = []
        for k in range(n):
            under, own = np.flatnonzero(full[k + 1 :, k]) + k + 1, full[k, k + 1 :]
            full[under, k + 1 :] |= own
            products += len(under) * int(own.sum())
            below.append(under.tolist())
        return cls(rows, unknowns, at, full, below, products)


@dataclass(frozen=True)
class Loops:
    """What loops go through: for each pivot the rows below and the runs of its own row, for each row the runs left of its pivot.

    `entries` are the places of the entries of a matrix, column by column as CasADi keeps them; `rows` and `unknowns` those of
    right sides and of what is found.
    """

    n: int
    width: int  # of a row, with its right end
    entries: list[int]
    rows: list[int]
    unknowns: list[int]
    below: list[list[int]]
    ahead: list[Runs]
    behind: list[Runs]
    products: int

    @classmethod
    def of(cls, sparsity: ca.Sparsity, order: Order) -> Loops | None:
        """The loops for a matrix with given pivots; None where it is better written out."""
        n = sparsity.size1()
        if n**3 < 3 * MANY or n > LARGEST:
            return None
        own = Filled.of(sparsity, order)
        full = own.full
        if own.products < max(MANY, OFTEN * int(full.sum())):
            return None
        width = -(-(n + VECTOR) // VECTOR) * VECTOR
        ahead = [[(a, a + -(-(b - a) // VECTOR) * VECTOR) for a, b in _runs(full[k], k + 1, n)] for k in range(n)]
        behind = [_runs(full[k], 0, k) for k in range(n)]
        entries = [i * width + j for i, j in own.at]
        return cls(n, width, entries, own.rows, own.unknowns, own.below, ahead, behind, own.products)

    @property
    def room(self) -> int:
        """Numbers that the matrix takes, and after it a right side."""
        return (self.n + 1) * self.width

    def tables(self, name: str) -> str:
        """What the loops go through, in C."""
        lists: dict[str, list[list[int]]] = {
            "below": self.below,
            "ahead": [[c for run in runs for c in run] for runs in self.ahead],
            "behind": [[c for run in runs for c in run] for runs in self.behind],
        }
        out = []
        for key, parts in lists.items():
            ends = np.cumsum([0, *map(len, parts)]).tolist()
            for kind, of, numbers in (("int", "at", ends), ("short", "of", [c for part in parts for c in part])):
                text = ", ".join(map(str, numbers)) or "0"
                out.append(f"static const {kind} {name}_{key}_{of}[] = {{{text}}};")
        fields = ", ".join(f"{name}_{key}_at, {name}_{key}_of" for key in lists)
        out.append(f"static const da_loops {name} = {{{self.n}, {self.width}, {fields}}};\n")
        return "\n".join(out)


def _runs(row: NDArray[np.bool_], begin: int, end: int) -> Runs:
    """The runs of entries of a row; those with few zeros between them are one."""
    out: Runs = []
    for c in (np.flatnonzero(row[begin:end]) + begin).tolist():
        if out and c - out[-1][1] <= NEAR:
            out[-1] = (out[-1][0], c + 1)
        else:
            out.append((c, c + 1))
    return out


@dataclass
class Looped:
    """A matrix that is eliminated in loops: its entries, the right sides of first and later changes, and where all this lies."""

    loops: Loops
    name: str
    place: str
    entries: list[int]
    first: list[int]
    later: list[int]

    def at(self, place: int) -> str:
        return f"w[{self.place} + {place}]"

    def factor(self, w: Writer, indent: str) -> str:
        """Statements that make the factors."""
        fill = [f"{self.at(at)} = {w.use(v)};" for at, v in zip(self.loops.entries, self.entries, strict=True)]
        clear = f"memset(w + {self.place}, 0, {self.loops.room} * sizeof(double));"
        return indent.join([clear, w.lines(fill, indent), f"da_factor(&{self.name}, w + {self.place});"])

    def solve(self, right: list[int], w: Writer, indent: str) -> str:
        """Statements that put a change in the place of a right side."""
        own = self.loops.n * self.loops.width
        fill = [f"{self.at(own + at)} = {w.use(v)};" for at, v in zip(self.loops.rows, right, strict=True)]
        return indent.join([w.lines(fill, indent), f"da_back(&{self.name}, w + {self.place}, w + {self.place} + {own});"])
