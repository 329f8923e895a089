"""Interconnection: the whole against one written by hand, power, and what cannot be joined."""

import numpy as np
import pytest

import dalembert as da

SKEW = [[0, 1], [-1, 0]]


def oscillator(k=1.0, m=1.0, d=0.05):
    return da.PortHamiltonian(
        ("q", "p"), hamiltonian=lambda x, k, m: x[1] ** 2 / (2 * m) + k * x[0] ** 4 / 4, J=SKEW, R=lambda d: [[0, 0], [0, d]],
        B=[[0], [1]], parameters={"k": k, "m": m, "d": d}, ports=("force",), initial={"x": [1.0, 0.0]},
    )  # fmt: skip


def test_feedback_against_one_system_by_hand():
    a, b = oscillator(), oscillator(2.0, 3.0, 0.1)
    whole = da.connect({"a": a, "b": b}, [da.Feedback("a.force", "b.force", 0.7)], open=["a.force", "b.force"])
    J = np.zeros((4, 4))
    J[:2, :2] = J[2:, 2:] = SKEW
    J[1, 3], J[3, 1] = 0.7, -0.7
    hand = da.PortHamiltonian(
        4, hamiltonian=lambda x: x[1] ** 2 / 2 + x[0] ** 4 / 4 + x[3] ** 2 / 6 + 2 * x[2] ** 4 / 4, J=J,
        R=[0, 0.05, 0, 0.1], B=[[0, 0], [1, 0], [0, 0], [0, 1]],
    )  # fmt: skip
    u = lambda t: [np.sin(t), np.cos(2 * t)]  # noqa: E731
    x = [1.0, 0.0, 1.0, 0.0]
    left, right = (da.simulate(s, "discrete-gradient", x=x, t_end=5.0, step=0.02, u=u) for s in (whole, hand))
    np.testing.assert_allclose(left.x, right.x, atol=1e-12)
    np.testing.assert_allclose(left.energy, right.energy, atol=1e-13)
    assert np.abs(left.power_balance).max() < 1e-14
    assert whole.coordinates == ("a_q", "a_p", "b_q", "b_p")
    assert whole.ports == ("a_force", "b_force")
    softer = da.simulate(whole, "discrete-gradient", x=x, t_end=1.0, step=0.02, parameters={"b_k": 0.5})
    assert np.abs(softer.x[-1] - left.x[50]).max() > 1e-3


def test_the_hamiltonian_is_the_sum():
    a, b = oscillator(), da.catalog.dc_motor()
    whole = da.connect({"a": a, "motor": b}, [("a.force", "motor.torque")])
    x = np.array([0.3, 0.2, 0.01, 0.002])
    total = a.at("hamiltonian", x[:2])[0, 0] + b.at("hamiltonian", x[2:])[0, 0]
    assert whole.at("hamiltonian", x)[0, 0] == pytest.approx(total, rel=1e-15)


def test_kinematic_coupling_of_two_mechanical_systems_against_one():
    """Two carts with springs joined at their velocities are one cart with both masses and both springs."""
    spring = {
        "potential": lambda q, k: k * q[0] ** 4 / 4 + k * q[0] ** 2 / 2,
        "inputs": [[1.0]],
        "initial": {"q": [0.5], "v": [0.2]},
    }
    a = da.Mechanical(1, mass=lambda m: m, parameters={"m": 1.0, "k": 2.0}, **spring)
    b = da.Mechanical(1, mass=lambda m: m, parameters={"m": 3.0, "k": 1.0}, **spring)
    whole = da.connect({"a": a.to_port_hamiltonian(), "b": b.to_port_hamiltonian()}, [da.Couple({"a.u1": 1.0, "b.u1": -1.0})])
    one = da.Mechanical(1, mass=4.0, potential=lambda q: 3 * q[0] ** 4 / 4 + 3 * q[0] ** 2 / 2, initial=spring["initial"])
    method = da.methods.DiscreteGradient(gradient="equivariant")
    left = da.simulate(whole, method, t_end=5.0, step=0.02)
    right = da.simulate(one, da.methods.EnergyMomentum(compensated=False), t_end=5.0, step=0.02)
    np.testing.assert_allclose(left.x[:, 0], right.q[:, 0], atol=1e-11)
    np.testing.assert_allclose(left.x[:, 2], right.q[:, 0], atol=1e-11)
    np.testing.assert_allclose(left.energy, right.energy, atol=1e-12)


