"""Stores that are read: a part at a time, while they are written, damaged, and made by somebody else."""

import itertools
import json
import os
import shutil

import numpy as np
import pytest
import zarr

import dalembert as da
from dalembert.keeper import Keeping
from dalembert.solution import shelf
from dalembert.store import Store
from store_runs import DAMPED, DOUBLE, RUNS, begins, same


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


# ---- damage -------------------------------------------------------------------------------------------------


def tear(path, how):
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        changed = bytearray(data)
        changed[len(data) // 2] ^= 1
        path.write_bytes({"short": data[: len(data) // 2], "empty": b"", "changed": bytes(changed)}[how])


@pytest.mark.parametrize(
    ("name", "array", "how"),
    [
        *(("equal", "q", how) for how in ("short", "empty", "changed", "missing")),
        *(("every seventh", array, "short") for array in ("t", "lam", "supplied")),
        ("adaptive", "v", "changed"),
        ("events", "t_lam", "missing"),
    ],
)
def test_a_torn_last_chunk_is_dropped(tmp_path, often, name, array, how):
    """It is said, the rest can be read, and the run goes on from there bit by bit."""
    (system, method, options), path = RUNS[name], tmp_path / "run.zarr"
    whole = da.simulate(system, method, store=path, **options)
    last = max(int(chunk.name) for chunk in (path / array / "c").iterdir())
    tear(path / array / "c" / str(last) / "0" if array in ("q", "v", "lam") else path / array / "c" / str(last), how)
    with pytest.warns(da.DalembertWarning, match="its last chunk is dropped"):
        run = da.open(path)
    assert 0 < len(run) <= 64 * last
    begins(run.solution(), whole)
    with pytest.warns(da.DalembertWarning, match="its last chunk is dropped"):
        same(da.simulate(system, method, store=path, **options), whole)
    same(da.open(path).solution(), whole)


def test_a_chunk_from_before_the_last_row_is_seen(tmp_path, often):
    """A machine that lost its power may have the record and an older chunk."""
    path, chunk = tmp_path / "run.zarr", tmp_path / "run.zarr" / "q" / "c" / "1" / "0"
    options = {"step": 0.01, "compile": False, "store": path}
    da.simulate(DOUBLE, "rattle", t_end=0.9, **options)
    older = chunk.read_bytes()
    whole = da.simulate(DOUBLE, "rattle", t_end=1.1, **options)
    chunk.write_bytes(older)
    with pytest.warns(da.DalembertWarning, match="'q/c/1/0' is older than the last row"):
        same(da.simulate(DOUBLE, "rattle", t_end=1.1, **options), whole)


def test_more_damage_is_an_error_that_says_where(tmp_path, often):
    path = tmp_path / "run.zarr"
    da.simulate(DOUBLE, "rattle", t_end=5.0, step=0.01, compile=False, store=path)
    tear(path / "q" / "c" / "2" / "0", "changed")
    run = da.open(path)
    assert len(run.q[:100]) == 100
    with pytest.raises(da.FileError, match=r"'q/c/2/0' is damaged: its check sum"):
        run.solution()
    for k in range(len(list((path / "q" / "c").iterdir()))):
        tear(path / "q" / "c" / str(k) / "0", "missing")
    for use in (da.open, lambda p: da.simulate(DOUBLE, "rattle", t_end=5.0, step=0.01, compile=False, store=p)):
        with pytest.raises(da.FileError, match="cannot be read"):
            use(path)


def rewritten(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_nothing_in_a_store_is_let_in(tmp_path):
    """Other codecs, other arrays, older formats and a changed record are refused before another library sees them."""
    path, fresh = tmp_path / "run.zarr", tmp_path / "fresh.zarr"
    da.simulate(DOUBLE, "rattle", t_end=1.0, step=0.01, store=fresh)
    pickled = {"name": "numcodecs.pickle", "configuration": {}}

    def codec(data):
        data["codecs"].append(pickled)

    def kind(data):
        data.update(data_type="object", codecs=[pickled])

    def larger(data):
        data["chunk_grid"]["configuration"]["chunk_shape"][0] = 2**40

    def record(data):
        data["attributes"]["dalembert"] = data["attributes"]["dalembert"].replace('"rows": 100', '"rows": 99')

    changes = {"q/zarr.json": (codec, kind, larger), "zarr.json": (record, lambda data: data["attributes"].update(format=9))}
    for name, several in changes.items():
        for change in several:
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(fresh, path)
            rewritten(path / name, change)
            with pytest.raises(da.FileError, match="cannot be read as a store"):
                da.open(path)
    shutil.rmtree(path)
    shutil.copytree(fresh, path)
    (path / "evil").mkdir()
    (path / "evil" / ".zarray").write_text(json.dumps({"zarr_format": 2, "filters": [{"id": "pickle"}], "dtype": "|O"}))
    with pytest.raises(da.FileError, match="it holds 'evil', which is not dalembert's"):
        da.open(path)
    shutil.rmtree(path / "evil")
    (path / "q" / "zarr.json").unlink()
    (path / "q" / "zarr.json").symlink_to("/dev/zero")
    with pytest.raises(da.FileError, match=r"'q/zarr\.json' is no ordinary file"):
        da.open(path)
    for name in (tmp_path, tmp_path / "none.zarr", fresh / "zarr.json", 3):
        with pytest.raises(da.FileError):
            da.open(name)


# ---- reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["equal", "every seventh", "inputs"])
def test_slices_are_those_of_the_whole(tmp_path, name):
    (system, method, options), path = RUNS[name], tmp_path / "run.zarr"
    whole = da.simulate(system, method, store=path, **options)
    run = da.open(path)
    for key in ("t", "t_lam", "x", "u", "y", "lam", "energy", "supplied", "dissipated", *system.state):
        lazy, values = getattr(run, key), getattr(whole, key)
        assert lazy.shape == values.shape
        for part in (slice(None), slice(3, 90), slice(60, 70), slice(None, None, 7), slice(5, None, 100), slice(9, 2), -1, 0, 64):
            np.testing.assert_array_equal(lazy[part], values[part], err_msg=f"{key} {part}")
        np.testing.assert_array_equal(np.asarray(lazy), values)
    np.testing.assert_allclose(run.power_balance[10:80], whole.power_balance[10:80], atol=1e-15)
    np.testing.assert_array_equal(run[20:90].x, whole.x[20:90])
    np.testing.assert_array_equal(run[::10].x[:9], whole.x[:90:10])
    with pytest.raises(IndexError):
        run.t[10**6]
    with pytest.raises(da.MethodError, match="slice of its rows"):
        run[3]


def test_what_does_not_fit_into_memory_is_not_read(tmp_path, monkeypatch):
    da.simulate(DOUBLE, "rattle", t_end=5.0, step=0.01, store=tmp_path / "run.zarr")
    monkeypatch.setattr("dalembert.solution.stored.HELD", 100)
    run = da.open(tmp_path / "run.zarr")
    with pytest.raises(da.MethodError, match=r"ask for fewer: energy\[first:last:every\]"):
        run.energy[:]
    assert len(run.energy[::100]) == 6


@pytest.mark.parametrize("name", ["every seventh", "adaptive", "events"])
def test_it_can_be_read_while_the_run_goes_on(tmp_path, monkeypatch, often, name):
    (system, method, options), path = RUNS[name], tmp_path / "run.zarr"
    whole, original, seen = da.simulate(system, method, **options), Store.write, []

    def write(self, run):
        original(self, run)
        found = da.open(path)
        begins(found.solution(), whole, loose=0)
        assert not found.finished
        seen.append((len(found), len(found.to_xarray()["t"]), found.stats["steps"]))

    monkeypatch.setattr(Store, "write", write)
    da.simulate(system, method, store=path, **options)
    assert len({rows for rows, *_ in seen}) > 1
    assert all(rows == times for rows, times, _ in seen)
    assert "not finished" not in repr(da.open(path))


def test_other_programs_read_it(tmp_path):
    whole = da.simulate(DAMPED, "energy-momentum", t_end=2.0, step=0.01, save_every=3, store=tmp_path / "run.zarr")
    group = zarr.open_group(tmp_path / "run.zarr", mode="r", zarr_format=3)
    np.testing.assert_array_equal(group["q"][:], whole.q)
    np.testing.assert_array_equal(group["lam"][:], whole.lam)
    data = da.open(tmp_path / "run.zarr").to_xarray()
    np.testing.assert_array_equal(data["v"][-1], whole.v[-1])
    np.testing.assert_array_equal(data["t_lam"], whole.t_lam)
    assert data.sizes["time"] == len(whole.t)
    assert data["coordinate"].values.tolist() == list(DAMPED.coordinates)
