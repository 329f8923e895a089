"""Semi-explicit and parametrised forms by elimination: matrices of time, of the state, and what cannot be treated so."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.systems.normal_forms import eliminated


def damped():
    """A linear system of index 1 with two rates, two algebraic states and a port."""
    J = np.array([[0, 1, 1, 0.5], [-1, 0, 0, 1], [-1, 0, 0, 0.3], [-0.5, -1, -0.3, 0]])
    Q = np.diag([2.0, 3.0, 1.0, 1.0])
    return da.PortHamiltonian(
        4, hamiltonian=lambda x: x[0] ** 2 + 1.5 * x[1] ** 2, E=np.diag([1.0, 1.0, 0.0, 0.0]), J=J, R=[0.1, 0.2, 1.0, 2.0],
        B=[[0], [1], [0.5], [0]], z=lambda x: [Q[i, i] * x[i] for i in range(4)], initial={"x": [0.7, -0.4, 0.0, 0.0]},
    )  # fmt: skip


def turned(x, t):
    """`V(t) x`, a rotation that mixes states with rates and those without."""
    c, s = np.cos(t / 2), np.sin(t / 2)
    return [c * x[0] - s * x[2], c * x[1] - s * x[3], s * x[0] + c * x[2], s * x[1] + c * x[3]]


def V(t):
    return np.array([turned(e, t) for e in np.eye(4)]).T


def factor(t):
    c, s = np.cos(t / 3), np.sin(t / 3)
    return [[c, 0, 0, -s], [0, 1, 0, 0.3], [0, 0, 1, 0], [s, 0, 0, c]]


def moving():
    """The same in turning coordinates, `x = V(-t) w`."""
    return damped().transformed(lambda x, t: turned(x, -t), factor, initial=[0.7, -0.4, 0.0, 0.0])


def test_a_transformation_of_time_keeps_the_motion():
    """`E dphi/dt` joins `r`: the same motion, with an E of full rank too."""
    plain = da.PortHamiltonian(
        2, hamiltonian=lambda x: x[0] ** 4 / 4 + x[1] ** 2 / 2, J=[[0, 1], [-1, 0]], R=[0.0, 0.1], initial={"x": [1.0, 0.2]}
    )
    other = plain.transformed(lambda x, t: [x[0] + np.sin(t) * x[1], x[1] * (1 + t**2)], initial=[1.0, 0.2])
    a, b = (da.simulate(s, "gauss-4", t_end=2.0, step=0.02) for s in (plain, other))
    t, w = b.t, b.x
    np.testing.assert_allclose(np.stack([w[:, 0] + np.sin(t) * w[:, 1], w[:, 1] * (1 + t**2)], axis=1), a.x, atol=1e-12)
    c = da.simulate(other, "discrete-gradient", t_end=2.0, step=0.02)
    assert np.abs(c.power_balance).max() < 1e-14


def test_theorem_4_3_a_linear_system_with_matrices_of_time():
    """Symank 2025: E(t) of turning range and null space becomes semi-explicit, with K~ = V^-1 K V + V^-1 V'."""
    s = moving()
    assert s.blocks() is None
    form = s.semi_explicit()
    r = form.at("E", np.zeros(4), 0.3)
    assert np.abs(r[2:]).max() == 0 == np.abs(r[:, 2:]).max()
    assert np.linalg.cond(r[:2, :2]) < 10
    assert not form.depends("hamiltonian", "u")
    w = np.array([0.3, -0.2, 0.8, 0.5])
    slopes = form.at("gradient", w, 0.4)[:, 0]
    np.testing.assert_array_equal(slopes[2:], 0.0)  # the energy does not depend on the algebraic states
    old, u = da.consistent(damped(), u=[0.0]).x, lambda t: [np.sin(t)]
    start = da.consistent(form, x=form.initial["x"], u=[0.0]).x
    a = da.simulate(damped(), "radau-iia-4", x=old, t_end=1.5, step=0.01, u=u)
    b = da.simulate(form, "radau-iia-4", x=start, t_end=1.5, step=0.01, u=u)
    np.testing.assert_allclose(b.energy, a.energy, atol=1e-11)
    np.testing.assert_allclose(b.y, a.y, atol=1e-9)
    c = da.simulate(form, "discrete-gradient", x=start, t_end=1.5, step=0.01, u=u)
    assert np.abs(c.power_balance).max() < 1e-15


