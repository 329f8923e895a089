"""How parts are named."""

import pytest

import dalembert as da


def test_a_joint_with_several_freedoms_asks_which():
    top = da.Mechanism(gravity=(0, 0, -9.81))
    top.body("top", mass=1.0, inertia=[0.02, 0.02, 0.01], position=(0.0, 0.0, 0.3))
    top.spherical("tip", "ground", "top", at=(0, 0, 0))
    with pytest.raises(da.ModelError, match=r"'tip' has several freedoms: say which, as 'tip.angle_x'"):
        top.assemble(rates={"tip": 30.0})
    system = top.assemble(rates={"tip.angle_z": 30.0}, rotation="quaternion")
    assert system.initial["v"][-1] == pytest.approx(30.0)
