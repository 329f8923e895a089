"""The description of a mechanism: what is given, and what is refused."""

import numpy as np
import pytest

import dalembert as da


@pytest.fixture
def m():
    out = da.Mechanism(name="m")
    out.body("a", mass=2.0, inertia=[1.0, 2.0, 2.5], position=(1.0, 0.0, 0.0), rotation=[np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    out.body("b", shape=da.shapes.Box(1.0, 1.0, 1.0, position=(0.5, 0.0, 0.0)), density=2.0)
    return out


def test_points_and_axes_are_given_as_drawn(m):
    joint = m.revolute("j", "a", "b", at=(1.0, 1.0, 0.0), axis="y")
    np.testing.assert_allclose(joint.on_a.point, [1.0, 0.0, 0.0], atol=1e-15)  # a is turned by 90 degrees about z
    np.testing.assert_allclose(joint.on_a.axes[:, 2], [1.0, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(joint.on_b.point, [0.5, 1.0, 0.0], atol=1e-15)  # counted from the centre of mass
    np.testing.assert_allclose(joint.on_b.axes[:, 2], [0.0, 1.0, 0.0], atol=1e-15)


def test_points_in_the_frames_of_the_bodies(m):
    joint = m.revolute("j", "a", "b", on_a=(1.0, 0, 0), on_b=(1.0, 0, 0), axis_a="x", axis_b="z")
    np.testing.assert_allclose(joint.on_b.point, [0.5, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(joint.on_a.axes[:, 2], [1.0, 0.0, 0.0], atol=1e-15)


def test_mass_and_centre_of_a_shape(m):
    b = m.get_body("b")
    assert b.mass == pytest.approx(2.0)
    np.testing.assert_allclose(b.position, [0.5, 0, 0])
    np.testing.assert_allclose(b.origin, [0, 0, 0], atol=1e-16)


def test_an_inertia_about_the_origin_is_moved_to_the_centre():
    m = da.Mechanism()
    J = np.array([1.0, 2.0, 2.5])
    c = np.array([0.1, 0.2, 0.3])
    about = np.diag(J) + 3.0 * ((c @ c) * np.eye(3) - np.outer(c, c))
    body = m.body("a", mass=3.0, inertia=about, center=c, inertia_about="origin")
    np.testing.assert_allclose(body.inertia, np.diag(J), atol=1e-14)


def test_the_plane():
    m = da.Mechanism(gravity=(0, -9.81))
    rod = m.rod("rod", (0, 0), (3, 4), mass=2.0)
    np.testing.assert_allclose(rod.position, [1.5, 2.0, 0.0])
    np.testing.assert_allclose(rod.rotation[:, 0], [0.6, 0.8, 0.0], atol=1e-15)
    slide = m.prismatic("slide", "ground", "rod", axis=(1, 0))
    np.testing.assert_allclose(np.abs(slide.on_a.axes[:, 1]), [0, 0, 1], atol=1e-15)  # across the plane
    with pytest.raises(da.ModelError, match="in the plane"):
        m.body("b", mass=1.0, inertia=1.0, position=(0, 0, 1))


def test_a_rod_in_space_has_its_x_axis_along():
    m = da.Mechanism()
    rod = m.rod("rod", (0, 0, 0), (0, 0, 2), mass=1.0, radius=0.01)
    np.testing.assert_allclose(rod.rotation[:, 0], [0, 0, 1], atol=1e-15)
    assert np.linalg.det(rod.rotation) == pytest.approx(1.0)
    np.testing.assert_allclose(rod.inertia.diagonal()[1:], 4 / 12 + 0.0001 / 4)


WRONG = [
    (lambda m: m.body("c", mass=1.0, inertia=[1.0, 1.0, 3.0]), "above the sum"),
    (lambda m: m.body("c", mass=1.0, inertia=[1.0, 1.0, -1.0]), "must be positive"),
    (lambda m: m.body("c", mass=-1.0, inertia=[1, 1, 1]), "must be positive"),
    (lambda m: m.body("c", mass=1.0, inertia=[[1, 1, 0], [0, 1, 0], [0, 0, 1]]), "not symmetric"),
    (lambda m: m.body("c", mass=1.0), "needs an inertia"),
    (lambda m: m.body("c"), "needs a mass"),
    (lambda m: m.body("c", mass=1.0, density=1.0), "not both"),
    (lambda m: m.body("a", mass=1.0, inertia=[1, 1, 1]), "is taken"),
    (lambda m: m.body("ground", mass=1.0, inertia=[1, 1, 1]), "is taken"),
    (lambda m: m.body("c", mass=1.0, inertia=[1, 1, 1], rotation=2 * np.eye(3)), "no rotation"),
    (lambda m: m.body("c", mass=1.0, inertia=[1, 1, 1], rotation=np.diag([1, 1, -1])), "reflection"),
    (lambda m: m.body("c", mass=1.0, inertia=[1, 1, 1], rotation=[1, 1, 0, 0]), "unit quaternion"),
    (lambda m: m.body("c", mass=1.0, inertia=[1, 1, 1], position=[1, 1, np.nan]), "not finite"),
    (lambda m: m.revolute("j", "a", "c", at=(0, 0, 0), axis="z"), "no body 'c'"),
    (lambda m: m.revolute("j", "a", "b", at=(0, 0, 0)), "needs an axis"),
    (lambda m: m.revolute("j", "a", "b", axis="z"), "needs the point"),
    (lambda m: m.revolute("j", "a", "a", at=(0, 0, 0), axis="z"), "with itself"),
    (lambda m: m.revolute("j", "a", "b", at=(0, 0, 0), axis=(0, 0, 0)), "must not be zero"),
    (lambda m: m.universal("j", "a", "b", at=(0, 0, 0), axis="z"), "second axis"),
    (lambda m: m.universal("j", "a", "b", at=(0, 0, 0), axis="z", second=(0, 1, 1)), "perpendicular"),
    (lambda m: m.motor("motor", "elbow"), "no joint 'elbow'"),
    (lambda m: m.motor("motor", m.fixed("w", "a", "b")), "no freedom"),
    (lambda m: m.motor("motor", m.cylindrical("c", "a", "b", at=(0, 0, 0), axis="z")), "c.displacement.*c.angle"),
    (lambda m: m.spring("s", "a", "b", stiffness=-1.0), "must not be negative"),
    (lambda m: m.sensor("s", "a", measures="distance"), "goes with"),
    (lambda m: m.particle("p", mass=1.0) and m.revolute("j", "p", "b", at=(0, 0, 0), axis="z"), "point mass"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_what_is_wrong_is_said(m, wrong, said):
    with pytest.raises(da.ModelError, match=said):
        wrong(m)


def test_unknown_keywords(m):
    with pytest.raises(da.UnknownKeyword, match="did you mean 'axis'"):
        m.revolute("j", "a", "b", at=(0, 0, 0), axes="z")
