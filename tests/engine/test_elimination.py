"""Straight-line elimination against dense solves."""

import casadi as ca
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dalembert.engine.elimination import numeric_order, solve, structural_order


def evaluate(pattern, values, b, order):
    J = ca.SX.sym("J", ca.sparsify(ca.DM(pattern)).sparsity())
    rhs = ca.SX.sym("b", len(b))
    f = ca.Function("f", [J, rhs], [solve(J, rhs, order)])
    return np.array(f(ca.DM(J.sparsity(), values), b)).ravel(), np.array(ca.DM(J.sparsity(), values))


@given(st.integers(1, 9), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_random_diagonally_dominant_matrices(n, seed):
    rng = np.random.default_rng(seed)
    pattern = (rng.random((n, n)) < 0.4) | np.eye(n, dtype=bool)
    sparsity = ca.sparsify(ca.DM(pattern.astype(float))).sparsity()
    dense = np.where(pattern, rng.normal(size=(n, n)), 0.0) + 2 * n * np.eye(n)
    values = dense[sparsity.row(), sparsity.get_col()]
    b = rng.normal(size=n)
    for order in (structural_order(sparsity, (0,) * n), numeric_order(ca.DM(sparsity, values))):
        x, matrix = evaluate(pattern.astype(float), values, b, order)
        np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-10, atol=1e-12)


def test_multipliers_are_eliminated_last():
    """A saddle point matrix with a zero block: its multipliers come after everything they act on."""
    G = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]])
    K = np.block([[np.diag([2.0, 3.0, 4.0]), G.T], [G, np.zeros((2, 2))]])
    sparsity = ca.sparsify(ca.DM(K)).sparsity()
    order = structural_order(sparsity, (0, 0, 0, 1, 1))
    assert {i for i, _ in order[:3]} == {0, 1, 2}
    b = np.arange(1.0, 6.0)
    x, matrix = evaluate((K != 0).astype(float), K[sparsity.row(), sparsity.get_col()], b, order)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-13)


def test_tridiagonal_matrices_have_no_fill():
    n = 200
    T = np.diag(np.full(n, 4.0)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    sparsity = ca.sparsify(ca.DM(T)).sparsity()
    J, b = ca.SX.sym("J", sparsity), ca.SX.sym("b", n)
    f = ca.Function("f", [J, b], [solve(J, b, structural_order(sparsity, (0,) * n))])
    work = f.n_instructions() - sparsity.nnz() - 2 * n
    assert work < 9 * n


def test_numeric_pivots_avoid_zeros():
    J = ca.sparsify(ca.DM(np.array([[0.0, 1.0], [1.0, 0.0]])))
    assert sorted(numeric_order(J)) == [(0, 1), (1, 0)]
