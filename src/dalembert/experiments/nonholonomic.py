"""Nonholonomic mechanics (Hilden 2009, chapters 2 to 4): rolling, skating, and long-time behaviour."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from dalembert import catalog
from dalembert.analysis.measures import growth, reversibility, trend
from dalembert.analysis.reduction import ode
from dalembert.catalog.symbols import Array
from dalembert.engine.consistency import consistent
from dalembert.engine.literal import Newton
from dalembert.experiments.base import Result, Start, experiment, slope
from dalembert.experiments.spark import Disk, Spark
from dalembert.methods import McLachlanPerlmutter
from dalembert.methods.base import Method
from dalembert.simulation import simulate
from dalembert.systems import Mechanical


def _scipy(
    system: Mechanical, q0: ArrayLike, v0: ArrayLike, t_end: float, method: str, rtol: float, atol: float
) -> tuple[Array, Array, Array, Array]:
    """A general-purpose integrator on the index-1 form: times, positions, velocities, and the constraint."""
    from scipy.integrate import solve_ivp

    y0 = np.concatenate([np.asarray(q0), np.asarray(v0)])
    out = solve_ivp(ode(system), (0, t_end), y0, method=method, rtol=rtol, atol=atol)
    q, v = out.y[: system.n].T, out.y[system.n :].T
    drift = np.abs(system.numeric("drift", system.pack(), q=q, v=v)).max(axis=1)
    return out.t, q, v, drift


def reduced_disk(t: float, x: Array) -> Array:
    """The rolling disk as ordinary differential equations with the multipliers as states, (2.12); unit inertias, R = 1/4."""
    phi, v = x[2], x[4:8]
    turn = 0.25 * v[2] ** 2 * v[3]
    return np.concatenate([v, x[8:10], [0.0, 0.0], [-turn * np.cos(phi), -turn * np.sin(phi)]])


@experiment("nh-2.1", "Drift after index reduction", "Hilden 2009, fig. 2.1")
def drift(r: Result, quick: bool) -> None:
    """The rolling disk for t = 100, rtol 1e-6, atol 1e-9: a stiff integrator on index 1 (2.11), RK45 on index 0 (2.12)."""
    from scipy.integrate import solve_ivp

    disk = catalog.rolling_disk()
    t_end = 50.0 if quick else 100.0
    runs: dict[str, tuple[Array, Array]] = {}
    for method in ("BDF", "Radau"):
        t, _, _, g = _scipy(disk, disk.initial["q"], disk.initial["v"], t_end, method, 1e-6, 1e-9)
        runs[f"{method} on (2.11)"] = t, g
    start = consistent(disk)
    x0 = np.concatenate([start.q, start.v, -start.lam])  # the source lets its constraints act with + A^T lam
    out = solve_ivp(reduced_disk, (0, t_end), x0, method="RK45", rtol=1e-6, atol=1e-9)
    v, R = out.y[4:8], float(disk.parameters["R"])
    errors = np.stack([v[0] - R * np.cos(out.y[2]) * v[3], v[1] - R * np.sin(out.y[2]) * v[3]])
    runs["RK45 on (2.12)"] = out.t, np.abs(errors).max(axis=0)
    for name, (t, g) in runs.items():
        r.data[name] = {"t": t, "violation": g}
        grown = g[-len(g) // 10 :].max() / g[t <= t_end / 10].max()
        r.above(f"{name}: violation at the end over that in the first tenth", grown, 2.0, "a clear drift")
    r.panel(
        "fig. 2.1, RK45 on (2.12)", "time $t$", "error of (2.13)", {"first": (out.t, errors[0]), "second": (out.t, errors[1])}
    )
    sol = simulate(disk, "spark-2", t_end=t_end, step=0.1)
    r.below("spark-2: violation", np.abs(sol.residual("velocity")).max(), 1e-15, "")


@experiment("nh-3.4", "Orders of the nonholonomic integrators", "Hilden 2009, fig. 3.4")
def orders(r: Result, quick: bool) -> None:
    """The rolling disk at t = 1; and the sleigh, whose mass matrix depends on its position."""
    counts = np.array([20, 40, 80, 160])
    disk, sleigh = catalog.rolling_disk(), catalog.chaplygin_sleigh()
    start: Start = {"q": [1.0, 0.0, 0.3], "v": [0.5 * np.cos(0.3), 0.5 * np.sin(0.3), 0.7]}
    truth = simulate(sleigh, "murua-5", **start, t_end=1.0, step=0.01).q[-1]
    for method, theirs in (("cortes-martinez", "1.99"), ("mclachlan-perlmutter", "2.00")):
        errors = [
            np.linalg.norm(simulate(disk, method, t_end=1.0, step=1 / n).q[-1] - catalog.rolling_disk_solution(1.0))
            for n in counts
        ]
        r.near(f"{method}: order on the disk", slope(errors, 1 / counts), 2, 0.1, theirs)
        mine = [np.linalg.norm(simulate(sleigh, method, **start, t_end=1.0, step=1 / n).q[-1] - truth) for n in counts]
        r.near(f"{method}: order on the sleigh, M(q)", slope(mine, 1 / counts), 2, 0.1, "")
        r.below(
            f"{method}: reversibility defect", reversibility(sleigh, method, **start, t_end=1.0, step=0.02), 1e-12, "reversible"
        )
        r.data[method] = {"h": 1 / counts, "disk": np.array(errors), "sleigh": np.array(mine)}


@experiment("nh-4.1..5", "The rolling disk for a long time", "Hilden 2009, figs. 4.1 to 4.5")
def disk(r: Result, quick: bool) -> None:
    """h = 0.1 and 0.05, t = 1000; then the source's own iteration, whose energy drifts when it is stopped early."""
    system, t_end = catalog.rolling_disk(), 200.0 if quick else 1000.0
    for h, phase in ((0.1, 0.587), (0.05, 0.147)):
        for method, figure in (("mclachlan-perlmutter", "4.1"), ("spark-2", "4.2")):
            sol = simulate(system, method, t_end=t_end, step=h)
            error = sol.q - catalog.rolling_disk_solution(sol.t)
            r.data[f"{method}, h = {h:g}"] = {"t": sol.t, "error": np.linalg.norm(error, axis=1), "energy": sol.energy}
            change = np.abs(sol.energy - sol.energy[0]).max()
            if h == 0.1:
                early = sol.t <= 50
                curves = {c: (sol.t[early], error[early, k]) for k, c in enumerate(("x", "y", r"$\varphi$", r"$\theta$"))}
                r.panel(f"fig. {figure}: {method}, h = 0.1", "time $t$", "error", curves)
            if method == "spark-2":
                end, rate = abs(error[-1, 3]), growth(sol.t, error[:, 3])[1]
                r.near(f"spark-2, h = {h:g}: error in theta at the end", end, phase * t_end / 1000, 0.002, "linear growth")
                r.near(f"spark-2, h = {h:g}: power of t with which it grows", rate, 1, 0.02, "linear")
                r.below(f"spark-2, h = {h:g}: change of energy", change, 1e-12, "a clear drift")
            elif h == 0.1:
                r.below(f"{method}, h = {h:g}: largest error", np.abs(error).max(), 8.4e-4, "below 1e-3")
                r.below(f"{method}, h = {h:g}: change of energy", change, 1e-12, "bounded")
    last, hidden, two, three = _source_iteration(r, system, 50.0 if quick else 250.0).values()
    r.disagree(
        "The phase error of spark-2 is a property of the method; the drift of its energy is not. Solved to round-off there is "
        "none. The simplified Newton iteration of the source, with one Jacobian a step, the guess (2.22) and its stopping "
        "criterion, makes the energy change linearly in time at a tolerance of 1e-6. The source prints neither its tolerance nor "
        f"where z0 of a step comes from: from the last stage of the step before the energy changes by {last:.1e} a unit time, "
        f"from the hidden constraint by {hidden:.1e}. With y1 taken from the stages instead of among the unknowns it changes by "
        f"{two:.1e}, and by {three:.1e} with three stages."
    )


