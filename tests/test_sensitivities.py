"""Derivatives of a run with respect to initial values and parameters."""

import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, polar_rod


def test_gradients_through_a_thousand_steps():
    """Against central differences, to 1e-6 relative; by both sweeps."""
    cost = lambda q: np.sum(q**2) + q[0]  # noqa: E731
    for make, method, name in (
        (da.catalog.double_pendulum, "rattle", "m1"),
        (da.catalog.double_pendulum, "energy-momentum", "g"),
        (da.catalog.four_particles, "energy-momentum", "K2"),
        (angle_pendulum, "midpoint", "l2"),
        (polar_rod, "rattle", "g"),
    ):
        system = make()
        options = dict(t_end=2.0, step=0.002)
        run = da.sensitivity(system, method, **options)
        value = float(system.parameters[name])
        d = 1e-5 * value
        finals = [da.simulate(system, method, parameters={name: value + s * d}, **options).q[-1] for s in (1, -1)]
        expected = (finals[0] - finals[1]) / (2 * d)
        scale = np.abs(expected).max() + 1e-6
        np.testing.assert_allclose(run.jacobian("q", name), expected, atol=1e-6 * scale)
        gradient = run.gradient(cost)
        difference = (cost(finals[0]) - cost(finals[1])) / (2 * d)
        assert gradient[name] == pytest.approx(difference, rel=1e-6, abs=1e-8 * scale)
        np.testing.assert_allclose(gradient["value"], cost(run.solution.q[-1]))


def test_gradients_with_respect_to_initial_values():
    system = angle_pendulum()
    q, v = np.array([0.7, -0.4]), np.array([0.3, 1.1])
    options = dict(t_end=1.0, step=0.001)
    run = da.sensitivity(system, "energy-momentum", q=q, v=v, **options)
    d = 1e-6
    for i in range(2):
        e = d * np.eye(2)[i]
        for wrt, plus, minus in (("q", (q + e, v), (q - e, v)), ("v", (q, v + e), (q, v - e))):
            a, b = (da.simulate(system, "energy-momentum", q=x, v=y, **options) for x, y in (plus, minus))
            np.testing.assert_allclose(run.jacobian("q", wrt)[:, i], (a.q[-1] - b.q[-1]) / (2 * d), rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(run.jacobian("v", wrt)[:, i], (a.v[-1] - b.v[-1]) / (2 * d), rtol=1e-6, atol=1e-6)


def test_running_costs_fit_a_parameter():
    """Gradient of a sum of squared errors along the path, at the right parameter and away from it."""
    system = da.catalog.harmonic_oscillator()
    data = da.simulate(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": 1.3})
    run = da.sensitivity(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": 1.3})
    target = data.at(1.0).q[0]
    gradient = run.gradient(running=lambda q, t: np.where(np.abs(t - 1.0) < 1e-6, (q[0] - target) ** 2, 0.0))
    assert abs(gradient["k"]) < 1e-12
    off = da.sensitivity(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": 1.5})
    cost = lambda q, v, k: k * (q[0] ** 2 + v[0] ** 2)  # noqa: E731
    sums = []
    for k in (1.5 - 1e-4, 1.5 + 1e-4):
        sol = da.simulate(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": k})
        sums.append(k * (sol.q[1:] ** 2 + sol.v[1:] ** 2).sum())
    assert off.gradient(running=cost)["k"] == pytest.approx((sums[1] - sums[0]) / 2e-4, rel=1e-7)
    with pytest.raises(da.MethodError, match="did you mean"):
        off.jacobian("q", "kk")
    with pytest.raises(da.MethodError, match="terminal"):
        off.gradient()


def differences(call, value, d=1e-5):
    """A central difference."""
    return (call(value + d) - call(value - d)) / (2 * d)


def test_running_costs_over_many_steps():
    """More steps than are linearised at once: each step's slope is added where it belongs."""
    system, options = da.catalog.harmonic_oscillator(), {"t_end": 30.0, "step": 0.01}
    weight = lambda q, t: q[0] ** 2 * (1 + t)  # noqa: E731

    def cost(k):
        sol = da.simulate(system, "midpoint", parameters={"k": k}, **options)
        return (sol.q[1:, 0] ** 2 * (1 + sol.t[1:])).sum()

    run = da.sensitivity(system, "midpoint", **options)
    gradient = run.gradient(running=weight, terminal=lambda q: q[0])
    end = differences(lambda k: da.simulate(system, "midpoint", parameters={"k": k}, **options).q[-1, 0], 1.0)
    assert gradient["k"] == pytest.approx(differences(cost, 1.0) + end, rel=1e-7)
    np.testing.assert_allclose(run.jacobian("q", "k"), [end], rtol=1e-7)


def test_a_shortened_last_step():
    """Against the exact derivative of the midpoint rule's own end, by differences; the last step is a tenth of the others."""
    system, options = da.catalog.harmonic_oscillator(), {"t_end": 1.01, "step": 0.1}
    run = da.sensitivity(system, "midpoint", **options)
    ends = lambda k: da.simulate(system, "midpoint", parameters={"k": k}, **options).x[-1]  # noqa: E731
    expected = differences(ends, 1.0)
    np.testing.assert_allclose(np.concatenate([run.jacobian("q", "k"), run.jacobian("v", "k")]), expected, rtol=1e-8)
    assert run.gradient(lambda q: q[0])["k"] == pytest.approx(expected[0], rel=1e-8)
    assert len(run.solution.t) == 12


@pytest.mark.parametrize("method", ["rattle", "gauss-2", "energy-momentum"])
def test_derivatives_with_inputs(method):
    """By a gain of the input, by the initial values, with an input that changes within each step."""
    system = da.Mechanical(
        1, mass=1.0, potential=lambda q: q[0] ** 4 / 4, inputs=lambda q, gain: [[gain * (1 + q[0] ** 2)]],
        parameters={"gain": 0.7}, initial={"q": [0.3], "v": [0.1]},
    )  # fmt: skip
    options = {"t_end": 2.05, "step": 0.1, "u": lambda t: [np.cos(3 * t)]}
    run = da.sensitivity(system, method, **options)
    ends = lambda gain: da.simulate(system, method, parameters={"gain": gain}, **options).x[-1]  # noqa: E731
    expected = differences(ends, 0.7)
    assert np.abs(expected).min() > 0.1
    np.testing.assert_allclose([run.jacobian("q", "gain")[0], run.jacobian("v", "gain")[0]], expected, rtol=1e-7)
    by_start = differences(lambda q: da.simulate(system, method, q=[q], v=[0.1], **options).x[-1], 0.3)
    np.testing.assert_allclose([run.jacobian("q", "q")[0, 0], run.jacobian("v", "q")[0, 0]], by_start, rtol=1e-7)
    assert run.gradient(lambda v: v[0] ** 2)["gain"] == pytest.approx(2 * run.solution.v[-1, 0] * expected[1], rel=1e-7)
