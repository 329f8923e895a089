"""Costs of a run: where they count, and with which weights."""

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.run import Grid
from dalembert.sensitivities.costs import at_end, at_stored, stored, trapezoidal


@pytest.mark.parametrize("grid", [Grid(0.0, 1.0, 0.1), Grid(0.5, 1.53, 0.1, 3), Grid(0.0, 1.0, 0.1, 5), Grid(0.0, 0.07, 0.1, 4)])
def test_weights_are_those_of_the_stored_rows(grid):
    numbers = np.arange(grid.steps + 1)
    rows = np.append(0, grid.saved)
    np.testing.assert_array_equal(numbers[stored(grid, numbers)], rows)
    np.testing.assert_array_equal(np.flatnonzero(at_stored(grid, numbers)), rows[1:])
    np.testing.assert_array_equal(np.flatnonzero(at_end(grid, numbers)), [grid.steps])
    values = np.sin(np.arange(len(numbers)) + 1.0)
    expected = np.trapezoid(values[rows], grid.times(rows))
    assert trapezoidal(grid, numbers) @ values == pytest.approx(expected, rel=1e-14)


def test_an_integral_has_the_order_of_its_rule():
    """The kinetic energy of an oscillator over a period, with second order in the step."""
    system, exact = da.catalog.harmonic_oscillator(), np.pi / 2
    errors = []
    for n in (20, 40):
        run = da.sensitivity(system, "gauss-3", q=[1.0], v=[0.0], t_end=np.pi / 2 * 1.0, step=np.pi / 2 / n)
        errors.append(float(run.gradient(integral=lambda v, t: t * v[0] ** 2)["value"]))
    exact = (np.pi**2 / 4 + 1) / 4  # of t sin(t)^2 up to pi / 2
    assert (errors[0] - exact) / (errors[1] - exact) == pytest.approx(4.0, rel=1e-2)


@pytest.mark.parametrize("role", ["terminal", "running", "integral"])
def test_costs_are_one_number(role):
    run = da.sensitivity(da.catalog.simple_pendulum(), "rattle", t_end=0.1, step=0.05)
    with pytest.raises(da.MethodError, match=f"{role} must return one number"):
        run.gradient(**{role: lambda q: q})
    with pytest.raises(da.ModelError, match="unknown argument 'qq'"):
        run.gradient(**{role: lambda qq: qq})
