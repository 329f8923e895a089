"""Tables and datasets of a run."""

import numpy as np
import pytest

import dalembert as da


@pytest.fixture(scope="module")
def sol():
    return da.simulate(da.catalog.four_particles_damped(), "energy-momentum", t_end=0.5, step=0.05)


def test_a_table_has_a_row_for_each_time(sol):
    frame = sol.to_dataframe()
    assert frame.index.name == "time"
    assert len(frame) == len(sol.t)
    np.testing.assert_array_equal(frame.index.to_numpy(), sol.t)
    np.testing.assert_array_equal(frame["z4"].to_numpy(), sol.q[:, 11])
    np.testing.assert_array_equal(frame["energy"].to_numpy(), sol.energy)
    assert "lam1" not in frame
    assert not frame.isna().any().any()
    assert list(sol.to_dataframe("x1").columns) == ["x1"]


def test_multipliers_have_a_table_of_their_own(sol):
    frame = sol.to_dataframe(["lam1", "lam2"])
    np.testing.assert_array_equal(frame.index.to_numpy(), sol.t_lam)
    with pytest.raises(da.MethodError, match="different times"):
        sol.to_dataframe(["x1", "lam1"])


def test_a_long_table_is_tidy(sol):
    frame = sol.to_dataframe(["x1", "lam1"], long=True)
    assert list(frame.columns) == ["time", "variable", "value", "unit"]
    assert len(frame) == 2 * len(sol.t) - 1
    np.testing.assert_array_equal(frame[frame.variable == "lam1"].value.to_numpy(), sol.lam[:, 0])


def test_selection(sol):
    np.testing.assert_array_equal(sol.sel("x1")["x1"].values, sol.q[:, 0])
    assert sol.sel("x1", time=0.21)["x1"].item() == sol.q[4, 0]
    assert sol.sel(time=slice(0.1, 0.2)).sizes["time"] == 3
    with pytest.raises(da.MethodError, match="times of its own"):
        sol.sel("lam1")


def test_ports_states_and_outputs_have_labels_in_xarray():
    motor = da.catalog.dc_motor()
    run = da.simulate(motor, "discrete-gradient", t_end=0.1, step=0.01, u=[6.0, 0.0])
    data = run.to_xarray()
    assert list(data["port"].values) == list(motor.ports)
    np.testing.assert_array_equal(data["y"].values, run.y)
    np.testing.assert_array_equal(data["x"].sel(coordinate=motor.coordinates[1]).values, run.x[:, 1])
    assert data["time"].attrs["units"] == "s"
    assert data["energy"].attrs["units"] == "J"
    assert dict(zip(data["coordinate"].values, data["unit"].values, strict=True)) == {"flux": "Wb", "momentum": "N m s"}
    labels = list(data["step"].values)
    np.testing.assert_array_equal(data["lam"].sel(step=labels[0]).values, run.outputs[:, 0])
    np.testing.assert_array_equal(data["lam"].sel(step=labels[-1]).values, run.costates[:, -1])
    assert len(run.to_dataframe()) == len(run.t)


def test_labels_and_units_are_in_files(tmp_path):
    import xarray as xr

    run = da.simulate(da.catalog.dc_motor(), "discrete-gradient", t_end=0.1, step=0.01, u=[6.0, 0.0])
    path = run.save(tmp_path / "motor.nc")
    with xr.open_dataset(path, engine="netcdf4") as data:
        assert list(data["port"].values) == list(run.system.ports)
        assert data["time"].attrs["units"] == "s"
    np.testing.assert_array_equal(da.load(path).x, run.x)
