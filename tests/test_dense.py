"""The motion between stored times: of the order of the method in all parts, at its ends, and whatever was stored."""

import importlib.util
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.steps import Shortened
from dalembert.methods.base import able, find
from dalembert.solution.dense import chebyshev, interpolation

DOCS = Path(__file__).parents[1] / "docs"
TIMES = np.linspace(0.013, 1.987, 41)


@pytest.fixture(scope="module")
def angle():
    return da.Mechanical(1, mass=1.0, potential=lambda q: -9.81 * np.cos(q[0]), name="pendulum in its angle")


@pytest.fixture(scope="module")
def truth(angle):
    return da.simulate(angle, "gauss-8", q=[1.2], v=[0.5], t_end=2.0, step=0.01).at(TIMES, how="step")


@pytest.fixture(scope="module")
def verify():
    spec = importlib.util.spec_from_file_location("verify", DOCS / "verify.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sampled(verify):
    return verify.sampled_systems()


def slopes(angle, truth, method, how, counts=(16, 23, 32, 45)):
    errors = []
    for n in counts:
        sample = da.simulate(angle, method, q=[1.2], v=[0.5], t_end=2.0, step=2.0 / n).at(TIMES, how=how)
        errors.append([np.abs(sample.q - truth.q).max(), np.abs(sample.v - truth.v).max()])
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


FREE = [("gauss-3", 6), ("murua-3", 6), ("radau-iia-4", 7), ("lobatto-pair-4", 6), ("rk4", 4), ("radau-iia-2", 3), ("rattle", 2)]


@pytest.mark.parametrize(("method", "order"), FREE)
@pytest.mark.parametrize("how", ["polynomial", "step"])
def test_order_between_the_steps_is_that_of_the_method(angle, truth, method, order, how):
    assert np.abs(slopes(angle, truth, method, how) - order).max() < 0.35


def test_composed_and_reduced_methods(angle, truth):
    assert np.abs(slopes(angle, truth, da.compose("rattle", order=6), "polynomial") - 6).max() < 0.5
    assert np.abs(slopes(angle, truth, da.reduced.Baumgarte(integrator="rk4"), "polynomial") - 4).max() < 0.35


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("double pendulum", "lobatto-pair-3"),
        ("double pendulum", "murua-3"),
        ("double pendulum", "radau-iia-3"),
        ("double pendulum, q and p", "rattle"),
        ("double pendulum, q and p", "gauss-3"),
        ("double pendulum, q and p", "energy-momentum-ggl"),
        ("index 1", "radau-iia-3"),
        ("index 1", "rk4"),
        ("index 2", "srk-gauss-3"),
        ("index 2", "lobatto-iiic-3"),
        ("port-Hamiltonian, an algebraic state", "radau-iia-3"),
        ("port-Hamiltonian, an algebraic state", "discrete-gradient"),
    ],
)
def test_each_component_has_the_order_of_the_method(verify, sampled, name, method):
    system, start, parts = sampled[name]
    found = verify.sampled(system, start, parts, find(method))
    stated = find(method).order_on(system)
    assert all(slope > min(stated) - 0.3 for slope in found)
    assert all(slope > p - 0.3 for slope, p in zip(found, stated, strict=False))
    page = (DOCS / "verification.md").read_text()
    line = re.search(rf"\| {re.escape(name)} \| `{re.escape(method)}` \|.*", page)
    assert line is not None
    printed = [float(x) for x in re.findall(r"[a-z]+ (-?\d+\.\d+)", line.group().split("|")[-2])]
    assert np.abs(np.array(printed) - found).max() < 0.1


def test_the_page_has_all_methods(sampled):
    page = (DOCS / "verification.md").read_text()
    rows = re.findall(r"\| (.*?) \| `(.*?)` \| [\d, ]+ \| (?:[qvpxyz]|lam) ", page)
    assert set(rows) == {(k, str(m)) for k, (s, _, _) in sampled.items() for m in able(s) if not m.external}


def test_an_algebraic_variable_of_an_adaptive_run():
    system = da.IndexOneDAE(("y",), f=lambda y, z: z, g=lambda y, z, t: z - np.cos(10 * t) + 0 * y, initial={"y": [0.0]})
    control = da.control.ErrorControl(rtol=1e-10, atol=1e-12)
    sol = da.simulate(system, "radau-iia-5", t_end=2.0, step=0.1, adaptive=control)
    t = np.linspace(0.0, 2.0, 301)
    sample = sol.at(t)
    assert np.abs(sample.z[:, 0] - np.cos(10 * t)).max() < 1e-11
    assert np.abs(sample.y[:, 0] - np.sin(10 * t) / 10).max() < 1e-10


