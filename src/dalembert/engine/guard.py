"""Tables that end, looked at after every step of a run that keeps fewer rows than it makes steps."""

from __future__ import annotations

from dalembert.engine.case import Case, outside
from dalembert.engine.run import Array, Layout, Stretch
from dalembert.engine.steps import Shortened
from dalembert.engine.values import Bounds, Values
from dalembert.engine.watch import Watch
from dalembert.errors import CompilerError, DalembertError, ModelError
from dalembert.systems.ranges import ranges


class Guard:
    """An observer of a run: it ends the run where the motion leaves a table, and has another one look at the steps before."""

    def __init__(self, case: Case, layout: Layout, watch: Watch | None) -> None:
        self._case, self._layout, self._watch = case, layout, watch
        self._left: ModelError | None = None
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
        if self._watch is not None:
            self._watch.begin(state, inside, t)

    def look(self, stretch: Stretch) -> Stretch:
        """The steps before the one in which the motion leaves a table."""
        case, t = self._case, stretch.t[1:]
        states, first = stretch.rows.state, 0
        if self._bounds is not None:
            first = self._bounds.first(states, t, case.par)
        found = self._outside(states[first:], t[first:], stretch.t[first:]) if first < len(t) else None
        inside = stretch if found is None else stretch.cut(first + found[0])
        out = inside if self._watch is None else self._watch.look(inside)
        if found is not None and not self.stopped:
            self._left = ModelError(f"{found[1]} (error.solution holds the steps before)")
        return out

    def _outside(self, states: Array, t: Array, times: Array) -> tuple[int, ModelError] | None:
        case = self._case
        parts = {name: states[:, self._layout.fields[name]] for name in case.system.state}
        return outside(case.system, parts, case.par, t, case.inputs_at(times)[0][1:])

    def forget(self, t: float) -> None:
        """Steps after `t` were not recorded."""
        if self._watch is not None:
            self._watch.forget(t)


def guarded(case: Case, layout: Layout, watch: Watch | None, save_every: int) -> Watch | Guard | None:
    """What looks at the steps of a run; tables are looked at with the rows, where these have all steps."""
    return Guard(case, layout, watch) if save_every > 1 and ranges(case.system).uses else watch
