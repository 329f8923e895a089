"""A notebook in a real kernel: every figure appears once, also those of the user, and results show themselves."""

import os

import pytest

import dalembert as da

CELLS = {
    "import": "import dalembert as da",
    "first": "sol = da.simulate(da.catalog.harmonic_oscillator(), 'rattle', t_end=1, step=0.1)\nsol.plot()",
    "own": "import matplotlib.pyplot as plt\nplt.plot([1, 2])",
    "kept": "figure = sol.plot()\nfigure.suptitle('mine')",
    "printed": "sol.plot(); print(sol)",
    "again": "figure",
    "shown": "sol.plot()\nplt.show()",
    "axes": "da.plotting.energy(sol)",
    "style": "assert plt.rcParams['axes.spines.top']\nplt.plot([2, 1]);",
    "solution": "sol",
    "system": "sol.system",
    "diagnosis": "da.diagnose(sol.system)",
    "comparison": "runs = da.compare(sol.system, 'rattle,midpoint', t_end=0.1, step=0.01, compile=False)\nruns",
    "compared": "runs.plot()",
    "convergence": "da.convergence(sol.system, 'rattle', t_end=0.1, compile=False)",
    "table": "da.list_systems()",
    "equations": "sol.system.equations()",
    "player": "sol.animate()",
    "film": "sol.animate('run.gif', fps=4, size=(120, 120))",
    "report": "sol.report('run.html')",
    "slider": "da.slider(sol, sol)",
}
FIGURES = ("first", "own", "kept", "printed", "again", "shown", "axes", "style", "compared")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What each cell shows, as `{mime type: data}`, errors included."""
    import nbformat
    from nbclient import NotebookClient

    cells = [nbformat.v4.new_code_cell(code) for code in CELLS.values()]
    book = nbformat.v4.new_notebook(cells=cells)
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    env = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}  # that of notebooks
    NotebookClient(book, timeout=300, kernel_name="python3", resources=place).execute(env=env)
    return {name: [o.get("data", {}) for o in cell.outputs] for name, cell in zip(CELLS, book.cells, strict=True)}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_appears_once(outputs, name):
    assert sum("image/png" in data for data in outputs[name]) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("solution", "energy error"), ("system", "parameter m"), ("diagnosis", "degrees of freedom"),
        ("comparison", "midpoint"), ("convergence", "error of q"), ("table", "harmonic"), ("film", "data:image/gif;base64,"),
        ("report", 'iframe src="run.html"'), ("player", "srcdoc"), ("slider", "DecompressionStream"),
    ],
)  # fmt: skip
def test_results_show_themselves(outputs, name, words):
    assert words in outputs[name][-1]["text/html"]
    if name in ("comparison", "convergence", "diagnosis"):
        assert words in outputs[name][-1]["text/plain"]  # in a terminal too, not the fields of a class


def test_equations_are_formulas_with_the_names_of_the_parameters(outputs):
    (data,) = outputs["equations"]
    assert data["text/latex"].startswith("$")
    assert r"\ddot q" in data["text/latex"]
    assert "par_" not in data["text/latex"] + data["text/plain"]
    assert data["text/plain"] == "M = [[m]]\nC = [[0]]\ngravity = [[k*x]]"


def test_markup_is_escaped():
    system = da.Mechanical(("<b>",), mass=1.0, name="<i>$x$", initial={"q": [1.0], "v": [0.0]})
    sol = da.simulate(system, "rattle", t_end=0.1, step=0.01)
    for thing in (system, sol, da.diagnose(system)):
        text = thing._repr_html_()
        assert "<b>" not in text
        assert "<i>" not in text
        assert "$" not in text
