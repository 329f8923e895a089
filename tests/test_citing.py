"""BibTeX of every method."""

import re

import pytest

import dalembert as da
from dalembert.citing import doi, entries, keys_of
from dalembert.methods.base import find


@pytest.mark.parametrize("name", [row.name for row in da.list_methods()])
def test_every_method_has_an_entry(name):
    method = find(name)
    keys = keys_of(method.source)
    assert keys
    for key in keys:
        assert entries()[key] in da.cite(method)


def test_entries_are_bibtex():
    assert len(entries()) > 20
    for key, text in entries().items():
        assert re.match(rf"@\w+\{{{key},\n", text)
        assert text.count("{") == text.count("}")
        assert re.search(r"^  author +=", text, flags=re.M)
        assert re.search(r"^  title +=", text, flags=re.M)
        year = re.search(r"\d{4}$", key)
        assert not year or re.search(rf"year +=.*{year[0]}", text)
        assert not doi(key) or doi(key).startswith("10.")


def test_every_source_of_an_experiment_has_an_entry():
    for entry in da.experiments.REGISTER.values():
        assert keys_of(entry.source)


def test_cite_takes_names_methods_and_solutions():
    sol = da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=0.1, step=0.01)
    assert da.cite("rattle") == da.cite(sol) == da.cite(find("rattle"))
    assert repr(da.cite("rattle")).count("@") == 4  # as it is printed
    assert da.cite().startswith("@software{dalembert,")
    assert da.cite("rattle", "shake").count("symank2025") == 1
    with pytest.raises(da.MethodError, match="did you mean 'rattle'"):
        da.cite("ratle")
