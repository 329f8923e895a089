"""Linear equations and modes: against formulas, between descriptions of one system, and against python-control."""

import numpy as np
import pytest

import dalembert as da
from analysis.test_statics import springs
from conftest import angle_pendulum, driven_pendulum, polar_rod
from dalembert.analysis.observed import observed

DOWN = {"q": [0.0, -1.0, 0.0, -2.0]}


def damped_pair():
    """Two masses, springs and dampers, a force on the second: `M x'' + D x' + K x = b u`."""
    M, D, K = np.diag([2.0, 1.0]), np.array([[0.7, -0.3], [-0.3, 0.3]]), np.array([[5.0, -2.0], [-2.0, 2.0]])
    system = da.Mechanical(
        ("x", "y"), mass=M, potential=lambda q: q @ K @ q / 2, dissipation=D, inputs=[[0.0], [1.0]], initial={"q": [0.0, 0.0]}
    )
    return system, M, D, K


def test_frequencies_of_a_chain_of_springs():
    n, k, m = 8, 3.0, 2.0
    exact = 2 * np.sqrt(k / m) * np.sin(np.arange(1, n + 1) * np.pi / (2 * (n + 1)))
    modes = da.modes(springs(n, k, m), at={"q": np.zeros(n)})
    assert np.abs(modes.omega - exact).max() < 1e-13
    assert np.abs(modes.damping).max() == 0.0
    for j, mode in enumerate(modes, 1):
        shape = np.sin(j * np.arange(1, n + 1) * np.pi / (n + 1))
        cosine = abs(shape @ mode.shape) / np.linalg.norm(shape) / np.linalg.norm(mode.shape)
        assert abs(cosine - 1) < 1e-12


def test_a_pendulum_on_a_rod_in_cartesian_coordinates():
    modes = da.modes(da.catalog.simple_pendulum(l=1.7, m=0.3), at={"q": [0.0, -1.7]})
    assert abs(modes[0].omega ** 2 - 9.81 / 1.7) < 1e-13
    assert abs(modes[0].frequency - np.sqrt(9.81 / 1.7) / (2 * np.pi)) < 1e-14
    assert np.abs(modes[0].shape - [1.0, 0.0]).max() < 1e-15
    assert modes.shapes.shape == (1, 2)


def test_the_double_pendulum_agrees_in_all_its_descriptions():
    double = da.catalog.double_pendulum()
    minimal = da.linearize(angle_pendulum(), at={"q": [0.0, 0.0]}).eigenvalues
    others = [
        da.linearize(double, at=DOWN),
        da.linearize(double.to_hamiltonian(), at=DOWN),
        da.linearize(double.to_port_hamiltonian(), at=da.equilibrium(double.to_port_hamiltonian(), x=[*DOWN["q"], *6 * [0.0]])),
        da.linearize(double.to_dae("index3"), at=da.equilibrium(double.to_dae("index3"), y=[*DOWN["q"], *4 * [0.0]])),
    ]
    assert np.abs(minimal.real).max() == 0.0
    for linear in others:
        assert linear.A.shape == (4, 4)
        assert np.abs(np.sort(linear.eigenvalues.imag) - np.sort(minimal.imag)).max() < 1e-10
        assert np.abs(linear.eigenvalues.real).max() < 1e-10
        assert linear.equilibrium
    assert others[0].states == ("x1", "x2", "v_x1", "v_x2")


def test_dependent_constraints_change_nothing():
    twice = da.Mechanical(
        ("x", "y"), mass=1.0, potential=lambda q: 9.81 * q[1], parameters={"l": 1.7},
        holonomic=lambda q, l: [q[0] ** 2 + q[1] ** 2 - l**2, 3 * (q[0] ** 2 + q[1] ** 2 - l**2)],
    )  # fmt: skip
    assert abs(da.modes(twice, at=da.equilibrium(twice, q=[0.1, -1.6]))[0].omega ** 2 - 9.81 / 1.7) < 1e-12


def test_polar_coordinates_with_a_varying_mass():
    rod = polar_rod()
    assert abs(da.modes(rod, at={"q": [1.3, 0.0]})[0].omega ** 2 - 9.81 / 1.3) < 1e-12


def test_damped_masses_against_their_matrices():
    system, M, D, K = damped_pair()
    linear = da.linearize(system, outputs=["x", "y", "v_y"])
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(M, K), -np.linalg.solve(M, D)]])
    assert np.abs(linear.A - A).max() < 1e-14
    assert np.abs(linear.B[:, 0] - [0, 0, 0, 1]).max() < 1e-15
    for w in (0.3, 1.9):
        x = np.linalg.solve(K + 1j * w * D - w**2 * M, [0.0, 1.0])
        assert np.abs(linear.transfer(w)[:, 0] - [*x, 1j * w * x[1]]).max() < 1e-13
    modes = linear.modes()
    assert np.abs(np.sort_complex([m.eigenvalue for m in modes]) - np.sort_complex(x := np.linalg.eigvals(A))[1::2]).max() < 1e-12
    assert all(0 < m.damping < 1 for m in modes)
    assert len(x) == 2 * len(modes)


