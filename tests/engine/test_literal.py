"""Newton's iteration as sources state it, and what it does to the energy of the rolling disk."""

import numpy as np
import pytest

import dalembert as da

DISK = da.catalog.rolling_disk()


def energy(**options):
    """The energy error of the disk at t = 10, 20, 40."""
    sol = da.simulate(DISK.to_dae("index2"), "spark-3", t_end=40.0, step=0.1, **options)
    values = DISK.numeric("energy", DISK.pack(), q=sol.y[:, : DISK.n], v=sol.y[:, DISK.n :])[:, 0]
    return (values - values[0])[[100, 200, 400]]


def test_the_simplified_iteration_lets_the_energy_of_the_disk_drift():
    """Hilden 2009, figs. 4.3 to 4.5: a linear loss, by the iteration and not by the method."""
    loose = energy(newton=da.Newton(tolerance=1e-6))
    np.testing.assert_allclose(loose, loose[0] * np.array([1, 2, 4]), rtol=1e-2)
    assert -1e-5 < loose[2] < -1e-7
    assert np.abs(energy(newton=da.Newton(tolerance=1e-13))).max() < 1e-14
    assert np.abs(energy(tolerance=1e-6)).max() < 1e-2 * abs(loose[2])  # the library's own rule at the same tolerance


@pytest.mark.parametrize("jacobian", ["start", "guess", "each"])
@pytest.mark.parametrize("guess", ["rates", "naive"])
@pytest.mark.parametrize("stop", ["changes", "residual"])
def test_all_ways_solve_the_same_equations(jacobian, guess, stop):
    rule = da.Newton(tolerance=1e-12, jacobian=jacobian, guess=guess, stop=stop)
    dae = da.catalog.contact_oscillator().to_dae("index2")
    mine, own = (da.simulate(dae, "spark-2", t_end=0.5, step=0.1, **option) for option in ({"newton": rule}, {}))
    np.testing.assert_allclose(mine.y, own.y, atol=1e-11)


def test_what_is_refused():
    dae = DISK.to_dae("index2")
    for bad in ({"jacobian": "never"}, {"guess": "best"}, {"stop": "now"}, {"tolerance": 0.0}):
        with pytest.raises(da.MethodError):
            da.Newton(**bad)
    for options in ({"newton": 3}, {"newton": da.Newton(), "tolerance": 1e-3}, {"newton": da.Newton(), "checkpoint": "a.npz"}):
        with pytest.raises(da.MethodError, match="newton"):
            da.simulate(dae, "spark-2", t_end=1.0, step=0.1, **options)
    with pytest.raises(da.MethodError, match=r"to_dae\('index2'\)"):
        da.simulate(DISK, "spark-2", t_end=1.0, step=0.1, newton=da.Newton())
    with pytest.raises(da.ConvergenceError):
        da.simulate(dae, "spark-3", t_end=1.0, step=0.1, newton=da.Newton(tolerance=1e-13, max_iterations=3))
