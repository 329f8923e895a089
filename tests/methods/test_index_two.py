"""Index-2 systems: table 2.1 of Hilden 2009 row by row, SPARK and SRK, and mechanics in these forms."""

from functools import cache

import numpy as np
import pytest

import dalembert as da
from conftest import order_of, polar_rod


@cache
def problem(number):
    """Problems (2.23), in five parts, and (2.28) of Hilden 2009; exact solution y = (e^t, e^-2t), z = e^2t."""
    options = {"g": lambda y: y[0] ** 2 * y[1] - 1, "initial": {"y": [1, 1], "z": [1]}}
    if number == 28:
        return da.IndexTwoDAE(
            2, f=lambda y, z: [y[0] * y[1] ** 2 * z[0] ** 2, y[0] ** 2 * y[1] ** 2 - 3 * y[1] ** 2 * z[0]], **options
        )
    return da.IndexTwoDAE(
        2,
        parts=[
            lambda y: [y[1] - 2 * y[0] ** 2 * y[1], -(y[0] ** 2)],
            lambda y, z, t: [y[0] * y[1] ** 2 * z[0] ** 2, np.exp(-t) * z[0] - y[0]],
            lambda y, z: [-(y[1] ** 2) * z[0], -3 * y[1] ** 2 * z[0]],
            lambda y, z, t: [2 * y[0] * y[1] ** 2 - 2 * np.exp(-2 * t) * y[0] * y[1], z[0]],
            lambda y, z: [2 * y[1] ** 2 * z[0] ** 2, y[0] ** 2 * y[1] ** 2],
        ],
        **options,
    )


def errors(number, method, counts):
    y, z = np.array([np.e, np.e**-2]), np.e**2
    runs = [da.simulate(problem(number), method, t_end=1.0, step=1 / n, compile=False) for n in counts]
    return [np.linalg.norm(x.y[-1] - y) for x in runs], [abs(x.z[-1, 0] - z) for x in runs], runs


TABLE = [  # family, stages, order in y (Hilden 2009, table 2.1)
    *(("gauss", s, s + 1 if s % 2 else s) for s in (1, 2, 3, 4)),
    *(("radau-ia", s, s) for s in (1, 2, 3, 4)),
    *(("radau-iia", s, 2 * s - 1) for s in (1, 2, 3, 4)),
    *(("lobatto-iiia", s, 2 * s - 2) for s in (2, 3, 4)),
    *(("lobatto-iiic", s, 2 * s - 2) for s in (2, 3, 4)),
]


@pytest.mark.parametrize(("family", "s", "order"), TABLE)
def test_classical_methods_as_in_the_table(family, s, order):
    counts = [64, 128, 256, 512] if order <= 4 else [16, 24, 32, 48]
    in_y, in_z, runs = errors(28, f"{family}-{s}", counts)
    steps = 1 / np.array(counts)
    if sum(e > 1e-12 for e in in_y) >= 3:
        # Lobatto IIIC of four stages reaches its slope from below just above round-off
        assert order_of(in_y, steps) == pytest.approx(order, abs=0.4 if (family, s) == ("lobatto-iiic", 4) else 0.25), in_y
        assert order_of(in_z, steps, 1e-11) > order - 0.35
    exact = family in ("radau-iia", "lobatto-iiia", "lobatto-iiic")
    assert (np.abs(runs[0].residual("position")).max() < 1e-14) == (exact or (family, s) == ("radau-ia", 1))


@pytest.mark.parametrize("s", [2, 3, 4])
def test_spark_with_five_parts(s):
    counts = [32, 64, 128, 256] if s == 2 else [16, 32, 64, 128] if s == 3 else [8, 12, 16, 24]
    in_y, in_z, runs = errors(23, f"spark-{s}", counts)
    assert order_of(in_y, 1 / np.array(counts)) == pytest.approx(2 * s - 2, abs=0.25), in_y
    assert order_of(in_z, 1 / np.array(counts), 1e-11) > 2 * s - 2 - 0.35
    assert np.abs(runs[0].residual("position")).max() < 1e-14


