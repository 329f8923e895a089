"""The contact oscillator (Hilden 2009, secs. 4.3, 4.4): Poincare sections, energies on them, and what loose iterations do."""

from __future__ import annotations

import numpy as np

from dalembert import catalog
from dalembert.analysis.measures import trend
from dalembert.analysis.sections import poincare
from dalembert.catalog.symbols import Array
from dalembert.experiments.base import Result, experiment
from dalembert.experiments.spark import Oscillator, Spark
from dalembert.simulation import simulate

STEP = 2 * np.sin(np.pi / 40)  # the period of y of the contact oscillator is then exactly 40 steps
TEN = (-0.9 + 0.2 * np.arange(10)) * np.sqrt(2)
EIGHT = np.array([-1.2, -1.0, -0.75, -0.55, -0.4, -0.1, 0.93, 1.07])
LOOSE = 0.35  # relative change at which Newton's iteration is stopped; 0.3 and 0.4 give the same orbits


def _bounded(r: Result, method: str, eps: float, z0: Array, count: int, low: float, high: float, source: str) -> dict[str, Array]:
    """Claim that the energy of every orbit stays within bounds and has no trend; returns the points of the section."""
    q, v = catalog.contact_start(z0, eps=eps)
    section = poincare(catalog.contact_oscillator(eps), 40, count, method=method, step=STEP, q=q, v=v)
    points = {"x": section.q[..., 0], "z": section.q[..., 2], "vz": section.v[..., 2], "energy": section.energy}
    name = f"{method}, eps = {eps:g}"
    r.data[name] = points
    lines = [trend(section.t[k], section.energy[k]) for k in range(len(z0))]
    drifting = sum(x.drifts for x in lines)
    r.true(f"{name}: orbits with a drift of energy", drifting == 0, str(drifting), "0", source)
    seen = section.energy.min(), section.energy.max()
    inside = low <= seen[0] and seen[1] <= high
    r.true(f"{name}: energies on the section", inside, f"{seen[0]:.5f} .. {seen[1]:.5f}", f"within {low:g} .. {high:g}")
    return points


def _loose(eps: float, z0: float, count: int, tolerance: float) -> tuple[Array, Array]:
    """Energies every 40 steps of spark-2 on the index-2 form in (q, v), Newton's iteration stopped early.

    With explicit accelerations, as `simulate(system, "spark-2")` has them, the multipliers are the only unknowns, and linear: one
    update solves any step exactly.
    """
    system = catalog.contact_oscillator(eps)
    q, v = catalog.contact_start(z0, eps=eps)
    dae, y = system.to_dae("index2"), np.concatenate([q, v])
    sol = simulate(dae, "spark-2", y=y, t_end=40 * count * STEP, step=STEP, save_every=40, tolerance=tolerance)
    return sol.t[1:], system.numeric("energy", system.pack(), q=sol.y[:, :3], v=sol.y[:, 3:])[1:, 0]


def _own_iteration(count: int) -> list[int]:
    """The orbits that lose energy with the iteration of the source at a tolerance of 0.01."""
    q, v = (np.asarray(value, dtype=float) for value in catalog.contact_start(TEN, eps=0.0))
    oscillator = Oscillator()
    energy = oscillator.energy(*Spark(oscillator, STEP, np.full(len(TEN), 0.01)).run(q, v, 40 * count, 40))
    return [k for k, change in enumerate(energy[-1] - energy[1], 1) if change < 0]


