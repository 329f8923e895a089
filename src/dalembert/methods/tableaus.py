"""Runge-Kutta tableaus as data, for up to twelve stages, computed from their quadrature nodes in multiple precision.

Facts about a tableau are computed, never declared: order conditions, symplecticity, symmetry, stiff accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from math import comb

import numpy as np
from numpy.polynomial import legendre
from numpy.polynomial.polynomial import polyroots

from dalembert.errors import MethodError

Array = np.ndarray
TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Tableau:
    """Coefficients `A`, weights `b` and nodes `c` of a Runge-Kutta method."""

    name: str
    A: Array
    b: Array
    c: Array
    embedded: Array | None = None  # weights of a second method with the same stages

    def __post_init__(self) -> None:
        s = len(self.b)
        if self.A.shape != (s, s) or self.c.shape != (s,):
            raise MethodError(f"{self.name}: A is {self.A.shape}, b has {s} entries and c has {len(self.c)}")
        if abs(self.b.sum() - 1) > TOLERANCE:
            raise MethodError(f"{self.name}: the weights add up to {self.b.sum():g}, not 1")

    def second(self) -> Tableau:
        """The embedded method: the same stages with the second weights."""
        if self.embedded is None:
            raise MethodError(f"{self.name} has no embedded weights")
        return Tableau(f"{self.name} (embedded)", self.A, self.embedded, self.c)

    @property
    def stages(self) -> int:
        return len(self.b)

    def B(self) -> int:
        """The largest p with `sum_i b_i c_i^(k-1) = 1/k` for k = 1 .. p: the order of the quadrature."""
        k = 1
        while abs(self.b @ self.c ** (k - 1) - 1 / k) < TOLERANCE:
            k += 1
        return k - 1

    def C(self) -> int:
        """The largest q with `sum_j a_ij c_j^(k-1) = c_i^k / k` for k = 1 .. q (stage order)."""
        k = 1
        while k <= self.stages + 1 and np.abs(self.A @ self.c ** (k - 1) - self.c**k / k).max() < TOLERANCE:
            k += 1
        return k - 1

    def D(self) -> int:
        """The largest r with `sum_i b_i c_i^(k-1) a_ij = b_j (1 - c_j^k) / k` for k = 1 .. r."""
        k = 1
        while (
            k <= self.stages + 1
            and np.abs((self.b * self.c ** (k - 1)) @ self.A - self.b * (1 - self.c**k) / k).max() < TOLERANCE
        ):
            k += 1
        return k - 1

    @property
    def order(self) -> int:
        """Order on ordinary differential equations by Butcher's theorem: `min(p, q + r + 1, 2 q + 2)`.

        For methods of low stage order the conditions up to order four are looked at one by one. A symmetric method has an even
        order (Hairer, Lubich, Wanner, theorem II.3.2).
        """
        p, q, r = self.B(), self.C(), self.D()
        order = max(min(p, q + r + 1, 2 * q + 2), self._order_by_trees())
        return order + order % 2 if self.symmetric else order

    def _order_by_trees(self) -> int:
        """Order by the conditions of all trees with up to four nodes (enough for the explicit methods)."""
        A, b, c = self.A, self.b, self.c
        if np.abs(A.sum(axis=1) - c).max() > TOLERANCE:
            return 0
        conditions: list[list[tuple[float, float]]] = [
            [(b.sum(), 1)],
            [(b @ c, 1 / 2)],
            [(b @ c**2, 1 / 3), (b @ A @ c, 1 / 6)],
            [(b @ c**3, 1 / 4), ((b * c) @ A @ c, 1 / 8), (b @ A @ c**2, 1 / 12), (b @ A @ A @ c, 1 / 24)],
        ]
        for order, level in enumerate(conditions):
            if any(abs(x - y) > TOLERANCE for x, y in level):
                return order
        return 4

    @property
    def symplectic(self) -> bool:
        """`b_i a_ij + b_j a_ji = b_i b_j` (Hairer, Lubich, Wanner, sec. VI.4)."""
        bA = self.b[:, None] * self.A
        return bool(np.abs(bA + bA.T - np.outer(self.b, self.b)).max() < TOLERANCE)

    @property
    def symmetric(self) -> bool:
        """`a_(s+1-i, s+1-j) + a_ij = b_j` (Hairer, Lubich, Wanner, sec. V.2)."""
        return bool(np.abs(self.A[::-1, ::-1] + self.A - self.b).max() < TOLERANCE)

    @property
    def stiffly_accurate(self) -> bool:
        """The last stage is the end of the step."""
        return bool(self.c[-1] == 1.0 and np.abs(self.A[-1] - self.b).max() < TOLERANCE)

    @property
    def explicit(self) -> bool:
        return bool(np.abs(np.triu(self.A)).max() == 0)

    def conjugate(self) -> Tableau:
        """The partner with which a pair is symplectic: `b_i a*_ij + b_j a_ji = b_i b_j`."""
        return Tableau(f"{self.name}*", self.b[None, :] - (self.b[:, None] * self.A).T / self.b[:, None], self.b, self.c)


def lagrange(nodes: Array, x: Array) -> Array:
    """Values of the Lagrange polynomials of `nodes`: entry (i, j) is `l_j(x_i)`."""
    x = np.atleast_1d(x)
    out = np.ones((len(x), len(nodes)))
    for j, cj in enumerate(nodes):
        for k, ck in enumerate(nodes):
            if k != j:
                out[:, j] *= (x - ck) / (cj - ck)
    return out


def integrals(nodes: Array, ends: Array) -> Array:
    """Entry (i, j) is the integral of `l_j` from 0 to `ends_i`, by a Gauss quadrature that is exact for it."""
    x, w = legendre.leggauss(max(1, (len(nodes) + 1) // 2 + 1))
    return np.array([e / 2 * (w @ lagrange(nodes, e * (1 + x) / 2)) for e in np.atleast_1d(ends)])


# ---- the families, in sixty digits and then rounded: coefficients are right to the last bit, and zeros are zero -----------

Row = list[Decimal]
Exact = tuple[list[Row], Row, Row]  # A, b, c
DIGITS, NOTHING = 60, Decimal("1e-40")


def _legendre(n: int) -> Row:
    """Coefficients of the Legendre polynomial on [0, 1], lowest first."""
    return [Decimal((-1) ** (n + k) * comb(n, k) * comb(n + k, k)) for k in range(n + 1)]


def _value(p: Row, x: Decimal) -> Decimal:
    out = Decimal(0)
    for a in reversed(p):
        out = out * x + a
    return out


def _derivative(p: Row) -> Row:
    return [k * a for k, a in enumerate(p)][1:]


def _roots(p: Row) -> Row:
    """The roots in [0, 1], by Newton's method from those in double precision."""
    roots = [Decimal(x) for x in np.sort(np.real(polyroots([float(a) for a in p]))).tolist()]
    for _ in range(12):
        roots = [x - _value(p, x) / _value(_derivative(p), x) for x in roots]
    return [Decimal(0) if abs(x) < NOTHING else Decimal(1) if abs(x - 1) < NOTHING else x for x in roots]


