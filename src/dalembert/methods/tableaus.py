"""Runge-Kutta tableaus as data, for any number of stages, computed from their quadrature nodes.

Facts about a tableau are computed, never declared: order conditions, symplecticity, symmetry, stiff accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import legendre

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

    def __post_init__(self) -> None:
        s = len(self.b)
        if self.A.shape != (s, s) or self.c.shape != (s,):
            raise MethodError(f"{self.name}: A is {self.A.shape}, b has {s} entries and c has {len(self.c)}")
        if abs(self.b.sum() - 1) > TOLERANCE:
            raise MethodError(f"{self.name}: the weights add up to {self.b.sum():g}, not 1")

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


def collocation(name: str, nodes: Array) -> Tableau:
    """The collocation method of given nodes."""
    return Tableau(name, integrals(nodes, nodes), integrals(nodes, np.array([1.0]))[0], nodes)


def _roots(coefficients: Array) -> Array:
    """Roots on [0, 1] of a combination of Legendre polynomials on [-1, 1], polished by Newton's method."""
    x = np.sort(np.real(legendre.legroots(coefficients)))
    derivative = legendre.legder(coefficients)
    for _ in range(3):
        x = x - legendre.legval(x, coefficients) / legendre.legval(x, derivative)
    return np.asarray((1 + x) / 2)


def _unit(*positions: tuple[int, float]) -> Array:
    out = np.zeros(max(i for i, _ in positions) + 1)
    for i, value in positions:
        out[i] += value
    return out


def gauss_nodes(s: int) -> Array:
    return _roots(_unit((s, 1.0)))


def lobatto_nodes(s: int) -> Array:
    """Both ends, and the roots of the derivative of the Legendre polynomial of degree s - 1."""
    if s == 2:
        return np.array([0.0, 1.0])
    inner = _roots(legendre.legder(_unit((s - 1, 1.0))))
    return np.concatenate([[0.0], inner, [1.0]])


def radau_nodes(s: int, right: bool) -> Array:
    nodes = _roots(_unit((s, 1.0), (s - 1, -1.0 if right else 1.0)))
    nodes[-1 if right else 0] = 1.0 if right else 0.0
    return nodes


def _lobatto_iiic(s: int) -> Tableau:
    """`a_i1 = b_1` and stage order s - 1."""
    base = collocation("lobatto", lobatto_nodes(s))
    A, c, b = np.zeros((s, s)), base.c, base.b
    A[:, 0] = b[0]
    V = np.array([c ** (k - 1) for k in range(1, s)])
    for i in range(s):
        right = np.array([c[i] ** k / k for k in range(1, s)]) - V[:, 0] * b[0]
        A[i, 1:] = np.linalg.solve(V[:, 1:], right)
    return Tableau(f"lobatto-iiic-{s}", A, b, c)


@cache
def tableau(family: str, s: int) -> Tableau:
    """A tableau by family and number of stages, `tableau("radau-iia", 3)`."""
    if family not in FAMILIES:
        raise MethodError(f"there is no family of tableaus {family!r}; known: {', '.join(FAMILIES)}")
    low = FAMILIES[family]
    if not low <= s <= 12:
        raise MethodError(f"{family} has {low} to 12 stages, not {s}")
    name = f"{family}-{s}"
    if family == "gauss":
        return collocation(name, gauss_nodes(s))
    if family == "radau-iia":
        return collocation(name, radau_nodes(s, right=True))
    if family == "radau-ia":
        return _named(collocation(name, radau_nodes(s, right=False)).conjugate(), name)
    if family == "lobatto-iiia":
        return collocation(name, lobatto_nodes(s))
    if family == "lobatto-iiib":
        return _named(tableau("lobatto-iiia", s).conjugate(), name)
    if family == "lobatto-iiic":
        return _lobatto_iiic(s)
    if family == "lobatto-iiic*":
        return _named(_lobatto_iiic(s).conjugate(), name)
    c, star = _lobatto_iiic(s), _lobatto_iiic(s).conjugate()
    return Tableau(name, (c.A + star.A) / 2, c.b, c.c)


FAMILIES = {
    "gauss": 1,
    "radau-ia": 1,
    "radau-iia": 1,
    "lobatto-iiia": 2,
    "lobatto-iiib": 2,
    "lobatto-iiic": 2,
    "lobatto-iiic*": 2,
    "lobatto-iiid": 2,
}


def _named(t: Tableau, name: str) -> Tableau:
    return Tableau(name, t.A, t.b, t.c)


@dataclass(frozen=True, eq=False)
class Murua:
    """Gauss collocation with constraints at Lobatto nodes (Murua 1997; Symank 2025, sec. 6.3).

    `bar` integrates from 0 to the constraint nodes `c_bar`; `gamma` are the weights of `z_0, Z_1 .. Z_s` at the end.
    """

    gauss: Tableau
    c_bar: Array
    bar: Array
    gamma: Array


def murua_nodes(s: int) -> tuple[Array, Array]:
    """The constraint nodes of Murua's method, and the coefficients that lead to them."""
    pair = murua(s)
    return pair.c_bar, pair.bar


@cache
def murua(s: int) -> Murua:
    """Murua's pair for s stages."""
    gauss = tableau("gauss", s)
    c_bar = lobatto_nodes(s + 1)[1:]
    gamma = lagrange(np.concatenate([[0.0], gauss.c]), np.array([1.0]))[0]
    return Murua(gauss, c_bar, integrals(gauss.c, c_bar), gamma)
