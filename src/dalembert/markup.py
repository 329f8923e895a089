"""What notebooks show: tables and cards in HTML, in the colours of the notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

CELL = "padding:.2em .8em .2em 0;border:0;vertical-align:top;background:none"
FAINT = "opacity:.65"


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
