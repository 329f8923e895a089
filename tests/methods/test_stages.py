"""Methods with stages: orders by slope, what they keep, and who they are."""

from functools import cache

import numpy as np
import pytest

import dalembert as da
from conftest import (
    angle_pendulum,
    assert_order,
    can,
    classical_order,
    consistent_start,
    driven_pendulum,
    polar_rod,
    skew_hamiltonian,
    some,
    with_stages,
)
from dalembert.methods.base import find

PROBLEMS = {
    "double pendulum": (da.catalog.double_pendulum, {"q": [0.8, -0.6, 1.4, -1.4], "v": [0.3, 0.4, -0.2, 0.5]}, {}),
    "polar, M(q) and constraint": (polar_rod, {}, {}),
    "driven, rheonomic": (driven_pendulum, {}, {"u": lambda t: [np.sin(3 * t)]}),
    "skew Hamiltonian": (skew_hamiltonian, {"q": [0.6, 0.3, 0.5], "p": [0.2, -0.4, 0.3]}, {}),
}
TIMES = {  # long enough for errors above round-off
    "double pendulum": 1.0,
    "polar, M(q) and constraint": 2.0,
    "driven, rheonomic": 2.0,
    "skew Hamiltonian": 4.0,
}
COUNTS = {  # steps in which errors are small enough to have a slope and large enough to be seen
    1: (100, 140, 200, 280),
    2: (100, 140, 200, 280),
    3: (100, 140, 200, 280),
    4: (60, 80, 100, 140),
    5: (40, 52, 64, 80),
    6: (24, 32, 40, 52),
    7: (16, 20, 24, 32),
    8: (24, 32, 40, 48),
}


def end(name, order):
    return TIMES[name] * (1.5 if order == 8 else 1.0)


@cache
def begun(name):
    """A system and its start."""
    make, values, _ = PROBLEMS[name]
    system = make()
    return system, consistent_start(system, **values)


