"""The arm of a URDF file against Pinocchio and MuJoCo."""

from pathlib import Path

import numpy as np
import pytest

import dalembert as da

pin = pytest.importorskip("pinocchio", reason="pin has no wheels for this platform")
mujoco = pytest.importorskip("mujoco", reason="mujoco has no wheels for this platform")
ARM = Path(__file__).parent / "data" / "arm.urdf"


@pytest.fixture(scope="module")
def arm():
    """The arm without dry friction, which MuJoCo has as a constraint of its own."""
    m = da.read_urdf(ARM)
    m.forces.pop("shoulder_pan_friction")
    m.friction("shoulder_pan_friction", "shoulder_pan", viscous=0.5)
    return m.assemble(coordinates="joint")


@pytest.fixture(scope="module")
def undamped():
    m = da.read_urdf(ARM)
    for name in [name for name in m.forces if name.endswith("friction")]:
        m.forces.pop(name)
    return m.assemble(coordinates="joint")


def turned(model, q):
    """Coordinates of Pinocchio, which has cosine and sine of a joint without limits."""
    out = pin.neutral(model)
    for x, joint in zip(q, model.joints[1:], strict=True):
        out[joint.idx_q : joint.idx_q + joint.nq] = [np.cos(x), np.sin(x)] if joint.nq == 2 else x
    return out


def test_mass_gravity_and_inverse_dynamics_agree_with_pinocchio(undamped):
    model = pin.buildModelFromUrdf(str(ARM))
    data = model.createData()
    assert undamped.coordinates == tuple(model.names[1:])
    rng = np.random.default_rng(3)
    for _ in range(5):
        q, v, a = rng.normal(size=(3, 6)) * [[2], [3], [5]]
        M = pin.crba(model, data, turned(model, q))
        np.testing.assert_allclose(da.mechanisms.mass_matrix(undamped, q), np.triu(M) + np.triu(M, 1).T, atol=1e-13)
        gravity = pin.computeGeneralizedGravity(model, data, turned(model, q))
        np.testing.assert_allclose(da.mechanisms.potential_force(undamped, q), gravity, atol=1e-12)
        tau = pin.rnea(model, data, turned(model, q), v, a)
        np.testing.assert_allclose(da.mechanisms.inverse_dynamics(undamped, q, v, a), tau, atol=1e-11)
        np.testing.assert_allclose(
            da.mechanisms.bias(undamped, q, v), pin.nonLinearEffects(model, data, turned(model, q), v), atol=1e-11
        )


@pytest.fixture
def theirs():
    model = mujoco.MjModel.from_xml_path(str(ARM))
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_FRICTIONLOSS
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, 1e-3
    return model


def test_forward_dynamics_agrees_with_mujoco(arm, theirs):
    data, rng = mujoco.MjData(theirs), np.random.default_rng(4)
    for _ in range(5):
        q, v, u = rng.normal(size=(3, 6)) * [[2], [3], [20]]
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, u
        mujoco.mj_forward(theirs, data)
        np.testing.assert_allclose(da.mechanisms.forward_dynamics(arm, q, v, u=u), data.qacc, rtol=1e-9, atol=1e-9)


def test_a_trajectory_agrees_with_mujoco(arm, theirs):
    q0, torque = np.array([0.1, -1.0, 0.8, 0.3, 0.2, 0.1]), np.array([5.0, -20.0, 8.0, 1.0, 0.5, -0.2])
    sol = da.simulate(arm, "gauss-3", q=q0, v=np.zeros(6), u=torque, t_end=0.5, step=0.005)
    data = mujoco.MjData(theirs)
    data.qpos[:], data.qfrc_applied[:] = q0, torque
    for _ in range(500):
        mujoco.mj_step(theirs, data)
    assert np.abs(data.qpos - q0).max() > 0.5
    np.testing.assert_allclose(sol.q[-1], data.qpos, atol=1e-7)  # of Runge's method at a millisecond
    np.testing.assert_allclose(sol.v[-1], data.qvel, atol=1e-6)


def test_inverse_dynamics_of_a_trajectory_gives_its_torques(arm):
    torque = np.array([5.0, -20.0, 8.0, 1.0, 0.5, -0.2])
    sol = da.simulate(arm, "gauss-3", v=np.ones(6), u=torque, t_end=0.1, step=0.01)
    a = da.mechanisms.forward_dynamics(arm, sol.q, sol.v, u=torque)
    np.testing.assert_array_equal(a, da.mechanisms.forward_dynamics(arm, sol.q, sol.v, u=np.tile(torque, (len(sol.t), 1))))
    found = da.mechanisms.inverse_dynamics(arm, sol.q, sol.v, a)
    np.testing.assert_allclose(found, np.tile(torque, (len(sol.t), 1)), atol=1e-11)


def test_wrong_arguments(arm):
    with pytest.raises(da.ModelError, match="v must have 6 entries"):
        da.mechanisms.bias(arm, np.zeros(6), np.zeros(5))
    with pytest.raises(da.ModelError, match="u must have 6 entries, one for each input"):
        da.mechanisms.forward_dynamics(arm, np.zeros(6), np.zeros(6), u=[1.0, 2.0])
    with pytest.raises(da.ModelError, match="a mechanical system is needed"):
        da.mechanisms.mass_matrix(da.LinearDAE([[1.0]], [[1.0]]), [0.0])
    with pytest.raises(da.ModelError, match="has 1 constraints: the forces of a motion are not unique"):
        da.mechanisms.inverse_dynamics(da.catalog.make("simple-pendulum"), [1, 0], [0, 0], [0, 0])
    with pytest.raises(da.UnknownKeyword, match="parameters"):
        da.mechanisms.mass_matrix(arm, np.zeros(6), parameter={})
