"""Entries of the page of errata that a few lines can show."""

import numpy as np
import pytest
import sympy

import dalembert as da
from dalembert.analysis.reduction import ode
from dalembert.experiments.solvers import newton
from dalembert.methods import McLachlanPerlmutter
from dalembert.methods.tableaus import tableau
from dalembert.systems import LinearDAE


def test_slider_without_mass_is_singular():
    """Symank, sec. 2.2.2."""
    phi = sympy.symbols("phi")
    M = sympy.Matrix([[1, sympy.cos(phi)], [sympy.cos(phi), 1]])
    assert sympy.simplify(M.det() - sympy.sin(phi) ** 2) == 0


def test_time_as_a_state_has_rate_one():
    """Symank, sec. 4.2.3: printed, the entries of B and P cancel, and W is not semidefinite."""
    printed = np.array([[0.0, 1.0], [1.0, 0.0]])  # of t and its input: R = 0, P = 1, S = 0
    assert np.linalg.eigvalsh(printed).min() == -1.0
    system = da.PortHamiltonian(
        1, hamiltonian=lambda x, t: x[0] ** 2 * (2 + np.sin(t)) / 2, J=[[0.0]], R=[[0.1]],
        r=lambda x, t: [x[0] * np.cos(t) / (2 * (2 + np.sin(t)))], initial={"x": [1.0]},
    )  # fmt: skip
    sol = da.simulate(system.autonomous(), "gauss-2", x=[1.0, 0.0], u=[1.0], t_end=1.0, step=0.1)
    np.testing.assert_allclose(sol.x[:, 1], sol.t, atol=1e-14)


def test_mass_matrix_of_positions_needs_its_rate():
    """Symank, sec. 4.4.1, in polar coordinates: M v' = -grad H is r'' = -r theta'^2, the motion has r'' = r theta'^2."""
    polar = da.Lagrangian(2, lagrangian=lambda q, v: (v[0] ** 2 + q[0] ** 2 * v[1] ** 2) / 2)
    x = np.array([2.0, 0.3, 0.1, 0.7])
    right = ode(polar)(0.0, x)[2]
    printed = -x[0] * x[3] ** 2
    assert right == pytest.approx(-printed)
    port = da.simulate(polar.to_port_hamiltonian(), "gauss-3", x=x, t_end=1.0, step=0.01).x[-1]
    straight = np.array([2 * np.cos(0.3), 2 * np.sin(0.3)]) + np.array(
        [0.1 * np.cos(0.3) - 1.4 * np.sin(0.3), 0.1 * np.sin(0.3) + 1.4 * np.cos(0.3)]
    )
    assert np.abs(port[0] * np.array([np.cos(port[1]), np.sin(port[1])]) - straight).max() < 1e-10


def test_lobatto_iiic_is_no_collocation_method():
    """Symank, sec. 5.2: C(s - 1) holds, C(s) does not."""
    t = tableau("lobatto-iiic", 3)
    for power, holds in ((1, True), (2, True), (3, False)):
        assert np.allclose(t.A @ t.c ** (power - 1), t.c**power / power) == holds


def printed_step(q0, v0, h, m, a, I, g):
    """Hilden, eq. 4.3 as printed."""

    def momentum(v, s, c):
        return np.array([m * v[0] - m * a * v[2] * s, m * v[1] + m * a * v[2] * c])

    before, half = q0[2] - h * v0[2] / 2, q0[2] + h * v0[2] / 2
    s, c, s0, c0 = np.sin(half), np.cos(half), np.sin(before), np.cos(before)
    right = np.append(momentum(v0, s0, c0), (I + m * a**2) * v0[2] - m * a * v0[0] * s0 + m * a * v0[1] * c0)
    force = -np.array([0.0, m * g, m * g * a * c])

    def residual(X):
        v, lam = X[:3], X[3]
        third = (I + m * a**2) * v[2] - m * a * s * (v[0] - h * v[1] * v[2]) - m * a * c * (-v[1] - h * v[0] * v[2])
        rows = np.append(momentum(v, s, c), third) - right - h * (force + lam * np.array([-s, c, 0.0]))
        end = half + h * v[2] / 2
        return np.append(rows, -v[0] * np.sin(end) + v[1] * np.cos(end))

    v1 = newton(residual, np.append(v0, 0.0))[:3]
    return q0 + h / 2 * (v0 + v1), v1


def test_integrator_for_the_sleigh_is_right_as_printed():
    """Hilden, eq. 4.3b has no sign slips."""
    values = {"m": 1.0, "a": 0.7, "I": 0.5, "g": 0.3}
    q, v = np.array([1.0, 0.0, 0.3]), np.array([0.5 * np.cos(0.3), 0.5 * np.sin(0.3), 0.7])
    sol = da.simulate(
        da.catalog.chaplygin_sleigh(**values), McLachlanPerlmutter(lagrangian="left"), q=q, v=v, t_end=0.5, step=0.05
    )
    for k in range(10):
        q1, v1 = printed_step(sol.q[k], sol.v[k], 0.05, **values)
        assert max(np.abs(q1 - sol.q[k + 1]).max(), np.abs(v1 - sol.v[k + 1]).max()) < 1e-13


