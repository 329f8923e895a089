"""The documentation builds offline, every warning is an error, and what the pages say and show is true."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, built from a copy: the gallery is written beside its sources."""
    top = tmp_path_factory.mktemp("docs")
    left = shutil.ignore_patterns("_build", "_generated", "gallery", "*.png.md5", "__pycache__")
    shutil.copytree(DOCS, top / "docs", ignore=left)
    shutil.copytree(ROOT / "examples", top / "examples", ignore=shutil.ignore_patterns("*.png", "*.gif", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(top / "docs"), str(top / "site")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return top / "site"


def test_pages_ask_for_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        if page.name == "double_pendulum.html" and page.parent == site:
            continue  # the report: its own test drives it in a browser
        assert not re.search(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="https?://', page.read_text()), page


def test_pages_have_api_formulas_report_and_gallery(site):
    assert "PortHamiltonian" in (site / "api.html").read_text()
    theory = (site / "theory.html").read_text()
    assert theory.count("<math") > 40
    assert "$" not in re.sub(r"<[^>]*>", "", theory)
    assert (site / "double_pendulum.html").stat().st_size > 1_000_000
    for example in (ROOT / "examples").glob("*.py"):
        page = (site / "gallery" / f"{example.stem}.html").read_text()
        assert "sphx-glr-script-out" in page or "sphx-glr-single-img" in page, example


@pytest.mark.parametrize("page", ["getting_started", "guide", "nonholonomic", "port_hamiltonian"])
def test_code_of_the_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), flags=re.S))
    exec(code, {"__name__": page})


def test_tables_are_as_the_library_writes_them():
    written = runpy.run_path(str(DOCS / "tables.py"))
    assert written["methods"]() == (DOCS / "methods.md").read_text(), "run python docs/tables.py"
    shown = (DOCS / "choosing.md").read_text()
    rows = [line.split("|")[1].strip() for line in written["comparison"]().splitlines()[2:]]
    assert all(f"| {row}" in shown for row in rows)
