"""Rolling and skating against independent equations."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from conftest import alone_and_repeated, assert_order

G = 9.81


def turntable(method="spark-3", step=0.01):
    """A ball on a turntable that turns at a given rate."""
    m = da.Mechanism(parameters={"rate": 1.5})
    m.body("table", mass=10.0, inertia=[1.0, 1.0, 1.9])
    m.body("ball", mass=0.5, shape=da.shapes.Sphere(0.1), position=(0.3, 0.0, 0.1), velocity=(0.0, 0.2, 0.0))
    m.revolute("pivot", "ground", "table", at=(0, 0, 0), axis="z")
    m.motion("drive", "pivot", lambda t, rate: rate * t)
    m.rolling("contact", "table", "ball", radius=0.1)
    return da.simulate(m.assemble(), method, t_end=2.0, step=step)


def test_a_ball_on_a_turntable_goes_around_at_two_sevenths_of_its_rate():
    """`v' = (2/7) rate z x v` of a homogeneous ball: circles."""
    sol = turntable()
    ball = sol.body("ball")
    w = 2 / 7 * 1.5
    speed = ball.velocity[0]
    angle = w * sol.t
    turned = np.stack(
        [speed[0] * np.cos(angle) - speed[1] * np.sin(angle), speed[0] * np.sin(angle) + speed[1] * np.cos(angle)], axis=1
    )
    np.testing.assert_allclose(ball.velocity[:, :2], turned, atol=1e-7)
    np.testing.assert_allclose(ball.position[:, 2], 0.1, atol=1e-13)
    assert np.abs(sol.residual("velocity")).max() < 1e-12


def disc(y, r, A, C, m):
    """Rates of the inclination and the three angular velocities of a disc that rolls: `H' + m r e2 x (v' + g k) = 0`.

    In the frame of the horizontal diameter e1, the line e2 up the disc, and the axis e3; `y = (theta, p, u, w)`.
    """
    theta, p, u, w = y
    frame = np.array([p, u, u / np.tan(theta)])  # how it turns

    def residual(x):
        dp, du, dw = x
        H, dH = np.array([A * p, A * u, C * w]), np.array([A * dp, A * du, C * dw])
        v, dv = r * np.array([-w, 0.0, p]), r * np.array([-dw, 0.0, dp])
        up = np.array([0.0, np.sin(theta), np.cos(theta)])
        return dH + np.cross(frame, H) + m * r * np.cross([0.0, 1.0, 0.0], dv + np.cross(frame, v) + G * up)

    zero = residual(np.zeros(3))
    J = np.stack([residual(e) - zero for e in np.eye(3)], axis=1)
    return [p, *np.linalg.solve(J, -zero)]


def test_a_rolling_disc_against_its_reduced_equations():
    r, m, theta = 0.5, 2.0, 1.2
    A, C = 0.3 * m * r**2, 0.5 * m * r**2
    p, u, w = 0.3, 0.8, 4.0
    e1, e2, e3 = np.array([1.0, 0, 0]), np.array([0, np.cos(theta), np.sin(theta)]), np.array([0, -np.sin(theta), np.cos(theta)])
    e1, e2 = e1, np.cross(e3, e1)
    omega = p * e1 + u * e2 + w * e3
    mech = da.Mechanism()
    mech.body(
        "disc", mass=m, inertia=[A, A, C], position=r * e2, rotation=np.stack([e1, e2, e3], axis=1), angular_velocity=omega,
        velocity=np.cross(omega, r * e2),
    )  # fmt: skip
    mech.rolling("contact", "ground", "disc", radius=r, axis=e3)
    system = mech.assemble()
    assert system.freedoms == 3
    wanted = solve_ivp(lambda t, y: disc(y, r, A, C, m), (0, 1), [theta, p, u, w], method="DOP853", rtol=1e-12, atol=1e-13).y[
        :, -1
    ]
    errors, steps = [], [0.02, 0.01, 0.005]
    for step in steps:
        sol = da.simulate(system, "spark-2", t_end=1.0, step=step)
        axis = sol.body("disc").rotation[-1][:, 2]
        errors.append(abs(np.arccos(axis[2]) - wanted[0]))
        assert np.abs(sol.residual("position")).max() < 1e-12
    assert_order(errors, steps, 2)
    fine = da.simulate(system, "spark-4", t_end=1.0, step=0.01)
    axis = fine.body("disc").rotation[-1][:, 2]
    assert np.arccos(axis[2]) == pytest.approx(wanted[0], abs=1e-9)
    np.testing.assert_allclose(fine.energy, fine.energy[0], rtol=1e-9)


def test_a_knife_edge_on_a_slope_moves_across_it_on_a_cycloid():
    """With `x` down the slope: `x = g sin^2(w t) / (2 w^2)`, `y = g (t - sin(2 w t) / (2 w)) / (2 w)` (Neimark, Fufaev 1972)."""
    w, g = 2.0, 3.0
    m = da.Mechanism(gravity=(g, 0))
    m.body("skate", mass=1.5, inertia=0.2, angular_velocity=w)
    m.knife_edge("blade", "ground", "skate", at=(0, 0), axis="x")
    sol = da.simulate(m.assemble(), "spark-4", t_end=3.0, step=0.02)
    t, x = sol.t, sol.body("skate").position
    np.testing.assert_allclose(x[:, 0], g * np.sin(w * t) ** 2 / (2 * w**2), atol=1e-8)
    np.testing.assert_allclose(x[:, 1], g * (t - np.sin(2 * w * t) / (2 * w)) / (2 * w), atol=1e-8)


def test_a_wheel_in_the_plane_rolls_down():
    m = da.Mechanism(gravity=(G * np.sin(0.3), -G * np.cos(0.3)))
    m.body("wheel", mass=2.0, shape=da.shapes.Cylinder(0.4, 0.1), position=(0, 0.4))
    m.rolling("contact", "ground", "wheel", radius=0.4)
    sol = da.simulate(m.assemble(), "spark-2", t_end=1.0, step=0.01)
    np.testing.assert_allclose(sol.body("wheel").position[:, 0], 2 / 3 * G * np.sin(0.3) * sol.t**2 / 2, atol=1e-12)


@pytest.mark.parametrize("given", [{}, {"coordinates": "joint"}])
def test_the_ground_carries_a_ball_and_keeps_it_from_slipping(given):
    """On a slope, `m a = m g + F` with `a = g / (1 + J / (m r^2))` along it."""
    m = da.Mechanism(gravity=(3.0, 0, -9.0))
    m.body("ball", mass=2.0, inertia=[0.2] * 3, position=(0, 0, 0.5))
    m.rolling("contact", "ground", "ball", radius=0.5)
    sol = da.simulate(m.assemble(**given), "gauss-2", t_end=0.01, step=0.01, compile=False)
    along = 2.0 * 3.0 / (1 + 0.2 / (2.0 * 0.25)) - 2.0 * 3.0
    reaction = sol.joint("contact").reaction_at([0.0])
    np.testing.assert_allclose(reaction.force[0], [along, 0, 18.0], atol=1e-12)
    np.testing.assert_allclose(reaction.torque[0], [0, -0.5 * along, 0], atol=1e-12)  # at the centre


def test_a_blade_carries_what_its_path_asks_for():
    m = da.Mechanism()
    m.body("skate", mass=2.0, inertia=[0.2] * 3)
    m.planar("ice", "ground", "skate", axis="z", at=(0, 0, 0))
    m.knife_edge("blade", "ground", "skate", at=(0, 0, 0), axis="x")
    sol = da.simulate(m.assemble(rates={"ice.x": 1.5, "ice.angle": 2.0}), "gauss-3", t_end=0.05, step=0.01, compile=False)
    force = sol.joint("blade").reaction.within("skate").force
    np.testing.assert_allclose(force, np.tile([0, 2.0 * 1.5 * 2.0, 0], (len(force), 1)), atol=1e-9)


def test_a_blade_holds_a_body_that_does_not_turn():
    """Its constraint is one on positions there, which the positions of the bodies themselves do not show."""
    m = da.Mechanism(gravity=(1, 2, 0))
    m.body("table", mass=1.0, inertia=[0.1] * 3)
    m.body("slide", mass=2.0, inertia=[0.1] * 3)
    m.prismatic("x", "ground", "table", axis="x")
    m.prismatic("y", "table", "slide", axis="y")
    m.knife_edge("blade", "ground", "slide", at=(0, 0, 0), axis="x")
    sol = da.simulate(m.assemble(coordinates="joint"), "gauss-2", t_end=0.02, step=0.01, compile=False)
    np.testing.assert_allclose(sol.body("slide").velocity[-1], [0.02, 0, 0], atol=1e-14)
    np.testing.assert_allclose(sol.joint("blade").reaction.force[-1], [0, -4, 0], atol=1e-12)
    np.testing.assert_allclose(sol.joint("x").reaction.force[-1], [0, -2, 0], atol=1e-12)


def test_a_wheel_at_a_wall_has_a_constraint_too_many():
    m = da.Mechanism(gravity=(3.0, 0, -9.0))
    m.body("wheel", mass=2.0, inertia=[0.1, 0.2, 0.1], position=(0, 0, 0.5))
    m.planar("wall", "ground", "wheel", axis="y", at=(0, 0, 0.5))
    m.rolling("contact", "ground", "wheel", radius=0.5, axis="y")
    with pytest.raises(da.SingularConstraints, match="follow from the other joints, 1 of 'contact'"):
        m.assemble()
    sol = da.simulate(m.assemble(redundant="remove"), "gauss-2", t_end=0.02, step=0.01, compile=False)
    a = 3.0 / (1 + 0.2 / (2.0 * 0.25))
    np.testing.assert_allclose(sol.body("wheel").velocity[-1], [0.02 * a, 0, 0], atol=1e-9)
    np.testing.assert_allclose(sol.joint("contact").reaction_at([0.0]).force[0], [2 * a - 6, 0, 18], atol=1e-12)


def test_a_ball_among_repeated_parts_rolls_as_alone(monkeypatch):
    """Parts of large systems are repeated, with vectors for symbols."""
    ends = []
    for many in alone_and_repeated(monkeypatch):
        m = da.Mechanism(gravity=(3.0, 0, -9.0))
        m.body("ball", mass=2.0, inertia=[0.2] * 3, position=(0, 0, 0.5), velocity=(0.5, 0.1, 0))
        m.rolling("contact", "ground", "ball", radius=0.5)
        system = m.assemble()
        assert system.many == many
        ends.append(da.simulate(system, "radau-iia-2", t_end=0.02, step=0.01, compile=False).body("ball").velocity[-1])
    np.testing.assert_allclose(*ends, atol=1e-14)


def test_what_cannot_roll():
    m = da.Mechanism()
    m.particle("p", mass=1.0)
    with pytest.raises(da.ModelError, match="has an orientation"):
        m.rolling("contact", "ground", "p", radius=0.1)
    m.body("b", mass=1.0, inertia=[1, 1, 1])
    with pytest.raises(da.ModelError, match="one positive number"):
        m.rolling("contact", "ground", "b", radius=-1.0)
