"""Sparse matrices, factorised in numbers."""

import casadi as ca
import numpy as np
import pytest
import scipy.sparse

from dalembert.engine.factored import Factor
from dalembert.engine.patterns import Pattern


@pytest.mark.parametrize("kind", ["definite", "negative", "skewed", "indefinite", "unsymmetric"])
def test_factors_of_all_kinds(kind):
    rng = np.random.default_rng(1)
    own = scipy.sparse.random(30, 30, density=0.1, random_state=rng)
    A = (own @ own.T + 30 * scipy.sparse.eye(30)).toarray()
    if kind == "negative":
        A = -A
    elif kind == "skewed":
        A = A + 1e-3 * np.triu(A, 1)
    elif kind == "indefinite":
        A[:5, :5] -= 60 * np.eye(5)
    elif kind == "unsymmetric":
        A = A + np.triu(rng.normal(size=A.shape), 1)
    pattern = Pattern.of(ca.sparsify(ca.DM(A)).sparsity())
    matrix = pattern.matrix()
    matrix.data[:] = A.T[pattern.columns, pattern.rows]
    factor = Factor(pattern, matrix)
    factor.take()
    x = factor.solve(A @ np.ones(30))
    assert np.abs(x - 1).max() < (1e-2 if kind == "skewed" else 1e-12)  # of a skewed one the symmetric part serves
    factor.take(careful=True)
    assert np.abs(factor.solve(A @ np.ones(30)) - 1).max() < 1e-12


def test_a_singular_matrix_gives_no_change_that_looks_like_one():
    pattern = Pattern.of(ca.Sparsity.dense(2, 2))
    factor = Factor(pattern, pattern.matrix())
    factor.take()
    assert np.isnan(factor.solve(np.ones(2))).all()