def test_K_of_theorem_4_3():
    """With `r = E K x` before, `r~ = E~ K~ w`, where `x = T w` and `K~ = T^-1 (K T + T')`."""
    s, t, eps, w = moving(), 0.4, 1e-6, np.array([0.3, -0.2, 0.8, 0.5])
    form, e = s.semi_explicit(), eliminated(s)

    def T(t):
        """`x` of `w`: the states beside the invertible block of E are kept, and its null space is spanned by the last columns."""
        E, out = s.at("E", np.zeros(4), t), np.zeros((4, 4))
        out[e.columns, :2], out[e.rest, 2:] = np.eye(2), np.eye(2)
        out[e.columns, 2:] = -np.linalg.solve(E[np.ix_(e.rows, e.columns)], E[np.ix_(e.rows, e.rest)])
        return out

    K = V(-t).T @ (V(-t - eps) - V(-t + eps)) / (2 * eps)  # that of the moving system
    x, rate = T(t) @ w, (T(t + eps) - T(t - eps)) / (2 * eps)
    np.testing.assert_allclose(s.at("E", w, t) @ T(t)[:, 2:], 0, atol=1e-15)
    np.testing.assert_allclose(s.at("r", x, t)[:, 0], s.at("E", w, t) @ K @ x, atol=1e-9)
    own = np.linalg.solve(T(t), K @ T(t) + rate)
    np.testing.assert_allclose(form.at("r", w, t)[:, 0], form.at("E", w, t) @ own @ w, atol=1e-9)
    np.testing.assert_allclose(form.at("hamiltonian", w, t), s.at("hamiltonian", x, t), atol=1e-14)


def test_index_two_with_turning_range():
    """`E = [[-t, t^2], [-1, t]]` with z = (w, -t w), w = x1 - t x2: w = u / (1 + t^2), x2 = -t w - w'."""
    system = da.PortHamiltonian(
        2, hamiltonian=lambda x: 0 * x[0], E=lambda t: [[-t, t**2], [-1.0, t]], R=np.eye(2), B=[[1], [0]],
        z=lambda x, t: [x[0] - t * x[1], -t * (x[0] - t * x[1])], initial={"x": [1.0, 0.0]},
    )  # fmt: skip
    with pytest.raises(da.MethodError, match="range depends on the state"):
        da.simulate(system, "radau-iia-3", t_end=1.0, step=0.02, u=[1.0])
    form = system.semi_explicit()
    sol = da.simulate(form, "radau-iia-3", t_end=1.0, step=0.02, u=[1.0])
    w, slope = 1 / (1 + sol.t**2), -2 * sol.t / (1 + sol.t**2) ** 2
    x2 = sol.x[:, 1]
    np.testing.assert_allclose(sol.x[:, 0], w, atol=1e-12)  # w1 = x1 - t x2
    np.testing.assert_allclose(x2[1:], (-sol.t * w - slope)[1:], atol=1e-5)


def hidden():
    """A parametrised system (eq. 38) with its equations mixed and its states in another order."""
    plain = da.PortHamiltonian(
        4, hamiltonian=lambda x: x[0] ** 4 / 4 + x[1] ** 2 / 2,
        E=lambda x: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, x[3] + x[0], 1]],
        J=lambda x: [
            [0, 1.0, 0.5, 0.3], [-1.0, 0, 1 + x[3] ** 2, 0.2], [-0.5, -1 - x[3] ** 2, 0, 0.4], [-0.3, -0.2, -0.4, 0]
        ],
        R=lambda x: [[0.1, 0, 0, 0], [0, 0.2, 0, 0], [0, 0, 1 + x[3] ** 2, 0], [0, 0, 0, 0.5]], B=[[0], [1], [0], [0.7]],
        z=lambda x: [x[0] ** 3, x[1], x[2] + x[2] ** 3, 0.0], initial={"x": [0.8, 0.4, -0.5, 0.2]},
    )  # fmt: skip
    mixed = plain.transformed(
        lambda x: [x[1], x[3], x[0], x[2]],
        lambda x: [[1, 0.2 * x[0], 0, 0.1], [0, 1, x[2], 0], [0.3, 0, 1, 0], [0.2, 0, 0.5, 2.0]], initial=[-0.5, 0.8, 0.2, 0.4],
    )  # fmt: skip
    return plain, mixed


