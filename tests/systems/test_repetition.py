"""Repetition found in models written for whole arrays, against the same models taken as they are written."""

from functools import cache

import numpy as np
import pytest

import dalembert as da
from dalembert.systems import composed, repetition
from dalembert.systems.engaged import engaged

N = 40  # particles


def chain(rng):
    """Rods along a chain, the first one to the origin, and weights."""
    lengths = rng.uniform(0.5, 1.5, N)

    def holonomic(q, scale):
        x = q.reshape(-1, 3)
        first = np.sum(x[0] ** 2) - (scale * lengths[0]) ** 2
        return np.concatenate([[first], np.sum(np.diff(x, axis=0) ** 2, axis=1) - (scale * lengths[1:]) ** 2])

    def potential(q, m, g):
        return g * np.sum(m * q.reshape(-1, 3)[:, 2])

    masses = rng.uniform(1, 2, N)
    return {
        "mass": lambda m: np.repeat(m, 3), "holonomic": holonomic, "potential": potential,
        "parameters": {"m": masses, "g": 9.81, "scale": 1.1},
    }  # fmt: skip


def pairs(rng):
    """All particles pull at each other; three of them are held besides."""
    i, j = np.triu_indices(14, 1)
    charges = rng.uniform(1, 2, 14)

    def potential(q, k, soft):
        x = q.reshape(-1, 3)
        d = x[:14][i] - x[:14][j]
        pulled = -k * np.sum(charges[i] * charges[j] / np.sqrt(np.sum(d**2, axis=1) + soft))
        return pulled + k / 2 * np.sum(x[14:] ** 2) + np.sin(q[3]) * q[4] - q[5] ** 4 / k

    return {"mass": 1.3, "potential": potential, "parameters": {"k": 2.0, "soft": 0.3}}


def cloth(rng):
    """Springs of a cloth, a mask of which is twice as stiff, held at corners; drag; rods across, between other springs' rows."""
    number = np.arange(N).reshape(5, 8)
    a = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    b = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    hard = rng.uniform(size=len(a)) < 0.3
    place = rng.normal(size=(2, 3))

    def potential(q, k, rest, t):
        x = q.reshape(-1, 3)
        d = np.linalg.norm(x[b] - x[a], axis=1)
        held = np.sum((x[[0, 7]] - place) ** 2)
        return np.sum(np.where(hard, 2 * k, k) / 2 * (d - rest) ** 2) + 50 * k * held * (2 + np.sin(t))

    def holonomic(q, rest, t):
        x = q.reshape(-1, 3)
        rods = np.sum((x[number[1:, 1:].ravel()] - x[number[:-1, :-1].ravel()]) ** 2, axis=1) - rest
        walls = x[number[1:, 1:].ravel(), 2] - np.cos(t)
        rows = np.stack([rods, walls], axis=1).ravel()
        return np.concatenate([rows[:9], [q[0] * q[5] - rest], rows[9:]])

    def force(q, v, u, c):
        x, w = q.reshape(-1, 3), v.reshape(-1, 3)
        drag = -c * w * np.sqrt(np.sum(w**2, axis=1) + 1)[:, None] * x[::-1]
        drag[3, 1] = drag[3, 1] + u[0] * q[50]
        return drag.ravel()

    return {
        "mass": "m", "potential": potential, "holonomic": holonomic, "force": force, "inputs": 1,
        "parameters": {"m": 0.4, "k": 30.0, "rest": rng.uniform(0.9, 1.1), "c": 0.2},
    }  # fmt: skip


def with_elements(rng):
    """What is stated as elements stays beside what is found."""
    model = chain(rng)
    stated = [
        da.Element(rng.integers(0, 3 * N, (30, 2)), potential=lambda q, k: k * (q[0] - q[1]) ** 2, parameters={"k": 3.0}),
        da.Element(np.array([[5, 80], [17, 100]]), holonomic=lambda q: q[0] * q[1] - 0.3, name="links"),
    ]
    return model | {"elements": stated}


MODELS = [chain, pairs, cloth, with_elements]


def made(model, dimension=3):
    return da.Mechanical(3 * N, dimension=dimension, **model(np.random.default_rng(7)))


