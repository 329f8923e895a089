"""The one Newton's method for equations in numbers."""

import casadi as ca
import numpy as np
import pytest

from dalembert.engine.newton import projection, solve
from dalembert.errors import ConvergenceError


def scalar(f, slope):
    return lambda x: (np.array([f(x[0])]), np.array([[slope(x[0])]]))


def symbolic(expression, n):
    """A residual and its Jacobian as CasADi computes them, in sparse matrices."""
    x = ca.SX.sym("x", n)
    r = ca.sparsify(ca.SX(ca.vertcat(*expression(x))))
    f = ca.Function("f", [x], [r, ca.jacobian(r, x)])
    return lambda at: f(at)


def test_the_rate_is_quadratic():
    seen = []

    def residual(x):
        seen.append(abs(x[0] - np.cbrt(2)))
        return np.array([x[0] ** 3 - 2]), np.array([[3 * x[0] ** 2]])

    assert solve(residual, np.array([1.3]))[0] == pytest.approx(np.cbrt(2), rel=4e-16)
    errors = [e for e in seen if e > 1e-7]
    assert len(errors) >= 3
    for a, b in zip(errors, seen[1:], strict=False):
        assert b < 1.2 * a**2 + 1e-15  # f'' / (2 f') = 1 / x
    assert len(seen) <= 7


@pytest.mark.parametrize("start", [-1.9, -0.3, -40.0])
def test_the_sign_of_the_start_is_kept(start):
    assert solve(scalar(lambda z: z * z - 4, lambda z: 2 * z), np.array([start]))[0] == -2.0


def test_several_unknowns_in_casadi_matrices():
    x = solve(symbolic(lambda x: [x[0] ** 2 + x[1] ** 2 - 1, x[0] - x[1]], 2), np.array([1.0, 0.2]))
    np.testing.assert_allclose(x, np.sqrt([0.5, 0.5]), rtol=4e-16)


def test_a_large_sparse_system():
    n = 300
    x = solve(symbolic(lambda x: [x[i] ** 3 + x[i] - 2 - (x[i - 1] - 1 if i else 0) for i in range(n)], n), np.full(n, 0.5))
    np.testing.assert_allclose(x, np.ones(n), rtol=1e-14)


def test_fewer_equations_than_unknowns_give_the_nearest_solution():
    """The foot of the perpendicular from a point near a plane; Newton's path on a circle is radial."""
    x = solve(symbolic(lambda x: [x[0] + 2 * x[1] + 2 * x[2] - 9], 3), np.array([1.0, 1.0, 2.0]))
    np.testing.assert_allclose(x, np.array([1, 1, 2]) + 2 / 9 * np.array([1, 2, 2]), rtol=1e-15)
    x = solve(symbolic(lambda x: [x[0] ** 2 + x[1] ** 2 - 25], 2), np.array([3.3, 4.4]))
    np.testing.assert_allclose(x, [3.0, 4.0], rtol=1e-15)


def test_a_weighted_projection_moves_what_is_light():
    W = np.diag([1.0, 1e-3])
    x = solve(symbolic(lambda x: [x[0] + x[1] - 1], 2), np.zeros(2), change=projection(lambda x: W), scale=1.0)
    np.testing.assert_allclose(x, [1 / 1.001, 1e-3 / 1.001], rtol=1e-15)


def test_steps_that_lead_away_are_halved():
    """Newton's method on the arc tangent diverges from 3."""
    assert abs(solve(scalar(np.arctan, lambda z: 1 / (1 + z * z)), np.array([3.0]), scale=1.0)[0]) < 1e-15
    assert abs(solve(scalar(lambda z: np.log(z), lambda z: 1 / z), np.array([8.0]))[0] - 1) < 1e-15


def test_a_solution_at_zero_needs_a_scale():
    residual = scalar(lambda z: (z - 7) ** 2 - 49, lambda z: 2 * (z - 7))
    assert abs(solve(residual, np.array([0.3]), scale=1.0)[0]) < 1e-15
    assert abs(solve(residual, np.array([0.3]), scale=1.0, terms=lambda z: np.array([98.0]))[0]) < 1e-15


def test_a_start_that_is_a_solution_stays():
    x0 = np.array([0.6, 0.8])
    x = solve(symbolic(lambda x: [x[0] - 0.6, x[1] - 0.8], 2), x0)
    assert (x == x0).all()
    assert x is not x0
    assert solve(lambda x: (np.zeros(0), np.zeros((0, 2))), x0).tolist() == [0.6, 0.8]


NO_SOLUTION = {
    "no real zero": (lambda z: z * z + 1, lambda z: 2 * z, 0.7),
    "a zero at infinity": (lambda z: np.exp(-z), lambda z: -np.exp(-z), 0.0),
    "a bound that is not reached": (lambda z: z / np.sqrt(1 + z * z) - 2, lambda z: (1 + z * z) ** -1.5, 0.5),
    "nan everywhere": (lambda z: np.nan, lambda z: 1.0, 1.0),
    "nan at the start": (np.log, lambda z: 1 / z, -1.0),
    "nan in the Jacobian": (lambda z: z - 1, lambda z: np.nan, 3.0),
    "singular at the start": (lambda z: z * z - 1, lambda z: 2 * z, 0.0),
    "a pole": (lambda z: 1 / z, lambda z: -1 / z**2, 1.0),
}


@pytest.mark.parametrize("scale", [0.0, 1.0])
@pytest.mark.parametrize("max_iterations", [5, 50, 500])
@pytest.mark.parametrize("name", NO_SOLUTION)
def test_where_nothing_is_found_it_raises(name, max_iterations, scale):
    f, slope, start = NO_SOLUTION[name]
    with pytest.raises(ConvergenceError, match="the angle") as raised:
        solve(scalar(f, slope), np.array([start]), scale=scale, max_iterations=max_iterations, what="the angle", t=3.0)
    assert raised.value.t == 3.0
    assert not raised.value.residual <= 1e-8


def test_too_few_iterations_raise():
    with pytest.raises(ConvergenceError):
        solve(scalar(lambda z: z**3 - 2, lambda z: 3 * z**2), np.array([50.0]), max_iterations=3)


def test_dependent_equations_that_contradict_raise():
    with pytest.raises(ConvergenceError):
        solve(symbolic(lambda x: [x[0] + x[1] - 1, x[0] + x[1] - 2], 2), np.array([0.3, 0.4]))
    with pytest.raises(ConvergenceError):  # least squares stops between the two planes
        solve(symbolic(lambda x: [x[0] + x[1] - 1, x[0] + x[1] - 2], 3), np.array([0.3, 0.4, 0.5]))


@pytest.mark.parametrize(("size", "rate"), [(1e-11, 1e13), (1e-10, 3e12), (1e-12, 1e15), (3e-11, 7e13)])
def test_noise_of_the_residual_ends_the_iteration(size, rate):
    """A residual that is rough near its zero: where nothing is gained any more, what is reached is the answer."""
    x = solve(scalar(lambda z: z - 1 + size * np.sin(rate * z), lambda z: 1.0), np.array([0.3]))
    assert abs(x[0] - 1) <= 2 * size
