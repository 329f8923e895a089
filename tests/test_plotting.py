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
    assert "rejected" in ax.get_title(loc="left")
    drawn = ax.lines[0].get_ydata()
    assert np.allclose(drawn, np.diff(run.t)[:-2])


def test_section_is_labelled_by_coordinates():
    q, v = da.catalog.contact_start([-1.2, -1.0], eps=0.8)
    points = da.poincare(
        da.catalog.contact_oscillator(eps=0.8), 40, 30, method="mclachlan-perlmutter", step=2 * np.sin(np.pi / 40), q=q, v=v
    )
    ax = points.plot(("q", 2), ("v", 2))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$z$", r"$\dot{z}$")


NAMES = [
    "x%", "a#b", "a{b", "a$b$c", "50%", "q^", "$x$_1", r"$\theta_1$", r"\theta_2", "theta_{12}", "very_long_" * 30, "é",
    "a b", r"$\foo$",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_drawn(name, tmp_path):
    system = da.Mechanical((name,), mass=1.0, potential=lambda q: q[0] ** 2, name=f"a {name}", initial={"q": [1.0], "v": [0.0]})
    run = da.simulate(system, "rattle", t_end=0.1, step=0.01)
    run.plot(tmp_path / "a.png")
    plotting.phase(run).figure.savefig(tmp_path / "b.png")


def test_formulas_and_braces():
    assert plotting.symbol(r"$\theta_1$") == r"$\theta_1$"
    assert plotting.symbol(r"\theta_2") == r"$\theta_2$"
    assert plotting.symbol("theta_{12}") == r"$\theta_{12}$"
    assert plotting.symbol("a$b") == r"a\$b"
    with plt.rc_context({"text.usetex": True}):
        assert plotting.text("50%_#") == r"50\%\_\#"


def test_nothing_to_draw_is_said(sol):
    free = da.simulate(da.catalog.harmonic_oscillator(), "rattle", t_end=1.0, step=0.01)
    assert plotting.constraints(free).texts[0].get_text() == "no constraints"
    assert plotting.multipliers(free).texts[0].get_text() == "no multipliers"
    assert plotting.inputs(free).texts[0].get_text() == "no inputs"
    with pytest.raises(da.MethodError, match="no coordinate 7"):
        plotting.phase(sol, 7)


def test_exact_zeros_are_announced():
    run = da.simulate(da.catalog.rolling_disk(), "spark-2", t_end=1.0, step=0.01)
    assert np.ptp(run.energy) == 0
    assert "exact zeros" in plotting.energy_error(run).texts[0].get_text()


def test_a_given_axis_keeps_its_title_free(sol):
    figure, ax = plt.subplots()
    plotting.energy(sol, ax=ax)
    figure.canvas.draw()
    legend, title = ax.get_legend().get_window_extent(), ax.title.get_window_extent()
    assert not legend.overlaps(title)


def test_results_of_the_library_are_taken_as_they_are(sol):
    found = da.convergence(da.catalog.harmonic_oscillator(), "rattle", t_end=0.5)
    assert "2.0" in plotting.convergence(found).get_legend().get_texts()[0].get_text()
    result = da.compare(da.catalog.double_pendulum(), "rattle,midpoint", t_end=0.1, step=0.01, compile=False)
    assert len(plotting.comparison(result).axes) == 3
    with pytest.raises(da.MethodError, match="nothing to compare"):
        plotting.comparison([])


def test_axes_of_the_plane_do_not_take_a_picture_in_space():
    run = da.simulate(da.catalog.spherical_pendulum(), "rattle", t_end=0.1, step=0.01)
    with pytest.raises(da.MethodError, match="three-dimensional axes"):
        plotting.motion(run, ax=plt.subplots()[1])
