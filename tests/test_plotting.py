"""Figures: what they draw, in which style, and how axes are labelled."""

import os
import subprocess
import sys

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dalembert as da
from dalembert import plotting


@pytest.fixture(scope="module")
def sol():
    return da.simulate(da.catalog.double_pendulum(), "rattle", q=[0, -1, 0, -2], v=[1, 0, 2, 0], t_end=1.0, step=0.01)


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
    assert all(text.get_window_extent().width > 3 for text in figure.texts)
    assert len(figure.texts) == maker().n


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
    ax = plotting.phase(run)
    assert ax.get_xlabel() == plotting.symbol(name)
    ax.figure.savefig(tmp_path / "b.png")
    figure = run.plot(tmp_path / "a.png")
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == [plotting.symbol(name)]
    for file in ("a.png", "b.png"):
        assert (tmp_path / file).read_bytes()[:4] == b"\x89PNG"


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
    assert len(plotting.convergence([found, found]).lines) == len(found.errors)
    with pytest.raises(da.MethodError, match=r"what da.convergence\(\.\.\.\) returns"):
        plotting.convergence([1, 2])
    result = da.compare(da.catalog.double_pendulum(), "rattle,midpoint", t_end=0.1, step=0.01, compile=False)
    assert len(plotting.comparison(result).axes) == 3
    with pytest.raises(da.MethodError, match="nothing to compare"):
        plotting.comparison([])


def test_axes_of_the_plane_do_not_take_a_picture_in_space():
    run = da.simulate(da.catalog.spherical_pendulum(), "rattle", t_end=0.1, step=0.01)
    with pytest.raises(da.MethodError, match="three-dimensional axes"):
        plotting.motion(run, ax=plt.subplots()[1])


