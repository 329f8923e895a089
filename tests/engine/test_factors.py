"""Factors that depend on the step size and parameters alone."""

import casadi as ca
import numpy as np

import dalembert as da
from dalembert.engine.factors import Factors
from dalembert.systems.instructions import as_written

SX = ca.SX
h, m, x, y = SX.sym("h"), SX.sym("m"), SX.sym("x"), SX.sym("y")


def collected(*expressions):
    """Expressions with their factors taken out, as a function of (h, m, x, y), and the factors."""
    factors, inputs = Factors(), [h, m, x, y]
    with as_written():
        new = factors.collected(ca.Function("f", inputs, list(expressions)), inputs, (0, 1))
    inner = ca.Function("g", [*inputs, factors.all], new)
    return lambda *at: [float(v) for v in inner.call([*at, factors.prelude(h, m)(*at[:2])])], inner, factors


def operations(function):
    return [function.instruction_id(k) for k in range(function.n_instructions())]


def test_values_are_the_same_to_round_off():
    expressions = [
        h / m * (2 * x - 2 * y), -(h * x) + h * y, x / (m + h), 0.5 * (h * (3 * x)) / m, h * m, ca.sin(h * x / m) * y / h,
        (h * x) ** 2 + m, x - (-y), h * x + m * y, ca.sqrt(h * x * x / m),
    ]  # fmt: skip
    call = collected(*expressions)[0]
    exact = ca.Function("exact", [h, m, x, y], expressions)
    for at in np.random.default_rng(2).uniform(0.1, 3, size=(20, 4)):
        np.testing.assert_allclose(call(*at), [float(v) for v in exact.call(list(at))], rtol=4e-16 * 8, atol=1e-15)


def test_quotients_by_what_is_fixed_become_products():
    inner = collected(x / m, y / (h * m), (x + y) / h)[1]
    assert ca.OP_DIV not in operations(inner)
    assert ca.OP_INV not in operations(inner)


def test_fixed_factors_of_a_product_are_one():
    _, inner, factors = collected(h * (0.5 * (x * m)) * 3.0)
    assert operations(inner).count(ca.OP_MUL) == 1
    assert len(factors.symbols) == 1


def test_a_factor_of_both_terms_is_taken_out_of_the_sum():
    inner = collected(2 * x * h - 2 * y * h)[1]
    assert operations(inner).count(ca.OP_MUL) == 1
    assert operations(inner).count(ca.OP_SUB) == 1


def test_sums_of_products_with_factors_up_to_the_sign():
    with as_written():
        expressions = [-(h * x) + h * y, -(h * x) - h * y, h * x - (-(h * y)), h * x + -(h * y)]
    assert collected(*expressions)[0](0.5, 1.0, 3.0, 7.0) == [2.0, -5.0, 5.0, -2.0]
    assert operations(collected(*expressions[:2])[1]).count(ca.OP_MUL) == 2


def test_equal_factors_are_one_symbol():
    assert len(collected(x / (h * m), y / (h * m))[2].symbols) == 1


def test_factors_that_differ_in_their_last_digits_are_apart():
    near = 1 + 1e-7
    call, _, factors = collected(h * x, near * h * x, np.nextafter(near, 2) * h * y + m * y)
    assert len({float(v) for v in factors.prelude(h, m)(0.5, 2.0).nonzeros()}) == len(factors.symbols) == 2
    assert call(1.0, 0.0, 1.0, 1.0) == [1.0, near, np.nextafter(near, 2)]


def test_neighbours_that_differ_in_their_last_digits_move_apart():
    system = da.Mechanical(2, mass=1.0, potential=lambda q: (1.0000001 * q[0] ** 2 + 1.0000002 * q[1] ** 2) / 2)
    sol = da.simulate(system, "rattle", q=[1.0, 1.0], v=[0.0, 0.0], t_end=20.0, step=0.01)
    apart = np.cos(np.sqrt(1.0000002) * sol.t) - np.cos(np.sqrt(1.0000001) * sol.t)
    np.testing.assert_allclose(sol.q[:, 1] - sol.q[:, 0], apart, atol=1e-9)


def test_what_is_divided_by_twice_is_inverted_once():
    s = ca.sqrt(x)
    call, inner, _ = collected(-1 / s / s / (2 * s) + y / x)
    assert operations(inner).count(ca.OP_DIV) == 2  # one over the root, and once by x
    for at in ((0.1, 2.0, 0.3, 2.0), (0.1, 2.0, 7.0, -1.0)):
        np.testing.assert_allclose(call(*at), [-0.5 * at[2] ** -1.5 + at[3] / at[2]], rtol=8e-16)


def test_a_divisor_that_stands_still_leaves_the_iteration():
    factors, inputs = Factors(), [h, m, x, y]
    with as_written():
        (out,) = factors.collected(ca.Function("f", inputs, [h * x / y]), inputs, (0, 1), (2,))
    assert out.is_op(ca.OP_MUL)  # of x with what is computed before
    assert [v.name() for v in (out.dep(0), out.dep(1)) if v.is_symbolic()] == ["x"]
    assert float(ca.substitute(out, ca.vertcat(h, x, y), ca.DM([0.5, 3.0, 2.0]))) == 0.75


def test_a_number_is_divided_with_the_inverse_that_it_is_a_factor_of():
    with as_written():
        expressions = [2 * y * (1 / (4 * x)), 2 * m * y * (1 / (4 * x)), 3 * (1 / (4 * x)), (1 / (4 * x)) * (1 / (4 * x))]
    call, inner, _ = collected(*expressions)
    assert operations(collected(*expressions[:1])[1]).count(ca.OP_MUL) == 1  # of y with 0.5 / x
    assert operations(inner).count(ca.OP_DIV) + operations(inner).count(ca.OP_INV) == 1
    np.testing.assert_allclose(call(0.1, 3.0, 8.0, 5.0), [2.5 / 8, 7.5 / 8, 0.75 / 8, 1 / 1024], rtol=4e-16)


def test_numbers_over_one_value_are_one_division():
    with as_written():
        call, inner, _ = collected(5 / (2 * x) + y, 7 / x - y, y / (3 * x))
    assert operations(inner).count(ca.OP_DIV) + operations(inner).count(ca.OP_INV) == 1
    np.testing.assert_allclose(call(0.1, 3.0, 8.0, 5.0), [5 / 16 + 5, 7 / 8 - 5, 5 / 24], rtol=4e-16)
