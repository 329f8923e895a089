"""Geometry of the step map: symplectic, reversible."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import STEPPING, angle_pendulum, can, consistent_start, polar_rod, skew_hamiltonian, some, with_stages
from dalembert.methods.base import find

SYSTEMS = {
    "double pendulum": (da.catalog.double_pendulum, {"q": [0.8, -0.6, 1.4, -1.4], "v": [0.3, 0.4, -0.2, 0.5]}),
    "spherical pendulum": (da.catalog.spherical_pendulum, {}),
    "angles": (angle_pendulum, {}),
    "polar": (polar_rod, {}),
    "skew": (skew_hamiltonian, {"q": [0.6, 0.3, 0.5], "p": [0.2, -0.4, 0.3]}),
    "four particles": (da.catalog.four_particles, {}),
}


def tangent(system, start):
    """A basis of the tangent space of {g = 0, G H_p = 0} in (q, p)."""
    h = system if system.momenta == "p" else system.to_hamiltonian()
    if not h.m:
        return np.eye(2 * h.n)
    levels = ca.vertcat(h.expression("holonomic"), h.role("drift", v=h.role("velocity")))
    C = ca.Function("C", [h.q, h.p, h.t, h.par], [ca.jacobian(levels, ca.vertcat(h.q, h.p))])
    _, _, V = np.linalg.svd(C(start.q, start.p, 0.0, h.pack()).full())
    return V[2 * h.m :].T


def form(n):
    return np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])


def in_momenta(name):
    """A system of the list in its Hamiltonian form."""
    make = SYSTEMS[name][0]
    return make() if make is skew_hamiltonian else make().to_hamiltonian()


SYMPLECTIC = [name for name in STEPPING if find(name).symplectic]
# symplectic on free systems: they keep quadratic invariants
QUADRATIC = ["gauss-1", "gauss-2", "gauss-3", *(m for m in with_stages(3) if m.startswith("lobatto-iiid-"))]


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name in SYSTEMS for method in SYMPLECTIC if can(method, in_momenta(name))]
)
def test_symplectic_defect_of_the_step_map(method, name):
    make, values = SYSTEMS[name]
    system = in_momenta(name)
    if "v" in values:
        first = da.consistent(make(), **values)
        values = {"q": first.q, "p": first.p}
    start = da.consistent(system, **values)
    run = da.sensitivity(system, method, q=start.q, p=start.p, t_end=0.2, step=0.02)
    S = np.block([[run.jacobian(a, b) for b in "qp"] for a in "qp"])
    B, Omega = tangent(system, start), form(system.n)
    defect = B.T @ (S.T @ Omega @ S - Omega) @ B
    assert np.abs(defect).max() < 1e-12 * max(1.0, np.abs(S).max() ** 2)


def test_midpoint_with_constraints_is_not_symplectic_where_rattle_is():
    """The test above can fail: the midpoint rule off the velocity constraint has a visible defect."""
    system = da.catalog.double_pendulum().to_hamiltonian()
    first = da.consistent(da.catalog.double_pendulum(), q=[0.8, -0.6, 1.4, -1.4], v=[0.3, 0.4, -0.2, 0.5])
    B, Omega = tangent(system, first), form(system.n)
    defect = {}
    for method in ("rattle", da.methods.EnergyMomentum(gradient="itoh-abe")):
        run = da.sensitivity(system, method, q=first.q, p=first.p, t_end=0.2, step=0.02)
        S = np.block([[run.jacobian(a, b) for b in "qp"] for a in "qp"])
        defect[str(method)] = np.abs(B.T @ (S.T @ Omega @ S - Omega) @ B).max()
    assert defect["rattle"] < 1e-11
    assert defect["energy-momentum(gradient='itoh-abe')"] > 1e-5


CART = {"M": 2.0, "m": 1.0, "l": 0.8, "g": 9.81, "k": 3.0}


def cart():
    """A pendulum in its angle on a cart with a spring: M(q), free."""
    return da.Mechanical(
        ("x", "a"),
        mass=lambda q, M, m, l: [[M + m, m * l * np.cos(q[1])], [m * l * np.cos(q[1]), m * l**2]],
        potential=lambda q, m, l, g, k: k * q[0] ** 2 / 2 - m * g * l * np.cos(q[1]),
        parameters=CART,
        initial={"q": [0.2, 0.9], "v": [0.3, -0.5]},
    )


def cart_momenta(q, v):
    """d(q, p) / d(q, v) of p = M(q) v."""
    M, m, l = CART["M"], CART["m"], CART["l"]
    c, s = m * l * np.cos(q[1]), m * l * np.sin(q[1])
    slope = [[0.0, -s * v[1]], [0.0, -s * v[0]]]
    return np.block([[np.eye(2), np.zeros((2, 2))], [np.array(slope), np.array([[M + m, c], [c, m * l**2]])]])


def rod_momenta(q, v):
    """The same of the mass on a circle in polar coordinates, M = diag(m, m r^2)."""
    m = 2.0
    slope = [[0.0, 0.0], [2 * m * q[0] * v[1], 0.0]]
    return np.block([[np.eye(2), np.zeros((2, 2))], [np.array(slope), np.diag([m, m * q[0] ** 2])]])


# the system, its momenta, and the tangent space of its constraints in (q, p)
IN_VELOCITIES = {"cart": (cart, cart_momenta, np.eye(4)), "rod": (polar_rod, rod_momenta, np.eye(4)[:, [1, 3]])}


def defect_in_momenta(name, method):
    """The symplectic defect in (q, p = M(q) v) of two steps of the system as it was given, in (q, v)."""
    make, momenta, B = IN_VELOCITIES[name]
    run = da.sensitivity(make(), method, t_end=0.1, step=0.05)
    q, v = run.solution.q, run.solution.v
    S = np.block([[run.jacobian(a, b) for b in "qv"] for a in "qv"])
    S = momenta(q[-1], v[-1]) @ S @ np.linalg.inv(momenta(q[0], v[0]))
    return np.abs(B.T @ (S.T @ form(2) @ S - form(2)) @ B).max()


def velocity_cases():
    for method in dict.fromkeys([*SYMPLECTIC, *QUADRATIC, *(m for m in with_stages(3) if find(m).symplectic)]):
        yield pytest.param("cart", method)
        if can(method, polar_rod()) and find(method).symplectic:
            yield pytest.param("rod", method)


@pytest.mark.parametrize(("name", "method"), list(velocity_cases()))
def test_symplectic_defect_in_momenta_of_the_mechanical_form(name, method):
    assert defect_in_momenta(name, method) < 1e-12


def test_other_methods_have_a_defect_in_momenta():
    """The test above can fail: radau-iia is not symplectic, energy-momentum neither."""
    assert defect_in_momenta("cart", "radau-iia-3") > 1e-10
    assert defect_in_momenta("cart", "energy-momentum") > 1e-5


# the particles are there for gradients that know their pairs: for other methods they are one more system with a constant mass
REVERSIBLE = [
    (n, m) for n, (make, _) in SYSTEMS.items() for s in [make()] for m in STEPPING
    if find(m).symmetric and can(m, s) and (n != "four particles" or "energy-momentum" in m)
]  # fmt: skip


@pytest.mark.parametrize(("name", "method"), some(REVERSIBLE, of=2))
def test_reversible_to_round_off(method, name):
    """Forward, velocities reversed, forward again: back at the start."""
    make, values = SYSTEMS[name]
    system = make()
    second = system.momenta
    start = consistent_start(system, **values)
    there = da.simulate(system, method, **start, t_end=1.0, step=0.01)
    back = da.simulate(system, method, q=there.q[-1], **{second: -there.x[-1, system.n :]}, t_end=1.0, step=0.01)
    np.testing.assert_allclose(back.q[-1], start["q"], atol=1e-11)
    np.testing.assert_allclose(-back.x[-1, system.n :], start[second], atol=1e-10)


def test_rattle_is_equivariant_under_rotation_of_free_particles():
    system = da.catalog.four_particles()
    sol = da.simulate(system, "rattle", t_end=5.0, step=0.01)
    J, L = sol.momentum("angular"), sol.momentum("linear")
    assert np.abs(J - J[0]).max() < 1e-12
    assert np.abs(L - L[0]).max() < 1e-13
