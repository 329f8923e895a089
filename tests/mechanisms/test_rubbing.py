"""Dry friction by the force of the joint: a block on a slope, a bearing under load."""

import numpy as np
import pytest

import dalembert as da
from conftest import alone_and_repeated

G = 9.81


def block(angle, mu, dimension=2, speed=2e-3):
    down = np.array([np.cos(angle), -np.sin(angle), 0.0])[:dimension]
    gravity = (0, -G, 0)[:dimension]
    m = da.Mechanism(gravity=gravity, name="block")
    m.body("block", mass=2.0, inertia=0.1 if dimension == 2 else [0.1, 0.1, 0.1])
    m.prismatic("slope", "ground", "block", axis=down)
    m.friction("rough", "slope", coulomb=mu, speed=speed)
    return m


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_block_slides_where_the_slope_is_steeper_than_the_friction(dimension):
    """`a = g (sin - mu cos)` beyond `tan(angle) = mu`."""
    mu = 0.5
    angle = np.arctan(mu) + 0.05
    sol = da.simulate(block(angle, mu, dimension).assemble(), "radau-iia-2", t_end=1.0, step=2e-3)
    a = G * (np.sin(angle) - mu * np.cos(angle))
    rate, half = sol.joint("slope").rate, len(sol.t) // 2
    np.testing.assert_allclose((rate[-1] - rate[half]) / (sol.t[-1] - sol.t[half]), a, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(sol.joint("slope").reaction.force[-1]), 2.0 * G * np.cos(angle), rtol=1e-9)
    assert sol.dissipated.sum() == pytest.approx(-np.diff(sol.energy[[0, -1]])[0], rel=1e-2)


@pytest.mark.parametrize("beyond", [-1e-3, 1e-3])
def test_a_block_sticks_and_slides_at_the_right_angle(beyond):
    """A thousandth below `tan(angle) = mu` it stays, but for the creep of the law; a thousandth above it slides."""
    mu, speed, t = 0.5, 1e-9, 2.0
    angle = np.arctan(mu) + beyond
    slope = da.simulate(block(angle, mu, speed=speed).assemble(), "radau-iia-2", t_end=t, step=0.1).joint("slope")
    if beyond < 0:
        assert slope.rate[-1] == pytest.approx(speed * np.arctanh(np.tan(angle) / mu), rel=1e-6)
        assert 0 < slope.displacement[-1] < 1e-8
    else:
        assert slope.displacement[-1] == pytest.approx(G * (np.sin(angle) - mu * np.cos(angle)) * t**2 / 2, rel=1e-9)


def test_a_bearing_under_load_brakes_by_its_radius():
    """A balanced wheel of weight W in a bearing: the torque is `mu r W`."""
    m = da.Mechanism(gravity=(0, -G))
    m.body("wheel", mass=3.0, inertia=0.2)
    m.revolute("axle", "ground", "wheel", at=(0, 0))
    m.friction("rub", "axle", coulomb=0.2, radius=0.05, speed=1e-3)
    sol = da.simulate(m.assemble(rates={"axle": 10.0}), "gauss-2", t_end=1.0, step=0.01)
    np.testing.assert_allclose(sol.joint("axle").rate[-1], 10.0 - 0.2 * 0.05 * 3.0 * G / 0.2, rtol=1e-8)


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
@pytest.mark.parametrize(("method", "step"), [("radau-iia-2", 0.05), ("radau-iia-3", 0.01)])
def test_large_steps_over_a_small_speed_stop_and_stick(method, step, coordinates):
    """A block thrown down a slope that holds it: it stops where the formula says, and then creeps as the law says."""
    mu, speed, thrown = 0.5, 1e-6, 1.0
    angle = np.arctan(mu) - 0.05
    system = block(angle, mu, speed=speed).assemble(coordinates=coordinates, rates={"slope": thrown})
    sol = da.simulate(system, method, t_end=3.0, step=step)
    slope, a = sol.joint("slope"), G * (mu * np.cos(angle) - np.sin(angle))
    assert slope.rate[-1] == pytest.approx(speed * np.arctanh(np.tan(angle) / mu), rel=1e-9)
    assert slope.displacement[-1] == pytest.approx(thrown**2 / (2 * a), abs=thrown * step)


@pytest.mark.parametrize("method", ["radau-iia-2", "gauss-2", "rattle", "murua-2", "lobatto-pair-3"])
def test_no_step_fails_where_friction_saturates(method):
    """A disc with a brake comes to rest; methods that do not damp stiff parts rattle about rest, by what one step gives."""
    m = da.Mechanism(gravity=(0, -G))
    m.body("disc", mass=3.0, inertia=0.2)
    m.revolute("axle", "ground", "disc", at=(0, 0))
    m.friction("brake", "axle", coulomb=0.2, radius=0.05, speed=1e-6)
    sol = da.simulate(m.assemble(rates={"axle": 1.0}), method, t_end=1.0, step=0.02)
    brake = 0.2 * 0.05 * 3.0 * G / 0.2
    at = sol.t < 1 / brake - 0.02
    np.testing.assert_allclose(sol.joint("axle").rate[at], 1.0 - brake * sol.t[at], atol=1e-9)
    assert np.abs(sol.joint("axle").rate[sol.t > 1 / brake + 0.02]).max() <= (1e-9 if method == "radau-iia-2" else brake * 0.02)


def test_a_block_among_repeated_parts_slides_as_alone(monkeypatch):
    """Parts of large systems are repeated, with vectors for symbols."""
    rates = []
    for many in alone_and_repeated(monkeypatch):
        m = da.Mechanism(gravity=(3.0, 0, -9.0))
        m.body("block", mass=2.0, inertia=[0.2] * 3)
        m.prismatic("slope", "ground", "block", axis="x")
        m.friction("rough", "slope", coulomb=0.2)
        system = m.assemble()
        assert system.many == many
        rates.append(da.simulate(system, "rattle", t_end=0.02, step=0.01, compile=False).joint("slope").rate)
    np.testing.assert_allclose(*rates, atol=1e-14)
