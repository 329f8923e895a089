"""Compositions: orders 4, 6, 8, with everything kept that the base keeps."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, assert_order, polar_rod
from dalembert.methods.composition import gammas


@pytest.mark.parametrize("scheme", ["yoshida", "suzuki"])
@pytest.mark.parametrize("order", [4, 6, 8])
def test_coefficients(order, scheme):
    g = np.array(gammas(2, order, scheme))
    assert g.sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(g, g[::-1])
    assert abs((g**3).sum()) < 1e-14  # the condition for order 4
    if order >= 6:
        assert abs((g**5).sum()) < 1e-13


@pytest.mark.parametrize(
    ("base", "order", "scheme"),
    [
        ("rattle", 4, "yoshida"),
        ("rattle", 6, "yoshida"),
        ("energy-momentum", 4, "yoshida"),
        ("energy-momentum", 4, "suzuki"),
        ("energy-momentum", 6, "yoshida"),
        ("midpoint", 4, "suzuki"),
        ("lobatto-pair-3", 6, "yoshida"),
    ],
)
@pytest.mark.parametrize("make", [angle_pendulum, polar_rod], ids=lambda f: f.__name__)
def test_orders(base, order, scheme, make):
    system, method = make(), da.compose(base, order=order, scheme=scheme)
    ref = da.simulate(system, "gauss-6" if not system.m else "radau-iia-6", t_end=0.4, step=0.02, compile=False)
    counts = np.array([8, 12, 16, 24, 32]) if order == 4 else np.array([16, 20, 24, 32])
    errors = [np.abs(da.simulate(system, method, t_end=0.4, step=0.4 / k, compile=False).x[-1] - ref.x[-1]).max() for k in counts]
    assert_order(errors, 0.4 / counts, order, 1e-13)


@pytest.mark.parametrize(("base", "order"), [("gauss-1", 4), ("gauss-3", 6), ("midpoint", 6)])
def test_velocities_that_alternate_keep_their_order(base, order):
    """`R(inf) = -1`: the velocity constraint is off by an amount that only changes its sign, and positions feel its square."""
    system, method, t_end = da.catalog.double_pendulum(), da.compose(base, order=order), 0.25
    assert method.alternates
    ref = da.simulate(system, "murua-6", t_end=t_end, step=t_end / 50, compile=False)
    counts = np.array([6, 9, 12, 18])
    runs = [da.simulate(system, method, t_end=t_end, step=t_end / k, compile=False) for k in counts]
    assert_order([np.abs(r.q[-1] - ref.q[-1]).max() for r in runs], t_end / counts, method.order[0], 1e-13)
    assert_order([np.abs(r.v[-1] - ref.v[-1]).max() for r in runs], t_end / counts, method.order[1], 1e-13)


def test_energy_momentum_stays_exact():
    system = da.catalog.four_particles()
    sol = da.simulate(system, da.compose("energy-momentum", order=4), t_end=2.0, step=0.02)
    J = sol.momentum("angular")
    assert np.abs(sol.energy / sol.energy[0] - 1).max() < 1e-12
    assert np.abs(J - J[0]).max() < 1e-12
    assert np.abs(sol.residual("position")).max() < 1e-14
    damped = da.simulate(da.catalog.four_particles_damped(), da.compose("energy-momentum", order=4), t_end=1.0, step=0.01)
    assert np.abs(damped.power_balance).max() < 1e-13


def test_rattle_composed_is_symplectic_and_keeps_both_levels():
    sol = da.simulate(da.catalog.double_pendulum(), da.compose("rattle", order=4), t_end=20.0, step=0.02)
    assert np.abs(sol.residual("position")).max() < 5e-15
    assert np.abs(sol.residual("velocity")).max() < 5e-14
    plain = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=20.0, step=0.02)
    assert np.abs(sol.energy).max() < 0.2 * np.abs(plain.energy).max()


def test_files_and_bad_input(tmp_path):
    sol = da.simulate(da.catalog.simple_pendulum(), da.compose("rattle", order=4), t_end=0.2, step=0.1)
    assert da.load(sol.save(tmp_path / "x.nc")).method == sol.method
    with pytest.raises(da.MethodError, match="only symmetric methods"):
        da.compose("radau-iia-3", order=6)
    with pytest.raises(da.MethodError, match="order 4, 6 or 8"):
        da.compose("rattle", order=5)
    with pytest.raises(da.MethodError, match="scheme must be"):
        da.compose("rattle", order=4, scheme="kahan")


START = {"q": [0.8, -0.6, 0.3, -1.5], "v": [0.5, 0.3, -1.0, 0.2]}


def measured(method, counts, t_end=0.8):
    system = da.catalog.double_pendulum()
    return da.convergence(system, method, t_end=t_end, steps=counts, **da.consistent(system, **START)).orders


@pytest.mark.parametrize("order", [4, 6])
def test_orders_on_constraints(order):
    """The balance and both levels at high order; the base without the velocity level stops at 4 and 2."""
    good = da.compose("energy-momentum-ggl", order=order)
    found = measured(good, (16, 32, 64))
    assert abs(found["q"] - order) < 0.25
    assert abs(found["v"] - order) < 0.25
    assert good.order == (order,) * 3
    poor = da.compose("energy-momentum", order=order)
    assert poor.order[:2] == (4, 2)
    found = measured(poor, (32, 64, 128))
    assert abs(found["v"] - 2) < 0.25
    assert poor.free_order == order


def test_order_eight():
    """Yoshida's fifteen steps in their right places: the sums of powers of the coefficients alone do not tell."""
    system, t_end = angle_pendulum(), 2.0
    truth = da.simulate(system, "gauss-8", t_end=t_end, step=0.01, compile=False).x[-1]
    counts = np.array([80, 100, 120, 140])
    method = da.compose("rattle", order=8)
    errors = [np.abs(da.simulate(system, method, t_end=t_end, step=t_end / n).x[-1] - truth).max() for n in counts]
    assert_order(errors, t_end / counts, 8, 1e-12)
    assert method.order == (8, 8, 8)


@pytest.mark.parametrize("order", [4, 6, 8])
def test_all_order_conditions_of_the_sums(order):
    g = np.array(gammas(2, order, "yoshida"))
    for power in range(3, order, 2):
        assert abs((g**power).sum()) < 1e-13, power


def test_what_rounding_takes_from_positions_is_carried_through_all_sub_steps():
    step = da.compose("energy-momentum").step(angle_pendulum())
    inputs = [*step.state.values(), step.t, step.h, step.par, *(s.unknowns for s in step.solves)]
    carry = ca.Function("carry", inputs, [step.next["carry"]])
    values = [np.full(x.shape, 0.1 * (k + 1)) for k, x in enumerate(inputs)]
    assert 0 < np.abs(carry(*values).full()).max() < 1e-15