def test_constraints_of_joined_mechanisms_are_kept():
    """Two pendulums in the wind, joined by a gyrator: g at round-off, the balance too, and the motion of one system by hand."""
    a = da.catalog.windy_pendulum()
    whole = da.connect({"a": a, "b": a}, [da.Feedback("a.u1", "b.u1", 0.7)])
    sol = da.simulate(whole, "discrete-gradient", t_end=3.0, step=0.01)
    assert np.abs(sol.residual("position")).max() < 1e-13
    assert np.abs(sol.power_balance).max() < 1e-13
    assert np.abs(sol.x[:, :2] - sol.x[:, 5:7]).max() > 1e-3
    hand = da.Mechanical(
        4, mass=1.0, potential=lambda q: 9.81 * (q[1] + q[3]), dissipation=0.1,
        holonomic=lambda q: [(q[0] ** 2 + q[1] ** 2 - 1) / 2, (q[2] ** 2 + q[3] ** 2 - 1) / 2],
        force=lambda v: [0.7 * v[2], 0.0, -0.7 * v[0], 0.0],
    )  # fmt: skip
    one = da.simulate(hand, "energy-momentum", q=[1, 0, 1, 0], v=[0, 0, 0, 0], t_end=3.0, step=0.01)
    np.testing.assert_allclose(sol.x[:, [0, 1, 5, 6]], one.q, atol=1e-9)


def test_a_general_relation_is_the_coupling_it_says():
    a, b = oscillator(), oscillator(2.0, 3.0)
    couple = da.connect({"a": a, "b": b}, [da.Couple({"a.force": 1, "b.force": -1})])
    relation = da.connect({"a": a, "b": b}, [da.Relation(["a.force", "b.force"], [[1, -1], [0, 0]], [[0, 0], [1, 1]])])
    x = [1.0, 0.0, 1.0, 0.0, 0.0]
    left, right = (da.simulate(s, "discrete-gradient", x=x, t_end=5.0, step=0.02) for s in (couple, relation))
    np.testing.assert_allclose(left.x[:, :4], right.x[:, :4], atol=1e-12)
    assert relation.nu == couple.nu == 0
    gyrator = da.connect({"a": a, "b": b}, [da.Relation(["a.force", "b.force"], [[0, 0.7], [-0.7, 0]], [[-1, 0], [0, -1]])])
    feedback = da.connect({"a": a, "b": b}, [da.Feedback("a.force", "b.force", 0.7)])
    x = [1.0, 0.0, 1.0, 0.0]
    left, right = (da.simulate(s, "discrete-gradient", x=x, t_end=5.0, step=0.02) for s in (gyrator, feedback))
    np.testing.assert_allclose(left.x, right.x, atol=1e-12)


def test_networks():
    """An RC circuit charges as it should; a transformer and a gyrator keep power."""
    rc = da.catalog.circuit([("V", "source", "in", "ground"), ("R", "R1", "in", "out", 2.0), ("C", "C1", "out", "ground", 0.5)])
    sol = da.simulate(rc, "gauss-3", t_end=3.0, step=0.01, u=[1.0])
    out = sol.x[:, rc.coordinates.index("v_out")]
    np.testing.assert_allclose(out[1:], 1 - np.exp(-sol.t[1:] / 1.0), atol=1e-9)
    parts = [
        ("I", "I1", "ground", "a"),
        ("C", "C1", "a", "ground", 0.3),
        ("L", "L1", "b", "ground", 0.4),
        ("R", "R1", "b", "ground", 5.0),
    ]
    for extra in (("gyrator", "G", "a", "ground", "b", "ground", 0.8), ("transformer", "T", "a", "ground", "b", "ground", 2.0)):
        network = da.catalog.circuit([*parts, extra])
        sol = da.simulate(network, "discrete-gradient", t_end=3.0, step=0.01, u=lambda t: [np.sin(3 * t)])
        assert np.abs(sol.power_balance).max() < 1e-14
        assert sol.dissipated.sum() > 1e-3
    if network.has("E"):
        ratio = sol.costates[:, network.coordinates.index("v_a")] / sol.costates[:, network.coordinates.index("v_b")]
        np.testing.assert_allclose(ratio[5:], 2.0, rtol=1e-9)


