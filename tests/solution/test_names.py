"""Variables by name, with their times and units."""

import numpy as np
import pytest

import dalembert as da
from dalembert.solution import names
from dalembert.solution.names import Column, source


@pytest.fixture(scope="module")
def pendulum():
    return da.simulate(da.catalog.double_pendulum(), "rattle", t_end=1.0, step=0.005)


@pytest.fixture(scope="module")
def motor():
    return da.simulate(da.catalog.dc_motor(), "discrete-gradient", t_end=0.1, step=0.01, u=[6.0, 0.0])


def test_names_of_a_mechanical_run(pendulum):
    for k, name in enumerate(("x1", "y1", "x2", "y2")):
        np.testing.assert_array_equal(pendulum[name], pendulum.q[:, k])
        np.testing.assert_array_equal(pendulum[f"v_{name}"], pendulum.v[:, k])
        np.testing.assert_array_equal(pendulum[f"p_{name}"], pendulum.p[:, k])
    np.testing.assert_array_equal(pendulum["lam2"], pendulum.lam[:, 1])
    np.testing.assert_array_equal(pendulum["energy"], pendulum.energy)
    np.testing.assert_array_equal(pendulum["q"], pendulum.q)
    for name in pendulum.names:
        assert pendulum[name].shape in ((201,), (200,))


def test_accelerations_are_the_slopes_of_the_velocities(pendulum):
    slope = np.gradient(pendulum["v_x1"], pendulum.t, edge_order=2)
    assert np.abs(pendulum["a_x1"] - slope).max() < 2e-2
    finer = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=1.0, step=0.0025)
    errors = [np.abs(s["a_y2"][2:-2] - np.gradient(s["v_y2"], s.t)[2:-2]).max() for s in (pendulum, finer)]
    assert 3.5 < errors[0] / errors[1] < 4.5
    system = da.catalog.simple_pendulum()
    rest = da.simulate(system, "rattle", q=[1.0, 0.0], v=[0.0, 0.0], t_end=0.1, step=0.1)
    np.testing.assert_allclose(rest.a[0], [0.0, -float(system.parameters["g"])], atol=1e-12)


def test_numbered_coordinates_have_numbered_velocities():
    sol = da.simulate(da.Mechanical(2, mass=1.0), "rattle", q=[0.0, 1.0], v=[1.0, 2.0], t_end=1.0, step=0.5)
    np.testing.assert_array_equal(sol["v1"], sol.v[:, 1])


def test_ports_and_states_by_name(motor):
    assert {"u_voltage", "y_voltage"} & set(motor.names) or {"u1", "y1"} & set(motor.names)
    state = motor.system.coordinates[0]
    np.testing.assert_array_equal(motor[state], motor.x[:, 0])
    np.testing.assert_array_equal(motor[f"z_{state}"], motor.z[:, 0])
    port = names.of("y", motor.system.ports)[0]
    np.testing.assert_array_equal(motor[port], motor.y[:, 0])


def test_a_dot_is_as_good_as_an_underscore():
    motor = da.catalog.dc_motor()
    state, port = motor.coordinates[0], motor.ports[0]
    both = da.connect({"left": motor, "right": da.catalog.dc_motor()}, [(f"left.{port}", f"right.{port}")])
    sol = da.simulate(both, "gauss-1", x=np.ones(both.n), t_end=0.1, step=0.05)
    np.testing.assert_array_equal(sol[f"left.{state}"], sol[f"left_{state}"])


def test_what_is_not_there_is_an_error_with_a_proposal(pendulum):
    with pytest.raises(da.MethodError, match="there is no variable 'x3'"):
        pendulum["x3"]
    with pytest.raises(da.MethodError, match="3 is none"):
        pendulum[3]


def test_units(pendulum):
    assert [pendulum.unit(name) for name in ("x1", "v_x1", "a_x1", "energy", "lam1")] == ["m", "m/s", "m/s^2", "J", ""]


def test_other_layers_add_columns(pendulum, monkeypatch):
    monkeypatch.setattr(names, "_SOURCES", [])

    @source
    def length(sol):
        return {"tip": lambda: Column(np.hypot(sol.q[:, 2], sol.q[:, 3]), sol.t, "m")}

    assert pendulum["tip"].max() <= 2.0 + 1e-12
    assert "tip" in pendulum.names
    assert pendulum.to_dataframe(["tip"])["tip"].iloc[0] == 2.0


@pytest.mark.parametrize("name", ["rolling-disk", "windy-pendulum", "synchronous-machine", "four-particles-damped"])
def test_all_names_of_all_kinds_can_be_asked_for(name):
    system = da.catalog.make(name)
    method = "midpoint" if name != "rolling-disk" else "spark-2"
    sol = da.simulate(system, method, t_end=0.02, step=0.01)
    for variable in sol.names:
        column = names.find(sol, variable)
        assert column.values.shape == column.t.shape, variable
        assert np.isfinite(column.values).all(), variable
