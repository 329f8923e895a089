"""Mechanisms to TOML files and back, to the last bit; files written by hand; what is refused."""

from pathlib import Path

import numpy as np
import pytest
from test_relative import arm, four_bar
from trees import random_tree

import dalembert as da
from dalembert.mechanisms import joints
from dalembert.mechanisms.formulas import Formula

DATA = Path(__file__).parent / "data"


def everything():
    """A mechanism with a part of each kind."""
    m = da.Mechanism(name='"odd" name \\ \x7f é', parameters={"omega": 2.5})
    rng = np.random.default_rng(0)
    box = da.shapes.Box(1.0, 0.2, 0.3, position=rng.normal(size=3), rotation=[0.6, 0.8, 0, 0], color="red")
    tetrahedron = ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    for name in "abcdefgh":
        m.body(name, shape=[box, da.shapes.Sphere(0.3)], density=1.1, position=rng.normal(size=3), rotation=rng.uniform())
    m.body("mesh", shape=da.shapes.Mesh(*tetrahedron), density=2.0, velocity=(1, 2, 3), angular_velocity=(0.1, 0.2, 0.3))
    m.particle("a point", mass=0.1, position=(1, 2, 3.3))
    m.fixed("weld", "ground", "a")
    m.revolute("hinge", "a", "b", at=rng.normal(size=3), axis=rng.normal(size=3), limits={"angle": (-1.0, 2.0)})
    m.prismatic("slide", "b", "c", axis=rng.normal(size=3))
    m.cylindrical("tube", "c", "d", axis="x", at=(0.1, 0, 0))
    m.screw("bolt", "d", "e", lead=0.123, axis="y", at=(0, 0.1, 0))
    m.universal("cross", "e", "f", at=(0, 0, 0), axis="x", second="y")
    m.spherical("ball", "f", "g", at=rng.normal(size=3))
    m.planar("table", "g", "h", axis="z", at=(0, 0, 0))
    m.distance("rod", "a", "mesh", length=lambda t, omega: 3 + 0.1 * np.sin(omega * t) ** 3 - np.sqrt(1 + t**2) / 7)
    m.distance("bar", "ground", "a point")
    m.gear("gear", "hinge", "bolt", ratio=1 / 3, freedoms=("angle", "angle"))
    m.rolling("wheel", "ground", "h", radius=0.3, axis="y", center=(0.1, 0.2, 0.3))
    m.spring("leaf", "a", "h", stiffness=3.0, damping=0.1, start=rng.normal(size=3))
    m.torsion_spring("coil", "hinge", stiffness=2.0, rest=0.1)
    m.bushing("rubber", "b", "g", at=rng.normal(size=3), stiffness=3.0, torsion=[1, 2, 3])
    m.friction("drag", "slide", viscous=0.1, dry=0.2, speed=0.01)
    m.rotor("rotor", "hinge", inertia=0.3)
    m.motor("motor", "hinge")
    m.force("push", "h", direction=rng.normal(size=3), at=rng.normal(size=3), follows=True)
    m.motion("crank", "slide", lambda t, omega: np.exp(-t) * np.cos(omega * t) + abs(t) / 3)
    m.sensor("tip", "h", at=rng.normal(size=3))
    m.sensor("gap", "h", measures="distance", other="a", at=(1, 1, 1), other_at=(2, 1, 0.1))
    return m


def same(a, b):
    """Whether two parts, or whatever they are made of, are the same to the last bit."""
    if callable(a) and callable(b):
        t = np.linspace(0, 2, 7)
        return all(float(a(x, 2.5)) == float(b(x, 2.5)) for x in t)
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, k), getattr(b, k)) for k in a.__dataclass_fields__)
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("make", [everything, arm, four_bar, lambda: da.read_urdf(DATA / "arm.urdf")])
def test_round_trip_to_the_last_bit(make, tmp_path):
    m = make()
    path = m.save(tmp_path / "m.toml")
    again = da.read_mechanism(path)
    assert again.to_toml() == m.to_toml()
    assert (again.name, again.dimension, again.parameters) == (m.name, m.dimension, m.parameters)
    assert same(again.ground.shape, m.ground.shape)
    for group in ("bodies", "joints", "couplings", "forces", "sensors"):
        one, two = getattr(m, group), getattr(again, group)
        assert list(one) == list(two)
        for name in one:
            assert same(one[name], two[name]), name


def test_random_trees_go_to_a_file_and_back(tmp_path):
    for seed in range(5):
        m = random_tree(
            np.random.default_rng(seed), tuple(joints.KINDS[k] for k in ("revolute", "spherical", "free")), reverse=0.5
        )
        again = da.read_mechanism(m.save(tmp_path / "m.toml"))
        assert all(same(m.bodies[k], again.bodies[k]) for k in m.bodies)
        assert all(same(m.joints[k], again.joints[k]) for k in m.joints)


