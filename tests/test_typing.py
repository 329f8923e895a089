"""What a type checker says of programs that use the library: mistakes are found, correct programs pass."""

from pathlib import Path

import pytest
from mypy import api

CORRECT = """
import matplotlib.pyplot as plt
import numpy as np

import dalembert as da

s = da.Mechanical(2, mass=1.0, potential=lambda q: q[0] ** 2, holonomic=lambda q: q[0] ** 2 + q[1] ** 2 - 1)
sol = da.simulate(s, "rattle", q=[1.0, 0.0], v=[0.0, 0.0], t_end=1.0, step=0.1)
energy: float = float(np.abs(sol.energy).max())
result = da.compare(s, ["rattle", da.methods.Rattle()], t_end=1.0, step=0.1, q=[1.0, 0.0])
print(result.table("latex"), result.plot().axes)
orders = da.convergence(s, "rattle", t_end=1.0, steps=(10, 20), q=[1.0, 0.0])
orders.plot(plt.figure().add_subplot()).set_title("orders")
da.plotting.motion(sol, orders.plot())
names: list[str] = [row.name for row in da.list_methods()]
pendulum: da.Mechanical = da.catalog.simple_pendulum()
motor: da.PortHamiltonian = da.catalog.dc_motor(R=0.3)
t, x = da.LinearDAE(np.eye(2), -np.eye(2)).solve([1.0, 0.0], 1.0, 0.1, save_every=2)
try:
    da.diagnose(s, q=[1.0, 0.0])
except da.ConvergenceError as error:
    print(error.t, error.solution)
"""

HEAD = "import dalembert as da\n\ns = da.catalog.simple_pendulum()\n"
MISTAKES = {
    'da.compare("nonsense", ["rattle"], t_end=1.0, step=0.1)': "arg-type",
    'da.compare(s, ["rattle"], t_end=1.0, step=0.1, stepp=0.1)': "call-arg",
    'da.compare(s, ["rattle"], t_end=1.0)': "call-arg",
    'da.convergence(s, "rattle", t_end=1.0, compil=True)': "call-arg",
    'da.poincare(s, 4, 10, methd="rattle", step=0.1)': "call-arg",
    "da.diagnose(s, qq=[1.0, 0.0])": "call-arg",
    "da.LinearDAE([[1.0]], [[1.0]], tolerence=1e-8)": "call-arg",
    "da.LinearDAE([[1.0]], [[1.0]]).solve([0.0], 1.0, 0.1, save_evry=2)": "call-arg",
    'da.connect({"a": da.catalog.dc_motor()}, [], nam="x")': "call-arg",
    'da.connect({"a": s}, [])': "dict-item",
    'da.catalog.dc_motor(R="0.3")': "arg-type",
    "da.list_methods()[0].nme": "attr-defined",
    'da.plotting.energy("nonsense")': "arg-type",
    "da.Picture(link=((0, 1),))": "call-arg",
    'da.simulate(s, "rattle", t_end=1.0, step=0.1, stepp=0.1)': "call-arg",
    "da.Mechanical(2, mass=1.0, potentail=3)": "call-arg",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """The errors of mypy by line of one file with all probes, and its errors in the correct program."""
    folder = tmp_path_factory.mktemp("typing")
    probes = list(MISTAKES)
    (folder / "probes.py").write_text(HEAD + "\n".join(probes) + "\n")
    (folder / "correct.py").write_text(CORRECT)
    root = Path(__file__).parents[1]
    options = [
        f"--config-file={root / 'pyproject.toml'}",
        f"--cache-dir={root / '.mypy_cache'}",
        "--no-error-summary",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPYPATH", str(root / "src"))
        out, problem, _ = api.run([*options, str(folder / "probes.py"), str(folder / "correct.py")])
    assert not problem
    found: dict[str, list[str]] = {"correct": []}
    for line in out.splitlines():
        path, number, kind, message = line.split(":", 3)
        if "correct.py" in path:
            found["correct"].append(line)
        elif "probes.py" in path and kind.strip() == "error":
            found.setdefault(probes[int(number) - 1 - HEAD.count("\n")], []).append(message)
    return found


def test_a_correct_program_passes(checked):
    assert checked["correct"] == []


@pytest.mark.parametrize(("line", "code"), MISTAKES.items())
def test_a_mistake_is_found(checked, line, code):
    assert any(f"[{code}]" in message for message in checked.get(line, [])), checked.get(line)
