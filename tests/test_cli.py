"""The command line as a newcomer uses it: what it prints, what it writes, and what it says when something is wrong."""

import html
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

import dalembert as da
from dalembert.cli import app
from dalembert.reporting import page


def run(*arguments, cwd=".", code=0, missing=(), **environment):
    """A command in this process, in a directory and with variables of its own, and without the packages that are `missing`.

    What model files add to the path and to the modules is taken away again: each call is that of a fresh process.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        patch.setattr(sys, "path", [*sys.path])
        for name in missing:
            patch.setitem(sys.modules, name, None)
        done = CliRunner().invoke(app, [*arguments], prog_name="dalembert", env=environment)
        here = os.getcwd() + os.sep
    for name, module in list(sys.modules.items()):
        if cwd != "." and str(getattr(module, "__file__", None)).startswith(here):
            del sys.modules[name]
    plt.close("all")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def test_lists():
    assert "double-pendulum" in run("list", "systems").stdout
    assert "energy-momentum-ggl" in run("list", "methods").stdout
    everything = run("list").stdout
    assert "four-particles" in everything
    assert "rattle" in everything
    assert "mbs-11" in everything
    assert "mbs-11" in json.loads(run("list", "experiments", "--json").stdout)
    assert run("list", "methods", "--format", "markdown").stdout.startswith("| name")
    assert "did you mean 'methods'" in run("list", "method", code=2).stderr


def test_simulate_writes_everything(tmp_path):
    done = run(
        "simulate", "double-pendulum", "--method", "rattle", "--t-end", "1", "--step", "0.01", "-p", "m1=2.0",
        "--output", "run.nc", "--report", "run.html", "--figure", "run.png", "--animation", "run.gif", "--open", cwd=tmp_path,
        DISPLAY="", WAYLAND_DISPLAY="",
    )  # fmt: skip
    assert "double pendulum by rattle" in done.stdout
    assert "open run.html in a browser" in done.stdout
    sol = da.load(tmp_path / "run.nc")
    assert float(sol.parameters["m1"]) == 2.0
    assert (tmp_path / "run.html").stat().st_size > 1_000_000
    assert (tmp_path / "run.png").stat().st_size > 20_000
    assert (tmp_path / "run.gif").stat().st_size > 20_000


def test_simulate_prints_numbers_or_nothing():
    numbers = json.loads(run("simulate", "rolling-disk", "--t-end", "1", "--json").stdout)
    assert numbers["method"] == "spark-2"
    assert numbers["velocity"] < 1e-13
    assert run("simulate", "dc-motor", "--t-end", "0.1", "--u", "1.0,0.0", "--quiet").stdout == ""


def test_values_of_the_command_line_reach_the_run(tmp_path):
    call = ["simulate", "simple-pendulum", "--t-end", "0.5", "-i", "q=0.6,-0.8", "-i", "v=0,0", "--t0", "0.25"]
    run(*call, "--output", "a.nc", cwd=tmp_path)
    sol = da.load(tmp_path / "a.nc")
    assert sol.q[0].tolist() == [0.6, -0.8]
    assert sol.t[0] == 0.25
    assert "name=number" in run("simulate", "simple-pendulum", "-p", "m=two", code=2).stderr
    assert "--u takes numbers" in run("simulate", "dc-motor", "--u", "one", code=2).stderr
    assert "violates constraint 1 of 1" in run("simulate", "simple-pendulum", "-i", "q=2,0", "-i", "v=0,0", code=2).stderr


MODEL = """import numpy as np
import dalembert as da


def pendulum():
    return da.Mechanical(1, mass=1.0, potential=lambda q: -9.81 * np.cos(q[0]), initial={"q": [1.0], "v": [0.0]})


def broken():
    return 1 / 0


def energy(q):
    return np.cos(q[7])


def traced():
    return da.Mechanical(1, mass=1.0, potential=energy)


def skew():
    return da.Mechanical(2, mass=[[1.0, 0.5], [0.0, 1.0]])


