"""Steps by sweeps: the same motion as Newton's iteration to round-off, and Newton's iteration where sweeps do not contract."""

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.case import prepare
from dalembert.engine.machine import VirtualMachine
from dalembert.engine.native import Native
from dalembert.engine.runners import Engine
from dalembert.methods.base import find


def moved():
    """A pendulum whose length changes, with damping, a force that depends on velocities, and an input."""
    return da.Mechanical(
        ("x", "y"), mass=[2.0, 2.0], potential=lambda q: 9.81 * 2.0 * q[1],
        holonomic=lambda q, t: [q[0] ** 2 + q[1] ** 2 - (1 + 0.1 * np.sin(t)) ** 2],
        dissipation=lambda q: [[0.3, 0.0], [0.0, 0.1]],
        force=lambda q, v: [0.5 * v[1], -0.5 * v[0]], inputs=[[1.0], [0.0]],
    )  # fmt: skip


def oscillator():
    return da.Mechanical(
        ("x", "y"), mass=[[2.0, 0.3], [0.3, 1.0]], potential=lambda q: q[0] ** 4 / 4 + q[0] * q[1] + q[1] ** 2,
        force=lambda q, v: [-0.1 * v[0], 0.2 * v[0] - 0.1 * v[1]],
    )  # fmt: skip


def turning():
    """A double pendulum by its angles: masses depend on them."""
    return da.Mechanical(
        ("a", "b"), mass=lambda q: [[2.0, np.cos(q[0] - q[1])], [np.cos(q[0] - q[1]), 1.0]],
        potential=lambda q: -9.81 * (2 * np.cos(q[0]) + np.cos(q[1])), dissipation=lambda q: [[0.1, 0.0], [0.0, 0.2]],
        inputs=[[1.0], [0.3]],
    )  # fmt: skip


def spherical():
    """A particle on a surface that moves, in spherical coordinates."""
    return da.Mechanical(
        ("r", "a", "b"), mass=lambda q: np.diag([1.0, q[0] ** 2, (q[0] * np.sin(q[1])) ** 2]),
        potential=lambda q: 9.81 * q[0] * np.cos(q[1]), holonomic=lambda q, t: [q[0] - 1 - 0.1 * np.sin(t) + 0.05 * q[1] ** 2],
    )  # fmt: skip


CASES = {
    "double pendulum": (da.catalog.double_pendulum, {}),
    "four particles": (da.catalog.four_particles, {}),
    "moved pendulum": (moved, {"q": [0.0, -1.0], "v": [1.0, -0.1 * np.cos(0.0)], "u": lambda t: [np.sin(3 * t)]}),
    "oscillator": (oscillator, {"q": [1.0, -0.4], "v": [0.2, 0.0]}),
    "M(q)": (turning, {"q": [1.0, 0.5], "v": [0.2, -0.1], "u": lambda t: [np.sin(2 * t)]}),
    "M(q), constrained": (spherical, {"q": [0.95, 1.0, 0.0], "v": [0.07, 0.3, 1.0]}),
}


def stages_of_cases():
    """Below, at and above four lanes, and above eight; of the largest system those below and above four.

    Each number with and without constraints, and with masses that depend on positions.
    """
    chosen = {"double pendulum": (3, 4, 5, 9), "oscillator": (4, 9), "M(q)": (3, 4, 9), "M(q), constrained": (5, 9)}
    for case in CASES:
        yield from ((case, stages) for stages in chosen.get(case, (3, 5)))


@pytest.mark.parametrize(("case", "stages"), list(stages_of_cases()))
def test_sweeps_and_newton_make_the_same_steps(case, stages):
    same_steps(case, stages)


@pytest.mark.parametrize("case", ["moved pendulum", "M(q)"])
def test_sweeps_of_users_make_the_same_steps(optimised, case):
    same_steps(case, 4)


def same_steps(case, stages):
    make, start = CASES[case]
    options = {"t_end": 0.5, "step": 0.01, **start}
    system, method = make(), f"lobatto-pair-{stages}"
    swept = da.simulate(system, method, compile=True, **options)
    newton = da.simulate(system, method, compile=False, **options)
    assert swept.stats["engine"] == "compiled, by sweeps"
    assert swept.stats["swept_steps"] == swept.stats["steps"] == 50
    assert newton.stats["swept_steps"] == 0
    for name in ("q", "v", "supplied", "dissipated"):
        np.testing.assert_allclose(getattr(swept, name), getattr(newton, name), rtol=0, atol=2e-12)


