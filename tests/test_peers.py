"""The comparison with other solvers: its measures are right, its page says what was measured and names what is missing."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import ellipj, ellipk

import dalembert as da
from dalembert.engine import compiler

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def peers():
    """The package, imported as its command does."""
    sys.path.insert(0, str(FOLDER))
    import peers.run
    import peers.solvers.ours
    import peers.solvers.with_scipy

    yield peers
    sys.path.remove(str(FOLDER))


@pytest.fixture
def measured(peers, monkeypatch):
    """The sleigh with dalembert and SciPy, one method each, one round; and one peer that is not there."""
    if compiler.find() is None:
        pytest.skip("no C compiler on this machine")
    monkeypatch.setitem(peers.solvers.ours.METHODS, "nonholonomic", ("spark-3",))
    monkeypatch.setattr(
        peers.solvers,
        "MODULES",
        {
            "dalembert": ("ours", "dalembert"),
            "SciPy": ("with_scipy", "scipy"),
            "nowhere": ("with_nowhere", "nowhere-at-all"),
        },
    )
    found, missing = peers.solvers.load()
    return peers.run.collect(["sleigh"], found, missing, 1, True), found


def test_reference_states_are_exact(peers):
    problem = peers.problems.PROBLEMS["simple"]
    t, k = problem.times[1 : 1 + problem.checked], np.sqrt(0.5)  # released from the horizontal: sin(theta / 2) = k sn
    sn, cn, *_ = ellipj(np.sqrt(9.81) * t + ellipk(0.5), 0.5)
    theta, rate = 2 * np.arcsin(k * sn), 2 * np.sqrt(9.81) * k * cn
    exact = np.stack([np.sin(theta), -np.cos(theta), rate * np.cos(theta), rate * np.sin(theta)], axis=1)
    np.testing.assert_allclose(peers.reference.load(problem), exact, atol=1e-12)
    disk = peers.problems.PROBLEMS["disk"]
    np.testing.assert_allclose(
        peers.reference.load(disk)[:, :4], da.catalog.rolling_disk_solution(disk.times[1:]), rtol=0, atol=1e-13
    )
    network = peers.problems.PROBLEMS["network"]
    A, b = network.equations.A, network.equations.b
    rest = -np.linalg.solve(A, b)
    exact = np.array([rest - expm(A * t) @ rest for t in network.times[1:]])
    np.testing.assert_allclose(peers.reference.load(network), exact, atol=1e-12)


def test_references_were_computed_twice(peers):
    kept = json.loads(peers.reference.FILE.read_text(encoding="utf-8"))
    assert set(kept) == set(peers.problems.PROBLEMS)
    for name, entry in kept.items():
        problem = peers.problems.PROBLEMS[name]
        assert np.shape(entry["states"]) == (problem.checked, len(problem.start))
        assert entry["difference"] < 1e-13, name


def test_extrapolation_reproduces_a_reference(peers):
    problem = replace(peers.problems.PROBLEMS["crank"], t_end=0.5, rows=1, check=0.5)
    first = peers.reference.load(peers.problems.PROBLEMS["crank"])[:1]
    for form in problem.forms:
        np.testing.assert_allclose(peers.reference.compute(problem, 8, form), first, atol=1e-12)


def test_peers_solve_the_problem_of_our_model(peers):
    """Equations and model agree: same first state, same energy, and the model's own states meet the reference."""
    for problem in peers.problems.PROBLEMS.values():
        for form in problem.forms.values():
            np.testing.assert_allclose(form.rows(form.start[None])[0], problem.start, atol=1e-15)
        method = {"network": "radau-iia-5", "nonholonomic": "spark-3"}.get(problem.kind, "lobatto-pair-3")
        start = {"x": peers.solvers.ours.network_start(), "u": [1.0]} if problem.kind == "network" else {}
        h = problem.t_end / problem.rows / (2000 if problem.kind == "stiff" else 400)
        sol = da.simulate(problem.system(), method, t_end=5 * h, step=h, save_every=5, compile=False, **start)
        y = peers.solvers.ours.state(problem, sol)
        np.testing.assert_allclose(problem.energies(y), sol.energy, atol=1e-10)
        form = next(iter(problem.forms.values()))
        exact = form.rows(np.array([peers.reference.extrapolate(form, form.start, 5 * h, 5 * h)], dtype=float))[0]
        np.testing.assert_allclose(y[-1], exact, atol=1e-7)


