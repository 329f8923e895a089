"""Port-Hamiltonian systems: examples of the literature and chains of masses."""

from __future__ import annotations

import numpy as np

from dalembert.catalog.symbols import Array, Expression, Matrix, Symbols, Vector
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.systems import SI, Couple, Feedback, Mechanical, Picture, PortHamiltonian, connect
from dalembert.systems.connect import Rule


@declared(ModelError)
def linear_port_example() -> PortHamiltonian:
    """`x1' = x2`, `0 = -x1 - x2`, `H = x1^2 / 2`: the running example of Kinon, Morandin, Schulze 2025 (example 1)."""
    return PortHamiltonian(
        ("x1", "x2"),
        hamiltonian=lambda x: x[0] ** 2 / 2,
        E=[[1, 0], [0, 0]],
        J=[[0, 1], [-1, 0]],
        R=[[0, 0], [0, 1]],
        name="linear example",
        initial={"x": [1.0, -1.0]},
    )


@declared(ModelError)
def singular_mass_springs(m1: float = 1.0, m2: float = 2.0, k1: float = 3.0, k2: float = 5.0) -> PortHamiltonian:
    """Two masses, two springs, three redundant coordinates, hence a singular mass matrix (Kinon et al. 2025, example 7).

    The absolute position of the second mass is `q2 + x2`, the constraint ties `q2` to the first mass and a length 1. The second
    spring is stiffening, `k2 x2^2 / 2 + k2 x2^4 / 4`; that of the source is linear.
    """

    def H(x: Symbols, m1: Symbols, m2: Symbols, k1: Symbols, k2: Symbols) -> object:
        kinetic = m1 * x[3] ** 2 / 2 + m2 * (x[4] + x[5]) ** 2 / 2
        return kinetic + k1 * x[0] ** 2 / 2 + k2 * x[2] ** 2 / 2 + k2 * x[2] ** 4 / 4

    def E(m1: Symbols, m2: Symbols) -> Matrix:
        M: list[list[Expression]] = [[m1, 0, 0], [0, m2, m2], [0, m2, m2]]
        rows: list[list[Expression]] = [[1.0 if i == j else 0.0 for j in range(7)] for i in range(3)]
        rows += [[0, 0, 0, *M[i], 0] for i in range(3)]
        return [*rows, [0.0] * 7]

    G = [-1.0, 1.0, 0.0]  # q2 - x1 - 1 = 0

    def J() -> Array:
        out = np.zeros((7, 7))
        out[:3, 3:6], out[3:6, :3] = np.eye(3), -np.eye(3)
        out[6, 3:6] = G
        out[3:6, 6] = [-g for g in G]
        return out

    def z(x: Symbols, k1: Symbols, k2: Symbols) -> Vector:
        return [k1 * x[0], 0.0, k2 * x[2] + k2 * x[2] ** 3, x[3], x[4], x[5], x[6]]

    return PortHamiltonian(
        ("x1", "q2", "x2", "v1", "w2", "v2", "lam"), hamiltonian=H, E=E, J=J(), z=z,
        parameters={"m1": m1, "m2": m2, "k1": k1, "k2": k2}, name="springs with a singular mass matrix",
        initial={"x": [0.5, 1.5, -0.3, 0.2, 0.2, 0.4, k2 * (-0.3 - 0.3**3)]},
    )  # fmt: skip


@declared(ModelError)
def mass_spring_damper(n: int = 5, m: float = 1.0, k: float = 10.0, d: float = 0.3) -> PortHamiltonian:
    """A chain of n masses with stiffening springs and dampers, pushed at its end, the other end fixed."""
    if n < 1:
        raise ModelError(f"a chain needs at least one mass, not {n}")

    def H(x: Symbols, m: Symbols, k: Symbols) -> object:
        stretch = [x[0], *(x[i] - x[i - 1] for i in range(1, n))]
        return sum(x[n + i] ** 2 for i in range(n)) / (2 * m) + sum(k * s**2 / 2 + k * s**4 / 4 for s in stretch)

    J = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    R = np.zeros((2 * n, 2 * n))
    difference = np.eye(n) - np.eye(n, k=-1)
    R[n:, n:] = difference.T @ difference
    B = np.zeros((2 * n, 1))
    B[-1, 0] = 1.0
    return PortHamiltonian(
        [*(f"q{i}" for i in range(1, n + 1)), *(f"p{i}" for i in range(1, n + 1))],
        hamiltonian=H, J=J, R=lambda d: d * R, B=B, parameters={"m": m, "k": k, "d": d}, ports=("force",),
        name=f"chain of {n} masses", initial={"x": [*np.linspace(0.1, 0.5, n), *np.zeros(n)]},
        picture=Picture(
            lambda x: [[0.0, 0.0], *([i + x[i - 1], 0.0] for i in range(1, n + 1))], links=[(i, i + 1) for i in range(n)],
            masses=range(1, n + 1),
        ),
    )  # fmt: skip


@declared(ModelError)
def windy_pendulum(m: float = 1.0, l: float = 1.0, viscosity: float = 0.1, g: float = 9.81) -> PortHamiltonian:
    """A pendulum in a viscous medium; the port is the force of the wind on its mass (Symank 2025, sec. 4.4.2)."""
    pendulum = Mechanical(
        ("x", "y"), mass=lambda m: m, potential=lambda q, m, g: m * g * q[1], holonomic=lambda q, l: (np.dot(q, q) - l**2) / 2,
        dissipation=lambda c: c, inputs=[[1.0, 0.0], [0.0, 1.0]], parameters={"m": m, "l": l, "c": viscosity, "g": g},
        name="pendulum in the wind", initial={"q": [l, 0.0], "v": [0.0, 0.0]}, picture=Picture(units=SI),
    )  # fmt: skip
    return pendulum.to_port_hamiltonian()  # type: ignore[no-any-return]


@declared(ModelError)
def three_carts(k: float = 4.0) -> PortHamiltonian:
    """Three carts on springs of their own, the first two on one rod, the third driven by the second through a gyrator."""

    def cart(m: float) -> PortHamiltonian:
        return PortHamiltonian(
            ("q", "p"), hamiltonian=lambda x, m, k: x[1] ** 2 / (2 * m) + k * x[0] ** 2 / 2 + k * x[0] ** 4 / 4,
            J=[[0, 1], [-1, 0]], R=[0.0, 0.05], B=[[0], [1]], parameters={"m": m, "k": k}, ports=("force",),
            initial={"x": [0.5, 0.0]},
        )  # fmt: skip

    rules: list[Rule] = [Couple({"a.force": 1.0, "b.force": -1.0}), Feedback("b.force", "c.force", 0.8)]
    pushed = ("a.force", "b.force", "c.force")
    return connect({"a": cart(1.0), "b": cart(2.0), "c": cart(0.5)}, rules, name="three carts", open=pushed)
