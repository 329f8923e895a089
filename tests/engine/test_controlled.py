"""The loop in C makes the steps of the controllers in Python, to the last bit, and leaves the odd ones to them."""

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.adaptive import Adaptive
from dalembert.engine.case import prepare
from dalembert.engine.control import Backoff, ErrorControl, Reversible
from dalembert.engine.controlled import Controlled
from dalembert.methods.base import find

COUNTS = ("steps", "iterations", "rejected", "shortest_step", "longest_step", "pivoted_steps")


def kepler():
    start = {"q": [0.2, 0.0], "v": [0.0, 3.0]}
    return da.Mechanical(2, mass=1.0, potential=lambda q: -1 / np.sqrt(q @ q), name="Kepler's problem", initial=start)


def driven():
    return da.Mechanical(
        1, mass=lambda q: 1 + 0.1 * q[0] ** 2, potential=lambda q: q[0] ** 4, dissipation=0.1, inputs=[1.0], initial={"q": [1.0]}
    )


def moving_z():
    """Its algebraic variable jumps with the input."""
    return da.IndexOneDAE(
        ("y",), f=lambda y, z, u: -z + 0.1 * u[0], g=lambda y, z, u: z + 0.1 * z**3 - u - y, inputs=1, initial={"y": [0.5]}
    )


def outcome(system, method, options):
    """A solution, or what an error has of it, and the error."""
    try:
        return da.simulate(system, method, **options), ""
    except da.DalembertError as error:
        return error.solution, str(error)


def same(system, method, monkeypatch, **options):
    """The run by the virtual machine and Python, and by the compiled loop, which must be the same.

    Returned are the second one, the decisions that were made in Python, and the number of native calls.
    """
    one, wrong = outcome(system, method, {**options, "compile": False})
    calls, chunks = [], []
    few, native = Adaptive._few, Controlled.run
    monkeypatch.setattr(Adaptive, "_few", lambda self: calls.append(1) or few(self))
    monkeypatch.setattr(Controlled, "run", lambda *arguments: chunks.append(1) or native(*arguments))
    two, again = outcome(system, method, {**options, "compile": True})
    monkeypatch.undo()
    assert (one.stats["engine"], two.stats["engine"]) == ("virtual machine", "compiled")
    assert wrong == again
    for name in ("t", "t_lam", "u", *system.state, "lam", "supplied", "dissipated"):
        if hasattr(one, name):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    assert {name: one.stats[name] for name in COUNTS} == {name: two.stats[name] for name in COUNTS}
    return two, len(calls), len(chunks)


CASES = [
    ("double_pendulum", "rattle", "error"),
    ("double_pendulum", "lobatto-pair-3", ErrorControl(rtol=1e-8, largest=0.02)),
    ("double_pendulum", "rattle", Backoff(largest=0.02, after=3)),
    ("four_particles_damped", "energy-momentum-ggl", ErrorControl(rtol=1e-4)),
    ("kepler", "gauss-3", "error"),
    ("kepler", "gauss-3", "reversible"),
    ("kepler", "rattle", Reversible(scale=lambda q: (q @ q) ** 0.75)),
    ("kepler", "rk4", ErrorControl(rtol=0.0, atol=1e-7)),
    ("double_pendulum", "lobatto-pair-3", Reversible(scale=lambda q: 1 + q[0] ** 4)),
    ("four_particles_damped", "energy-momentum-ggl", Backoff(largest=0.02)),  # work is added up
    ("four_particles", "gauss-2", Backoff(largest=0.01)),
]


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize(("name", "method", "adaptive"), CASES, ids=[f"{c[0]}-{c[1]}-{k}" for k, c in enumerate(CASES)])
def test_the_same_steps_without_python(name, method, adaptive, every, monkeypatch):
    system = kepler() if name == "kepler" else getattr(da.catalog, name)()
    sol, calls, chunks = same(system, method, monkeypatch, t_end=4.0, step=0.002, adaptive=adaptive, save_every=every)
    assert sol.stats["steps"] > 40
    assert calls == 1  # the first
    assert chunks < 12


def test_long_runs_are_made_in_chunks(monkeypatch):
    sol, calls, chunks = same(kepler(), "rattle", monkeypatch, t_end=20.0, step=0.005, adaptive=ErrorControl(rtol=1e-6))
    assert sol.stats["rejected"] > 0
    assert sol.stats["steps"] > 3000
    assert calls == 1
    assert chunks < sol.stats["steps"] / 30


