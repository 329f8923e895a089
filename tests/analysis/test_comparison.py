"""Orders measured, and methods side by side."""

import numpy as np
import pytest

import dalembert as da


@pytest.mark.parametrize(
    ("system", "method", "orders"),
    [
        (da.catalog.double_pendulum, "rattle", {"q": 2, "v": 2, "lam": 2}),
        (da.catalog.double_pendulum, "murua-2", {"q": 4, "v": 4, "lam": 4}),
        (da.catalog.rolling_disk, "spark-2", {"q": 2}),
        (da.catalog.synchronous_machine, "discrete-gradient", {"x": 2}),
    ],
)
def test_orders(system, method, orders):
    found = da.convergence(system(), method, t_end=0.25, steps=(40, 80, 160))
    for name, order in orders.items():
        assert abs(found.orders[name] - order) < 0.1
    assert found.plot().get_legend() is not None
    assert "order" in str(found)


def test_of_a_dae_and_a_hamiltonian_system():
    dae = da.catalog.simple_pendulum().to_dae("ggl")
    found = da.convergence(dae, "spark-2", t_end=0.25)
    assert abs(found.orders["y"] - 2) < 0.1
    found = da.convergence(da.catalog.simple_pendulum().to_hamiltonian(), "rattle", t_end=0.25)
    assert abs(found.orders["p"] - 2) < 0.1


def test_errors_at_round_off_have_no_order():
    found = da.convergence(da.catalog.rolling_disk(), "spark-2", t_end=0.25)
    assert np.isnan(found.orders["v"])
    assert "not measurable in v" in str(found)
    with pytest.raises(da.MethodError, match="at least two"):
        da.convergence(da.catalog.rolling_disk(), "spark-2", t_end=0.25, steps=[10])


def test_compare_measures_against_a_reference():
    system = da.catalog.four_particles()
    result = da.compare(system, ["rattle", "energy-momentum"], t_end=0.3, step=0.01, compile=False)
    rattle, ours = result.rows
    assert ours["energy_error"] < 1e-13 < 1e-9 < rattle["energy_error"]
    assert ours["linear"] < 1e-12
    assert ours["angular"] < 1e-12
    truth = da.simulate(system, "murua-5", t_end=0.3, step=0.0025)
    assert rattle["error"] == pytest.approx(np.abs(result.runs[0].q[-1] - truth.q[-1]).max())
    assert "angular momentum" in result.table("markdown")
    assert "murua-5" in str(result)


def test_compare_of_a_driven_system_and_of_nothing():
    motor = da.catalog.dc_motor()
    result = da.compare(motor, ["discrete-gradient", "gauss-2"], t_end=0.1, step=0.01, u=[1.0, 0.0])
    assert "power balance" in result.table()
    assert result.rows[0]["power_balance"] < 1e-13
    with pytest.raises(da.MethodError, match="at least one"):
        da.compare(motor, [], t_end=0.1, step=0.01)
    with pytest.raises(da.MethodError, match="cannot treat"):
        da.compare(motor, ["rattle"], t_end=0.1, step=0.01)


def test_the_order_is_that_on_the_system_at_hand():
    free = da.catalog.harmonic_oscillator()
    rows = da.compare(free, ["gauss-2", "energy-momentum"], t_end=0.1, step=0.01, compile=False).rows
    assert [row["order"] for row in rows] == ["4", "2"]
    rows = da.compare(da.catalog.simple_pendulum(), ["gauss-2", "rk45"], t_end=0.1, step=0.01, compile=False).rows
    assert [row["order"] for row in rows] == ["2", ""]


@pytest.mark.parametrize(
    "call",
    [
        {"steps": "20,40"}, {"steps": 5}, {"steps": (20.7, 40)}, {"t_end": "x"}, {"t0": None}, {"adaptive": "error"},
        {"checkpoint": "a.nc"},
    ],
)  # fmt: skip
def test_bad_calls_of_convergence(call):
    with pytest.raises(da.DalembertError):
        da.convergence(da.catalog.simple_pendulum(), "rattle", **{"t_end": 0.5, **call})


def test_bad_calls_of_compare():
    pendulum = da.catalog.simple_pendulum()
    for call in ({"step": "x"}, {"checkpoint": "a.nc"}, {"events": [lambda q: q[0]]}):
        with pytest.raises(da.DalembertError):
            da.compare(pendulum, ["rattle"], **{"t_end": 0.1, "step": 0.01, **call})
    with pytest.raises(da.MethodError, match="such as"):
        da.compare(None, ["rattle"], t_end=0.1, step=0.01)


def test_the_numbers_of_a_run():
    """Each of them from the solution, by hand: the energy error is the largest one along the run, not that at its end."""
    from dalembert.analysis.comparison import measures

    start = {"q": [0, -1, 0, -2], "v": [1, 0, 2, 0]}  # its energy is not zero
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", **start, t_end=2.0, step=0.01)
    found = measures(sol)
    error = np.abs(sol.energy - sol.energy[0])
    assert found["energy_error"] == error.max() > 1.1 * error[-1]
    assert found["energy_scale"] == max(np.abs(sol.energy).max(), sol.kinetic.max())
    assert found["position"] == np.abs(sol.residual("position")).max()
    assert found["velocity"] == np.abs(sol.residual("velocity")).max()
    assert (found["steps"], found["step"], found["t_end"]) == (200, 0.01, 2.0)
    driven = da.simulate(da.catalog.dc_motor(), "gauss-1", t_end=0.1, step=0.01, u=lambda t: [np.cos(30 * t), 0.1])
    found = measures(driven)
    assert found["power_balance"] == np.abs(np.cumsum(driven.power_balance)).max()
    assert (found["supplied"], found["dissipated"]) == (driven.supplied.sum(), driven.dissipated.sum())
    result = da.compare(da.catalog.double_pendulum(), ["rattle"], t_end=0.2, step=0.01, compile=False)
    shortest = min(result.runs[0].stats["seconds"] / 20 * 1e6, np.inf)
    assert 0 < result.rows[0]["us_per_step"] <= shortest