def test_errors_are_those_that_were_put_in(peers):
    problem = peers.problems.PROBLEMS["sleigh"]
    y = np.zeros((problem.rows + 1, 6))
    y[0] = problem.start
    y[1 : 1 + problem.checked] = peers.reference.load(problem)
    y[1 + problem.checked :] = problem.start
    fine = peers.measure.errors(problem, peers.measure.Rows(y, 0))
    assert fine.state == 0
    assert fine.energy < 1e-14
    y[3, 1] += 1e-3  # a position: also a potential energy of 0.1 a metre
    wrong = peers.measure.errors(problem, peers.measure.Rows(y, 0))
    assert wrong.state == pytest.approx(1e-3, rel=1e-9)
    assert wrong.energy == pytest.approx(1e-4, rel=1e-9)
    y[-1, 0] = np.nan
    y[3, 1] = np.nan
    assert peers.measure.errors(problem, peers.measure.Rows(y, 0)).worst == np.inf


def test_every_cell_meets_its_level_when_run_again(peers, measured):
    data, found = measured
    problem, entry = peers.problems.PROBLEMS["sleigh"], data["accuracy"]["sleigh"]
    for name, row in entry["peers"].items():
        assert row["cells"][0] is not None, name
        for level, cell in zip(problem.levels, row["cells"], strict=True):
            if cell is not None:
                case = found[name].prepare(problem, cell["variant"], cell["knob"])
                again = peers.measure.errors(problem, case.read(case.run()))
                assert again.worst == cell["worst"] <= level
                fastest = min(t["seconds"] for t in row["trials"] if t["worst"] <= level)
                assert cell["seconds"] <= peers.measure.NEAR * fastest


def test_settings_that_came_close_are_timed_as_well(peers):
    """The fastest that meet a level, three at most, and none that was much slower."""
    fine, coarse = (peers.measure.Errors(worst, 0.0, 0.0) for worst in (1e-6, 1e-2))
    trials = [peers.measure.Trial("a", knob, knob, fine, 1) for knob in (1.3, 1.0, 1.2, 1.1, 2.0)]
    trials.append(peers.measure.Trial("a", 0.1, 0.1, coarse, 1))
    assert [t.knob for t in peers.measure.contenders(trials, 1e-4)] == [1.0, 1.1, 1.2]
    assert [t.knob for t in peers.measure.contenders(trials[3:], 1e-4)] == [1.1]
    assert [t.knob for t in peers.measure.contenders(trials, 1.0)] == [0.1]
    assert peers.measure.contenders(trials, 1e-9) == []
    cells = [peers.measure.Cell(trials[0], seconds) for seconds in ([2.0, 1.5], [3.0, 1.0], [1.1, 1.2])]
    assert peers.measure.quickest(cells) is cells[1]
    assert peers.measure.quickest([]) is None


def others(data):
    """The measures that the fixture leaves out, as data."""
    start = {"cold": 1.25, "warm": 0.75, "spread": 0.1, "repeats": 5, "memory": 66.0, "lines": 9, "error": 1e-6}
    data["start"] = {"dalembert": start, "SciPy": {"why": "it ended with 1", "lines": 19}}
    data["growth"] = {"dalembert": [{"n": 2, "setup": 0.5, "seconds": 0.004, "knob": 0.1, "error": 1e-9}], "SciPy": []}
    run = {
        "variant": "rattle", "knob": 0.01, "seconds": 1.0, "t": [1.0, 2400.0], "energy": [1e-6, 3e-6], "first": 2e-6,
        "last": 3e-6, "constraint": 1e-15,
    }  # fmt: skip
    data["drift"] = {"dalembert": run, "SciPy": {"why": "would take 40 s"}}
    cell = {"knob": 0.01, "error": 1e-8, "forward": 0.001, "gradient": 0.003, "spread": 0.0}
    data["gradients"] = {"dalembert": {"how": "own", "1": cell}, "diffrax": {"how": "grad", "1": cell | {"gradient": 0.001}}}
    data["lanes"] = {"sleigh": [{"level": 1e-4, "heyoka": 0.004, "AVX2": 0.003, "SSE2": None}]}
    return data


