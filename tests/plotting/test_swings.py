"""Bands and crests in place of curves that no one can follow."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dalembert.plotting import swings

T = np.linspace(0.0, 100.0, 20_001)


@pytest.mark.parametrize(("values", "expected"), [
    (np.sin(T), False),
    (np.sin(20 * T), True),
    (T + 1e-3 * np.sin(20 * T), False),  # small beside the whole
    (np.ones_like(T), False),
    (np.zeros(0), False),
])  # fmt: skip
def test_restless(values, expected):
    assert swings.restless(values) is expected


def test_a_band_has_the_smallest_the_largest_and_the_mean():
    values = 3.0 + (1 + T / 100) * np.sin(20 * T)
    values[777] = np.nan
    ax = plt.figure().add_subplot()
    assert swings.swing(ax, T, values, "wild")
    (line,), (band,) = ax.lines, ax.collections
    np.testing.assert_allclose(line.get_ydata(), 3.0, atol=0.25)  # of two or three swings
    corners = band.get_paths()[0].vertices[:, 1]
    assert corners.min() == np.nanmin(values)
    assert corners.max() == np.nanmax(values)
    assert not swings.swing(ax, T, np.sin(T), "calm")
    assert len(ax.collections) == 1


def test_the_crest_is_the_largest_size_of_each_interval():
    t, top = swings.crest(T, -np.abs(np.sin(20 * T)) * T)
    assert len(t) == swings.INTERVALS
    np.testing.assert_allclose(top, t, atol=1.0)
    assert np.all(np.diff(top) > 0)