def test_a_file_written_by_hand(tmp_path):
    path = tmp_path / "pendulum.toml"
    path.write_text("""
    [mechanism]
    gravity = [0.0, -9.81]
    [parameters]
    omega = 3.0
    [bodies.bar]
    kind = "rod"
    start = [0, 0]
    end = [1, 0]
    mass = 2.0
    [bodies.bob]
    density = 1000.0
    position = [1.5, 0]
    shapes = [{ kind = "box", x = 0.1, y = 0.1, z = 0.1, color = "blue" }]
    [joints.pin]
    kind = "revolute"
    a = "ground"
    b = "bar"
    at = [0, 0]
    limits = { angle = [-1, 1] }
    [joints.weld]
    kind = "fixed"
    a = "bar"
    b = "bob"
    [forces.drive]
    kind = "motion"
    joint = "pin"
    function = "0.3 * sin(omega * t)"
    [sensors.tip]
    body = "bob"
    """)
    m = da.read_mechanism(path)
    assert m.name == "pendulum"
    assert m.joints["pin"].limits == {"angle": (-1.0, 1.0)}
    s = m.assemble(coordinates="joint")
    sol = da.simulate(s, "rattle", t_end=0.5, step=0.01)
    np.testing.assert_allclose(sol.q[:, 0], 0.3 * np.sin(3 * sol.t), atol=1e-13)


WRONG = [
    ("[bodies", "is no TOML"),
    ("[body.a]\nmass = 1", "there is no table 'body' in a mechanism; did you mean 'bodies'"),
    ("format = 'x'", "has the format 'x'"),
    ("[mechanism]\nname = 3", "name must be a text"),
    ("[mechanism]\ngravitation = 3", "did you mean 'gravity'"),
    ("[bodies.a]\nmass = 1", r"\[bodies.a\]: body 'a' needs an inertia"),
    ("[bodies]\na = 3", "bodies.a must be a table"),
    ("[bodies.a]\nkind = 'ghost'", "kind must be one of body, particle, rod"),
    ("[bodies.a]\nmass = 1\ninertia = [1, 1, 1]\ncenter_of_mass = [1, 0, 0]", "1.0e\\+00 away"),
    ("[bodies.a]\nmass = 1\nshapes = [{ kind = 'cone' }]", "kind of a shape must be one of"),
    ("[bodies.a]\nmass = 1\nshapes = [{ kind = 'box', x = 1 }]", r"\[bodies.a\]"),
    ("[bodies.a]\nmass = 1\nshapes = [{ kind = 'mesh', file = 'none.stl' }]", "none.stl cannot be read"),
    ("[joints.j]\nkind = 'revolut'", "no kind 'revolut'; did you mean 'revolute'"),
    ("[joints.j]\nkind = 'revolute'\na = 'ground'\nb = 'x'\nat = [0, 0, 0]\naxis = 'z'", "no body 'x'"),
    ("[joints.j]\nkind = 'revolute'\na = 'ground'\nb = 'x'\non_a = { point = [0, 0, 0] }\nwhat = 1", "it has no 'what'"),
    ("[forces.f]\nkind = 'motor'\njoint = 'x'", "no joint 'x'"),
    ("[parameters]\nx = 'one'", "x must be a number"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_refused(tmp_path, text, message):
    path = tmp_path / "m.toml"
    path.write_text(text)
    with pytest.raises(da.DalembertError, match=message):
        da.read_mechanism(path)


def test_files_by_their_endings(tmp_path):
    assert da.read_mechanism(DATA / "arm.urdf").name == "arm"
    with pytest.raises(da.FileError, match="no mechanism that can be read"):
        da.read_mechanism(tmp_path / "m.json")
    with pytest.raises(da.FileError, match="cannot be read"):
        da.read_mechanism(tmp_path / "m.toml")
    with pytest.raises(da.FileError, match=r"name the file m\.toml"):
        four_bar().save(tmp_path / "m.json")
    with pytest.raises(da.FileError, match="cannot be written"):
        four_bar().save(tmp_path / "none" / "m.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(da.FileError, match="is no TOML"):
        da.read_mechanism(tmp_path / "bad.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(da.FileError, match="is no TOML"):
        da.read_mechanism(tmp_path / "deep.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os').system('ls')", "cannot stand in a formula"), ("t.real", "cannot stand"), ("open(t)", "no function"),
        ("[t for t in t]", "cannot stand"), ("sin(t, t)", "takes 1 arguments"), ("1 +", "is no formula"), ("'a'", "cannot stand"),
        ("(" * 500 + "t" + ")" * 500, "is no formula"), ("t" + " + t" * 20_000, "characters"), ("True", "cannot stand"),
        ("lambda: 1", "cannot stand"), ("sin(x=t)", "cannot stand"), ("t if t else 1", "cannot stand"),
    ],
)  # fmt: skip
def test_formulas_only_compute(text, message):
    with pytest.raises(da.ModelError, match=message):
        Formula("motion", text)


def test_formulas_have_values():
    f = Formula("f", "2 * a ** 2 - max(t, -1) / pi + atan2(t, a)")
    assert float(f(0.5, 3.0)) == 2 * 3.0**2 - 0.5 / np.pi + np.arctan2(0.5, 3.0)
    assert float(f(a=3.0, t=0.5)) == float(f(0.5, 3.0))


def test_a_function_that_is_no_formula_is_named(tmp_path):
    m = four_bar()
    m.motion("step", "A", lambda t: np.where(t > 1, 1.0, 0.0) * t)
    with pytest.raises(da.ModelError, match="'step': its function has an operation that a formula has not"):
        m.save(tmp_path / "m.toml")
