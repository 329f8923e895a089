"""Explicit methods: their orders, and that they keep nothing."""

import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, assert_order, skew_hamiltonian
from dalembert.methods.explicit import TABLEAUS, second_order, third_order

ORDERS = {"euler": 1, "explicit-midpoint": 2, "heun": 2, "ralston": 2, "rk3": 3, "heun3": 3, "ralston3": 3, "ssprk3": 3}


@pytest.mark.parametrize("name", TABLEAUS)
def test_orders(name):
    want = ORDERS.get(name, 4)
    assert TABLEAUS[name].order == want
    assert TABLEAUS[name].explicit
    system = angle_pendulum()
    reference = da.simulate(system, "gauss-5", t_end=0.8, step=0.02)
    counts = np.array([64, 128, 256, 512])
    errors = [np.abs(da.simulate(system, name, t_end=0.8, step=0.8 / n).x[-1] - reference.x[-1]).max() for n in counts]
    assert_order(errors, 0.8 / counts, want)


def test_energy_drifts():
    sol = da.simulate(da.catalog.harmonic_oscillator(), "rk4", t_end=500.0, step=0.2)
    assert np.all(np.diff(sol.energy[::50]) < 0)


def test_constrained_systems_are_refused():
    with pytest.raises(da.MethodError, match="rk4 treats free systems only"):
        da.simulate(da.catalog.simple_pendulum(), "rk4", t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="heun treats free systems only"):
        da.simulate(skew_hamiltonian(), "heun", q=[1, 0, 0], p=[0, 0, 0], t_end=1, step=0.1)


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.75, 0.9])
def test_generic_families_have_their_order(alpha):
    assert second_order(alpha).order == 2
    assert third_order(alpha).order == 3


def test_bad_alpha():
    with pytest.raises(da.MethodError, match="alpha must lie"):
        second_order(0.0)
    with pytest.raises(da.MethodError, match="2/3"):
        third_order(2 / 3)
