"""Linear DAEs: pencils with a known Weierstrass form, the examples of the notes, and solutions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.systems import exponentials
from dalembert.systems.linear_dae import gauss


def pencil(rng, nu, finite, worst):
    """A pencil of index nu with a given number of finite eigenvalues, transformed with conditions 10^worst."""
    blocks = [nu, int(rng.integers(1, nu + 1))] if nu else []
    k = sum(blocks)
    N, at = np.zeros((k, k)), 0
    for b in blocks:
        N[at : at + b, at : at + b] = np.eye(b, k=1)
        at += b
    J, n = rng.normal(size=(finite, finite)), k + finite

    def transformation():
        left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
        return left @ np.diag(np.logspace(0, worst, n)) @ right

    P, Q = transformation(), transformation()
    E = P @ np.block([[N, np.zeros((k, finite))], [np.zeros((finite, k)), np.eye(finite)]]) @ Q
    A = P @ np.block([[np.eye(k), np.zeros((k, finite))], [np.zeros((finite, k)), J]]) @ Q
    return E, A, J


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 5), st.integers(1, 4), st.floats(0, 2))
def test_index_and_spectrum_come_back(seed, nu, finite, worst):
    E, A, J = pencil(np.random.default_rng(seed), nu, finite, worst)
    dae = da.LinearDAE(E, A)
    assert dae.is_regular
    assert dae.index == nu
    assert dae.degrees_of_freedom == finite
    found, known = np.sort_complex(dae.finite_eigenvalues()), np.sort_complex(np.linalg.eigvals(J))
    np.testing.assert_allclose(found, known, atol=1e-4)
    w = dae.weierstrass()
    k = len(w.N)
    scale = np.linalg.norm(w.P, 2) * np.linalg.norm(w.Q, 2)
    left = np.block([[w.N, np.zeros((k, finite))], [np.zeros((finite, k)), np.eye(finite)]])
    right = np.block([[np.eye(k), np.zeros((k, finite))], [np.zeros((finite, k)), w.J]])
    np.testing.assert_allclose(w.P @ E @ w.Q, left, atol=1e-11 * scale * np.linalg.norm(E, 2))
    np.testing.assert_allclose(w.P @ A @ w.Q, right, atol=1e-11 * scale * np.linalg.norm(A, 2))
    assert not np.tril(w.N).any()
    assert min(w.conditioning) >= 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 3), st.integers(1, 3))
def test_the_exact_solution_satisfies_the_equation(seed, nu, finite):
    rng = np.random.default_rng(seed)
    E, A, _ = pencil(rng, nu, finite, 0.5)
    w = rng.normal(size=(3, len(E)))
    dae = da.LinearDAE(E, A, lambda t: [w[0, i] * np.sin(w[1, i] * t) + w[2, i] * t for i in range(len(E))])
    x0 = dae.consistent(rng.normal(size=len(E)))
    assert dae.check(x0) < 1e-9
    d, t = 1e-4, 0.3
    x = dae.exact(x0, [t - 2 * d, t - d, t, t + d, t + 2 * d])
    rate = (x[0] - 8 * x[1] + 8 * x[3] - x[4]) / (12 * d)
    scale = 1 + np.abs(E).max() * np.abs(rate).max() + np.abs(A).max() * np.abs(x).max()
    np.testing.assert_allclose(E @ rate, A @ x[2] + dae.derivative(0, t), atol=1e-8 * scale)
    times, states = dae.solve(x0, 0.3, 0.01)
    np.testing.assert_allclose(states[-1], x[2], atol=1e-6 * (1 + np.abs(x).max()))
    C, c = dae.constraints(times[-1])
    np.testing.assert_allclose(C @ states[-1] + c, 0, atol=1e-7 * scale)
    if nu:
        matrix, g = dae.to_ode()
        np.testing.assert_allclose(rate, matrix @ x[2] + g(t), atol=1e-5 * scale)


def test_examples_of_the_notes():
    one = da.LinearDAE([[1, 0], [0, 0]], [[0, 1], [0, 0]])
    two = da.LinearDAE([[1, 0, 0], [-2, 0, 0], [0, -2, 0]], [[1, 0, 0], [0, 1, 0], [0, 0, 0]])
    assert not one.is_regular
    assert not two.is_regular
    for dae in (one, two):
        with pytest.raises(da.ModelError, match=r"the pencil .* is singular"):
            _ = dae.index
    nilpotent = da.LinearDAE([[0, 1, 3], [0, 0, 2], [0, 0, 0]], np.eye(3))
    assert nilpotent.index == 3
    six = da.LinearDAE([[1, 1, 1], [1, 1, 1], [0, 0, 0]], [[2, 0, 1], [1, 1, 0], [1, 1, 1]], lambda t: [t, t**3, np.sin(t)])
    assert six.index == 2
    assert six.degrees_of_freedom == 0
    assert [stage.rank for stage in six.reduction()] == [1, 2, 3]
    np.testing.assert_allclose(six.exact(six.consistent([5, 5, 5]), [0.7])[0], six.consistent([0, 0, 0], 0.7), atol=1e-12)


def test_gauss_of_example_5():
    L, U, D = gauss([[0, 0, 1, 0], [0, 2, 0, 0], [0, 4, 2, 0]])
    np.testing.assert_allclose(L @ np.array([[0, 0, 1, 0], [0, 2, 0, 0], [0, 4, 2, 0]]) @ U, D, atol=1e-14)
    assert np.count_nonzero(D) == 2
    assert abs(np.linalg.det(L)) > 0.1
    assert abs(np.linalg.det(U)) > 0.1


def test_bad_input():
    for E, A, message in (
        ([[1, 2]], [[1, 2]], "square"),
        ([], [], "square"),
        ([[np.nan]], [[1.0]], r"entry \(1, 1\) is nan"),
        (np.eye(2), np.eye(3), "same shape"),
        ("x", np.eye(1), "matrix of numbers"),
    ):
        with pytest.raises(da.ModelError, match=message):
            da.LinearDAE(E, A)
    with pytest.raises(da.ModelError, match="2 entries"):
        da.LinearDAE(np.eye(2), np.eye(2), lambda t: [t])
    dae = da.LinearDAE([[1, 0], [0, 0]], [[0, 1], [1, -1]])
    with pytest.raises(da.InconsistentState, match="violates the constraints"):
        dae.exact([1.0, 0.0], [1.0])
    with pytest.raises(da.InconsistentState, match="2 finite numbers"):
        dae.consistent([1.0])


def test_ranks_do_not_depend_on_units():
    """A small coefficient is a matter of units: the rows and columns of the pencil are scaled before ranks are taken."""
    small = da.LinearDAE(np.diag([1e-12, 1.0, 0.0]), [[0, 1e-12, 0], [1, 0, 1], [1, 0, 0]])
    plain = da.LinearDAE(np.diag([1.0, 1.0, 0.0]), [[0, 1, 0], [1, 0, 1], [1, 0, 0]])
    assert small.is_regular
    assert (small.index, small.degrees_of_freedom) == (plain.index, plain.degrees_of_freedom) == (3, 0)
    rng = np.random.default_rng(1)
    E, A, J = pencil(rng, 2, 3, 0.0)
    rows, columns = 10.0 ** rng.uniform(-9, 9, len(E)), 10.0 ** rng.uniform(-9, 9, len(E))
    dae = da.LinearDAE(rows[:, None] * E * columns, rows[:, None] * A * columns)
    assert (dae.index, dae.degrees_of_freedom) == (2, 3)
    np.testing.assert_allclose(np.sort_complex(dae.finite_eigenvalues()), np.sort_complex(np.linalg.eigvals(J)), rtol=1e-6)


@pytest.mark.parametrize("rate", [0.0, 1.0, 1e2, 1e4, 1e8])
def test_exact_solutions_of_stiff_equations(rate, monkeypatch):
    """`x' = -rate x + cos t`; pieces are chosen by the source alone, so that stiffness costs nothing."""
    counts = []
    advance = exponentials.Flow._piece
    monkeypatch.setattr(exponentials.Flow, "_piece", lambda self, *a: counts.append(1) or advance(self, *a))
    times = np.array([0.01, 3.0, 1.0])  # in any order
    x = da.LinearDAE([[1.0]], [[-rate]], lambda t: [np.cos(t)]).exact([1.0], times)[:, 0]
    smooth = (rate * np.cos(times) + np.sin(times)) / (1 + rate**2)
    assert x == pytest.approx(smooth + (1 - rate / (1 + rate**2)) * np.exp(-rate * times), rel=1e-11)
    assert len(counts) < 12


def test_exact_solutions_backwards_and_through_a_kink():
    dae = da.LinearDAE(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]], lambda t: [0.0, np.abs(t - 0.3)])
    there = dae.exact([1.0, 2.0], [-1.0, 1.0])
    again = da.LinearDAE(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]], lambda t: [0.0, np.abs(t - 1.3)]).exact(there[0], [1.0])
    assert again[0] == pytest.approx([1.0, 2.0], rel=1e-10)
    still = da.LinearDAE(np.eye(1), [[-1e9]])
    assert still.exact([1.0], [1.0]) == 0.0
    with pytest.raises(da.ModelError, match="not finite"):
        da.LinearDAE(np.eye(1), [[1.0]]).exact([1.0], [1e4])


def test_sizes_of_the_nilpotent_blocks():
    rng = np.random.default_rng(4)
    N = np.zeros((6, 6))
    N[0, 1] = N[1, 2] = N[3, 4] = 1.0  # blocks of 3, 2 and 1
    E, A = np.eye(8), np.eye(8)
    E[:6, :6], A[6:, 6:] = N, rng.normal(size=(2, 2))
    P, Q = rng.normal(size=(2, 8, 8))
    pencil = da.LinearDAE(P @ E @ Q, P @ A @ Q)
    assert pencil.index == 3
    assert pencil.weierstrass().nilpotent_blocks() == (3, 2, 1)
    assert da.LinearDAE(np.eye(2), np.eye(2)).weierstrass().nilpotent_blocks() == ()


def structured(rng, sizes, finite, scale=1.0):
    """`E = T diag(I, N) S^-1`, `A = T diag(J, I) S^-1` with nilpotent blocks of these sizes."""
    k = sum(sizes)
    N, ends = np.eye(k, k=1), np.cumsum(sizes)[:-1]
    N[ends - 1, ends] = 0.0
    E, A = np.eye(k + finite), np.eye(k + finite)
    E[:k, :k], A[k:, k:] = scale * N, rng.normal(size=(finite, finite))
    P, Q = (np.linalg.qr(rng.normal(size=(k + finite,) * 2))[0] + 0.1 * rng.normal(size=(k + finite,) * 2) for _ in range(2))
    return P @ E @ Q, P @ A @ Q, N


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sizes", [(1,), (2,), (3, 1), (2, 2), (4, 2, 2, 1), (3, 3, 1, 1), (5,), (1, 1, 1)])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 50.0])
def test_the_form_with_jordan_blocks(sizes, seed, scale):
    """`E S = T diag(N, I)`, `A S = T diag(I, J)` on pencils of known structure."""
    E, A, N = structured(np.random.default_rng(seed), sizes, 3, scale)
    w = da.LinearDAE(E, A).weierstrass().jordan()
    assert w.nilpotent_blocks() == sizes
    np.testing.assert_array_equal(w.N, N)
    T, k = np.linalg.inv(w.P), len(N)
    left, right = np.zeros_like(E), np.zeros_like(A)
    left[:k, :k], left[k:, k:], right[:k, :k], right[k:, k:] = N, np.eye(3), np.eye(k), w.J
    lost = 5e-14 * max(w.conditioning)
    assert np.abs(E @ w.Q - T @ left).max() < lost * np.abs(E).max() * np.abs(w.Q).max()
    assert np.abs(A @ w.Q - T @ right).max() < lost * np.abs(A).max() * np.abs(w.Q).max()


def test_jordan_blocks_where_there_is_nothing_to_do():
    free = da.LinearDAE(np.eye(2), np.diag([1.0, 2.0])).weierstrass()
    assert free.jordan() is free
    algebraic = da.LinearDAE(np.zeros((2, 2)), np.eye(2)).weierstrass().jordan()
    np.testing.assert_array_equal(algebraic.N, np.zeros((2, 2)))
    assert algebraic.nilpotent_blocks() == (1, 1)
