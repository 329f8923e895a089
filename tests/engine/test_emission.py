"""C written from a program: the same bits as the virtual machine, in one function or in many."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.engine import emission, writing
from dalembert.engine.program import Program
from dalembert.methods.base import find

CASES = [
    ("double_pendulum", "rattle"),
    ("double_pendulum", "lobatto-pair-3"),
    ("four_particles_damped", "energy-momentum-ggl"),
    ("contact_oscillator", "cortes-martinez"),
    ("double_pendulum", "composition-rattle-4"),
]


def method_of(name):
    return da.compose("rattle", order=4) if name.startswith("composition") else name


def both(system, method, **options):
    options = {"t_end": 1.0, "step": 0.01, **options}
    return [da.simulate(system, method, compile=compile, **options) for compile in (False, "newton")]


def same(one, two):
    assert (one.stats["engine"], two.stats["engine"]) == ("virtual machine", "compiled")
    assert one.stats["iterations"] == two.stats["iterations"]
    for name in ("q", "v", "lam", "supplied", "dissipated"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize(("system", "method"), CASES)
def test_a_step_in_parts_gives_the_same_bits(system, method, monkeypatch):
    monkeypatch.setattr(emission, "LONG", 10)
    monkeypatch.setattr(writing, "PART", 23)
    same(*both(getattr(da.catalog, system)(), method_of(method)))


@pytest.mark.parametrize("every", [1, 3, 7, 100])
def test_rows_are_written_where_they_are_due(every):
    same(*both(da.catalog.four_particles_damped(), "discrete-gradient", save_every=every))


def test_a_failing_run_keeps_the_same_rows_either_way():
    system = da.catalog.double_pendulum()
    kept = []
    for compile in (False, True):
        with pytest.raises(da.ConvergenceError) as caught:
            da.simulate(system, "rattle", t_end=60.0, step=0.6, compile=compile, save_every=2)
        kept.append(caught.value.solution)
    np.testing.assert_array_equal(kept[0].t, kept[1].t)
    np.testing.assert_array_equal(kept[0].q, kept[1].q)


@pytest.mark.parametrize("kind", ["linear", "bspline"])
@pytest.mark.parametrize("method", ["rattle", "gauss-2", "energy-momentum"])
def test_a_model_with_a_table_runs_either_way(kind, method):
    grid = np.linspace(-5, 5, 21)
    table = ca.interpolant("table", kind, [grid], 0.1 * grid**4)
    system = da.Mechanical(("x", "y"), mass=[1.0, 2.0], potential=lambda q: table(q[0]) + table(q[1]) + q[0] * q[1])
    one, two = both(system, method, q=[1.0, 0.5], v=[0.2, 0.0])
    same(one, two)
    if method == "energy-momentum":  # quotients of the table itself: exact for any table
        assert np.abs(two.energy - two.energy[0]).max() < 1e-14


def test_two_tables_of_one_name_stay_two():
    grid = np.linspace(-5, 5, 21)
    tables = [ca.interpolant("table", "bspline", [grid], k * grid**2) for k in (1.0, 3.0)]
    system = da.Mechanical(("x", "y"), mass=[1.0, 1.0], potential=lambda q: tables[0](q[0]) + tables[1](q[1]))
    one, two = both(system, "rattle", q=[1.0, 1.0], v=[0.0, 0.0], t_end=2.0)
    same(one, two)
    np.testing.assert_allclose(two.q[-1], np.cos(np.sqrt([2.0, 6.0]) * 2.0), atol=2e-4)


def test_what_cannot_be_written_in_c_is_an_error_of_our_own_and_runs_without():
    class Spring(ca.Callback):
        def __init__(self):
            ca.Callback.__init__(self)
            self.construct("spring", {"enable_fd": True})

        def get_n_in(self):
            return 1

        def get_n_out(self):
            return 1

        def eval(self, arg):
            return [arg[0] ** 2]

    spring = Spring()
    system = da.Mechanical(("x",), mass=[1.0], potential=lambda q: spring(q[0]))
    start = {"q": [1.0], "v": [0.0], "step": 0.01}
    with pytest.raises(da.CompilerError, match="compile='auto'"):
        da.simulate(system, "rattle", t_end=0.1, compile=True, **start)
    assert da.simulate(system, "rattle", t_end=0.1, **start).stats["engine"] == "virtual machine"


def test_what_a_linear_solve_is_judged_by_is_computed_where_that_is_asked():
    """A step as a rule leaves the second solve of rattle with its solution: nothing before that looks at sizes."""
    text = emission.source(Program(find("rattle").step(da.catalog.double_pendulum())))
    solve = text.split("/* solve 1:")[1]
    before, after = solve.split("goto done1;", 1)
    assert "scale[" not in before.split("double x1_0")[0].split("}", 1)[1]
    assert "scale[2]" in after.split("done1:")[0]
