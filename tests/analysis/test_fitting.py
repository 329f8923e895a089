"""Fits: exact derivatives, honest covariances, what is not determined, chaotic motion, data in all forms."""

import numpy as np
import pytest
from scipy import stats

import dalembert as da

TRUE = {"m2": 1.3, "l1": 0.9, "l2": 1.1}


def bent(a, b, l1, l2):
    """Positions of the double pendulum from its angles."""
    x, y = l1 * np.sin(a), -l1 * np.cos(a)
    return np.array([x, y, x + l2 * np.sin(b), y - l2 * np.cos(b)])


def swing(t_end=2.0, step=0.01, angles=(1.0, 0.5), every=5):
    """A run of the double pendulum with other masses and lengths, and its rows."""
    system = da.catalog.double_pendulum()
    sol = da.simulate(
        system, "rattle", q=bent(*angles, TRUE["l1"], TRUE["l2"]), t_end=t_end, step=step, parameters=TRUE, compile=False
    )
    return system, sol, sol.t[::every], sol.q[::every]


def noisy(system, t, q, sigma, seed):
    rng = np.random.default_rng(seed)
    return {"t": t} | {name: q[:, i] + sigma * rng.normal(size=len(t)) for i, name in enumerate(system.coordinates)}


def test_masses_and_lengths_of_the_double_pendulum_lie_within_the_reported_covariance():
    """Over many seeds: errors in the norm of the covariance are chi-square distributed, and so are the residuals."""
    system, _, t, q = swing()
    start = da.consistent(system, q=bent(1.1, 0.4, 1.0, 1.0))
    away, left, freedom, seeds = 0.0, 0.0, 0, 16
    truth = [TRUE["m2"], TRUE["l1"], TRUE["l2"]]
    for seed in range(seeds):
        data = noisy(system, t, q, 0.01, seed)
        found = da.fit(system, data, free=["m2", "l1", "l2", "q"], method="rattle", step=0.01, sigma=0.01, compile=False, **start)
        C = found.covariance[:3, :3]
        error = found.theta[:3] - truth
        away += float(error @ np.linalg.solve(C, error))
        left += found.chi_square
        freedom += found.degrees_of_freedom
    low, high = stats.chi2.ppf([5e-4, 1 - 5e-4], 3 * seeds)
    assert low < away < high
    low, high = stats.chi2.ppf([5e-4, 1 - 5e-4], freedom)
    assert low < left < high


def test_without_noise_all_is_found_to_round_off_and_the_jacobian_is_exact():
    system, _, t, q = swing(t_end=1.0)
    data = noisy(system, t, q, 0.0, 0)
    found = da.fit(
        system, data, free=["l1", "m2", "l2", "x2", "y1"], method="rattle", step=0.01, compile=False,
        **da.consistent(system, q=bent(1.1, 0.4, 1.0, 1.0)),
    )  # fmt: skip
    for name, value in TRUE.items():
        assert abs(found[name] - value) < 1e-10
    assert found.deviation < 1e-11
    assert np.abs(found.initial["q"] - q[0]).max() < 1e-10
    assert np.abs(found.solution.residual("position")).max() < 1e-13


def test_masses_alone_are_not_determined_and_the_combination_is_named():
    system, _, t, q = swing(t_end=0.5)
    options = dict(method="rattle", step=0.01, compile=False, **da.consistent(system, q=bent(1.0, 0.5, 1.0, 1.0)))
    with pytest.raises(da.MethodError, match=r"m1 and m2 can be changed together, in the ratio 1 : 0.3333, with no effect"):
        da.fit(system, noisy(system, t, q, 0.01, 0), free=["m1", "m2", "l1"], **options)
    lone = da.Mechanical(
        ("x", "y"), mass=lambda m, k: [m, m], potential=lambda q, m: m * q[1], parameters={"m": 1.0, "k": 2.0},
        initial={"q": [0.0, 0.0], "v": [0.0, 1.0]},
    )  # fmt: skip
    with pytest.raises(da.MethodError, match="m has no effect on the measured values"):
        da.fit(lone, {"t": [0.0, 0.5, 1.0], "y": [0.0, 0.3, 0.4]}, free=["m", "v_y"], method="rattle", step=0.1)


def test_a_chaotic_motion_is_fitted_in_pieces():
    """From a guess with which one run leads nowhere."""
    system, _, t, q = swing(t_end=6.0, angles=(2.0, 2.5), every=4)
    data = noisy(system, t, q, 0.01, 1)
    options = dict(
        free=["m2", "l1", "l2", "q", "v"], method="rattle", step=0.01, sigma=0.01,
        **da.consistent(system, q=bent(1.9, 2.6, 1.0, 1.0)),
    )  # fmt: skip
    with pytest.warns(da.DalembertWarning, match="not converged in 40"):
        single = da.fit(system, data, evaluations=40, **options)
    pieces = da.fit(system, data, shooting=4, **options)
    assert single.deviation > 5
    assert 0.9 < pieces.deviation < 1.1
    for name, value in TRUE.items():
        assert abs(pieces[name] - value) < 4 * pieces.errors[name]


