"""Coordinates without mass: consistent values, first guesses, and runs without viscosity."""

import numpy as np
import pytest

import dalembert as da

METHODS = ["murua-1", "murua-2", "murua-3", "murua-ggl-1", "murua-ggl-2", "murua-ggl-3", "gauss-2", "radau-iia-2"]


def springs(damping):
    """Two masses on three springs, the second one without mass (Symank 2025, sec. 7.2.3)."""
    return da.Mechanical(
        ("p1", "p2"),
        mass=[1.0, 0.0],
        potential=lambda q: (q[0] - 10) ** 2 / 2 + (q[1] - q[0] - 10) ** 2 + (20 - q[1]) ** 2 / 2,
        dissipation=[[0.0, 0.0], [0.0, damping]],
    )


def hanging(angle):
    """The double pendulum whose first mass is zero, stretched: a pendulum of length 2."""
    c, s = np.cos(angle), -np.sin(angle)
    return da.catalog.double_pendulum(m1=0.0, m2=1.0), {"q": [c, s, 2 * c, 2 * s], "v": [0.0] * 4}


def test_a_damper_defines_the_velocity_of_a_massless_coordinate():
    found = da.consistent(springs(1e-4), q=[4.275, 15.0], v=[0.0, 0.0])
    np.testing.assert_allclose(found.q, [4.275, 15.0], atol=1e-12)
    np.testing.assert_allclose(found.v, [0.0, 3.55e4], rtol=1e-9, atol=1e-9)


def test_without_a_damper_the_position_is_defined():
    found = da.consistent(springs(0.0), q=[4.275, 15.0], v=[3.0, 0.0])
    np.testing.assert_allclose(found.q, [4.275, (2 * (4.275 + 10) + 20) / 3], rtol=1e-12)
    np.testing.assert_allclose(found.v, [3.0, 2.0], rtol=1e-9)


@pytest.mark.parametrize("damping", [1e-4, 0.0])
def test_values_off_the_equation_without_mass_are_refused(damping):
    with pytest.raises(da.InconsistentState, match=r"without mass .* nearest values are q = \[4\.275"):
        da.simulate(springs(damping), "radau-iia-3", q=[4.275, 15.0], v=[0.0, 0.0], t_end=1.0, step=0.1)


def test_consistent_values_run():
    start = da.consistent(springs(0.0), q=[4.275, 15.0], v=[3.0, 0.0])
    sol = da.simulate(springs(0.0), "radau-iia-3", **start, t_end=1.0, step=0.05)
    np.testing.assert_allclose(sol.q[:, 1], (2 * (sol.q[:, 0] + 10) + 20) / 3, rtol=1e-12)


@pytest.mark.parametrize("angle", [0.7, 0.0])  # at 0 the rods carry nothing: the equations are singular there
@pytest.mark.parametrize("method", METHODS)
def test_a_zero_mass_without_viscosity(method, angle):
    system, start = hanging(angle)
    sol = da.simulate(system, method, **start, t_end=3.0, step=0.01)
    one = da.Mechanical(("x", "y"), mass=1.0, potential=lambda q: 9.81 * q[1], holonomic=lambda q: q[0] ** 2 + q[1] ** 2 - 4)
    same = da.simulate(one, method, q=start["q"][2:], v=[0.0, 0.0], t_end=3.0, step=0.01)
    np.testing.assert_allclose(sol.q[:, 2:], same.q, atol=2e-14)
    np.testing.assert_allclose(sol.lam, 2 * same.lam * [1.0, 1.0], rtol=1e-3, atol=1e-3)  # two rods of half the length


def test_multipliers_of_the_start():
    system, start = hanging(0.7)
    np.testing.assert_allclose(da.consistent(system, **start).lam, [9.81 * np.sin(0.7) / 2] * 2, rtol=1e-10)


def test_given_multipliers_are_the_first_guess():
    system = da.catalog.double_pendulum()
    start = da.consistent(system, q=[0.8, -0.6, 1.6, -1.2])
    exact = da.simulate(system, "rattle", q=start.q, v=start.v, t_end=0.01, step=0.01)
    guessed = da.simulate(system, "rattle", q=start.q, v=start.v, lam=start.lam, t_end=0.01, step=0.01)
    assert guessed.stats["iterations"] < exact.stats["iterations"]
    np.testing.assert_allclose(guessed.q, exact.q, atol=1e-15)


def test_the_point_of_contact_as_a_coordinate_without_mass():
    """A disc that slides on a parabola, its centre at `S(s) + r N(s)`: the parameter `s` of the point of contact is a coordinate.

    Constraints on `(q, s)` are those of the contact and those that define its point; the motion is that in `s` alone.
    """
    r, start = 0.3, 0.8

    def place(s):
        return s - r * s / np.sqrt(1 + s**2), s**2 / 2 + r / np.sqrt(1 + s**2)

    disc = da.Mechanical(
        ("x", "y", "s"), mass=[1.0, 1.0, 0.0], potential=lambda q: 9.81 * q[1],
        holonomic=lambda q: [q[0] - place(q[2])[0], q[1] - place(q[2])[1]],
    )  # fmt: skip

    def lagrangian(q, v):
        s, k = q[0], 1 - r / (1 + q[0] ** 2) ** 1.5
        return (1 + s**2) * (k * v[0]) ** 2 / 2 - 9.81 * place(s)[1]

    alone = da.simulate(da.Lagrangian(("s",), lagrangian=lagrangian), "gauss-4", q=[start], v=[0.0], t_end=1.0, step=0.01)
    sol = da.simulate(disc, "murua-ggl-3", q=[*place(start), start], v=[0, 0, 0], t_end=1.0, step=0.01)
    np.testing.assert_allclose(sol.q[:, 2], alone.q[:, 0], atol=1e-9)
    assert np.abs(sol.residual("position")).max() < 1e-14
    np.testing.assert_allclose(sol.energy, sol.energy[0], atol=1e-10)
