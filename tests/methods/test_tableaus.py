"""Tableaus: their order conditions and properties, and the printed ones."""

import mpmath as mp
import numpy as np
import pytest

import dalembert as da
from dalembert.methods.base import REGISTER
from dalembert.methods.runge_kutta import Staged
from dalembert.methods.tableaus import FAMILIES, Tableau, lagrange, murua_nodes, tableau

CASES = [(f, s) for f, (low, _) in FAMILIES.items() for s in range(low, 7)]
ORDER = {
    "gauss": lambda s: 2 * s,
    "radau-ia": lambda s: 2 * s - 1,
    "radau-iia": lambda s: 2 * s - 1,
}
SIMPLIFYING = {  # C(q) and D(r), Hairer and Wanner II, table IV.5.13
    "gauss": (0, 0),
    "radau-ia": (-1, 0),
    "radau-iia": (0, -1),
    "lobatto-iiia": (0, -2),
    "lobatto-iiib": (-2, 0),
    "lobatto-iiic": (-1, -1),
    "lobatto-iiic*": (-1, -1),
    "lobatto-iiid": (-1, -1),
}


@pytest.mark.parametrize(("family", "s"), CASES)
def test_order_conditions(family, s):
    t = tableau(family, s)
    order = ORDER.get(family, lambda s: 2 * s - 2)(s)
    assert t.order == t.B() == order
    q, r = SIMPLIFYING[family]
    assert (t.C(), t.D()) == (s + q, s + r)


@pytest.mark.parametrize(("family", "s"), CASES)
def test_computed_properties(family, s):
    t = tableau(family, s)
    assert t.symplectic == (family in ("gauss", "lobatto-iiid"))
    assert t.symmetric == (family in ("gauss", "lobatto-iiia", "lobatto-iiib", "lobatto-iiid"))
    assert t.stiffly_accurate == (family in ("radau-iia", "lobatto-iiia", "lobatto-iiic"))
    twice = t.conjugate().conjugate()
    np.testing.assert_allclose(twice.A, t.A, atol=1e-13)


def test_conjugate_pairs():
    for s in range(2, 6):
        np.testing.assert_allclose(tableau("lobatto-iiia", s).conjugate().A, tableau("lobatto-iiib", s).A, atol=1e-13)
        np.testing.assert_allclose(tableau("lobatto-iiic", s).conjugate().A, tableau("lobatto-iiic*", s).A, atol=1e-13)
        np.testing.assert_allclose(tableau("gauss", s).conjugate().A, tableau("gauss", s).A, atol=1e-13)


def test_printed_tables():
    """Hairer and Wanner II, tables IV.5.4 to IV.5.12."""
    r = np.sqrt(6)
    radau = [
        [(88 - 7 * r) / 360, (296 - 169 * r) / 1800, (-2 + 3 * r) / 225],
        [(296 + 169 * r) / 1800, (88 + 7 * r) / 360, (-2 - 3 * r) / 225],
        [(16 - r) / 36, (16 + r) / 36, 1 / 9],
    ]
    np.testing.assert_allclose(tableau("radau-iia", 3).A, radau, atol=1e-14)
    np.testing.assert_allclose(tableau("radau-ia", 2).A, [[1 / 4, -1 / 4], [1 / 4, 5 / 12]], atol=1e-15)
    np.testing.assert_allclose(
        tableau("lobatto-iiia", 3).A, [[0, 0, 0], [5 / 24, 1 / 3, -1 / 24], [1 / 6, 2 / 3, 1 / 6]], atol=1e-15
    )
    np.testing.assert_allclose(
        tableau("lobatto-iiib", 3).A, [[1 / 6, -1 / 6, 0], [1 / 6, 1 / 3, 0], [1 / 6, 5 / 6, 0]], atol=1e-15
    )
    np.testing.assert_allclose(
        tableau("lobatto-iiic", 3).A, [[1 / 6, -1 / 3, 1 / 6], [1 / 6, 5 / 12, -1 / 12], [1 / 6, 2 / 3, 1 / 6]], atol=1e-15
    )
    np.testing.assert_allclose(tableau("lobatto-iiid", 2).A, [[1 / 4, -1 / 4], [3 / 4, 1 / 4]], atol=1e-15)


def test_murua_as_printed():
    """Symank 2025, sec. 6.3.2: all three tables are right."""
    r3, r5, r15 = np.sqrt(3), np.sqrt(5), np.sqrt(15)
    rows = [
        [(25 - r5 + 6 * r15) / 180, (10 - 4 * r5) / 45, (25 - r5 - 6 * r15) / 180],
        [(25 + r5 + 6 * r15) / 180, (10 + 4 * r5) / 45, (25 + r5 - 6 * r15) / 180],
        [5 / 18, 4 / 9, 5 / 18],
    ]
    printed = {
        1: ([[1.0]], [-1, 2]),
        2: ([[1 / 4 + r3 / 8, 1 / 4 - r3 / 8], [1 / 2, 1 / 2]], [1, -3 / r3, 3 / r3]),
        3: (rows, [-1, 5 / 3, -4 / 3, 5 / 3]),
    }
    for s, (bar, gamma) in printed.items():
        nodes, rows = murua_nodes(s)
        assert nodes[-1] == 1.0
        np.testing.assert_allclose(rows, bar, rtol=0, atol=1e-15)
        at_end = lagrange(np.append(0.0, tableau("gauss", s).c), np.array([1.0]))[0]  # the source's gamma
        np.testing.assert_allclose(at_end, gamma, rtol=0, atol=1e-14)