def test_what_is_observed_may_be_a_function_at_any_times():
    system = da.catalog.simple_pendulum()
    exact = da.simulate(system, "lobatto-pair-3", q=[0.6, -0.8], t_end=2.0, step=0.01, parameters={"g": 9.5})
    t = np.sort(np.random.default_rng(2).uniform(0.0, 2.0, 40))
    sample = exact.at(t)
    data = {"t": t, "angle": np.arctan2(sample.q[:, 0], -sample.q[:, 1])}
    found = da.fit(
        system, data, free=["g"], observe={"angle": lambda q: np.arctan2(q[0], -q[1])}, method="lobatto-pair-3", step=0.01,
        q=[0.6, -0.8], bounds={"g": (5.0, None)},
    )  # fmt: skip
    assert abs(found["g"] - 9.5) < 1e-8
    assert np.abs(found.residuals["angle"]).max() < 1e-9


@pytest.mark.parametrize("form", ["dictionary", "xarray", "pandas", "index"])
def test_data_come_in_all_forms_and_may_have_gaps(form):
    oscillator = da.catalog.harmonic_oscillator()
    sol = da.simulate(oscillator, "gauss-2", t_end=3.0, step=0.05, parameters={"k": 1.4})
    x = sol.q[:, 0].copy()
    x[3:6] = np.nan
    if form == "dictionary":
        data = {"time": sol.t, "q": x[:, None], "v_x": sol.v[:, 0]}
    elif form == "xarray":
        xarray = pytest.importorskip("xarray")
        data = xarray.Dataset({"x": ("time", x), "v_x": ("time", sol.v[:, 0])}, {"time": sol.t})
    else:
        pandas = pytest.importorskip("pandas")
        data = pandas.DataFrame({"x": x, "v_x": sol.v[:, 0]})
        data = data.assign(t=sol.t) if form == "pandas" else data.set_index(sol.t)
    found = da.fit(oscillator, data, free=["k", "v"], method="gauss-2", step=0.05, sigma={"x": 0.1, "v_x": 0.2})
    assert abs(found["k"] - 1.4) < 1e-11
    assert found.degrees_of_freedom == 2 * len(sol.t) - 3 - 2
    assert np.isnan(found.residuals["x"][3:6]).all()
    text = str(found)
    assert "standard error" in text
    assert "chi-square" in text


def test_other_kinds_of_systems_and_inputs():
    ladder = da.catalog.mass_spring_damper(2)
    force = lambda t: np.sin(t)  # noqa: E731
    sol = da.simulate(ladder, "discrete-gradient", t_end=2.0, step=0.05, u=force, parameters={"d": 0.5, "k": 8.0})
    data = {"t": sol.t, "q1": sol.x[:, 0], "q2": sol.x[:, 1]}
    found = da.fit(ladder, data, free=["d", "k"], method="discrete-gradient", step=0.05, u=force)
    assert abs(found["d"] - 0.5) < 1e-9
    assert abs(found["k"] - 8.0) < 1e-8
    assert np.abs(found.correlation).max() <= 1 + 1e-12
    network = da.IndexOneDAE(
        ("y",), f=lambda y, z, a: [-a * z[0]], g=lambda y, z: [z[0] + z[0] ** 3 - y[0]], algebraic=1, parameters={"a": 1.0},
        initial={"y": [2.0]},
    )  # fmt: skip
    run = da.simulate(network, "radau-iia-2", t_end=1.0, step=0.05, parameters={"a": 1.7}, y=[2.2])
    found = da.fit(network, {"t": run.t, "y": run.y[:, 0]}, free=["a", "y"], method="radau-iia-2", step=0.05)
    assert abs(found["a"] - 1.7) < 1e-9


def test_the_picture_of_residuals():
    oscillator = da.catalog.harmonic_oscillator()
    t = np.linspace(0.0, 3.0, 31)
    data = {"t": t, "x": np.cos(1.1 * t) + 0.02 * np.random.default_rng(0).normal(size=31)}
    found = da.fit(oscillator, data, free=["k"], method="gauss-2", step=0.1)
    assert abs(found["k"] - 1.21) < 4 * found.errors["k"]
    figure = found.plot()
    assert len(figure.axes) == 2
    assert "noise" in str(found)


def test_bad_calls_are_refused_in_words():
    oscillator = da.catalog.harmonic_oscillator()
    data = {"t": [0.0, 0.5, 1.0], "x": [1.0, 0.9, 0.5]}
    options = dict(method="gauss-2", step=0.1)
    for match, given in (
        ("nothing called 'kk' to fit; did you mean 'k'", dict(free=["kk"])),
        ("nothing called 'w' to measure", dict(data={"t": [0.0, 1.0], "w": [1.0, 2.0]}, free=["k"])),
        ("data needs times", dict(data={"x": [1.0]}, free=["k"])),
        ("the times of the data must increase", dict(data={"t": [0.0, 0.0], "x": [1.0, 1.0]}, free=["k"])),
        ("before the run at t0 = 0", dict(data={"t": [-1.0, 0.0], "x": [1.0, 1.0]}, free=["k"])),
        ("not within its bounds", dict(free=["k"], bounds={"k": (2.0, 3.0)})),
        ("bounds are given for 'm'", dict(free=["k"], bounds={"m": (0.0, 3.0)})),
        ("sigma must be positive", dict(free=["k"], sigma=0.0)),
        ("each once", dict(free=["k", "k"])),
        ("cannot determine 2 free ones", dict(data={"t": [0.5], "x": [1.0]}, free=["k", "v"])),
    ):
        with pytest.raises(da.MethodError, match=match):
            da.fit(oscillator, **{"data": data, **given}, **options)
    system, _, t, q = swing(t_end=0.5)
    with pytest.raises(da.MethodError, match="the constraints leave 4 values free"):
        da.fit(system, noisy(system, t, q, 0.0, 0), free=["x1", "y1", "x2", "y2"], method="rattle", step=0.01)