@cache
def run(name, method, count, t_end):
    """The parts of a run at four times: positions, velocities or momenta, multipliers."""
    system, start = begun(name)
    options = PROBLEMS[name][2]
    sol = da.simulate(system, method, **start, t_end=t_end, step=t_end / count, save_every=count // 4, **options)
    return [part[-4:] for part in (*sol.parts.values(), sol.lam)]


def orders(method):
    """Orders in (q, second half, lam) on the index-2 form; Hilden 2009, table 2.1 (Gauss and Radau IA gain in q)."""
    return classical_order(method), *find(method).order[1:]


CASES = [
    pytest.param(name, method, id=f"{method}-{name}")
    for name, (make, _, _) in PROBLEMS.items()
    for system in [make()]
    for method in with_stages(4 if name == next(iter(PROBLEMS)) else 3)
    if can(method, system)
    # the constraint of the polar pendulum is linear, and these two lose no order there
    if not (name.startswith("polar") and method.rpartition("-")[0] in ("gauss", "radau-ia"))
]


@pytest.mark.parametrize(("name", "method"), some(CASES, 2, 1))
def test_orders_for_one_to_four_stages(name, method):
    for k, order in enumerate(orders(method)):
        t_end, counts = end(name, order), np.array(COUNTS[order])
        truth = run(name, "murua-6", 240, t_end)[k]
        errors = [np.abs(run(name, method, n, t_end)[k] - truth).max() for n in counts.tolist()]
        assert_order(errors, t_end / counts, order, 1e-13 * (1 + np.abs(truth).max()), ("q", "second", "lam")[k])


@cache
def free(t_end):
    """A system without constraints, and its motion."""
    system = angle_pendulum()
    return system, da.simulate(system, "gauss-6", t_end=t_end, step=0.01, save_every=20, compile=False)


@pytest.mark.parametrize("method", [m for m in with_stages(4) if can(m, angle_pendulum())])
def test_orders_on_free_systems(method):
    t_end, counts = 0.8, np.array(COUNTS[classical_order(method)])
    system, reference = free(t_end)
    runs = [da.simulate(system, method, t_end=t_end, step=t_end / n, save_every=n // 4, compile=False) for n in counts]
    errors = [np.abs(x.x - reference.x).max() for x in runs]
    assert_order(errors, t_end / counts, classical_order(method), floor=1e-13)


def test_rattle_is_the_pair_of_two_stages():
    for make in (da.catalog.double_pendulum, da.catalog.four_particles, polar_rod, driven_pendulum):
        system = make()
        start = consistent_start(system)
        a, b = (da.simulate(system, m, **start, t_end=1.0, step=0.01) for m in ("rattle", "lobatto-pair-2"))
        np.testing.assert_allclose(a.q, b.q, atol=1e-12)
        np.testing.assert_allclose(a.v, b.v, atol=1e-10)
        np.testing.assert_allclose(a.supplied, b.supplied, atol=1e-12)


@pytest.mark.parametrize("s", [2, 3, 4])
def test_lobatto_pair_keeps_both_levels_and_the_energy_without_drift(s):
    sol = da.simulate(da.catalog.double_pendulum(), f"lobatto-pair-{s}", t_end=20.0, step=0.02)
    assert np.abs(sol.residual("position")).max() < 5e-15
    assert np.abs(sol.residual("velocity")).max() < 5e-14


def test_murua_drifts_in_position_and_its_stabilised_form_does_not():
    """Symank 2025, fig. 12: m = (1, 8), l = (1, 5), the first mass pushed at right angles to its rod with speed 10."""
    system = da.catalog.double_pendulum(m1=1.0, m2=8.0, l1=1.0, l2=5.0)
    start = da.consistent(system, q=[1, 0, 6, 0], v=[0, 10, 0, 0])
    options = dict(q=start.q, v=start.v, t_end=10.0, step=0.01)
    murua, ggl, pair = (da.simulate(system, m, **options) for m in ("murua-3", "murua-ggl-3", "lobatto-pair-3"))
    assert np.abs(murua.residual("position")).max() > 1e-10
    for sol in (ggl, pair):
        assert np.abs(sol.residual("position")).max() < 1e-12
    for sol in (murua, ggl, pair):
        assert np.abs(sol.residual("velocity")).max() < 1e-12 * np.abs(sol.v).max()


@pytest.mark.parametrize("s", [1, 2, 3])
def test_murua_changes_a_quadratic_energy_by_just_the_work_of_its_stages(s):
    """Symank 2025, eq. 6.15, to round-off; with a linear potential the energy is quadratic."""
    sol = da.simulate(da.catalog.simple_pendulum(), f"murua-{s}", t_end=3.0, step=0.05)
    assert np.abs(np.diff(sol.energy)).max() > 1e-14 if s == 3 else np.abs(np.diff(sol.energy)).max() > 1e-9
    assert np.abs(sol.power_balance).max() < 2e-14


def test_gauss_keeps_quadratic_energies_and_their_power_balance():
    """Two masses, three springs (Symank 2025, sec. 7.2): Gauss is exact, Lobatto IIIC loses energy steadily."""
    springs = da.Mechanical(
        2,
        mass=1.0,
        potential=lambda q: (q[0] - 10) ** 2 / 2 + (q[1] - q[0] - 10) ** 2 + (30 - q[1] - 10) ** 2 / 2,
        dissipation=lambda d: d,
        force=lambda alpha: [alpha, 0.0],
        parameters={"d": [0.0, 0.0], "alpha": 0.0},
    )
    free = da.simulate(springs, "gauss-3", q=[6, 24], v=[0, 0], t_end=200.0, step=0.1)
    lossy = da.simulate(springs, "lobatto-iiic-3", q=[6, 24], v=[0, 0], t_end=200.0, step=0.1)
    assert np.abs(free.energy / free.energy[0] - 1).max() < 1e-13
    assert np.all(np.diff(lossy.energy[::50]) < 0)
    driven = {"d": [0.2, 0.5], "alpha": 3.0}
    exact, not_exact = (
        da.simulate(springs, m, q=[6, 24], v=[0, 0], t_end=20.0, step=0.1, parameters=driven)
        for m in ("gauss-3", "lobatto-iiic-3")
    )
    assert np.abs(exact.power_balance).max() < 1e-13 * exact.energy[0]
    assert np.abs(not_exact.power_balance).max() > 1e-8


def test_names_and_numbers_of_stages():
    assert str(find("lobatto-pair-4")) == "lobatto-pair-4"
    assert find("murua") == da.methods.Murua(3)
    with pytest.raises(da.MethodError, match="lobatto-pair has 2 to 12 stages, not 1"):
        da.methods.LobattoPair(1)
    with pytest.raises(da.MethodError, match="gauss has 1 to 12 stages, not 0"):
        da.simulate(da.catalog.simple_pendulum(), "gauss-0", t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="there is no method 'gaus-2'"):
        find("gaus-2")


def viscous(**masses):
    system = da.Mechanical(
        4,
        mass=lambda m1, m2: [m1, m1, m2, m2],
        potential=lambda q, m1, m2, g: g * (m1 * q[1] + m2 * q[3]),
        holonomic=lambda q: [q[0] ** 2 + q[1] ** 2 - 1, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1],
        dissipation=lambda k: k,
        parameters={"m1": 1.0, "m2": 1.0, "g": 9.81, "k": 0.01},
        initial={"q": [1, 0, 2, 0], "v": [0] * 4},
    )
    return system, masses


@pytest.mark.parametrize("which", ["m1", "m2"])
@pytest.mark.parametrize("method", ["murua-3", "murua-ggl-3", "radau-iia-3"])
def test_a_mass_that_goes_to_zero_and_is_zero(method, which):
    """Symank 2025, figs. 13, 14: solutions tend to that of mass zero, in proportion to the mass; no stagnation with ggl."""
    system, _ = viscous()
    zero = da.simulate(system, method, t_end=1.0, step=0.01, parameters={which: 0.0}, compile=False)
    masses, distances = np.array([1e-12, 1e-10, 1e-8, 1e-6]), []
    for mass in masses:
        sol = da.simulate(system, method, t_end=1.0, step=0.01, parameters={which: mass}, compile=False)
        distances.append(np.abs(sol.q - zero.q).max())
    assert np.polyfit(np.log(masses), np.log(distances), 1)[0] == pytest.approx(1, abs=0.05)
    assert np.abs(zero.residual("velocity")).max() < 1e-13


def test_the_pair_must_fail_without_mass():
    """Lobatto IIIB is singular: a mass of zero is refused. A tiny one fails at this step, as the source found, with viscosity
    and without, and runs at a smaller one."""
    system, _ = viscous()
    with pytest.raises(da.ModelError, match="singular"):
        da.simulate(system, "lobatto-pair-3", t_end=1.0, step=0.01, parameters={"m1": 0.0})
    with pytest.raises(da.ConvergenceError):
        da.simulate(system, "lobatto-pair-3", t_end=1.0, step=0.01, parameters={"m1": 1e-6}, compile=False)
    with pytest.raises(da.ConvergenceError):
        da.simulate(system, "lobatto-pair-3", t_end=1.0, step=0.01, parameters={"m1": 1e-4, "k": 0.0}, compile=False)
    da.simulate(system, "lobatto-pair-3", t_end=0.3, step=0.001, parameters={"m1": 1e-4, "k": 0.0}, compile=False)


def test_light_masses_alone_do_not_stop_the_pair():
    """With a step that resolves the motion it goes down to masses of 1e-8, both constraint levels at round-off.

    The distance to the motion without that mass is proportional to the mass.
    """
    ends, masses = [], np.array([1e-3, 1e-4, 1e-5, 1e-6, 1e-8])
    for m1 in masses:
        system = da.catalog.double_pendulum(m1=m1, m2=1.0)
        start = da.consistent(system, q=[0.8, -0.6, 1.4, -1.4], v=[0, 0, 0, 0])
        sol = da.simulate(system, "lobatto-pair-3", q=start.q, v=start.v, t_end=0.02, step=1e-5 if m1 < 1e-5 else 1e-4)
        assert np.abs(sol.residual("position")).max() < 1e-13
        assert np.abs(sol.residual("velocity")).max() < 1e-13
        ends.append(sol.q[-1])
    distances = [np.abs(end - ends[-1]).max() for end in ends[:-1]]
    np.testing.assert_allclose(distances[1:], 0.1 * np.array(distances[:-1]), rtol=0.02)


def top(quaternion):
    """A heavy top about its fixed point: angles (yaw, pitch, roll) or a quaternion, and body angular velocities."""
    J = (0.8, 1.0, 0.5)

    if quaternion:

        def Z(q):
            w, x, y, z = q
            return [[-x / 2, -y / 2, -z / 2], [w / 2, -z / 2, y / 2], [z / 2, w / 2, -x / 2], [-y / 2, x / 2, w / 2]]

        return da.Mechanical(
            ("w", "x", "y", "z"), mass=list(J), kinematics=Z,
            potential=lambda q: 3.0 * (q[0] ** 2 - q[1] ** 2 - q[2] ** 2 + q[3] ** 2), name="top",
        )  # fmt: skip

    def Z(q):
        c, s, t = np.cos(q[2]), np.sin(q[2]), np.tan(q[1])
        return [[0, s / np.cos(q[1]), c / np.cos(q[1])], [0, c, -s], [1, s * t, c * t]]

    return da.Mechanical(
        ("yaw", "pitch", "roll"), mass=list(J), kinematics=Z,
        potential=lambda q: 3.0 * np.cos(q[1]) * np.cos(q[2]), name="top in angles",
    )  # fmt: skip


@pytest.mark.parametrize("method", ["gauss-3", "radau-iia-3", "murua-3", "lobatto-iiia-4"])
def test_kinematics_with_more_coordinates_than_velocities(method):
    """A top in a quaternion and in angles is the same top; the unit length is a quadratic invariant."""
    yaw, pitch, roll = 0.0, 0.3, 0.2
    cy, sy, cp, sp, cr, sr = (f(a / 2) for a in (yaw, pitch, roll) for f in (np.cos, np.sin))
    start = [cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy]
    v = [0.4, -0.3, 2.0]
    options = {"t_end": 1.0, "step": 0.01}
    a = da.simulate(top(True), method, q=start, v=v, **options)
    b = da.simulate(top(False), method, q=[yaw, pitch, roll], v=v, **options)
    np.testing.assert_allclose(a.v, b.v, atol=2e-8)
    np.testing.assert_allclose(a.energy, a.energy[0], atol=1e-7)
    if method in ("gauss-3", "murua-3"):
        assert np.abs((a.q**2).sum(axis=1) - 1).max() < 1e-13
    there = da.simulate(top(True), "gauss-4", q=start, v=v, t_end=0.513, step=0.009)
    np.testing.assert_allclose(a.at(0.513).v, there.v[-1], atol=2e-5)
    np.testing.assert_allclose(a.at(0.513).q, there.q[-1], atol=2e-6)
    np.testing.assert_allclose(a.p, a.v * [0.8, 1.0, 0.5], rtol=1e-15)


def test_velocities_between_steps_belong_to_the_kinematics():
    """A method whose stages leave no polynomial: `v` from `Z(q) v = q'`."""
    start, v = np.array([0.9, 0.3, -0.2, 0.1]), [0.4, -0.3, 2.0]
    start /= np.linalg.norm(start)
    run = da.simulate(top(True), "gauss-2", q=start, v=v, t_end=1.0, step=0.01)
    there = da.simulate(top(True), "gauss-4", q=start, v=v, t_end=0.513, step=0.009)
    np.testing.assert_allclose(run.at(0.513).v, there.v[-1], atol=5e-5)


def test_kinematics_with_a_constraint():
    """A quaternion kept at length 1 by a constraint that has nothing to do at velocity level is refused as dependent."""
    system = da.Mechanical(2, mass=1.0, kinematics=lambda q: [[-q[1]], [q[0]]], potential=lambda q: 9.81 * q[1])
    # q = (cos a, sin a), v = a': the pendulum without a constraint
    sol = da.simulate(system, "gauss-4", q=[1.0, 0.0], v=[0.0], t_end=2.0, step=0.01)
    angle = da.Mechanical(1, mass=1.0, potential=lambda q: 9.81 * np.sin(q[0]))
    ref = da.simulate(angle, "gauss-4", q=[0.0], v=[0.0], t_end=2.0, step=0.01)
    np.testing.assert_allclose(sol.v, ref.v, atol=1e-10)
    assert np.abs((sol.q**2).sum(axis=1) - 1).max() < 1e-13
    tied = da.Mechanical(
        3, mass=[1.0, 1.0], kinematics=lambda q: [[-q[1], 0], [q[0], 0], [0, 1]], holonomic=lambda q: q[2] - q[0],
        potential=lambda q: 9.81 * q[1],
    )  # fmt: skip
    start = da.consistent(tied, q=[1.0, 0.0, 1.0], v=[0.3, 0.0])
    ggl = da.simulate(tied, "murua-ggl-3", **start, t_end=2.0, step=0.01)
    assert np.abs(ggl.residual("position")).max() < 1e-13
    assert np.abs(ggl.residual("velocity")).max() < 1e-13
    pair = da.simulate(tied, "radau-iia-4", **start, t_end=2.0, step=0.01)
    np.testing.assert_allclose(ggl.q[-1], pair.q[-1], atol=1e-8)


def test_kinematics_are_checked():
    with pytest.raises(da.ModelError, match="3 rows"):
        da.Mechanical(3, mass=1.0, kinematics=lambda q: [[1.0, 0.0]])
    with pytest.raises(da.MethodError, match="rattle cannot treat the kinematics"):
        da.simulate(top(True), "rattle", q=[1, 0, 0, 0], v=[0, 0, 1], t_end=1.0, step=0.1)


@pytest.mark.parametrize("name", ["implicit-euler", "crank-nicolson", "implicit-midpoint"])
def test_textbook_names(name):
    sol = da.simulate(angle_pendulum(), name, t_end=0.1, step=0.01)
    same = {"implicit-euler": "radau-iia-1", "crank-nicolson": "lobatto-iiia-2", "implicit-midpoint": "gauss-1"}[name]
    np.testing.assert_array_equal(sol.x, da.simulate(angle_pendulum(), same, t_end=0.1, step=0.01).x)


@pytest.mark.parametrize(("stages", "counts"), [(1, (80, 160, 320)), (2, (40, 80, 160)), (3, (20, 40, 80))])
def test_multipliers_of_murua_by_the_weights_gamma(stages, counts):
    """`z1 = sum_i gamma_i Z_i` (Symank 2025, def. 6.5) has the order of an extrapolation through s values."""
    system = da.catalog.double_pendulum()
    start = da.consistent(system, q=[0.8, -0.6, 1.6, -1.2], v=[0.6, 0.8, 0.6, 0.8])
    exact = da.simulate(system, "murua-ggl-4", **start, t_end=0.5, step=1 / 400).lam[-1]
    method = da.methods.Murua(stages, multipliers="stages")
    runs = [da.simulate(system, method, **start, t_end=0.5, step=0.5 / n, compile=False) for n in counts]
    assert_order([np.abs(run.lam[-1] - exact).max() for run in runs], 0.5 / np.array(counts), stages, told=str(stages))
    assert runs[0].t_lam[-1] == pytest.approx(0.5)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_multipliers_of_murua_as_printed(stages):
    """Definition 6.5 of Symank 2025 leaves out `gamma_0 z0`, which its tables need: with it the multipliers come out."""
    system = da.catalog.double_pendulum()
    start = da.consistent(system, q=[0.8, -0.6, 1.6, -1.2], v=[0.6, 0.8, 0.6, 0.8])
    step = 1 / 400
    true = da.simulate(system, da.methods.Murua(stages), **start, t_end=0.5, step=step)
    printed = da.simulate(system, da.methods.Murua(stages, multipliers="printed"), **start, t_end=0.5, step=step, compile=False)
    np.testing.assert_array_equal(printed.q, true.q)
    size = np.abs(true.lam).max()
    assert np.abs(printed.lam - true.lam).max() > 0.9 * size  # twice the multiplier, or about nothing
    z, sign = [start.lam], (-1.0) ** stages
    for row in printed.lam:
        z.append(sign * z[-1] + row)
    assert np.abs(np.array(z[1:]) - true.lam).max() < 2e-2 * size
