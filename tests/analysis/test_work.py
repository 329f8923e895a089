"""Accuracy over run time."""

import json

import numpy as np
import pytest

import dalembert as da
from dalembert import plotting


@pytest.fixture(scope="module")
def work():
    return da.work_precision(da.catalog.simple_pendulum(), "rattle,lobatto-pair-3", t_end=1.0, steps=(80, 20, 40), repeat=2)


def test_errors_fall_with_the_orders_of_the_methods(work):
    assert list(work.errors) == ["rattle", "lobatto-pair-3"]
    np.testing.assert_array_equal(work.steps, [1 / 20, 1 / 40, 1 / 80])
    for name, order in (("rattle", 2), ("lobatto-pair-3", 4)):
        assert np.all(work.seconds[name] > 0)
        assert np.polyfit(np.log(work.steps), np.log(work.errors[name]), 1)[0] == pytest.approx(order, abs=0.1)
    exact = da.simulate(da.catalog.simple_pendulum(), "gauss-5", t_end=1.0, step=0.005).q[-1]
    coarse = da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=1.0, step=0.05).q[-1]
    assert work.errors["rattle"][0] == pytest.approx(np.abs(coarse - exact).max(), rel=1e-6)


def test_it_is_shown(work):
    assert str(work).count("\n") == 9
    assert "good to" in work._repr_html_()
    assert json.loads(work.to_json())["seconds"]["rattle"] == work.seconds["rattle"].tolist()
    lines = work.plot().lines
    assert [line.get_label() for line in lines] == ["rattle", "lobatto-pair-3"]
    np.testing.assert_array_equal(lines[1].get_data(), work.curves()["lobatto-pair-3"])
    assert len(plotting.work_precision({"mine": ([1.0], [0.1])}).lines) == 1


def test_what_cannot_be_timed_is_refused():
    system = da.catalog.simple_pendulum()
    with pytest.raises(da.MethodError, match="at least one number of steps"):
        da.work_precision(system, "rattle", t_end=1.0, steps=())
    with pytest.raises(da.MethodError, match="at least one method"):
        da.work_precision(system, [], t_end=1.0)
    with pytest.raises(da.MethodError, match="adaptive cannot be used"):
        da.work_precision(system, "rattle", t_end=1.0, adaptive=True)
    with pytest.raises(da.UnknownKeyword, match="did you mean 'steps'"):
        da.work_precision(system, "rattle", t_end=1.0, step=0.1)
