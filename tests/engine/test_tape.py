"""The rows of a run, kept or made again: the same to the last bit, and how many are held."""

import numpy as np
import pytest

import dalembert as da
from dalembert.engine import tape as module
from dalembert.engine.case import Case, make_grid, make_rule
from dalembert.engine.program import WEIGH_EVERY
from dalembert.engine.tape import Tape, spacing


def tape(system, method="rattle", *, t_end, step=0.01, save_every=1, compile=False, u=None):
    case = Case.of(system, method, {}, t0=0.0, u=u, parameters=None)
    return Tape(case, make_grid(0.0, t_end, step, save_every), make_rule(None, 25), compile, False)


def whole(segments):
    """All rows in the order of time."""
    parts = sorted(
        ((r.first, *(a.copy() for a in (r.before, r.after, r.unknowns, r.t))) for r in segments if not r.settled),
        key=lambda p: p[0],
    )
    return [np.concatenate([p[i] for p in parts]) for i in range(1, 5)]


@pytest.fixture
def short(monkeypatch):
    """Segments as short as they can be, however few there are, and nothing kept."""
    monkeypatch.setattr(module, "SEGMENT", 1)
    monkeypatch.setattr(module, "KEPT", 0)


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("method", ["rattle", "lobatto-pair-3", "energy-momentum"])
def test_rows_that_are_made_again_are_the_same_bits(method, compile, monkeypatch):
    """A thousand steps and a shorter one."""
    options = {"t_end": 10.005, "compile": compile}
    system = da.catalog.double_pendulum()
    kept = tape(system, method, **options)
    for name in ("SEGMENT", "KEPT"):
        monkeypatch.setattr(module, name, 1)
    again = tape(system, method, save_every=10**6, **options)
    assert kept.keeps
    assert not again.keeps
    assert again.places > 5
    expected = whole(kept.segments())
    assert len(expected[0]) == 1001
    for backwards in (False, True):
        for a, b in zip(whole(again.segments(backwards)), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(again.run.records.state[-1], kept.run.records.state[-1])


def test_rows_that_are_not_stored_are_kept_as_well():
    """What is stored of a run does not depend on what is kept of it: states, multipliers, work and times, to the last bit."""
    system, options = da.catalog.four_particles_damped(), {"t_end": 1.006, "save_every": 7, "compile": False}
    kept, plain = tape(system, "energy-momentum", **options), da.simulate(system, "energy-momentum", step=0.01, **options)
    assert kept.keeps
    assert len(whole(kept.segments())[0]) == 101
    solution = da.sensitivity(system, "energy-momentum", step=0.01, **options).solution
    for name in ("t", "q", "v", "lam", "t_lam", "dissipated"):
        np.testing.assert_array_equal(getattr(solution, name), getattr(plain, name), err_msg=name)


def test_segments_come_in_either_direction(short):
    run = tape(da.catalog.simple_pendulum(), t_end=5.003)
    firsts = [rows.first for rows in run.segments()]
    assert firsts == sorted(firsts)
    assert firsts[-1] == 500  # the short step is by itself
    assert [rows.first for rows in run.segments(backwards=True)] == firsts[::-1]
    assert [rows.h for rows in run.segments()][-1] == pytest.approx(0.003)


@pytest.mark.parametrize("steps", [10_000, 40_000, 160_000])
def test_what_is_held_grows_with_the_square_root(steps, short):
    run = tape(da.catalog.harmonic_oscillator(), t_end=steps * 0.01, save_every=steps, compile=True)
    held, made = 0, 0
    for rows in run.segments(backwards=True):
        held, made = max(held, len(rows)), made + len(rows)
    assert made == steps
    assert held <= run.apart <= np.sqrt(steps) + WEIGH_EVERY
    assert run.held <= 3 * np.sqrt(steps) + 2 * WEIGH_EVERY
    assert run.places <= 2 * steps / run.apart + 2
    assert len(run.run.records.state) == 1


@pytest.mark.parametrize("steps", [10**5, 10**6, 10**7, 10**9, 10**12])
@pytest.mark.parametrize("row", [8, 96, 400, 10**5, 10**8])
def test_few_rows_are_held_of_any_run(steps, row):
    """Segments of a fixed size in memory, or of the square root; there is at most one place for each half of one."""
    apart = spacing(steps, row)
    assert apart % WEIGH_EVERY == 0
    assert (apart - WEIGH_EVERY) * row <= max(module.SEGMENT, row * np.sqrt(steps))
    assert 2 * steps / apart <= 2 * np.sqrt(steps)
    assert spacing(10, row) == WEIGH_EVERY


def test_marks_leave_no_gap_too_long(short):
    run = tape(da.catalog.harmonic_oscillator(), t_end=50.0)
    places = [stand.done for stand in run._marks.stands]
    assert places[0] == 0
    assert places[-1] == 5000
    assert max(np.diff(places)) <= run.apart
    assert all(place % WEIGH_EVERY == 0 for place in places[:-1])


def test_inputs_that_jump_are_seen_again(short):
    """A step after a jump begins with what was found anew there."""
    system = da.IndexOneDAE(
        1, f=lambda y, z: -z, g=lambda y, z, u: z - y - u[0], inputs=1, initial={"y": [1.0]}
    )  # fmt: skip
    run = tape(system, "radau-iia-2", t_end=2.0, step=0.05, u=([0.0, 0.5, 1.25], [1.0, -2.0, 0.5]))
    before, after, *_ = whole(run.segments())
    jumps = [k for k in range(1, 40) if not np.array_equal(before[k], after[k - 1])]
    assert jumps == [10, 25]
    np.testing.assert_allclose(before[:, 1] - before[:, 0], np.repeat([1.0, -2.0, 0.5], [10, 15, 15]), atol=1e-14)
    np.testing.assert_array_equal(after, run.run.records.state)
