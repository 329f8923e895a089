"""Differential-algebraic equations (Bertolazzi, Cocetti, Stocco): tableaus, pencils, Lagrangians, drift and its remedies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dalembert.analysis.reduction import ode
from dalembert.catalog.symbols import Array
from dalembert.engine.consistency import consistent
from dalembert.engine.consistent import Consistent
from dalembert.experiments.base import Result, Start, experiment, slope
from dalembert.methods.explicit import TABLEAUS, second_order, third_order
from dalembert.methods.tableaus import tableau
from dalembert.reduced import Baumgarte, CoordinatePartition, Projection
from dalembert.simulation import simulate
from dalembert.solution import Solution
from dalembert.systems import Lagrangian, LinearDAE, Mechanical
from dalembert.systems.linear_dae import gauss


def pendulum() -> tuple[Mechanical, Consistent]:
    """m = 2, l = 2.5, g = 9.81, started at the nearest consistent value to (0.86, 2.35), at rest."""
    system = Mechanical(
        ("x", "y"), mass=lambda m: m, potential=lambda q, m, g: m * g * q[1], holonomic=lambda q, l: np.dot(q, q) - l**2,
        parameters={"m": 2.0, "g": 9.81, "l": 2.5}, name="pendulum",
    )  # fmt: skip
    return system, consistent(system, q=[0.86, 2.35], v=[0.0, 0.0])


STATED = {  # the order that the source gives, in its words where they are others than ours
    "euler": 1, "explicit-midpoint": 2, "heun": 2, "ralston": 2, "rk3": 3, "heun3": 3, "ralston3": 3, "ssprk3": 3, "rk4": 4,
    "ralston4": "second-order", "rk38": "second-order", "implicit-euler": 1, "implicit-midpoint": 2, "crank-nicolson": 2,
    "gauss-2": "second-order", "gauss-3": 6, "lobatto-iiia-3": 4, "lobatto-iiib-3": 4, "lobatto-iiic-3": 4,
    "lobatto-iiic*-3": 4, "radau-ia-3": 5, "radau-iia-3": 5,
}  # fmt: skip
COUNTS = {1: (400, 800, 1600), 2: (100, 200, 400), 3: (100, 200, 400), 4: (40, 80, 160), 5: (20, 40, 80), 6: (12, 17, 24)}


@experiment("dae-rk", "The Runge-Kutta methods of chapter 1", "Bertolazzi, Cocetti, Stocco, sec. 1.2")
def runge_kutta(r: Result, quick: bool) -> None:
    """Orders on the pendulum in its angle, by slope."""
    system = Mechanical(1, mass=1.0, potential=lambda q: -9.81 * np.cos(q[0]))
    start: Start = {"q": [1.0], "v": [0.5]}
    truth = simulate(system, "gauss-6", **start, t_end=1.0, step=0.01).q[-1, 0]
    for method, stated in STATED.items():
        order = stated if isinstance(stated, int) else 4
        counts = np.array(COUNTS[order])
        errors = [abs(simulate(system, method, **start, t_end=1.0, step=1 / n).q[-1, 0] - truth) for n in counts]
        r.near(f"{method}: order", slope(errors, 1 / counts), order, 0.3, str(stated))
        r.data[method] = {"h": 1 / counts, "error": np.array(errors)}
    met = all(TABLEAUS[k].order == (p if isinstance(p, int) else 4) for k, p in STATED.items() if k in TABLEAUS)
    r.true("all tableaus of sec. 1.2.2 meet their order conditions", met, "yes" if met else "no", "yes")
    families = second_order(0.3).order, third_order(0.4).order
    r.true("generic families (1.27), (1.32)", families == (2, 3), f"{families[0]}, {families[1]}", "2, 3", "2, 3")
    r.true("Gauss of three stages is symplectic", tableau("gauss", 3).symplectic, "yes", "yes", "")
    r.disagree(
        "(1.34), (1.35) and (1.41) are called second-order; they are of order 4. The last node of (1.29) must be 2/3; the "
        "denominator of the last weight of (1.32) has a factor alpha too many."
    )


@experiment("dae-pencil", "Pencils", "Bertolazzi, Cocetti, Stocco, examples 1, 2, 3, 6")
def pencils(r: Result, quick: bool) -> None:
    """Regularity, nilpotency, index, ODE form and consistent values."""
    one, two = (
        LinearDAE([[1, 0], [0, 0]], [[0, 1], [0, 0]]),
        LinearDAE([[1, 0, 0], [-2, 0, 0], [0, -2, 0]], np.diag([1.0, 1.0, 0.0])),
    )
    r.true("example 1", not one.is_regular, "singular", "singular", "not regular")
    r.true("example 2", not two.is_regular, "singular", "singular", "not regular")
    three = LinearDAE([[0, 1, 3], [0, 0, 2], [0, 0, 0]], np.eye(3))
    r.near("example 3: degree of nilpotency", three.index, 3, 0, "3")
    six = LinearDAE([[1, 1, 1], [1, 1, 1], [0, 0, 0]], [[2, 0, 1], [1, 1, 0], [1, 1, 1]], lambda t: [t, t**3, np.sin(t)])
    r.near("example 6: determinant of A - s E at s = 0.3", float(np.linalg.det(six.A - 0.3 * six.E)), 2, 1e-12, "2")
    r.near("example 6: index", six.index, 2, 0, "left open")
    r.near("example 6: values that can be chosen", six.degrees_of_freedom, 0, 0, "left open")
    x0 = six.consistent([0.0, 0.0, 0.0])
    times = np.linspace(0, 2, 5)
    exact = six.exact(x0, times)
    d = 1e-5
    rate = (six.exact(x0, times[1:] + d) - six.exact(x0, times[1:] - d)) / (2 * d)
    rest = [six.E @ v - six.A @ x - six.derivative(0, t) for v, x, t in zip(rate, exact[1:], times[1:], strict=True)]
    r.below("example 6: residual of the solution", float(np.abs(rest).max()), 1e-8, "")
    r.below(
        "example 6: distance of the solution to the constraints",
        max(six.check(x, t) for x, t in zip(exact, times, strict=True)),
        1e-12,
        "",
    )
    r.data.update({"t": times, "x": exact})


def first_nonzero(M: Array) -> tuple[Array, Array, Array]:
    """Theorem 6 as the source proves it: pivots are the first entries that are not zero, column by column. `L M U = D`."""
    D, L, U = M.astype(float).copy(), np.eye(len(M)), np.eye(M.shape[1])
    for k in range(len(M)):
        places = np.argwhere(D[k:, k:].T != 0)
        if not len(places):
            break
        i, j = k + places[0][1], k + places[0][0]
        D[[k, i]], L[[k, i]] = D[[i, k]], L[[i, k]]
        D[:, [k, j]], U[:, [k, j]] = D[:, [j, k]], U[:, [j, k]]
        rows, columns = D[:, k] / D[k, k], D[k] / D[k, k]
        rows[k] = columns[k] = 0.0
        L, D = L - np.outer(rows, L[k]), D - np.outer(rows, D[k])
        U, D = U - np.outer(U[:, k], columns), D - np.outer(D[:, k], columns)
    return L, U, D


@experiment("dae-gauss", "Gauss elimination to diagonal form", "Bertolazzi, Cocetti, Stocco, theorem 6, example 5")
def elimination(r: Result, quick: bool) -> None:
    """`L M U = diag(Lambda, 0)`: the source's choice of pivots, and full pivoting."""
    M = np.array([[0, 0, 1, 0], [0, 2, 0, 0], [0, 4, 2, 0.0]])
    L, U, D = first_nonzero(M)
    printed = np.zeros((3, 4))
    printed[0, 0], printed[1, 1] = 2.0, 1.0
    r.below("example 5, first nonzero pivots: distance to diag(2, 1, 0)", float(np.abs(D - printed).max()), 0.0, "diag(2, 1, 0)")
    # the product of the printed C(3, 2, -2) C(3, 1, -2) P[1, 2]
    left = np.array([[0, 1, 0], [1, 0, 0], [-2, -2, 1.0]])
    r.below(
        "example 5, first nonzero pivots: distance of L to the printed factors", float(np.abs(L - left).max()), 0.0, "printed"
    )
    r.below("example 5, first nonzero pivots: residual of L M U - D", float(np.abs(L @ M @ U - D).max()), 0.0, "0")
    L, U, D = gauss(M)
    r.near("example 5, full pivoting: rank", float(np.count_nonzero(D)), 2, 0, "2")
    r.below("example 5, full pivoting: residual of L M U - D", float(np.abs(L @ M @ U - D).max()), 1e-14, "")
    for name, factors in (("first nonzero pivots", first_nonzero), ("full pivoting", gauss)):
        rng, worst, ranks = np.random.default_rng(0), 0.0, set()
        for _ in range(20):
            M = np.round(3 * rng.normal(size=(5, 3))) @ np.round(3 * rng.normal(size=(3, 7)))
            L, U, D = factors(M)
            worst = max(worst, float(np.abs(L @ M @ U - D).max()) / float(np.abs(M).max()))
            ranks.add(int((np.abs(D) > 1e-9 * np.abs(D).max()).sum()) - int(np.linalg.matrix_rank(M)))
        if factors is gauss:
            r.below(f"twenty random matrices, {name}: residual, relative", worst, 1e-13, "")
            r.true(f"twenty random matrices, {name}: errors of the rank", ranks == {0}, str(sorted(ranks)), "[0]", "")
        else:
            r.above(f"twenty random matrices, {name}: residual, relative", worst, 1e-6, "not discussed")
    r.data["D"] = D
    r.note("The library pivots fully: an entry that should be zero and is round-off must not become a pivot. Its Lambda is "
           "another one, diag(4, -1) here; rank and theorem are the same.")  # fmt: skip


