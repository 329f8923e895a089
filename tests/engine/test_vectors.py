"""Functions of vectors as operations on whole arrays, against CasADi's virtual machine."""

import casadi as ca
import numpy as np
import pytest

from dalembert.engine.machine import bind
from dalembert.engine.nodes import ITERATE, RUN, SOLVE
from dalembert.engine.vectors import Tape

KEEP = []


def bound(function, inputs, outputs):
    call, kept = bind(function, inputs, outputs)
    KEEP.append(kept)
    return call


def check(function, values, levels=None):
    """All work once, and what CasADi gives."""
    tape = Tape(bound)
    levels = levels or [ITERATE] * len(values)
    inputs = [tape.nodes.source(v, level) for v, level in zip(values, levels, strict=True)]
    outputs = tape.outputs(function, inputs, ITERATE)
    with np.errstate(all="ignore"):
        for work in (*tape.nodes.fixed, *tape.nodes.once, *tape.nodes.each):
            work.call()
    for i, expected in zip(outputs, function.call([ca.DM(v) for v in values]), strict=True):
        assert tape.nodes.arrays[i] == pytest.approx(np.array(expected.nonzeros()), rel=1e-14, abs=1e-14)
    return tape, inputs


Q, P = ca.MX.sym("q", 8), ca.MX.sym("p", 2)
X, L = ca.SX.sym("x", 4), ca.SX.sym("l")
DISTANCE = ca.sqrt(ca.sumsqr(X[2:] - X[:2]))
LOCAL = ca.Function("local", [X, L], [DISTANCE - L, ca.jacobian(DISTANCE, X), ca.if_else(X[0] > L, ca.sin(X[1]), X[2] ** 3)])
PLACES = [0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7]
VALUES = [np.random.default_rng(0).normal(size=8), np.array([0.3, -1.2])]


def mapped():
    return LOCAL.map(3)(ca.reshape(Q[PLACES], 4, 3), ca.repmat(P[0], 1, 3))


def matrix():
    rows, columns = np.repeat(np.arange(3), 4), np.array(PLACES)
    order = np.lexsort((rows, columns))
    starts = np.searchsorted(columns[order], np.arange(9))
    pattern = ca.Sparsity(3, 8, starts.tolist(), rows[order].tolist())
    return ca.MX(pattern, ca.vec(mapped()[1])[order.tolist()])


G = matrix()
CASES = {
    "a mapped function": [*mapped()],
    "entries by name": [ca.vec(mapped()[1])[[3, 1, 7, 7]], Q[::2]],
    "a matrix and its transpose": [G, G.T, G @ Q, G.T @ ca.vec(mapped()[0])],
    "products of matrices": [G @ G.T, ca.diag(Q) @ G.T, (G.T @ G) @ Q],
    "sums and norms": [ca.sum1(Q), ca.norm_2(Q), ca.dot(Q, Q), ca.sumsqr(Q), ca.DM.ones(2, 8) @ Q],
    "parts": [
        ca.horzcat(*ca.horzsplit(G, 3)[:2]),
        ca.vertcat(*ca.vertsplit(G[:, 2], 2)),
        ca.vertcat(Q, P, Q),
        ca.vertcat(*ca.vertsplit(Q, 2)[:2]),
        ca.repmat(Q, 1, 2),
        ca.densify(G),
    ],
    "choices": [ca.if_else(Q > 0, Q, -1), ca.fmax(Q, P[0]), ca.logic_and(Q > 0, Q < 1), ca.sign(Q)],
    "powers": [ca.fabs(Q) ** 1.5, Q**2, 1 / Q, 2 * Q, Q - P[1]],
    "numbers": [ca.MX(3), ca.MX.ones(3, 1), ca.MX(2, 2), Q * 0 + 1],
    "what only CasADi knows": [ca.mmax(Q), ca.norm_1(Q)],
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_virtual_machine(name):
    check(ca.Function("f", [Q, P], CASES[name]), VALUES)


def test_functions_inside_of_functions():
    inner = ca.Function("inner", [Q, P], [G @ Q, ca.vec(mapped()[0])], {"never_inline": True})
    check(ca.Function("outer", [Q, P], [ca.vertcat(*inner(2 * Q, P))]), VALUES)


def test_what_does_not_change_is_not_computed_again():
    """Parameters are those of a run: what depends on them alone is done once for it; the same for a solve."""
    f = ca.Function("f", [Q, P], [ca.sin(P), mapped()[0]])
    tape, inputs = check(f, VALUES, [SOLVE, RUN])
    nodes = tape.nodes
    assert not nodes.each
    assert nodes.fixed
    assert nodes.once
    before = len(nodes.fixed), len(nodes.once)
    tape.outputs(f, inputs, ITERATE)
    assert (len(nodes.fixed), len(nodes.once)) == before  # all is there


def test_what_is_given_up_leaves_no_trace():
    """A function that CasADi must evaluate as a whole does not leave nodes that are never filled."""
    hard = ca.Function("f", [Q, P], [ca.sin(Q), ca.mmax(ca.sin(Q))])
    easy = ca.Function("g", [Q, P], [ca.sin(Q)])
    tape = Tape(bound)
    inputs = [tape.nodes.source(v, ITERATE) for v in VALUES]
    (first,) = tape.outputs(ca.Function("e", [Q, P], [ca.cos(Q)]), inputs, ITERATE)
    tape.outputs(hard, inputs, ITERATE)
    assert len(tape.nodes.each) == 2
    (out,) = tape.outputs(easy, inputs, ITERATE)
    for work in tape.nodes.each:
        work.call()
    assert tape.nodes.arrays[out] == pytest.approx(np.sin(VALUES[0]), rel=1e-15)
    assert tape.nodes.arrays[first] == pytest.approx(np.cos(VALUES[0]), rel=1e-15)
