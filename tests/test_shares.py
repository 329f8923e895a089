"""Derivatives with respect to inputs, in the form in which these were given."""

import numpy as np
import pytest

import dalembert as da

TIMES = [0.0, 0.3, 0.5]


def system():
    return da.Mechanical(
        1, mass=1.0, potential=lambda q: q[0] ** 4 / 4, inputs=lambda q: [[1.0, q[0] ** 2]], initial={"q": [0.3], "v": [0.1]}
    )


def cost(sol):
    return sol.q[-1, 0] ** 2 + sol.v[-1, 0]


def slope(call, shape, d=1e-5):
    """Central differences in all entries of an array."""
    out = np.zeros(shape)
    for at in np.ndindex(*shape):
        e = np.zeros(shape)
        e[at] = d
        out[at] = (call(e) - call(-e)) / (2 * d)
    return out


@pytest.mark.parametrize("method", ["rattle", "gauss-2", "lobatto-iiia-3", "rk4"])
@pytest.mark.parametrize("save_every", [1, 3])
@pytest.mark.parametrize("form", ["constant", "samples", "function", "none"])
def test_gradients_by_inputs(method, form, save_every):
    s, options = system(), {"t_end": 0.75, "step": 0.1, "save_every": save_every}
    samples = np.array([[1.0, 0.5], [-2.0, 1.0], [0.7, -0.4]])
    edges = np.append(0.1 * np.arange(0, 8, save_every), 0.75)
    smooth = lambda t: np.array([np.cos(3 * t), t])  # noqa: E731

    def added(t, values):
        """A function of time that is changed between stored times, by limits from inside."""
        return values[min(np.searchsorted(edges[1:], t), len(values) - 1)]

    u, shape = {
        "constant": (lambda e: np.array([0.5, -1.0]) + e, (2,)),
        "none": (lambda e: e, (2,)),
        "samples": (lambda e: (TIMES, samples + e), (3, 2)),
        "function": (lambda e: lambda t: smooth(t) + added(t, e), (len(edges) - 1, 2)),
    }[form]
    run = da.sensitivity(s, method, u=None if form == "none" else u(np.zeros(shape)), **options)
    found = run.gradient(lambda q, v: q[0] ** 2 + v[0])["u"]
    assert found.shape == shape
    q, v = run.jacobian("q", "u"), run.jacobian("v", "u")
    np.testing.assert_allclose(2 * run.solution.q[-1, 0] * q[0] + v[0], found, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(run.jacobian("q", "u", along=True)[-1], q, rtol=1e-12, atol=1e-15)
    if form == "function" and method != "gauss-2":
        return  # nodes at the ends of a step belong to two intervals of one function
    np.testing.assert_allclose(
        found, slope(lambda e: cost(da.simulate(s, method, u=u(e), **options)), shape), rtol=1e-7, atol=1e-9
    )


def test_systems_without_inputs_have_no_such_entry():
    run = da.sensitivity(da.catalog.harmonic_oscillator(), "midpoint", t_end=0.2, step=0.1)
    assert "u" not in run.gradient(lambda q: q[0])
    with pytest.raises(da.MethodError, match="nothing called 'u'"):
        run.jacobian("q", "u")