def _nodes(quadrature: str, s: int) -> Row:
    """The nodes of Gauss, of Radau with the left or the right end, of Lobatto with both."""
    if quadrature == "gauss":
        return _roots(_legendre(s))
    if quadrature == "lobatto":
        return [Decimal(0), *_roots(_derivative(_legendre(s - 1))), Decimal(1)]
    sign = -1 if quadrature == "radau-right" else 1
    return _roots([a + sign * b for a, b in zip(_legendre(s), [*_legendre(s - 1), Decimal(0)], strict=True)])


def _integrals(nodes: Row, ends: Row) -> list[Row]:
    """Entry (i, j) is the integral of the Lagrange polynomial `l_j` of the nodes from 0 to `ends_i`."""
    columns = []
    for j, c in enumerate(nodes):
        p = [Decimal(1)]
        for other in nodes[:j] + nodes[j + 1 :]:
            p = [(a - other * b) / (c - other) for a, b in zip([Decimal(0), *p], [*p, Decimal(0)], strict=True)]
        columns.append([Decimal(0), *(a / (k + 1) for k, a in enumerate(p))])
    return [[_value(p, e) for p in columns] for e in ends]


def _collocation(quadrature: str, s: int) -> Exact:
    c = _nodes(quadrature, s)
    return _integrals(c, c), _integrals(c, [Decimal(1)])[0], c


