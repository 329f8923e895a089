"""Oscillators and pendulums."""

from __future__ import annotations

import numpy as np

from dalembert.catalog.symbols import Expression, Symbols
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.systems import SI, Element, Mechanical, Picture


@declared(ModelError)
def harmonic_oscillator(m: float = 1.0, k: float = 1.0) -> Mechanical:
    """A mass on a spring, `m x'' = -k x`."""
    return Mechanical(
        ("x",),
        mass=lambda m: m,
        potential=lambda q, k: k * q[0] ** 2 / 2,
        parameters={"m": m, "k": k},
        name="harmonic oscillator",
        dimension=1,
        initial={"q": [1.0], "v": [0.0]},
        picture=Picture(lambda q: [[0.0, 0.0], [2.0 + q[0], 0.0]], links=((0, 1),), masses=(1,), units=SI),
    )


@declared(ModelError)
def simple_pendulum(m: float = 1.0, l: float = 1.0, g: float = 9.81) -> Mechanical:
    """A mass on a rod in the plane, in Cartesian coordinates; starts horizontal, at rest (Symank 2025, sec. 7.3)."""
    return Mechanical(
        ("x", "y"),
        mass=lambda m: m,
        potential=lambda q, m, g: m * g * q[1],
        holonomic=lambda q, l: q[0] ** 2 + q[1] ** 2 - l**2,
        parameters={"m": m, "g": g, "l": l},
        name="simple pendulum",
        dimension=2,
        initial={"q": [l, 0.0], "v": [0.0, 0.0]},
        picture=Picture(units=SI),
    )


@declared(ModelError)
def double_pendulum(m1: float = 3.0, m2: float = 1.0, l1: float = 1.0, l2: float = 1.0, g: float = 9.81) -> Mechanical:
    """Two masses on two rods in the plane; starts stretched on the positive x-axis, at rest (Symank 2025, sec. 7.3.1)."""
    return Mechanical(
        ("x1", "y1", "x2", "y2"),
        mass=lambda m1, m2: [m1, m1, m2, m2],
        potential=lambda q, m1, m2, g: g * (m1 * q[1] + m2 * q[3]),
        holonomic=lambda q, l1, l2: [
            q[0] ** 2 + q[1] ** 2 - l1**2,
            (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - l2**2,
        ],
        parameters={"m1": m1, "m2": m2, "l1": l1, "l2": l2, "g": g},
        name="double pendulum",
        dimension=2,
        initial={"q": [l1, 0.0, l1 + l2, 0.0], "v": [0.0, 0.0, 0.0, 0.0]},
        picture=Picture(trails=(1,), units=SI),
    )


@declared(ModelError)
def chain(n: int = 5, m: float = 1.0, l: float = 1.0, g: float = 9.81) -> Mechanical:
    """A chain of n equal masses on n equal rods in the plane; starts stretched horizontally, at rest."""
    if n < 1:
        raise ModelError(f"a chain needs at least one link, not {n}")

    def points(q: Symbols) -> Symbols:
        return np.vstack([np.zeros((1, 2)), q.reshape(n, 2)])

    def first(q: Symbols, l: Symbols) -> Expression:
        out: Expression = q[0, 0] ** 2 + q[0, 1] ** 2 - l**2
        return out

    def others(q: Symbols, l: Symbols) -> Expression:
        d = q[1] - q[0]
        out: Expression = d[0] ** 2 + d[1] ** 2 - l**2
        return out

    number = np.arange(n)
    elements = [
        Element([[0]], holonomic=first, dimension=2, name="first rod"),
        Element(2 * number[:, None] + 1, potential=lambda q, m, g: m * g * q[0], name="weights"),
    ]
    if n > 1:
        elements.append(Element(np.stack([number[:-1], number[1:]], axis=1), holonomic=others, dimension=2, name="rods"))
    start = np.zeros((n, 2))
    start[:, 0] = l * np.arange(1, n + 1)
    return Mechanical(
        tuple(f"{axis}{i}" for i in range(1, n + 1) for axis in "xy"),
        mass=lambda m: m,
        elements=elements,
        parameters={"m": m, "l": l, "g": g},
        name=f"chain of {n} links",
        dimension=2,
        initial={"q": start.ravel(), "v": np.zeros(2 * n)},
        picture=Picture(
            points,
            links=tuple((i, i + 1) for i in range(n)),
            masses=tuple(range(1, n + 1)),
            trails=(n,),
            units=SI,
        ),
    )


@declared(ModelError)
def spherical_pendulum(m: float = 1.0, l: float = 1.0, g: float = 9.81) -> Mechanical:
    """A mass on a rod in space; starts horizontal with a push sideways."""
    return Mechanical(
        ("x", "y", "z"),
        mass=lambda m: m,
        potential=lambda q, m, g: m * g * q[2],
        holonomic=lambda q, l: np.dot(q, q) - l**2,
        parameters={"m": m, "g": g, "l": l},
        name="spherical pendulum",
        dimension=3,
        initial={"q": [l, 0.0, 0.0], "v": [0.0, 1.5, 0.0]},
        picture=Picture(units=SI),
    )


@declared(ModelError)
def cart_pendulum(M: float = 1.0, m: float = 0.2, l: float = 0.5, g: float = 9.81) -> Mechanical:
    """A pendulum on a cart that a `force` pushes; the angle is measured from the upright, where it starts leaning a little."""
    return Mechanical(
        ("x", "angle"),
        mass=lambda q, M, m, l: [[M + m, m * l * np.cos(q[1])], [m * l * np.cos(q[1]), m * l**2]],
        potential=lambda q, m, l, g: m * g * l * np.cos(q[1]),
        inputs={"force": [1.0, 0.0]},
        parameters={"M": M, "m": m, "l": l, "g": g},
        name="cart pendulum",
        initial={"q": [0.0, 0.1], "v": [0.0, 0.0]},
        picture=Picture(
            lambda q, l: [[q[0], 0.0], [q[0] + l * np.sin(q[1]), l * np.cos(q[1])]],
            links=[(0, 1)],
            masses=[0, 1],
            trails=[1],
            units=SI,
        ),
    )
