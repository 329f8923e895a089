"""The functions of one solve: its iteration with the elimination written out, and what loops need to eliminate instead."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import casadi as ca

from dalembert.engine.drafts import Draft, shared, split
from dalembert.engine.looks import Look
from dalembert.engine.looped import Loops
from dalembert.methods.step import Solve
from dalembert.systems.instructions import as_written

SX = ca.SX


class Changes(NamedTuple):
    """The iteration of a solve with its elimination written out."""

    begin: ca.Function
    renew: ca.Function
    update: ca.Function


@dataclass(frozen=True)
class Stage:
    """The functions of one solve; those of its iteration are made when first needed."""

    number: int
    look: Look
    draft: Draft
    common: list[SX]
    hot: list[SX]
    earlier: list[SX]  # unknowns of solves before

    @property
    def solve(self) -> Solve:
        return self.draft.solve

    @property
    def linear(self) -> bool:
        """Whether one update is all that is needed."""
        return self.draft.linear

    @property
    def loops(self) -> Loops | None:
        """How the unknowns are eliminated where that is not written out."""
        return self.draft.loops

    @property
    def known(self) -> list[SX]:
        return [*self.common, *self.earlier]

    @property
    def _known(self) -> list[SX]:
        return [*self.hot, *self.earlier]

    @cached_property
    def guess(self) -> ca.Function:
        solve = self.solve
        with as_written():
            return ca.Function(f"guess{self.number}", [*self._known, solve.last, solve.before], [ca.densify(self.draft.guess)])

    @cached_property
    def changes(self) -> Changes:
        """The iteration as functions."""
        draft, hot, k = self.draft, self._known, self.number
        solve, x, at, scale = draft.solve, draft.x, draft.at, draft.scale
        history = [solve.last, solve.before]
        with as_written():
            outputs, symbols, constants = split(draft.changed, [x, scale] if self.look.seen is None else [x])
            first = ca.Function("first", [x, at, scale, *hot], [*draft.changed, constants])
            renew = ca.Function(f"renew{k}", [*hot, x, scale], shared(first.call([x, x, scale, *hot])))
            start = self.guess(*hot, *history)
            if self.linear:  # the Jacobian is the same everywhere; weights are those of the first iterate
                begin = shared([*draft.start, first.call([x, draft.start[0], scale, *hot])[2]])
            else:
                begin = shared(first.call([start, start, scale, *hot]))
        return Changes(
            ca.Function(f"begin{k}", [*hot, *history, scale], begin),
            renew,
            ca.Function(f"update{k}", [x, scale, symbols], outputs),
        )

    @property
    def begin(self) -> ca.Function:
        return self.changes.begin

    @property
    def renew(self) -> ca.Function:
        return self.changes.renew

    @property
    def update(self) -> ca.Function:
        return self.changes.update

    @cached_property
    def equations(self) -> ca.Function:
        """(known, x) -> entries of the Jacobian, residual, and the right side of linear equations; for the loops."""
        draft = self.draft
        with as_written():
            outputs = shared([draft.J.nz[:], draft.residual, draft.right])
            return ca.Function("equations", [*self._known, draft.x], outputs)

    @cached_property
    def weights(self) -> ca.Function:
        """(x, scale) -> what changes are measured with."""
        draft = self.draft
        with as_written():
            return ca.Function("weights", [draft.x, draft.scale], [draft.weights(draft.x)])

    @cached_property
    def sized(self) -> ca.Function:
        """(change, residual, weights, scale) -> the square of the size of a change."""
        draft, n = self.draft, self.n
        change, residual = SX.sym("change", n), SX.sym("residual", n)
        weights = SX.sym("weights", 0 if draft.seen is None else len(draft.seen))
        with as_written():
            size = draft.sized(change, residual, weights)
            return ca.Function("sized", [change, residual, weights, draft.scale], [size])

    @property
    def operations(self) -> tuple[int, int]:
        """What three updates cost: operations, and those of them that are not done in loops."""
        if self.loops is None:
            total = int(self.begin.n_instructions()) + 2 * int(self.update.n_instructions())
            return total, total
        written = 3 * int(self.equations.n_instructions()) + self.draft.J.nnz()
        return written + 2 * self.loops.products + 6 * self.n**2, written

    @cached_property
    def residual(self) -> ca.Function:
        """(x, everything) -> residual, Jacobian; for the pivoted solver."""
        x, residual = self.solve.unknowns, ca.densify(self.solve.residual)
        return ca.Function("residual", [x, *self.known], [residual, ca.jacobian(residual, x)])

    @property
    def n(self) -> int:
        return self.look.n

    @property
    def constants(self) -> int:
        return int(self.update.size1_in(2))
