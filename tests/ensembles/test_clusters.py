"""Sweeps on a real cluster of processes: each member once, whoever is killed; other stores are refused."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

import dalembert as da
from dalembert.ensembles import clusters as sweeping
from dalembert.ensembles.samples import draw
from dalembert.ensembles.table import Table

SYSTEM = da.catalog.double_pendulum()
RUN = {"t_end": 2.0, "step": 0.01, "reduce": "final"}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
        Client(cluster) as found,
    ):
        yield found


def masses(count):
    return np.linspace(1.0, 2.0, count)


def done(path):
    return zarr.open_group(path, mode="r")["done"][:]


def slowly(sol):
    """A reduction that takes its time, and leaves a trace of each member that was run."""
    time.sleep(0.01)
    if "DALEMBERT_TRACE" in os.environ:
        with open(os.environ["DALEMBERT_TRACE"], "a") as stream:
            stream.write(f"{sol._par[0]!r}\n")
    return sol.q[-1, 0]


def test_a_sweep_is_the_ensemble(client, tmp_path):
    samples = {"m1": masses(100)}
    swept = da.sweep(SYSTEM, "rattle", samples=samples, client=client, store=tmp_path / "a.zarr", **RUN)
    own = da.ensemble(SYSTEM, "rattle", samples=samples, **RUN)
    for name in ("q", "v", "energy", "m1"):
        np.testing.assert_array_equal(swept[name], own[name])
    assert (swept.error == "").all()
    assert done(tmp_path / "a.zarr").all()


def test_rows_are_kept_without_a_store(client):
    options = {"samples": {"m1": masses(10)}, "t_end": 0.2, "step": 0.01}
    swept, own = da.sweep(SYSTEM, "rattle", client=client, **options), da.ensemble(SYSTEM, "rattle", **options)
    for name in ("q", "lam", "time", "time_lam", "dissipated"):
        np.testing.assert_array_equal(swept[name], own[name])
    assert swept.q.dims == own.q.dims == ("member", "time", "coordinate")


def test_failures_are_kept(client, tmp_path):
    v = np.zeros((10, 4))
    v[3] = [0.0, 1e9, 0.0, 2e9]
    swept = da.sweep(SYSTEM, "rattle", samples={"v": v}, client=client, store=tmp_path / "a.zarr", **RUN)
    errors = [str(e) for e in swept.error.values]
    assert errors[3].startswith("ConvergenceError")
    assert errors.count("") == 9
    assert np.isnan(swept.q[3]).all()
    assert np.isfinite(swept.q[4]).all()


def test_a_killed_worker_loses_nothing_and_nothing_counts_twice(client, tmp_path):
    samples, path = {"m1": masses(300)}, tmp_path / "a.zarr"
    victims = list(client.run(os.getpid).values())
    whole, killed = Table.put, []

    def put(self, block, rows):
        whole(self, block, rows)
        if not killed:
            killed.append(victims[0])
            os.kill(victims[0], signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "put", put)
        swept = da.sweep(SYSTEM, "rattle", samples=samples, client=client, store=path, t_end=2.0, step=0.01, reduce={"x": slowly})
    assert killed
    own = da.ensemble(SYSTEM, "rattle", samples=samples, t_end=2.0, step=0.01, reduce={"x": lambda sol: sol.q[-1, 0]})
    np.testing.assert_array_equal(swept.x, own.x)
    assert done(path).tolist() == [1] * len(done(path))


SCRIPT = """
import os, sys
import numpy as np
import dalembert as da
from tests.ensembles.test_clusters import slowly

if __name__ == "__main__":
    da.sweep(
        da.catalog.double_pendulum(), "rattle", samples={"m1": np.linspace(1.0, 2.0, 160)}, store=sys.argv[1], cores=1,
        t_end=2.0, step=0.01, reduce={"x": slowly}, progress=False,
    )
