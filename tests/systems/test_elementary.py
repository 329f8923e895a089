"""Functions at their kinks: values and derivatives are finite, and nothing changes elsewhere."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da

KINKS = {
    "norm": (lambda q: np.linalg.norm(q), 0.0),
    "hypot": (lambda q: np.hypot(q[0], q[1]), 0.0),
    "root of squares": (lambda q: np.sqrt(q @ q), 0.0),
    "abs": (lambda q: np.abs(q[0]), 0.0),
    "sign": (lambda q: np.sign(q[0]), 0.0),
    "maximum": (lambda q: np.maximum(q[0], 0.0), 0.5),
    "hertz": (lambda q: np.maximum(q[0], 0.0) ** 1.5, 0.0),
    "power": (lambda q: np.maximum(q[0], 0.0) ** 2.5, 0.0),
    "cube root": (lambda q: np.cbrt(q[0]) ** 3, None),
    "root": (lambda q: np.sqrt(q[0]), None),
}


@pytest.mark.parametrize("name", KINKS)
def test_values_and_derivatives_at_a_kink_are_finite(name):
    function, slope = KINKS[name]
    system = da.Mechanical(2, mass=1.0, potential=function)
    e = system.expression("potential")
    hessian, gradient = ca.hessian(e, system.q)
    value, g, H = ca.Function("f", [system.q], [e, gradient, hessian])([0.0, 0.0])
    assert abs(float(value)) < 1e-49
    assert np.isfinite(np.array(ca.densify(g))).all()
    assert np.isfinite(np.array(ca.densify(H))).all()
    if slope is not None:
        assert float(g[0]) == pytest.approx(slope, abs=1e-49)


@pytest.mark.parametrize("name", [name for name in KINKS if name != "sign"])
def test_elsewhere_nothing_changes(name):
    function, q = KINKS[name][0], np.array([0.3, 1e-20])
    system = da.Mechanical(2, mass=1.0, potential=function)
    assert float(system.value("potential", np.zeros(0), q=q)) == pytest.approx(float(function(q)), rel=1e-15)


def test_roots_of_negative_numbers_stay_undefined():
    system = da.Mechanical(1, mass=1.0, force=lambda q: [np.sqrt(q[0])])
    assert np.isnan(float(system.value("force", np.zeros(0), q=[-1.0])))


@pytest.mark.parametrize("method", ["rattle", "gauss-2", "energy-momentum", "radau-iia-3"])
def test_drag_from_rest(method):
    """`v' = g - c |v| v` from rest: `v = sqrt(g / c) tanh(sqrt(g c) t)`."""
    system = da.Mechanical(
        ("x", "y"),
        mass=1.0,
        potential=lambda q: 9.81 * q[1],
        force=lambda v, c: -c * np.linalg.norm(v) * v,
        parameters={"c": 0.5},
    )
    if method == "rattle":
        system = da.Mechanical(("x", "y"), mass=1.0, potential=lambda q: 9.81 * q[1] + np.hypot(q[0], 0.0) ** 2)
        sol = da.simulate(system, method, q=[0.0, 0.0], v=[0.0, 0.0], t_end=1.0, step=0.01)
        assert sol.q[-1, 1] == pytest.approx(-9.81 / 2, abs=1e-12)
        return
    run = {"q": [0.0, 0.0], "v": [0.0, 0.0], "t_end": 1.0, "step": 0.01}
    sol = da.simulate(system, method, **run)
    exact = -np.sqrt(9.81 / 0.5) * np.tanh(np.sqrt(9.81 * 0.5) * sol.t)
    assert np.abs(sol.v[:, 1] - exact).max() < (3e-4 if method == "energy-momentum" else 1e-6)
    found = da.sensitivity(system, method, **run).jacobian("v", "c")
    assert np.isfinite(found).all()


@pytest.mark.parametrize("method", ["rattle", "gauss-2", "energy-momentum"])
@pytest.mark.parametrize("exponent", [1.5, "n"])
def test_a_ball_on_a_hertzian_floor(method, exponent):
    """In flight, in contact and just at the floor; the energy is that of the start where the method keeps it."""
    system = da.Mechanical(
        ("z",), mass=1.0, potential=lambda q, n: 9.81 * q[0] + 4e4 * np.maximum(-q[0], 0) ** (n + 1 if exponent == "n" else 2.5),
        parameters={"n": 1.5},
    )  # fmt: skip
    run = {"q": [0.1], "v": [0.0], "t_end": 1.0, "step": 2e-3}
    sol = da.simulate(system, method, **run)
    assert sol.q.min() < -1e-3
    assert sol.q[-100:].max() > 0.05
    if method == "energy-momentum":
        assert np.abs(sol.energy - sol.energy[0]).max() < 1e-12
    assert np.isfinite(da.sensitivity(system, method, **{**run, "t_end": 0.16}).jacobian("q", "n")).all()
