"""Growth with the number of links, and drift over a long time."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from functools import partial

import numpy as np

import dalembert as da
from peers.measure import attempt, errors
from peers.problems import PROBLEMS, G, Problem, chain, in_angles
from peers.solvers.base import Failed, Peer, Unsupported, clock

SIZES = (2, 4, 8, 16, 32, 64)
PATIENCE = 8.0  # CPU seconds of set-up and run after which a solver gets no longer chain
LENGTH = 10  # times the time of the problem
LONGEST = 1.0  # CPU seconds at the problem's own time beyond which the long run is not made


def links(n: int) -> Problem:
    """A chain for one second, its energy within 1e-6 of its scale."""
    level = 1e-6 * G * n * (n + 1) / 2
    return Problem(
        f"chain {n}", f"{n} links", partial(chain, n), partial(da.catalog.chain, n), 1.0, 10, 0.0, (level,),
        minimal=partial(in_angles, (1.0,) * n),
    )  # fmt: skip


def growth(
    peers: dict[str, Peer], variants: dict[str, str], sizes: tuple[int, ...] = SIZES
) -> dict[str, list[dict[str, object]]]:
    """Set-up and run of each solver, with the variant that was best for five links, until one takes too long."""
    out: dict[str, list[dict[str, object]]] = {}
    before = os.environ.get("DALEMBERT_CACHE")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DALEMBERT_CACHE"] = cache  # so that set-up is that of a first run
        for name, peer in peers.items():
            out[name] = []
            for n in sizes if name in variants else ():
                row = grown(peer, links(n), variants[name])
                if row is None:
                    break
                out[name].append({"n": n, **row})
                if row["setup"] + row["seconds"] > PATIENCE:
                    break
    if before is None:
        del os.environ["DALEMBERT_CACHE"]
    else:
        os.environ["DALEMBERT_CACHE"] = before
    return out


def grown(peer: Peer, problem: Problem, variant: str) -> dict[str, float] | None:
    """The coarsest setting whose energy is exact enough; None where there is none."""
    try:
        knobs = peer.variants(problem)[variant]
    except Unsupported:
        return None
    spent, setup = 0.0, None
    for knob in knobs:
        trial, made = attempt(problem, peer, variant, knob)
        setup = made if setup is None else setup
        spent += made
        if trial is not None and trial.errors.worst <= problem.levels[0]:
            return {"setup": setup, "seconds": trial.seconds, "knob": knob, "error": trial.errors.worst}
        spent += trial.seconds if trial else 0.0
        if spent > 4 * PATIENCE:
            return None
    return None


def drift(peers: dict[str, Peer], settings: dict[str, tuple[str, float, float]]) -> dict[str, dict[str, object]]:
    """The double pendulum for ten times its time, each solver as it was at its second level (variant, knob, seconds).

    A solver that fails so gets the next finer setting.
    """
    short = PROBLEMS["double"]
    problem = replace(short, t_end=short.t_end * LENGTH, check=0.0)
    out: dict[str, dict[str, object]] = {}
    for name, peer in peers.items():
        if name not in settings:
            out[name] = {"why": "did not reach the level"}
            continue
        variant, knob, seconds = settings[name]
        if seconds > LONGEST:
            out[name] = {"why": f"would take {seconds * LENGTH:.0f} s"}
            continue
        knobs = list(peer.variants(problem)[variant])
        ran = None
        for finer in [knob, *knobs[knobs.index(knob) + 1 :]] if knob in knobs else [knob]:
            try:
                case = peer.prepare(problem, variant, finer)
                taken, result = clock(case.run)
                ran = finer, taken, case.read(result)
                break
            except Failed as error:
                out[name] = {"why": str(error)}
        if ran is None:
            continue
        knob, taken, rows = ran
        energies = problem.energies(rows.y)
        worst = np.maximum.accumulate(np.abs(energies - energies[0]))
        some = np.unique(np.geomspace(1, problem.rows, 40).astype(int))
        out[name] = {
            "variant": variant, "knob": knob, "seconds": taken, "t": problem.times[some].tolist(), "energy": worst[some].tolist(),
            "first": float(worst[problem.rows // LENGTH]), "last": float(worst[-1]),
            "constraint": errors(problem, rows).constraint,
        }  # fmt: skip
    return out
