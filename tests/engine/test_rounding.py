"""The sizes of the terms of a function."""

import casadi as ca
import numpy as np

from dalembert.engine.rounding import rounding_of


def test_terms_that_cancel_are_seen():
    q = ca.SX.sym("q", 2)
    f = ca.Function("g", [q], [ca.vertcat((q[0] - 7) ** 2 - 49, q[0] - q[1], ca.sin(q[0]) * q[1])], ["q"], ["g"])
    sizes = rounding_of(f, [np.array([1e-9, 1e-9])], ("q",))
    assert 49 <= sizes[0] <= 300
    assert sizes[1] == 2e-9
    assert 0 < sizes[2] < 1e-17
