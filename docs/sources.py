"""Write the page of the sources, item by item, from `items.txt`: `python docs/sources.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dalembert import tables

HERE = Path(__file__).parent
STATES = ("done", "partly", "missing", "background")
INTRODUCTION = """\
Written by `python docs/sources.py` from `docs/items.txt`: every definition, theorem, algorithm, example, figure and table of the
five sources, what implements it, the test or experiment that shows it, and its state. "Background" is a notion or fact that is
used and not computed. A test checks that every name on this page exists and that no numbered item is left out. Experiments are
run by `dalembert reproduce <id>`."""


@dataclass(frozen=True)
class Item:
    """A row: the numbers it covers, what they are, names of implementations, tests and experiments, the state and a reason."""

    numbers: tuple[str, ...]
    what: str
    by: tuple[str, ...]
    shown: tuple[str, ...]
    state: str
    reason: str


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def items() -> dict[str, list[Item]]:
    """All rows, by source."""
    out: dict[str, list[Item]] = {}
    for line in (HERE / "items.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("=="):
            rows = out[line[2:].strip()] = []
        elif line.strip() and not line.startswith("#"):
            numbers, what, by, shown, state, reason = (cell.strip() for cell in line.split("|"))
            rows.append(Item(_names(numbers), what, _names(by), _names(shown), state, reason))
    return out


def _short(numbers: tuple[str, ...]) -> str:
    """Kinds are not repeated: `Figure 1, 2, 3`."""
    shown, before = [], ""
    for number in numbers:
        kind, _, rest = number.partition(" ")
        shown.append(rest if kind == before else number)
        before = kind
    return ", ".join(shown)


def page() -> str:
    """The whole page."""
    lines = ["# The sources, item by item", "", INTRODUCTION, ""]
    known = items()
    counts = {state: sum(len(i.numbers) for rows in known.values() for i in rows if i.state == state) for state in STATES}
    lines += [", ".join(f"{count} {state}" for state, count in counts.items()) + ".", ""]
    heads = ["item", "what", "implemented by", "shown by", "state"]
    for source, rows in known.items():
        cells = []
        for i in rows:
            shown = ", ".join(f"`{name.split('/')[-1] if '::' in name else name}`" for name in i.shown)
            state = f"{i.state}: {i.reason}" if i.reason else i.state
            cells.append([_short(i.numbers), i.what, ", ".join(f"`{name}`" for name in i.by), shown, state])
        lines += [f"## {source}", "", tables.write(heads, cells, "markdown", left=len(heads)), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    (HERE / "sources.md").write_text(page(), encoding="utf-8")
