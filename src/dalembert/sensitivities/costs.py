"""Costs of a run: a user's functions at its end and along it, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.engine.run import Array, Grid
from dalembert.engine.tape import Rows
from dalembert.errors import MethodError
from dalembert.systems.base import System
from dalembert.systems.batch import batch
from dalembert.systems.tracing import Lazy, call, symbols

Numbers = NDArray[np.int64]
Function = Callable[..., object]


def stored(grid: Grid, numbers: Numbers) -> NDArray[np.bool_]:
    """Which steps end at stored times."""
    return np.asarray((numbers % grid.save_every == 0) | (numbers == grid.steps))


def at_end(grid: Grid, numbers: Numbers) -> Array:
    """One at the end of the run."""
    return np.asarray(numbers == grid.steps, dtype=float)


def at_stored(grid: Grid, numbers: Numbers) -> Array:
    """One at each stored time after the first."""
    return np.asarray(stored(grid, numbers) & (numbers > 0), dtype=float)


def trapezoidal(grid: Grid, numbers: Numbers) -> Array:
    """The weights of the trapezoidal rule over the stored times, the first one included."""
    every = grid.save_every
    before = np.maximum(numbers - 1, 0) // every * every
    after = np.minimum((numbers // every + 1) * every, grid.steps)
    return np.where(stored(grid, numbers), (grid.times(after) - grid.times(before)) / 2, 0.0)


WEIGHTS = {"terminal": at_end, "running": at_stored, "integral": trapezoidal}


class Cost:
    """A function of the state, `t` and parameters, and where along a run it counts."""

    def __init__(self, system: System, role: str, function: Function) -> None:
        own = [getattr(system, name) for name in system.state]
        known = {name: partial(symbols, x, (x.numel(),)) for name, x in zip(system.state, own, strict=True)}
        arguments = Lazy({**known, "t": partial(symbols, system.t, ()), **system._parameter_symbols()})
        self.value = call(role, function, arguments, arguments)
        if not self.value.is_scalar():
            raise MethodError(f"{role} must return one number, got the shape {self.value.shape}")
        self.weights, self.z, self._t = WEIGHTS[role], ca.vertcat(*own, system.par), system.t
        self.slope = ca.densify(ca.gradient(self.value, self.z))

    @cached_property
    def function(self) -> ca.Function:
        """(state and parameters, t) -> value, slope."""
        return ca.Function("cost", [self.z, self._t], [ca.densify(self.value), self.slope])

    @cached_property
    def changes(self) -> ca.Function:
        """(state and parameters, t, a direction) -> how the slope changes."""
        dot = ca.SX.sym("dot", self.z.numel())
        return ca.Function("changes", [self.z, self._t, dot], [ca.densify(ca.jtimes(self.slope, self.z, dot))])


@dataclass(frozen=True)
class Costs:
    """The sum of all costs of a run."""

    terms: list[Cost]
    grid: Grid
    places: NDArray[np.int64]  # of the system's own state in that of a step

    @classmethod
    def of(cls, system: System, grid: Grid, fields: dict[str, slice], given: dict[str, Function | None]) -> Costs:
        terms = [Cost(system, role, function) for role, function in given.items() if function is not None]
        if not terms:
            raise MethodError("give terminal=..., running=..., integral=..., or several of them")
        return cls(terms, grid, np.concatenate([np.arange(fields[name].start, fields[name].stop) for name in system.state]))

    def after(self, rows: Rows) -> tuple[float, Array, Array]:
        """The costs after each of these steps: their sum, the slope in each state, the sum of those in the parameters."""
        return self._at(rows.numbers, rows.after, rows.par)

    def first(self, state: Array, par: Array) -> tuple[float, Array, Array]:
        """The costs at the start of the run."""
        return self._at(np.zeros(1, dtype=np.int64), state[None], par)

    def _at(self, numbers: Numbers, states: Array, par: Array) -> tuple[float, Array, Array]:
        value, slopes, by_par, n = 0.0, np.zeros((1, states.shape[1])), np.zeros(len(par)), len(self.places)
        for cost, weights, picked in self._weighted(numbers):
            slopes = np.zeros_like(states) if len(slopes) < len(states) else slopes
            v, slope = batch(cost.function, self._z(states[picked], par, numbers[picked]), len(picked))
            value += float(weights @ v[:, 0])
            slopes[np.ix_(picked, self.places)] += weights[:, None] * slope[:, :n]
            by_par += weights @ slope[:, n:]
        return value, slopes, by_par

    def changes(self, numbers: Numbers, states: Array, par: Array, dots: Array, par_dot: Array) -> tuple[Array, Array]:
        """How the slopes change with the states, a direction for each, and with the parameters."""
        slopes, by_par, n = np.zeros_like(states), np.zeros(len(par)), len(self.places)
        for cost, weights, picked in self._weighted(numbers):
            dot = np.hstack([dots[picked][:, self.places], np.broadcast_to(par_dot, (len(picked), len(par)))])
            (slope,) = batch(cost.changes, [*self._z(states[picked], par, numbers[picked]), dot], len(picked))
            slopes[np.ix_(picked, self.places)] += weights[:, None] * slope[:, :n]
            by_par += weights @ slope[:, n:]
        return slopes, by_par

    def _weighted(self, numbers: Numbers) -> list[tuple[Cost, Array, Numbers]]:
        """The costs that count after some of these steps, their weights there, and which these are."""
        out = []
        for cost in self.terms:
            weights = cost.weights(self.grid, numbers)
            picked = np.flatnonzero(weights)
            if len(picked):
                out.append((cost, weights[picked], picked))
        return out

    def _z(self, states: Array, par: Array, numbers: Numbers) -> list[Array]:
        z = np.hstack([states[:, self.places], np.broadcast_to(par, (len(states), len(par)))])
        return [z, self.grid.times(numbers)[:, None]]
