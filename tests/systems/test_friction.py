"""Forces that depend on the multipliers: friction by the normal force."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from conftest import assert_order

G = 9.81


def block(angle, mu, speed=1e-3):
    """A block on a slope; the constraint is its distance from the plane, so that `lam` is the normal force."""
    c, s = np.cos(angle), np.sin(angle)
    return da.Mechanical(
        ("x", "y"), mass=2.0, potential=lambda q: 2.0 * G * q[1], holonomic=lambda q: s * q[0] + c * q[1],
        force=lambda v, lam, mu: -mu * np.abs(lam[0]) * np.tanh((c * v[0] - s * v[1]) / speed) * np.array([c, -s]),
        parameters={"mu": mu}, initial={"q": [0.0, 0.0], "v": [c, -s]},
    )  # fmt: skip


def bead(mu=0.2):
    """A bead that slides on a hoop with friction: `|lam| 2 r` is the normal force."""
    return da.Mechanical(
        ("x", "y"), mass=1.5, potential=lambda q: 1.5 * G * q[1], holonomic=lambda q: q @ q - 1.0,
        force=lambda q, v, lam, mu: -mu * np.sqrt((2 * lam[0]) ** 2 + 1e-6) * v / np.sqrt(v @ v + 1e-12),
        parameters={"mu": mu}, initial={"q": [np.cos(-0.5), np.sin(-0.5)], "v": [8 * np.sin(0.5), 8 * np.cos(0.5)]},
    )  # fmt: skip


def reference(t, mu=0.2):
    """The same in its angle `a`: `m a'' = -m g cos a - mu |N|`, with the normal force `N = m (a'^2 - g sin a)` to the inside."""

    def rate(_, y):
        a, w = y
        normal = np.sqrt((1.5 * (w**2 - G * np.sin(a))) ** 2 + 1e-6)
        return [w, -G * np.cos(a) - mu * normal / 1.5 * w / np.sqrt(w**2 + 1e-12)]

    sol = solve_ivp(rate, (0, t), [-0.5, 8.0], method="DOP853", rtol=1e-13, atol=1e-14)
    return sol.y[:, -1]


def test_a_block_slides_down_a_steep_slope_at_the_right_rate():
    angle, mu = 0.6, 0.3
    sol = da.simulate(block(angle, mu), "rattle", t_end=1.0, step=0.01)
    down = sol.q @ [np.cos(angle), -np.sin(angle)]
    a = G * (np.sin(angle) - mu * np.cos(angle))
    np.testing.assert_allclose(down, sol.t + a * sol.t**2 / 2, atol=1e-12)
    np.testing.assert_allclose(np.abs(sol.lam), 2 * G * np.cos(angle), rtol=1e-12)
    np.testing.assert_allclose(sol.dissipated.sum(), mu * 2 * G * np.cos(angle) * (1 + a / 2), rtol=1e-12)


@pytest.mark.parametrize("method", ["radau-iia-2", "rattle", "murua-2"])
def test_a_block_on_level_ground_is_slowed_down_from_the_first_step_on(method):
    """The first change of Newton's iteration finds the multiplier alone, and friction follows from it."""
    sol = da.simulate(block(0.0, 0.3), method, t_end=0.2, step=0.01)
    np.testing.assert_allclose(sol.v[:, 0], 1 - 0.3 * G * sol.t, atol=1e-13)


@pytest.mark.parametrize(("angle", "slides"), [(np.arctan(0.3) - 0.01, False), (np.arctan(0.3) + 0.01, True)])
def test_it_sticks_below_the_angle_of_friction_and_slides_above(angle, slides):
    system = block(angle, 0.3, speed=1e-3)
    sol = da.simulate(system, "radau-iia-2", q=[0, 0], v=[0, 0], t_end=1.0, step=0.01)
    speed = sol.v @ [np.cos(angle), -np.sin(angle)]
    if slides:
        assert (speed[-1] - speed[50]) / 0.5 == pytest.approx(G * (np.sin(angle) - 0.3 * np.cos(angle)), rel=1e-10)
    else:
        creep = 1e-3 * np.arctanh(np.tan(angle) / 0.3)  # the speed at which the regularised friction holds it
        assert speed[-1] == pytest.approx(creep, rel=1e-10)


