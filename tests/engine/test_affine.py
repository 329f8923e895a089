"""Affine parts of a step: the same values, with base and slopes before the iteration."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.engine import affine
from dalembert.engine.program import Program
from dalembert.methods.base import find
from dalembert.methods.step import two_sum
from dalembert.systems.instructions import as_written, walk

SX = ca.SX


def collected(expression, inputs, unknowns):
    with as_written():
        new = affine.collected(ca.Function("f", inputs, [expression]), inputs, unknowns)[0]
        return ca.Function("new", inputs, [new])


def test_what_is_affine_becomes_base_and_slope():
    x, s, h = SX.sym("x"), SX.sym("s"), SX.sym("h")
    end = s + h * (2 * s - h / 2 * (3 + s * x))
    new = collected(end**2, [x, s, h], x)
    after = [k for k in range(new.n_instructions()) if depends(new, k)]
    assert len(after) == 3  # a product, a sum, a square
    np.testing.assert_allclose(float(new(0.7, 1.3, 0.1)), float(ca.Function("f", [x, s, h], [end**2])(0.7, 1.3, 0.1)), rtol=1e-15)


def depends(function, instruction):
    """Whether an operation depends on the first input."""
    touched, out = set(), False
    for k in range(instruction + 1):
        op, i, o = (f(k) for f in (function.instruction_id, function.instruction_input, function.instruction_output))
        if op != ca.OP_OUTPUT:
            out = (op == ca.OP_INPUT and i[0] == 0) or (op not in (ca.OP_INPUT, ca.OP_CONST) and any(j in touched for j in i))
            touched = touched | set(o) if out else touched - set(o)
    return out and function.instruction_id(instruction) not in (ca.OP_INPUT, ca.OP_OUTPUT)


def test_forms_that_are_needed_themselves_are_shared():
    x, s, h = SX.sym("x"), SX.sym("s"), SX.sym("h")
    a, b = s + h * x, 2 - s * x
    new = collected(ca.vertcat(a**2, b**2, (a - b) ** 2, (2 * a) ** 2), [x, s, h], x)
    after = [k for k in range(new.n_instructions()) if depends(new, k)]
    assert len(after) == 2 + 2 + 4 + 2  # both forms, four squares, one difference, one double


def test_what_rounding_takes_away_is_kept():
    q, change, carry = SX.sym("q"), SX.sym("change"), SX.sym("carry")
    end, rest = two_sum(q, change + carry)
    new = collected(ca.vertcat(end, rest), [q, change, carry], change)
    values = [1.0, 1e-3 + 1e-19, 1e-18]
    total = values[1] + values[2]
    np.testing.assert_array_equal(new(*values).full().ravel(), [1.0 + total, total - ((1.0 + total) - 1.0)])


@pytest.mark.parametrize("method", ["rattle", "shake", "mclachlan-perlmutter", "cortes-martinez", "spark-2", "gauss-2"])
def test_iterations_and_equations_agree(method):
    """The first update of each solve is that of Newton's method on the equations as stated, whatever was found before."""
    system = da.catalog.contact_oscillator() if method in ("mclachlan-perlmutter", "spark-2") else da.catalog.double_pendulum()
    program = Program(find(method).step(system))
    generator = np.random.default_rng(3)
    state, par = generator.normal(size=program.n_state), 1 + generator.random(program.step.par.numel())
    known, earlier = [state, 0.3, 0.05, np.zeros(program.n_u), par], []
    for stage in program.stages:
        x = generator.normal(size=stage.n)
        residual, jacobian = (v.full() for v in stage.residual(x, *known, *earlier))
        expected = x - np.linalg.solve(jacobian, residual.ravel())
        constants, scale = program.prelude(0.05, par), np.ones(stage.look.n_scale)
        found = stage.renew(*known, constants, *earlier, x, scale)[0].full().ravel()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        if stage.linear:
            nothing = np.zeros(stage.n)
            begun = stage.begin(*known, constants, *earlier, nothing, nothing, scale)[0].full().ravel()
            np.testing.assert_allclose(begun, expected, rtol=1e-9, atol=1e-9)
        earlier.append(x)


def test_later_solves_wait_for_one_product_and_one_sum():
    """Positions after a step of rattle are affine in its first multipliers, which the second solve begins with."""
    program = Program(find("rattle").step(da.catalog.double_pendulum()))

    def longer(op, depths):
        return max(depths) + 1 if max(depths) >= 0 else -1

    found = len(program.hot)  # where the unknowns of the first solve stand
    rows = walk(program.stages[1].begin, lambda i, k: 0 if i == found else -1, lambda c: -1, longer, longer)
    assert 10 < max(v for row in rows for v in row) <= 14  # operations one after the other


def test_rows_that_are_linear_in_succession_are_split():
    """The velocity constraint has a product of two accelerations, of which the equation of one has no other unknown."""
    step = find("mclachlan-perlmutter").step(da.catalog.contact_oscillator())
    assert [solve.unknowns.numel() for solve in step.solves] == [1, 3]
    assert all(stage.linear for stage in Program(step).stages)


def test_what_is_found_later_is_no_part_of_a_form():
    """A product of unknowns of two solves: in the second one it has a slope, which is a form of the first."""
    x, y, s, h = (SX.sym(name) for name in "xysh")
    residual = (s + h * (y * (2 * s + h * (x + s)))) ** 2 - s
    with as_written():
        own = affine.collected(ca.Function("f", [x, y, s, h], [residual]), [x, y, s, h], y)
        both = affine.collected(ca.Function("f", [x, y, s, h], own), [x, y, s, h], x, y)
        new, old = (ca.Function("f", [y, x, s, h], [e]) for e in (both[0], residual))
    after = [k for k in range(new.n_instructions()) if depends(new, k)]
    assert len(after) == 4  # a product, a sum, a square, a difference
    first = ca.Function("f", [x, y, s, h], both)
    assert len([k for k in range(first.n_instructions()) if depends(first, k)]) == 2 + 4  # a form beside what it is in
    np.testing.assert_allclose(float(new(0.7, 0.2, 1.3, 0.1)), float(old(0.7, 0.2, 1.3, 0.1)), rtol=1e-14)