def _source_iteration(r: Result, system: Mechanical, t_end: float) -> dict[str, float]:
    """The change of energy a unit time under the source's stopping criterion, with the choices that it leaves open."""
    tolerances = np.array([1e-6, 1e-13])
    q, v = (np.repeat(np.asarray(system.initial[key], dtype=float)[None], 2, axis=0) for key in ("q", "v"))
    first = Spark(Disk(), 0.1, tolerances).step(q, v)[0][1]
    own = simulate(system, "spark-2", t_end=0.1, step=0.1).q[-1]
    r.below("the source's program at 1e-13: distance to spark-2 after a step", float(np.abs(first - own).max()), 1e-15, "")
    curves: dict[str, tuple[Array, Array]] = {}
    rates: dict[str, float] = {}
    for carried, rule, wanted in (
        (True, "z0 = Z2 of the last step", -2.013e-8),
        (False, "z0 from the hidden constraint", 1.646e-8),
    ):
        velocities = Spark(Disk(), 0.1, tolerances, carried).run(q, v, round(10 * t_end), 10)[1]
        change = (velocities**2).sum(axis=-1) / 2 - (velocities[0] ** 2).sum(axis=-1) / 2
        t = np.linspace(0, t_end, len(change))
        rates[rule] = change[-1, 0] / t_end
        line, name = trend(t, change[:, 0]), f"the source's iteration, {rule}"
        r.true(f"{name}, TOL = 1e-6: energy drifts", line.drifts, str(line), "drifts", "a clear drift")
        r.near(f"{name}, TOL = 1e-6: change of energy a unit time", rates[rule], wanted, 2e-10, "")
        r.below(f"{name}, TOL = 1e-13: change of energy", float(np.abs(change[:, 1]).max()), 1e-13, "")
        curves |= {f"{rule}, TOL = {T:g}": (t, change[:, k]) for k, T in enumerate(tolerances)}
    r.panel("fig. 4.5: the source's iteration", "time $t$", "$H - H_0$", curves)
    dae = system.to_dae("index2")
    for method, wanted in (("spark-2", -2.51e-12), ("spark-3", -1.218e-8)):
        sol = simulate(dae, method, t_end=t_end, step=0.1, newton=Newton(tolerance=1e-6), save_every=round(10 * t_end))
        change = system.numeric("energy", system.pack(), q=sol.y[:, : system.n], v=sol.y[:, system.n :])[:, 0]
        what = f"{method}, da.Newton(tolerance=1e-6), y1 from the stages: change of energy a unit time"
        rates[method] = (change[-1] - change[0]) / t_end
        r.near(what, rates[method], wanted, abs(wanted) / 50, "")
    return rates


