"""The four particles of Gonzalez 1999 and of Kinon et al. 2025: two rods, two nonlinear springs, free in space."""

from __future__ import annotations

import numpy as np

from dalembert.catalog.symbols import Expression, Symbols
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.systems import Mechanical, Picture

_START = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]
_MASSES = [1.0, 3.0, 2.3, 1.7]
_NAMES = tuple(f"{axis}{i}" for i in range(1, 5) for axis in "xyz")


def _squared(q: Symbols, a: int, b: int) -> Expression:
    """`|q_a - q_b|^2`, particles counted from 1."""
    d = q[3 * a - 3 : 3 * a] - q[3 * b - 3 : 3 * b]
    squared: Expression = np.dot(d, d)
    return squared


def _picture() -> Picture:
    return Picture(lambda q: q.reshape(4, 3), links=((0, 1), (2, 3), (0, 2), (1, 3)), masses=(0, 1, 2, 3), trails=(0, 1, 2, 3))


@declared(ModelError)
def four_particles(K1: float = 100.0, K2: float = 1000.0) -> Mechanical:
    """Four particles, two rods, two springs (Gonzalez 1999, sec. 4): energy and both momenta are kept.

    `V = K/4 (|d|^2 - 1)^2` between 1-3 and 2-4; rods `|d| - 1` between 1-2 and 3-4, in square-root form.
    """
    return Mechanical(
        _NAMES,
        mass=lambda m: np.repeat(m, 3),
        potential=lambda q, K1, K2: K1 / 4 * (_squared(q, 1, 3) - 1) ** 2 + K2 / 4 * (_squared(q, 2, 4) - 1) ** 2,
        holonomic=lambda q: [np.sqrt(_squared(q, 1, 2)) - 1, np.sqrt(_squared(q, 3, 4)) - 1],
        parameters={"m": _MASSES, "K1": K1, "K2": K2},
        name="four particles",
        dimension=3,
        initial={"q": _START, "v": [0.0] * 11 + [2 / 1.7]},
        picture=_picture(),
    )


@declared(ModelError)
def four_particles_damped(k13: float = 50.0, k24: float = 500.0, eta0: float = 1.0, alpha: float = 0.5) -> Mechanical:
    """Four particles with a viscous damper between 2 and 3 (Kinon, Morandin, Schulze 2025, sec. 6.3).

    `V = k/2 (|d|^2 - 1)^2`, rods `(|d|^2 - 1) / 2`, viscosity `eta0 (1 + alpha |q3 - q2|^2)`.
    """

    def damper(q: Symbols, eta0: Symbols, alpha: Symbols) -> object:
        pattern = np.zeros((4, 4))
        pattern[1:3, 1:3] = [[1.0, -1.0], [-1.0, 1.0]]
        return eta0 * (1 + alpha * _squared(q, 3, 2)) * np.kron(pattern, np.eye(3))

    return Mechanical(
        _NAMES,
        mass=lambda m: np.repeat(m, 3),
        potential=lambda q, k13, k24: k13 / 2 * (_squared(q, 3, 1) - 1) ** 2 + k24 / 2 * (_squared(q, 4, 2) - 1) ** 2,
        holonomic=lambda q: [(_squared(q, 2, 1) - 1) / 2, (_squared(q, 4, 3) - 1) / 2],
        dissipation=damper,
        parameters={"m": _MASSES, "k13": k13, "k24": k24, "eta0": eta0, "alpha": alpha},
        name="four particles with damper",
        dimension=3,
        initial={"q": _START, "v": [0.0] * 11 + [20 / 17]},
        picture=_picture(),
    )