def test_corollary_3_the_parametrised_form():
    plain, mixed = hidden()
    form = mixed.parametrised()
    rng = np.random.default_rng(1)
    for _ in range(3):
        x = rng.normal(size=4) * 0.3
        E, z = form.at("E", x), form.at("z", x)[:, 0]
        np.testing.assert_allclose(E[[0, 1]], np.eye(4)[:2], atol=0)
        np.testing.assert_allclose(E[2], 0, atol=0)
        assert E[3, 3] == 1
        assert z[3] == 0
        np.testing.assert_allclose(form.at("gradient", x)[2:, 0], 0, atol=0)
        np.testing.assert_allclose(z[:2], form.at("gradient", x)[:2, 0], atol=1e-15)
    assert sorted(form.initial["x"]) == sorted(plain.initial["x"])
    u = lambda t: [np.sin(3 * t)]  # noqa: E731
    runs = {}
    for name, system in (("plain", plain), ("form", form)):
        x = da.consistent(system, x=system.initial["x"], u=[0.0]).x
        runs[name] = da.simulate(system, "discrete-gradient", x=x, t_end=1.0, step=1 / 400, u=u, compile=False)
        assert np.abs(runs[name].power_balance).max() < 1e-15
    np.testing.assert_allclose(runs["form"].energy, runs["plain"].energy, atol=2e-5)
    np.testing.assert_allclose(np.sort(runs["form"].x[-1]), np.sort(runs["plain"].x[-1]), atol=2e-5)
    with pytest.raises(da.MethodError, match="range depends on the state"):  # as it stands no costate is zero
        da.simulate(mixed, "discrete-gradient", t_end=0.1, step=0.01, u=u)


def test_corollary_4():
    """`U^T E P = [I Y; 0 0]` with a permutation P, where the rank is constant."""
    _, mixed = hidden()
    e = eliminated(mixed)
    f = ca.Function("form", [mixed.x, mixed.t, mixed.par], [e.factor(scaled=True).T, e.Y])
    for x, t in mixed.samples():
        U, Y = (np.asarray(m.full()) for m in f(x, t, []))
        E = mixed.at("E", x, t)[:, [*e.columns, *e.rest]]
        np.testing.assert_allclose(U @ E, np.block([[np.eye(3), Y], [np.zeros((1, 4))]]), atol=1e-13)
        assert np.linalg.cond(U) < 1e3


def test_what_cannot_be_found_by_elimination():
    """Example 8 of Kinon et al. 2025: all rows are multiples of grad H, and new coordinates must contain H itself."""
    slope = lambda x: [x[0] * np.exp(x[0] ** 2 / 2), x[1]]  # noqa: E731
    system = da.PortHamiltonian(
        2, hamiltonian=lambda x: np.exp(x[0] ** 2 / 2) - 1 + x[1] ** 2 / 2, E=lambda x: [slope(x), slope(x)],
        z=lambda x: [0.5 + 0 * x[0], 0.5], initial={"x": [1.0, 0.5]},
    )  # fmt: skip
    with pytest.raises(da.MethodError, match="its null space depends on the state"):
        system.semi_explicit()
    with pytest.raises(da.MethodError, match="cannot be separated"):
        system.parametrised()
    psi = lambda x: [np.sqrt(2 * np.log(1 + x[0] - x[1] ** 2 / 2)), x[1]]  # noqa: E731
    energy = np.exp(0.5) - 1 + 0.125
    other = system.transformed(psi, initial=[energy, 0.5])  # w = (H(x), x2): the functions that theorem 8 asks for
    for form in (other.parametrised(), other.semi_explicit()):
        np.testing.assert_allclose(form.at("hamiltonian", [0.9, 0.3]), 0.9, atol=1e-14)
        np.testing.assert_allclose(form.at("E", [0.9, 0.3])[0, 1] + np.abs(form.at("E", [0.9, 0.3])[1]).max(), 0, atol=1e-14)
    falling = da.PortHamiltonian(
        2, E=lambda x: [[1, 0], [0, np.fmax(x[0], 0.0)]], hamiltonian=lambda x: 0 * x[0], z=lambda x: [0 * x[0], 0.0],
        initial={"x": [0.0, 0.0]},
    )  # fmt: skip
    with pytest.raises(da.MethodError, match="the rank of E changes"):
        eliminated(falling)


def test_a_range_of_the_state_with_a_constant_null_space():
    """`E = x1 [1 1; 1 1]`: x1 = w1 - w2, and the block is x1."""
    system = da.PortHamiltonian(
        2, E=lambda x: [[x[0], x[0]], [x[0], x[0]]], hamiltonian=lambda x: 0 * x[0], z=lambda x: [x[0], -x[0]], R=np.eye(2),
        initial={"x": [0.7, 0.5]},
    )  # fmt: skip
    form = system.semi_explicit()
    np.testing.assert_array_equal(form.at("E", [3.0, 2.0]), [[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(form.initial["x"], [1.2, 0.5])
