"""Gyroscopic terms of velocities that are no derivatives of coordinates."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.systems import quasi_velocities

J = (0.8, 1.0, 0.5)


def quaternion(q):
    w, x, y, z = q
    return [[-x / 2, -y / 2, -z / 2], [w / 2, -z / 2, y / 2], [z / 2, w / 2, -x / 2], [-y / 2, x / 2, w / 2]]


def angles(q):  # yaw, pitch, roll
    c, s, t = np.cos(q[2]), np.sin(q[2]), np.tan(q[1])
    return [[0, s / np.cos(q[1]), c / np.cos(q[1])], [0, c, -s], [1, s * t, c * t]]


def euler(v):
    return np.cross(np.array(J) * v, v)


def top(**options):
    return da.Mechanical(("w", "x", "y", "z"), mass=list(J), kinematics=quaternion,
                         potential=lambda q: 3.0 * (q[0] ** 2 - q[1] ** 2 - q[2] ** 2 + q[3] ** 2), **options)  # fmt: skip


START = np.array([0.9, 0.3, -0.2, 0.1]) / np.linalg.norm([0.9, 0.3, -0.2, 0.1])
V = np.array([0.4, -0.3, 2.0])


@pytest.mark.parametrize(("Z", "n"), [(quaternion, 4), (angles, 3)])
def test_of_angular_velocities_they_are_those_of_euler(Z, n):
    rng = np.random.default_rng(0)
    system = da.Mechanical(n, mass=list(J), kinematics=Z)
    for _ in range(5):
        q, v = rng.normal(size=n), rng.normal(size=3)
        np.testing.assert_allclose(system.numeric("gyroscopic", system.pack(), q=q, v=v)[0], euler(v), atol=1e-13)
    assert not system.depends("gyroscopic", "q")  # recognised as those of a group


def test_the_commutator_is_that_of_vector_fields():
    """`[X, Y] f = X (Y f) - Y (X f)`, on a function that is not linear."""
    q, v = ca.SX.sym("q", 3), ca.SX.sym("v", 2)
    Z = ca.SX(3, 2)
    Z[:, 0], Z[:, 1] = ca.vertcat(1, q[2] ** 2, ca.sin(q[0])), ca.vertcat(q[1], q[0] * q[2], 1)
    f = ca.exp(q[0]) * q[1] + q[2] ** 3
    X, Y = Z @ v, Z[:, 1]

    def along(field, g):
        return ca.jtimes(g, q, field)

    wanted = along(X, along(Y, f)) - along(Y, along(X, f))
    found = along(quasi_velocities.commutator(Z, q, v)[:, 1], f)
    F = ca.Function("F", [q, v], [wanted - found])
    assert abs(float(F([0.3, -0.7, 1.1], [0.9, 0.4]))) < 1e-14


def test_a_mass_that_depends_on_the_position_moves_as_in_coordinates():
    """A body that grows with its attitude, in angular velocities and in angles: the same motion."""

    def mass(q):
        return np.diag([1.0 + 0.3 * np.sin(q[1]) ** 2, 1.0 + 0.2 * np.cos(q[2]), 0.7])

    system = da.Mechanical(
        ("yaw", "pitch", "roll"), mass=mass, kinematics=angles, potential=lambda q: 3 * np.cos(q[1]) * np.cos(q[2]),
        initial={"q": [0.1, 0.3, 0.2], "v": V},
    )  # fmt: skip
    other = system.to_coordinates()
    a = da.simulate(system, "gauss-4", t_end=1.0, step=0.01)
    b = da.simulate(other, "gauss-4", t_end=1.0, step=0.01)
    np.testing.assert_allclose(a.q, b.q, atol=1e-12)
    np.testing.assert_allclose(a.energy, b.energy, rtol=1e-12)
    np.testing.assert_allclose(a.energy, a.energy[0], rtol=1e-11)


@pytest.mark.parametrize("method", ["energy-momentum", "rattle", "lobatto-pair-3"])
def test_a_quaternion_in_coordinates(method):
    """The same top with `q' = v` and the unit length as a constraint: every method, to its order."""
    system = top(initial={"q": START, "v": V}).to_coordinates(holonomic=lambda q: q @ q - 1)
    reference = da.simulate(top(), "gauss-6", q=START, v=V, t_end=0.5, step=0.01)
    errors = []
    for step in (0.01, 0.005, 0.0025):
        sol = da.simulate(system, method, t_end=0.5, step=step)
        errors.append(np.abs(sol.q[-1] - reference.q[-1]).max())
        assert np.abs(sol.residual("position")).max() < 1e-13
    order = 4 if method == "lobatto-pair-3" else 2
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.25)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(order, abs=0.25)
    if method == "energy-momentum":
        np.testing.assert_allclose(sol.energy, sol.energy[0], rtol=1e-13)


def test_forces_inputs_and_damping_in_coordinates():
    system = da.Mechanical(
        ("yaw", "pitch", "roll"), mass=list(J), kinematics=angles, dissipation=[0.1, 0.2, 0.3], inputs=[[1.0], [0], [0]],
        force=lambda q, v, t: [0.1 * np.sin(t), q[1], 0.05 * v[0]],
    )  # fmt: skip
    other = system.to_coordinates()
    q = np.array([0.1, 0.3, 0.2])
    rate = np.array(system.value("kinematics", [], q=q) @ V).ravel()
    a = da.simulate(system, "gauss-4", q=q, v=V, u=[0.3], t_end=1.0, step=0.01)
    b = da.simulate(other, "gauss-4", q=q, v=rate, u=[0.3], t_end=1.0, step=0.01)
    np.testing.assert_allclose(a.q, b.q, atol=1e-12)
    np.testing.assert_allclose(a.supplied, b.supplied, atol=1e-12)
    np.testing.assert_allclose(a.dissipated, b.dissipated, atol=1e-12)


def test_terms_of_ones_own():
    by_hand = top(force=euler, gyroscopic=False)
    assert not by_hand.has("gyroscopic")
    a = da.simulate(top(), "gauss-3", q=START, v=V, t_end=1.0, step=0.01)
    b = da.simulate(by_hand, "gauss-3", q=START, v=V, t_end=1.0, step=0.01)
    np.testing.assert_allclose(a.v, b.v, atol=1e-13)
    with pytest.raises(da.MethodError, match="leave them out"):
        by_hand.to_coordinates(holonomic=lambda q: q @ q - 1)


def test_they_are_in_files(tmp_path):
    sol = da.simulate(top(), "gauss-2", q=START, v=V, t_end=0.1, step=0.01)
    sol.save(tmp_path / "run.nc")
    again = da.load(tmp_path / "run.nc").system
    np.testing.assert_allclose(again.numeric("gyroscopic", again.pack(), v=V)[0], euler(V), atol=1e-15)


def test_what_is_refused():
    def skate(q):
        return [[np.cos(q[2]), 0.0], [np.sin(q[2]), 0.0], [0.0, 1.0]]

    with pytest.raises(da.ModelError, match="not in their span"):
        da.Mechanical(3, mass=1.0, kinematics=skate)
    with pytest.raises(da.MethodError, match="the 1 constraints"):
        top().to_coordinates()
    with pytest.raises(da.MethodError, match="does not keep"):
        top().to_coordinates(holonomic=lambda q: q[0] - 1)
    with pytest.raises(da.MethodError, match="keeps 1 constraints, not 2"):
        top().to_coordinates(holonomic=lambda q: [q[0] - 1, q[1]])
    with pytest.raises(da.MethodError, match="already"):
        da.catalog.double_pendulum().to_coordinates()
    with pytest.raises(da.MethodError, match="not canonical"):
        top().to_hamiltonian()
    with pytest.raises(da.MethodError, match="to_coordinates"):
        da.simulate(top(), "rattle", q=START, v=V, t_end=1.0, step=0.1)
    with pytest.raises(da.ModelError, match="gyroscopic must be"):
        top(gyroscopic="no")
