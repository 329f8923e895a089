"""What is found from the rest of a state, at the start and after jumps of inputs, is differentiated with it."""

import numpy as np
import pytest

import dalembert as da

TIMES, SAMPLES = [0.0, 0.2, 0.4], np.array([1.0, -4.0, 3.0])
OPTIONS = {"t_end": 0.6, "step": 0.05}


def pendulum():
    """In motion at the start, so that the first multiplier depends on everything."""
    return da.Mechanical(
        2, mass=lambda m: m, potential=lambda q, g: g * q[1], holonomic=lambda q: q @ q - 1, inputs=[[1.0], [0.3]],
        parameters={"m": 1.4, "g": 9.81}, initial={"q": [0.6, -0.8], "v": [0.8, 0.6]},
    )  # fmt: skip


def difference(call, d=1e-5):
    return (call(d) - call(-d)) / (2 * d)


CASES = {
    "mechanical": (pendulum, "lobatto-iiia-3"),
    "hamiltonian": (lambda: pendulum().to_hamiltonian(), "lobatto-iiia-3"),
    "shake": (pendulum, "shake"),
}


@pytest.mark.parametrize("case", CASES)
def test_multipliers_that_are_carried_along(case):
    """By parameters, by samples of the input, and of second order; the method carries its last multiplier."""
    make, method = CASES[case]
    system = make()

    def end(e=(0.0, 0.0, 0.0), **parameters):
        return da.simulate(system, method, u=(TIMES, SAMPLES + np.array(e)), parameters=parameters, **OPTIONS).q[-1]

    run = da.sensitivity(system, method, u=(TIMES, SAMPLES), **OPTIONS)
    np.testing.assert_allclose(run.jacobian("q", "g"), difference(lambda d: end(g=9.81 + d)), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(run.jacobian("q", "m"), difference(lambda d: end(m=1.4 + d)), rtol=1e-7, atol=1e-9)
    expected = np.array([difference(lambda d: end(d * e)) for e in np.eye(3)]).T
    np.testing.assert_allclose(run.jacobian("q", "u")[:, :, 0], expected, rtol=1e-7, atol=1e-9)
    gradient = run.gradient(lambda q: q[0] ** 2)
    np.testing.assert_allclose(gradient["u"][:, 0], 2 * run.solution.q[-1, 0] * expected[0], rtol=1e-7, atol=1e-9)

    def slopes(d):
        moved = da.sensitivity(system, method, u=(TIMES, SAMPLES + d), parameters={"g": 9.81 + d}, **OPTIONS)
        return np.append(moved.gradient(lambda q: q[0] ** 2)["u"], moved.gradient(lambda q: q[0] ** 2)["g"])

    product = run.hessian_product({"g": 1.0, "u": np.ones((3, 1))}, lambda q: q[0] ** 2)
    np.testing.assert_allclose(np.append(product["u"], product["g"]), difference(slopes), rtol=1e-6, atol=1e-9)


def test_given_multipliers_do_not_follow():
    """They are what they are: nothing at the start depends on parameters."""
    system, lam = pendulum(), [3.0]
    run = da.sensitivity(system, "lobatto-iiia-3", lam=lam, **OPTIONS)
    ends = lambda d: da.simulate(system, "lobatto-iiia-3", lam=lam, parameters={"g": 9.81 + d}, **OPTIONS).q[-1]  # noqa: E731
    np.testing.assert_allclose(run.jacobian("q", "g"), difference(ends), rtol=1e-7, atol=1e-9)
    free = da.sensitivity(system, "lobatto-iiia-3", **OPTIONS)
    assert np.abs(free.jacobian("q", "g") - run.jacobian("q", "g")).max() > 1e-6


@pytest.mark.parametrize("method", ["lobatto-iiia-3", "radau-iia-2"])
def test_algebraic_variables_that_jump(method):
    system = da.IndexOneDAE(
        1, f=lambda y, z, k: -k * z, g=lambda y, z, u: z + z**3 / 5 - y - y**3 - u[0], inputs=1, parameters={"k": 1.3},
        initial={"y": [1.0]},
    )  # fmt: skip

    def end(e=(0.0, 0.0, 0.0), k=1.3):
        sol = da.simulate(system, method, u=(TIMES, SAMPLES + np.array(e)), parameters={"k": k}, **OPTIONS)
        return np.array([sol.y[-1, 0], sol.z[-1, 0]])

    run = da.sensitivity(system, method, u=(TIMES, SAMPLES), **OPTIONS)
    for i, part in enumerate("yz"):
        np.testing.assert_allclose(run.jacobian(part, "k")[0], difference(lambda d: end(k=1.3 + d))[i], rtol=1e-7)
        expected = [difference(lambda d: end(d * e))[i] for e in np.eye(3)]
        np.testing.assert_allclose(run.jacobian(part, "u")[0, :, 0], expected, rtol=1e-7, atol=1e-9)
