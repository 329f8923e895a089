"""Registered methods on systems of the catalog: a step that satisfies its equations, or a refusal that helps.

Steps are taken by some pairs of them, by all with DALEMBERT_TESTS=all; refusals are those of all pairs.
"""

import re
from functools import cache, partial

import numpy as np
import pytest

import dalembert as da
from conftest import can, some
from dalembert.methods.base import REGISTER, find

CATALOG = {row.name: row.make for row in da.list_systems()}
# as small as they can be, and not too stiff for one step of a method of first order, or for the rounding of their energy
CATALOG |= {
    "net": partial(da.catalog.net, 2, 2),
    "spring-net": partial(da.catalog.spring_net, 2, 2),
    "cloth": partial(da.catalog.cloth, 2, 2, m=1.0),
    "beam": partial(da.catalog.beam, stiffness=10.0),
}
BALANCED = {row.method().name for row in da.list_methods() if "power balance" in row.keeps}
H = 1e-3


@cache
def made(name):
    return CATALOG[name]()


@cache
def start(name):
    """A system, and consistent values near its own, with inputs that set it in motion."""
    system = made(name)
    u = {"u": np.linspace(0.2, 0.3, system.nu)} if system.nu else {}
    values = dict(da.consistent(system, **u))
    if isinstance(system, da.PortHamiltonian):  # multipliers at index 2 are found by a method that jumps to them
        values = {"x": da.simulate(system, "radau-iia-3", t_end=H, step=H, compile=False, **values, **u).x[-1]}
    return system, values | u


@cache
def run(name, method, steps=1):
    system, values = start(name)
    return da.simulate(system, method, t_end=H, step=H / steps, compile=False, **values)


def assert_step(name, method):
    """The step moves the state to where the equations do, and keeps to round-off what the method says it keeps."""
    system, sol, truth = start(name)[0], run(name, method), run(name, "radau-iia-3", 4)
    moved = np.abs(truth.x[-1] - truth.x[0]).max()
    assert np.isfinite(sol.x).all()
    # multipliers in the state of a port-Hamiltonian system may be of first order in h
    assert np.abs(sol.x[-1] - truth.x[-1]).max() < (0.3 if isinstance(system, da.PortHamiltonian) else 2 * H) * moved
    for level in find(method).exact_levels if system.m else ():
        assert np.abs(sol.residual(level)).max(initial=0.0) < 1e-13, level
    if find(method).name in BALANCED:
        assert np.abs(sol.power_balance).max() < 1e-14 * max(np.abs(sol.energy).max(), 1.0)


PAIRS = [(name, method) for name in CATALOG for method in REGISTER]
ACCEPTED = [(name, method) for name, method in PAIRS if can(method, made(name))]
REFUSED = [pair for pair in PAIRS if pair not in ACCEPTED]


@pytest.mark.parametrize(("name", "method"), some(ACCEPTED))
def test_an_accepted_pair_takes_a_step(name, method):
    assert_step(name, method)


@cache
def works(name, method):
    """Whether a proposed method takes a step."""
    assert_step(name, method)
    return True


@pytest.mark.parametrize(("name", "method"), REFUSED)
def test_a_refusal_proposes_methods_that_take_a_step(name, method):
    """All of them are accepted, and the first takes its step; `lobatto-pair-s` stands for any number of stages."""
    with pytest.raises(da.MethodError) as caught:
        da.simulate(start(name)[0], method, t_end=H, step=H)
    told = str(caught.value)
    words = [word.removesuffix("-s") for word in re.findall(r"[a-z][a-z0-9*-]+", told.partition("; ")[2])]
    proposed = [word for word in dict.fromkeys(words) if word in REGISTER]
    assert proposed, told
    assert all(can(other, start(name)[0]) for other in proposed), told
    assert works(name, proposed[0])


def test_every_system_and_every_method_is_among_some():
    for k in range(2):
        found, known = ([pair[k] for pair in pairs] for pairs in (some(ACCEPTED), ACCEPTED))
        assert set(found) == set(known)
        assert all(found.count(name) >= min(2, known.count(name)) for name in known)
    assert set(some(ACCEPTED[::2], 1)) == set(ACCEPTED[::2])


def test_the_claims_are_found():
    """What is asserted of a step rests on these being found."""
    assert {"energy-momentum", "energy-momentum-ggl", "discrete-gradient", "ddr", "gradient-pair"} <= BALANCED
    assert len(ACCEPTED) > 400
    assert len(REFUSED) > 400


@pytest.mark.parametrize("name", CATALOG)
def test_diagnose_lists_the_methods_that_are_accepted(name):
    system = start(name)[0]
    accepted = {str(find(method)) for other, method in ACCEPTED if other == name and not find(method).external}
    assert set(da.diagnose(system).methods) == accepted - {str(find("composition"))}
