"""Where a system uses tables that end: their arguments along a motion, and whether they leave the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.systems.instructions import called, operation, walk
from dalembert.systems.lookup import PREFIX, Lookup, known

if TYPE_CHECKING:
    from dalembert.systems.base import System

Array = NDArray[np.float64]


class Ranges:
    """The arguments of all checked tables of a system, as a role `ranges` of it."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.uses: list[tuple[Lookup, int]] = []
        arguments: list[SX] = []
        for role in sorted(system.given & system._functions.keys() - {"points"}):
            function = system.function(role)
            if any(PREFIX in f.name() for f in function.find_functions(0)):
                self._collect(function, arguments)
        if arguments:
            system._define("ranges", ca.vertcat(*arguments))

    def _collect(self, function: ca.Function, arguments: list[SX]) -> None:
        symbols = self.system.symbols()

        def call(g: ca.Function, values: list[SX]) -> list[SX]:
            found = known(g)
            if found is not None and found[0].checked:
                for axis, x in enumerate(values[: len(found[0].grids)]):
                    use = found[0], axis
                    if not any(use == other and ca.is_equal(x, arguments[k], 8) for k, other in enumerate(self.uses)):
                        self.uses.append(use)
                        arguments.append(x)
            return called(g, values)

        walk(function, lambda i, k: symbols[i].nz[k], SX, operation, call)

    def fault(self, at: Mapping[str, Array], times: Array, par: Array) -> tuple[int, str] | None:
        """The first of some rows at which an argument leaves its table, and what to say of it."""
        if not self.uses:
            return None
        values = self.system.numeric("ranges", par, **at, t=times)
        beyond = np.array([table.beyond(axis, values[:, k]) for k, (table, axis) in enumerate(self.uses)])
        if not beyond.any():
            return None
        row = int(np.argmax(beyond.any(axis=0)))
        use = int(np.argmax(beyond[:, row]))
        table, axis = self.uses[use]
        return row, table.complaint(axis, float(values[row, use]), f" at t = {times[row]:g}")

    def margins(self) -> ca.Function | None:
        """How far all arguments are inside of their tables, of state, `t` and parameters; None where inputs matter as well."""
        s = self.system
        own = [getattr(s, name) for name in s.state]
        x = s.of_state(s.expression("ranges"))
        if ca.depends_on(x, s.u) if s.nu else False:
            return None
        limits = np.array([table.limits(axis) for table, axis in self.uses])
        return ca.Function("margins", [*own, s.t, s.par], [ca.densify(ca.vertcat(x - limits[:, 0], limits[:, 1] - x))])


def ranges(system: System) -> Ranges:
    """The checked tables of a system, found once."""
    return system.cache.get(Ranges, "ranges", lambda: Ranges(system))
