"""Discrete gradient methods for port-Hamiltonian systems: balance, order, theorems, and the energy method at both levels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

import dalembert as da
from conftest import angle_pendulum, assert_order, consistent_start, driven_pendulum, polar_rod, some
from dalembert.catalog import (
    dc_motor,
    linear_port_example,
    mass_spring_damper,
    rlc_ladder,
    singular_mass_springs,
    synchronous_machine,
)
from dalembert.discrete.gradients import GRADIENTS
from dalembert.experiments.ports import four_particles
from dalembert.methods import DiracDissipative, DiscreteGradient, EnergyMomentumGGL, GradientPair

SYSTEMS = [
    *(dc_motor, linear_port_example, mass_spring_damper, rlc_ladder, singular_mass_springs, synchronous_machine),
    *(da.catalog.three_carts, da.catalog.windy_pendulum),
]
EXACT = ["discrete-gradient", "ddr", "gradient-pair"]
VARIANTS = [
    DiscreteGradient(gradient=g, at=at) for g in ("equivariant", "mean-value", "itoh-abe") for at in ("midpoint", "left", "right")
]


def inputs(system):
    return (lambda t: np.cos(np.arange(system.nu) + 3 * t)) if system.nu else None


PAIRS = [(make, method) for method in (*EXACT, *VARIANTS) for make in SYSTEMS]


@pytest.mark.parametrize(("make", "method"), some(PAIRS, of=2), ids=lambda x: getattr(x, "__name__", str(x)))
def test_power_balance_of_every_step(make, method):
    system = make()
    sol = da.simulate(system, method, t_end=2.0, step=0.01, u=inputs(system))
    moved = np.abs(sol.energy).max() + np.abs(sol.supplied).sum() + sol.dissipated.sum()
    assert np.abs(sol.power_balance).max() < 1e-12 * moved
    assert sol.dissipated.min() > -1e-15 * moved
    book = sol.ledger()
    ports = sum((book[f"port {p}"] for p in system.ports), np.zeros(len(sol.supplied)))
    np.testing.assert_allclose(ports, sol.supplied, atol=1e-13 * moved)


def test_the_midpoint_rule_does_not_balance_and_gauss_does_for_quadratic_energies():
    system = synchronous_machine()
    sol = da.simulate(system, "midpoint", t_end=2.0, step=0.01, u=inputs(system))
    assert np.abs(sol.power_balance).max() > 1e-8
    for make in (dc_motor, rlc_ladder):
        system = make()
        for s in (1, 2, 3):
            sol = da.simulate(system, f"gauss-{s}", t_end=2.0, step=0.02, u=inputs(system))
            assert np.abs(sol.power_balance).max() < 1e-14


@pytest.mark.parametrize("method", ["discrete-gradient", DiscreteGradient(gradient="mean-value"), "ddr", "midpoint"], ids=str)
def test_order_two_on_index_one(method):
    """Proposition 1, on a nonlinear index-1 system: x1' = z2, 0 = -z1 - z2 - z2^3 with H = x1^4 / 4 + x1^2 / 2."""
    system = da.PortHamiltonian(
        2, hamiltonian=lambda x: x[0] ** 4 / 4 + x[0] ** 2 / 2, E=[[1, 0], [0, 0]], J=[[0, 1], [-1, 0]],
        R=lambda x: [[0, 0], [0, 1 + x[1] ** 2]], z=lambda x: [x[0] ** 3 + x[0], x[1]], initial={"x": [1.0, -1.0]},
    )  # fmt: skip
    truth = da.simulate(system, "gauss-4", t_end=1.0, step=0.005)
    counts = np.array([20, 40, 80])
    runs = [da.simulate(system, method, t_end=1.0, step=1.0 / n) for n in counts]
    for k in range(2):
        errors = [abs(s.x[-1, k] - truth.x[-1, k]) for s in runs]
        assert_order(errors, 1 / counts, 2)


