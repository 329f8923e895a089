"""Elimination in loops of C against the same written out, and steps that use it."""

import ctypes

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.engine import compiler, looped
from dalembert.engine.case import prepare
from dalembert.engine.elimination import numeric_order, solve, structural_order
from dalembert.engine.emission import HEAD, source, template
from dalembert.engine.looped import LARGEST, MANY, NEAR, VECTOR, Loops
from dalembert.methods.base import find

needs_compiler = pytest.mark.skipif(compiler.find() is None, reason="no C compiler on this machine")
ENTRY = "DA_EXPORT void solve(const da_loops *m, double *a, double *b) { da_factor(m, a); da_back(m, a, b); }\n"


class Given(ctypes.Structure):
    """What the loops go through, as the C code has it."""

    _fields_ = [("n", ctypes.c_long), ("width", ctypes.c_long), *((f"p{i}", ctypes.c_void_p) for i in range(6))]


def by_loops(loops, entries, b):
    library = compiler.load("\n".join([HEAD, template("looped.c").template, ENTRY]))
    lists = [loops.below, *([[c for run in runs for c in run] for runs in rows] for rows in (loops.ahead, loops.behind))]
    kept = []
    for parts in lists:
        kept += [np.cumsum([0, *map(len, parts)]).astype(np.int32), np.array([c for p in parts for c in p], dtype=np.int16)]
    matrix, right = np.zeros(loops.n * loops.width), np.zeros(loops.n)
    matrix[loops.entries], right[loops.rows] = entries, b
    table = Given(loops.n, loops.width, *(x.ctypes.data for x in kept))
    library.solve(ctypes.byref(table), ctypes.c_void_p(matrix.ctypes.data), ctypes.c_void_p(right.ctypes.data))
    return right[loops.unknowns]


def written(sparsity, entries, b, order):
    J, rhs = ca.SX.sym("J", sparsity), ca.SX.sym("b", len(b))
    return np.array(ca.Function("f", [J, rhs], [solve(J, rhs, order, paired=False)])(ca.DM(sparsity, entries), b)).ravel()


