"""Names and files given on the command line: systems, parameters, values, and the user's own line where a model fails."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

import dalembert as da
from dalembert.errors import DalembertError, suggest

VALUES = ("q", "v", "p", "x", "y", "z", "lam")


class UserError(Exception):
    """A mistake of the caller, told in a few lines."""


def system(name: str) -> Any:
    """A catalog name, or `file.py:name`, the name of a system or of a function that returns one."""
    path, _, attribute = name.rpartition(":")
    if not path:
        if name.endswith(".py"):
            raise UserError(f"which system of {name}? Say {name}:name")
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


def _is_system(value: Any) -> bool:
    return isinstance(value, da.systems.System)


def _makes(value: Any, module: Any) -> bool:
    return callable(value) and getattr(value, "__module__", "") == module.__name__


def _load(file: Path) -> Any:
    """Run a model file as a module, with its own directory to import from."""
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
    """The lines of the user's files that were being run, outermost first; those of the cause where there is one."""
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


def parameters(items: list[str]) -> dict[str, Any]:
    """`name=value` or `name=1,2,3`."""
    return dict(_pair(item, "--parameter") for item in items)


def values(items: list[str]) -> dict[str, Any]:
    """Initial values, `q=1,0` and `v=0,0`."""
    found = dict(_pair(item, "--initial") for item in items)
    for key in found:
        if key not in VALUES:
            raise UserError(f"initial values are called {', '.join(VALUES)}, not {key!r}")
    return {key: value if isinstance(value, list) else [value] for key, value in found.items()}


def _pair(item: str, option: str) -> tuple[str, Any]:
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
    """The last name of a list with commas between."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in complete_method(last)]


def complete_experiment(incomplete: str) -> list[str]:
    return [name for name in ["all", *da.experiments.REGISTER] if name.startswith(incomplete)]
