"""Runs of port-Hamiltonian systems."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dalembert.solution.base import Solution, largest


class PortSolution(Solution):
    """States, outputs and costates, and a ledger of the energy at each port."""

    kinds: ClassVar[tuple[str, ...]] = ("port-hamiltonian",)

    @property
    def v(self) -> np.ndarray:
        """Nothing: velocities are part of the state, or there are none."""
        return self._second

    @property
    def _slopes(self) -> np.ndarray:
        return np.asarray(np.gradient(self.q, self.t, axis=0, edge_order=2 if len(self.t) > 2 else 1))

    @property
    def y(self) -> np.ndarray:
        """Outputs at the stored times, `(B + P)^T z + (S - N) u`."""
        return self._numeric("output")

    @property
    def z(self) -> np.ndarray:
        """The costates at the stored times."""
        return self._numeric("z")

    def _discrete(self, which: int) -> np.ndarray:
        """Outputs, inputs and costates as a discrete gradient method has them in each step, at the times `t_lam`."""
        if not self._lam.shape[1]:
            return super()._discrete(which)
        return np.split(self._lam, [self.system.nu, 2 * self.system.nu], axis=1)[which]

    def ledger(self) -> dict[str, np.ndarray]:
        """Where the energy went in each stored interval: stored, dissipated, and supplied at each port."""
        book = super().ledger()
        if self._lam.shape[1] and self.stats.get("save_every", 1) == 1:
            power = self.outputs * self.port_inputs * np.diff(self.t)[:, None]
            book |= {f"port {name}": power[:, i] for i, name in enumerate(self.system.ports)}  # type: ignore[attr-defined]
        return book

    def _position(self) -> np.ndarray:
        return self._numeric("constraint") if self.system.has("constraint") else super()._position()

    def _velocity(self) -> np.ndarray:
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

    def _variables(self, data: dict[str, Any], coords: dict[str, Any]) -> None:
        data |= {"v": (("time", "none"), self._second), "energy": ("time", self.energy)}
        if self._lam.shape[1]:
            data["lam"] = (("time_lam", "port"), self._lam)
