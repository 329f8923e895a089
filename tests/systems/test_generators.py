"""Theorem 8 of Kinon, Morandin, Schulze 2025 with functions that a user gives, and theorem 11."""

import numpy as np
import pytest

import dalembert as da


def plain():
    """A system of the form (37), with the energy of two states, an algebraic state and a parameter."""
    return da.PortHamiltonian(
        4, hamiltonian=lambda x: x[0] ** 4 / 4 + x[1] ** 2 / 2,
        E=lambda x: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, x[3] + x[0], 1]],
        J=[[0, 1.0, 0.5, 0.3], [-1.0, 0, 1.0, 0.2], [-0.5, -1.0, 0, 0.4], [-0.3, -0.2, -0.4, 0]], R=[0.1, 0.2, 1.0, 0.5],
        B=[[0], [1], [0], [0.7]], z=lambda x: [x[0] ** 3, x[1], x[2] + x[2] ** 3, 0.0], initial={"x": [0.8, 0.4, 0.5, 0.2]},
    )  # fmt: skip


def functions(x):
    return [x[0] + x[2] ** 2, x[1] + np.sin(x[3]) * x[2]]


def bent(U=None):
    """The same in coordinates in which the energy depends on all states."""
    start = [0.8 - 0.25, 0.4 - np.sin(0.2) * 0.5, 0.5, 0.2]
    return plain().transformed(lambda x: [*functions(x), x[2], x[3]], U, initial=start)


MIXED = [[1, 0.2, 0, 0.1], [0, 1, 0.4, 0], [0.3, 0, 1, 0], [0.2, 0, 0.5, 2.0]]


@pytest.mark.parametrize("U", [None, MIXED])
@pytest.mark.parametrize("inverse", [None, lambda x: [x[0] - x[2] ** 2, x[1] - np.sin(x[3]) * x[2], x[2], x[3]]])
def test_functions_of_theorem_8_give_the_form(U, inverse):
    system = bent(U)
    with pytest.raises(da.MethodError, match="cannot be separated"):
        system.parametrised()
    form = system.parametrised(functions, inverse)
    assert form.coordinates[:2] == ("f1", "f2")
    np.testing.assert_allclose(form.initial["x"][:2], [0.8, 0.4], atol=1e-14)
    for x, _ in form.samples():
        E, z, slope = form.at("E", x), form.at("z", x)[:, 0], form.at("gradient", x)[:, 0]
        np.testing.assert_array_equal(E[:3], np.diag([1.0, 1.0, 0.0, 0.0])[:3])
        np.testing.assert_array_equal(E[3, [0, 1, 3]], [0.0, 0.0, 1.0])
        np.testing.assert_allclose(z[[0, 1, 3]], [*slope[:2], 0.0], atol=1e-14)
        np.testing.assert_allclose(slope[:2], [x[0] ** 3, x[1]], atol=1e-13)
    u = lambda t: [np.sin(3 * t)]  # noqa: E731
    runs = []
    for one in (plain(), form):
        x = da.consistent(one, x=one.initial["x"], u=[0.0]).x
        runs.append(da.simulate(one, "discrete-gradient", x=x, t_end=0.5, step=1 / 200, u=u, compile=False))
        assert np.abs(runs[-1].power_balance).max() < 1e-15
    np.testing.assert_allclose(runs[1].energy, runs[0].energy, atol=1e-4)


def test_the_energy_is_such_a_function():
    """Example 8: all rows of E are multiples of grad H, and H itself is the coordinate."""
    slope = lambda x: [x[0] * np.exp(x[0] ** 2 / 2), x[1]]  # noqa: E731
    energy = lambda x: np.exp(x[0] ** 2 / 2) - 1 + x[1] ** 2 / 2  # noqa: E731
    system = da.PortHamiltonian(
        2, hamiltonian=energy, E=lambda x: [slope(x), slope(x)], z=lambda x: [0.5 + 0 * x[0], 0.5], initial={"x": [1.0, 0.5]}
    )
    with pytest.raises(da.MethodError, match="not affine in any states"):
        system.parametrised(energy)
    form = system.parametrised(energy, lambda x: [np.sqrt(2 * np.log(1 + x[0] - x[1] ** 2 / 2)), x[1]])
    np.testing.assert_allclose(form.at("hamiltonian", [0.9, 0.3]), 0.9, atol=1e-14)
    np.testing.assert_array_equal(form.at("E", [0.9, 0.3]), [[1.0, 0.0], [0.0, 0.0]])


def test_functions_that_do_not_serve_are_refused():
    system = bent()
    with pytest.raises(da.MethodError, match=r"function 2 of 2 does not solve the equation of theorem 8: .* by \d\.\de-?\d+"):
        system.parametrised(lambda x: [functions(x)[0], x[1]])
    with pytest.raises(da.MethodError, match="depend on each other"):
        system.parametrised(lambda x: [functions(x)[0], 2 * functions(x)[0]])
    with pytest.raises(da.MethodError, match="cannot be separated"):  # the energy is no function of this one
        system.parametrised(lambda x: functions(x)[0])
    with pytest.raises(da.MethodError, match="comes back with an error"):
        system.parametrised(functions, lambda x: [x[0] + x[2] ** 2, x[1] - np.sin(x[3]) * x[2], x[2], x[3]])
    with pytest.raises(da.MethodError, match="must keep 2 states"):
        system.parametrised(functions, lambda x: [x[0] - x[2] ** 2, x[1] - np.sin(x[3]) * x[2], 2 * x[2], x[3]])
    with pytest.raises(da.MethodError, match="inverse"):
        system.parametrised(inverse=lambda x: x)
    with pytest.raises(da.ModelError, match="1 to 4 functions"):
        system.parametrised(lambda x: [x[0]] * 5)


def test_theorem_11_orthogonal_factors():
    """`U^T E V = [E11 0; 0 0]`, orthogonal at each state, and smooth: near states have near factors."""
    system = bent(MIXED)
    for x, t in system.samples():
        U, V = system.factors(x, t)
        form = U.T @ system.at("E", x, t) @ V
        np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-14)
        np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-14)
        assert max(np.abs(form[3]).max(), np.abs(form[:, 3]).max()) < 1e-14
        assert np.linalg.cond(form[:3, :3]) < 1e3
        for before, after in zip((U, V), system.factors(x + 1e-6, t), strict=True):
            assert np.abs(after - before).max() < 1e-4
