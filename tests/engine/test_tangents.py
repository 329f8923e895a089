"""C for sweeps: directions and steps in any number, with or without outputs."""

import casadi as ca
import numpy as np
import pytest

from dalembert.engine.adjoint import Sweep
from dalembert.engine.graph import ITERATE, RUN, STEP
from dalembert.engine.tangents import NativeSweep, source

SX = ca.SX


def rotation(backwards=False):
    """`c <- (c_1, a c_0 + r)`, which adds up `c_0` and writes `h a + c`: what is carried is also read, and exchanged."""
    a, h, r, c, constants = SX.sym("a"), SX.sym("h"), SX.sym("r"), SX.sym("c", 2), SX.sym("constants")
    outputs = [ca.vertcat(c[1], a * c[0] + r), c[0], constants * a + c]
    names = ["h", "par", "r", "c", "constants"]
    function = ca.Function("f", [h, a, r, c, constants], outputs, names, ["o0", "o1", "o2"])
    prelude = ca.Function("prelude", [h, a], [h * h])
    sweep = Sweep("rotation", function, prelude, (RUN, RUN, STEP, ITERATE), ("c",), 1, backwards)
    return NativeSweep(sweep, source(sweep))


def expected(h, a, r, c, steps, backwards):
    added, written = np.zeros((len(c), 1)), np.zeros((steps, len(c), 2))
    for i in reversed(range(steps)) if backwards else range(steps):
        added[:, 0] += c[:, 0]
        written[i] = h * h * a + c
        c = np.stack([c[:, 1], a * c[:, 0] + r[i % len(r)]], axis=1)
    return c, added, written


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("rows", [1, 7])
def test_any_number_of_directions_and_rows(backwards, count, rows):
    rng = np.random.default_rng(3)
    r, c = rng.normal(size=(rows, 1)), rng.normal(size=(count, 2))
    want = expected(0.5, 1.25, r, c.copy(), 7, backwards)
    added, written = np.zeros((count, 1)), np.empty((7, count, 2))
    sweep = rotation(backwards)
    arguments = {"h": np.array([0.5]), "par": np.array([1.25]), "r": r}
    carried = c.copy()
    sweep(7, count, {**arguments, "c": carried}, [added, written])
    for found, value in zip((carried, added, written), want, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-14)  # products and sums are fused
    sweep(7, count, {**arguments, "c": c}, [None, None])  # what is not wanted is not written
    np.testing.assert_allclose(c, want[0], rtol=1e-14)
