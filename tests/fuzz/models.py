"""Random systems of every kind, with initial values that lie on their constraints, or nearly."""

import numpy as np

import dalembert as da

POTENTIALS = {
    "free": lambda q, k: 0.0 * q[0],
    "uniform": lambda q, k: k * q[-1],
    "harmonic": lambda q, k: k * (q @ q) / 2,
    "quartic": lambda q, k: k * (q[0] ** 4 - q[-1] ** 2),
    "trigonometric": lambda q, k: k * np.sin(q[0]) * np.cos(2 * q[-1]),
    "central": lambda q, k: -k / np.sqrt(q @ q),
    "steep": lambda q, k: k * np.exp(3 * q[0]),
    "kink": lambda q, k: k * np.abs(q[0]),
    "root": lambda q, k: k * np.sqrt(q[0]),
    "logarithm": lambda q, k: k * np.log(q[0]),
    "wall": lambda q, k: k * np.maximum(q[0], 0.2) ** 2,
    "timed": lambda q, t, k: k * q[0] * np.sin(3 * t),
}


def size(rng):
    """A scale: one, mostly."""
    return 1.0 if rng.random() < 0.7 else 10.0 ** rng.integers(-8, 9)


def sphere(center, radius):
    return lambda q, t, rate: (q - center) @ (q - center) - (radius + rate * t) ** 2


def mechanical(rng):
    """A mechanical system, its constraints through the initial position."""
    n = int(rng.integers(1, 4))
    length, weight = size(rng), size(rng)
    q0 = np.round(rng.normal(size=n), 2) * length
    q0[np.abs(q0) < 0.1 * length] = 0.5 * length
    v0 = np.round(rng.normal(size=n), 2) * length * (rng.random() < 0.8)
    keywords = {"parameters": {"k": float(size(rng) * rng.choice([1.0, -1.0, 9.81])), "rate": 0.0}}
    masses = np.round(10.0 ** rng.uniform(-1, 1, size=n), 3) * weight
    form = rng.integers(4)
    if form == 0:
        keywords["mass"] = float(masses[0])
    elif form == 1:
        keywords["mass"] = masses
    elif form == 2:
        full = rng.normal(size=(n, n))
        keywords["mass"] = weight * (full @ full.T + n * np.eye(n))
    else:
        square = length**2
        keywords["mass"] = lambda q: [[masses[0] * (1 + (q @ q) / square) if i == j else 0.0 for j in range(n)] for i in range(n)]
    keywords["potential"] = POTENTIALS[rng.choice(list(POTENTIALS))]
    consistent = False
    if n > 1 and rng.random() < 0.5:
        center = np.round(rng.normal(size=n), 1) * length
        radius = float(np.sqrt((q0 - center) @ (q0 - center)))
        if rng.random() < 0.3:
            keywords["parameters"]["rate"] = 0.1 * length
        keywords["holonomic"], consistent = sphere(center, radius), True
    if n > (2 if consistent else 1) and rng.random() < 0.2:
        keywords["nonholonomic"], consistent = (lambda q, v: v[0] - v[1] * np.cos(q[0] / length)), True
    if rng.random() < 0.2:
        keywords["dissipation"] = float(abs(rng.normal()) * weight)
    if rng.random() < 0.2:
        keywords["force"] = lambda q, v, t: [0.1 * weight * length * np.cos(t)] * n
    if rng.random() < 0.2:
        keywords["inputs"] = np.ones((n, 1)) * weight * length
    if rng.random() < 0.08 and form < 3:
        keywords["kinematics"] = np.eye(n) + 0.1 * np.triu(np.ones((n, n)))
    return da.Mechanical(n, **keywords), {"q": q0, "v": v0}, consistent


