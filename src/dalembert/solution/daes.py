"""Runs of semi-explicit differential-algebraic systems."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dalembert.solution.base import Array, Solution, largest
from dalembert.solution.names import Columns, numbered, several
from dalembert.solution.tabular import Variables
from dalembert.systems.base import System
from dalembert.systems.dae import IndexTwoDAE


class DaeSolution(Solution):
    """Differential variables `y` and algebraic ones `z`."""

    of_systems: ClassVar[tuple[type[System], ...]] = (IndexTwoDAE,)
    system: IndexTwoDAE

    @property
    def y(self) -> Array:
        """The differential variables."""
        return self.parts["y"]

    @property
    def z(self) -> Array:
        """The algebraic variables."""
        return self.parts["z"]

    @property
    def lam(self) -> Array:
        """The algebraic variables at the times `t_lam`."""
        return self._lam if self._lam.shape[1] else self.z[len(self.t) - len(self.t_lam) :]

    @property
    def energy(self) -> Array:  # type: ignore[override]
        """A general system has no energy."""
        raise self._none("energy")

    def energies(self) -> dict[str, Array]:
        return {}

    def _position(self) -> Array:
        return self._numeric("g")

    def _velocity(self) -> Array:
        return self._numeric("hidden")

    def _summary(self) -> list[tuple[str, str]]:
        return [
            ("constraints", f"{largest(self.residual('position')):.1e} at most"),
            ("hidden constraints", f"{largest(self.residual('velocity')):.1e} at most"),
        ]

    def _columns(self) -> Columns:
        return {**super()._columns(), **several(numbered("z", self.system.m), lambda: self.z, self.t)}

    def _variables(self, data: Variables, coords: Variables) -> None:
        data["z"] = (("time", "constraint"), self.z)
        coords["constraint"] = np.arange(1, self.system.m + 1)
