"""Controllers in the loop: the same as runs by hand, in all ways to run; exact balance; and what is refused."""

import functools
import pickle
import sys

import numpy as np
import pytest

import dalembert as da

EVERY = 0.02


@pytest.fixture(scope="module")
def cart():
    return da.catalog.cart_pendulum()


def pd(y, state, l):
    """Holds the pendulum upright: angle, its rate by difference, and a sum; parameters of the system by name."""
    rate, total = (y[0] - state[0]) / EVERY, state[1] + EVERY * y[0]
    return 40.0 * y[0] + 6.0 * rate + 20.0 * l * total, [y[0], total]


def sampled(**options):
    return da.Sampled(pd, every=EVERY, outputs=lambda q: q[1], state=[0.1, 0.0], **options)


@functools.cache
def by_hand(system, method, t_end, step):
    """One call of `simulate` for each sample."""
    state, start, q, u, supplied = np.array([0.1, 0.0]), {"q": [0.0, 0.1], "v": [0.0, 0.0]}, [], [], 0.0
    for k in range(round(t_end / EVERY)):
        value, state = pd(np.array(start["q"])[1:], state, 0.5)
        piece = da.simulate(system, method, **start, t0=k * EVERY, t_end=(k + 1) * EVERY, step=step, u=[value], compile=False)
        start = {"q": piece.q[-1], "v": piece.v[-1]}
        q.append(piece.q[-1])
        u.append(value)
        supplied += piece.supplied.sum()
    return np.array(q), np.array(u), supplied


@pytest.mark.parametrize("compile", [False, "newton"])
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("method", ["energy-momentum", "gauss-2", "rattle"])
def test_one_run_is_the_loop_by_hand(cart, method, traced, compile):
    q, u, supplied = by_hand(cart, method, 1.0, EVERY / 4)
    sol = da.simulate(cart, method, t_end=1.0, step=EVERY / 4, u=sampled(traced=traced), compile=compile)
    np.testing.assert_allclose(sol.q[4::4], q, atol=1e-12)
    samples = sol.samples["force"]
    np.testing.assert_allclose(samples.u[:, 0], u, atol=1e-10)
    np.testing.assert_allclose(samples.t, EVERY * np.arange(50), atol=1e-14)
    np.testing.assert_array_equal(samples.y[:, 0], sol.q[:-1:4, 1])
    np.testing.assert_allclose(samples.state[1:, 0], samples.y[:-1, 0], atol=0)
    assert sol.supplied.sum() == pytest.approx(supplied, rel=1e-11)
    assert ("compiled" in sol.stats["engine"]) == bool(compile)
    assert np.abs(sol.q[-1, 1]) < 0.01 < np.abs(sol.q[:, 1]).max()


def test_the_work_of_the_held_input_is_exact(cart):
    """Force times way: the sum over samples of u (x1 - x0), to round-off, and the balance in every step."""
    sol = da.simulate(cart, "energy-momentum", t_end=1.0, step=EVERY / 5, u=sampled())
    assert np.abs(sol.power_balance).max() < 2e-14
    way = np.diff(sol.q[::5, 0])
    assert sol.supplied.sum() == pytest.approx(sol.samples["force"].u[:, 0] @ way, rel=1e-13)
    np.testing.assert_array_equal(sol.u[1:, 0], np.repeat(sol.samples["force"].u[:, 0], 5))


@pytest.mark.parametrize("control", ["error", "backoff"])
def test_adaptive_steps_end_at_the_samples(cart, control):
    fine = da.simulate(cart, "gauss-3", t_end=0.5, step=EVERY / 20, u=sampled())
    sol = da.simulate(cart, "gauss-3", t_end=0.5, step=EVERY / 7, u=sampled(), adaptive=control)
    gaps = np.abs(sol.t[:, None] - EVERY * np.arange(26)).min(axis=0)
    assert gaps.max() < 1e-14
    assert len(sol.samples["force"]) == 25
    np.testing.assert_allclose(sol.q[-1], fine.q[-1], atol=1e-6)


def test_a_run_is_repeated_by_its_samples(cart, tmp_path):
    """The samples are inputs like any others; dense output, files and copies have them."""
    sol = da.simulate(cart, "gauss-2", t_end=0.6, step=EVERY / 2, u=sampled())
    samples = sol.samples["force"]
    again = da.simulate(cart, "gauss-2", t_end=0.6, step=EVERY / 2, u={"force": (samples.t, samples.u)})
    np.testing.assert_allclose(again.q, sol.q, atol=1e-13)
    times = np.linspace(0.0, 0.6, 37)
    np.testing.assert_allclose(again.at(times).q, sol.at(times).q, atol=1e-12)
    for copy in (da.load(sol.save(tmp_path / "run.nc")), pickle.loads(pickle.dumps(sol))):
        for name in ("t", "y", "u", "state"):
            np.testing.assert_array_equal(getattr(copy.samples["force"], name), getattr(samples, name))
    kept = da.simulate(cart, "gauss-2", t_end=0.6, step=EVERY / 2, u=sampled(), save_every=7)
    np.testing.assert_allclose(kept.q[1:-1], sol.q[7:-1:7], atol=1e-13)
    np.testing.assert_array_equal(kept.u[1:-1], sol.u[7:-1:7])