def hamiltonian(rng):
    n = int(rng.integers(1, 3))
    k = size(rng)
    energies = (
        lambda q, p: p @ p / 2 + k * (q @ q) / 2,
        lambda q, p: p @ p / (2 + np.cos(q[0])) - k * np.cos(q[-1]),
        lambda q, p: np.sqrt(1 + p @ p) + k * q[0] ** 2,
        lambda q, p, t: p @ p / 2 + k * q[0] * np.cos(t),
    )
    q0 = np.round(rng.normal(size=n), 2) + 0.3
    keywords = {"hamiltonian": energies[rng.integers(len(energies))]}
    constrained = n > 1 and rng.random() < 0.5
    if constrained:
        level = float(q0 @ q0)
        keywords["holonomic"] = lambda q: q @ q - level
    if rng.random() < 0.2:
        keywords["dissipation"] = 0.1
    return da.Hamiltonian(n, **keywords), {"q": q0, "p": np.round(rng.normal(size=n), 2)}, constrained


def port(rng):
    k = size(rng)
    skew = np.array([[0.0, 1.0], [-1.0, 0.0]])
    keywords = {"hamiltonian": lambda x: k * (x @ x) / 2, "J": skew}
    choice = rng.integers(5)
    if choice == 1:
        keywords |= {"R": [0.0, 0.3], "B": [[0.0], [1.0]]}
    elif choice == 2:
        keywords |= {"R": [0.1, 0.3], "B": [[0.0], [1.0]], "P": [[0.0], [0.1]], "S": [[0.5]]}
    elif choice == 3:
        keywords = {"hamiltonian": lambda x: k * x[0] ** 2 / 2, "E": [1.0, 0.0], "J": skew, "R": [0.0, 1.0]}
    elif choice == 4:
        keywords = {"hamiltonian": lambda x: k * (np.cosh(x[0]) + x[1] ** 4), "J": lambda x: (1 + x[0] ** 2) * skew}
    x0 = np.round(rng.normal(size=2), 2)
    return da.PortHamiltonian(2, **keywords), {"x": x0}, choice == 3


def dae(rng):
    a = float(size(rng))
    choice = rng.integers(4)
    if choice == 0:
        system = da.IndexOneDAE(2, f=lambda y, z: [y[1], -a * z[0]], g=lambda y, z: z[0] + 0.1 * z[0] ** 3 - y[0])
        return system, {"y": [1.0, 0.0]}, True
    if choice == 1:
        system = da.IndexTwoDAE(
            3, f=lambda y, z: [y[1], -a * y[0] + z[0], -y[2] + z[0] * y[0]], g=lambda y: [y[0] + y[1] ** 2 + y[2] - 1.5]
        )
        return system, {"y": [0.5, 0.5, 0.75]}, True
    if choice == 2:
        system = da.IndexTwoDAE(
            2, parts=[lambda y: [y[1], 0.0], lambda y, z: [-z[0] * y[0], -z[0] * y[1]]], g=lambda y: y @ y - 1
        )
        return system, {"y": [0.6, 0.8]}, True
    system = da.IndexThreeDAE(
        4, f=lambda y, z: [y[2], y[3], -z[0] * y[0], -z[0] * y[1] - 9.81 * a], g=lambda y: [y[0] ** 2 + y[1] ** 2 - 1]
    )
    return system, {"y": [0.6, -0.8, 0.8, 0.6]}, True


def lagrangian(rng):
    m = float(size(rng))
    kinds = (
        lambda q, v: m * (v @ v) / 2 - 9.81 * m * q[-1],
        lambda q, v: m * (v @ v) / 2 + m * v[0] * q[-1] - m * np.cos(q[0]),
        lambda q, v: m * (v @ v + (v @ v) ** 2 / 4) / 2 - m * q @ q,
    )
    choice = int(rng.integers(3))
    system = da.Lagrangian(2, lagrangian=kinds[choice])
    return system, ({"y": [0.3, 0.4, 0.1, 0.2]} if choice == 2 else {"q": [0.3, 0.4], "v": [0.1, 0.2]}), False


def linear(rng):
    n = int(rng.integers(1, 4))
    E = np.eye(n)
    if n > 1:
        E[-1, -1] = 0.0
    A = -np.diag(np.abs(np.round(rng.normal(size=n), 2)) * size(rng) + 0.1)
    source = (lambda t: [np.cos(t)] * n) if rng.random() < 0.5 else None
    return da.LinearDAE(E, A, source)


MAKERS = (mechanical, mechanical, mechanical, mechanical, hamiltonian, port, dae, lagrangian)
