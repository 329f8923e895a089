"""Steps of each family against implementations of its formulas in plain NumPy: agreement to round-off."""

import numpy as np
import pytest

import dalembert as da
import independent as own
from dalembert.methods import McLachlanPerlmutter, Variational
from independent import Mechanism

H, STEPS = 0.05, 3


def agree(mechanism, method, step, atol=2e-13, h=H):
    """Both runs of a few steps, begun at the same values."""
    system = mechanism.system()
    start = da.consistent(system, q=mechanism.start[0], v=mechanism.start[1], u=[1.0] if system.nu else None)
    options = {"u": lambda t: [mechanism.u(t)]} if system.nu else {}
    sol = da.simulate(system, method, q=start.q, v=start.v, t_end=STEPS * h, step=h, compile=False, **options)
    q, p = start.q, mechanism.mass(start.q) * start.v
    for k in range(STEPS):
        q, p = step(mechanism, q, p, k * h, h)
        np.testing.assert_allclose(sol.q[k + 1], q, atol=atol)
        np.testing.assert_allclose(sol.p[k + 1], p, atol=20 * atol)
        if mechanism.multiplier is not None:
            np.testing.assert_allclose(sol.lam[k], mechanism.multiplier, atol=1e-10)
            assert sol.t_lam[k] == pytest.approx((k + 0.5) * h, rel=1e-14)
    assert np.abs(sol.q[-1] - sol.q[0]).max() > 1e-2
    return sol


