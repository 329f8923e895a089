"""A step that fails ends the run with an error of ours, and the error has all that was computed: for every kind of system."""

import numpy as np
import pytest

import dalembert as da

OPTIONS = [{}, {"save_every": 7}, {"adaptive": "error"}, {"adaptive": "backoff"}, {"events": lambda t: t - 0.2}]


def wall(t):
    """Real up to t = 0.405 only."""
    return np.sqrt(0.405 - t)


def pendulum():
    return da.Mechanical(
        2, mass=1.0, force=lambda t: [0.0, -9.81 * wall(t)], holonomic=lambda q: q @ q - 1, initial={"q": [1.0, 0.0], "v": [0, 0]}
    )


def skate():
    return da.Mechanical(
        3, mass=1.0, kinematics=lambda q: [[np.cos(q[2]), 0.0], [np.sin(q[2]), 0.0], [0.0, 1.0]],
        gyroscopic=False, force=lambda t: [wall(t), 1.0], initial={"q": [0.0, 0.0, 0.0], "v": [1.0, 0.1]},
    )  # fmt: skip


CASES = {
    "holonomic": (pendulum, "rattle"),
    "holonomic, both levels": (pendulum, "energy-momentum-ggl"),
    "reduced": (pendulum, da.reduced.Baumgarte(integrator="rk4")),
    "SciPy": (pendulum, da.reduced.Baumgarte(integrator="BDF")),
    "free": (lambda: da.Mechanical(1, mass=1.0, force=lambda t: [wall(t)], initial={"q": [1.0], "v": [0.0]}), "gauss-2"),
    "explicit": (lambda: da.Mechanical(1, mass=1.0, force=lambda t: [wall(t)], initial={"q": [1.0], "v": [0.0]}), "rk4"),
    "kinematics": (skate, "midpoint"),
    "nonholonomic": (
        lambda: da.Mechanical(
            3, mass=1.0, force=lambda t: [wall(t), 0, 0], nonholonomic=lambda q, v: v[1] - q[2] * v[0],
            initial={"q": [0.0, 0.0, 0.3], "v": [1.0, 0.3, 0.0]},
        ),
        "cortes-martinez",
    ),
    "Hamiltonian": (
        lambda: da.Hamiltonian(
            1, hamiltonian=lambda q, p: p @ p / 2 + q[0] ** 2, force=lambda t: [wall(t)], initial={"q": [1.0], "p": [0.0]}
        ),
        "gauss-2",
    ),
    "port": (
        lambda: da.PortHamiltonian(
            2, hamiltonian=lambda x: x @ x / 2, J=[[0.0, 1.0], [-1.0, 0.0]], initial={"x": [1.0, 0.0]},
            R=lambda x: [[np.sqrt(x[0] - 0.92), 0.0], [0.0, 0.0]],
        ),
        "discrete-gradient",
    ),
    "index 1": (
        lambda: da.IndexOneDAE(
            3, f=lambda y, z, t: [y[1], -z[0] * wall(t), y[0]], g=lambda y, z: z[0] - np.sin(y[0]), algebraic=1,
            initial={"y": [1.0, 0.0, 0.0]},
        ),
        "radau-iia-3",
    ),
    "index 2": (
        lambda: da.IndexTwoDAE(
            3, f=lambda y, z, t: [y[1] + z[0], z[1] * wall(t), np.exp(y[2])], g=lambda y: [y[0] - 1, y[1]],
            initial={"y": [1.0, 0.0, 0.0]},
        ),
        "radau-iia-3",
    ),
}  # fmt: skip


def cases():
    for name, (_, method) in CASES.items():
        for options in OPTIONS:
            if not ("adaptive" in options and not isinstance(method, str)):
                yield pytest.param(name, options, id=f"{name}-{'-'.join(options)}")