@pytest.mark.parametrize(("family", "s"), [("srk-gauss", s) for s in (1, 2, 3)] + [("srk-radau-ia", s) for s in (1, 2, 3)])
def test_specialized_methods_regain_their_order(family, s):
    order = 2 * s if family == "srk-gauss" else 2 * s - 1
    counts = [32, 64, 128, 256] if order <= 3 else [16, 24, 32, 48] if order <= 5 else [10, 12, 16, 20]
    in_y, _, runs = errors(28, f"{family}-{s}", counts)
    assert order_of(in_y, 1 / np.array(counts)) == pytest.approx(order, abs=0.25), in_y
    assert np.abs(runs[0].residual("position")).max() < 1e-14


@pytest.mark.parametrize("formulation", ["index2", "ggl"])
@pytest.mark.parametrize("make", [da.catalog.double_pendulum, polar_rod], ids=lambda f: f.__name__)
def test_mechanics_as_an_index_two_system(make, formulation):
    system = make()
    start = da.consistent(system)
    dae = system.to_dae(formulation)
    reference = da.simulate(system, "radau-iia-4", q=start.q, v=start.v, t_end=0.4, step=0.02)
    y = np.concatenate([start.q, start.v])
    for method in ("radau-iia-3", "srk-gauss-2", "spark-3"):
        sol = da.simulate(dae, method, y=y, t_end=0.4, step=0.01)
        np.testing.assert_allclose(sol.y[-1], reference.x[-1], atol=1e-6)
        assert np.abs(sol.residual("position")).max() < 1e-12
        np.testing.assert_allclose(sol.z[-1, : system.m], reference.lam[-1], atol=1e-4)


def test_solutions_of_index_two_systems(tmp_path):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    a = da.simulate(problem(28), "srk-gauss-2", t_end=1.0, step=0.05, compile=False)
    b = da.simulate(problem(28), "srk-gauss-2", t_end=1.0, step=0.05, compile=True)
    np.testing.assert_allclose(a.x, b.x, rtol=1e-13)
    again = da.load(a.save(tmp_path / "dae.nc"))
    np.testing.assert_array_equal(again.y, a.y)
    np.testing.assert_array_equal(again.z, a.z)
    assert "hidden constraints" in str(again)
    assert again.at(0.512).q[0] == pytest.approx(np.exp(0.512), rel=1e-5)
    plt.close(a.plot(tmp_path / "dae.png"))
    assert a.to_xarray()["q"].shape == (21, 2)


def test_bad_input():
    g = lambda y: y[0] ** 2 * y[1] - 1  # noqa: E731
    with pytest.raises(da.ModelError, match="one of them"):
        da.IndexTwoDAE(2, g=g)
    with pytest.raises(da.ModelError, match="first part must not depend on z"):
        da.IndexTwoDAE(2, g=g, parts=[lambda z: [z[0], z[0]]])
    with pytest.raises(da.ModelError, match="does not depend on z"):
        da.IndexTwoDAE(2, g=g, f=lambda y: y)
    with pytest.raises(da.InconsistentState, match=r"z violates constraint 1 of 1 at the hidden level"):
        da.simulate(problem(28), "radau-iia-3", y=[1, 1], z=[2.0], t_end=1, step=0.1)
    with pytest.raises(da.InconsistentState, match="q violates constraint 1 of 1 at the position level"):
        da.simulate(problem(28), "radau-iia-3", y=[1, 1.5], z=[1.0], t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="rattle cannot treat a dae system; use"):
        da.simulate(problem(28), "rattle", t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="spark needs parts"):
        da.simulate(problem(28), "spark-2", t_end=1, step=0.1)
    with pytest.raises(da.InconsistentState, match="an IndexTwoDAE"):
        da.simulate(da.catalog.simple_pendulum(), "rattle", y=[1, 0], t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="formulation must be"):
        da.catalog.simple_pendulum().to_dae("index9")
    found = da.simulate(problem(28), "radau-iia-3", y=[1, 1], t_end=0.1, step=0.1)
    assert np.abs(found.residual("velocity")).max() < 1e-12  # one of the two roots of its hidden constraint
