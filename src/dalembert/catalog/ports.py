"""Port-Hamiltonian systems: examples of the literature, machines, chains, and electrical networks from their components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dalembert.errors import ModelError
from dalembert.systems import SI, Couple, Feedback, Mechanical, Picture, PortHamiltonian, connect


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


def singular_mass_springs(m1: float = 1.0, m2: float = 2.0, k1: float = 3.0, k2: float = 5.0) -> PortHamiltonian:
    """Two masses, two springs, three redundant coordinates, hence a singular mass matrix (Kinon et al. 2025, example 7).

    The absolute position of the second mass is `q2 + x2`, the constraint ties `q2` to the first mass and a length 1.
    """

    def H(x: Any, m1: Any, m2: Any, k1: Any, k2: Any) -> Any:
        kinetic = m1 * x[3] ** 2 / 2 + m2 * (x[4] + x[5]) ** 2 / 2
        return kinetic + k1 * x[0] ** 2 / 2 + k2 * x[2] ** 2 / 2 + k2 * x[2] ** 4 / 4

    def E(m1: Any, m2: Any) -> Any:
        M = [[m1, 0, 0], [0, m2, m2], [0, m2, m2]]
        rows = [[1.0 if i == j else 0.0 for j in range(7)] for i in range(3)]
        rows += [[0, 0, 0, *M[i], 0] for i in range(3)]
        return [*rows, [0.0] * 7]

    G = [-1.0, 1.0, 0.0]  # q2 - x1 - 1 = 0

    def J() -> Any:
        out = np.zeros((7, 7))
        out[:3, 3:6], out[3:6, :3] = np.eye(3), -np.eye(3)
        out[6, 3:6] = G
        out[3:6, 6] = [-g for g in G]
        return out

    def z(x: Any, k1: Any, k2: Any) -> Any:
        return [k1 * x[0], 0.0, k2 * x[2] + k2 * x[2] ** 3, x[3], x[4], x[5], x[6]]

    return PortHamiltonian(
        ("x1", "q2", "x2", "v1", "w2", "v2", "lam"), hamiltonian=H, E=E, J=J(), z=z,
        parameters={"m1": m1, "m2": m2, "k1": k1, "k2": k2}, name="springs with a singular mass matrix",
        initial={"x": [0.5, 1.5, -0.3, 0.2, 0.2, 0.4, k2 * (-0.3 - 0.3**3)]},
    )  # fmt: skip


def synchronous_machine(currents: bool = True) -> PortHamiltonian:
    """A synchronous machine with three stator and three rotor windings, in currents or fluxes (Kinon et al. 2025, example 4).

    A round-rotor machine of laboratory size: self inductances 0.15 H (stator) and 0.2 H (rotor), mutual 0.12 H times the cosine
    of the angle between windings, leakage included so that `L(theta)` is positive definite; cf. Kundur 1994, ch. 3, for the form
    of `L`.
    """
    phases = 2 * np.pi / 3 * np.arange(3)

    def L(theta: Any) -> list[list[Any]]:
        out: list[list[Any]] = [[0.0] * 6 for _ in range(6)]
        for i in range(3):
            for j in range(3):
                out[i][j] = 0.15 if i == j else -0.05
        rotor = [[0.2, 0.0, 0.0], [0.0, 0.2, 0.0], [0.0, 0.0, 0.2]]
        angles = (0.0, 0.0, -np.pi / 2)  # field and direct damper along the axis, quadrature damper across
        mutual = (0.06, 0.05, 0.05)
        for i in range(3):
            for j in range(3):
                out[3 + i][3 + j] = rotor[i][j]
                value = mutual[j] * np.cos(theta - phases[i] + angles[j])
                out[i][3 + j] = value
                out[3 + j][i] = value
        out[3][4] = out[4][3] = 0.05
        return out

    def slope(theta: Any) -> list[list[Any]]:
        out: list[list[Any]] = [[0.0] * 6 for _ in range(6)]
        angles, mutual = (0.0, 0.0, -np.pi / 2), (0.06, 0.05, 0.05)
        for i in range(3):
            for j in range(3):
                value = -mutual[j] * np.sin(theta - phases[i] + angles[j])
                out[i][3 + j] = value
                out[3 + j][i] = value
        return out

    def times(matrix: list[list[Any]], vector: Any) -> list[Any]:
        return [sum(row[k] * vector[k] for k in range(6)) for row in matrix]

    def energy(x: Any, J_r: Any) -> Any:
        flux = times(L(x[7]), x[:6])
        return sum(x[k] * flux[k] for k in range(6)) / 2 + x[6] ** 2 / (2 * J_r)

    def E(x: Any) -> Any:
        inductance, push = L(x[7]), times(slope(x[7]), x[:6])
        rows = [[*inductance[i], 0.0, push[i]] for i in range(6)]
        return [*rows, [0.0] * 6 + [1.0, 0.0], [0.0] * 7 + [1.0]]

    def z(x: Any, J_r: Any) -> Any:
        push = times(slope(x[7]), x[:6])
        return [*(x[k] for k in range(6)), x[6] / J_r, -sum(x[k] * push[k] for k in range(6)) / 2]

    J = np.zeros((8, 8))
    J[6, 7], J[7, 6] = -1.0, 1.0
    B = np.zeros((8, 5))
    B[:3, :3] = np.eye(3)
    B[3, 3] = B[6, 4] = 1.0
    start = [0.2, -0.1, -0.1, 1.0, 0.05, -0.05, 3.0, 0.4]
    names = ("i_a", "i_b", "i_c", "i_f", "i_d", "i_q", "p", "theta")
    machine = PortHamiltonian(
        names, hamiltonian=energy, E=E, J=J, R=lambda R_s, R_r, d: [R_s, R_s, R_s, R_r, R_r, R_r, d, 0.0], B=B, z=z,
        parameters={"J_r": 0.05, "R_s": 0.6, "R_r": 0.9, "d": 0.01}, ports=("V_a", "V_b", "V_c", "V_f", "torque"),
        name="synchronous machine", initial={"x": start},
    )  # fmt: skip
    if currents:
        return machine

    def phi(x: Any) -> Any:
        """Currents from fluxes, by Cramer's rule of elimination: solved symbolically."""
        import casadi as ca

        from dalembert.systems.tracing import symbols, to_sx

        matrix = ca.vertcat(*(ca.horzcat(*(to_sx(entry) for entry in row)) for row in L(x[7])))
        flux = ca.vertcat(*(to_sx(x[k]) for k in range(6)))
        current = ca.solve(matrix, flux)
        return [*(symbols(current, (6,))[k] for k in range(6)), x[6], x[7]]

    flux = np.asarray(times(L(start[7]), start[:6]), dtype=float)
    return machine.transformed(
        phi, coordinates=("psi_a", "psi_b", "psi_c", "psi_f", "psi_d", "psi_q", "p", "theta"), initial=[*flux, *start[6:]]
    )


