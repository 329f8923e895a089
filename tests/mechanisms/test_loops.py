"""Closed loops: redundant constraints, prescribed lengths, gears over many turns."""

import numpy as np
import pytest

import dalembert as da
from dalembert.mechanisms.absolute import absolute
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.terms import Terms


def parallelogram(axis=None, cranks=3):
    """A beam on equal cranks: one more of them than it needs. With an axis in space, else in the plane."""
    flat = axis is None
    m = da.Mechanism(gravity=(0, -9.81) if flat else (0, -9.81, 0), name="parallelogram")
    last = cranks - 1.0
    place = (lambda x, y: (x, y)) if flat else (lambda x, y: (x, y, 0))
    m.rod("beam", place(0, 1), place(last, 1), mass=2.0)
    for i in range(cranks):
        m.rod(f"crank{i}", place(i, 0), place(i, 1), mass=1.0)
        m.revolute(f"foot{i}", "ground", f"crank{i}", at=place(i, 0), axis=axis)
        m.revolute(f"top{i}", f"crank{i}", "beam", at=place(i, 1), axis=axis)
    return m


def bricard():
    """Six rods along the edges of a cube, each hinge across its two rods: 6 R, by counting without freedom."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [1, -1, 0], [1, -1, 1], [0, -1, 1], [0, 0, 1]], dtype=float)
    m = da.Mechanism(gravity=(0, 0, -9.81), name="Bricard")
    names = ["ground", *(f"rod{i}" for i in range(1, 6))]
    for i in range(1, 6):
        m.rod(names[i], corners[i], corners[(i + 1) % 6], mass=1.0)
    for i in range(6):
        before, after = corners[i] - corners[i - 1], corners[(i + 1) % 6] - corners[i]
        m.revolute(f"hinge{i}", names[i - 1], names[i], at=corners[i], axis=np.cross(before, after))
    return m


def violated(m, sol):
    """The largest residual of all constraints, with those that were left out."""
    chosen = absolute(Terms(m), None)
    whole = Assembled(chosen, chosen.make())
    return np.abs(whole.numeric("holonomic", whole.pack(), q=sol.q)).max()


CASES = [
    (parallelogram, 1, "rank 11 of 12", 1),
    (lambda: parallelogram("z", 2), 3, "rank 35 of 38", 1),
    (bricard, 1, "rank 59 of 60", 1),
]


@pytest.mark.parametrize(("make", "extra", "said", "freedoms"), CASES)
def test_redundant_constraints_are_named_and_removed(make, extra, said, freedoms):
    m = make()
    with pytest.raises(da.SingularConstraints, match=said) as error:
        m.assemble()
    assert len(error.value.rows) == extra
    assert "redundant='remove'" in str(error.value)
    s = m.assemble(redundant="remove")
    assert s.freedoms == freedoms
    assert len(s.redundant) == extra


def test_what_was_left_out_holds_all_the_same():
    m = parallelogram("z", 2)
    sol = da.simulate(m.assemble(redundant="remove", rates={"foot0": 1.0}), "energy-momentum", t_end=0.3, step=0.01)
    assert violated(m, sol) < 1e-13
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-12


def test_bricard_moves_and_keeps_its_energy_in_space():
    m = bricard()
    sol = da.simulate(m.assemble(redundant="remove"), "energy-momentum", t_end=0.5, step=0.01)
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-12
    assert violated(m, sol) < 1e-13
    assert np.abs(sol.joint("hinge0").angle).max() > 0.1  # it does move


def test_reactions_of_least_norm_have_the_symmetry_of_the_drawing():
    m = parallelogram()
    s = m.assemble(redundant="least-norm")
    sol = da.simulate(s, "gauss-2", t_end=0.01, step=0.01)
    feet = [sol.joint(f"foot{i}").reaction_at(0.0).force[0] for i in range(3)]
    np.testing.assert_allclose(feet[0], feet[2], atol=1e-10)
    np.testing.assert_allclose(sum(feet), [0, 5 * 9.81, 0], atol=1e-10)
    np.testing.assert_allclose(feet[1], feet[0], atol=1e-10)  # a rigid beam on three equal legs
    other = da.simulate(m.assemble(redundant="remove"), "gauss-2", t_end=0.01, step=0.01)
    np.testing.assert_allclose(other.q, sol.q, atol=1e-14)  # the motion is the same


def test_reactions_of_least_norm_of_bricard_have_its_symmetry():
    """Half a turn about (0, 1, -1) maps the loop to itself, and gravity along this axis too."""
    m = bricard()
    m.gravity = np.array([0.0, 7.0, -7.0])
    turn, norms = np.array([[-1, 0, 0], [0, 0, -1], [0, -1, 0]]), []
    for redundant in ("least-norm", "remove"):
        system = m.assemble(redundant=redundant)
        sol = da.simulate(system, "gauss-1", t_end=0.001, step=0.001, compile=False)
        found = [sol.joint(f"hinge{i}").reaction_at(0.0) for i in range(6)]
        norms.append(sum((x.force**2).sum() + (x.torque**2).sum() / system.size**2 for x in found))
        for i, j in ((0, 1), (5, 2), (4, 3)):
            np.testing.assert_allclose(turn @ found[i].force[0], -found[j].force[0], atol=1e-9)
            np.testing.assert_allclose(turn @ found[i].torque[0], -found[j].torque[0], atol=1e-9)
    assert norms[0] < 0.99 * norms[1]


def test_a_stewart_platform_follows_six_prescribed_lengths():
    """Lengths from the inverse kinematics of a given motion; the platform makes it."""
    angles = np.radians([0, 120, 240])
    base = [1.5 * np.array([np.cos(a + s), np.sin(a + s), 0]) for a in angles for s in (-0.2, 0.2)]
    top = [np.array([np.cos(a + s), np.sin(a + s), 0]) for a in angles for s in (-0.8, 0.8)]

    def place(t):
        return np.stack([0.1 * np.sin(3 * t), 0.2 * np.sin(2 * t), 1.2 + 0.1 * np.sin(t)])

    def turned(t, p):
        c, s = np.cos(0.3 * np.sin(t)), np.sin(0.3 * np.sin(t))
        return np.stack([c * p[0] - s * p[1], s * p[0] + c * p[1], 0 * t])

    m = da.Mechanism()
    m.body("platform", mass=5.0, inertia=[1.0, 1.2, 2.0], position=(0, 0, 1.2))
    for i, (a, b) in enumerate(zip(base, top, strict=True)):
        m.distance(
            f"leg{i}", "ground", "platform", start=a, on_b=b,
            length=lambda t, a=a, b=b: np.sqrt(np.sum((place(t) + turned(t, b) - a) ** 2)),
        )  # fmt: skip
    s = m.assemble()
    assert s.freedoms == 0
    sol = da.simulate(s, "lobatto-pair-2", t_end=1.0, step=0.02)
    body = sol.body("platform")
    np.testing.assert_allclose(body.position, np.array([place(t) for t in sol.t]), atol=1e-12)
    angle = 0.3 * np.sin(sol.t)
    np.testing.assert_allclose(body.rotation[:, 0, 0], np.cos(angle), atol=1e-12)
    assert sol.joint("leg0").reaction.force[0, 2] > 0  # the leg carries


def wheels(dimension):
    flat = dimension == 2
    m = da.Mechanism(gravity=(0,) * dimension, name="wheels")
    inertia = (lambda x: x) if flat else (lambda x: [x, x, 1.5 * x])
    for name, x, J in (("small", 0.0, 0.1), ("large", 3.0, 0.8)):
        m.body(name, mass=1.0, inertia=inertia(J), position=(x, 0, 0)[:dimension])
        m.revolute(f"{name} axle", "ground", name, at=(x, 0, 0)[:dimension], axis="z")
    m.gear("gears", "small axle", "large axle", ratio=-2.5)
    m.motor("drive", "small axle")
    return m


@pytest.mark.parametrize("dimension", [2, 3])
def test_gears_over_many_turns(dimension):
    """`J1 + J2 / i^2` is what the motor turns."""
    s = wheels(dimension).assemble()
    assert s.freedoms == 1
    sol = da.simulate(s, "lobatto-pair-3", t_end=8.0, step=0.01, u={"drive": 1.0}, save_every=5)
    moment = (0.1 + 0.8 / 6.25) if dimension == 2 else 1.5 * (0.1 + 0.8 / 6.25)
    small, large = sol.joint("small axle").angle, sol.joint("large axle").angle
    np.testing.assert_allclose(small, sol.t**2 / 2 / moment, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(small, -2.5 * large, atol=1e-8)
    assert small[-1] > 80


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_rack_over_many_turns(dimension):
    flat = dimension == 2
    m = da.Mechanism(gravity=(0,) * dimension)
    m.body("pinion", mass=1.0, inertia=0.2 if flat else [0.2, 0.2, 0.2])
    m.body("bar", mass=3.0, inertia=0.2 if flat else [0.2, 0.2, 0.2], position=(0, 0.5, 0)[:dimension])
    m.revolute("axle", "ground", "pinion", at=(0, 0, 0)[:dimension], axis="z")
    m.prismatic("slide", "ground", "bar", axis=(1, 0, 0)[:dimension])
    m.rack("teeth", "slide", "axle", radius=0.3)
    sol = da.simulate(m.assemble(rates={"axle": 9.0}), "lobatto-pair-2", t_end=3.0, step=0.01)
    np.testing.assert_allclose(sol.joint("slide").displacement, 0.3 * sol.joint("axle").angle, atol=1e-10)
    assert sol.joint("axle").angle[-1] == pytest.approx(27.0, rel=1e-3)


def test_a_screw_over_many_turns():
    m = da.Mechanism(gravity=(0, 0, 0))
    m.body("nut", mass=2.0, inertia=[0.1, 0.1, 0.2])
    m.screw("thread", "ground", "nut", lead=0.05, axis="z", at=(0, 0, 0))
    s = m.assemble(rates={"thread.angle": 12.0})
    assert s.freedoms == 1
    sol = da.simulate(s, "lobatto-pair-2", t_end=3.0, step=0.01)
    joint = sol.joint("thread")
    np.testing.assert_allclose(joint.displacement, 0.05 / (2 * np.pi) * joint.angle, atol=1e-10)
    assert joint.angle[-1] > 35


def test_prescribed_motion_over_many_turns_and_its_torque():
    """A wheel with a prescribed speed and friction: the drive gives what the friction takes."""
    m = da.Mechanism(gravity=(0, 0, 0), parameters={"speed": 20.0})
    m.body("wheel", mass=1.0, inertia=[0.1, 0.1, 0.15])
    m.revolute("axle", "ground", "wheel", at=(0, 0, 0), axis="z")
    m.friction("oil", "axle", viscous=0.3)
    m.motion("drive", "axle", lambda t, speed: speed * t)
    sol = da.simulate(m.assemble(), "gauss-2", t_end=2.0, step=0.01)
    np.testing.assert_allclose(sol.joint("axle").angle, 20.0 * sol.t, rtol=1e-5)
    np.testing.assert_allclose(sol.drive("drive"), 6.0, rtol=1e-2)
    assert sol.supplied.sum() == pytest.approx(0.3 * 400 * 2.0, rel=1e-2)


@pytest.mark.parametrize("more", [{}, {"coordinates": "joint"}])
def test_motions_that_contradict_each_other_later_are_refused(more):
    """Both hold at the start: to leave one of them out would be another motion than the one asked for."""
    m = da.Mechanism(gravity=(0, -9.81))
    m.rod("rod", (0, 0), (1, 0), mass=1.0)
    m.revolute("pin", "ground", "rod", at=(0, 0))
    m.motion("slow", "pin", lambda t: t)
    m.motion("fast", "pin", lambda t: t + t**2)
    with pytest.raises(da.InconsistentState, match="agrees with the other joints and motions at t = 0 and is off by"):
        m.assemble(redundant="remove", **more)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
def test_a_linkage_that_is_stretched_out_cannot_move(coordinates):
    """Links of 1, 2 and 1 between points 4 apart: there is no other pose, and it is singular."""
    m = da.Mechanism(gravity=(0, -9.81))
    at = [(0, 0), (1, 0), (3, 0), (4, 0)]
    for i in range(3):
        m.rod(f"rod{i}", at[i], at[i + 1], mass=1.0)
        m.revolute(f"pin{i}", f"rod{i - 1}" if i else "ground", f"rod{i}", at=at[i])
    m.revolute("pin3", "rod2", "ground", at=at[3])
    with pytest.raises(da.SingularConstraints, match="starts in a singular pose: the rank of the constraints of"):
        m.assemble(coordinates=coordinates)


def test_a_motion_beyond_what_a_linkage_can_reach_names_the_joint():
    m = da.Mechanism(gravity=(0, 0))
    m.rod("crank", (0, 0), (0, 1), mass=1.0)
    m.rod("rod", (0, 1), (2, 0), mass=1.0)
    m.body("slider", mass=1.0, inertia=1.0, position=(2, 0))
    m.revolute("A", "ground", "crank", at=(0, 0))
    m.revolute("B", "crank", "rod", at=(0, 1))
    m.revolute("C", "rod", "slider", at=(2, 0))
    m.prismatic("guide", "ground", "slider", axis=(1, 0))
    m.motion("push", "guide", lambda t: t)
    with pytest.raises(da.SingularConstraints, match=r"dead point, or at the end of what it can reach: joint '[ABC]'") as error:
        da.simulate(m.assemble(), "rattle", t_end=2.0, step=0.02)
    assert error.value.solution.t[-1] == pytest.approx(np.sqrt(5) - 1, abs=0.05)
