"""Figures of named variables."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dalembert as da


@pytest.fixture(scope="module")
def sol():
    return da.simulate(da.catalog.double_pendulum(), "rattle", t_end=1.0, step=0.01)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_there_is_an_axis_for_each_unit(sol, tmp_path):
    figure = sol.plot(["x1", "v_x1", "y1", "a_x1", "lam1"], path=tmp_path / "run.png")
    assert [len(ax.lines) for ax in figure.axes] == [2, 1, 1, 1]
    assert figure.axes[1].get_ylabel() == "$v_{x_{1}}$ (m/s)"
    np.testing.assert_array_equal(figure.axes[0].lines[1].get_ydata(), sol.q[:, 1])
    np.testing.assert_array_equal(figure.axes[3].lines[0].get_xdata(), sol.t_lam)
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_one_name_and_one_over_another(sol):
    line = sol.plot("v_x1", over="x1").axes[0].lines[0]
    np.testing.assert_array_equal(line.get_xdata(), sol.q[:, 0])
    assert len(da.plotting.variables(sol, ["x1", "v_x1"]).lines) == 2


def test_the_first_argument_may_still_be_a_path(sol, tmp_path):
    sol.plot(tmp_path / "a.png")
    sol.plot(str(tmp_path / "b.png"))
    assert {p.name for p in tmp_path.iterdir()} == {"a.png", "b.png"}


def test_what_cannot_be_drawn_is_said(sol):
    for call, message in (
        (lambda: sol.plot(["x1", "x9"]), "there is no variable 'x9'"),
        (lambda: sol.plot([]), "name the variables"),
        (lambda: sol.plot(["lam1"], over="x1"), "different times"),
        (lambda: sol.plot(3), "a list of names"),
    ):
        with pytest.raises(da.MethodError, match=message):
            call()
