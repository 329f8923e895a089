"""Many runs in lanes: each is to the last bit the run of that member alone."""

import ctypes

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.case import Case, make_rule
from dalembert.engine.lanes import Lanes, Rows
from dalembert.engine.newton import Rule

MEMBERS = 11  # more than the lanes of any vector, and no multiple of them


def rough():
    """A model with functions that have no vectors, an input, damping and a moving constraint."""
    return da.Mechanical(
        ("x", "y"), mass=[2.0, 2.0], potential=lambda q, k: k * np.sqrt(1 + q[0] ** 2) + np.exp(-(q[1] ** 2)) + np.fabs(q[0])
        + np.where((q[0] > 0.1) & (q[1] < 0.5), (q[0] - 0.1) ** 3, 0.0) + np.fmax(q[1], -0.5) ** 2,
        holonomic=lambda q, t: [q[0] ** 2 + q[1] ** 2 - (1 + 0.1 * np.sin(t)) ** 2],
        dissipation=lambda q: [[0.3, 0.0], [0.0, 0.1]], inputs=[[1.0], [0.0]], parameters={"k": 2.0},
        initial={"q": [0.0, -1.0], "v": [1.0, -0.1]},
    )  # fmt: skip


VARIED = ("m", "m1", "m2", "g", "k", "L", "eps")  # lengths stay: they belong to the start
CASES = [
    ("double_pendulum", "rattle"), ("double_pendulum", "lobatto-pair-3"), ("double_pendulum", "energy-momentum"),
    ("four_particles", "energy-momentum"), ("contact_oscillator", "spark-2"), ("contact_oscillator", "cortes-martinez"),
    ("chain", "shake"), ("dc_motor", "gauss-2"), ("dc_motor", "discrete-gradient"), ("rolling_disk", "mclachlan-perlmutter"),
    ("double_pendulum", "murua-2"), ("rough", "rattle"), ("rough", "radau-iia-2"),
]  # fmt: skip


def start(name, method):
    system = rough() if name == "rough" else getattr(da.catalog, name)()
    case = Case.of(system, method, {}, t0=0.0, u=[0.4] * system.nu if system.nu else None, parameters=None)
    program = case.engine().program
    factors = 1 + 0.3 * np.random.default_rng(1).random((MEMBERS, 1))
    pars = np.array([
        np.concatenate([np.ravel(value * (factor if key in VARIED else 1.0)) for key, value in system.parameters.items()] or [[]])
        for factor in factors[:, 0]
    ])  # fmt: skip
    states = np.tile(case.state(program), (MEMBERS, 1))
    return case, program, pars, states


@pytest.mark.parametrize(("name", "method"), CASES)
def test_members_are_single_runs_to_the_last_bit(name, method):
    case, program, pars, states = start(name, method)
    steps, h, every = 150, 0.01, 40
    firsts = np.array([program.first_memory(x, 0.0, h, np.zeros(program.n_u), par) for x, par in zip(states, pars, strict=True)])
    inputs = case.engine().step_inputs(case.inputs, 0.0, 0, 1, h)
    out = Rows.empty(program, MEMBERS, 4)
    Lanes(program).run(0.0, h, steps, every, make_rule(None, 25), states, firsts, pars, inputs[None], out, ctypes.c_int(0))
    assert (out.failed == -1).all()
    for member in range(MEMBERS):
        alone = da.simulate(
            case.system, method, t_end=1.5, step=h, save_every=every, compile="newton", u=[0.4] * case.system.nu or None,
            parameters=case.system.unpack(pars[member]),
        )  # fmt: skip
        for part in case.system.state:
            np.testing.assert_array_equal(out.state[member][:, program.fields[part]], alone.parts[part][1:])
        np.testing.assert_array_equal(out.lam[member], alone._lam)
        np.testing.assert_array_equal(out.work[member], alone._work)
        assert out.iterations[member] == alone.stats["iterations"]


def test_a_member_that_fails_does_not_disturb_the_others():
    system = da.catalog.double_pendulum()
    case = Case.of(system, "rattle", {}, t0=0.0, u=None, parameters=None)
    program = case.engine().program
    states, pars = np.tile(case.state(program), (5, 1)), np.tile(case.par, (5, 1))
    states[2, program.fields["v"]] = [0.0, 1e9, 0.0, 2e9]  # far too fast for the step
    firsts = program.first_memories(states, 0.0, 0.01, pars)
    out = Rows.empty(program, 5, 1)
    Lanes(program).run(0.0, 0.01, 100, 100, make_rule(None, 25), states, firsts, pars, np.zeros((1, 1, 0)), out, ctypes.c_int(0))
    alone = da.simulate(system, "rattle", t_end=1.0, step=0.01, compile="newton")
    assert out.failed[2] >= 0
    assert (np.delete(out.failed, 2) == -1).all()
    for member in (0, 1, 3, 4):
        np.testing.assert_array_equal(out.state[member, 0][program.fields["q"]], alone.q[-1])


def test_a_limit_of_iterations_fails_lanes_as_it_fails_runs():
    system = da.catalog.double_pendulum()
    case = Case.of(system, "rattle", {}, t0=0.0, u=None, parameters=None)
    program = case.engine().program
    states, pars = np.tile(case.state(program), (3, 1)), np.tile(case.par, (3, 1))
    out = Rows.empty(program, 3, 1)
    firsts = program.first_memories(states, 0.0, 0.01, pars)
    Lanes(program).run(
        0.0, 0.01, 100, 100, Rule(max_iterations=1), states, firsts, pars, np.zeros((1, 1, 0)), out, ctypes.c_int(0)
    )
    assert (out.failed >= 0).all()


def test_what_runs_can_be_stopped():
    system = da.catalog.double_pendulum()
    case = Case.of(system, "rattle", {}, t0=0.0, u=None, parameters=None)
    program = case.engine().program
    states, pars = np.tile(case.state(program), (3, 1)), np.tile(case.par, (3, 1))
    out = Rows.empty(program, 3, 1)
    Lanes(program).run(
        0.0, 0.01, 10**9, 10**9, make_rule(None, 25), states, program.first_memories(states, 0.0, 0.01, pars), pars,
        np.zeros((1, 1, 0)), out, ctypes.c_int(1),
    )  # fmt: skip
    assert np.isnan(out.state).all()
