"""Plans of factorisations: what many rows and columns have in common is written out, and is what the loops do."""

import numpy as np
import pytest
from scipy.sparse import diags

from dalembert.engine import plan as plans
from dalembert.engine.factored import Factor
from dalembert.engine.patterns import Pattern
from dalembert.engine.plan import Plan, Written


def planned(matrix):
    found = matrix.tocoo()
    order = np.lexsort((found.row, found.col))
    pattern = Pattern(found.row[order], found.col[order], matrix.shape)
    return Plan(Factor(pattern, pattern.matrix()))


@pytest.fixture
def band():
    """Two neighbours on each side: 40 rows."""
    return planned(diags([1.0] * 5, [-2, -1, 0, 1, 2], shape=(40, 40)))


def interpreted(plan, text, v, ell, inverse, k):
    """A row as its text says, in Python."""
    names = {
        "v": v,
        "inverse": inverse,
        "c": plan.list[plan.starts[k] :],
        "pivot": 0.0,
        "l": ell,
        "e": plan.entry[plan.starts[k] :],
    }
    for line in text.replace("{", "").replace("}", "").split(";"):
        line = line.strip().removeprefix("const ").removeprefix("double ")
        if line.startswith("*m = l + "):
            names["at"] = eval(line.removeprefix("*m = l + "), {}, names)
        elif line.startswith("*m ="):
            ell[names["at"]] = names["s"]
        elif line:
            exec(line.replace("m[", "l[at + "), {}, names)
    return names["pivot"]


def test_rows_as_written_are_a_factorisation(band):
    """`L D L^T` of a band, each row by the text of its kind."""
    assert sum(map(len, band.rows)) > 30
    group = {int(k): g for g in band.rows for k in g}
    n, rng = 40, np.random.default_rng(0)
    dense = np.zeros((n, n))
    x = rng.uniform(0.1, 0.2, len(band.row)) + np.where(band.row == np.repeat(np.arange(n), np.diff(band.begin)), 4.0, 0.0)
    dense[band.row, np.repeat(np.arange(n), np.diff(band.begin))] = x
    ell, inverse, d = np.zeros(len(band.li)), np.zeros(n), np.zeros(n)
    for k in range(n):
        (text,) = band.row_text(int(group[k][0]) if k in group else k)
        d[k] = interpreted(band, text, x[band.begin[k] :], ell, inverse, k)
        inverse[k] = 1 / d[k]
    lower = np.eye(n)
    for k in range(n):
        lower[band.li[band.lp[k] : band.lp[k + 1]], k] = ell[band.lp[k] : band.lp[k + 1]]
    whole = dense + dense.T - np.diag(np.diag(dense))
    assert np.abs(lower @ np.diag(d) @ lower.T - whole).max() < 1e-14


def test_kinds_are_numbered_across_plans(band):
    written = Written([band, planned(diags([1.0] * 3, [-1, 0, 1], shape=(30, 30)))])
    rows, columns = written.kinds(band)
    cases = written.cases()
    assert rows.max() <= cases["rows"].count("case")
    assert columns.max() <= cases["there"].count("case") == cases["back"].count("case")
    for group in band.columns:
        there, _ = band.column_text(int(group[0]))
        assert f"case {columns[group[0]]}: {{ {there} }}" in cases["there"]
        assert all(band.column_text(int(k)) == band.column_text(int(group[0])) for k in group)
    for group in band.rows:
        assert all(band.row_text(int(k)) == band.row_text(int(group[0])) for k in group)


def test_what_few_have_in_common_is_left_to_loops(monkeypatch):
    assert planned(diags([1.0] * 3, [-1, 0, 1], shape=(6, 6))).rows == []
    monkeypatch.setattr(plans, "TERMS", 2)
    assert planned(diags([1.0] * 5, [-2, -1, 0, 1, 2], shape=(40, 40))).rows == []
