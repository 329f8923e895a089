"""Jacobians operation by operation, against those of CasADi."""

import casadi as ca
import numpy as np
import pytest

from dalembert.engine.jacobians import _Walk, jacobian
from dalembert.methods.step import two_sum

Q, P = ca.MX.sym("q", 8), ca.MX.sym("p", 2)
X, L = ca.SX.sym("x", 4), ca.SX.sym("l")
DISTANCE = ca.sqrt(ca.sumsqr(X[2:] - X[:2]))
LOCAL = ca.Function("local", [X, L], [DISTANCE - L, ca.gradient(DISTANCE, X) * L])
PLACES = [0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7]
FIRST, SECOND = LOCAL.map(3)(ca.reshape(Q[PLACES], 4, 3), ca.repmat(P[0], 1, 3))
PATTERN = ca.Sparsity.triplet(3, 8, [0, 0, 1, 1, 2, 2], [0, 1, 2, 3, 6, 7])
G = ca.MX(PATTERN, ca.vec(SECOND)[[0, 1, 6, 7, 10, 11]])
INNER = ca.Function("inner", [Q, P], [G @ Q, ca.vec(SECOND)])
SCALAR = ca.Function("scalar", [X, L], [X**2 * L])
CASES = {
    "a mapped function": ca.vertcat(ca.vec(FIRST), ca.vec(SECOND)),
    "entries": ca.vec(SECOND)[[3, 1, 7, 7]],
    "a matrix of one row": G[0, :] @ ca.sin(Q),
    "a matrix times a vector": G @ (Q**2),
    "its transpose": G.T @ ca.vec(FIRST),
    "a constant matrix": ca.DM.rand(3, 8) @ ca.sin(Q),
    "sums, products and quotients": ca.vertcat(P[0] * Q + Q * Q, Q / P[1], 2 * Q - P[0] / (2 + Q**2), -Q, P[0] - Q),
    "functions of entries": ca.vertcat(ca.exp(Q), ca.fabs(Q) ** 1.5, ca.atan2(Q, P[0]), ca.fmax(Q, P[1])),
    "parts": ca.vertcat(*ca.vertsplit(ca.sin(Q), 3)[1:], ca.vec(ca.repmat(Q, 1, 2)), *ca.horzsplit(ca.reshape(Q, 4, 2))),
    "a dot product": ca.vertcat(ca.dot(Q, ca.sin(Q)), ca.dot(P, P)),
    "functions inside of functions": ca.vertcat(*INNER(2 * Q, P)),
    "a function of numbers": SCALAR(ca.sin(Q[:4]), P[0]),
    "a combination with numbers": Q[:3] + P[0] * (0.25 * Q[3:6] - 0.3 * Q[5:8]),
    "many terms at one place": ca.exp(sum((ca.sin(k * Q) for k in range(1, 6)), Q)),
    "what does not vary": ca.sin(P),
}  # fmt: skip


@pytest.mark.parametrize("by", [Q, ca.vertcat(P, Q)], ids=["one symbol", "several"])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_casadi(name, by):
    e = ca.densify(CASES[name])
    slope, expected = _Walk(e, by).run(), ca.jacobian(e, by)
    found = jacobian(e, by)
    assert (slope is None) == (not expected.nnz())
    assert found.shape == expected.shape
    assert found.nnz() <= expected.nnz()
    both = ca.Function("J", [Q, P], [found, expected])(np.random.default_rng(0).normal(size=8), [0.3, -1.2])
    assert np.abs((both[0] - both[1]).full()).max() < 1e-14 * (1 + np.abs(both[1].full()).max())


def test_what_rounding_takes_from_a_sum_has_no_slope():
    s, rest = two_sum(Q, P[0] * ca.sin(Q))
    assert jacobian(s, P).nnz() == 8
    assert not jacobian(rest, ca.vertcat(P, Q)).nnz()


def test_what_is_not_known_is_left_to_casadi():
    e = ca.vertcat(ca.norm_1(Q), ca.norm_2(Q) * Q)
    found = ca.Function("J", [Q], [jacobian(e, Q), ca.jacobian(e, Q)])(np.arange(1.0, 9))
    assert np.abs((found[0] - found[1]).full()).max() < 1e-14
