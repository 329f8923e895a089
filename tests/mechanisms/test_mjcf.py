"""Mechanisms from MJCF files against MuJoCo itself, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest

import dalembert as da

mujoco = pytest.importorskip("mujoco", reason="mujoco has no wheels for this platform")
ROBOT = Path(__file__).parent / "data" / "robot.xml"


def read(tmp_path, text, **options):
    path = tmp_path / "robot.xml"
    path.write_text(text, encoding="utf-8")
    return da.read_mjcf(path, **options)


def theirs(model):
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_FRICTIONLOSS
    return model, mujoco.MjData(model)


def mass(model, data):
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, M, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(model, data, M)
    return M


def names(model):
    """The bodies of MuJoCo, without the world."""
    return [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, i) for i in range(1, model.nbody)]


def test_bodies_weigh_what_mujoco_says():
    m, (model, data) = da.read_mjcf(ROBOT), theirs(mujoco.MjModel.from_xml_path(str(ROBOT)))
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    for i, name in enumerate(names(model), 1):
        body = m.bodies[name]
        assert body.mass == pytest.approx(model.body_mass[i], rel=1e-12)
        np.testing.assert_allclose(body.position, data.xipos[i], atol=1e-12)
        R = data.ximat[i].reshape(3, 3)
        J = R @ np.diag(model.body_inertia[i]) @ R.T
        np.testing.assert_allclose(body.rotation @ body.inertia @ body.rotation.T, J, rtol=1e-8, atol=1e-12)


@pytest.fixture(scope="module")
def both():
    m = da.read_mjcf(ROBOT)
    for force in [f for f in m.forces.values() if type(f).__name__ == "Friction" and f.dry]:
        m.forces.pop(force.name)
    return m.assemble(coordinates="joint", rotation="quaternion"), theirs(mujoco.MjModel.from_xml_path(str(ROBOT)))


ORDER = ["turn", "shoulder_x_shoulder_y.angle_x", "shoulder_x_shoulder_y.angle_y", "tube_slide_tube_turn.displacement",
         "tube_slide_tube_turn.angle", "wrist.p0", "wrist.p1", "wrist.p2", "wrist.p3", "x_z_pitch.y", "x_z_pitch.x",
         "x_z_pitch.angle", "stone_joint.x", "stone_joint.y", "stone_joint.z", "stone_joint.p0", "stone_joint.p1",
         "stone_joint.p2", "stone_joint.p3"]  # fmt: skip


def test_mass_and_accelerations_agree_with_mujoco(both):
    s, (model, data) = both
    order = [s.coordinates.index(name) for name in ORDER]
    speeds = [i for i, name in zip(order, ORDER, strict=True) if not name.endswith(("p0",))]
    rank = np.argsort(np.argsort(speeds))  # velocities are counted without one of four numbers of each ball
    rng = np.random.default_rng(2)
    for _ in range(3):
        q = rng.normal(size=s.n) / 3
        for ball in ("wrist", "stone_joint"):
            at = [s.coordinates.index(f"{ball}.p{k}") for k in range(4)]
            q[at] = rng.normal(size=4)
            q[at] /= np.linalg.norm(q[at])
        v, u = rng.normal(size=s.nv), rng.normal(size=2)
        data.qpos[:], data.qvel[:] = q[order], v[rank]
        data.ctrl[:] = [u[0] / 50, u[1]]
        mujoco.mj_forward(model, data)
        ours = da.mechanisms.mass_matrix(s, q)[np.ix_(rank, rank)]
        np.testing.assert_allclose(ours, mass(model, data), rtol=1e-9, atol=1e-11)
        a = da.mechanisms.forward_dynamics(s, q, v, u=u)
        np.testing.assert_allclose(a[rank], data.qacc, rtol=1e-7, atol=1e-8)


def test_what_the_file_says_beside():
    m = da.read_mjcf(ROBOT)
    assert m.joints["turn"].limits["angle"] == pytest.approx((-np.pi / 2, np.pi / 2))
    assert m.forces["turn_spring"].rest == pytest.approx(np.radians(20))
    assert m.sensors["eye"].body == "upper"
    assert [type(x).__name__ for x in m.ground.shape] == ["Cylinder"]
    notes = "\n".join(m.notes)
    for left in (
        "<keyframe> is left out",
        "contact is left out",
        "'drive' is the force itself: MuJoCo's control times",
    ):
        assert left in notes
    s = m.assemble(coordinates="joint")
    q = s.initial["q"][s.coordinates.index("shoulder_x_shoulder_y.angle_y")]
    assert q == pytest.approx(np.radians(15))
    with pytest.raises(da.ModelError, match=r"rotor .* use coordinates='joint'"):
        m.assemble()


FOUR_BAR = """<mujoco><compiler angle="radian"/><worldbody>
<body name="crank"><joint name="A" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 1" size="0.05"/>
  <body name="coupler" pos="0 0 1"><joint name="B" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 2 0 0.5" size="0.05"/></body></body>
