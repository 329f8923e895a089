"""The record of a run and the loop that fills it: whatever the chunks, the failures and the rescues."""

import copy
import time
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.engine.driver import Engine, Grid, integrate
from dalembert.engine.events import Event
from dalembert.engine.inputs import Constant
from dalembert.engine.machine import Memory, Outcome, Records
from dalembert.engine.newton import Rule
from dalembert.engine.program import Program
from dalembert.engine.run import Run, Stretch, Written
from dalembert.engine.watch import Watch

SYSTEM = da.catalog.double_pendulum()
PROGRAM = Program(da.methods.Rattle().step(SYSTEM))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("every", [1, 3, 7, 1000])
@pytest.mark.parametrize("fixed", [True, False])
def test_rows_do_not_depend_on_how_steps_are_gathered(seed, every, fixed):
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 700))
    grid = Grid(0.0, 0.1 * steps, 0.1, every)
    rows = Records(*(rng.normal(size=(steps, n)) for n in (PROGRAM.n_state, PROGRAM.n_lam, 2)))
    t = grid.times(np.arange(steps + 1))
    run = Run(grid, PROGRAM, len(grid.saved) if fixed else None)
    while run.done < steps:
        count = min(steps - run.done, int(rng.integers(0, 40)))
        part = slice(run.done, run.done + count)
        run.append(Stretch(t[part.start : part.stop + 1], Records(rows.state[part], rows.lam[part], rows.work[part])))
        assert run.rows == -(-run.done // every)
        assert run.now == t[run.done]
    kept = grid.saved - 1
    assert run.rows == len(kept)
    np.testing.assert_array_equal(run.times(), t[1:][kept])
    np.testing.assert_array_equal(run.nodes(), t[:-1][kept] + PROGRAM.step.node * (t[1:] - t[:-1])[kept])
    np.testing.assert_array_equal(run.records.state[: run.rows], rows.state[kept])
    np.testing.assert_array_equal(run.records.lam[: run.rows], rows.lam[kept])
    work = np.add.reduceat(rows.work, np.r_[0, kept[:-1] + 1])
    np.testing.assert_allclose(run.records.work[: run.rows], work, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("every", [1, 3, 7])
def test_rows_that_are_dropped_change_nothing_in_the_others(seed, every):
    """A window of a run: what is taken out of it in time is what a run without one has."""
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 700))
    grid = Grid(0.0, 0.1 * steps, 0.1, every)
    rows = Records(*(rng.normal(size=(steps, n)) for n in (PROGRAM.n_state, PROGRAM.n_lam, 2)))
    t, start = grid.times(np.arange(steps + 1)), rng.normal(size=PROGRAM.n_state)
    whole, run = Run(grid, PROGRAM, grid.rows), Run(grid, PROGRAM, grid.rows, window=10)
    taken = {name: [] for name in ("t", "nodes", "state", "lam", "work")}

    def take(count):
        found = {
            "t": run.times(),
            "nodes": run.nodes(),
            **{name: getattr(run.records, name) for name in ("state", "lam", "work")},
        }
        for name, values in found.items():
            taken[name].append(values[:count].copy())

    while run.done < steps:
        count = min(steps - run.done, int(rng.integers(0, 40)))
        part = slice(run.done, run.done + count)
        stretch = Stretch(t[part.start : part.stop + 1], Records(rows.state[part], rows.lam[part], rows.work[part]))
        whole.append(stretch)
        run.append(stretch)
        count = int(rng.integers(0, run.complete + 1))
        take(count)
        run.drop(count)
        times, states = run.table(start)
        np.testing.assert_array_equal(times, np.append(0.0, whole.times())[run.first :])
        np.testing.assert_array_equal(states, whole.table(start)[1][run.first :])
        assert run.space(1) + run.done >= run.first * every
    take(run.rows)
    found = {name: np.concatenate(parts) for name, parts in taken.items()}
    np.testing.assert_array_equal(found["t"], whole.times())
    np.testing.assert_array_equal(found["nodes"], whole.nodes())
    for name in ("state", "lam", "work"):
        np.testing.assert_array_equal(found[name], getattr(whole.records, name), err_msg=name)


class Weak:
    """A runner that cannot make the steps that begin at given times."""

    name = "weak"

    def __init__(self, runner, bad):
        self.runner, self.bad = runner, bad

    def run(self, memory, out, task):
        for k in range(task.first, task.first + task.steps):
            if np.abs(np.array(self.bad) - (task.t0 + k * task.h)).min() < 1e-6:
                before = replace(task, steps=k - task.first)
                done = self.runner.run(memory, out, before) if before.steps else Outcome(0, 0)
                return Outcome(done.steps, done.iterations, 0, 0.123)
        return self.runner.run(memory, out, task)


