"""What a run of a mechanism says of its bodies, joints, drives and sensors, against formulas."""

import numpy as np
import pytest

import dalembert as da

G = 9.81


def bar(length=1.0, rotation=None, gravity=(0, -G), **more):
    m = da.Mechanism(gravity=gravity, **more)
    m.rod("bar", (0, 0), (length, 0), mass=2.0, radius=0.01)
    m.revolute("pin", "ground", "bar", at=(0, 0))
    return m


@pytest.mark.parametrize("rotation", ["angles", "directors"])
def test_a_rotating_bar_is_held_by_its_centripetal_force(rotation):
    """Without gravity: `m w^2 l / 2` towards the pin; over many turns the angle goes on."""
    s = bar(gravity=(0, 0)).assemble(rotation=rotation, rates={"pin": 40.0})
    sol = da.simulate(s, "lobatto-pair-3", t_end=2.0, step=0.01, save_every=10)
    pin = sol.joint("pin")
    np.testing.assert_allclose(pin.angle, 40.0 * sol.t, rtol=1e-4)  # 0.64 turns from row to row
    reaction = pin.reaction_at(sol.t[:1])
    np.testing.assert_allclose(reaction.force, [[-2.0 * 1600 / 2, 0, 0]], atol=1e-10)
    np.testing.assert_allclose(reaction.torque[:, :2], 0, atol=1e-10)
    np.testing.assert_allclose(reaction.within("bar").force, reaction.force, atol=1e-10)


def test_the_reaction_of_a_pendulum_is_that_of_the_formula():
    """A bar let go at the angle a0 below the horizontal: `N = m l/2 w^2 + m g sin a` along, `m (g cos a - l/2 a'')` across."""
    s = bar().assemble()
    sol = da.simulate(s, "lobatto-pair-4", t_end=0.6, step=0.005)
    a, w = sol.joint("pin").angle, sol.joint("pin").rate
    J = 2.0 * (1 / 3 + 1e-4 / 4)
    turning = -2.0 * G * np.cos(a) / 2 / J
    along = -2.0 * w**2 / 2 + 2.0 * G * np.sin(a)
    across = 2.0 * turning / 2 + 2.0 * G * np.cos(a)
    force = sol.joint("pin").reaction_at(sol.t).within("bar").force
    np.testing.assert_allclose(force[:, 0], along, atol=1e-10)
    np.testing.assert_allclose(force[:, 1], across, atol=1e-10)
    np.testing.assert_allclose(sol.energy, sol.energy[0], atol=1e-10)
    np.testing.assert_array_equal(sol["pin.angle"], a)
    np.testing.assert_array_equal(sol["pin.angle_rate"], w)
    stored = sol.joint("pin").reaction
    assert stored.t is sol.t_lam
    np.testing.assert_allclose(stored.within("bar").force[:, 0], np.interp(stored.t, sol.t, along), atol=2e-2)


def test_reactions_of_a_static_truss():
    """Two bars at 45 degrees and a load of 100 at their joint: each has half of it and its own weight."""
    m = da.Mechanism(gravity=(0, -G))
    m.rod("left", (0, 0), (1, 1), mass=3.0)
    m.rod("right", (2, 0), (1, 1), mass=3.0)
    m.revolute("A", "ground", "left", at=(0, 0))
    m.revolute("B", "ground", "right", at=(2, 0))
    m.revolute("C", "left", "right", at=(1, 1))
    m.force("load", "left", direction=(0, -1), at=(1, 1))
    s = m.assemble()
    assert s.freedoms == 0
    sol = da.simulate(s, "gauss-2", t_end=0.1, step=0.05, u={"load": 100.0})
    W = 3.0 * G
    for name, sign in (("A", 1.0), ("B", -1.0)):
        r = sol.joint(name).reaction
        np.testing.assert_allclose(r.force[:, 1], 50 + W, atol=1e-10)
        np.testing.assert_allclose(r.force[:, 0], sign * (50 + W / 2), atol=1e-10)  # moments about C
        np.testing.assert_allclose(r.torque, 0, atol=1e-10)
    np.testing.assert_allclose(sol.joint("C").reaction.force, [[50 + W / 2, -50.0, 0]] * 2, atol=1e-10)


