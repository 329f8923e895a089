"""A step and its first half in two lanes, against the same two steps one after the other."""

import ctypes

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum
from dalembert.engine import compiler
from dalembert.engine.case import prepare
from dalembert.engine.machine import Records, Task
from dalembert.engine.native import Native, limits
from dalembert.engine.newton import Rule
from dalembert.engine.walking import EQUAL, PAIRED, SINGLE, Doubled, Paced
from dalembert.methods.base import find

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="no C compiler on this machine")
ENTRY = """
DA_EXPORT long pair(double t, double h0, double h1, double *from, double *whole, double *to, double *par, double *u,
                    da_rule *rule)
{
    return da_pair(t, h0, h1, memory(from), whole, memory(to), to + MEMORY, to + PLACE - 2, par, u, rule);
}
"""


def damped():
    return da.Mechanical(
        2, mass=lambda q: [[2 + np.cos(q[1]), 0.3], [0.3, 1.0]], potential=lambda q: -np.cos(q[0]) - np.sin(q[1]),
        force=lambda q, v: [-0.1 * v[0], -0.2 * v[1]], initial={"q": [0.4, 0.2], "v": [0.5, -0.3]},
    )  # fmt: skip


def tabulated():
    """A potential from a table, another that changes with time."""
    x = np.linspace(-6, 6, 61)
    table = ca.interpolant("table", "bspline", [x.tolist()], np.cos(x).tolist())
    return da.Mechanical(
        2, mass=[1.0, 2.0], potential=lambda q, t: -2 * table(q[0]) + (1 + 0.1 * np.sin(3 * t)) * (q[1] - q[0]) ** 2 / 2,
        initial={"q": [1.0, 0.5], "v": [0.0, 0.1]},
    )  # fmt: skip


CASES = [
    (da.catalog.double_pendulum, "rattle"),
    (da.catalog.double_pendulum, "lobatto-pair-3"),
    (da.catalog.double_pendulum, "energy-momentum"),
    (angle_pendulum, "gauss-2"),
    (damped, "energy-momentum"),
    (damped, "rk4"),
    (tabulated, "rattle"),
    (tabulated, "gauss-2"),
]


def standing(system, method, h):
    """A memory in the middle of a run."""
    engine = prepare(system, find(method))
    values = [np.ravel(system.initial.get(name, np.zeros(system.n))) for name in system.state]
    native = Native(engine.program, Doubled().text(engine.program) + ENTRY)
    state = np.concatenate(values)
    state = np.pad(state, (0, engine.program.n_state - len(state)))  # with what the method carries along
    memory = engine.start(state, system.pack(), 0.0, h)
    assert native.run(memory, Records.empty(engine.program, 20), Task(0.0, h, Rule(), steps=20)).failed < 0
    return engine.program, native, memory


def taken(program, native, memory, t, h):
    """One step from a copy of a memory: what it leaves, and its iterations."""
    after, row = memory.copy(), Records.empty(program, 1)
    outcome = native.run(after, row, Task(t, h, Rule(), look=False))
    assert outcome.failed < 0
    return after, row, outcome.iterations


def placed(program, memory):
    """A memory as the loop of a controller has it."""
    room = np.zeros(program.n_lam + 2)
    return np.concatenate([memory.state, memory.last, memory.before, memory.kept, room])