def test_several_controllers_beside_functions_of_time():
    """Two controllers with times of their own, a wind and a table; against one that does all at the smaller time."""
    system = da.Mechanical(
        2, mass=[1.0, 2.0], potential=lambda q: q[0] ** 2 + q[1] ** 2 + q[0] * q[1],
        inputs={"a": [1.0, 0.0], "b": [0.0, 1.0], "wind": [0.5, 0.5]}, initial={"q": [1.0, -0.5], "v": [0.0, 0.0]},
    )  # fmt: skip
    u = {
        "a": da.Sampled(lambda y: -0.3 * y[2], every=0.1), "wind": lambda t: 0.1 * np.sin(5 * t),
        "b": da.Sampled(lambda y, t: -0.2 * y[1] + 0.1 * t, every=0.04),
    }  # fmt: skip
    held = {"a": 0.0, "b": 0.0}

    def both(t, y):
        k = round(t / 0.02)
        held["a"] = -0.3 * y[2] if k % 5 == 0 else held["a"]
        held["b"] = -0.2 * y[1] + 0.1 * t if k % 2 == 0 else held["b"]
        return held["a"], held["b"]

    runs = {"t_end": 1.0, "step": 0.01}
    left = da.simulate(system, "gauss-2", u=u, **runs)
    right = da.simulate(system, "gauss-2", u={("a", "b"): da.Sampled(both, every=0.02), "wind": u["wind"]}, **runs)
    np.testing.assert_allclose(left.q, right.q, atol=1e-13)
    assert sorted(left.samples) == ["a", "b"]
    assert len(left.samples["a"]) == 10
    assert len(left.samples["b"]) == 25
    assert right.samples["a, b"].u.shape == (50, 2)
    compiled = da.simulate(system, "gauss-2", u=u, compile="newton", **runs)
    np.testing.assert_allclose(compiled.q, left.q, atol=1e-12)
    free = da.simulate(system, "gauss-3", u=u, adaptive=True, **runs)
    np.testing.assert_allclose(free.q[-1], left.q[-1], atol=1e-6)


def test_what_follows_from_the_inputs_is_found_anew():
    """A circuit whose algebraic states jump with the voltage: the same as samples given beforehand."""
    parts = [("V", "source", "in", "ground"), ("R", "R1", "in", "out", 2.0), ("C", "C1", "out", "ground", 0.5)]
    circuit = da.catalog.circuit(parts)
    out = circuit.coordinates.index("v_out")
    law = da.Sampled(lambda y: 1.0 + 0.5 * (0.6 - y[out]), every=0.05)
    sol = da.simulate(circuit, "radau-iia-3", t_end=1.0, step=0.01, u=law)
    samples = next(iter(sol.samples.values()))
    start = da.consistent(circuit, x=sol.x[0], u=samples.u[0])
    again = da.simulate(circuit, "radau-iia-3", x=start.x, t_end=1.0, step=0.01, u=(samples.t, samples.u))
    np.testing.assert_allclose(sol.x[1:], again.x[1:], atol=1e-12)


@pytest.mark.parametrize("compile", [False, "newton"])
def test_events_in_a_run_with_a_controller(cart, compile):
    """Crossings are found by steps from the past, which see what was held then and leave what is held now."""
    upright = da.Event(lambda q: q[1], direction=-1, name="upright")
    sol = da.simulate(cart, "gauss-3", t_end=1.0, step=EVERY / 2, u=sampled(), events=upright, compile=compile)
    hits = sol.events["upright"]
    assert len(hits) >= 1
    assert np.abs(hits.q[:, 1]).max() < 1e-15
    np.testing.assert_allclose(sol.at(hits.t, how="step").q[:, 1], 0.0, atol=1e-14)
    plain = da.simulate(cart, "gauss-3", t_end=1.0, step=EVERY / 2, u=sampled())
    np.testing.assert_allclose(sol.q, plain.q, atol=1e-13)


def test_members_of_an_ensemble_have_controllers_of_their_own(cart):
    for controller in (sampled(), sampled(traced=False)):
        run = {"t_end": 0.4, "step": EVERY / 2, "u": {"force": controller}}
        found = da.ensemble(cart, "energy-momentum", samples={"l": [0.4, 0.5]}, **run)
        for k, length in enumerate((0.4, 0.5)):
            alone = da.simulate(cart, "energy-momentum", parameters={"l": length}, **run)
            np.testing.assert_array_equal(found.q.values[k], alone.q)
        assert np.abs(found.q.values[0] - found.q.values[1]).max() > 1e-4
    with pytest.raises(da.MethodError, match="where inputs as they were will do, give its samples"):
        da.sensitivity(cart, "gauss-2", **run)


