"""Figures: what they draw, in which style, and how axes are labelled."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dalembert as da
from dalembert import plotting


@pytest.fixture(scope="module")
def sol():
    return da.simulate(da.catalog.double_pendulum(), "rattle", t_end=1.0, step=0.01)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


ONE = ["motion", "coordinates", "energy", "energy_error", "constraints", "phase", "multipliers", "steps", "ledger"]


@pytest.mark.parametrize("name", ONE)
def test_every_figure_of_a_run(name, sol, tmp_path):
    draw = getattr(plotting, name)
    ax = draw(sol)
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert ax.get_title(loc="left")
    assert not ax.spines["top"].get_visible()  # the style sheet
    ax.figure.savefig(tmp_path / "a.png")
    own = plt.figure().add_subplot()
    assert draw(sol, ax=own) is own
    assert own.spines["top"].get_visible()  # the style of the caller


def test_the_style_sheet_can_be_used_by_name():
    with plt.style.context("dalembert.style"):
        cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert tuple(c if c.startswith("#") else f"#{c}" for c in cycle) == plotting.COLOURS


def test_units_stand_on_the_axes(sol):
    assert plotting.energy(sol).get_xlabel() == "time $t$ (s)"
    assert plotting.energy(sol).get_ylabel() == "energy (J)"
    assert plotting.motion(sol).get_xlabel() == "$x$ (m)"
    bare = da.Mechanical(1, mass=1.0, potential=lambda q: q[0] ** 2)
    run = da.simulate(bare, "rattle", q=[1.0], v=[0.0], t_end=0.1, step=0.01)
    assert plotting.energy(run).get_xlabel() == "time $t$"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("x", "$x$"), ("x1", "$x_{1}$"), ("theta", r"$\theta$"), ("phi2", r"$\varphi_{2}$"), ("v_x1", "$v_{x_{1}}$"),
        ("flux", "flux"), ("lam1", r"$\lambda_{1}$"), ("q12", "$q_{12}$"), ("i_source", r"$i_{\mathrm{source}}$"),
    ],
)  # fmt: skip
def test_names_as_mathematics(name, shown):
    assert plotting.symbol(name) == shown


@pytest.mark.parametrize("maker", [row.make for row in da.list_systems()], ids=lambda m: m.__name__)
def test_all_names_of_the_catalog_can_be_typeset(maker):
    figure = plt.figure()
    for i, name in enumerate(maker().coordinates):
        figure.text(0, i / 50, plotting.symbol(name))
    figure.canvas.draw()


def test_several_runs(sol, tmp_path):
    other = da.simulate(da.catalog.double_pendulum(), "energy-momentum", t_end=1.0, step=0.01)
    figure = plotting.comparison([sol, other])
    assert len(figure.axes) == 3
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["rattle", "energy-momentum"]
    free = da.simulate(da.catalog.harmonic_oscillator(), "rattle", t_end=1.0, step=0.01)
    assert len(plotting.comparison([free]).axes) == 1
    ax = plotting.work_precision({"a": ([0.1, 0.2], [1e-2, 2.5e-3])})
    assert ax.get_xlabel() == "run time (s)"
    ax = plotting.convergence({"a": ([0.1, 0.05], [1e-2, 2.5e-3])})
    assert "2.00" in ax.get_legend().get_texts()[0].get_text()


def test_a_narrow_logarithmic_axis_gets_two_decades():
    ax = plt.figure().add_subplot()
    plotting.magnitude(ax, np.arange(10.0), np.full(10, 3e-16), "a")
    plotting.finish(ax, "x", "y", "title")
    low, high = ax.get_ylim()
    assert high / low >= 99


def test_steps_of_an_adaptive_run():
    run = da.simulate(da.catalog.double_pendulum(), "lobatto-pair-3", t_end=1.0, step=0.01, adaptive=True)
    ax = plotting.steps(run)
    assert "refused" in ax.get_title(loc="left")
    drawn = ax.lines[0].get_ydata()
    assert np.allclose(drawn, np.diff(run.t)[:-2])


def test_section_is_labelled_by_coordinates():
    q, v = da.catalog.contact_start([-1.2, -1.0], eps=0.8)
    points = da.poincare(
        da.catalog.contact_oscillator(eps=0.8), 40, 30, method="mclachlan-perlmutter", step=2 * np.sin(np.pi / 40), q=q, v=v
    )
    ax = points.plot(("q", 2), ("v", 2))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$z$", r"$\dot{z}$")
