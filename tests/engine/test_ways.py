"""Virtual machine, compiled and differentiable runs: one behaviour."""

import importlib.util
import os
import subprocess
import sys

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import (
    SINGLE,
    angle_pendulum,
    can,
    consistent_start,
    driven_pendulum,
    polar_rod,
    skew_hamiltonian,
    some,
    with_stages,
)
from dalembert.engine import compiler, elimination
from dalembert.engine.driver import Engine, Grid, integrate
from dalembert.engine.inputs import Constant
from dalembert.engine.machine import Memory, Pivoted, Records, Task
from dalembert.engine.newton import Rule
from dalembert.engine.program import Program

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


PORTS = {
    "machine": (da.catalog.synchronous_machine, {"u": lambda t: np.cos(np.arange(5) + 3 * t)}),
    "motor": (da.catalog.dc_motor, {"u": lambda t: [np.sin(t), 0.1]}),
    "springs": (da.catalog.singular_mass_springs, {}),
}
METHODS = [*SINGLE, *with_stages(2, fewest=2)]


def mechanics():
    for name, (make, _, _) in SYSTEMS.items():
        system = make()
        for method in METHODS:
            many = system.n > 4 and (method not in SINGLE or method == "energy-momentum-ggl")  # minutes of a compiler
            if can(method, system) and not many:
                yield pytest.param(name, method, id=f"{method}-{name}")


def agree(native, machine):
    assert (machine.stats["engine"], native.stats["engine"]) == ("virtual machine", "compiled")
    assert machine.stats["iterations"] == native.stats["iterations"]


