"""Optimal inputs: against exact solutions, on constraints, and as `simulate` runs them."""

import numpy as np
import pytest

import dalembert as da


def pole():
    """The cart with its pole in Cartesian coordinates, on a rod."""
    return da.Mechanical(
        ("s", "x", "y"), mass=lambda M, m: [M, m, m], potential=lambda q, m, g: m * g * q[2],
        holonomic=lambda q, l: (q[1] - q[0]) ** 2 + q[2] ** 2 - l**2, inputs={"force": [1.0, 0.0, 0.0]},
        parameters={"M": 1.0, "m": 0.2, "l": 0.5, "g": 9.81}, name="cart with a pole",
    )  # fmt: skip


def mass():
    return da.Mechanical(("x",), mass=1.0, inputs={"push": [1.0]}, initial={"q": [0.0], "v": [0.0]})


def test_least_effort_for_a_mass_is_the_solution_of_least_norm():
    h, n = 0.05, 20
    found = da.optimize_inputs(mass(), "midpoint", end={"x": 1.0, "v_x": 0.0}, t_end=1.0, step=h)
    to_v = np.full(n, h)
    to_x = h**2 * (n - np.arange(n) - 0.5)
    exact = np.linalg.pinv(np.array([to_x, to_v])) @ [1.0, 0.0]
    assert np.abs(found.u[:, 0] - exact).max() < 1e-9
    assert abs(found.cost - h * exact @ exact) < 1e-8
    assert found.missed < 1e-14


def test_bounds_of_inputs_and_states_are_kept():
    free = da.optimize_inputs(mass(), "midpoint", end={"x": 1.0, "v_x": 0.0}, t_end=1.0, step=0.05)
    tight = da.optimize_inputs(mass(), "midpoint", end={"x": 1.0, "v_x": 0.0}, t_end=1.0, step=0.05, bounds=(-5.0, 5.0))
    slow = da.optimize_inputs(mass(), "midpoint", end={"x": 1.0, "v_x": 0.0}, t_end=1.0, step=0.05, within={"v_x": (None, 1.3)})
    assert np.abs(free.u).max() > 5.0
    assert np.abs(tight.u).max() <= 5.0
    assert slow.solution.v.max() < 1.3 + 1e-6
    assert free.cost < min(tight.cost, slow.cost)
    assert max(tight.missed, slow.missed) < 1e-12


@pytest.mark.parametrize("method", ["energy-momentum", "rattle"])
def test_the_pendulum_on_a_cart_swings_up_and_simulate_repeats_it(method):
    cart = da.catalog.cart_pendulum()
    options = dict(q=[0.0, np.pi], v=[0.0, 0.0], t_end=2.0, step=0.02)
    found = da.optimize_inputs(cart, method, end={"q": [0, 0], "v": [0, 0]}, bounds={"force": (-12.0, 12.0)}, **options)
    sol = da.simulate(cart, method, u=found.inputs, **options)
    assert np.abs(sol.x[-1]).max() < 1e-11
    assert np.array_equal(sol.x, found.solution.x)
    assert found.defect < 1e-9  # the states of the problem are those of the run
    assert np.abs(found.u).max() <= 12.0
    assert abs(found.cost - 0.02 * (found.u**2).sum()) < 1e-9


def test_on_a_rod_it_swings_up_as_in_its_angle():
    minimal = da.optimize_inputs(
        da.catalog.cart_pendulum(), "rattle", q=[0.0, np.pi], end={"q": [0, 0], "v": [0, 0]}, t_end=2.0, step=0.02,
        bounds=(-20.0, 20.0),
    )  # fmt: skip
    found = da.optimize_inputs(
        pole(), "rattle", q=[0.0, 0.0, -0.5], end={"q": [0.0, 0.0, 0.5], "v": [0.0, 0.0, 0.0]}, t_end=2.0, step=0.02,
        bounds=(-20.0, 20.0),
    )  # fmt: skip
    assert np.abs(found.solution.q[-1] - [0.0, 0.0, 0.5]).max() < 1e-11
    assert np.abs(found.solution.v[-1]).max() < 1e-11
    assert np.abs(found.solution.residual("position")).max() < 1e-13
    assert abs(found.cost - minimal.cost) < 5e-3 * minimal.cost  # the same motion: the difference is of second order in the step
    assert "end missed" in str(found)
    assert len(found.plot().axes) == 2


def test_costs_and_ends_may_be_functions_and_inputs_are_held():
    cart = da.catalog.cart_pendulum()
    found = da.optimize_inputs(
        cart, "midpoint", q=[0.0, 0.0], end=lambda q, v: [q[0] - 0.5, v[0], q[1], v[1]], t_end=1.0, step=0.02, every=5,
        running=lambda q, u: u[0] ** 2 + 100 * q[1] ** 2, terminal=lambda q: q[0],
    )  # fmt: skip
    assert found.u.shape == (10, 1)
    assert np.abs(found.solution.x[-1] - [0.5, 0.0, 0.0, 0.0]).max() < 1e-11
    x, u = found.solution.q[1:], found.u[np.arange(50) // 5]
    assert abs(found.cost - (0.02 * (u[:, 0] ** 2 + 100 * x[:, 1] ** 2).sum() + 0.5)) < 1e-9


def test_bad_calls_are_refused_in_words():
    options = dict(end={"x": 1.0}, t_end=1.0, step=0.1)
    with pytest.raises(da.MethodError, match="has no inputs to optimise"):
        da.optimize_inputs(da.catalog.harmonic_oscillator(), "midpoint", **options)
    for match, given in (
        ("does not divide", dict(step=0.3)),
        ("end has 'y'", dict(end={"y": 1.0})),
        ("end is empty", dict(end={})),
        ("bounds has 'pull'", dict(bounds={"pull": (0, 1)})),
        ("leave nothing between", dict(bounds=(1.0, 0.0))),
        ("must be a pair", dict(within={"x": 3})),
    ):
        with pytest.raises(da.MethodError, match=match):
            da.optimize_inputs(mass(), "midpoint", **{**options, **given})
    with pytest.raises(da.MethodError, match="carries no multipliers along"):
        da.optimize_inputs(pole(), "shake", q=[0, 0, -0.5], end={"s": 1.0}, t_end=1.0, step=0.1)
    with pytest.raises(da.ConvergenceError, match="allow more time or larger inputs") as info:
        da.optimize_inputs(mass(), "midpoint", bounds=(-1.0, 1.0), end={"x": 100.0}, t_end=1.0, step=0.1, iterations=60)
    assert info.value.solution is not None
