"""Discrete gradients: directionality, consistency, symmetry, and nothing lost near x' = x."""

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalembert.discrete.differences import Ends
from dalembert.discrete.gradients import GRADIENTS, SYMMETRIC, Field, midpoint

X, T = ca.SX.sym("x", 3), ca.SX.sym("t")
FUNCTIONS = {
    "quadratic": ca.sumsqr(X) + X[0] * X[1],
    "distance": ca.sqrt(ca.sumsqr(X)) ** 3,
    "mixed": ca.exp(X[0]) * ca.sin(X[1]) / X[2] + ca.log(1 + X[0] ** 2) * T,
    "angle": ca.atan2(X[0], X[1]) * X[2] ** 1.5,
    "powers": X[0] ** X[1] + ca.tanh(X[2] * T) + X[1] ** -3,
    "hyperbolic": ca.cosh(X[0]) * ca.sinh(X[1] / 2) + ca.tan(X[2] / 5),
    "inverse": ca.atan(X[0]) * ca.acos(X[1] / 9) * ca.erf(X[2]) + ca.asinh(X[0] * X[2]),
    "kinks": ca.fabs(X[0] - X[1]) + ca.fmax(X[0], X[2]) - ca.fmin(X[1], 1.4),
    "choice": ca.if_else(X[0] > 1.4, X[0] ** 2, X[1]) + ca.sign(X[2] - 1.5) * X[0],
    "logs": ca.log1p(X[0]) * ca.expm1(X[1]) - ca.log(X[2]) ** 2,
}


def build(name, gradient):
    x0, x1, t0, t1 = ca.SX.sym("x0", 3), ca.SX.sym("x1", 3), ca.SX.sym("t0"), ca.SX.sym("t1")
    f = Field(FUNCTIONS[name], X, T)
    D, rate = gradient(f, Ends(x0, x1, t0, t1), ca.SX(1.0))
    J = ca.jacobian(ca.vertcat(D, rate), ca.vertcat(x1, t1))
    return f, ca.Function("D", [x0, x1, t0, t1], [D, rate, J])


BUILT = {(n, g): build(n, GRADIENTS[g]) for n in FUNCTIONS for g in GRADIENTS}
point = st.tuples(*[st.floats(1.0, 2.0)] * 3)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", FUNCTIONS)
@given(x=point, y=point, small=st.sampled_from([1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-7, 1e-12, 0.0]))
@settings(max_examples=20, deadline=None)
def test_directionality_at_every_distance(name, gradient, x, y, small):
    f, D = BUILT[name, gradient]
    x, y = np.array(x), np.array(x) + small * (np.array(y) - np.array(x))
    s, t = 1.0, 1.0 + 0.3 * small
    d, rate, J = (np.array(z) for z in D(x, y, s, t))
    difference = float(f.at(y, t) - f.at(x, s))
    size = 1 + abs(float(f.at(x, s))) + np.abs(d).max()
    assert abs(float(d[:, 0] @ (y - x)) + float(rate[0, 0]) * (t - s) - difference) < 2e-14 * size
    assert np.isfinite(J).all()


SMOOTH = [n for n in FUNCTIONS if n not in ("kinks", "choice")]


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", SMOOTH)
@given(x=point)
@settings(max_examples=10, deadline=None)
def test_consistency_is_exact_at_equal_points_and_keeps_digits_near_them(name, gradient, x):
    f, D = BUILT[name, gradient]
    exact = np.array(ca.Function("g", [X, T], [ca.gradient(f.expression, X)])(x, 1.0))[:, 0]
    size = 1 + np.abs(exact).max()
    same = np.array(D(x, x, 1.0, 1.0)[0])[:, 0]
    np.testing.assert_allclose(same, exact, atol=3e-14 * size)
    near = np.array(D(x, np.array(x) + 1e-11, 1.0, 1.0)[0])[:, 0]
    # a quotient of rounded values would be off by 1e-5 here
    np.testing.assert_allclose(near, exact, atol=1e-9 * size)


