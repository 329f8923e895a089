"""Frames and mass matrices of trees, against Pinocchio and against the sum over bodies."""

import casadi as ca
import numpy as np
import pytest
from trees import random_tree

import dalembert as da
from dalembert.mechanisms import joints
from dalembert.mechanisms.relative import Relative
from dalembert.mechanisms.terms import Terms

pin = pytest.importorskip("pinocchio", reason="pin has no wheels for this platform")
ONE = (joints.Revolute, joints.Prismatic)
ALL = (*ONE, joints.Cylindrical, joints.Screw, joints.Universal, joints.Spherical, joints.Planar, joints.Free, joints.Fixed)


def se3(marker):
    return pin.SE3(marker.axes, marker.point)


def pinocchio(m):
    """The same tree in Pinocchio: places of joints on bodies, and bodies about their centres of mass."""
    model, z = pin.Model(), np.array([0.0, 0.0, 1.0])
    model.gravity = pin.Motion(np.r_[m.gravity, 0, 0, 0])
    kinds = {
        joints.Revolute: lambda: pin.JointModelRevoluteUnaligned(z),
        joints.Prismatic: lambda: pin.JointModelPrismaticUnaligned(z),
        joints.Spherical: pin.JointModelSpherical,
    }
    at = {"ground": (0, pin.SE3.Identity())}
    for joint in m.joints.values():
        parent, place = at[joint.a]
        number = model.addJoint(parent, kinds[type(joint)](), place * se3(joint.on_a), joint.name)
        body, centre = m.bodies[joint.b], se3(joint.on_b).inverse()
        model.appendBodyToJoint(number, pin.Inertia(body.mass, np.zeros(3), body.inertia), centre)
        at[joint.b] = (number, centre)
    return model


@pytest.mark.parametrize("seed", range(8))
def test_random_trees_agree_with_pinocchio(seed):
    rng = np.random.default_rng(seed)
    m = random_tree(rng, ONE, count=3 + seed)
    s, model = m.assemble(coordinates="joint"), pinocchio(m)
    data, n = model.createData(), s.n
    assert s.coordinates == tuple(model.names[1:])
    q, v, a = rng.normal(size=(3, n))
    M = pin.crba(model, data, q)
    np.testing.assert_allclose(da.mechanisms.mass_matrix(s, q), np.triu(M) + np.triu(M, 1).T, rtol=1e-12, atol=1e-12)
    gravity = pin.computeGeneralizedGravity(model, data, q)
    np.testing.assert_allclose(da.mechanisms.potential_force(s, q), gravity, rtol=1e-11, atol=1e-11)
    tau = pin.rnea(model, data, q, v, a)
    np.testing.assert_allclose(da.mechanisms.inverse_dynamics(s, q, v, a), tau, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(da.mechanisms.forward_dynamics(s, q, v), pin.aba(model, data, q, v, np.zeros(n)), rtol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_balls_by_quaternions_agree_with_pinocchio(seed):
    rng = np.random.default_rng(100 + seed)
    m = random_tree(rng, (joints.Spherical, *ONE), count=4)
    s, model = m.assemble(coordinates="joint", rotation="quaternion"), pinocchio(m)
    data = model.createData()
    q, theirs = rng.normal(size=s.n), pin.neutral(model)
    start = 0
    for j in range(1, model.njoints):  # theirs have the real part last, and length 1
        size = model.joints[j].nq
        own = q[start : start + size]
        if size == 4:
            own /= np.linalg.norm(own)
        theirs[model.joints[j].idx_q : model.joints[j].idx_q + size] = np.roll(own, -1) if size == 4 else own
        start += size
    v, a = rng.normal(size=(2, s.nv))
    M = pin.crba(model, data, theirs)
    np.testing.assert_allclose(da.mechanisms.mass_matrix(s, q), np.triu(M) + np.triu(M, 1).T, rtol=1e-12, atol=1e-12)
    tau = pin.rnea(model, data, theirs, v, a)
    np.testing.assert_allclose(da.mechanisms.inverse_dynamics(s, q, v, a), tau, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("rotation", ["angles", "quaternion"])
@pytest.mark.parametrize("seed", range(4))
def test_the_mass_matrix_is_the_sum_over_the_bodies(seed, rotation):
    """`v^T M v / 2` against masses and inertias times the velocities of frames, for all joints in both directions."""
    rng = np.random.default_rng(10 + seed)
    m = random_tree(rng, ALL, count=8, reverse=0.5)
    s = m.assemble(coordinates="joint", rotation=rotation)
    q, v = rng.normal(size=s.n) / 2, rng.normal(size=s.nv)
    rate = ca.jtimes(s.role("frames"), s.q, s.qdot(s.q, s.v))
    frames = s.numeric("frames", s.pack(), q=q)[0].reshape(-1, 12)
    rates = np.asarray(ca.Function("r", [s.q, s.v], [rate])(q, v).full()).reshape(-1, 12)
    T = 0.0
    for body, frame, change in zip(m.bodies.values(), frames, rates, strict=True):
        R, dR = frame[3:].reshape(3, 3).T, change[3:].reshape(3, 3).T
        np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-13)
        W = R.T @ dR
        w = np.array([W[2, 1], W[0, 2], W[1, 0]])
        T += body.mass * change[:3] @ change[:3] / 2 + w @ body.inertia @ w / 2
    M = da.mechanisms.mass_matrix(s, q)
    assert v @ M @ v / 2 == pytest.approx(T, rel=1e-12)
    np.testing.assert_allclose(M, M.T, atol=1e-13)
    V = -sum(b.mass * m.gravity @ f[:3] for b, f in zip(m.bodies.values(), frames, strict=True))
    assert float(s.value("potential", s.pack(), q=q)) == pytest.approx(V, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_frames_of_joints_are_at_the_values_of_the_coordinates(seed):
    rng = np.random.default_rng(50 + seed)
    m = random_tree(rng, ALL, count=8, reverse=0.5)
    coordinates = Relative(Terms(m))
    q = rng.uniform(-1, 1, size=len(coordinates.names))
    symbol = ca.SX.sym("q", len(q))
    frames = coordinates.frames(symbol)
    for joint in m.joints.values():
        values = joint.measures(frames[joint.a].at(joint.on_a), frames[joint.b].at(joint.on_b))
        for freedom, x in zip(joint.freedoms, values, strict=True):
            found = float(ca.Function("x", [symbol], [x])(q))
            known = float(ca.Function("x", [symbol], [coordinates.tree.value(joint.name, freedom.name, symbol)])(q))
            assert found == pytest.approx(known, abs=1e-12)


def test_the_size_of_expressions_grows_with_the_entries_of_the_matrix():
    def operations(n):
        m = da.Mechanism()
        for i in range(n):
            m.rod(f"rod{i}", (i, 0, 0), (i + 1, 0, 0), mass=1.0)
            m.revolute(f"hinge{i}", f"rod{i - 1}" if i else "ground", f"rod{i}", at=(i, 0, 0), axis="y" if i % 2 else "z")
        s = m.assemble(coordinates="joint")
        return s.function("mass").n_instructions() / n**2, s.function("potential").n_instructions() / n

    (mass, potential), (more_mass, more_potential) = operations(8), operations(16)
    assert more_mass < mass
    assert more_potential < 1.2 * potential