@experiment("dae-lagrange", "Lagrangian modelling", "Bertolazzi, Cocetti, Stocco, examples 7, 10, 11; sec. 3.2")
def lagrangian(r: Result, quick: bool) -> None:
    """A point mass in two coordinate systems, the pendulum with and without a constraint, Christoffel symbols."""
    cartesian = Lagrangian(2, lagrangian=lambda q, v: v @ v / 2 - 9.81 * q[1])
    polar = Lagrangian(2, lagrangian=lambda q, v: (v[0] ** 2 + q[0] ** 2 * v[1] ** 2) / 2 - 9.81 * q[0] * np.sin(q[1]))
    a = simulate(cartesian, "gauss-4", q=[1.0, 1.0], v=[0.5, 2.0], t_end=0.5, step=0.01)
    root = np.sqrt(2)
    b = simulate(polar, "gauss-4", q=[root, np.pi / 4], v=[2.5 / root, 0.75], t_end=0.5, step=0.01)
    back = np.stack([b.q[:, 0] * np.cos(b.q[:, 1]), b.q[:, 0] * np.sin(b.q[:, 1])], axis=1)
    r.below("example 7: Cartesian against polar", float(np.abs(back - a.q).max()), 1e-10, "the same motion")
    angle = Lagrangian(1, lagrangian=lambda q, v: 2.5**2 * v[0] ** 2 - 2 * 9.81 * 2.5 * np.sin(q[0]))
    redundant = Lagrangian(2, lagrangian=lambda q, v: v @ v - 2 * 9.81 * q[1], holonomic=lambda q: q @ q - 2.5**2)
    c = simulate(angle, "gauss-4", q=[0.3], v=[0.1], t_end=2.0, step=0.01)
    d = simulate(redundant, "lobatto-pair-5", q=[2.5 * np.cos(0.3), 2.5 * np.sin(0.3)],
                 v=[-0.25 * np.sin(0.3), 0.25 * np.cos(0.3)], t_end=2.0, step=0.01)  # fmt: skip
    far = np.abs(d.q[-1] - 2.5 * np.array([np.cos(c.q[-1, 0]), np.sin(c.q[-1, 0])])).max()
    r.below("example 11: pendulum by its angle against redundant coordinates", float(far), 1e-9, "the same motion")
    arm = Lagrangian(
        2, lagrangian=lambda q, v: v[0] ** 2 + (v[0] + v[1]) ** 2 / 2 + np.cos(q[1]) * v[0] * (v[0] + v[1]) - 9.81 * np.sin(q[0])
    )
    assert isinstance(arm, Mechanical)
    e, rng, worst = arm.equations(), np.random.default_rng(1), 0.0
    for _ in range(20):
        q, v = rng.normal(size=(2, 2))
        S = e.mass_rate(q, v) - 2 * e.coriolis(q, v)
        worst = max(worst, float(np.abs(S + S.T).max()))
        f = np.linalg.solve(e.mass(q), -e.coriolis(q, v) @ v - e.forces(q))
        worst = max(worst, float(np.abs(ode(arm)(0.0, np.concatenate([q, v]))[2:] - f).max()))
    r.below("M' - 2 C skew, and M q'' + C q' + g the equations of motion", worst, 1e-11, "skew")
    r.data["M"] = str(e)


