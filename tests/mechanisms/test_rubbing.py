"""Dry friction by the force of the joint: a block on a slope, a bearing under load."""

import numpy as np
import pytest

import dalembert as da

G = 9.81


def block(angle, mu, dimension=2):
    down = np.array([np.cos(angle), -np.sin(angle), 0.0])[:dimension]
    gravity = (0, -G, 0)[:dimension]
    m = da.Mechanism(gravity=gravity, name="block")
    m.body("block", mass=2.0, inertia=0.1 if dimension == 2 else [0.1, 0.1, 0.1])
    m.prismatic("slope", "ground", "block", axis=down)
    m.friction("rough", "slope", coulomb=mu, speed=2e-3)
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


def test_a_block_sticks_where_the_slope_is_less_steep():
    mu = 0.5
    angle = np.arctan(mu) - 0.05
    sol = da.simulate(block(angle, mu).assemble(), "radau-iia-2", t_end=0.2, step=2e-4)
    creep = 2e-3 * np.arctanh(np.tan(angle) / mu)  # by the regularised speed
    assert sol.joint("slope").rate[-1] == pytest.approx(creep, rel=1e-6)
    assert sol.joint("slope").displacement[-1] < 1e-3


def test_a_bearing_under_load_brakes_by_its_radius():
    """A balanced wheel of weight W in a bearing: the torque is `mu r W`."""
    m = da.Mechanism(gravity=(0, -G))
    m.body("wheel", mass=3.0, inertia=0.2)
    m.revolute("axle", "ground", "wheel", at=(0, 0))
    m.friction("rub", "axle", coulomb=0.2, radius=0.05, speed=1e-3)
    sol = da.simulate(m.assemble(rates={"axle": 10.0}), "gauss-2", t_end=1.0, step=0.01)
    np.testing.assert_allclose(sol.joint("axle").rate[-1], 10.0 - 0.2 * 0.05 * 3.0 * G / 0.2, rtol=1e-8)
