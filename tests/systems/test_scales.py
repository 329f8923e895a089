"""Sizes at which round-off begins: one for each group of coordinates that act on each other."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.systems import scales

METHODS = [
    "rattle", "shake", "energy-momentum", "energy-momentum-ggl", "lobatto-pair-3", "murua-ggl-2", "spark-2", "variational"
]  # fmt: skip
LARGE = {  # length of the pendulum, size of the motion beside it, and its speed
    "alone": (1.0, 1.0, 1.0),
    "a metre beside ten kilometres": (1.0, 1e4, 1e4),
    "a millimetre beside an orbit": (1e-3, 7e6, 7e3),
    "a micrometre beside an orbit": (1e-6, 7e6, 7e3),
    "a millimetre beside a planet's orbit": (1e-3, 1e9, 1e6),
}


def beside(length, size, speed):
    """A pendulum, and an oscillator that does not touch it."""
    system = da.Mechanical(
        4,
        mass=1.0,
        potential=lambda q: 9.81 * q[1] + (speed / size) ** 2 * (q[2] ** 2 + q[3] ** 2) / 2,
        holonomic=lambda q: q[0] ** 2 + q[1] ** 2 - length**2,
    )
    return system, {"q": [length, 0.0, size, 0.0], "v": [0.0, 0.0, 0.0, speed]}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", LARGE)
def test_a_small_mechanism_beside_a_large_one(case, method):
    length = LARGE[case][0]
    system, start = beside(*LARGE[case])
    h = 0.06 * np.sqrt(length / 9.81)
    sol = da.simulate(system, method, **start, t_end=100 * h, step=h, compile=False)
    assert np.abs(sol.residual("position")).max() < 4e-15 * length**2
    if "velocity" in sol.method.exact_levels:
        assert np.abs(sol.residual("velocity")).max() < 1e-13 * length * np.sqrt(9.81 * length)


def test_groups():
    q, v = ca.SX.sym("q", 4), ca.SX.sym("v", 4)
    found = scales.groups((q, v), (v, ca.vertcat(q[0], q[1], q[3], q[2])), ca.vertcat(q[0] * q[1]))
    assert found.count == 2
    assert found.variables == ((0, 0, 1, 1), (0, 0, 1, 1))
    assert found.rows == (0,)
    sizes = scales.typical(ca.SX(ca.DM([3.0, 4.0, 0.0, 2.0])), found.variables[0], found.count)
    np.testing.assert_allclose(ca.evalf(sizes).full().ravel(), [np.sqrt(12.5), np.sqrt(2.0)])
    np.testing.assert_allclose(ca.evalf(scales.spread(sizes, (1, 0, 1))).full().ravel(), np.sqrt([2.0, 12.5, 2.0]))


def test_states_of_port_hamiltonian_systems_and_daes():
    """Two circuits that do not touch, of 1e-9 and 1e9; two equations likewise."""
    ports = da.PortHamiltonian(
        4,
        hamiltonian=lambda x: x @ x / 2,
        J=[[0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1], [0, 0, -1, 0]],
        initial={"x": [1e-9, 0.0, 1e9, 0.0]},
    )
    for method in ("discrete-gradient", "gauss-2", "midpoint"):
        sol = da.simulate(ports, method, t_end=2.0, step=0.1, compile=False)
        assert np.abs((sol.x[:, 0] ** 2 + sol.x[:, 1] ** 2) / 1e-18 - 1).max() < 1e-13
    dae = da.IndexOneDAE(
        2,
        f=lambda y, z: [z[0], z[1]],
        g=lambda y, z: [z[0] + z[0] ** 3 + y[0], z[1] + z[1] ** 3 / 1e24 + y[1]],
        algebraic=2,
        initial={"y": [1e-9, 1e9], "z": [-1e-9, -9e8]},
    )
    sol = da.simulate(dae, "radau-iia-3", **da.consistent(dae), t_end=1.0, step=0.1, compile=False)
    z, y = sol.z[:, 0], sol.y[:, 0]
    assert np.abs((z + z**3 + y) / y).max() < 1e-15
    np.testing.assert_allclose(y[-1], 1e-9 * np.exp(-1.0), rtol=1e-7)


Q, V, PULL, H = np.array([0.6, -0.8, 1.4, -1.4]), np.array([0.8, 0.6, -0.2, 0.5]), 6.66, 0.01
G = np.array([[1.2, -1.6, 0, 0], [-1.6, 1.2, 1.6, -1.2]])
# dG/dq has the entries 2, 2 for the first rod and 2 eight times for the second
REACH = np.array([2.0 / np.sqrt(8), np.sqrt(8.0) / np.sqrt(32)])


def rms(x):
    return np.sqrt(np.mean(np.square(x)))


LENGTH = rms(Q) + rms(REACH)


def of_double_pendulum(make):
    """An expression of the double pendulum at a state, for a step forwards and one backwards."""
    s, h = da.catalog.double_pendulum(), ca.SX.sym("h")
    one = scales.Motion(s, h, scales.groups((s.q, s.v), (s.v, s.force()), s.role("drift")))
    f = ca.Function("f", [s.q, s.v, h, s.par], [ca.densify(make(s, one))])
    return [np.array(f(Q, V, sign * H, s.pack())).ravel() for sign in (1, -1)]


def test_lengths_are_those_of_positions_and_rods():
    np.testing.assert_allclose(of_double_pendulum(lambda s, one: s.role("radius"))[0], REACH, rtol=1e-14)
    np.testing.assert_allclose(of_double_pendulum(lambda s, one: one.length())[0], LENGTH, rtol=1e-14)


def test_sizes_of_the_constraints():
    """The terms of each residual, and what one step adds to them, over eight; whatever the sign of the step."""
    position = (np.abs(G) @ np.abs(Q) + np.abs(G).sum(axis=1) * (H * rms(V) + H**2 * PULL + REACH)) / 8
    velocity = (np.abs(G) @ np.abs(V) + np.abs(G).sum(axis=1) * (H * PULL + 1e-6 * LENGTH / H)) / 8
    for level, size in (("position", position), ("velocity", velocity)):
        for found in of_double_pendulum(lambda s, one, level=level: one.levels(s.v, ca.SX(PULL))[level]):
            np.testing.assert_allclose(found, size, rtol=1e-14)


def test_sizes_of_the_motion():
    """Of the form, with the weights of the bobs as free acceleration."""
    s, h = da.catalog.double_pendulum(), ca.SX.sym("h")
    sizes = s.rate_form(h).sizes
    f = ca.Function("f", [s.q, s.v, h, s.par], [sizes[name] for name in ("q", "v", "w")])
    free = rms([0.0, s.parameters["g"], 0.0, s.parameters["g"]])
    rate, speed = rms(V) / H + free + 1e-6 * LENGTH / H**2, rms(V) + H * free + 1e-6 * LENGTH / H
    for sign in (1, -1):
        found = [float(x) for x in f(Q, V, sign * H, s.pack())]
        np.testing.assert_allclose(found, [H * rate, rate, speed], rtol=1e-14)


@pytest.mark.parametrize("method", ["rattle", "energy-momentum-ggl"])
def test_a_curve_that_is_straight_in_passing_is_no_excuse(method):
    """`y = cos x` has no curvature at a right angle: its radius there is not a length to measure positions by."""
    wire = da.Mechanical(
        ["x", "y"], mass=np.eye(2), potential=lambda q: 9.81 * q[1], holonomic=lambda q: q[1] - np.cos(q[0])
    )  # fmt: skip
    sol = da.simulate(wire, method, q=[np.pi / 2, np.cos(np.pi / 2)], v=[1.0, -1.0], t_end=0.5, step=0.01, compile=False)
    assert np.abs(sol.residual("position")).max() <= 2e-15
    assert np.abs(sol.residual("velocity")).max() <= 2e-13


def test_radii_where_there_is_no_curvature_and_where_there_is_none_aside():
    q = ca.SX.sym("q", 2)
    rows = ca.vertcat(q[1] - ca.cos(q[0]), q[0] + q[1], ca.sumsqr(q))
    radius = ca.Function("r", [q], [scales.radii(ca.jacobian(rows, q), q)])
    bent, straight, circle = (float(r) for r in radius([np.pi / 2, 0.0]).nz)
    assert 1 < bent < 100
    assert straight == 0
    np.testing.assert_allclose(circle, np.pi / 2 / np.sqrt(2), rtol=1e-14)
