"""The solution: derived quantities, dense output, files, summary, pictures."""

import json
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

import dalembert as da
from conftest import consistent_start, driven_pendulum, order_of
from dalembert.catalog import _MAKERS

mpl.use("Agg")


@pytest.fixture(scope="module")
def sol():
    return da.simulate(da.catalog.four_particles_damped(), "energy-momentum", t_end=2.0, step=0.01)


def test_arrays_have_time_first(sol):
    n = len(sol.t)
    assert sol.q.shape == sol.v.shape == sol.p.shape == (n, 12)
    assert sol.x.shape == (n, 24)
    assert sol.lam.shape == (n - 1, 2)
    assert sol.t_lam.shape == (n - 1,)
    np.testing.assert_allclose(sol.t_lam, (sol.t[1:] + sol.t[:-1]) / 2)
    assert sol.energy.shape == (n,)
    assert sol.power_balance.shape == sol.supplied.shape == sol.dissipated.shape == (n - 1,)
    np.testing.assert_allclose(sol.kinetic + sol.potential, sol.energy, rtol=1e-14)
    np.testing.assert_allclose(sol.p, sol.v * np.repeat([1, 3, 2.3, 1.7], 3), rtol=1e-15)


def test_momentum_by_hand(sol):
    q, p = sol.q.reshape(-1, 4, 3), sol.p.reshape(-1, 4, 3)
    np.testing.assert_allclose(sol.momentum("linear"), p.sum(axis=1))
    np.testing.assert_allclose(sol.momentum("angular"), np.cross(q, p).sum(axis=1))
    with pytest.raises(da.MethodError, match="no momentum 'angulr'; did you mean 'angular'"):
        sol.momentum("angulr")


def test_momentum_of_systems_without_a_dimension():
    free = da.Mechanical(4, mass=1.0, potential=lambda q: (q[0] - q[2]) ** 2 + (q[1] - q[3]) ** 2)
    sol = da.simulate(free, "energy-momentum", q=[0, 0, 1, 0], v=[0, 1, 0, -0.5], t_end=1.0, step=0.1)
    assert sol.momentum("angular").shape == (11,)
    assert np.ptp(sol.momentum("angular")) < 1e-14
    unclear = da.Mechanical(6, mass=1.0, potential=lambda q: q[0] ** 2 + q[5])
    sol = da.simulate(unclear, "midpoint", q=np.zeros(6), v=np.ones(6), t_end=0.2, step=0.1)
    with pytest.raises(da.ModelError, match="dimension=2 or 3"):
        sol.momentum("linear")
    assert sol.momentum("linear", dimension=2).shape == (3, 2)


def test_signs_of_momenta():
    """A particle at (1, 0) that moves along y turns to the left: its angular momentum is positive, in the plane as in space."""
    for d in (2, 3):
        system = da.Mechanical(d, mass=2.0, potential=lambda q: q @ q, dimension=d)
        run = da.simulate(system, "rattle", q=np.eye(d)[0], v=3 * np.eye(d)[1], t_end=0.2, step=0.1)
        np.testing.assert_allclose(np.atleast_2d(run.momentum("angular").T)[-1], 6.0, rtol=1e-14)
        np.testing.assert_allclose(run.momentum("linear")[0], 6 * np.eye(d)[1])


def test_velocities_of_hamiltonian_systems():
    """`v = p / m`, at stored times and between them."""
    system = da.Hamiltonian(1, hamiltonian=lambda q, p: p[0] ** 2 / 4 + q[0] ** 2)
    for method in ("gauss-2", "gauss-4"):
        run = da.simulate(system, method, q=[1.0], p=[0.0], t_end=2.0, step=0.01)
        np.testing.assert_allclose(run.v, run.p / 2, rtol=1e-15)
        there = run.at(0.555)
        assert there.p[0] == pytest.approx(-2 * np.sin(0.555), abs=1e-4)
        assert there.v[0] == pytest.approx(there.p[0] / 2, rel=1e-14)


