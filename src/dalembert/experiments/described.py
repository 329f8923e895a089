"""What a page says of an experiment beside its numbers: the code that ran, its settings, its data as tables, its source."""

from __future__ import annotations

import csv
import html
import inspect
import io
from collections.abc import Iterator, Mapping

import numpy as np

from dalembert.citing import doi, keys_of
from dalembert.errors import MethodError
from dalembert.experiments.base import REGISTER, Result


def source(result: Result) -> str:
    """The source in words, with a link to its DOI if it has one, as HTML."""
    links = []
    try:
        links = [f"<a href='https://doi.org/{doi(key)}'>doi:{doi(key)}</a>" for key in keys_of(result.source) if doi(key)]
    except MethodError:  # an experiment of a user's own may name any source
        links = []
    return ", ".join([html.escape(result.source), *links])


def code(result: Result) -> str:
    """The function of the experiment as it ran: systems, methods, step sizes, start values and claims; as HTML."""
    entry = REGISTER.get(result.id)
    if entry is None:
        return ""
    lines, first = inspect.getsourcelines(entry.function)
    where = f"{entry.function.__module__}, line {first}"
    text = html.escape("".join(lines).rstrip())
    again = f"<code>dalembert reproduce {html.escape(result.id)}</code>"
    return f"<h2>Settings and code</h2><p class=faint>{where}; {again}</p><pre>{text}</pre>"


def tables(result: Result) -> Iterator[tuple[str, str]]:
    """The data of a result as files `(name, CSV)`: one for each group of columns of one length, one for single numbers."""
    groups = {name: group for name, group in result.data.items() if isinstance(group, Mapping)}
    groups[""] = {name: value for name, value in result.data.items() if not isinstance(value, Mapping)}
    groups |= {panel.title: _curves(panel.curves) for panel in result.panels}
    for name, group in groups.items():
        columns: dict[int, dict[str, np.ndarray]] = {}
        for key, value in group.items():
            array = np.asarray(value)
            if array.dtype.kind not in "fiub" or array.ndim > 2 or array.size == 0:
                continue
            if array.ndim == 2:
                columns.setdefault(len(array), {}).update({f"{key}_{k + 1}": array[:, k] for k in range(array.shape[1])})
            else:
                columns.setdefault(array.size if array.ndim else 0, {})[key] = np.atleast_1d(array)
        for k, table in enumerate(columns.values()):
            yield f"{name or 'data'}{f'_{k + 1}' if len(columns) > 1 else ''}", _csv(table)


def _curves(curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
    return {f"{name}, {side}": values for name, pair in curves.items() for side, values in zip(("x", "y"), pair, strict=True)}


def _csv(columns: Mapping[str, np.ndarray]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[repr(x) for x in row] for row in zip(*(values.tolist() for values in columns.values()), strict=True)])
    return out.getvalue()
