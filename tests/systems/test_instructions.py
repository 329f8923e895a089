"""The walk over the instructions of a CasADi function."""

import casadi as ca
import numpy as np
import pytest

from dalembert.systems.instructions import batches, jacobian, operation, walk


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


def test_the_operations_are_those_of_the_expression():
    x = ca.SX.sym("x", 2)
    f = ca.Function("f", [x], [ca.fmax(x[0], ca.tanh(x[1])) ** 1.5])
    seen = []
    walk(f, lambda a, k: k, lambda c: c, lambda op, values: seen.append((op, len(values))))
    assert seen == [(ca.OP_TANH, 1), (ca.OP_FMAX, 2), (ca.OP_CONSTPOW, 2)]


def test_batches_do_operations_of_one_kind_together_and_after_what_they_need():
    x, y = ca.SX.sym("x", 20), ca.SX.sym("y")
    value = ca.sumsqr(ca.sin(x * y) + x**2) + 3.0 * y
    f = ca.Function("f", [x, y], [value])
    parts, marks, outputs = batches(f, [True, False])
    done: dict[int, float] = {}
    at = [np.random.default_rng(0).normal(size=20), np.array([0.7])]
    for part in parts:
        for n, node in enumerate(part.nodes):
            if part.op == ca.OP_INPUT:
                done[node] = at[part.which][part.operands[0][n]]
            elif part.op == ca.OP_CONST:
                done[node] = f.instruction_constant(part.operands[0][n])
            else:
                done[node] = float(operation(part.op, [ca.SX(done[below[n]]) for below in part.operands]))
    assert done[outputs[0][0]] == pytest.approx(float(f(*at)), rel=1e-15)
    assert marks[outputs[0][0]]
    assert max(len(part.nodes) for part in parts) == 20
    assert len(parts) < 40


def test_a_jacobian_forgets_directions_that_are_zero():
    x = ca.MX.sym("x")
    f = ca.Function("own", [x], [ca.sin(x)], {"never_inline": True})
    q, v = ca.SX.sym("q"), ca.SX.sym("v", 2)
    expression = ca.vertcat(v[1] - f(q) * v[0], 3 * v[0])
    assert ca.depends_on(ca.jacobian(expression, v), v)  # of CasADi: v times a derivative in the direction 0
    found = jacobian(expression, v)
    assert not ca.depends_on(found, v)
    np.testing.assert_allclose(ca.Function("J", [q], [found])(0.3).full(), [[-np.sin(0.3), 1.0], [3.0, 0.0]], rtol=1e-15)
    both = jacobian(ca.vertcat(f(q) * v[0]), ca.vertcat(q, v))  # a direction that is not zero stays
    np.testing.assert_allclose(ca.Function("J", [q, v], [both])(0.3, [2.0, 5.0]).full(), [[2 * np.cos(0.3), np.sin(0.3), 0.0]])
