"""The motion between stored times: its order, its ends, and that nothing is lost by saving less often."""

import numpy as np
import pytest

import dalembert as da

TIMES = np.linspace(0.013, 1.987, 41)


@pytest.fixture(scope="module")
def angle():
    return da.Mechanical(1, mass=1.0, potential=lambda q: -9.81 * np.cos(q[0]), name="pendulum in its angle")


@pytest.fixture(scope="module")
def truth(angle):
    return da.simulate(angle, "gauss-8", q=[1.2], v=[0.5], t_end=2.0, step=0.01).at(TIMES, how="step")


def slopes(angle, truth, method, how, counts=(16, 23, 32, 45)):
    errors = []
    for n in counts:
        sample = da.simulate(angle, method, q=[1.2], v=[0.5], t_end=2.0, step=2.0 / n).at(TIMES, how=how)
        errors.append([np.abs(sample.q - truth.q).max(), np.abs(sample.v - truth.v).max()])
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


@pytest.mark.parametrize(
    ("method", "q", "v"),
    [
        ("gauss-2", 4, 3),
        ("gauss-3", 5, 4),
        ("gauss-4", 6, 5),
        ("murua-3", 5, 4),
        ("radau-iia-3", 5, 4),
        ("radau-iia-4", 6, 5),
        ("lobatto-iiia-4", 5, 5),
        ("lobatto-pair-3", 4, 3),
    ],
)
def test_order_of_the_polynomials(angle, truth, method, q, v):
    found = slopes(angle, truth, method, "polynomial")
    assert abs(found[0] - q) < 0.35
    assert abs(found[1] - v) < 0.35


@pytest.mark.parametrize(("method", "order"), [("gauss-3", 6), ("radau-iia-3", 5), ("lobatto-pair-4", 6), ("rattle", 2)])
def test_order_of_shortened_steps_is_that_of_the_method(angle, truth, method, order):
    assert np.abs(slopes(angle, truth, method, "step") - order).max() < 0.3


@pytest.mark.parametrize("method", ["lobatto-pair-3", "rattle", "murua-ggl-3", "energy-momentum"])
def test_shortened_steps_stay_on_the_constraints(method):
    system = da.catalog.make("double-pendulum")
    sol = da.simulate(system, method, t_end=1.0, step=0.02, save_every=7)
    sample = sol.at(np.linspace(0.0, 1.0, 77), how="step")
    assert np.abs(system.numeric("holonomic", sol._par, q=sample.q)).max() < 1e-13
    assert np.array_equal(sol.at(sol.t, how="step").q[:1], sol.q[:1])
    assert np.abs(sol.at(sol.t, how="step").q - sol.q).max() < 1e-12


@pytest.mark.parametrize("method", ["gauss-3", "rattle", "murua-3", "radau-iia-3"])
def test_saving_less_often_loses_nothing(angle, method):
    full = da.simulate(angle, method, q=[1.2], v=[0.5], t_end=2.0, step=0.03)
    thin = da.simulate(angle, method, q=[1.2], v=[0.5], t_end=2.0, step=0.03, save_every=9)
    for how in ("polynomial", "step"):
        assert np.abs(full.at(TIMES, how=how).q - thin.at(TIMES, how=how).q).max() < 1e-12


@pytest.mark.parametrize("method", ["gauss-3", "murua-4", "radau-iia-3", "lobatto-iiia-4"])
def test_polynomials_meet_at_the_steps(angle, method):
    sol = da.simulate(angle, method, q=[1.2], v=[0.5], t_end=2.0, step=0.1)
    before = sol.at(sol.t[1:] * (1 - 1e-13))
    assert np.abs(before.q - sol.q[1:]).max() < 1e-11
    assert np.abs(before.v - sol.v[1:]).max() < 1e-10


def test_inputs_are_asked_again():
    system = da.Mechanical(1, mass=1.0, inputs=[[1.0]])
    sol = da.simulate(system, "gauss-3", q=[0.0], v=[0.0], u=lambda t: [t**2], t_end=1.0, step=0.25)
    t = np.linspace(0, 1, 13)
    assert np.abs(sol.at(t).q[:, 0] - t**4 / 12).max() < 1e-14


def test_adaptive_steps_have_a_dense_output(angle, truth):
    sol = da.simulate(angle, "gauss-4", q=[1.2], v=[0.5], t_end=2.0, step=0.1, adaptive=da.control.ErrorControl(rtol=1e-9))
    assert np.abs(sol.at(TIMES).q - truth.q).max() < 1e-7
    assert np.abs(sol.at(TIMES, how="step").q - truth.q).max() < 1e-8


def test_bad_questions(angle):
    sol = da.simulate(angle, "rattle", q=[1.2], v=[0.5], t_end=1.0, step=0.1)
    with pytest.raises(da.MethodError, match="how must be"):
        sol.at(0.5, how="spline")
    with pytest.raises(da.MethodError, match="reaches from"):
        sol.at(2.0)
