"""How the equations of a step are split into solves."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.engine.program import Program
from dalembert.methods import step as steps
from dalembert.methods import variational

METHODS = ("cortes-martinez", "variational", "mclachlan-perlmutter")


def turned():
    """A particle on skates whose direction turns: no factor of a multiplier is the same everywhere."""
    return da.Mechanical(
        ("x", "y", "a"), mass=[2.0, 2.0, 0.5], potential=lambda q: q[0] ** 4 / 4 + q[1] ** 2 + np.cos(q[2]),
        nonholonomic=lambda q, v: v[0] * np.sin(q[2]) - v[1] * np.cos(q[2]),
    )  # fmt: skip


CASES = {
    "contact oscillator": (lambda: da.catalog.contact_oscillator(eps=0.3), {}),
    "turned": (turned, {"q": [0.3, -0.2, 0.4], "v": [np.cos(0.4), np.sin(0.4), 1.0]}),
    "particles": (da.catalog.perlmutter_particles, {}),
    "pendulum": (da.catalog.double_pendulum, {}),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_split_row_by_row_has_the_same_solution(case, method, monkeypatch):
    make, start = CASES[case]
    options = {"t_end": 1.0, "step": 0.02, "compile": False, **start}
    split = da.simulate(make(), method, **options)
    monkeypatch.setattr(variational, "split_solves", lambda blocks, h: steps.split_solves(blocks))
    whole = da.simulate(make(), method, **options)
    for name in ("q", "v", "lam"):
        assert np.abs(getattr(split, name) - getattr(whole, name)).max() < 1e-11


def test_one_unknown_is_left_of_the_midpoint_rule_on_the_contact_oscillator():
    """The mean velocity of y is found first; that of x follows from the constraint, the multiplier from the row of x."""
    program = Program(variational.CortesMartinez().step(da.catalog.contact_oscillator()))
    assert [(stage.n, stage.linear) for stage in program.stages] == [(1, True), (1, False), (1, True), (1, True), (4, True)]


def test_factors_that_may_vanish_give_nothing():
    """`v_x sin a = v_y cos a` gives no velocity, since sine and cosine have zeros."""
    solves = variational.CortesMartinez().step(turned()).solves
    assert max(s.unknowns.numel() for s in solves) == 4
    h, x, p = ca.SX.sym("h"), ca.SX.sym("x"), ca.SX.sym("p")
    every = ca.vertcat(x, ca.SX.sym("y"))
    assert steps._gives(3 * h**2 * x + ca.sin(every[1]), x, every, h)
    assert steps._gives(x / h - 1, x, every, h)
    for factor in (p, 1 - h, every[1], x, ca.SX(0)):
        assert not steps._gives(factor * x + 1, x, every, h)


def test_multipliers_that_no_row_gives_stay_with_all_others():
    h, lam, x = ca.SX.sym("h"), ca.SX.sym("lam"), ca.SX.sym("x", 2)
    size = ca.SX.ones(1)
    blocks = [
        steps.Block("x", 0.5, x, ca.vertcat(x[0] ** 3 + x[1] * lam - 1, x[1] + x[0] * lam), ca.SX.ones(2), (0, 0)),
        steps.Block("lam", 0.5, lam, x[0] - 2 * x[1], size, (1,), multiplier=True),
    ]
    assert len(steps.split_solves(blocks, h)) == 1
    given = replace(blocks[0], row=ca.vertcat(x[0] ** 3 + h * lam - 1, x[1] + x[0] * lam))
    assert [s.unknowns.numel() for s in steps.split_solves([given, blocks[1]], h)] == [1, 1, 1]
