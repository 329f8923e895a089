"""Derivatives of large systems: sparse sweeps agree with those of the same system written out."""

import numpy as np
import pytest

import dalembert as da
from dalembert.systems import composed

PAIRS = np.array([[0, 1], [1, 2]])


def build():
    """Particles in the plane: a rod, a spring with a damper, weights, and a force with an input."""

    def apart(q):
        return np.sqrt(np.dot(q[1] - q[0], q[1] - q[0]))

    def damping(q, d):
        along = np.concatenate([q[0] - q[1], q[1] - q[0]])
        return d * np.outer(along, along)

    elements = [
        da.Element(PAIRS[:1], holonomic=lambda q, l: apart(q) ** 2 - l**2, parameters={"l": np.ones(1)}, dimension=2),
        da.Element(PAIRS[1:], potential=lambda q, k: k * (apart(q) - 1) ** 2, dissipation=damping, dimension=2),
        da.Element(np.arange(3)[:, None], potential=lambda q, m: m * 9.81 * q[0, 1], dimension=2),
        da.Element([[4, 5]], force=lambda v, u: np.stack([-0.1 * v[0] ** 3, u[0]])),
    ]
    start = {"q": [0, 0, 1, 0, 2, 0.3], "v": [0, 0, 0, 1.0, 0, 0]}
    return da.Mechanical(
        6, mass=lambda m: m, inputs=1, potential=lambda q: 10 * (q[0] ** 2 + q[1] ** 4), elements=elements, dimension=2,
        parameters={"m": 1.3, "k": 30.0, "d": 0.3}, initial=start,
    )  # fmt: skip


@pytest.fixture
def both(monkeypatch):
    """The same system written out, and with vectors."""
    one = build()
    monkeypatch.setattr(composed, "LARGE", 0)
    monkeypatch.setattr(composed, "MANY", 0)
    two = build()
    assert two.many
    return one, two


def close(a, b):
    for name in b:
        np.testing.assert_allclose(a[name], b[name], rtol=0, atol=1e-10 * (1 + np.abs(b[name]).max(initial=0.0)), err_msg=name)


@pytest.mark.parametrize("method", ["rattle", "gauss-2", "energy-momentum", "lobatto-iiia-3"])
def test_agrees_with_the_system_written_out(both, method):
    options = {"t_end": 0.1, "step": 0.01, "u": np.cos, "compile": False}
    one, two = (da.sensitivity(s, method, **options) for s in both)
    costs = {"terminal": lambda q: q[5] ** 2 + q[0], "running": lambda v: np.sum(v**2)}
    close(two.gradient(**costs), one.gradient(**costs))
    for wrt in ("q", "l", "k", "d", "u"):
        close({wrt: two.jacobian("v", wrt)}, {wrt: one.jacobian("v", wrt)})
    direction = {"q": np.arange(6.0), "k": 1.0, "l": np.ones(1)}
    close(two.hessian_product(direction, **costs), one.hessian_product(direction, **costs))
    assert two.stats["sweeps"] == "sparse"
    assert one.stats["sweeps"] == "virtual machine"


def test_a_step_without_equations():
    """Explicit steps have none; their derivatives are products alone."""
    system = da.catalog.spring_net(20, 20)
    run = da.sensitivity(system, "rattle", t_end=0.02, step=0.01)
    found = run.jacobian("v", "g")
    small = 1e-4
    ends = [da.simulate(system, "rattle", t_end=0.02, step=0.01, parameters={"g": 9.81 + d}).v[-1] for d in (small, -small)]
    assert np.abs(found - (ends[0] - ends[1]) / (2 * small)).max() < 1e-9
    assert run.stats["sweeps"] == "sparse"