def test_a_slider_crank_at_constant_speed_by_newton_and_euler():
    """Crank r, rod l, piston M: accelerations by geometry, then forces from the piston back to the drive."""
    r, l, a, w, mass, M = 0.3, 1.0, 0.7, 20.0, 1.5, 2.5
    b = np.arcsin(r / l * np.sin(a))
    pin, end = np.array([r * np.cos(a), r * np.sin(a)]), np.array([r * np.cos(a) + l * np.cos(b), 0.0])
    m = da.Mechanism(gravity=(0, -G), parameters={"speed": w})
    m.rod("crank", (0, 0), pin, mass=1.0)
    m.rod("rod", pin, end, mass=mass, radius=0.01)
    m.body("piston", mass=M, inertia=0.1, position=end)
    m.revolute("O", "ground", "crank", at=(0, 0), axis="z")
    m.revolute("P", "crank", "rod", at=pin)
    m.revolute("Q", "rod", "piston", at=end)
    m.prismatic("slide", "ground", "piston", axis=(1, 0))
    m.motion("drive", "O", lambda t, speed: speed * t)
    s = m.assemble()
    assert s.freedoms == 0
    sol = da.simulate(s, "lobatto-pair-3", t_end=0.01, step=0.001)

    wb = -r * np.cos(a) * w / (l * np.cos(b))  # the rod's angle is -b: l sin b = r sin a
    alpha = (r * np.sin(a) * w**2 - l * np.sin(b) * wb**2) / (l * np.cos(b))
    ap = -(w**2) * pin
    along = np.array([np.cos(b), -np.sin(b)])
    across = np.array([np.sin(b), np.cos(b)])
    ac = ap + l / 2 * (alpha * across - wb**2 * along)
    aq = ap + l * (alpha * across - wb**2 * along)
    assert abs(aq[1]) < 1e-9
    J = mass * (l**2 / 12 + 1e-4 / 4)
    # unknowns: force P on the rod, force Q on the piston (x, y), normal force N on the piston
    lever = l / 2 * along
    A = np.zeros((5, 5))
    A[0, 0] = A[1, 1] = 1.0
    A[0, 2] = A[1, 3] = -1.0
    A[2] = [lever[1], -lever[0], lever[1], -lever[0], 0]  # moments about the middle: (-lever) x P + lever x (-Q)
    A[3, 2] = A[4, 3] = A[4, 4] = 1.0
    rhs = [mass * ac[0], mass * ac[1] + mass * G, J * alpha, M * aq[0], M * G]
    P, Q, N = np.split(np.linalg.solve(A, rhs), [2, 4])
    torque = pin[0] * P[1] - pin[1] * P[0] + 1.0 * G * pin[0] / 2  # the crank turns steadily
    for name, force in (("P", P), ("Q", Q), ("slide", [0, N[0]])):
        np.testing.assert_allclose(sol.joint(name).reaction_at(0.0).force[0, :2], force, atol=1e-10, rtol=1e-10, err_msg=name)
    lam = sol.at(0.0).lam
    assert -lam[s.drives["drive"]] == pytest.approx(torque, rel=1e-10)
    assert sol.drive("drive")[0] == pytest.approx(torque, rel=0.05)


def test_bodies_in_space():
    """A spinning body that flies: momenta, energies and angular velocity by the formulas."""
    m = da.Mechanism(gravity=(0, 0, -2.0))
    J, w, v = np.diag([0.4, 0.5, 0.6]), np.array([1.0, 2.0, -1.0]), np.array([3.0, 0.0, 1.0])
    m.body("b", mass=2.0, inertia=J, position=(1, 2, 3), velocity=v, angular_velocity=w, rotation=[0.5, 0.5, 0.5, 0.5])
    m.sensor("tip", "b", on=(0, 0, 1))
    m.sensor("speed", "b", measures="velocity", on=(0, 0, 1))
    m.sensor("felt", "b", measures="acceleration")
    m.sensor("far", "b", measures="distance", other="ground")
    sol = da.simulate(m.assemble(), "energy-momentum", t_end=0.5, step=0.01)
    b = sol.body("b")
    R = b.rotation[0]
    np.testing.assert_allclose(b.velocity[0], v, atol=1e-14)
    np.testing.assert_allclose(b.angular_velocity[0], w, atol=1e-14)
    np.testing.assert_allclose(b.angular_momentum[0], 2 * np.cross([1, 2, 3], v) + R @ J @ R.T @ w, atol=1e-13)
    np.testing.assert_allclose(b.kinetic, sol.kinetic, rtol=1e-13)
    np.testing.assert_allclose(b.potential, sol.potential, rtol=1e-13)
    np.testing.assert_allclose(b.energy, sol.energy[0], rtol=1e-13)
    np.testing.assert_allclose(sol.momentum("linear"), b.momentum)
    about = b.angular_momentum - 2 * np.cross(b.position, b.velocity)
    np.testing.assert_allclose(about, np.broadcast_to(about[0], about.shape), atol=1e-13)
    np.testing.assert_allclose(sol.sensor("tip"), b.position + b.rotation[:, :, 2], atol=1e-14)
    np.testing.assert_allclose(sol.sensor("speed")[0], v + np.cross(w, R[:, 2]), atol=1e-14)
    np.testing.assert_allclose(sol.sensor("felt"), [[0, 0, -2.0]] * len(sol.t), atol=1e-12)
    np.testing.assert_allclose(sol.sensor("far"), np.linalg.norm(b.position, axis=1))
    np.testing.assert_array_equal(sol["tip"], sol.sensor("tip"))
    np.testing.assert_array_equal(sol["speed.z"], sol.sensor("speed")[:, 2])
    assert (sol.unit("felt.x"), sol.unit("far")) == ("m/s^2", "m")
    data = sol.to_xarray()
    assert data["tip"].dims == ("time", "axis")
    assert data["far"].dims == ("time",)


def test_names_that_are_not_there():
    sol = da.simulate(bar().assemble(), "rattle", t_end=0.02, step=0.01)
    asked = [
        (lambda: sol.body("baar"), "did you mean 'bar'"),
        (lambda: sol.joint("pim"), "did you mean 'pin'"),
        (lambda: sol.joint("pin").displacement, "has no 'displacement'"),
        (lambda: sol.drive("x"), "no prescribed motion"),
        (lambda: sol.sensor("x"), "no sensor"),
        (lambda: sol.joint("pin").reaction.within("x"), "no body 'x'"),
    ]
    for ask, said in asked:
        with pytest.raises(da.DalembertError, match=said):
            ask()
    assert str(sol).splitlines()[3].split() == ["degrees", "of", "freedom", "1"]


def test_results_go_through_a_file(tmp_path):
    sol = da.simulate(bar().assemble(), "rattle", t_end=0.1, step=0.01)
    sol.save(tmp_path / "run.nc")
    again = da.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(again.joint("pin").angle, sol.joint("pin").angle)
    np.testing.assert_allclose(again.joint("pin").reaction.force, sol.joint("pin").reaction.force, rtol=1e-14)
