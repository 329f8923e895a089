"""Powers for the choice of a step: monotone, and as close as they say."""

import numpy as np

from dalembert.engine.growth import logarithm, power


def test_logarithms_are_exact_at_powers_of_two_and_close_between():
    x = np.geomspace(1e-20, 1e20, 4001)
    found = np.array([logarithm(v) for v in x])
    assert [logarithm(2.0**k) for k in (-60, -1, 0, 1, 60)] == [-60, -1, 0, 1, 60]
    assert 0.08 < np.abs(found - np.log2(x)).max() < 0.0861
    assert (np.diff(found) > 0).all()


def test_powers_are_close_and_grow():
    x = np.linspace(-1.0, 1.0, 2001)
    found = np.array([power(v) for v in x])
    assert np.abs(found / 16**x - 1).max() < 0.01
    assert (np.diff([power(v) for v in np.linspace(-1.0, 30.0, 2001)]) > 0).all()
    assert power(0.0) == 1.0
    assert power(-50.0) == power(-1.0)