def test_a_network_against_the_formula_of_its_ladder():
    R, L, C = 1.0, 0.5, 0.2
    ladder = da.catalog.rlc_ladder(3, R, L, C)
    linear = da.linearize(ladder, outputs=["v_n3", "i_source"])
    for w in (0.1, 1.0, 2.5, 40.0):
        chain = np.eye(2, dtype=complex)
        for _ in range(3):
            chain = chain @ np.array([[1, R + 1j * w * L], [0, 1]]) @ np.array([[1, 0], [1j * w * C, 1]])
        assert np.abs(linear.transfer(w)[:, 0] - [1 / chain[0, 0], -chain[1, 0] / chain[0, 0]]).max() < 1e-12
    assert len(linear.states) == 6
    several = linear.transfer([0.1, 1.0])
    assert several.shape == (2, 2, 1)
    assert np.abs(several[0] - linear.transfer(0.1)).max() < 1e-15
    output = da.linearize(ladder)  # the outputs of the ports
    assert np.abs(output.transfer(1.0)[0, 0] + linear.transfer(1.0)[1, 0]).max() < 1e-12


def test_an_output_that_differentiates_an_input_has_no_state_space_form_but_a_transfer_function():
    capacitor = da.catalog.circuit(
        [("V", "source", "a", "ground"), ("C", "c", "a", "ground", 0.3), ("R", "r", "a", "ground", 2.0)]
    )
    linear = da.linearize(capacitor, outputs=["i_source"])
    assert linear.A.shape == (0, 0)
    assert abs(linear.transfer(5.0)[0, 0] + (1 / 2.0 + 5j * 0.3)) < 1e-14
    with pytest.raises(da.MethodError, match="'i_source' depends on the rate of input 'source'"):
        linear.to_control()


def test_multipliers_and_functions_are_outputs():
    cart = da.Mechanical(
        ("x", "y"), mass=1.0, potential=lambda q: 9.81 * q[1], holonomic=lambda q: q[0] ** 2 + q[1] ** 2 - 1,
        inputs=[[0.0], [1.0]], initial={"q": [0.0, -1.0]},
    )  # fmt: skip
    linear = da.linearize(cart, outputs={"pull": lambda lam: 2 * lam[0], "angle": lambda q: np.arctan2(q[0], -q[1]), "y": "y"})
    assert linear.outputs == ("pull", "angle", "y")
    assert abs(linear.D[0, 0] + 1.0) < 1e-13  # an upward force relieves the rod at once
    assert np.abs(linear.C[1] - [1.0, 0.0]).max() < 1e-14
    assert observed(driven_pendulum(), "energy").names == ("energy",)


def test_slopes_away_from_rest_are_those_of_the_motion_on_the_constraints():
    double = da.catalog.double_pendulum()
    start = da.consistent(double, q=[0.6, -0.8, 0.9, -1.7], v=[0.5, 0.2, -0.4, 1.0])
    linear = da.linearize(double, at=start)
    assert not linear.equilibrium
    picked = [[*double.coordinates, *(f"v_{c}" for c in double.coordinates)].index(name) for name in linear.states]

    def rates(x):
        moved = da.consistent(double, q=x[:4], v=x[4:])
        a = da.analysis.ode(double)(0.0, np.concatenate([moved.q, moved.v]))
        return a[picked], np.concatenate([moved.q, moved.v])[picked]

    x, e = np.concatenate([start.q, start.v]), 1e-5
    T = linear.local.T[:8]
    for k in range(len(picked)):
        (up, s1), (down, s0) = rates(x + e * T[:, k]), rates(x - e * T[:, k])
        expected = linear.A @ (s1 - s0)
        assert np.abs(up - down - expected).max() < 1e-8 * np.abs(linear.A).max()


def test_python_control_gets_the_same_system():
    control = pytest.importorskip("control")
    system, *_ = damped_pair()
    linear = da.linearize(system)
    model = linear.to_control()
    assert model.state_labels == list(linear.states)
    assert model.input_labels == ["u1"]
    assert np.abs(model(1.3j) - linear.transfer(1.3)).max() < 1e-13
    assert np.abs(np.sort_complex(control.poles(model)) - np.sort_complex(linear.eigenvalues)).max() < 1e-12


def test_python_control_gets_names_without_dots():
    """Coordinates of a mechanism are called `cart.x`, which python-control takes for a signal of a subsystem."""
    pytest.importorskip("control")
    m = da.Mechanism(gravity=(0, -9.81))
    m.body("cart", mass=2.0, inertia=0.1)
    m.prismatic("rail", "ground", "cart", axis=(1, 0))
    m.motor("push", "rail")
    model = da.linearize(m.assemble(), outputs=["cart.x"]).to_control()
    assert (model.input_labels, model.output_labels) == (["push"], ["cart_x"])


