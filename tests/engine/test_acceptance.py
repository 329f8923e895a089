"""A step is accepted only where its residual is small against the size of its own terms."""

from functools import cache

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.engine import compiler
from dalembert.engine.driver import Engine
from dalembert.engine.machine import Memory, Records, Task
from dalembert.engine.newton import Rule
from dalembert.engine.program import Program
from dalembert.methods.base import REGISTER
from dalembert.methods.step import Solve, Step

WAYS = [False, pytest.param(True, marks=pytest.mark.skipif(compiler.find() is None, reason="no C compiler"))]


@cache
def unequal_masses():
    c1, c2, q0 = np.array([-1.1, -0.3, -0.3]), np.array([-0.2, 1.1, 0.1]), np.array([0.4, 0.0, -0.9])
    system = da.Mechanical(
        3,
        mass=[1e-7, 1e5, 1e3],
        potential=lambda q: q[0] ** 4,
        holonomic=lambda q: [(q - c) @ (q - c) - float((q0 - c) @ (q0 - c)) for c in (c1, c2)],
    )
    return system, dict(da.consistent(system, q=q0, v=[0.5, 2.2, 0.4]))


@cache
def heavy_rod():
    system = da.Mechanical(2, mass=1.0, potential=lambda q: 1e20 * q[1], holonomic=lambda q: q @ q - 1)
    return system, {"q": [0.6, -0.8], "v": [0.0, 0.0]}


@cache
def particles():
    return da.catalog.four_particles(), {}


@cache
def damped_particles():
    return da.catalog.four_particles_damped(), {}


CASES = {
    "particles, step too large": (particles, "energy-momentum", 1.0, 40),
    "damped particles, step too large": (damped_particles, "midpoint", 0.3, 30),
    "masses of all sizes": (unequal_masses, "rattle", 0.025, 0.25),
    "a step that resolves nothing": (heavy_rod, "energy-momentum", 0.01, 0.1),
    "a step that resolves nothing, rattle": (heavy_rod, "rattle", 0.01, 0.1),
}


@pytest.mark.parametrize("compile", WAYS)
@pytest.mark.parametrize("max_iterations", [3, 25, 100, 1000])
@pytest.mark.parametrize("case", CASES)
def test_a_step_towards_a_singular_point_is_refused(case, max_iterations, compile):
    """Either an error or a solution: on the constraints, its energy no larger than at the beginning."""
    make, method, step, t_end = CASES[case]
    system, start = make()
    try:
        sol = da.simulate(system, method, **start, step=step, t_end=t_end, max_iterations=max_iterations, compile=compile)
    except da.ConvergenceError:
        return
    assert np.abs(sol.residual("position")).max() < 1e-13
    assert sol.energy[-1] <= sol.energy[0] + 1e-12 * abs(sol.energy[0])


METHODS = ["rattle", "shake", "lobatto-pair-3", "energy-momentum", "murua-ggl-2", "spark-2", "variational"]


@pytest.mark.parametrize("compile", WAYS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [unequal_masses, heavy_rod])
def test_no_step_leaves_the_constraints(make, method, compile):
    """The terms of `q1 = q + h V` are 1e9 times as large as `q1`, or more: rounding may leave `|g|` of order one."""
    system, start = make()
    try:
        sol = da.simulate(system, method, **start, step=0.025, t_end=0.25, max_iterations=100, compile=compile)
    except da.ConvergenceError as error:
        sol = error.solution
    assert np.abs(sol.residual("position")).max() < 1e-8
    assert np.isfinite(sol.energy).all()


@cache
def two_spheres(light):
    return da.Mechanical(
        3,
        mass=[light, 1 / light, 1.0],
        potential=lambda q: q[1],
        holonomic=lambda q, c1, c2, d1, d2: [(q - c1) @ (q - c1) - d1, (q - c2) @ (q - c2) - d2],
        parameters={"c1": np.zeros(3), "c2": np.zeros(3), "d1": 1.0, "d2": 1.0},
    )