def test_order_on_index_two():
    """Four particles: two in positions and velocities; multipliers two in their mean, where they live."""
    ph = da.catalog.four_particles_damped().to_port_hamiltonian()
    truth = da.simulate(da.catalog.four_particles_damped(), "murua-ggl-3", t_end=0.1, step=0.0005)
    counts = np.array([40, 80, 160])
    errors = []
    for n in counts:
        sol = da.simulate(ph, "discrete-gradient", t_end=0.1, step=0.1 / n)
        at = (sol.t_lam[-1] + sol.t_lam[-2]) / 2
        lam = CubicSpline(truth.t_lam, truth.lam)(at)
        mean = (sol.costates[-1, 24:] + sol.costates[-2, 24:]) / 2
        errors.append(
            [np.abs(sol.x[-1, :12] - truth.q[-1]).max(), np.abs(sol.x[-1, 12:24] - truth.v[-1]).max(), np.abs(mean - lam).max()]
        )
    for k, part in enumerate(("q", "v", "mean of lam")):
        assert_order([e[k] for e in errors], 0.1 / counts, 2, told=part)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("make", [four_particles, da.catalog.double_pendulum])
def test_one_method_on_mechanics_and_on_its_port_hamiltonian_form(make, gradient):
    system, method = make(), DiscreteGradient(gradient)
    a, b = (da.simulate(s, method, t_end=0.3, step=0.01, compile=False) for s in (system, system.to_port_hamiltonian()))
    close = 1e-9 if gradient in ("gonzalez-left", "gonzalez-right") else 2e-12  # these grow what rounding leaves
    np.testing.assert_allclose(b.x[:, : 2 * system.n], a.x, rtol=0, atol=close * np.abs(a.x).max())
    assert np.abs(b.power_balance).max() < 1e-14 * max(1.0, np.abs(b.energy).max() + np.abs(b.x[:, : 2 * system.n]).max() ** 2)
    if system.n < 12:  # the smaller one, to the same bits by a form that is written anew
        again = da.simulate(system.to_port_hamiltonian(), method, t_end=0.3, step=0.01, compile=False)
        np.testing.assert_array_equal(b.x, again.x)


def test_parts_of_a_hamiltonian_that_is_a_sum():
    """H = x1^4 + x2^4: Gonzalez' gradient of each term by itself is its difference quotient; of the sum it is another."""
    system = da.PortHamiltonian(
        2, hamiltonian=lambda x: x[0] ** 4 / 4 + x[1] ** 4 / 4, J=[[0, 1], [-1, 0]], initial={"x": [1.0, 0.5]}
    )
    runs = {
        g: da.simulate(system, DiscreteGradient(g), t_end=0.1, step=0.1) for g in ("gonzalez", "equivariant", "gonzalez-joint")
    }
    a, b = runs["gonzalez"].x
    np.testing.assert_allclose(runs["gonzalez"].costates[0], (a**3 + a**2 * b + a * b**2 + b**3) / 4, rtol=1e-14)
    np.testing.assert_allclose(runs["gonzalez"].x, runs["equivariant"].x, rtol=1e-14)
    assert np.abs(runs["gonzalez-joint"].x - runs["gonzalez"].x).max() > 1e-6


