"""Ensembles: each member as by itself, failures kept apart, and nothing let in that has no meaning."""

import numpy as np
import pytest

import dalembert as da
from dalembert.ensembles.running import Blocks

SYSTEM = da.catalog.double_pendulum()
RUN = {"t_end": 1.0, "step": 0.01}


def masses(count):
    return np.linspace(1.0, 2.0, count)


@pytest.mark.parametrize("compile", [True, False, "auto"])
@pytest.mark.parametrize("method", ["rattle", "energy-momentum"])
def test_members_are_single_runs(compile, method):
    data = da.ensemble(SYSTEM, method, samples={"m1": masses(10)}, compile=compile, save_every=7, **RUN)
    assert (data.error == "").all()
    for member in (0, 3, 9):
        alone = da.simulate(SYSTEM, method, parameters={"m1": masses(10)[member]}, compile=False, save_every=7, **RUN)
        np.testing.assert_array_equal(data.time, alone.t)
        np.testing.assert_array_equal(data.time_lam, alone.t_lam)
        np.testing.assert_array_equal(data.q[member], alone.q)
        np.testing.assert_array_equal(data.v[member], alone.v)
        np.testing.assert_array_equal(data.lam[member], alone.lam)
        np.testing.assert_allclose(data.energy[member], alone.energy, rtol=1e-14, atol=1e-13)
    np.testing.assert_array_equal(data.m1, masses(10))


@pytest.mark.parametrize("method", ["gauss-2", "lobatto-pair-3", "rk45"])
def test_multipliers_of_methods_that_store_none(method):
    """They are those of accelerations, as of single runs."""
    data = da.ensemble(SYSTEM, method, samples={"m1": masses(5)}, save_every=7, **RUN)
    for member in (0, 4):
        alone = da.simulate(SYSTEM, method, parameters={"m1": masses(5)[member]}, compile="newton", save_every=7, **RUN)
        assert alone.lam.shape == (15, 2)
        np.testing.assert_array_equal(data.lam[member], alone.lam)


def test_initial_values_vary():
    angles = np.linspace(0.1, 1.5, 9)
    q = np.stack([np.sin(angles), -np.cos(angles), 2 * np.sin(angles), -2 * np.cos(angles)], axis=1)
    data = da.ensemble(SYSTEM, "rattle", samples={"q": q}, compile=True, **RUN)
    alone = da.simulate(SYSTEM, "rattle", q=q[5], compile=False, **RUN)
    np.testing.assert_array_equal(data.q[5], alone.q)
    np.testing.assert_array_equal(data.q[:, 0], q)
    assert np.abs(data.v[:, 0]).max() == 0


def test_inputs_vary():
    motor = da.catalog.dc_motor()
    u = np.array([[1.0, 0.0], [2.0, 0.1], [3.0, 0.0]])[:, : motor.nu]
    data = da.ensemble(motor, "gauss-2", samples={"u": u}, compile=True, **RUN)
    for member in range(3):
        alone = da.simulate(motor, "gauss-2", u=u[member], compile=False, **RUN)
        np.testing.assert_array_equal(data.x[member], alone.x)
        np.testing.assert_array_equal(data.supplied[member], alone.supplied)


def test_inputs_of_time_are_shared():
    motor = da.catalog.dc_motor()

    def u(t):
        return [np.sin(t)] * motor.nu

    data = da.ensemble(motor, "gauss-2", samples={"R": [1.0, 2.0]}, u=u, compile=True, **RUN)
    alone = da.simulate(motor, "gauss-2", u=u, parameters={"R": 2.0}, compile=False, **RUN)
    np.testing.assert_array_equal(data.x[1], alone.x)


def test_momenta_are_starts_too():
    oscillator = da.catalog.harmonic_oscillator()
    p = np.array([[0.5], [1.0]])
    data = da.ensemble(oscillator, "rattle", samples={"p": p, "q": [[1.0], [0.0]]}, compile=True, **RUN)
    alone = da.simulate(oscillator, "rattle", q=[0.0], p=[1.0], compile=False, **RUN)
    np.testing.assert_array_equal(data.q[1], alone.q)


