"""Systems of the catalog against equations of their own, written by hand and integrated by SciPy, or solved exactly."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import dalembert as da

CLOSE = {"rtol": 1e-12, "atol": 1e-13, "method": "DOP853"}


def constrained(M, force, matrix, rate, q, v, t_end):
    """`M a = f - K^T lam`, `K a = -K' v`, from the matrices of a textbook."""
    n = len(q)

    def f(t, y):
        q, v = y[:n], y[n:]
        K = matrix(q)
        m = len(K)
        A = np.block([[M, K.T], [K, np.zeros((m, m))]])
        return np.concatenate([v, np.linalg.solve(A, np.concatenate([force(q, v, t), -rate(q, v)]))[:n]])

    return solve_ivp(f, (0, t_end), np.concatenate([q, v]), **CLOSE).y[:, -1]


def test_snakeboard():
    """Each wheel stands at the end of the board, turned by +phi or -phi, and does not slip sideways."""
    m, J, J0, J1, r = 6.0, 0.016, 0.16, 0.0013, 0.2
    M = np.diag([m, m, J + J0 + 2 * J1, J0, 2 * J1])
    M[2, 3] = M[3, 2] = J0

    def wheels(q):
        rows = []
        for side in (1, -1):
            across = np.array([-np.sin(q[2] + side * q[4]), np.cos(q[2] + side * q[4])])
            arm = side * r * np.array([-np.sin(q[2]), np.cos(q[2])])  # velocity of the wheel by the turning of the board
            rows.append([*across, across @ arm, 0.0, 0.0])
        return np.array(rows)

    def rate(q, v):
        """`K' v`, with `across . arm = r cos(phi)` for the front wheel, and its negative for the other."""
        out = []
        for side in (1, -1):
            a, turning = q[2] + side * q[4], v[2] + side * v[4]
            out.append(turning * (-np.cos(a) * v[0] - np.sin(a) * v[1]) - side * r * np.sin(q[4]) * v[4] * v[2])
        return np.array(out)

    def torques(q, v, t):
        return np.array([0, 0, 0, 0.3 * np.sin(2 * t), 0.004 * np.cos(2 * t)])

    board = da.catalog.snakeboard()
    end = constrained(M, torques, wheels, rate, np.array([0, 0, 0, 0, 0.3]), np.zeros(5), 1.0)
    sol = da.simulate(board, "murua-4", t_end=1.0, step=0.01, u=lambda t: [0.3 * np.sin(2 * t), 0.004 * np.cos(2 * t)])
    np.testing.assert_allclose(sol.x[-1], end, atol=1e-10)
    assert np.abs(end[:2]).max() > 1e-3


def test_cart_with_pendulum():
    m, J, bob, l, g = 1.0, 0.1, 0.4, 0.8, 9.81
    M = np.diag([m, m, J, bob, bob, bob])

    def matrix(q):
        d = q[3:] - np.array([q[0], q[1], 0.0])
        return np.array([[-2 * d[0], -2 * d[1], 0, *(2 * d)], [-np.sin(q[2]), np.cos(q[2]), 0, 0, 0, 0]])

    def rate(q, v):
        d = v[3:] - np.array([v[0], v[1], 0.0])
        return np.array([2 * d @ d, v[2] * (-np.cos(q[2]) * v[0] - np.sin(q[2]) * v[1])])

    cart = da.catalog.cart_with_pendulum()
    start = da.consistent(cart)
    end = constrained(M, lambda q, v, t: np.array([0, 0, 0, 0, 0, -bob * g]), matrix, rate, start.q, start.v, 1.0)
    sol = da.simulate(cart, "murua-ggl-4", **start, t_end=1.0, step=0.01)
    np.testing.assert_allclose(sol.x[-1], end, atol=1e-10)
    assert abs(end[5]) < l
    assert abs(end[2] - start.q[2]) > 0.1


def test_spherical_pendulum():
    """In its two angles, the first from the downward vertical."""
    g = 9.81

    def f(t, y):
        a, _, da_, db = y
        return [da_, db, np.sin(a) * np.cos(a) * db**2 - g * np.sin(a), -2 * da_ * db / np.tan(a)]

    a, b, da_, db = solve_ivp(f, (0, 2.0), [np.pi / 2, 0.0, 0.0, 1.5], **CLOSE).y[:, -1]
    q = [np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), -np.cos(a)]
    v = [
        np.cos(a) * np.cos(b) * da_ - np.sin(a) * np.sin(b) * db,
        np.cos(a) * np.sin(b) * da_ + np.sin(a) * np.cos(b) * db,
        np.sin(a) * da_,
    ]
    sol = da.simulate(da.catalog.spherical_pendulum(), "lobatto-pair-5", t_end=2.0, step=0.01)
    np.testing.assert_allclose(sol.x[-1], [*q, *v], atol=1e-9)
    assert sol.q[:, 2].min() < -0.5


def linear(A, b, x, t):
    """The solution of `x' = A x + b`."""
    rest = np.linalg.solve(A, b)
    return expm(A * t) @ (x + rest) - rest


def test_dc_motor():
    """`L i' = U - R i - k w`, `J w' = k i - b w + M`: a voltage turns it forwards, and turning induces one against it."""
    L, R, J, b, k = 0.01, 0.5, 0.002, 0.001, 0.05
    U, M = 3.0, -0.02
    current, speed = linear(np.array([[-R / L, -k / L], [k / J, -b / J]]), np.array([U / L, M / J]), np.zeros(2), 0.1)
    sol = da.simulate(da.catalog.dc_motor(), "gauss-4", t_end=0.1, step=0.001, u=[U, M])
    np.testing.assert_allclose(sol.x[-1], [L * current, J * speed], rtol=1e-12)
    assert speed > 0


def test_a_capacitor_behind_a_gyrator_is_an_inductor():
    """`i_1 = g v_2`, `i_2 = -g v_1`, as the docstring says: C_1 v_1' = I - g v_2, C_2 v_2' = g v_1 - v_2 / R."""
    C1, C2, R, g, current = 0.3, 0.4, 5.0, 0.8, 1.5
    network = da.catalog.circuit(
        [
            ("I", "I1", "ground", "a"), ("C", "C1", "a", "ground", C1), ("C", "C2", "b", "ground", C2),
            ("R", "R1", "b", "ground", R),
            ("gyrator", "G", "a", "ground", "b", "ground", g),
        ]
    )  # fmt: skip
    sol = da.simulate(network, "gauss-4", t_end=2.0, step=0.01, u=[current])
    exact = linear(np.array([[0, -g / C1], [g / C2, -1 / (R * C2)]]), np.array([current / C1, 0]), np.zeros(2), 2.0)
    order = [network.coordinates.index("v_a"), network.coordinates.index("v_b")]
    np.testing.assert_allclose(sol.x[-1, order], exact, rtol=1e-12)


def test_a_transformer_by_hand():
    """`v_1 = n v_2`: seen from its first side, an inductor at the second is one of n^2 L."""
    n, C, L = 2.0, 0.3, 0.4
    network = da.catalog.circuit(
        [("I", "I1", "ground", "a"), ("C", "C1", "a", "ground", C), ("L", "L1", "b", "ground", L),
         ("transformer", "T", "a", "ground", "b", "ground", n)]
    )  # fmt: skip
    start = da.consistent(network, x=np.zeros(network.n), u=[1.0])
    sol = da.simulate(network, "radau-iia-4", **start, t_end=1.0, step=0.005, u=[1.0])
    omega = 1 / np.sqrt(C * n**2 * L)
    exact = np.sin(omega) / (C * omega)  # of C v' = 1 - i, n^2 L i' = v
    assert sol.x[-1, network.coordinates.index("v_a")] == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("n", [1, 4])
def test_mass_spring_damper(n):
    """Springs `k s + k s^3` and dampers `d s'` between neighbours, the first one to the wall, a force on the last mass."""
    m, k, d = 1.0, 10.0, 0.3

    def f(t, x):
        q, v = np.concatenate([[0.0], x[:n]]), np.concatenate([[0.0], x[n:] / m])
        force = np.zeros(n)
        for i in range(n):  # between mass i (0 is the wall) and mass i + 1
            s, rate = q[i + 1] - q[i], v[i + 1] - v[i]
            pull = k * s + k * s**3 + d * rate
            force[i] -= pull
            if i:
                force[i - 1] += pull
        force[-1] += np.sin(3 * t)
        return np.concatenate([v[1:], force])

    system = da.catalog.mass_spring_damper(n)
    start = np.asarray(system.initial["x"])
    end = solve_ivp(f, (0, 1.0), start, **CLOSE).y[:, -1]
    sol = da.simulate(system, "gauss-4", t_end=1.0, step=0.01, u=lambda t: [np.sin(3 * t)])
    np.testing.assert_allclose(sol.x[-1], end, atol=1e-10)


def test_double_pendulum_in_its_angles():
    """Both masses and both lengths different, against the equations in angles."""
    m1, m2, l1, l2, g = 2.0, 0.7, 1.2, 0.8, 9.81

    def f(t, y):
        a, b, da_, db = y
        c, s = np.cos(a - b), np.sin(a - b)
        M = [[(m1 + m2) * l1**2, m2 * l1 * l2 * c], [m2 * l1 * l2 * c, m2 * l2**2]]
        right = [
            -m2 * l1 * l2 * s * db**2 - (m1 + m2) * g * l1 * np.sin(a),
            m2 * l1 * l2 * s * da_**2 - m2 * g * l2 * np.sin(b),
        ]
        return [da_, db, *np.linalg.solve(M, right)]

    a, b = solve_ivp(f, (0, 1.0), [np.pi / 2, np.pi / 2, 0.0, 0.0], **CLOSE).y[:2, -1]
    first = l1 * np.array([np.sin(a), -np.cos(a)])
    second = first + l2 * np.array([np.sin(b), -np.cos(b)])
    sol = da.simulate(da.catalog.double_pendulum(m1=m1, m2=m2, l1=l1, l2=l2), "lobatto-pair-5", t_end=1.0, step=0.005)
    np.testing.assert_allclose(sol.q[-1], [*first, *second], atol=1e-9)


def test_the_inductances_that_the_machine_is_said_to_have():
    machine = da.catalog.synchronous_machine()
    L = machine.at("E", [0.0] * 7 + [0.4])[:6, :6]
    np.testing.assert_allclose(L, L.T, atol=0)
    assert np.linalg.eigvalsh(L)[0] > 0
    for value in (0.15, 0.2, -0.05, 0.05, 0.06 * np.cos(0.4), 0.05 * np.cos(0.4)):
        assert np.isclose(L, value, atol=1e-15).any()


@pytest.mark.parametrize(("axial", "diametral"), [(0.5, 0.25), (1.0, 0.5)])  # a uniform disk, a hoop
def test_an_upright_disk_is_stable_above_its_critical_speed(axial, diametral):
    disk = da.catalog.falling_disk(axial=axial, diametral=diametral)
    critical = np.sqrt(diametral * 9.81 / (axial * (axial + 1) * 0.25))
    lean = {}
    for factor in (0.95, 1.05):
        speed = factor * critical
        sol = da.simulate(disk, "spark-2", q=[0, 0, 0, 1e-6, 0], v=[speed * 0.25, 0, 0, 0, speed], t_end=6.0, step=0.01)
        lean[factor] = np.abs(sol.q[:, 3]).max()
    assert lean[1.05] < 1e-4 < 1e-2 < lean[0.95]


def test_a_falling_disk_keeps_its_energy_and_rolls():
    sol = da.simulate(da.catalog.falling_disk(), "spark-3", t_end=2.0, step=0.01)
    assert np.ptp(sol.energy) < 1e-7
    assert np.ptp(sol.kinetic) > 0.1
    assert np.abs(sol.residual("velocity")).max() < 1e-14


def newton_euler(t, y, m=1.0, R=0.25, axial=0.5, diametral=0.25, g=9.81):
    """A rolling disk by the laws of Newton and Euler: centre, axis, angular velocity; no coordinates of the library."""
    a, w = y[3:6], y[6:9]
    up = np.array([0.0, 0.0, 1.0])
    turn = np.cross(w, a)
    inside, moved = up - a[2] * a, -turn[2] * a - a[2] * turn  # the vertical in the plane of the disk, and its rate
    size = np.linalg.norm(inside)
    arm, rate = -R * inside / size, -R * (moved / size - inside * (inside @ moved) / size**3)  # to the point of contact
    A, D = axial * m * R**2, diametral * m * R**2
    across = np.array([np.cross(arm, np.cross(e, arm)) for e in np.eye(3)]).T  # of w': arm x (w' x arm)
    left = D * np.eye(3) + (A - D) * np.outer(a, a) + m * across
    right = -(A - D) * ((w @ turn) * a + (w @ a) * turn) - m * np.cross(arm, np.cross(w, rate)) + m * g * np.cross(arm, up)
    return np.concatenate([-np.cross(w, arm), turn, np.linalg.solve(left, right)])


def test_the_falling_disk_by_the_laws_of_newton_and_euler():
    disk = da.catalog.falling_disk()
    start = da.consistent(disk, q=[0.1, -0.2, 0.3, 0.25, 0.0], v=[1.0, 0.0, 0.8, -0.3, 6.0])
    assert start.v[4] > 3.0

    def independent(q, v):
        phi, lean = q[2], q[3]
        ahead = np.array([np.cos(phi), np.sin(phi), 0.0])
        up = np.array([-np.sin(lean) * np.sin(phi), np.sin(lean) * np.cos(phi), np.cos(lean)])
        axis = np.cross(ahead, up)
        return np.concatenate([[q[0], q[1], 0.0] + 0.25 * up, axis, [0, 0, v[2]] - v[3] * ahead - v[4] * axis])

    sol = da.simulate(disk, "spark-3", q=start.q, v=start.v, t_end=1.0, step=0.0025)
    exact = solve_ivp(newton_euler, (0, 1), independent(start.q, start.v), rtol=1e-11, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(independent(sol.q[-1], sol.v[-1]), exact, atol=2e-8)
    assert np.abs(sol.q[-1, 3] - start.q[3]) > 0.05


def test_the_picture_of_the_falling_disk_touches_the_plane():
    disk = da.catalog.falling_disk()
    points = disk.numeric("points", disk.pack(), q=np.array([0.3, -0.1, 0.7, 0.4, 1.3])).reshape(-1, 3)
    rim, centre, contact = points[:24], points[24], points[25]
    np.testing.assert_allclose(np.linalg.norm(rim - centre, axis=1), 0.25, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(contact - centre), 0.25, atol=1e-15)
    assert np.linalg.matrix_rank(np.vstack([rim, contact]) - centre, tol=1e-12) == 2  # all in one plane
    assert rim[:, 2].min() > -1e-15
    rolled = disk.numeric("points", disk.pack(), q=np.array([0.3, -0.1, 0.7, 0.4, 1.301])).reshape(-1, 3)
    highest = rim[:, 2].argmax()
    assert (rolled - points)[highest, :2] @ [np.cos(0.7), np.sin(0.7)] > 0  # the top goes ahead
