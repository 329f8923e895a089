"""The equations that a system states once are those of its motion."""

import casadi as ca
import numpy as np
import pytest
from casadi import SX

import dalembert as da
from conftest import angle_pendulum, driven_pendulum, polar_rod
from dalembert.methods.base import find
from dalembert.systems.form import Form, components, inverse_by_blocks

MECHANICS = {
    "double pendulum": da.catalog.double_pendulum,
    "damped particles": da.catalog.four_particles_damped,
    "angle": angle_pendulum,
    "polar rod": polar_rod,
    "driven": driven_pendulum,
    "disk": da.catalog.rolling_disk,
}


def rates(form: Form, values: dict[str, np.ndarray], par: np.ndarray, u: np.ndarray) -> dict[str, np.ndarray]:
    """The rates of all blocks: inertia^-1 times the right-hand side."""
    out = {}
    for name in form.y:
        inertia = form.inertia.get(name, SX.eye(form.y[name].numel()))
        f = ca.Function("f", [*form.y.values(), form.w, form.lam, form.t, form.u, form.par], [inertia, form.total(name)])
        arguments = [values[k] for k in form.y]
        w = values["v"] if form.w.numel() else np.zeros(0)
        A, b = (np.array(m.full()) for m in f(*arguments, w, values["lam"], 0.3, u, par))
        out[name] = np.linalg.solve(A, b[:, 0])
    return out


@pytest.mark.parametrize("name", MECHANICS)
def test_both_forms_and_the_hamiltonian_one_have_the_same_motion(name):
    """`v'` of the rate form, `p'` of the momentum form and of the Hamiltonian system belong to the same motion."""
    s = MECHANICS[name]()
    rng = np.random.default_rng(3)
    par, u, h = s.pack(), rng.normal(size=s.nu), SX.sym("h")
    q, v, lam = rng.normal(size=s.n), rng.normal(size=s.nv), rng.normal(size=s.m)
    p = s.numeric("momentum", par, q=q, v=v)[0]
    values = {"q": q, "v": v, "p": p, "lam": lam}
    plain, momenta = rates(s.rate_form(h), values, par, u), rates(s.form(h), values, par, u)
    assert np.abs(plain["q"] - momenta["q"]).max() < 1e-13
    moving = ca.Function("p", [s.q, s.v, s.par], [ca.jacobian(s.role("momentum"), s.q), s.expression("mass")])
    slope, M = (np.array(m.full()) for m in moving(q, v, par))
    p_rate = slope @ plain["q"] + M @ plain["v"]
    if "p" in momenta:
        assert np.abs(momenta["p"] - p_rate).max() < 1e-11 * (1 + np.abs(p_rate).max())
    other = s.to_hamiltonian()
    hamiltonian = rates(other.form(h), values, par, u)
    assert np.abs(hamiltonian["q"] - plain["q"]).max() < 1e-12 * (1 + np.abs(plain["q"]).max())
    assert np.abs(hamiltonian["p"] - p_rate).max() < 1e-11 * (1 + np.abs(p_rate).max())


@pytest.mark.parametrize(
    ("system", "method", "solves"),
    [
        (da.catalog.double_pendulum(), "rattle", [2, 2]),
        (da.catalog.double_pendulum().to_hamiltonian(), "rattle", [2, 2]),
        (da.catalog.double_pendulum(), "lobatto-pair-3", [8, 2]),
        (da.catalog.double_pendulum().to_hamiltonian(), "lobatto-pair-3", [8, 2]),
        (da.catalog.double_pendulum(), "gauss-2", [12]),
        (da.catalog.double_pendulum().to_hamiltonian(), "gauss-2", [12]),
        (da.catalog.double_pendulum(), "murua-2", [12]),
        (da.catalog.harmonic_oscillator(), "rk4", []),
        (da.catalog.harmonic_oscillator(), "rattle", []),
        (angle_pendulum(), "gauss-2", [4, 2]),
    ],
)
def test_what_is_explicit_is_no_unknown_and_what_follows_is_solved_later(system, method, solves):
    step = find(method).step(system)
    assert [s.unknowns.numel() for s in step.solves] == solves


def test_a_solve_needs_earlier_ones_only():
    step = find("lobatto-pair-4").step(polar_rod())
    later = SX(0, 1)
    for solve in reversed(step.solves):
        assert not later.numel() or not ca.depends_on(solve.residual, later)
        later = ca.vertcat(later, solve.unknowns)


def test_inverse_by_blocks():
    m = SX.sym("m")
    M = SX(5, 5)
    M[0, 0], M[1, 1], M[1, 3], M[3, 1], M[3, 3], M[2, 2], M[4, 4] = m, 2, 0.5, 0.5, 3, 1, 4
    M = ca.sparsify(M)
    assert sorted(components(M.sparsity())) == [[0], [1, 3], [2], [4]]
    product = ca.Function("f", [m], [inverse_by_blocks(M, SX.sym("q")) @ M])(2.5).full()
    assert np.abs(product - np.eye(5)).max() < 1e-15
    assert inverse_by_blocks(M, m) is None  # it varies
    assert inverse_by_blocks(SX.ones(7, 7), SX.sym("q")) is None  # too large