def test_a_pendulum_is_as_good_between_the_steps_as_at_them():
    system = da.Mechanical(
        2,
        mass=1.0,
        potential=lambda q: 9.81 * q[1],
        holonomic=lambda q: q @ q - 1,
        initial={"q": [1.0, 0.0], "v": [0.0, 0.0]},
    )
    sol = da.simulate(system, "lobatto-pair-4", t_end=3.0, step=0.1, adaptive=da.control.ErrorControl(rtol=1e-9, atol=1e-11))
    angle = da.Mechanical(1, mass=1.0, potential=lambda q: -9.81 * np.cos(q[0]))
    exact = da.simulate(angle, "gauss-8", q=[np.pi / 2], v=[0.0], t_end=3.0, step=0.01)

    def off(t, q, v):
        a = exact.at(t, how="step")
        sin, cos = np.sin(a.q[:, 0]), np.cos(a.q[:, 0])
        return np.abs(q - np.array([sin, -cos]).T).max(), np.abs(v - a.v * np.array([cos, sin]).T).max()

    t = np.linspace(0.001, 2.999, 151)
    sample = sol.at(t)
    inside, rows = off(t, sample.q, sample.v), off(sol.t, sol.q, sol.v)
    assert rows[0] < 1e-7
    assert inside[0] < 1.1 * rows[0]
    assert inside[1] < 1.1 * rows[1]
    a = exact.at(t, how="step")
    assert np.abs(sample.lam[:, 0] - (a.v[:, 0] ** 2 + 9.81 * np.cos(a.q[:, 0])) / 2).max() < 10 * rows[1]


@pytest.mark.parametrize("method", ["lobatto-pair-3", "rattle", "murua-ggl-3", "energy-momentum"])
def test_shortened_steps_stay_on_the_constraints(method):
    system = da.catalog.make("double-pendulum")
    sol = da.simulate(system, method, t_end=1.0, step=0.02, save_every=7)
    sample = sol.at(np.linspace(0.0, 1.0, 77), how="step")
    assert np.abs(system.numeric("holonomic", sol._par, q=sample.q)).max() < 1e-13
    assert np.array_equal(sol.at(sol.t, how="step").q, sol.q)
    assert np.array_equal(sol.at(sol.t).v, sol.v)


@pytest.mark.parametrize("method", ["gauss-3", "rattle", "murua-3", "radau-iia-3"])
def test_saving_less_often_loses_nothing(angle, method):
    full = da.simulate(angle, method, q=[1.2], v=[0.5], t_end=2.0, step=0.03)
    thin = da.simulate(angle, method, q=[1.2], v=[0.5], t_end=2.0, step=0.03, save_every=9)
    for how in ("polynomial", "step"):
        assert np.abs(full.at(TIMES, how=how).q - thin.at(TIMES, how=how).q).max() < 1e-12
        assert np.abs(full.at(TIMES, how=how).v - thin.at(TIMES, how=how).v).max() < 1e-11


@pytest.mark.parametrize("every", [4, 13])
def test_controlled_runs_may_save_less_often(angle, truth, every):
    control = da.control.ErrorControl(rtol=1e-9, atol=1e-11)
    sol = da.simulate(angle, "gauss-3", q=[1.2], v=[0.5], t_end=2.0, step=0.1, adaptive=control, save_every=every)
    rows = da.simulate(angle, "gauss-3", q=[1.2], v=[0.5], t_end=2.0, step=0.1, adaptive=control)
    error = np.abs(rows.at(TIMES).v - truth.v).max()
    assert np.abs(sol.at(TIMES).v - truth.v).max() < 2 * error + 1e-9
    assert np.abs(sol.at(TIMES, how="step").v - truth.v).max() < 2 * error + 1e-9


@pytest.mark.parametrize("method", ["gauss-3", "murua-4", "radau-iia-3", "lobatto-iiia-4", "rattle"])
def test_polynomials_meet_at_the_steps(angle, method):
    sol = da.simulate(angle, method, q=[1.2], v=[0.5], t_end=2.0, step=0.1)
    before = sol.at(sol.t[1:] * (1 - 1e-13))
    assert np.abs(before.q - sol.q[1:]).max() < 1e-11
    assert np.abs(before.v - sol.v[1:]).max() < 1e-10


def test_many_times_in_a_step_cost_no_more_than_one(angle, monkeypatch):
    sol = da.simulate(angle, "gauss-3", q=[1.2], v=[0.5], t_end=2.0, step=0.5)
    calls, call = [], Shortened.__call__
    monkeypatch.setattr(Shortened, "__call__", lambda self, *a: calls.append(a) or call(self, *a))
    sol.at(np.linspace(0.6, 0.9, 5000))
    many, calls[:] = len(calls), []
    one = sol.at(0.75)
    assert many == len(calls) == 5
    assert np.abs(one.q - sol.at(np.linspace(0.6, 0.9, 3)).q[1]).max() < 1e-15
    calls.clear()
    sol.at(sol.t)
    assert not calls


