"""The page of the sources names what exists, leaves nothing out, and is as its data write it."""

import re
import runpy
from functools import reduce
from pathlib import Path

import pytest

import dalembert as da
from dalembert.experiments.base import REGISTER

ROOT = Path(__file__).parent.parent
WRITTEN = runpy.run_path(str(ROOT / "docs" / "sources.py"))
ITEMS = WRITTEN["items"]()
METHODS = {row.name for row in da.list_methods()}
ROWS = [pytest.param(item, id=f"{source[:5]}-{item.numbers[0]}") for source, rows in ITEMS.items() for item in rows]


def span(kind, chapter, last, without=()):
    return {f"{kind} {chapter}.{k}" for k in range(1, last + 1)} - {f"{kind} {chapter}.{k}" for k in without}


def plain(kind, last):
    return {f"{kind} {k}" for k in range(1, last + 1)}


NUMBERED = {  # as the sources count them
    "Symank 2025": plain("Figure", 14)
    | {f"Definition {n}" for n in ("2.1", "2.3", "3.1", "3.2", "3.4", "3.5", "4.1", "4.4", "4.5")}
    | {f"Definition {n}" for n in ("5.1", "5.2", "6.1", "6.2", "6.5")}
    | {f"Theorem {n}" for n in ("2.2", "2.4", "3.3", "3.6", "3.7", "3.9", "4.2", "4.3", "4.7", "6.3", "6.4", "6.7")}
    | {"Lemma 3.8", "Lemma 4.6", "Lemma 6.6"},
    "Hilden 2009": span("Figure", 1, 4) | span("Figure", 2, 4) | span("Figure", 3, 4) | span("Figure", 4, 19)
    | {f"Definition {n}" for n in ("1.1", "1.4", "2.3", "2.6", "3.1", "3.2", "3.3", "3.5", "3.6", "3.7")}
    | span("Definition", "A", 4)
    | {"Proposition 1.2", "Proposition 1.3", "Proposition 1.5", "Proposition 2.1", "Proposition 2.2"}
    | {"Theorem 2.4", "Theorem 2.5", "Theorem 2.7", "Theorem 3.4", "Algorithm 2.1", "Table 2.1", "Table 4.1"},
    "Gonzalez 1999": plain("Figure", 4) | {"Proposition 2.1", "Proposition 3.1", "Remark 4.1"},
    "Kinon, Morandin, Schulze 2025": plain("Definition", 10) | plain("Theorem", 11) | plain("Lemma", 4) | plain("Proposition", 3)
    | plain("Corollary", 4) | plain("Example", 10) | plain("Remark", 15) | plain("Figure", 6) | {"Table 1"},
    "Bertolazzi, Cocetti, Stocco": plain("Definition", 17) | plain("Theorem", 9) | plain("Example", 14) | plain("Remark", 10)
    | span("Figure", 3, 3) | span("Figure", 4, 3) | {"Lemma 0.1", "Lemma 2.2", "Lemma 7.3"},
}  # fmt: skip


@pytest.mark.parametrize("source", NUMBERED)
def test_no_numbered_item_is_left_out_or_named_twice(source):
    named = [number for item in ITEMS[source] for number in item.numbers]
    assert len(named) == len(set(named))
    assert not NUMBERED[source] - set(named)
    others = {
        number
        for number in named
        if re.match(r"(Definition|Theorem|Lemma|Proposition|Corollary|Example|Remark|Algorithm|Figure) ", number)
    }
    assert not others - NUMBERED[source]


def exists(name):
    """Whether a name is that of a method, or of something in the library."""
    if name in METHODS:
        return True
    try:
        reduce(getattr, name.split("."), da)
    except AttributeError:
        return any(hasattr(part, name) for part in (da.methods,))
    return True


def shown(name):
    """Whether a test or an experiment exists."""
    if name in REGISTER:
        return True
    path, _, test = name.partition("::")
    file = ROOT / "tests" / path
    return file.is_file() and (not test or f"def {test}(" in file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("item", ROWS)
def test_what_is_named_exists(item):
    assert [name for name in item.by if not exists(name)] == []
    assert [name for name in item.shown if not shown(name)] == []
    assert item.state in WRITTEN["STATES"]
    if item.state == "done":
        assert item.shown
    else:
        assert item.reason, item


def test_every_experiment_is_on_the_page():
    named = {name for rows in ITEMS.values() for item in rows for name in item.shown}
    assert not set(REGISTER) - named


def test_the_page_is_as_its_data_write_it():
    assert (ROOT / "docs" / "sources.md").read_text(encoding="utf-8") == WRITTEN["page"](), "run python docs/sources.py"
