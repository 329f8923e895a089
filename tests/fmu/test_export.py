"""FMUs: valid, and with the trajectories of `simulate`, run by FMPy."""

import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

import dalembert as da
from dalembert.cli import app

fmpy = pytest.importorskip("fmpy")
validation = pytest.importorskip("fmpy.validation")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of FMPy's own


def run(path, names, stop, every, start=None):
    """A run of an FMU by FMPy: a table of values, time first."""
    out = fmpy.simulate_fmu(
        str(path), start_time=0.0, stop_time=stop, output_interval=every, start_values=start or {},
        output=list(names), relative_tolerance=None,
    )  # fmt: skip
    return np.array([[row[name] for name in names] for row in out])


def driven(path, folder, name, times, values, every, names):
    """A run by hand, an input set before each communication step: a table of values after each."""
    description = fmpy.read_model_description(str(path))
    slave = fmpy.instantiate_fmu(fmpy.extract(str(path), str(folder / path.stem)), description, "CoSimulation")
    at = {v.name: v.valueReference for v in description.modelVariables}
    slave.enterInitializationMode()
    slave.setFloat64([at[name]], [values[0]])
    slave.exitInitializationMode()
    rows = []
    for t, value in zip(times, values, strict=True):
        slave.setFloat64([at[name]], [value])
        slave.doStep(t, every)
        rows.append(slave.getFloat64([at[one] for one in names]))
    slave.terminate()
    slave.freeInstance()
    return np.array(rows)


@pytest.mark.parametrize("fmi", ["3.0", "2.0"])
def test_the_double_pendulum_moves_as_it_does_in_simulate(fmi, tmp_path):
    system = da.catalog.double_pendulum()
    path = da.export_fmu(system, "rattle", tmp_path / "double pendulum.fmu", step=0.01, fmi=fmi)
    assert validation.validate_fmu(str(path)) == []
    sol = da.simulate(system, "rattle", t_end=10.0, step=0.01, compile="newton")
    names = [
        *system.coordinates,
        "v_x1",
        "v_y1",
        "v_x2",
        "v_y2",
        "energy",
        "power_balance",
        "lam1",
        "position_residual",
        "velocity_residual",
    ]
    found = run(path, names, 10.0, 0.05)
    assert np.abs(found[:, :8] - sol.x[::5]).max() < 1e-12  # the same bits, where libm is the same
    assert np.abs(found[:, 8] - sol.energy[::5]).max() < 1e-12
    assert np.abs(found[1:, 9] - np.cumsum(sol.power_balance)[4::5]).max() < 1e-11
    assert np.abs(found[1:, 10] - sol.lam[4::5, 0]).max() < 1e-11
    assert found[:, 11:].max() < 1e-13
    with zipfile.ZipFile(path) as archive:
        assert any(name.startswith("binaries/") for name in archive.namelist())
        assert "da_run" in archive.read("sources/model.c").decode()
        assert ("sources/buildDescription.xml" in archive.namelist()) == (fmi == "3.0")
        whole = {name: archive.read(name) for name in archive.namelist() if not name.startswith("binaries/")}
    bare = da.export_fmu(system, "rattle", path, step=0.01, fmi=fmi, binary=False)  # the same, to be compiled elsewhere
    assert validation.validate_fmu(str(bare)) == []
    with zipfile.ZipFile(bare) as archive:
        assert set(archive.namelist()) == set(whole)
        assert archive.read("sources/model.c") == whole["sources/model.c"]


def test_parameters_and_start_values_can_be_changed(tmp_path):
    system = da.catalog.double_pendulum()
    path = da.export_fmu(system, "rattle", tmp_path / "pendulum.fmu", step=0.01)
    new = {"m2": 2.5, "l1": 0.8, "g": 3.0}
    q = [0.8, 0.0, 1.8, 0.0]
    sol = da.simulate(system, "rattle", q=q, t_end=2.0, step=0.01, parameters=new, compile="newton")
    start = {**new, "x1": 0.8, "x2": 1.8}
    assert np.abs(run(path, system.coordinates, 2.0, 0.02, start) - sol.q[::2]).max() < 1e-12
    off = run(path, ["position_residual", "velocity_residual", "x1", "y1"], 0.5, 0.1, {"l1": 0.8})  # off the constraints
    assert off[:, :2].max() < 1e-12
    assert abs(np.hypot(off[0, 2], off[0, 3]) - 0.8) < 1e-12