def test_what_is_driven():
    """Inputs alone are enough: the balance, not the energy, is then what is kept."""
    makers = {"inputs": np.eye(1)}, {"force": lambda t: [t]}, {"dissipation": 0.1}, {"potential": lambda q, t: t * q[0]}
    for given in makers:
        system = da.Mechanical(1, mass=1.0, **given)
        run = da.simulate(system, "energy-momentum", q=[1.0], v=[0.5], t_end=1.0, step=0.1, u=[1.0] if system.nu else None)
        assert run.driven, given
        assert "power balance" in str(run)
        assert "energy error" not in str(run)
    assert not da.simulate(da.Mechanical(1, mass=1.0), "rattle", q=[1.0], v=[0.5], t_end=1.0, step=0.1).driven


def test_residuals_of_daes_are_those_of_their_equations():
    """`g` and its rate, from y and z by hand, on values that are off."""
    system = da.IndexTwoDAE(
        2, f=lambda y, z: [y[0] * z[0], -y[1]], g=lambda y, t: y[0] + y[1] ** 2 - t, initial={"y": [-1.0, 1.0]}
    )
    run = da.simulate(system, "gauss-2", t_end=1.0, step=0.1)  # it does not keep the constraint at the end of a step
    run.parts["z"] = run.z + 0.5  # which would satisfy the hidden one
    y, z = run.y, run.z
    np.testing.assert_allclose(run.residual("position")[:, 0], y[:, 0] + y[:, 1] ** 2 - run.t, atol=1e-15)
    np.testing.assert_allclose(run.residual("velocity")[:, 0], y[:, 0] * z[:, 0] - 2 * y[:, 1] ** 2 - 1, atol=1e-14)
    assert np.abs(run.residual("position")).max() > 1e-9
    assert np.abs(run.residual("velocity")).min() > 0.01


def test_the_summary_names_the_smallest_step():
    run = da.simulate(da.catalog.double_pendulum(), "lobatto-pair-3", t_end=2.0, step=0.01, adaptive=True)
    h = np.diff(run.t)
    assert h.max() > 1.5 * h.min()
    assert f"steps {h.min():.2g} and more" in str(run)


def test_residual_levels(sol):
    assert np.abs(sol.residual("position")).max() < 1e-14
    assert sol.residual("velocity").shape == (len(sol.t), 2)
    with pytest.raises(da.MethodError, match="no constraint level 'speed'"):
        sol.residual("speed")
    free = da.simulate(da.catalog.harmonic_oscillator(), "midpoint", t_end=1.0, step=0.1)
    assert free.residual("position").shape == (11, 0)


@pytest.mark.parametrize("method", ["rattle", "energy-momentum"])
def test_dense_output_is_as_good_as_the_method(method):
    system = da.catalog.double_pendulum()
    fine = da.simulate(system, method, t_end=0.5, step=0.5 / 4096)
    steps, errors, rates = 0.5 / np.array([16, 32, 64, 128]), [], []
    for h in steps:
        coarse = da.simulate(system, method, t_end=0.5, step=h)
        times = coarse.t[:-1] + 0.37 * h
        exact = fine.at(times)
        errors.append(np.abs(coarse.at(times).q - exact.q).max())
        rates.append(np.abs(coarse.at(times).v - exact.v).max())
    assert order_of(errors, steps) == pytest.approx(2, abs=0.25)
    assert order_of(rates, steps) > 1.7


def test_dense_output_itself_is_of_fourth_order():
    """On an exact trajectory, so that nothing but the interpolation is measured."""
    from dalembert.solution import Solution

    system = da.catalog.harmonic_oscillator()
    errors, steps = [], 2.0 / np.array([8, 16, 32, 64])
    for h in steps:
        t = np.arange(0, 2 + h / 2, h)
        q, v = np.cos(t)[:, None], -np.sin(t)[:, None]
        k = len(t) - 1
        exact = Solution.of(system)(
            system,
            da.methods.Midpoint(),
            system.pack(),
            t,
            {"q": q, "v": v},
            lam=np.zeros((k, 0)),
            t_lam=t[1:],
            work=np.zeros((k, 2)),
            u=np.zeros((k + 1, 0)),
            step=h,
            stats={},
        )
        times = np.linspace(0.01, 1.99, 333)
        errors.append(np.abs(exact.at(times).q[:, 0] - np.cos(times)).max())
    assert order_of(errors, steps) == pytest.approx(4, abs=0.1)