<body name="rocker" pos="1.8 0 0"><joint name="D" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.2 0 1.5" size="0.05"/></body>
</worldbody><equality>{}</equality></mujoco>"""


def test_equality_constraints_close_loops(tmp_path):
    m = read(tmp_path, FOUR_BAR.format('<connect name="C" body1="coupler" body2="rocker" anchor="2 0 0.5"/>'))
    assert type(m.joints["C"]).__name__ == "Spherical"
    s = m.assemble(coordinates="joint", redundant="remove")
    assert (s.n, s.m, s.freedoms) == (3, 2, 1)
    text = '<joint joint1="A" joint2="D" polycoef="0 2 0 0 0"/><weld body1="coupler" body2="rocker" active="false"/>'
    m = read(tmp_path, FOUR_BAR.format(text))
    assert (m.couplings["A_gear"].ratio, m.couplings["A_gear"].first) == (2.0, ("A", "angle"))
    assert any("<weld> is left out" in note for note in m.notes)
    m = read(tmp_path, FOUR_BAR.format('<weld body1="coupler" body2="rocker"/>'))
    assert type(m.joints["coupler_rocker"]).__name__ == "Fixed"


def body(inner, more=""):
    return f'<mujoco><worldbody><body name="a">{inner}</body></worldbody>{more}</mujoco>'


GEOM = '<geom type="sphere" size="0.1"/>'
WRONG = [
    ("<robot/>", "begins with <mujoco>"),
    (body('<joint type="screw"/>' + GEOM), "no joint of the type 'screw'"),
    (body("<joint/>"), "<body> 'a': it moves, so it needs a mass"),
    (body('<joint axis="0 0 0"/>' + GEOM), "axis must not be zero"),
    (body('<joint/><joint axis="0 1 1"/>' + GEOM), "its joints .hinge, hinge. are none that can be one joint"),
    (body('<joint pos="0 0 1"/><joint axis="0 1 0"/>' + GEOM), "are none that can be one joint"),
    (body('<joint type="ball" damping="1"/>' + GEOM), "damping of a ball joint is not supported"),
    (body('<joint/><geom type="sphere" size="-1"/>'), "size needs 1 positive number"),
    (body('<joint/><geom type="cone" size="1"/>'), "a geom cannot be a 'cone'"),
    (body('<joint/><geom type="mesh" mesh="m"/>'), "no mesh 'm' among the assets"),
    (body('<joint class="x"/>' + GEOM), "no default class 'x'"),
    (body('<joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 3"/>'), "principal moments 1, 1, 3"),
    (body("<joint/>" + GEOM + '<body name="a"/>'), "a second body"),
    (body("<joint/>" + GEOM, '<equality><connect body1="b" anchor="0 0 0"/></equality>'), "no body 'b'"),
    (body('<joint name="j"/>' + GEOM, '<equality><joint joint1="j" polycoef="1 0 0 0 0"/></equality>'), "only polycoef"),
    (body("<joint/>" + GEOM, '<actuator><motor joint="k"/></actuator>'), "no joint 'k'"),
    ('<mujoco><compiler coordinate="global"/></mujoco>', "coordinate='global' is not supported"),
    ('<mujoco><compiler eulerseq="abc"/></mujoco>', "eulerseq must be three of x, y, z"),
    (body('<joint pos="0 0 a"/>' + GEOM), "pos must be 3 numbers, not '0 0 a'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_refused(tmp_path, text, message):
    with pytest.raises(da.ModelError, match=message):
        read(tmp_path, text)


def test_what_changes_the_motion_and_is_left_out_is_a_warning(tmp_path):
    text = body('<joint name="j"/>' + GEOM, '<actuator><position joint="j"/></actuator><tendon/>')
    with pytest.warns(da.DalembertWarning, match=re.escape("left out, which changes the motion: position, tendon")):
        m = read(tmp_path, text)
    assert any("<position> is left out (line 1)" in note for note in m.notes)


def test_meshes_weigh_by_their_volume(tmp_path):
    (tmp_path / "part.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n")
    text = body('<joint/><geom type="mesh" mesh="part" density="6"/>', '<asset><mesh file="part.obj" scale="1 1 2"/></asset>')
    m = read(tmp_path, text)
    assert m.bodies["a"].mass == pytest.approx(2.0)
    np.testing.assert_allclose(m.bodies["a"].center, [0.25, 0.25, 0.5])
    with pytest.raises(da.FileError, match=r"none\.stl"):
        read(tmp_path, text.replace("part.obj", "none.stl").replace('mesh="part"', 'mesh="none"'))