SLEIGH: Mapping[str, str | Method] = {"(4.3)": McLachlanPerlmutter(lagrangian="left")} | {
    name: name
    for name in (
        "mclachlan-perlmutter", "spark-2", "spark-3", "srk-radau-ia-2", "srk-radau-ia-3", "srk-gauss-2", "srk-gauss-3",
    )
}  # fmt: skip


@experiment("nh-t4.1", "The Chaplygin sleigh", "Hilden 2009, table 4.1, figs. 4.7 to 4.10")
def sleigh(r: Result, quick: bool) -> None:
    """g = 9.8, m = 0.001, a = 0.04, I = 0.01, from (1, 0, 0.2) at rest, t = 30."""
    system = catalog.chaplygin_sleigh(m=0.001, a=0.04, I=0.01, g=9.8)
    start: Start = {"q": [1.0, 0.0, 0.2], "v": [0.0, 0.0, 0.0]}
    t_end = 10.0 if quick else 30.0
    theirs = {  # mean step, energy error, violation of the constraint
        1e-5: (0.1304, 2.516e-5, 8.256e-4), 1e-7: (0.0638, 8.325e-7, 1.320e-5), 1e-9: (0.0303, 1.398e-8, 1.838e-7),
        1e-11: (0.0163, 4.267e-10, 8.647e-9),
    }  # fmt: skip
    par = system.pack()
    for rtol, (average, energy, constraint) in theirs.items():
        t, q, v, g = _scipy(system, start["q"], start["v"], t_end, "BDF", rtol, rtol / 1000)
        E = system.numeric("energy", par, q=q, v=v)[:, 0]
        r.data[f"BDF {rtol:g}"] = {"t": t, "energy": np.abs(E - E[0]), "violation": g}
        mean = t_end / (len(t) - 1)
        r.true(f"BDF, rtol {rtol:g}: mean step", mean < 3 * average, f"{mean:.4f}", f"<= {3 * average:.4f}", f"{average:.4f}")
        # another BDF than the source's: the same size within a factor of 30
        for what, ours, source in (
            ("violation of the constraint", g.max(), constraint),
            ("energy error", np.abs(E - E[0]).max(), energy),
        ):
            near = source / 30 <= ours <= 30 * source or (quick and ours > source / 1000)
            r.true(f"BDF, rtol {rtol:g}: {what}", near, f"{ours:.1e}", "within a factor of 30", f"{source:.1e}")
    coarse: dict[str, float] = {}
    for h in (0.1, 0.01):
        for method, scheme in SLEIGH.items():
            sol = simulate(system, scheme, **start, t_end=t_end, step=h)
            error = np.abs(sol.energy - sol.energy[0]).max()
            r.data[f"{method}, h = {h:g}"] = {"t": sol.t, "energy": np.abs(sol.energy - sol.energy[0])}
            speed = np.abs(sol.v).max()
            r.below(
                f"{method}, h = {h:g}: constraint, of the largest speed",
                np.abs(sol.residual("velocity")).max() / speed,
                1e-14,
                "machine precision",
            )
            if h == 0.01:  # a tenth of the step: a tenth of the error at order 1, a hundredth at order 2 and more, or round-off
                before, share = coarse[method], 0.2 if method == "(4.3)" else 0.03
                rounding = 10 * np.finfo(float).eps * np.sqrt(len(sol.t)) * sol.kinetic.max()  # a random walk
                r.below(
                    f"{method}: energy error at h = 0.01 (ours at 0.1: {before:.1e})", error, max(share * before, rounding), ""
                )
            coarse[method] = error
    alike = coarse["(4.3)"] / coarse["mclachlan-perlmutter"]
    r.near("energy error of (4.3) over that of its symmetric form, h = 0.01", alike, 1.5, 1.0, "")


