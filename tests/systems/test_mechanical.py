"""Systems: shapes, derivatives, checks at construction, conversion, files."""

import pickle

import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, driven_pendulum, polar_rod, skew_hamiltonian
from dalembert.catalog import _MAKERS
from dalembert.engine.case import prepare
from dalembert.errors import ModelError, UnknownKeyword
from dalembert.methods.base import find
from dalembert.systems import System
from dalembert.systems.constrained import Constrained

SYSTEMS = [*_MAKERS, angle_pendulum, polar_rod, driven_pendulum, skew_hamiltonian]
CONSTRAINED = [make for make in SYSTEMS if isinstance(make(), Constrained) and make().m]


@pytest.mark.parametrize("make", CONSTRAINED, ids=lambda f: f.__name__)
def test_derivatives_agree_with_differences(make):
    system = make()
    par, rng = system.pack(), np.random.default_rng(3)
    q, v, t = rng.uniform(0.4, 1.2, system.n), rng.normal(size=system.n), 0.3
    d = 1e-6
    G = system.numeric("jacobian", par, q=q, t=t)[0].reshape(system.m, system.n)
    drift = [system.numeric("drift", par, q=q + s * v, v=v, t=t + s)[0] for s in (-1e-5, 1e-5)]
    np.testing.assert_allclose(
        system.numeric("curvature", par, q=q, v=v, t=t)[0], (drift[1] - drift[0]) / 2e-5, atol=1e-7, rtol=1e-7
    )
    if system.mn:  # linear in v
        np.testing.assert_allclose(
            G[system.mh :] @ v + system.numeric("rate", par, q=q, t=t)[0][system.mh :],
            system.numeric("nonholonomic", par, q=q, v=v, t=t)[0],
            atol=1e-12,
        )
        return
    for i in range(system.n):
        e = d * np.eye(system.n)[i]
        slope = (system.numeric("holonomic", par, q=q + e, t=t) - system.numeric("holonomic", par, q=q - e, t=t))[0] / (2 * d)
        np.testing.assert_allclose(G[:, i], slope, atol=1e-8)
    rate = (system.numeric("holonomic", par, q=q, t=t + d) - system.numeric("holonomic", par, q=q, t=t - d))[0] / (2 * d)
    np.testing.assert_allclose(system.numeric("rate", par, q=q, t=t)[0], rate, atol=1e-8)
    # second derivative along a straight motion: g'' = curvature, since v' = 0
    g = [system.numeric("holonomic", par, q=q + s * v, t=t + s)[0] for s in (-1e-4, 0.0, 1e-4)]
    second = (g[0] - 2 * g[1] + g[2]) / 1e-8
    np.testing.assert_allclose(system.numeric("curvature", par, q=q, v=v, t=t)[0], second, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("make", SYSTEMS, ids=lambda f: f.__name__)
def test_systems_survive_text_and_pickle(make):
    system = make()
    par, rng = system.pack(), np.random.default_rng(1)
    at = {name: rng.uniform(0.3, 1.0, system.size_of(name)) for name in system.variables} | {"t": 0.2}
    for copy in (System.loads(system.dumps()), pickle.loads(pickle.dumps(system))):
        assert type(copy) is type(system)
        assert copy.parameters.keys() == system.parameters.keys()
        np.testing.assert_array_equal(copy.numeric("energy", par, **at), system.numeric("energy", par, **at))


def test_hamiltonian_form_agrees():
    system = angle_pendulum()
    other = system.to_hamiltonian()
    par = system.pack()
    q, v = np.array([0.3, -0.8]), np.array([1.2, 0.5])
    p = system.numeric("momentum", par, q=q, v=v)[0]
    np.testing.assert_allclose(other.numeric("energy", par, q=q, p=p), system.numeric("energy", par, q=q, v=v), rtol=1e-14)
    np.testing.assert_allclose(other.numeric("velocity", par, q=q, p=p)[0], v, rtol=1e-14)
    np.testing.assert_allclose(other.numeric("kinetic", par, q=q, p=p), system.numeric("kinetic", par, q=q, v=v), rtol=1e-13)


def test_masses_may_be_a_number_a_diagonal_or_a_matrix():
    forms = [2.0, [2.0, 2.0], 2 * np.eye(2), lambda m: m, lambda m: [m, m], lambda m: m * np.eye(2), lambda m: np.diag([m, m])]
    for mass in forms:
        system = da.Mechanical(2, mass=mass, parameters={"m": 2.0})
        np.testing.assert_array_equal(system.numeric("mass", system.pack(), q=np.zeros(2))[0], 2 * np.eye(2))
        assert system.constant_mass


def test_inverse_of_block_masses():
    blocks = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 5.0]])
    system = da.Mechanical(3, mass=lambda k: k * blocks, parameters={"k": 2.0})
    import casadi as ca

    inverse = ca.Function("f", [system.par], [system.inverse_mass()])(system.pack()).full()
    np.testing.assert_allclose(inverse, np.linalg.inv(2 * blocks), atol=1e-15)


