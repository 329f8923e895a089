"""Sweeps compiled and in batches: the same derivatives, of the first and of the second order."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, polar_rod
from dalembert.engine import derivatives as module
from dalembert.engine import tangents
from dalembert.engine.case import prepare
from dalembert.engine.derivatives import Sweeper, Sweeps
from dalembert.engine.settling import Settling
from dalembert.engine.through import Adjoints
from dalembert.methods.base import find
from dalembert.systems.batch import batch, dense

CASES = (
    (da.catalog.double_pendulum, "rattle"),
    (da.catalog.four_particles, "energy-momentum"),
    (da.catalog.double_pendulum, "lobatto-pair-4"),
    (angle_pendulum, "gauss-2"),
    (polar_rod, "rattle"),
    (da.catalog.double_pendulum, "murua-2"),
    (da.catalog.rolling_disk, "mclachlan-perlmutter"),
    (da.catalog.harmonic_oscillator, "rk4"),
)


def close(a, b, rtol):
    """Two derivatives of everything, each relative to the largest entry."""
    assert a.keys() == b.keys()
    largest = max(np.abs(value).max(initial=0.0) for value in b.values())
    for name in b:
        np.testing.assert_allclose(a[name], b[name], rtol=0, atol=rtol * largest, err_msg=name)


def twice(make, method, **options):
    """One run, with compiled sweeps and without."""
    system = make()
    return [da.sensitivity(system, method, t_end=0.5, step=0.01, compile=compile, **options) for compile in (True, False)]


@pytest.mark.parametrize(("make", "method"), CASES, ids=lambda x: getattr(x, "__name__", x))
def test_compiled_sweeps_agree_with_batches(make, method):
    native, batches = twice(make, method)
    part = native.system.state[0]
    cost = {"q": lambda q: np.sum(q**2) + q[0], "x": lambda x: np.sum(x**2)}[part]
    close(native.gradient(cost), batches.gradient(cost), 1e-12)
    for name in (*native.system.state, *native.system.parameters):
        expected = batches.jacobian(part, name)
        np.testing.assert_allclose(native.jacobian(part, name), expected, rtol=0, atol=1e-12 * np.abs(expected).max(initial=1.0))
    direction = {
        part: np.ones(native.system.size_of(part)),
        **dict.fromkeys([n for n, v in native.system.parameters.items() if not v.ndim], 1.0),
    }
    close(native.hessian_product(direction, cost), batches.hessian_product(direction, cost), 1e-11)
    assert native.stats["sweeps"] == "compiled"
    assert batches.stats["sweeps"] == "virtual machine"


def test_a_sweep_in_parts_is_the_same(monkeypatch):
    """What is too long for one function is written in parts; only what is rounded in between changes."""
    found = []
    for part in (tangents.PART, 40):
        monkeypatch.setattr(tangents, "PART", part)
        run = da.sensitivity(da.catalog.double_pendulum(), "rattle", t_end=0.2, step=0.01, compile=True)
        product = run.hessian_product({"g": 1.0, "q": np.arange(4.0)}, lambda q: q @ q)
        found.append({**run.gradient(lambda q: q @ q), **{f"{k}'": v for k, v in product.items()}, "J": run.jacobian("v", "q")})
        assert ("part8(" in run._sweep._sweeps._code(Adjoints)[1]) == (part == 40)
    close(found[1], found[0], 1e-13)


def test_tables_are_differentiated():
    """A potential from a spline: its derivatives are functions that are called."""
    x = np.linspace(-2, 2, 41)
    table = ca.interpolant("table", "bspline", [x], np.cos(x))
    system = da.Mechanical(
        1, mass=1.0, potential=lambda q, k: k * table(q[0]), parameters={"k": 2.0}, initial={"q": [0.5], "v": [0.0]}
    )
    options = {"t_end": 1.0, "step": 0.01}
    native = da.sensitivity(system, "gauss-2", compile=True, **options)
    batches = da.sensitivity(system, "gauss-2", compile=False, **options)
    close(native.gradient(lambda q: q[0] ** 2), batches.gradient(lambda q: q[0] ** 2), 1e-12)


def test_steps_on_which_fixed_pivots_fail_are_left_to_batches(monkeypatch):
    """A compiled sweep that differs from partial pivoting is not believed."""
    system = da.catalog.double_pendulum()
    expected = da.sensitivity(system, "rattle", t_end=0.1, step=0.01, compile=False).gradient(lambda q: q[0])
    run = da.sensitivity(system, "rattle", t_end=0.1, step=0.01, compile=True)
    right = module.swept

    def wrong(native, rows, through):
        right(native, rows, through)
        through.bar *= 1 + 1e-7

    monkeypatch.setattr(module, "swept", wrong)
    close(run.gradient(lambda q: q[0]), expected, 1e-15)
    assert run.stats["sweeps"] == "virtual machine"


def test_runs_that_needed_partial_pivoting_are_swept_in_batches():
    system = da.catalog.double_pendulum()
    program = prepare(system, find("rattle")).program
    sweeps = Sweeps(program)
    assert sweeps.compiled(Adjoints, True, 10) is not None
    careful = Sweeper(sweeps, Settling(system, program), True, 10, careful=True)
    assert careful._sweeps.compiled(Adjoints, careful._compile, 10) is None


def test_when_sweeps_are_compiled(monkeypatch, tmp_path):
    """By the number of steps; never where nothing can be compiled, and without an error then."""
    monkeypatch.setenv("DALEMBERT_CACHE", str(tmp_path / "cache"))
    program = prepare(da.catalog.double_pendulum(), find("rattle")).program
    assert Sweeps(program).compiled(Adjoints, "auto", 1000) is None
    assert Sweeps(program).compiled(Adjoints, "auto", 100_000) is not None
    assert Sweeps(program).compiled(Adjoints, "auto", 10_000) is not None  # it has been compiled before
    assert Sweeps(program).compiled(Adjoints, False, 100_000) is None
    monkeypatch.setattr(module, "LONGEST", 10)
    assert Sweeps(program).compiled(Adjoints, True, 100_000) is None
    monkeypatch.undo()
    monkeypatch.setattr(module.compiler, "find", lambda: None)
    assert Sweeps(program).compiled(Adjoints, "auto", 100_000) is None


def solved(A, b):
    """In extended precision, with partial pivoting."""
    A, b = A.astype(np.longdouble), b.astype(np.longdouble)
    for k in range(len(A)):
        p = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, p]], b[[k, p]] = A[[p, k]], b[[p, k]]
        for i in range(k + 1, len(A)):
            factor = A[i, k] / A[k, k]
            A[i], b[i] = A[i] - factor * A[k], b[i] - factor * b[k]
    for k in reversed(range(len(A))):
        b[k] = (b[k] - A[k, k + 1 :] @ b[k + 1 :]) / A[k, k]
    return b


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision on this machine")
@pytest.mark.parametrize(("make", "method"), CASES[:3], ids=lambda x: getattr(x, "__name__", x))
def test_compiled_sweeps_are_as_accurate_as_partial_pivoting(make, method):
    """The derivatives of steps, one by one, against extended precision; at this step size multipliers are ill-conditioned."""
    run = da.sensitivity(make(), method, t_end=0.04, step=1e-3, compile=True)
    sweeps, rows = run._sweep._sweeps, next(iter(run._tape.segments()))
    native, linear, (n, p, _) = sweeps.compiled(Adjoints, True, 1), sweeps.linear, sweeps.changes.sizes
    errors = np.zeros((len(rows), 2))
    for k in range(len(rows)):
        row = rows[k : k + 1]
        values = batch(linear.function, linear._at(row), 1)
        R_x, R_z, N_x, N_z = (dense(v, linear.function.sparsity_out(i))[0] for i, v in enumerate(values))
        exact = N_z - N_x.astype(np.longdouble) @ solved(R_x, R_z)
        bar, par = np.eye(n), np.zeros((n, p))
        module.swept(native, row, Adjoints(bar, np.zeros((1, n)), par, None))
        errors[k] = [np.abs(found - exact).max() for found in (np.hstack([bar, par]), linear.matrices(row)[0][0])]
    compiled, pivoted = errors.max(axis=0)
    assert compiled <= 4 * pivoted
