"""A module imports only from its own layer and those below it, inside functions too."""

import ast
from pathlib import Path

import pytest

import dalembert

ROOT = Path(dalembert.__file__).parent
LAYERS = (
    ("_version", "checking", "errors", "hooks", "locks", "markup", "named", "tables"),
    ("systems",),
    ("discrete",),
    ("methods",),
    ("engine",),
    ("checkpoint", "course", "defaults", "keeper", "relay", "sensitivities", "simulation", "solution", "store"),
    ("analysis", "ensembles", "mechanisms", "reduced"),
    ("plotting",),
    ("citing", "reporting"),
    ("catalog", "experiments", "fmu"),
    ("cli", "__init__", "__main__"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.rglob("*.py"))


def imports(path):
    """Modules of the package that a file imports when it runs, as `(line, name)`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    skipped = {inner for node in typing for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "dalembert":
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dalembert."):
            yield node.lineno, node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            yield from ((node.lineno, name[1] if len(name) > 1 else "__init__") for name in names if name[0] == "dalembert")


@pytest.mark.parametrize("module", MODULES)
def test_no_import_points_up(module):
    own = LEVEL[module.split("/")[0]]
    up = [(line, name) for line, name in imports(ROOT / f"{module}.py") if LEVEL.get(name, len(LAYERS)) > own]
    assert not up


def test_the_check_sees_an_import_inside_a_function(tmp_path):
    path = tmp_path / "probe.py"
    path.write_text(
        "def f():\n    from dalembert.cli import app\n    import dalembert as da\n    from dalembert import plotting\n"
    )
    assert list(imports(path)) == [(2, "cli"), (3, "__init__"), (4, "plotting")]
