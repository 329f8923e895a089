"""Trends, reversibility, growth of errors."""

import numpy as np
import pytest

import dalembert as da
from dalembert.analysis import growth, reversibility, trend


def test_oscillations_are_no_drift():
    t = np.linspace(0, 100, 5000)
    assert trend(t, 1.5 + 0.01 * np.sin(7.3 * t)).bounded
    assert trend(t, 1.5 + 0.01 * np.sin(0.7 * t + 1)).bounded
    assert trend(t, np.full_like(t, 2.0)).bounded
    rng = np.random.default_rng(0)
    assert trend(t, rng.normal(size=5000)).bounded


def test_a_drift_is_one():
    t = np.linspace(0, 100, 5000)
    found = trend(t, 1.5 + 0.01 * np.sin(7.3 * t) - 1e-3 * t)
    assert found.drifts
    assert found.slope == pytest.approx(-1e-3, rel=0.01)
    assert "drifts" in str(found)


def test_correlated_blocks_widen_the_error():
    """An error of the slope by hand: block means, a line through them, and the factor of an autoregressive series."""
    rng = np.random.default_rng(3)
    t, values = np.arange(4000.0), np.zeros(4000)
    for k in range(1, 4000):
        values[k] = 0.995 * values[k - 1] + rng.normal()
    tm, vm = t.reshape(40, 100).mean(axis=1), values.reshape(40, 100).mean(axis=1)
    line = np.polynomial.Polynomial.fit(tm, vm, 1)
    rest = vm - line(tm)
    r = (rest[1:] * rest[:-1]).sum() / (rest**2).sum()
    assert 0.2 < r < 0.95
    plain = np.sqrt((rest**2).sum() / 38 / ((tm - tm.mean()) ** 2).sum())
    found = trend(t, values)
    assert found.error == pytest.approx(plain * np.sqrt((1 + r) / (1 - r)), rel=1e-10)
    assert found.slope == pytest.approx(line.deriv()(0.0), rel=1e-10)
    assert found.range == (values.min(), values.max())


def test_reversibility_and_its_absence():
    system = da.catalog.simple_pendulum()
    assert reversibility(system, "rattle", t_end=3.0, step=0.01) < 1e-12
    assert reversibility(system, "radau-iia-2", t_end=3.0, step=0.01) > 1e-6


def test_growth():
    t = np.linspace(0, 50, 500)
    rate, power = growth(t, 3e-4 * t + 1e-6 * np.sin(9 * t))
    assert power == pytest.approx(1, abs=0.02)
    assert rate == pytest.approx(3e-4, rel=0.1)
    assert growth(t, np.zeros(500)) == (0.0, 0.0)


def test_bad_input():
    with pytest.raises(da.MethodError, match="too few"):
        trend([0, 1, 2], [1, 2, 3])
    with pytest.raises(da.MethodError, match="as many values"):
        trend([0, 1, 2], [1, 2])
    for system in (da.catalog.dc_motor(), da.catalog.simple_pendulum().to_dae("index2")):
        with pytest.raises(da.MethodError, match="no velocities or momenta to reverse"):
            reversibility(system, "gauss-2", t_end=1.0, step=0.1)
    with pytest.raises(da.UnknownKeyword, match="reversibility has no keyword 'stepp'; did you mean 'step'"):
        reversibility(da.catalog.simple_pendulum(), "rattle", t_end=1.0, step=0.1, stepp=0.1)
