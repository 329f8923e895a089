"""Sweeps through steps with large matrices: loops give the derivatives that eliminations written out and batches give."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, polar_rod
from dalembert.engine import compiler
from dalembert.engine import derivatives as module
from dalembert.engine.adjoint import Changes
from dalembert.engine.blocked import Blocks
from dalembert.engine.case import prepare
from dalembert.engine.derivatives import Sweeps
from dalembert.engine.linear import Linearization
from dalembert.engine.tape import Rows
from dalembert.engine.through import Adjoints, Tangents
from dalembert.methods.base import find

needs_compiler = pytest.mark.skipif(compiler.find() is None, reason="no C compiler here")


def motor():
    return da.catalog.dc_motor()


CASES = [
    (da.catalog.double_pendulum, "rattle"),  # two solves, the second after the first
    (da.catalog.double_pendulum, "lobatto-pair-3"),
    (da.catalog.four_particles, "gauss-2"),
    (angle_pendulum, "gauss-2"),
    (polar_rod, "rattle"),
    (da.catalog.rolling_disk, "mclachlan-perlmutter"),
    (da.catalog.harmonic_oscillator, "rk4"),  # nothing to solve
    (motor, "gauss-2"),  # inputs
]


def close(a, b, rtol):
    """Two derivatives of everything, each relative to the largest entry."""
    assert a.keys() == b.keys()
    largest = max(np.abs(value).max(initial=0.0) for value in b.values())
    for name in b:
        np.testing.assert_allclose(a[name], b[name], rtol=0, atol=rtol * largest, err_msg=name)


@needs_compiler
@pytest.mark.parametrize(("make", "method"), CASES, ids=lambda x: getattr(x, "__name__", x))
def test_loops_agree_with_batches(monkeypatch, make, method):
    """Gradients, Jacobians and Hessians times a vector, by inputs too; steps are no multiple of the lanes."""
    monkeypatch.setattr(module, "LARGEST", -1)  # nothing is written out
    system = make()
    looped, batches = (da.sensitivity(system, method, t_end=0.3, step=0.01 / 3, compile=way) for way in (True, False))
    part = system.state[0]
    cost = {"q": lambda q: np.sum(q**2) + q[0], "x": lambda x: np.sum(x**2)}[part]
    close(looped.gradient(cost), batches.gradient(cost), 1e-12)
    for name in (*system.state, *system.parameters):
        expected = batches.jacobian(part, name)
        np.testing.assert_allclose(looped.jacobian(part, name), expected, rtol=0, atol=1e-12 * np.abs(expected).max(initial=1.0))
    direction = {
        part: np.ones(system.size_of(part)),
        **dict.fromkeys([n for n, v in system.parameters.items() if not v.ndim], 1.0),
    }
    close(looped.hessian_product(direction, cost), batches.hessian_product(direction, cost), 1e-11)
    assert looped.stats["sweeps"] == "compiled"
    assert all("da_factors" in code for _, code in looped._sweep._sweeps._sources.values())


def rows(program, count, rng):
    """Rows that solve nothing: derivatives can be taken anywhere."""
    state, unknowns = (rng.normal(size=(count, size)) for size in (program.n_state, program.n_unknowns))
    u, par = rng.normal(size=(count, program.n_u)), 1 + 0.1 * rng.random(program.step.par.numel())
    nodes = program.step.input_nodes
    return Rows(0, 2 + 0.1 * state, state, 0.1 * unknowns, np.linspace(0, 1, count), 0.01, u, par, nodes)


@needs_compiler
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("steps", [1, 4, 7])
@pytest.mark.parametrize(("make", "method"), [(da.catalog.double_pendulum, "rattle"), (motor, "gauss-2")])
def test_any_number_of_directions_and_rows(make, method, steps, count):
    """What is carried, added up and written, one by one."""
    program, rng = prepare(make(), find(method)).program, np.random.default_rng(1)
    changes, blocks, own = Changes.of(program), Blocks(Changes.of(program)), rows(program, steps, rng)
    (n, p, m), linear = changes.sizes, Linearization(changes)
    bar, slopes, state = rng.normal(size=(count, n)), rng.normal(size=(steps, n)), rng.normal(size=(count, n))
    directions, of_u = rng.normal(size=(count, p)), rng.normal(size=(steps, count, m))
    found, expected = (
        (
            Adjoints(bar.copy(), slopes, np.full((count, p), 0.5), np.empty((steps, count, m))),
            Tangents(state.copy(), directions, of_u, np.empty((steps, count, n))),
        )
        for _ in range(2)
    )
    for one, other in zip(found, expected, strict=True):
        module.swept(module.NativeSweep(*blocks.sweep(type(one))), own, one)
        other.by(linear, own)
        arrays = zip((*one.changed, *one.outputs), (*other.changed, *other.outputs), strict=True)
        for a, b in arrays:
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max(initial=1.0))


@needs_compiler
def test_loops_serve_where_factors_of_numbers_would():
    """A step that is left to sparse factors in its run can have compiled derivatives."""
    program = prepare(da.catalog.four_particles(), find("gauss-2")).program
    program.__dict__["large"] = True
    sweeps, rng = Sweeps(program), np.random.default_rng(2)
    assert sweeps.linear.name == "sparse"
    native, own = sweeps.compiled(Adjoints, True, 10), rows(program, 6, rng)
    assert native is not None
    assert "da_missed" in sweeps._code(Adjoints)[1]  # its pivots are not those of the run, and are looked at
    n, p, _ = sweeps.changes.sizes
    found, expected = (rng.normal(size=(1, n)),) * 2
    found, expected = found.copy(), expected.copy()
    by_found, by_expected = np.zeros((1, p)), np.zeros((1, p))
    module.swept(native, own, Adjoints(found, np.zeros((1, n)), by_found, None))
    sweeps.linear.back(own, expected, np.zeros((1, n)), by_expected, None)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_allclose(by_found, by_expected, rtol=0, atol=1e-10 * np.abs(by_expected).max())
    assert module._sound(sweeps, Adjoints, native, own[:1])


def test_which_eliminations_are_written_out():
    """Short ones; long ones are done in loops, whose text does not grow with the products."""
    short, long = (Sweeps(prepare(da.catalog.four_particles(), find(name)).program) for name in ("energy-momentum", "gauss-3"))
    assert "da_factors" not in short._code(Adjoints)[1]
    assert "da_factors" in long._code(Adjoints)[1]
    statements, products = long.blocks.operations
    assert products > 15_000
    assert long._code(Adjoints)[1].count("const W t") < statements


@pytest.mark.parametrize(("name", "value"), [("LONGEST", 10), ("MOST", 3)])
def test_what_a_compiler_cannot_take_is_left_to_batches(monkeypatch, name, value):
    monkeypatch.setattr(module, name, value)
    program = prepare(da.catalog.four_particles(), find("gauss-2")).program
    assert Sweeps(program).compiled(Adjoints, True, 10**6) is None


@needs_compiler
@pytest.mark.parametrize("seed", range(20))
def test_factors_of_random_matrices(seed):
    """Straight and turned solves with random patterns and pivots, against NumPy."""
    rng = np.random.default_rng(seed)
    n, states = int(rng.integers(1, 9)), 2
    x, z, h, t, u = (ca.SX.sym(name, size) for name, size in (("x", n), ("z", states), ("h", 1), ("t", 1), ("u", 0)))
    A = np.where(rng.random((n, n)) < 0.5, rng.normal(size=(n, n)), 0.0)
    order = list(zip(rng.permutation(n).tolist(), rng.permutation(n).tolist(), strict=True))
    for i, j in order:
        A[i, j] = 4.0 + rng.random()
    B, C, D = rng.normal(size=(n, states)), rng.normal(size=(states, n)), rng.normal(size=(states, states))
    par = ca.SX.sym("par", 1)
    residual = ca.mtimes(ca.sparsify(ca.DM(A)), x) * par + ca.mtimes(ca.DM(B), z)
    after = ca.mtimes(ca.DM(C), x) + ca.mtimes(ca.DM(D), z)
    changes = Changes([z, t, h, u, par], [(x, residual)], after, (order,))
    blocks = Blocks(changes)
    own = Rows(
        0, np.zeros((5, states)), np.zeros((5, states)), np.zeros((5, n)), np.zeros(5), 0.1, np.zeros((1, 0)), np.ones(1), ()
    )
    step = D - C @ np.linalg.solve(A, B)
    bar, state = rng.normal(size=(2, states)), rng.normal(size=(2, states))
    want_bar, want_state = bar.copy(), state.copy()
    for _ in range(5):
        want_bar, want_state = want_bar @ step, want_state @ step.T
    back, ahead = (module.NativeSweep(*blocks.sweep(kind)) for kind in (Adjoints, Tangents))
    module.swept(back, own, Adjoints(bar, np.zeros((1, states)), np.zeros((2, 1)), None))
    module.swept(ahead, own, Tangents(state, np.zeros((2, 1)), np.zeros((1, 1, 0))))
    np.testing.assert_allclose(bar, want_bar, rtol=0, atol=1e-10 * np.abs(want_bar).max())
    np.testing.assert_allclose(state, want_state, rtol=0, atol=1e-10 * np.abs(want_state).max())


@needs_compiler
def test_many_parameters(monkeypatch):
    """Their places do not fit into two bytes."""
    monkeypatch.setattr(module, "LARGEST", -1)
    k = np.linspace(0, 1, 33_000)
    system = da.Mechanical(
        1, mass=1.0, potential=lambda q, k: ca.dot(k, k) * q[0] ** 2, parameters={"k": k / np.linalg.norm(k)},
        initial={"q": [1.0], "v": [0.0]},
    )  # fmt: skip
    found, expected = (
        da.sensitivity(system, "euler", t_end=0.03, step=0.01, compile=way).gradient(lambda q: q[0])["k"] for way in (True, False)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@needs_compiler
@pytest.mark.parametrize("size", [1e-2, 1e-7, 1e-12, 1e-15, 0.0])
def test_steps_with_small_pivots_are_left_to_batches(monkeypatch, size):
    """A pivot by structure that is small in one step in the middle: seen there, whatever the run was made with."""
    monkeypatch.setattr(module, "LARGEST", -1)
    n, steps, rng = 6, 9, np.random.default_rng(4)
    x, z, t, h, u, par = (ca.SX.sym(name, k) for name, k in zip("xzthup", (n, 2, 1, 1, 0, 1), strict=True))
    A, B, C, D = (rng.normal(size=shape) for shape in ((n, n), (n, 2), (2, n), (2, 2)))
    first = ca.SX(ca.DM(A))
    first[0, 0] = ca.if_else(ca.fabs(t - 4) < 0.5, size, A[0, 0] + 3)
    residual, after = ca.mtimes(first, x) + ca.mtimes(ca.DM(B), z), ca.mtimes(ca.DM(C), x) + ca.mtimes(ca.DM(D), z)
    changes = Changes([z, t, h, u, par], [(x, residual)], after, ([(i, i) for i in range(n)],))
    native = module.NativeSweep(*Blocks(changes).sweep(Adjoints))
    at = np.zeros((steps, 2))
    own = Rows(0, at, at, np.zeros((steps, n)), np.arange(steps, dtype=float), 0.1, np.zeros((1, 0)), np.ones(1), ())
    bar = np.ones((1, 2))
    missed = module.swept(native, own, Adjoints(bar, np.zeros((1, 2)), np.zeros((1, 1)), None))
    assert (missed <= module.MISSED) == (size == 1e-2)
    assert module.swept(native, own[:4], Adjoints(np.ones((1, 2)), np.zeros((1, 2)), np.zeros((1, 1)), None)) < 1e-13


@needs_compiler
@pytest.mark.parametrize("kind", ["back", "ahead", "second"])
@pytest.mark.parametrize("missed", [1e-10, np.nan])
def test_a_sweep_that_misses_its_equations_is_done_again(monkeypatch, kind, missed):
    """Nothing of it is kept."""
    system, run = da.catalog.double_pendulum(), {"t_end": 0.1, "step": 0.01}
    calls = {
        "back": lambda s: s.gradient(lambda q: q @ q),
        "ahead": lambda s: {"J": s.jacobian("q", "q")},
        "second": lambda s: s.hessian_product({"m1": 1.0}, lambda q: q @ q),
    }
    expected = calls[kind](da.sensitivity(system, "rattle", compile=False, **run))
    right = module.swept

    def wrong(native, rows, through):
        return missed if right(native, rows, through) >= 0 and through.name == kind else 0.0

    found = da.sensitivity(system, "rattle", compile=True, **run)
    monkeypatch.setattr(module, "swept", wrong)
    close(calls[kind](found), expected, 1e-13)
    assert "virtual machine" in found.stats["sweeps"]