@pytest.mark.parametrize("gradient", sorted(SYMMETRIC))
@pytest.mark.parametrize("name", SMOOTH)
def test_symmetric_ones_are_symmetric_and_second_order(name, gradient):
    f, D = BUILT[name, gradient]
    x, direction = np.array([1.3, 1.6, 1.2]), np.array([0.3, -0.2, 0.4])
    forward, backward = (np.array(D(*ends, 1.0, 1.0)[0])[:, 0] for ends in ((x, x + direction), (x + direction, x)))
    np.testing.assert_allclose(forward, backward, atol=1e-13)
    exact = ca.Function("g", [X, T], [ca.gradient(f.expression, X)])
    errors = []
    for s in (0.4, 0.2, 0.1):
        d = np.array(D(x - s * direction / 2, x + s * direction / 2, 1.0, 1.0)[0])[:, 0]
        errors.append(np.abs(d - np.array(exact(x, 1.0))[:, 0]).max())
    if max(errors) > 1e-13:  # quadratic functions are exact
        assert np.polyfit(np.log([0.4, 0.2, 0.1]), np.log(errors), 1)[0] == pytest.approx(2, abs=0.25)


@given(q0=st.lists(st.floats(-2, 2), min_size=6, max_size=6), q1=st.lists(st.floats(-2, 2), min_size=6, max_size=6))
@settings(max_examples=40, deadline=None)
def test_equivariant_form_is_orthogonal_to_rotations_and_translations(q0, q1):
    """Eq. 17 of Gonzalez 1999 for a function of a distance, however it is written."""
    q, t = ca.SX.sym("q", 6), ca.SX.sym("t")
    d = q[:3] - q[3:]
    expanded = ca.dot(q[:3], q[:3]) - 2 * ca.dot(q[:3], q[3:]) + ca.dot(q[3:], q[3:])
    for f in ((ca.sumsqr(d) - 1) ** 2, ca.sqrt(1 + expanded), ca.exp(-ca.sumsqr(d)) * ca.sqrt(1 + ca.sumsqr(d))):
        a, b = ca.SX.sym("a", 6), ca.SX.sym("b", 6)
        D = GRADIENTS["equivariant"](Field(f, q, t), Ends(a, b, t, t), ca.SX(1.0))[0]
        value = np.array(ca.Function("D", [a, b, t], [D])(q0, q1, 0.0))[:, 0]
        middle = (np.array(q0) + np.array(q1)) / 2
        torque = np.cross(middle[:3], value[:3]) + np.cross(middle[3:], value[3:])
        size = 1 + np.abs(value).max()
        assert np.abs(torque).max() < 1e-13 * size * (1 + np.abs(middle).max())
        assert np.abs(value[:3] + value[3:]).max() < 1e-13 * size


def test_midpoint_is_not_directional():
    f, D = build("distance", midpoint)
    x, y = np.array([1.0, 1.5, 1.2]), np.array([1.6, 1.1, 1.9])
    d = np.array(D(x, y, 1.0, 1.0)[0])[:, 0]
    assert abs(d @ (y - x) - float(f.at(y, 1.0) - f.at(x, 1.0))) > 1e-3


def test_low_parts_of_positions_are_seen():
    """Positions far from the origin in two parts: the difference of a distance keeps all its digits."""
    q, t = ca.SX.sym("q", 2), ca.SX.sym("t")
    f = Field((q[0] - q[1]) ** 2, q, t)
    high, low = np.array([1e8, 1e8 - 1.0]), np.array([3e-9, -2e-9])
    symbols = [ca.SX.sym(n, 2) for n in ("x0", "x1", "r0", "r1")]
    difference = f.difference(Ends(symbols[0], symbols[1], t, t, (symbols[2], symbols[3])))
    value = ca.Function("f", [*symbols, t], [difference.y1 - difference.y0])
    changed = low + np.array([1e-9, 0.0])
    exact = (1.0 + changed[0] - changed[1]) ** 2 - (1.0 + low[0] - low[1]) ** 2
    assert float(value(high, high, low, changed, 0.0)) == pytest.approx(exact, rel=1e-6)
