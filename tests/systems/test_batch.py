"""Functions at many points, and at one after another."""

import casadi as ca
import numpy as np

from dalembert.systems.batch import LISTED, Pointwise, batch, nonzeros, places


def test_one_point_after_another_is_the_same_as_many_at_once():
    x = ca.SX.sym("x", 3)
    f = ca.Function("f", [x], [x[0] * x[1], ca.vertcat(x[2], ca.sin(x[0])), ca.SX(0, 1)])
    points = np.random.default_rng(3).normal(size=(5, 3))
    once, rows = Pointwise(f), batch(f, [points], 5)
    found = [once(point[:1], tuple(point[1:])) for point in points]  # each keeps its values while others are asked for
    for k, outputs in enumerate(found):
        for out, row in zip(outputs, rows, strict=True):
            np.testing.assert_array_equal(out, row[k])


def test_entries_of_long_matrices_are_those_of_casadi():
    """Also where they do not come as lists."""
    rng = np.random.default_rng(5)
    for size in (3, 2 * LISTED):
        pattern = ca.Sparsity.triplet(size, size + 2, *rng.integers(0, size, size=(2, 3 * size)).tolist())
        matrix = ca.DM(pattern, rng.normal(size=pattern.nnz()))
        np.testing.assert_array_equal(nonzeros(matrix), matrix.nonzeros())
        rows, columns = places(pattern)
        np.testing.assert_array_equal(rows, pattern.row())
        np.testing.assert_array_equal(columns, pattern.get_col())
