"""Zero crossings: where they are, which way, and what ends a run."""

import numpy as np
import pytest

import dalembert as da
from dalembert import Event
from dalembert.engine.steps import March
from dalembert.reduced import Baumgarte

METHODS = ["gauss-4", "rattle", "lobatto-pair-3", "energy-momentum", "murua-3"]


@pytest.fixture(scope="module")
def oscillator():
    return da.catalog.harmonic_oscillator()


@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"save_every": 7}, {"compile": True}, {"adaptive": "backoff"}])
def test_crossings_of_an_oscillator(oscillator, options):
    events = [Event(lambda q: q[0], direction=-1, name="down"), Event(lambda q: q[0], 1, name="up"), lambda v: v[0]]
    sol = da.simulate(oscillator, "gauss-5", q=[1.0], v=[0.0], t_end=20.0, step=0.1, events=events, **options)
    tolerance = 2e-7 if "adaptive" in options else 1e-12
    np.testing.assert_allclose(sol.events["down"].t, np.pi / 2 + 2 * np.pi * np.arange(3), atol=tolerance)
    np.testing.assert_allclose(sol.events["up"].t, 3 * np.pi / 2 + 2 * np.pi * np.arange(3), atol=tolerance)
    np.testing.assert_allclose(sol.events["event 3"].t, np.pi * np.arange(7), atol=tolerance)
    assert np.abs(sol.events["down"].q).max() < 1e-15
    assert (sol.events["down"].v < 0).all()
    assert len(sol.events["up"]) == 3
    if options.get("save_every"):
        assert len(sol.t) == 30
        assert sol.t[-1] == 20.0


@pytest.mark.parametrize("method", METHODS)
def test_the_run_is_the_same_with_and_without_events(method):
    system = da.catalog.double_pendulum()
    options = {"t_end": 2.003, "step": 0.01, "save_every": 3}
    plain = da.simulate(system, method, **options)
    watched = da.simulate(system, method, **options, events=lambda q: q[1] + 0.5)
    np.testing.assert_allclose(plain.q, watched.q, rtol=0, atol=1e-13)  # compiled or not: a last bit may differ
    np.testing.assert_array_equal(plain.t, watched.t)
    np.testing.assert_allclose(plain.lam, watched.lam, rtol=1e-12)
    np.testing.assert_allclose(plain.supplied, watched.supplied, atol=1e-15)
    hits = watched.events["event 1"]
    assert len(hits)
    assert np.abs(hits.q[:, 1] + 0.5).max() < 1e-15
    # a shortened step keeps what the method keeps
    if method != "murua-3":
        assert np.abs(system.numeric("holonomic", plain._par, q=hits.q)).max() < 1e-13


@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"save_every": 4}])
def test_a_terminal_event_ends_the_run(oscillator, options):
    stop = Event(lambda q: q[0] - 0.5, terminal=True, name="half way")
    sol = da.simulate(oscillator, "gauss-4", q=[1.0], v=[0.0], t_end=1e6, step=0.1, events=stop, **options)
    assert sol.t[-1] == pytest.approx(np.pi / 3, abs=1e-7)
    assert abs(sol.q[-1, 0] - 0.5) < 1e-15
    assert sol.events["half way"].t[0] == sol.t[-1]
    assert np.all(np.diff(sol.t) > 0)


def test_a_collision_is_met_before_what_lies_behind_it():
    """The potential ends at the wall: without the event the run would fail there."""
    ball = da.Mechanical(1, mass=1.0, potential=lambda q: np.sqrt(q[0]), name="ball")
    with pytest.raises(da.DalembertError):
        da.simulate(ball, "rattle", q=[1.0], v=[-3.0], t_end=1.0, step=0.01)
    wall = Event(lambda q: q[0] - 0.05, terminal=True, name="wall")
    sol = da.simulate(ball, "rattle", q=[1.0], v=[-3.0], t_end=1.0, step=0.01, events=wall)
    assert abs(sol.q[-1, 0] - 0.05) < 1e-15


def test_events_of_time_momenta_parameters_and_hamiltonians(oscillator):
    sol = da.simulate(
        oscillator, "gauss-3", q=[1.0], v=[0.0], t_end=5.0, step=0.1, parameters={"m": 2.0},
        events={Event(lambda t: t - 1.234, name="clock"), Event(lambda p, m: p[0] + m / 4, name="momentum")},
    )  # fmt: skip
    assert sol.events["clock"].t == pytest.approx([1.234], abs=1e-15)
    assert np.abs(sol.events["momentum"].p + 0.5).max() < 1e-15
    h = oscillator.to_hamiltonian()
    sol = da.simulate(h, "gauss-3", q=[1.0], p=[0.0], t_end=5.0, step=0.1, events=lambda v: v[0] + 0.5)
    assert np.abs(sol.events["event 1"].v + 0.5).max() < 1e-15


