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


def test_limits_are_taken_as_they_are():
    result = Result("x", "a title", "a source", True)
    for value, limit in ((2.0, 2.0), (2.0 + 1e-12, 2.0), (1.5, 2.0), (2000.0, 2.0)):
        result.below("at most", value, limit)
        result.above("at least", value, limit)
    assert [row.holds for row in result.rows] == [True, True, False, True, True, False, False, True]
    assert (result.rows[0].wanted, result.rows[1].wanted) == ("<= 2", ">= 2")


def test_verdicts_in_words():
    result = Result("x", "a title", "a source", True)
    assert result.told == "not reproduced"
    result.below("a number", 1.0, 2.0)
    assert result.told == "reproduced"
    result.disagree("the source says 3")
    assert (result.told, result.verdict) == ("holds, differs from the source", True)
    assert "note: the source says 3" in str(result)
    result.above("another", 1.0, 2.0)
    assert result.told == "not reproduced"
    result.missing = "a package"
    assert (result.told, result.verdict) == ("not run (a package)", False)


def test_invariants_are_claimed_to_round_off():
    """A looser limit would hold as well: these are the limits that stand beside our numbers."""
    rows = {row.what: row for row in da.experiments.run("em-2/3", quick=True).rows}
    assert rows["constraints at position level"].wanted == "<= 1e-13"
    assert float(rows["constraints at position level"].ours) < 1e-14
    for what in ("change of energy, relative", "change of linear momentum", "change of angular momentum"):
        assert rows[what].wanted == "<= 1e-12"


def test_listed_and_suggested():
    assert "mbs-4" in str(da.experiments.list_experiments())
    with pytest.raises(da.MethodError, match="did you mean 'mbs-4'"):
        da.experiments.run("mbs4")
