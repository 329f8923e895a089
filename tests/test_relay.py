"""Checkpoints of runs whose events act: killed anywhere and resumed, bit by bit the run that was never interrupted."""

import itertools

import numpy as np
import pytest

import dalembert as da
from conftest import killed
from dalembert import relay


@pytest.fixture
def often(monkeypatch):
    """Written after some of the stretches of steps."""
    count = itertools.count()
    monkeypatch.setattr(relay.Relay, "due", lambda self, run: next(count) in (0, 3, 20))


@pytest.fixture(scope="module")
def ball():
    return da.Mechanical(("y",), mass=1.0, potential=lambda q, g: g * q[0], parameters={"g": 9.81}, inputs={"push": [1.0]})


def law(t, y, state):
    return (2.0 * (1 - y[0]) if t > 0.05 else 0.0) + state[0], state + 0.01


def same(one, other):
    np.testing.assert_allclose(one.t, other.t, rtol=3e-16, atol=0)  # the end of a shorter run is t_end, and not t0 + k h
    for name in ("q", "v", "u", "lam", "supplied", "dissipated"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert [len(arc.t) for arc in one.arcs] == [len(arc.t) for arc in other.arcs]
    assert [jump.event for jump in one.jumps] == [jump.event for jump in other.jumps]
    for name, hits in one.events.items():
        np.testing.assert_array_equal(hits.t, other.events[name].t)
    for name, samples in one.samples.items():
        for key, values in vars(samples).items():
            np.testing.assert_array_equal(values, getattr(other.samples[name], key), err_msg=key)
    assert one.stats["steps"] == other.stats["steps"]
    assert one.stats["arcs"] == other.stats["arcs"]


floor = da.impact(lambda q: q[0], 0.8, name="floor")
stick = da.stop(lambda q: q[0], name="floor")
CASES = {
    "bounces": {"events": floor},
    "adaptive": {"events": floor, "adaptive": "error"},
    "rests": {"events": stick, "u": lambda t: [12.0 * np.sin(3 * t)]},
    "controlled": {"events": floor, "u": da.Sampled(law, every=0.02, state=[0.0])},
    "acts": {"events": da.Event(lambda q: q[0], -1, action=lambda v, g: {"v": -0.9 * v, "g": 0.9 * g})},
}


@pytest.mark.parametrize(("case", "at"), {"bounces": 5, "adaptive": 40, "rests": 2, "controlled": 24, "acts": 3}.items())
def test_a_killed_run_goes_on(ball, case, at, often, tmp_path, monkeypatch):
    path, options = tmp_path / "run.nc", {"q": [0.3], "v": [0.0], "step": 0.01, "compile": False, **CASES[case]}

    def run(t_end=1.2, **more):
        return da.simulate(ball, "rattle" if case == "rests" else "gauss-2", t_end=t_end, **options, **more)

    whole = run()
    killed(monkeypatch, at, lambda: run(checkpoint=path))
    found = da.load(path)
    assert 0 < found.t[-1] < 1.2
    same(run(checkpoint=path), whole)
    same(da.load(path), whole)
    if case in ("bounces", "controlled"):
        same(run(checkpoint=path), whole)  # it is read
        same(run(checkpoint=path, t_end=1.4), run(t_end=1.4))


def test_another_run_is_refused_and_what_ends_a_run_is_kept(ball, tmp_path):
    path = tmp_path / "run.nc"
    end = da.Event(lambda t: t - 1.0, terminal=True, name="end")
    options = {"q": [0.3], "v": [0.0], "step": 0.01, "t_end": 3.0, "checkpoint": path}
    one = da.simulate(ball, "gauss-2", events=[floor, end], **options)
    assert one.t[-1] == pytest.approx(1.0, abs=1e-14)
    same(da.simulate(ball, "gauss-2", events=[floor, end], **options), one)
    with pytest.raises(da.MethodError, match=r"another run \(events differ\)"):
        da.simulate(ball, "gauss-2", events=[da.impact(lambda q: q[0], 0.7, name="floor"), end], **options)