def test_bad_events(oscillator):
    run = {"q": [1.0], "v": [0.0], "t_end": 1.0, "step": 0.1}
    with pytest.raises(da.MethodError, match="direction must be"):
        Event(lambda q: q[0], direction=2)
    with pytest.raises(da.MethodError, match="an event is a function"):
        da.simulate(oscillator, "rattle", **run, events=[3.0])
    with pytest.raises(da.MethodError, match="two events are called 'a'"):
        da.simulate(oscillator, "rattle", **run, events=[Event(lambda q: q[0], name="a"), Event(lambda v: v[0], name="a")])
    with pytest.raises(da.ModelError, match="does not depend on the motion"):
        da.simulate(oscillator, "rattle", **run, events=lambda k: k)
    with pytest.raises(da.ModelError, match="one number"):
        da.simulate(oscillator, "rattle", **run, events=lambda q: [q[0], q[0]])
    with pytest.raises(da.MethodError, match="events must be"):
        da.simulate(oscillator, "rattle", **run, events=3.0)


@pytest.mark.parametrize("adaptive", [False, True])
def test_an_interrupted_run_has_the_crossings_before_and_after(oscillator, tmp_path, monkeypatch, adaptive):
    """Interrupted in the middle and resumed: the same rows and crossings as without; and an end by an event stays the end."""
    monkeypatch.setattr("dalembert.keeper.EVERY", 0.0)
    stop = Event(lambda t: t - 21.0, terminal=True, name="stop")
    options = {"q": [1.0], "v": [0.0], "t_end": 60.0, "step": 0.1, "save_every": 7, "adaptive": adaptive, "compile": False}
    options["events"] = [Event(lambda q: q[0], name="zero"), stop]
    whole = da.simulate(oscillator, "gauss-3", **options)
    original, calls = March.take, []

    def dies(self, *arguments, **more):
        calls.append(1)
        if len(calls) == (20 if adaptive else 2):
            raise KeyboardInterrupt
        return original(self, *arguments, **more)

    path = tmp_path / "run.nc"
    monkeypatch.setattr(March, "take", dies)
    with pytest.raises(da.Interrupted) as caught:
        da.simulate(oscillator, "gauss-3", **options, checkpoint=path)
    monkeypatch.setattr(March, "take", original)
    part = caught.value.solution
    assert 0 < len(part.events["zero"]) < len(whole.events["zero"])
    for _ in range(2):  # the second call reads the file
        again = da.simulate(oscillator, "gauss-3", **options, checkpoint=path)
        np.testing.assert_array_equal(again.t, whole.t)
        np.testing.assert_array_equal(again.q, whole.q)
        np.testing.assert_array_equal(again.events["zero"].t, whole.events["zero"].t)
        assert again.events["stop"].t[0] == again.t[-1] == pytest.approx(21.0)
    options["events"] = [Event(lambda q: q[0] - 0.1, name="zero"), stop]
    with pytest.raises(da.MethodError, match="belongs to another run"):
        da.simulate(oscillator, "gauss-3", **options, checkpoint=path)


@pytest.mark.parametrize("save_every", [1, 7])
def test_an_event_that_is_not_finite_keeps_what_was_computed(oscillator, save_every):
    clock = Event(lambda t: t - 0.35, name="clock")
    run = {"q": [1.0], "v": [0.0], "t_end": 3.0, "step": 0.1, "save_every": save_every}
    with pytest.raises(da.ModelError, match="root is not finite at t = 2") as caught:
        da.simulate(oscillator, "rattle", **run, events=[clock, Event(lambda t: np.sqrt(1.95 - t) + 1, name="root")])
    assert caught.value.solution.t[-1] >= 1.3
    assert caught.value.solution.events["clock"].t == pytest.approx([0.35], abs=1e-15)


@pytest.mark.parametrize("save_every", [1, 4])
@pytest.mark.parametrize("method", ["rattle", Baumgarte(integrator="rk4")])
def test_a_terminal_event_where_a_step_begins(method, save_every):
    """The function is negative by a rounding error where a step begins: the run ends there, not after a step of no length."""
    free = da.Mechanical(1, mass=1.0, potential=lambda q: 0 * q[0])
    wall = Event(lambda q: q[0] - (0.3 + 1e-16), terminal=True, name="wall")
    options = {"q": [0.0], "v": [1.0], "t_end": 1.0, "step": 0.1, "save_every": save_every}
    sol = da.simulate(free, method, **options, events=wall)
    assert sol.t[-1] == pytest.approx(0.3, abs=1e-15)
    assert sol.q[-1, 0] == pytest.approx(0.3, abs=1e-15)
    assert np.all(np.diff(sol.t) > 1e-3)


