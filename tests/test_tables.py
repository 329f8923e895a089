"""Tables in their four forms."""

import pickle
from dataclasses import dataclass

import pytest

import dalembert as da
from dalembert import tables

HEADS, ROWS = ("method", "error"), [("a_b", "1.2e-05"), ("c|d", "3")]


def test_forms():
    assert tables.write(HEADS, ROWS).splitlines()[0] == "method  error"
    assert tables.write(HEADS, ROWS, "csv") == "method,error\na_b,1.2e-05\nc|d,3"
    assert tables.write(HEADS, ROWS, "markdown").splitlines()[3] == r"| c\|d   |       3 |"
    tex = tables.write(HEADS, ROWS, "latex")
    assert r"a\_b & $1.2 \cdot 10^{-5}$ \\" in tex
    assert tex.startswith(r"\begin{tabular}{lr}")
    with pytest.raises(da.MethodError, match="did you mean 'latex'"):
        tables.write(HEADS, ROWS, "late")


@dataclass(frozen=True)
class Item:
    name: str
    order: tuple[int, ...]
    hidden: int = 0


def test_a_table_is_a_tuple_that_prints_its_columns():
    table = tables.Table([Item("a", (2, 1)), Item("b", (0, 0))], columns=("name", "order"))
    assert table[1].name == "b"
    assert table.table("csv") == 'name,order\na,"2, 1"\nb,-'
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert str(again) == str(table)
    assert str(tables.Table([], columns=("name",))) == "(nothing)"