@experiment("nh-4.18/19", "The sleigh as Jay ran it", "Hilden 2009, figs. 4.18, 4.19")
def jay(r: Result, quick: bool) -> None:
    """m = a = I = 1, g = 0.1, from (1, 0, 0) at rest, h = 0.12; 2-, 3- and 4-stage SPARK."""
    system = catalog.chaplygin_sleigh()
    t_end = 24.0 if quick else 60.0
    start: Start = {"q": np.array([1.0, 0.0, 0.0]), "v": np.zeros(3)}
    _, q, *_ = _scipy(system, start["q"], start["v"], t_end, "DOP853", 1e-12, 1e-13)
    for s in (2, 3, 4):
        sol = simulate(system, f"spark-{s}", **start, t_end=t_end, step=0.12)
        error = np.abs(sol.energy - sol.energy[0])
        r.data[f"spark-{s}"] = {"t": sol.t, "q": sol.q, "energy": error}
        r.below(f"spark-{s}: energy error", error.max(), (1e-3, 1e-6, 1e-9)[s - 2], "")
        r.below(f"spark-{s}: constraint", np.abs(sol.residual("velocity")).max(), 1e-13, "")
    r.panel(
        "fig. 4.18: spark-4", "time $t$", "component", {c: (sol.t, sol.q[:, k]) for k, c in enumerate(("x", "y", r"$\theta$"))}
    )
    r.below("spark-4: distance to SciPy's DOP853 at the end", np.abs(sol.q[-1] - q[-1]).max(), 1e-6, "")
    r.near(
        "multiplier at the start, with the sign of the source", -float(consistent(system, **start).lam[0]), 0.05, 1e-12, "1/20"
    )


@experiment("nh-mixed", "Holonomic and nonholonomic constraints together", "Hilden 2009, further work")
def mixed(r: Result, quick: bool) -> None:
    """A cart that cannot slip sideways, with a spherical pendulum."""
    system = catalog.cart_with_pendulum()
    start = consistent(system)
    t_end = 20.0 if quick else 200.0
    for method in ("spark-2", "spark-3", "cortes-martinez", "murua-ggl-3"):
        sol = simulate(system, method, **start, t_end=t_end, step=0.01)
        r.data[method] = {"t": sol.t, "energy": sol.energy}
        r.below(f"{method}: holonomic constraint", np.abs(sol.residual("position")).max(), 1e-13, "")
        r.below(f"{method}: both at velocity level", np.abs(sol.residual("velocity")).max(), 1e-12, "")
        limit = {"spark-2": 1e-2, "spark-3": 1e-6, "cortes-martinez": 1e-2, "murua-ggl-3": 1e-10}[method]
        r.below(f"{method}: energy error", np.abs(sol.energy - sol.energy[0]).max(), limit, "")


@experiment("nh-particles", "McLachlan and Perlmutter's particles", "Hilden 2009, further work (after Jay)")
def particles(r: Result, quick: bool) -> None:
    """SPARK of two stages against McLachlan and Perlmutter's integrator over a long time, h = 0.1."""
    system, t_end = catalog.perlmutter_particles(), 400.0 if quick else 4000.0
    sizes = []
    for method in ("spark-2", "mclachlan-perlmutter"):
        sol = simulate(system, method, t_end=t_end, step=0.1)
        error = sol.energy - sol.energy[0]
        r.data[method] = {"t": sol.t, "energy": sol.energy}
        line = trend(sol.t, error)
        r.true(f"{method}: energy bounded", line.bounded, str(line), "no trend", "equally good")
        r.below(f"{method}: constraint", np.abs(sol.residual("velocity")).max(), 1e-12, "")
        sizes.append(float(np.abs(error).max()))
        finer = simulate(system, method, t_end=t_end / 10, step=0.05)
        coarse = np.abs(error[: round(t_end) + 1]).max()
        r.near(
            f"{method}: energy error over that of half the step",
            coarse / np.abs(finer.energy - finer.energy[0]).max(),
            4,
            1.0,
            "",
        )
    r.near("energy error of mclachlan-perlmutter over that of spark-2", sizes[1] / sizes[0], 1.5, 1.0, "equally good")
    r.note("Jay's setting is not printed in the source; system and start are those of `da.catalog.perlmutter_particles()`.")