def mass_spring_damper(n: int = 5, m: float = 1.0, k: float = 10.0, d: float = 0.3) -> PortHamiltonian:
    """A chain of n masses with stiffening springs and dampers, pushed at its end, the other end fixed."""
    if n < 1:
        raise ModelError(f"a chain needs at least one mass, not {n}")

    def H(x: Any, m: Any, k: Any) -> Any:
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


def dc_motor(L: float = 0.01, R: float = 0.5, J: float = 0.002, b: float = 0.001, k: float = 0.05) -> PortHamiltonian:
    """A direct-current motor: flux and angular momentum, coupled by a gyrator; ports are voltage and load torque."""
    return PortHamiltonian(
        ("flux", "momentum"), hamiltonian=lambda x, L, J: x[0] ** 2 / (2 * L) + x[1] ** 2 / (2 * J),
        J=lambda k: [[0, -k], [k, 0]], R=lambda R, b: [R, b], B=np.eye(2),
        parameters={"L": L, "R": R, "J": J, "b": b, "k": k}, ports=("voltage", "torque"), name="DC motor",
        initial={"x": [0.0, 0.0]}, picture=Picture(units={"time": "s", "energy": "J", "flux": "Wb", "momentum": "N m s"}),
    )  # fmt: skip


def windy_pendulum(m: float = 1.0, l: float = 1.0, viscosity: float = 0.1, g: float = 9.81) -> PortHamiltonian:
    """A pendulum in a viscous medium; the port is the force of the wind on its mass (Symank 2025, sec. 4.4.2)."""
    pendulum = Mechanical(
        ("x", "y"), mass=lambda m: m, potential=lambda q, m, g: m * g * q[1], holonomic=lambda q, l: (np.dot(q, q) - l**2) / 2,
        dissipation=lambda c: c, inputs=[[1.0, 0.0], [0.0, 1.0]], parameters={"m": m, "l": l, "c": viscosity, "g": g},
        name="pendulum in the wind", initial={"q": [l, 0.0], "v": [0.0, 0.0]}, picture=Picture(units=SI),
    )  # fmt: skip
    return pendulum.to_port_hamiltonian()  # type: ignore[no-any-return]


def three_carts(k: float = 4.0) -> PortHamiltonian:
    """Three carts on springs of their own, the first two on one rod, the third driven by the second through a gyrator."""

    def cart(m: float) -> PortHamiltonian:
        return PortHamiltonian(
            ("q", "p"), hamiltonian=lambda x, m, k: x[1] ** 2 / (2 * m) + k * x[0] ** 2 / 2 + k * x[0] ** 4 / 4,
            J=[[0, 1], [-1, 0]], R=[0.0, 0.05], B=[[0], [1]], parameters={"m": m, "k": k}, ports=("force",),
            initial={"x": [0.5, 0.0]},
        )  # fmt: skip

    rules = [Couple({"a.force": 1.0, "b.force": -1.0}), Feedback("b.force", "c.force", 0.8)]
    return connect({"a": cart(1.0), "b": cart(2.0), "c": cart(0.5)}, rules, name="three carts")


