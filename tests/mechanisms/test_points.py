"""Auxiliary variables beside the coordinates: angles that are counted over all turns."""

import numpy as np
import pytest

import dalembert as da


def wheels(dimension, ratio):
    flat = dimension == 2
    m = da.Mechanism(gravity=(0,) * dimension, name="wheels")
    for name, x, J in (("small", 0.0, 0.1), ("large", 3.0, 0.8)):
        m.body(name, mass=1.0, inertia=J if flat else [J, J, J], position=(x, 0, 0)[:dimension])
        m.revolute(f"{name} axle", "ground", name, at=(x, 0, 0)[:dimension], axis="z")
    m.gear("gears", "small axle", "large axle", ratio=ratio)
    m.motor("drive", "small axle")
    return m


@pytest.mark.parametrize("ratio", [np.sqrt(2), 37 / 12])
@pytest.mark.parametrize(
    ("dimension", "more"), [(2, {"rotation": "directors"}), (3, {"rotation": "quaternion"}), (3, {"coordinates": "joint"})]
)
def test_gears_of_any_ratio_keep_their_angles_over_many_turns(dimension, more, ratio):
    """`J1 + J2 / i^2` is what the motor turns; where the coordinates do not count turns, an auxiliary one does."""
    system = wheels(dimension, ratio).assemble(**more)
    assert (system.freedoms, system.mn) == (1, 0)
    assert any(name.endswith("_counted") for name in system.coordinates) == ("coordinates" not in more)
    sol = da.simulate(system, "murua-ggl-2", t_end=2.0, step=0.02, u={"drive": 4.0})
    small, large = sol.joint("small axle").angle, sol.joint("large axle").angle
    np.testing.assert_allclose(small, ratio * large, atol=1e-12)
    np.testing.assert_allclose(small[-1], 2.0 * 2.0**2 / (0.1 + 0.8 / ratio**2), rtol=1e-3)
    assert large[-1] > 8
    axle = sol.joint("large axle").reaction_at(sol.t[[0, -1]])  # the teeth act beside the joint
    np.testing.assert_allclose(axle.torque, 0, atol=1e-8)


def wound(**more):
    m = da.Mechanism(gravity=(0, 0, 0))
    m.body("wheel", mass=1.0, inertia=[0.2, 0.2, 0.3])
    m.revolute("axle", "ground", "wheel", at=(0, 0, 0), axis="z")
    m.torsion_spring("clock", "axle", stiffness=1.2, rest=12.0, **more)
    return m


@pytest.mark.parametrize("more", [{"rotation": "directors"}, {"rotation": "quaternion"}, {"coordinates": "joint"}])
def test_a_spring_wound_by_turns(more):
    """`x = 12 (1 - cos(2 t))`, almost four turns, and back."""
    sol = da.simulate(wound(turns=True).assemble(**more), "murua-ggl-3", t_end=2.0, step=0.02)
    exact = 12 * (1 - np.cos(2 * sol.t))
    np.testing.assert_allclose(sol.joint("axle").angle, exact, atol=1e-6)
    np.testing.assert_allclose(sol.energy, 1.2 * 12**2 / 2, rtol=1e-6)


def test_what_is_counted_goes_to_files(tmp_path):
    m = wound(turns=True)
    assert da.read_mechanism(m.save(tmp_path / "m.toml")).forces["clock"].turns


@pytest.mark.parametrize(
    ("system", "said"),
    [
        (lambda: wound(turns=True).assemble(), r"counts the turns of joint 'axle' .*coordinates='joint'\), or use .*murua-ggl-3"),
        (lambda: da.catalog.mechanisms.cam_follower().assemble(), r"where the bodies of 'touch' touch and has no mass: use "),
    ],
)
def test_methods_that_need_masses_say_what_has_none(system, said):
    with pytest.raises(da.ModelError, match=said):
        da.simulate(system(), "rattle", t_end=0.1, step=0.01)


@pytest.mark.parametrize("every", [1, 50])
@pytest.mark.parametrize(("method", "rotation"), [("energy-momentum", "directors"), ("gauss-2", "quaternion")])
def test_a_spring_that_is_not_counted_stops_at_half_a_turn(method, rotation, every):
    """Its force would jump there from one side to the other, also between rows that are kept."""
    system = wound().assemble(rotation=rotation)
    with pytest.raises(
        da.ModelError, match=r"'clock' is wound further than half a turn .*coordinates='joint'\), or torsion_spring"
    ) as error:
        da.simulate(system, method, t_end=2.0, step=0.02, save_every=every)
    t = np.arccos(1 - np.pi / 12) / 2
    assert error.value.solution.t[-1] == pytest.approx(t, abs=0.02)
    da.simulate(system, method, t_end=t - 0.02, step=(t - 0.02) / 10)
