"""The figures of a report as data: numbers of the run, or words where there is round-off alone."""

import re

import numpy as np
import pytest

import dalembert as da
from pages import inside, points


def test_the_numbers_in_a_report_are_those_of_the_run(tmp_path):
    start = {"q": [0, -1, 0, -2], "v": [1, 0, 2, 0]}  # its energy is not zero
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", **start, t_end=3.0, step=0.01)
    data, figures = inside(sol.report(tmp_path / "run.html"))
    (run,) = data["runs"]
    assert run["t"] == sol.t.tolist()
    np.testing.assert_allclose(points(run)[:, :2].reshape(len(sol.t), 4), sol.q, rtol=1e-6)
    assert [line["y"] for line in figures["positions"]["lines"]] == sol.q.T.tolist()
    assert figures["positions"]["label"] == "m"
    names = {"kinetic": sol.kinetic, "potential": sol.potential, "total": sol.energy}
    assert {line["name"]: line["y"] for line in figures["energy"]["lines"]} == {k: v.tolist() for k, v in names.items()}
    error = np.maximum(np.abs(sol.energy[1:] - sol.energy[0]), 1e-17)  # at the start it is zero by definition
    assert figures["error of the energy"]["lines"][0]["y"] == error.tolist()
    assert figures["error of the energy"]["log"]
    worst = [f"{level} at most {np.abs(sol.residual(level)).max():.1e}" for level in ("position", "velocity")]
    assert figures["constraints"]["words"] == ", ".join(worst) + ", round-off."
    assert figures["constraints"]["lines"] == []
    for k, line in enumerate(figures["multipliers"]["lines"]):
        assert line["y"] == [sol.lam[0, k], *sol.lam[:, k]]


def test_the_ledger_in_a_report(tmp_path):
    sol = da.simulate(da.catalog.dc_motor(), "discrete-gradient", t_end=0.5, step=0.01, u=lambda t: [np.sin(9 * t), 0.1])
    _, figures = inside(sol.report(tmp_path / "run.html"))
    lines = {line["name"]: np.array(line["y"]) for line in figures["ledger, energy since the start"]["lines"]}
    np.testing.assert_allclose(lines["stored"], sol.energy - sol.energy[0], atol=1e-15)
    np.testing.assert_allclose(lines["dissipated"][1:], np.cumsum(sol.dissipated), atol=1e-15)
    np.testing.assert_allclose(lines["voltage"] + lines["torque"], np.r_[0, np.cumsum(sol.supplied)], atol=1e-15)
    inputs = {line["name"]: line["y"] for line in figures["inputs"]["lines"]}
    assert inputs == {"voltage": sol.u[:, 0].tolist(), "torque": sol.u[:, 1].tolist()}
    assert (figures["flux linkages"]["label"], figures["angular momenta"]["label"]) == ("Wb", "N m s")


def test_levels_above_round_off_are_drawn_and_quiet_ledgers_are_said(tmp_path):
    sol = da.simulate(da.catalog.double_pendulum(), "midpoint", t_end=1.0, step=0.01)
    _, figures = inside(sol.report(tmp_path / "a.html"))
    (line,) = figures["constraints"]["lines"]
    assert line["name"] == "velocity"
    assert line["y"] == np.maximum(np.abs(sol.residual("velocity")).max(axis=1), 1e-17).tolist()
    assert re.fullmatch(r"position at most \d\.\de-1\d, round-off\.", figures["constraints"]["words"])
    still = da.simulate(da.catalog.snakeboard(), "spark-2", t_end=0.5, step=0.01)
    _, figures = inside(still.report(tmp_path / "b.html"))
    ledger = figures["ledger, energy since the start"]
    assert ledger["words"] == "no energy came in, went out or was stored: exactly 0."
    assert ledger["lines"] == []


def test_several_runs_in_one_report(tmp_path):
    """Each has its own picture and frames; lines are told apart by name, and by colour or dashes."""
    runs = [
        da.simulate(da.catalog.double_pendulum(), m, t_end=t, step=h)
        for m, t, h in (("rattle", 1.0, 0.01), ("midpoint", 2.0, 0.02))
    ]
    data, figures = inside(da.report(runs, tmp_path / "a.html"))
    assert [run["name"] for run in data["runs"]] == ["rattle", "midpoint"]
    for run, sol in zip(data["runs"], runs, strict=True):
        assert run["t"] == sol.t.tolist()
        np.testing.assert_allclose(points(run)[:, :2].reshape(len(sol.t), 4), sol.q, atol=1e-6)
    for figure in figures.values():
        looks = [(line["name"], line["colour"], line["dash"]) for line in figure["lines"]]
        assert len({name for name, *_ in looks}) == len({look[1:] for look in looks}) == len(looks)
    positions = figures["positions"]
    assert [positions["t"][line["t"]] for line in positions["lines"]] == [runs[0].t.tolist()] * 4 + [runs[1].t.tolist()] * 4
    with pytest.raises(da.MethodError, match="list of solutions"):
        da.report([], tmp_path / "b.html")


def test_frames_are_as_dense_as_screens_show_and_a_page_stays_small(tmp_path):
    from dalembert.reporting.scene import NUMBERS, shown

    long = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=100.0, step=0.001)
    gaps = np.diff(long.t[shown(long)])
    assert 1 / 130 < gaps.max() < 1 / 100
    net = da.simulate(da.catalog.spring_net(12, 12), "rattle", t_end=10.0, step=0.002)
    assert len(shown(net)) * net.points[0].size <= NUMBERS


def test_spelled_labels():
    from dalembert.reporting.spelling import spelled

    assert spelled(r"$\varphi_{2}$ (rad)") == "\u03c6<sub>2</sub> (rad)"
    assert spelled(r"$i_{\mathrm{source}}$") == "i<sub>source</sub>"
    assert spelled("<b>") == "&lt;b&gt;"
    assert spelled(r"$v_{x_{1}}$") == "v<sub>x<sub>1</sub></sub>"
