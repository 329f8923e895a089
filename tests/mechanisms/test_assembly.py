"""From a drawing to a system: coordinates, constraints, the start, degrees of freedom, parameters, files."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dalembert as da


def four_bar(**more):
    m = da.Mechanism(gravity=(0, -9.81), name="four-bar", **more)
    m.rod("crank", (0, 0), (0, 1), mass=1.0)
    m.rod("coupler", (0, 1), (3, 2), mass=2.0)
    m.rod("rocker", (3, 2), (2.5, 0), mass=1.5)
    m.revolute("A", "ground", "crank", at=(0, 0))
    m.revolute("B", "crank", "coupler", at=(0, 1))
    m.revolute("C", "coupler", "rocker", at=(3, 2))
    m.revolute("D", "rocker", "ground", at=(2.5, 0))
    return m


def pendulum(n=1, axis="y"):
    m = da.Mechanism(name="pendulum")
    for i in range(n):
        m.rod(f"rod{i}", (i, 0, 0), (i + 1, 0, 0), mass=1.0)
        m.revolute(f"hinge{i}", f"rod{i - 1}" if i else "ground", f"rod{i}", at=(i, 0, 0), axis=axis)
    return m


def test_coordinates_and_counts_in_the_plane():
    s = four_bar().assemble()
    assert (s.n, s.m, s.freedoms) == (9, 8, 1)
    assert s.coordinates[:3] == ("crank.x", "crank.y", "crank.theta")
    assert [row.owner for row in s.rows] == ["A", "A", "B", "B", "C", "C", "D", "D"]
    assert s.parameters["mass_crank"] == 1.0
    np.testing.assert_array_equal(s.parameters["gravity"], [0, -9.81])


def test_coordinates_and_counts_in_space():
    s = pendulum(3).assemble()
    assert (s.n, s.m, s.freedoms) == (36, 33, 3)
    assert sum(row.inner for row in s.rows) == 18


@pytest.mark.parametrize("rotation", ["angles", "directors"])
def test_a_pendulum_in_the_plane_is_the_physical_pendulum(rotation):
    m = da.Mechanism(gravity=(0, -9.81))
    m.body("bar", mass=2.0, inertia=0.3, position=(0.8, 0))
    m.revolute("pin", "ground", "bar", at=(0, 0))
    s = m.assemble(rotation=rotation)
    sol = da.simulate(s, "gauss-3", t_end=1.0, step=0.01)
    theta = da.Mechanical(("a",), mass=0.3 + 2.0 * 0.64, potential=lambda q: 2.0 * 9.81 * 0.8 * np.sin(q[0]))
    ref = da.simulate(theta, "gauss-3", q=[0.0], v=[0.0], t_end=1.0, step=0.01)
    np.testing.assert_allclose(sol.q[-1, :2], 0.8 * np.array([np.cos(ref.q[-1, 0]), np.sin(ref.q[-1, 0])]), atol=1e-8)


def test_energy_and_constraints_in_space_are_kept_to_round_off():
    sol = da.simulate(pendulum(2).assemble(), "energy-momentum", t_end=1.0, step=0.01)
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-13
    assert np.abs(sol.residual("position")).max() < 1e-14


def test_states_of_a_solution_are_consistent():
    """Also where all coordinates of a constraint are zero but for rounding: those across the plane of motion."""
    m = pendulum()
    m.rod("rod1", (1, 0, 0), (2, 0, 0), mass=1.0, radius=0.05)
    m.revolute("hinge1", "rod0", "rod1", at=(1, 0, 0), axis=(0, 1, 1))
    system = m.assemble()
    sol = da.simulate(system, "rattle", t_end=0.5, step=1e-3, save_every=50, compile=False)
    for q, v in zip(sol.q, sol.v, strict=True):
        again = da.consistent(system, q=q, v=v)
        assert np.abs(again["q"] - q).max() < 1e-14
        assert np.abs(again["v"] - v).max() < 1e-13


def test_rates_of_joints_are_those_of_the_start():
    s = four_bar().assemble(rates={"A": 2.0})
    v = s.initial["v"]
    assert v[2] == pytest.approx(2.0, abs=1e-14)
    assert np.abs(s.numeric("drift", s.pack(), q=s.initial["q"], v=v)).max() < 1e-14


def test_velocities_of_bodies_are_kept_where_the_joints_allow():
    m = da.Mechanism(gravity=(0, 0))
    m.body("bar", mass=2.0, inertia=0.3, position=(0.8, 0), velocity=(0, 1.6), angular_velocity=2.0)
    m.revolute("pin", "ground", "bar", at=(0, 0))
    np.testing.assert_allclose(m.assemble().initial["v"], [0, 1.6, 2.0], atol=1e-14)


def test_an_open_drawing_is_closed_and_pins_hold():
    m = da.Mechanism(gravity=(0, -9.81))
    m.rod("crank", (0, 0), (0, 1), mass=1.0)
    m.rod("coupler", (0.3, 1.2), (3.3, 2.2), mass=2.0)
    m.revolute("A", "ground", "crank", at=(0, 0))
    m.revolute("B", "crank", "coupler", on_a=(0.5, 0), on_b=(-np.sqrt(10) / 2, 0))
    s = m.assemble(pinned=["crank"])
    q = s.initial["q"]
    assert np.abs(s.numeric("holonomic", s.pack(), q=q)).max() < 1e-14
    np.testing.assert_allclose(q[:3], [0, 0.5, np.pi / 2], atol=1e-14)
    s = m.assemble(pinned={"A": 0.3})
    assert s.numeric("measures", s.pack(), q=s.initial["q"])[0, 0] == pytest.approx(0.3, abs=1e-14)


def test_pins_hold_with_quaternions_of_joints():
    """The length of a quaternion moves nothing but by rounding, which once counted as its weight."""
    m = da.Mechanism()
    m.body("arm", mass=1.0, inertia=[0.1, 0.2, 0.25], position=(0.3, 0.1, -0.2), rotation=Rotation.from_euler("x", 0.7))
    m.revolute("turn", "ground", "arm", at=(0.1, 0.2, 0.3), axis=(1, 2, 3))
    pins = {"turn": -0.9}
    for i, angle in enumerate((0.3, -1.1, 2.3)):
        m.body(
            f"hand{i}",
            mass=1.0,
            inertia=[0.1, 0.2, 0.25],
            position=(1.1, 0.4 * i, 0.7),
            rotation=Rotation.from_euler("xz", [angle, i]),
        )
        m.spherical(f"ball{i}", "arm", f"hand{i}", at=(0.8, 0.3, 0.2 * i))
        pins |= {f"ball{i}.angle_x": -0.6, f"ball{i}.angle_y": 0.4 + 0.1 * i, f"ball{i}.angle_z": 0.9}
    s = m.assemble(coordinates="joint", rotation="quaternion", pinned=pins)
    np.testing.assert_allclose(s.numeric("measures", s.pack(), q=s.initial["q"])[0], list(pins.values()), atol=1e-12)
    np.testing.assert_allclose((s.initial["q"][1:].reshape(3, 4) ** 2).sum(axis=1), 1, atol=1e-12)


def test_parameters_by_name_change_a_run():
    m = da.Mechanism(gravity=(0, -9.81))
    m.particle("ball", mass=2.0, position=(0, -1))
    m.spring("leaf", "ground", "ball", stiffness=50.0, length=1.0)
    s = m.assemble()
    sol = da.simulate(s, "gauss-2", t_end=0.5, step=0.01, parameters={"stiffness_leaf": 80.0, "mass_ball": 1.0})
    ref = da.Mechanical(("y",), mass=1.0, potential=lambda q: 40 * (-q[0] - 1) ** 2 + 9.81 * q[0])
    exact = da.simulate(ref, "gauss-2", q=[-1.0], v=[0.0], t_end=0.5, step=0.01)
    np.testing.assert_allclose(sol.q[:, 1], exact.q[:, 0], atol=1e-12)


def test_a_system_goes_through_a_file(tmp_path):
    s = four_bar().assemble(rates={"A": 1.0})
    again = pickle.loads(pickle.dumps(s))
    assert (again.rows, again.joints, again.freedoms) == (s.rows, s.joints, s.freedoms)
    sol = da.simulate(again, "rattle", t_end=0.1, step=0.01)
    sol.save(tmp_path / "run.nc")
    read = da.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(read.q, sol.q)
    assert read.system.joints == s.joints
    code = f"import dalembert as da; print(da.load({str(tmp_path / 'run.nc')!r}).system.freedoms)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_equal_parts_are_elements():
    s = pendulum(30).assemble()
    assert len(s.repeated) == 4  # gravity, axes, the first hinge, the others
    assert s.freedoms == 30


def open_joint():
    m = da.Mechanism(gravity=(0, 0), dimension=2)
    m.rod("one", (0, 0), (1, 0), mass=1.0)
    m.revolute("A", "ground", "one", at=(0, 0))
    m.revolute("B", "ground", "one", on_a=(3, 0), on_b=(0.5, 0))
    return m


def alone():
    m = pendulum()
    m.body("lost", mass=1.0, inertia=[1, 1, 1])
    return m


def dead_point():
    m = da.Mechanism(gravity=(0, 0), dimension=2)
    m.rod("crank", (0, 0), (1, 0), mass=1.0)
    m.rod("coupler", (1, 0), (3, 0), mass=1.0)
    m.rod("rocker", (3, 0), (2, 0), mass=1.0)
    m.revolute("A", "ground", "crank", at=(0, 0))
    m.revolute("B", "crank", "coupler", at=(1, 0))
    m.revolute("C", "coupler", "rocker", at=(3, 0))
    m.revolute("D", "rocker", "ground", at=(2, 0))
    return m


WRONG = [
    (lambda: open_joint().assemble(), "'[AB]'.*cannot be closed.* apart"),
    (lambda: alone().assemble(), "nothing is joined to 'lost'"),
    (lambda: dead_point().assemble(), "singular pose.*rank .* is 7 of 8 here, and 8 nearby"),
    (lambda: da.Mechanism().assemble(), "no bodies"),
    (lambda: pendulum().assemble(rotation="angels"), "rotation"),
    (lambda: pendulum().assemble(coordinates="polar"), "coordinates"),
    (lambda: pendulum().assemble(redundant="maybe"), "redundant"),
    (lambda: pendulum().assemble(pinned=["elbow"]), "no body or joint 'elbow'"),
    (lambda: pendulum().gear("teeth", "hinge0", "hinge0", ratio=2.0), "couples 'hinge0.angle' with itself"),
    (lambda: pendulum().assemble(rates={"elbow": 1.0}), "no joint 'elbow'"),
    (lambda: four_bar().assemble(rates={"A": 1.0, "D": 7.0}), "contradict"),
    (lambda: four_bar(parameters={"mass_crank": 1.0}).assemble(), "would be called 'mass_crank'"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_what_is_wrong_is_said(wrong, said):
    with pytest.raises(da.DalembertError, match=said):
        wrong()


def test_a_free_body_may_be_said_to_be_free():
    m = alone()
    m.free("loose", "ground", "lost")
    assert m.assemble().freedoms == 7


def test_points_of_joints_may_be_parameters():
    def made(x, vary):
        m = da.Mechanism(gravity=(0, -9.81))
        m.rod("bar", (0, 0), (1, 0), mass=2.0)
        m.prismatic("slide", "ground", "bar", axis=(0.6, 0.8), on_a=(x, 0), on_b=(-0.5, 0))
        return m.assemble(vary=vary)

    varied, drawn = made(0.0, ["slide"]), made(0.1, [])
    assert varied.parameters["point_a_slide"].tolist() == [0.0, 0.0]
    q, par = drawn.initial["q"] + 0.01, varied.pack({"point_a_slide": [0.1, 0.0]})
    for role in ("holonomic", "measures", "wrench"):
        a, b = varied.numeric(role, par, q=q), drawn.numeric(role, drawn.pack(), q=q)
        np.testing.assert_allclose(a, b, atol=1e-14)


def test_gradients_over_parameters_agree_with_differences():
    m = da.Mechanism(gravity=(0, -9.81))
    m.rod("bar", (0, 0), (1, 0), mass=2.0)
    m.revolute("pin", "ground", "bar", at=(0, 0))
    m.spring("leaf", "ground", "bar", stiffness=50.0, length=0.5, start=(0.5, 1), end=(0.5, 0))
    s = m.assemble()
    run = {"method": "gauss-2", "t_end": 0.2, "step": 0.01}
    slope = da.sensitivity(s, **run).jacobian("q", "stiffness_leaf").ravel()
    ends = [da.simulate(s, parameters={"stiffness_leaf": 50.0 + d}, **run).q[-1] for d in (-1e-4, 1e-4)]
    np.testing.assert_allclose(slope, (ends[1] - ends[0]) / 2e-4, rtol=1e-6, atol=1e-10)