def test_dense_output_at_the_nodes_and_outside(sol):
    for k in (0, 17, -1):
        np.testing.assert_allclose(sol.at(sol.t[k]).q, sol.q[k], atol=1e-14)
        np.testing.assert_allclose(sol.at(sol.t[k]).v, sol.v[k], atol=1e-12)
    assert sol.at(1.003).q.shape == (12,)
    assert sol.at([0.1, 0.2]).p.shape == (2, 12)
    with pytest.raises(da.MethodError, match="reaches from t = 0 to 2"):
        sol.at(2.5)


def test_files_hold_everything(tmp_path):
    system = driven_pendulum()
    sol = da.simulate(
        system, "rattle", **consistent_start(system), t_end=1.0, step=0.01, u=lambda t: [np.sin(t)], parameters={"c": 0.3}
    )
    path = sol.save(tmp_path / "run.nc")
    again = da.load(path)
    for name in ("t", "q", "v", "p", "lam", "t_lam", "u", "energy", "supplied", "dissipated", "power_balance", "y"):
        np.testing.assert_array_equal(getattr(again, name), getattr(sol, name), err_msg=name)
    np.testing.assert_array_equal(again.residual("velocity"), sol.residual("velocity"))
    assert again.method == sol.method
    assert again.parameters == sol.parameters
    assert str(again) == str(sol)
    # the file is a model too: it can be run on without the functions it was made from
    more = da.simulate(again.system, again.method, q=again.q[-1], v=again.v[-1], t0=1.0, t_end=1.1, step=0.01, u=[0.0])
    assert np.abs(more.residual("position")).max() < 1e-14
    with pytest.raises(da.MethodError, match="there is no file"):
        da.load(tmp_path / "none.nc")
    (tmp_path / "bad.nc").write_text("not a solution")
    with pytest.raises(da.MethodError, match="no file of dalembert"):
        da.load(tmp_path / "bad.nc")
    with pytest.raises(da.MethodError, match="does not exist"):
        sol.save(tmp_path / "nowhere" / "run.nc")


def test_a_file_is_read_in_a_process_that_never_saw_the_model(tmp_path, sol):
    path = sol.save(tmp_path / "run.nc")
    code = (
        f"import dalembert as da, json; s = da.load({str(path)!r}); "
        "print(json.dumps([float(s.energy[-1]), s.momentum('linear')[-1].tolist()]))"
    )
    out = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert out[0] == sol.energy[-1]
    assert out[1] == sol.momentum("linear")[-1].tolist()


def test_xarray_has_names_and_units_of_meaning(sol):
    data = sol.to_xarray()
    assert list(data["q"].dims) == ["time", "coordinate"]
    np.testing.assert_array_equal(data["q"].sel(coordinate="z4").values, sol.q[:, 11])
    assert data.attrs["method"] == "energy-momentum"
    assert data["lam"].sizes == {"time_lam": len(sol.t) - 1, "constraint": 2}


def test_summary_says_what_matters(sol):
    text = str(sol)
    for word in (
        "four particles with damper by energy-momentum",
        "steps",
        "200",
        "Newton",
        "power balance",
        "dissipated",
        "position constraints",
    ):
        assert word in text, word
    assert "energy error" in str(da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=1.0, step=0.1))
    assert "Solution of" in repr(sol)


def test_inputs_and_outputs():
    system = da.Mechanical(2, mass=[1.0, 2.0], inputs=lambda q: [[1.0, 0.0], [q[0], 1.0]], initial={"q": [0.1, 0.2], "v": [0, 0]})
    sol = da.simulate(system, "energy-momentum", t_end=1.0, step=0.1, u=lambda t: [np.cos(t), t])
    np.testing.assert_allclose(sol.u, np.stack([np.cos(sol.t), sol.t], axis=1))
    np.testing.assert_allclose(sol.y, np.stack([sol.v[:, 0] + sol.q[:, 0] * sol.v[:, 1], sol.v[:, 1]], axis=1))
    assert np.abs(sol.power_balance).max() < 1e-15