@pytest.mark.parametrize("compile", [True, False])
def test_a_member_that_fails_keeps_its_error_and_the_rows_before(compile):
    q = np.tile([1.0, 0.0, 2.0, 0.0], (5, 1))
    v = np.zeros((5, 4))
    v[2] = [0.0, 1e9, 0.0, 2e9]  # far too fast for the step
    q[3, 0] += 0.1  # off the constraints
    data = da.ensemble(SYSTEM, "rattle", samples={"q": q, "v": v}, compile=compile, **RUN)
    errors = [str(e) for e in data.error.values]
    assert errors[0] == errors[1] == errors[4] == ""
    assert errors[2].startswith("ConvergenceError")
    assert errors[3].startswith("InconsistentState")
    alone = da.simulate(SYSTEM, "rattle", compile=False, **RUN)
    for member in (0, 1, 4):
        np.testing.assert_array_equal(data.q[member], alone.q)
    assert np.isnan(data.q[2, -1]).all()
    assert np.isnan(data.q[3]).all()


def test_all_members_may_fail():
    q = np.tile([1.5, 0.0, 2.0, 0.0], (3, 1))
    data = da.ensemble(SYSTEM, "rattle", samples={"q": q}, compile=True, **RUN)
    assert all(str(e).startswith("InconsistentState") for e in data.error.values)


@pytest.mark.parametrize("compile", [True, False])
def test_reductions(compile):
    options = {"samples": {"m1": masses(6)}, "compile": compile, **RUN}
    rows = da.ensemble(SYSTEM, "rattle", **options)
    kept = da.ensemble(
        SYSTEM, "rattle", reduce={"end": "final", "range": "extrema", "low": lambda sol: sol.q[:, 3].min()}, **options
    )
    np.testing.assert_array_equal(kept.q, rows.q[:, -1])
    np.testing.assert_array_equal(kept.energy, rows.energy[:, -1])
    np.testing.assert_array_equal(kept.q_max, rows.q.max("time"))
    np.testing.assert_array_equal(kept.v_min, rows.v.min("time"))
    np.testing.assert_array_equal(kept.low, rows.q[:, :, 3].min("time"))
    final = da.ensemble(SYSTEM, "rattle", reduce="final", **options)
    np.testing.assert_array_equal(final.q, rows.q[:, -1])


def test_a_reduction_that_fails_is_told_with_its_member():
    data = da.ensemble(SYSTEM, "rattle", samples={"m1": masses(3)}, reduce={"bad": lambda sol: 1 / 0}, **RUN)
    assert all("reduce['bad'] failed: ZeroDivisionError" in str(e) for e in data.error.values)


def test_adaptive_members_and_events_are_reduced():
    data = da.ensemble(
        SYSTEM, "rattle", samples={"m1": masses(3)}, adaptive=da.control.ErrorControl(rtol=1e-4),
        events=da.Event(lambda q: q[0], name="down"), reduce={"e": "events", "end": "final", "steps": lambda sol: len(sol.t)},
        t_end=3.0, step=0.01,
    )  # fmt: skip
    for member in range(3):
        alone = da.simulate(
            SYSTEM, "rattle", parameters={"m1": masses(3)[member]}, adaptive=da.control.ErrorControl(rtol=1e-4),
            events=da.Event(lambda q: q[0], name="down"), t_end=3.0, step=0.01,
        )  # fmt: skip
        assert data.down_count[member] == len(alone.events["down"].t) > 0
        assert data.down_first[member] == alone.events["down"].t[0]
        assert data.steps[member] == len(alone.t)
        np.testing.assert_array_equal(data.q[member], alone.q[-1])


def test_external_methods_run_one_by_one():
    data = da.ensemble(SYSTEM, "rk45", samples={"m1": masses(2)}, **RUN)
    alone = da.simulate(SYSTEM, "rk45", parameters={"m1": 2.0}, **RUN)
    np.testing.assert_array_equal(data.q[1], alone.q)
    assert data.attrs["engine"] == "one by one"


