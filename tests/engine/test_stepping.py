"""Large steps in C, against the same driven from Python."""

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.case import prepare
from dalembert.engine.factored import Factor
from dalembert.engine.machine import Records, Task
from dalembert.engine.newton import Rule
from dalembert.methods.base import find
from dalembert.systems import composed

H = 0.02


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(composed, "LARGE", 0)


def runs(system, method, **options):
    one, two = (da.simulate(system, method, compile=c, **options) for c in (False, True))
    assert [one.stats["engine"], two.stats["engine"]] == ["sparse", "sparse, compiled"]
    return one, two


@pytest.mark.parametrize(
    ("kind", "method", "step"),
    [("net", "rattle", H), ("spring_net", "gauss-1", H), ("net", "lobatto-pair-3", 0.005)],
)
def test_steps_in_c_are_the_same_to_the_last_bit(kind, method, step):
    """In fast motion factors are renewed and fail; of the second system they are not symmetric."""
    one, two = runs(getattr(da.catalog, kind)(7, 7), method, t_end=70 * step, step=step, save_every=3)
    assert one.stats["iterations"] == two.stats["iterations"]
    for name in ("t", "q", "v", "lam"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize(("step", "steps", "least", "most"), [(0.002, 140, 2, 2), (0.1, 4, 3, 8)], ids=["served", "given back"])
def test_positions_take_the_factors_of_velocities(monkeypatch, step, steps, least, most):
    """Those of the step before serve them, and are taken anew after each look; or no longer, in fast motion with large steps."""
    taken, take = [], Factor.take
    monkeypatch.setattr(Factor, "take", lambda self, careful=False: (taken.append(id(self)), take(self, careful))[1])
    one, two = runs(da.catalog.chain(60), "rattle", t_end=steps * step, step=step)
    positions, velocities = (taken.count(which) for which in dict.fromkeys(taken))
    assert velocities == steps
    assert least <= positions <= most
    assert one.stats["iterations"] == two.stats["iterations"]
    for name in ("q", "v", "lam"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert np.abs(one.residual("position")).max() < 4e-14
    assert np.abs(one.residual("velocity")).max() < 4e-14


def test_rows_that_converge_fast_do_not_hide_others(monkeypatch):
    """Lengths of directors and hinges of rods in space have sizes of their own; all end at round-off."""
    monkeypatch.setattr(composed, "MANY", 0)
    m = da.Mechanism(name="rods on hinges")
    for i in range(3):
        m.rod(f"rod{i}", (i, 0, 0), (i + 1, 0, 0), mass=1.0, radius=0.05)
        m.revolute(f"hinge{i}", f"rod{i - 1}" if i else "ground", f"rod{i}", at=(i, 0, 0), axis=(0.0, 1.0, float(i % 2)))
    sol = da.simulate(m.assemble(rates={"hinge0": 1.0}), "rattle", t_end=0.06, step=0.002, compile=False)
    assert sol.stats["engine"] == "sparse"
    assert sol.stats["iterations_per_step"] < 7
    assert np.abs(sol.residual("position")).max() < 2e-15


def test_round_off_is_not_taken_for_slowness(monkeypatch):
    """Where changes with factors of their own do not shrink any more, later ones with old factors need not be smaller."""
    taken, whole = [], Factor.whole
    monkeypatch.setattr(Factor, "whole", lambda self, careful=False: (taken.append(careful), whole(self, careful))[1])
    one, two = runs(da.catalog.net(15, 15), "energy-momentum-ggl", t_end=0.009, step=0.001)
    assert one.stats["pivoted_steps"] == two.stats["pivoted_steps"] == 0
    assert len(taken) <= 6  # of both runs
    assert np.array_equal(one.q, two.q)
    assert np.abs(one.residual("position")).max() < 1e-13


def test_inputs_unknowns_and_work_are_recorded():
    number = np.arange(60)
    pairs = np.stack([number[:-1], number[1:]], axis=1)
    system = da.Mechanical(
        120,
        mass=1.0,
        force=lambda u: u[0] * np.ones(120),
        inputs=1,
        elements=[
            da.Element(pairs, potential=lambda q: 50 * (np.dot(q[1] - q[0], q[1] - q[0]) - 1) ** 2, dimension=2),
            da.Element(pairs, dissipation=lambda q: np.diag(np.concatenate([q[0] ** 2, q[1] ** 2])) / 10, dimension=2),
            da.Element(pairs[:20], holonomic=lambda q: np.dot(q[1] - q[0], q[1] - q[0]) - 1, dimension=2),
        ],
        initial={"q": np.stack([number, 0.0 * number], axis=1).ravel()},
    )
    one, two = runs(system, "rattle", t_end=0.2, step=0.01, u=lambda t: [np.sin(t)], save_every=3)
    assert np.array_equal(one.q, two.q)
    assert np.array_equal(one.supplied, two.supplied)
    assert np.array_equal(one.dissipated, two.dissipated)
    assert np.abs(one.supplied[-1]) > 0


def test_an_exception_comes_through():
    """Ctrl-C in a look at the model, say; the memory stays where it was."""
    system = da.catalog.net(7, 7)
    engine = prepare(system, find("rattle"))
    sparse = engine.runner(True, 4)
    memory = engine.start(np.concatenate([system.initial["q"], system.initial["v"]]), system.pack(), 0.0, H)
    before, out, task = memory.state.copy(), Records.empty(engine.program, 4), Task(0.0, H, Rule(), steps=4)
    function = sparse.compiled._backs[sparse.compiled._solves[1].accept]

    def interrupt():
        raise KeyboardInterrupt

    sparse.compiled._backs[sparse.compiled._solves[1].accept] = interrupt
    with pytest.raises(KeyboardInterrupt):
        sparse.run(memory, out, task)
    assert np.array_equal(memory.state, before)
    sparse.compiled._backs[sparse.compiled._solves[1].accept] = function
    assert sparse.run(memory, out, task).steps == 4


def test_a_step_that_fails_is_reported_as_by_python():
    system = da.catalog.net(7, 7)
    engine, start = prepare(system, find("rattle")), np.concatenate([system.initial["q"], system.initial["v"]])
    found = []
    for way in (False, True):
        memory, out = engine.start(start, system.pack(), 0.0, 3.0), Records.empty(engine.program, 8)
        outcome = engine.runner(way, 8).run(memory, out, Task(0.0, 3.0, Rule(), steps=8))
        found.append((outcome.steps, outcome.iterations, outcome.failed, repr(outcome.size)))
    assert found[0] == found[1]
    assert found[0][2] >= 0