def _levels(sol: Solution) -> tuple[Array, Array]:
    return np.abs(sol.residual("position")).max(axis=1), np.abs(sol.residual("velocity")).max(axis=1)


PRINTED = np.array([0.86, 2.35, 0.0, 0.0])  # violates its constraint by 0.0121


def reduced(xi: float = 0.0, omega: float = 0.0) -> Callable[[float, Array], Array]:
    """The pendulum by (4.15), and by (4.23) with Baumgarte's terms: `q' = p`, the multiplier eliminated."""

    def rhs(t: float, x: Array) -> Array:
        q, p = x[:2], x[2:]
        right = 2 * p @ p + 4 * omega * xi * q @ p + omega**2 * (q @ q - 2.5**2)
        gravity = np.array([0.0, -9.81])
        return np.concatenate([p, gravity - q * (right + 2 * q @ gravity) / (2 * q @ q)])

    return rhs


def one_run(
    rhs: Callable[[float, Array], Array], start: Array, t_end: float, method: str, rtol: float, atol: float
) -> tuple[Array, Array, Array]:
    """One SciPy run from the beginning to the end: times, `phi` and its rate."""
    from scipy.integrate import solve_ivp

    out = solve_ivp(rhs, (0.0, t_end), start, method=method, rtol=rtol, atol=atol, t_eval=np.linspace(0, t_end, 1001))
    q, p = out.y[:2], out.y[2:]
    return out.t, (q * q).sum(axis=0) - 2.5**2, 2 * (q * p).sum(axis=0)


