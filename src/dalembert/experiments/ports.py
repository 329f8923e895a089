"""Discrete gradients for port-Hamiltonian systems (Kinon, Morandin, Schulze 2025)."""

from __future__ import annotations

import numpy as np

from dalembert import catalog
from dalembert.catalog.symbols import Array, Matrix, Symbols, Vector
from dalembert.engine.consistency import consistent
from dalembert.errors import ConvergenceError
from dalembert.experiments.base import Result, Start, experiment, slope
from dalembert.methods import DiracDissipative, DiscreteGradient, Method, Midpoint
from dalembert.simulation import simulate
from dalembert.systems import Mechanical, PortHamiltonian

# the source takes Gonzalez' gradient of the Hamiltonian as a whole
SOURCE: dict[str, Method] = {
    "discrete-gradient": DiscreteGradient("gonzalez-joint"), "ddr": DiracDissipative("gonzalez-joint"), "midpoint": Midpoint(),
}  # fmt: skip


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


# the scheme of the source on multibody systems: Gonzalez's gradient of the energy jointly in positions and velocities
AUTHORS = "discrete-gradient"


@experiment("ph-3", "Power balance of four particles with a damper", "Kinon, Morandin, Schulze 2025, fig. 3")
def balance(r: Result, quick: bool) -> None:
    """h = 0.01, t = 10: increments of the Hamiltonian against the dissipated work, and the midpoint rule."""
    system = four_particles().to_port_hamiltonian()
    for method in (AUTHORS, "ddr", "midpoint"):
        sol = simulate(system, SOURCE[method], t_end=3.0 if quick else 10.0, step=0.01)
        change, rest = np.diff(sol.energy), np.abs(sol.power_balance).max() / sol.energy[0]
        r.data[method] = {"t": sol.t, "energy": sol.energy, "dissipated": sol.dissipated, "residual": sol.power_balance}
        if method == "midpoint":
            r.above("midpoint: largest residual of a step, of the energy", rest, 1e-8, "not consistent")
        else:
            r.below(f"{method}: largest increment of the Hamiltonian", change.max(), 1e-14 * sol.energy[0], "<= 0")
            r.below(f"{method}: largest residual of a step, of the energy", rest, 1e-13, "numerically zero (Newton 1e-10)")


@experiment("ph-4", "Constraints of four particles", "Kinon, Morandin, Schulze 2025, fig. 4")
def constraints(r: Result, quick: bool) -> None:
    """Position level to round-off, velocity level as in the published data; and the method that keeps both."""
    system = four_particles()
    sol = simulate(system.to_port_hamiltonian(), SOURCE[AUTHORS], t_end=10.0, step=0.01)
    g, G = (np.abs(sol.residual(level)) for level in ("position", "velocity"))
    r.data[AUTHORS] = {"t": sol.t, "position": g.max(axis=1), "velocity": G.max(axis=1)}
    r.below(f"{AUTHORS}: position level", g.max(), 1e-13, "no drift")
    for k, published in enumerate((6.32020681e-05, 2.78229e-04)):
        exact = f"{published:.9g}"
        r.near(f"{AUTHORS}: largest velocity residual of rod {k + 1}", G[:, k].max(), published, 5e-6 * published, exact)
    both = simulate(system, "energy-momentum-ggl", t_end=3.0 if quick else 10.0, step=0.01)
    r.below("energy-momentum-ggl: position level", np.abs(both.residual("position")).max(), 1e-13, "")
    r.below("energy-momentum-ggl: velocity level", np.abs(both.residual("velocity")).max(), 1e-12, "said to exist (remark 12)")
    r.below("energy-momentum-ggl: power balance", np.abs(both.power_balance).max() / both.energy[0], 1e-13, "")
    r.note("The figures of the source are those of its published data.")


@experiment("ph-5", "No dissipation", "Kinon, Morandin, Schulze 2025, fig. 5")
def lossless(r: Result, quick: bool) -> None:
    """eta = 0: the energy is constant."""
    sol = simulate(four_particles(0.0).to_port_hamiltonian(), SOURCE[AUTHORS], t_end=3.0 if quick else 10.0, step=0.01)
    r.data.update({"t": sol.t, "energy": sol.energy})
    r.below(f"{AUTHORS}: change of energy, relative", np.abs(sol.energy / sol.energy[0] - 1).max(), 1e-12, "constant")


COUNTS = np.array([10, 20, 40, 80])
PUBLISHED = {"q4": 3.41072e-05, "v4": 2.37829e-04, "lam1": 5.3984e-02}  # relative errors at t = 0.1 with h = 0.01


