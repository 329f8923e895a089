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
    assert abs(off.gradient(running=lambda q, v, k: k * (q[0] ** 2 + v[0] ** 2))["k"]) > 1e-3
    with pytest.raises(da.MethodError, match="did you mean"):
        off.jacobian("q", "kk")
    with pytest.raises(da.MethodError, match="terminal"):
        off.gradient()
