"""Discrete gradients of what is made of elements: that of one repetition, traced once and mapped over all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.discrete.differences import Ends
from dalembert.systems.composed import Parts
from dalembert.systems.repeated import Repeated, gathered, mapped, scattered

if TYPE_CHECKING:
    from dalembert.discrete.gradients import Field, Pullback


class Piece:
    """One part of a function: an element, for all its repetitions, or what is no element's.

    `field` is that of one repetition, a function of its own coordinates and parameters.
    """

    def __init__(self, field: Field, element: Repeated | None, of: Parts) -> None:
        self.field, self.element, self.added = field, element, of.added
        self.count = 1 if element is None else element.count
        self._index = None if element is None else element.places_of(of.wide)
        self.rows = 0 if of.added else field.expression.numel() * self.count

    def end(self, ends: Ends, par: SX) -> SX:
        """The values at the end, one after another."""
        symbols, local = self._symbols(ends.rest is not None)
        function = ca.Function("end", symbols, [ca.densify(self.field.end(local))])
        return ca.vec(mapped(function, self.count, *self._arguments(ends, par))[0])

    def pull(self, D: Pullback, ends: Ends, seed: SX, par: SX) -> tuple[SX, SX]:
        """`sum_i seed_i D_i`, added to where it belongs, and what time adds; one number serves all repetitions."""
        symbols, local = self._symbols(ends.rest is not None)
        one = seed.is_constant() and seed.numel() == 1
        own = SX(float(seed)) if one else SX.sym("seed", self.field.expression.numel())
        outputs = [ca.densify(x) for x in D(self.field, local, own)]
        function = ca.Function("pull", [*symbols, *([] if one else [own])], outputs)
        seeds = [] if one else [ca.reshape(seed, own.numel(), self.count)]
        slope, rate = mapped(function, self.count, *self._arguments(ends, par), *seeds)
        entries, kind = ca.vec(slope), type(ends.x0)
        if self._index is not None:
            nowhere = np.zeros(self._index.size, dtype=np.int64)
            entries = scattered(entries, self._index.ravel(), nowhere, (ends.x0.numel(), 1))
        return entries, ca.sum2(rate) if ca.depends_on(self.field.expression, self.field.t) else kind(1, 1)

    def _symbols(self, low: bool) -> tuple[list[SX], Ends]:
        """The arguments of local functions, and the ends of a step that they are."""
        n = self.field.x.numel()
        x0, x1, change, r0, r1 = (SX.sym(name, n) for name in ("x0", "x1", "change", "r0", "r1"))
        t0, t1 = SX.sym("t0"), SX.sym("t1")
        rest = [r0, r1] if low else []
        return [x0, x1, change, *rest, t0, t1, *self.field.symbols], Ends(x0, x1, t0, t1, (r0, r1) if low else None, change)

    def _arguments(self, ends: Ends, par: SX) -> list[SX]:
        """The same of all repetitions."""
        moved = [ends.x0, ends.x1, ends.dx, *(ends.rest or ())]
        if self.element is None or self._index is None:
            return [*moved, ends.t0, ends.t1, par]
        return [*(gathered(x, self._index) for x in moved), ends.t0, ends.t1, self.element.constants(par)]
