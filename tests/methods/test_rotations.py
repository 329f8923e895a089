"""Angular momentum and energy together, for invariants that are not quadratic and for masses that depend on positions."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.discrete.differences import Ends
from dalembert.discrete.gradients import Field, equivariant

START = dict(q=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.2, 1.0], v=[0.1, 0.4, -0.3, 0.2, 0.1, 0.5, 0.3, -0.2, 0.6])


def triple(q):
    return np.dot(q[:3], np.cross(q[3:6], q[6:9]))


def springs(q):
    return np.dot(q[:3], q[:3]) / 2 + np.dot(q[3:6] - q[6:9], q[3:6] - q[6:9]) / 2 + np.dot(q[:3], q[3:6]) ** 2 / 8


POTENTIALS = {
    "triple product": lambda q, k: k / 2 * (triple(q) - 1) ** 2 + springs(q),
    "determinant": lambda q, k: k * (np.linalg.det(np.reshape(q, (3, 3))) - 1) ** 2 + springs(q),
    "cross product": lambda q, k: k * np.sum(np.cross(q[:3], q[3:6]) ** 2) + springs(q),
    "of several": lambda q, k: k * np.sin(triple(q)) * np.exp(-(np.dot(q[:3], q[3:6]) ** 2)) + springs(q) ** 2,
}
MASSES = {
    "constant": 1.0,
    "conformal": lambda q: np.diag([1 + np.dot(q[:3], q[:3])] * 9),
    "tensor": lambda q: np.eye(9) + np.outer(q, q) / 4,
}
METHODS = ["energy-momentum", "energy-momentum-ggl", "discrete-gradient"]


def kept(sol, axes=slice(None)):
    L = sol.momentum("angular", 3)[:, axes]
    energy = sol.kinetic.max() if hasattr(sol, "kinetic") else np.abs(sol.energy).max()
    return np.abs(L - L[0]).max() / np.abs(sol.momentum("angular", 3)).max(), np.abs(sol.energy - sol.energy[0]).max() / energy


def trios():
    """All potentials with all methods, and each of them once with the mass matrices that depend on positions."""
    for k, potential in enumerate(POTENTIALS):
        yield from ((potential, "constant", method) for method in METHODS)
        yield potential, "conformal", METHODS[(k + 1) % len(METHODS)]
        yield potential, "tensor", METHODS[k % len(METHODS)]


@pytest.mark.parametrize(("potential", "mass", "method"), list(trios()))
def test_angular_momentum_and_energy_of_any_invariants(potential, mass, method):
    system = da.Mechanical(9, mass=MASSES[mass], potential=POTENTIALS[potential], parameters={"k": 2.0}, dimension=3)
    sol = da.simulate(system, method, **START, t_end=8.0, step=0.02)
    assert len(sol.t) == 401
    assert max(kept(sol)) < 1e-12


def test_a_constraint_on_the_volume_and_gravity_along_an_axis():
    """Only the momentum about the axis is one of the motion; the volume is a cubic constraint."""

    def weight(q):
        return springs(q) + 0.3 * (q[2] + q[5] + q[8])

    system = da.Mechanical(9, mass=1.0, potential=weight, holonomic=lambda q: triple(q) - 1.0, dimension=3)
    start = da.consistent(system, **START)
    sol = da.simulate(system, "energy-momentum", q=start.q, v=start.v, t_end=10.0, step=0.01)
    assert max(kept(sol, [2])) < 1e-12
    assert kept(sol, [0, 1])[0] > 1e-2
    assert np.abs(sol.residual("position")).max() < 1e-14


def test_linear_momentum_stays_with_it():
    """A triple product of differences does not see translations: three momenta more, far from the origin too."""

    def potential(q):
        a, b, c = q[:3] - q[9:], q[3:6] - q[9:], q[6:9] - q[9:]
        return (np.dot(a, np.cross(b, c)) - 1) ** 2 + (np.dot(a, a) + np.dot(b - c, b - c) + np.dot(b, b)) / 2

    system = da.Mechanical(12, mass=[1.0] * 9 + [2.0] * 3, potential=potential, dimension=3)
    away = np.tile([100.0, -50.0, 30.0], 4)
    sol = da.simulate(
        system, "energy-momentum", q=np.r_[START["q"], 0, 0, 0] + away, v=np.r_[START["v"], 0.1, 0, 0], t_end=10.0, step=0.01
    )
    P = sol.momentum("linear")
    assert np.abs(P - P[0]).max() < 1e-13
    assert kept(sol)[0] < 1e-13


def test_the_area_of_particles_in_the_plane():
    """The cross product of the plane, cubic as a product with a squared distance."""

    def potential(q):
        return (q[0] * q[3] - q[1] * q[2]) * (q[0] ** 2 + q[1] ** 2) + np.sum(q**2) ** 2

    system = da.Mechanical(4, mass=1.0, potential=potential, dimension=2)
    sol = da.simulate(system, "energy-momentum", q=[1, 0, 0.2, 1], v=[0.1, 0.3, -0.4, 0.2], t_end=8.0, step=0.02)
    L = sol.momentum("angular")
    assert np.abs(L - L[0]).max() < 1e-12 * np.abs(L).max()


def test_ports_and_mechanics_are_one_method():
    system = da.Mechanical(9, mass=1.0, potential=POTENTIALS["triple product"], parameters={"k": 2.0}, dimension=3)
    one = da.simulate(system, "discrete-gradient", **START, t_end=1.0, step=0.02)
    other = da.simulate(system.to_port_hamiltonian(), "discrete-gradient", x=np.r_[START["q"], START["v"]], t_end=1.0, step=0.02)
    np.testing.assert_allclose(other.x[:, :9], one.q, atol=1e-12)


def test_the_gradient_near_a_rotation_and_on_a_line():
    """A step that only rotates, one of no length, and points on a line, where a rotation about it moves nothing."""
    q, a, b, t = (ca.SX.sym(n, k) for n, k in (("q", 9), ("a", 9), ("b", 9), ("t", 1)))
    f = Field(ca.dot(q[:3], ca.cross(q[3:6], q[6:])) ** 2 + ca.sumsqr(q[:3] - q[3:6]) ** 2, q, t)
    D = equivariant(f, Ends(a, b, t, t), ca.SX(1.0))[0]
    value = ca.Function("D", [a, b], [D, ca.jacobian(D, b), f.at(b, t) - f.at(a, t)])
    x, rng = np.array(START["q"]), np.random.default_rng(3)
    turn = np.kron(np.eye(3), [[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    line = np.kron([1.0, 2.0, -1.0], [0.0, 0.6, 0.8])
    for y in (turn @ x, turn @ x + 1e-9 * rng.standard_normal(9), x, x + 1e-13, x + 0.5 * rng.standard_normal(9)):
        slope, J, change = (np.array(v) for v in value(x, y))
        middle, force = ((x + y) / 2).reshape(3, 3), slope.reshape(3, 3)
        assert np.abs(np.cross(middle, force).sum(axis=0)).max() < 1e-13 * (1 + np.abs(slope).max())
        assert abs(slope[:, 0] @ (y - x) - change[0, 0]) < 1e-13
        assert np.isfinite(J).all()
    same = np.array(value(x, x)[0])[:, 0]
    exact = np.array(ca.Function("g", [q], [ca.gradient(f.expression, q)])(x))[:, 0]
    np.testing.assert_allclose(same, exact, atol=1e-13)
    for y in (line, 1.1 * line, line + 1e-3 * rng.standard_normal(9)):
        slope, J, change = (np.array(v) for v in value(line, y))
        assert abs(slope[:, 0] @ (y - line) - change[0, 0]) < 1e-13
        assert np.isfinite(J).all()


def test_it_is_symmetric_and_of_second_order():
    system = da.Mechanical(9, mass=MASSES["tensor"], potential=POTENTIALS["of several"], parameters={"k": 0.2}, dimension=3)
    found = da.convergence(system, "energy-momentum", **START, t_end=1.0)
    assert found.orders["q"] == pytest.approx(2, abs=0.25)
    assert da.analysis.reversibility(system, "energy-momentum", **START, t_end=1.0, step=0.05) < 1e-12
