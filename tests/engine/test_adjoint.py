"""Changes of one step: tangents, adjoints and second derivatives belong together."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, polar_rod
from dalembert.engine.adjoint import Changes
from dalembert.engine.case import prepare
from dalembert.engine.through import Adjoints, Curvatures, Tangents
from dalembert.methods.base import find

CASES = (
    (da.catalog.double_pendulum, "rattle"),
    (da.catalog.double_pendulum, "lobatto-pair-3"),
    (da.catalog.four_particles, "energy-momentum"),
    (angle_pendulum, "gauss-2"),
    (polar_rod, "rattle"),
    (da.catalog.harmonic_oscillator, "rk4"),
)


def changes(make, method):
    return Changes.of(prepare(make(), find(method)).program)


def evaluate(sweep, given):
    """The outputs of the function of a sweep, with what depends on `h` and parameters alone."""
    constants = sweep.prelude(given["h"], given["par"])
    return [np.array(x).ravel() for x in sweep.function(*(given[name] for name in sweep.names), constants)]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
def step(request):
    """The changes of a step somewhere, and numbers for all its arguments."""
    c, rng = changes(*request.param), np.random.default_rng(5)
    n, p, m = c.sizes
    given = {"state": rng.normal(size=n), "t": 0.3, "h": 0.1, "u": rng.normal(size=m), "par": 1 + rng.random(p)}
    given |= {"x": rng.normal(size=c.x.numel()), "state_dot": rng.normal(size=n), "par_dot": rng.normal(size=p)}
    given |= {"u_dot": rng.normal(size=m), **{name: rng.normal(size=n) for name in ("bar", "bar_dot", "slope", "slope_dot")}}
    return c, given


def test_adjoints_are_transposed_tangents(step):
    """`b . s1' = s~ . s' + par~ . par' + u~ . u'`, whatever the numbers."""
    c, given = step
    after, _ = evaluate(Tangents.written_out(c), given)
    parts = evaluate(Adjoints.written_out(c), given)
    left = (given["bar"] + given["slope"]) @ after
    right = sum(slope @ given[name] for slope, name in zip(parts, ("state_dot", "par_dot", "u_dot"), strict=True))
    assert left == pytest.approx(right, rel=1e-11)


def test_tangents_are_those_of_the_implicit_function_theorem(step):
    c, given = step
    blocks = [ca.jacobian(f, y) for f in (c.R, c.N) for y in (c.x, c.z)]
    function = ca.Function("f", [*c.common, c.x], blocks)
    R_x, R_z, N_x, N_z = (x.full() for x in function(*(given[name] for name in ("state", "t", "h", "u", "par", "x"))))
    z = np.concatenate([given[name] for name in ("state_dot", "par_dot", "u_dot")])
    x = -np.linalg.solve(R_x, R_z @ z) if len(R_x) else np.zeros(0)
    expected = N_x @ x + N_z @ z
    np.testing.assert_allclose(evaluate(Tangents.written_out(c), given)[0], expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_second_derivatives_contain_the_first(step):
    """The adjoint itself, and, with nothing but a change of the slope, that of the change."""
    c, given = step
    still = {**given, **{name: 0 * given[name] for name in ("state_dot", "par_dot", "u_dot")}}
    s, s_dot, p_dot, u_dot = evaluate(Curvatures.written_out(c), still)
    first = evaluate(Adjoints.written_out(c), given)
    changed = evaluate(Adjoints.written_out(c), {**given, "bar": given["bar_dot"], "slope": given["slope_dot"]})
    for found, expected in zip((s, s_dot, p_dot, u_dot), (first[0], *changed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max(initial=1.0))