@pytest.mark.parametrize("t0", [-5.0, 0.0, 1e5])
@pytest.mark.parametrize("adaptive", ["error", "backoff"])
def test_sampled_inputs_are_read_in_c(t0, adaptive, monkeypatch):
    times = t0 + np.array([0.0, 0.3, 0.7, 0.71, 2.0, 3.5])
    u = (times, np.array([0.0, 1.0, -1.0, 2.0, 2.0, 0.5]))
    for method in ("gauss-2", "radau-iia-3", "rk4"):
        sol, calls, _ = same(driven(), method, monkeypatch, t0=t0, t_end=t0 + 4.0, step=0.01, u=u, adaptive=adaptive)
        assert np.isin(times[[1, 2, 3, 5]], sol.t).all()  # jumps; at the fifth time the value stays
        assert calls == 1
        sol, calls, _ = same(driven(), method, monkeypatch, t0=t0, t_end=t0 + 1.0, step=0.01, u=[0.3], adaptive=adaptive)
        assert calls == 1


def test_inputs_by_a_function_are_asked_for_in_python(monkeypatch):
    sol, calls, chunks = same(driven(), "gauss-2", monkeypatch, t_end=1.0, step=0.01, u=lambda t: [np.sin(t)], adaptive="error")
    assert chunks == 0
    assert calls == sol.stats["steps"] / 2


@pytest.mark.parametrize("control", [ErrorControl(rtol=1e-8), Backoff(largest=0.01)], ids=["error", "backoff"])
def test_what_follows_from_jumping_inputs_is_found_in_python(control, monkeypatch):
    u = ([0.0, 0.3, 0.5], [0.0, 1.0, -1.0])
    _, calls, chunks = same(moving_z(), "radau-iia-3", monkeypatch, t_end=0.9, step=0.001, u=u, adaptive=control)
    assert calls == 3  # the first, and one at each jump
    assert chunks == 3


@pytest.mark.parametrize("every", [1, 7])
def test_steps_that_fail_are_taken_back_in_python(every, monkeypatch):
    options = {"t_end": 10.0, "step": 0.5, "adaptive": "backoff", "save_every": every}
    sol, calls, chunks = same(da.catalog.double_pendulum(), "lobatto-pair-2", monkeypatch, **options)
    assert sol.stats["rejected"] > 0
    assert 1 < calls < sol.stats["steps"]
    assert chunks > 1


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("adaptive", ["error", "backoff"])
def test_a_run_that_fails_keeps_the_rows_before(adaptive, every, monkeypatch):
    """Into the centre: steps shrink without end."""
    start = {"q": [0.3, 0.0], "v": [0.0, 0.0]}
    sol, _, _ = same(kepler(), "rattle", monkeypatch, **start, t_end=6.0, step=0.001, adaptive=adaptive, save_every=every)
    assert len(sol.t) > 10
    assert np.isfinite(sol.q).all()


def test_an_interrupt_between_chunks_keeps_them(monkeypatch):
    options = {"t_end": 20.0, "step": 0.005, "adaptive": "error", "compile": True}
    whole, native, calls = da.simulate(kepler(), "rattle", **options), Controlled.run, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return native(*arguments)

    monkeypatch.setattr(Controlled, "run", interrupted)
    with pytest.raises(da.Interrupted, match="interrupted at t") as caught:
        da.simulate(kepler(), "rattle", **options)
    part = caught.value.solution
    rows = len(part.t)
    assert 3 * 64 < rows < len(whole.t)
    np.testing.assert_array_equal(part.t, whole.t[:rows])
    np.testing.assert_array_equal(part.q, whole.q[:rows])


@pytest.mark.parametrize("adaptive", ["error", "reversible", Backoff(largest=0.01)], ids=["error", "reversible", "backoff"])
@pytest.mark.parametrize("terminal", [False, True])
def test_events_are_met_in_the_same_steps(terminal, adaptive, monkeypatch):
    event = da.Event(lambda q, t: q[1] + 0.01 * t, direction=-1, terminal=terminal, name="axis")
    options = {"t_end": 12.0, "step": 0.005, "adaptive": adaptive, "events": event}
    sol, calls, _ = same(kepler(), "gauss-2", monkeypatch, **options)
    plain = da.simulate(kepler(), "gauss-2", compile=False, **options)
    np.testing.assert_array_equal(sol.events["axis"].t, plain.events["axis"].t)
    np.testing.assert_array_equal(sol.events["axis"].q, plain.events["axis"].q)
    assert len(sol.events["axis"]) == (1 if terminal else 2)
    assert calls == 1


