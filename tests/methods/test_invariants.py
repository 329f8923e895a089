"""What a method keeps, it keeps to round-off: energy or power balance, constraints, momenta, over long times."""

import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, consistent_start, driven_pendulum, polar_rod, skew_hamiltonian

GRADIENTS = ("equivariant", "gonzalez", "mean-value", "itoh-abe")
CONSERVATIVE = {
    "double pendulum": (da.catalog.double_pendulum, {}),
    "spherical pendulum": (da.catalog.spherical_pendulum, {}),
    "chain": (lambda: da.catalog.chain(6), {}),
    "angles": (angle_pendulum, {}),
    "polar": (polar_rod, {}),
    "skew": (skew_hamiltonian, {"q": [0.6, 0.3, 0.5], "p": [0.2, -0.4, 0.3]}),
    "chain, Hamiltonian": (lambda: da.catalog.chain(3).to_hamiltonian(), {}),
}


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", CONSERVATIVE)
def test_energy_momentum_keeps_energy_and_positions(name, gradient):
    make, values = CONSERVATIVE[name]
    system = make()
    start = consistent_start(system, **values)
    sol = da.simulate(system, da.methods.EnergyMomentum(gradient=gradient), **start, t_end=20.0, step=0.01)
    scale = np.abs(sol.kinetic).max()
    assert np.abs(sol.energy - sol.energy[0]).max() < 5e-13 * scale
    assert np.abs(sol.power_balance).max() < 1e-13 * max(scale, np.abs(sol.potential).max())
    if system.m:
        assert np.abs(sol.residual("position")).max() < 5e-15 * max(1.0, np.abs(sol.q).max() ** 2)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("form", ["mechanical", "hamiltonian"])
def test_power_balance_with_everything(gradient, form):
    """Moving constraint, potential of time, friction R(q, v), force, input: the balance still closes in each step."""
    system = driven_pendulum() if form == "mechanical" else driven_pendulum().to_hamiltonian()
    start = consistent_start(system)
    sol = da.simulate(
        system, da.methods.EnergyMomentum(gradient=gradient), **start, t_end=10.0, step=0.02, u=lambda t: [np.sin(3 * t)]
    )
    assert np.abs(sol.supplied).max() > 1e-3
    assert sol.dissipated.min() > 0
    assert np.abs(sol.power_balance).max() < 1e-13 * np.abs(sol.energy).max()
    assert np.abs(sol.residual("position")).max() < 1e-14


def test_four_particles_for_a_long_time():
    """10^5 steps: g below 1e-13; H, L, J below 1e-11 throughout, growing no faster than a random walk of round-off."""
    system = da.catalog.four_particles()
    sol = da.simulate(system, "energy-momentum", t_end=1000.0, step=0.01)
    assert np.abs(sol.residual("position")).max() < 1e-13
    H, L, J = sol.energy, sol.momentum("linear"), sol.momentum("angular")
    errors = {
        "H": np.abs(H / H[0] - 1),
        "L": np.abs(L - L[0]).max(axis=1) / np.abs(L[0]).max(),
        "J": np.abs(J - J[0]).max(axis=1) / np.abs(J[0]).max(),
    }
    for name, error in errors.items():
        assert error.max() < 1e-11, name
    # a random walk of 1e-14 a step reaches 3e-12 in 1e5 steps; a drift of 1e-16 a step would reach 1e-11
    k = np.arange(1, len(H))
    assert (errors["H"][1:] < 1e-13 + 1e-14 * np.sqrt(k)).all()
    assert 1e-6 < np.abs(sol.residual("velocity")).max() < 1e-2


def test_compensated_summation_pays_far_from_the_origin():
    """Root mean squares over several stiffnesses: a single drift is a matter of luck."""
    system, drift = da.catalog.four_particles(), {True: [], False: []}
    for compensated, found in drift.items():
        method = da.methods.EnergyMomentum(compensated=compensated)
        for K2 in (800.0, 900.0, 1000.0, 1100.0, 1200.0, 1300.0):
            sol = da.simulate(
                system, method, t_end=100.0, step=0.01, q=np.array(system.initial["q"]) + 1e4, v=system.initial["v"],
                parameters={"K2": K2},
            )  # fmt: skip
            # stored positions are rounded: the mean of many energies leaves that out of the measure
            found.append(sol.energy[-2000:].mean() - sol.energy[0])
    small, large = (np.sqrt(np.mean(np.square(drift[kind]))) for kind in (True, False))
    assert small < 0.25 * large
    assert small < 1e-10


def test_plain_gonzalez_keeps_energy_but_not_angular_momentum():
    system = da.catalog.four_particles()
    sol = da.simulate(system, da.methods.EnergyMomentum(gradient="gonzalez"), t_end=10.0, step=0.01)
    J = sol.momentum("angular")
    assert np.abs(sol.energy / sol.energy[0] - 1).max() < 1e-12
    assert np.abs(sol.residual("position")).max() < 1e-14
    assert np.abs(J - J[0]).max() > 1e-5


