"""The documentation builds offline, and every warning is an error."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def test_pages_build_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "-d", str(tmp_path / "t"), str(DOCS), str(tmp_path / "site")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "site" / "api.html").read_text()
    assert "PortHamiltonian" in text
    assert not re.search(r'(src|href)="https?://[^"]*\.(js|css)"', text)


@pytest.mark.parametrize("page", ["nonholonomic", "port_hamiltonian"])
def test_code_of_the_pages_runs(page):
    code = "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), flags=re.S))
    exec(code, {"__name__": page})
