"""The README says what is true: its example prints what it shows, its table has every method."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import dalembert as da

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def block(mark, language):
    found = re.search(rf"<!-- {mark} -->\n```{language}\n(.*?)```", README, flags=re.S)
    assert found, mark
    return found.group(1)


def run(code, **more):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **more)


def test_the_example_prints_what_the_readme_shows(tmp_path):
    code = "import matplotlib; matplotlib.use('Agg')\n" + block("example", "python")
    assert len(block("example", "python").splitlines()) <= 15
    done = run(code, cwd=tmp_path)
    shown, printed = (
        [line for line in text.splitlines() if not line.startswith("  time")] for text in (block("output", "text"), done.stdout)
    )
    assert printed == shown
    assert done.stderr == ""


def test_the_four_bar_has_twelve_lines_and_keeps_its_balance():
    code = block("mechanism", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    names = {}
    exec(code, names)
    sol = names["sol"]
    assert np.abs(sol.power_balance).max() < 1e-12 * np.abs(sol.energy).max()
    assert np.abs(sol.residual("position")).max() < 1e-12
    assert np.isfinite(sol.joint("D").reaction.force).all()


def test_the_example_of_many_runs_runs():
    setup = re.sub(r"sol = .*", "", block("example", "python"), flags=re.S)
    code = re.search(r"## Many runs.*?```python\n(.*?)```", README, flags=re.S).group(1)
    names = {}
    exec(setup + code, names)
    data = names["data"]
    for member, g in enumerate((9.78, 9.81, 9.83)):
        alone = da.simulate(names["pendulum"], "rattle", q=[1.0, 0.0], t_end=1.0, step=0.001, parameters={"g": g}, compile=False)
        np.testing.assert_array_equal(data.q.sel(member=member), alone.q[-1])


def test_the_derivatives_example_runs():
    setup = re.sub(r"sol = .*", "", block("example", "python"), flags=re.S)
    code = re.search(r"## Derivatives.*?```python\n(.*?)```", README, flags=re.S).group(1)
    names = {}
    exec(setup + code, names)
    found, ends = names["run"], []
    for g in (9.81 - 1e-4, 9.81 + 1e-4):
        ends.append(
            da.simulate(names["pendulum"], "rattle", q=[1.0, 0.0], v=[0.0, 0.0], t_end=1.0, step=0.001, parameters={"g": g}).q[-1]
        )
    np.testing.assert_allclose(found.jacobian("q", "g"), (ends[1] - ends[0]) / 2e-4, atol=1e-7)
    assert abs(found.gradient(lambda q: (q[0] - 0.5) ** 2)["m"]) < 1e-12  # a pendulum swings as fast, whatever its mass


def test_the_example_in_a_file_runs(tmp_path):
    """As a script; the pages run all of them, see test_docs."""
    script = ROOT / "examples" / "double_pendulum.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout
    assert done.stderr == ""
    assert (tmp_path / "double_pendulum.png").stat().st_size > 50_000


def test_the_table_has_every_method_with_its_order():
    for method in da.list_methods():
        base, _, number = method.name.rpartition("-")
        if method.method.external or (method.index == 0 and not number.isdigit()):
            assert f"`{method.name}`" in README, method.name
        elif hasattr(method.method(), "base"):
            assert "| `composition` |" in README
        elif number.isdigit():
            assert f"`{base}-s`" in README, method.name
        else:
            order = ", ".join(map(str, method.order))
            assert f"| `{method.name}` | {order} |" in README, method.name


def test_import_is_quick_and_lazy():
    """No heavy library is loaded before it is needed (no clock here: what is loaded is what costs)."""
    loaded = run("import sys, dalembert; print(' '.join(sys.modules))").stdout.split()
    for heavy in ("scipy", "matplotlib", "xarray", "rich", "pandas", "netCDF4"):
        assert heavy not in loaded, heavy


def test_the_project_speaks_of_itself_alone():
    """No path of a machine in any file, tracked or not, whether there is a repository around it or none."""
    words = re.compile(r"/(work|root|home|farm|tmp)/[A-Za-z]")
    left = {".git", ".venv", "venv", "build", "dist", "_build", "gallery", "_generated", "__pycache__", ".hypothesis"}
    seen = 0
    for path in ROOT.rglob("*"):
        inside = path.relative_to(ROOT)
        if path.suffix in (".py", ".md", ".toml", ".cff", ".c") and path.is_file() and not left & set(inside.parts):
            seen += 1
            assert not words.search(path.read_text(encoding="utf-8")), inside
    assert seen > 150


def test_the_number_of_experiments():
    assert f"{len(da.experiments.REGISTER)} experiments of the literature" in README