def test_an_energy_of_time_beside_one_without():
    """`H = (1 + t) x^2 / 2` with its own term `r`, joined with an oscillator that has none: both move as they do alone."""
    timed = da.PortHamiltonian(
        ("a",), hamiltonian=lambda x, t: (1 + t) * x[0] ** 2 / 2, R=[[0.3]], B=[[1.0]], r=lambda x, t: [x[0] / (2 * (1 + t))],
        z=lambda x, t: [(1 + t) * x[0]], ports=("push",), initial={"x": [1.0]},
    )  # fmt: skip
    other = oscillator()
    whole = da.connect({"one": timed, "two": other}, [])
    u = lambda t: [0.2, np.sin(t)]  # noqa: E731
    both = da.simulate(whole, "gauss-3", x=[1.0, 1.0, 0.0], t_end=2.0, step=0.02, u=u)
    one = da.simulate(timed, "gauss-3", t_end=2.0, step=0.02, u=[0.2])
    two = da.simulate(other, "gauss-3", t_end=2.0, step=0.02, u=lambda t: [np.sin(t)])
    np.testing.assert_allclose(both.x, np.hstack([one.x, two.x]), atol=1e-13)


def test_what_cannot_be_joined():
    a, b = oscillator(), oscillator()
    with pytest.raises(da.ModelError, match=r"no port 'a\.forse'; did you mean 'a\.force'"):
        da.connect({"a": a, "b": b}, [("a.forse", "b.force")])
    with pytest.raises(da.ModelError, match="with itself"):
        da.connect({"a": a}, [("a.force", "a.force")])
    with pytest.raises(da.ModelError, match="is a Mechanical"):
        da.connect({"a": da.catalog.simple_pendulum()}, [])
    with pytest.raises(da.ModelError, match="ports of different size"):
        da.connect({"a": a, "b": b}, [da.Relation(["a.force", "b.force"], [[1.0]], [[1.0]])])
    with pytest.raises(da.ModelError, match="does not preserve power"):
        da.connect({"a": a, "b": b}, [da.Relation(["a.force", "b.force"], np.eye(2), np.eye(2))])
    direct = da.PortHamiltonian(1, hamiltonian=lambda x: x[0] ** 2 / 2, R=[[1.0]], B=[[1.0]], S=[[1.0]])
    with pytest.raises(da.ModelError, match="algebraic loop"):
        da.connect({"a": direct, "b": oscillator()}, [("a.u1", "b.force")])
    with pytest.raises(da.ModelError, match="a rule is"):
        da.connect({"a": a}, [3])
    with pytest.raises(da.ModelError, match="is not a component"):
        da.catalog.circuit([("X", "a", "b", "c", 1.0)])
    with pytest.raises(da.ModelError, match="connected to the node 'ground'"):
        da.catalog.circuit([("R", "R1", "a", "b", 1.0)])


def test_joined_ports_are_closed():
    """What a rule joins is closed; what none joins is open, and so is what is asked for: a load on the shaft."""
    motor, wheel = da.catalog.dc_motor(), oscillator()
    rule = da.Couple({"motor.torque": 1, "wheel.force": -1})
    drive = da.connect({"motor": motor, "wheel": wheel}, [rule])
    assert drive.ports == ("motor_voltage",)
    loaded = da.connect({"motor": motor, "wheel": wheel}, [rule], open=["wheel.force"])
    assert loaded.ports == ("motor_voltage", "wheel_force")
    runs = {"x": [0.0, 0.0, 0.0, 0.0, 0.0], "t_end": 0.2, "step": 0.002}
    one = da.simulate(drive, "discrete-gradient", u={"motor_voltage": 12.0}, **runs)
    two = da.simulate(loaded, "discrete-gradient", u={"motor_voltage": 12.0}, **runs)
    np.testing.assert_array_equal(one.x, two.x)
    braked = da.simulate(loaded, "discrete-gradient", u={"motor_voltage": 12.0, "wheel_force": -0.01}, **runs)
    assert np.abs(braked.power_balance).max() < 1e-15
    assert np.abs(braked.x - two.x).max() > 1e-4
    with pytest.raises(da.ModelError, match=r"no port 'wheel.torque'.*did you mean 'wheel.force'"):
        da.connect({"motor": motor, "wheel": wheel}, [rule], open=["wheel.torque"])
    relation = da.Relation(["motor.torque", "wheel.force"], [[1, -1], [0, 0]], [[0, 0], [1, 1]])
    with pytest.raises(da.ModelError, match="cannot stay open"):
        da.connect({"motor": motor, "wheel": wheel}, [relation], open=["wheel.force"])
