"""Nets of rods and of springs, of any size, made of elements."""

from __future__ import annotations

import numpy as np

from dalembert.catalog.symbols import Array, Expression, Symbols
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.systems import SI, Element, Mechanical, Picture


def _squared(q: Symbols) -> Expression:
    """The squared distance of the two particles of an element."""
    d = q[1] - q[0]
    squared: Expression = np.dot(d, d)
    return squared


def _grid(rows: int, columns: int) -> tuple[Array, Array]:
    """Places in a wavy grid, and the pairs of neighbours."""
    if min(rows, columns) < 2:
        raise ModelError(f"a net has at least 2 rows and 2 columns, not {rows} and {columns}")
    number = np.arange(rows * columns).reshape(rows, columns)
    along = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    across = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    y, x = np.divmod(np.arange(rows * columns), columns)
    return np.stack([x, y, 0.3 * np.sin(0.7 * x) * np.cos(0.5 * y)], axis=1), np.vstack([along, across])


def _hung(places: Array, pairs: Array, between: Element, given: dict[str, float], columns: int, name: str) -> Mechanical:
    """Particles under gravity, joined by an element, and held at two corners by springs."""
    corners, count = np.array([[0], [columns - 1]]), len(places)

    def held(q: Symbols, c: Symbols, at: Symbols) -> Expression:
        out: Expression = c / 2 * np.dot(q[0] - at, q[0] - at)
        return out

    return Mechanical(
        tuple(f"{axis}{i}" for i in range(1, count + 1) for axis in "xyz"),
        mass=lambda m: m,
        elements=[
            between,
            Element(np.arange(count)[:, None], potential=lambda q, m, g: m * g * q[0, 2], dimension=3, name="weights"),
            Element(corners, potential=held, parameters={"at": places[corners[:, 0]]}, dimension=3, name="corners"),
        ],
        parameters=given,
        name=name,
        dimension=3,
        initial={"q": places.ravel(), "v": np.zeros(3 * count)},
        picture=Picture(links=pairs.tolist(), units=SI),
    )


@declared(ModelError)
def net(rows: int = 3, columns: int = 3, m: float = 1.0, g: float = 9.81, c: float = 1000.0) -> Mechanical:
    """A net of rods between neighbours in a grid, in space; starts wavy and at rest, held at two corners by springs."""
    places, pairs = _grid(rows, columns)
    lengths = np.linalg.norm(places[pairs[:, 1]] - places[pairs[:, 0]], axis=1)
    rods = Element(pairs, holonomic=lambda q, l: (_squared(q) - l**2) / 2, parameters={"l": lengths}, dimension=3, name="rods")
    return _hung(places, pairs, rods, {"m": m, "g": g, "c": c}, columns, f"net of {len(pairs)} rods")


@declared(ModelError)
def spring_net(
    rows: int = 3, columns: int = 3, m: float = 1.0, g: float = 9.81, k: float = 1000.0, l: float = 1.0, c: float = 1000.0
) -> Mechanical:
    """A net of springs between neighbours in a grid, in space; starts wavy and at rest, held at two corners by springs."""
    places, pairs = _grid(rows, columns)
    springs = Element(pairs, potential=lambda q, k, l: k / 2 * (np.sqrt(_squared(q)) - l) ** 2, dimension=3, name="springs")
    return _hung(places, pairs, springs, {"m": m, "g": g, "k": k, "l": l, "c": c}, columns, f"net of {len(pairs)} springs")