@pytest.mark.parametrize(
    ("method", "order"), [("rattle", 2), ("lobatto-pair-3", 4), ("murua-2", 4), ("radau-iia-2", 3), ("gauss-2", 4)]
)
def test_a_bead_on_a_hoop_to_the_order_of_the_method(method, order):
    a, _ = reference(0.2)
    steps = [0.02, 0.01, 0.005] if order > 2 else [0.01, 0.005, 0.0025]
    errors = []
    for step in steps:
        sol = da.simulate(bead(), method, t_end=0.2, step=step)
        errors.append(np.abs(sol.q[-1] - [np.cos(a), np.sin(a)]).max())
    assert_order(errors, steps, order, told=method)


def test_multipliers_of_the_acceleration_level_belong_to_the_friction():
    start = da.consistent(bead(), q=[np.cos(-0.5), np.sin(-0.5)], v=[8 * np.sin(0.5), 8 * np.cos(0.5)])
    assert 2 * start["lam"][0] == pytest.approx(1.5 * (64 - G * np.sin(-0.5)), rel=1e-12)  # friction is along the hoop
    tilted = da.Mechanical(  # and across a second constraint here: the multipliers depend on each other
        3, mass=1.0, potential=lambda q: G * q[2], holonomic=lambda q: [q[2], q[1]], initial={"q": [0, 0, 0], "v": [1.0, 0, 0]},
        force=lambda lam: np.stack([-0.5 * np.abs(lam[0]), 0.25 * np.abs(lam[0]), 0.1 * lam[1]]),
    )  # fmt: skip
    lam = da.consistent(tilted, q=[0, 0, 0], v=[1, 0, 0])["lam"]
    # -lam_2 + 0.25 |lam_1| = 0, -G - lam_1 + 0.1 lam_2 = 0
    np.testing.assert_allclose(lam, [-G / (1 + 0.025), 0.25 * G / (1 + 0.025)], rtol=1e-12)
    sol = da.simulate(tilted, "rattle", t_end=0.1, step=0.01)
    assert np.abs(sol.residual("acceleration")).max() < 1e-10
    assert "murua-ggl-3" in str(da.diagnose(tilted))
    np.testing.assert_allclose(sol.lam[-1], lam, rtol=1e-11)
    np.testing.assert_allclose(sol.at(0.055).lam, lam, rtol=1e-11)


def test_files_and_pickles_have_it(tmp_path):
    sol = da.simulate(bead(), "rattle", t_end=0.1, step=0.01)
    sol.save(tmp_path / "run.nc")
    again = da.simulate(da.load(tmp_path / "run.nc").system, "rattle", t_end=0.1, step=0.01)
    np.testing.assert_array_equal(again.q, sol.q)


def test_compiled_runs_agree():
    a = da.simulate(bead(), "rattle", t_end=0.2, step=0.01, compile=False)
    b = da.simulate(bead(), "rattle", t_end=0.2, step=0.01, compile=True)
    np.testing.assert_array_equal(a.q, b.q)


def test_what_does_not_treat_it_says_so():
    with pytest.raises(da.MethodError, match="depends on multipliers"):
        da.simulate(bead(), "energy-momentum", t_end=0.1, step=0.01)
    for convert in (bead().to_hamiltonian, bead().to_dae, bead().to_port_hamiltonian):
        with pytest.raises(da.MethodError, match="friction is not converted"):
            convert()
    with pytest.raises(da.ModelError, match="lam"):
        da.Mechanical(2, mass=1.0, force=lambda lam: [lam[0], 0])