"""


def test_a_sweep_that_is_killed_goes_on_where_it_was(tmp_path):
    path, trace, script = tmp_path / "a.zarr", tmp_path / "trace", tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "DALEMBERT_TRACE": str(trace), "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    process = subprocess.Popen([sys.executable, str(script), str(path)], env=environment, start_new_session=True)
    while not (path / "done").exists() or not done(path).any():
        assert process.poll() is None, "the sweep ended before it was killed"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    marked = done(path).astype(bool)
    assert not marked.all()
    trace.unlink()
    subprocess.run([sys.executable, str(script), str(path)], env=environment, check=True, timeout=300)
    assert done(path).all()
    again = {float(line.split("(")[-1].rstrip(")\n")) for line in trace.read_text().splitlines()}
    size = json.loads((path / "zarr.json").read_text())["attributes"]["block"]
    missing = [m for k, m in enumerate(np.linspace(1.0, 2.0, 160)) if not marked[k // size]]
    assert again == set(missing)
    own = da.ensemble(SYSTEM, "rattle", samples={"m1": masses(160)}, t_end=2.0, step=0.01, reduce={"x": lambda sol: sol.q[-1, 0]})
    np.testing.assert_array_equal(zarr.open_group(path, mode="r")["x"][:], own.x)


def test_a_finished_sweep_is_read(client, tmp_path, monkeypatch):
    options = {"samples": {"m1": masses(5)}, "store": tmp_path / "a.zarr", **RUN}
    first = da.sweep(SYSTEM, "rattle", client=client, **options).load()
    monkeypatch.setattr(sweeping, "connected", None)  # there is nothing to connect for
    again = da.sweep(SYSTEM, "rattle", **options)
    np.testing.assert_array_equal(first.q, again.q)


def test_random_samples_go_on_with_their_seed(client, tmp_path):
    options = {
        "samples": {"m1": lambda rng, members: rng.uniform(1, 2, members)}, "members": 5, "store": tmp_path / "a.zarr",
        "client": client, **RUN,
    }  # fmt: skip
    first, again = da.sweep(SYSTEM, "rattle", **options).load(), da.sweep(SYSTEM, "rattle", **options).load()
    np.testing.assert_array_equal(first.m1, again.m1)
    with pytest.raises(da.MethodError, match="differs in samples"):
        da.sweep(SYSTEM, "rattle", seed=0, **options)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"t_end": 3.0}, "t_end"), ({"step": 0.02}, "step"), ({"parameters": {"g": 1.0}}, "parameters"),
        ({"samples": {"m1": [1.0, 3.0]}}, "samples"), ({"reduce": "extrema"}, "reduce"), ({"tolerance": 1e-9}, "tolerance"),
    ],
)  # fmt: skip
def test_another_sweep_is_refused_with_what_differs(client, tmp_path, change, told):
    options = {"samples": {"m1": [1.0, 2.0]}, "store": tmp_path / "a.zarr", "client": client, **RUN}
    da.sweep(SYSTEM, "rattle", **options)
    with pytest.raises(da.MethodError, match=f"differs in .*{told}"):
        da.sweep(SYSTEM, "rattle", **{**options, **change})


def test_places_that_cannot_be_are_refused(client, tmp_path):
    options = {"samples": {"m1": [1.0]}, "client": client, **RUN}
    with pytest.raises(da.MethodError, match=r"\.zarr"):
        da.sweep(SYSTEM, "rattle", store=tmp_path / "a.nc", **options)
    with pytest.raises(da.MethodError, match="nothing can be written"):
        da.sweep(SYSTEM, "rattle", store=tmp_path / "nowhere" / "a.zarr", **options)
    foreign = tmp_path / "b.zarr"
    zarr.create_group(foreign)
    with pytest.raises(da.FileError, match="not the store of a sweep"):
        da.sweep(SYSTEM, "rattle", store=foreign, **options)
    damaged = tmp_path / "c.zarr"
    damaged.mkdir()
    (damaged / "zarr.json").write_text("{")
    with pytest.raises(da.FileError, match="not the store of a sweep"):
        da.sweep(SYSTEM, "rattle", store=damaged, **options)


def test_two_sweeps_do_not_write_one_store(client, tmp_path):
    path = tmp_path / "a.zarr"
    options = {"samples": {"m1": [1.0]}, "client": client, **RUN}
    da.sweep(SYSTEM, "rattle", store=path, **options)
    job, drawn = sweeping.make(
        SYSTEM, "rattle", samples={"m1": [1.0]}, members=None, seed=None, given={}, t0=0.0, u=None, parameters=None,
        tolerance=None, max_iterations=25, adaptive=False, events=(), save_every=1, compile="auto", progress=None, **RUN,
    )  # fmt: skip
    with Table.open(path, job, drawn), pytest.raises(da.MethodError, match="another run is writing"):
        da.sweep(SYSTEM, "rattle", store=path, **options)


def test_no_cluster_at_an_address(monkeypatch):
    monkeypatch.setattr(sweeping, "WAIT", 0.5)
    with pytest.raises(da.MethodError, match="no cluster at"):
        da.sweep(SYSTEM, "rattle", samples={"m1": [1.0]}, client="tcp://127.0.0.1:9", **RUN)
    with pytest.raises(da.MethodError, match="client must be"):
        da.sweep(SYSTEM, "rattle", samples={"m1": [1.0]}, client=3, **RUN)


def test_samples_of_a_part_are_those_of_the_whole():
    drawn = draw(SYSTEM, {"m1": masses(10), "q": np.ones((10, 4))}, None, None)
    part = drawn.part(3, 7)
    assert part.members == 4
    np.testing.assert_array_equal(part.parameters["m1"], masses(10)[3:7])
    assert part.starts["q"].shape == (4, 4)


def test_a_finished_sweep_starts_no_cluster_from_the_shell(client, tmp_path, monkeypatch):
    """The shell looks for a cluster when there is work for one, and reads what is finished without."""
    from typer.testing import CliRunner

    from dalembert.cli import app

    study = tmp_path / "study.toml"
    address = client.scheduler.address
    study.write_text(
        f'system = "double-pendulum"\nmethod = "rattle"\nt_end = 0.1\nstep = 0.01\nstore = "a.zarr"\naddress = "{address}"\n'
        'reduce = "final"\n[samples]\nm1 = [1.0, 1.5, 2.0]\n'
    )
    first = CliRunner().invoke(app, ["sweep", str(study)])
    assert first.exit_code == 0, first.output
    assert "dashboard" in first.output
    monkeypatch.setattr(sweeping, "_run", None)
    monkeypatch.setattr("distributed.Client", None)
    again = CliRunner().invoke(app, ["sweep", str(study)])
    assert again.exit_code == 0, again.output
    assert "dashboard" not in again.output
    assert "3 members" in again.output
