"""Discrete gradients for port-Hamiltonian systems (Kinon, Morandin, Schulze 2025)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dalembert import catalog, discrete
from dalembert.catalog.symbols import Array, Matrix, Symbols, Vector
from dalembert.errors import ConvergenceError, MethodError
from dalembert.experiments.base import Result, experiment, slope
from dalembert.methods import DiracDissipative, DiscreteGradient, GradientPair
from dalembert.simulate import simulate
from dalembert.systems import Mechanical, PortHamiltonian


def four_particles(eta: float = 1.0) -> Mechanical:
    """The setting of the source: k = (50, 500), alpha = 0.5, v4 = (0, 0, 20/17)."""

    def potential(q: Symbols, k: Symbols) -> object:
        a, b = q[6:9] - q[0:3], q[9:12] - q[3:6]
        return k[0] * (a @ a - 1) ** 2 / 2 + k[1] * (b @ b - 1) ** 2 / 2

    def rods(q: Symbols) -> Vector:
        a, b = q[3:6] - q[0:3], q[9:12] - q[6:9]
        return [(a @ a - 1) / 2, (b @ b - 1) / 2]

    def damper(q: Symbols, eta: Symbols, alpha: Symbols) -> Matrix:
        d = q[6:9] - q[3:6]
        size = eta * (1 + alpha * (d @ d))
        out = [[0.0] * 12 for _ in range(12)]
        for i in range(3):
            out[3 + i][3 + i] = out[6 + i][6 + i] = size
            out[3 + i][6 + i] = out[6 + i][3 + i] = -size
        return out

    mass = np.repeat([1.0, 3.0, 2.3, 1.7], 3)
    return Mechanical(
        12, mass=mass, potential=potential, holonomic=rods, dissipation=damper,
        parameters={"k": [50.0, 500.0], "eta": eta, "alpha": 0.5}, dimension=3, name="four particles, Kinon et al.",
        initial={"q": [0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0], "v": [0] * 11 + [20 / 17]},
    )  # fmt: skip


@experiment("ph-3", "Power balance of four particles with a damper", "Kinon, Morandin, Schulze 2025, fig. 3")
def balance(r: Result, quick: bool) -> None:
    """h = 0.01, t = 10: increments of the Hamiltonian against the dissipated work, and the midpoint rule."""
    system = four_particles().to_port_hamiltonian()
    for method in ("discrete-gradient", "ddr", "midpoint"):
        sol = simulate(system, method, t_end=3.0 if quick else 10.0, step=0.01)
        change, rest = np.diff(sol.energy), np.abs(sol.power_balance).max() / sol.energy[0]
        r.data[method] = {"t": sol.t, "energy": sol.energy, "dissipated": sol.dissipated, "residual": sol.power_balance}
        if method == "midpoint":
            r.above("midpoint: largest residual of a step, of the energy", rest, 1e-8, "not consistent")
        else:
            r.below(f"{method}: largest increment of the Hamiltonian", change.max(), 1e-14 * sol.energy[0], "<= 0")
            r.below(f"{method}: largest residual of a step, of the energy", rest, 1e-13, "numerically zero (Newton 1e-10)")


@experiment("ph-4", "Constraints of four particles", "Kinon, Morandin, Schulze 2025, fig. 4")
def constraints(r: Result, quick: bool) -> None:
    """Position level to round-off, velocity level about 1e-4; and the method that keeps both."""
    system = four_particles()
    sol = simulate(system.to_port_hamiltonian(), "discrete-gradient", t_end=3.0 if quick else 10.0, step=0.01)
    g, G = (np.abs(sol.residual(level)).max(axis=1) for level in ("position", "velocity"))
    r.data["discrete-gradient"] = {"t": sol.t, "position": g, "velocity": G}
    r.below("discrete-gradient: position level", g.max(), 1e-13, "no drift")
    r.near("discrete-gradient: log10 of the velocity level", float(np.log10(G.max())), -4.0, 1.0, "1e-4")
    both = simulate(system, "energy-momentum-ggl", t_end=3.0 if quick else 10.0, step=0.01)
    r.below("energy-momentum-ggl: position level", np.abs(both.residual("position")).max(), 1e-13, "")
    r.below("energy-momentum-ggl: velocity level", np.abs(both.residual("velocity")).max(), 1e-12, "said to exist (remark 12)")
    r.below("energy-momentum-ggl: power balance", np.abs(both.power_balance).max() / both.energy[0], 1e-13, "")


@experiment("ph-5", "No dissipation", "Kinon, Morandin, Schulze 2025, fig. 5")
def lossless(r: Result, quick: bool) -> None:
    """eta = 0: the energy is constant."""
    sol = simulate(four_particles(0.0).to_port_hamiltonian(), "discrete-gradient", t_end=3.0 if quick else 10.0, step=0.01)
    r.data.update({"t": sol.t, "energy": sol.energy})
    r.below("discrete-gradient: change of energy, relative", np.abs(sol.energy / sol.energy[0] - 1).max(), 1e-12, "constant")


@experiment("ph-6", "Convergence, and large steps", "Kinon, Morandin, Schulze 2025, fig. 6")
def convergence(r: Result, quick: bool) -> None:
    """Relative errors of q4, v4 and lam1 at t = 0.1; then h = 0.25 and 0.4 over 10 s."""
    system = four_particles()
    ph = system.to_port_hamiltonian()
    truth = simulate(system, "murua-ggl-3", t_end=0.2, step=0.0005)
    k = 200
    counts = np.array([10, 20, 40, 80])
    errors: dict[str, list[float]] = {"q4": [], "v4": [], "lam at its half step": [], "lam read at the end": []}
    for n in counts:
        sol = simulate(ph, "discrete-gradient", t_end=0.1, step=0.1 / n)
        lam, at = sol.costates[:, 24], sol.t_lam
        exact = np.interp(at, truth.t_lam, truth.lam[:, 0])
        errors["q4"].append(float(np.linalg.norm(sol.x[-1, 9:12] - truth.q[k, 9:12])))
        errors["v4"].append(float(np.linalg.norm(sol.x[-1, 21:24] - truth.v[k, 9:12])))
        errors["lam at its half step"].append(abs(float((lam - exact)[-1])))
        errors["lam read at the end"].append(abs(float(lam[-1] - np.interp(0.1, truth.t_lam, truth.lam[:, 0]))))
    r.data["orders"] = {"h": 0.1 / counts, **{key: np.array(e) for key, e in errors.items()}}
    r.near("q4: order", slope(errors["q4"], 0.1 / counts), 2, 0.25, "2")
    r.near("v4: order", slope(errors["v4"], 0.1 / counts), 2, 0.25, "2")
    r.near("lam1 read at the end of the step: order", slope(errors["lam read at the end"], 0.1 / counts), 1, 0.3, "about 1")
    r.near("lam1 compared at its half step: order", slope(errors["lam at its half step"], 0.1 / counts), 2, 0.35, "")
    for h in (0.25, 0.4):
        for method in ("discrete-gradient", "midpoint"):
            try:
                sol = simulate(ph, method, t_end=10.0, step=h, max_iterations=100)
            except ConvergenceError as error:
                r.data[f"{method}, h = {h}"] = {"failed at": error.t}
                held, shown = False, f"fails at t = {error.t:.2f}"
            else:
                grows = bool((np.diff(sol.energy) > 1e-10 * sol.energy[0]).any())
                r.data[f"{method}, h = {h}"] = {"t": sol.t, "energy": sol.energy}
                held, shown = not grows, "energy grows at times" if grows else "converges, dissipative"
            if h == 0.25 and method == "discrete-gradient":
                r.true(f"{method}, h = {h}: sound", held, shown, "converges, dissipative", "meaningful up to 0.25")
            elif h == 0.25:
                r.true(
                    f"{method}, h = {h}: energy grows at times, or fails",
                    not held,
                    shown,
                    "not dissipative",
                    "occasional increase",
                )
            else:
                r.note(f"{method} with h = {h}: {shown} (the source: neither converges from 0.4 on).")


@experiment("ph-ex1/5/6", "The linear example, four ways", "Kinon, Morandin, Schulze 2025, examples 1, 5, 6")
def linear(r: Result, quick: bool) -> None:
    """`x1' = -x1`, `x2 = -x1`: choices of the second costate, and completions of the DDR step."""
    h, system = 0.1, catalog.linear_port_example()
    x1 = ((1 - h / 2) / (1 + h / 2)) ** np.arange(11)
    half, end = -(x1[1:] + x1[:-1]) / 2, -x1[1:]
    for name, method, formula, expected in (
        ("z2 at the midpoint", DiscreteGradient(z2="midpoint"), "x2 = -x1", end),
        ("z2 at the end", DiscreteGradient(z2="right"), "x2 = -(x1 + x1')/2", half),
        ("DDR, z = x'", DiracDissipative(z2="right"), "x2 = -(x1 + x1')/2", half),
        ("DDR, z = x", DiracDissipative(z2="left"), "x2 of the step = -(x1 + x1')/2", half),
        ("DDR, z = (x + x')/2", DiracDissipative(z2="midpoint"), "x2 = -x1", end),
    ):
        sol = simulate(system, method, t_end=1.0, step=h)
        r.below(f"{name}: distance of x1 to the midpoint rule", np.abs(sol.x[:, 0] - x1).max(), 1e-14, "midpoint rule")
        r.below(f"{name}: distance of x2 to its formula", np.abs(sol.x[1:, 1] - expected).max(), 1e-13, formula)
        r.data[name] = {"x": sol.x}


@experiment("ph-ex4", "The synchronous machine in currents and in fluxes", "Kinon, Morandin, Schulze 2025, example 4")
def machine(r: Result, quick: bool) -> None:
    """Eight states, an invertible E that depends on them; both coordinate forms."""

    def u(t: float) -> list[float]:
        return [np.cos(10 * t), np.cos(10 * t - 2), np.cos(10 * t + 2), 1.0, 0.1]

    currents, fluxes = catalog.synchronous_machine(), catalog.synchronous_machine(currents=False)
    for name, system in (("currents", currents), ("fluxes", fluxes)):
        sol = simulate(system, "discrete-gradient", t_end=1.0, step=0.002, u=u)
        moved = np.abs(sol.energy).max() + np.abs(sol.supplied).sum()
        r.data[name] = {"t": sol.t, "x": sol.x, "energy": sol.energy}
        r.below(f"{name}: residual of the power balance", np.abs(sol.power_balance).max() / moved, 1e-13, "exact")
    a, b = (simulate(s, "gauss-3", t_end=1.0, step=0.002, u=u) for s in (currents, fluxes))
    r.below("gauss-3: angle and momentum in both forms", np.abs(a.x[-1, 6:] - b.x[-1, 6:]).max(), 1e-10, "equivalent")


@experiment("ph-ex7", "A singular mass matrix", "Kinon, Morandin, Schulze 2025, example 7")
def singular(r: Result, quick: bool) -> None:
    """Two masses in three redundant coordinates: E is constant, singular, and not block diagonal."""
    system = catalog.singular_mass_springs()
    form = system.semi_explicit()
    E = form.at("E", np.zeros(7))
    rank = int(np.linalg.matrix_rank(E))
    r.true(
        "semi-explicit form found",
        rank == 5 and not np.abs(E - np.diag(np.diag(E))).any(),
        f"diagonal, rank {rank}",
        "diagonal, rank 5",
        "by the SVD",
    )
    sol = simulate(system, "discrete-gradient", t_end=10.0, step=0.01)
    r.data.update({"t": sol.t, "energy": sol.energy})
    r.below("change of energy, relative", np.abs(sol.energy / sol.energy[0] - 1).max(), 1e-13, "exact")
    hand = Mechanical(
        2, mass=[[1.0 + 2.0, 2.0], [2.0, 2.0]], potential=lambda q: 3 * q[0] ** 2 / 2 + 5 * q[1] ** 2 / 2 + 5 * q[1] ** 4 / 4
    )
    truth = simulate(hand, "gauss-4", q=[0.5, -0.3], v=[0.2, 0.4], t_end=10.0, step=0.01)
    fine = simulate(system, "gauss-4", t_end=10.0, step=0.01)
    r.below("gauss-4: distance to the two coordinates that suffice", np.abs(fine.x[-1, [0, 2]] - truth.q[-1]).max(), 1e-7, "")


@experiment("ph-ex8/9/10", "Counterexamples", "Kinon, Morandin, Schulze 2025, examples 8, 9, 10")
def counterexamples(r: Result, quick: bool) -> None:
    """A DDR step without solution, a singular discrete Jacobian, and a gradient that differs from the chain rule."""

    def grad(x: Symbols) -> Vector:
        return [x[0] * np.exp(x[0] ** 2 / 2), x[1]]

    system = PortHamiltonian(
        2, hamiltonian=lambda x: np.exp(x[0] ** 2 / 2) - 1 + x[1] ** 2 / 2, E=lambda x: [grad(x), grad(x)],
        z=lambda x: [0.5 + 0 * x[0], 0.5], initial={"x": [1.0, 0.5]},
    )  # fmt: skip
    try:
        simulate(system, "ddr", t_end=1.0, step=0.1)
        said = "ran"
    except MethodError as error:
        said = str(error)
    r.true(
        "example 8: the DDR step is refused", "no solution in general" in said, said[:40] + "...", "a clear error", "unsolvable"
    )

    def phi(x: Symbols) -> Vector:
        angle = x[0] ** 2 + x[1] ** 2
        return [np.cos(angle) * x[0] - np.sin(angle) * x[1], np.sin(angle) * x[0] + np.cos(angle) * x[1]]

    D = discrete.jacobian(phi, [0.0, 0.0], [np.sqrt(2 * np.pi), 0.0])
    r.below("example 9: distance to [1 -1; 0 0]", np.abs(D - [[1, -1], [0, 0]]).max(), 1e-12, "singular")
    own = discrete.gradient(lambda x: ((x[0] + x[1]) ** 2 + x[1] ** 2) ** 2 / 4, [0, 0], [2, 0])
    chain = np.array([[1, 1], [0, 1]]).T @ discrete.gradient(lambda x: (x[0] ** 2 + x[1] ** 2) ** 2 / 4, [0, 0], [2, 0])
    r.near("example 10: Gonzalez gradient of the composition", float(own[1]), 1, 1e-12, "1")
    r.near("example 10: by the chain rule", float(chain[1]), 2, 1e-12, "2")
    r.data.update({"D": D, "own": own, "chain": chain})


@experiment("ph-thm9/10", "Invariance under transformations", "Kinon, Morandin, Schulze 2025, theorems 9, 10")
def invariance(r: Result, quick: bool) -> None:
    """Random transformations (phi, U): the transformed pair gives the same discrete trajectory."""

    def quartic(x0: Symbols | Vector, x1: Symbols | Vector) -> Vector:
        return [(a + b) / 2 + (a**3 + a**2 * b + a * b**2 + b**3) / 4 for a, b in ((x0[0], x1[0]), (x0[1], x1[1]))]

    system = PortHamiltonian(
        2, hamiltonian=lambda x: x[0] ** 2 / 2 + x[0] ** 4 / 4 + x[1] ** 2 / 2 + x[1] ** 4 / 4, J=[[0, 1], [-1, 0]],
        R=[[0.1, 0], [0, 0.2]], initial={"x": [0.8, 0.3]},
    )  # fmt: skip
    first = simulate(system, GradientPair(z=quartic), t_end=2.0, step=0.05)
    worst = 0.0
    for seed in range(3 if quick else 20):
        rng = np.random.default_rng(seed)
        a, U = float(rng.uniform(-1, 1)), rng.normal(size=(2, 2)) + 2 * np.eye(2)
        inverse: Array = np.linalg.inv(U).astype(float)

        def phi(x: Symbols, a: float = a) -> Vector:
            return [x[0] + a * x[1] ** 2, x[1]]

        def E_new(x0: Symbols, x1: Symbols, a: float = a, U: Array = U) -> Matrix:
            D = [[1.0, a * (x0[1] + x1[1])], [0.0, 1.0]]
            return [[sum(U[k, i] * D[k][j] for k in range(2)) for j in range(2)] for i in range(2)]

        def z_new(x0: Symbols, x1: Symbols, phi: Callable[[Symbols], Vector] = phi, inverse: Array = inverse) -> Vector:
            z = quartic(phi(x0), phi(x1))
            return [inverse[i, 0] * z[0] + inverse[i, 1] * z[1] for i in range(2)]

        other = system.transformed(phi, U, initial=[0.8 - a * 0.09, 0.3])
        sol = simulate(other, GradientPair(E=E_new, z=z_new), t_end=2.0, step=0.05)
        back = np.stack([sol.x[:, 0] + a * sol.x[:, 1] ** 2, sol.x[:, 1]], axis=1)
        worst = max(worst, float(np.abs(back - first.x).max()))
    r.data["worst"] = worst
    r.below("distance of the trajectories, mapped back", worst, 1e-11, "the same")
