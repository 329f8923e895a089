"""What `simulate` chooses where nothing is said, and rows at given times."""

import warnings

import numpy as np
import pytest

import dalembert as da


@pytest.mark.parametrize(("name", "method"), [("double-pendulum", "rattle"), ("synchronous-machine", "discrete-gradient")])
def test_method_and_step_are_chosen_and_said(name, method):
    system = da.catalog.make(name)
    sol = da.simulate(system, t_end=0.5)
    assert str(sol.method) == method == da.diagnose(system).recommended.split(",")[0]
    assert f"{method} (recommended by da.diagnose), step {sol.step:.6g} (by trial: error" in sol.stats["chosen"]
    assert "chosen" in str(sol)
    finer = da.simulate(system, method, t_end=0.5, step=sol.step / 4)
    for part in system.state:
        error = np.abs(sol.parts[part][-1] - finer.parts[part][-1]).max()
        assert error < 1e-3 * np.abs(finer.parts[part]).max(), part


def test_a_step_is_chosen_for_what_comes_after_a_start_at_rest():
    """A stiff floor that is met later, inputs that jump, and controllers, whose times the step divides."""
    floor = da.Mechanical(1, mass=1.0, potential=lambda q: 9.81 * q[0] + np.where(q[0] < 0, 5e4 * q[0] ** 2, 0.0))
    driven = da.Mechanical(1, mass=1.0, potential=lambda q: 500 * q[0] ** 2, inputs={"f": [1.0]})
    for system, start in (
        (floor, {"q": [1.0], "v": [0.0], "t_end": 0.8}),
        (driven, {"q": [0.0], "v": [0.0], "t_end": 1.0, "u": ([0.0, 0.5], [0.0, 1.0])}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", da.DalembertWarning)  # a jump inside of a step
            sol = da.simulate(system, "gauss-2", **start)
            fine = da.simulate(system, "gauss-3", **start, step=sol.step / 4)
        assert "where the motion changes most" in sol.stats["chosen"]
        assert np.abs(sol.q - fine.q[::4][: len(sol.q)]).max() < 1e-3 * np.abs(fine.q).max()
    cart = da.simulate(da.catalog.cart_pendulum(), "gauss-2", t_end=0.3, u=da.Sampled(lambda y: 3.0 * y[1], every=0.03))
    assert (0.03 / cart.step) % 1 == pytest.approx(0.0, abs=1e-12)
    unsound = da.Mechanical(1, mass=1.0, potential=lambda q: np.log(q[0]))
    with pytest.raises(da.ModelError, match=r"at t = "):
        da.simulate(unsound, "gauss-2", q=[1.0], v=[0.0], t_end=3.0)


def test_only_what_is_missing_is_chosen():
    system = da.catalog.double_pendulum()
    assert "chosen" not in da.simulate(system, "rattle", t_end=0.1, step=0.01).stats
    assert str(da.simulate(system, t_end=0.1, step=0.01).method) == "rattle"
    sol = da.simulate(system, "lobatto-pair-3", t_end=0.1)
    assert "diagnose" not in sol.stats["chosen"]
    assert sol.step <= 0.1 / 50 * (1 + 1e-12)
    with pytest.raises(da.MethodError, match="t_end = 0 must lie after"):
        da.simulate(system, "rattle", t_end=0.0)


def test_tolerances_are_those_of_error_control():
    vanderpol = da.ODE(lambda t, y: [y[1], (1 - y[0] ** 2) * y[1] - y[0]], initial={"x": [2.0, 0.0]})
    errors = []
    exact = da.simulate(vanderpol, "gauss-5", t_end=3.0, step=0.01).x[-1]
    for rtol in (1e-4, 1e-8):
        sol = da.simulate(vanderpol, t_end=3.0, rtol=rtol, atol=rtol)
        assert "rejected" in sol.stats
        errors.append(np.abs(sol.x[-1] - exact).max())
    assert errors[0] < 1e-3
    assert errors[1] < 1e-7
    same = da.simulate(vanderpol, "rk4", t_end=3.0, step=0.01, adaptive=da.control.ErrorControl(rtol=1e-8, atol=1e-8))
    np.testing.assert_array_equal(da.simulate(vanderpol, "rk4", t_end=3.0, step=0.01, rtol=1e-8, atol=1e-8).x, same.x)
    with pytest.raises(da.MethodError, match="do not go with another"):
        da.simulate(vanderpol, "rk4", t_end=3.0, step=0.01, rtol=1e-8, adaptive="backoff")


def test_rows_at_given_times():
    system, times = da.catalog.four_particles_damped(), np.array([0.0, 0.1, 0.123, 0.5])
    whole = da.simulate(system, "energy-momentum-ggl", t_end=0.5, step=0.01)
    sol = da.simulate(system, "energy-momentum-ggl", t_end=0.5, step=0.01, t_eval=times)
    np.testing.assert_array_equal(sol.t, times)
    np.testing.assert_array_equal(sol.q[[0, 1, 3]], whole.q[[0, 10, 50]])
    np.testing.assert_allclose(sol.q[2], whole.at(0.123, how="step").q, atol=1e-15)
    assert sol.dissipated.sum() == pytest.approx(whole.dissipated.sum(), rel=1e-12)
    assert sol.lam.shape == (3, system.m)
    assert np.abs(sol.at(0.3).q - whole.at(0.3).q).max() < 1e-6
    for bad, message in (([0.2, 0.1], "increase"), ([0.0, 0.6], "outside of the run"), ([], "increase")):
        with pytest.raises(da.MethodError, match=message):
            da.simulate(system, "energy-momentum-ggl", t_end=0.5, step=0.01, t_eval=bad)


def test_a_system_without_a_method_says_why():
    doubled = da.Mechanical(("x", "y"), mass=1.0, holonomic=lambda q: [q[0], 2 * q[0]], initial={"q": [0.0, 0.0]})
    with pytest.raises(da.MethodError, match=r"no method can be recommended.*redundant"):
        da.simulate(doubled, t_end=1.0)


def test_rows_at_given_times_and_events():
    ball = da.Mechanical(("z",), mass=1.0, potential=lambda q: 10 * q[0], initial={"q": [1.0], "v": [0.0]})
    landed = da.Event(lambda q: q[0], name="floor", terminal=True)
    sol = da.simulate(ball, "rattle", t_end=2.0, step=0.01, events=[landed], t_eval=[0.0, 0.2, 1.0])
    np.testing.assert_array_equal(sol.t, [0.0, 0.2])
    assert len(sol.events["floor"].t) == 1
    bounce = da.Event(lambda q: q[0], action=lambda v: {"v": -v})
    with pytest.raises(da.MethodError, match="t_eval does not go with events that act"):
        da.simulate(ball, "rattle", t_end=2.0, step=0.01, events=[bounce], t_eval=[0.0, 0.2])
