"""A truss, a cloth and a beam of rods, of any size, made of elements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dalembert.catalog.symbols import Array, Expression, Symbols
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.systems import SI, Element, Mechanical, Picture

Indices = NDArray[np.integer]


def _stretched(q: Symbols, k: Symbols, l: Symbols | float) -> Expression:
    """The energy of a spring between two particles."""
    d = q[1] - q[0]
    out: Expression = k / 2 * (np.sqrt(np.dot(d, d)) - l) ** 2
    return out


def _anchored(q: Symbols, at: Symbols, k: Symbols, length: Symbols) -> Expression:
    """The energy of a spring between a fixed point and a particle."""
    d = q[0] - at
    out: Expression = k / 2 * (np.sqrt(np.dot(d, d)) - length) ** 2
    return out


def _lengths(a: Array, b: Array) -> Array:
    return np.asarray(np.linalg.norm(b - a, axis=1))


def _weights(count: int, dimension: int) -> Element:
    def weight(q: Symbols, m: Symbols, g: Symbols) -> Expression:
        out: Expression = m * g * q[0, dimension - 1]
        return out

    return Element(np.arange(count)[:, None], potential=weight, dimension=dimension, name="weights")


def _names(count: int, axes: str) -> tuple[str, ...]:
    return tuple(f"{axis}{i}" for i in range(1, count + 1) for axis in axes)


@declared(ModelError)
def truss(bays: int = 2, m: float = 1.0, g: float = 9.81, k: float = 1e4) -> Mechanical:
    """A truss of elastic bars in the plane, fixed to a wall at its left end; starts straight and at rest, and sags."""
    if bays < 1:
        raise ModelError(f"a truss has at least one bay, not {bays}")
    place = np.array([(x, y) for x in range(1, bays + 1) for y in (0, 1)], dtype=float)
    wall = np.array([(0.0, 0.0), (0.0, 1.0)])
    low = 2 * np.arange(bays)
    posts = np.stack([low, low + 1], axis=1)
    chords = np.vstack([np.stack([low[:-1] + i, low[1:] + i], axis=1) for i in (0, 1)])
    braces = np.stack([low[:-1], low[1:] + 1], axis=1)
    pairs = np.vstack([posts, chords, braces])
    held, at = np.array([[0], [1], [1]]), wall[[0, 1, 0]]
    bars = Element(
        pairs, potential=_stretched, parameters={"l": _lengths(place[pairs[:, 0]], place[pairs[:, 1]])}, dimension=2, name="bars"
    )
    anchors = Element(
        held, potential=_anchored, parameters={"at": at, "length": _lengths(at, place[held[:, 0]])}, dimension=2, name="anchors"
    )
    count = len(place)

    def points(q: Symbols) -> Symbols:
        return np.vstack([q.reshape(count, 2), wall])

    links = [*pairs.tolist(), (count, 0), (count + 1, 1), (count, 1)]
    return Mechanical(
        _names(count, "xy"), mass=lambda m: m, elements=[bars, anchors, _weights(count, 2)],
        parameters={"m": m, "g": g, "k": k}, name=f"truss of {bays} bays", dimension=2,
        initial={"q": place.ravel(), "v": np.zeros(2 * count)},
        picture=Picture(points, links=links, masses=range(count) if count <= 60 else (), units=SI),
    )  # fmt: skip


@declared(ModelError)
def cloth(
    rows: int = 2, columns: int = 3, m: float = 0.1, g: float = 9.81, k: float = 500.0, shear: float = 100.0,
    bend: float = 20.0, d: float = 0.1,
) -> Mechanical:  # fmt: skip
    """A cloth of springs and dampers along its threads, across them, and over two fields; falls, held at two corners."""
    if min(rows, columns) < 2:
        raise ModelError(f"a cloth has at least 2 rows and 2 columns, not {rows} and {columns}")
    number = np.arange(rows * columns).reshape(rows, columns)
    threads = np.vstack([_pairs(number[:, :-1], number[:, 1:]), _pairs(number[:-1], number[1:])])
    crossed = np.vstack([_pairs(number[:-1, :-1], number[1:, 1:]), _pairs(number[:-1, 1:], number[1:, :-1])])
    apart = np.vstack([_pairs(number[:, :-2], number[:, 2:]), _pairs(number[:-2], number[2:])])
    y, x = np.divmod(np.arange(rows * columns), columns)
    place = np.stack([x, y, np.zeros(rows * columns)], axis=1).astype(float)

    def damped(q: Symbols, d: Symbols) -> Symbols:
        along = q[1] - q[0]
        both = np.concatenate([-along, along]) / np.sqrt(np.dot(along, along))
        out: Symbols = d * np.outer(both, both)
        return out

    def sheared(q: Symbols, shear: Symbols) -> Expression:
        return _stretched(q, shear, np.sqrt(2.0))

    def bent(q: Symbols, bend: Symbols) -> Expression:
        return _stretched(q, bend, 2.0)

    def held(q: Symbols, k: Symbols, at: Symbols) -> Expression:
        out: Expression = 10 * k / 2 * np.dot(q[0] - at, q[0] - at)
        return out

    corners = np.array([[0], [columns - 1]])
    elements = [
        Element(threads, potential=lambda q, k: _stretched(q, k, 1.0), dissipation=damped, dimension=3, name="threads"),
        Element(crossed, potential=sheared, dimension=3, name="shear"),
        *([Element(apart, potential=bent, dimension=3, name="bending")] if len(apart) else []),
        Element(corners, potential=held, parameters={"at": place[corners[:, 0]]}, dimension=3, name="corners"),
        _weights(rows * columns, 3),
    ]
    return Mechanical(
        _names(rows * columns, "xyz"), mass=lambda m: m, elements=elements,
        parameters={"m": m, "g": g, "k": k, "shear": shear, "bend": bend, "d": d}, name=f"cloth of {rows} x {columns} particles",
        dimension=3, initial={"q": place.ravel(), "v": np.zeros(3 * rows * columns)},
        picture=Picture(links=threads.tolist(), units=SI),
    )  # fmt: skip


def _pairs(a: Indices, b: Indices) -> Indices:
    return np.stack([a.ravel(), b.ravel()], axis=1)


@declared(ModelError)
def beam(n: int = 3, m: float = 1.0, g: float = 9.81, l: float = 1.0, stiffness: float = 100.0) -> Mechanical:
    """A beam of n rigid rods in the plane with elastic joints, clamped at its left end; starts straight and at rest."""
    if n < 2:
        raise ModelError(f"a beam has at least two rods, not {n}")
    number = np.arange(n)

    def rod(q: Symbols, l: Symbols) -> Expression:
        d = q[1] - q[0]
        out: Expression = (np.dot(d, d) - l**2) / 2
        return out

    def first(q: Symbols, l: Symbols) -> Expression:
        out: Expression = (np.dot(q[0], q[0]) - l**2) / 2
        return out

    def joint(q: Symbols, l: Symbols, stiffness: Symbols) -> Expression:
        out: Expression = stiffness * (1 - np.dot(q[1] - q[0], q[2] - q[1]) / l**2)
        return out

    def second(q: Symbols, l: Symbols, stiffness: Symbols) -> Expression:
        out: Expression = stiffness * (1 - np.dot(q[0], q[1] - q[0]) / l**2)
        return out

    def clamp(q: Symbols, l: Symbols, stiffness: Symbols) -> Expression:
        out: Expression = 2 * stiffness * (1 - q[0, 0] / l)
        return out

    elements = [
        Element([[0]], holonomic=first, potential=clamp, dimension=2, name="clamp"),
        Element(_pairs(number[:-1], number[1:]), holonomic=rod, dimension=2, name="rods"),
        Element([[0, 1]], potential=second, dimension=2, name="first joint"),
        *([Element(np.stack([number[:-2], number[1:-1], number[2:]], axis=1), potential=joint, dimension=2, name="joints")]
          if n > 2 else []),
        _weights(n, 2),
    ]  # fmt: skip

    def points(q: Symbols) -> Symbols:
        return np.vstack([np.zeros((1, 2)), q.reshape(n, 2)])

    start = np.stack([l * np.arange(1, n + 1), np.zeros(n)], axis=1)
    return Mechanical(
        _names(n, "xy"), mass=lambda m: m, elements=elements,
        parameters={"m": m, "g": g, "l": l, "stiffness": stiffness}, name=f"beam of {n} rods", dimension=2,
        initial={"q": start.ravel(), "v": np.zeros(2 * n)},
        picture=Picture(points, links=tuple((i, i + 1) for i in range(n)), masses=range(1, n + 1) if n <= 60 else (), units=SI),
    )  # fmt: skip