def test_a_last_step_of_another_length():
    data = da.ensemble(SYSTEM, "rattle", samples={"m1": masses(2)}, t_end=0.105, step=0.01, compile=True)
    alone = da.simulate(SYSTEM, "rattle", parameters={"m1": 2.0}, t_end=0.105, step=0.01, compile=False)
    np.testing.assert_array_equal(data.time, alone.t)
    np.testing.assert_array_equal(data.q[1], alone.q)


def test_cores_and_blocks_do_not_change_a_bit():
    options = {"samples": {"m1": masses(100)}, "reduce": "final", "compile": True, **RUN}
    one, two = (da.ensemble(SYSTEM, "rattle", cores=cores, **options) for cores in (1, 3))
    np.testing.assert_array_equal(one.q, two.q)


def test_samples_are_drawn_again_from_their_seed():
    from scipy import stats

    options = {
        "samples": {"m1": lambda rng, members: rng.uniform(1, 2, members), "m2": stats.norm(2, 0.1)},
        "members": 5, "reduce": "final", **RUN,
    }  # fmt: skip
    first = da.ensemble(SYSTEM, "rattle", **options)
    again = da.ensemble(SYSTEM, "rattle", seed=first.attrs["seed"], **options)
    other = da.ensemble(SYSTEM, "rattle", **options)
    for name in ("m1", "m2", "q"):
        np.testing.assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])


@pytest.mark.parametrize(
    ("samples", "options", "told"),
    [
        ({}, {}, "samples is empty"),
        ({"m7": [1.0]}, {}, "has no 'm7' to vary"),
        ({"m1": [1.0, 2.0], "m2": [1.0]}, {}, "m1 has 2, m2 has 1"),
        ({"m1": [[1.0, 2.0]]}, {}, "must have the shape"),
        ({"q": [[1.0, 2.0]]}, {}, "must have the shape"),
        ({"m1": [1.0, np.nan]}, {}, "not finite"),
        ({"m1": 1.0}, {}, "one row for each member"),
        ({"m1": []}, {}, "no rows"),
        ({"m1": "many"}, {}, "must be"),
        ({"m1": lambda rng, members: 1 / 0}, {"members": 3}, "could not be drawn"),
        ({"m1": lambda rng, members: rng.random(members)}, {}, "say how many"),
        ({"m1": [1.0]}, {"members": -1}, "members must be"),
        ({"m1": [1.0]}, {"reduce": "last"}, "reduce knows"),
        ({"m1": [1.0]}, {"reduce": 3}, "reduce must be"),
        ({"m1": [1.0]}, {"adaptive": True}, "reduce"),
        ({"m1": [1.0]}, {"cores": 0}, "cores must be"),
        ({"m1": [1.0]}, {"seed": "x"}, "seed must be"),
        ({"u": [1.0]}, {}, "has no 'u' to vary"),
        ([1.0], {}, "samples must be a dictionary"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(samples, options, told):
    with pytest.raises(da.DalembertError, match=told):
        da.ensemble(SYSTEM, "rattle", samples=samples, **options, **RUN)


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(da.MethodError, match="reduce="):
        da.ensemble(SYSTEM, "rattle", samples={"m1": masses(100)}, t_end=1e5, step=1e-3)


def test_an_interrupt_keeps_what_is_done(monkeypatch):
    whole, seen = Blocks.run, []

    def run(self, samples):
        block = whole(self, samples)
        seen.append(samples.members)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return block

    monkeypatch.setattr(Blocks, "run", run)
    with pytest.raises(da.Interrupted) as caught:
        da.ensemble(SYSTEM, "rattle", samples={"m1": masses(40)}, reduce="final", cores=1, **RUN)
    data = caught.value.solution
    done = (data.error == "").values
    assert 0 < done.sum() < 40
    assert set(data.error.values[~done]) == {"not run"}
    assert np.isfinite(data.q.values[done]).all()


def test_large_systems_run_one_by_one():
    system = da.catalog.chain(120)
    assert system.many
    found = da.ensemble(system, "rattle", samples={"g": [9.0, 9.5]}, t_end=0.01, step=0.005)
    alone = da.simulate(system, "rattle", parameters={"g": 9.5}, t_end=0.01, step=0.005)
    assert np.array_equal(found.q[1], alone.q)
