"""Large steps by sparse factors, against the virtual machine; chains of links, products, factors."""

import casadi as ca
import numpy as np
import pytest
import scipy.sparse

import dalembert as da
from conftest import SINGLE
from dalembert.engine import compiler
from dalembert.engine.case import prepare
from dalembert.engine.chains import Chain
from dalembert.engine.large import LargeProgram
from dalembert.engine.machine import Records, Task, bind
from dalembert.engine.newton import Rule
from dalembert.engine.patterns import Pattern, Product
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.methods.base import able, find
from dalembert.systems import composed

STEPS, H = 20, 0.005


def run(engine, runner, system, values):
    memory = engine.start(values, system.pack(), 0.0, H)
    out = Records.empty(engine.program, STEPS)
    outcome = runner.run(memory, out, Task(0.0, H, Rule(), steps=STEPS))
    assert outcome.steps == STEPS
    return out


def state(engine, system):
    values = {"q": system.initial["q"], "v": system.initial["v"]}
    return np.concatenate([values.get(name, np.zeros(part.stop - part.start)) for name, part in engine.program.fields.items()])


METHODS = [m for m in able(da.catalog.net(2, 3)) if not m.external]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_agrees_with_the_virtual_machine(method):
    system = da.catalog.net(2, 3 if method.name in SINGLE else 2)  # stages take longest to write out for the virtual machine
    engine = prepare(system, method)
    one, two = (run(engine, r, system, state(engine, system)) for r in (engine.machine(), engine.sparse()))
    for name in ("q", "v"):  # multipliers that are carried along are defined to eps / h^2 only
        part = engine.program.fields[name]
        assert np.abs(one.state[:, part] - two.state[:, part]).max() < 1e-11
    assert np.abs(one.work - two.work).max() < 1e-11


@pytest.mark.parametrize("method", ["rattle", "energy-momentum", "gauss-2", "lobatto-pair-3"])
def test_the_careful_way_agrees(method, monkeypatch):
    monkeypatch.setattr(Program, "large", True)
    system = da.catalog.net(3, 4)
    engine = prepare(system, find(method))
    one, two = (run(engine, r, system, state(engine, system)) for r in (engine.sparse(), engine.careful()))
    assert np.abs(one.state - two.state).max() < 1e-11


def test_a_net_runs_through_the_sparse_tier():
    """20 x 20 rods: the tier is chosen and named, constraints hold, and partial pivoting at each iteration gives the same."""
    system = da.catalog.net(20, 20)
    sol = da.simulate(system, "rattle", t_end=0.1, step=H)
    assert sol.stats["engine"] == "sparse"
    assert sol.stats["pivoted_steps"] == 0
    assert np.abs(sol.residual("position")).max() < 1e-12
    assert np.abs(sol.residual("velocity")).max() < 1e-12
    engine = prepare(system, find("rattle"))
    careful = run(engine, engine.careful(), system, state(engine, system))
    assert np.abs(careful.state - np.hstack([sol.q, sol.v])[1:]).max() < 1e-11


def test_a_net_agrees_with_the_virtual_machine(monkeypatch):
    sol = da.simulate(da.catalog.net(9, 9), "rattle", t_end=0.1, step=H)
    assert sol.stats["engine"] == "sparse"
    monkeypatch.setattr(composed, "LARGE", 10**9)
    system = da.catalog.net(9, 9)  # written out
    engine = prepare(system, find("rattle"))
    machine = run(engine, engine.machine(), system, state(engine, system))
    assert np.abs(machine.state - np.hstack([sol.q, sol.v])[1:]).max() < 1e-11


def test_energy_momentum_keeps_the_balance_of_many_springs():
    sol = da.simulate(da.catalog.spring_net(20, 20), "energy-momentum", t_end=0.1, step=0.01)
    assert sol.stats["engine"] == "sparse"
    gross = 400 * 9.81  # the size of the terms of the energy
    assert np.abs(sol.power_balance).max() < 1e-14 * gross
    assert np.ptp(sol.energy) < 1e-14 * gross


def test_slow_changes_with_a_symmetric_part_are_not_taken_for_round_off():
    """With a mass that couples all coordinates the symmetric part of the Jacobian converges slowly; the energy shows where."""
    system = da.Mechanical(
        9, mass=lambda q: np.eye(9) + np.outer(q, q) / 4, potential=lambda q: np.linalg.det(q.reshape(3, 3)) ** 2
    )
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(size=18)])
    engine = prepare(system, find("energy-momentum"))
    start = np.zeros(engine.program.n_state)
    start[:18] = values
    memory, out = engine.start(start, system.pack(), 0.0, 0.02), Records.empty(engine.program, 200)
    assert engine.sparse().run(memory, out, Task(0.0, 0.02, Rule(), steps=200)).steps == 200
    q, v = (out.state[:, engine.program.fields[name]] for name in ("q", "v"))
    energy = system.numeric("energy", system.pack(), q=q, v=v)[:, 0]
    assert np.ptp(energy) < 1e-12 * np.abs(energy).max()