def test_page_is_made_from_what_was_measured(peers, measured, tmp_path):
    data = others(measured[0])
    peers.run.publish(data, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    again = json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8"))
    for row in again["accuracy"]["sleigh"]["peers"].values():
        for cell in row["cells"]:
            assert cell is None or peers.page.timed(cell) in page
    assert "nowhere: `nowhere-at-all` is not installed" in page
    assert "would take 40 s" in page
    assert "it ended with 1" in page
    assert "SciPy, growth" in page
    assert "Over 1 s dalembert **loses**: it takes 3 times the time of diffrax" in page
    assert "| Python" not in page
    assert re.search(r"\| Chaplygin sleigh *\| *0\.0001 *\| *3 ms \(0\.75\) *\| *not met *\| *4 ms *\|", page)
    for image in re.findall(r"\((images/[^)]*)\)", page):
        assert (tmp_path / image).stat().st_size < 200_000
    assert peers.page.write(again) == page
    again["accuracy"]["sleigh"]["peers"]["dalembert"]["cells"][0]["best"] = 123.0
    assert "123000 ms" in peers.page.write(again)


def test_numbers_decide_who_loses(peers):
    own = {"best": 0.004, "spread": 0.0, "variant": "rattle", "knob": 0.01, "steps": 1000, "repeats": 5}
    peer = own | {"best": 0.002, "variant": "Taylor", "steps": 100}
    problem = {
        "levels": [1e-3], "fixed": 0.0,
        "peers": {"dalembert": {"cells": [own]}, "heyoka": {"cells": [peer]}, "SciPy": {"cells": [None]}},
    }  # fmt: skip
    lost = peers.page.verdict(problem, 0)
    assert "**dalembert loses**: 2 times the time of heyoka, with `rattle`, h = 0.01" in lost
    assert "1000 steps of 4 us where heyoka makes 100 of 20 us" in lost
    assert "75 % of it is the fixed cost of a call" in peers.page.verdict(problem | {"fixed": 0.003}, 0)
    peer["best"] = 0.01
    assert "dalembert is the fastest" in peers.page.verdict(problem, 0)
    assert "heyoka takes 2.5 times as long" in peers.page.verdict(problem, 0)
    problem["peers"]["dalembert"]["cells"] = [None]
    assert peers.page.verdict(problem, 0) == "At 0.001 dalembert has no result; the fastest is heyoka."


def test_programs_are_counted_without_comments(peers):
    for name, (module, _) in peers.solvers.MODULES.items():
        text = (peers.starts.SCRIPTS / f"{module}.py").read_text(encoding="utf-8")
        code = re.sub(r'^""".*?"""', "", text, count=1, flags=re.S)
        assert peers.starts.lines(name) == sum(bool(re.sub(r"^\s*#.*", "", line).strip()) for line in code.splitlines())


def test_our_program_runs_in_a_fresh_process(peers, tmp_path):
    seconds, memory, printed = peers.starts.process(peers.starts.SCRIPTS / "ours.py", tmp_path)
    assert float(printed) < 4.9e-5
    assert seconds > 0
    assert 10 < memory < 1000 or sys.platform != "linux"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_is_that_of_the_program_alone(peers, tmp_path):
    (tmp_path / "small.py").write_text("print(1)\n")
    ballast = np.ones(40_000_000)  # 320 MB in the process that starts it
    _, memory, printed = peers.starts.process(tmp_path / "small.py", tmp_path)
    assert printed.split() == ["1"]
    assert memory < 100 < ballast.nbytes / 2**20


def test_shorter_vectors_are_those_that_were_asked_for(peers, monkeypatch):
    """A compiler that is kept from long vectors says so, and is as before afterwards."""
    if compiler.find() is None:
        pytest.skip("no C compiler on this machine")
    before = compiler.find()
    monkeypatch.setattr(peers.lanes.compiler, "processor", lambda: "flags : avx avx512f")
    assert peers.lanes.shorter() == {"AVX2": "-mno-avx512f", "SSE2": "-mno-avx"}
    with peers.lanes.kept_from("-DDA_NONE"):
        assert compiler.find() == (*before, "-DDA_NONE")
    assert compiler.find() == before
    monkeypatch.setattr(peers.lanes.compiler, "processor", lambda: "flags : sse2")
    assert peers.lanes.shorter() == {}


def test_unknown_names_are_refused(peers):
    with pytest.raises(SystemExit, match="there is no problem 'triple'; known are simple"):
        peers.run.select("triple/heyoka")
    with pytest.raises(SystemExit, match="there is no peer 'matlab'; known are dalembert"):
        peers.run.select("double/matlab")
    assert peers.run.select("/SciPy") == (list(peers.problems.PROBLEMS), ["SciPy"])
