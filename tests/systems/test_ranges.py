"""Runs that leave a table."""

import numpy as np
import pytest

import dalembert as da

X = np.linspace(-1.0, 1.0, 9)


def thrown(**options):
    table = da.table(X, X**2, name="spring", **options)
    return da.Mechanical(("x",), mass=1.0, potential=lambda q: table(q[0]))


@pytest.mark.parametrize("method", ["rattle", "gauss-2", "projection"])
@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_a_run_ends_where_it_leaves_a_table(method, kind):
    with pytest.raises(
        da.ModelError, match=r"'spring' is asked for 1\.0\d+ at t = 0\.0\d, outside of its range -1 .. 1"
    ) as caught:
        da.simulate(thrown(kind=kind), method, q=[0.9], v=[3.0], t_end=1.0, step=0.01)
    kept = caught.value.solution
    assert 0.9 < kept.q.max() <= 1.0
    assert len(kept.t) > 2


@pytest.mark.parametrize(
    "options", [{"compile": False}, {"compile": "newton"}, {"adaptive": True, "compile": False}, {"u": lambda t: [0.0 * t]}]
)
def test_every_step_is_looked_at_also_where_few_are_kept(options):
    """It leaves the table between two kept rows and comes back: the steps are looked at, not the rows alone."""
    table = da.table([-1.0, 1.0], [-40.0, 40.0], name="spring")
    system = da.Mechanical(("x",), mass=1.0, force=lambda q, v: [-table(q[0])], inputs={"push": [1.0]})
    run = {"q": [0.9], "v": [4.0], "t_end": 5.0, "step": 0.01, "save_every": 97, **options}
    with pytest.raises(da.ModelError, match=r"asked for 1\.0\d* at t = 0\.0\d*, outside of its range") as caught:
        da.simulate(system, "gauss-2", **run)
    kept = caught.value.solution
    assert 0 < kept.t[-1] < 0.1
    assert 0.9 < kept.q[-1, 0] <= 1.0
    ends = da.Event(lambda q: q[0] - 0.95, terminal=True, name="near")
    assert da.simulate(system, "gauss-2", **run, events=ends).q[-1, 0] == pytest.approx(0.95, abs=1e-13)
    inside = {**run, "v": [0.0], "t_end": 2.0}
    every = da.simulate(system, "gauss-2", **{**inside, "save_every": 1})
    few = da.simulate(system, "gauss-2", **inside)
    np.testing.assert_array_equal(few.q[-1], every.q[-1])


def test_a_start_outside_is_refused():
    with pytest.raises(da.ModelError, match=r"asked for 1\.5 at t = 0, outside"):
        da.simulate(thrown(), "rattle", q=[1.5], v=[0.0], t_end=1.0, step=0.01)


def test_runs_may_go_beyond_the_ends_where_that_is_asked_for():
    sol = da.simulate(thrown(outside="extend"), "energy-momentum", q=[0.9], v=[3.0], t_end=1.0, step=0.01)
    assert sol.q.max() > 1.5
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-13


def test_tables_of_time_velocity_and_inputs_are_watched():
    ramp = da.table([0.0, 0.5], [0.0, 1.0], name="ramp")
    for force, match in (
        (lambda t: [ramp(t)], r"0\.5\d* at t = 0\.5"),
        (lambda v: [ramp(v[0])], "'ramp'"),
        (lambda u: [ramp(u[0])], r"asked for 0\.5\d* at"),
    ):
        system = da.Mechanical(("x",), mass=1.0, force=force, inputs=[[1.0]])
        with pytest.raises(da.ModelError, match=match):
            da.simulate(system, "midpoint", q=[0.0], v=[0.3], t_end=1.0, step=0.01, u=lambda t: [t])


def test_members_of_an_ensemble_that_leave_a_table_fail_alone():
    data = da.ensemble(thrown(), "rattle", samples={"v": [[0.1], [3.0]]}, q=[0.5], t_end=1.0, step=0.01)
    assert data.error.values[0] == ""
    assert "'spring'" in data.error.values[1]