@pytest.mark.parametrize("make", _MAKERS, ids=lambda f: f.__name__)
def test_every_catalog_system_runs_and_draws_itself(make, tmp_path):
    import matplotlib.pyplot as plt

    system = make()
    if system.kind == "port-hamiltonian":
        methods: tuple[str, ...] = ("gauss-2", "ddr", "discrete-gradient")
    else:
        methods = ("murua-2", "cortes-martinez", "spark-2") if system.mn else ("rattle", "energy-momentum", "midpoint")
    method = methods[len(system.name) % 3]  # what they compute is in test_matrix
    sol = da.simulate(system, method, t_end=0.5, step=0.01)
    assert np.isfinite(sol.energy).all()
    figure = sol.plot(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    titles = " ".join(ax.get_title() + ax.get_title(loc="left") for ax in figure.axes)
    assert "motion" in titles or any(group.title in titles for group in da.plotting.coordinate_groups(sol))
    assert "energy" in titles
    assert all(ax.get_xlabel() for ax in figure.axes)
    assert f"{method}, step 0.01" in figure.get_suptitle()
    plt.close(figure)


def test_a_system_without_a_picture_plots_its_coordinates():
    import matplotlib.pyplot as plt

    system = da.Mechanical(("a", "b"), mass=1.0, potential=lambda q: np.dot(q, q), initial={"q": [1, 0], "v": [0, 1]})
    figure = da.simulate(system, "midpoint", t_end=1.0, step=0.1).plot()
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["$a$", "$b$"]
    plt.close(figure)


def test_progress_bar_on_demand(capfd):
    system = da.catalog.simple_pendulum()
    da.simulate(system, "rattle", t_end=10.0, step=0.001, progress=True, compile=False)
    assert "10000/10000 steps" in capfd.readouterr().err
    da.simulate(system, "rattle", t_end=10.0, step=0.001, progress=False, compile=False)
    assert capfd.readouterr().err == ""


def test_lists_print_as_tables():
    methods = da.list_methods()
    assert {m.name for m in methods} >= {"rattle", "shake", "midpoint", "energy-momentum"}
    assert all(m.order and m.keeps and m.source for m in methods)
    assert "rattle" in str(methods)
    systems = da.list_systems()
    assert {s.name for s in systems} >= {"double-pendulum", "four-particles", "chain"}
    assert "double-pendulum" in str(systems)
    assert da.catalog.make("chain").n == 10


def test_events_go_through_a_file(tmp_path):
    sol = da.simulate(
        da.catalog.simple_pendulum(), "rattle", t_end=3.0, step=0.01,
        events=[da.Event(lambda q: q[0], name="lowest"), da.Event(lambda q: q[0] - 5.0, name="never")],
    )  # fmt: skip
    sol.save(tmp_path / "a.nc")
    back = da.load(tmp_path / "a.nc")
    assert len(back.events["lowest"]) == len(sol.events["lowest"]) > 0
    for key in ("t", "q", "v", "p"):
        for name in ("lowest", "never"):
            ours, theirs = getattr(back.events[name], key), getattr(sol.events[name], key)
            assert np.array_equal(ours, theirs)
            assert ours.shape == theirs.shape


def test_what_a_kind_of_system_does_not_have_is_told():
    port = da.simulate(da.catalog.dc_motor(), "discrete-gradient", t_end=0.1, step=0.01)
    with pytest.raises(da.MethodError, match="no kinetic energy of its own"):
        _ = port.kinetic
    with pytest.raises(da.MethodError, match="no momentum of its own"):
        port.momentum("linear")
    dae = da.simulate(da.catalog.simple_pendulum().to_dae("ggl"), "spark-2", t_end=0.1, step=0.01)
    with pytest.raises(da.MethodError, match="no energy of its own"):
        _ = dae.energy
    mechanical = da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=0.1, step=0.01)
    with pytest.raises(da.MethodError, match="no algebraic variable"):
        _ = mechanical.z
    with pytest.raises(da.MethodError, match="belong to discrete-gradient"):
        _ = mechanical.costates


def test_what_is_no_ordinary_file_is_not_written_over(tmp_path, monkeypatch):
    import os

    from dalembert.solution import target

    sol = da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=0.1, step=0.01)
    pipe = tmp_path / "pipe.nc"
    os.mkfifo(pipe)
    with pytest.raises(da.MethodError, match="no ordinary file"):
        sol.save(pipe)
    assert pipe.is_fifo()
    for name in ("x" * 300 + ".nc", "a\0b.nc"):
        with pytest.raises(da.MethodError, match="no name for a file"):
            sol.save(tmp_path / name)
    with pytest.raises(da.MethodError, match=r"a solution ends in \.nc"):
        sol.save(tmp_path / "a.csv")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(da.MethodError, match="nothing can be written"):
        target(tmp_path / "a.nc")