def rlc_ladder(sections: int = 3, R: float = 1.0, L: float = 0.5, C: float = 0.2) -> PortHamiltonian:
    """A ladder of inductors, capacitors and resistors, fed by a voltage source, as a network of its components."""
    parts: list[tuple[Any, ...]] = [("V", "source", "n0", "ground")]
    for i in range(sections):
        parts.append(("L", f"L{i}", f"n{i}", f"m{i}", L))
        parts.append(("R", f"R{i}", f"m{i}", f"n{i + 1}", R))
        parts.append(("C", f"C{i}", f"n{i + 1}", "ground", C))
    return circuit(parts, name=f"ladder of {sections} sections")


def circuit(parts: Sequence[tuple[Any, ...]], ground: str = "ground", name: str = "circuit") -> PortHamiltonian:
    """An electrical network from its components, as a port-Hamiltonian system of modified nodal analysis.

    A part is a tuple: `("R" | "L" | "C", name, from, to, value)`; `("V" | "I", name, from, to)`, sources whose values are the
    inputs; `("gyrator", name, a, b, c, d, ratio)`, `i_1 = ratio v_2`, `i_2 = -ratio v_1` between the branches a-b and c-d;
    `("transformer", name, a, b, c, d, ratio)`, `v_1 = ratio v_2`. States are the node potentials, then the currents of
    inductors, voltage sources and transformers. `H` is the energy of capacitors and inductors.
    """
    sizes = {"R": 5, "L": 5, "C": 5, "V": 4, "I": 4, "gyrator": 7, "transformer": 7}
    nodes: list[str] = []
    for part in parts:
        if not part or part[0] not in sizes or len(part) != sizes[part[0]]:
            raise ModelError(f"{part!r} is no component; see the forms that circuit() knows: {', '.join(sizes)}")
        for node in part[2:6] if part[0] in ("gyrator", "transformer") else part[2:4]:
            if node != ground and node not in nodes:
                nodes.append(node)
    if not any(ground in part[2:6] for part in parts):
        raise ModelError(f"no component is connected to the node {ground!r}: potentials would be undefined")
    names = [part[1] for part in parts]
    if len(set(names)) < len(names):
        raise ModelError(f"the component {max(names, key=names.count)!r} is named twice")
    for part in parts:
        if part[0] in "RLC" and not (np.isfinite(part[4]) and part[4] > 0):
            raise ModelError(f"{part[1]!r} must have a positive value, not {part[4]!r}")
    k = len(nodes)

    def branch(a: str, b: str) -> np.ndarray:
        row = np.zeros(k)
        for node, sign in ((a, 1.0), (b, -1.0)):
            if node != ground:
                row[nodes.index(node)] += sign
        return row

    kinds = {key: [p for p in parts if p[0] == key] for key in sizes}
    currents = [*kinds["L"], *kinds["V"], *kinds["transformer"]]
    n, sources = k + len(currents), [*kinds["V"], *kinds["I"]]
    E, J, R, B = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, len(sources)))
    for part in kinds["C"]:
        a = branch(*part[2:4])
        E[:k, :k] += part[4] * np.outer(a, a)
    for part in kinds["R"]:
        a = branch(*part[2:4])
        R[:k, :k] += np.outer(a, a) / part[4]
    for part in kinds["gyrator"]:
        one, two = branch(*part[2:4]), branch(*part[4:6])
        J[:k, :k] += part[6] * (np.outer(two, one) - np.outer(one, two))
    for i, part in enumerate(currents):
        a = branch(*part[2:4])
        if part[0] == "transformer":
            a = a - part[6] * branch(*part[4:6])
        J[:k, k + i], J[k + i, :k] = -a, a
        if part[0] == "L":
            E[k + i, k + i] = part[4]
        elif part[0] == "V":
            B[k + i, sources.index(part)] = -1.0
    for part in kinds["I"]:
        B[:k, sources.index(part)] = -branch(*part[2:4])
    weights = E.copy()

    def H(x: Any) -> Any:
        total = 0.0
        for i in range(n):
            for j in range(n):
                if weights[i, j]:
                    total = total + weights[i, j] * x[i] * x[j] / 2
        return total

    labels = [*(f"v_{node}" for node in nodes), *(f"i_{part[1]}" for part in currents)]
    return PortHamiltonian(
        labels, hamiltonian=H, E=E, J=J, R=R, B=B if sources else None, z=lambda x: [x[i] for i in range(n)],
        ports=[part[1] for part in sources] if sources else None, name=name, initial={"x": np.zeros(n)},
        picture=Picture(units={"time": "s", "energy": "J", **{label: "V" if label[0] == "v" else "A" for label in labels}}),
    )  # fmt: skip
