"""Dirac structures: what they are, how they compose, and those of systems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert import DiracStructure


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_power_vanishes_and_representations_agree(seed, n):
    rng = np.random.default_rng(seed)
    A, T = rng.normal(size=(n, n)), rng.normal(size=(n, n)) + 2 * np.eye(n)
    D = DiracStructure(T, -T @ (A - A.T))  # the graph of a skew matrix, its rows mixed
    Y, U = D.image()
    for _ in range(5):
        a = rng.normal(size=n)
        f, e = Y @ a, U @ a
        assert abs(f @ e) < 1e-9 * (1 + np.linalg.norm(f) * np.linalg.norm(e))
        assert D.contains(f, e)
    assert D.same_as(DiracStructure.of_skew(A - A.T))
    assert D.same_as(DiracStructure.of_image(Y, U))
    assert not D.contains(np.eye(n)[0] + Y @ a, U @ a) or np.abs(T[:, 0]).max() < 1e-9


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_composition_is_a_dirac_structure(seed):
    rng = np.random.default_rng(seed)
    skew = [m - m.T for m in (rng.normal(size=(4, 4)), rng.normal(size=(3, 3)))]
    joined = DiracStructure.of_skew(skew[0]).compose(DiracStructure.of_skew(skew[1]), 2)
    assert joined.size == 3  # its own checks have passed: power is kept, and nothing is lost


def test_of_a_system():
    system = da.catalog.synchronous_machine()
    x = np.asarray(system.initial["x"])
    D = system.dirac(x)
    u = np.array([1.0, -0.5, 0.3, 0.2, 0.1])
    z, R, B = system.at("z", x)[:, 0], system.at("R", x), system.at("B", x)
    rate = system.at("right", x, u=u)[:, 0]
    flows, efforts = np.concatenate([-rate, -z, B.T @ z]), np.concatenate([z, R @ z, u])
    assert D.contains(flows, efforts)
    assert abs(flows @ efforts) < 1e-12
    pendulum = da.catalog.double_pendulum().to_port_hamiltonian()
    assert pendulum.dirac(np.append(pendulum.initial["x"][:8], [1.0, 2.0])).size == 20


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_a_motion_with_feedthrough_lies_in_it(seed):
    """All matrices of a system with two ports at random: `[R P; P^T S]` dissipates, in the state and through the ports."""
    rng = np.random.default_rng(seed)
    A, J, N = rng.normal(size=(5, 5)), rng.normal(size=(3, 3)), rng.normal(size=(2, 2))
    W, B, J, N = A @ A.T, rng.normal(size=(3, 2)), J - J.T, N - N.T
    R, P, S = W[:3, :3], W[:3, 3:], W[3:, 3:]
    system = da.PortHamiltonian(3, hamiltonian=lambda x: x @ x / 2 + x[0] ** 4, J=J, R=R, B=B, P=P, S=S, N=N)
    x, u = rng.normal(size=3), rng.normal(size=2)
    z = np.array([x[0] + 4 * x[0] ** 3, x[1], x[2]])
    both = np.concatenate([z, u])
    rate, y = (J - R) @ z + (B - P) @ u, (B + P).T @ z + (S - N) @ u
    flows, efforts = np.concatenate([-rate, -both, y]), np.concatenate([z, W @ both, u])
    D = system.dirac(x)
    assert D.size == 10
    assert D.contains(flows, efforts)
    assert abs(flows @ efforts) < 1e-12 * np.abs(flows).max() * np.abs(efforts).max()
    assert not D.contains(flows + np.eye(10)[8], efforts)


def test_refused():
    with pytest.raises(da.ModelError, match=r"F G\^T \+ G F\^T has the entry"):
        DiracStructure(np.eye(2), np.eye(2))
    with pytest.raises(da.ModelError, match="rank"):
        DiracStructure([[1, 0], [0, 0]], [[0, 0], [0, 0]])
    with pytest.raises(da.ModelError, match="do not fit"):
        DiracStructure.of_skew(np.zeros((2, 2))).compose(DiracStructure.of_skew(np.zeros((2, 2))), 3)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_composition_joins_opposite_flows_and_equal_efforts(seed):
    """Elements of the joined structure, found from those of the parts: `f = J e` on both sides, `f_s' = -f_s`, `e_s' = e_s`."""
    rng = np.random.default_rng(seed)
    A, B = (m - m.T for m in (rng.normal(size=(4, 4)), rng.normal(size=(3, 3))))
    joined = DiracStructure.of_skew(A).compose(DiracStructure.of_skew(B), 2)
    # efforts (e_a, e_s) of the first and (e_s, e_b) of the second with A_s [e_a, e_s] + B_s [e_s, e_b] = 0
    for _ in range(3):
        outer = rng.normal(size=3)
        shared = np.linalg.solve(A[2:, 2:] + B[:2, :2], -(A[2:, :2] @ outer[:2] + B[:2, 2:] @ outer[2:]))
        left, right = A @ np.concatenate([outer[:2], shared]), B @ np.concatenate([shared, outer[2:]])
        np.testing.assert_allclose(left[2:], -right[:2], atol=1e-9 * (1 + np.abs(shared).max()))
        assert joined.contains(np.concatenate([left[:2], right[2:]]), outer)


def test_the_skew_feedthrough_of_a_system():
    """`y = B^T z - N u` with a skew `N`: the flows of the ports, entry by entry."""
    J, B, N = np.array([[0.0, 1.0], [-1.0, 0.0]]), np.array([[1.0, 0.3], [0.2, 2.0]]), np.array([[0.0, 0.7], [-0.7, 0.0]])
    system = da.PortHamiltonian(2, hamiltonian=lambda x: x[0] ** 2 / 2 + x[1] ** 2 / 2, J=J, B=B, N=N, initial={"x": [0.4, -0.8]})
    x, u = np.array([0.4, -0.8]), np.array([1.0, 0.5])
    D = system.dirac(x)
    z, rate = x, J @ x + B @ u
    assert D.contains(np.concatenate([-rate, -z, B.T @ z - N @ u]), np.concatenate([z, 0 * z, u]))
    assert not D.contains(np.concatenate([-rate, -z, B.T @ z + N @ u]), np.concatenate([z, 0 * z, u]))
    sol = da.simulate(system, "discrete-gradient", t_end=1.0, step=0.1, u=u)
    np.testing.assert_allclose(sol.outputs, sol.costates @ B - u @ N.T, atol=1e-14)