@needs_compiler
@given(st.integers(2, 40), st.floats(0.02, 1.0), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_loops_do_what_is_written_out_to_the_last_bit(n, density, seed):
    rng = np.random.default_rng(seed)
    pattern = (rng.random((n, n)) < density) | np.eye(n, dtype=bool)
    sparsity = ca.sparsify(ca.DM(pattern.astype(float))).sparsity()
    dense = np.where(pattern, rng.normal(size=(n, n)), 0.0) + 2 * n * np.eye(n)
    entries, b = dense[sparsity.row(), sparsity.get_col()], rng.normal(size=n)
    for order in (structural_order(sparsity, (0,) * n), numeric_order(ca.DM(sparsity, entries))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(looped, "MANY", 0)
            patch.setattr(looped, "OFTEN", 0)
            loops = Loops.of(sparsity, order)
        found = by_loops(loops, entries, b)
        np.testing.assert_array_equal(found, written(sparsity, entries, b, order))
        np.testing.assert_allclose(found, np.linalg.solve(dense, b), rtol=1e-10, atol=1e-12)


def test_only_full_matrices_are_eliminated_in_loops():
    n = 60
    line = ca.Sparsity.banded(n, 1)
    full, small = ca.Sparsity.dense(n, n), ca.Sparsity.dense(8, 8)
    large = ca.Sparsity.dense(LARGEST + 1, LARGEST + 1)
    for pattern in (line, small, large):
        assert Loops.of(pattern, [(k, k) for k in range(pattern.size1())]) is None
    loops = Loops.of(full, [(k, k) for k in range(n)])
    assert loops.products == sum(k**2 for k in range(n)) > MANY


def test_runs_of_columns_do_not_overlap():
    """A run is lengthened to whole vectors: it must end before the next one begins, and with the row."""
    assert NEAR >= VECTOR - 1
    rng = np.random.default_rng(5)
    sparsity = ca.sparsify(ca.DM(((rng.random((90, 90)) < 0.08) | np.eye(90, dtype=bool)).astype(float))).sparsity()
    loops = Loops.of(sparsity, structural_order(sparsity, (0,) * 90))
    for runs in loops.ahead:
        flat = [c for run in runs for c in run]
        assert flat == sorted(flat)
        assert all((b - a) % VECTOR == 0 and b <= loops.width for a, b in runs)


def heavy(n=20):
    """Coordinates that all share one inertia, which depends on them."""
    A = np.random.default_rng(1).normal(size=(n, n))
    A = A @ A.T + n * np.eye(n)
    return da.Mechanical(
        n, mass=lambda q: A + np.diag([1 + 0.5 * np.sin(x) for x in q]), potential=lambda q: sum((x - 1) ** 2 for x in q) / 2,
        initial={"q": np.linspace(0, 1, n), "v": np.zeros(n)},
    )  # fmt: skip


def coupled(n=14):
    """Springs between all coordinates: linear equations with one matrix for all steps."""
    K = np.random.default_rng(2).normal(size=(n, n))
    K = K @ K.T / n + np.eye(n)
    return da.Mechanical(n, mass=1.0, potential=lambda q: q @ K @ q / 2, initial={"q": np.linspace(-1, 1, n), "v": np.ones(n)})


CASES = {
    "implicit stages": (da.catalog.four_particles, "gauss-3", {}),
    "several solves": (lambda: da.catalog.chain(8), "murua-3", {}),
    "linear": (coupled, "gauss-3", {}),
    "masses of the state": (heavy, "rattle", {}),
}


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_compiled_steps_with_full_matrices_are_those_of_the_virtual_machine(name):
    make, method, options = CASES[name]
    system = make()
    engine = prepare(system, find(method))
    assert any(stage.loops is not None for stage in engine.program.stages)
    assert "da_factor(&loops" in source(engine.program)
    common = dict(t_end=0.303, step=0.001, **options)
    machine, native = (da.simulate(system, method, compile=how, **common) for how in (False, "newton"))
    assert (machine.stats["engine"], native.stats["engine"]) == ("virtual machine", "compiled")
    assert machine.stats["iterations"] == native.stats["iterations"]
    np.testing.assert_array_equal(native.x, machine.x)
    np.testing.assert_array_equal(native.lam, machine.lam)


@needs_compiler
def test_matrices_are_factorised_as_often_as_they_change():
    """Once for a run of constant ones, once a step where the state alone enters, else where the iteration asks for it."""
    code = source(prepare(coupled(), find("gauss-3")).program)
    assert code.index("da_factor(&loops0") < code.index("for (i = 0; i < steps; i++)")
    code = source(prepare(heavy(), find("rattle")).program)
    begin = code.index("for (i = 0; i < steps; i++)")
    assert begin < code.index("renew0:") < code.index("da_factor(&loops0")
    assert code.index("solve 2:") < code.index("da_factor(&loops2") < code.index("renew2:")


@needs_compiler
def test_steps_under_a_controller_with_full_matrices():
    """The rows of the loop in C are those of the controller in Python."""
    system = da.catalog.four_particles()
    common = dict(t_end=0.2, step=0.01, adaptive="error")
    machine, native = (da.simulate(system, "radau-iia-3", compile=how, **common) for how in (False, True))
    np.testing.assert_array_equal(native.t, machine.t)
    np.testing.assert_array_equal(native.x, machine.x)


@needs_compiler
def test_energy_of_a_long_run_with_full_matrices():
    """What the method keeps is kept: the energy of springs is quadratic, and gauss-3 makes no error in it."""
    sol = da.simulate(coupled(), "gauss-3", t_end=50.0, step=0.01, compile="newton")
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-12 * sol.energy[0]


@needs_compiler
def test_sparse_factors_are_written_out():
    """A ladder takes three products for each entry of its factors: loops over short rows would take longer."""
    program = prepare(da.catalog.rlc_ladder(12), find("gauss-3")).program
    assert program.stages[0].n > 100
    assert all(stage.loops is None for stage in program.stages)
    assert program.written == program.operations
