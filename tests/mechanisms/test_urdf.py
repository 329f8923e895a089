"""Robots from URDF files: places as Pinocchio has them, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import dalembert as da

pin = pytest.importorskip("pinocchio", reason="pin has no wheels for this platform")
ARM = Path(__file__).parent / "data" / "arm.urdf"
INERTIAL = '<inertial><origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/><mass value="2"/><inertia ixx="1" iyy="1.1" izz="1.2" ixy="0.1" ixz="0" iyz="0"/></inertial>'  # noqa: E501
HANDS = f"""<robot name="hands">
<link name="root"/>
<link name="a">{INERTIAL}</link> <link name="b">{INERTIAL}</link>
<link name="c">{INERTIAL}</link> <link name="d">{INERTIAL}</link>
<joint name="lift" type="prismatic"><parent link="root"/><child link="a"/>
  <origin xyz="1 2 3" rpy="0.3 -0.2 0.5"/><axis xyz="1 2 2"/>
  <limit lower="-1" upper="1" effort="5" velocity="2"/></joint>
<joint name="left" type="revolute"><parent link="a"/><child link="b"/><origin xyz="0 1 0" rpy="1 0 0"/><axis xyz="0 0 2"/>
  <limit lower="-1" upper="1" effort="5" velocity="2"/></joint>
<joint name="right" type="revolute"><parent link="a"/><child link="c"/><origin xyz="0 -1 0"/><axis xyz="0 -0.6 0.8"/>
  <limit lower="-1" upper="1" effort="5" velocity="2"/>
  <mimic joint="left" multiplier="-0.5" offset="0.2"/></joint>
