"""What is said on the command line and in studies reaches the run, and how a command ends."""

import json

import numpy as np
import pytest

import dalembert as da
from test_cli import run


def test_bench_prints_microseconds(monkeypatch):
    """From runs whose times are known: the best of three, over the number of steps."""
    from types import SimpleNamespace

    seconds = iter(range(100))

    def simulate(model, method, *, t_end, step, save_every=0, compile=False):
        n = round(t_end / step)
        assert save_every in (0, n)
        return SimpleNamespace(stats={"seconds": 1e-6 * n * (10 + next(seconds) % 4) if save_every else next(seconds)})

    monkeypatch.setattr(da, "simulate", simulate)
    rows = json.loads(run("bench", "--json").stdout)
    assert [row["method"] for row in rows] == ["rattle", "lobatto-pair-3", "energy-momentum", "mclachlan-perlmutter"]
    for row in rows:
        assert row["compiled"] == pytest.approx(11.0)
        assert row["virtual machine"] == pytest.approx(11.0)


def test_parameters_reach_comparisons_and_orders(tmp_path):
    """Twice the stiffness is another motion: the error of the command is that of these parameters."""
    call = ["harmonic-oscillator", "-p", "k=40", "-i", "q=0.5", "-i", "v=1"]
    rows = json.loads(run("compare", *call, "--methods", "rattle", "--t-end", "1", "--json").stdout)
    own = da.compare(
        da.catalog.harmonic_oscillator(), ["rattle"], t_end=1.0, step=0.01, parameters={"k": 40.0}, q=[0.5], v=[1.0]
    ).rows
    for key in ("error", "energy_error", "energy_scale"):
        assert rows[0][key] == pytest.approx(own[0][key], rel=1e-12)
    assert rows[0]["energy_scale"] == pytest.approx(40 * 0.25 / 2 + 0.5, rel=0.01)
    found = json.loads(run("order", *call, "--method", "rattle", "--json").stdout)
    wanted = json.loads(
        da.convergence(da.catalog.harmonic_oscillator(), "rattle", t_end=0.5, parameters={"k": 40.0}, q=[0.5], v=[1.0]).to_json()
    )
    assert found == wanted
    found = json.loads(run("diagnose", "double-pendulum", "-p", "m2=0.01", "--json").stdout)
    assert found["conditioning"]["M"] == pytest.approx(300.0)


def test_every_field_of_a_study_reaches_the_run(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        'system = "dc-motor"\nmethod = "gauss-2"\nt0 = 0.5\nt_end = 1.5\nstep = 0.01\nsave_every = 10\nu = [2.0, -0.1]\n'
        'tolerance = 1e-9\noutput = "run.nc"\n[parameters]\nR = 0.7\n[initial]\nx = [0.01, 0.02]\n'
    )
    run("run", str(study))
    sol = da.load(tmp_path / "run.nc")
    own = da.simulate(
        da.catalog.dc_motor(), "gauss-2", x=[0.01, 0.02], t0=0.5, t_end=1.5, step=0.01, save_every=10, u=[2.0, -0.1],
        tolerance=1e-9, parameters={"R": 0.7},
    )  # fmt: skip
    np.testing.assert_array_equal(sol.t, own.t)
    np.testing.assert_array_equal(sol.x, own.x)
    assert sol.u[0].tolist() == [2.0, -0.1]
    assert sol.stats["iterations"] == own.stats["iterations"]
    study.write_text(
        'system = "simple-pendulum"\nmethod = "lobatto-pair-3"\nt_end = 1\nstep = 0.01\nadaptive = "error"\noutput = "b.nc"\n'
    )
    run("run", str(study))
    own = da.simulate(da.catalog.simple_pendulum(), "lobatto-pair-3", t_end=1.0, step=0.01, adaptive="error")
    np.testing.assert_array_equal(da.load(tmp_path / "b.nc").t, own.t)


def test_errors_of_the_operating_system_end_with_code_one(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device", "run.nc")

    monkeypatch.setattr(da, "simulate", full)
    done = run("simulate", "simple-pendulum", "--t-end", "0.1", cwd=tmp_path, code=1)
    assert "run.nc No space left on device" in done.stderr


def test_ctrl_c_ends_with_its_own_code(monkeypatch):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(da, "simulate", stopped)
    assert "interrupted" in run("simulate", "simple-pendulum", "--t-end", "0.1", code=130).stderr
