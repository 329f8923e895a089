"""A study in a TOML file, checked field by field; every error names file and line. Nothing in it is evaluated."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dalembert.cli import models
from dalembert.cli.models import UserError
from dalembert.errors import DalembertError, suggest
from dalembert.methods.base import find

NUMBER, NUMBERS = "a number", "a number or a list of numbers"
SCHEMA: dict[str, str] = {
    "system": "text", "method": "text", "t_end": NUMBER, "step": NUMBER, "t0": NUMBER, "save_every": "a whole number",
    "adaptive": "text", "tolerance": NUMBER, "u": NUMBERS, "checkpoint": "text", "output": "text", "report": "text",
    "figure": "text", "animation": "text", "parameters": "a table", "initial": "a table",
}  # fmt: skip
FILES = ("output", "report", "figure", "animation")


def _is(value: Any, kind: str) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if kind == "a table":
        return isinstance(value, dict)
    if kind == "a whole number":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == NUMBERS and isinstance(value, list):
        return all(_is(x, NUMBERS) for x in value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Study:
    """The fields of a file, and where each stands."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UserError(f"there is no file {str(path)!r}")
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
            self.data: dict[str, Any] = tomllib.loads(text)
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not a text file: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{path}: {error}") from None
        self.lines = text.splitlines()
        self._check()

    def where(self, key: str, group: str = "") -> str:
        """File and line of a field, `file, line 3`."""
        now = ""
        for number, line in enumerate(self.lines, 1):
            stripped = line.split("#")[0].strip()
            if stripped.startswith("["):
                now = stripped.strip("[] ")
                if now == key and not group:
                    return f"{self.path}, line {number}"
            name = stripped.split("=")[0].strip(" \"'")
            inline = bool(group) and not now and name == group and key in stripped
            if (now == group and name == key and "=" in stripped) or inline or (not now and name == f"{group}.{key}"):
                return f"{self.path}, line {number}"
        return str(self.path)

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
        model = self.guarded("system", lambda: models.system(str(self.path.parent / name) if ":" in name else name))
        method = self.data.get("method", "")
        if method:
            self.guarded("method", lambda: find(method).check(model))
        given = self.data.get("parameters", {})
        for key, value in given.items():
            self.guarded(key, functools.partial(model.pack, {key: value}), "parameters")
        options: dict[str, Any] = {
            k: self.data[k] for k in ("t_end", "step", "t0", "save_every", "adaptive", "tolerance", "u") if k in self.data
        }
        for key, value in self.data.get("initial", {}).items():
            if key not in ("q", "v", "p", "x", "y", "z", "lam"):
                raise self.fail(f"initial values are called q, v, p, x, y, z or lam, not {key!r}", key, "initial")
            options[key] = value
        if "checkpoint" in self.data:
            options["checkpoint"] = self.path.parent / self.data["checkpoint"]
        files = {k: self.path.parent / self.data[k] for k in FILES if k in self.data}
        return model, method, {**options, "parameters": given}, files