@pytest.mark.parametrize(("make", "method"), CASES)
def test_pairs_are_the_same_steps_to_the_last_bit(make, method):
    system, h = make(), 0.004
    program, native, memory = standing(system, method, h)
    assert program.operations <= PAIRED
    call = native.library.pair
    call.restype, number, place = ctypes.c_long, ctypes.c_double, ctypes.c_void_p
    call.argtypes = [number, number, number, place, place, place, place, place, place]
    made = 0
    for h0 in (0.008, 0.0061, 0.004, 0.01, 0.0001):
        t, h1 = 20 * h, h0 / 2
        whole, half = (taken(program, native, memory, t, length) for length in (h0, h1))
        origin, other, to = placed(program, memory), np.zeros(program.n_state), placed(program, memory)
        before, u, rule = origin.copy(), np.zeros(max(1, program.n_u)), limits(Rule())
        count = call(
            t, h0, h1, origin.ctypes.data, other.ctypes.data, to.ctypes.data, memory.par.ctypes.data, u.ctypes.data,
            ctypes.cast(ctypes.pointer(rule), place),
        )  # fmt: skip
        np.testing.assert_array_equal(origin, before)
        if count < 0:  # one of them wants to be looked at
            continue
        made += 1
        n, m = program.n_state, program.n_unknowns
        np.testing.assert_array_equal(other, whole[0].state)
        np.testing.assert_array_equal(to[:n], half[0].state)
        np.testing.assert_array_equal(to[n : n + m], half[0].last)
        np.testing.assert_array_equal(to[n + m : n + 2 * m], half[0].before)
        kept = program.n_kept - 2
        np.testing.assert_array_equal(to[n + 2 * m :][:kept], half[0].kept[:kept])
        np.testing.assert_array_equal(to[n + 2 * m + program.n_kept :][: program.n_lam], half[1].lam[0])
        if program.working:
            np.testing.assert_array_equal(to[-2:], half[1].work[0])
        assert count == half[2]
    assert made >= 3


def test_what_cannot_be_a_pair_is_left_alone():
    """A step that is far too long fails in its lane: nothing is made of it."""
    program, native, memory = standing(da.catalog.double_pendulum(), "rattle", 0.004)
    origin, other = placed(program, memory), np.zeros(program.n_state)
    call, place, rule = native.library.pair, ctypes.c_void_p, limits(Rule())
    call.restype = ctypes.c_long
    call.argtypes = [*3 * [ctypes.c_double], *6 * [place]]
    to, u = origin.copy(), np.zeros(1)
    pointers = (a.ctypes.data for a in (origin, other, to, memory.par, u))
    assert call(0.08, 50.0, 25.0, *pointers, ctypes.cast(ctypes.pointer(rule), place)) == -1
    np.testing.assert_array_equal(other, 0.0)
    np.testing.assert_array_equal(to, origin)


def test_rows_under_a_controller_with_tables_and_time():
    """Those of the controller in Python."""
    system, common = tabulated(), dict(t_end=3.0, step=0.01, adaptive="error")
    for method in ("rattle", "gauss-2"):
        machine, native = (da.simulate(system, method, compile=how, **common) for how in (False, True))
        np.testing.assert_array_equal(native.t, machine.t)
        np.testing.assert_array_equal(native.x, machine.x)


def test_long_steps_are_not_written_twice():
    program = prepare(da.catalog.four_particles(), find("gauss-3")).program
    assert program.operations > PAIRED
    assert "#define PAIR 0" in Doubled().text(program)
    assert "da_pair(" not in Doubled().text(program).split("INLINE long step_to")[0]


def test_what_is_written_for_each_pace():
    """A controller that makes one step after the other needs no pairs; without one there is no more than the loop itself."""
    program = prepare(da.catalog.double_pendulum(), find("rattle")).program
    equal, doubled, paced = (pace.text(program) for pace in (EQUAL, Doubled(), Paced()))
    assert SINGLE.text(program) == equal
    assert SINGLE.written == EQUAL.written != Doubled().written
    assert "da_control" not in equal
    assert "da_pair(" in doubled
    assert "da_pair(" not in paced
    assert all("da_control" in text for text in (doubled, paced))


def test_many_parameters_have_no_copies_in_lanes():
    """Nor on the stack, which they might fill."""
    system = da.Mechanical(
        1, mass=1.0, potential=lambda q, k: k[0] * q[0] ** 2, parameters={"k": np.ones(2_000_000)},
        initial={"q": [1.0], "v": [0.0]},
    )  # fmt: skip
    for control in ("error", da.control.Backoff(largest=0.02)):
        options = {"t_end": 0.5, "step": 0.01, "adaptive": control, "compile": "newton"}
        np.testing.assert_allclose(da.simulate(system, "rattle", **options).q[-1], np.cos(np.sqrt(2) * 0.5), rtol=0, atol=1e-3)


def test_paces_are_told_apart_by_their_scales():
    q = ca.SX.sym("q", 2)
    one, two = (ca.Function("both", [q], [q[0], k * q[1]]) for k in (1.0, 2.0))
    assert Paced((one, ("q",))) == Paced((one, ("q",)))
    assert Paced((one, ("q",))) != Paced((two, ("q",)))
    assert Paced() != Paced((one, ("q",)))