@pytest.mark.parametrize(("name", "options"), list(cases()))
def test_what_was_computed_is_in_the_error(name, options):
    make, method = CASES[name]
    system = make()
    with pytest.raises(da.DalembertError) as caught:
        da.simulate(system, method, t_end=2.0, step=0.01, **options)
    part = caught.value.solution
    assert (0.2 if name == "port" else 0.39) < part.t[-1] < 0.42
    assert (np.diff(part.t) > 0).all()
    values = [*part.parts.values(), part.lam, part.supplied, part.dissipated, *([part.energy] if system.has_energy else [])]
    assert all(np.isfinite(a).all() for a in values)
    if isinstance(caught.value, da.ConvergenceError):
        assert caught.value.t == part.t[-1]
    if options.get("save_every"):  # the last step before the error, whatever is kept otherwise
        assert len(part.t) == -(-part.stats["steps"] // 7) + 1
    if name != "SciPy" and (not options or "events" in options):  # SciPy chooses its steps by the end too
        good = da.simulate(system, method, t_end=float(part.t[-1]), step=0.01)
        np.testing.assert_allclose(part.x, good.x, rtol=0, atol=1e-13)


def test_an_index_two_system_that_does_not_converge_names_no_gradient():
    system = da.IndexTwoDAE(3, f=lambda y, z: [y[1] + z[0], z[1], np.exp(50 * y[2])], g=lambda y: [y[0] - 1, y[1]])
    with pytest.raises(da.ConvergenceError, match="step 1 of 10 did not converge") as caught:
        da.simulate(system, "radau-iia-3", y=[1.0, 0, 0], t_end=10.0, step=1.0)
    assert "gradient" not in str(caught.value)
    assert caught.value.solution.t.tolist() == [0.0]


def test_an_error_between_two_rows_leaves_a_solution_up_to_it():
    system = da.Mechanical(2, mass=1.0, potential=lambda q: 9.81 * q[1], holonomic=lambda q: q @ q - 1)
    run = {"q": [1.0, 0.0], "v": [0.0, 0.0], "t_end": 500.0, "step": 0.35}
    with pytest.raises(da.ConvergenceError) as caught:
        da.simulate(system, "rattle", **run, save_every=7)
    part = caught.value.solution
    assert caught.value.t == part.t[-1] > 0
    assert f"holds the {part.stats['steps']} steps before" in str(caught.value)
    with pytest.raises(da.ConvergenceError) as all_of_it:
        da.simulate(system, "rattle", **run)
    np.testing.assert_array_equal(part.q[-1], all_of_it.value.solution.q[-1])
    np.testing.assert_array_equal(part.lam[-1], all_of_it.value.solution.lam[-1])


@pytest.mark.parametrize("method", ["midpoint", "rk4", "rattle"])
def test_inputs_that_end_before_the_run(method):
    """Where a step asks for them, the run ends there; where none does, the error holds all of it."""
    system, table = da.Mechanical(1, mass=1.0, inputs=[1.0]), [0.1] * 100
    with pytest.raises(da.ModelError, match="IndexError") as caught:
        da.simulate(system, method, q=[1.0], v=[0.0], u=lambda t: [table[int(t / 0.01 + 1e-9)]], t_end=1.0, step=0.01)
    part = caught.value.solution
    assert part.t[-1] == (1.0 if method == "midpoint" else 0.99)
    good = da.simulate(system, method, q=[1.0], v=[0.0], u=[0.1], t_end=1.0, step=0.01)
    np.testing.assert_allclose(part.q, good.q[: len(part.t)], rtol=0, atol=1e-14)


def test_steps_of_reduced_equations_that_are_not_finite():
    system = da.Mechanical(1, mass=1.0, potential=lambda q: -(q[0] ** 4))
    with pytest.raises(da.DalembertError, match="not finite") as caught:
        da.simulate(system, da.reduced.Baumgarte(integrator="rk4"), q=[10.0], v=[0.0], t_end=10.0, step=1.0)
    assert np.isfinite(caught.value.solution.q).all()
    assert np.isfinite(caught.value.solution.energy).all()
