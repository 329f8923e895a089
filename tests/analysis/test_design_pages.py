"""The pages on linear equations, fitting, manoeuvres and FMUs run, and print what they say."""

import re
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def executed(tmp_path, monkeypatch, capsys):
    """Runs the code of a page in an empty folder: the names it leaves behind, what it printed, and what it says is printed."""
    monkeypatch.chdir(tmp_path)

    def run(page):
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        names = {"__name__": page}
        exec("\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.S)), names)
        return names, capsys.readouterr().out, re.findall(r"```text\n(.*?)```", text, flags=re.S)

    return run


def said(block, printed):
    """Whether every line of a block was printed, `...` standing for anything."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    for line in block.strip().splitlines():
        pattern = re.escape(" ".join(line.split())).replace(r"\.\.\.", ".*")
        assert any(re.fullmatch(pattern, one) for one in lines), line


def test_the_page_on_linear_equations(executed, tmp_path):
    names, printed, blocks = executed("linearise")
    for block in blocks:
        said(block, printed)
    assert np.abs(names["rest"].q - [0.0, -1.0, 0.0, -2.0]).max() < 1e-13
    M, m, l, g = 1.0, 0.2, 0.5, 9.81
    assert abs(np.abs(names["linear"].eigenvalues).max() - np.sqrt((M + m) * g / (M * l))) < 1e-12
    assert np.abs(names["linear"].C[1] @ [1.0, 1.0 + l, 0.0, 0.0] - 1.0) < 1e-13
    assert (tmp_path / "mode.gif").exists()


def test_the_page_on_fits(executed, tmp_path):
    names, printed, blocks = executed("fit")
    for block in blocks:
        said(block, printed)
    for found in (names["found"], names["pieces"]):
        for name, value in names["truth"].items():
            assert abs(found[name] - value) < 4 * found.errors[name]
        assert 0.9 < found.deviation < 1.1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_page_on_fmus(executed, tmp_path):
    pytest.importorskip("fmpy")
    names, printed, blocks = executed("fmu")
    said(blocks[0], printed)
    assert names["found"]["power_balance"].shape == (201,)
    assert (tmp_path / "double_pendulum_2.fmu").exists()


def test_the_page_on_manoeuvres(executed):
    names, printed, blocks = executed("manoeuvres")
    said(blocks[0], printed)
    assert np.abs(names["swing"].solution.q[:, 0]).max() < 0.8 + 1e-6
    assert np.abs(names["up"].solution.q[-1] - [0.0, 0.0, 0.5]).max() < 1e-11
