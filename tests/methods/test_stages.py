"""Methods with stages: orders by slope, what they keep, and who they are."""

from functools import cache

import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, consistent_start, driven_pendulum, order_of, polar_rod, skew_hamiltonian
from dalembert.methods.base import REGISTER, find
from dalembert.methods.stages import Staged

PROBLEMS = {
    "double pendulum": (da.catalog.double_pendulum, {"q": [0.8, -0.6, 1.4, -1.4], "v": [0.3, 0.4, -0.2, 0.5]}, {}),
    "polar, M(q) and constraint": (polar_rod, {}, {}),
    "driven, rheonomic": (driven_pendulum, {}, {"u": lambda t: [np.sin(3 * t)]}),
    "skew Hamiltonian": (skew_hamiltonian, {"q": [0.6, 0.3, 0.5], "p": [0.2, -0.4, 0.3]}, {}),
}
T = 0.4


@cache
def run(name, method, count):
    make, values, options = PROBLEMS[name]
    system = make()
    return da.simulate(system, method, **consistent_start(system, **values), t_end=T, step=T / count, compile=False, **options)


@pytest.fixture(scope="module")
def references():
    return {name: run(name, "radau-iia-5", 64) for name in PROBLEMS}


def index_two(family, s):
    """Orders in (q, second half, lam) on the index-2 form; Hilden 2009, table 2.1 (Gauss and Radau IA gain in q)."""
    if family == "gauss":
        low = s + 1 if s % 2 else s
        return 2 * s, low, low
    if family == "radau-ia":
        return 2 * s - 1, s, s
    order = find(f"{family}-{s}").order[0]
    return order, order, order


CASES = [
    pytest.param(name, cls.name, s, id=f"{cls.name}-{s}-{name}")
    for name in PROBLEMS
    for cls in REGISTER.values()
    if issubclass(cls, Staged) and "mechanical" in cls.treats
    for s in range(cls.fewest, 5)
]


@pytest.mark.parametrize(("name", "family", "s"), CASES)
def test_orders_for_one_to_four_stages(name, family, s, references):
    want = index_two(family, s)
    ref = references[name]
    n = ref.system.n
    parts = {"q": lambda x: x.q[-1], "second": lambda x: x.x[-1, n:], "lam": lambda x: x.lam[-1]}
    for (part, take), order in zip(parts.items(), want, strict=True):
        counts = [8, 16, 32, 64] if order <= 5 else [4, 6, 8, 12, 16] if order == 6 else [4, 5, 6, 8]
        errors = [np.abs(take(run(name, f"{family}-{s}", k)) - take(ref)).max() for k in counts]
        if np.sum(np.array(errors) > 1e-11) < 3:
            continue  # round-off is reached at once
        slope = order_of(errors, T / np.array(counts), floor=1e-11)
        # at least the order of the theory; some problems are kinder
        assert slope > order - 0.35, (part, slope, errors)


def test_orders_on_free_systems():
    system = angle_pendulum()
    ref = da.simulate(system, "gauss-6", t_end=0.8, step=0.02)
    for cls in REGISTER.values():
        if not issubclass(cls, Staged) or "mechanical" not in cls.treats:
            continue
        for s in (2, 3):
            method = cls(stages=s)
            counts = np.array([8, 16, 32, 64]) if s == 2 else np.array([16, 24, 32, 48])
            errors = [np.abs(da.simulate(system, method, t_end=0.8, step=0.8 / n).q[-1] - ref.q[-1]).max() for n in counts]
            order = {"gauss": 2 * s, "radau-ia": 2 * s - 1}.get(cls.name, method.order[0])
            assert order_of(errors, 0.8 / counts) > order - 0.35, (str(method), errors)


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
    """With a step that resolves the motion it goes down to masses of 1e-8, both constraint levels at round-off."""
    reference = None
    for m1 in (1e-2, 1e-4, 1e-6, 1e-8):
        system = da.catalog.double_pendulum(m1=m1, m2=1.0)
        start = da.consistent(system, q=[0.8, -0.6, 1.4, -1.4], v=[0, 0, 0, 0])
        sol = da.simulate(system, "lobatto-pair-3", q=start.q, v=start.v, t_end=0.02, step=1e-5 if m1 < 1e-5 else 1e-4)
        assert np.abs(sol.residual("position")).max() < 1e-13
        reference = sol.q[-1] if reference is None else reference
        assert np.abs(sol.q[-1] - reference).max() < 1e-2
