"""Every experiment of the literature runs shortened, and its claims hold."""

import pytest

import dalembert as da
from dalembert.experiments.base import REGISTER, Result


@pytest.mark.parametrize("id", REGISTER)
def test_reproduced(id):
    result = da.experiments.run(id, quick=True)
    if id != "mbs-time":  # clocks are not asserted
        assert result.verdict, str(result)
    assert result.rows
    assert result.data
    assert id in str(result)


def test_verdicts_can_fail():
    result = Result("x", "a title", "a source", True)
    assert not result.verdict
    result.below("a number", 1.0, 2.0)
    assert result.verdict
    result.above("another", float("nan"), 0.0)
    result.near("a third", 3.0, 2.0, 0.5, "2.1")
    assert [row.holds for row in result.rows] == [True, False, False]
    assert not result.verdict
    assert "NOT reproduced" in str(result)
    assert "FAILS" in str(result)


def test_listed_and_suggested():
    assert "mbs-4" in str(da.experiments.list_experiments())
    with pytest.raises(da.MethodError, match="did you mean 'mbs-4'"):
        da.experiments.run("mbs4")