def curves(ax):
    """The lines of axes, with labels."""
    return {line.get_label(): (np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in ax.lines}


@pytest.fixture(scope="module")
def heavy():
    """A run with masses other than 1, inputs and dissipation; few rows, so that all of them are drawn."""
    system = da.Mechanical(
        2, mass=[2.0, 3.0], potential=lambda q: q[0] ** 2 + q[1] ** 4, dissipation=0.1, inputs=np.eye(2),
        initial={"q": [1.0, 0.5], "v": [0.0, 1.0]},
    )  # fmt: skip
    return da.simulate(system, "midpoint", t_end=2.0, step=0.02, u=lambda t: [np.sin(t), np.cos(t)])


def test_lines_are_the_numbers_of_the_run(sol, heavy):
    drawn = curves(plotting.energy(sol))
    for name, values in (("kinetic", sol.kinetic), ("potential", sol.potential), ("total", sol.energy)):
        np.testing.assert_array_equal(drawn[name], (sol.t, values))
    drawn = plotting.coordinates(sol).lines
    for i, line in enumerate(drawn):
        np.testing.assert_array_equal(line.get_ydata(), sol.q[:, i])
    assert len(drawn) == 4
    for i in (0, 1):
        line = plotting.phase(heavy, i).lines[0]
        np.testing.assert_array_equal(line.get_xdata(), heavy.q[:, i])
        np.testing.assert_array_equal(line.get_ydata(), heavy.v[:, i] * [2.0, 3.0][i])
        np.testing.assert_array_equal(plotting.inputs(heavy).lines[i].get_ydata(), heavy.u[:, i])
        np.testing.assert_array_equal(plotting.multipliers(sol).lines[i].get_data(), (sol.t_lam, sol.lam[:, i]))


def test_sizes_are_those_of_their_level(sol):
    levels = ("position", "velocity", "acceleration")
    lines = plotting.constraints(sol, levels=levels).lines
    for level, line in zip(levels, lines, strict=True):
        sizes = np.maximum(np.abs(sol.residual(level)).max(axis=1), 1e-17)
        if level != "acceleration":  # round-off: the largest of each two, no comb
            assert sizes.max() < 1e-11
            sizes = sizes[:100].reshape(-1, 2).max(axis=1)
        np.testing.assert_array_equal(line.get_ydata(), sizes)
    np.testing.assert_array_equal(
        plotting.energy_error(sol).lines[0].get_ydata(), np.maximum(np.abs(sol.energy[1:] - sol.energy[0]), 1e-17)
    )


def test_the_ledger_adds_up(heavy):
    drawn = curves(plotting.ledger(heavy))
    np.testing.assert_allclose(drawn["stored"][1], heavy.energy[1:] - heavy.energy[0], atol=1e-14)
    np.testing.assert_allclose(drawn["dissipated"][1], np.cumsum(heavy.dissipated), atol=1e-14)
    np.testing.assert_allclose(drawn["supplied"][1], np.cumsum(heavy.supplied), atol=1e-14)
    np.testing.assert_array_equal(drawn["stored"][0], heavy.t[1:])
    error = plotting.energy_error(heavy).lines[0].get_ydata()
    sums = np.maximum(np.abs(np.cumsum(heavy.power_balance)), 1e-17)
    np.testing.assert_array_equal(error, sums.reshape(-1, 2).max(axis=1) if sums.max() < 1e-11 else sums)


def test_runs_are_compared_each_with_its_own_numbers(sol):
    other = da.simulate(da.catalog.double_pendulum(), "midpoint", t_end=1.0, step=0.01)
    runs = [sol, other]
    energy, position, velocity = plotting.comparison(runs).axes
    for k, run in enumerate(runs):
        _, sizes = plotting.envelope(run.t[1:], run.energy[1:] - run.energy[0])
        np.testing.assert_array_equal(energy.lines[k].get_ydata(), sizes)
        for ax, level in ((position, "position"), (velocity, "velocity")):
            _, sizes = plotting.envelope(run.t, np.abs(run.residual(level)).max(axis=1))
            np.testing.assert_array_equal(ax.lines[k].get_ydata(), sizes)


def test_orders_and_work_are_drawn_as_given():
    h, e = np.array([0.1, 0.05, 0.025]), np.array([3e-2, 4e-3, 5e-4])
    line = plotting.convergence({"a": (h, e)}).lines[0]
    np.testing.assert_array_equal(line.get_data(), (h, e))
    slope = np.polyfit(np.log(h), np.log(e), 1)[0]
    assert f"a: {slope:.2f}" == plotting.convergence({"a": (h, e)}).get_legend().get_texts()[0].get_text()
    np.testing.assert_array_equal(plotting.work_precision({"a": (h, e)}).lines[0].get_data(), (h, e))


def test_curves_of_several_runs_are_told_apart(sol):
    """On given axes: by method; by the step too if methods agree; each kind of curve with its run."""
    again = [da.simulate(da.catalog.double_pendulum(), m, t_end=0.2, step=h) for m, h in (("midpoint", 0.01), ("midpoint", 0.02))]
    ax = plt.figure().add_subplot()
    for run in (sol, *again):
        plotting.energy_error(run, ax)
    told = [t.get_text() for t in ax.get_legend().get_texts()]
    assert told == ["rattle, h = 0.01", "midpoint, h = 0.01", "midpoint, h = 0.02"]
    ax = plt.figure().add_subplot()
    for run in (sol, again[0]):
        plotting.energy(run, ax)
    names = [line.get_label() for line in ax.lines]
    assert names == [f"{m}, {e}" for m in ("rattle", "midpoint") for e in ("kinetic", "potential", "total")]
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 6
    assert [line.get_label() for line in plotting.energy_error(sol).lines] == ["rattle"]
    assert plotting.energy_error(sol).get_legend() is None


def test_coordinates_of_one_unit_share_an_axes():
    run = da.simulate(da.catalog.rlc_ladder(), "discrete-gradient", t_end=0.2, step=0.01, u=[1.0])
    top, bottom, *_ = run.plot().axes
    assert (top.get_title(loc="left"), top.get_ylabel()) == ("voltages", "V")
    assert (bottom.get_title(loc="left"), bottom.get_ylabel()) == ("currents", "A")
    for ax, members in ((top, range(7)), (bottom, range(7, 11))):
        np.testing.assert_array_equal([line.get_ydata() for line in ax.lines], run.x[:, list(members)].T)
    machine = da.simulate(da.catalog.synchronous_machine(), "discrete-gradient", t_end=0.01, step=0.001)
    groups = plotting.coordinate_groups(machine)
    assert [(g.title, len(g.members)) for g in groups] == [("currents", 6), ("momenta", 1), ("angles", 1)]


def test_the_liveliest_of_many_coordinates_are_drawn():
    run = da.simulate(da.catalog.chain(8), "rattle", t_end=0.5, step=0.01)
    drawn = np.array([line.get_ydata() for line in plotting.coordinates(run).lines])
    moved = np.ptp(run.q, axis=0)
    np.testing.assert_array_equal(drawn, run.q.T[np.sort(np.argsort(-moved)[:8])])


def test_no_legend_lies_over_a_title():
    run = da.simulate(da.catalog.rlc_ladder(), "discrete-gradient", t_end=0.2, step=0.01, u=[1.0])
    figure = run.plot()
    figure.canvas.draw()
    for ax in figure.axes:
        if ax.get_legend() is not None:
            assert not ax.get_legend().get_window_extent().overlaps(ax._left_title.get_window_extent())


def test_peaks_survive_where_rows_are_many():
    from dalembert.plotting.canvas import envelope

    t = np.arange(5000.0)
    values = np.full(5000, 1e-9)
    values[[7, 1234, 4990]] = [-3.0, 2.0, -1.0]
    times, sizes = envelope(t, values)
    assert len(sizes) == 500
    np.testing.assert_array_equal(sizes[[0, 123, 499]], [3.0, 2.0, 1.0])
    np.testing.assert_array_equal(times[[0, 123, 499]], [0.0, 1230.0, 4990.0])
    assert (np.delete(sizes, [0, 123, 499]) == 1e-9).all()


def test_motion_and_sections_are_where_the_points_are(sol):
    ax = plotting.motion(sol)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), sol.q[:, 2])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), sol.q[:, 3])
    masses = ax.lines[-1].get_data()
    np.testing.assert_array_equal(masses, sol.q[-1].reshape(2, 2).T)
    section = da.poincare(da.catalog.harmonic_oscillator(), 10, 5, method="gauss-2", step=0.1, q=[1.0], v=[0.0])
    line = section.plot(("q", 0), ("v", 0)).lines[0]
    np.testing.assert_array_equal(line.get_data(), (section.q[:, 0], section.v[:, 0]))


