"""Geometry of the step map: symplectic, reversible."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, consistent_start, polar_rod, skew_hamiltonian
from dalembert.methods.base import REGISTER

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


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("method", [n for n, m in REGISTER.items() if m.symplectic and m.index and "hamiltonian" in m.treats])
def test_symplectic_defect_of_the_step_map(method, name):
    make, values = SYSTEMS[name]
    system = make() if make is skew_hamiltonian else make().to_hamiltonian()
    if "v" in values:
        first = da.consistent(make(), **values)
        values = {"q": first.q, "p": first.p}
    start = da.consistent(system, **values)
    run = da.sensitivity(system, method, q=start.q, p=start.p, t_end=0.2, step=0.02)
    S = np.block([[run.jacobian(a, b) for b in "qp"] for a in "qp"])
    n = system.n
    Omega = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    B = tangent(system, start)
    defect = B.T @ (S.T @ Omega @ S - Omega) @ B
    assert np.abs(defect).max() < 1e-12 * max(1.0, np.abs(S).max() ** 2)


def test_midpoint_with_constraints_is_not_symplectic_where_rattle_is():
    """The test above can fail: the midpoint rule off the velocity constraint has a visible defect."""
    system = da.catalog.double_pendulum().to_hamiltonian()
    first = da.consistent(da.catalog.double_pendulum(), q=[0.8, -0.6, 1.4, -1.4], v=[0.3, 0.4, -0.2, 0.5])
    B = tangent(system, first)
    n = system.n
    Omega = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    defect = {}
    for method in ("rattle", da.methods.EnergyMomentum(gradient="itoh-abe")):
        run = da.sensitivity(system, method, q=first.q, p=first.p, t_end=0.2, step=0.02)
        S = np.block([[run.jacobian(a, b) for b in "qp"] for a in "qp"])
        defect[str(method)] = np.abs(B.T @ (S.T @ Omega @ S - Omega) @ B).max()
    assert defect["rattle"] < 1e-11
    assert defect["energy-momentum(gradient='itoh-abe')"] > 1e-5


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("method", [n for n, m in REGISTER.items() if m.symmetric and "mechanical" in m.treats and m.index])
def test_reversible_to_round_off(method, name):
    """Forward, velocities reversed, forward again: back at the start."""
    make, values = SYSTEMS[name]
    system = make()
    if system.kind not in REGISTER[method].treats:
        pytest.skip("no Hamiltonian form")
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