@experiment("dae-drift", "The drift effect", "Bertolazzi, Cocetti, Stocco, fig. 4.1")
def drift(r: Result, quick: bool) -> None:
    """The index-1 form (4.15) of the pendulum, t = 50, each integrator in one run."""
    system, start = pendulum()
    t_end = 20.0 if quick else 50.0
    x0 = np.concatenate([start.q, start.v])
    x1 = np.random.default_rng(0).normal(size=4)
    r.below(
        "(4.15) against the library's reduced equations", float(np.abs(reduced()(0.0, x1) - ode(system)(0.0, x1)).max()), 1e-13
    )
    for method in ("RK45", "Radau", "BDF"):
        t, phi, rate = one_run(reduced(), x0, t_end, method, 1e-6, 1e-9)
        r.data[method] = {"t": t, "position": np.abs(phi), "velocity": np.abs(rate)}
        fifth = len(t) // 5
        grown = float(np.abs(phi[-fifth:]).max() / np.abs(phi[:fifth]).max())
        r.above(f"{method}: largest phi", float(np.abs(phi).max()), 1e-6, "violated")
        if method != "Radau":  # which leaves the constraint early and stays where it is
            r.above(f"{method}: phi in the last fifth over that in the first", grown, 2.0, "grows")
        if method == "RK45" and not quick:
            sol = simulate(system, "rk45", **start, t_end=t_end, step=0.5)
            seen = float(np.abs(sol.residual("position")).max())
            r.near("RK45: largest phi by the library over that of this run", seen / float(np.abs(phi).max()), 1, 0.05, "")
    t, phi, _ = one_run(reduced(), PRINTED, t_end, "RK45", 1e-6, 1e-9)
    r.data["RK45, printed start"] = {"t": t, "position": np.abs(phi)}
    r.near("printed start: phi at the beginning", float(phi[0]), 0.0121, 1e-6, "consistent")
    tight = one_run(reduced(), PRINTED, t_end, "DOP853", 1e-12, 1e-12)[1]
    r.below("printed start, DOP853 at 1e-12: change of phi", float(np.abs(tight - tight[0]).max()), 1e-7, "at best linear")
    r.disagree(
        "The start is not consistent, phi = 0.0121. A motion of (4.15) has phi = a0 + a1 t exactly, and a1 = 0 for a start at "
        "rest: the growth at rtol 1e-6 is that of rounding and truncation errors, and at 1e-12 there is almost none."
    )


