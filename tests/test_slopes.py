"""Slopes of operations against fifty digits, at distances on both sides of every switch between series and quotient."""

import casadi as ca
import mpmath as mp
import numpy as np
import pytest

from dalembert.discrete import jacobian
from dalembert.discrete.differences import Ends
from dalembert.discrete.gradients import Field, equivariant

DISTANCES = [*np.logspace(-13, -2.2, 12), 0.011, 0.019, 0.021, 0.03, 0.05, 0.09, 0.11, 0.15, 0.19, 0.21, 0.3, 0.5]
UNARY = {
    "square": (lambda x: x**2, lambda x: x**2, (0.7, -1.3)),
    "cube": (lambda x: x**3, lambda x: x**3, (0.7, -1.3)),
    "inverse": (lambda x: 1 / x, lambda x: 1 / x, (0.7, 1.9)),
    "sqrt": (ca.sqrt, mp.sqrt, (0.4, 2.3)),
    "exp": (ca.exp, mp.exp, (0.7, -1.3)),
    "expm1": (ca.expm1, mp.expm1, (0.7, -1.3)),
    "log": (ca.log, mp.log, (2.4, 7.0)),
    "log1p": (ca.log1p, mp.log1p, (0.4, 1.7)),
    "sin": (ca.sin, mp.sin, (0.4, -0.8)),
    "cos": (ca.cos, mp.cos, (0.7, -1.3)),
    "tan": (ca.tan, mp.tan, (0.4, -0.9)),
    "asin": (ca.asin, mp.asin, (0.1, -0.45)),
    "acos": (ca.acos, mp.acos, (0.1, -0.45)),
    "atan": (ca.atan, mp.atan, (0.4, -0.8)),
    "sinh": (ca.sinh, mp.sinh, (0.7, -1.3)),
    "cosh": (ca.cosh, mp.cosh, (0.7, 1.3)),
    "tanh": (ca.tanh, mp.tanh, (0.4, -0.8)),
    "asinh": (ca.asinh, mp.asinh, (0.4, -0.8)),
    "acosh": (ca.acosh, mp.acosh, (1.6, 2.5)),
    "atanh": (ca.atanh, mp.atanh, (0.1, -0.6)),
    "erf": (ca.erf, mp.erf, (0.4, -0.8)),
    "power": (lambda x: x**1.7, lambda x: x ** mp.mpf(1.7), (0.7, 1.9)),
    "negative power": (lambda x: x**-3, lambda x: x**-3, (0.7, 1.9)),
}


@pytest.mark.parametrize("name", UNARY)
def test_operations_of_one_argument(name):
    f, exact, starts = UNARY[name]
    x, t, a, b = (ca.SX.sym(s) for s in ("x", "t", "a", "b"))
    D = ca.Function("D", [a, b, t], [equivariant(Field(f(x), x, t), Ends(a, b, t, t), ca.SX(1.0))[0]])
    with mp.workdps(50):
        for start in starts:
            for d in DISTANCES:
                end = start + d
                truth = (exact(mp.mpf(end)) - exact(mp.mpf(start))) / (mp.mpf(end) - mp.mpf(start))
                found = float(D(start, end, 0.0))
                assert abs(found - float(truth)) < 4e-14 * abs(float(truth)), (start, d)


BINARY = {
    "product": (lambda x, y: x * y, lambda x, y: x * y),
    "quotient": (lambda x, y: x / y, lambda x, y: x / y),
    "hypot": (lambda x, y: ca.hypot(x, y), lambda x, y: mp.sqrt(x**2 + y**2)),
    "angle": (lambda x, y: ca.atan2(x, y), lambda x, y: mp.atan2(x, y)),
    "power": (lambda x, y: x**y, lambda x, y: x**y),
    "larger": (lambda x, y: ca.fmax(x, 2 * y - 1), lambda x, y: max(x, 2 * y - 1)),
    "smaller": (lambda x, y: ca.fmin(x, 2 * y - 1), lambda x, y: min(x, 2 * y - 1)),
}


@pytest.mark.parametrize("name", BINARY)
def test_operations_of_two_arguments(name):
    """The difference is exact to its own digits, and both slopes are the derivatives where the points meet."""
    f, exact = BINARY[name]
    X, t, a, b = ca.SX.sym("x", 2), ca.SX.sym("t"), ca.SX.sym("a", 2), ca.SX.sym("b", 2)
    expression = f(X[0], X[1])
    D = ca.Function("D", [a, b, t], [equivariant(Field(expression, X, t), Ends(a, b, t, t), ca.SX(1.0))[0]])
    slope = ca.Function("d", [X], [ca.gradient(expression, X)])
    start, way = np.array([1.3, 0.9]), np.array([0.8, 0.5])
    with mp.workdps(50):
        for d in DISTANCES:
            end = start + d * way
            both = [exact(mp.mpf(p[0]), mp.mpf(p[1])) for p in (start, end)]
            found = np.array(D(start, end, 0.0)).ravel()
            terms = found * (end - start)
            assert abs(terms.sum() - float(both[1] - both[0])) < 2e-14 * np.abs(terms).max(), d
    np.testing.assert_allclose(np.array(D(start, start, 0.0)), np.array(slope(start)), rtol=2e-15, atol=1e-16)
    np.testing.assert_allclose(np.array(D(start, start + 1e-6, 0.0)), np.array(slope(start + 5e-7)), rtol=1e-11, atol=1e-14)


def test_the_mean_value_is_the_mean_of_the_gradient():
    """`int_0^1 grad f(a + s (b - a)) ds` of a polynomial of degree eight, which four points integrate exactly; not Gonzalez'."""
    f = lambda x: x[0] ** 5 * x[1] ** 3 + x[0] * x[1] ** 4 - x[1] ** 8  # noqa: E731
    slope = lambda x, y: np.array([5 * x**4 * y**3 + y**4, 3 * x**5 * y**2 + 4 * x * y**3 - 8 * y**7])  # noqa: E731
    a, b = np.array([0.4, -0.6]), np.array([1.1, 0.9])
    s, w = np.polynomial.legendre.leggauss(12)
    mean = sum(c / 2 * slope(*(a + (1 + x) / 2 * (b - a))) for x, c in zip(s, w, strict=True))
    np.testing.assert_allclose(jacobian(f, a, b, "mean-value")[0], mean, atol=1e-14)
    assert np.abs(jacobian(f, a, b, "gonzalez")[0] - mean).max() > 0.1


def test_itoh_abe_changes_one_coordinate_after_the_other():
    f = lambda x: x[0] ** 2 * x[1] + np.sin(x[1]) * x[2]  # noqa: E731
    a, b = np.array([0.4, -0.6, 1.2]), np.array([1.1, 0.9, 0.3])
    path = [a, np.array([b[0], a[1], a[2]]), np.array([b[0], b[1], a[2]]), b]
    quotients = [(f(path[i + 1]) - f(path[i])) / (b[i] - a[i]) for i in range(3)]
    np.testing.assert_allclose(jacobian(f, a, b, "itoh-abe")[0], quotients, atol=1e-14)
