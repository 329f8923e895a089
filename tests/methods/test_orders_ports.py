"""Orders of every registered method on nonlinear port-Hamiltonian systems: E regular, index 1 and index 2."""

from functools import cache

import numpy as np
import pytest

import dalembert as da
from conftest import SINGLE, assert_order, can, classical_order, some, with_stages
from dalembert.methods.base import find


@cache
def regular():
    """E(x) and J(x) turn with the state, friction grows with it, an input drives it."""
    return da.PortHamiltonian(
        2, hamiltonian=lambda x: x[0] ** 4 / 4 + np.cosh(x[1]) + x[0] * x[1] / 2, E=lambda x: [[1 + x[0] ** 2, 0], [0, 1]],
        J=lambda x: [[0, 1 + x[1] ** 2 / 4], [-1 - x[1] ** 2 / 4, 0]], R=lambda x: [[0, 0], [0, 0.1 * (1 + x[0] ** 2)]],
        B=[[0], [1]], z=lambda x: [(x[0] ** 3 + x[1] / 2) / (1 + x[0] ** 2), np.sinh(x[1]) + x[0] / 2], initial={"x": [0.9, 0.2]},
    )  # fmt: skip


@cache
def index_one():
    """x1' = z2, 0 = -z1 - z2 - z2^3 with H = 4 x1^4 + 2 x1^2."""
    return da.PortHamiltonian(
        2, hamiltonian=lambda x: 4 * x[0] ** 4 + 2 * x[0] ** 2, E=[[1, 0], [0, 0]], J=[[0, 1], [-1, 0]],
        R=lambda x: [[0, 0], [0, 1 + x[1] ** 2]], z=lambda x: [16 * x[0] ** 3 + 4 * x[0], x[1]],
        initial={"x": [0.5, -1.6890254]},
    )  # fmt: skip


@cache
def index_two():
    return da.catalog.double_pendulum().to_port_hamiltonian()


SYSTEMS = {"regular": (regular, 2.0), "index 1": (index_one, 1.5), "index 2": (index_two, 0.5)}
COUNTS = {
    1: (100, 140, 200, 280), 2: (100, 140, 200, 280), 3: (100, 140, 200, 280), 4: (60, 80, 100, 140), 5: (40, 52, 64, 80),
    6: (24, 32, 40, 52),
}  # fmt: skip


def cases():
    for name, (make, _) in SYSTEMS.items():
        system = make()
        for method in (*SINGLE, *with_stages(3)):
            if can(method, system):
                yield pytest.param(name, method, id=f"{method}-{name}")


@cache
def run(name, method, count):
    make, t_end = SYSTEMS[name]
    start = dict(da.consistent(make())) if name == "index 1" else {}
    u = {"u": lambda t: [np.sin(3 * t)]} if make().nu else {}
    return da.simulate(make(), method, t_end=t_end, step=t_end / count, save_every=count // 4, compile=False, **start, **u).x[1:]


@pytest.mark.parametrize(("name", "method"), some(list(cases()), 2, 1))
def test_orders(name, method):
    """Differential states and positions have the order of the ODE.

    So have algebraic states at index 1, which follow from their equations at the end of a step. Velocities at index 2 have that
    of the index-2 form.
    """
    t_end, truth = SYSTEMS[name][1], run(name, "radau-iia-6", 200)
    classical, low = classical_order(method) if method not in SINGLE else find(method).order[0], find(method).order[1]
    parts = {
        "regular": {"x": (slice(2), classical)},
        "index 1": {"x": (slice(2), classical)},
        "index 2": {"q": (slice(4), classical), "v": (slice(4, 8), low)},
    }[name]
    for part, (of, order) in parts.items():
        errors = [np.abs(run(name, method, n) - truth)[:, of].max() for n in COUNTS[order]]
        assert_order(errors, t_end / np.array(COUNTS[order]), order, 1e-13, part)


MULTIPLIERS = {"radau-iia-2": 2, "radau-iia-3": 3, "lobatto-iiic-2": 1, "lobatto-iiic-3": 2, "radau-ia-2": 2, "radau-ia-3": 3}


@pytest.mark.parametrize("method", MULTIPLIERS)
def test_orders_of_multipliers_at_index_two(method):
    """As a part of the state: s for Radau IIA, s - 1 for Lobatto IIIC (Hairer, Lubich, Roche 1989, table 2.3).

    Those of Radau IA follow from the hidden equation, and have the order of the velocities.
    """
    order = MULTIPLIERS[method]
    errors = [np.abs(run("index 2", method, n) - run("index 2", "radau-iia-6", 200))[:, 8:].max() for n in COUNTS[order]]
    assert_order(errors, 0.5 / np.array(COUNTS[order]), order)


HIDDEN = {"gauss-1": 2, "gauss-2": 2, "gauss-3": 4, "gauss-4": 4, "midpoint": 2, "radau-ia-3": 3, "lobatto-iiid-3": 4}


@pytest.mark.parametrize("method", HIDDEN)
@pytest.mark.parametrize("lam", [1.25, 77.0])
def test_multipliers_of_methods_that_do_not_end_with_a_stage(method, lam):
    """They follow from the hidden equation at the end of each step, whatever they were at the start."""
    system, counts = da.catalog.windy_pendulum(), np.array([40, 80, 160])
    start = {"x": [1.0, 0.0, 0.0, 0.5, lam], "t_end": 1.0, "compile": False}
    truth = da.simulate(system, "radau-iia-5", step=1 / 320, **start).x[-1]
    runs = [da.simulate(system, method, step=1 / n, **start).x[-1] for n in counts]
    assert abs(truth[-1]) > 1
    for part in (slice(0, 4), slice(4, 5)):
        errors = np.array([np.abs(x[part] - truth[part]).max() for x in runs])
        slopes = np.log2(errors[:-1] / errors[1:])
        assert slopes.min() > HIDDEN[method] - 0.25, (part, slopes)


def test_consistent_values_of_hidden_multipliers():
    windy = da.catalog.windy_pendulum()
    start = da.consistent(windy, x=[1.0, 0.0, 0.0, 0.5, 77.0])
    np.testing.assert_allclose(start["x"], [1.0, 0.0, 0.0, 0.5, 0.25], atol=1e-14)
    carts = da.catalog.three_carts()
    for method in ("gauss-2", "radau-iia-3", "discrete-gradient"):
        sol = da.simulate(carts, method, t_end=0.5, step=0.05)
        assert sol.x[0, -1] == pytest.approx(-5 / 6, abs=1e-14)