def test_an_error_of_a_controller_loses_nothing(cart):
    def fails(t, y):
        if t > 0.3:
            raise RuntimeError("the sensor is broken")
        return 0.0

    for compile in (False, "newton"):
        with pytest.raises(
            da.ModelError, match=r"the controller failed at t = 0\.32: RuntimeError: the sensor is broken"
        ) as info:
            da.simulate(cart, "gauss-2", t_end=1.0, step=EVERY / 2, u=da.Sampled(fails, every=EVERY), compile=compile)
        assert info.value.solution.t[-1] == pytest.approx(0.32, abs=1e-14)
        assert len(info.value.solution.samples["force"]) == 16


@pytest.mark.parametrize(
    ("law", "match"),
    [
        (lambda y: [1.0, 2.0], "must return 1 numbers as u, not 2"),
        (lambda y: "much", "must return numbers as u, not 'much'"),
        (lambda y: np.nan, "u = .nan. at t = 0"),
        (lambda y, z: 0.0, "unknown argument 'z'"),
        (lambda y, state: 0.0, "asks for a state, but none was given"),
    ],
)
@pytest.mark.parametrize("compile", [False, "newton"])
def test_bad_controllers(cart, law, match, compile):
    with pytest.raises(da.DalembertError, match=match):
        da.simulate(cart, "gauss-2", t_end=0.1, step=0.01, u={"force": da.Sampled(law, every=0.01)}, compile=compile)


def test_what_controllers_return_and_keep(cart):
    """Numbers in all forms, also in compiled loops; arguments are the controller's to keep and change; nothing leaks."""
    forms = [float, int, np.float64, np.array, lambda x: [x], lambda x: (int(x),), lambda x: np.array([x]), np.float32]
    own = [list, tuple, np.array, np.float32]
    kept = []

    def law(t, y, u, state, m):
        k = round(t / EVERY)
        kept.append((y, y.copy(), u, u.copy(), state, state.copy()))
        result = forms[k % len(forms)](k), own[k % len(own)](state + [1.0, y[1]])
        return result if k % 3 else list(result)

    runs = []
    for compile in (False, "newton"):
        begun = sys.getrefcount(law), sys.getrefcount(forms), sys.getrefcount(1.0)
        controller = da.Sampled(law, every=EVERY, state=[0.0, 0.0])
        runs.append(da.simulate(cart, "gauss-2", t_end=0.8, step=EVERY, u=controller, compile=compile))
        assert all(np.array_equal(a, b) for row in kept for a, b in zip(row[::2], row[1::2], strict=True))
        samples = runs[-1].samples["force"]
        np.testing.assert_array_equal(samples.u[:, 0], np.arange(40))
        np.testing.assert_array_equal(samples.state[:, 0], np.arange(40))
        controller = None
        assert sys.getrefcount(law) <= begun[0] + 1  # one controller is kept with the system
        assert sys.getrefcount(forms) == begun[1]
    np.testing.assert_array_equal(runs[0].q, runs[1].q)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"step": 0.007}, r"every 0.02, which is 2.85714 steps of 0.007.* use step=0.00666666667"),
        ({"step": 0.04}, r"which is 0.5 steps .* use step=0.02,"),
        ({"method": "baumgarte"}, "steps of their own"),
        ({"u": {"force": sampled(), "forse": 1.0}}, "no input 'forse'"),
        ({"u": {"forse": sampled()}}, "did you mean 'force'"),
        ({"u": da.Sampled(lambda y: [y[0], y[0]], every=0.02, traced=True)}, "must return 1 inputs"),
        ({"u": da.Sampled(lambda y, state: y[0], every=0.02, state=[0.0])}, r"the pair \(u, state\)"),
        (
            {"u": da.Sampled(lambda y, state: (y[0], [1.0, 2.0]), every=0.02, state=[0.0])},
            "must return 1 numbers as state, not 2",
        ),
        ({"u": da.Sampled(lambda y: y[0] if y[0] > 0 else 0.0, every=0.02, traced=True)}, "the controller"),
    ],
)
def test_what_does_not_go_together(cart, options, match):
    call = {"method": "gauss-2", "t_end": 0.1, "step": 0.01, "u": sampled(), **options}
    with pytest.raises(da.DalembertError, match=match):
        da.simulate(cart, **call)


def test_bad_sampled():
    with pytest.raises(da.MethodError, match="every must be positive"):
        da.Sampled(pd, every=0.0)
    with pytest.raises(da.MethodError, match="a controller is a function"):
        da.Sampled(3.0, every=1.0)
    with pytest.raises(da.UnknownKeyword, match="did you mean 'outputs'"):
        da.Sampled(pd, every=1.0, output=1)
    with pytest.raises(da.MethodError, match=r"goes with da.simulate, da.ensemble and da.sweep only"):
        da.consistent(da.catalog.cart_pendulum(), u={"force": sampled()})