def test_the_published_figures_of_the_joint_gradient():
    """Data of Kinon, Morandin, Schulze 2025: errors at t = 0.1 against h = 1e-4, and the velocity level in 10 s, at h = 0.01."""
    system, method = four_particles().to_port_hamiltonian(), DiscreteGradient("gonzalez-joint")
    sol = da.simulate(system, method, t_end=10.0, step=0.01)
    level = np.abs(sol.residual("velocity")).max(axis=0)
    assert level[0] == pytest.approx(6.32020681e-05, rel=2e-9)
    assert level[1] == pytest.approx(2.78229e-04, rel=2e-6)
    coarse, fine = (da.simulate(system, method, t_end=0.1, step=h) for h in (0.01, 1e-4))

    def error(part):
        return np.linalg.norm(part(coarse) - part(fine)) / np.linalg.norm(part(fine))

    assert error(lambda s: s.x[-1, 9:12]) == pytest.approx(3.41072e-05, rel=2e-6)
    assert error(lambda s: s.x[-1, 21:24]) == pytest.approx(2.37829e-04, rel=3e-6)
    assert error(lambda s: s.costates[-1, 24]) == pytest.approx(5.3984e-02, rel=1e-5)
    truth = da.simulate(four_particles(), "murua-ggl-3", t_end=10.0, step=0.01, save_every=10)
    far, near = (
        np.abs(da.simulate(system, m, t_end=10.0, step=0.1).x[:, :12] - truth.q).max() for m in (method, "discrete-gradient")
    )
    assert far > 0.5
    assert near < far / 100


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_theorem_5_and_corollary_1_on_random_systems(seed):
    """discrete-gradient, gradient-pair and ddr are the same one-step method on random semi-explicit systems."""
    rng = np.random.default_rng(seed)
    n1, n2 = 2, 1
    n = n1 + n2
    A, L, T = rng.normal(size=(n, n)), rng.normal(size=(n, n)), rng.normal(size=(n1, n1)) + 3 * np.eye(n1)
    E = np.zeros((n, n))
    E[:n1, :n1] = T
    R = L @ L.T / n + 0.5 * np.eye(n)
    inverse = np.linalg.inv(T.T)

    def costate(x):
        g = [x[0] ** 3 + x[0], x[1]]
        return [inverse[0, 0] * g[0] + inverse[0, 1] * g[1], inverse[1, 0] * g[0] + inverse[1, 1] * g[1], x[2]]

    system = da.PortHamiltonian(
        n, hamiltonian=lambda x: x[0] ** 4 / 4 + x[0] ** 2 / 2 + x[1] ** 2 / 2, E=E, J=A - A.T, R=R, B=rng.normal(size=(n, 1)),
        z=costate,
    )  # fmt: skip
    start = da.consistent(system, x=[0.7, -0.4, 0.1])
    runs = [da.simulate(system, m, **start, t_end=0.5, step=0.05, u=lambda t: [np.sin(5 * t)], compile=False) for m in EXACT]
    for sol in runs:
        np.testing.assert_allclose(sol.x, runs[0].x, atol=1e-10)
        assert np.abs(sol.power_balance).max() < 1e-13 * max(1.0, np.abs(sol.energy).max())


def clamped():
    """A state that decays by itself beside a cubic resistor on a port: 0 = u - (1 + x2^2) x2."""
    return da.PortHamiltonian(
        2, hamiltonian=lambda x: x[0] ** 2 / 2, E=[[1, 0], [0, 0]], R=lambda x: [[1, 0], [0, 1 + x[1] ** 2]], B=[[0], [1]],
        z=lambda x: [x[0], x[1]], initial={"x": [1.0, 0.0]},
    )  # fmt: skip


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("make", [clamped, rlc_ladder, da.catalog.three_carts, da.catalog.windy_pendulum])
def test_algebraic_rows_are_at_round_off(make, method):
    """Newton's test looks at algebraic states too, whether the differential ones need them or not."""
    system = make()
    sol = da.simulate(
        system, method, t_end=2.5, step=0.05, u=(lambda t: np.sin(3 * t) * np.ones(system.nu)) if system.nu else None
    )
    if system.positions:  # the discrete Jacobian of g makes the row a difference of g
        g = [system.at("constraint", x, t) for x, t in zip(sol.x, sol.t, strict=True)]
        assert np.abs(g).max() < 2e-15
        return
    empty = [i for i in range(system.n) if not system.at("E", sol.x[0])[i].any()]
    assert empty
    for k in range(50):
        x, t = (sol.x[k] + sol.x[k + 1]) / 2, (sol.t[k] + sol.t[k + 1]) / 2
        A = np.hstack([system.at("J", x, t) - system.at("R", x, t), system.at("B", x, t)])[empty]
        values = np.concatenate([sol.costates[k], np.sin(3 * t) * np.ones(system.nu)])
        assert (np.abs(A @ values) <= 2e-14 * (np.abs(A) @ np.abs(values))).all()