@pytest.mark.parametrize("light", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("method", METHODS)
def test_masses_of_different_sizes(method, light):
    """Two spheres, three coordinates, one mass light and one heavy: what is returned is on the constraints."""
    system, returned = two_spheres(light), 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        c1, c2, q0, v = (np.round(rng.normal(size=3), 1) for _ in range(4))
        d1, d2 = (float((q0 - c) @ (q0 - c)) for c in (c1, c2))
        values = {"c1": c1, "c2": c2, "d1": d1, "d2": d2}
        start = da.consistent(system, q=q0, v=3 * v, parameters=values)
        try:
            sol = da.simulate(system, method, **start, t_end=0.2, step=0.01, parameters=values, compile=False)
            returned += 1
        except da.ConvergenceError as error:
            sol = error.solution
        assert np.abs(sol.residual("position")).max() < 1e-8
    assert returned


def scalar_step(residual):
    """A step of one unknown, whose next state it is."""
    s, t, h = ca.SX.sym("s"), ca.SX.sym("t"), ca.SX.sym("h")
    x, last, before = (ca.SX.sym(name) for name in ("x", "last", "before"))
    solve = Solve(x, residual(x, s), s, ca.SX(1.0), last, before, (0,))
    none = {"supplied": ca.SX(0.0), "dissipated": ca.SX(0.0)}
    return Step(t, h, ca.SX(0, 1), ca.SX(0, 1), {"q": s}, (solve,), {"q": x}, ca.SX(0, 1), 1.0, none)


RESIDUALS = {
    "no zero": (lambda x, s: x**2 + 1, False),
    "a double zero": (lambda x, s: (x - 1) ** 2, None),  # slow, then stagnation: either answer is right, if it is one
    "a zero": (lambda x, s: x**3 - 2 * s, True),
    "zero by cancellation": (lambda x, s: (x - 5 * s) ** 3 + 1e-3 * (x - 5 * s), True),
    "nan": (lambda x, s: ca.sqrt(x - 100 * s), False),
}


@pytest.mark.parametrize("compile", WAYS)
@pytest.mark.parametrize("name", RESIDUALS)
def test_one_unknown(name, compile):
    residual, solvable = RESIDUALS[name]
    program = Program(scalar_step(residual))
    engine = Engine(program)
    for runner in (engine.native() if compile else engine.machine(), engine.pivoted()):
        at = Memory.start(program, np.array([0.7]), np.zeros(0))
        outcome = runner.run(at, Records.empty(program, 1), Task(0.0, 0.1, Rule(max_iterations=500)))
        if solvable is not None:
            assert (outcome.failed == -1) == solvable
        if outcome.failed == -1:
            x = ca.SX.sym("x")
            assert abs(float(ca.Function("r", [x], [residual(x, 0.7)])(at.state[0]))) < 1e-14


def test_a_row_of_zeros_is_accepted():
    program = Program(scalar_step(lambda x, s: x * s))
    accept = program.stages[0].look.accept
    assert float(accept(0.0, 0.0, 0.1, [], [], 0.0, 0.0)) == 0.0
    assert float(accept(1.0, 0.0, 0.1, [], [], 1.0, 0.0)) == pytest.approx(1.0, rel=1e-5)
    assert not float(accept(1.0, 0.0, 0.1, [], [], np.nan, 0.0)) <= 1.0
    assert not float(accept(1.0, 0.0, 0.1, [], [], np.inf, 0.0)) <= 1.0


def test_random_large_steps_satisfy_their_equations():
    """Steps of random length from random states of a pendulum, all of those that are accepted."""
    rng = np.random.default_rng(5)
    system = da.catalog.double_pendulum()
    accepted = 0
    for method in ("rattle", "energy-momentum", "midpoint"):
        program = Program(REGISTER[method]().step(system))
        machine, par = Engine(program).machine(), system.pack(None)
        for _ in range(300):
            a, b = rng.uniform(0, 2 * np.pi, 2)
            q = np.array([np.cos(a), np.sin(a), np.cos(a) + np.cos(b), np.sin(a) + np.sin(b)])
            state = np.zeros(program.n_state)
            state[program.fields["q"]] = q
            h = 10 ** rng.uniform(-2, 1)
            at, out = Memory.start(program, state, par, 0.0, h), Records.empty(program, 1, unknowns=True)
            rule = Rule(max_iterations=int(rng.choice([5, 25, 200])))
            outcome = machine.run(at, out, Task(0.0, h, rule, inputs=np.zeros((1, program.n_u))))
            if outcome.failed >= 0:
                continue
            accepted += 1
            x = np.split(out.unknowns[0], program.cuts)
            for k, stage in enumerate(program.stages):
                common = [state, 0.0, h, np.zeros(program.n_u), par, *x[:k], x[k]]
                none = (
                    np.zeros(stage.look.n_scale) if stage.look.seen else np.full(stage.look.n_scale, 1e300)
                )  # rows are multiplied
                assert float(stage.look.accept(*common, none)) < 1e-16
            assert np.abs(system.numeric("holonomic", par, q=at.state[program.fields["q"]])[0]).max() < 1e-6
    assert accepted > 200


@pytest.mark.parametrize("compile", WAYS)
def test_a_solution_that_no_velocity_leads_to_is_refused(compile):
    """Rounding makes a solution of the equations near q = 1e17, with a velocity of 1e-16 there."""
    system = da.Mechanical(1, mass=lambda q: [[5.917 * (1 + q @ q)]], potential=lambda q: 1e6 * np.abs(q[0]))
    step = 0.04571496434085575
    with pytest.raises(da.ConvergenceError):
        da.simulate(system, "energy-momentum-ggl", q=[-0.54], v=[-1.45], step=step, t_end=8 * step, compile=compile)


def test_stiff_steps_are_solved_to_round_off():
    """The free acceleration would move the rod by 1e16 times its length in a step: its round-off is no excuse."""
    system, start = heavy_rod()
    sol = da.simulate(system, "energy-momentum", **start, step=0.01, t_end=0.1, max_iterations=100, compile=False)
    assert np.abs(sol.residual("position")).max() < 5e-14
    assert np.abs(sol.energy / sol.energy[0] - 1).max() < 1e-12
