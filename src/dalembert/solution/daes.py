"""Runs of semi-explicit differential-algebraic systems."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dalembert.solution.base import Solution, largest


class DaeSolution(Solution):
    """`y` (stored as `q`) and `z` (stored as `v`)."""

    kinds: ClassVar[tuple[str, ...]] = ("dae",)

    @property
    def v(self) -> np.ndarray:
        """The algebraic variables."""
        return self._second

    @property
    def y(self) -> np.ndarray:
        """The differential variables."""
        return self.q

    @property
    def z(self) -> np.ndarray:
        """The algebraic variables."""
        return self._second

    @property
    def lam(self) -> np.ndarray:
        """The algebraic variables at the times `t_lam`."""
        return self._lam if self._lam.shape[1] else self._second[len(self.t) - len(self.t_lam) :]

    @property
    def energy(self) -> np.ndarray:  # type: ignore[override]
        """A general system has no energy."""
        raise self._none("energy")

    @property
    def _slopes(self) -> np.ndarray:
        return self._numeric("rhs")

    def _position(self) -> np.ndarray:
        return self._numeric("holonomic")

    def _velocity(self) -> np.ndarray:
        return self._numeric("drift")

    def _summary(self) -> list[tuple[str, str]]:
        return [
            ("constraints", f"{largest(self.residual('position')):.1e} at most"),
            ("hidden constraints", f"{largest(self.residual('velocity')):.1e} at most"),
        ]

    def _variables(self, data: dict[str, Any], coords: dict[str, Any]) -> None:
        data["v"] = (("time", "constraint"), self._second)
        coords["constraint"] = np.arange(1, self.system.m + 1)