def quartic(x0, x1):
    """A discrete gradient of sum x^2 / 2 + x^4 / 4."""
    return [(a + b) / 2 + (a**3 + a**2 * b + a * b**2 + b**3) / 4 for a, b in ((x0[0], x1[0]), (x0[1], x1[1]))]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_theorems_6_and_9_transformed_pairs_give_the_same_motion(seed):
    """x = phi(w) = (w1 + a w2^2, w2), equations times U^T: the transformed pair follows the same discrete trajectory."""
    rng = np.random.default_rng(seed)
    a, U = rng.uniform(-1, 1), rng.normal(size=(2, 2)) + 2 * np.eye(2)
    inverse = np.linalg.inv(U)

    def phi(x):
        return [x[0] + a * x[1] ** 2, x[1]]

    system = da.PortHamiltonian(
        2, hamiltonian=lambda x: x[0] ** 2 / 2 + x[0] ** 4 / 4 + x[1] ** 2 / 2 + x[1] ** 4 / 4, J=[[0, 1], [-1, 0]],
        R=[[0.1, 0], [0, 0.2]], initial={"x": [0.8, 0.3]},
    )  # fmt: skip

    def E_new(x0, x1):
        D = [[1.0, a * (x0[1] + x1[1])], [0.0, 1.0]]  # the discrete Jacobian of phi
        return [[sum(U[k, i] * D[k][j] for k in range(2)) for j in range(2)] for i in range(2)]

    def z_new(x0, x1):
        z = quartic(phi(x0), phi(x1))
        return [inverse[i, 0] * z[0] + inverse[i, 1] * z[1] for i in range(2)]

    other = system.transformed(phi, U, initial=[0.8 - a * 0.09, 0.3])
    first = da.simulate(system, GradientPair(z=quartic), t_end=1.0, step=0.05, compile=False)
    second = da.simulate(other, GradientPair(E=E_new, z=z_new), t_end=1.0, step=0.05, compile=False)
    back = np.stack([second.x[:, 0] + a * second.x[:, 1] ** 2, second.x[:, 1]], axis=1)
    np.testing.assert_allclose(back, first.x, atol=1e-10)
    np.testing.assert_allclose(second.energy, first.energy, atol=1e-10)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_theorem_10_semi_explicit_transformations(seed):
    """Orthonormal changes of the differential state commute with Gonzalez' gradient: the same motion to round-off."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    V = np.eye(3)
    V[:2, :2] = Q
    system = da.PortHamiltonian(
        3, hamiltonian=lambda x: x[0] ** 4 / 4 + np.cosh(x[1]) + x[0] * x[1], E=[[1, 0, 0], [0, 1, 0], [0, 0, 0]],
        J=[[0, 1, 1], [-1, 0, 0], [-1, 0, 0]], R=[[0, 0, 0], [0, 0.1, 0], [0, 0, 1]], initial={"x": [0.5, 0.2, -0.3]},
    )  # fmt: skip
    x = np.array([0.5, 0.2, -(0.5**3 + 0.2)])
    new = system.transformed(lambda x: [sum(V[i, j] * x[j] for j in range(3)) for i in range(3)], V, initial=V.T @ x)
    a = da.simulate(system, "discrete-gradient", x=x, t_end=1.0, step=0.05, compile=False)
    b = da.simulate(new, "discrete-gradient", t_end=1.0, step=0.05, compile=False)
    np.testing.assert_allclose(b.x @ V.T, a.x, atol=1e-10)


def test_pairs_are_checked():
    system = mass_spring_damper(1)
    with pytest.raises(da.ModelError, match="not a discrete gradient pair"):
        da.simulate(system, GradientPair(z=lambda x0, x1, m, k: [k * x0[0], x1[1] / m]), t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match=r"needs z=\.\.\."):
        GradientPair(E=lambda x0, x1: np.eye(2))
    with pytest.raises(da.MethodError, match="gradient must be one of"):
        DiscreteGradient(gradient="newton")
    with pytest.raises(da.MethodError, match="z2 must be"):
        DiscreteGradient(z2="left")


def test_a_ddr_step_without_solution_is_an_error():
    """Example 8 of Kinon et al. 2025: E = (1, 1) grad H^T is singular and turns with the state."""
    slope = lambda x: [x[0] * np.exp(x[0] ** 2 / 2), x[1]]  # noqa: E731
    system = da.PortHamiltonian(
        2, hamiltonian=lambda x: np.exp(x[0] ** 2 / 2) - 1 + x[1] ** 2 / 2, E=lambda x: [slope(x), slope(x)],
        z=lambda x: [0.5 + 0 * x[0], 0.5], initial={"x": [1.0, 0.5]},
    )  # fmt: skip
    for method in ("ddr", "discrete-gradient"):
        with pytest.raises(da.MethodError, match=r"E\^T z = DH has no solution in general"):
            da.simulate(system, method, t_end=1.0, step=0.1)


PROBLEMS = {
    "double pendulum": (da.catalog.double_pendulum, {}, {}),
    "four particles": (da.catalog.four_particles, {}, {}),
    "damped": (da.catalog.four_particles_damped, {}, {}),
    "driven, rheonomic": (driven_pendulum, {}, {"u": lambda t: [np.sin(3 * t)]}),
    "polar": (polar_rod, {}, {}),
    "free, M(q)": (angle_pendulum, {}, {}),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("gradient", ["equivariant", "gonzalez", "mean-value"])
def test_energy_and_both_levels_together(name, gradient):
    make, values, options = PROBLEMS[name]
    system = make()
    start = consistent_start(system, **values)
    sol = da.simulate(system, EnergyMomentumGGL(gradient=gradient), **start, t_end=2.0, step=0.01, **options)
    moved = np.abs(sol.energy).max() + np.abs(sol.kinetic).max()
    assert np.abs(sol.power_balance).max() < 2e-14 * moved
    assert np.abs(sol.residual("position")).max(initial=0.0) < 1e-13
    assert np.abs(sol.residual("velocity")).max(initial=0.0) < 1e-12


def test_momenta_are_kept_too():
    sol = da.simulate(da.catalog.four_particles(), "energy-momentum-ggl", t_end=20.0, step=0.01)
    for kind in ("linear", "angular"):
        value = sol.momentum(kind)
        assert np.abs(value - value[0]).max() < 1e-11
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-11


def test_ddr_of_example_6():
    """The four formulas of examples 1, 5 and 6 for x1' = -x1, x2 = -x1."""
    h, system = 0.1, linear_port_example()
    factor = (1 - h / 2) / (1 + h / 2)
    x1 = factor ** np.arange(11)
    half = -(x1[1:] + x1[:-1]) / 2
    runs = {
        "midpoint": (DiscreteGradient(z2="midpoint"), -x1[1:]),
        "right": (DiscreteGradient(z2="right"), half),
        "ddr, right": (DiracDissipative(z2="right"), half),
        "ddr, left": (DiracDissipative(z2="left"), half),
        "ddr, midpoint": (DiracDissipative(z2="midpoint"), -x1[1:]),
    }
    for method, x2 in runs.values():
        sol = da.simulate(system, method, t_end=1.0, step=h)
        np.testing.assert_allclose(sol.x[:, 0], x1, rtol=1e-14)
        np.testing.assert_allclose(sol.x[1:, 1], x2, rtol=1e-13)


