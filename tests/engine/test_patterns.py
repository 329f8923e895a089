"""Lists of places, and sums of products by them."""

import itertools

import numpy as np
import pytest

from dalembert.engine.patterns import Places, grouped


@pytest.mark.parametrize(
    ("values", "even"), [([], (0, 1)), ([4], (4, 1)), ([3, 4, 5], (3, 1)), ([9, 6, 3], (9, -3)), ([1, 2, 4], None)]
)
def test_even_places(values, even):
    assert Places(np.array(values, dtype=int)).even == even


def test_places_are_held_once():
    places = Places(np.array([3, 1, 2]))
    assert places.values.dtype == np.int32
    assert places.wide is places.values
    assert places.values.dtype == np.intp


def test_sums_of_as_many_terms_lie_side_by_side():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, 20)
    starts = np.concatenate([[0], np.cumsum(counts)])
    first, second = rng.integers(0, 9, (2, starts[-1]))
    a, b = rng.standard_normal((2, 9))
    (sums, left, right), sizes = grouped(starts, first, second)
    out, at, row = np.full(20, np.nan), 0, 0
    for rows, terms in zip(sizes[1::2], sizes[2::2], strict=True):
        for k in range(row, row + rows):
            out[sums[k]] = sum(a[i] * b[j] for i, j in zip(left[at : at + terms], right[at : at + terms], strict=True))
            at += terms
        row += rows
    assert sizes[0] == len(set(counts.tolist()))
    expected = [sum(a[first[k]] * b[second[k]] for k in range(i, j)) for i, j in itertools.pairwise(starts)]
    assert np.array_equal(out, expected)
