"""The walk over the instructions of a CasADi function."""

import casadi as ca
import numpy as np
import pytest

from dalembert.errors import ModelError
from dalembert.systems.instructions import BINARY, UNARY, operation, walk

INSIDE = {ca.OP_ACOSH: 1.7}  # where the operation is defined, 0.6 else


@pytest.mark.parametrize("op", sorted({*UNARY, *BINARY}))
def test_each_operation_is_that_of_casadi(op):
    """The table against CasADi's own evaluation of the operation with this number."""
    count = 1 if op in UNARY else 2
    numbers = [INSIDE.get(op, 0.6), 0.7][:count]
    symbols = [ca.SX.sym("a"), ca.SX.sym("b")][:count]
    own = ca.SX.unary(op, symbols[0]) if count == 1 else ca.SX.binary(op, *symbols)
    expected = float(ca.Function("f", symbols, [own])(*numbers))
    got = float(ca.Function("f", symbols, [operation(op, symbols)])(*numbers))
    assert got == pytest.approx(expected, rel=1e-15)
    assert np.isfinite(got)


def test_a_walk_with_symbols_gives_the_function_back():
    x, y = ca.SX.sym("x", 3), ca.SX.sym("y")
    out = [ca.vertcat(x[0] * ca.sin(x[1]) + 2 * y, x[2] ** 2 - x[0] / y), ca.sparsify(ca.vertcat(0, ca.exp(y)))]
    f = ca.Function("f", [x, y], out)
    entries = [x.elements(), y.elements()]
    values = walk(f, lambda a, k: entries[a][k], ca.SX, operation)
    assert [len(v) for v in values] == [2, 1]  # nonzeros only
    again = ca.Function("again", [x, y], [ca.vertcat(*v) for v in values])
    at = [np.array([0.3, 0.4, 0.5]), 0.7]
    first, second = f(*at)
    np.testing.assert_array_equal(np.array(again(*at)[0]), np.array(first))
    assert float(again(*at)[1]) == float(second[1])


def test_matrix_functions_are_expanded_first():
    x = ca.MX.sym("x", 2)
    f = ca.Function("f", [x], [ca.norm_2(x)])
    assert walk(f, lambda a, k: [3.0, 4.0][k], float, lambda op, v: float(operation(op, [ca.SX(a) for a in v])))[0] == [5.0]


def test_an_operation_without_a_rule_is_named():
    with pytest.raises(ModelError, match=f"operation {ca.OP_ERFINV}"):
        operation(ca.OP_ERFINV, [ca.SX.sym("x")])
