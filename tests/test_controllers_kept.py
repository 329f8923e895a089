"""Runs with controllers in checkpoints and stores: killed and resumed, they are bit by bit the run that was never interrupted."""

import itertools

import numpy as np
import pytest

import dalembert as da
from conftest import killed
from dalembert import keeper

EVERY = 0.02


@pytest.fixture(scope="module")
def cart():
    return da.catalog.cart_pendulum()


@pytest.fixture
def often(monkeypatch):
    """Written after some of the stretches of steps."""
    count = itertools.count()
    monkeypatch.setattr(keeper.Keeping, "due", lambda self, run: next(count) in (0, 1, 40))


def law(t, y, state, u):
    """A PID with a branch: it is called, not traced."""
    rate, total = (y[0] - state[0]) / EVERY, state[1] + EVERY * y[0]
    force = 40.0 * y[0] + 6.0 * rate + 20.0 * total
    return (0.5 * (force + u[0]) if t > 0.1 else force), [y[0], total]


def sampled(function=law, **options):
    return da.Sampled(function, every=EVERY, outputs=lambda q: q[1], state=[0.1, 0.0], **options)


def same(one, other):
    for name in ("t", "q", "v", "u", "supplied"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("t", "y", "u", "state"):
        np.testing.assert_array_equal(getattr(one.samples["force"], name), getattr(other.samples["force"], name), err_msg=name)


@pytest.mark.parametrize("where", ["checkpoint", "store"])
@pytest.mark.parametrize(
    "options",
    [
        {"compile": False},
        {"compile": "newton", "save_every": 3},
        {"compile": False, "adaptive": da.control.ErrorControl(rtol=1e-6, atol=1e-8)},
        {"compile": False, "traced": True, "events": lambda q: q[1]},
    ],
)
def test_a_killed_run_goes_on(cart, where, options, often, tmp_path, monkeypatch):
    options = dict(options)
    traced = options.pop("traced", None)
    controller = sampled() if not traced else sampled(lambda y, state: (40.0 * y[0] + 20 * state[1], [y[0], state[1] + y[0]]))
    given = {"step": EVERY / 4, "u": {"force": controller}, **options}
    whole = da.simulate(cart, "gauss-2", t_end=1.0, **given)
    path = tmp_path / ("run.nc" if where == "checkpoint" else "run.zarr")

    def run(t_end=1.0):
        return da.simulate(cart, "gauss-2", t_end=t_end, **given, **{where: path})

    killed(monkeypatch, 60 if "adaptive" in options else 2, run)
    found = da.load(path) if where == "checkpoint" else da.open(path).solution()
    assert 0 < found.t[-1] < 1.0
    again = run()
    same(again, whole)
    read = da.load(path) if where == "checkpoint" else da.open(path).solution()
    same(read, whole)
    same(run(), whole)  # it is read
    if "save_every" not in options and "adaptive" not in options:
        longer = run(t_end=1.2)
        same(longer, da.simulate(cart, "gauss-2", t_end=1.2, **given))


def test_controllers_that_remember_elsewhere(cart, often, tmp_path, monkeypatch):
    """What a controller keeps outside of its state is not written: that is said, and such a run does not go on."""
    count = []

    def counts(y):
        count.append(1)
        return 0.1 * len(count)

    def run(controller=counts, **options):
        given = {"t_end": 8.0, "step": EVERY / 4, "compile": False, "checkpoint": tmp_path / "run.nc", **options}
        return da.simulate(cart, "gauss-2", u=da.Sampled(controller, every=EVERY), **given)

    with pytest.warns(da.DalembertWarning, match="changes what it refers to"):
        killed(monkeypatch, 3, run)
    count.clear()
    with pytest.raises(da.MethodError, match="cannot go on: the controller of 'force' had changed"):
        run()
    with pytest.raises(da.MethodError, match="inputs u differ"):
        run(lambda y: 0.0)
