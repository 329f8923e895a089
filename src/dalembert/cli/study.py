"""A study in a TOML file, checked field by field; every error names file and line. Nothing in the file is executed."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import dalembert as da
from dalembert.cli import models
from dalembert.cli.models import FILES, KEPT, Job, UserError, checked
from dalembert.errors import DalembertError, suggest
from dalembert.tables import VALUES

if TYPE_CHECKING:
    from dalembert.analysis.trials import Options

NUMBER, NUMBERS = "a number", "a number or a list of numbers"
SCHEMA: dict[str, str] = {
    "system": "text", "method": "text", "t_end": NUMBER, "step": NUMBER, "t0": NUMBER, "save_every": "a whole number",
    "adaptive": "text", "tolerance": NUMBER, "u": NUMBERS, "checkpoint": "text", "store": "text", "output": "text",
    "report": "text", "figure": "text", "animation": "text", "consistent": "true or false", "parameters": "a table",
    "initial": "a table",
}  # fmt: skip
T = TypeVar("T")


def is_numbers(value: object) -> bool:
    """Whether a value is a number or a list of numbers."""
    return _is(value, NUMBERS)


def _is(value: object, kind: str, depth: int = 0) -> bool:
    """Whether a value is of the stated kind."""
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
    """The fields of a file, and the line of each."""

    schema: ClassVar[dict[str, str]] = SCHEMA
    needed: ClassVar[tuple[str, ...]] = ("system", "t_end", "step")

    def __init__(self, path: Path) -> None:
        try:
            if not path.is_file():
                raise UserError(f"there is no file {str(path)!r}")
            self.path, self.text = path, path.read_text(encoding="utf-8-sig")
            self.data: dict[str, Any] = tomllib.loads(self.text)  # of any type until `_check`
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
        """File and line of a field.

        The shortest valid beginning of the file that has the field ends with it. The field starts after the longest valid
        beginning without it; this also works for strings and tables of several lines.
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
        """An error before the run began, at the line of the field that it mentions."""
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

    def fail(self, message: str | Exception, key: str, group: str = "") -> UserError:
        """A usage error at the line of a field."""
        return UserError(f"{self.where(key, group)}: {message}")

    def _check(self) -> None:
        for key, value in self.data.items():
            if key not in self.schema:
                raise self.fail(f"there is no field {key!r}{suggest(key, self.schema)}", key)
            if not _is(value, self.schema[key]):
                raise self.fail(f"{key} must be {self.schema[key]}, not {value!r}", key)
        for key in self.needed:
            if key not in self.data:
                raise UserError(f"{self.path}: the field {key!r} is missing")
        for group in ("parameters", "initial"):
            for key, value in self.data.get(group, {}).items():
                if not _is(value, NUMBERS):
                    raise self.fail(f"{group}.{key} must be {NUMBERS}, not {value!r}", key, group)

    def guarded(self, key: str, act: Callable[[], T], group: str = "") -> T:
        """What `act` returns; its errors name the line of a field."""
        try:
            return act()
        except (DalembertError, UserError) as error:
            raise self.fail(error, key, group) from error

    def job(self) -> Job:
        """The run that the file describes; names are checked, and errors name their line."""
        data, folder = self.data, self.path.parent
        name = data["system"]
        local = ":" in name and not Path(name).is_absolute()
        model = self.guarded("system", lambda: models.system(str(folder / name) if local else name))
        method = data.get("method", "")
        if method:
            self.guarded("method", lambda: da.methods.base.find(method).check(model))
        given = data.get("parameters", {})
        for key, value in given.items():
            self.guarded(key, functools.partial(model.pack, {key: value}), "parameters")
        options: dict[str, object] = {k: data[k] for k in ("t0", "save_every", "adaptive", "tolerance", "u") if k in data}
        for key, value in data.get("initial", {}).items():
            if key not in VALUES:
                raise self.fail(f"initial values are called {', '.join(VALUES)}, not {key!r}", key, "initial")
            options[key] = value
        kept, files = (
            {k: self.guarded(k, functools.partial(checked, k, folder / data[k])) for k in kinds if k in data}
            for kinds in (KEPT, FILES)
        )
        options = {**options, "parameters": given}
        return Job(
            model, method, data["t_end"], data["step"], cast("Options", options), files,
            consistent=data.get("consistent", False), **kept,
        )  # fmt: skip