def _errors(system: Mechanical, start: Start) -> dict[str, list[float]]:
    """Relative errors after 0.1 s: by the source's measure, and of the multiplier where it is defined, at the half step."""
    ph = system.to_port_hamiltonian()
    x0 = np.concatenate([np.asarray(start["q"]), np.asarray(start["v"]), consistent(system, **start).lam])
    reference = simulate(ph, SOURCE[AUTHORS], x=x0, t_end=0.1, step=1e-4)
    fine = simulate(system, "murua-ggl-3", **start, t_end=0.1, step=0.0005)
    errors: dict[str, list[float]] = {"q4": [], "v4": [], "lam1": [], "lam1 at its half step": []}
    for n in COUNTS:
        sol = simulate(ph, SOURCE[AUTHORS], x=x0, t_end=0.1, step=0.1 / n)
        for name, part in (("q4", slice(9, 12)), ("v4", slice(21, 24))):
            errors[name].append(_relative(sol.x[-1, part], reference.x[-1, part]))
        last, exact = sol.costates[-1, 24:25], reference.costates[-1, 24:25]
        errors["lam1"].append(_relative(last, exact))
        errors["lam1 at its half step"].append(_relative(last, np.interp(sol.t_lam[-1:], fine.t_lam, fine.lam[:, 0])))
    return errors


def _relative(value: Array, exact: Array) -> float:
    return float(np.linalg.norm(value - exact) / np.linalg.norm(exact))


@experiment("ph-6", "Convergence, and large steps", "Kinon, Morandin, Schulze 2025, fig. 6")
def convergence(r: Result, quick: bool) -> None:
    """Relative errors of q4, v4 and lam1 at t = 0.1, reference h = 1e-4; then h = 0.25 and 0.4 over 10 s."""
    system = four_particles()
    h = 0.1 / COUNTS
    errors = _errors(system, {"q": system.initial["q"], "v": system.initial["v"]})
    r.data["orders"] = {"h": h, **{key: np.array(e) for key, e in errors.items()}}
    for name, published in PUBLISHED.items():
        r.near(f"{name}: relative error with h = 0.01", errors[name][0], published, 1e-5 * published, f"{published:.6g}")
    r.near("q4: order", slope(errors["q4"], h), 2, 0.25, "2")
    r.near("v4: order", slope(errors["v4"], h), 2, 0.25, "2")
    r.near("lam1 read at the end of the step: order", slope(errors["lam1"], h), 1, 0.3, "about 1")
    r.near("lam1 at its half step, from the printed start: order", slope(errors["lam1 at its half step"], h), 2, 0.35, "")
    later = simulate(system, "murua-ggl-3", t_end=1.0, step=0.002)
    again = _errors(system, {"q": later.q[-1], "v": later.v[-1]})["lam1 at its half step"]
    r.near("lam1 at its half step, from the same motion at t = 1: order", slope(again, h), 1, 0.35, "")
    _large_steps(r, system.to_port_hamiltonian())
    r.disagree(
        "The source reports that neither method converges with h = 0.4. The equations of the discrete gradient have a solution: "
        "whole changes of Newton's iteration fail in the first step, shortened ones find it, and the energy falls in every step. "
        "The midpoint rule fails, as reported."
    )


def _large_steps(r: Result, system: PortHamiltonian) -> None:
    """h = 0.25: only the discrete gradient is dissipative; h = 0.4: so it is there, and the midpoint rule fails."""
    for h in (0.25, 0.4):
        for method in (AUTHORS, "midpoint"):
            name = f"{method}, h = {h}"
            try:
                sol = simulate(system, SOURCE[method], t_end=10.0, step=h, max_iterations=40)
            except ConvergenceError as error:
                r.data[name] = {"failed at": error.t}
                wanted = h == 0.4 and method == "midpoint"
                r.true(f"{name}: does not converge", wanted, f"fails at t = {error.t:.2f}", "fails", "no convergence")
                continue
            r.data[name] = {"t": sol.t, "energy": sol.energy}
            rise = float(np.diff(sol.energy).max() / sol.energy[0])
            if method == AUTHORS:
                told = "meaningful up to 0.25" if h == 0.25 else "no convergence"
                r.below(f"{name}: largest increment of the energy, relative", rise, 0.0, told)
            elif h == 0.4:
                r.true(f"{name}: does not converge", False, "runs to its end", "fails", "no convergence")
            else:
                r.above(f"{name}: largest increment of the energy, relative", rise, 1e-3, "occasional increase")


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