def test_work_up_to_a_terminal_event():
    system = da.Mechanical(1, mass=1.0, potential=lambda q: q[0] ** 2, dissipation=0.1)
    stop = Event(lambda t: t - 1.234, terminal=True, name="stop")
    runs = [da.simulate(system, "energy-momentum", q=[1.0], t_end=3.0, step=0.1, save_every=n, events=stop) for n in (1, 5, 100)]
    for sol in runs:
        assert sol.t[-1] == pytest.approx(1.234, abs=1e-14)
        assert np.abs(sol.power_balance).max() < 1e-14
        assert sol.dissipated.sum() == pytest.approx(runs[0].dissipated.sum(), rel=1e-13)
        assert sol.stats["steps"] == 13


WAYS = [{}, {"adaptive": "error"}, {"adaptive": "backoff"}, {"save_every": 7}, {"compile": True}, {"checkpoint": "run.nc"}]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("terminal", [False, True])
def test_a_crossing_at_the_end_of_a_step(tmp_path, options, terminal):
    """A free motion at speed 1 from -0.5, in steps of 1/8: it is at 0 after 4 steps exactly, and is found once."""
    options = {**options, **({"checkpoint": tmp_path / "run.nc"} if "checkpoint" in options else {})}
    free, event = da.Mechanical(1, mass=1.0), Event(lambda q: q[0], terminal=terminal, name="zero")
    sol = da.simulate(free, "rattle", q=[-0.5], v=[1.0], t_end=2.0, step=0.125, events=event, **options)
    assert sol.events["zero"].t == pytest.approx([0.5], abs=1e-15)
    assert sol.events["zero"].q.ravel() == pytest.approx([0.0], abs=1e-15)
    assert (np.diff(sol.t) > 1e-3).all()
    if terminal:
        assert sol.t[-1] == sol.events["zero"].t[0]
        assert sol.q[-1, 0] == pytest.approx(0.0, abs=1e-15)
    else:
        assert sol.t[-1] == 2.0
    if options.get("save_every"):
        assert len(sol.t) == (2 if terminal else 4)
    if not options.get("adaptive"):
        assert sol.stats["steps"] == (4 if terminal else 16)
        assert sol.events["zero"].t[0] == 0.5


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize(("direction", "speed", "found"), [(0, 1.0, 1), (1, 1.0, 1), (-1, 1.0, 0), (-1, -1.0, 1), (1, -1.0, 0)])
def test_a_crossing_at_the_start(tmp_path, options, direction, speed, found):
    """A run that begins on a zero and leaves it crosses it; it does not end there, so that it can begin after an impact."""
    options = {**options, **({"checkpoint": tmp_path / "run.nc"} if "checkpoint" in options else {})}
    free, event = da.Mechanical(1, mass=1.0), Event(lambda q: q[0], direction, terminal=True, name="zero")
    run = {"q": [0.0], "v": [speed], "t_end": 1.0, "step": 0.1, "t0": 0.0}
    for _ in range(2 if "checkpoint" in options else 1):
        sol = da.simulate(free, "rattle", events=event, **run, **options)
        assert sol.events["zero"].t.tolist() == [0.0] * found
        assert sol.events["zero"].q.tolist() == [[0.0]] * found
        assert sol.t[-1] == 1.0


def test_events_at_the_time_of_a_terminal_one_are_kept():
    free = da.Mechanical(1, mass=1.0)
    stop, same = Event(lambda t: t - 0.5, terminal=True, name="stop"), Event(lambda q: q[0], name="same")
    later = Event(lambda t: t - 0.51, name="later")
    for events in ([stop, same, later], [later, same, stop]):
        sol = da.simulate(free, "rattle", q=[-0.5], v=[1.0], t_end=2.0, step=0.125, events=events)
        assert (len(sol.events["stop"]), len(sol.events["same"]), len(sol.events["later"])) == (1, 1, 0)


@pytest.mark.parametrize("options", [{}, {"adaptive": "error"}, {"save_every": 50}], ids=str)
def test_a_crossing_is_not_found_again_by_the_run_that_goes_on_there(tmp_path, options):
    """The file ends exactly on a zero: it belongs to the step before."""
    run = {"q": [-0.5], "v": [1.0], "step": 0.125, "checkpoint": tmp_path / "run.nc", **options}
    for t_end in (0.5, 1.0):
        sol = da.simulate(da.Mechanical(1, mass=1.0), "rattle", **run, t_end=t_end, events=Event(lambda q: q[0], name="zero"))
    assert sol.events["zero"].t == pytest.approx([0.5], abs=1e-15)


