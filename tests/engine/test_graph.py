"""The values of a step, each once."""

import ctypes
import math

import casadi as ca
import numpy as np
import pytest

from dalembert.engine import compiler
from dalembert.engine.emission import HEAD
from dalembert.engine.graph import ITERATE, RUN, STEP, Graph, Unwritable, literal
from dalembert.engine.writing import Writer

SX = ca.SX


def test_equal_values_are_one_whatever_the_order_of_their_operands():
    g = Graph()
    a, b = g.symbol("a", RUN), g.symbol("b", STEP)
    assert g.operation(ca.OP_ADD, [a, b]) == g.operation(ca.OP_ADD, [b, a])
    assert g.operation(ca.OP_MUL, [a, b]) == g.operation(ca.OP_MUL, [b, a])
    assert g.operation(ca.OP_SUB, [a, b]) != g.operation(ca.OP_SUB, [b, a])
    assert g.operation(ca.OP_SQ, [a]) == g.operation(ca.OP_MUL, [a, a])
    assert g.constant(0.0) != g.constant(-0.0)


def test_a_value_changes_as_often_as_what_it_depends_on():
    g = Graph()
    h, s, x = g.symbol("h", RUN), g.symbol("s", STEP), g.symbol("x", ITERATE)
    fixed, per_step = g.operation(ca.OP_SQ, [h]), g.operation(ca.OP_MUL, [h, s])
    last = g.operation(ca.OP_ADD, [per_step, g.operation(ca.OP_MUL, [fixed, x])])
    assert [g.level[v] for v in (fixed, per_step, last)] == [RUN, STEP, ITERATE]
    assert g.reached([last], set(), RUN) == [fixed]
    assert g.reached([last], {fixed}, STEP) == [per_step]
    assert g.reached([last], set(), ITERATE)[-1] == last


@pytest.mark.parametrize("value", [0.1, -2.5, 1e-300, -1e22, 5e-324, 3.0, 0.0, -0.0])
def test_numbers_are_written_to_the_last_bit(value):
    text = literal(value).strip("()")
    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    assert "." in text or "e" in text


def test_what_is_not_a_number_is_written_by_name():
    assert [literal(x) for x in (math.inf, -math.inf, math.nan)] == ["INFINITY", "(-INFINITY)", "NAN"]


def test_an_operation_without_a_text_is_refused():
    g = Graph()
    with pytest.raises(Unwritable, match="operation"):
        g.operation(-1, [g.symbol("x", RUN)])


def compiled(function):
    """A function of one column and one output, through C."""
    g = Graph()
    rows = [[g.symbol(f"x[{i}]", RUN) for i in range(function.numel_in(0))]]
    out = g.load(function, rows)[0]
    w = Writer(g, False, "", "", "part")
    body = "\n".join([w.block(g.reached(out, set(), RUN), "\n"), *(f"y[{i}] = {w.use(v)};" for i, v in enumerate(out))])
    library = compiler.load(f"{HEAD}\nDA_EXPORT void f(const double *x, double *y)\n{{\n{body}\n}}\n")

    def call(x):
        x, y = np.ascontiguousarray(x, dtype=float), np.empty(function.numel_out(0))
        library.f(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
        return y

    return call


def test_every_operation_gives_in_c_what_it_gives_in_the_virtual_machine():
    x = SX.sym("x", 3)
    a, b, c = (x[i] for i in range(3))
    values = [
        a + b, a - b, a * b, a / b, -a, 1 / a, a**2, 2 * a, ca.fabs(a) ** b, ca.fabs(a) ** 2.5, ca.exp(a / 8), ca.log(ca.fabs(a)),
        ca.sqrt(ca.fabs(a)), ca.sin(a), ca.cos(a), ca.tan(a), ca.asin(a / 8), ca.acos(a / 8), ca.atan(a), ca.sinh(a), ca.cosh(a),
        ca.tanh(a), ca.asinh(a), ca.acosh(1 + a * a), ca.atanh(a / 8), ca.erf(a), ca.floor(a), ca.ceil(a), ca.log1p(a * a),
        ca.expm1(a), ca.fmod(a, b), ca.fmin(a, b), ca.fmax(a, b), ca.atan2(a, b), ca.hypot(a, b), ca.copysign(a, b), ca.sign(a),
        a < b, a <= b, a == b, a != b, ca.logic_not(c), ca.logic_and(a, c), ca.logic_or(c, b), ca.if_else(c, a, b),
        ca.remainder(a, b), SX(-3.5) * a, ca.if_else(a < b, 1 / c, 0.0),
    ]  # fmt: skip
    function = ca.Function("f", [x], [ca.vertcat(*values)])
    call = compiled(function)
    rng = np.random.default_rng(1)
    points = [
        *rng.normal(scale=3, size=(40, 3)),
        [0.0, -0.0, 0.0],
        [1.0, 1.0, 0.0],
        [-2.0, 5.0, 1.0],
        [np.inf, 1.0, 2.0],
        [1, np.nan, 0],
    ]
    for point in points:
        np.testing.assert_array_equal(call(point), np.array(function(point)).ravel())
