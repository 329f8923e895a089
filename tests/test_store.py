"""Runs that go to a store as they come: bounded in memory, safe at every moment, gone on from bit by bit."""

import itertools
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import dalembert as da
from dalembert import keeper
from dalembert.engine.steps import LONGEST, March
from dalembert.keeper import Keeping
from dalembert.solution import columns, shelf
from dalembert.store import Store
from store_runs import DAMPED, DOUBLE, EVENTS, RUNS, SHORT, begins, same


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Chunks of 64 rows, and of one crossing; the disk may take its time."""
    monkeypatch.setattr(shelf, "CHUNK", 1)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def often(monkeypatch):
    """Written after every fourth stretch of steps, which are short under a controller."""
    count = itertools.count()
    monkeypatch.setattr(Keeping, "due", lambda self, run: not self.adaptive or next(count) % 4 == 0)


@pytest.mark.parametrize("seconds", [0.0, 30.0])
@pytest.mark.parametrize("name", RUNS)
def test_a_stored_run_is_the_run(tmp_path, monkeypatch, name, seconds):
    """In memory, read back, and opened: to the last bit, however often it is written."""
    monkeypatch.setattr(keeper, "EVERY", seconds)
    (system, method, options), path = RUNS[name], tmp_path / "run.zarr"
    whole = da.simulate(system, method, **options)
    same(da.simulate(system, method, store=path, **options), whole)
    same(da.simulate(system, method, store=path, **options), whole)
    run = da.open(path)
    same(run.solution(), whole)
    assert run.finished
    assert len(run) == len(whole.t)
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the library catches it."""


@pytest.mark.parametrize("name", ["every seventh", "adaptive", "events"])
def test_killed_between_any_two_files_it_goes_on_bit_by_bit(tmp_path, monkeypatch, often, name):
    """Death before and after the n-th file takes its place; each time the store is readable, and the run goes on from it."""
    (system, method, options), original, calls = RUNS[name], os.fsync, [0, 10**9]
    whole = da.simulate(system, method, **options)

    def dies(handle):
        original(handle)
        calls[0] += 1
        if calls[0] == calls[1]:
            raise Killed

    monkeypatch.setattr(os, "fsync", dies)
    da.simulate(system, method, store=tmp_path / "whole.zarr", **options)
    total, path = calls[0], tmp_path / "run.zarr"
    moments = {1, 3, *range(5, total, 1 + total // 16), total - 1, total}
    for moment in sorted(moments):
        calls[:] = 0, moment
        try:
            da.simulate(system, method, store=path, **options)
        except Killed:
            pass
        else:  # how often a run is written depends on the clock
            assert moment > total // 2
        if (path / "zarr.json").exists():
            begins(da.open(path).solution(), whole)
        calls[:] = 0, 10**9
        same(da.simulate(system, method, store=path, **options), whole)
        shutil.rmtree(path)


@pytest.mark.parametrize("name", SHORT)
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch, often, name):
    (system, method, options), path = RUNS[name], tmp_path / "run.zarr"
    whole, original, calls = da.simulate(system, method, **options), March.take, []

    def dies(self, *arguments, **more):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, *arguments, **more)

    monkeypatch.setattr(March, "take", dies)
    with pytest.raises(da.Interrupted) as caught:
        da.simulate(system, method, store=path, **options)
    monkeypatch.setattr(March, "take", original)
    begins(caught.value.solution, whole)
    same(da.open(path).solution(), caught.value.solution)
    assert not da.open(path).finished
    same(da.simulate(system, method, store=path, **options), whole)


