"""Tables as text, Markdown, LaTeX, CSV or HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TypeVar

from dalembert.errors import MethodError, suggest
from dalembert.markup import table as as_html

VALUES = ("q", "v", "p", "x", "y", "z", "lam")  # initial values
FORMATS = ("text", "markdown", "latex", "csv", "html")
R = TypeVar("R", covariant=True)


class Table(tuple[R, ...]):
    """A tuple of rows that prints as a table; `columns` are the attributes of a row that are shown."""

    columns: tuple[str, ...]

    def __new__(cls, rows: Iterable[R], columns: Sequence[str]) -> Table[R]:
        self = super().__new__(cls, rows)
        self.columns = tuple(columns)
        return self

    def __getnewargs__(self) -> tuple[tuple[R, ...], tuple[str, ...]]:
        return tuple(self), self.columns

    def table(self, form: str = "text") -> str:
        """As text, Markdown, LaTeX, CSV or HTML."""
        heads, rows = self.cells()
        return write(heads, rows, form, left=len(heads))

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Column heads and rows."""
        return list(self.columns), [[_cell(getattr(row, name)) for name in self.columns] for row in self]

    def __repr__(self) -> str:
        return self.table() if self else "(nothing)"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        heads, rows = self.cells()
        return as_html(heads, rows, left=len(heads)) if self else "(nothing)"


def _cell(value: object) -> str:
    """Entries of a tuple with commas between; `-` for a tuple of zeros, or without entries."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) if any(value) else "-"
    return str(value)


def check(form: str) -> None:
    """Raise an error for an unknown form."""
    if form not in FORMATS:
        raise MethodError(f"a table is written as {', '.join(FORMATS)}, not {form!r}{suggest(str(form), FORMATS)}")


def write(heads: Sequence[str], rows: Iterable[Sequence[str]], form: str = "text", left: int = 1) -> str:
    """A table with its first `left` columns aligned left and the others right (text: all left)."""
    check(form)
    cells = [[str(c) for c in heads], *([str(c) for c in row] for row in rows)]
    if form == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(cells)
        return out.getvalue().rstrip("\n")
    if form == "html":
        return as_html(cells[0], cells[1:], left)
    if form == "latex":
        body = [" & ".join(map(_tex, row)) + r" \\" for row in cells]
        columns = "l" * left + "r" * (len(heads) - left)
        head = [r"\begin{tabular}{" + columns + "}", r"\toprule", body[0], r"\midrule"]
        return "\n".join([*head, *body[1:], r"\bottomrule", r"\end{tabular}"])
    if form == "markdown":
        cells = [[c.replace("|", r"\|") for c in row] for row in cells]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(heads))]

    def line(row: Sequence[str]) -> list[str]:
        return [
            c.ljust(w) if i < left or form == "text" else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]

    if form == "text":
        lines = ["  ".join(line(row)).rstrip() for row in cells]
        return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (line(cells[0]), rule, *map(line, cells[1:])))


def _tex(text: str) -> str:
    """A cell in LaTeX: special characters escaped, `1.2e-05` as a power of ten."""
    number, _, power = text.partition("e")
    try:
        float(text)
        if power:
            return rf"${number} \cdot 10^{{{int(power)}}}$"
    except ValueError:
        pass
    for character in r"\&%$#_{}":
        text = text.replace(character, r"\textbackslash{}" if character == "\\" else "\\" + character)
    return text
