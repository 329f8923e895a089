"""Functions of the state in C: the numbers of CasADi, and the steps in which nothing can cross."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.engine import watch
from dalembert.engine.values import Watched


class Layout:
    """A state with a part in the middle that no function knows."""

    n_state, n_lam, n_unknowns = 4, 0, 0

    def __init__(self):
        self.fields = {"q": slice(0, 2), "carried": slice(2, 3), "v": slice(3, 4)}


def values(*expressions):
    q, v, t, par = ca.SX.sym("q", 2), ca.SX.sym("v"), ca.SX.sym("t"), ca.SX.sym("par", 2)
    rows = ca.vertcat(*(e(q, v, t, par) for e in expressions))
    rate = ca.SX.sym("rate", 4)
    slopes = ca.jtimes(rows, ca.vertcat(q, v), ca.vertcat(rate[:2], rate[3])) + ca.jacobian(rows, t)
    known = [q, v, t, par]
    return Watched(ca.Function("g", known, [rows]), ca.Function("s", [*known, rate], [slopes]), ("q", "v", "t", "par"), Layout())


PAR = np.array([2.0, -1.0])


@pytest.mark.parametrize(
    ("rows", "steps"),
    [
        ([1.0, 2.0, 0.5], 2),
        ([1.0, 2.0, -0.5], 1),
        ([-1.0, 2.0, 3.0], 0),
        ([-1.0, -2.0, 0.0], 1),
        ([0.0, 1.0, 1.0], 0),
        ([1.0, np.nan, 1.0], 0),
        ([1.0, 1.0, np.inf], 1),
        ([np.inf, 1.0, 1.0], 0),
        ([1.0], 0),
    ],
)
def test_steps_in_which_nothing_can_cross(rows, steps):
    look = values(lambda q, v, t, par: 1 + t**2, lambda q, v, t, par: v * par[0])
    states = np.full((len(rows), 4), 7.0)
    states[:, 3] = rows
    assert look.count == 2
    assert look.quiet(states, np.linspace(0.0, 1.0, len(rows)), PAR, np.zeros_like(states)) == steps


def test_what_is_not_written_in_c_is_looked_at_in_python(monkeypatch):
    """Too long for one function: the same crossings by the virtual machine."""
    system = da.catalog.double_pendulum()
    options = {"t_end": 3.0, "step": 0.01, "events": {"low": lambda q: q[1] + 0.5}, "compile": True}
    for adaptive in (False, "error"):
        one = da.simulate(system, "rattle", **options, adaptive=adaptive)
        monkeypatch.setattr("dalembert.engine.values.LONG", 0)
        two = da.simulate(system, "rattle", **options, adaptive=adaptive)
        monkeypatch.undo()
        assert len(one.events["low"]) > 2
        np.testing.assert_array_equal(one.events["low"].t, two.events["low"].t)
        np.testing.assert_array_equal(one.q, two.q)


@pytest.mark.parametrize("adaptive", [False, "error", "backoff"])
def test_a_run_without_a_crossing_is_not_searched(adaptive, monkeypatch):
    searched, search = [], watch.Watch.search
    monkeypatch.setattr(watch.Watch, "search", lambda self, *rows: searched.append(len(rows[0])) or search(self, *rows))
    table = ca.interpolant("table", "linear", [np.linspace(-3, 3, 7)], np.linspace(1, 2, 7))
    look = {"far": lambda q: q[0] + 100.0, "table": lambda q: table(q[1])}
    da.simulate(da.catalog.double_pendulum(), "rattle", t_end=3.0, step=0.01, events=look, adaptive=adaptive, compile=True)
    assert searched == []
    look["near"] = lambda q: q[1] + 0.5
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=3.0, step=0.01, events=look, adaptive=adaptive, compile=True)
    assert searched == [2] * len(sol.events["near"])