def test_a_driven_port_hamiltonian_system_keeps_its_balance(tmp_path):
    system = da.catalog.mass_spring_damper(3)
    path = da.export_fmu(system, "discrete-gradient", tmp_path / "chain.fmu", step=0.01)
    assert validation.validate_fmu(str(path)) == []
    times = np.arange(0.0, 3.0, 0.1)
    force = np.round(3 * np.sin(times), 3)
    sol = da.simulate(system, "discrete-gradient", t_end=3.0, step=0.01, u=(times, force), compile="newton")
    names = [*system.coordinates, "energy", "supplied", "dissipated", "power_balance"]
    found = driven(path, tmp_path, "force", times, force, 0.1, names)
    assert np.abs(found[:, :6] - sol.x[10::10]).max() < 1e-12
    assert np.abs(found[:, 7] - np.cumsum(sol.supplied)[9::10]).max() < 1e-12
    assert np.abs(found[:, 8] - np.cumsum(sol.dissipated)[9::10]).max() < 1e-12
    assert np.abs(found[:, 9]).max() < 1e-12


@pytest.mark.parametrize("fmi", ["3.0", "2.0"])
def test_a_state_can_be_kept_and_gone_back_to_and_bad_calls_fail(fmi, tmp_path):
    system = da.catalog.simple_pendulum()
    path = da.export_fmu(system, "rattle", tmp_path / "pendulum.fmu", step=0.01, fmi=fmi)
    description = fmpy.read_model_description(str(path))
    slave = fmpy.instantiate_fmu(fmpy.extract(str(path), str(tmp_path / "unpacked")), description, "CoSimulation")
    at = {v.name: v.valueReference for v in description.modelVariables}
    get, put = (slave.getFloat64, slave.setFloat64) if fmi == "3.0" else (slave.getReal, slave.setReal)
    keep, back = (
        (slave.getFMUState, slave.setFMUState) if hasattr(slave, "getFMUState") else (slave.getFMUstate, slave.setFMUstate)
    )
    if fmi == "2.0":
        slave.setupExperiment(startTime=0.0)
    slave.enterInitializationMode()
    assert get([at["energy"]]) == [0.0]
    slave.exitInitializationMode()
    slave.doStep(0.0, 0.1)
    kept, before = keep(), get([at["x"], at["time"]])
    slave.doStep(0.1, 0.3)
    assert get([at["x"], at["time"]]) != before
    back(kept)
    assert get([at["x"], at["time"]]) == before
    assert abs(before[1] - 0.1) < 1e-15
    with pytest.raises(Exception, match=r"fmi[23]DoStep"):
        slave.doStep(0.1, 0.0155)
    with pytest.raises(Exception, match="Set"):
        put([at["l"]], [2.0])
    with pytest.raises(Exception, match="Set"):
        put([at["energy"]], [2.0])
    slave.freeInstance()


def test_methods_that_carry_multipliers_and_networks_that_jump_with_their_inputs(tmp_path):
    system = da.catalog.simple_pendulum()
    for method in ("shake", "energy-momentum"):
        path = da.export_fmu(system, method, tmp_path / "pendulum.fmu", step=0.01)
        sol = da.simulate(system, method, t_end=1.0, step=0.01, compile="newton")
        assert np.abs(run(path, system.coordinates, 1.0, 0.1) - sol.q[::10]).max() < 1e-12
    ladder, times, volts = (
        da.catalog.rlc_ladder(2),
        np.arange(0.0, 2.0, 0.2),
        np.array([1.0, 1.0, 0.0, 3.0, 3.0, -1.0, 2.0, 0.5, 0.0, 1.0]),
    )
    path = da.export_fmu(ladder, "gauss-2", tmp_path / "ladder.fmu", step=0.05, u=[1.0])
    sol = da.simulate(ladder, "gauss-2", t_end=2.0, step=0.05, u=(times, volts), compile="newton")
    found = driven(path, tmp_path, "source", times, volts, 0.2, ladder.coordinates)
    assert np.abs(found - sol.x[4::4]).max() < 1e-11