def test_invariants_may_be_stated_explicitly():
    """|q|^6 written out hides the distance; rotations of it are found, those of two axes that are no neighbours are not."""
    x6 = lambda x, y: x**6 + 3 * x**4 * y**2 + 3 * x**2 * y**4 + y**6  # noqa: E731
    hidden = da.Mechanical(2, mass=1.0, potential=lambda q: x6(q[0], q[1]))
    apart = da.Mechanical(4, mass=1.0, potential=lambda q: x6(q[0], q[3]) + q[1] ** 4 + q[2] ** 2)
    stated = da.Mechanical(
        4, mass=1.0, invariants=lambda q: q[0] ** 2 + q[3] ** 2,
        potential=lambda q, invariants: invariants[0] ** 3 + q[1] ** 4 + q[2] ** 2,
    )  # fmt: skip
    change = {}
    for name, system in (("hidden", hidden), ("apart", apart), ("stated", stated)):
        q, v = ([0.8, 0.1], [0.2, 0.9]) if system.n == 2 else ([0.8, 0.3, 0.2, 0.1], [0.2, 0.1, 0.4, 0.9])
        sol = da.simulate(system, "energy-momentum", q=q, v=v, t_end=20.0, step=0.05)
        assert np.abs(sol.energy / sol.energy[0] - 1).max() < 1e-12
        X = np.zeros((system.n, system.n))
        X[-1, 0], X[0, -1] = 1.0, -1.0
        J = sol.momentum(X)
        change[name] = np.abs(J - J[0]).max()
    assert max(change["stated"], change["hidden"]) < 1e-13
    assert change["apart"] > 1e-6


def test_dissipated_work_of_the_damped_particles():
    """Kinon et al. 2025, fig. 3: increments of H are not positive and equal the dissipated work; midpoint fails."""
    system = da.catalog.four_particles_damped()
    sol = da.simulate(system, da.methods.EnergyMomentum(gradient="gonzalez"), t_end=10.0, step=0.01)
    increments = np.diff(sol.energy)
    assert increments.max() <= 1e-15
    assert np.abs(increments + sol.dissipated).max() < 1e-13 * sol.energy[0]
    assert np.abs(sol.residual("position")).max() < 1e-14
    assert 1e-7 < np.abs(sol.residual("velocity")).max() < 1e-3
    midpoint = da.simulate(system, "midpoint", t_end=10.0, step=0.01)
    assert np.abs(np.diff(midpoint.energy) + midpoint.dissipated).max() > 1e-8
    free = da.simulate(system, "energy-momentum", t_end=10.0, step=0.01, parameters={"eta0": 0.0})
    assert np.abs(free.energy / free.energy[0] - 1).max() < 1e-13


RATTLED = {k: v for k, v in CONSERVATIVE.items() if k != "chain"} | {"four particles": (da.catalog.four_particles, {})}


@pytest.mark.parametrize("name", RATTLED)
def test_rattle_keeps_both_levels(name):
    make, values = RATTLED[name]
    system = make()
    sol = da.simulate(system, "rattle", **consistent_start(system, **values), t_end=10.0, step=0.01)
    if system.m:
        assert np.abs(sol.residual("position")).max() < 5e-15 * max(1.0, np.abs(sol.q).max() ** 2)
        assert np.abs(sol.residual("velocity")).max() < 2e-14 * max(1.0, np.abs(sol.v).max())
    # symplectic: the energy oscillates but does not drift
    error = sol.energy - sol.energy[0]
    half = len(error) // 2
    assert np.median(np.abs(error[half:])) < 5 * np.median(np.abs(error[:half])) + 1e-12


def test_rattle_keeps_both_levels_of_a_moving_constraint():
    system = driven_pendulum()
    sol = da.simulate(system, "rattle", **consistent_start(system), t_end=10.0, step=0.01, u=[0.3])
    assert np.abs(sol.residual("position")).max() < 5e-15
    assert np.abs(sol.residual("velocity")).max() < 5e-14


def test_rattle_energy_does_not_drift_in_a_million_steps():
    system = da.catalog.double_pendulum()
    sol = da.simulate(system, "rattle", t_end=2000.0, step=0.002, save_every=50)
    error = (sol.energy - sol.energy[0]) / np.abs(sol.kinetic).max()
    assert sol.stats["steps"] == 1_000_000
    assert np.abs(error).max() < 3e-4
    # drift by regression, with the scatter of ten blocks: zero within three standard errors
    blocks = error[: len(error) // 10 * 10].reshape(10, -1).mean(axis=1)
    slope, _ = np.polyfit(np.arange(10), blocks, 1)
    spread = blocks.std(ddof=1) / np.sqrt(np.sum((np.arange(10) - 4.5) ** 2))
    assert abs(slope) < 3 * spread
    assert np.abs(sol.residual("position")).max() < 5e-15
    assert np.abs(sol.residual("velocity")).max() < 5e-14


def test_shake_has_the_positions_of_rattle():
    system = da.catalog.double_pendulum()
    options = dict(t_end=2.0, step=0.005)
    shake, rattle = (da.simulate(system, m, **options) for m in ("shake", "rattle"))
    np.testing.assert_allclose(shake.q, rattle.q, atol=1e-10)
    assert np.abs(shake.residual("position")).max() < 5e-15
    assert np.abs(shake.residual("velocity")).max() > 1e-6


@pytest.mark.parametrize("method", ["rattle", "midpoint", "energy-momentum"])
def test_hamiltonian_and_mechanical_forms_give_the_same_motion(method):
    for make in (da.catalog.double_pendulum, polar_rod):
        system = make()
        start = da.consistent(system)
        a = da.simulate(system, method, q=start.q, v=start.v, t_end=1.0, step=0.01)
        b = da.simulate(system.to_hamiltonian(), method, q=start.q, p=start.p, t_end=1.0, step=0.01)
        np.testing.assert_allclose(a.q, b.q, atol=2e-13)
        np.testing.assert_allclose(a.v, b.v, atol=2e-12)
