"""Exact differences of what elements add up to: those of one repetition, traced once and mapped over all."""

from __future__ import annotations

from functools import cached_property

import casadi as ca
from casadi import SX

from dalembert.discrete.differences import Difference
from dalembert.systems.elements import Repeated


class Piece:
    """A role of an element at the two ends of a step, `"potential"` or `"holonomic"`; see `Difference`."""

    def __init__(
        self, element: Repeated, role: str, x0: SX, x1: SX, t: tuple[SX, SX], par: SX, rest: tuple[SX, SX] | None
    ) -> None:
        self.element, self.role, self.n = element, role, x0.numel()
        self._local = _local(element, role, rest is not None)
        moved = [element.rows(x) for x in (x0, x1, *(rest or ()))]
        self._arguments = [*moved, *t, element.constants(par)]

    @cached_property
    def y1(self) -> SX:
        """The values at the end, one after another."""
        return ca.vec(self.element.map(self._local[0], *self._arguments))

    def _seeds(self, seed: SX) -> SX:
        rows = self._local[1].size1_in(len(self._arguments))
        return seed if seed.numel() == 1 else ca.reshape(seed, rows, self.element.count)

    def pull(self, seed: SX) -> SX:
        """`sum_i seed_i S_i`, a column with an entry for each of `x` and one for the time; one seed serves all repetitions."""
        out = self.element.map(self._local[1], *self._arguments, self._seeds(seed))
        return ca.vertcat(self.element.added(ca.vec(out[:-1, :]), self.n), ca.sum2(out[-1, :]))


def _local(e: Repeated, role: str, low: bool) -> tuple[ca.Function, ca.Function]:
    """Of one repetition: values at the end, and pulled seeds."""
    x0, x1, r0, r1 = (SX.sym(name, e.size) for name in ("x0", "x1", "r0", "r1"))
    t0, t1, par, value = SX.sym("t0"), SX.sym("t1"), SX.sym("par", e.par.numel()), e.roles[role]
    seed = SX.sym("seed", value.numel())
    joint = ca.Function("f", [ca.vertcat(e.q, e.t), e.par], [value])
    rest = (ca.vertcat(r0, 0), ca.vertcat(r1, 0)) if low else None
    between = Difference(joint, ca.vertcat(x0, t0), ca.vertcat(x1, t1), [par], rest)
    inputs = [x0, x1, *((r0, r1) if low else ()), t0, t1, par]
    return (
        ca.Function("end", inputs, [ca.densify(between.y1)]),
        ca.Function("pull", [*inputs, seed], [ca.densify(between.pull(seed))]),
    )


class Assembled:
    """The difference of a function that is a sum of its own part and of elements, or has their values after its own."""

    def __init__(self, own: Difference, pieces: list[Piece], added: bool) -> None:
        self.own, self.pieces, self._added = own, pieces, added
        self.size = own.y1.numel()

    @property
    def y1(self) -> SX:
        parts = [self.own.y1, *(piece.y1 for piece in self.pieces)]
        return sum((ca.sum1(p) for p in parts[1:]), parts[0]) if self._added else ca.vertcat(*parts)

    def pull(self, seed: SX) -> SX:
        """`sum_i seed_i S_i(x0, x1)`, with the time last."""
        first = seed if self._added else seed[: self.size] if self.size else SX(0, 1)
        out, start = self.own.pull(first), self.size
        for piece in self.pieces:
            rows = 0 if self._added else piece.y1.numel()
            out += piece.pull(seed if self._added else seed[start : start + rows])
            start += rows
        return out
