"""The documentation builds offline, every warning is an error, and what the pages say and show is true."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dalembert as da
from dalembert.methods.base import find
from dalembert.methods.runge_kutta import RungeKutta
from dalembert.systems.base import System

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
pytestmark = pytest.mark.usefixtures("optimised")  # long runs: they are worth a compiler's time


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, built from a copy: the gallery is written beside its sources."""
    top = tmp_path_factory.mktemp("docs")
    left = shutil.ignore_patterns("_build", "_generated", "gallery", "*.png.md5", "__pycache__")
    shutil.copytree(DOCS, top / "docs", ignore=left)
    shutil.copytree(ROOT / "examples", top / "examples", ignore=shutil.ignore_patterns("*.png", "*.gif", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(top / "docs"), str(top / "site")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # nor do examples warn
    return top / "site"


def test_pages_ask_for_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        if page.name == "double_pendulum.html" and page.parent == site:
            continue  # the report: its own test drives it in a browser
        assert not re.search(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="https?://', page.read_text()), page


def test_pages_have_api_formulas_report_and_gallery(site):
    reference = (site / "api.html").read_text()
    assert "PortHamiltonian" in reference
    assert "numpy._typing" not in reference
    assert "(<em>&gt;&gt;&gt;" not in reference  # an example that was read as a parameter
    assert "split_solves" in (site / "extending.html").read_text()
    theory = (site / "theory.html").read_text()
    assert theory.count("<math") > 40
    assert "$" not in re.sub(r"<[^>]*>", "", theory)
    assert (site / "double_pendulum.html").stat().st_size > 1_000_000
    examples = list((ROOT / "examples").glob("*.py"))
    assert len(examples) > 10
    for example in examples:  # each of them prints something
        assert "sphx-glr-script-out" in (site / "gallery" / f"{example.stem}.html").read_text(), example


def test_every_public_name_is_in_the_reference():
    page = "".join((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("api", "extending"))
    names = [name for name in da.__all__ if not isinstance(getattr(da, name), ModuleType) and not name.startswith("_")]
    assert len(names) > 50
    assert [name for name in names if not re.search(rf"(dalembert|da)\.(\w+\.)*{name}\b", page)] == []


def executed(page):
    """The names that the code of a page leaves behind."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), flags=re.S))
    names = {"__name__": page}
    exec(code, names)
    return names


def test_code_of_the_page_on_ensembles_runs():
    names = executed("ensembles")
    for name, members in (("data", 100), ("drawn", 50), ("lowest", 3)):
        assert names[name].sizes["member"] == members
        assert (names[name].error == "").all()


def test_code_of_the_page_on_robots_runs():
    names = executed("robots")
    assert names["arm"].coordinates == ("shoulder", "elbow")
    assert np.abs(names["again"] - names["a"]).max() < 1e-12
    assert names["same"].to_toml() == names["mechanism"].to_toml()


@pytest.mark.parametrize(
    "page",
    [
        "getting_started",
        "guide",
        "how_to_controllers",
        "how_to_equations",
        "how_to_events",
        "how_to_names",
        "how_to_solve_ivp",
        "how_to_tables",
        "mechanisms",
        "scale",
        "nonholonomic",
        "port_hamiltonian",
    ],
)
def test_code_of_the_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [value for value in executed(page).values() if isinstance(value, da.Solution)]
    assert runs
    for sol in runs:
        assert np.isfinite(sol.x).all()
        assert sol.t[-1] > sol.t[0]
        for level in sol.method.exact_levels:
            residual = np.abs(sol.residual(level)).max(initial=0.0)
            assert residual < 1e-11 * (1 + np.abs(sol.x).max() ** 2), (page, sol, level)


def test_code_of_the_page_about_daes_prints_what_it_says(capsys):
    executed("daes")
    printed = capsys.readouterr().out
    assert re.search(r"index +3\n.*degrees of freedom +2\n", printed)
    assert "M = [[2*cos(q1) + 3, cos(q1) + 1], [cos(q1) + 1, 1]]" in printed
    assert "gravity = [[981*cos(q0)/100], [0]]" in printed


def test_a_new_kind_of_system_can_do_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.setattr(RungeKutta, "treats", RungeKutta.treats)
    monkeypatch.setattr(System, "_classes", dict(System._classes))
    monkeypatch.setattr(da.Solution, "_classes", list(da.Solution._classes))
    names = executed("extending")
    prey, sol = names["prey"], names["sol"]
    compiled = da.simulate(prey, "gauss-3", t_end=10.0, step=0.05, compile=True)
    np.testing.assert_array_equal(compiled.x, sol.x)
    kept = sol.x[:, 0] - np.log(sol.x[:, 0]) + sol.x[:, 1] - 2.0 * np.log(sol.x[:, 1])  # an invariant of the motion
    assert np.abs(kept - kept[0]).max() < 1e-7
    assert np.abs(sol.at(3.21).x - da.simulate(prey, "gauss-5", t_end=3.21, step=0.0321).x[-1]).max() < 1e-6
    back = da.load(sol.save(tmp_path / "prey.nc"))
    assert type(back) is names["FirstOrderSolution"]
    np.testing.assert_array_equal(back.x, sol.x)
    watched = da.simulate(prey, "rk4", t_end=10.0, step=0.05, events=[da.Event(lambda x: x[0] - x[1], name="equal")])
    assert np.abs(np.diff(watched.events["equal"].x, axis=1)).max() < 1e-14
    controlled = da.simulate(prey, "radau-iia-3", t_end=10.0, step=0.05, adaptive="error")
    assert np.abs(controlled.x[-1] - sol.x[-1]).max() < 1e-4
    run = da.sensitivity(prey, "gauss-3", t_end=1.0, step=0.05)
    ends = [da.simulate(prey, "gauss-3", t_end=1.0, step=0.05, parameters={"a": 2.0 + d}).x[-1] for d in (-1e-5, 1e-5)]
    np.testing.assert_allclose(run.jacobian("x", "a").ravel(), (ends[1] - ends[0]) / 2e-5, rtol=1e-8)
    assert da.consistent(prey, x=[1.0, 3.0]).x.tolist() == [1.0, 3.0]
    with pytest.raises(da.MethodError, match="rattle cannot treat a first-order system; use gauss-3"):
        da.simulate(prey, "rattle", t_end=1.0, step=0.1)


def test_tables_are_as_the_library_writes_them():
    written = runpy.run_path(str(DOCS / "tables.py"))
    assert written["methods"]() == (DOCS / "methods.md").read_text(), "run python docs/tables.py"
    shown = (DOCS / "choosing.md").read_text()
    rows = [line.split("|")[1].strip() for line in written["comparison"]().splitlines()[2:]]
    assert all(f"| {row}" in shown for row in rows)
    assert written["orders"]() in (DOCS / "theory.md").read_text(), "run python docs/tables.py"


def test_numbers_in_prose_are_those_of_the_experiments():
    """Those of the short ones are computed again; every mark names an experiment."""
    written, marked = runpy.run_path(str(DOCS / "tables.py")), 0
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        found = list(written["MARK"].finditer(text))
        assert text.count("<!-- . -->") == len(found), page.name
        assert not found or page.name in written["PROSE"]
        assert {match["id"] for match in found} <= set(da.experiments.REGISTER)
        assert written["numbers"](text, seconds=7.0) == text, "run python docs/tables.py"
        marked += len(found)
    assert marked >= 8


def test_the_table_of_five_ways_is_as_measured():
    """The rows that are not round-off, of the quick methods."""
    drift = runpy.run_path(str(DOCS / "drift.py"))
    shown = [[c.strip() for c in line.split("|")[1:-1]] for line in (DOCS / "daes.md").read_text().splitlines()]
    assert [row[0] for row in shown if row and row[0] in drift["CASES"]] == list(drift["CASES"])
    for label in ("index 1, RK45", "Baumgarte, xi = 0.8, omega = 2"):
        assert drift["row"](label, drift["run"](label)) in shown, "run python docs/drift.py"


def test_numbers_of_the_verification_page_can_be_measured_again():
    measure = runpy.run_path(str(DOCS / "verify.py"))
    rows = [
        [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        for line in (DOCS / "verification.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    system = da.catalog.double_pendulum()
    for name in ("rattle", "energy-momentum"):
        shown = next(row for row in rows if row[:2] == [system.name, name])
        found = measure["orders"](system, find(name), 0.24, [24, 48, 96, 192])
        assert shown[2:] == found
    geometry = {row[0].strip("`"): row[1:] for row in measure["geometry"]()}
    page = {row[0]: row[1:] for row in rows if row[0] in geometry and len(row) == 3}
    assert page.keys() == geometry.keys()
    for name, (computed, defect) in geometry.items():
        assert page[name][0] == computed
        # round-off differs from machine to machine, the rest does not
        assert page[name][1] == defect or max(float(page[name][1]), float(defect)) < 1e-14


@pytest.mark.parametrize("reader", ["engineer", "researcher", "control", "student"])
def test_code_of_the_tutorials_runs(reader, tmp_path, monkeypatch):
    test_code_of_the_pages_runs(f"tutorial_{reader}", tmp_path, monkeypatch)


def test_no_line_of_prose_begins_with_a_comment():
    """A page would end its paragraph there and show the line as it is written."""
    for page in DOCS.glob("*.md"):
        assert not re.search(r"^<!-- .*-->\S", page.read_text(encoding="utf-8"), flags=re.M), page
