"""Electrical machines."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.catalog.symbols import Expression, Matrix, Symbols, Vector
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.systems import Picture, PortHamiltonian
from dalembert.systems.tracing import symbols, to_sx

PHASES = 2 * np.pi / 3 * np.arange(3)  # of the stator windings
ANGLES = (0.0, 0.0, -np.pi / 2)  # of the rotor: field and direct damper along the axis, quadrature damper across
MUTUAL = (0.06, 0.05, 0.05)


def _inductances(theta: Expression) -> Matrix:
    """`L(theta)` of three stator and three rotor windings."""
    out: list[list[Expression]] = [[0.0] * 6 for _ in range(6)]
    for i in range(3):
        for j in range(3):
            out[i][j] = 0.15 if i == j else -0.05
            out[3 + i][3 + j] = 0.2 if i == j else 0.0
            out[i][3 + j] = out[3 + j][i] = MUTUAL[j] * np.cos(theta - PHASES[i] + ANGLES[j])
    out[3][4] = out[4][3] = 0.05
    return out


def _slopes(theta: Expression) -> Matrix:
    """`dL / dtheta`."""
    out: list[list[Expression]] = [[0.0] * 6 for _ in range(6)]
    for i in range(3):
        for j in range(3):
            out[i][3 + j] = out[3 + j][i] = -MUTUAL[j] * np.sin(theta - PHASES[i] + ANGLES[j])
    return out


def _times(matrix: Matrix, vector: Symbols | Vector) -> list[Expression]:
    return [_dot(row, vector) for row in matrix]


def _dot(a: Symbols | Vector, b: Symbols | Vector) -> Expression:
    return sum((a[k] * b[k] for k in range(6)), 0.0)


def _energy(x: Symbols, J_r: Symbols) -> object:
    return _dot(x, _times(_inductances(x[7]), x)) / 2 + x[6] ** 2 / (2 * J_r)


def _storage(x: Symbols) -> Matrix:
    """`E(x)`: inductances, and the voltages induced by the rotation."""
    inductance, push = _inductances(x[7]), _times(_slopes(x[7]), x)
    rows = [[*inductance[i], 0.0, push[i]] for i in range(6)]
    return [*rows, [0.0] * 6 + [1.0, 0.0], [0.0] * 7 + [1.0]]


def _costates(x: Symbols, J_r: Symbols) -> Vector:
    push = _times(_slopes(x[7]), x)
    return [*(x[k] for k in range(6)), x[6] / J_r, -_dot(x, push) / 2]


def _currents(x: Symbols) -> Vector:
    """Currents from fluxes, solved symbolically."""
    matrix = ca.vertcat(*(ca.horzcat(*(to_sx(entry) for entry in row)) for row in _inductances(x[7])))
    flux = ca.vertcat(*(to_sx(x[k]) for k in range(6)))
    current = symbols(ca.solve(matrix, flux), (6,))
    return [*(current[k] for k in range(6)), x[6], x[7]]


@declared(ModelError)
def synchronous_machine(currents: bool = True) -> PortHamiltonian:
    """A synchronous machine with three stator and three rotor windings, in currents or fluxes (Kinon et al. 2025, example 4).

    A round-rotor machine of laboratory size, whose data are this library's own. Self inductances are 0.15 H (stator) and 0.2 H
    (rotor). Mutual ones are -0.05 H between stator windings, 0.05 H between the field and the direct damper, and between stator
    and rotor 0.06 H (field) or 0.05 H (dampers) times the cosine of the angle between the windings. `L(theta)` is positive
    definite; cf. Kundur 1994, ch. 3, for its form.
    """
    J, B = np.zeros((8, 8)), np.zeros((8, 5))
    J[6, 7], J[7, 6] = -1.0, 1.0
    B[:3, :3] = np.eye(3)
    B[3, 3] = B[6, 4] = 1.0
    start = [0.2, -0.1, -0.1, 1.0, 0.05, -0.05, 3.0, 0.4]
    machine = PortHamiltonian(
        ("i_a", "i_b", "i_c", "i_f", "i_d", "i_q", "p", "theta"), hamiltonian=_energy, E=_storage, J=J,
        R=lambda R_s, R_r, d: [R_s, R_s, R_s, R_r, R_r, R_r, d, 0.0], B=B, z=_costates,
        parameters={"J_r": 0.05, "R_s": 0.6, "R_r": 0.9, "d": 0.01}, ports=("V_a", "V_b", "V_c", "V_f", "torque"),
        name="synchronous machine", initial={"x": start},
    )  # fmt: skip
    if currents:
        return machine
    flux = np.asarray(_times(_inductances(start[7]), start), dtype=float)
    names = ("psi_a", "psi_b", "psi_c", "psi_f", "psi_d", "psi_q", "p", "theta")
    return machine.transformed(_currents, coordinates=names, initial=[*flux, *start[6:]])


@declared(ModelError)
def dc_motor(L: float = 0.01, R: float = 0.5, J: float = 0.002, b: float = 0.001, k: float = 0.05) -> PortHamiltonian:
    """A direct-current motor: flux and angular momentum, coupled by a gyrator; ports are voltage and load torque."""
    return PortHamiltonian(
        ("flux", "momentum"), hamiltonian=lambda x, L, J: x[0] ** 2 / (2 * L) + x[1] ** 2 / (2 * J),
        J=lambda k: [[0, -k], [k, 0]], R=lambda R, b: [R, b], B=np.eye(2),
        parameters={"L": L, "R": R, "J": J, "b": b, "k": k}, ports=("voltage", "torque"), name="DC motor",
        initial={"x": [0.0, 0.0]}, picture=Picture(units={"time": "s", "energy": "J", "flux": "Wb", "momentum": "N m s"}),
    )  # fmt: skip
