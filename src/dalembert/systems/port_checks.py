"""The structure of a port-Hamiltonian system, checked at a few states: skew, semidefinite, `E^T z = grad H`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dalembert.errors import ModelError
from dalembert.systems.port_changes import MATRICES
from dalembert.systems.shapes import Array

if TYPE_CHECKING:
    from dalembert.systems.port_hamiltonian import PortHamiltonian


def check_structure(s: PortHamiltonian) -> None:
    """Refuse what is not port-Hamiltonian, naming the entry."""
    for x, t in s.samples():
        m = {k: s.at(k, x, t) for k in MATRICES}
        z, gradient = s.at("z", x, t)[:, 0], s.at("gradient", x, t)[:, 0]
        if not all(np.isfinite(a).all() for a in (*m.values(), z, gradient)):
            continue  # outside of where the functions are defined
        gamma = np.block([[m["J"], m["B"]], [-m["B"].T, m["N"]]])
        W = np.block([[m["R"], m["P"]], [m["P"].T, m["S"]]])
        for name, matrix in (("J", m["J"]), ("N", m["N"])):
            _refuse_entry(name, "skew", matrix + matrix.T, np.abs(gamma).max(initial=0.0), matrix)
        for name, matrix in (("R", m["R"]), ("S", m["S"])):
            _refuse_entry(name, "symmetric", matrix - matrix.T, np.abs(W).max(initial=0.0), matrix)
        if W.size:
            low = float(np.linalg.eigvalsh(W / 2 + W.T / 2)[0])
            if low < -1e-10 * max(1.0, float(np.abs(W).max())):
                what = "R" if not m["P"].any() and not m["S"].any() else "[R P; P^T S]"
                raise ModelError(
                    f"{what} is not positive semidefinite (eigenvalue {low:.3g}): it would add energy, not dissipate it"
                )
        defect = m["E"].T @ z - gradient
        worst = int(np.abs(defect).argmax()) if defect.size else 0
        if np.abs(defect).max(initial=0.0) > 1e-8 * max(1.0, np.abs(gradient).max(initial=0.0)):
            raise ModelError(
                f"E^T z is not the gradient of the Hamiltonian: entry {worst + 1} ({s.coordinates[worst]!r}) is "
                f"{(m['E'].T @ z)[worst]:.6g}, dH/d{s.coordinates[worst]} is {gradient[worst]:.6g}"
            )
        if s.has("r"):
            rate = float(s.at("rate_of_energy", x, t)[0, 0])
            have = float(z @ s.at("r", x, t)[:, 0])
            if abs(have - rate) > 1e-8 * max(1.0, abs(rate)):
                raise ModelError(f"z . r is {have:.6g}, but the partial derivative of H with respect to time is {rate:.6g}")


def _refuse_entry(name: str, what: str, defect: Array, scale: float, matrix: Array) -> None:
    if defect.size and np.abs(defect).max() > 1e-10 * max(1.0, scale):
        i, j = np.unravel_index(np.abs(defect).argmax(), defect.shape)
        raise ModelError(
            f"{name} is not {what}: entry ({i + 1}, {j + 1}) is {matrix[i, j]:.6g}, "
            f"entry ({j + 1}, {i + 1}) is {matrix[j, i]:.6g}"
        )
