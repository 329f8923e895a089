"""Runs that survive being killed."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import dalembert as da
from dalembert import checkpoint, keeper
from dalembert.engine import kinds
from dalembert.engine.machine import VirtualMachine
from dalembert.engine.run import Run
from dalembert.engine.steps import March
from dalembert.engine.watch import Watch


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(keeper, "EVERY", 0.0)


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(often, tmp_path, monkeypatch):
    """Killed in the middle (a failing step stands for it), resumed: bit by bit the run that was never interrupted."""
    system, options = da.catalog.four_particles_damped(), dict(step=0.01, save_every=7, compile=False)
    path = tmp_path / "run.nc"
    whole = da.simulate(system, "energy-momentum", t_end=12.0, **options)

    original, calls = March.take, []

    def dies(self, *arguments, **more):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *arguments, **more)

    monkeypatch.setattr(March, "take", dies)
    with pytest.raises(da.Interrupted):
        da.simulate(system, "energy-momentum", t_end=12.0, checkpoint=path, **options)
    monkeypatch.setattr(March, "take", original)
    partial = da.load(path)
    assert 0 < partial.t[-1] < 12.0
    again = da.simulate(system, "energy-momentum", t_end=12.0, checkpoint=path, **options)
    for name in ("t", "q", "v", "lam", "dissipated"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name), err_msg=name)
    assert da.load(path).t[-1] == 12.0


@pytest.mark.parametrize(
    ("owner", "name", "options"),
    [
        (VirtualMachine, "run", {"save_every": 7}),
        (VirtualMachine, "run", {"adaptive": True, "t_end": 0.2}),
        (Run, "written", {"save_every": 7}),
        (Run, "append", {"adaptive": True, "t_end": 0.2, "save_every": 3}),
        (Run, "_go", {"save_every": 7}),
        (Watch, "search", {"save_every": 7}),
        (Watch, "search", {"adaptive": True, "t_end": 0.2}),
    ],
)
def test_an_interrupt_after_steps_were_made_does_not_skip_them(often, tmp_path, monkeypatch, owner, name, options):
    """Ctrl-C reaches Python when a call has returned: its steps are made and not yet recorded."""
    system, path = da.catalog.double_pendulum(), tmp_path / "run.nc"
    options = {"t_end": 5.003, "step": 0.01, "compile": False, **options}
    options |= {"events": lambda t: np.sin(100 * t)} if owner is Watch else {}
    whole = da.simulate(system, "rattle", **options)
    original, calls = getattr(owner, name), []

    def interrupted(self, *arguments, **more):
        out = None if owner is Run else original(self, *arguments, **more)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *arguments, **more) if owner is Run else out

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(da.Interrupted) as caught:
        da.simulate(system, "rattle", **options, checkpoint=path)
    monkeypatch.setattr(owner, name, original)
    assert f"t = {caught.value.solution.t[-1]:g} " in str(caught.value)
    again = da.simulate(system, "rattle", **options, checkpoint=path)
    np.testing.assert_array_equal(again.t, whole.t)
    np.testing.assert_array_equal(again.q, whole.q)
    np.testing.assert_array_equal(again.lam, whole.lam)
    for event, hits in whole.events.items():
        assert len(hits)
        assert caught.value.solution.events[event].t.max() < caught.value.solution.t[-1] + 7 * 0.01
        np.testing.assert_array_equal(again.events[event].t, hits.t)


def test_a_finished_run_is_read_and_a_later_end_continues_it(often, tmp_path):
    system, path = da.catalog.double_pendulum(), tmp_path / "run.nc"
    first = da.simulate(system, "rattle", t_end=1.0, step=0.01, checkpoint=path)
    same = da.simulate(system, "rattle", t_end=1.0, step=0.01, checkpoint=path)
    np.testing.assert_array_equal(first.q, same.q)
    longer = da.simulate(system, "rattle", t_end=2.0, step=0.01, checkpoint=path)
    np.testing.assert_array_equal(longer.q, da.simulate(system, "rattle", t_end=2.0, step=0.01).q)


def test_files_of_other_runs_are_refused(tmp_path):
    system, path = da.catalog.double_pendulum(), tmp_path / "run.nc"
    da.simulate(system, "rattle", t_end=1.005, step=0.01, checkpoint=path)
    with pytest.raises(da.MethodError, match="belongs to another run"):
        da.simulate(system, "rattle", t_end=1.0, step=0.02, checkpoint=path)
    with pytest.raises(da.MethodError, match=r"ended at t = 1.005 and cannot be continued"):
        da.simulate(system, "rattle", t_end=2.0, step=0.01, checkpoint=path)
    with pytest.raises(da.MethodError, match="does not exist"):
        da.simulate(system, "rattle", t_end=1.0, step=0.01, checkpoint=tmp_path / "no" / "run.nc")


def test_a_killed_process_leaves_a_file_to_go_on_from(tmp_path):
    code = (
        "import dalembert as da\nfrom dalembert import keeper\nkeeper.EVERY = 0.05\n"
        "da.simulate(da.catalog.four_particles(), 'energy-momentum', t_end=1e5, step=0.01, save_every=1000, "
        f"compile=False, checkpoint={str(tmp_path / 'run.nc')!r})"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not (tmp_path / "run.nc").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    sol = da.load(tmp_path / "run.nc")
    assert np.abs(sol.residual("position")).max() < 1e-13
    more = da.simulate(
        da.catalog.four_particles(),
        "energy-momentum",
        t_end=sol.t[-1] + 20.0,
        step=0.01,
        save_every=1000,
        checkpoint=tmp_path / "run.nc",
    )
    np.testing.assert_array_equal(more.q[: len(sol.t) - 1], sol.q[:-1])  # the last row of the file is not complete


RUN = {"t_end": 1.0, "step": 0.01, "compile": False}


def pushed():
    return da.Mechanical(1, mass=1.0, inputs=[1.0], initial={"q": [0.0], "v": [0.0]})


def kepler():
    start = {"q": [0.4, 0.0], "v": [0.0, 2.0]}
    return da.Mechanical(2, mass=1.0, potential=lambda q: -1 / np.sqrt(q @ q), initial=start)


@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"events": lambda q: q[0]}], ids=["equal", "adaptive", "events"])
@pytest.mark.parametrize("writes", [0, 1, 2])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("NetCDF: HDF error")], ids=str)
def test_a_full_disk_loses_nothing(often, tmp_path, monkeypatch, options, writes, error):
    """Before any work, in the middle, at the end: an error of ours, which holds what was computed."""
    path, original, calls = tmp_path / "run.nc", checkpoint.write, []

    def full(*arguments):
        calls.append(1)
        if len(calls) > writes:
            raise error
        return original(*arguments)

    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(da.MethodError, match="could not be written") as caught:
        da.simulate(kepler(), "rattle", checkpoint=path, **RUN, **options)
    assert (caught.value.solution is None) == (writes == 0)
    monkeypatch.setattr(checkpoint, "write", original)
    monkeypatch.setattr(keeper, "EVERY", 30.0)
    whole = da.simulate(kepler(), "rattle", **RUN, **options)
    if writes:
        part = caught.value.solution
        assert len(part.t) > 1
        np.testing.assert_array_equal(part.x, whole.x[: len(part.t)])
    np.testing.assert_array_equal(da.simulate(kepler(), "rattle", checkpoint=path, **RUN, **options).x, whole.x)


def test_a_finished_run_that_cannot_be_written_is_in_the_error(tmp_path, monkeypatch):
    original, calls = checkpoint.write, []

    def full(*arguments):
        calls.append(1)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return original(*arguments)

    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(da.MethodError, match="No space left") as caught:
        da.simulate(kepler(), "rattle", checkpoint=tmp_path / "run.nc", **RUN)
    assert caught.value.solution.t[-1] == 1.0


@pytest.mark.parametrize("name", ["run.txt", "a" * 250 + ".nc", "/proc/run.nc", "no/run.nc"])
def test_a_bad_place_is_found_before_any_work(tmp_path, monkeypatch, name):
    def work(*arguments, **more):
        raise AssertionError("a step was made")

    monkeypatch.setattr(March, "take", work)
    with pytest.raises(da.MethodError):
        da.simulate(kepler(), "rattle", checkpoint=tmp_path / name, **RUN)
    assert list(tmp_path.iterdir()) == []


def test_two_runs_cannot_have_one_file(often, tmp_path, monkeypatch):
    """The second is refused before any work; the first does not notice."""
    path, original, refused = tmp_path / "run.nc", March.take, []

    def take(self, *arguments, **more):
        if not refused:
            refused.append(1)
            with pytest.raises(da.MethodError, match="another run is writing"):
                da.simulate(kepler(), "rattle", checkpoint=path, **RUN)
        return original(self, *arguments, **more)

    monkeypatch.setattr(March, "take", take)
    sol = da.simulate(kepler(), "rattle", checkpoint=path, **RUN)
    monkeypatch.undo()
    assert refused
    np.testing.assert_array_equal(sol.x, da.simulate(kepler(), "rattle", **RUN).x)
    assert da.load(path).t[-1] == 1.0
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


def test_a_claim_that_a_killed_process_left_is_no_claim(tmp_path):
    (tmp_path / ".run.nc.lock").touch()
    assert da.simulate(kepler(), "rattle", checkpoint=tmp_path / "run.nc", **RUN).t[-1] == 1.0


def test_inputs_that_fail_at_the_end_only(tmp_path):
    table = [0.1] * 100
    with pytest.raises(da.ModelError, match=r"u failed at t = 1: IndexError.*holds the whole run") as caught:
        da.simulate(pushed(), "midpoint", u=lambda t: [table[int(t / 0.01 + 1e-9)]], checkpoint=tmp_path / "run.nc", **RUN)
    part = caught.value.solution
    np.testing.assert_array_equal(part.q, da.simulate(pushed(), "midpoint", u=[0.1], **RUN).q)
    assert np.isnan(part.u).ravel().tolist() == [False] * 100 + [True]
    np.testing.assert_array_equal(da.load(tmp_path / "run.nc").q, part.q)


@pytest.mark.parametrize("compile", [False, True])
def test_steps_after_the_last_full_row_are_as_safe_as_others(often, tmp_path, monkeypatch, compile):
    """One way of running for all steps; interrupted there, nothing of the work that was counted is lost."""
    system, path = da.catalog.four_particles_damped(), tmp_path / "run.nc"
    options = {"t_end": 120.005, "step": 0.01, "save_every": 3000, "compile": compile}
    whole = da.simulate(system, "energy-momentum", **options)
    assert whole.stats["engine"] == ("compiled" if compile else "virtual machine")
    original, calls = March.take, []

    def dies(self, task, out, **more):
        calls.append(task.first)
        if task.first > 3000:
            raise KeyboardInterrupt
        return original(self, task, out, **more)

    monkeypatch.setattr(March, "take", dies)
    with pytest.raises(da.Interrupted) as caught:
        da.simulate(system, "energy-momentum", checkpoint=path, **options)
    monkeypatch.setattr(March, "take", original)
    part = caught.value.solution
    assert 30.0 < part.t[-1] < 120.0
    assert np.abs(part.power_balance).max() < 1e-12
    assert da.load(path).t[-1] == part.t[-1]
    again = da.simulate(system, "energy-momentum", checkpoint=path, **options)
    assert np.abs(again.power_balance).max() < 1e-12
    for name in ("t", "q", "v", "lam", "dissipated"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name), err_msg=name)
    assert len(calls) < 200  # not one by one


def test_counts_are_those_of_the_whole_run(tmp_path):
    path, system = tmp_path / "run.nc", da.catalog.double_pendulum()
    for t_end in (10.0, 10.64):
        sol = da.simulate(system, "rattle", t_end=t_end, step=0.01, checkpoint=path, compile=False)
    direct = da.simulate(system, "rattle", t_end=10.64, step=0.01, compile=False)
    assert sol.stats["steps"] == direct.stats["steps"] == 1064
    assert sol.stats["iterations"] == direct.stats["iterations"]
    assert sol.stats["iterations_per_step"] == sol.stats["iterations"] / 1064
    assert set(sol.stats) == set(direct.stats)
    for adaptive in ("error", "backoff"):
        options = {"step": 0.01, "adaptive": adaptive, "save_every": 5}
        first = da.simulate(system, "rattle", t_end=0.5, checkpoint=tmp_path / f"{adaptive}.nc", **options)
        both = da.simulate(system, "rattle", t_end=1.0, checkpoint=tmp_path / f"{adaptive}.nc", **options)
        assert both.stats["iterations"] > first.stats["iterations"] > 0
        assert both.stats["shortest_step"] <= first.stats["shortest_step"]
        assert both.stats["steps"] > first.stats["steps"]


def test_a_run_goes_on_from_an_end_between_two_rows(tmp_path):
    system, path, options = da.catalog.four_particles_damped(), tmp_path / "run.nc", {"step": 0.01, "save_every": 7}
    da.simulate(system, "energy-momentum", t_end=1.28, checkpoint=path, compile=False, **options)
    longer = da.simulate(system, "energy-momentum", t_end=2.0, checkpoint=path, compile=False, **options)
    direct = da.simulate(system, "energy-momentum", t_end=2.0, compile=False, **options)
    for name in ("t", "q", "v", "lam", "dissipated"):
        np.testing.assert_array_equal(getattr(longer, name), getattr(direct, name), err_msg=name)


@pytest.mark.parametrize("adaptive", [False, True])
def test_an_earlier_end_is_refused(tmp_path, adaptive):
    options = {"step": 0.01, "adaptive": adaptive, "checkpoint": tmp_path / "run.nc"}
    da.simulate(kepler(), "rattle", t_end=2.0, **options)
    with pytest.raises(da.MethodError, match="ended at t = 2 and cannot be continued to t_end = 1"):
        da.simulate(kepler(), "rattle", t_end=1.0, **options)


def test_a_file_of_a_run_under_way_can_be_read_and_printed(often, tmp_path, monkeypatch):
    original, seen = checkpoint.write, []

    def write(solution, path, extra):
        out = original(solution, path, extra)
        seen.append(str(da.load(path)))
        return out

    monkeypatch.setattr(checkpoint, "write", write)
    da.simulate(kepler(), "rattle", checkpoint=tmp_path / "run.nc", **RUN)
    assert "0, 1 times kept" in seen[0]
    assert "100, 101 times kept" in seen[-1]


def test_an_interrupt_while_the_file_is_written_waits_for_its_end(often, tmp_path, monkeypatch):
    """The library below holds locks while it writes: left in the middle, the next write would wait for ever."""
    original, calls = checkpoint.write, []

    def write(*arguments):
        calls.append(1)
        if calls.count(1) == 2:
            signal.raise_signal(signal.SIGINT)
        out = original(*arguments)
        calls.append("whole")
        return out

    monkeypatch.setattr(checkpoint, "write", write)
    with pytest.raises(da.Interrupted) as caught:
        da.simulate(kepler(), "rattle", checkpoint=tmp_path / "run.nc", **RUN)
    assert calls.count("whole") == calls.count(1)
    assert caught.value.solution.t[-1] == da.load(tmp_path / "run.nc").t[-1]


@pytest.mark.parametrize("kept", [True, False])
def test_an_interrupt_at_the_very_end_loses_nothing(tmp_path, monkeypatch, kept):
    """Nor a second one."""
    original = kinds.fault

    def late(*arguments):
        signal.raise_signal(signal.SIGINT)
        return original(*arguments)

    monkeypatch.setattr("dalembert.engine.kinds.fault", late)
    with pytest.raises(da.Interrupted, match="at the end of the run") as caught:
        da.simulate(kepler(), "rattle", checkpoint=tmp_path / "run.nc" if kept else None, **RUN)
    assert caught.value.solution.t[-1] == 1.0
    assert not kept or da.load(tmp_path / "run.nc").t[-1] == 1.0
