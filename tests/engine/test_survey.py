"""The quick look at a start: it never lets pass what the checks one by one refuse."""

import numpy as np
import pytest

import dalembert as da
from dalembert.engine import kinds, survey
from dalembert.methods.base import find

NONE = np.zeros(0)


def look(system, q, v, method="rattle"):
    return survey.well(
        system, {"q": np.array(q, float), "v": np.array(v, float)}, system.pack(), 0.0, NONE, find(method).exact_levels
    )


def test_a_good_start_is_seen_at_once():
    system = da.catalog.double_pendulum()
    assert look(system, [1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0])
    assert look(system, [1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 2.0])


@pytest.mark.parametrize(
    ("q", "v"),
    [
        ([1.0 + 1e-3, 0.0, 2.0, 0.0], [0.0] * 4),
        ([1.0, 0.0, 2.0, 0.0], [1e-4, 0.0, 0.0, 0.0]),
        ([np.nan, 0.0, 2.0, 0.0], [0.0] * 4),
        ([0.0, 0.0, 1.0, 0.0], [0.0] * 4),
        ([1.0, 0.0, 2.0, 0.0], [np.inf, 0.0, 0.0, 0.0]),
    ],
)
def test_what_is_wrong_is_left_to_the_checks(q, v):
    system = da.catalog.double_pendulum()
    assert not look(system, q, v)
    with pytest.raises(da.DalembertError):
        da.simulate(system, "rattle", q=q, v=v, t_end=0.1, step=0.01)


def test_methods_that_let_velocities_drift_may_start_where_they_ended():
    system = da.catalog.double_pendulum()
    off = [1.0, 0.0, 2.0, 0.0], [1e-5, 1.0, 1e-5, 2.0]
    assert not look(system, *off)
    assert look(system, *off, method="energy-momentum")


def test_dependent_constraints_and_missing_masses_are_not_well():
    twice = da.Mechanical(
        ("x", "y"),
        mass=[1.0, 1.0],
        potential=lambda q: q[1],
        holonomic=lambda q: [q[0] ** 2 + q[1] ** 2 - 1, 2 * (q[0] ** 2 + q[1] ** 2 - 1)],
    )
    assert not look(twice, [1.0, 0.0], [0.0, 0.0])
    light = da.Mechanical(("x", "y"), mass=[1.0, 0.0], potential=lambda q: q[0] ** 2 + q[1] ** 2)
    assert not look(light, [1.0, 0.0], [0.0, 0.0])
    skewed = da.Mechanical(("x", "y"), mass=[[1.0, 1.0], [1.0, 1.0]], potential=lambda q: q[0] ** 2)
    assert not look(skewed, [1.0, 0.0], [0.0, 0.0])


def test_it_never_passes_what_the_checks_refuse(monkeypatch):
    """Random starts near the constraints of several systems, both ways."""
    rng = np.random.default_rng(7)
    for make in (
        da.catalog.double_pendulum,
        da.catalog.four_particles,
        da.catalog.simple_pendulum,
        da.catalog.spherical_pendulum,
    ):
        system = make()
        par, start = system.pack(), dict(da.consistent(system))
        for method in ("rattle", "energy-momentum"):
            for size in (0.0, 1e-13, 1e-10, 1e-8, 1e-5, 1e-2):
                q = start["q"] + size * rng.normal(size=system.n)
                v = start["v"] + size * rng.normal(size=system.n)
                quick = look(system, q, v, method)
                with monkeypatch.context() as patch:
                    patch.setattr("dalembert.engine.kinds.mechanics.well", lambda *_: False)
                    try:
                        kinds.check(system, {"q": q, "v": v}, par, 0.0, NONE, find(method))
                        slow = True
                    except da.DalembertError:
                        slow = False
                assert slow or not quick


def test_large_systems_are_left_to_the_checks():
    chain = da.catalog.chain(40)
    assert chain.n > survey.LARGEST
    assert not survey.well(chain, dict(chain.initial), chain.pack(), 0.0, NONE, ())


@pytest.mark.parametrize("block", [[[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
def test_masses_that_are_not_definite_are_not_well(block):
    """Two negative pivots have a positive product."""
    mass = np.kron(np.eye(2), np.array(block))
    system = da.Mechanical(("a", "b", "c", "d"), mass=mass.tolist(), potential=lambda q: q[0] ** 2)
    assert not look(system, [1.0, 0.0, 0.0, 0.0], [0.0] * 4)


def test_coupled_masses_that_are_definite_are_well():
    mass = [[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]]
    system = da.Mechanical(("a", "b", "c"), mass=mass, potential=lambda q: q[0] ** 2)
    assert look(system, [1.0, 0.0, 0.0], [0.0] * 3)
