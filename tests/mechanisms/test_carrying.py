"""Reactions of joints that define coordinates: the same as those of constraints, and as by hand."""

import numpy as np
import pytest
from trees import random_tree

import dalembert as da
from dalembert.mechanisms import joints
from mechanisms.test_assembly import four_bar

G = 9.81
KINDS = [
    joints.Revolute, joints.Prismatic, joints.Cylindrical, joints.Screw, joints.Universal, joints.Spherical, joints.Fixed,
]  # fmt: skip


class InTurn(list):
    """Kinds of joints one after another, whichever is asked for."""

    def __getitem__(self, _):
        return self.pop(0)

    def __len__(self):
        return max(super().__len__(), 1)


def same(m, *, t=(0.0,), method="gauss-1", tolerance=1e-11, step=0.01, u=None, rotation=(None, "quaternion"), **more):
    """Reactions of all joints in both sets of coordinates."""
    runs = [
        da.simulate(m.assemble(coordinates=c, rotation=r, **more), method, t_end=max(*t, step, step), step=step, u=u)
        for c, r in zip(("absolute", "joint"), rotation, strict=True)
    ]
    for name in m.joints:
        one, other = (sol.joint(name).reaction_at(np.array(t)) for sol in runs)
        np.testing.assert_allclose(other.force, one.force, atol=tolerance * (1 + np.abs(one.force).max()), err_msg=name)
        np.testing.assert_allclose(other.torque, one.torque, atol=tolerance * (1 + np.abs(one.torque).max()), err_msg=name)
    return runs[1]


def test_all_joints_in_both_directions_with_all_that_acts():
    m = random_tree(np.random.default_rng(3), InTurn(KINDS), count=7, reverse=0.5, branching=0.3)
    m.spring("near", "ground", "body6", stiffness=30.0, damping=2.0, length=0.5)
    m.spring("across", "body2", "body5", stiffness=10.0, length=0.5)
    m.bushing("rubber", "body0", "body4", at=(1, 0, 0), stiffness=7.0, torsion=2.0, damping=0.4, torsion_damping=0.3)
    for name in ("joint0", "joint1"):
        m.torsion_spring(f"spring of {name}", name, stiffness=5.0, damping=0.3)
        m.motor(f"motor of {name}", name)
        m.friction(f"friction of {name}", name, dry=0.5, viscous=0.1, speed=0.5)
    m.force("push", "body4", direction=(1, 2, 3), follows=True)
    m.force("twist", "body3", direction=(1, 0, 3), torque=True)
    rates = {"joint0": 1.0, "joint1": -0.5, "joint2.angle": 2.0, "joint4.angle_x": 1.0}
    sol = same(m, u=np.array([3.0, -2.0, 1.0, 2.0]), rates=rates)
    assert sol.system.tree == set(m.joints)
    again, at = type(sol.system).loads(sol.system.dumps()), [0.1] * 8
    np.testing.assert_array_equal(again.carried()(*at).full(), sol.system.carried()(*at).full())


def test_a_closed_loop_along_a_run():
    m = four_bar()
    m.motor("drive", "A")
    m.torsion_spring("leaf", "B", stiffness=4.0, rest=0.3, damping=0.1)
    sol = same(
        m, t=(0.0, 0.05, 0.1), method="gauss-4", tolerance=1e-9, u={"drive": 15.0}, rates={"A": 2.0}, rotation=(None, None)
    )
    assert sol.system.tree == {"A", "B", "D"}
    stored = sol.joint("A").reaction
    assert stored.t is sol.t_lam
    np.testing.assert_allclose(stored.force, sol.joint("A").reaction_at(stored.t).force, atol=1e-5)


def test_gears_and_prescribed_motions_across_the_tree():
    m = da.Mechanism(name="gears")
    for name, place in (("a", (0.3, 0, 0)), ("b", (1, 0.2, 0)), ("c", (1, 1.3, 0))):
        m.body(name, mass=1.0, inertia=[0.1, 0.2, 0.25], position=place)
    m.revolute("ja", "ground", "a", at=(0, 0, 0), axis="z")
    m.revolute("jb", "a", "b", at=(0.9, 0, 0), axis=(1, 0, 1))
    m.universal("jc", "b", "c", at=(1, 1, 0), axis="x", second="y")
    m.gear("wheels", "ja", "jb", ratio=1.5)
    m.motion("drive", "jc", lambda t: 0.3 * t**2, freedom="angle_x")
    same(m, rates={"ja": 1.0})