@pytest.mark.parametrize("adaptive", ["error", Reversible(scale=lambda q: 1 + q @ q), Backoff(largest=0.01)])
def test_work_is_that_of_each_step_where_events_are_met(adaptive, monkeypatch):
    """Rows of the loop are used again after each event: nothing of those before is left in them."""
    system = da.Mechanical(
        2, mass=[1.0, 2.0], potential=lambda q: q @ q + q[0] * q[1], dissipation=0.2, initial={"q": [1.0, 0.3], "v": [0.0, 1.0]}
    )
    crossing = da.Event(lambda q: q[0], name="crossing")
    sol, _, chunks = same(system, "gauss-2", monkeypatch, t_end=10.0, step=0.005, adaptive=adaptive, events=crossing)
    assert chunks > len(sol.events["crossing"]) > 2
    np.testing.assert_allclose(sol.energy[0] - sol.energy[-1], sol.dissipated.sum(), rtol=1e-4)


def test_a_loop_that_cannot_be_compiled_is_done_in_python(monkeypatch):
    def refused(*arguments):
        raise da.CompilerError("no")

    monkeypatch.setattr("dalembert.engine.walking.inlined", refused)  # the time scale
    sol = da.simulate(kepler(), "gauss-2", t_end=1.0, step=0.005, adaptive="reversible", compile=True)
    assert sol.stats["engine"] == "compiled"
    monkeypatch.undo()
    again, calls, _ = same(kepler(), "gauss-2", monkeypatch, t_end=1.0, step=0.005, adaptive="reversible")
    np.testing.assert_array_equal(sol.q, again.q)
    assert calls == 1


@pytest.mark.parametrize("adaptive", [Reversible(scale=lambda q: 1 + q[0] ** 4), Backoff(largest=0.02)])
@pytest.mark.parametrize("how", ["in parts", "in loops"])
def test_long_steps_are_the_same(how, adaptive, monkeypatch):
    """Statements in functions of their own, and full matrices eliminated in loops."""
    if how == "in parts":
        monkeypatch.setattr("dalembert.engine.emission.LONG", 50)
        monkeypatch.setattr("dalembert.engine.writing.PART", 40)
    system, method = (da.catalog.chain(3), "gauss-2") if how == "in parts" else (da.catalog.chain(6), "gauss-4")
    text = Backoff().bind(system, find(method), system.pack()).plan.pace.text(prepare(system, find(method)).program)
    assert ("part1(" if how == "in parts" else "da_factor(") in text
    patched = pytest.MonkeyPatch()
    sol, calls, _ = same(system, method, patched, t_end=0.3, step=0.002, adaptive=adaptive)
    assert calls == 1
    assert sol.stats["steps"] > 10


def test_a_step_that_fails_leaves_nothing_behind(monkeypatch):
    """Sizes that a step looked at, and solves that needed one change, are as before where it fails."""
    options = {"t_end": 6.0, "step": 0.3, "adaptive": Backoff(shrink=0.7, grow=2.0, after=2, largest=0.8)}
    for method in ("rattle", "lobatto-pair-3", "murua-ggl-2", da.compose("rattle", order=4)):
        sol, calls, _ = same(da.catalog.double_pendulum(), method, monkeypatch, **options)
        assert sol.stats["rejected"] > 2, method
        assert calls > 2


def test_a_scale_that_is_not_positive_is_told_in_python(monkeypatch):
    system = da.Mechanical(1, mass=1.0, potential=lambda q: q[0] ** 2, initial={"q": [-1.0], "v": [0.0]})
    scale = Reversible(scale=lambda q: np.sign(0.5 - q[0]))
    options = {"t_end": 20.0, "step": 0.01, "adaptive": scale}
    sol, wrong = outcome(system, "rattle", {**options, "compile": True})
    assert "time scale" in wrong
    assert len(sol.t) > 10
    same(system, "rattle", monkeypatch, **options)


@pytest.mark.parametrize("scale", [None, lambda q: 1 + q @ q], ids=["its own", "given"])
def test_a_time_scale_is_compiled_once_for_each_function(scale):
    """Time scales that differ are told from each other, also where the first one is gone."""
    system = da.Mechanical(2, mass=1.0, potential=lambda q: -1 / np.sqrt(q @ q))
    options = {"q": [0.5, 0.0], "v": [0.0, 1.6], "t_end": 3.0, "step": 0.02}
    for control in (Reversible(scale=scale), Reversible(scale=lambda q: np.sqrt(q @ q)), Reversible(scale=scale)):
        native, python = (da.simulate(system, "rattle", adaptive=control, compile=c, **options) for c in (True, False))
        np.testing.assert_array_equal(native.t, python.t)
        np.testing.assert_array_equal(native.q, python.q)