@pytest.mark.parametrize("method", ["gauss-3", "rk4", "radau-iia-3"])
def test_inputs_are_asked_again(method):
    system = da.Mechanical(1, mass=1.0, inputs=[[1.0]])
    sol = da.simulate(system, method, q=[0.0], v=[0.0], u=lambda t: [t**2], t_end=1.0, step=0.25)
    t = np.linspace(0, 1, 13)
    assert np.abs(sol.at(t).q[:, 0] - t**4 / 12).max() < (1e-14 if method != "rk4" else 1e-3)
    assert np.abs(sol.at(t).v[:, 0] - t**3 / 3).max() < 1e-14


@pytest.mark.parametrize("method", ["radau-iia-3", "lobatto-iiia-3", "rattle", "dop853"])
@pytest.mark.parametrize("how", ["polynomial", "step"])
def test_held_inputs_between_the_steps(method, how):
    system = da.Mechanical(1, mass=1.0, inputs=[[1.0]])
    sol = da.simulate(system, method, q=[0.0], v=[0.0], u=([0.0, 0.5], [1.0, -3.0]), t_end=1.0, step=0.25)
    t = np.linspace(0, 1, 37)
    late = np.maximum(t - 0.5, 0)
    for run in (sol, pickle.loads(pickle.dumps(sol))):
        sample = run.at(t, how=how)
        assert np.abs(sample.v[:, 0] - (t - 4 * late)).max() < 1e-14
        assert np.abs(sample.q[:, 0] - (t**2 / 2 - 2 * late**2)).max() < 1e-14


def test_algebraic_variables_after_a_jump():
    system = da.IndexOneDAE(("y",), f=lambda z: z, g=lambda z, u: z - u, inputs=1, initial={"y": [0.0]})
    sol = da.simulate(system, "lobatto-iiia-3", u=([0.0, 0.5], [1.0, -3.0]), t_end=1.0, step=0.25)
    t = np.array([0.3, 0.5, 0.51, 0.74, 0.9])
    assert np.abs(sol.at(t).z[:, 0] - [1.0, 1.0, -3.0, -3.0, -3.0]).max() < 1e-14


def test_integrators_of_scipy_go_on_from_their_rows(angle, truth):
    for method in ("dop853", "bdf"):
        sol = da.simulate(angle, find(method), q=[1.2], v=[0.5], t_end=2.0, step=0.5)
        rows = np.abs(sol.q[-1] - da.simulate(angle, "gauss-8", q=[1.2], v=[0.5], t_end=2.0, step=0.01).q[-1]).max()
        assert np.abs(sol.at(TIMES).q - truth.q).max() < 10 * rows + 1e-6


def test_adaptive_steps_have_a_dense_output(angle, truth):
    sol = da.simulate(angle, "gauss-4", q=[1.2], v=[0.5], t_end=2.0, step=0.1, adaptive=da.control.ErrorControl(rtol=1e-9))
    assert np.abs(sol.at(TIMES).q - truth.q).max() < 1e-8
    assert np.abs(sol.at(TIMES, how="step").q - truth.q).max() < 1e-8


@pytest.mark.parametrize("method", ["shake", "energy-momentum", "rattle", "lobatto-pair-3"])
def test_tiny_steps_do_not_lose_their_velocities(method):
    sol = da.simulate(da.catalog.double_pendulum(), method, t_end=0.1, step=0.01)
    for part in (1e-15, 1e-12, 1e-9, 1e-7, 1e-5):
        t = sol.t[3:8] + 0.01 * part
        rate = np.abs(np.diff(sol.v, axis=0)).max() / 0.01
        assert np.abs(sol.at(t, how="step").v - sol.at(t).v).max() < 2e-3
        assert np.abs(sol.at(t, how="step").q - sol.q[3:8]).max() < 0.01 * part * 10 + 1e-15
        assert np.abs(sol.at(t).v - sol.v[3:8]).max() < 0.01 * part * 3 * rate + 1e-14


def test_shapes(angle):
    system = da.catalog.double_pendulum()
    sol = da.simulate(system, "rattle", t_end=0.1, step=0.01)
    assert sol.at(0.033).q.shape == (4,)
    assert sol.at(0.033).lam.shape == (2,)
    assert sol.at([[0.01, 0.02], [0.03, 0.04]]).lam.shape == (2, 2, 2)
    with pytest.raises(da.MethodError, match="there is no lam here"):
        _ = da.simulate(angle, "rattle", q=[1.0], v=[0.0], t_end=0.1, step=0.1).at(0.05).lam


def test_bad_questions(angle):
    sol = da.simulate(angle, "rattle", q=[1.2], v=[0.5], t_end=1.0, step=0.1)
    with pytest.raises(da.MethodError, match="how must be"):
        sol.at(0.5, how="spline")
    with pytest.raises(da.MethodError, match="reaches from"):
        sol.at(2.0)


@pytest.mark.parametrize("degree", [1, 2, 5, 16])
def test_interpolation_is_exact_for_polynomials(degree):
    nodes, x = chebyshev(degree), np.array([0.0, 0.123, 0.5, 0.77, 1.0])
    assert np.abs(interpolation(nodes, x) @ nodes**degree - x**degree).max() < 1e-14
