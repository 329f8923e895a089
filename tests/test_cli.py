"""The command line as a newcomer uses it: what it prints, what it writes, and what it says when something is wrong."""

import html
import json
import subprocess
import sys

import pytest

import dalembert as da


def run(*arguments, cwd=None, ok=True):
    done = subprocess.run([sys.executable, "-m", "dalembert", *arguments], capture_output=True, text=True, cwd=cwd, check=False)
    assert (done.returncode == 0) == ok, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_lists():
    assert "double-pendulum" in run("list").stdout
    assert "energy-momentum-ggl" in run("list", "methods").stdout
    assert "mbs-11" in json.loads(run("list", "experiments", "--json").stdout)
    assert "did you mean 'methods'" in run("list", "method", ok=False).stderr


def test_simulate_writes_everything(tmp_path):
    done = run(
        "simulate", "double-pendulum", "--method", "rattle", "--t-end", "1", "--step", "0.01", "-p", "m1=2.0",
        "--output", "run.nc", "--report", "run.html", "--figure", "run.png", cwd=tmp_path,
    )  # fmt: skip
    assert "double pendulum by rattle" in done.stdout
    sol = da.load(tmp_path / "run.nc")
    assert float(sol.parameters["m1"]) == 2.0
    assert (tmp_path / "run.html").stat().st_size > 1_000_000
    assert (tmp_path / "run.png").stat().st_size > 20_000
    numbers = json.loads(run("simulate", "rolling-disk", "--t-end", "1", "--json").stdout)
    assert numbers["method"] == "spark-2"
    assert numbers["velocity"] < 1e-13
    assert run("simulate", "dc-motor", "--t-end", "0.1", "--quiet").stdout == ""


def test_models_in_files(tmp_path):
    (tmp_path / "model.py").write_text(
        "import numpy as np\nimport dalembert as da\n\ndef pendulum():\n"
        "    return da.Mechanical(1, mass=1.0, potential=lambda q: -9.81 * np.cos(q[0]), initial={'q': [1.0], 'v': [0.0]})\n\n"
        "def broken():\n    return 1 / 0\n\nnumber = 3\n"
    )
    assert "by rattle" in run("simulate", "model.py:pendulum", "--t-end", "1", cwd=tmp_path).stdout
    said = run("simulate", "model.py:broken", cwd=tmp_path, ok=False).stderr
    assert "ZeroDivisionError" in said
    assert 'line 8: "return 1 / 0"' in said
    assert "is a int, not a system" in run("simulate", "model.py:number", cwd=tmp_path, ok=False).stderr
    assert "did you mean 'pendulum'" in run("simulate", "model.py:pendulm", cwd=tmp_path, ok=False).stderr
    assert "there is no file" in run("simulate", "nothing.py:x", cwd=tmp_path, ok=False).stderr


def test_studies_in_toml(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        'system = "double-pendulum"\nmethod = "rattle"\nt_end = 1.0\nstep = 0.01\noutput = "run.nc"\n[parameters]\nm1 = 2.0\n'
    )
    assert "wrote" in run("run", str(study)).stdout
    assert (tmp_path / "run.nc").exists()
    for text, message in (
        ('system = "double-pendulum"\nt_end = 1\nstep = "x"\n', "line 3: step must be int or float"),
        ('system = "double-pendulum"\nstepp = 1\n', "line 2: there is no field 'stepp'; did you mean 'step'"),
        ('system = "double-pendulum"\nt_end = 1\n', "the field 'step' is missing"),
        ("system = \n", "line 1"),
        (
            'system = "double-pendulum"\nt_end = 1\nstep = 0.1\n[parameters]\nm1 = "two"\n',
            "line 5: parameters.m1 must be a number",
        ),
    ):
        study.write_text(text)
        assert message in " ".join(run("run", str(study), ok=False).stderr.split())


def test_compare_order_diagnose_cite(tmp_path):
    done = run(
        "compare", "double-pendulum", "--methods", "rattle,energy-momentum", "--t-end", "1", "--figure", "c.png", cwd=tmp_path
    )
    assert "energy error" in done.stdout
    assert (tmp_path / "c.png").stat().st_size > 10_000
    rows = json.loads(run("compare", "double-pendulum", "--methods", "rattle,murua-2", "--t-end", "0.2", "--json").stdout)
    assert [r["method"] for r in rows] == ["rattle", "murua-2"]
    assert "order 4.0" in run("order", "double-pendulum", "--method", "murua-2").stdout
    assert "index                 2" in run("diagnose", "rolling-disk").stdout
    assert "dalembert" in run("cite").stdout
    assert "did you mean 'double-pendulum'" in run("diagnose", "duble-pendulum", ok=False).stderr
    assert "there is no method" in run("simulate", "double-pendulum", "--method", "ratle", ok=False).stderr


def test_reproduce_writes_pages(tmp_path):
    done = run("reproduce", "nh-3.4", "--quick", "--output", "pages", cwd=tmp_path)
    assert "reproduced in" in done.stdout
    index = (tmp_path / "pages" / "index.html").read_text()
    assert "1 of 1 reproduced" in index
    assert (tmp_path / "pages" / "nh-3.4.png").stat().st_size > 5000
    assert "no experiment" in run("reproduce", "nh-99", ok=False).stderr


@pytest.mark.parametrize("id", list(da.experiments.REGISTER))
def test_every_result_has_a_page(id, tmp_path):
    from dalembert.experiments.base import Result
    from dalembert.experiments.gallery import write

    entry = da.experiments.find(id)
    result = Result(entry.id, entry.title, entry.source, True)
    result.below("a number", 1.0, 2.0)
    result.data["series"] = {"t": [0.0, 1.0, 2.0], "energy": [1.0, 1.5, 1.2]}
    page = write([result], tmp_path)
    assert html.escape(entry.title) in page.read_text()