@experiment("dae-baumgarte", "Baumgarte's stabilisation", "Bertolazzi, Cocetti, Stocco, fig. 4.2")
def baumgarte(r: Result, quick: bool) -> None:
    """xi = 0.8, omega = 2 from the printed start, which decays as (4.18); then from a consistent one."""
    xi, omega = 0.8, 2.0
    t, phi, rate = one_run(reduced(xi, omega), PRINTED, 50.0, "DOP853", 1e-12, 1e-12)
    fast = np.sqrt(1 - xi**2) * omega
    predicted = phi[0] * np.exp(-xi * omega * t) * (np.cos(fast * t) + xi * omega / fast * np.sin(fast * t))
    r.data["printed start"] = {"t": t, "position": np.abs(phi), "velocity": np.abs(rate)}
    r.near("printed start: phi at the beginning", float(phi[0]), 0.0121, 1e-6, "")
    r.below("printed start: phi after 5 s", float(np.abs(phi[t >= 5]).max()), 1e-5, "decays")
    r.below("printed start: distance to the decay (4.18)", float(np.abs(phi - predicted).max()), 1e-9, "(4.18)")
    system, start = pendulum()
    for name, method in (
        ("xi = 0.8, omega = 2", Baumgarte(xi=0.8, omega=2.0, integrator="RK45")),
        ("omega = 1/h", Baumgarte(integrator="RK45")),
    ):
        g, G = _levels(sol := simulate(system, method, **start, t_end=20.0 if quick else 50.0, step=0.05))
        r.data[name] = {"t": sol.t, "position": g, "velocity": G}
        fifth = len(g) // 5
        grown = float(g[-fifth:].max() / g[:fifth].max())
        r.below(f"{name}, consistent start: phi in the last fifth over that in the first", grown, 2.0, "no growth")


@experiment("dae-projection", "Projection", "Bertolazzi, Cocetti, Stocco, fig. 4.3")
def projection(r: Result, quick: bool) -> None:
    """Position, then velocity, after each step; and the energy."""
    system, start = pendulum()
    for name, method in (("projection", Projection()), ("with energy", Projection(energy=True))):
        sol = simulate(system, method, **start, t_end=10.0 if quick else 50.0, step=0.05)
        g, G = _levels(sol)
        r.data[name] = {"t": sol.t, "position": g, "velocity": G, "energy": sol.energy}
        r.below(f"{name}: position constraint", float(g.max()), 1e-13, "at round-off")
        r.below(f"{name}: velocity constraint", float(G.max()), 1e-13, "at round-off")
    r.below("with energy: change of energy, relative", float(np.abs(sol.energy / sol.energy[0] - 1).max()), 1e-13, "")


@experiment("dae-partition", "Coordinate partitioning", "Bertolazzi, Cocetti, Stocco, sec. 4.4 (announced there)")
def partition(r: Result, quick: bool) -> None:
    """Independent coordinates by a pivoted QR, chosen again as the pendulum rotates."""
    system, start = pendulum()
    sol = simulate(system, CoordinatePartition(), **start, t_end=5.0 if quick else 50.0, step=0.05)
    g, G = _levels(sol)
    r.data.update({"t": sol.t, "position": g, "velocity": G})
    r.below("position constraint", float(g.max()), 1e-13, "to be done")
    r.below("velocity constraint", float(G.max()), 1e-13, "to be done")
    r.below("change of energy, relative", float(np.abs(sol.energy / sol.energy[0] - 1).max()), 1e-5, "")