def test_large_steps_are_compiled_and_keep_their_bits():
    system = da.catalog.net(20, 20)
    one, two, three = (da.simulate(system, "rattle", t_end=0.02, step=H, compile=c) for c in (False, True, "auto"))
    assert [s.stats["engine"] for s in (one, two, three)] == ["sparse", "sparse, compiled", "sparse"]
    assert np.array_equal(one.q, two.q)
    assert np.array_equal(one.v, two.v)


def test_without_a_compiler_large_steps_run_as_they_are(monkeypatch):
    monkeypatch.setenv("DALEMBERT_CC", "none")
    compiler.find.cache_clear()
    system = da.catalog.net(20, 20)
    try:
        assert da.simulate(system, "rattle", t_end=0.02, step=H).stats["engine"] == "sparse"
        with pytest.raises(da.CompilerError, match="no C compiler was found"):
            da.simulate(system, "rattle", t_end=0.02, step=H, compile=True)
    finally:
        compiler.find.cache_clear()


def test_a_run_in_parts_gives_the_same_bits():
    system = da.catalog.net(9, 9)
    engine = prepare(system, find("rattle"))
    whole, parts = (engine.start(state(engine, system), system.pack(), 0.0, H) for _ in range(2))
    engine.sparse().run(whole, Records.empty(engine.program, 2 * WEIGH_EVERY), Task(0.0, H, Rule(), steps=2 * WEIGH_EVERY))
    for first in (0, WEIGH_EVERY):
        task = Task(0.0, H, Rule(), steps=WEIGH_EVERY, first=first)
        engine.sparse().run(parts, Records.empty(engine.program, WEIGH_EVERY), task)
    assert np.array_equal(whole.state, parts.state)


def test_adaptive_steps_are_sparse_too():
    sol = da.simulate(da.catalog.net(9, 9), "rattle", t_end=0.05, step=0.005, adaptive=True)
    assert sol.stats["engine"] == "sparse"
    assert np.abs(sol.residual("position")).max() < 1e-12


@pytest.mark.parametrize(
    "name", ["rattle", "shake", "lobatto-pair-3", "gauss-2", "murua-2", "spark-3", "radau-iia-2", "midpoint"]
)
def test_slopes_multiplied_link_by_link_are_the_jacobian(name):
    """The residual and the Jacobian of a chain of links are those of the residual written out, at any point."""
    system = da.catalog.net(2, 3)
    program = LargeProgram(prepare(system, find(name)).program.step)
    rng, known, chains = np.random.default_rng(0), list(program.common), []
    values = [state(prepare(system, find(name)), system), np.zeros(1), np.full(1, 0.1), np.zeros(program.n_u), system.pack()]
    values[0] = values[0] + 0.1 * rng.normal(size=len(values[0]))
    keep = []

    def bound(function, inputs, outputs):
        call, kept = bind(function, inputs, outputs)
        keep.append(kept)
        return call

    for solve, stage in zip(program.step.solves, program.large_stages, strict=True):
        x = rng.normal(size=stage.n)
        chain = Chain(stage, x, list(values), bound, chains)
        chain.load()
        chain.start()
        chain.both()
        inputs = [solve.unknowns, *known]
        r, J = ca.Function("f", inputs, [ca.densify(solve.residual), ca.jacobian(solve.residual, solve.unknowns)])(x, *values)
        assert np.abs(chain.residual - r.full().ravel()).max() < 1e-12 * (1 + np.abs(r.full()).max())
        assert np.abs(chain.matrix.toarray() - J.full()).max() < 1e-12 * np.abs(J.full()).max()
        chains.append(chain)
        known, values = [*known, solve.unknowns], [*values, x]


def test_products_of_sparse_matrices():
    rng = np.random.default_rng(0)
    a, b = (scipy.sparse.random(*shape, density=0.2, random_state=rng, format="csc") for shape in ((7, 9), (9, 5)))
    patterns = [Pattern.of(ca.DM(m).sparsity()) for m in (a, b)]
    product = Product(*patterns)
    matrix = product.pattern.matrix()
    starts, first, second = product.lists
    matrix.data[:] = np.add.reduceat(a.data[first] * b.data[second], starts[:-1])
    assert np.abs(matrix.toarray() - (a @ b).toarray()).max() < 1e-15


def test_steps_whose_elimination_fills_in_are_left_to_numbers():
    """Few equations, many products: written out they took ten seconds to set up."""
    sol = da.simulate(da.catalog.chain(20), "murua-ggl-2", t_end=0.02, step=0.01)
    assert sol.stats["engine"].startswith("sparse")
    assert np.abs(sol.residual("position")).max() < 1e-13
    assert np.abs(sol.residual("velocity")).max() < 1e-12
