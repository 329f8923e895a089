"""Chains with fewer links: the same linear map, and what is found from it afterwards."""

import casadi as ca
import numpy as np
import pytest

from dalembert.engine import contraction
from dalembert.engine.adjoint import Sweep
from dalembert.engine.contraction import ONE, contracted, linked
from dalembert.engine.graph import ITERATE, RUN, STEP, Graph
from dalembert.engine.tangents import NativeSweep, source

SX = ca.SX


def steps():
    """Values linear in `c` with all that can stand in their way: sums, quotients, branches, and a table with its derivative."""
    h, par, c, a, constants = SX.sym("h"), SX.sym("par", 0), SX.sym("c", 3), SX.sym("a", 3), SX.sym("constants", 0)
    points = np.linspace(-2, 2, 21)
    table = ca.interpolant("table", "bspline", [points], np.cos(points))
    slope = ca.jtimes(table(a[0]), a[0], c[0], True)
    x = ca.sin(a[0]) * c[0] + c[1] / a[1] - a[2]
    y = ca.if_else(a[0] > 0, x, 0) * a[1] - 2 * c[2] + slope
    z = a[0] * (x + y) + a[1] * (x - y) + x
    outputs = [ca.vertcat(z, y - x, c[0]) / 4, ca.vertcat(h * z + c[1], a[1]), ca.vertcat(y, z / 4)]
    return ca.Function("f", [h, par, a, c, constants], outputs, ["h", "par", "a", "c", "constants"], ["o0", "o1", "o2"])


@pytest.mark.parametrize(("price", "some"), [(0.0, False), (1e9, True)])
def test_a_contracted_chain_is_the_same_map(price, some, monkeypatch):
    """Where products in lanes cost nothing, everything between the ends is eliminated, and nothing where they cost all."""
    monkeypatch.setattr(contraction, "IN_LANES", price)
    f = steps()
    sweep = Sweep(
        "f", f, ca.Function("p", [SX.sym("h"), SX.sym("par", 0)], [SX(0, 1)]), (RUN, RUN, STEP, ITERATE), ("c",), 1, False
    )
    code, rng = source(sweep), np.random.default_rng(5)
    assert ("const double t" in code) == some  # values between what is carried and its next value
    a, c = rng.uniform(-1.5, 1.5, (11, 3)), rng.normal(size=(2, 3))
    added, written, want = np.zeros((2, 2)), np.empty((11, 2, 2)), c.copy()
    NativeSweep(sweep, code)(11, 2, {"h": np.array([0.5]), "par": np.zeros(0), "a": a, "c": c}, [added, written])
    sums = np.zeros((2, 2))
    for k in range(11):
        for j in range(2):
            want[j], more, row = (np.array(x).ravel() for x in f(0.5, [], a[k], want[j], []))
            sums[j] += more
            np.testing.assert_allclose(written[k, j], row, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(c, want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(added, sums, rtol=1e-12, atol=1e-14)


def test_links_go_past_what_is_eliminated():
    g = Graph()
    (c,), a = [g.symbol("c", ITERATE)], [g.symbol(f"a{k}", STEP) for k in range(2)]
    x = g.operation(ca.OP_MUL, [c, a[0]])
    end = g.operation(ca.OP_SUB, [g.operation(ca.OP_MUL, [x, a[1]]), a[0]])
    whole, short = linked(g, [c], [end], []), contracted(g, [c], [end], [])
    assert len(whole.into) == 4
    ((edges),) = short.into.values()
    assert edges[c].value == g.operation(ca.OP_MUL, [a[0], a[1]])
    assert edges[ONE].whole(g) == g.operation(ca.OP_NEG, [a[0]])
    assert (short.cost, short.cycles() < whole.cycles()) == (1, True)