<joint name="wheel" type="continuous"><parent link="c"/><child link="d"/><dynamics damping="0.1" friction="0.2"/></joint>
</robot>"""


def read(tmp_path, text, **options):
    path = tmp_path / "robot.urdf"
    path.write_text(text, encoding="utf-8")
    return da.read_urdf(path, **options)


def places(model, q):
    """Position of the centre of mass and rotation of each link, by Pinocchio, by the names of the joints."""
    data = model.createData()
    pin.forwardKinematics(model, data, q)
    return {model.names[i]: (data.oMi[i].act(model.inertias[i].lever), data.oMi[i].rotation) for i in range(1, model.njoints)}


def test_bodies_stand_where_pinocchio_has_them():
    model = pin.buildModelFromUrdf(str(ARM))
    q = np.random.default_rng(1).normal(size=6)
    q[4] = 0.3
    values = dict(zip(model.names[1:], q, strict=True))
    m = da.read_urdf(ARM, pose=values)
    turning = pin.neutral(model)
    for i, name in enumerate(model.names[1:]):
        k = model.joints[i + 1].idx_q
        turning[k : k + model.joints[i + 1].nq] = [np.cos(q[i]), np.sin(q[i])] if model.joints[i + 1].nq == 2 else values[name]
    for name, (position, rotation) in places(model, turning).items():
        body = m.get_body(m.get_joint(name).b)
        np.testing.assert_allclose(body.position, position, atol=1e-14)
        np.testing.assert_allclose(body.rotation, rotation, atol=1e-14)
        index = model.getJointId(name)
        if name != "wrist_3":  # Pinocchio adds what is fixed to it
            np.testing.assert_allclose(body.inertia, model.inertias[index].inertia, atol=1e-15)
            assert body.mass == model.inertias[index].mass


def test_the_arm_has_all_that_the_file_says():
    m = da.read_urdf(ARM)
    assert m.name == "arm"
    assert list(m.joints) == ["shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3"]
    assert m.joints["elbow"].limits == {"angle": (-3.14, 3.14), "velocity": (-3.15, 3.15), "effort": (-150.0, 150.0)}
    assert "angle" not in m.joints["wrist_2"].limits
    assert (m.forces["shoulder_pan_friction"].viscous, m.forces["shoulder_pan_friction"].dry) == (0.5, 0.2)
    assert m.forces["elbow_motor"].joint == "elbow"
    assert m.sensors["tool"].body == "wrist_3_link"
    assert [type(s).__name__ for s in m.ground.shape] == ["Cylinder"]
    assert m.bodies["upper_arm"].shape[0].color == "#b2b2b2"
    notes = "\n".join(m.notes)
    for left in (
        "<collision> is left out (line 14)",
        "<transmission> is left out",
        "<gazebo> is left out",
        "mass 4 does not move",
    ):
        assert left in notes
    assert not [f for f in da.read_urdf(ARM, motors=False).forces if f.endswith("motor")]


def test_slides_and_joints_that_mimic(tmp_path):
    text = HANDS
    m = read(tmp_path, text, pose={"lift": 0.4, "left": 0.6})
    value = -0.5 * 0.6 + 0.2
    model = pin.buildModelFromXML(text)
    q = pin.neutral(model)
    for name, at in (("lift", [0.4]), ("left", [0.6]), ("right", [value]), ("wheel", [1.0, 0.0])):
        joint = model.joints[model.getJointId(name)]
        q[joint.idx_q : joint.idx_q + joint.nq] = at
    for name, (position, rotation) in places(model, q).items():
        body = m.get_body(m.get_joint(name).b)
        np.testing.assert_allclose(body.position, position, atol=1e-14)
        np.testing.assert_allclose(body.rotation, rotation, atol=1e-14)
    gear = m.couplings["right_mimic"]
    assert (gear.first, gear.second, gear.ratio) == (("right", "angle"), ("left", "angle"), -0.5)
    assert "right_motor" not in m.forces
    assert m.joints["lift"].limits["displacement"] == (-1.0, 1.0)


def test_a_free_base_and_links_without_mass(tmp_path):
    text = f"""<robot name="r"><link name="base"/><link name="trunk">{INERTIAL}</link><link name="eye"/>
    <joint name="j" type="fixed"><parent link="base"/><child link="trunk"/><origin xyz="0 0 1" rpy="0 0 1"/></joint>
    <joint name="k" type="fixed"><parent link="base"/><child link="eye"/><origin xyz="1 0 0"/></joint></robot>"""
    m = read(tmp_path, text, base="free")
    assert list(m.bodies) == ["trunk"]
    assert not m.joints
    np.testing.assert_allclose(m.bodies["trunk"].origin, [0, 0, 1], atol=1e-15)
    eye = m.sensors["eye"]
    np.testing.assert_allclose(m.bodies["trunk"].world(eye.point), [1, 0, 0], atol=1e-15)
    assert list(read(tmp_path, text).bodies) == []  # all of it is the ground


def test_a_link_and_a_joint_of_one_name(tmp_path):
    text = f"""<robot name="r"><link name="base"/><link name="arm">{INERTIAL}</link>
    <joint name="arm" type="revolute"><parent link="base"/><child link="arm"/></joint></robot>"""
    m = read(tmp_path, text)
    assert list(m.joints) == ["arm_joint"]
    assert any("'arm' is called 'arm_joint'" in note for note in m.notes)
    np.testing.assert_allclose(m.joints["arm_joint"].on_a.axes[:, 2], [1, 0, 0])  # the axis of URDF where none is given


def test_meshes_are_found_and_scaled(tmp_path):
    where = tmp_path / "robots_description" / "urdf"
    where.mkdir(parents=True)
    (tmp_path / "robots_description" / "meshes").mkdir()
    obj = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
    (tmp_path / "robots_description" / "meshes" / "part.obj").write_text(obj)
    text = f"""<robot name="r"><link name="base"/><link name="a">{INERTIAL}
    <visual><origin xyz="0 0 1"/><geometry><mesh filename="%s" scale="1 2 -3"/></geometry></visual></link>
    <joint name="j" type="revolute"><parent link="base"/><child link="a"/></joint></robot>"""
    for name in ("package://robots_description/meshes/part.obj", "../meshes/part.obj"):
        m = read(where, text % name)
        shape = m.bodies["a"].shape[0]
        assert shape.volume == pytest.approx(1.0)
        np.testing.assert_allclose(shape.drawn()[0].min(axis=0), [0, 0, -2])
    m = read(where, text % "package://else/part.obj", packages={"else": tmp_path / "robots_description" / "meshes"})
    assert len(m.bodies["a"].shape) == 1
    for name, message in (
        ("package://nowhere/part.obj", r"line 2, <mesh>: the mesh 'package://nowhere/part.obj' was not found.*packages="),
        ("none.stl", r"line 2, <mesh>:.*none.stl cannot be read.*meshes=False"),
        ("http://a.b/c.stl", "not on this machine"),
    ):
        with pytest.raises(da.FileError, match=message):
            read(where, text % name)
        assert "are not drawn" in read(where, text % name, meshes=False).notes[-1]
    assert "part.dae" in read(where, text % "part.dae").notes[-1]


def tree(joints, links="abc", root="<link name='r'/>"):
    return f"<robot name='x'>{root}" + "".join(f"<link name='{x}'>{INERTIAL}</link>" for x in links) + joints + "</robot>"


def hinge(name, parent, child, inner="", kind="revolute"):
    return f"\n<joint name='{name}' type='{kind}'><parent link='{parent}'/><child link='{child}'/>{inner}</joint>"


WRONG = [
    (tree(hinge("i", "r", "a") + hinge("j", "b", "c") + hinge("k", "c", "b")), "links b, c form a cycle"),
    (tree(hinge("i", "r", "a") + hinge("j", "a", "b") + hinge("k", "b", "a")), "'a' has the parent 'r' already"),
    (tree(hinge("i", "a", "b") + hinge("j", "b", "a"), "ab", ""), "form a cycle"),
    (tree(hinge("i", "r", "a")), "3 links have no parent, r, b, c"),
    (tree(hinge("i", "r", "a") + hinge("j", "a", "bb")), r"line 3, <joint> 'j': there is no link 'bb'; did you mean 'b'"),
    (tree(hinge("i", "a", "a"), "a", ""), "joins 'a' with itself"),
    (tree(hinge("i", "r", "a") + hinge("i", "a", "b")), "line 3, <joint> 'i': a second joint"),
    (tree("", "aa"), "a second link"),
    (tree(hinge("i", "r", "a", kind="ball"), "a"), "type must be one of revolute"),
    (tree(hinge("i", "r", "a", "<axis xyz='0 0 0'/>"), "a"), "line 2, <axis>: the axis must not be zero"),
    (tree(hinge("i", "r", "a", "<origin xyz='0 0'/>"), "a"), r"line 2, <origin>: xyz must be 3 numbers, not '0 0'"),
    (tree(hinge("i", "r", "a", "<limit lower='2' upper='1'/>"), "a"), "lower is 2, above upper"),
    (tree(hinge("i", "r", "a", "<mimic joint='z'/>"), "a"), "there is no joint 'z'"),
    (tree(hinge("i", "r", "a", "<mimic joint='i'/>"), "a"), "'i' mimics itself"),
    (tree(hinge("i", "r", "a", "<dynamics damping='-1'/>"), "a"), "must not be negative"),
    (tree(hinge("i", "r", "s"), "", "<link name='r'/><link name='s'/>"), "<link> 's': it moves, so it needs an <inertial>"),
    ("<robot name='x'><link name='a'><inertial><mass value='1'/></inertial></link></robot>", "needs an <inertia "),
    ("<robot name='x'><link name='a'><inertial><mass value='-1'/></inertial></link></robot>", "must not be negative, it is -1"),
    ("<robot name='x'/>", "there are no links"),
    ("<mujoco/>", "begins with <robot>"),
    ("<robot xmlns:xacro='x'><xacro:macro name='m'/></robot>", "expand it first"),
    ("<robot name='x'><link name='a'><visual/></link></robot>", "needs a <geometry>"),
    ("<robot name='x'><link name='a'><visual><geometry><box size='1 1 0'/></geometry></visual></link></robot>", "z must be"),
    ("<robot name='x'><link name='a'><visual><geometry><cone/></geometry></visual></link></robot>", "a shape is a box"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_refused(tmp_path, text, message):
    with pytest.raises(da.ModelError, match=message):
        read(tmp_path, text)


def test_an_inertia_that_no_body_has(tmp_path):
    bad = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='3'/></inertial>"
    text = f"<robot name='x'><link name='r'/>\n<link name='a'>{bad}</link>{hinge('i', 'r', 'a')}</robot>"
    with pytest.raises(da.ModelError, match=r"robot.urdf, line 2, <link> 'a': .* principal moments 1, 1, 3"):
        read(tmp_path, text)


def test_wrong_options():
    with pytest.raises(da.ModelError, match="no joint 'elbo' with one freedom; did you mean 'elbow'"):
        da.read_urdf(ARM, pose={"elbo": 1.0})
    with pytest.raises(da.ModelError, match="base must be one of fixed, free"):
        da.read_urdf(ARM, base="floating")
    with pytest.raises(da.UnknownKeyword, match="did you mean 'base'"):
        da.read_urdf(ARM, bases="free")
