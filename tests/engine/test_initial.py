"""Consistent initial values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from conftest import assert_order, driven_pendulum, polar_rod, skew_hamiltonian


@given(st.lists(st.floats(-0.3, 0.3), min_size=8, max_size=8))
@settings(max_examples=30, deadline=None)
def test_projection_reaches_round_off(shift):
    system = da.catalog.double_pendulum()
    q = np.array([0.6, -0.8, 1.2, -1.6]) + shift[:4]
    start = da.consistent(system, q=q, v=shift[4:])
    par = system.pack()
    assert np.abs(system.numeric("holonomic", par, q=start.q)).max() < 1e-14
    assert np.abs(system.numeric("drift", par, q=start.q, v=start.v)).max() < 1e-14


def test_projection_is_the_nearest_in_the_kinetic_metric():
    """What is left along the constraint: M (q - q*) is a combination of the constraint gradients."""
    system = da.catalog.double_pendulum(m1=7.0, m2=0.3)
    q, v = np.array([0.7, -0.7, 1.1, -1.7]), np.array([0.3, 0.1, -0.5, 0.9])
    start = da.consistent(system, q=q, v=v)
    M = np.diag([7.0, 7.0, 0.3, 0.3])
    G = system.numeric("jacobian", system.pack(), q=start.q)[0]
    rest = M @ (v - start.v)
    mu, *_ = np.linalg.lstsq(G.T, rest, rcond=None)
    np.testing.assert_allclose(G.T @ mu, rest, atol=1e-13)


@pytest.mark.parametrize("make", [driven_pendulum, polar_rod, da.catalog.four_particles_damped], ids=lambda f: f.__name__)
def test_multipliers_solve_the_acceleration_level(make):
    """`lam` at the start agrees with the first multiplier of a run with a small step."""
    system = make()
    start = da.consistent(system)
    sol = da.simulate(system, "rattle", **start, t_end=4e-4, step=1e-4)
    np.testing.assert_allclose(sol.lam[0], start.lam, atol=2e-2 * (1 + np.abs(start.lam).max()))
    if system.kind == "mechanical":
        other = system.to_hamiltonian()
        again = da.consistent(other, q=start.q, p=start.p)
        np.testing.assert_allclose(again.lam, start.lam, rtol=1e-10, atol=1e-12)


def test_acceleration_residual_is_of_second_order_along_a_run():
    system, steps = da.catalog.double_pendulum(), 0.004 / np.array([1, 2, 4, 8])
    runs = [da.simulate(system, "rattle", t_end=0.5, step=h) for h in steps]
    assert_order([np.abs(sol.residual("acceleration")).max() for sol in runs], steps, 2)
    assert runs[0].residual("acceleration").shape == (125, 2)


def test_hamiltonian_momenta_are_projected():
    system = skew_hamiltonian()
    start = da.consistent(system, q=[0.6, 0.3, 0.5], p=[0.2, -0.4, 0.3])
    q, p, lam = start
    v = system.numeric("velocity", system.pack(), q=q, p=p)[0]
    assert np.abs(system.numeric("drift", system.pack(), q=q, v=v)).max() < 1e-14
    assert lam.shape == (1,)


def test_moving_constraints_give_a_moving_start():
    system = driven_pendulum()
    start = da.consistent(system, q=[0.5, -0.9], v=[0.0, 0.0], t0=0.2)
    par = system.pack()
    assert np.abs(system.numeric("drift", par, q=start.q, v=start.v, t=0.2)).max() < 1e-14
    assert np.abs(start.v).max() > 1e-3


def test_momenta_may_be_given_in_place_of_velocities():
    system = polar_rod()
    start = da.consistent(system)
    a = da.simulate(system, "rattle", q=start.q, p=start.p, t_end=0.1, step=0.01)
    b = da.simulate(system, "rattle", q=start.q, v=start.v, t_end=0.1, step=0.01)
    np.testing.assert_allclose(a.q, b.q, atol=1e-14)


def test_hopeless_positions_are_refused():
    system = da.Mechanical(1, mass=1.0, holonomic=lambda q: q[0] ** 2 + 1)
    with pytest.raises(da.ConvergenceError, match="no position near the given one"):
        da.consistent(system, q=[0.7], v=[0.0])


def test_values_of_another_kind_of_system_are_refused():
    pendulum, motor = da.catalog.simple_pendulum(), da.catalog.dc_motor()
    for call in (da.diagnose, da.consistent):
        for values in ({"x": [3.0, 4.0]}, {"y": [5.0, 5.0]}, {"z": [1.0]}):
            with pytest.raises(da.InconsistentState, match="no initial value"):
                call(pendulum, **values)
        with pytest.raises(da.InconsistentState, match="no initial value"):
            call(motor, v=[5.0, 5.0])


@pytest.mark.parametrize("lam", ["x", [1.0, 2.0, 3.0], [float("nan")]])
def test_multipliers_are_checked_for_every_method(lam):
    with pytest.raises(da.InconsistentState, match="lam (must be 1|is not finite)"):
        da.simulate(da.catalog.simple_pendulum(), "rattle", lam=lam, t_end=0.1, step=0.01)


@pytest.mark.parametrize(
    "u",
    [
        ([], np.zeros((0, 2))), ([0, 0.05], [[1, 2], [3]]), (["a", "b"], [[1, 2], [3, 4]]), ([float("nan")], [[1, 2]]),
        ([0, 1], [1, 2, 3]), ([0, 0.05], lambda t: 0), lambda t, q: [0.0, 0.0],
    ],
)  # fmt: skip
def test_inputs_that_make_no_sense(u):
    with pytest.raises(da.InconsistentState, match="u"):
        da.simulate(da.catalog.windy_pendulum(), "discrete-gradient", u=u, t_end=0.1, step=0.01)