@pytest.mark.parametrize("method", [*EXACT, DiscreteGradient(gradient="mean-value")], ids=str)
def test_power_balance_with_a_singular_E_of_the_state(method):
    """E = diag(1 + x1^2, 1, 0): singular, and its invertible part turns with the state."""
    system = da.PortHamiltonian(
        3, hamiltonian=lambda x: x[0] ** 4 / 4 + np.cosh(x[1]), E=lambda x: [[1 + x[0] ** 2, 0, 0], [0, 1, 0], [0, 0, 0]],
        J=[[0, 1, 1], [-1, 0, 0], [-1, 0, 0]], R=lambda x: [[0, 0, 0], [0, 0.1 * (1 + x[1] ** 2), 0], [0, 0, 1]],
        B=[[0], [1], [0]],
        z=lambda x: [x[0] ** 3 / (1 + x[0] ** 2), np.sinh(x[1]), x[2]], initial={"x": [0.9, 0.2, -0.9**3 / 1.81]},
    )  # fmt: skip
    sol = da.simulate(system, method, t_end=3.0, step=0.02, u=lambda t: [np.sin(3 * t)])
    assert np.abs(sol.power_balance).max() < 1e-13
    fine = da.simulate(system, "gauss-4", t_end=3.0, step=0.01, u=lambda t: [np.sin(3 * t)])
    steps = 0.02 / np.array([1, 2, 4])
    runs = [sol, *(da.simulate(system, method, t_end=3.0, step=h, u=lambda t: [np.sin(3 * t)]) for h in steps[1:])]
    assert_order([np.abs(s.x[-1, :2] - fine.x[-1, :2]).max() for s in runs], steps, 2)