def test_nonholonomic_constraints_are_declared_and_checked():
    system = da.Mechanical(3, mass=1.0, nonholonomic=lambda q, v: v[0] * np.sin(q[2]) - v[1] * np.cos(q[2]))
    assert system.has("nonholonomic")
    matrix = da.Mechanical(3, mass=1.0, nonholonomic=lambda q: [[np.sin(q[2]), -np.cos(q[2]), 0.0]])
    at = {"q": [0.1, 0.2, 0.3], "v": [1.0, 2.0, 3.0]}
    np.testing.assert_allclose(
        system.numeric("nonholonomic", system.pack(), **at), matrix.numeric("nonholonomic", matrix.pack(), **at)
    )
    with pytest.raises(ModelError, match="constraint 1 is not linear in v"):
        da.Mechanical(3, mass=1.0, nonholonomic=lambda v: v[0] * v[1])
    with pytest.raises(ModelError, match="does not depend on v"):
        da.Mechanical(3, mass=1.0, nonholonomic=lambda q: [q[0]])
    with pytest.raises(da.MethodError, match="nonholonomic"):
        da.simulate(system, "rattle", q=[0, 0, 0], v=[0, 0, 0], t_end=1, step=0.1)


BASE = dict(mass=1.0, parameters={"k": 1.0})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(mass=[[1.0, 2.0], [0.0, 1.0]]), r"mass is not symmetric: entry \(1, 2\) is 2"),
        (dict(mass=np.ones((3, 3))), "mass has the shape"),
        (dict(mass=1.0, potential=lambda q: q), "potential must return one number"),
        (dict(mass=1.0, potential=lambda q, kk: kk * q[0], parameters={"k": 1.0}), "unknown argument 'kk'; did you mean 'k'"),
        (dict(mass=1.0, potential=float("nan")), "potential has nan"),
        (dict(mass=1.0, potential="V"), "must be a function or a constant"),
        (dict(mass=1.0, holonomic=lambda q: [q[0], 3.0]), "constraint 2 does not depend on q"),
        (dict(mass=1.0, holonomic=lambda q, v: v[0]), "holonomic cannot depend on 'v'"),
        (dict(mass=1.0, dissipation=[[0.0, 1.0], [-1.0, 0.0]]), "dissipation is not symmetric"),
        (dict(mass=1.0, dissipation=-1.0), "not positive semidefinite"),
        (dict(mass=1.0, force=lambda q: [q[0]]), "force must return 2 entries"),
        (dict(mass=1.0, inputs=np.ones((3, 1))), "inputs must return a matrix with 2 rows"),
        (dict(mass=1.0, parameters={"q": 1.0}), "a name|meaning of its own"),
        (dict(mass=1.0, parameters={"k": "stiff"}), "must be a number"),
        (dict(mass=1.0, parameters={"k": np.inf}), "must be finite"),
        (dict(mass=1.0, invariants=lambda q: q[0] ** 3), "invariant 1 is not quadratic"),
        (dict(mass=1.0, dimension=3), "cannot be particles in 3"),
    ],
)
def test_bad_systems_are_refused(arguments, message):
    with pytest.raises(ModelError, match=message):
        da.Mechanical(2, **arguments)


def test_bad_coordinates_are_refused():
    for bad, message in (("xy", "tuple of names"), (0, "at least one"), (("x", "x"), "named twice"), ((), "at least one")):
        with pytest.raises(ModelError, match=message):
            da.Mechanical(bad, mass=1.0)


def test_unknown_keywords_are_refused_with_a_suggestion():
    with pytest.raises(UnknownKeyword, match="no keyword 'holonmic'; did you mean 'holonomic'"):
        da.Mechanical(2, mass=1.0, holonmic=lambda q: q[0])
    with pytest.raises(UnknownKeyword, match="did you mean 'hamiltonian'"):
        da.Hamiltonian(1, hamiltonian=lambda p: p[0] ** 2, hamiltonain=1.0)