def test_rows_between_events_are_not_kept(oscillator):
    """As many rows as were asked for are held, whether or not each step is looked at."""
    run = {"q": [1.0], "v": [0.0], "t_end": 100.0, "step": 0.01, "compile": False}
    sol = da.simulate(oscillator, "gauss-2", **run, save_every=5000, events=lambda q: q[0])
    assert sol.t.tolist() == [0.0, 50.0, 100.0]
    assert sol.parts["q"].base is None or sol.parts["q"].base.shape[0] == 3
    np.testing.assert_allclose(sol.events["event 1"].t, np.pi / 2 + np.pi * np.arange(32), atol=1e-6)


# ---- two crossings in one step ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ball():
    return da.Mechanical(("z",), mass=1.0, potential=lambda q: 9.81 * q[0], initial={"q": [0.0], "v": [0.02]})


@pytest.mark.parametrize("compile", [False, "newton"])
@pytest.mark.parametrize("method", ["rattle", "gauss-2", "energy-momentum"])
def test_a_ball_that_leaves_and_comes_back_within_a_step(ball, method, compile):
    floor = Event(lambda q: q[0], direction=-1, terminal=True, name="floor")
    for step in (0.01, 0.05, 0.3):
        sol = da.simulate(ball, method, t_end=1.0, step=step, events=floor, compile=compile)
        assert sol.t[-1] == pytest.approx(0.04 / 9.81, abs=1e-13)
        assert sol.v[-1, 0] == pytest.approx(-0.02, abs=1e-12)


@pytest.mark.parametrize("compile", [False, "newton"])
def test_both_crossings_of_a_step_are_found(ball, compile):
    """A dip below zero and a bump above it, far from both ends: of the position, of the momentum form, and of a product."""
    level, step = 0.0004, 0.03
    looks = {
        "height": lambda q: q[0] - level,
        "both": lambda q, v: (q[0] - level) * (5 + v[0]),
        "down": Event(lambda q: level - q[0], 1),
    }
    sol = da.simulate(ball, "gauss-2", q=[0.0], v=[0.1], t_end=0.3, step=step, events=looks, compile=compile)
    root = np.sqrt(0.1**2 - 2 * 9.81 * level)
    times = [(0.1 - root) / 9.81, (0.1 + root) / 9.81]
    for name in ("height", "both"):
        np.testing.assert_allclose(sol.events[name].t, times, atol=1e-12)
    np.testing.assert_allclose(sol.events["down"].t, times[1:], atol=1e-12)
    ports = ball.to_port_hamiltonian()
    sol = da.simulate(ports, "gauss-2", x=[0.0, 0.1], t_end=0.3, step=step, events=lambda x: x[0] - level, compile=compile)
    np.testing.assert_allclose(sol.events["event 1"].t, times, atol=1e-12)
    free = da.simulate(ball, "gauss-2", q=[0.0], v=[0.1], t_end=0.3, step=step, events=looks, adaptive="backoff", compile=compile)
    np.testing.assert_allclose(free.events["height"].t, times, atol=1e-12)


def test_a_near_miss_is_none(ball):
    sol = da.simulate(ball, "gauss-2", q=[0.0], v=[0.1], t_end=0.3, step=0.03, events=lambda q: q[0] - 0.1**2 / 19.62 - 1e-9)
    assert len(sol.events["event 1"]) == 0


def test_crossings_do_not_depend_on_the_step():
    """Of a chaotic motion, at steps that are far too long for the events alone."""
    system = da.catalog.double_pendulum()
    fast = {"a": lambda q: np.sin(25 * q[0]), "b": lambda q, v: v[1] - 0.3}
    fine, coarse = (da.simulate(system, "lobatto-pair-4", t_end=1.5, step=h, events=fast) for h in (0.002, 0.02))
    for name in fast:
        np.testing.assert_allclose(coarse.events[name].t, fine.events[name].t, atol=1e-7)


def test_attributes_of_solve_ivp_are_honoured(ball):
    def floor(q):
        return q[0]

    floor.direction, floor.terminal = -1.0, True
    sol = da.simulate(ball, "rattle", q=[1.0], v=[0.0], t_end=2.0, step=0.01, events=floor)
    assert sol.t[-1] == pytest.approx(np.sqrt(2 / 9.81), abs=1e-13)
    oscillator = da.catalog.harmonic_oscillator()
    third = Event(lambda q: q[0], terminal=3, name="third")
    sol = da.simulate(oscillator, "gauss-4", q=[1.0], v=[0.0], t_end=50.0, step=0.1, events=third)
    assert sol.t[-1] == pytest.approx(5 * np.pi / 2, abs=1e-9)
    assert len(sol.events["third"]) == 3
    with pytest.raises(da.MethodError, match="terminal must be a whole number"):
        Event(floor, terminal=-1)