def by_conditions(family, s):
    """A tableau from the conditions that define it (Hairer and Wanner II, sec. IV.5), in eighty digits of mpmath."""
    mp.mp.dps = 80
    x = mp.mpf

    def legendre(n):
        return [(-1) ** (n + k) * mp.binomial(n, k) * mp.binomial(n + k, k) for k in range(n, -1, -1)]

    def roots(p):
        return sorted(mp.re(z) for z in mp.polyroots(p, maxsteps=400, extraprec=800)) if len(p) > 1 else []

    def difference(sign):
        return [a + sign * b for a, b in zip(legendre(s), [x(0), *legendre(s - 1)], strict=True)]

    if family == "gauss":
        c = roots(legendre(s))
    elif family.startswith("lobatto"):
        p = legendre(s - 1)
        c = [x(0), *roots([a * (s - 1 - k) for k, a in enumerate(p[:-1])]), x(1)]
    else:
        c = roots(difference(-1 if family == "radau-iia" else 1))
        c[-1 if family == "radau-iia" else 0] = x(1 if family == "radau-iia" else 0)
    powers = mp.matrix(s, s)
    for k in range(s):
        for j in range(s):
            powers[k, j] = c[j] ** k
    b = mp.lu_solve(powers, mp.matrix([x(1) / (k + 1) for k in range(s)]))
    A = mp.matrix(s, s)
    if family in ("gauss", "radau-iia", "lobatto-iiia"):  # C(s)
        for i in range(s):
            row = mp.lu_solve(powers, mp.matrix([c[i] ** (k + 1) / (k + 1) for k in range(s)]))
            A[i, :] = row.T
    elif family in ("radau-ia", "lobatto-iiib"):  # D(s)
        for j in range(s):
            column = mp.lu_solve(powers, mp.matrix([b[j] * (1 - c[j] ** (k + 1)) / (k + 1) for k in range(s)]))
            for i in range(s):
                A[i, j] = column[i] / b[i]
    elif family in ("lobatto-iiic", "lobatto-iiic*"):  # C(s - 1), and one column
        given, free = (0, range(1, s)) if family == "lobatto-iiic" else (s - 1, range(s - 1))
        part = mp.matrix(s - 1, s - 1)
        for k in range(s - 1):
            for n, j in enumerate(free):
                part[k, n] = powers[k, j]
        for i in range(s):
            A[i, given] = b[0] if family == "lobatto-iiic" else x(0)
            right = [c[i] ** (k + 1) / (k + 1) - A[i, given] * powers[k, given] for k in range(s - 1)]
            row = mp.lu_solve(part, mp.matrix(right))
            for n, j in enumerate(free):
                A[i, j] = row[n]
    else:
        one, other = (by_conditions(f, s)[0] for f in ("lobatto-iiic", "lobatto-iiic*"))
        A = (one + other) / 2
    return A, b, c


def rounded(value):
    return 0.0 if abs(value) < mp.mpf("1e-50") else float(value)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_coefficient_is_right_to_the_last_bit(family):
    for s in range(FAMILIES[family][0], 13):
        t, (A, b, c) = tableau(family, s), by_conditions(family, s)
        np.testing.assert_array_equal(t.A, [[rounded(A[i, j]) for j in range(s)] for i in range(s)])
        np.testing.assert_array_equal(t.b, [rounded(v) for v in b])
        np.testing.assert_array_equal(t.c, [rounded(v) for v in c])


def test_every_number_of_stages_makes_a_scheme():
    for name, cls in REGISTER.items():
        for s in range(getattr(cls, "fewest", 1), 13) if issubclass(cls, Staged) else ():
            method = cls(stages=s)
            assert method.scheme.stages == s, name
            if name in ("lobatto-pair", "spark"):  # the rate of the last stage is used by none
                assert not method.scheme.tables[1].A[:, -1].any()


def test_bad_tableaus_are_refused():
    with pytest.raises(da.MethodError, match="no family of tableaus"):
        tableau("gaus", 2)
    with pytest.raises(da.MethodError, match="lobatto-iiia has 2 to 12 stages, not 1"):
        tableau("lobatto-iiia", 1)
    with pytest.raises(da.MethodError, match=r"add up to 0\.9"):
        Tableau("wrong", np.zeros((1, 1)), np.array([0.9]), np.zeros(1))


def test_orders_of_tableaus_that_are_off():
    """Weights that do not add up to one are refused; row sums other than the nodes spoil all trees but the first."""
    with pytest.raises(da.MethodError, match=r"the weights add up to 0\.9, not 1"):
        Tableau("off", np.array([[0.5]]), np.array([0.9]), np.array([0.5]))
    assert Tableau("off", np.array([[0.3]]), np.array([1.0]), np.array([0.5])).order == 1
    assert Tableau("euler", np.array([[0.0]]), np.array([1.0]), np.array([0.0])).order == 1
    assert Tableau("heun", np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.5]), np.array([0.0, 1.0])).order == 2


def test_embedded_weights():
    """Bertolazzi, Cocetti, Stocco, eqs. 1.41, 1.42: the second row of weights."""
    assert tableau("gauss", 2).second().order == 1
    assert tableau("gauss", 3).second().order == 2
    assert tableau("gauss", 2).order == 4
    with pytest.raises(da.MethodError, match="no embedded weights"):
        tableau("gauss", 4).second()
