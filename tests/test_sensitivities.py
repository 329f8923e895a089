"""Derivatives of a run with respect to initial values, parameters and inputs."""

import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, polar_rod
from dalembert.engine import tape
from dalembert.sensitivities import base


def test_gradients_through_a_thousand_steps():
    """Against central differences, to 1e-6 relative; by both sweeps."""
    cost = lambda q: np.sum(q**2) + q[0]  # noqa: E731
    for make, method, name in (
        (da.catalog.double_pendulum, "rattle", "m1"),
        (da.catalog.double_pendulum, "energy-momentum", "g"),
        (da.catalog.four_particles, "energy-momentum", "K2"),
        (angle_pendulum, "midpoint", "l2"),
        (polar_rod, "rattle", "g"),
    ):
        system = make()
        options = dict(t_end=2.0, step=0.002)
        run = da.sensitivity(system, method, **options)
        value = float(system.parameters[name])
        d = 1e-5 * value
        finals = [da.simulate(system, method, parameters={name: value + s * d}, **options).q[-1] for s in (1, -1)]
        expected = (finals[0] - finals[1]) / (2 * d)
        scale = np.abs(expected).max() + 1e-6
        np.testing.assert_allclose(run.jacobian("q", name), expected, atol=1e-6 * scale)
        gradient = run.gradient(cost)
        difference = (cost(finals[0]) - cost(finals[1])) / (2 * d)
        assert gradient[name] == pytest.approx(difference, rel=1e-6, abs=1e-8 * scale)
        np.testing.assert_allclose(gradient["value"], cost(run.solution.q[-1]))


