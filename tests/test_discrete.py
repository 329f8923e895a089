"""Discrete gradients and Jacobians as numbers: definition, chain rule, inverse, and two counterexamples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.discrete import gradient, jacobian, pair

KINDS = ["gonzalez", "gonzalez-joint", "gonzalez-left", "gonzalez-right", "mean-value", "itoh-abe", "equivariant"]


def F(x):
    return [np.sin(x[0]) * x[1], x[0] ** 3 + np.exp(x[1])]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(KINDS))
def test_directional_and_consistent(seed, kind):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 2))
    f = lambda x: np.array([np.sin(x[0]) * x[1], x[0] ** 3 + np.exp(x[1])])  # noqa: E731
    np.testing.assert_allclose(jacobian(F, a, b, kind) @ (b - a), f(b) - f(a), atol=1e-12)
    exact = [[np.cos(a[0]) * a[1], np.sin(a[0])], [3 * a[0] ** 2, np.exp(a[1])]]
    np.testing.assert_allclose(jacobian(F, a, a, kind), exact, atol=1e-12)


def test_one_sided_gradients_need_no_point_between():
    """Remark 5 of Kinon et al. 2025: grad f at one end, corrected along x1 - x0; log is not defined between these ends."""
    a, b = np.array([-1.0, 2.0]), np.array([1.0, 1.0])
    f = lambda x: np.log(x[0] ** 2) + x[0] * x[1] ** 2  # noqa: E731
    slope = lambda x: np.array([2 / x[0] + x[1] ** 2, 2 * x[0] * x[1]])  # noqa: E731
    for kind, base in (("gonzalez-left", slope(a)), ("gonzalez-right", slope(b))):
        expected = base + (b - a) * (f(b) - f(a) - base @ (b - a)) / 5
        np.testing.assert_allclose(gradient(f, a, b, kind), expected, atol=1e-14)


def test_chain_rule_and_inverse():
    """Eq. 35 and lemma 3 of Kinon et al. 2025."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2)) * 0.3
    phi = lambda x: [x[0] + 0.3 * x[1] ** 2, x[1] + 0.2 * np.sin(x[0])]  # noqa: E731
    at = [np.array([x[0] + 0.3 * x[1] ** 2, x[1] + 0.2 * np.sin(x[0])]) for x in (a, b)]
    D = jacobian(phi, a, b)
    chain = jacobian(F, at[0], at[1]) @ D
    assert np.abs(chain @ (b - a) - (np.array(F(at[1])) - np.array(F(at[0])))).max() < 1e-13
    np.testing.assert_allclose(np.linalg.inv(D) @ (at[1] - at[0]), b - a, atol=1e-13)


def test_example_9_a_discrete_jacobian_of_a_diffeomorphism_may_be_singular():
    def phi(x):
        angle = x[0] ** 2 + x[1] ** 2
        return [np.cos(angle) * x[0] - np.sin(angle) * x[1], np.sin(angle) * x[0] + np.cos(angle) * x[1]]

    D = jacobian(phi, [0.0, 0.0], [np.sqrt(2 * np.pi), 0.0])
    np.testing.assert_allclose(D, [[1, -1], [0, 0]], atol=1e-13)


def test_example_10_gonzalez_does_not_commute_with_transformations():
    f = lambda x: (x[0] ** 2 + x[1] ** 2) ** 2 / 4  # noqa: E731
    own = gradient(lambda x: ((x[0] + x[1]) ** 2 + x[1] ** 2) ** 2 / 4, [0, 0], [2, 0])
    chain = np.array([[1, 1], [0, 1]]).T @ gradient(f, [0, 0], [2, 0])
    assert own[1] == pytest.approx(1, abs=1e-13)
    assert chain[1] == pytest.approx(2, abs=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["singular-mass-springs", "synchronous-machine", "rlc-ladder", "windy-pendulum"])
def test_pairs_of_systems(name, kind):
    """Definition 7 of Kinon et al. 2025: z . E (x1 - x0) = H(x1) - H(x0), and E(x, x) = E(x), z(x, x) = z(x)."""
    system = da.catalog.make(name)
    rng = np.random.default_rng(3)
    a = np.asarray(system.initial["x"]) + 0.1 * rng.normal(size=system.n)
    b = a + 0.3 * rng.normal(size=system.n)
    for at in ("midpoint", "left", "right"):
        E, z = pair(system, a, b, kind=kind, at=at)
        change = (system.at("hamiltonian", b) - system.at("hamiltonian", a))[0, 0]
        assert z @ E @ (b - a) == pytest.approx(change, abs=1e-13 * max(1.0, np.abs(z).max()))
        E, z = pair(system, a, a, kind=kind, at=at)
        np.testing.assert_array_equal(E, system.at("E", a))
        np.testing.assert_allclose(z, system.at("z", a)[:, 0], atol=1e-12 * np.abs(z).max())


def test_refused():
    ladder = da.catalog.rlc_ladder()
    with pytest.raises(da.ModelError, match="11 numbers each"):
        pair(ladder, np.zeros(3), np.zeros(11))
    with pytest.raises(da.MethodError, match="that of a PortHamiltonian system"):
        pair(da.catalog.double_pendulum(), np.zeros(4), np.zeros(4))
    with pytest.raises(da.MethodError, match="z2 must be one of"):
        pair(ladder, np.zeros(11), np.zeros(11), z2="left")

    with pytest.raises(da.MethodError, match="kind must be one of"):
        gradient(lambda x: x[0], [0.0], [1.0], "newton")
    with pytest.raises(da.ModelError, match="2 entries"):
        gradient(F, [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(da.ModelError, match="same length"):
        jacobian(F, [0.0, 0.0], [1.0])
