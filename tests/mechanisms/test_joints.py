"""Rows and freedoms of a joint say the same."""

import casadi as ca
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dalembert as da
from dalembert.mechanisms import joints
from dalembert.mechanisms.frames import Frame, Marker, numbers

HERE = Marker(np.zeros(3), np.eye(3))
CARRYING = [kind for kind in joints.KINDS.values() if kind is not joints.Distance]


def made(kind):
    more = {"lead": 0.1} if kind is joints.Screw else {"length": 2.0} if kind is joints.Distance else {}
    return kind(name="j", a="a", b="b", on_a=HERE, on_b=HERE, **more)


def random_frame(rng):
    return Frame.fixed(rng.normal(size=3), Rotation.random(random_state=rng.integers(2**31)).as_matrix())


def values(rows):
    return np.asarray(ca.evalf(ca.vertcat(*rows)).full()).ravel() if rows else np.zeros(0)


@pytest.mark.parametrize("kind", CARRYING)
def test_the_rows_vanish_on_the_free_motions_and_the_measures_are_their_values(kind):
    joint, rng = made(kind), np.random.default_rng(3)
    for _ in range(5):
        A, x = random_frame(rng), rng.uniform(-1.4, 1.4, len(joint.freedoms))
        B = joint.moved(A, ca.SX(ca.DM(x)))
        assert np.abs(values(joint.rows(A, B, ca.SX(0)))).max(initial=0) < 1e-14
        np.testing.assert_allclose(values(joint.measures(A, B)), x, atol=1e-14)


@pytest.mark.parametrize("kind", CARRYING)
def test_rows_and_freedoms_are_six_together_and_independent(kind):
    joint, rng = made(kind), np.random.default_rng(4)
    A, x = random_frame(rng), rng.uniform(-1, 1, len(joint.freedoms))
    B = joint.moved(A, ca.SX(ca.DM(x)))
    d, w = ca.SX.sym("d", 3), ca.SX.sym("w", 3)
    near = Frame(B.origin + d, (ca.SX.eye(3) + ca.skew(w)) @ B.axes)  # to first order
    rows = joint.rows(A, near, ca.SX(0))
    J = ca.jacobian(ca.vertcat(*rows), ca.vertcat(d, w)) if rows else ca.SX(0, 6)
    slope = np.asarray(ca.Function("f", [d, w], [ca.densify(J)])(0, 0).full()).reshape(-1, 6)
    assert len(slope) == 6 - len(joint.freedoms)
    assert np.linalg.matrix_rank(slope, tol=1e-3) == len(slope)


def test_a_distance_is_one_row():
    joint = made(joints.Distance)
    A, B = Frame.fixed(np.zeros(3), np.eye(3)), Frame.fixed(np.array([0.0, 2.0, 0.0]), np.eye(3))
    assert values(joint.rows(A, B, ca.SX(0))) == pytest.approx([0.0], abs=1e-15)
    assert not joint.tree
    assert joint.measures(A, B) == []


def test_frames_of_markers():
    A = Frame.fixed(np.array([1.0, 2.0, 3.0]), Rotation.from_euler("z", 90, degrees=True).as_matrix())
    origin, axes = numbers(A.at(Marker(np.array([1.0, 0.0, 0.0]), np.eye(3))))
    np.testing.assert_allclose(origin, [1.0, 3.0, 3.0], atol=1e-15)
    np.testing.assert_allclose(axes[:, 0], [0.0, 1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"angel": (0, 1)}, "did you mean 'angle'"),
        ({"angle": (1, 0)}, "a lower and an upper number"),
        ({"angle": 1.0}, "not 1.0"),
    ],
)
def test_limits_are_checked(limits, said):
    m = da.Mechanism()
    m.body("arm", mass=1.0, inertia=[1.0, 1.0, 1.0])
    with pytest.raises(da.ModelError, match=said):
        m.revolute("hinge", "ground", "arm", at=(0, 0, 0), axis="z", limits=limits)
