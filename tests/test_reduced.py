"""Reduction and stabilisation: drift where nothing is done, none where something is."""

import pickle

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from conftest import driven_pendulum
from dalembert.engine.steps import March
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
    g, _ = levels(da.simulate(system, method, **start, t_end=50.0, step=0.05))
    assert np.median(g[-100:]) > 20 * np.median(g[:100])
    assert g[-1] > 1e-5


@pytest.mark.parametrize(
    "method", ["rk45", "dop853", "radau", "bdf", Baumgarte(omega=2.0), Baumgarte(omega=2.0, integrator="LSODA")]
)
def test_rows_are_read_off_one_integration(pendulum, method):
    """Whatever the distance of the rows, the integrator takes the same steps; they are those of SciPy by itself."""
    system, start = pendulum
    fine, coarse = (da.simulate(system, method, **start, t_end=20.0, step=h) for h in (0.01, 0.5))
    np.testing.assert_allclose(fine.q[::50], coarse.q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(fine.residual("position")[::50], coarse.residual("position"), rtol=0, atol=1e-12)
    stable = {"xi": method.xi, "omega": method.omega} if isinstance(method, Baumgarte) else {}
    name = fine.stats["engine"]
    y = np.concatenate([start.q, start.v])
    alone = solve_ivp(da.analysis.ode(system, **stable), (0, 20), y, method=name, rtol=1e-6, atol=1e-9, t_eval=coarse.t)
    np.testing.assert_allclose(coarse.x, alone.y.T, rtol=0, atol=1e-12)


def test_the_last_shorter_step_and_thinning(pendulum):
    system, start = pendulum
    for method in ("rk45", Baumgarte(integrator="rk4", omega=2.0), "projection", "coordinate-partition"):
        full = da.simulate(system, method, **start, t_end=1.03, step=0.05)
        thin = da.simulate(system, method, **start, t_end=1.03, step=0.05, save_every=7)
        assert full.t[-1] == thin.t[-1] == 1.03
        np.testing.assert_array_equal(thin.t, full.t[[0, 7, 14, 21]])
        np.testing.assert_array_equal(thin.x, full.x[[0, 7, 14, 21]])
        assert thin.stats["steps"] == 21


@pytest.mark.parametrize("method", ["rk45", "bdf", Baumgarte(integrator="rk4", omega=2.0), "projection", "coordinate-partition"])
@pytest.mark.parametrize("save_every", [1, 3])
def test_events(pendulum, method, save_every):
    system, start = pendulum
    options = {"t_end": 5.0, "step": 0.05, "save_every": save_every}
    lowest = da.Event(lambda v: v[1], direction=1, name="lowest")
    sol = da.simulate(system, method, **start, **options, events=lowest)
    plain = da.simulate(system, method, **start, **options)
    np.testing.assert_array_equal(sol.x, plain.x)
    truth = da.simulate(system, "lobatto-pair-4", **start, t_end=5.0, step=0.005, events=lowest)
    np.testing.assert_allclose(sol.events["lowest"].t, truth.events["lowest"].t, rtol=0, atol=5e-3)
    assert len(sol.events["lowest"]) >= 1
    assert np.abs(sol.events["lowest"].v[:, 1]).max() < 1e-12
    if method in ("projection", "coordinate-partition"):
        assert np.abs(system.numeric("holonomic", sol._par, q=sol.events["lowest"].q)).max() < 1e-14
    stop = da.Event(lambda v: v[1], direction=1, terminal=True, name="stop")
    ended = da.simulate(system, method, **start, **options, events=stop)
    assert ended.t[-1] == sol.events["lowest"].t[0] == ended.events["stop"].t[0]
    np.testing.assert_array_equal(ended.q[-1], sol.events["lowest"].q[0])
    np.testing.assert_array_equal(ended.q[:-1], sol.q[: len(ended.q) - 1])


@pytest.mark.parametrize(
    "method", [Projection(energy=True), CoordinatePartition(), Baumgarte(integrator="rk4", omega=2.0)], ids=str
)
def test_an_interrupted_run_goes_on(pendulum, method, tmp_path, monkeypatch):
    monkeypatch.setattr("dalembert.keeper.EVERY", 0.0)
    system, start = pendulum
    options = {"t_end": 3.0, "step": 0.05, "save_every": 4}
    whole = da.simulate(system, method, **start, **options)
    original, calls = March.take, []

    def dies(self, *arguments, **more):
        calls.append(1)
        if len(calls) == 31:
            raise KeyboardInterrupt
        return original(self, *arguments, **more)

    monkeypatch.setattr(March, "take", dies)
    with pytest.raises(da.Interrupted, match="after 30 of 60 steps"):
        da.simulate(system, method, **start, **options, checkpoint=tmp_path / "run.nc")
    monkeypatch.setattr(March, "take", original)
    again = da.simulate(system, method, **start, **options, checkpoint=tmp_path / "run.nc")
    np.testing.assert_array_equal(again.t, whole.t)
    np.testing.assert_array_equal(again.x, whole.x)


@pytest.mark.parametrize("method", ["rk45", "dop853", "radau", "bdf", "baumgarte", "projection", "coordinate-partition"])
def test_solutions_can_be_pickled_and_saved(pendulum, method, tmp_path):
    system, start = pendulum
    sol = da.simulate(system, method, **start, t_end=0.5, step=0.05)
    for copy in (pickle.loads(pickle.dumps(sol)), da.load(sol.save(tmp_path / "a.nc"))):
        np.testing.assert_array_equal(copy.q, sol.q)
        assert copy.method == sol.method


def test_progress_is_shown(pendulum, capsys):
    system, start = pendulum
    da.simulate(system, "rk45", **start, t_end=0.5, step=0.05, progress=True)
    assert "10/10" in capsys.readouterr().err


def test_a_failure_keeps_what_was_computed():
    """The force grows beyond all bounds at q = 0, which is reached."""
    system = da.Mechanical(1, mass=1.0, potential=lambda q: -1 / q[0])
    for method in ("rk45", "projection"):
        with pytest.raises(da.ConvergenceError, match="failed between") as caught:
            da.simulate(system, method, q=[1.0], v=[0.0], t_end=2.0, step=0.01)
        assert 1.0 < caught.value.solution.t[-1] < 1.12  # pi / sqrt(8) = 1.1107
        assert np.isfinite(caught.value.solution.q).all()


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


def test_a_step_across_a_fold_is_made_in_two_halves(pendulum, monkeypatch):
    """Where the dependent coordinates of a step cannot be found: others, and half the way, as with half the step."""
    from dalembert.engine import reduced

    system, start = pendulum
    half = da.simulate(system, CoordinatePartition(integrator="rk4"), **start, t_end=1.0, step=0.025)
    original = reduced.advance

    def fails(f, how, a, b, y, rate):
        if b - a > 0.03:
            raise da.ConvergenceError("a fold lies ahead", t=a, step=b - a, residual=1.0)
        return original(f, how, a, b, y, rate)

    monkeypatch.setattr(reduced, "advance", fails)
    sol = da.simulate(system, CoordinatePartition(integrator="rk4"), **start, t_end=1.0, step=0.05)
    np.testing.assert_allclose(sol.x, half.x[::2], atol=2e-5)  # other coordinates are chosen on the way


@pytest.mark.parametrize("weight", ["mass", "identity"])
def test_projections_are_the_nearest_in_their_metric(weight):
    """`W (q - q*)` and `W (v - v*)` lie along the constraint gradients: W is the mass, or the identity."""
    from dalembert.engine.projection import Levels, project

    system = da.catalog.double_pendulum(m1=7.0, m2=0.3)
    q, v = np.array([0.7, -0.7, 1.1, -1.7]), np.array([0.3, 0.1, -0.5, 0.9])
    near, speed = project(Levels(system, system.pack()), q, v, 0.0, weight)
    W = np.array([7.0, 7.0, 0.3, 0.3]) if weight == "mass" else np.ones(4)
    G = system.numeric("jacobian", system.pack(), q=near)[0]
    assert np.abs(system.numeric("holonomic", system.pack(), q=near)).max() < 1e-15
    assert np.abs(G @ speed).max() < 1e-15
    mu = np.linalg.lstsq(G.T, W * (v - speed), rcond=None)[0]
    np.testing.assert_allclose(G.T @ mu, W * (v - speed), atol=1e-14)
    # a small displacement, so that the gradients along Newton's way are those of its end
    close, _ = project(Levels(system, system.pack()), near + 1e-6 * v, v, 0.0, weight)
    mu = np.linalg.lstsq(G.T, W * (near + 1e-6 * v - close), rcond=None)[0]
    np.testing.assert_allclose(G.T @ mu, W * (near + 1e-6 * v - close), atol=1e-10)


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
        assert np.abs(sol.q[-1] - truth.q[-1]).max() < (3e-5 if method == "dop853" else 1e-7)  # its own tolerance


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
    with pytest.raises(da.MethodError, match="xi must be positive"):
        Baumgarte(xi=-1.0)
    for tolerances in ({"rtol": 0.0}, {"atol": -1e-9}, {"rtol": -1.0, "atol": 0.0}):
        with pytest.raises(da.MethodError, match=r"[ra]tol must be positive"):
            Baumgarte(**tolerances)
    with pytest.raises(da.MethodError, match="weight must be"):
        Projection(weight="l1")
    with pytest.raises(da.MethodError, match="not an invariant"):
        da.simulate(driven_pendulum(), Projection(energy=True), t_end=1.0, step=0.1)
    with pytest.raises(da.MethodError, match="controls its steps itself"):
        da.simulate(system, "dop853", **start, t_end=1.0, step=0.1, adaptive=True)
    with pytest.raises(da.MethodError, match="cannot go on from a checkpoint"):
        da.simulate(system, "rk45", **start, t_end=1.0, step=0.1, checkpoint="run.nc")
    with pytest.raises(da.MethodError, match="port-hamiltonian"):
        da.analysis.ode(da.catalog.dc_motor())
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


def test_inputs_that_fail_keep_what_was_computed():
    cart = da.Mechanical(1, mass=1.0, inputs=np.eye(1))
    for u, message in (
        (lambda t: [1 / (t < 0.5)], "u failed at t = .*ZeroDivisionError"),
        (lambda t: [np.inf if t > 0.5 else 0.0], "not finite"),
    ):
        with pytest.raises(da.ModelError, match=message) as caught:
            da.simulate(cart, Baumgarte(integrator="rk4"), q=[0.0], v=[0.0], t_end=1.0, step=0.01, u=u)
        assert caught.value.solution.t[-1] == pytest.approx(0.49, abs=0.011)
