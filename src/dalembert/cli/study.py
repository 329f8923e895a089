"""A study in a TOML file, checked field by field; every error names file and line. Nothing in it is evaluated."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dalembert.cli import models
from dalembert.cli.models import UserError
from dalembert.errors import DalembertError, suggest
from dalembert.methods.base import find
from dalembert.solution.files import FORMS, target

NUMBER, NUMBERS = "a number", "a number or a list of numbers"
SCHEMA: dict[str, str] = {
    "system": "text", "method": "text", "t_end": NUMBER, "step": NUMBER, "t0": NUMBER, "save_every": "a whole number",
    "adaptive": "text", "tolerance": NUMBER, "u": NUMBERS, "checkpoint": "text", "output": "text", "report": "text",
    "figure": "text", "animation": "text", "consistent": "true or false", "parameters": "a table", "initial": "a table",
}  # fmt: skip
FILES = ("output", "report", "figure", "animation")


def _is(value: Any, kind: str, depth: int = 0) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if kind == "a table":
        return isinstance(value, dict)
    if kind == "true or false":
        return isinstance(value, bool)
    if kind == NUMBERS and isinstance(value, list):
        return depth < 2 and all(_is(x, NUMBERS, depth + 1) for x in value)
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    return whole or (kind != "a whole number" and isinstance(value, float))


class Study:
    """The fields of a file, and where each stands."""

    def __init__(self, path: Path) -> None:
        try:
            if not path.is_file():
                raise UserError(f"there is no file {str(path)!r}")
            self.path, self.text = path, path.read_text(encoding="utf-8-sig")
            self.data: dict[str, Any] = tomllib.loads(self.text)
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not a text file: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{path}: {error}") from None
        except RecursionError:
            raise UserError(f"{path} is nested too deeply") from None
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from None
        self._check()

    def where(self, key: str, group: str = "") -> str:
        """File and line of a field: the first beginning of the file that is valid and has the field ends with it.

        The field begins after the last valid beginning without it, so that strings and tables of many lines are no trouble.
        """
        lines, before = self.text.split("\n"), 0
        for end in range(1, len(lines) + 1):
            try:
                data = tomllib.loads("\n".join(lines[:end]))
            except tomllib.TOMLDecodeError:
                continue
            inside = data.get(group, {}) if group else data
            if isinstance(inside, dict) and key in inside:
                first = next((i for i in range(before, end) if lines[i].split("#")[0].strip()), end - 1)
                return f"{self.path}, line {first + 1}"
            before = end
        return str(self.path)

    def blame(self, error: Exception) -> UserError:
        """An error of a run that did not begin, at the line of the field that it speaks of."""
        words = str(error)
        fields = [(key, "") for key in self.data if key not in ("parameters", "initial")]
        fields += [(key, group) for group in ("initial", "parameters") for key in self.data.get(group, {})]
        for key, group in fields:
            value = (self.data[group] if group else self.data)[key]
            if isinstance(value, str) and key not in FILES and (repr(value) in words or words.startswith(f"{value} ")):
                return self.fail(error, key, group)
        for key, group in fields:
            if re.match(rf"{re.escape(key)}\b", words):
                return self.fail(error, key, group)
        return UserError(f"{self.path}: {words}")

    def fail(self, message: Any, key: str, group: str = "") -> UserError:
        return UserError(f"{self.where(key, group)}: {message}")

    def _check(self) -> None:
        for key, value in self.data.items():
            if key not in SCHEMA:
                raise self.fail(f"there is no field {key!r}{suggest(key, SCHEMA)}", key)
            if not _is(value, SCHEMA[key]):
                raise self.fail(f"{key} must be {SCHEMA[key]}, not {value!r}", key)
        for key in ("system", "t_end", "step"):
            if key not in self.data:
                raise UserError(f"{self.path}: the field {key!r} is missing")
        for group in ("parameters", "initial"):
            for key, value in self.data.get(group, {}).items():
                if not _is(value, NUMBERS):
                    raise self.fail(f"{group}.{key} must be {NUMBERS}, not {value!r}", key, group)

    def guarded(self, key: str, act: Callable[[], Any], group: str = "") -> Any:
        """What `act` returns; its errors get the line of a field."""
        try:
            return act()
        except (DalembertError, UserError) as error:
            raise self.fail(error, key, group) from error

    def call(self) -> tuple[Any, str, dict[str, Any], dict[str, Path]]:
        """System, method, keywords of `simulate`, and the files to write; names are checked, each at its line."""
        name = self.data["system"]
        here = ":" in name and not Path(name).is_absolute()
        model = self.guarded("system", lambda: models.system(str(self.path.parent / name) if here else name))
        method = self.data.get("method", "")
        if method:
            self.guarded("method", lambda: find(method).check(model))
        given = self.data.get("parameters", {})
        for key, value in given.items():
            self.guarded(key, functools.partial(model.pack, {key: value}), "parameters")
        names = ("t_end", "step", "t0", "save_every", "adaptive", "tolerance", "u", "consistent")
        options: dict[str, Any] = {k: self.data[k] for k in names if k in self.data}
        for key, value in self.data.get("initial", {}).items():
            if key not in models.VALUES:
                raise self.fail(f"initial values are called {', '.join(models.VALUES)}, not {key!r}", key, "initial")
            options[key] = value
        if "checkpoint" in self.data:
            options["checkpoint"] = self.guarded("checkpoint", lambda: target(self.path.parent / self.data["checkpoint"]))
        files = {}
        for key in FILES:
            if key in self.data:
                files[key] = self.guarded(key, functools.partial(checked, key, self.path.parent / self.data[key]))
        return model, method, {**options, "parameters": given}, files


def checked(kind: str, path: Path) -> Path:
    """A path that this kind of file can be written to."""
    if kind == "figure":
        from dalembert.plotting import figure_path

        return Path(figure_path(path))
    return target(path, *FORMS[kind])
