"""The mechanisms of the catalog, each by what is known of it."""

import numpy as np
import pytest
from scipy.optimize import brentq

import dalembert as da
from dalembert.catalog import mechanisms

FREEDOMS = {
    "four_bar": 1, "slider_crank": 1, "watt": 1, "peaucellier": 1, "parallelogram": 1, "bricard": 1, "governor": 2,
    "stewart_platform": 0, "double_wishbone": 1, "six_axis_arm": 6, "chain_in_space": 30, "heavy_top": 3, "sleeping_top": 3,
    "gyroscope": 3, "cam_follower": 0, "turntable": 3, "rolling_wheel": 3, "euler_disc": 3, "rattleback": 3, "bicycle": 3,
}  # fmt: skip


def assembled(maker, **options):
    more = {"redundant": "remove"} if maker.__name__ in ("bricard", "parallelogram") else {}
    return maker().assemble(**more, **options)


@pytest.mark.parametrize("maker", mechanisms.MAKERS, ids=lambda maker: maker.__name__)
def test_it_moves_and_keeps_its_constraints(maker):
    system = assembled(maker)
    assert system.freedoms == FREEDOMS[maker.__name__]
    assert system.picture.solids
    inputs = {"u": dict.fromkeys(system.ports, 0.0)} if system.nu else {}
    method = "murua-ggl-2" if maker is mechanisms.cam_follower else "spark-2" if system.mn else "rattle"
    sol = da.simulate(system, method, t_end=0.01, step=0.001, **inputs)
    assert np.abs(sol.residual("position")).max() < 1e-13
    assert np.abs(sol.residual("velocity")).max() < 1e-11 * max(1.0, np.abs(sol.v).max())


def test_the_table():
    rows = mechanisms.list_mechanisms()
    assert [row.name for row in rows] == [maker.__name__.replace("_", "-") for maker in mechanisms.MAKERS]
    assert all(row.summary.endswith(".") or ":" in row.summary for row in rows)


def test_peaucellier_draws_a_straight_line():
    sol = da.simulate(mechanisms.peaucellier().assemble(), "rattle", t_end=0.2, step=0.002, u={"motor": 0.0})
    pen = sol.sensor("pen")
    assert np.ptp(pen[:, 1]) > 0.05
    # inversion: |OP| |OQ| = arm^2 - side^2, and P on a circle through O with the diameter 2 crank
    np.testing.assert_allclose(pen[:, 0], (1.0 - 0.25) / 0.7, atol=1e-12)


def test_a_sleeping_top_wakes_up_below_the_critical_spin():
    m, l, A, C = 0.5, 0.15, 0.5 * 0.12**2 * 0.28 + 0.5 * 0.15**2, 0.5 * 0.12**2 / 2
    critical = np.sqrt(4 * A * m * 9.81 * l) / C
    tilts = []
    for factor in (1.1, 0.9):
        system = mechanisms.sleeping_top(spin=factor * critical).assemble()
        sol = da.simulate(system, "rattle", t_end=1.5, step=0.001)
        tilts.append(np.arccos(np.clip(sol.body("top").rotation[:, 2, 2], -1, 1)).max())
    assert tilts[0] < 5e-3
    assert tilts[1] > 0.1


def test_the_bicycle_has_the_modes_of_the_benchmark():
    """Lean and steer at 5 m/s are sums of four modes, with the eigenvalues of Meijaard et al. (2007), table 2."""
    sol = da.simulate(mechanisms.bicycle(5.0, lean_rate=1e-5).assemble(), "spark-3", t_end=1.5, step=0.01, u=[0.0])
    steer, t = sol.joint("steer").angle, sol.t
    weave = -0.77534188219585 + 4.46486771378823j
    modes = [np.exp(weave.real * t) * np.cos(weave.imag * t), np.exp(weave.real * t) * np.sin(weave.imag * t),
             np.exp(-0.32286642900409 * t), np.exp(-14.07838969279822 * t)]  # fmt: skip
    weights, *_ = np.linalg.lstsq(np.stack(modes, axis=1), steer, rcond=None)
    assert np.abs(np.stack(modes, axis=1) @ weights - steer).max() < 1e-5 * np.abs(steer).max()
    assert np.abs(weights[:2]).max() > 0.1 * np.abs(steer).max()


def test_a_rattleback_reverses_its_spin_one_way():
    sol = da.simulate(mechanisms.rattleback().assemble(), "spark-2", t_end=1.5, step=0.0025)
    assert sol.body("celt").angular_velocity[:, 2].max() > 2.0  # it began with -5


def test_the_lift_of_a_cam():
    """The centre of the roller is on the axis of the guide, at its radius along the normal of the outline."""
    sol = da.simulate(mechanisms.cam_follower().assemble(), "murua-ggl-2", t_end=0.6, step=0.01)

    def centre(s):
        u, slope = (1 - np.cos(s)) / 2, np.sin(s) / 2
        r, rise = 0.25 + 0.15 * u**2, 0.3 * u * slope
        normal = np.array([r * np.cos(s) + rise * np.sin(s), r * np.sin(s) - rise * np.cos(s)])
        return r * np.array([np.cos(s), np.sin(s)]) + 0.08 * normal / np.linalg.norm(normal)

    for t, y in zip(sol.t[::20], sol.body("follower").position[::20, 1], strict=True):
        up = np.array([np.sin(6.0 * t), np.cos(6.0 * t)])  # the axis of the guide in the frame of the cam
        near = np.pi / 2 - 6.0 * t
        s = brentq(lambda s: up[1] * centre(s)[0] - up[0] * centre(s)[1], near - 0.5, near + 0.5, xtol=1e-15)
        np.testing.assert_allclose(y, up @ centre(s), atol=1e-13)
    assert np.ptp(sol.body("follower").position[:, 1]) > 0.05


def test_a_ball_on_a_turntable_goes_round_at_two_sevenths():
    sol = da.simulate(mechanisms.turntable().assemble(rotation="quaternion"), "gauss-3", t_end=0.3, step=0.01)
    v = sol.body("ball").velocity
    np.testing.assert_allclose(np.unwrap(np.arctan2(v[:, 1], v[:, 0])) - np.pi / 2, 2 / 7 * 3.0 * sol.t, atol=1e-6)
    np.testing.assert_allclose(np.hypot(v[:, 0], v[:, 1]), 0.2, atol=1e-6)


def test_a_wheel_stays_up_where_it_is_fast():
    """A thin disc that rolls ahead is stable above `v^2 = g r / 3`."""
    critical, tilts = np.sqrt(9.81 * 0.3 / 3), []
    system = mechanisms.rolling_wheel(speed=critical, lean=1e-3).assemble()
    for factor in (1.2, 0.8):
        sol = da.simulate(system, "spark-2", v=factor * system.initial["v"], t_end=1.5, step=0.02)
        tilts.append(np.abs(sol.body("wheel").rotation[:, 2, 2]).max())
    assert tilts[0] < 6e-3
    assert tilts[1] > 0.02