def test_a_killed_process_leaves_a_store_to_go_on_from(tmp_path):
    path = tmp_path / "run.zarr"
    code = (
        "import dalembert as da\nfrom dalembert import keeper\nfrom dalembert.solution import shelf\nshelf.CHUNK = 1\n"
        "keeper.EVERY = 0.0\nprint('begins', flush=True)\n"
        f"da.simulate(da.catalog.double_pendulum(), 'rattle', t_end=1e6, step=0.01, compile=False, store={str(path)!r})"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    process.stdout.readline()
    while process.poll() is None and not ((path / "zarr.json").exists() and len(da.open(path)) > 200):
        pass
    assert process.poll() is None
    with pytest.raises(da.MethodError, match="another run is writing"):
        da.simulate(DOUBLE, "rattle", t_end=1e6, step=0.01, compile=False, store=path)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    rows = len(da.open(path))
    t_end = 0.64 * (rows // 64 + 2)
    whole = da.simulate(DOUBLE, "rattle", t_end=t_end, step=0.01, compile=False)
    same(da.simulate(DOUBLE, "rattle", t_end=t_end, step=0.01, compile=False, store=path), whole)
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


def test_a_run_killed_after_its_last_shorter_step_is_at_its_end(tmp_path, monkeypatch, often):
    options, path = {"t_end": 1.285, "step": 0.01, "compile": False}, tmp_path / "run.zarr"
    whole = da.simulate(DOUBLE, "rattle", **options)

    def dies(self, run):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", dies)
        with pytest.raises(Killed):
            da.simulate(DOUBLE, "rattle", store=path, **options)
    assert da.open(path).solution().t[-1] == 1.285
    same(da.simulate(DOUBLE, "rattle", store=path, **options), whole)
    with pytest.raises(da.MethodError, match="cannot be continued"):
        da.simulate(DOUBLE, "rattle", store=path, **{**options, "t_end": 2.0})


def test_memory_is_a_window(tmp_path, monkeypatch):
    """However long a run is, and whatever asks for each of its steps."""
    original, seen = Store.write, []

    def write(self, run):
        seen.append(len(run.records.state))
        original(self, run)

    monkeypatch.setattr(Store, "write", write)
    for name, options in {"a": {"compile": True}, "b": {"save_every": 5, "compile": True}, "c": {"events": EVENTS}}.items():
        da.simulate(DOUBLE, "rattle", t_end=100.0 if name == "c" else 40.0, step=0.01, store=tmp_path / f"{name}.zarr", **options)
        assert len(seen) > (1 if name == "c" else 5)
        assert max(seen) <= (128 if name != "c" else 64 + LONGEST)
        seen.clear()


SCRIPT = """
import os, sys
os.fsync = lambda handle: None
import dalembert as da
sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=2e3, step=1e-3, progress=False, store=sys.argv[1])
assert sol.stats["steps"] == 2_000_000 and len(da.open(sys.argv[1])) == 2_000_001
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="asks Linux for the memory of a process")
def test_a_long_run_takes_little_memory(tmp_path):
    """Its rows are 192 MB, and were there several times at its end."""
    run = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "run.zarr")], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 300_000


def test_an_interrupt_while_rows_are_read_again_leaves_them_in_the_store(tmp_path, monkeypatch):
    path, original = tmp_path / "run.zarr", shelf.Shelf.blocks

    def late(self, *arguments):
        signal.raise_signal(signal.SIGINT)
        return original(self, *arguments)

    monkeypatch.setattr(shelf.Shelf, "blocks", late)
    with pytest.raises(da.Interrupted, match="which its store holds") as caught:
        da.simulate(DOUBLE, "rattle", t_end=3.0, step=0.01, store=path)
    monkeypatch.undo()
    assert caught.value.solution is None
    assert da.open(path).finished
    same(da.open(path).solution(), da.simulate(DOUBLE, "rattle", t_end=3.0, step=0.01))


def test_no_number_of_steps_is_too_large(tmp_path, monkeypatch):
    def work(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(March, "take", work)
    with pytest.raises(da.MethodError, match=r"do not fit into memory.*store='run.zarr'"):
        da.simulate(DOUBLE, "rattle", t_end=1e12, step=0.01)
    with pytest.raises(da.Interrupted):
        da.simulate(DOUBLE, "rattle", t_end=1e12, step=0.01, store=tmp_path / "run.zarr")


@pytest.mark.parametrize("every", [1, 3])
def test_a_solution_of_many_rows_has_every_so_manieth(tmp_path, monkeypatch, every):
    """It is the run with a larger save_every, work included."""
    options = {"t_end": 5.0, "step": 0.01, "compile": False}
    monkeypatch.setattr(shelf, "HELD", 8 * 30 * 100)
    sol = da.simulate(DAMPED, "energy-momentum", save_every=every, store=tmp_path / "run.zarr", **options)
    k = sol.stats["save_every"] // every
    assert k > 1
    fewer = da.simulate(DAMPED, "energy-momentum", save_every=k * every, **options)
    np.testing.assert_array_equal(sol.x, fewer.x)
    np.testing.assert_array_equal(sol.t_lam, fewer.t_lam)
    np.testing.assert_allclose(sol.dissipated, fewer.dissipated, rtol=1e-14)
    assert np.abs(sol.power_balance).max() < 1e-12
    assert "times kept" in str(sol)


# ---- going on -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [(1.28, 3.2), (0.9, 0.97, 2.05, 3.2)])
@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("compile", [False, "newton"])
def test_a_later_end_continues_it(tmp_path, ends, every, compile):
    """To the last bit, wherever the run had ended."""
    options = {"step": 0.01, "save_every": every, "compile": compile}
    for t_end in ends:
        sol = da.simulate(DAMPED, "energy-momentum", t_end=t_end, store=tmp_path / "run.zarr", **options)
        assert da.open(tmp_path / "run.zarr").t[-1] == t_end
    same(sol, da.simulate(DAMPED, "energy-momentum", t_end=ends[-1], **options))


def test_other_ends_are_refused(tmp_path):
    path = tmp_path / "run.zarr"
    da.simulate(DOUBLE, "rattle", t_end=1.005, step=0.01, store=path)
    for t_end in (0.5, 2.0):
        with pytest.raises(da.MethodError, match=r"ended at t = 1.005 and cannot be continued.*da.open"):
            da.simulate(DOUBLE, "rattle", t_end=t_end, step=0.01, store=path)
    assert da.open(path).finished


def test_a_run_that_an_event_ended_is_read(tmp_path):
    path, stop = tmp_path / "run.zarr", da.Event(lambda t: t - 0.755, terminal=True, name="stop")
    options = {"t_end": 2.0, "step": 0.01, "compile": False, "events": [stop]}
    whole = da.simulate(DOUBLE, "rattle", **options)
    for _ in range(2):
        same(da.simulate(DOUBLE, "rattle", store=path, **options), whole)
    assert da.open(path).finished


@pytest.mark.parametrize(
    ("named", "other"),
    [
        ("system", (da.catalog.simple_pendulum(), "rattle", {})),
        ("method", (DOUBLE, "lobatto-pair-3", {})),
        ("parameters", (DOUBLE, "rattle", {"parameters": {"g": 9.0}})),
        ("step", (DOUBLE, "rattle", {"step": 0.02})),
        ("save_every", (DOUBLE, "rattle", {"save_every": 2})),
        ("tolerance", (DOUBLE, "rattle", {"tolerance": 1e-6})),
        ("adaptive", (DOUBLE, "rattle", {"adaptive": True})),
        ("events", (DOUBLE, "rattle", {"events": EVENTS})),
    ],
)
def test_a_store_of_another_run_is_refused(tmp_path, named, other):
    path = tmp_path / "run.zarr"
    whole = da.simulate(DOUBLE, "rattle", t_end=1.0, step=0.01, store=path)
    system, method, options = other
    with pytest.raises(da.MethodError, match=rf"belongs to another run \(.*{named}.* differ\)"):
        da.simulate(system, method, **{"t_end": 1.0, "step": 0.01, **options}, store=path)
    same(da.open(path).solution(), whole)


def test_inputs_are_compared_by_their_values_too(tmp_path):
    system, path, table = da.Mechanical(1, mass=1.0, inputs=[1.0]), tmp_path / "run.zarr", np.zeros(200)
    call = {"q": [0.0], "v": [0.0], "t_end": 1.0, "step": 0.01, "store": path}

    class Table:
        __slots__ = ()

        def __call__(self, t):
            return [table[round(100 * t)]]

        def __reduce__(self):
            raise TypeError("not to be written")

    da.simulate(system, "rattle", u=Table(), **call)
    table[90] = 1.0
    with pytest.raises(da.MethodError, match=r"\(inputs u differ\)"):
        da.simulate(system, "rattle", u=Table(), **call)


@pytest.mark.parametrize(("field", "file", "form"), [("store", "run.zarr", "zarr"), ("checkpoint", "run.nc", "nc")])
def test_a_study_goes_on_from_its_files(tmp_path, field, file, form):
    """In processes of their own, with the errors of the file."""
    study = tmp_path / "study.toml"

    def run(t_end, name=file):
        text = f'system = "double-pendulum"\nmethod = "rattle"\nt_end = {t_end}\nstep = 0.01\n{field} = "{name}"\n'
        study.write_text(text)
        command = [sys.executable, "-m", "dalembert", "run", str(study)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert "100, 101 times kept" in run(1.0).stdout
    assert "200, 201 times kept" in run(2.0).stdout
    assert len((da.open if field == "store" else da.load)(tmp_path / file).t) == 201
    bad = run(1.0, "run.txt")
    assert bad.returncode
    assert f"study.toml, line 5: a {field} ends in .{form}" in bad.stderr


# ---- places -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("files", [0, 3, 40, 60])
def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, often, name, files):
    """Before any work, and later: an error of ours, which holds what was computed; when there is room again the run goes on."""
    (system, method, options), path, original, calls = RUNS[name], tmp_path / "run.zarr", os.fsync, []

    def full(handle):
        calls.append(1)
        if len(calls) > files:
            raise OSError(28, "No space left on device")
        original(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(da.MethodError, match=r"could not be written.*No space left") as caught:
        da.simulate(system, method, store=path, **options)
    monkeypatch.setattr(os, "fsync", original)
    whole = da.simulate(system, method, **options)
    assert (caught.value.solution is None) == (files < 20)
    if caught.value.solution is not None:
        begins(caught.value.solution, whole)
        begins(da.open(path).solution(), whole)
        assert len(caught.value.solution.t) >= len(da.open(path))
    assert not list(tmp_path.glob(".dalembert*"))
    same(da.simulate(system, method, store=path, **options), whole)


@pytest.mark.parametrize("name", ["run.txt", "run.nc", "a" * 250 + ".zarr", "/proc/run.zarr", "no/run.zarr", "", 3])
def test_a_bad_place_is_found_before_any_work(tmp_path, monkeypatch, name):
    monkeypatch.setattr(March, "take", lambda *arguments, **more: pytest.fail("a step was made"))
    with pytest.raises(da.MethodError):
        da.simulate(DOUBLE, "rattle", t_end=1.0, step=0.01, store=tmp_path / name if name and name != 3 else name)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_not_touched(tmp_path):
    (tmp_path / "file.zarr").write_text("mine")
    (tmp_path / "folder.zarr").mkdir()
    (tmp_path / "folder.zarr" / "notes.txt").write_text("mine")
    for name, words in {"file.zarr": "is a file", "folder.zarr": "holds 'notes.txt', and no run"}.items():
        with pytest.raises(da.FileError, match=words):
            da.simulate(DOUBLE, "rattle", t_end=1.0, step=0.01, store=tmp_path / name)
    assert (tmp_path / "file.zarr").read_text() == (tmp_path / "folder.zarr" / "notes.txt").read_text() == "mine"
    with pytest.raises(da.MethodError, match="a checkpoint or to a store, not to both"):
        da.simulate(DOUBLE, "rattle", t_end=1.0, step=0.01, store=tmp_path / "a.zarr", checkpoint=tmp_path / "a.nc")


def test_two_runs_cannot_have_one_store(tmp_path, monkeypatch):
    path, original, refused = tmp_path / "run.zarr", March.take, []
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)

    def take(self, *arguments, **more):
        if not refused:
            refused.append(1)
            for name in (path, tmp_path / "link" / "run.zarr"):
                with pytest.raises(da.MethodError, match="another run is writing"):
                    da.simulate(DOUBLE, "rattle", t_end=1.0, step=0.01, store=name)
        return original(self, *arguments, **more)

    monkeypatch.setattr(March, "take", take)
    sol = da.simulate(DOUBLE, "rattle", t_end=1.0, step=0.01, store=path)
    monkeypatch.undo()
    assert refused
    same(sol, da.simulate(DOUBLE, "rattle", t_end=1.0, step=0.01))


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    columns.available.cache_clear()
    monkeypatch.setitem(sys.modules, "numcodecs", None)
    with pytest.raises(da.MissingPackage, match=r"pip install 'dalembert\[store\]'"):
        da.simulate(DOUBLE, "rattle", t_end=1.0, step=0.01, store=tmp_path / "run.zarr")
    columns.available.cache_clear()


def test_rows_that_are_no_result_do_not_come_into_the_store(tmp_path, often):
    """The energy is not finite behind the singular point, though its slope is."""
    system = da.Mechanical(1, mass=1.0, potential=lambda q: np.log(q[0]))
    call = {"q": [1.0], "v": [-3.0], "t_end": 3.0, "step": 0.01, "compile": False}
    with pytest.raises(da.DalembertError) as plain:
        da.simulate(system, "midpoint", **call)
    for _ in range(2):
        with pytest.raises(type(plain.value)) as caught:
            da.simulate(system, "midpoint", store=tmp_path / "run.zarr", **call)
        np.testing.assert_array_equal(caught.value.solution.x, plain.value.solution.x)
        assert np.isfinite(da.open(tmp_path / "run.zarr").energy[:]).all()