def test_a_dae_is_exported_with_its_algebraic_variables(tmp_path):
    dae = da.IndexOneDAE(
        ("y",), f=lambda y, z, u: [u[0] - z[0]], g=lambda y, z, u: [z[0] + z[0] ** 3 - y[0] - u[0]], algebraic=1, inputs=1,
        initial={"y": [2.0], "z": [1.0]},
    )  # fmt: skip
    times, u = np.arange(0.0, 1.0, 0.1), np.repeat([0.0, 1.0], 5)
    path = da.export_fmu(dae, "radau-iia-2", tmp_path / "dae.fmu", step=0.05, u=[0.0])
    assert validation.validate_fmu(str(path)) == []
    sol = da.simulate(dae, "radau-iia-2", t_end=1.0, step=0.05, u=(times, u), compile="newton")
    found = driven(path, tmp_path, "u1", times, u, 0.1, ["y", "z1"])
    assert np.abs(found - np.hstack([sol.y, sol.z])[2::2]).max() < 1e-12


def test_the_command_writes_one(tmp_path):
    path = tmp_path / "spring.fmu"
    done = CliRunner().invoke(
        app, ["export-fmu", "harmonic-oscillator", str(path), "--method", "gauss-2", "-p", "k=4", "-i", "q=0.5"]
    )
    assert done.exit_code == 0, done.output
    starts = {v.name: v.start for v in fmpy.read_model_description(str(path)).modelVariables}
    assert starts["k"] == "4.0"
    assert starts["x"] == "0.5"
    refused = CliRunner().invoke(app, ["export-fmu", "harmonic-oscillator", str(path), "--method", "rk45"])
    assert refused.exit_code == 2


def test_what_cannot_be_exported_says_why(tmp_path):
    system, path = da.catalog.double_pendulum(), tmp_path / "model.fmu"
    with pytest.raises(da.MethodError, match="SciPy makes its steps"):
        da.export_fmu(system, "rk45", path, step=0.01)
    with pytest.raises(da.MethodError, match="sparse factors, which an FMU does not have"):
        da.export_fmu(da.catalog.net(12, 12), "rattle", path, step=0.001)
    with pytest.raises(da.FileError, match=r"an FMU ends in \.fmu"):
        da.export_fmu(system, "rattle", tmp_path / "model.zip", step=0.01)
    with pytest.raises(da.MethodError, match=r"fmi must be one of 3\.0, 2\.0"):
        da.export_fmu(system, "rattle", path, step=0.01, fmi="1.0")
    with pytest.raises(da.MethodError, match="step must be positive"):
        da.export_fmu(system, "rattle", path, step=0.0)
    with pytest.raises(da.MethodError, match="come from outside"):
        da.export_fmu(da.catalog.mass_spring_damper(2), "discrete-gradient", path, step=0.01, u=lambda t: [t])
    assert not path.exists()


def test_another_kind_of_machine_gets_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr("dalembert.fmu.export.platform.system", lambda: "Windows")
    monkeypatch.setattr("dalembert.fmu.export.platform.machine", lambda: "AMD64")
    system, path = da.catalog.harmonic_oscillator(), tmp_path / "model.fmu"
    with pytest.raises(da.MethodError, match=r"no binary for Windows on AMD64.*binary=False"):
        da.export_fmu(system, "rattle", path, step=0.01)
    da.export_fmu(system, "rattle", path, step=0.01, binary=False)
    with zipfile.ZipFile(path) as archive:
        assert "dllexport" in archive.read("sources/model.c").decode()
