"""Runs that survive being killed."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import dalembert as da
from dalembert import checkpoint
from dalembert.engine.events import Watch
from dalembert.engine.machine import VirtualMachine
from dalembert.engine.run import Run
from dalembert.engine.steps import March


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(often, tmp_path, monkeypatch):
    """Killed in the middle (a failing step stands for it), resumed: bit by bit the run that was never interrupted."""
    system, options = da.catalog.four_particles_damped(), dict(step=0.01, save_every=7, compile=False)
    path = tmp_path / "run.nc"
    whole = da.simulate(system, "energy-momentum", t_end=6.0, **options)

    original, calls = March.take, []

    def dies(self, *arguments, **more):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *arguments, **more)

    monkeypatch.setattr(March, "take", dies)
    with pytest.raises(da.Interrupted):
        da.simulate(system, "energy-momentum", t_end=6.0, checkpoint=path, **options)
    monkeypatch.setattr(March, "take", original)
    partial = da.load(path)
    assert 0 < partial.t[-1] < 6.0
    again = da.simulate(system, "energy-momentum", t_end=6.0, checkpoint=path, **options)
    for name in ("t", "q", "v", "lam", "dissipated"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name), err_msg=name)
    assert da.load(path).t[-1] == 6.0


@pytest.mark.parametrize(("owner", "name"), [(VirtualMachine, "run"), (Run, "append"), (Watch, "search")])
@pytest.mark.parametrize("options", [{"save_every": 7}, {"adaptive": True, "t_end": 0.2}], ids=str)
def test_an_interrupt_after_steps_were_made_does_not_skip_them(often, tmp_path, monkeypatch, owner, name, options):
    """Ctrl-C reaches Python when a call has returned: its steps are made and not yet recorded."""
    system, path = da.catalog.double_pendulum(), tmp_path / "run.nc"
    options = {"t_end": 5.003, "step": 0.01, "compile": False, **options}
    options |= {"events": lambda t: np.sin(100 * t)} if owner is Watch else {}
    whole = da.simulate(system, "rattle", **options)
    original, calls = getattr(owner, name), []

    def interrupted(self, *arguments, **more):
        out = None if name == "append" else original(self, *arguments, **more)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *arguments, **more) if name == "append" else out

    monkeypatch.setattr(owner, name, interrupted)
    if owner is Run and not options.get("adaptive"):
        calls += [1, 1]  # only the last steps are appended
    with pytest.raises(da.Interrupted) as caught:
        da.simulate(system, "rattle", **options, checkpoint=path)
    monkeypatch.setattr(owner, name, original)
    assert f"t = {caught.value.solution.t[-1]:g} " in str(caught.value) or "save_every" in options
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
    np.testing.assert_allclose(longer.q, da.simulate(system, "rattle", t_end=2.0, step=0.01).q, atol=1e-13)


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
        "import dalembert as da\nfrom dalembert import checkpoint\ncheckpoint.EVERY = 0.05\n"
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
    np.testing.assert_array_equal(more.q[: len(sol.t)], sol.q)
