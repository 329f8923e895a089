"""Joint coordinates: the same motions as with absolute ones, and what they are called."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from trees import random_tree

import dalembert as da
from dalembert.mechanisms import joints
from mechanisms.test_assembly import four_bar


def frames(system, sol):
    return system.numeric("frames", system.pack(), q=sol.q[-1])[0]


def gaps(m, method, *steps, t_end=0.25, **options):
    """How far the two sets of coordinates are apart at the end, for some steps."""
    ends = []
    for s in (m.assemble(), m.assemble(coordinates="joint")):
        start = da.consistent(s)  # the start is closed to round-off, runs want it to the last bit
        runs = [da.simulate(s, method, q=start["q"], v=start["v"], t_end=t_end, step=h, **options) for h in steps]
        ends.append([frames(s, sol) for sol in runs])
    return [float(np.abs(a - b).max()) for a, b in zip(*ends, strict=True)]


def arm():
    """A tree in space with a slide, hinges, a ball, springs, dampers and a motor."""
    m = da.Mechanism(name="arm")
    m.body("cart", mass=2.0, inertia=[0.1, 0.1, 0.1])
    m.rod("upper", (0, 0, 0), (1, 0, 0), mass=1.0)
    m.rod("lower", (1, 0, 0), (1, 1, 0), mass=0.7, radius=0.1)
    m.body("bob", mass=0.5, inertia=[0.02, 0.03, 0.04], position=(1, 1.4, 0))
    m.prismatic("rail", "cart", "ground", axis="x")
    m.revolute("shoulder", "cart", "upper", at=(0, 0, 0), axis=(0, 1, 1))
    m.revolute("elbow", "lower", "upper", at=(1, 0, 0), axis="z")
    m.spherical("ball", "lower", "bob", at=(1, 1, 0))
    m.spring("line", "ground", "bob", start=(0, 2, 0.3), stiffness=20.0, damping=0.4)
    m.torsion_spring("leaf", "elbow", stiffness=5.0, rest=0.3, damping=0.1)
    m.friction("drag", "rail", viscous=0.3)
    m.motor("drive", "shoulder")
    m.force("push", "bob", direction="y", on=(0.1, 0, 0))
    return m


def test_names_of_coordinates_are_those_of_joints():
    s = arm().assemble(coordinates="joint")
    assert s.coordinates == ("rail", "shoulder", "elbow", "ball.angle_x", "ball.angle_y", "ball.angle_z")
    assert (s.m, s.freedoms) == (0, 6)
    s = arm().assemble(coordinates="joint", rotation="quaternion")
    assert s.coordinates[3:] == ("ball.p0", "ball.p1", "ball.p2", "ball.p3")
    assert (s.n, s.nv) == (7, 6)
    s = four_bar().assemble(coordinates="joint")
    assert s.coordinates == ("A", "B", "D")
    assert [row.owner for row in s.rows] == ["C", "C"]
    assert s.freedoms == 1


def test_both_sets_of_coordinates_agree_for_a_tree():
    u = {"drive": lambda t: 3 * np.cos(4 * t), "push": lambda t: t}
    one, half = gaps(arm(), "rattle", 0.005, 0.0025, u=u)
    assert one < 1e-3
    assert one / half == pytest.approx(4, abs=0.2)


def test_quaternions_and_angles_agree():
    u = {"drive": lambda t: 3 * np.cos(4 * t), "push": lambda t: t}
    ends = []
    for rotation in ("angles", "quaternion"):
        s = arm().assemble(coordinates="joint", rotation=rotation)
        ends.append([frames(s, da.simulate(s, "gauss-2", t_end=0.4, step=h, u=u)) for h in (0.02, 0.01)])
    one, half = (np.abs(a - b).max() for a, b in zip(*ends, strict=True))
    assert one < 1e-4
    assert one / half == pytest.approx(16, abs=1.5)


def test_both_sets_of_coordinates_agree_for_a_loop():
    one, half = gaps(four_bar(), "rattle", 0.01, 0.005, t_end=0.5)
    assert one / half == pytest.approx(4, abs=0.1)
    assert gaps(four_bar(), "lobatto-pair-4", 0.01)[0] < 1e-11


def test_energy_and_constraints_of_a_loop_are_kept():
    s = four_bar().assemble(coordinates="joint", rates={"A": 2.0})
    sol = da.simulate(s, "energy-momentum", t_end=2.0, step=0.01)
    assert np.ptp(sol.energy) < 1e-12 * np.abs(sol.energy).max()
    assert np.abs(sol.residual("position")).max() < 1e-13
    assert np.abs(s.initial["v"][0] - 2.0) < 1e-14


def test_motors_are_unit_vectors_and_friction_is_diagonal():
    s = arm().assemble(coordinates="joint")
    B = s.numeric("inputs", s.pack(), q=s.initial["q"])[0]
    np.testing.assert_array_equal(B[:, 0], [0, 1, 0, 0, 0, 0])
    assert s.inputs == ("drive", "push") if hasattr(s, "inputs") else True
    R = s.numeric("dissipation", s.pack(), q=s.initial["q"], v=np.zeros(6))[0]
    assert R[0, 0] > 0.3


def test_power_balance_with_springs_dampers_and_motors():
    s = arm().assemble(coordinates="joint")
    sol = da.simulate(s, "gauss-3", u={"drive": 2.0, "push": lambda t: np.sin(t)}, t_end=1.0, step=0.01)
    balance = sol.energy[-1] - sol.energy[0] - sol.supplied.sum() + sol.dissipated.sum()
    assert abs(balance) < 1e-7
    assert abs(sol.supplied.sum()) > 0.1
    assert sol.dissipated.sum() > 0.1


def gears(space, ratio=-2.0):
    m = da.Mechanism(gravity=(0, 0, -9.81) if space else (0, -9.81))
    for name, x in (("one", 0.0), ("two", 1.0)):
        m.body(name, mass=1.0, inertia=[0.1, 0.1, 0.2] if space else 0.2, position=(x, 0.1, 0)[: 3 if space else 2])
        m.revolute(f"axle_{name}", "ground", name, at=(x, 0, 0)[: 3 if space else 2], axis="z" if space else None)
    m.gear("mesh", "axle_one", "axle_two", ratio=ratio)
    m.torsion_spring("leaf", "axle_one", stiffness=4.0, rest=0.5)
    return m


@pytest.mark.parametrize("space", [False, True])
@pytest.mark.parametrize("ratio", [-2.0, np.sqrt(2)])
def test_gears_are_linear_constraints(space, ratio):
    s = gears(space, ratio).assemble(coordinates="joint")
    assert (s.n, s.m, s.mn, s.freedoms) == (2, 1, 0, 1)
    sol = da.simulate(s, "rattle", t_end=2.0, step=0.01)
    assert np.abs(sol.q[:, 0]).max() > 0.1
    np.testing.assert_allclose(sol.q[:, 0], ratio * sol.q[:, 1], atol=1e-13)


def test_a_prescribed_motion_is_a_constraint_of_its_coordinate():
    m = arm()
    m.motion("turn", "shoulder", lambda t: 0.3 * np.sin(2 * t))
    s = m.assemble(coordinates="joint")
    assert [row.owner for row in s.rows] == ["turn"]
    sol = da.simulate(s, "rattle", t_end=1.0, step=0.01)
    np.testing.assert_allclose(sol.q[:, 1], 0.3 * np.sin(2 * sol.t), atol=1e-13)
    assert s.initial["v"][1] == pytest.approx(0.6, abs=1e-13)


def test_a_motor_on_the_joint_that_closes_a_loop():
    m = four_bar()
    m.motor("C_motor", "C")
    driven = m.assemble(coordinates="joint")
    assert "C" in driven.coordinates  # a driven joint is a coordinate
    m.motor("A_motor", "A")
    m.motor("B_motor", "B")
    m.motor("D_motor", "D")
    assert gaps(m, "lobatto-pair-3", 0.005, u=[3.0, 2.0, 1.0, -1.0])[0] < 1e-8


def test_a_screw_has_one_coordinate():
    m = da.Mechanism()
    m.body("nut", mass=2.0, inertia=[0.2, 0.2, 0.3])
    m.screw("thread", "ground", "nut", lead=0.5, axis="z", at=(0, 0, 0))
    s = m.assemble(coordinates="joint")
    assert s.coordinates == ("thread",)
    pitch = 0.5 / (2 * np.pi)
    sol = da.simulate(s, "gauss-2", t_end=1.0, step=0.1)
    np.testing.assert_allclose(sol.q[:, 0], -9.81 * 2 * pitch / (0.3 + 2 * pitch**2) * sol.t**2 / 2, atol=1e-12)
    measures = s.numeric("measures", s.pack(), q=sol.q)
    np.testing.assert_allclose(measures[:, 0], pitch * measures[:, 1], atol=1e-13)


def test_free_bodies_and_point_masses():
    m = da.Mechanism()
    m.body("stone", mass=2.0, inertia=[1.0, 2.0, 2.5], velocity=(1, 0, 3), angular_velocity=(0.3, 2.0, -0.5))
    m.particle("ball", mass=1.0, position=(3, 0, 0), velocity=(0, 1, 0))
    m.spring("band", "stone", "ball", stiffness=5.0)
    s = m.assemble(coordinates="joint")
    assert s.coordinates == ("stone.x", "stone.y", "stone.z", "stone.angle_x", "stone.angle_y", "stone.angle_z",
                             "ball.x", "ball.y", "ball.z")  # fmt: skip
    one, half = gaps(m, "rattle", 0.01, 0.005)
    assert one / half == pytest.approx(4, abs=0.1)


def test_the_quaternion_keeps_its_length_with_gauss():
    m = da.Mechanism(gravity=(0, 0, 0))
    m.body("stone", mass=2.0, inertia=[1.0, 2.0, 2.5], angular_velocity=(0.01, 2.0, 0.01))
    s = m.assemble(coordinates="joint", rotation="quaternion")
    sol = da.simulate(s, "gauss-2", t_end=20.0, step=0.02)
    np.testing.assert_allclose(np.linalg.norm(sol.q[:, 3:], axis=1), 1, atol=1e-13)
    assert np.ptp(sol.energy) < 1e-8
    assert np.abs(sol.v[:, 4]).max() > 1.5
    assert sol.v[:, 4].min() < -1.5  # it tumbles


@pytest.mark.parametrize("seed", range(3))
def test_random_trees_move_alike(seed):
    kinds = (
        joints.Revolute,
        joints.Cylindrical,
        joints.Universal,
        joints.Spherical,
        joints.Planar,
        joints.Fixed,
        joints.Prismatic,
    )
    m = random_tree(np.random.default_rng(70 + seed), kinds, count=2, reverse=0.5)
    one, half = gaps(m, "rattle", 0.002, 0.001, t_end=0.1)
    assert one / half == pytest.approx(4, abs=0.2)


def test_a_drawing_that_is_open_is_closed_by_the_tree():
    m = da.Mechanism(gravity=(0, -9.81))
    m.rod("crank", (0, 0), (0, 1), mass=1.0)
    m.rod("coupler", (0.3, 1.2), (3.3, 2.2), mass=2.0)
    m.revolute("A", "ground", "crank", at=(0, 0))
    m.revolute("B", "crank", "coupler", on_a=(0.5, 0), on_b=(-np.sqrt(10) / 2, 0))
    s = m.assemble(coordinates="joint", pinned={"A": 0.3})
    np.testing.assert_allclose(s.initial["q"][0], 0.3, atol=1e-14)


def test_redundant_loops_are_named():
    def planar_in_space(tilt, **options):
        m, R = da.Mechanism(), Rotation.from_rotvec(tilt).as_matrix()
        m.rod("crank", (0, 0, 0), R @ (0, 1, 0), mass=1.0)
        m.rod("coupler", R @ (0, 1, 0), R @ (3, 2, 0), mass=2.0)
        m.rod("rocker", R @ (3, 2, 0), R @ (2.5, 0, 0), mass=1.5)
        for name, a, b, at in (("A", "ground", "crank", (0, 0, 0)), ("B", "crank", "coupler", (0, 1, 0)),
                               ("C", "coupler", "rocker", (3, 2, 0)), ("D", "rocker", "ground", (2.5, 0, 0))):  # fmt: skip
            m.revolute(name, a, b, at=R @ at, axis=R[:, 2])
        return m.assemble(coordinates="joint", **options)

    for tilt in ([0, 0, 0], [0.3, 0.4, 0.5]):
        with pytest.raises(da.SingularConstraints, match=r"3 .*constraints.*'C'.*redundant='remove'"):
            planar_in_space(tilt)
        s = planar_in_space(tilt, redundant="remove")
        assert (s.n, s.m, s.freedoms) == (3, 2, 1)


def test_the_system_goes_through_a_file(tmp_path):
    s = four_bar().assemble(coordinates="joint", rates={"A": 1.0})
    sol = da.simulate(s, "rattle", t_end=0.1, step=0.01)
    sol.save(tmp_path / "run.nc")
    read = da.load(tmp_path / "run.nc")
    assert read.system.coordinates == s.coordinates
    np.testing.assert_array_equal(da.simulate(read.system, "rattle", t_end=0.1, step=0.01).q, sol.q)


def test_what_is_refused():
    m = da.Mechanism()
    m.body("stone", mass=2.0, inertia=[1.0, 2.0, 2.5], rotation=[np.sqrt(0.5), 0, np.sqrt(0.5), 0])
    with pytest.raises(da.ModelError, match=r"angles of 'stone' are singular, the second one is 90.0 degrees.*quaternion"):
        m.assemble(coordinates="joint")
    assert m.assemble(coordinates="joint", rotation="quaternion").n == 7
    with pytest.raises(da.ModelError, match="rotation must be one of angles, quaternion"):
        m.assemble(coordinates="joint", rotation="directors")
    with pytest.raises(da.ModelError, match="coordinates must be one of absolute, joint"):
        m.assemble(coordinates="joints")
    m.fixed("weld", "ground", "stone")
    with pytest.raises(da.ModelError, match="nothing of the mechanism 'mechanism' can move"):
        m.assemble(coordinates="joint")
    with pytest.raises(da.ModelError, match="vary goes with absolute coordinates"):
        four_bar().assemble(coordinates="joint", vary=["A"])
    m = da.Mechanism()
    m.body("stone", mass=1.0, inertia=[1, 1, 1])
    m.friction("rub", m.free("air", "ground", "stone"), coulomb=0.1, freedom="x")
    with pytest.raises(da.ModelError, match="'air' holds nothing, so that there is no load"):
        m.assemble(coordinates="joint")


@pytest.mark.parametrize("seed", range(4))
def test_gears_and_racks_start_as_drawn_anywhere(seed):
    """Freedoms are zero there but for rounding, beside which no rounding of the constraint is small."""
    rng = np.random.default_rng(seed)
    m = da.Mechanism()
    for name in ("wheel", "other", "bar"):
        m.body(name, mass=1.0, inertia=[0.1] * 3, position=rng.normal(size=3), rotation=Rotation.random(random_state=seed))
    m.revolute("a", "ground", "wheel", at=rng.normal(size=3), axis=rng.normal(size=3))
    m.revolute("b", "wheel", "other", at=rng.normal(size=3), axis=rng.normal(size=3))
    m.prismatic("c", "wheel", "bar", at=rng.normal(size=3), axis=rng.normal(size=3))
    m.gear("teeth", "a", "b", ratio=2.0)
    m.rack("rack", "c", "a", radius=0.3)
    sol = da.simulate(m.assemble(coordinates="joint", rates={"a": 1.0}), "rattle", t_end=0.02, step=0.01, compile=False)
    np.testing.assert_allclose(sol.joint("a").angle, 2 * sol.joint("b").angle, atol=1e-14)
    np.testing.assert_allclose(sol.joint("c").displacement, 0.3 * sol.joint("a").angle, atol=1e-14)
