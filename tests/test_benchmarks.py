"""The benchmark script: its numbers are seconds per step, of the steps that were made."""

import runpy
import time
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert.engine import compiler

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "run.py"


def test_seconds_per_step(monkeypatch):
    calls, clock = [], [3.0]

    def simulate(system, method, **options):
        calls.append(options)
        clock[0] += 0.25

    per_step = runpy.run_path(str(SCRIPT))["per_step"]
    monkeypatch.setattr(da, "simulate", simulate)
    monkeypatch.setattr(time, "process_time", lambda: clock[0])
    assert per_step(None, "rattle", 500, True, h=0.02) == pytest.approx(0.25 / 500)
    assert calls == [{"t_end": 10.0, "step": 0.02, "compile": True, "save_every": 500}]


@pytest.mark.skipif(compiler.find() is None, reason="no C compiler on this machine")
def test_the_hand_written_loops_make_the_same_motion():
    """What is compared is the same computation: the end of a run in C is that of ours."""
    import ctypes

    script = runpy.run_path(str(SCRIPT))
    library, pointer = script["reference"](), script["pointer"]
    q, v = np.array([1, 0, 2, 0.0]), np.zeros(4)
    mass, length = np.array([3.0, 1.0]), np.array([1.0, 1.0])
    done = library.double_pendulum(
        ctypes.c_long(100), ctypes.c_double(0.01), pointer(mass), pointer(length), ctypes.c_double(9.81), pointer(q), pointer(v),
        ctypes.c_double(1e-14),
    )  # fmt: skip
    assert done > 0
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=1.0, step=0.01)
    np.testing.assert_allclose(q, sol.q[-1], atol=1e-10)
    np.testing.assert_allclose(v, sol.v[-1], atol=1e-9)
    q, v = np.array([0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0.0]), np.zeros(12)
    v[11] = 2 / 1.7
    mass, K = np.array([1, 3, 2.3, 1.7]), np.array([100.0, 1000.0])
    done = library.four_particles(
        ctypes.c_long(100), ctypes.c_double(0.01), pointer(mass), pointer(K), pointer(q), pointer(v), ctypes.c_double(8.9e-16)
    )
    assert done > 0
    sol = da.simulate(da.catalog.four_particles(), "energy-momentum", t_end=1.0, step=0.01)
    np.testing.assert_allclose(q, sol.q[-1], atol=1e-9)


@pytest.mark.parametrize(("kind", "size"), [("chain", 12), ("net", 4)])
def test_the_reference_for_large_systems_makes_the_same_motion(kind, size):
    rods = runpy.run_path(str(SCRIPT.parent / "scale.py"))["Rods"](kind, size)
    q, v = rods.rattle(40, 0.001)
    system = da.catalog.chain(size) if kind == "chain" else da.catalog.net(size, size)
    sol = da.simulate(system, "rattle", t_end=0.04, step=0.001)
    np.testing.assert_allclose(q.ravel(), sol.q[-1], atol=1e-12)
    np.testing.assert_allclose(v.ravel(), sol.v[-1], atol=1e-11)
