"""Which functions are formulas: nothing that could do, remember or decide anything may be taken for one."""

import math
import random

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.formulas import formula

GAIN, MATRIX, LOG = 3.0, np.array([[1.0, 2.0]]), []


def helper(x):
    return 2 * x


def chatty(x):
    print(x)
    return x


class Law:
    def __call__(self, y):
        return y[0]


def _closure(gain):
    return lambda y: gain * y[0]


def _counting():
    count = 0

    def law(y):
        nonlocal count
        count += 1
        return count * y[0]

    return law


def _steps(y, state):
    error = GAIN - y[0]
    state[0] += 0.01 * error
    return np.clip(error + state[0], -1.0, 1.0), state


def _aliased(y):
    m = MATRIX
    m += 1.0
    return (m @ y)[0]


@pytest.mark.parametrize(
    "law",
    [
        lambda y: 3.0,
        lambda y, state: (GAIN * y[0] + np.sin(state[1]), [state[0], -y[0]]),
        lambda y: MATRIX @ y,
        lambda t, y, k=2.0: k * np.maximum(y[0], 0.0) + helper(t),
        lambda y: np.where(y > 0, y, 0.0)[0] ** 2,
        _closure(5.0),
        _steps,
    ],
)
def test_formulas(law):
    assert formula(law)


@pytest.mark.parametrize(
    "law",
    [
        lambda y: print(y),
        lambda y: chatty(y[0]),
        lambda y: LOG.append(y) or 1.0,
        lambda y: 1.0 if y[0] > 0 else 0.0,
        lambda y: y[0] > 0 and 1.0,
        lambda y: random.random(),
        lambda y: np.random.normal(),  # noqa: NPY002
        lambda y: math.sin(y[0]),
        lambda y: y[0] // 1,
        lambda y: sum(x for x in y),
        lambda y: min(y[0], 1.0),
        lambda y: missing * y[0],  # noqa: F821
        lambda *y: y[0],
        lambda y: GAIN.real,
        _counting(),
        _aliased,
        Law(),
        np.sin,
    ],
)
def test_other_functions(law):
    assert not formula(law)


@pytest.mark.parametrize("compile", [False, "newton"])
def test_formulas_are_traced_and_other_controllers_called(compile):
    """What a controller refers to is looked at for each run; a formula gives what the function gives, to rounding."""
    cart = da.catalog.cart_pendulum()
    gain, seen = [40.0], []

    def law(y, state):
        total = state[0] + 0.01 * y[0]
        return gain[0] * y[0] + 20 * total + 6 * (y[0] - state[1]) / 0.01, [total, y[0]]

    def told(y, state):
        seen.append(y)
        return law(y, state)

    def of(controller, **options):
        return da.Sampled(controller, every=0.01, outputs=lambda q: q[1], state=[0.0, 0.1], **options)

    def run(controller):
        return da.simulate(cart, "energy-momentum", t_end=0.3, step=0.01, u=controller, compile=compile)

    one = of(law)
    formula_, plain, called = run(one), run(of(law, traced=False)), run(of(told))
    assert formula_.stats["controllers"] == "force traced"
    assert plain.stats["controllers"] == called.stats["controllers"] == "force called"
    assert len(seen) == 30
    np.testing.assert_allclose(formula_.q, plain.q, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(called.q, plain.q)
    gain[0] = 50.0
    np.testing.assert_allclose(run(one).q, run(of(law, traced=False)).q, rtol=0, atol=1e-14)
    assert np.abs(run(one).q - plain.q).max() > 1e-5
    acting = da.Event(lambda q: q[0] - 100, action=lambda: gain.append(1.0))
    assert da.simulate(cart, "gauss-2", t_end=0.02, step=0.01, u=one, events=acting).stats["controllers"] == "force called"
    # where the formula is not finite but the function is, the function has the say
    safe = da.Sampled(lambda y, u: np.where(np.abs(u[0]) > 0, np.sin(y[0]) / u[0] ** 3, 2.0), every=0.01)
    with np.errstate(all="ignore"):
        found = da.simulate(cart, "gauss-2", t_end=0.02, step=0.01, u=safe, compile=compile)
    assert found.samples["force"].u[0, 0] == 2.0
