"""Explicit methods: their orders, and that they keep nothing."""

import numpy as np
import pytest

import dalembert as da
from conftest import FREE, angle_pendulum, assert_order, skew_hamiltonian
from dalembert.methods.base import find
from dalembert.methods.explicit import TABLEAUS, second_order, third_order


@pytest.mark.parametrize("name", FREE)
def test_orders(name):
    want = find(name).order[0]
    system = angle_pendulum()
    reference = da.simulate(system, "gauss-5", t_end=0.8, step=0.02)
    counts = np.array([64, 128, 256, 512])
    errors = [np.abs(da.simulate(system, name, t_end=0.8, step=0.8 / n).x[-1] - reference.x[-1]).max() for n in counts]
    assert_order(errors, 0.8 / counts, want)


# as their authors state them: orders that are computed alone would follow a wrong coefficient
STATED = {
    "euler": 1, "explicit-midpoint": 2, "heun": 2, "ralston": 2, "rk3": 3, "heun3": 3, "ralston3": 3, "ssprk3": 3, "rk4": 4,
    "ralston4": 4, "rk38": 4,
}  # fmt: skip


def test_orders_are_those_of_their_sources():
    assert {name: tableau.order for name, tableau in TABLEAUS.items()} == STATED
    np.testing.assert_allclose([t.b.sum() for t in TABLEAUS.values()], 1, atol=1e-15)


def test_orders_are_those_of_the_tableaus():
    for name, tableau in TABLEAUS.items():
        assert tableau.explicit
        assert find(name).order == (tableau.order,) * 3


def test_energy_drifts():
    sol = da.simulate(da.catalog.harmonic_oscillator(), "rk4", t_end=500.0, step=0.2)
    assert np.all(np.diff(sol.energy[::50]) < 0)


def test_constrained_systems_are_refused():
    with pytest.raises(da.MethodError, match="rk4 cannot treat the constraints of"):
        da.simulate(da.catalog.simple_pendulum(), "rk4", t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="heun cannot treat the constraints of"):
        da.simulate(skew_hamiltonian(), "heun", q=[1, 0, 0], p=[0, 0, 0], t_end=1, step=0.1)


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.75, 0.9])
def test_generic_families_have_their_order(alpha):
    assert second_order(alpha).order == 2
    assert third_order(alpha).order == 3


def test_bad_alpha():
    for bad in (0.0, 1e-320, 1e-17, 1.5):
        with pytest.raises(da.MethodError, match="alpha must lie"):
            second_order(bad)
    for bad in (2 / 3, 1e-300, 1e300):
        with pytest.raises(da.MethodError, match="2/3"):
            third_order(bad)


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.75, 1.0])
def test_the_second_order_family_runs(alpha):
    system = da.catalog.harmonic_oscillator()
    sol = da.simulate(system, da.methods.SecondOrder(alpha), t_end=1.0, step=0.1)
    name = {0.5: "explicit-midpoint", 1.0: "heun"}.get(alpha)
    if name:
        np.testing.assert_allclose(sol.q, da.simulate(system, name, t_end=1.0, step=0.1).q, atol=1e-15)
    assert da.methods.SecondOrder(alpha).order == (2, 2, 2)


def test_the_third_order_family_runs():
    system = da.catalog.harmonic_oscillator()
    sol = da.simulate(system, da.methods.ThirdOrder(0.5), t_end=1.0, step=0.1)
    np.testing.assert_allclose(sol.q, da.simulate(system, "rk3", t_end=1.0, step=0.1).q, atol=1e-15)
    assert da.methods.ThirdOrder(0.3).order == (3, 3, 3)
    for bad in (lambda: da.methods.SecondOrder(0.0), lambda: da.methods.ThirdOrder(2 / 3)):
        with pytest.raises(da.MethodError, match="alpha"):
            bad()