SCREEN = """
import matplotlib.backends.backend_agg as agg
from matplotlib.backend_bases import FigureManagerBase


class FigureManager(FigureManagerBase):
    def show(self):
        print("window", self.num)

    @classmethod
    def pyplot_show(cls, *, block=None):
        print("wait" if block else "go on")


class FigureCanvas(agg.FigureCanvasAgg):
    manager_class = FigureManager

    def __init__(self, *given):
        super().__init__(*given)
        self.required_interactive_framework = "a screen"  # of the object: matplotlib looks for a real one by the class
"""
SCRIPT = """
import dalembert as da
sol = da.simulate(da.catalog.harmonic_oscillator(), "rattle", t_end=0.1, step=0.01)
sol.plot()
sol.plot("run.png")
sol.plot().suptitle("changed later")
print("end")
"""


def test_a_script_shows_windows_where_there_is_a_screen(tmp_path):
    """Without waiting, and at its end it waits once; with a file, or without a screen, there is no window."""
    (tmp_path / "screen.py").write_text(SCREEN)
    for backend, said in (("module://screen", "window 1\nwindow 3\nend\nwait\n"), ("Agg", "end\n")):
        run = [sys.executable, "-c", SCRIPT]
        env = {**os.environ, "MPLBACKEND": backend, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == (said, 0), done.stderr


def test_curves_on_shared_axes_all_lie_within_the_limits():
    """Limits that were widened for the first of them do not hide the second."""
    with plotting.style():
        _, (left, right) = plt.subplots(1, 2, sharey=True)
    t = np.linspace(0.1, 1.0, 50)
    for ax, size in ((left, 1e-15), (right, 1e-4)):
        plotting.magnitude(ax, t, size * t, "")
        plotting.finish(ax, "", "", "")
    low, high = right.get_ylim()
    assert low < 1e-15
    assert high > 1e-4


def test_many_rods_are_one_collection():
    n = 100
    picture = da.Picture(points=lambda q: np.stack([np.linspace(0.0, 1.0, n), q[0] * np.linspace(0.0, 1.0, n)], axis=1),
                         links=[(k, k + 1) for k in range(n - 1)], masses=range(n))  # fmt: skip
    system = da.Mechanical(("a",), mass=1.0, picture=picture)
    ax = plotting.motion(da.simulate(system, "rattle", q=[0.0], v=[1.0], t_end=0.1, step=0.1))
    faint, last = (c for c in ax.collections)
    np.testing.assert_allclose(last.get_segments()[-1][1], [1.0, 0.1])
    assert faint.get_alpha() < last.get_alpha()
    assert ax.lines[-1].get_markersize() < 5.5
