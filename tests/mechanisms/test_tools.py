"""What one does with systems, on an assembled mechanism: sweeps, fits, gradients, plans, linearisation, FMUs, stores, reports."""

import numpy as np
import pytest

import dalembert as da

G, LENGTH, MASS = 9.81, 1.0, 2.0


def bar(damping=0.0):
    """A bar that hangs on a motor: `J a'' = u - m g l/2 sin a - d a'`, counted from below."""
    m = da.Mechanism(gravity=(0, -G), name="bar")
    m.rod("bar", (0, 0), (0, -LENGTH), mass=MASS, radius=0.01)
    m.revolute("pin", "ground", "bar", at=(0, 0))
    if damping:
        m.friction("oil", "pin", viscous=damping)
    m.motor("motor", "pin")
    m.sensor("tip", "bar", at=(0, -LENGTH))
    return m


J = MASS * (LENGTH**2 / 3 + 1e-4 / 4)
SYSTEMS = {c: bar(0.3).assemble(coordinates=c) for c in ("absolute", "joint")}


@pytest.fixture(params=SYSTEMS)
def system(request):
    return SYSTEMS[request.param]


def test_linearised_about_the_hanging_bar(system):
    """`lam^2 J + 0.3 lam + m g l/2 = 0`."""
    found = da.linearize(system, u=[0.0])
    exact = np.roots([J, 0.3, MASS * G * LENGTH / 2])
    poles = np.linalg.eigvals(found.A)
    close = poles[np.abs(poles.imag) > 1e-6]
    np.testing.assert_allclose(sorted(close, key=lambda z: z.imag), sorted(exact, key=lambda z: z.imag), atol=1e-8)


def run(system, **more):
    return da.simulate(system, "gauss-2", t_end=0.5, step=0.01, u={"motor": 1.0}, **more)


def test_members_of_an_ensemble_are_single_runs(system):
    both = da.ensemble(system, "gauss-2", samples={"viscous_oil": [0.1, 0.3]}, t_end=0.5, step=0.01, u={"motor": 1.0})
    for k, damping in enumerate((0.1, 0.3)):
        np.testing.assert_allclose(both["q"][k], run(system, parameters={"viscous_oil": damping}).q, atol=1e-13)


def test_derivatives_are_differences(system):
    slope = da.sensitivity(system, "gauss-2", t_end=0.5, step=0.01, u={"motor": 1.0}).jacobian("q", "viscous_oil")
    h = 1e-4
    ends = [run(system, parameters={"viscous_oil": 0.3 + x}).q[-1] for x in (h, -h)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), atol=1e-9)


def test_a_fit_finds_what_made_the_data(system):
    data = {"t": run(system).t[::5], **dict(zip(system.coordinates, run(system).q[::5].T, strict=True))}
    found = da.fit(
        system, data, free=["viscous_oil"], method="gauss-2", step=0.01, u={"motor": 1.0}, parameters={"viscous_oil": 0.1}
    )
    assert float(found.parameters["viscous_oil"]) == pytest.approx(0.3, abs=1e-8)


def test_inputs_that_lift_the_bar_are_found():
    """From below to one radian, at rest there, as the motion with these inputs confirms."""
    system = SYSTEMS["joint"]
    plan = da.optimize_inputs(
        system, "gauss-1", t_end=1.0, step=0.05, end={"q": [1.0], "v": [0.0]}, running=lambda u: u @ u, bounds=(-10, 10)
    )
    np.testing.assert_allclose(plan.solution.joint("pin").angle[-1], 1.0, atol=1e-12)
    np.testing.assert_allclose(plan.solution.joint("pin").rate[-1], 0.0, atol=1e-12)


def test_files_reports_and_components(system, tmp_path):
    sol = run(system)
    sol.save(tmp_path / "run.nc")
    again = da.load(tmp_path / "run.nc")
    for name in ("force", "torque"):
        np.testing.assert_array_equal(getattr(again.joint("pin").reaction, name), getattr(sol.joint("pin").reaction, name))
    np.testing.assert_array_equal(again["tip"], sol["tip"])
    kept = run(system, store=tmp_path / "run.zarr")
    np.testing.assert_array_equal(kept.joint("pin").angle, sol.joint("pin").angle)
    sol.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "degrees of freedom" in text
    assert "power balance" in text
    fmpy = pytest.importorskip("fmpy")
    path = da.export_fmu(system, "gauss-2", tmp_path / "bar.fmu", step=0.01)
    names = [v.name for v in fmpy.read_model_description(str(path)).modelVariables]
    assert "motor" in names
    out = fmpy.simulate_fmu(
        str(path), stop_time=0.5, output_interval=0.01, start_values={"motor": 1.0}, output=[system.coordinates[-1]]
    )
    np.testing.assert_allclose(out[system.coordinates[-1]], sol.q[:, -1], atol=1e-12)
