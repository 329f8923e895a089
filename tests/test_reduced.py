"""Reduction and stabilisation: drift where nothing is done, none where something is."""

import numpy as np
import pytest

import dalembert as da
from conftest import driven_pendulum
from dalembert.reduced import Baumgarte, CoordinatePartition, Projection


@pytest.fixture(scope="module")
def pendulum():
    """Fig. 4.1 of Bertolazzi et al.: m = 2, l = 2.5, started near (0.86, 2.35), projected."""
    system = da.Mechanical(
        ("x", "y"), mass=lambda m: m, potential=lambda q, m, g: m * g * q[1], holonomic=lambda q, l: np.dot(q, q) - l**2,
        parameters={"m": 2.0, "g": 9.81, "l": 2.5},
    )  # fmt: skip
    return system, da.consistent(system, q=[0.86, 2.35], v=[0.0, 0.0])


def levels(sol):
    return [np.abs(sol.residual(level)).max(axis=1) for level in ("position", "velocity")]


@pytest.mark.parametrize("method", ["rk45", "radau", "bdf", "dop853"])
def test_index_reduction_drifts(pendulum, method):
    system, start = pendulum
    g, _ = levels(da.simulate(system, method, **start, t_end=20.0, step=0.05))
    assert g[-100:].max() > 4 * g[:100].max()
    assert g[-1] > 1e-10


def test_baumgarte_does_not_grow(pendulum):
    system, start = pendulum
    for method in (Baumgarte(xi=0.8, omega=2.0), Baumgarte()):
        g, _ = levels(da.simulate(system, method, **start, t_end=20.0, step=0.05))
        assert g[-100:].max() < 2 * g[:200].max()


@pytest.mark.parametrize(
    "method", [Projection(), Projection(weight="orthogonal"), Projection(integrator="rk4"), CoordinatePartition(),
CoordinatePartition(integrator="rk4")], ids=str )  # fmt: skip
def test_projection_and_partition_at_round_off(pendulum, method):
    system, start = pendulum
    sol = da.simulate(system, method, **start, t_end=5.0, step=0.02)
    g, G = levels(sol)
    assert g.max() < 1e-14
    assert G.max() < 1e-13
    truth = da.simulate(system, "lobatto-pair-4", **start, t_end=5.0, step=0.005)
    assert np.abs(sol.q[-1] - truth.q[-1]).max() < (2e-2 if "rk4" in str(method) else 1e-4)


def test_energy_projection(pendulum):
    system, start = pendulum
    sol = da.simulate(system, Projection(energy=True, integrator="rk4"), **start, t_end=5.0, step=0.02)
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-12
    assert levels(sol)[1].max() < 1e-12


@pytest.mark.parametrize("method", ["baumgarte", "projection", "coordinate-partition", "dop853"])
def test_rheonomic_constraints_inputs_and_two_links(method):
    for system, options in ((driven_pendulum(), {"u": lambda t: [np.sin(3 * t)]}), (da.catalog.double_pendulum(), {})):
        start = da.consistent(system)
        sol = da.simulate(system, method, q=start.q, v=start.v, t_end=1.0, step=0.02, **options)
        truth = da.simulate(system, "murua-ggl-3", q=start.q, v=start.v, t_end=1.0, step=0.01, **options)
        assert np.abs(sol.q[-1] - truth.q[-1]).max() < 1e-4


def test_nonholonomic_systems_too():
    disk = da.catalog.rolling_disk()
    sol = da.simulate(disk, "projection", t_end=5.0, step=0.1)
    assert np.abs(sol.residual("velocity")).max() < 1e-14
    assert np.abs(sol.q[-1] - da.catalog.rolling_disk_solution(5.0)).max() < 1e-5
    with pytest.raises(da.MethodError, match="cannot treat the nonholonomic constraints"):
        da.simulate(disk, "coordinate-partition", t_end=1.0, step=0.1)


def test_bad_input(pendulum):
    system, start = pendulum
    with pytest.raises(da.MethodError, match="integrator must be one of"):
        Baumgarte(integrator="euler2")
    with pytest.raises(da.MethodError, match="xi and omega must be positive"):
        Baumgarte(xi=-1.0)
    with pytest.raises(da.MethodError, match="weight must be"):
        Projection(weight="l1")
    with pytest.raises(da.MethodError, match="not an invariant"):
        da.simulate(driven_pendulum(), Projection(energy=True), t_end=1.0, step=0.1)
    with pytest.raises(da.MethodError, match="controls its steps itself"):
        da.simulate(system, "dop853", **start, t_end=1.0, step=0.1, adaptive=True)
    twice = da.Mechanical(3, mass=1.0, holonomic=lambda q: [q[0] + q[1], q[0] - q[2]])
    assert da.simulate(twice, "coordinate-partition", q=[0, 0, 0], v=[1, -1, 1], t_end=1.0, step=0.1).q[-1, 0] == pytest.approx(
        1.0
    )


def test_an_interrupted_run_keeps_what_it_has():
    calls = []

    def wind(t):
        calls.append(t)
        if t > 0.5:
            raise KeyboardInterrupt
        return [0.0, 0.0]

    system = da.Mechanical(
        ("x", "y"), mass=1.0, potential=lambda q: 9.81 * q[1], holonomic=lambda q: np.dot(q, q) - 1, inputs=np.eye(2),
        initial={"q": [1.0, 0.0], "v": [0.0, 0.0]},
    )  # fmt: skip
    with pytest.raises(da.Interrupted) as caught:
        da.simulate(system, "rk45", t_end=1.0, step=0.01, u=wind)
    assert 0.4 < caught.value.solution.t[-1] <= 0.51