SEEDS = [0, 1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mass", ["varies", "constant"])
def test_rattle(mass, seed):
    agree(Mechanism(seed, mass=mass), "rattle", own.rattle)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_lobatto_pair(k, seed):
    agree(Mechanism(seed), f"lobatto-pair-{k}", own.jay(k))
    agree(Mechanism(seed, mass="constant"), f"lobatto-pair-{k}", own.jay(k))


@pytest.mark.parametrize("kinds", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_murua(k, kinds):
    mechanism = Mechanism(2, holonomic=kinds[0], nonholonomic=kinds[1])
    agree(mechanism, f"murua-{k}", own.murua(k))
    if kinds[0]:
        agree(mechanism, f"murua-ggl-{k}", own.murua(k, ggl=True))


@pytest.mark.parametrize("kinds", [(False, True), (True, True)])
@pytest.mark.parametrize("k", [2, 3])
def test_spark(k, kinds):
    agree(Mechanism(3, holonomic=kinds[0], nonholonomic=kinds[1]), f"spark-{k}", own.spark(k))


@pytest.mark.parametrize("kinds", [(False, True), (True, True)])
@pytest.mark.parametrize(("name", "k"), [("gauss", 1), ("gauss", 2), ("gauss", 3), ("radau-ia", 2), ("radau-ia", 3)])
def test_specialized(name, k, kinds):
    agree(Mechanism(4, holonomic=kinds[0], nonholonomic=kinds[1]), f"srk-{name}-{k}", own.specialized(name, k))


@pytest.mark.parametrize(("name", "k"), [("gauss", 2), ("gauss", 3), ("radau-iia", 2), ("radau-iia", 3), ("lobatto-iiic", 3)])
def test_classical(name, k):
    agree(Mechanism(5, nonholonomic=True), f"{name}-{k}", own.classical(name, k))
    agree(Mechanism(5, holonomic=False), f"{name}-{k}", own.classical(name, k))


@pytest.mark.parametrize("name", ["lobatto-iiia", "lobatto-iiib", "lobatto-iiic*", "lobatto-iiid", "radau-ia"])
def test_free(name):
    agree(Mechanism(6, holonomic=False), f"{name}-3", own.classical(name, 3))


@pytest.mark.parametrize("seed", SEEDS)
def test_shake(seed):
    """`M (q2 - 2 q1 + q0) / h^2 = f(q1, t1) - G(q1)^T lam1`, `g(q2) = 0`: the two-step equations (Ryckaert et al. 1977)."""
    s = Mechanism(seed, mass="constant", moving=True)
    s.c = 0.0
    system = da.Mechanical(
        3, mass=list(s.m), potential=lambda q: sum(s.k[i] * q[i] ** 2 for i in range(3)) / 2 + q[0] * q[1] * q[2] + q[0] ** 4 / 4,
        force=lambda t: [x * np.sin(t) for x in s.e], inputs=s.B[:, None],
        holonomic=lambda q, t: q[0] ** 2 + 2 * q[1] ** 2 + q[2] ** 2 - 1 + sum(s.b[i] * q[i] for i in range(3)) * np.sin(t),
    )  # fmt: skip
    start = da.consistent(system, q=s.start[0], v=s.start[1], u=[1.0])
    sol = da.simulate(system, "shake", q=start.q, v=start.v, t_end=10 * H, step=H, u=lambda t: [s.u(t)], compile=False)
    for k in range(1, 10):
        before, here, after = sol.q[k - 1 : k + 2]
        t = sol.t[k]
        G = s.G(here, t)[0]
        rest = s.f(here, 0 * here, t) - s.V_q(here) - s.m * (after - 2 * here + before) / H**2
        lam = G @ rest / (G @ G)
        np.testing.assert_allclose(rest, G * lam, atol=2e-11)
        assert sol.lam[k, 0] == pytest.approx(lam, abs=1e-10)
        assert abs(s.g(after, t + H)[0]) < 1e-14


# ---- variational methods ------------------------------------------------------------------------------------------------------


def discrete_lagrangian(rule):
    """`D1 Ld`, `D2 Ld` of `h (mean of L over the nodes of the rule)`, by hand."""
    nodes = {"midpoint": [0.5], "trapezoidal": [0.0, 1.0], "left": [0.0]}[rule]

    def slopes(s, q0, q1, h):
        w, first, second = (q1 - q0) / h, 0, 0
        for c in nodes:
            q = (1 - c) * q0 + c * q1
            by_q, by_v = s.L_q(q, w), s.mass(q) * w
            first = first + h / len(nodes) * ((1 - c) * by_q - by_v / h)
            second = second + h / len(nodes) * (c * by_q + by_v / h)
        return first, second

    return slopes, nodes


def variational(lagrangian, constraint):
    """The discrete Lagrange-d'Alembert equations (Hilden 2009, eq. 3.2), forces by half impulses at the middle of the step."""
    slopes, _ = discrete_lagrangian(lagrangian)
    nodes = discrete_lagrangian(constraint)[1]

    def step(s, q0, p0, t, h):
        m = s.count

        def F(x):
            q1, lam, v1, mu = own.blocks(x, 3, m, 3, m)
            w, middle = (q1 - q0) / h, (q0 + q1) / 2
            first, second = slopes(s, q0, q1, h)
            push = h / 2 * s.f(middle, w, t + h / 2)
            gd = sum(s.slide((1 - c) * q0 + c * q1, w, t + c * h) for c in nodes) / len(nodes)
            return np.concatenate(
                [
                    p0 + first + push - h * s.K(q0, t).T @ lam, np.concatenate([s.g(q1, t + h) / h, gd]),
                    s.mass(q1) * v1 - second - push + h * s.K(q1, t + h).T @ mu, s.level(q1, v1, t + h),
                ]
            )  # fmt: skip

        v0 = s.w(q0) * p0
        q1, _, v1, _ = own.blocks(own.newton(F, np.concatenate([q0 + h * v0, np.zeros(m), v0, np.zeros(m)])), 3, m, 3, m)
        return q1, s.mass(q1) * v1

    return step


@pytest.mark.parametrize("constraint", ["midpoint", "trapezoidal", "left"])
@pytest.mark.parametrize("lagrangian", ["midpoint", "trapezoidal", "left"])
def test_variational(lagrangian, constraint):
    mechanism = Mechanism(7, nonholonomic=True)
    agree(mechanism, Variational(lagrangian=lagrangian, constraint=constraint), variational(lagrangian, constraint))


@pytest.mark.parametrize("seed", SEEDS)
def test_cortes_martinez(seed):
    agree(Mechanism(seed, holonomic=False, nonholonomic=True), "cortes-martinez", variational("midpoint", "midpoint"))


def mclachlan_perlmutter(left):
    """Hilden 2009, eq. 3.4 and sec. 4.2: the discrete curve at the half steps, with a mass matrix that varies."""

    def step(s, q0, p0, t, h):
        v0, half = s.w(q0) * p0, q0 + h / 2 * s.w(q0) * p0

        def momentum(q, v):
            before, after = s.mass(q - h / 2 * v) * v, s.mass(q + h / 2 * v) * v
            return before if left else (before + after) / 2

        def F(x):
            v1, lam = own.blocks(x, 3, s.count)
            q1 = half + h / 2 * v1
            force = [s.L_q(half, v) + s.f(half, v, t + h / 2) for v in (v0, v1)]
            mean = force[1] if left else (force[0] + force[1]) / 2
            return np.concatenate(
                [
                    (momentum(q1, v1) - momentum(q0, v0)) / h - mean + s.K(half, t + h / 2).T @ lam,
                    s.level(q1, v1, t + h),
                ]
            )  # fmt: skip

        v1, _ = own.blocks(own.newton(F, np.concatenate([v0, np.zeros(s.count)])), 3, s.count)
        q1 = half + h / 2 * v1
        return q1, s.mass(q1) * v1

    return step


@pytest.mark.parametrize("kinds", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("rule", ["trapezoidal", "left"])
def test_mclachlan_perlmutter(rule, kinds):
    mechanism = Mechanism(8, holonomic=kinds[0], nonholonomic=kinds[1])
    agree(mechanism, McLachlanPerlmutter(lagrangian=rule), mclachlan_perlmutter(rule == "left"))


# ---- discrete gradients -------------------------------------------------------------------------------------------------------


def gonzalez(f, slope, a, b):
    """Gonzalez 1996, eq. 2.4."""
    d, base = b - a, slope((a + b) / 2)
    return base + d * (f(b) - f(a) - base @ d) / (d @ d)


def energy_momentum(s, q0, p0, t, h):
    """Gonzalez 1999, eqs. 21, 33, with a mass matrix that varies: D of `v0 M(q) v1 / 2 - V` at frozen velocities."""
    v0 = s.w(q0) * p0

    def F(x):
        v1, lam = own.blocks(x, 3, s.count)
        w = (v0 + v1) / 2
        q1 = q0 + h * w

        def f(q):
            return (v0 * s.mass(q) * v1).sum() / 2 - s.V(q)

        def slope(q):
            by_mass = -s.m * s.a * np.roll(q, -1) / (1 + s.a * np.roll(q, -1) ** 2) ** 2
            return np.roll(by_mass * v0 * v1, 1) - s.V_q(q)

        D = gonzalez(f, slope, q0, q1)
        Dg = gonzalez(lambda q: s.g(q, t)[0], lambda q: s.G(q, t)[0], q0, q1)
        push = s.f((q0 + q1) / 2, w, t + h / 2)
        return np.concatenate([(s.mass(q1) * v1 - p0) / h - D - push + Dg * lam, s.g(q1, t + h) / h])

    v1, _ = own.blocks(own.newton(F, np.concatenate([v0, np.zeros(s.count)])), 3, s.count)
    q1 = q0 + h * (v0 + v1) / 2
    return q1, s.mass(q1) * v1


@pytest.mark.parametrize("mass", ["varies", "constant"])
def test_energy_momentum(mass):
    method = da.methods.EnergyMomentum(gradient="gonzalez")
    # the quotient in Gonzalez' formula is taken as it stands here: a few digits are lost
    agree(Mechanism(9, mass=mass, moving=False), method, energy_momentum, atol=2e-12)


class Ports:
    """A random semi-explicit system `E x' = (J - R(x)) z + (B - P) u`, `E = diag(T, 0)`, `T^T z1 = H_x1`, with feedthrough."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        A, L, N = rng.normal(size=(3, 3)), rng.normal(size=(4, 4)), rng.normal(size=(1, 1))
        self.J, W = A - A.T, L @ L.T / 4 + 0.2 * np.eye(4)
        self.R, self.P, self.S, self.N = W[:3, :3], W[:3, 3:], W[3:, 3:], N - N.T
        self.B, self.T = rng.normal(size=(3, 1)), rng.normal(size=(2, 2)) + 3 * np.eye(2)
        self.E = np.zeros((3, 3))
        self.E[:2, :2] = self.T

    def H(self, x):
        return x[0] ** 4 / 4 + x[0] ** 2 / 2 + x[1] ** 2 / 2 + x[0] ** 2 * x[1]

    def H_x(self, x):
        return np.array([x[0] ** 3 + x[0] + 2 * x[0] * x[1], x[1] + x[0] ** 2])

    def z2(self, x):
        return x[2] + x[2] ** 3 / 3 + 0.1 * x[0]

    def system(self):
        inverse = np.linalg.inv(self.T.T)

        def z(x):
            g = [x[0] ** 3 + x[0] + 2 * x[0] * x[1], x[1] + x[0] ** 2]
            return [inverse[0, 0] * g[0] + inverse[0, 1] * g[1], inverse[1, 0] * g[0] + inverse[1, 1] * g[1], self.z2(x)]

        return da.PortHamiltonian(
            3, hamiltonian=self.H, E=self.E, J=self.J, R=self.R, B=self.B, P=self.P, S=self.S, z=z, initial={"x": [0.5, 0.3, 0.1]}
        )


KINDS = {
    "discrete-gradient": da.methods.DiscreteGradient,
    "ddr": da.methods.DiracDissipative,
    "gradient-pair": da.methods.GradientPair,
}


def discrete_gradient(s, x0, t, h, u, z2):
    """Kinon, Morandin, Schulze 2025, eqs. 20, 21: `z1 = T^-T D H`, `z2` at a place of the step."""
    places = {"midpoint": lambda x1: (x0 + x1) / 2, "right": lambda x1: x1}

    def costates(x1):
        D = gonzalez(s.H, s.H_x, x0[:2], x1[:2])
        return np.array([*np.linalg.solve(s.T.T, D), s.z2(places[z2](x1))])

    def F(x1):
        return s.E @ (x1 - x0) / h - (s.J - s.R) @ costates(x1) - (s.B - s.P) @ u

    x1 = own.newton(F, x0 + 0.01)
    z = costates(x1)
    return x1, z, (s.B + s.P).T @ z + s.S @ u


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("z2", ["midpoint", "right"])
def test_discrete_gradients_of_ports(name, z2, seed):
    """State, costates and outputs; the three methods are one on semi-explicit systems (theorem 5, corollary 1)."""
    ports = Ports(seed)
    system = ports.system()
    x = da.consistent(system, u=[0.4]).x
    sol = da.simulate(
        system, KINDS[name]("gonzalez-joint", z2=z2), x=x, t_end=STEPS * H, step=H, u=lambda t: [0.4 + np.sin(t)], compile=False
    )
    for k in range(STEPS):
        u = np.array([0.4 + np.sin((k + 0.5) * H)])
        x, z, y = discrete_gradient(ports, x, k * H, H, u, z2)
        np.testing.assert_allclose(sol.x[k + 1], x, atol=2e-12)
        np.testing.assert_allclose(sol.costates[k], z, atol=2e-11)
        np.testing.assert_allclose(sol.outputs[k], y, atol=2e-11)
    for state, u, y in zip(sol.x, sol.u, sol.y, strict=True):  # at the stored times, those of the equations themselves
        z = np.array([*np.linalg.solve(ports.T.T, ports.H_x(state)), ports.z2(state)])
        np.testing.assert_allclose(y, (ports.B + ports.P).T @ z + ports.S @ u, atol=1e-13)


# ---- five parts ----------------------------------------------------------------------------------------------------------

LOBATTO = ("lobatto-iiia", "lobatto-iiib", "lobatto-iiic", "lobatto-iiic*", "lobatto-iiid")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("parts", [2, 5])
@pytest.mark.parametrize("k", [2, 3])
def test_spark_with_parts(k, parts, seed):
    """Jay 2003, Hilden 2009, eq. 2.20: a Lobatto tableau for each part of the right-hand side."""
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(parts, 3, 3)) / 2
    a = rng.normal(size=parts)

    def part(m):
        def f(y, z, t):
            own = [sum(C[m, i, j] * y[j] for j in range(3)) + 0.2 * a[m] * y[0] * y[1] * np.cos(t) for i in range(3)]
            if m == 1:  # acts along the gradient of the constraint
                own = [x - z[0] * s for x, s in zip(own, (2 * y[0], 2 * y[1], 2 * y[2]), strict=True)]
            return own

        return f

    def first(y, t):
        return part(0)(y, None, t)

    def g(y, t):
        return y[0] ** 2 + y[1] ** 2 + y[2] ** 2 - 1 - 0.2 * np.sin(t)

    system = da.IndexTwoDAE(3, parts=[first, *(part(m) for m in range(1, parts))], g=g)
    y0 = rng.normal(size=3)
    y0 = y0 / np.linalg.norm(y0)
    start = da.consistent(system, y=y0)
    sol = da.simulate(system, f"spark-{k}", y=start.y, t_end=2 * H, step=H, compile=False)
    tables = [own.tableau(name, k) for name in LOBATTO[:parts]]
    b, c = tables[0][1:]
    y, z = start.y, start.z
    for n in range(2):
        times = (n + c) * H

        def rates(x):
            Y, Z = own.blocks(x, (k, 3), (k, 1))
            return Y, [np.array([np.array(part(m)(Y[j], Z[j], times[j])) for j in range(k)]) for m in range(parts)]

        def F(x):
            Y, f = rates(x)
            y1 = y + H * b @ sum(f)
            inner = tables[0][0][1:] @ np.array([g(Y[j], times[j]) for j in range(k)])
            moved = Y - y - H * sum(A @ f[m] for m, (A, _, _) in enumerate(tables))
            return np.concatenate([moved.ravel(), inner / H, [g(y1, (n + 1) * H)]])

        y = y + H * b @ sum(rates(own.newton(F, np.concatenate([np.tile(y, k), np.tile(z, k)])))[1])
        np.testing.assert_allclose(sol.y[n + 1], y, atol=1e-12)