@experiment("nh-4.11/12", "The contact oscillator", "Hilden 2009, figs. 4.11, 4.12")
def contact(r: Result, quick: bool) -> None:
    """Ten orbits, 8000 iterations of the Poincare map with 40 steps each; then all ten with a loose iteration."""
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
    runs = [_loose(0.0, float(z0), 8000, LOOSE) for z0 in TEN]
    drifting = [k for k, (t, energy) in enumerate(runs, 1) if trend(t, energy).drifts]
    told = ", ".join(map(str, drifting))
    r.true(f"spark-2 as a DAE, tolerance {LOOSE}: of all ten orbits drift", drifting == [7, 8, 9], told, "7, 8, 9", "7, 8, 9")
    curves = {f"orbit {k}": (runs[k - 1][0][::20], runs[k - 1][1][::20]) for k in drifting}
    still = [run for k, run in enumerate(runs, 1) if k not in drifting]
    times, energies = (np.concatenate([[*run[part][::20], np.nan] for run in still]) for part in (0, 1))  # in one curve
    curves["the others"] = (times, energies)
    r.panel(f"fig. 4.12: Newton stopped at {LOOSE}", "time $t$", "energy $H$", curves)
    tight = [trend(*_loose(0.0, float(z0), count, 1e-10)).drifts for z0 in TEN]
    r.true("spark-2 as a DAE, tolerance 1e-10: orbits that drift", not any(tight), str(sum(tight)), "0", "")
    falling = _own_iteration(100)
    told = ", ".join(map(str, falling))
    r.true("the source's iteration, TOL = 0.01, 100 iterations: orbits that lose energy, the others gain",
           falling == [6, 7, 8, 9], told, "6, 7, 8, 9", "7, 8, 9")  # fmt: skip
    r.disagree(
        "The open question of the source, whether its equations were solved accurately enough, is answered: they were not. "
        f"Solved to round-off no orbit drifts; on the index-2 form in (q, v) with Newton's iteration stopped at {LOOSE} "
        "(relative) orbits 7, 8 and 9 of the ten do, as in fig. 4.12. Looser still, all of them drift. The iteration of the "
        "source itself (one Jacobian a step, its guess and stopping criterion) does not settle which: at tolerances of 0.003 to "
        "0.03 all ten orbits drift, 7, 8 and 9 down and most others up, from 1e-4 on at most orbits 1 and 2 do, and at none that "
        "was tried are 7, 8 and 9 the only ones. The source does not print its tolerance."
    )


def dimension(z: Array, vz: Array) -> float:
    """The slope of the number of occupied boxes in a plane: 1 for a closed curve, 2 for an area."""
    counts = []
    for n in (25, 100):
        cells = np.floor((np.stack([z, vz], axis=1) + 1.6) / 3.2 * n).astype(int)
        counts.append(len(np.unique(cells, axis=0)))
    return float(np.log(counts[1] / counts[0]) / np.log(4))


@experiment("nh-4.13..17", "The perturbed contact oscillator", "Hilden 2009, figs. 4.13 to 4.17")
def perturbed(r: Result, quick: bool) -> None:
    """eps = 0.3 and 0.8; 50 000 iterations of one chaotic orbit, 400 000 of another and of a quasi-periodic one."""
    count = 500 if quick else 8000
    chaotic = {
        (0.3, "spark-2"): "3",
        (0.3, "mclachlan-perlmutter"): "0",
        (0.8, "spark-2"): "3",
        (0.8, "mclachlan-perlmutter"): "2",
    }
    for method in ("spark-2", "mclachlan-perlmutter"):
        source = "drifts" if method == "spark-2" else "bounded"
        for eps, z0, high in ((0.3, TEN, 1.525), (0.8, EIGHT, 1.53)):
            data = _bounded(r, method, eps, z0, count, 1.48, high, source)
            if not quick:
                half = data["x"] > 0
                areas = [k for k in range(len(z0)) if dimension(data["z"][k][half[k]], data["vz"][k][half[k]]) > 1.3]
                wanted = [] if eps == 0.3 else [3, 5]
                told = ", ".join(f"z0 = {z0[k]:.2f}" for k in areas) or "none"
                r.true(f"{method}, eps = {eps}: orbits that fill an area", areas == wanted, told,
                       ", ".join(f"z0 = {z0[k]:.2f}" for k in wanted) or "none", chaotic[eps, method])  # fmt: skip
        _long(r, method, quick)
    _falling(r)
    r.disagree(
        "Solved to round-off spark-2 does not lose energy, none of its orbits for eps = 0.3 breaks up, and the orbit between the "
        "chaotic ones for eps = 0.8 stays quasi-periodic; with a loose iteration its energy falls as in fig. 4.16, from most of "
        "many starts that are 1e-9 apart: that of a single chaotic orbit may also rise, and rounding decides. Chaotic orbits are "
        "not bounded for either method: their energy wanders without preferred direction, by 1e-3 in 400 000 iterations, where "
        "that of a quasi-periodic orbit stays within 1e-5."
    )