def test_the_summary_counts_steps_as_they_were():
    sol = da.simulate(
        da.catalog.simple_pendulum(), "rattle", t_end=3.0, step=0.01, events={"low": da.Event(lambda q: q[0], terminal=True)}
    )
    assert sol.stats["steps"] == len(sol.t) - 1
    assert list(sol.events) == ["low"]
    adaptive = da.simulate(da.catalog.simple_pendulum(), "lobatto-pair-3", t_end=1.0, step=0.01, adaptive=True)
    assert "step 0.01" not in str(adaptive)
    assert "position constraints" not in str(da.simulate(da.catalog.rolling_disk(), "spark-2", t_end=0.1, step=0.01))


@pytest.mark.parametrize("make", [da.catalog.simple_pendulum, da.catalog.dc_motor])
def test_a_solution_can_be_pickled(make):
    import pickle

    sol = da.simulate(make(), "rattle" if make is da.catalog.simple_pendulum else "discrete-gradient", t_end=0.1, step=0.01)
    back = pickle.loads(pickle.dumps(sol))
    assert np.array_equal(back.x, sol.x)
    assert isinstance(back, da.Solution)
    assert np.array_equal(back.energy, sol.energy)


def test_a_run_without_a_step_can_be_shown(tmp_path):
    sol = da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=0.0, step=0.01)
    assert '"t": [0.0]' in sol.report(tmp_path / "a.html").read_text()
    assert sol.plot(tmp_path / "a.png").axes[1].lines[0].get_xdata().tolist() == [0.0]


def test_momentum_maps_of_linear_actions():
    system = da.catalog.four_particles()
    sol = da.simulate(system, "energy-momentum", t_end=1.0, step=0.05)
    X = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # turns each particle about the third axis
    np.testing.assert_allclose(sol.momentum(X), sol.momentum("angular")[:, 2], atol=1e-13)
    np.testing.assert_allclose(sol.momentum(np.kron(np.eye(4), X)), sol.momentum(X), atol=1e-13)
    np.testing.assert_allclose(sol.momentum(np.tile([1.0, 0.0, 0.0], 4)), sol.momentum("linear")[:, 0], atol=1e-13)
    for bad in (np.eye(5), np.ones(3), "circular", [["a"]]):
        with pytest.raises(da.MethodError):
            sol.momentum(bad)


def test_a_momentum_that_is_neither_linear_nor_angular_is_kept():
    """An anisotropic oscillator is invariant under an elliptic rotation, whose momentum map Gauss methods keep to round-off."""
    system = da.Mechanical(2, mass=[1.0, 4.0], potential=lambda q: (q[0] ** 2 + 4 * q[1] ** 2) ** 2 / 4)
    sol = da.simulate(system, "gauss-2", q=[1.0, 0.2], v=[0.1, 0.6], t_end=10.0, step=0.1)
    J = sol.momentum([[0.0, -2.0], [0.5, 0.0]])
    assert np.abs(J - J[0]).max() < 1e-13 < 1e-3 < np.ptp(sol.momentum([[0.0, -1.0], [1.0, 0.0]]))


def test_the_action_of_a_motion():
    """Of the oscillator between given ends; second differences show the next term."""
    system = da.Mechanical(1, mass=1.0, potential=lambda q: q[0] ** 2 / 2)
    sol = da.simulate(system, "gauss-3", q=[0.0], v=[1.0], t_end=1.0, step=0.01)
    assert sol.action() == pytest.approx(np.sin(2.0) / 4, abs=1e-9)  # of cos^2 / 2 - sin^2 / 2


def test_momentum_of_a_system_with_velocities_of_its_own_is_refused():
    system = da.Mechanical(("a", "b"), mass=1.0, kinematics=lambda q: [[1.0], [0.5]], name="rolling", initial={"q": [0.0, 0.0]})
    sol = da.simulate(system, "gauss-1", v=[1.0], t_end=0.1, step=0.05)
    with pytest.raises(da.ModelError, match="velocities of its own"):
        sol.momentum("angular", dimension=2)


def test_a_star_import_leaves_open_alone():
    assert "open" not in da.__all__
    assert callable(da.open)
