"""Ordinary and implicit differential equations: orders of all methods, consistent values, and what is refused."""

import pickle

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.methods.base import able, find


def oscillator(**options):
    """Van der Pol's, with its state under the name that solve_ivp gives it."""
    return da.ODE(
        lambda t, y, mu: [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]], ("a", "b"), parameters={"mu": 1.0},
        initial={"x": [2.0, 0.0]}, **options,
    )  # fmt: skip


REFERENCE = solve_ivp(
    lambda t, y: [y[1], (1 - y[0] ** 2) * y[1] - y[0]], (0, 2), [2.0, 0.0], method="DOP853", rtol=1e-13, atol=1e-14
).y[:, -1]
SYSTEM = oscillator()
METHODS = [str(m) for m in able(SYSTEM)]


def slope(errors, steps, floor=2e-13):
    errors, steps = np.array(errors), np.array(steps)
    keep = errors > floor
    return np.polyfit(np.log(steps[keep]), np.log(errors[keep]), 1)[0] if keep.sum() >= 3 else np.nan


@pytest.mark.parametrize("name", METHODS)
def test_every_runge_kutta_method_has_its_order(name):
    method = find(name)
    order = method.free_order
    steps = 2.0 / np.array({1: [160, 320, 640], 2: [80, 160, 320], 3: [80, 160, 320], 4: [80, 160, 320]}.get(order, [10, 20, 40]))
    errors = [np.abs(da.simulate(SYSTEM, method, t_end=2.0, step=h, compile=False).x[-1] - REFERENCE).max() for h in steps]
    assert slope(errors, steps) == pytest.approx(order, abs=0.25 if order < 5 else 0.5)


def test_explicit_and_implicit_families_are_there():
    assert {"euler", "heun", "rk4", "gauss-3", "radau-iia-3", "lobatto-iiia-3", "lobatto-iiic-3"} <= set(METHODS)
    with pytest.raises(da.MethodError, match="rattle cannot treat"):
        da.simulate(oscillator(), "rattle", t_end=1.0, step=0.1)


def test_an_ode_has_all_that_other_systems_have(tmp_path):
    system, run = oscillator(), {"t_end": 1.0, "step": 0.02}
    sol = da.simulate(system, "gauss-3", compile=False, **run)
    np.testing.assert_array_equal(da.simulate(system, "gauss-3", compile="newton", **run).x, sol.x)
    np.testing.assert_array_equal(da.load(sol.save(tmp_path / "ode.nc")).x, sol.x)
    assert np.abs(sol.at(0.513).x - da.simulate(system, "gauss-3", t_end=0.513, step=0.0171).x[-1]).max() < 1e-8
    np.testing.assert_array_equal(sol["d_a"], sol["b"])
    jacobian = da.sensitivity(system, "gauss-3", **run).jacobian("x", "mu").ravel()
    ends = [da.simulate(system, "gauss-3", parameters={"mu": 1 + d}, **run).x[-1] for d in (1e-5, -1e-5)]
    np.testing.assert_allclose(jacobian, (ends[0] - ends[1]) / 2e-5, rtol=1e-7)
    watched = da.simulate(system, "rk4", events=[da.Event(lambda x: x[0] - 1.8, name="low")], **run)
    assert len(watched.events["low"].t) == 1
    found = da.diagnose(system)
    assert found.index == 0
    assert found.recommended in METHODS


def test_the_number_of_states_follows_from_the_initial_value():
    decay = da.ODE(lambda t, x, k: -k * x, initial={"x": [1.0, 2.0]}, parameters={"k": 2.0})
    assert decay.coordinates == ("x0", "x1")
    sol = da.simulate(decay, "radau-iia-5", t_end=1.0, step=0.1)
    np.testing.assert_allclose(sol.x[-1], [np.exp(-2.0), 2 * np.exp(-2.0)], rtol=1e-12)


def test_inputs_of_an_ode():
    lag = da.ODE(lambda x, u: [u[0] - x[0]], 1, inputs=("valve",), initial={"x": [0.0]})
    sol = da.simulate(lag, "gauss-3", t_end=1.0, step=0.05, u={"valve": 3.0})
    assert sol.x[-1, 0] == pytest.approx(3 * (1 - np.exp(-1.0)), abs=1e-11)
    assert "u_valve" in sol.names


ROBERTSON = [0.7158270688, 0.9185534765e-5, 0.2841637457]  # at t = 40; Brown, Hindmarsh, Petzold: example of IDA


def robertson():
    def F(t, y, yp):
        rate = [0.04 * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2]
        return [yp[0] + rate[0], yp[1] - rate[0] + rate[1], y[0] + y[1] + y[2] - 1]

    return da.ImplicitDAE(F, 3, initial={"y": [1.0, 0.0, 0.0]}, name="Robertson")


@pytest.mark.parametrize("method", ["radau-iia-3", "lobatto-iiic-3"])
def test_robertsons_reaction(method):
    sol = da.simulate(robertson(), method, t_end=40.0, step=0.1)
    np.testing.assert_allclose(sol.y[-1], ROBERTSON, rtol=2e-8)
    assert np.abs(sol.y.sum(axis=1) - 1).max() < 1e-14
    assert np.abs(sol.residual("position")).max() < 1e-14


