"""Consistent initial values as functions of those that are free, and of parameters.

At the start a state satisfies equations `c(x, par) = 0`: constraints at all levels, and what defines algebraic variables. Some of
its entries are free, the others follow, also where a parameter such as the length of a rod changes. With `F` the free entries and
`D` the others, `c_D dx_D = -c_F dx_F - c_par dpar`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.analysis.local import null_space, pivots
from dalembert.analysis.observed import entries
from dalembert.engine.kinds import Values
from dalembert.errors import InconsistentState, MethodError, suggest
from dalembert.named import Array
from dalembert.systems.base import System
from dalembert.systems.closure import closure
from dalembert.systems.constrained import Constrained
from dalembert.systems.dae import IndexTwoDAE
from dalembert.systems.port_hamiltonian import PortHamiltonian


@singledispatch
def conditions(system: System) -> SX:
    """What a state satisfies at the start of a run, zero: expressions of state, time, inputs and parameters."""
    return SX(0, 1)


@conditions.register
def _(system: Constrained) -> SX:
    if not system.m:
        return SX(0, 1)
    position = system.expression("holonomic") if system.mh else SX(0, 1)
    return ca.vertcat(position, system.of_state(system.role("drift")))


@conditions.register
def _(system: IndexTwoDAE) -> SX:
    return ca.vertcat(*system.levels())


@conditions.register
def _(system: PortHamiltonian) -> SX:
    found = closure(system)
    rows = [] if found is None else [found[0], found[1].U2.T @ system.role("right")]
    if system.has("constraint"):
        rows.append(system.expression("constraint"))
    return ca.vertcat(*rows) if rows else SX(0, 1)


class Start:
    """The initial state, its free entries `picked`, and how the rest follows from them."""

    def __init__(self, system: System, values: Values, par: Array, t: float, u: Array, required: Sequence[str] = ()) -> None:
        self.system, self._t, self._u = system, t, u
        self.names = [name for part in system.state for name in entries(system, part)]
        self._x = np.concatenate([np.ravel(values[name]) for name in system.state])
        x = ca.vertcat(*(getattr(system, name) for name in system.state))
        rows = conditions(system)
        slopes = [ca.densify(ca.jacobian(rows, by)) for by in (x, system.par)]
        self._f = ca.Function("start", [x, system.t, system.u, system.par], [ca.densify(rows), *slopes])
        asked = np.array([name in required for name in self.names])
        _, C, _ = self._at(self._x, par)
        self.picked = pivots(null_space(C), avoid=~asked)
        missing = [name for i, name in enumerate(self.names) if asked[i] and i not in self.picked]
        if missing:
            raise MethodError(
                f"the initial value of {missing[0]!r} cannot be free: the constraints leave {len(self.picked)} values free, and "
                f"it follows from {', '.join(self.names[i] for i in self.picked)}"
            )
        self.rest = [i for i in range(len(self._x)) if i not in self.picked]
        self.free, self._last = self._x[self.picked].copy(), self._x

    def place(self, name: str) -> int:
        """The number of a free entry."""
        if name not in self.names:
            raise MethodError(f"there is no initial value {name!r}{suggest(name, self.names)}")
        return self.picked.index(self.names.index(name))

    def _at(self, x: Array, par: Array) -> tuple[Array, Array, Array]:
        c, by_x, by_par = (np.asarray(m.full()) for m in self._f(x, self._t, self._u, par))
        return c[:, 0], by_x, by_par

    def state(self, free: Array, par: Array) -> Array:
        """The whole state: near the last one that was found, else near the first."""
        for near in (self._last, self._x):
            found = self._solved(near, free, par)
            if found is not None:
                self._last = found
                return found
        raise InconsistentState("no initial values on the constraints belong to these free values and parameters")

    def _solved(self, near: Array, free: Array, par: Array) -> Array | None:
        """Newton's iteration for the entries that are not free; None where it does not end on the constraints."""
        x = near.copy()
        x[self.picked] = free
        if not self.rest:
            return x
        size = np.inf
        for _ in range(30):
            c, by_x, _ = self._at(x, par)
            if not (np.isfinite(c).all() and np.isfinite(by_x).all()):
                return None
            change = np.linalg.lstsq(by_x[:, self.rest], -c, rcond=1e-11)[0]
            x[self.rest] += change
            before, size = size, float(np.abs(change).max(initial=0.0)) / (1e-3 + float(np.abs(x).max()))
            if size < 1e-15 or 0.5 * before <= size < 1e-10:
                break
        c, by_x, _ = self._at(x, par)
        terms = np.abs(by_x) @ np.abs(x) + np.abs(c - by_x @ x) + 1e-12
        return x if np.isfinite(c).all() and (np.abs(c) <= 1e-10 * terms).all() else None

    def slopes(self, x: Array, par: Array) -> tuple[Array, Array]:
        """How the state changes with its free entries, and with the parameters."""
        _, by_x, by_par = self._at(x, par)
        by_free, by_parameters = np.zeros((len(x), len(self.picked))), np.zeros((len(x), len(par)))
        by_free[self.picked] = np.eye(len(self.picked))
        if self.rest:
            inner = by_x[:, self.rest]
            by_free[self.rest] = np.linalg.lstsq(inner, -by_x[:, self.picked], rcond=1e-11)[0]
            by_parameters[self.rest] = np.linalg.lstsq(inner, -by_par, rcond=1e-11)[0]
        return by_free, by_parameters

    def parts(self, x: Array) -> Values:
        """A state by the names of its parts."""
        out, place = {}, 0
        for name in self.system.state:
            out[name] = x[place : place + self.system.size_of(name)]
            place += self.system.size_of(name)
        return out
