"""One beginning for runs, sensitivities, sections and dense output: time, inputs and names are the same everywhere."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da


def follower():
    """`y' = -z`, `0 = z - u - t`: the start depends on the input and on the time."""
    return da.IndexOneDAE(("y",), f=lambda y, z: -z, g=lambda z, u, t: z - u - t, inputs=1, initial={"y": [1.0]})


def test_sensitivity_starts_where_the_run_does():
    """`z0 = u + t0`; y(t) = y0 - int z is linear in y0."""
    options = {"t_end": 4.0, "step": 0.25, "t0": 3.0, "u": [2.0]}
    sol = da.simulate(follower(), "radau-iia-2", **options)
    assert abs(sol.z[0, 0] - 5.0) < 1e-14
    assert abs(sol.y[-1, 0] - (1 - 2 - 3.5)) < 1e-13
    run = da.sensitivity(follower(), "radau-iia-2", **options)
    assert np.array_equal(run.solution.y, sol.y)
    assert np.abs(run.jacobian("y", "y") - 1.0).max() < 1e-13
    assert np.abs(run.jacobian("z", "y")).max() < 1e-13


@pytest.mark.parametrize(
    ("system", "method", "names"),
    [
        (da.catalog.windy_pendulum(), "discrete-gradient", ("x",)),
        (da.catalog.double_pendulum().to_dae(), "radau-iia-2", ("y", "z")),
        (da.catalog.double_pendulum(), "rattle", ("q", "v")),
        (da.catalog.double_pendulum().to_hamiltonian(), "rattle", ("q", "p")),
    ],
)
def test_a_state_has_its_own_name_everywhere(system, method, names, tmp_path):
    sol = da.simulate(system, method, t_end=0.1, step=0.01)
    assert tuple(sol.parts) == system.state == names
    data = sol.to_xarray()
    other = {"q", "v", "p", "x", "y", "z"} - set(names) - {"v", "p"} - ({"y"} if system.nu else set())
    for name in names:
        assert np.array_equal(data[name].values, getattr(sol, name))
        assert np.array_equal(da.load(sol.save(tmp_path / "run.nc")).parts[name], sol.parts[name])
    assert not other & set(data.data_vars)
    sample = sol.at(0.055)
    assert all(name in sample.values for name in names)
    run = da.sensitivity(system, method, t_end=0.02, step=0.01)
    for of in names:
        for wrt in names:
            assert run.jacobian(of, wrt).shape == (system.size_of(of), system.size_of(wrt))


def test_a_name_of_another_kind_is_told():
    with pytest.raises(da.MethodError, match="no position of its own; its state is x"):
        _ = da.simulate(da.catalog.windy_pendulum(), "discrete-gradient", t_end=0.1, step=0.01).q
    with pytest.raises(da.InconsistentState, match=r"q is no initial value of .* starts from x"):
        da.simulate(da.catalog.windy_pendulum(), "discrete-gradient", q=[0.0], t_end=0.1, step=0.01)
    with pytest.raises(da.InconsistentState, match=r"v is no initial value of .* starts from y and z"):
        da.sensitivity(da.catalog.double_pendulum().to_dae(), "radau-iia-2", v=[0.0], t_end=0.1, step=0.01)


def test_no_consistent_value_where_there_is_none():
    """No momentum has the velocity 2 where `H = sqrt(1 + p^2)`: every velocity is below 1."""
    fast = da.Hamiltonian(2, hamiltonian=lambda p: np.sqrt(1 + p @ p), holonomic=lambda q, t: q[0] - 2 * t)
    with pytest.raises(da.ConvergenceError, match="velocity constraints"):
        da.consistent(fast, q=[0.0, 0.0], p=[0.1, 0.0])
    slow = da.Hamiltonian(2, hamiltonian=lambda p: np.sqrt(1 + p @ p), holonomic=lambda q, t: q[0] - t / 2)
    found = da.consistent(slow, q=[0.0, 0.0], p=[0.1, 0.2])
    assert abs(found.v[0] - 0.5) < 1e-15
    assert abs(found.p[1] - 0.2) < 1e-15


def test_consistent_values_stay_near_what_was_given():
    roots = da.IndexOneDAE(("y",), f=lambda z: z, g=lambda y, z: z**2 - y)
    assert abs(da.consistent(roots, y=[4.0], z=[-1.9]).z[0] + 2) < 1e-15
    assert abs(da.consistent(roots, y=[4.0], z=[1.9]).z[0] - 2) < 1e-15


def test_options_of_casadi_are_left_alone():
    from dalembert.methods.step import two_sum

    before = ca.GlobalOptions.getSimplificationOnTheFly()
    try:
        ca.GlobalOptions.setSimplificationOnTheFly(False)
        two_sum(ca.SX.sym("a"), ca.SX.sym("b"))
        assert not ca.GlobalOptions.getSimplificationOnTheFly()
    finally:
        ca.GlobalOptions.setSimplificationOnTheFly(before)


def test_engines_are_kept_in_bounds():
    from dalembert.engine.case import ENGINES, prepare
    from dalembert.engine.runners import Engine

    system = da.catalog.harmonic_oscillator()
    for _ in range(ENGINES + 5):
        prepare(system, da.methods.Variational(lagrangian=lambda q0, q1, h: h * ((q1[0] - q0[0]) / h) ** 2 / 2))
    assert system.cache.count(Engine) <= ENGINES