@needs_compiler
@pytest.mark.parametrize(("name", "method"), some(list(mechanics()), of=2))
def test_compiled_differentiable_and_virtual_machine_agree(method, name):
    make, values, options = SYSTEMS[name]
    system = make()
    start = consistent_start(system, **values)
    common = dict(**start, **options, t_end=2.003 if method in SINGLE else 0.503, step=0.01)
    machine, native = (da.simulate(system, method, compile=compile, **common) for compile in (False, "newton"))
    agree(native, machine)
    np.testing.assert_array_equal(native.x, machine.x)
    for other in (native, da.sensitivity(system, method, compile=False, **common).solution):
        np.testing.assert_allclose(other.x, machine.x, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(other.lam, machine.lam, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.supplied, machine.supplied, atol=1e-13)


@needs_compiler
@pytest.mark.parametrize(
    ("method", "name"), [("rattle", "double pendulum"), ("lobatto-pair-3", "driven"), ("energy-momentum", "skew")]
)
def test_steps_of_users_are_the_same_bits(optimised, method, name):
    """With the flags that users get, and beyond the length of source where they are others."""
    make, values, options = SYSTEMS[name]
    system = make()
    common = dict(**consistent_start(system, **values), **options, t_end=0.503, step=0.01)
    machine, native = (da.simulate(system, method, compile=compile, **common) for compile in (False, "newton"))
    agree(native, machine)
    np.testing.assert_array_equal(native.x, machine.x)
    np.testing.assert_array_equal(native.lam, machine.lam)
    np.testing.assert_array_equal(native.supplied, machine.supplied)


@needs_compiler
@pytest.mark.parametrize(
    ("name", "method"),
    some([(n, m) for n, (make, _) in PORTS.items() for system in [make()] for m in METHODS if can(m, system)], 2, 1),
)
def test_compiled_and_virtual_machine_agree_on_ports(method, name):
    make, options = PORTS[name]
    system = make()
    start = dict(da.consistent(system))
    machine, native = (
        da.simulate(system, method, compile=compile, t_end=1.003, step=0.01, **start, **options) for compile in (False, "newton")
    )
    agree(native, machine)
    np.testing.assert_allclose(native.x, machine.x, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(native.supplied, machine.supplied, atol=1e-13)
    np.testing.assert_allclose(native.dissipated, machine.dissipated, atol=1e-13)


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
def test_the_compiler_of_the_ziglang_package_serves_too(optimised, monkeypatch, tmp_path):
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
        outcome = runner.run(memory, out, Task(0.0, 0.01, Rule(), steps=5))
        assert outcome.failed < 0
        results.append(out.state)
    np.testing.assert_allclose(results[0], results[1], atol=1e-14)


def test_bad_pivots_fall_back_to_the_pivoted_solver_and_are_chosen_anew():
    """Rows in the wrong order put zeros on the diagonal, though not structural ones: the straight-line elimination fails, the
    run does not."""
    from dataclasses import replace

    system = da.catalog.double_pendulum()
    step = da.methods.EnergyMomentum().step(system)
    solve = step.solves[0]
    rows = solve.residual
    nothing = ca.fabs(step.h) - step.h
    swapped = replace(solve, residual=ca.vertcat(rows[1] + nothing * rows[0], rows[0] + nothing * rows[1], rows[2:]))
    program = Program(replace(step, solves=(swapped,)))
    good = da.simulate(system, "energy-momentum", t_end=1.0, step=0.01)
    state = np.zeros(program.n_state)
    state[:4] = system.initial["q"]
    grid = Grid(0.0, 1.0, 0.01)
    memory = Memory.start(program, state, system.pack())
    run = integrate(Engine(program), memory, grid, Constant(np.zeros(0)), rule=Rule(), compile=False)
    assert run.error is None
    assert 1 <= run.stats["pivoted_steps"] < 20
    np.testing.assert_allclose(run.records.state[:, :4], good.q[1:], atol=1e-12)


def test_an_engine_with_better_pivots_is_kept():
    engine = Engine(Program(da.methods.EnergyMomentum().step(da.catalog.double_pendulum())))
    pivots = tuple(elimination.structural_order(ca.Sparsity.dense(s.n, s.n), (0,) * s.n) for s in engine.program.stages)
    other = engine.using(pivots)
    assert other is not engine
    assert other.pivots == pivots
    assert engine.using(pivots) is other
    assert other.using(pivots) is other
    assert engine.using(None) is engine


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


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("t_end", [1000.0000005, 999.9999995, 1000 * (1 + 1e-12), 0.125 + 5e-11, 1000.05, 1000.099999])
def test_the_last_step_ends_where_it_is_asked_to(t_end, adaptive, compile):
    """A free motion shows how far the steps went: to the last time, not to one near it."""
    step, options = 0.125, {"adaptive": adaptive, "compile": compile}
    sol = da.simulate(da.Mechanical(1, mass=1.0), "rattle", q=[0.0], v=[1.0], t_end=t_end, step=step, **options)
    assert sol.t[-1] == t_end
    assert abs(sol.q[-1, 0] - t_end) <= 4 * np.spacing(t_end)
    if not adaptive:
        last = np.diff(sol.t)[-1]
        assert 1e-4 * step < last < 1.00011 * step
        np.testing.assert_array_equal(sol.t[:-1], step * np.arange(len(sol.t) - 1))


@pytest.mark.parametrize("t0", [0.0, 1.0, -5.0, 1e6, 1e-9])
def test_every_grid_ends_at_its_end(t0):
    rng = np.random.default_rng(0)
    for _ in range(300):
        h = 10 ** rng.uniform(-4, 1)
        t_end = t0 + h * rng.integers(0, 2000) + h * rng.choice([0.0, 1e-12, -1e-12, 1e-7, -1e-7, 1e-3, 0.5, 0.99999])
        if t_end < t0:
            continue
        grid = Grid(t0, t_end, h)
        length = grid.full * h + grid.remainder
        assert abs(t0 + length - t_end) <= 8 * np.spacing(max(abs(t0), abs(t_end)))
        assert grid.remainder == 0 or grid.remainder > 9e-5 * h or not grid.full
        assert grid.remainder < 1.00011 * h
        t = grid.times(np.arange(grid.steps + 1))
        assert (np.diff(t) > 0).all()


def test_steps_that_do_not_advance_the_time_are_refused():
    free = da.Mechanical(1, mass=1.0)
    for t0 in (1e16, -1e16):
        with pytest.raises(da.MethodError, match=r"step = 0.1 does not advance the time: numbers near t = -?1e\+16 lie 2 apart"):
            da.simulate(free, "rattle", q=[0.0], v=[1.0], t0=t0, t_end=t0 + 64, step=0.1)
    sol = da.simulate(free, "rattle", q=[0.0], v=[1.0], t0=1e16, t_end=1e16 + 640, step=20.0)
    np.testing.assert_array_equal(np.diff(sol.t), 20.0)


@pytest.mark.parametrize("name", ["save_every", "max_iterations"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, 2**64, 10**400])
def test_counts_are_whole_numbers_that_fit(name, value):
    with pytest.raises(da.MethodError, match=f"{name} (must be|is at most)"):
        da.simulate(da.catalog.harmonic_oscillator(), "rattle", t_end=1.0, step=0.1, **{name: value})


def test_work_counters_are_pinned():
    """A change of the engine that costs iterations shows here."""
    sol = da.simulate(da.catalog.four_particles(), "energy-momentum", t_end=10.0, step=0.01)
    assert 2.0 <= sol.stats["iterations_per_step"] <= 2.8
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=10.0, step=0.01)
    assert 3.0 <= sol.stats["iterations_per_step"] <= 3.6  # velocities are a linear solve: one iteration
    assert sol.stats["pivoted_steps"] == 0
