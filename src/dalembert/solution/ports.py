"""Runs of port-Hamiltonian systems."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from dalembert.solution.base import Array, Solution, largest
from dalembert.solution.names import Columns, of, several
from dalembert.solution.tabular import Variables
from dalembert.systems.base import System
from dalembert.systems.port_hamiltonian import PortHamiltonian


class PortSolution(Solution):
    """States, outputs and costates, and a ledger of the energy at each port."""

    of_systems: ClassVar[tuple[type[System], ...]] = (PortHamiltonian,)
    system: PortHamiltonian

    @cached_property
    def y(self) -> Array:
        """Outputs at the stored times, `(B + P)^T z + (S - N) u`."""
        return self._numeric("output")

    @property
    def z(self) -> Array:
        """The costates at the stored times."""
        return self._numeric("z")

    def _discrete(self, which: int) -> Array:
        """Outputs, inputs and costates as a discrete gradient method has them in each step, at the times `t_lam`."""
        if not self._lam.shape[1]:
            return super()._discrete(which)
        return np.split(self._lam, [self.system.nu, 2 * self.system.nu], axis=1)[which]

    def ledger(self) -> dict[str, Array]:
        """Where the energy went in each stored interval: stored, dissipated, and supplied at each port."""
        book = super().ledger()
        if self._lam.shape[1] and self.stats.get("save_every", 1) == 1:
            power = self.outputs * self.port_inputs * np.diff(self.t)[:, None]
            book |= {f"port {name}": power[:, i] for i, name in enumerate(self.system.ports)}
        return book

    def _position(self) -> Array:
        return self._numeric("constraint") if self.system.has("constraint") else super()._position()

    def _velocity(self) -> Array:
        return self._numeric("constraint_rate") if self.system.has("constraint") else super()._velocity()

    def _summary(self) -> list[tuple[str, str]]:
        scale = max(largest(self.energy), 1e-300)
        rows = [self._balance_row(scale), ("stored", f"{self.energy[-1] - self.energy[0]:.6g}")]
        ports = {key[5:]: value for key, value in self.ledger().items() if key.startswith("port ")}
        rows += [(f"supplied, {name}", f"{value.sum():.6g}") for name, value in ports.items()]
        rows.append(("supplied, dissipated", f"{self.supplied.sum():.6g}, {self.dissipated.sum():.6g}"))
        if self.system.has("constraint"):
            rows.append(("position constraints", f"{largest(self.residual('position')):.1e} at most"))
        return rows

    def _columns(self) -> Columns:
        return {**super()._columns(), **several(of("z", self.system.coordinates), lambda: self.z, self.t)}

    def _variables(self, data: Variables, coords: Variables) -> None:
        data["energy"] = ("time", self.energy)
        if self._lam.shape[1]:  # outputs, inputs and costates of each step
            data["lam"] = (("time_lam", "step"), self._lam)
            names = self.system.ports, self.system.ports, self.system.coordinates
            labels = [name for kind, group in zip("yuz", names, strict=True) for name in of(kind, group)]
            coords["step"] = labels if len(labels) == self._lam.shape[1] else np.arange(1, self._lam.shape[1] + 1)
