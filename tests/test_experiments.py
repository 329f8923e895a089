"""Every experiment of the literature runs shortened, and its claims hold."""

import csv
import re
from functools import cache

import numpy as np
import pytest

import dalembert as da
from dalembert.cli.reproducing import Clock
from dalembert.experiments.base import REGISTER, Result
from dalembert.experiments.gallery import figure
from dalembert.experiments.murua import Pendulums
from dalembert.experiments.pages import Pages
from dalembert.experiments.pendulums import REST, damped_double_pendulum
from dalembert.experiments.spark import Disk, Spark

pytestmark = pytest.mark.usefixtures("optimised")  # long runs: they are worth a compiler's time


@cache
def quick(id):
    return da.experiments.run(id, quick=True)


@pytest.mark.parametrize("id", REGISTER)
def test_reproduced(id):
    result = quick(id)
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
    rows = {row.what: row for row in quick("em-2/3").rows}
    assert rows["constraints at position level"].wanted == "<= 1e-13"
    assert float(rows["constraints at position level"].ours) < 1e-14
    for what in ("change of energy, relative", "change of linear momentum", "change of angular momentum"):
        assert rows[what].wanted == "<= 1e-12"


def test_listed_and_suggested():
    assert "mbs-4" in str(da.experiments.list_experiments())
    with pytest.raises(da.MethodError, match="did you mean 'mbs-4'"):
        da.experiments.run("mbs4")


def test_no_verdict_rests_on_a_clock():
    """A run a thousand times slower holds as well: seconds stand in the notes and the data alone."""
    rows = quick("mbs-time").rows
    assert not [row for row in rows if "second" in row.what]


def test_index_of_a_directory_is_kept_between_runs(tmp_path):
    first, second = map(quick, ("dae-gauss", "ph-ex1/5/6"))
    Pages(tmp_path).add(second)
    index = Pages(tmp_path).add(first).read_text()
    assert index.index("dae-gauss.html") < index.index("ph-ex1-5-6.html")
    assert "2 of 2 hold" in index
    again = Pages(tmp_path)
    again.add(first)
    assert [entry["id"] for entry in again.verdicts()] == ["dae-gauss"]
    assert "2 of 2 hold" in (tmp_path / "index.html").read_text()
    (tmp_path / "index.json").write_text("[")
    with pytest.raises(da.MethodError, match="is no record of experiments"):
        Pages(tmp_path)


def test_a_page_has_settings_code_data_and_doi(tmp_path):
    """What is to be downloaded are the numbers of the result."""
    result = da.experiments.run("em-2/3", quick=True)
    Pages(tmp_path).add(result)
    page = (tmp_path / "em-2-3.html").read_text()
    assert "https://doi.org/10.1016/S0167-2789(99)00054-8" in page
    assert "dalembert reproduce em-2/3" in page
    assert "@experiment(&quot;em-2/3&quot;" in page
    files = re.findall(r"href='([^']*\.csv)' download", page)
    assert files
    found = {}
    for file in files:
        with (tmp_path / file).open() as stream:
            for row in csv.DictReader(stream):
                for key, value in row.items():
                    found.setdefault(key, []).append(float(value))
    groups = [group for group in result.data.values() if isinstance(group, dict)]
    arrays = [v for group in (result.data, *groups) for v in group.values() if isinstance(v, np.ndarray) and v.ndim == 1]
    assert arrays
    for array in arrays:
        assert any(array.tolist() in (column[: len(array)], column[-len(array) :]) for column in found.values())


def test_the_rest_is_estimated_by_what_was_measured():
    """Twice as slow as expected: the rest takes twice as long, as soon as what was measured outweighs the expectation."""
    clock = Clock([100.0, 100.0, 50.0])
    assert clock.left() == 250.0
    clock.done(200.0)
    clock.done(200.0)
    assert clock.left() == pytest.approx(50.0 * 410 / 210)


def test_panels_are_drawn():
    result = Result("x", "a title", "a source", True)
    t = np.linspace(0.0, 1.0, 50)
    for style in ("lines", "log", "points", "path"):
        result.panel(f"as {style}", "time", "value", {"sine": (t, np.sin(9 * t)), "cosine": (t, np.cos(9 * t))}, style)
    result.below("a number", 1.0, 2.0)
    drawn = figure(result)
    assert [ax.get_title(loc="left") for ax in drawn.axes] == ["as lines", "as log", "as points", "as path"]
    assert all(len(ax.lines) == 2 for ax in drawn.axes)
    assert all([text.get_text() for text in ax.get_legend().get_texts()] == ["sine", "cosine"] for ax in drawn.axes)


