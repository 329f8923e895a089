"""Systems of many elements: nothing of theirs is written out, and everything agrees with what is."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.systems import composed


def machine():
    """Particles in the plane with rods, springs, dampers, weights, a force with inputs, and parts that are no elements."""
    n, c = 6, np.array([[1, 0, -1, 0], [0, 1, 0, -1], [-1, 0, 1, 0], [0, -1, 0, 1.0]])
    pairs = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)

    def distance(q):
        return np.sqrt(np.dot(q[1] - q[0], q[1] - q[0]))

    elements = [
        da.Element(pairs[:3], holonomic=lambda q, l: distance(q) ** 2 - l**2, parameters={"l": np.ones(3)}, dimension=2),
        da.Element(
            pairs[3:], potential=lambda q, k: k * (distance(q) - 1) ** 2, parameters={"k": np.array([30.0, 40])}, dimension=2
        ),
        da.Element(np.arange(n)[:, None], potential=lambda q, m, g: m * g * q[0, 1], dimension=2),
        da.Element(pairs[3:], dissipation=lambda d: d * c, parameters={"d": 0.3}, dimension=2),
        da.Element([[10, 11]], force=lambda v, t, u: np.stack([np.sin(t) - 0.1 * v[0] ** 3, u[0]])),
    ]
    start = np.stack([np.arange(n), np.zeros(n)], axis=1).ravel()
    return da.Mechanical(
        2 * n, mass=lambda m: m, inputs=1, potential=lambda q: 10 * (q[0] ** 2 + q[1] ** 2), elements=elements,
        parameters={"m": 1.3, "g": 9.81}, dimension=2, initial={"q": start, "v": np.zeros(2 * n)},
    )  # fmt: skip


def moving():
    """Rods of which the constraints move, one of which is linear."""
    elements = [
        da.Element([[0, 1], [2, 3]], holonomic=lambda q, t: q[0] - np.sin(t) * q[1]),
        da.Element([[0, 1], [2, 3]], potential=lambda q, t: q[0] ** 2 + q[1] ** 2 + np.cos(q[0]) * q[1] * t / 10),
    ]
    start = {"q": [0, 1.0, 0, 2.0], "v": [1.0, 0, 2.0, 0]}
    return da.Mechanical(4, mass=lambda m: m, elements=elements, parameters={"m": 1.0}, initial=start)


@pytest.fixture
def both(monkeypatch):
    """The same system written out, and with vectors."""

    def make(build):
        monkeypatch.setattr(composed, "LARGE", 10**9)
        one = build()
        monkeypatch.setattr(composed, "LARGE", 0)
        monkeypatch.setattr(composed, "MANY", 0)
        two = build()
        assert not one.many
        assert two.many
        assert two.vectors is not two
        return one, two

    return make


METHODS = [
    "rattle", "lobatto-pair-3", "gauss-2", "murua-ggl-2", "spark-2", "srk-gauss-2", "radau-iia-2", "midpoint", "energy-momentum",
    "energy-momentum-ggl", "variational", "cortes-martinez", "mclachlan-perlmutter", da.compose("energy-momentum"),
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_methods_agree_with_what_is_written_out(both, method):
    for build, u in ((machine, np.cos), (moving, None)):
        one, two = (da.simulate(s, method, t_end=0.1, step=0.01, u=u, compile=False) for s in both(build))
        assert np.abs(one.q - two.q).max() < 1e-13
        assert np.abs(one.v - two.v).max() < 1e-12
        assert np.abs(one.power_balance - two.power_balance).max() < 1e-12
        assert np.abs(one.residual("position") - two.residual("position")).max() < 1e-13
        assert two.stats["engine"] == "sparse"


ROLES = [
    "potential", "holonomic", "dissipation", "force", "slope", "energy", "energy_slope", "normal", "jacobian", "rate", "drift",
    "curvature", "radius", "momentum", "kinetic",
]  # fmt: skip


@pytest.mark.parametrize("build", [machine, moving])
def test_all_roles_agree(both, build):
    one, two = both(build)
    rng = np.random.default_rng(1)
    at = {name: rng.normal(size=one.size_of(name)) for name in ("q", "v", "u")} | {"t": 0.7}
    for role in ROLES:
        if role in ("dissipation", "force") and not one.has(role):
            assert not two.has(role)
            continue
        values = [np.array(s.value(role, s.pack(), **at).full()) for s in (one, two)]
        assert np.abs(values[0] - values[1]).max() < 1e-13 * (1 + np.abs(values[0]).max()), role
        assert isinstance(two.role(role), ca.SX)  # a system's own expressions are those of single numbers
        written = ca.Function("f", two.symbols(), [two.role(role)])(at["q"], at["v"], at["v"], 0.7, at["u"], two.pack())
        assert np.abs(values[0] - written.full()).max() < 1e-13 * (1 + np.abs(values[0]).max()), role
    assert one.moving == two.moving
    assert one.velocity_forces == two.velocity_forces
    assert one.stated() == two.stated() or set(one.stated()) == set(two.stated())
    assert [one.mh, one.m, one.driven] == [two.mh, two.m, two.driven]


@pytest.mark.parametrize("build", [machine, moving])
def test_groups_are_those_of_the_written_system(both, build):
    one, two = both(build)
    expected = one._groups(one.v, one.v, one.force() + one.expression("mass") @ one.v)
    assert composed.groups(two) == expected
    assert composed.groups(two.vectors) == expected


def test_conversions_and_files_write_it_out(both):
    one, two = both(machine)
    again = da.Mechanical.loads(two.dumps())
    kwargs = {"t_end": 0.05, "step": 0.01, "u": np.cos, "compile": False}
    expected = da.simulate(one, "rattle", **kwargs)
    for system in (again, da.Mechanical.loads(one.dumps())):
        assert np.abs(da.simulate(system, "rattle", **kwargs).q - expected.q).max() < 1e-13
    sums = [s.to_hamiltonian().numeric("hamiltonian", s.pack(), q=s.initial["q"], p=np.ones(12)) for s in (one, two)]
    assert sums[0] == pytest.approx(sums[1], rel=1e-14)


@pytest.mark.parametrize("mass", [lambda: np.eye(4) + 0.1, lambda q: np.eye(4) * (2 + np.sin(q[0]))])
def test_other_masses_are_written_out(both, mass):
    def build():
        spring = da.Element([[0, 1], [1, 2], [2, 3]], potential=lambda q: (q[1] - q[0]) ** 2 + q[0] ** 4)
        return da.Mechanical(4, mass=mass, elements=[spring], initial={"q": [0, 1.0, 0, 2.0], "v": np.zeros(4)})

    one, two = (da.simulate(s, "gauss-2", t_end=0.05, step=0.01, compile=False) for s in both(build))
    assert np.abs(one.q - two.q).max() < 1e-14


def test_set_up_does_not_write_out_many_elements():
    system = da.catalog.net(40, 40)
    assert system.many
    da.simulate(system, "rattle", t_end=0.002, step=0.001)
    assert not system.cache.count(ca.SX) or all(ca.n_nodes(e) < 20_000 for e in system.cache._kept[ca.SX].values())