class Frail(Engine):
    def __init__(self, bad, worse=(np.inf,)):
        super().__init__(PROGRAM)
        self.bad, self.worse = bad, worse

    def runner(self, compile, steps, pace=None):
        return Weak(self.machine(), self.bad)

    def careful(self):
        return Weak(self.pivoted(), self.worse)


def run(engine, every=1, watch=None, t_end=3.003):
    state = np.concatenate([SYSTEM.initial["q"], SYSTEM.initial["v"], np.zeros(PROGRAM.n_state - 8)])
    memory = Memory.start(PROGRAM, state, SYSTEM.pack(), 0.0, 0.01)
    grid = Grid(0.0, t_end, 0.01, every)
    return integrate(engine, memory, grid, Constant(np.zeros(0)), rule=Rule(), compile=False, watch=watch)


def watch(terminal=None):
    events = [Event(lambda q: q[1] + 0.5, name="level")]
    events += [Event(lambda t, end=terminal: t - end, terminal=True, name="end")] if terminal else []
    return Watch(SYSTEM, PROGRAM.fields, events, SYSTEM.pack())


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("watched", [False, True])
def test_steps_that_fail_are_made_by_the_careful_way(every, watched):
    bad = [0.0, 0.05, 0.06, 0.64, 2.99, 3.0]  # the first, some in a row, where a chunk begins, the last and the shorter one after
    good, rescued = run(Engine(PROGRAM), every), run(Frail(bad), every, watch() if watched else None)
    assert rescued.error is None
    assert (rescued.stats["pivoted_steps"], rescued.stats["steps"]) == (6, 301)
    np.testing.assert_array_equal(rescued.times(), good.times())
    np.testing.assert_allclose(rescued.records.state, good.records.state, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rescued.records.lam, good.records.lam, rtol=0, atol=1e-9)


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("watched", [False, True])
def test_a_step_that_fails_in_all_ways_ends_the_run(every, watched):
    failed = run(Frail([1.0], [1.0]), every, look := watch() if watched else None)
    assert isinstance(failed.error, da.ConvergenceError)
    assert "step 101 of 301 did not converge: from t = 1" in str(failed.error)
    assert (failed.error.residual, failed.done, failed.rows) == (0.123, 100, -(-100 // every))
    assert failed.times()[-1] == failed.error.t == 1.0
    good = run(Engine(PROGRAM), 1)
    np.testing.assert_array_equal(failed.records.state[: failed.rows - 1], good.records.state[every - 1 : 99 : every])
    np.testing.assert_array_equal(failed.records.state[failed.rows - 1], good.records.state[99])
    np.testing.assert_array_equal(failed.records.lam[failed.rows - 1], good.records.lam[99])
    if look:
        assert [t for t, _ in look.hits[0]]
        assert max(t for t, _ in look.hits[0]) < 1.0


def test_an_event_before_the_failure_ends_the_run_without_it():
    ended = run(Frail([1.0], [1.0]), 7, watch(0.995))
    assert ended.error is None
    assert ended.times()[-1] == pytest.approx(0.995, abs=1e-15)
    assert ended.done == 100


def test_many_failures_choose_the_pivots_anew():
    engine = Frail(0.01 * np.arange(20))
    assert run(engine).stats["pivoted_steps"] == 8  # then the engine is a new one, which makes all steps


def test_pivots_that_do_not_help_are_not_chosen_for_ever():
    class Hopeless(Frail):
        choices = 0

        def repivoted(self):
            Hopeless.choices += 1
            return self

    assert run(Hopeless(0.01 * np.arange(100))).stats["pivoted_steps"] == 100
    assert Hopeless.choices == 4


class Picky(Weak):
    """A careful way that accepts only some beginnings of Newton's iteration."""

    def __init__(self, runner, accepts):
        super().__init__(runner, [np.inf])
        self.accepts, self.tried = accepts, 0

    def run(self, memory, out, task):
        self.tried += 1
        return super().run(memory, out, task) if self.accepts(memory) else Outcome(0, 3, 0, 0.5)


@pytest.mark.parametrize(
    ("accepts", "tries"),
    [
        (lambda memory: True, 1),
        (lambda memory: np.array_equal(memory.last, memory.before), 2),
        (lambda memory: not memory.last.any() and not memory.before.any(), 3),
    ],
    ids=["the usual guess", "the last solution", "zero"],
)
def test_the_careful_way_begins_with_other_guesses_too(accepts, tries):
    engine = Frail([1.0, 1.5])
    picky = Picky(engine.pivoted(), accepts)
    engine.careful = lambda: picky
    good, rescued = run(Engine(PROGRAM)), run(engine)
    assert rescued.error is None
    assert picky.tried == 2 * tries
    assert rescued.stats["pivoted_steps"] == 2
    np.testing.assert_allclose(rescued.records.state, good.records.state, rtol=0, atol=1e-12)


def test_an_event_in_a_step_that_only_the_careful_way_makes():
    usual = watch()
    run(Engine(PROGRAM), 1, usual)
    t = usual.hits[0][0][0]
    begin = 0.01 * int(t / 0.01)
    for bad in ([begin], [begin, 0.5]):
        look = watch()
        assert run(Frail(bad), 1, look).error is None
        assert look.hits[0][0][0] == pytest.approx(t, abs=1e-12)
    look = watch()
    failed = run(Frail([begin], [begin]), 1, look)
    assert failed.error is not None


def test_the_earliest_terminal_event_ends_the_run():
    """Several in one step, the later one named first."""
    late, early = (Event(lambda t, end=end: t - end, terminal=True, name=str(end)) for end in (0.4127, 0.412))
    look = Watch(SYSTEM, PROGRAM.fields, [late, early, Event(lambda t: t - 0.4123, name="between")], SYSTEM.pack())
    ended = run(Engine(PROGRAM), 1, look)
    assert ended.times()[-1] == pytest.approx(0.412, abs=1e-15)
    assert [len(hits) for hits in look.hits] == [0, 1, 0]


class Stopped(Exception):
    pass


class Keeper:
    """Keeps a run in memory, and stops it after so many writes."""

    window = None

    def __init__(self, writes):
        self.left, self.kept = writes, None

    def due(self, run):
        return True

    def restore(self, run):
        if self.kept is not None:
            run.restore(*self.kept)

    def write(self, run):
        rows = run.rows
        self.kept = run.times().copy(), run.nodes().copy(), copy.deepcopy(run.records.rows(0, rows)), run.at
        self.left -= 1
        if not self.left:
            raise Stopped


def swapped():
    """Rows in the wrong order put zeros on the diagonal, though not structural ones: other pivots are chosen."""
    step = da.methods.EnergyMomentum().step(SYSTEM)
    rows, nothing = step.solves[0].residual, ca.fabs(step.h) - step.h
    mixed = ca.vertcat(rows[1] + nothing * rows[0], rows[0] + nothing * rows[1], rows[2:])
    solve = replace(step.solves[0], residual=mixed)
    return Program(replace(step, solves=(solve,)))


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("writes", [1, 5, 8, 9, 10])
def test_a_run_whose_pivots_were_chosen_anew_goes_on_bit_by_bit(writes, every):
    """Before the choice, right after it, and later: the same pivots, and the same steps by the careful way."""
    grid, state = Grid(0.0, 3.003, 0.01, every), np.zeros(swapped().n_state)
    state[:4] = SYSTEM.initial["q"]

    def go(keeper=None):
        program = swapped()
        memory = Memory.start(program, state, SYSTEM.pack())
        return integrate(Engine(program), memory, grid, Constant(np.zeros(0)), rule=Rule(), compile=False, checkpoint=keeper)

    whole, keeper = go(Keeper(10**9)), Keeper(writes)
    assert 1 <= whole.stats["pivoted_steps"] < 20
    assert whole.at.pivots is not None
    stopped = go(keeper)
    assert isinstance(stopped.error, Stopped)
    assert (stopped.at.pivots is None) == (stopped.stats["pivoted_steps"] < 8)
    again = go(keeper)
    assert again.error is None
    for name in ("state", "lam", "work"):
        np.testing.assert_array_equal(getattr(again.records, name), getattr(whole.records, name), err_msg=name)
    assert again.at.pivots == whole.at.pivots
    for name in ("steps", "iterations", "pivoted_steps"):
        assert again.stats[name] == whole.stats[name]


def test_what_steps_that_are_not_recorded_left_behind_is_taken_back():
    """Rows are written ahead of the record: a run that ends in between has the row that it had."""
    grid, rng = Grid(0.0, 1.0, 0.1, 4), np.random.default_rng(0)
    run = Run(grid, PROGRAM, len(grid.saved))
    ahead = run.ahead()
    ahead.state[0], ahead.lam[0], ahead.work[0] = (rng.normal(size=n) for n in (PROGRAM.n_state, PROGRAM.n_lam, 2))
    run.written(Written(3))
    kept = run.records.row(0)
    for array in (run.ahead().state, run.ahead().lam, run.ahead().work):
        array[0] += 1.0
    run.close()
    assert (run.rows, run.done, run.times().tolist()) == (1, 3, [pytest.approx(0.3)])
    for name in ("state", "lam", "work"):
        np.testing.assert_array_equal(getattr(run.records, name)[:1], getattr(kept, name))


def test_the_seconds_of_a_run_are_within_those_of_the_call():
    begun = time.perf_counter()
    stats = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=1.0, step=0.01, compile=False).stats
    elapsed = time.perf_counter() - begun
    assert 0 < stats["seconds"] < elapsed
    assert 0 <= stats["setup_seconds"] + stats["compile_seconds"] <= elapsed