def _partner(pair: Exact) -> Exact:
    """The tableau with which a pair is symplectic."""
    A, b, c = pair
    n = range(len(b))
    return [[b[j] - b[j] * A[j][i] / b[i] for j in n] for i in n], b, c


def _explicit_end(s: int) -> Exact:
    """Lobatto IIIC*: the last stage is used by no stage, the others by collocation."""
    _, b, c = _collocation("lobatto", s)
    return [[*row, Decimal(0)] for row in _integrals(c[:-1], c)], b, c


def _mean(one: Exact, other: Exact) -> Exact:
    A = [[(x + y) / 2 for x, y in zip(*rows, strict=True)] for rows in zip(one[0], other[0], strict=True)]
    return A, one[1], one[2]


FAMILIES: dict[str, tuple[int, Callable[[int], Exact]]] = {  # the fewest stages, and the tableau
    "gauss": (1, lambda s: _collocation("gauss", s)),
    "radau-ia": (1, lambda s: _partner(_collocation("radau-left", s))),
    "radau-iia": (1, lambda s: _collocation("radau-right", s)),
    "lobatto-iiia": (2, lambda s: _collocation("lobatto", s)),
    "lobatto-iiib": (2, lambda s: _partner(_collocation("lobatto", s))),
    "lobatto-iiic": (2, lambda s: _partner(_explicit_end(s))),
    "lobatto-iiic*": (2, _explicit_end),
    "lobatto-iiid": (2, lambda s: _mean(_partner(_explicit_end(s)), _explicit_end(s))),
}


EMBEDDED = {  # Bertolazzi, Cocetti, Stocco, eqs. 1.41, 1.42: of order 1 and 2
    ("gauss", 2): np.array([0.5 + np.sqrt(3) / 2, 0.5 - np.sqrt(3) / 2]),
    ("gauss", 3): np.array([-5 / 6, 8 / 3, -5 / 6]),
}


def _rounded(rows: list[Row]) -> Array:
    return np.array([[0.0 if abs(x) < NOTHING else float(x) for x in row] for row in rows])


@cache
def tableau(family: str, s: int) -> Tableau:
    """A tableau by family and number of stages, `tableau("radau-iia", 3)`."""
    if family not in FAMILIES:
        raise MethodError(f"there is no family of tableaus {family!r}; known: {', '.join(FAMILIES)}")
    low, make = FAMILIES[family]
    if not low <= s <= 12:
        raise MethodError(f"{family} has {low} to 12 stages, not {s}")
    with localcontext(prec=DIGITS):
        A, b, c = make(s)
        weights, nodes = _rounded([b, c])
        return Tableau(f"{family}-{s}", _rounded(A), weights, nodes, EMBEDDED.get((family, s)))


@cache
def murua_nodes(s: int) -> tuple[Array, Array]:
    """The constraint nodes of Murua's method, those of Lobatto beside 0, and the coefficients that lead to them.

    (Murua 1997; Symank 2025, sec. 6.3.)
    """
    with localcontext(prec=DIGITS):
        nodes = _nodes("lobatto", s + 1)[1:]
        return _rounded([nodes])[0], _rounded(_integrals(_nodes("gauss", s), nodes))
