"""Runs of systems of first order."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from dalembert.engine.kinds.odes import solved
from dalembert.solution.base import Array, Solution, largest
from dalembert.solution.names import Columns, of, several
from dalembert.solution.tabular import Variables
from dalembert.systems.base import System
from dalembert.systems.ode import ODE, ImplicitDAE


class _FirstOrderSolution(Solution):
    """A state and its rates; there is no energy."""

    @property
    def energy(self) -> Array:  # type: ignore[override]
        """A general system has no energy."""
        raise self._none("energy")

    def energies(self) -> dict[str, Array]:
        return {}

    @property
    @abstractmethod
    def rates(self) -> Array:
        """The rates of the state at the stored times, as the equations give them."""

    def _columns(self) -> Columns:
        return {**super()._columns(), **several(of("d", self.system.coordinates), lambda: self.rates, self.t)}

    def _variables(self, data: Variables, coords: Variables) -> None:
        data["rate"] = (("time", "coordinate"), self.rates)


class OdeSolution(_FirstOrderSolution):
    """The state `x`, and its rates."""

    of_systems: ClassVar[tuple[type[System], ...]] = (ODE,)
    system: ODE

    @property
    def rates(self) -> Array:
        return self._numeric("f")

    def _summary(self) -> list[tuple[str, str]]:
        return [("state at the end", np.array2string(self.x[-1], precision=6, threshold=8))]


class ImplicitSolution(_FirstOrderSolution):
    """The variables `y`, and their rates as far as the equations determine them."""

    of_systems: ClassVar[tuple[type[System], ...]] = (ImplicitDAE,)
    system: ImplicitDAE

    @property
    def y(self) -> Array:
        """The variables."""
        return self.parts["y"]

    @cached_property
    def rates(self) -> Array:
        """The rates that `F = 0` determines at the stored times; those of algebraic variables are zero."""
        out, rate = np.zeros_like(self.y), np.zeros(self.system.n)
        for k, (y, t, u) in enumerate(zip(self.y, self.t, self.u, strict=True)):
            rate = out[k] = solved(self.system, y, rate, float(t), u, self._par)[1]
        return out

    def _position(self) -> Array:
        """`F` with these rates: zero as far as the algebraic equations hold."""
        return self._numeric("F", z=self.rates)

    def _summary(self) -> list[tuple[str, str]]:
        return [("equations", f"{largest(self.residual('position')):.1e} at most at the stored times")]