def test_gradients_with_respect_to_initial_values():
    system = angle_pendulum()
    q, v = np.array([0.7, -0.4]), np.array([0.3, 1.1])
    options = dict(t_end=1.0, step=0.001)
    run = da.sensitivity(system, "energy-momentum", q=q, v=v, **options)
    d = 1e-6
    for i in range(2):
        e = d * np.eye(2)[i]
        for wrt, plus, minus in (("q", (q + e, v), (q - e, v)), ("v", (q, v + e), (q, v - e))):
            a, b = (da.simulate(system, "energy-momentum", q=x, v=y, **options) for x, y in (plus, minus))
            np.testing.assert_allclose(run.jacobian("q", wrt)[:, i], (a.q[-1] - b.q[-1]) / (2 * d), rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(run.jacobian("v", wrt)[:, i], (a.v[-1] - b.v[-1]) / (2 * d), rtol=1e-6, atol=1e-6)


def test_running_costs_fit_a_parameter():
    """Gradient of a sum of squared errors along the path, at the right parameter and away from it."""
    system = da.catalog.harmonic_oscillator()
    data = da.simulate(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": 1.3})
    run = da.sensitivity(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": 1.3})
    target = data.at(1.0).q[0]
    gradient = run.gradient(running=lambda q, t: np.where(np.abs(t - 1.0) < 1e-6, (q[0] - target) ** 2, 0.0))
    assert abs(gradient["k"]) < 1e-12
    off = da.sensitivity(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": 1.5})
    cost = lambda q, v, k: k * (q[0] ** 2 + v[0] ** 2)  # noqa: E731
    sums = []
    for k in (1.5 - 1e-4, 1.5 + 1e-4):
        sol = da.simulate(system, "midpoint", t_end=2.0, step=0.01, parameters={"k": k})
        sums.append(k * (sol.q[1:] ** 2 + sol.v[1:] ** 2).sum())
    assert off.gradient(running=cost)["k"] == pytest.approx((sums[1] - sums[0]) / 2e-4, rel=1e-7)
    with pytest.raises(da.MethodError, match="did you mean"):
        off.jacobian("q", "kk")
    with pytest.raises(da.MethodError, match="terminal"):
        off.gradient()


def differences(call, value, d=1e-5):
    """A central difference."""
    return (call(value + d) - call(value - d)) / (2 * d)


def test_running_costs_over_many_steps():
    """More steps than are linearised at once: each step's slope is added where it belongs."""
    system, options = da.catalog.harmonic_oscillator(), {"t_end": 30.0, "step": 0.01}
    weight = lambda q, t: q[0] ** 2 * (1 + t)  # noqa: E731

    def cost(k):
        sol = da.simulate(system, "midpoint", parameters={"k": k}, **options)
        return (sol.q[1:, 0] ** 2 * (1 + sol.t[1:])).sum()

    run = da.sensitivity(system, "midpoint", **options)
    gradient = run.gradient(running=weight, terminal=lambda q: q[0])
    end = differences(lambda k: da.simulate(system, "midpoint", parameters={"k": k}, **options).q[-1, 0], 1.0)
    assert gradient["k"] == pytest.approx(differences(cost, 1.0) + end, rel=1e-7)
    np.testing.assert_allclose(run.jacobian("q", "k"), [end], rtol=1e-7)


def test_a_shortened_last_step():
    """Against the exact derivative of the midpoint rule's own end, by differences; the last step is a tenth of the others."""
    system, options = da.catalog.harmonic_oscillator(), {"t_end": 1.01, "step": 0.1}
    run = da.sensitivity(system, "midpoint", **options)
    ends = lambda k: da.simulate(system, "midpoint", parameters={"k": k}, **options).x[-1]  # noqa: E731
    expected = differences(ends, 1.0)
    np.testing.assert_allclose(np.concatenate([run.jacobian("q", "k"), run.jacobian("v", "k")]), expected, rtol=1e-8)
    assert run.gradient(lambda q: q[0])["k"] == pytest.approx(expected[0], rel=1e-8)
    assert len(run.solution.t) == 12


@pytest.mark.parametrize("method", ["rattle", "gauss-2", "energy-momentum"])
def test_derivatives_with_inputs(method):
    """By a gain of the input, by the initial values, with an input that changes within each step."""
    system = da.Mechanical(
        1, mass=1.0, potential=lambda q: q[0] ** 4 / 4, inputs=lambda q, gain: [[gain * (1 + q[0] ** 2)]],
        parameters={"gain": 0.7}, initial={"q": [0.3], "v": [0.1]},
    )  # fmt: skip
    options = {"t_end": 2.05, "step": 0.1, "u": lambda t: [np.cos(3 * t)]}
    run = da.sensitivity(system, method, **options)
    ends = lambda gain: da.simulate(system, method, parameters={"gain": gain}, **options).x[-1]  # noqa: E731
    expected = differences(ends, 0.7)
    assert np.abs(expected).min() > 0.1
    np.testing.assert_allclose([run.jacobian("q", "gain")[0], run.jacobian("v", "gain")[0]], expected, rtol=1e-7)
    by_start = differences(lambda q: da.simulate(system, method, q=[q], v=[0.1], **options).x[-1], 0.3)
    np.testing.assert_allclose([run.jacobian("q", "q")[0, 0], run.jacobian("v", "q")[0, 0]], by_start, rtol=1e-7)
    assert run.gradient(lambda v: v[0] ** 2)["gain"] == pytest.approx(2 * run.solution.v[-1, 0] * expected[1], rel=1e-7)


def driven():
    """A pendulum with an input, and forces that depend on everything."""
    return da.Mechanical(
        2, mass=lambda m: m, potential=lambda q, g: g * q[1] + q[0] ** 4, holonomic=lambda q: q @ q - 1,
        inputs=lambda q: [[1.0], [q[0]]], parameters={"m": 1.4, "g": 9.81}, initial={"q": [0.6, -0.8], "v": [0.8, 0.6]},
    )  # fmt: skip


SAMPLES = np.array([1.0, -4.0, 3.0])
COSTS = {
    "terminal": lambda q, v: q[0] ** 2 * v[1],
    "running": lambda q, t, g: g * q[1] ** 2 * (1 + t),
    "integral": lambda v, m: m * np.sin(v[0]) + v[1] ** 2,
}


def total(sol, m, g):
    """The costs of a run, from its rows."""
    integrand = m * np.sin(sol.v[:, 0]) + sol.v[:, 1] ** 2
    running = (g * sol.q[1:, 1] ** 2 * (1 + sol.t[1:])).sum()
    return sol.q[-1, 0] ** 2 * sol.v[-1, 1] + running + np.trapezoid(integrand, sol.t)


@pytest.mark.parametrize("save_every", [1, 7])
@pytest.mark.parametrize("method", ["rattle", "lobatto-pair-3", "energy-momentum"])
def test_gradients_of_costs_along_the_run_by_everything(method, save_every):
    """Parameters and samples of the input, against differences of the costs as computed from the rows; the last step is short."""
    system, times = driven(), [0.0, 0.2, 0.4]
    options = {"t_end": 0.613, "step": 0.02, "save_every": save_every}

    def cost(m=1.4, g=9.81, u=SAMPLES):
        return total(da.simulate(system, method, parameters={"m": m, "g": g}, u=(times, u), **options), m, g)

    gradient = da.sensitivity(system, method, u=(times, SAMPLES), **options).gradient(**COSTS)
    assert gradient["value"] == pytest.approx(cost(), rel=1e-13)
    assert gradient["m"] == pytest.approx(differences(lambda m: cost(m=m), 1.4), rel=1e-7)
    assert gradient["g"] == pytest.approx(differences(lambda g: cost(g=g), 9.81), rel=1e-7)
    expected = [differences(lambda d: cost(u=SAMPLES + d * e), 0.0) for e in np.eye(3)]
    np.testing.assert_allclose(gradient["u"][:, 0], expected, rtol=1e-6)


def test_integrals_count_where_the_run_begins():
    """By initial values, which an integral depends on at once."""
    system = da.catalog.harmonic_oscillator()
    options = {"t_end": 0.3, "step": 0.1}
    run = da.sensitivity(system, "midpoint", q=[1.0], v=[0.5], **options)

    def cost(q):
        sol = da.simulate(system, "midpoint", q=[q], v=[0.5], **options)
        return np.trapezoid(sol.q[:, 0] ** 3, sol.t)

    assert run.gradient(integral=lambda q: q[0] ** 3)["q"][0] == pytest.approx(differences(cost, 1.0), rel=1e-8)


@pytest.mark.parametrize("compile", [True, False])
def test_products_with_the_hessian(compile):
    """Against central differences of the gradient, for all kinds of variables together and every kind of cost."""
    times, options = [0.0, 0.2, 0.4], {"t_end": 0.613, "step": 0.02, "compile": compile, "save_every": 3}
    direction = {"q": np.array([0.8, 0.6]), "v": np.array([-0.3, 0.4]), "m": 0.5, "g": 2.0, "u": np.array([[1.0], [0.5], [-2.0]])}
    system = da.Mechanical(
        2, mass=lambda m: m, potential=lambda q, g: g * q[1] + q[0] ** 4 * q[1] ** 2 / 4, inputs=lambda q: [[1.0], [q[0]]],
        parameters={"m": 1.4, "g": 9.81}, initial={"q": [0.6, -0.8], "v": [0.8, 0.6]},
    )  # fmt: skip

    def gradient(s):
        return da.sensitivity(
            system, "gauss-2", q=[0.6, -0.8] + s * direction["q"], v=[0.8, 0.6] + s * direction["v"],
            u=(times, SAMPLES[:, None] + s * direction["u"]),
            parameters={"m": 1.4 + s * 0.5, "g": 9.81 + s * 2.0}, **options,
        ).gradient(**COSTS)  # fmt: skip

    d = 1e-5
    plus, minus = gradient(d), gradient(-d)
    run = da.sensitivity(system, "gauss-2", u=(times, SAMPLES), **options)
    product = run.hessian_product(direction, **COSTS)
    assert product.keys() == {"q", "v", "m", "g", "u"}
    for name, value in product.items():
        expected = (plus[name] - minus[name]) / (2 * d)
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize(
    ("make", "method"), [(da.catalog.double_pendulum, "rattle"), (driven, "energy-momentum"), (driven, "lobatto-pair-3")]
)
def test_second_derivatives_in_a_parameter(make, method):
    system = make()
    cost, options = (lambda q, v: q[0] ** 2 + v[1] ** 3), {"t_end": 0.5, "step": 0.01}
    slope = lambda g: da.sensitivity(system, method, parameters={"g": g}, **options).gradient(cost)["g"]  # noqa: E731
    found = da.sensitivity(system, method, **options).hessian_product({"g": 1.0}, cost)["g"]
    assert found == pytest.approx(differences(slope, 9.81, 1e-4), rel=1e-7)


def test_the_hessian_is_symmetric():
    run = da.sensitivity(da.catalog.double_pendulum(), "lobatto-pair-3", t_end=0.5, step=0.01)
    names = ("m1", "m2", "l1", "l2", "g")
    rows = [run.hessian_product({name: 1.0}, lambda q: q[0] * q[2]) for name in names]
    H = np.array([[row[name] for name in names] for row in rows])
    np.testing.assert_allclose(H, H.T, rtol=0, atol=1e-11 * np.abs(H).max())


def test_memory_is_bounded_and_nothing_changes(monkeypatch):
    """All rows kept, or segments made again: the same derivatives to the last bit, from fewer rows."""
    system, cost = da.catalog.double_pendulum(), lambda q: q[0] ** 2
    options = {"t_end": 20.005, "step": 0.01, "compile": True}
    kept = da.sensitivity(system, "rattle", **options)
    for name in ("SEGMENT", "KEPT"):
        monkeypatch.setattr(tape, name, 1)
    again = da.sensitivity(system, "rattle", save_every=10**6, **options)
    for derivative in (lambda run: run.gradient(cost), lambda run: run.hessian_product({"g": 1.0}, cost)):
        expected, found = derivative(kept), derivative(again)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(kept.jacobian("q", "v"), again.jacobian("q", "v"))
    assert kept.stats["rows"] == 2001
    assert again.stats["rows"] < 200
    assert len(again.solution.t) == 2


def test_derivatives_along_the_run():
    """At all stored times, the first included, by a parameter, initial values and a constant input."""
    system = da.Mechanical(
        1, mass=1.0, potential=lambda q, k: k * q[0] ** 4 / 4, inputs=[[1.0]], parameters={"k": 0.7},
        initial={"q": [0.3], "v": [0.1]},
    )  # fmt: skip
    options = {"t_end": 1.05, "step": 0.1, "save_every": 3}
    run = da.sensitivity(system, "gauss-2", u=[0.5], **options)
    paths = {
        "k": differences(lambda k: da.simulate(system, "gauss-2", u=[0.5], parameters={"k": k}, **options).q, 0.7),
        "u": differences(lambda u: da.simulate(system, "gauss-2", u=[u], **options).q, 0.5),
        "q": differences(lambda q: da.simulate(system, "gauss-2", u=[0.5], q=[q], v=[0.1], **options).q, 0.3),
    }
    for name, expected in paths.items():
        found = run.jacobian("q", name, along=True)
        assert found.shape == (5, 1, *(() if name == "k" else (1,)))
        np.testing.assert_allclose(found.reshape(5, 1), expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found[-1], run.jacobian("q", name), rtol=1e-13)


@pytest.mark.parametrize("bad", [{"gg": 1.0}, {"g": [1.0]}, {"q": 1.0}, {"u": 1.0}, {"g": np.nan}, 5])
def test_directions_that_mean_nothing_are_refused(bad):
    run = da.sensitivity(da.catalog.simple_pendulum(), "rattle", t_end=0.1, step=0.01)
    with pytest.raises(da.DalembertError, match=r"direction|called"):
        run.hessian_product(bad, lambda q: q[0])


def test_a_jacobian_along_the_run_that_cannot_be_held_is_refused(monkeypatch):
    run = da.sensitivity(da.catalog.simple_pendulum(), "rattle", t_end=0.1, step=0.01)
    monkeypatch.setattr(base, "memory", lambda: 100.0)
    with pytest.raises(da.MethodError, match="save_every"):
        run.jacobian("q", "q", along=True)


@pytest.mark.parametrize("save_every", [1, 2])
def test_a_run_of_no_steps_changes_nothing(save_every):
    run = da.sensitivity(da.catalog.simple_pendulum(), "rattle", t_end=0.0, step=0.1, save_every=save_every, compile=True)
    np.testing.assert_array_equal(run.jacobian("q", "q"), np.eye(2))
    np.testing.assert_array_equal(run.jacobian("q", "g", along=True), np.zeros((1, 2)))
