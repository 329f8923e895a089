"""Nonholonomic mechanics (Hilden 2009, chapters 2 to 4): rolling, skating, and long-time behaviour."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dalembert import catalog
from dalembert.analysis.measures import Trend, growth, reversibility, trend
from dalembert.analysis.reduction import ode
from dalembert.analysis.sections import poincare
from dalembert.catalog.symbols import Array
from dalembert.engine.consistency import consistent
from dalembert.experiments.base import Result, Start, experiment, slope
from dalembert.simulate import simulate
from dalembert.systems import Mechanical

STEP = 2 * np.sin(np.pi / 40)  # the period of y of the contact oscillator is then exactly 40 steps


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


@experiment("nh-2.1", "Drift after index reduction", "Hilden 2009, fig. 2.1")
def drift(r: Result, quick: bool) -> None:
    """The rolling disk for t = 100 by SciPy's integrators on the index-1 form, rtol 1e-6, atol 1e-9."""
    disk = catalog.rolling_disk()
    t_end = 50.0 if quick else 100.0
    for method in ("BDF", "Radau", "RK45"):
        t, _, _, g = _scipy(disk, disk.initial["q"], disk.initial["v"], t_end, method, 1e-6, 1e-9)
        r.data[method] = {"t": t, "violation": g}
        early = g[t <= t_end / 10].max()
        r.above(f"{method}: violation at the end over that in the first tenth", g[-len(g) // 10 :].max() / early, 2.0, "grows")
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
    """h = 0.1 and 0.05, t = 1000: the phase error of spark-2 grows, its energy error does not."""
    system, t_end = catalog.rolling_disk(), 200.0 if quick else 1000.0
    for h, phase in ((0.1, 0.587), (0.05, 0.147)):
        for method in ("mclachlan-perlmutter", "spark-2"):
            sol = simulate(system, method, t_end=t_end, step=h)
            error = sol.q - catalog.rolling_disk_solution(sol.t)
            r.data[f"{method}, h = {h:g}"] = {"t": sol.t, "error": np.linalg.norm(error, axis=1), "energy": sol.energy}
            change = np.abs(sol.energy - sol.energy[0]).max()
            if method == "spark-2":
                r.near(
                    f"spark-2, h = {h:g}: error in theta at the end",
                    abs(error[-1, 3]),
                    phase * t_end / 1000,
                    0.002,
                    "linear growth",
                )
                r.near(f"spark-2, h = {h:g}: power of t with which it grows", growth(sol.t, error[:, 3])[1], 1, 0.02, "linear")
                r.below(f"spark-2, h = {h:g}: change of energy", change, 1e-12, "a clear drift")
            elif h == 0.1:
                r.below(f"{method}, h = {h:g}: largest error", np.abs(error).max(), 8.4e-4, "below 1e-3")
                r.below(f"{method}, h = {h:g}: change of energy", change, 1e-12, "bounded")
    r.disagree(
        "The phase error of spark-2 is a property of the method. The energy drift that the source shows is not confirmed: the "
        "energy stays constant, even if Newton's iteration is stopped early. The reason for the difference is not known."
    )


@experiment("nh-t4.1", "The Chaplygin sleigh", "Hilden 2009, table 4.1, figs. 4.7 to 4.10")
def sleigh(r: Result, quick: bool) -> None:
    """g = 9.8, m = 0.001, a = 0.04, I = 0.01, from (1, 0, 0.2) at rest, t = 30."""
    system = catalog.chaplygin_sleigh(m=0.001, a=0.04, I=0.01, g=9.8)
    start: Start = {"q": [1.0, 0.0, 0.2], "v": [0.0, 0.0, 0.0]}
    t_end = 10.0 if quick else 30.0
    theirs = {1e-5: (2.516e-5, 8.256e-4), 1e-7: (8.325e-7, 1.320e-5), 1e-9: (1.398e-8, 1.838e-7), 1e-11: (4.267e-10, 8.647e-9)}
    par = system.pack()
    for rtol, (energy, constraint) in theirs.items():
        t, q, v, g = _scipy(system, start["q"], start["v"], t_end, "BDF", rtol, rtol / 1000)
        E = system.numeric("energy", par, q=q, v=v)[:, 0]
        r.data[f"BDF {rtol:g}"] = {"t": t, "energy": np.abs(E - E[0]), "violation": g}
        # another BDF than the source's: the same size within a factor of 30
        for what, ours, source in (
            ("violation of the constraint", g.max(), constraint),
            ("energy error", np.abs(E - E[0]).max(), energy),
        ):
            near = source / 30 <= ours <= 30 * source or (quick and ours > source / 1000)
            r.true(f"BDF, rtol {rtol:g}: {what}", near, f"{ours:.1e}", "within a factor of 30", f"{source:.1e}")
    coarse: dict[str, float] = {}
    for h in (0.1, 0.01):
        for method in (
            "mclachlan-perlmutter",
            "spark-2",
            "spark-3",
            "srk-radau-ia-2",
            "srk-radau-ia-3",
            "srk-gauss-2",
            "srk-gauss-3",
        ):
            sol = simulate(system, method, **start, t_end=t_end, step=h)
            error = np.abs(sol.energy - sol.energy[0]).max()
            r.data[f"{method}, h = {h:g}"] = {"t": sol.t, "energy": np.abs(sol.energy - sol.energy[0])}
            speed = np.abs(sol.v).max()
            r.below(
                f"{method}, h = {h:g}: constraint, of the largest speed",
                np.abs(sol.residual("velocity")).max() / speed,
                1e-14,
                "machine precision",
            )
            if h == 0.01:  # a tenth of the step, an order of two or more: a hundredth, or round-off
                before = coarse[method]
                r.below(f"{method}: energy error at h = 0.01 (ours at 0.1: {before:.1e})", error, max(0.03 * before, 1e-13), "")
            coarse[method] = error


def _bounded(r: Result, method: str, eps: float, z0: Array, count: int, low: float, high: float, source: str) -> dict[str, Array]:
    """Claim that the energy of every orbit stays within bounds and has no trend; returns the points of the section."""
    q, v = catalog.contact_start(z0, eps=eps)
    section = poincare(catalog.contact_oscillator(eps), 40, count, method=method, step=STEP, q=q, v=v)
    points = {"x": section.q[..., 0], "z": section.q[..., 2], "vz": section.v[..., 2], "energy": section.energy}
    name = f"{method}, eps = {eps:g}"
    r.data[name] = points
    lines = [trend(section.t[k], section.energy[k]) for k in range(len(z0))]
    r.true(
        f"{name}: orbits with a drift of energy", not any(x.drifts for x in lines), str(sum(x.drifts for x in lines)), "0", source
    )
    seen = section.energy.min(), section.energy.max()
    inside = low <= seen[0] and seen[1] <= high
    r.true(f"{name}: energies on the section", inside, f"{seen[0]:.5f} .. {seen[1]:.5f}", f"within {low:g} .. {high:g}")
    seconds, steps = section.stats["seconds"], section.stats["steps"]
    r.note(f"{name}: {steps} steps in {seconds:.2f} s.")
    return points


TEN = (-0.9 + 0.2 * np.arange(10)) * np.sqrt(2)


@experiment("nh-4.11/12", "The contact oscillator", "Hilden 2009, figs. 4.11, 4.12")
def contact(r: Result, quick: bool) -> None:
    """Ten orbits, 8000 iterations of the Poincare map with 40 steps each."""
    count = 500 if quick else 8000
    for method, low, high, source in (
        ("spark-2", 1.487, 1.503, "3 (orbits 7, 8, 9)"),
        ("mclachlan-perlmutter", 1.496, 1.516, "0"),
    ):
        data = _bounded(r, method, 0.0, TEN, count, low, high, source)
        flat = []
        for x, z, vz in zip(data["x"], data["z"], data["vz"], strict=True):
            points = np.stack([x, z, np.sqrt(2) * vz], axis=1)
            s = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
            flat.append(s[2] / s[0])
        r.below(f"{method}: thickness of the orbits over their size (circles lie in a plane)", max(flat), 1e-9, "circles")
    q, v = catalog.contact_start(TEN[6:9])
    # with explicit accelerations the multipliers are the only unknowns, and linear: one update solves any step exactly
    drifting = sum(_loose(np.concatenate(start), count, 0.7).drifts for start in zip(q, v, strict=True))
    r.true("spark-2 as a DAE, with a tolerance of 0.7: of orbits 7, 8, 9 drift", drifting == 3, str(drifting), "3", "3")
    r.disagree(
        "The open question of the source, whether its equations were solved accurately enough, is answered: they were not. "
        "Solved to round-off no orbit drifts; on the index-2 form in (q, v), with Newton's iteration stopped at a change "
        "of 0.7 (relative), orbits 7, 8 and 9 do, as in fig. 4.12."
    )


def _loose(y: Array, count: int, tolerance: float) -> Trend:
    """The trend of the energy every 40 steps of spark-2 on the index-2 form, with a loose tolerance."""
    system = catalog.contact_oscillator()
    dae = system.to_dae("index2")
    sol = simulate(dae, "spark-2", y=y, t_end=40 * count * STEP, step=STEP, save_every=40, tolerance=tolerance)
    energy = system.numeric("energy", system.pack(), q=sol.y[:, :3], v=sol.y[:, 3:])[:, 0]
    return trend(sol.t[1:], energy[1:])


@experiment("nh-4.13..17", "The perturbed contact oscillator", "Hilden 2009, figs. 4.13 to 4.17")
def perturbed(r: Result, quick: bool) -> None:
    """eps = 0.3 and 0.8, and 50 000 iterations of one chaotic orbit."""
    count = 500 if quick else 8000
    eight = np.array([-1.2, -1.0, -0.75, -0.55, -0.4, -0.1, 0.93, 1.07])
    for method in ("spark-2", "mclachlan-perlmutter"):
        source = "drifts" if method == "spark-2" else "bounded"
        _bounded(r, method, 0.3, TEN, count, 1.48, 1.525, source)
        _bounded(r, method, 0.8, eight, count, 1.48, 1.53, source)
        q, v = catalog.contact_start(-0.55, eps=0.8)
        long = poincare(catalog.contact_oscillator(0.8), 40, 3000 if quick else 50_000, method=method, step=STEP, q=q, v=v)
        line = trend(long.t, long.energy)
        r.data[f"{method}, long"] = {"t": long.t, "energy": long.energy, "x": long.q[:, 0], "z": long.q[:, 2]}
        r.true(f"{method}: chaotic orbit, z0 = -0.55, bounded", line.bounded, str(line), "no trend", source)
    r.disagree("The drift of spark-2 that the source shows vanishes when the equations are solved to round-off.")


@experiment("nh-4.18/19", "The sleigh as Jay ran it", "Hilden 2009, figs. 4.18, 4.19")
def jay(r: Result, quick: bool) -> None:
    """m = a = I = 1, g = 0.1, from (1, 0, 0) at rest, h = 0.12; 2-, 3- and 4-stage SPARK."""
    system = catalog.chaplygin_sleigh()
    t_end = 24.0 if quick else 60.0
    start: Start = {"q": np.array([1.0, 0.0, 0.0]), "v": np.zeros(3)}
    _, q, *_ = _scipy(system, start["q"], start["v"], t_end, "DOP853", 1e-12, 1e-13)
    worst = []
    for s in (2, 3, 4):
        sol = simulate(system, f"spark-{s}", **start, t_end=t_end, step=0.12)
        error = np.abs(sol.energy - sol.energy[0])
        r.data[f"spark-{s}"] = {"t": sol.t, "q": sol.q, "energy": error}
        worst.append(error.max())
        r.below(f"spark-{s}: energy error", error.max(), (1e-3, 1e-6, 1e-9)[s - 2], "")
        r.below(f"spark-{s}: constraint", np.abs(sol.residual("velocity")).max(), 1e-13, "")
    r.below("spark-4: distance to SciPy's DOP853 at the end", np.abs(sol.q[-1] - q[-1]).max(), 1e-6, "")
    r.near("multiplier at the start times two", 2 * abs(consistent(system, **start).lam[0]), 0.1, 1e-12, "1/20")


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
