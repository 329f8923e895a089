"""What notebooks show: tables and cards in HTML, in the colours of the notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import ClassVar

Facts = list[tuple[str, str]]
CELL = "padding:.2em .8em .2em 0;border:0;vertical-align:top;background:none"
FAINT = "opacity:.65"


class Told:
    """A result that shows itself as a title with named facts: as text where it is printed, as HTML in a notebook."""

    _wide: ClassVar[int] = 12  # of the names in text

    def _told(self) -> tuple[str, Facts]:
        raise NotImplementedError

    def _more(self) -> tuple[str, str]:
        """What a notebook shows when it is asked for: how it is called, and its HTML; nothing if this is empty."""
        return "", ""

    def __str__(self) -> str:
        title, rows = self._told()
        return "\n".join([title, *(f"  {name:<{self._wide}}  {value}" for name, value in rows)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        title, rows = self._told()
        called, more = self._more()
        return card(title, facts(rows), more, called)


def escape(text: object) -> str:
    """Text inside HTML; a dollar sign begins no formula."""
    return html.escape(str(text)).replace("$", "&#36;")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table with its first `left` columns aligned left and the others right."""

    def line(cells: Sequence[str], tag: str) -> str:
        sides = ["left" if i < left else "right" for i in range(len(cells))]
        inner = (f'<{tag} style="{CELL};text-align:{side}">{escape(c)}</{tag}>' for c, side in zip(cells, sides, strict=True))
        return f"<tr>{''.join(inner)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f'<div style="overflow-x:auto"><table><thead>{line(heads, "th")}</thead><tbody>{body}</tbody></table></div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what they are, two columns."""
    cells = (
        f'<tr><td style="{CELL};text-align:left;white-space:nowrap;{FAINT}">{escape(name)}</td>'
        f'<td style="{CELL};text-align:left">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<div style="overflow-x:auto"><table><tbody>{"".join(cells)}</tbody></table></div>'


def card(title: str, body: str, more: str = "", called: str = "settings") -> str:
    """A title, what is shown below it, and what is shown when it is asked for."""
    fold = f'<details><summary style="cursor:pointer;{FAINT}">{escape(called)}</summary>{more}</details>' if more else ""
    return f'<div style="font-size:13px;max-width:100%"><strong>{escape(title)}</strong>{body}{fold}</div>'


def paragraph(text: str) -> str:
    """A remark below a table."""
    return f'<p style="{FAINT};margin:.3em 0">{escape(text)}</p>'


def short(values: Sequence[float] | Iterable[float], most: int = 12) -> str:
    """Numbers with commas between, and how many there are if not all are shown."""
    flat = list(values)
    first = ", ".join(f"{x:.6g}" for x in flat[:most])
    return first + (f", ... ({len(flat)} in all)" if len(flat) > most else "")