@pytest.mark.parametrize("b", [1.0, 0.7])
def test_start_and_multiplier_of_the_contact_oscillator(b):
    """Hilden, eqs. 4.8 and 4.11."""
    energy, z, vz, eps = 1.5, 0.4, 0.3, 0.8
    x = np.sqrt((2 * energy - (1 + b**2) * vz**2 - z**2 - b**2) / (1 + eps * z**2))
    vx, vy, y = -b * vz, 0.2, b
    total = (vx**2 + vz**2 + x**2 + y**2 + z**2 + eps * x**2 * z**2) / 2
    assert total == pytest.approx(energy)
    lam = (x + y * z - vy * vz + eps * (x * z**2 + x**2 * y * z)) / (1 + y**2)
    ax, az = lam - x - eps * x * z**2, y * lam - z - eps * x**2 * z
    assert ax + vy * vz + y * az == pytest.approx(0.0, abs=1e-14)
    wrong = (x + y * z - vy * z + eps * (x * z**2 + x**2 * y * z)) / (1 + y**2)
    assert abs(wrong - lam) > 1e-3


def test_index_one_needs_the_schur_complement():
    """Kinon et al., sec. 4.2.2: E11 = 1 + x2, H = x1^2/2, z2 = 0: D G1 in x2 alone is zero, the complement is not."""
    x1, x2, f = sympy.symbols("x1 x2 f")
    G1, G2 = f - x1 / 2, (1 + x2) * f - x1
    assert sympy.diff(G1, x2) == 0
    full = sympy.Matrix([[sympy.diff(g, s) for s in (f, x2)] for g in (G1, G2)])
    assert full.det().subs({f: 1}) == 1


def test_projector():
    """Kinon et al., appendix C."""
    d = np.array([1.0, 2.0])
    right, printed = np.eye(2) - np.outer(d, d) / (d @ d), (np.eye(2) - np.outer(d, d)) / (d @ d)
    np.testing.assert_allclose(right @ right, right, atol=1e-15)
    assert np.abs(printed @ printed - printed).max() > 0.1


def error(A, b, c, n):
    """At t = 1 of z' = 2 t z with n steps of an explicit method."""
    z = 1.0
    for k in range(n):
        K = np.zeros(len(b))
        for i in range(len(b)):
            K[i] = 2 * (k + c[i]) / n * (z + A[i] @ K / n)
        z += b @ K / n
    return abs(z - np.e)


@pytest.mark.parametrize(("node", "order"), [(1 / 3, 1), (2 / 3, 3)])
def test_third_node_of_heun(node, order):
    """Bertolazzi et al., eq. 1.29."""
    A, b, c = np.array([[0, 0, 0], [1 / 3, 0, 0], [0, 2 / 3, 0]]), np.array([0.25, 0, 0.75]), np.array([0, 1 / 3, node])
    assert np.log2(error(A, b, c, 100) / error(A, b, c, 200)) == pytest.approx(order, abs=0.1)


def test_weights_of_the_third_order_family():
    """Bertolazzi et al., eq. 1.32."""
    a = sympy.symbols("a")
    first = sympy.Rational(1, 2) - 1 / (6 * a) + 1 / (6 * a * (1 - a))
    assert sympy.simplify(first + (2 - 3 * a) / (6 * (1 - a)) - 1) == 0
    assert float((first + (2 - 3 * a) / (6 * a * (1 - a))).subs(a, 0.5)) == pytest.approx(7 / 6)


def test_rank_does_not_grow_in_every_step():
    """Bertolazzi et al., eqs. 2.57, 2.61."""
    shift = LinearDAE([[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.eye(3))
    assert shift.index == 3
    ranks = [np.linalg.matrix_rank(form.E) for form in shift.reduction()]
    assert ranks[-1] == 3
    assert ranks[0] == ranks[1] == 2


def test_calculus():
    """Bertolazzi et al., example 9 and the symbol h_iii after eq. 3.27."""
    x, y, q = sympy.symbols("x y q")
    f = sympy.cos(x) + y**2
    assert [sympy.diff(f, s) for s in (x, y)] == [-sympy.sin(x), 2 * y]
    m = 1 + q**2
    assert sympy.diff(m, q) - sympy.diff(m, q) / 2 == q  # M' q'^2 - M_q q'^2 / 2, by one coordinate


def test_polar_equations():
    """Bertolazzi et al., eq. 3.13a."""
    polar = da.Lagrangian(2, lagrangian=lambda q, v: (v[0] ** 2 + q[0] ** 2 * v[1] ** 2) / 2 - 9.81 * q[0] * np.sin(q[1]))
    r, theta, rate = 2.0, 0.3, 0.7
    assert ode(polar)(0.0, np.array([r, theta, 0.1, rate]))[2] == pytest.approx(r * rate**2 - 9.81 * np.sin(theta))


def test_mixed_term_of_a_constraint_that_moves():
    """Bertolazzi et al., eq. 4.5: for phi(q, t) = q t the second derivative is q'' t + 2 q'; printed it has q'' t + q'."""
    t = sympy.symbols("t")
    q = sympy.Function("q")(t)
    rate = sympy.diff(q, t)
    assert sympy.simplify(sympy.diff(q * t, t, 2) - (sympy.diff(rate, t) * t + 2 * rate)) == 0