def on_springs():
    """A mass on a rod and two more on springs of stiffness 1e6, released where these are not strained: forces begin at zero."""
    ends = lambda q: [(q[i + 2] - q[i]) ** 2 + (q[i + 3] - q[i + 1]) ** 2 for i in (0, 2)]  # noqa: E731
    return da.Mechanical(
        6, mass=1.0, potential=lambda q: 9.81 * (q[1] + q[3] + q[5]) + 5e5 * sum((np.sqrt(d) - 1) ** 2 for d in ends(q)),
        holonomic=lambda q: [q[0] ** 2 + q[1] ** 2 - 1],
    )  # fmt: skip


def elastic():
    """Two pendulums on springs of stiffness 1e6 in polar coordinates, with a spring between their lengths."""
    springs = lambda q: 5e5 * ((q[0] - 1) ** 2 + (q[2] - q[0]) ** 2)  # noqa: E731
    return da.Mechanical(
        ("r", "a", "s", "b"), mass=lambda q: np.diag([1.0, q[0] ** 2, 1.0, q[2] ** 2]),
        potential=lambda q: springs(q) - 9.81 * (q[0] * np.cos(q[1]) + q[2] * np.cos(q[3])),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "method", "step", "q"),
    [
        (on_springs, "lobatto-pair-4", 0.00125, [1.0, 0, 2, 0, 3, 0]),
        (on_springs, "lobatto-pair-5", 0.0025, [1.0, 0, 2, 0, 3, 0]),
        (on_springs, "lobatto-pair-8", 0.001, [1.0, 0, 2, 0, 3, 0]),
        (elastic, "lobatto-pair-5", 0.001, [1.0, 1.5, 1.0, 0.3]),
        (elastic, "gauss-3", 0.0015, [1.0, 1.5, 1.0, 0.3]),
    ],
)
def test_stiff_forces_are_swept_until_their_equations_hold(make, method, step, q):
    """Positions are at rest before forces are: 1e-16 of a length is 1e-10 of force here, beside none at the start."""
    options = {"t_end": 640 * step, "step": step, "q": q, "v": [0.0] * len(q)}
    swept, newton = (da.simulate(make(), method, compile=compile, **options) for compile in (True, "newton"))
    assert swept.stats["swept_steps"] == swept.stats["steps"] == 640
    np.testing.assert_allclose(swept.q, newton.q, rtol=0, atol=1e-10)
    np.testing.assert_allclose(swept.v, newton.v, rtol=0, atol=1e-7)
    np.testing.assert_allclose(swept.energy, newton.energy, rtol=0, atol=1e-9)


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_gauss_is_swept_where_there_are_no_constraints(stages):
    options = {"t_end": 1.0, "step": 0.02, "q": [1.0, -0.4], "v": [0.2, 0.0]}
    swept, newton = (da.simulate(oscillator(), f"gauss-{stages}", compile=compile, **options) for compile in (True, False))
    assert swept.stats["swept_steps"] == 50
    np.testing.assert_allclose(swept.q, newton.q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(swept.v, newton.v, rtol=0, atol=1e-13)


@pytest.mark.parametrize("method", ["gauss-2", "gauss-3", "gauss-8", "lobatto-iiid-4", "radau-iia-3"])
def test_masses_that_depend_on_positions_are_swept(method):
    """Energy and state are those of Newton's iteration, over turns of the pendulums too."""
    options = {"t_end": 6.0, "step": 0.02, "q": [2.5, -0.4], "v": [0.2, 3.0], "u": [0.4]}
    swept, newton = (da.simulate(turning(), method, compile=compile, **options) for compile in (True, "newton"))
    assert swept.stats["swept_steps"] == 300
    assert newton.stats["swept_steps"] == 0
    np.testing.assert_allclose(swept.q, newton.q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(swept.energy, newton.energy, rtol=0, atol=1e-11)


@pytest.mark.parametrize("stages", [3, 5])
def test_constraints_hold_to_round_off_with_masses_that_depend_on_positions(stages):
    system, start = spherical(), CASES["M(q), constrained"][1]
    sol = da.simulate(system, f"lobatto-pair-{stages}", t_end=1.28, step=0.01, compile=True, **start)
    assert sol.stats["swept_steps"] == 128
    assert np.abs(sol.residual("position")).max() < 3e-15
    assert np.abs(sol.residual("velocity")).max() < 3e-15


def test_sines_far_from_zero_and_where_there_are_none():
    """Angles beyond those that are turned in lanes are left to the C library; what is no number fails as it should."""
    system = da.Mechanical(("a",), mass=[1.0], potential=lambda q: -np.cos(q[0]) + 0.3 * np.sin(3 * q[0]))
    for start in (1.0, 1e4 + 1.0, 3e6 + 1.0, -7e8):
        options = {"t_end": 1.0, "step": 0.02, "q": [start], "v": [0.5]}
        swept, newton = (da.simulate(system, "gauss-4", compile=compile, **options) for compile in (True, False))
        assert swept.stats["swept_steps"] == 50
        assert np.abs(swept.q - newton.q).max() <= 4 * np.spacing(abs(start) + 1)
    with pytest.raises(da.DalembertError):
        da.simulate(system, "gauss-4", t_end=1e9, step=1e8, q=[1.0], v=[1e305], compile=True)


@pytest.mark.parametrize("stages", [3, 5, 9])
def test_constraints_hold_to_round_off(stages):
    sol = da.simulate(da.catalog.double_pendulum(), f"lobatto-pair-{stages}", t_end=40.0, step=0.02, compile=True)
    assert sol.stats["swept_steps"] == 2000
    assert np.abs(sol.residual("position")).max() < 1e-13
    assert np.abs(sol.residual("velocity")).max() < 1e-13


def test_changes_may_grow_for_a_sweep_while_they_contract():
    """With so long steps each takes some twenty sweeps, among them ones that change more than the one before."""
    options = {"t_end": 12.8, "step": 0.1}
    system = da.catalog.four_particles()
    swept, newton = (da.simulate(system, "lobatto-pair-5", compile=compile, **options) for compile in (True, False))
    assert swept.stats["swept_steps"] == 128
    assert swept.stats["iterations_per_step"] > 12
    np.testing.assert_allclose(swept.q, newton.q, rtol=0, atol=1e-10)
    assert np.abs(swept.residual("position")).max() < 1e-13


def test_newton_takes_over_where_sweeps_do_not_contract():
    stiff = da.Mechanical(("x", "y"), mass=[1.0, 1.0], potential=lambda q: 5e5 * q[0] ** 2 + q[1] ** 2 / 2)
    options = {"t_end": 3.0, "step": 0.02, "q": [1.0, 1.0], "v": [0.0, 0.0]}
    swept, newton = (da.simulate(stiff, "gauss-3", compile=compile, **options) for compile in (True, False))
    assert swept.stats["engine"] == "compiled, by sweeps"
    assert swept.stats["swept_steps"] == 0
    np.testing.assert_allclose(swept.q, newton.q, rtol=0, atol=1e-11)


def test_what_cannot_be_swept_is_compiled_where_that_pays(monkeypatch):
    """By the length of the run: to the last bit as by the virtual machine, which makes the blocks of a short one."""
    stiff = da.Mechanical(("x", "y"), mass=[1.0, 1.0], potential=lambda q: 5e5 * q[0] ** 2 + q[1] ** 4 / 4)
    options = {"t_end": 3.0, "step": 0.02, "q": [1.0, 1.0], "v": [0.0, 0.0]}
    engine = prepare(stiff, find("gauss-3"))
    assert isinstance(engine._newton(150), VirtualMachine)
    assert isinstance(engine._newton(10**6), Native)
    runs = [da.simulate(stiff, "gauss-3", compile=True, **options)]
    monkeypatch.setattr(Engine, "_pays", lambda self, steps: True)
    runs.append(da.simulate(stiff, "gauss-3", compile=True, **options))
    assert [run.stats["swept_steps"] for run in runs] == [0, 0]
    np.testing.assert_array_equal(runs[0].q, runs[1].q)


def test_blocks_of_both_kinds_follow_each_other():
    """A particle that flies into a stiff wall and out again: sweeps in the air, Newton's iteration in the wall."""
    system = da.Mechanical(("x",), mass=[1.0], potential=lambda q: 1e6 * np.exp(30 * (q[0] - 1.0)) * 1e-6)
    options = {"t_end": 12.0, "step": 0.02, "q": [-4.0], "v": [1.0]}
    swept, newton = (da.simulate(system, "gauss-4", compile=compile, **options) for compile in (True, False))
    np.testing.assert_allclose(swept.q, newton.q, rtol=0, atol=1e-11)
    assert swept.stats["steps"] == 600


def test_newton_can_be_asked_for():
    system = da.catalog.double_pendulum()
    options = {"t_end": 1.0, "step": 0.01}
    compiled, machine = (da.simulate(system, "lobatto-pair-3", compile=compile, **options) for compile in ("newton", False))
    assert compiled.stats["engine"] == "compiled"
    np.testing.assert_array_equal(compiled.q, machine.q)
    with pytest.raises(da.MethodError, match="'newton'"):
        da.simulate(system, "rattle", compile="sweeps", **options)


@pytest.mark.parametrize("every", [1, 3, 50, 1000])
def test_rows_and_work_are_those_of_other_ways(every):
    make, start = CASES["moved pendulum"]
    options = {"t_end": 2.0, "step": 0.01, "save_every": every, **start}
    swept, newton = (da.simulate(make(), "lobatto-pair-4", compile=compile, **options) for compile in (True, False))
    np.testing.assert_array_equal(swept.t, newton.t)
    np.testing.assert_allclose(swept.q, newton.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(swept.supplied, newton.supplied, rtol=0, atol=1e-12)
    np.testing.assert_allclose(swept.dissipated, newton.dissipated, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", ["double pendulum", "M(q), constrained", "M(q)"])
def test_a_resumed_run_gives_the_same_bits(case, tmp_path):
    make, start = CASES[case]
    system, whole = make(), {"step": 0.01, "compile": True, **start}
    straight = da.simulate(system, "lobatto-pair-5", t_end=1.6, **whole)
    path = tmp_path / "run.nc"
    da.simulate(system, "lobatto-pair-5", t_end=0.64, checkpoint=path, **whole)
    resumed = da.simulate(system, "lobatto-pair-5", t_end=1.6, checkpoint=path, **whole)
    np.testing.assert_array_equal(straight.q, resumed.q)


def test_sensitivities_go_through_swept_runs():
    system = da.catalog.double_pendulum()
    gradients = [
        da.sensitivity(system, "lobatto-pair-4", t_end=1.0, step=0.01, compile=compile).gradient(lambda q: q[0])
        for compile in (True, False)
    ]
    for name, value in gradients[0].items():
        np.testing.assert_allclose(value, gradients[1][name], rtol=1e-10, atol=1e-11)


def test_a_table_is_swept_lane_by_lane():
    ca = pytest.importorskip("casadi")
    grid = np.linspace(-5, 5, 21)
    table = ca.interpolant("table", "bspline", [grid], 0.1 * grid**4)
    system = da.Mechanical(("x", "y"), mass=[1.0, 2.0], potential=lambda q: table(q[0]) + np.cos(q[1]) + np.sqrt(1 + q[0] ** 2))
    options = {"t_end": 1.0, "step": 0.02, "q": [1.0, 0.5], "v": [0.2, 0.0]}
    swept, newton = (da.simulate(system, "gauss-2", compile=compile, **options) for compile in (True, False))
    assert swept.stats["swept_steps"] == 50
    np.testing.assert_allclose(swept.q, newton.q, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("stages", "step", "most"), [(5, 1 / 14, 8.5), (9, 1 / 24, 5.2)])
def test_constraints_are_corrected_while_forces_change(stages, step, most):
    """One sweep does what two did where the multipliers followed the forces one sweep later (10.4 and 6.2 sweeps a step)."""
    sol = da.simulate(da.catalog.double_pendulum(), f"lobatto-pair-{stages}", t_end=40.0, step=step, compile=True)
    assert sol.stats["swept_steps"] == sol.stats["steps"]
    assert sol.stats["iterations_per_step"] < most
    assert np.abs(sol.residual("position")).max() < 1e-13
