"""Large steps in C, against the same driven from Python."""

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.case import prepare
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
