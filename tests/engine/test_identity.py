"""Functions and values are told apart by what they do, not by where they lie."""

import functools

import numpy as np
import pytest

from dalembert.engine.control import Backoff, Reversible
from dalembert.engine.identity import digest, plain

SCALE = 2.0


def made(k, power=1):
    return lambda t: [k * t**power]


def uses_a_global(t):
    return [SCALE * t]


class Ramp:
    def __init__(self, slope):
        self.slope = slope

    def __call__(self, t):
        return [self.slope * t]

    def other(self, t):
        return [self.slope - t]


PAIRS = {
    "numbers": (1.0, 2.0),
    "text": ("a", "b"),
    "arrays": (np.arange(3.0), np.arange(3.0) + 1e-16 * np.array([0, 0, 10.0])),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "tuples": (([0.0, 1.0], [0.0, 1.0]), ([0.0, 1.0], [0.0, 2.0])),
    "mappings": ({"a": 1}, {"a": 2}),
    "closures": (made(1.0), made(2.0)),
    "constants": (lambda t: [t], lambda t: [2 * t]),
    "names": (lambda t: [np.sin(t)], lambda t: [np.cos(t)]),
    "inner": (lambda t: [(lambda: 1.0)()], lambda t: [(lambda: 2.0)()]),
    "defaults": (lambda t, k=1.0: [k * t], lambda t, k=2.0: [k * t]),
    "partial": (functools.partial(np.power, 2.0), functools.partial(np.power, 3.0)),
    "objects": (Ramp(1.0), Ramp(2.0)),
    "methods": (Ramp(1.0).other, Ramp(2.0).other),
    "dataclasses": (Backoff(shrink=0.5), Backoff(shrink=0.4)),
    "inside dataclasses": (Reversible(scale=made(1.0)), Reversible(scale=made(2.0))),
    "kinds": (Backoff(), Reversible()),
    "nothing": (None, 0.0),
    "functions of NumPy": (np.sin, np.cos),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_differs_is_told_apart(name):
    one, other = PAIRS[name]
    assert digest(one) == digest(one)
    assert digest(one) != digest(other)


def test_what_is_made_twice_is_the_same():
    assert digest(made(1.5, 2)) == digest(made(1.5, 2))
    assert digest(Ramp(1.5)) == digest(Ramp(1.5))
    assert digest({"b": 1, "a": {2, 1}}) == digest({"a": {1, 2}, "b": 1})


def test_values_that_a_function_reads_are_part_of_it(monkeypatch):
    before = digest(uses_a_global)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert digest(uses_a_global) != before


def test_a_function_that_refers_to_itself_has_an_end():
    def again(t):
        return [1.0] if t < 1 else again(t - 1)

    loop = []
    loop.append(loop)
    assert digest(again) == digest(again)
    assert plain(loop) == ["again"]