number = 3
"""


def test_models_in_files(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    assert "by rattle" in run("simulate", "model.py:pendulum", "--t-end", "1", cwd=tmp_path).stdout
    said = run("simulate", "model.py:broken", cwd=tmp_path, code=2).stderr
    assert "ZeroDivisionError" in said
    assert "model.py, line 10: return 1 / 0" in said
    assert "is a int, not a system" in run("simulate", "model.py:number", cwd=tmp_path, code=2).stderr
    assert "did you mean 'pendulum'" in run("simulate", "model.py:pendulm", cwd=tmp_path, code=2).stderr
    assert "there is no file" in run("simulate", "nothing.py:x", cwd=tmp_path, code=2).stderr
    assert "model.py:name" in run("simulate", "model.py", cwd=tmp_path, code=2).stderr


def test_a_model_that_fails_shows_the_line_of_its_own(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    said = run("diagnose", "model.py:traced", cwd=tmp_path, code=2).stderr
    assert "model.py, line 14: return np.cos(q[7])" in said
    assert "model.py, line 18" in said
    assert "tracing.py" not in said
    said = run("diagnose", "model.py:skew", cwd=tmp_path, code=2).stderr
    assert "mass is not symmetric" in said
    assert "model.py, line 22" in said
    (tmp_path / "bad.py").write_text("import dalembert as da\n\ndef f(:\n    pass\n")
    assert "bad.py, line 3: def f(:" in run("diagnose", "bad.py:f", cwd=tmp_path, code=2).stderr
    (tmp_path / "parts.py").write_text("mass = 2.0\n")
    (tmp_path / "whole.py").write_text(
        "import dalembert as da\nfrom parts import mass\nsystem = da.Mechanical(1, mass=mass, initial={'q': [1.0], 'v': [0.0]})\n"
    )
    assert "index" in run("diagnose", f"{tmp_path}/whole.py:system", cwd=tmp_path).stdout


def test_studies_in_toml(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        'system = "double-pendulum"\nmethod = "rattle"\nt_end = 1.0\nstep = 0.01\noutput = "run.nc"\n'
        "[parameters]\nm1 = 2.0\n[initial]\nq = [0.6, -0.8, 1.6, -0.8]\nv = [0, 0, 0, 0]\n"
    )
    assert "wrote" in run("run", str(study)).stdout
    sol = da.load(tmp_path / "run.nc")
    assert sol.q[0].tolist() == [0.6, -0.8, 1.6, -0.8]
    assert json.loads(run("run", str(study), "--json").stdout)["method"] == "rattle"


HEAD = 'system = "double-pendulum"\nt_end = 1\nstep = 0.1\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('system = "double-pendulum"\nt_end = 1\nstep = "x"\n', "line 3: step must be a number, not 'x'"),
        ('system = "double-pendulum"\nt_end = true\nstep = 1\n', "line 2: t_end must be a number"),
        ('system = "double-pendulum"\nstepp = 1\n', "line 2: there is no field 'stepp'; did you mean 'step'"),
        ('system = "double-pendulum"\nt_end = 1\n', "the field 'step' is missing"),
        ("system = \n", "line 1"),
        (
            '# a comment\nsystem = "duble-pendulum"\nt_end = 1\nstep = 1\n',
            "line 2: there is no system 'duble-pendulum' in the catalog; did you mean",
        ),
        (HEAD + 'method = "ratle"\n', "line 4: there is no method 'ratle'; did you mean 'rattle'"),
        (HEAD + 'method = "mclachlan-perlmutter"\n[initial]\nq = "x"\n', "line 6: initial.q must be a number or a list"),
        (HEAD + '[parameters]\nm1 = "two"\n', "line 5: parameters.m1 must be a number"),
        (HEAD + "[parameters]\nm3 = 2\n", "line 5: double pendulum has no parameter 'm3'; did you mean 'm2'"),
        (HEAD + "[initial]\nposition = [1]\n", "line 5: initial values are called q, v"),
        (HEAD + "parameters = 3\n", "line 4: parameters must be a table"),
        (HEAD + "u = \"__import__('os')\"\n", "line 4: u must be a number or a list"),
    ],
)
def test_a_broken_study_names_line_and_field(text, message, tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(text)
    assert message in " ".join(run("run", str(study), code=2).stderr.split())


def test_compare(tmp_path):
    call = ["compare", "double-pendulum", "--methods", "rattle,energy-momentum", "--t-end", "0.2"]
    done = run(*call, cwd=tmp_path)
    assert "| energy-momentum |" in done.stdout
    assert "against murua-5" in done.stderr
    assert (tmp_path / "double-pendulum-comparison.png").stat().st_size > 10_000
    assert r"\toprule" in run(*call, "--no-figure", "--format", "latex", cwd=tmp_path).stdout
    rows = json.loads(run("compare", "double-pendulum", "--methods", "rattle,murua-2", "--t-end", "0.2", "--json").stdout)
    assert [r["method"] for r in rows] == ["rattle", "murua-2"]
    assert rows[0]["error"] > rows[1]["error"]
    said = run("compare", "double-pendulum", "--methods", "rattle,ratle", code=2).stderr
    assert "did you mean 'rattle'" in said


def test_order_diagnose_bench_cite(tmp_path):
    done = run("order", "double-pendulum", "--method", "murua-2", "--figure", "o.png", cwd=tmp_path)
    assert "order 4.0" in done.stdout
    assert "in lam" in done.stdout
    assert (tmp_path / "o.png").stat().st_size > 10_000
    numbers = json.loads(run("order", "harmonic-oscillator", "--method", "rattle", "--json").stdout)
    assert abs(numbers["orders"]["q"] - 2) < 0.1
    assert "index                 2" in run("diagnose", "rolling-disk").stdout
    assert json.loads(run("diagnose", "rolling-disk", "--json").stdout)["index"] == 2
    assert "@software{dalembert" in run("cite").stdout
    assert run("cite", "rattle").stdout == da.cite("rattle") + "\n"
    assert run("--version").stdout == f"dalembert {da.__version__}\n"
    assert "did you mean 'double-pendulum'" in run("diagnose", "duble-pendulum", code=2).stderr
    assert "there is no method" in run("simulate", "double-pendulum", "--method", "ratle", code=2).stderr
    assert "whole numbers" in run("order", "double-pendulum", "--method", "rattle", "--steps", "a,b", code=2).stderr


def test_reproduce_writes_pages(tmp_path):
    done = run("reproduce", "nh-3.4", "--quick", "--output", "pages", cwd=tmp_path)
    assert "reproduced in" in done.stdout
    index = (tmp_path / "pages" / "index.html").read_text()
    assert "1 of 1 hold." in index
    assert (tmp_path / "pages" / "nh-3.4.png").stat().st_size > 5000
    assert "no experiment" in run("reproduce", "nh-99", code=2).stderr
    (tmp_path / "file").write_text("")
    assert "give a directory" in run("reproduce", "nh-3.4", "--quick", "--output", "file", cwd=tmp_path, code=2).stderr


def test_a_claim_that_fails_ends_with_a_code(tmp_path):
    from dalembert.experiments.base import experiment

    with mock.patch.dict(da.experiments.REGISTER):

        @experiment("x-1", "a title", "a source")
        def first(result, quick):
            result.below("a number", 3.0, 2.0)

        @experiment("x-2", "another", "a source")
        def second(result, quick):
            raise da.ModelError("it broke")

        for count, (id, words) in enumerate((("x-1", "FAILS"), ("x-2", "it broke")), 1):
            assert words in run("reproduce", id, cwd=tmp_path, code=1).stdout
            assert f"0 of {count} hold." in (tmp_path / "reproduced" / "index.html").read_text()  # the index is kept


@pytest.mark.parametrize(
    "call",
    [
        ["simulate", "simple-pendulum", "-i", "progress=1"],
        ["compare", "simple-pendulum", "--methods", "rattle", "-i", "t_end=1"],
        ["order", "simple-pendulum", "--method", "rattle", "-i", "steps=1"], ["diagnose", "simple-pendulum", "-i", "foo=1"],
        ["simulate", "simple-pendulum", "--output", "x" * 300 + ".nc"], ["simulate", "simple-pendulum", "--report", "a.txt"],
        ["compare", "simple-pendulum", "--methods", "rattle", "--figure", "a.xyz"],
        ["order", "simple-pendulum", "--method", "rattle", "--figure", "a.xyz"], ["simulate", "x" * 5000 + ".py:x"],
        ["simulate", "simple-pendulum", "--output", "/dev/null"],
        ["compare", "simple-pendulum", "--methods", "rattle", "--format", "x"],
        ["simulate", "simple-pendulum", "--method", "rattle", "--t-end", "9e8", "--step", "1"], ["list", "--format", "word"],
    ],
    ids=lambda call: " ".join(call)[:60],
)  # fmt: skip
def test_mistakes_are_told_before_anything_runs(call, tmp_path):
    done = run(*call, cwd=tmp_path, code=2)
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_consistent_values_from_the_shell(tmp_path):
    call = ["simulate", "simple-pendulum", "-i", "q=1.1,0.2", "-i", "v=0,1", "--t-end", "0.1"]
    assert "violates" in run(*call, code=2).stderr
    assert "position constraints" in run(*call, "--consistent").stdout
    study = tmp_path / "a.toml"
    study.write_text(
        'system = "simple-pendulum"\nt_end = 0.1\nstep = 0.01\nconsistent = true\n[initial]\nq = [1.1, 0.2]\nv = [0, 1]\n'
    )
    assert "position constraints" in run("run", str(study)).stdout


def test_what_belongs_to_other_files_of_the_user(tmp_path):
    (tmp_path / "helper_bad.py").write_text("a = 1\n\n\n\n\ndef f(:\n")
    (tmp_path / "imp.py").write_text("import dalembert as da\n\nimport helper_bad\n")
    said = run("diagnose", "imp.py:x", cwd=tmp_path, code=2).stderr
    assert "imp.py, line 3: import helper_bad" in said
    assert "helper_bad.py, line 6: def f(:" in said
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    assert "leaves.py, line 2: sys.exit(3)" in run("diagnose", "leaves.py:x", cwd=tmp_path, code=2).stderr


def test_help_shows_brackets():
    assert "[parameters]" in run("run", "--help", COLUMNS="200").stdout


def test_a_missing_package_is_named(tmp_path):
    done = run("reproduce", "dae-lagrange", "--quick", cwd=tmp_path, code=1, missing=["sympy"])
    assert "not run (an equation in symbols needs SymPy: pip install 'dalembert[sympy]')" in done.stdout
    assert "not run" in (tmp_path / "reproduced" / "index.html").read_text()


def test_a_file_that_cannot_be_written_does_not_cost_the_others(tmp_path):
    page._plotly.cache_clear()  # another test of this process may have loaded it
    call = ["simulate", "simple-pendulum", "--t-end", "0.1", "--report", "a.html", "--figure", "a.png"]
    assert "needs plotly" in run(*call, cwd=tmp_path, code=1, missing=["plotly.offline"]).stderr
    assert (tmp_path / "a.png").exists()


def test_an_interrupted_run_keeps_what_it_has(tmp_path):
    """Ctrl-C in a process of its own, once its progress bar is seen in the terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    call = ["simulate", "four-particles", "--method", "energy-momentum", "--t-end", "1e6", "--save-every", "1000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dalembert", *call, "--output", "run.nc"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs,
        text=True, env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    with open(ours, "rb", buffering=0) as terminal:
        while b"simulating" not in shown:  # a process that ends without a word is an error of `read`
            shown += terminal.read(4096)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
        shown += terminal.read(4096)
    assert process.returncode == 130, shown
    assert "up to t = " in said
    assert b"Traceback" not in shown
    sol = da.load(tmp_path / "run.nc")
    assert 0 < sol.t[-1] < 1e6
    assert np.isfinite(sol.q).all()


def test_the_entry_points_are_the_command_line():
    script = os.path.join(os.path.dirname(sys.executable), "dalembert")
    for call in ([script], [sys.executable, "-m", "dalembert"]):
        done = subprocess.run([*call, "list", "methodz"], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "did you mean 'methods'" in done.stderr
        assert done.stdout == ""


def test_a_run_that_fails_keeps_what_it_has(tmp_path):
    (tmp_path / "model.py").write_text(
        "import numpy as np\nimport dalembert as da\n"
        "falling = da.Mechanical(('y',), mass=1.0, potential=lambda q: np.log(q[0]), initial={'q': [1.0], 'v': [0.0]})\n"
    )
    done = run("simulate", "model.py:falling", "--method", "midpoint", "--t-end", "9", "--output", "a.nc", cwd=tmp_path, code=1)
    assert "up to t = " in done.stdout
    assert da.load(tmp_path / "a.nc").q[-1, 0] < 0.2


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("dalembert simulate doub", "double-pendulum"),
        ("dalembert simulate double-pendulum --method ratt", "rattle"),
        ("dalembert compare double-pendulum --methods rattle,murua-g", "rattle,murua-ggl-3"),
        ("dalembert reproduce mbs-1", "mbs-11"),
    ],
)
def test_completion(words, wanted):
    done = run(_DALEMBERT_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
    assert wanted in done.stdout.split()


@pytest.mark.parametrize("id", list(da.experiments.REGISTER))
def test_every_result_has_a_page(id, tmp_path):
    from dalembert.experiments.base import Result
    from dalembert.experiments.pages import Pages

    entry = da.experiments.find(id)
    result = Result(entry.id, entry.title, entry.source, True)
    result.below("a number", 1.0, 2.0)
    result.data["series"] = {"t": [0.0, 1.0, 2.0], "energy": [1.0, 1.5, 1.2]}
    page = Pages(tmp_path).add(result)
    assert html.escape(entry.title) in page.read_text()


def test_numbers_are_valid_json_and_names_do_not_collide(tmp_path):
    def strict(text):
        return json.loads(text, parse_constant=lambda name: pytest.fail(name))

    strict(run("diagnose", "simple-pendulum", "--initial", "q=0,0", "--json").stdout)
    numbers = strict(run("simulate", "simple-pendulum", "--method", "rattle", "--t-end", "1", "--json").stdout)
    assert numbers["energy_scale"] > 100 * numbers["energy_error"]
    call = ["simulate", "simple-pendulum", "--t-end", "0.1", "--output", "x.nc", "--checkpoint", "x.nc"]
    assert "the same name" in run(*call, cwd=tmp_path, code=2).stderr
    study = tmp_path / "a.toml"
    study.write_text('system = "simple-pendulum"\nmethod = "lobatto-pair-3"\nt_end = 100\nstep = 5\n')
    run("run", str(study), code=1)
    study.write_text('system = "simple-pendulum"\nmethod = "rattle"\nt_end = 1\nstep = 0.1\nadaptive = "backof"\n')
    assert "line 5" in run("run", str(study), code=2).stderr
    study.write_text('# a\u2028b\nsystem = "simple-pendulum"\nt_end = 1\nstep = "x"\n')
    assert "line 4" in run("run", str(study), code=2).stderr


def test_robots_by_their_files():
    arm = Path(__file__).parent / "mechanisms" / "data" / "arm.urdf"
    said = run("simulate", str(arm), "--method", "rattle", "--t-end", "0.01", "--step", "0.001").output
    assert "degrees of freedom    6" in said
    assert "none.urdf cannot be read" in run("simulate", "none.urdf", "--t-end", "1", "--step", "0.1", code=2).output