def test_step_control_on_an_implicit_system():
    sol = da.simulate(robertson(), "radau-iia-3", t_end=40.0, step=1e-3, adaptive=True)
    np.testing.assert_allclose(sol.y[-1], ROBERTSON, rtol=1e-5)
    assert sol.stats["steps"] < 100


def mixed():
    """No equation is explicit in a rate, none is without one but the last; nonlinear in what is algebraic."""
    return da.ImplicitDAE(
        lambda t, y, yp, c: [yp[0] + yp[1] - y[1] * y[0] - c * np.cos(t), y[1] ** 3 + y[1] - y[0] - np.sin(t)],
        ("a", "b"),
        parameters={"c": 1.0},
    )


@pytest.mark.parametrize(("method", "order"), [("radau-iia-1", 1), ("radau-iia-2", 3), ("radau-iia-3", 5), ("lobatto-iiic-3", 4)])
def test_orders_on_an_implicit_system(method, order):
    system = mixed()
    start = da.consistent(system, y=[0.5, 0.1])
    steps = [0.2, 0.1, 0.05, 0.025]
    exact = da.simulate(system, "radau-iia-5", y=start.y, t_end=1.0, step=0.02).y[-1]
    errors = [np.abs(da.simulate(system, method, y=start.y, t_end=1.0, step=h).y[-1] - exact).max() for h in steps]
    assert slope(errors, steps) == pytest.approx(order, abs=0.25)


def test_consistent_values_satisfy_the_equations():
    system = mixed()
    start = da.consistent(system, y=[0.5, 0.1])
    assert np.abs(system.numeric("F", system.pack(), y=start.y, z=start.z)).max() < 1e-14
    assert start.y.sum() == pytest.approx(0.6, abs=1e-14)  # what has a rate, a + b, stays
    again = da.consistent(system, **start)
    np.testing.assert_allclose(again.y, start.y, atol=1e-15)


def test_compiled_stored_and_differentiated(tmp_path):
    system = mixed()
    start = da.consistent(system, y=[0.5, 0.1])
    run = {"y": start.y, "t_end": 0.5, "step": 0.05}
    sol = da.simulate(system, "radau-iia-3", compile=False, **run)
    np.testing.assert_array_equal(da.simulate(system, "radau-iia-3", compile=True, **run).y, sol.y)
    np.testing.assert_array_equal(da.load(sol.save(tmp_path / "run.nc")).y, sol.y)
    assert pickle.loads(pickle.dumps(system)).dumps() == system.dumps()
    found = da.sensitivity(system, "radau-iia-3", **run).jacobian("y", "c").ravel()
    ends = [da.simulate(system, "radau-iia-3", parameters={"c": 1 + d}, **run).y[-1] for d in (1e-5, -1e-5)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-5, rtol=1e-7)


def test_of_several_rates_the_guess_chooses():
    growth = da.ImplicitDAE(lambda y, yp: [yp[0] ** 2 - y[0]], 1)
    for sign in (1.0, -1.0):
        sol = da.simulate(growth, "radau-iia-3", y=[1.0], z=[sign], t_end=0.5, step=0.05)
        assert sol.y[-1, 0] == pytest.approx((1 + sign * 0.25) ** 2, abs=1e-12)


def pendulum():
    return da.ImplicitDAE(
        lambda y, yp: [yp[0] - y[2], yp[1] - y[3], yp[2] + y[0] * y[4], yp[3] + y[1] * y[4] + 9.81, y[0] ** 2 + y[1] ** 2 - 1], 5,
        initial={"y": [1.0, 0.0, 0.0, 0.0, 0.0]}, name="pendulum",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: da.simulate(pendulum(), "radau-iia-3", t_end=1.0, step=0.1),
            "is higher than one.*equation 5",
        ),
        (lambda: da.consistent(pendulum()), "higher than one"),
        (
            lambda: da.simulate(robertson(), "radau-iia-3", y=[1, 0, 0.3], t_end=1.0, step=0.1),
            r"equation 3 .* by 3\.0e-01",
        ),
        (lambda: da.simulate(robertson(), "gauss-2", t_end=1.0, step=0.1), "gauss cannot treat.*use radau-iia-3"),
        (lambda: da.simulate(robertson(), "rk4", t_end=1.0, step=0.1), "rk4 cannot treat"),
        (lambda: da.ImplicitDAE(lambda y: y, 2), "rates y' as an argument: call them yp"),
        (lambda: da.ImplicitDAE(lambda y, yp: [yp[0]], 2), "F has 1 entries, but there are 2"),
        (lambda: da.ODE(lambda x: x), "say how many variables"),
        (lambda: da.ODE(lambda x: [x[0]], 2), "f must return 2 entries"),
        (lambda: da.ODE(lambda w: w, 2), "unknown argument 'w'"),
        (lambda: da.simulate(oscillator(), "rk4", q=[1, 2], t_end=1.0, step=0.1), "starts from x"),
        (lambda: da.simulate(da.ODE(lambda x: x, 1), "rk4", t_end=1.0, step=0.1), "give x="),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(da.DalembertError, match=message):
        call()


def test_diagnosis_of_an_implicit_system():
    found = da.diagnose(robertson())
    assert (found.index, found.degrees_of_freedom, found.recommended) == (1, 2, "radau-iia-3")
    assert da.diagnose(pendulum()).index == 3
