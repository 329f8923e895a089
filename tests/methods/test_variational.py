"""Variational and nonholonomic integrators: order, reversibility, constraints, and where they come from."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from conftest import angle_pendulum, assert_order, consistent_start
from dalembert.methods import McLachlanPerlmutter, Variational
from dalembert.methods.base import find

NONHOLONOMIC = ["cortes-martinez", "mclachlan-perlmutter", "variational", "spark-2", "spark-iiib-a-2", "srk-gauss-1"]
HIGHER = {
    "spark-3": 4,
    "spark-iiib-a-3": 4,
    "srk-gauss-2": 4,
    "srk-radau-ia-2": 3,
    "murua-2": 4,
    "murua-3": 6,
    "radau-iia-2": 3,
}


def sleigh_reference(t, m=1.0, a=1.0, I=1.0, g=0.1, u0=0.5, w0=0.7, theta0=0.3):
    """The sleigh in quasi-velocities: u along the blade, w = theta'; an ordinary differential equation.

    With x' = u cos, y' = u sin the kinetic energy is m u^2 / 2 + (I + m a^2) w^2 / 2, and m u' = m a w^2 - m g sin(theta),
    (I + m a^2) w' = -m a u w - m g a cos(theta).
    """

    def f(_, y):
        th, u, w = y[2:]
        return [
            u * np.cos(th), u * np.sin(th), w,
            a * w**2 - g * np.sin(th), (-m * a * u * w - m * g * a * np.cos(th)) / (I + m * a**2),
        ]  # fmt: skip

    sol = solve_ivp(f, (0, t), [1.0, 0.0, theta0, u0, w0], rtol=1e-12, atol=1e-13, method="DOP853")
    x, y_, th, u, w = sol.y[:, -1]
    return np.array([x, y_, th]), np.array([u * np.cos(th), u * np.sin(th), w])


@pytest.fixture(scope="module")
def sleigh():
    return da.catalog.chaplygin_sleigh()


SLEIGH = {"q": [1.0, 0.0, 0.3], "v": [0.5 * np.cos(0.3), 0.5 * np.sin(0.3), 0.7]}


@pytest.mark.parametrize("method", [*NONHOLONOMIC, *HIGHER])
def test_sleigh_with_its_mass_matrix_against_scipy(sleigh, method):
    q, v = sleigh_reference(2.0)
    order = HIGHER.get(method, 2)
    counts = {2: (80, 113, 160), 3: (40, 57, 80), 4: (28, 40, 57), 6: (4, 5, 7)}[order]
    runs = [da.simulate(sleigh, method, **SLEIGH, t_end=2.0, step=2.0 / n) for n in counts]
    steps = 2.0 / np.array(counts)
    assert_order([np.abs(s.q[-1] - q).max() for s in runs], steps, order, 1e-11)
    assert_order([np.abs(s.v[-1] - v).max() for s in runs], steps, order, 1e-11)
    assert np.abs(runs[0].residual("velocity")).max() < 1e-14


@pytest.mark.parametrize("method", [*NONHOLONOMIC, *HIGHER])
def test_rolling_disk_against_its_exact_solution(method):
    disk = da.catalog.rolling_disk()
    order = HIGHER.get(method, 2)
    counts = {2: (20, 28, 40), 3: (20, 28, 40), 4: (14, 20, 28), 6: (6, 8, 11)}[order]
    runs = [da.simulate(disk, method, t_end=1.0, step=1.0 / n) for n in counts]
    errors = [np.abs(s.q[-1] - da.catalog.rolling_disk_solution(1.0)).max() for s in runs]
    assert_order(errors, 1 / np.array(counts), order, 1e-13)
    assert np.abs(runs[0].residual("velocity")).max() < 1e-15


@pytest.mark.parametrize("method", ["cortes-martinez", "mclachlan-perlmutter", "spark-3", "murua-3", "srk-gauss-2"])
def test_knife_edge_and_ball_against_their_exact_solutions(method):
    knife = da.catalog.knife_edge()
    sol = da.simulate(knife, method, t_end=5.0, step=0.01)
    limits = {"spark-3": (5e-9, 5e-11), "murua-3": (2e-12, 1e-13), "srk-gauss-2": (2e-9, 5e-11)}.get(method, (1e-3, 1e-4))
    assert np.abs(sol.q - da.catalog.knife_edge_solution(sol.t)).max() < limits[0]
    ball = da.catalog.ball_on_turntable()
    sol = da.simulate(ball, method, t_end=11.0, step=0.01)
    assert np.abs(sol.q[:, :2] - da.catalog.ball_on_turntable_solution(sol.t)).max() < limits[1]
    assert np.abs(sol.residual("velocity")).max() < 1e-13
    # the table does work on the ball: what the method counts as supplied is the change of energy
    assert np.abs(sol.power_balance).max() < 2e-15


@pytest.mark.parametrize("method", [*NONHOLONOMIC, "spark-3", "murua-3", "srk-gauss-2"])
@pytest.mark.parametrize("make", [da.catalog.chaplygin_sleigh, da.catalog.contact_oscillator, da.catalog.cart_with_pendulum])
def test_reversible_to_round_off(method, make):
    system = make()
    start = SLEIGH if "sleigh" in system.name else consistent_start(system)
    assert da.analysis.reversibility(system, method, **start, t_end=2.0, step=0.02) < 1e-12


def test_the_left_lagrangian_is_the_same_for_a_constant_mass_only(sleigh):
    left = McLachlanPerlmutter(lagrangian="left")
    disk = da.catalog.rolling_disk()
    a, b = (da.simulate(disk, m, t_end=1.0, step=0.05) for m in (left, "mclachlan-perlmutter"))
    np.testing.assert_allclose(a.q, b.q, atol=1e-14)
    q, _ = sleigh_reference(2.0)
    counts = (80, 113, 160)
    errors = [np.abs(da.simulate(sleigh, left, **SLEIGH, t_end=2.0, step=2.0 / n).q[-1] - q).max() for n in counts]
    assert_order(errors, 2.0 / np.array(counts), 1)
    assert da.analysis.reversibility(sleigh, left, **SLEIGH, t_end=2.0, step=0.02) > 1e-4


def test_positions_are_those_of_the_two_step_equations(sleigh):
    """D1 Ld(q_k, q_k+1) + D2 Ld(q_k-1, q_k) is a combination of the constraints at q_k, by differences."""
    h = 0.05
    sol = da.simulate(sleigh, "cortes-martinez", **SLEIGH, t_end=1.0, step=h)
    par = sol._par

    def Ld(a, b):
        q, v = (a + b) / 2, (b - a) / h
        kinetic = sleigh.numeric("kinetic", par, q=q, v=v)[0, 0]
        return h * (kinetic - sleigh.numeric("potential", par, q=q)[0, 0])

    for k in range(1, 20):
        before, here, after = sol.q[k - 1 : k + 2]
        slope = np.zeros(3)
        for i in range(3):
            e = 1e-5 * np.eye(3)[i]
            slope[i] = (Ld(here + e, after) + Ld(before, here + e) - Ld(here - e, after) - Ld(before, here - e)) / 2e-5
        normal = sleigh.numeric("jacobian", par, q=here).reshape(3)
        rest = slope - normal * (normal @ slope) / (normal @ normal)
        assert np.abs(rest).max() < 1e-9
        middle = (here + after) / 2
        assert abs(sleigh.numeric("nonholonomic", par, q=middle, v=(after - here) / h)[0, 0]) < 1e-14


def test_discrete_lagrangians_of_ones_own(sleigh):
    def Ld(q0, q1, h, m, a, I, g):
        q, v = (q0 + q1) / 2, (q1 - q0) / h
        along = v[1] * np.cos(q[2]) - v[0] * np.sin(q[2])
        kinetic = m * (v[0] ** 2 + v[1] ** 2) / 2 + (I + m * a**2) * v[2] ** 2 / 2 + m * a * v[2] * along
        return h * (kinetic - m * g * (q[1] + a * np.sin(q[2])))

    def gd(q0, q1, h):
        q, v = (q0 + q1) / 2, (q1 - q0) / h
        return v[1] * np.cos(q[2]) - v[0] * np.sin(q[2])

    own = Variational(lagrangian=Ld, constraint=gd)
    a, b = (da.simulate(sleigh, m, **SLEIGH, t_end=1.0, step=0.02) for m in (own, "cortes-martinez"))
    np.testing.assert_allclose(a.q, b.q, atol=1e-13)


def test_free_and_holonomic_systems():
    """Discrete Euler-Lagrange equations; with the trapezoidal Lagrangian and a constant mass they are RATTLE."""
    system = da.catalog.double_pendulum()
    a, b = (da.simulate(system, m, t_end=2.0, step=0.01) for m in ("variational", "rattle"))
    np.testing.assert_allclose(a.q, b.q, atol=1e-11)
    np.testing.assert_allclose(a.v, b.v, atol=1e-9)
    angles = angle_pendulum()
    sol = da.simulate(angles, "variational", t_end=200.0, step=0.02)
    assert da.analysis.trend(sol.t, sol.energy).bounded


def test_symplectic_in_momenta():
    system = da.catalog.double_pendulum()
    start = da.consistent(system, q=[0.8, -0.6, 1.4, -1.4], v=[0.3, 0.4, -0.2, 0.5])
    M = np.diag([3.0, 3.0, 1.0, 1.0])
    par, d = system.pack(), 1.0  # G v is linear in q: this difference is its derivative

    def drift(q):
        return system.numeric("drift", par, q=q, v=start.v)[0]

    G = system.numeric("jacobian", par, q=start.q).reshape(2, 4)
    bend = np.array([(drift(start.q + d * e) - drift(start.q - d * e)) / (2 * d) for e in np.eye(4)]).T
    C = np.block([[G, np.zeros((2, 4))], [bend, G @ np.linalg.inv(M)]])
    B = np.linalg.svd(C)[2][4:].T
    Omega = np.block([[np.zeros((4, 4)), np.eye(4)], [-np.eye(4), np.zeros((4, 4))]])
    for method in ("variational", Variational(lagrangian="midpoint")):
        run = da.sensitivity(system, method, q=start.q, v=start.v, t_end=0.2, step=0.02)
        S = np.block([[run.jacobian(a, b) for b in "qv"] for a in "qv"])
        I, Minv = np.eye(4), np.linalg.inv(M)
        Z = np.zeros((4, 4))
        S = np.block([[I, Z], [Z, M]]) @ S @ np.block([[I, Z], [Z, Minv]])
        assert np.abs(B.T @ (S.T @ Omega @ S - Omega) @ B).max() < 1e-12


@pytest.mark.parametrize("method", ["spark-2", "spark-3", "cortes-martinez", "variational", "murua-ggl-3"])
def test_mixed_constraints_are_kept_at_all_levels(method):
    system = da.catalog.cart_with_pendulum()
    start = consistent_start(system)
    sol = da.simulate(system, method, **start, t_end=20.0, step=0.01)
    assert np.abs(sol.residual("position")).max() < 1e-13
    assert np.abs(sol.residual("velocity")).max() < 1e-12
    limit = {"spark-3": 5e-8, "murua-ggl-3": 5e-12}.get(method, 2e-3)
    assert np.abs(sol.energy - sol.energy[0]).max() < limit


def test_mixed_constraints_agree_among_methods():
    system = da.catalog.cart_with_pendulum()
    start = consistent_start(system)
    runs = [
        da.simulate(system, m, **start, t_end=1.0, step=0.005) for m in ("spark-4", "murua-ggl-3", "srk-gauss-3", "radau-iia-4")
    ]
    for sol in runs[1:]:
        np.testing.assert_allclose(sol.q[-1], runs[0].q[-1], atol=1e-9)
        np.testing.assert_allclose(sol.lam[-1], runs[0].lam[-1], atol=1e-7)
    for formulation in ("index2", "ggl", "index1"):
        dae = system.to_dae(formulation)
        y = np.concatenate([start["q"], start["v"]])
        other = da.simulate(dae, "radau-iia-4", y=y, t_end=1.0, step=0.005)
        np.testing.assert_allclose(other.y[-1, :6], runs[0].q[-1], atol=1e-9)


def test_hamiltonian_form_of_nonholonomic_systems(sleigh):
    start = da.consistent(sleigh, **SLEIGH)
    a = da.simulate(sleigh, "spark-3", **SLEIGH, t_end=2.0, step=0.02)
    b = da.simulate(sleigh.to_hamiltonian(), "spark-3", q=start.q, p=start.p, t_end=2.0, step=0.02)
    np.testing.assert_allclose(a.q, b.q, atol=1e-12)
    np.testing.assert_allclose(a.p, b.p, atol=1e-12)


# errors of the positions of a snakeboard after a second, and of its balance relative to the energy
LIMITS = (
    ("cortes-martinez", 1.5e-4, 3e-4), ("mclachlan-perlmutter", 3e-4, 3e-4), ("spark-3", 1e-9, 5e-9), ("murua-3", 2e-14, 2e-14),
)  # fmt: skip


def test_dissipation_forces_and_inputs():
    board = da.catalog.snakeboard()
    u = lambda t: [0.3 * np.sin(2 * t), 0.004 * np.cos(2 * t)]  # noqa: E731  # the wheels stay away from a right angle
    truth = da.simulate(board, "radau-iia-4", u=u, t_end=1.0, step=0.005)
    for method, off, work in LIMITS:
        sol = da.simulate(board, method, u=u, t_end=1.0, step=0.01)
        assert np.abs(sol.q[-1] - truth.q[-1]).max() < off
        assert np.abs(sol.residual("velocity")).max() < 1e-14
        assert np.abs(np.cumsum(sol.power_balance)).max() < work * np.abs(sol.energy).max()
    damped = da.Mechanical(
        3, mass=lambda q: [[2.0, 0.0, 0.3 * q[1]], [0.0, 1.0, 0.0], [0.3 * q[1], 0.0, 1.5]], potential=lambda q: q @ q / 2,
        nonholonomic=lambda q, v: v[0] + q[1] * v[2], dissipation=lambda q: 0.1 * (1 + q[0] ** 2),
    )  # fmt: skip
    start = da.consistent(damped, q=[1.0, 0.5, 0.3], v=[0.2, 0.4, 0.1])
    truth = da.simulate(damped, "radau-iia-4", **start, t_end=2.0, step=0.005)
    for method in ("cortes-martinez", "mclachlan-perlmutter", "variational", "spark-2"):
        errors = [
            np.abs(da.simulate(damped, method, **start, t_end=2.0, step=2.0 / n).q[-1] - truth.q[-1]).max() for n in (50, 71, 100)
        ]
        assert_order(errors, 2.0 / np.array([50, 71, 100]), 2)


def test_bad_input(sleigh):
    with pytest.raises(da.MethodError, match="lagrangian must be one of"):
        Variational(lagrangian="simpson")
    with pytest.raises(da.MethodError, match="one of trapezoidal, left"):
        McLachlanPerlmutter(lagrangian="midpoint")
    with pytest.raises(da.ModelError, match="1 entries"):
        da.simulate(sleigh, Variational(constraint=lambda q0, q1: [q0[0], q1[0]]), **SLEIGH, t_end=1.0, step=0.1)
    with pytest.raises(da.MethodError, match="rattle cannot treat the nonholonomic constraints"):
        da.simulate(sleigh, "rattle", **SLEIGH, t_end=1.0, step=0.1)
    with pytest.raises(da.ModelError, match="not linear in v"):
        da.Mechanical(2, mass=1.0, nonholonomic=lambda v: v[0] ** 2 + v[1])
    with pytest.raises(
        da.InconsistentState, match=r"v violates constraint 1 of 1 at the velocity level.*nearest velocity.*da\.consistent"
    ):
        da.simulate(sleigh, "spark-2", q=[1, 0, 0.3], v=[0.0, 1.0, 0.0], t_end=1.0, step=0.1)
    projected = da.consistent(sleigh, q=[1, 0, 0.3], v=[0.0, 1.0, 0.0]).v
    assert abs(projected[1] * np.cos(0.3) - projected[0] * np.sin(0.3)) < 1e-15
    twice = da.Mechanical(2, mass=1.0, nonholonomic=lambda q, v: [v[0] + v[1], 2 * v[0] + 2 * v[1]])
    with pytest.raises(da.SingularConstraints, match=r"row 2 = \+2 \* row 1") as caught:
        da.simulate(twice, "spark-2", q=[0, 0], v=[1.0, -1.0], t_end=1.0, step=0.1)
    assert caught.value.rows == (2,)


@pytest.mark.parametrize("compile", [True, False])
def test_spark_iiib_a_with_two_stages_is_the_method_of_mclachlan_and_perlmutter(compile):
    """Hilden 2009, sec. 3.3.3."""
    system = da.catalog.contact_oscillator()
    runs = [
        da.simulate(system, method, t_end=5.0, step=0.1, compile=compile) for method in ("spark-iiib-a", "mclachlan-perlmutter")
    ]
    assert runs[0].stats["steps"] == 50
    np.testing.assert_allclose(runs[0].q, runs[1].q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(runs[0].v, runs[1].v, rtol=0, atol=1e-13)
    assert np.abs(runs[0].residual("velocity")).max() < 1e-14
    assert np.abs(runs[0].q - da.simulate(system, "spark-2", t_end=5.0, step=0.1).q).max() > 1e-4  # exchanged is another method


def test_facts_of_spark_iiib_a_are_those_of_mclachlan_and_perlmutter():
    mine, theirs = find("spark-iiib-a"), find("mclachlan-perlmutter")
    assert mine.order == theirs.order == (2, 2, 2)
    assert mine.symmetric
    assert not mine.symplectic
    assert mine.exact_levels == theirs.exact_levels == ("velocity",)
