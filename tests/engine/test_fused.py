"""The work of large steps in C, against NumPy's."""

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.case import prepare
from dalembert.engine.fused import Fused, exact
from dalembert.methods.base import find
from dalembert.systems import composed


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(composed, "LARGE", 0)


def chains(system, method):
    return prepare(system, find(method)).sparse().pieces


def tangled(count, trigonometric=False):
    """A chain of particles with all kinds of elements."""
    number = np.arange(count)
    pairs = np.stack([number[:-1], number[1:]], axis=1)

    def apart(q):
        return np.sqrt(np.dot(q[1] - q[0], q[1] - q[0]))

    def wall(q, k):
        return k * np.where(q[0, 1] < 0, q[0, 1] ** 2, np.sin(q[0, 1]) ** 2 if trigonometric else 0.0) + np.maximum(q[0, 0], 0.1)

    elements = [
        da.Element(pairs[::2], holonomic=lambda q: apart(q) - 1, dimension=2),
        da.Element(pairs[1::2], potential=lambda q, k: k * (apart(q) - 1) ** 2, dimension=2),
        da.Element(number[:, None], potential=wall, dimension=2),
        da.Element(number[:1, None], holonomic=lambda q: q[0, 0] + 0.2 * q[0, 1] ** 2, dimension=2),
        da.Element(pairs, dissipation=lambda q: np.diag(np.concatenate([q[0] ** 2, q[1] ** 2])), dimension=2),
    ]
    start = np.stack([number, np.zeros(count)], axis=1).ravel()
    return da.Mechanical(
        2 * count, mass=lambda m: m, elements=elements, parameters={"m": 1.5, "k": 20.0}, initial={"q": start, "v": 0 * start}
    )


@pytest.mark.parametrize("method", ["rattle", "energy-momentum", "murua-ggl-2"])
def test_compiled_work_gives_the_same_bits(method):
    system = tangled(70)
    one, two = (da.simulate(system, method, t_end=0.05, step=0.01, compile=c) for c in (False, True))
    assert [one.stats["engine"], two.stats["engine"]] == ["sparse", "sparse, compiled"]
    assert np.array_equal(one.q, two.q)
    assert np.array_equal(one.v, two.v)


@pytest.mark.parametrize(("make", "method"), [(da.catalog.net, "rattle"), (da.catalog.spring_net, "energy-momentum")])
def test_the_source_does_not_depend_on_the_number_of_elements(make, method):
    sources = {Fused(chains(make(n, n), method)).source for n in (20, 23)}
    assert len(sources) == 1
    assert len(sources.pop()) < 60_000


def test_functions_of_the_mathematical_library_are_known():
    """Their last bits may differ: then the way to run must not depend on the length of a run."""
    assert exact(chains(tangled(70), "rattle"))
    system = tangled(70, trigonometric=True)
    assert not exact(chains(system, "rattle"))
    one, two = (da.simulate(system, "rattle", t_end=0.02, step=0.01, compile=c) for c in (False, "auto"))
    assert two.stats["engine"] == "sparse, compiled"
    assert np.abs(one.q - two.q).max() < 1e-14
