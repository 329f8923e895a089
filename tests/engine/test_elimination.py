"""Straight-line elimination against dense solves."""

import itertools

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.engine.elimination import exceeds, numeric_order, solve, structural_order


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


@given(st.integers(2, 8), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_rows_in_any_order(n, seed):
    """Rows of a matrix with a large diagonal, exchanged, with structural zeros on the diagonal: matched again."""
    rng = np.random.default_rng(seed)
    permuted = rng.permutation(n)
    pattern = ((rng.random((n, n)) < 0.2) | np.eye(n, dtype=bool))[permuted]
    sparsity = ca.sparsify(ca.DM(pattern.astype(float))).sparsity()
    order = structural_order(sparsity, (0,) * n)
    assert sorted(i for i, _ in order) == sorted(j for _, j in order) == list(range(n))
    dense = np.where(pattern, rng.normal(size=(n, n)), 0.0)
    for i, j in order:  # where it was exchanged, the pivots of the order are large
        dense[i, j] += 2 * n
    b = rng.normal(size=n)
    x, matrix = evaluate(pattern.astype(float), dense[sparsity.row(), sparsity.get_col()], b, order)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", ["radau-iia-3", "murua-2", "srk-gauss-2", "lobatto-iiic-3"])
def test_the_order_of_equations_does_not_matter(method):
    """Constraints written down in any order: the same steps, none of them by the careful way."""
    ends = []
    for order in itertools.permutations(range(3)):
        system = da.IndexTwoDAE(
            4,
            f=lambda y, z: [y[1] + z[0], z[1] - y[0], 2 * z[2] + y[1], np.sin(y[0])],
            g=lambda y, order=order: [[y[0] - 1 + (y[2] - y[3]) / 9, y[1], y[2] - 0.5][i] for i in order],
        )
        start = da.consistent(system, y=[1.0 - 0.5 / 9, 0.0, 0.5, 0.0])
        sol = da.simulate(system, method, **start, t_end=1.0, step=0.05, compile=False)
        assert sol.stats["pivoted_steps"] == 0
        ends.append(np.concatenate([sol.y[-1], sol.z[-1]]))
    np.testing.assert_allclose(ends[1:], [ends[0]] * 5, rtol=0, atol=1e-12)


def test_products_are_counted_up_to_a_limit():
    """A full matrix takes (n - 1)^2 + (n - 2)^2 + ... products."""
    n = 7
    total = sum(k * k for k in range(n))
    assert exceeds(total - 1, ca.Sparsity.dense(n, n), (0,) * n)
    assert not exceeds(total, ca.Sparsity.dense(n, n), (0,) * n)
    assert not exceeds(0, ca.Sparsity.diag(n), (0,) * n)
