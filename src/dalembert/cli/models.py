"""Names, values and files given on the command line; the user's own line if a model fails."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeGuard, cast

import dalembert as da
from dalembert.errors import DalembertError, suggest
from dalembert.tables import VALUES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dalembert.analysis.diagnosis import Diagnosis
    from dalembert.analysis.trials import Options
    from dalembert.systems import System

FILES = ("output", "report", "figure", "animation")
MECHANISMS = (".urdf", ".mjcf", ".xml", ".toml")
KEPT = ("checkpoint", "store")  # what a run goes on from


class UserError(Exception):
    """A usage error."""


@dataclass
class Job:
    """A run that was asked for; without a method, the recommended one is taken."""

    system: System
    method: str
    t_end: float
    step: float
    options: Options
    files: dict[str, Path]
    checkpoint: Path | None = None
    consistent: bool = False
    store: Path | None = None


def system(name: str) -> System:
    """The system of a catalog name, of a robot's file (URDF, MJCF, TOML), or of `file.py:name`.

    There `name` is a system or a function that returns one.
    """
    if name.lower().endswith(MECHANISMS):
        return da.read_mechanism(name).assemble(coordinates="joint")
    path, _, attribute = name.rpartition(":")
    if not path:
        if name.endswith(".py"):
            raise UserError(f"which system of {name}? Write {name}:name")
        return da.catalog.make(name)
    file = Path(path)
    try:
        there = file.is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        raise UserError(f"there is no file {path[:200]!r}")
    try:
        module = _load(file)
        made = getattr(module, attribute, None)
        if made is None:
            found = [k for k, v in vars(module).items() if not k.startswith("_") and (_is_system(v) or _makes(v, module))]
            raise UserError(f"{path} has no {attribute!r}{suggest(attribute, found)}")
        made = made() if callable(made) and not _is_system(made) else made
    except UserError:
        raise
    except SystemExit as error:
        raise UserError(f"the model ended the program, sys.exit({error.code!r})\n{_lines(error, file)}") from error
    except Exception as error:
        raise UserError(f"{_told(error)}\n{_lines(error, file)}") from error
    if not _is_system(made):
        raise UserError(f"{attribute!r} in {path} is a {type(made).__name__}, not a system or a function that returns one")
    return made


def _is_system(value: object) -> TypeGuard[System]:
    return isinstance(value, da.System)


def _makes(value: object, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", "") == module.__name__


def _load(file: Path) -> ModuleType:
    """Import a model file; it can import from its own directory."""
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"model_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise UserError(f"{str(file)!r} cannot be run as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, DalembertError) else f"the model raised {type(error).__name__}: {error}"


def _lines(error: BaseException, file: Path) -> str:
    """The lines of the user's files in the traceback, outermost first; then those of its cause."""
    where: list[str] = []
    home, library = file.resolve().parent, Path(da.__file__).resolve().parent
    cause: BaseException | None = error
    while cause is not None:
        places = [(f.filename, f.lineno, f.line) for f in traceback.extract_tb(cause.__traceback__)]
        if isinstance(cause, SyntaxError) and cause.filename:
            places.append((cause.filename, cause.lineno, cause.text))
        for name, number, line in places:
            path = Path(name).resolve()
            mine = path.is_relative_to(home) and not path.is_relative_to(library) and "site-packages" not in path.parts
            shown = file if path == file.resolve() else path.relative_to(home) if mine else path
            text = f"  {shown}, line {number}: {(line or '').strip()}"
            if mine and text not in where:
                where.append(text)
        cause = cause.__cause__
    return "\n".join(where) or f"  in {file}"


def parameters(items: list[str]) -> dict[str, ArrayLike]:
    """Parameters from `name=value` or `name=1,2,3`."""
    return dict(_pair(item, "--parameter") for item in items)


def values(items: list[str]) -> Options:
    """Initial values from `q=1,0` and `v=0,0`."""
    found = dict(_pair(item, "--initial") for item in items)
    for key in found:
        if key not in VALUES:
            raise UserError(f"initial values are called {', '.join(VALUES)}, not {key!r}")
    return cast("Options", {key: value if isinstance(value, list) else [value] for key, value in found.items()})


def diagnosis(model: System, start: Options, given: Mapping[str, ArrayLike] | None, t: float = 0.0) -> Diagnosis:
    """What `da.diagnose` finds at the given initial values."""
    state = cast("dict[str, ArrayLike | None]", {key: start.get(key) for key in VALUES if key != "lam"})
    return da.diagnose(model, parameters=given, t=t, **state)


def make_consistent(job: Job) -> None:
    """Replace the initial values of a job by the nearest consistent ones."""
    given = job.options
    state = cast("dict[str, ArrayLike | None]", {key: given.get(key) for key in VALUES if key != "lam"})
    found = da.consistent(job.system, t0=given.get("t0", 0.0), u=given.get("u"), parameters=given.get("parameters"), **state)
    rest = {key: value for key, value in given.items() if key not in VALUES}
    job.options = cast("Options", {**rest, **found})


def checked(kind: str, path: Path) -> Path:
    """The path of an output file, checked for its kind."""
    from dalembert.plotting import figure_path
    from dalembert.solution.paths import FORMS, target

    return figure_path(path) if kind == "figure" else target(path, *FORMS[kind], folder=kind == "store")


def _pair(item: str, option: str) -> tuple[str, float | list[float]]:
    """A name and its numbers."""
    key, _, text = item.partition("=")
    try:
        numbers = [float(x) for x in text.split(",")]
    except ValueError:
        raise UserError(f"{option} takes name=number (or name=number,number,...), not {item!r}") from None
    return key.strip(), numbers if len(numbers) > 1 else numbers[0]


# ---- completion -------------------------------------------------------------------------------------------


def complete_system(incomplete: str) -> list[str]:
    return [row.name for row in da.list_systems() if row.name.startswith(incomplete)]


def complete_method(incomplete: str) -> list[str]:
    return [row.name for row in da.list_methods() if row.name.startswith(incomplete)]


def complete_methods(incomplete: str) -> list[str]:
    """Completes the last name of a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in complete_method(last)]


def complete_experiment(incomplete: str) -> list[str]:
    return [name for name in ["all", *da.experiments.REGISTER] if name.startswith(incomplete)]