def test_a_rolling_body_is_linearised_with_its_nonholonomic_constraint():
    sled = da.Mechanical(
        ("x", "y", "a"), mass=[1.0, 1.0, 0.2], potential=lambda q: 2.0 * q[0] ** 2,
        nonholonomic=lambda q, v: np.sin(q[2]) * v[0] - np.cos(q[2]) * v[1],
    )  # fmt: skip
    linear = da.linearize(sled, at={"q": [0.0, 0.3, 0.0]})
    assert linear.A.shape == (5, 5)  # three positions, two velocities
    assert np.abs(np.sort(linear.eigenvalues.imag) - [-2, 0, 0, 0, 2]).max() < 1e-7
    assert "v_y" not in linear.states


def test_a_floating_body_has_a_mode_of_frequency_zero_once():
    free = da.Mechanical(("x", "y"), mass=[1.0, 2.0], potential=lambda q: 3 * (q[0] - q[1]) ** 2)
    modes = da.modes(free, at={"q": [0.0, 0.0]})
    assert np.abs(modes.omega - [0.0, 3.0]).max() < 1e-12
    assert "frequency" in str(modes)
    assert np.abs(modes[0].shape - [1.0, 1.0]).max() < 1e-12


def test_pictures_of_modes_and_responses(tmp_path):
    double = da.catalog.double_pendulum()
    mode = da.modes(double, at=DOWN)[1]
    ax = mode.plot()
    assert "0.705" in ax.get_title(loc="left")
    path = mode.animate(tmp_path / "mode.gif", fps=10, seconds=0.6)
    assert path.stat().st_size > 1000
    moved = mode.motion(0.3, 21)
    assert np.abs(moved.residual("position")).max() < 1e-12  # rods keep their lengths
    assert np.abs(moved.q[0] - moved.q[-1]).max() < 1e-12
    figure = da.linearize(damped_pair()[0]).bode()
    assert len(figure.axes) == 2
    assert len(figure.axes[0].lines) == 2
    bars = da.modes(springs(3), at={"q": np.zeros(3)})[0].plot()
    assert len(bars.patches) == 3


def test_bad_calls_are_refused_in_words():
    double = da.catalog.double_pendulum()
    with pytest.raises(da.InconsistentState, match=r"violates constraint 1 of 2 \(position\)"):
        da.linearize(double, at={"q": [0.0, -1.1, 0.0, -2.1]})
    with pytest.raises(da.MethodError, match="nothing called 'x3' to measure"):
        da.linearize(double, at=DOWN, outputs=["x3"])
    with pytest.raises(da.MethodError, match="has no inputs"):
        da.linearize(double, at=DOWN).bode()
    with pytest.raises(da.MethodError, match="at must be a dictionary"):
        da.linearize(double, at=3)
    with pytest.raises(da.MethodError, match="two outputs are called 'x1'"):
        da.linearize(double, at=DOWN, outputs=["x1", "q"])
    moving = double.to_dae("index2")
    with pytest.raises(da.ModelError, match="is not at rest at this point"):
        da.linearize(moving, at=da.consistent(moving, y=[0.6, -0.8, 1.2, -1.6, 0, 0, 0, 0]))
    with pytest.raises(da.MethodError, match="for 3000 at most"):
        da.linearize(da.catalog.chain(700), at={"q": np.ravel([[0.0, -k] for k in range(1, 701)])})


def test_joints_and_sensors_of_a_mechanism_are_outputs():
    """Two rods that hang: the tip moves to the side by the angles times the lengths, in any coordinates."""
    m = da.Mechanism()
    m.rod("upper", (0, 0, 0), (0, 0, -1), mass=1.0)
    m.rod("lower", (0, 0, -1), (0, 0, -3), mass=1.0)
    m.revolute("shoulder", "ground", "upper", at=(0, 0, 0), axis="y")
    m.revolute("elbow", "upper", "lower", at=(0, 0, -1), axis="y")
    m.motor("drive", "shoulder")
    m.sensor("tip", "lower", at=(0, 0, -3))
    m.sensor("speed", "lower", measures="velocity", at=(0, 0, -3))
    outputs = ["shoulder.angle", "elbow.angle", "tip.x", "speed.x", "elbow.angle_rate"]
    found = [da.linearize(m.assemble(coordinates=c), outputs=outputs) for c in ("absolute", "joint")]
    for linear in found:
        angles, rates = linear.C[:2], linear.C[:2] @ linear.A
        np.testing.assert_allclose(linear.C[2], [-3, -2] @ angles, atol=1e-12)
        np.testing.assert_allclose(linear.C[3], [-3, -2] @ rates, atol=1e-12)
        np.testing.assert_allclose(linear.C[4], rates[1], atol=1e-12)
        assert linear.outputs == tuple(outputs)
    np.testing.assert_allclose(found[0].transfer(1.5), found[1].transfer(1.5), rtol=1e-9)
    with pytest.raises(da.MethodError, match=r"nothing called 'tip\.w' to measure"):
        da.linearize(m.assemble(coordinates="joint"), outputs=["tip.w"])