@cache
def both(model, dimension=3):
    """A model with what repeats found, though that be little, and as it is written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composed, "LARGE", 300)
        one = made(model, dimension)
        patch.setattr(repetition, "LEAST", 10**9)
        patch.setattr(composed, "MANY", 10**9)
        return one, made(model, dimension)


@pytest.mark.parametrize("dimension", [3, None])
@pytest.mark.parametrize("model", MODELS)
def test_roles_agree(model, dimension):
    one, two = both(model, dimension)
    assert one.many
    assert not two.many
    rng = np.random.default_rng(3)
    at = {"q": rng.normal(size=one.n), "v": rng.normal(size=one.n), "t": 0.4, "u": rng.normal(size=one.nu)}
    par = one.pack() * rng.uniform(0.8, 1.2, one.pack().size)
    roles = ["potential", "slope", "energy"]
    if one.m:
        roles += ["holonomic", "normal", "jacobian", "rate", "drift", "curvature", "normal_radius", "radius"]
    if one.has("force"):
        roles += ["force"]
    for role in roles:
        a, b = (s.numeric(role, par, **at) for s in (one, two))
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= 1e-13 * max(1.0, np.abs(b).max()), role
    assert one.moving == two.moving
    assert one.driven == two.driven
    assert one._curved() == two._curved()
    assert sorted(one.stated()) == sorted(two.stated())
    assert list(one.parameters) == list(two.parameters)


@cache
def start():
    """The cloth, nearly in a plane."""
    y, x = np.divmod(np.arange(N), 8)
    q = np.stack([0.7 * x, 0.7 * y, np.ones(N)], axis=1).ravel()
    rng = np.random.default_rng(2)
    at = da.consistent(both(cloth)[0], q=q + 0.05 * rng.normal(size=3 * N), v=0.1 * rng.normal(size=3 * N))
    return {"q": at["q"], "v": at["v"]}


@pytest.mark.parametrize("method", ["rattle", "energy-momentum"])
def test_runs_agree_row_by_row(method):
    one, two = both(cloth)
    assert one.order is not None
    a, b = (
        da.simulate(s, method, **start(), u=[0.3], parameters={"k": 20.0}, t_end=0.01, step=0.005, compile=False)
        for s in (one, two)
    )
    assert a.stats["engine"] == "sparse"
    for name in ("q", "v", "lam", "energy", "supplied"):
        x, y = getattr(a, name), getattr(b, name)
        assert np.abs(x - y).max() <= 1e-12 * max(1.0, np.abs(y).max()), name


def test_contacts_that_hold_come_after_own_constraints():
    """Also where those of the system are in an order of their own."""
    one, two = (engaged(s, [s.q[11] - 0.2, s.q[0] * s.q[1]]) for s in both(cloth))
    q = np.random.default_rng(5).normal(size=one.n)
    for role in ("holonomic", "normal", "normal_radius"):
        a, b = (s.numeric(role, s.pack(), q=q)[0] for s in (one, two))
        own = one._own - 2
        rows = [*range(own), *range(own + 2, len(a)), own, own + 1]  # the plain one has all others before them
        assert np.abs(a[rows] - b).max() <= 1e-13 * np.abs(b).max(), role


def test_few_repetitions_stay_as_they_are_written():
    assert not made(chain).many


def test_what_cannot_repeat_stays_as_it_is_written(monkeypatch):
    """Tables are not followed, nor sums in which one term is very long."""
    monkeypatch.setattr(composed, "LARGE", 300)
    table = da.table(np.linspace(-9, 9, 30), np.cos(np.linspace(-9, 9, 30)))

    def potential(q):
        return np.sum(q[1:] ** 2 * np.cos(q[:-1])) + sum(table(x) for x in q[:50]) + np.sin(np.sum(np.exp(q)))

    system = da.Mechanical(3 * N, mass=1.0, potential=potential)
    q = np.random.default_rng(1).normal(size=3 * N)
    shown = np.sum(q[1:] ** 2 * np.cos(q[:-1])) + np.sum(table(q[:50])) + np.sin(np.sum(np.exp(q)))
    assert system.many
    assert system.numeric("potential", system.pack(), q=q)[0] == pytest.approx(shown, rel=1e-13)