def _falling(r: Result) -> None:
    """Fig. 4.16, from starts close to each other: what a single chaotic orbit does hangs on rounding."""
    starts = -0.55 + 1e-9 * np.arange(11)
    runs = [_loose(0.8, float(z0), 50_000, LOOSE) for z0 in starts]
    slopes, told = np.array([trend(*run).slope for run in runs]), f"spark-2 as a DAE, tolerance {LOOSE}, {len(starts)} starts"
    r.true(f"{told} near z0 = -0.55: energy falls in the median", bool(np.median(slopes) < 0),
           f"{np.median(slopes):.1e} per unit time, falls in {int(np.sum(slopes < 0))}", "falls", "falls")  # fmt: skip
    tight = [trend(*_loose(0.8, float(z0), 50_000, 1e-10)).drifts for z0 in starts[:4]]
    r.true("the same with tolerance 1e-10, 4 starts: orbits that drift", not any(tight), str(sum(tight)), "0", "")
    times, energies = (np.concatenate([[*run[part][::20], np.nan] for run in runs]) for part in (0, 1))  # in one curve
    r.panel(f"fig. 4.16: Newton stopped at {LOOSE}", "time $t$", "energy $H$", {"spark-2 as a DAE": (times, energies)})


def _long(r: Result, method: str, quick: bool) -> None:
    """Figs. 4.15 to 4.17, and how far the mean energy wanders over a longer time."""
    system = catalog.contact_oscillator(0.8)
    q, v = catalog.contact_start(-0.55, eps=0.8)
    count = 3000 if quick else 50_000
    long = poincare(system, 40, count, method=method, step=STEP, q=q, v=v)
    r.data[method] = {"t": long.t, "energy": long.energy}
    source = "settles at a lower level" if method == "spark-2" else "bounded"
    low, high = (1.49, 1.505) if method == "spark-2" else (1.495, 1.516)
    seen = float(long.energy.min()), float(long.energy.max())
    r.true(f"{method}: chaotic orbit, z0 = -0.55, {count} iterations: energies", low <= seen[0] and seen[1] <= high,
           f"{seen[0]:.5f} .. {seen[1]:.5f}", f"within {low} .. {high}", source)  # fmt: skip
    keep = long.q[:, 0] > 0
    r.panel(f"fig. 4.15: {method}", "$z$", r"$\dot{z}$", {"z0 = -0.55": (long.q[keep, 2], long.v[keep, 2])}, "points")
    if quick:
        return
    for z0, kind in ((-0.54, "chaotic"), (-0.4, "quasi-periodic")):
        q, v = catalog.contact_start(z0, eps=0.8)
        section = poincare(system, 40, 400_000, method=method, step=STEP, q=q, v=v)
        means = section.energy.reshape(40, -1).mean(axis=1)
        what = f"{method}: {kind} orbit, z0 = {z0}, 400 000 iterations: range of the mean energy of 10 000"
        if kind == "chaotic":
            r.above(what, float(np.ptp(means)), 1e-3, "bounded" if method != "spark-2" else "drifts")
            t = section.t.reshape(40, -1).mean(axis=1)
            r.panel(f"diffusion, z0 = {z0}", "time $t$", "mean energy of 10 000, change", {method: (t, means - means[0])})
        else:
            r.below(what, float(np.ptp(means)), 1e-5, "")