def test_least_reactions_of_a_redundant_loop_are_the_same():
    loop = da.Mechanism(gravity=(0, -G, 0))
    loop.rod("beam", (0, 1, 0), (2, 1, 0), mass=2.0)
    for i in (0, 1, 2):
        loop.rod(f"leg{i}", (i, 0, 0), (i, 1, 0), mass=1.0)
        loop.revolute(f"foot{i}", "ground", f"leg{i}", at=(i, 0, 0), axis="z")
        loop.revolute(f"top{i}", f"leg{i}", "beam", at=(i, 1, 0), axis="z")
    same(loop, redundant="least-norm", rates={"foot0": 1.0})


def test_friction_by_the_load_with_joint_coordinates():
    """The joint that rubs is a constraint there too, and its load acts on what hangs on it."""
    m = da.Mechanism(gravity=(0, -G))
    m.body("block", mass=2.0, inertia=0.1)
    m.rod("bar", (0, 0), (1, 0), mass=1.0)
    m.prismatic("slope", "ground", "block", axis=(np.cos(0.6), -np.sin(0.6)))
    m.revolute("pin", "block", "bar", at=(0, 0))
    m.friction("rough", "slope", coulomb=0.5, speed=2e-2)
    sol = same(m, t=(0.0, 0.05), method="gauss-3", tolerance=1e-9, step=0.005, rates={"slope": 1.0}, rotation=(None, None))
    assert sol.system.tree == {"pin"}


def test_a_bracket_at_rest_by_hand():
    """An arm of two welded bodies on a motor, held by its torque, with a load at its end: forces and moments by hand."""
    m = da.Mechanism()
    m.rod("arm", (0, 0, 0), (2, 0, 0), mass=3.0)
    m.body("tool", mass=1.0, inertia=[0.1, 0.1, 0.1], position=(2, 0.5, 0))
    m.revolute("axle", "ground", "arm", at=(0, 0, 0), axis="y")
    m.fixed("weld", "arm", "tool", at=(2, 0, 0))
    m.motor("hold", "axle")
    m.force("load", "tool", direction=(0, 0, -1))
    held = -(3.0 * G * 1.0 + (1.0 * G + 20.0) * 2.0)  # about y, against forces along -z
    sol = da.simulate(m.assemble(coordinates="joint"), "gauss-2", t_end=0.1, step=0.05, u={"hold": held, "load": 20.0})
    axle, weld = sol.joint("axle").reaction, sol.joint("weld").reaction
    W = 1.0 * G + 20.0
    assert axle.t is sol.t
    np.testing.assert_allclose(axle.force, [[0, 0, 3.0 * G + W]] * 3, atol=1e-10)
    np.testing.assert_allclose(axle.torque, [[0.5 * W, 0, 0]] * 3, atol=1e-10)  # about y the motor holds it
    np.testing.assert_allclose(weld.force, [[0, 0, W]] * 3, atol=1e-10)
    np.testing.assert_allclose(weld.torque, [[0.5 * W, 0, 0]] * 3, atol=1e-10)


def test_a_rotor_turns_against_its_own_joint():
    """A motor with a rotor on a balanced arm: its torque accelerates both inertias, and the joint carries none about its axis."""
    m = da.Mechanism(gravity=(0, 0, 0))
    m.body("base", mass=1.0, inertia=[1.0, 1.0, 1.0])
    m.body("arm", mass=1.0, inertia=[0.5, 0.5, 0.5])
    m.revolute("shoulder", "ground", "base", at=(0, 0, 0), axis="z")
    m.revolute("elbow", "base", "arm", at=(0, 0, 0), axis="x")
    m.motor("drive", "elbow")
    m.rotor("rotor", "elbow", inertia=0.3)
    sol = da.simulate(m.assemble(coordinates="joint"), "gauss-2", t_end=0.1, step=0.05, u={"drive": 4.0})
    assert sol.a[0, 1] == pytest.approx(4.0 / 0.8, rel=1e-12)
    np.testing.assert_allclose(sol.joint("elbow").reaction.torque, 0, atol=1e-12)
    np.testing.assert_allclose(sol.joint("shoulder").reaction.torque[0], [0.5 * 5.0, 0, 0], atol=1e-12)
