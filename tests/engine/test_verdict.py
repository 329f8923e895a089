"""Runs whose energy, work or multipliers are not finite are no success; the part before is kept."""

import numpy as np
import pytest

import dalembert as da

LOGARITHM = da.Mechanical(1, mass=1.0, potential=lambda q: np.log(q[0]))  # its slope is finite where it is not


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("save_every", [1, 3])
def test_a_run_ends_before_the_energy_is_not_finite(compile, save_every):
    with pytest.raises(da.DalembertError) as caught:
        da.simulate(LOGARITHM, "midpoint", q=[1.0], v=[-3.0], t_end=3.0, step=0.1, compile=compile, save_every=save_every)
    sol = caught.value.solution
    assert len(sol.t) == {1: 4, 3: 2}[save_every]
    assert np.isfinite(sol.energy).all()
    assert sol.q[-1, 0] > 0


@pytest.mark.parametrize("potential", [lambda q: 9.81 * np.log(q[0]), lambda q: 9.81 * np.log1p(q[0] - 1)])
def test_a_motion_that_comes_back_has_left_all_the_same(potential):
    """Over the singular point and back: only a row in the middle has no energy."""
    system, step = da.Mechanical(1, mass=2.93, potential=potential), 0.06095357599535651
    with pytest.raises(da.ModelError, match=r"energy is not finite at t = 0\.36") as caught:
        da.simulate(system, "ssprk3", q=[0.56], v=[-0.55], t_end=7 * step, step=step)
    assert len(caught.value.solution.t) == 6


def test_an_energy_of_minus_infinity_is_not_finite():
    system = da.Mechanical(1, mass=1.0, potential=lambda q: -(q[0] ** 400))
    with pytest.raises(da.DalembertError) as caught:
        da.simulate(system, "euler", q=[1.0], v=[10.0], t_end=3.0, step=1.0)
    assert np.isfinite(caught.value.solution.energy).all()


def test_the_last_step_counts_too():
    system = da.Mechanical(1, mass=1.0, potential=lambda q: np.sqrt(q[0]))
    with pytest.raises(da.DalembertError) as caught:
        da.simulate(system, "euler", q=[0.1], v=[-1.0], t_end=1.0, step=1.0)
    assert caught.value.solution.t.tolist() == [0.0]


@pytest.mark.parametrize(
    "method", ["rk45", "bdf", da.reduced.Baumgarte(integrator="rk4"), da.reduced.Projection(integrator="euler"), "radau"]
)
def test_reduced_methods(method):
    steep = da.Mechanical(1, mass=1.0, potential=lambda q: -(q[0] ** 4))
    with pytest.raises(da.DalembertError) as caught:
        da.simulate(steep, method, q=[10.0], v=[0.0], t_end=40.0, step=4.0)
    assert np.isfinite(caught.value.solution.x).all()
    assert np.isfinite(caught.value.solution.energy).all()


@pytest.mark.parametrize("method", ["bdf", "dop853", "projection"])
def test_reduced_methods_into_a_root(method):
    system = da.Mechanical(1, mass=1.0, potential=lambda q: np.sqrt(q[0]))
    with pytest.raises(da.DalembertError) as caught:
        da.simulate(system, method, q=[0.1], v=[-1.0], t_end=3.0, step=1.0)
    assert np.isfinite(caught.value.solution.x).all()


def test_an_energy_beyond_floats_is_refused_at_the_start():
    with pytest.raises(da.ModelError, match="the energy is inf at t = 0"):
        da.simulate(da.Mechanical(1, mass=1e200), "rattle", q=[0.0], v=[1e60], t_end=0.2, step=0.1)


def test_consistent_values_are_finite():
    system = da.Mechanical(2, mass=1e300, holonomic=lambda q: q @ q - 1)
    with pytest.raises(da.DalembertError):
        da.consistent(system, q=[1.0, 0.0], v=[0.0, 1e9])