def test_a_hamiltonian_needs_kinetic_energy():
    with pytest.raises(ModelError, match="momentum of 'b'"):
        da.Hamiltonian(("a", "b"), hamiltonian=lambda q, p: p[0] ** 2 + q[1] ** 2)


def test_parameters_are_replaced_by_name():
    system = da.catalog.double_pendulum()
    assert system.unpack(system.pack({"m2": 5.0}))["m2"] == 5.0
    with pytest.raises(ModelError, match="no parameter 'm3'; did you mean"):
        system.pack({"m3": 1.0})
    with pytest.raises(ModelError, match="declared with"):
        system.pack({"m1": [1.0, 2.0]})


def test_changing_a_parameter_rebuilds_nothing():
    system = da.catalog.simple_pendulum()
    da.simulate(system, "rattle", t_end=0.1, step=0.01)
    built = prepare(system, find("rattle"))
    sol = da.simulate(system, "rattle", t_end=0.1, step=0.02, parameters={"g": 1.62})
    assert prepare(system, find("rattle")) is built
    assert sol.parameters["g"] == 1.62


def test_the_form_of_index_zero_has_the_multipliers_as_states():
    """Hilden 2009, eq. 2.12: of the rolling disk, in which `lam1' = m R phi'^2 theta' cos(phi)` with our sign of `lam`."""
    disk = da.catalog.rolling_disk()
    start = da.consistent(disk)
    sol = da.simulate(disk.to_dae("index0"), "rk4", y=[*start.q, *start.v, *start.lam], t_end=1.0, step=0.01)
    np.testing.assert_allclose(sol.y[-1, :4], da.catalog.rolling_disk_solution(1.0), atol=1e-8)
    phi = sol.y[:, 2]
    np.testing.assert_allclose(sol.z, np.stack([np.cos(phi), np.sin(phi)], axis=1) * 0.25 * 4.0, atol=1e-7)
    fall = da.catalog.double_pendulum()
    start = da.consistent(fall, q=[0.8, -0.6, 1.6, -1.2])
    sol = da.simulate(fall.to_dae("index0"), "gauss-3", y=[*start.q, *start.v, *start.lam], t_end=0.5, step=0.01)
    other = da.simulate(fall, "murua-ggl-3", q=start.q, v=start.v, t_end=0.5, step=0.01)
    np.testing.assert_allclose(sol.y[-1], np.concatenate([other.q[-1], other.v[-1], other.lam[-1]]), atol=1e-8)


def test_a_hamiltonian_that_is_a_constant_nan_is_refused_by_its_name():
    with pytest.raises(da.ModelError, match="hamiltonian has nan as its entry 1"):
        da.Hamiltonian(("x",), hamiltonian=lambda q, p: np.nan)


def test_numbers_are_parameters_where_that_is_asked_for():
    """Constants by the names of their roles, or parameters that stand in place of functions; the motion is the same."""
    given = {"mass": [1.0, 2.0], "dissipation": 0.3, "force": [0.0, -9.81]}
    start = {"q": [0.0, 0.0], "v": [1.0, 0.5], "t_end": 0.5, "step": 0.01}
    plain = da.Mechanical(2, **given)
    named = da.Mechanical(2, **given, parameters=True)
    own = da.Mechanical(2, mass="m", dissipation="c", force=given["force"], parameters={"m": np.diag([1.0, 2.0]), "c": 0.3})
    assert (list(plain.parameters), list(named.parameters), list(own.parameters)) == ([], list(given), ["m", "c"])
    reference = da.simulate(plain, "energy-momentum", **start)
    for system in (named, own):
        np.testing.assert_allclose(da.simulate(system, "energy-momentum", **start).q, reference.q, rtol=0, atol=1e-15)
    free = da.simulate(named, "energy-momentum", **start, parameters={"dissipation": 0.0, "mass": [3.0, 4.0]})
    np.testing.assert_allclose(free.q[-1], [0.5, 0.25 - 9.81 / 8 * 0.25], rtol=1e-12)
    assert list(da.Mechanical(1, mass=1.0, parameters=False).parameters) == []
    with pytest.raises(da.ModelError, match="or name a parameter, not be 'mm'; did you mean 'm'"):
        da.Mechanical(1, mass="mm", parameters={"m": 1.0})
