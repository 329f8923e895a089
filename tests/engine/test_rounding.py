"""The sizes of the terms of a function."""

import casadi as ca
import numpy as np

from dalembert.engine.rounding import rounding_of


def test_terms_that_cancel_are_seen():
    q = ca.SX.sym("q", 2)
    f = ca.Function("g", [q], [ca.vertcat((q[0] - 7) ** 2 - 49, q[0] - q[1], ca.sin(q[0]) * q[1])], ["q"], ["g"])
    sizes = rounding_of(f, [np.array([1e-9, 1e-9])], ("q",))
    assert 49 <= sizes[0] <= 300
    assert sizes[1] == 2e-9
    assert 0 < sizes[2] < 1e-17


def test_sums_add_and_products_multiply():
    x = ca.SX.sym("x", 3)
    f = ca.Function("f", [x], [ca.vertcat(x[0] - x[1] + x[2], (x[0] - x[1]) * x[2], -2 * x[0] / x[1], 0)], ["x"], ["y"])
    np.testing.assert_allclose(rounding_of(f, [np.array([3.0, 3.0, 0.5])], ("x",)), [6.5, 3.0, 2.0, 0.0], rtol=1e-15)


def test_other_functions_follow_their_derivative_and_are_at_least_their_value():
    x = ca.SX.sym("x", 2)
    angle = x[0] - x[1]
    f = ca.Function("f", [x], [ca.vertcat(ca.sin(angle), ca.cos(angle), ca.sqrt(angle), ca.exp(angle))], ["x"], ["y"])
    np.testing.assert_allclose(rounding_of(f, [np.array([50.0, 50.0])], ("x",)), [100.0, 1.0, 10.0, 100.0], rtol=1e-15)


def test_every_operation_by_hand():
    """With d = x0 - x1 = 0 of two 50s: d is wrong by 100 in units of eps, and what is made of it by its slope times that."""
    x = ca.SX.sym("x", 2)
    d, y = x[0] - x[1], x[0] / 25
    terms = {
        "a root away from zero": (ca.sqrt(d + 64), 164 / 16),
        "a square": ((d + 3) ** 2, 3 * 103),
        "an inverse": (1 / (d + 4), 104 / 16),
        "a quotient": (3 / (d + 4), 0.75 * 104 / 4),
        "twice": (2 * d, 200.0),
        "a magnitude": (ca.fabs(d - 1), 101.0),
        "a power": ((d + 4) ** 1.5, 1.5 * 2 * 104),
        "an angle": (ca.atan2(d + 1, 2), 101 * 2 / 5 + 2 * 1 / 5),
        "a product of two that vary": ((d + 4) * y, 2 * 104),
    }
    f = ca.Function("f", [x], [ca.vertcat(*(e for e, _ in terms.values()))], ["x"], ["y"])
    found = rounding_of(f, [np.array([50.0, 50.0])], ("x",))
    for (name, (_, wanted)), value in zip(terms.items(), found, strict=True):
        assert abs(value - wanted) <= 1e-14 * wanted, name


def test_a_branch_that_is_not_taken_does_not_count():
    x = ca.SX.sym("x")
    f = ca.Function("f", [x], [ca.if_else(x > 0, ca.log(x), 3 * x)], ["x"], ["y"])
    assert rounding_of(f, [-2.0], ("x",))[0] == 6.0