def test_curves_of_one_title_come_into_one_panel():
    result, t = Result("x", "a title", "a source", True), np.linspace(0.0, 1.0, 50)
    for name in ("first", "second"):
        result.panel("both", "time", "value", {name: (t, t)})
    assert [list(panel.curves) for panel in result.panels] == [["first", "second"]]


def test_more_series_than_colours_are_parted_by_their_setting():
    result, t = Result("x", "a title", "a source", True), np.linspace(0.0, 1.0, 50)
    for h in (0.1, 0.01):
        result.data |= {f"method {k}, h = {h}": {"t": t, "energy": t * (k + 1)} for k in range(5)}
    assert [(ax.get_title(loc="left"), len(ax.lines)) for ax in figure(result).axes] == [
        ("energy, h = 0.1", 5),
        ("energy, h = 0.01", 5),
    ]


def test_claims_are_drawn_with_the_range_they_allow():
    result = Result("x", "a title", "a source", True)
    result.below("small", 1e-14, 1e-12)
    result.above("large", 5.0, 1.0)
    result.near("close", 2.0, 2.0, 0.01)
    result.below("negative", -0.5, -0.1)
    result.below("nothing", 0.0, 1e-12)
    result.below("too large", 1.0, 1e-3)
    (ax,) = figure(result).axes
    spans = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    for (low, high), line, row in zip(spans, ax.lines, result.rows, strict=True):
        assert (low <= line.get_xdata()[0] <= high) == row.holds
    assert [text.get_text() for text in ax.texts] == ["0"]  # which a logarithmic axis does not have


def test_more_curves_than_colours_can_be_told_apart():
    result, t = Result("x", "a title", "a source", True), np.linspace(0.0, 1.0, 50)
    result.panel("ten", "time", "value", {f"orbit {k}": (t, t + k) for k in range(10)})
    lines = figure(result).axes[0].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 10


def test_programs_of_the_sources_agree_with_the_library():
    disk = da.catalog.rolling_disk()
    q, v = (np.asarray(disk.initial[key], dtype=float)[None] for key in ("q", "v"))
    own = Spark(Disk(), 0.1, np.array([1e-13])).run(q, v, 20, 1)
    sol = da.simulate(disk, "spark-2", t_end=2.0, step=0.1)
    assert np.abs(own[0][:, 0] - sol.q).max() < 1e-15
    assert np.abs(own[1][:, 0] - sol.v).max() < 1e-15
    for method in ("murua-3", "murua-ggl-3"):
        masses = np.array([[1.0, 1.0], [1e-4, 1.0], [0.0, 1.0]])
        run = Pendulums(masses, ggl=method == "murua-ggl-3").run(REST, np.zeros(4), 0.01, 100)
        for k, pair in enumerate(masses):
            other = da.simulate(damped_double_pendulum(*pair), method, t_end=1.0, step=0.01)
            assert np.abs(run.p[:, k] - other.q[1:]).max() < 1e-14
            assert np.abs(run.v[:, k] - other.v[1:]).max() < 1e-11


@pytest.mark.parametrize(
    ("carried", "follows", "change"), [(True, False, -5.03e-6), (False, False, 4.115e-6), (False, True, -6.276e-10)]
)
def test_what_a_stopped_iteration_does_to_the_disk(carried, follows, change):
    """At t = 250 with TOL = 1e-6: by where z0 comes from and whether y1 is an unknown; the last is da.Newton on spark-2."""
    disk = da.catalog.rolling_disk()
    q, v = (np.asarray(disk.initial[key], dtype=float)[None] for key in ("q", "v"))
    w = Spark(Disk(), 0.1, np.array([1e-6]), carried, follows).run(q, v, 500, 500)[1]
    found = 5 * ((w[-1] ** 2).sum() - (w[0] ** 2).sum()) / 2  # linear in time
    assert found == pytest.approx(change, rel=2e-2)
    if follows:
        sol = da.simulate(disk.to_dae("index2"), "spark-2", t_end=50.0, step=0.1, newton=da.Newton(tolerance=1e-6))
        other = 5 * ((sol.y[-1, 4:] ** 2).sum() - (sol.y[0, 4:] ** 2).sum()) / 2
        assert found == pytest.approx(other, rel=1e-3)
