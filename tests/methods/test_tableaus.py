"""Tableaus: their order conditions and properties, and the printed ones."""

import numpy as np
import pytest

import dalembert as da
from dalembert.methods.tableaus import FAMILIES, Tableau, murua, tableau

CASES = [(f, s) for f, low in FAMILIES.items() for s in range(low, 7)]
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
    np.testing.assert_allclose(murua(1).bar, [[1.0]])
    np.testing.assert_allclose(murua(1).gamma, [-1, 2], atol=1e-14)
    np.testing.assert_allclose(murua(2).bar, [[1 / 4 + r3 / 8, 1 / 4 - r3 / 8], [1 / 2, 1 / 2]], atol=1e-15)
    np.testing.assert_allclose(murua(2).gamma, [1, -3 / r3, 3 / r3], atol=1e-14)
    rows = [
        [(25 - r5 + 6 * r15) / 180, (10 - 4 * r5) / 45, (25 - r5 - 6 * r15) / 180],
        [(25 + r5 + 6 * r15) / 180, (10 + 4 * r5) / 45, (25 + r5 - 6 * r15) / 180],
        [5 / 18, 4 / 9, 5 / 18],
    ]
    np.testing.assert_allclose(murua(3).bar, rows, atol=1e-15)
    np.testing.assert_allclose(murua(3).gamma, [-1, 5 / 3, -4 / 3, 5 / 3], atol=1e-14)


def test_bad_tableaus_are_refused():
    with pytest.raises(da.MethodError, match="no family of tableaus"):
        tableau("gaus", 2)
    with pytest.raises(da.MethodError, match="lobatto-iiia has 2 to 12 stages, not 1"):
        tableau("lobatto-iiia", 1)
    with pytest.raises(da.MethodError, match=r"add up to 0\.9"):
        Tableau("wrong", np.zeros((1, 1)), np.array([0.9]), np.zeros(1))
