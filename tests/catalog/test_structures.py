"""A truss, a cloth and a beam: at rest in their shape but for weights, exact energies, sizes that cannot be."""

import numpy as np
import pytest

import dalembert as da

MADE = {"truss": da.catalog.truss, "cloth": da.catalog.cloth, "beam": da.catalog.beam}


@pytest.mark.parametrize("name", MADE)
def test_the_shape_at_the_start_has_no_forces_but_weights(name):
    system = MADE[name]()
    slope = system.numeric("slope", system.pack(), q=system.initial["q"])[0].reshape(-1, system.dimension)
    g, m = system.parameters["g"], system.parameters["m"]
    if name == "beam":  # joints push along the rods, which take it
        normal = system.value("normal", system.pack(), q=system.initial["q"]).full()
        along = np.linalg.lstsq(normal.T, slope.ravel() - np.tile([0, m * g], len(slope)), rcond=None)[0]
        slope = slope - (normal.T @ along).reshape(slope.shape)
    expected = np.zeros(slope.shape)
    expected[:, -1] = m * g
    assert np.abs(slope - expected).max() < 1e-11


@pytest.mark.parametrize("name", MADE)
def test_the_balance_of_energy_is_exact(name):
    system = MADE[name]()
    sol = da.simulate(system, "energy-momentum", t_end=0.1, step=0.01, compile=False)
    assert np.abs(sol.power_balance).max() < 1e-12
    if name == "cloth":
        assert (np.diff(sol.energy) < 1e-12).all()
        assert sol.energy[-1] < sol.energy[0] - 1e-9
    else:
        assert np.ptp(sol.energy) < 1e-11


def test_a_clamped_beam_of_two_rods_swings_as_its_angles_do():
    """The second derivative of the energy by the angles of the rods, at rest without weight: `k [[3, -1], [-1, 1]]`."""
    system = da.catalog.beam(2, g=0.0, stiffness=7.0)

    def energy(a, b):
        q = np.array([np.cos(a), np.sin(a), np.cos(a) + np.cos(b), np.sin(a) + np.sin(b)])
        return float(system.numeric("potential", system.pack(), q=q)[0, 0])

    e, zero = 1e-3, energy(0, 0)
    assert zero == 0.0
    assert 2 * energy(e, 0) / e**2 == pytest.approx(7.0 * 3, rel=1e-6)
    assert 2 * energy(0, e) / e**2 == pytest.approx(7.0, rel=1e-6)
    assert (energy(e, e) - energy(e, -e)) / (2 * e**2) == pytest.approx(-7.0, rel=1e-6)


def test_large_ones_are_not_written_out():
    assert da.catalog.cloth(30, 30).many
    assert da.catalog.truss(500).many
    assert da.catalog.beam(500).many


@pytest.mark.parametrize("make", [lambda: da.catalog.truss(0), lambda: da.catalog.cloth(1, 5), lambda: da.catalog.beam(1)])
def test_sizes_that_cannot_be_are_refused(make):
    with pytest.raises(da.ModelError, match="at least"):
        make()
