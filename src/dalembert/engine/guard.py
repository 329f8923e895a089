"""Tables that end, and turns that are not counted: looked at after every step of a run that keeps fewer rows than steps."""

from __future__ import annotations

import numpy as np

from dalembert.engine import kinds
from dalembert.engine.case import Case, outside
from dalembert.engine.run import Array, Layout, Stretch
from dalembert.engine.steps import Shortened
from dalembert.engine.values import Bounds, Values
from dalembert.engine.watch import Watch
from dalembert.errors import CompilerError, DalembertError, ModelError
from dalembert.systems.ranges import ranges


class Guard:
    """An observer of a run: it ends the run where steps are no result, and has another one look at the steps before.

    That is where the motion leaves a table, or where what kinds of systems look for comes and goes between rows.
    """

    def __init__(self, case: Case, layout: Layout, watch: Watch | None) -> None:
        self._case, self._layout, self._watch = case, layout, watch
        self._left: DalembertError | None = None
        self._fleeting = kinds.fleeting(case.system)
        self._bounds: Bounds | None = None  # the tables in C

    @property
    def fault(self) -> DalembertError | None:
        return self._watch.fault if self._watch is not None and self._watch.fault is not None else self._left

    @property
    def stopped(self) -> bool:
        return self._watch is not None and self._watch.stopped

    def compile(self, layout: Layout) -> Values | None:
        """What is looked at in C, after whole stretches of steps: the loop makes these without a look at signs."""
        if self._watch is not None:
            self._watch.compile(layout)
        system, margins = self._case.system, ranges(self._case.system).margins()
        if margins is not None:
            try:
                self._bounds = Bounds(margins, (*system.state, "t", "par"), layout)
            except CompilerError:
                self._bounds = None
        return None

    def begin(self, state: Array, inside: Shortened, t: float | None = None) -> None:
        """The run begins there."""
        self._state = state.copy()
        if self._watch is not None:
            self._watch.begin(state, inside, t)

    def look(self, stretch: Stretch) -> Stretch:
        """The steps before the first one that is no result."""
        found = min(filter(None, (self._outside(stretch), self._between(stretch))), key=lambda fault: fault[0], default=None)
        self._state = stretch.rows.state[-1].copy()
        inside = stretch if found is None else stretch.cut(found[0])
        out = inside if self._watch is None else self._watch.look(inside)
        if found is not None and not self.stopped:
            self._left = found[1]
        return out

    def _outside(self, stretch: Stretch) -> tuple[int, DalembertError] | None:
        """How many steps there are before the one that leaves a table, and what to say of it."""
        case, t, states, first = self._case, stretch.t[1:], stretch.rows.state, 0
        if self._bounds is not None:
            first = self._bounds.first(states, t, case.par)
        if first == len(t):
            return None
        found = outside(case.system, self._parts(states[first:]), case.par, t[first:], case.inputs_at(stretch.t[first:])[0][1:])
        return found and (first + found[0], ModelError(f"{found[1]} (error.solution holds the steps before)"))

    def _between(self, stretch: Stretch) -> tuple[int, DalembertError] | None:
        """The same of what may come and go between rows."""
        if not self._fleeting:
            return None
        states = np.concatenate((self._state[None], stretch.rows.state))
        found = kinds.fault(self._case.system, self._parts(states), stretch.t, self._case.par)
        return found and (found[0] - 1, found[1])

    def _parts(self, states: Array) -> kinds.Values:
        return {name: states[:, self._layout.fields[name]] for name in self._case.system.state}

    def forget(self, t: float) -> None:
        """Steps after `t` were not recorded."""
        if self._watch is not None:
            self._watch.forget(t)


def guarded(case: Case, layout: Layout, watch: Watch | None, save_every: int) -> Watch | Guard | None:
    """What looks at the steps of a run; where rows have all steps, the rows are looked at."""
    return Guard(case, layout, watch) if save_every > 1 and (ranges(case.system).uses or kinds.fleeting(case.system)) else watch
