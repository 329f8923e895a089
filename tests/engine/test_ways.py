"""Virtual machine, compiled and differentiable runs: one behaviour."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, consistent_start, driven_pendulum, polar_rod, skew_hamiltonian
from dalembert.engine import compiler
from dalembert.engine.driver import Engine, Grid, integrate
from dalembert.engine.machine import Memory, Pivoted, Records
from dalembert.engine.newton import Rule
from dalembert.engine.program import Program
from dalembert.methods.base import REGISTER
from dalembert.methods.stages import Staged

needs_compiler = pytest.mark.skipif(compiler.find() is None, reason="no C compiler on this machine")
SYSTEMS = {
    "double pendulum": (da.catalog.double_pendulum, {}, {}),
    "four particles": (da.catalog.four_particles, {}, {}),
    "angles": (angle_pendulum, {}, {}),
    "polar": (polar_rod, {}, {}),
    "driven": (driven_pendulum, {}, {"u": lambda t: [np.sin(t)]}),
    "oscillator": (da.catalog.harmonic_oscillator, {}, {}),
    "skew": (skew_hamiltonian, {"q": [0.6, 0.3, 0.5], "p": [0.2, -0.4, 0.3]}, {}),
}


@needs_compiler
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("method", [n for n, m in REGISTER.items() if not m.external])
def test_compiled_differentiable_and_virtual_machine_agree(method, name):
    make, values, options = SYSTEMS[name]
    system = make()
    try:
        REGISTER[method]().check(system)
    except da.MethodError:
        cls = REGISTER[method]
        assert method == "shake" or system.kind not in cls.treats or cls.index == 0
        return
    method = REGISTER[method]()
    if isinstance(method, Staged):
        if system.n > 4:
            return  # minutes of a compiler, and nothing new
        method = type(method)(stages=2)
    start = consistent_start(system, **values)
    common = dict(**start, **options, t_end=0.503 if isinstance(method, Staged) else 2.003, step=0.01)
    machine = da.simulate(system, method, compile=False, **common)
    native = da.simulate(system, method, compile=True, **common)
    differentiable = da.sensitivity(system, method, compile=False, **common).solution
    assert (machine.stats["engine"], native.stats["engine"]) == ("virtual machine", "compiled")
    assert machine.stats["iterations"] == native.stats["iterations"]
    for other in (native, differentiable):
        np.testing.assert_allclose(other.x, machine.x, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(other.lam, machine.lam, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.supplied, machine.supplied, atol=1e-13)


@needs_compiler
def test_saving_less_often_changes_nothing_else():
    system = da.catalog.four_particles_damped()
    for compile in (True, False):
        all_of_it = da.simulate(system, "energy-momentum", t_end=1.005, step=0.01, compile=compile)
        some = da.simulate(system, "energy-momentum", t_end=1.005, step=0.01, save_every=7, compile=compile)
        np.testing.assert_array_equal(some.q[:-1], all_of_it.q[:-2:7])
        np.testing.assert_array_equal(some.q[-1], all_of_it.q[-1])
        assert some.t[-1] == 1.005
        np.testing.assert_allclose(some.dissipated.sum(), all_of_it.dissipated.sum(), rtol=1e-13)
        assert np.abs(some.power_balance).max() < 1e-13


def test_without_a_compiler_everything_works_and_a_demand_is_refused():
    code = (
        "import dalembert as da\n"
        "s = da.catalog.simple_pendulum()\n"
        "print(da.simulate(s, 'rattle', t_end=50.0, step=0.001).stats['engine'])\n"
        "try:\n    da.simulate(s, 'rattle', t_end=1.0, step=0.01, compile=True)\n"
        "except da.CompilerError as error:\n    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "DALEMBERT_CC": "none"}, check=True
    )
    assert run.stdout.splitlines()[0] == "virtual machine"
    assert "no C compiler was found" in run.stdout
    assert run.stderr == ""


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")
def test_the_compiler_of_the_ziglang_package_serves_too(monkeypatch, tmp_path):
    monkeypatch.setenv("DALEMBERT_CC", f"{sys.executable} -m ziglang cc")
    monkeypatch.setenv("DALEMBERT_CACHE", str(tmp_path))
    compiler.find.cache_clear()
    try:
        system = da.catalog.simple_pendulum()
        a = da.simulate(system, "rattle", t_end=1.0, step=0.01, compile=True)
        b = da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=1.0, step=0.01, compile=False)
        assert a.stats["engine"] == "compiled"
        np.testing.assert_allclose(a.q, b.q, atol=1e-13)
    finally:
        monkeypatch.undo()
        compiler.find.cache_clear()


@needs_compiler
def test_compiled_steps_are_kept_by_content(monkeypatch, tmp_path):
    monkeypatch.setenv("DALEMBERT_CACHE", str(tmp_path))
    for _ in range(2):
        da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=0.1, step=0.01, compile=True)
    assert len(list(tmp_path.glob("step-*.so"))) == 1
    da.simulate(da.catalog.simple_pendulum(), "shake", t_end=0.1, step=0.01, compile=True)
    assert len(list(tmp_path.glob("step-*.so"))) == 2


@needs_compiler
def test_auto_compiles_only_long_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("DALEMBERT_CACHE", str(tmp_path))
    short = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=0.5, step=0.01)
    long = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=500.0, step=0.01)
    assert (short.stats["engine"], long.stats["engine"]) == ("virtual machine", "compiled")


def test_pivoted_solver_gives_the_same_step():
    system = da.catalog.four_particles()
    program = Program(da.methods.EnergyMomentum().step(system))
    par = system.pack()
    state = np.zeros(program.n_state)
    state[:12], state[12:24] = system.initial["q"], system.initial["v"]
    results = []
    for runner in (Pivoted(program), Engine(program).machine()):
        memory, out = Memory.start(program, state, par), Records.empty(program, 5)
        outcome = runner.run(memory, out, t0=0.0, first=0, steps=5, h=0.01, inputs=np.zeros((1, 0)), save_every=1, rule=Rule())
        assert outcome.failed < 0
        results.append(out.state)
    np.testing.assert_allclose(results[0], results[1], atol=1e-14)


def test_bad_pivots_fall_back_to_the_pivoted_solver_and_are_chosen_anew():
    """Rows in the wrong order put zeros on the diagonal: the straight-line elimination fails, the run does not."""
    from dataclasses import replace

    import casadi as ca

    system = da.catalog.double_pendulum()
    step = da.methods.EnergyMomentum().step(system)
    solve = step.solves[0]
    rows = solve.residual
    swapped = replace(solve, residual=ca.vertcat(rows[1], rows[0], rows[2:]))
    program = Program(replace(step, solves=(swapped,)))
    good = da.simulate(system, "energy-momentum", t_end=1.0, step=0.01)
    state = np.zeros(program.n_state)
    state[:4] = system.initial["q"]
    grid = Grid(0.0, 1.0, 0.01)
    memory = Memory.start(program, state, system.pack())
    run = integrate(Engine(program), memory, grid, lambda t: np.zeros((len(t), 0)), rule=Rule(), compile=False)
    assert run.error is None
    assert 1 <= run.stats["pivoted_steps"] < 20
    np.testing.assert_allclose(run.records.state[:, :4], good.q[1:], atol=1e-12)


def test_gradients_through_a_thousand_steps():
    """Against central differences, to 1e-6 relative; by both sweeps."""
    cost = lambda q: np.sum(q**2) + q[0]  # noqa: E731
    for make, method, name in (
        (da.catalog.double_pendulum, "rattle", "m1"),
        (da.catalog.double_pendulum, "energy-momentum", "g"),
        (da.catalog.four_particles, "energy-momentum", "K2"),
        (angle_pendulum, "midpoint", "l2"),
        (polar_rod, "rattle", "g"),
    ):
        system = make()
        options = dict(t_end=2.0, step=0.002)
        run = da.sensitivity(system, method, **options)
        value = float(system.parameters[name])
        d = 1e-5 * value
        finals = [da.simulate(system, method, parameters={name: value + s * d}, **options).q[-1] for s in (1, -1)]
        expected = (finals[0] - finals[1]) / (2 * d)
        scale = np.abs(expected).max() + 1e-6
        np.testing.assert_allclose(run.jacobian("q", name), expected, atol=1e-6 * scale)
        gradient = run.gradient(cost)
        difference = (cost(finals[0]) - cost(finals[1])) / (2 * d)
        assert gradient[name] == pytest.approx(difference, rel=1e-6, abs=1e-8 * scale)
        np.testing.assert_allclose(gradient["value"], cost(run.solution.q[-1]))


def test_gradients_with_respect_to_initial_values():
    system = angle_pendulum()
    q, v = np.array([0.7, -0.4]), np.array([0.3, 1.1])
    options = dict(t_end=1.0, step=0.001)
    run = da.sensitivity(system, "energy-momentum", q=q, v=v, **options)
    d = 1e-6
    for i in range(2):
        e = d * np.eye(2)[i]
        for wrt, plus, minus in (("q", (q + e, v), (q - e, v)), ("v", (q, v + e), (q, v - e))):
            a, b = (da.simulate(system, "energy-momentum", q=x, v=y, **options) for x, y in (plus, minus))
            np.testing.assert_allclose(run.jacobian("q", wrt)[:, i], (a.q[-1] - b.q[-1]) / (2 * d), rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(run.jacobian("v", wrt)[:, i], (a.v[-1] - b.v[-1]) / (2 * d), rtol=1e-6, atol=1e-6)


def test_running_costs_fit_a_parameter():
    """Gradient of a sum of squared errors along the path, at the right parameter and away from it."""
    system = da.catalog.harmonic_oscillator()
    data = da.simulate(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": 1.3})
    run = da.sensitivity(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": 1.3})
    target = data.at(1.0).q[0]
    gradient = run.gradient(running=lambda q, t: np.where(np.abs(t - 1.0) < 1e-6, (q[0] - target) ** 2, 0.0))
    assert abs(gradient["k"]) < 1e-12
    off = da.sensitivity(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": 1.5})
    assert abs(off.gradient(running=lambda q, v, k: k * (q[0] ** 2 + v[0] ** 2))["k"]) > 1e-3
    with pytest.raises(da.MethodError, match="did you mean"):
        off.jacobian("q", "kk")
    with pytest.raises(da.MethodError, match="terminal"):
        off.gradient()


def test_times_are_counted_and_the_last_step_is_shortened():
    assert Grid(0.0, 1.0, 0.1).steps == 10
    assert Grid(0.0, 0.3, 0.1).steps == 3
    grid = Grid(0.0, 1.05, 0.1)
    assert (grid.full, grid.steps) == (10, 11)
    assert grid.remainder == pytest.approx(0.05)
    long = da.simulate(da.catalog.harmonic_oscillator(), "midpoint", t_end=1000.0, step=0.1)
    np.testing.assert_array_equal(long.t, np.r_[np.arange(10000) * 0.1, 1000.0])
    assert da.simulate(da.catalog.harmonic_oscillator(), "midpoint", t_end=0.0, step=0.1).t.tolist() == [0.0]
    short = da.simulate(da.catalog.harmonic_oscillator(), "midpoint", t_end=0.05, step=0.1)
    assert short.t.tolist() == [0.0, 0.05]
    exact = np.cos(0.05)
    assert abs(short.q[-1, 0] - exact) < 1e-4


def test_work_counters_are_pinned():
    """A change of the engine that costs iterations shows here."""
    sol = da.simulate(da.catalog.four_particles(), "energy-momentum", t_end=10.0, step=0.01)
    assert 2.0 <= sol.stats["iterations_per_step"] <= 2.8
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=10.0, step=0.01)
    assert 4.0 <= sol.stats["iterations_per_step"] <= 4.8
    assert sol.stats["pivoted_steps"] == 0
