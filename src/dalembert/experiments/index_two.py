"""Orders on index 2 (Hilden 2009, chapter 2): table 2.1, SPARK and the specialized Runge-Kutta methods."""

from __future__ import annotations

from functools import cache

import numpy as np

from dalembert.catalog.symbols import Symbols
from dalembert.experiments.base import Result, experiment, slope
from dalembert.simulation import simulate
from dalembert.systems import IndexTwoDAE
from dalembert.systems.tracing import Model

COUNTS = {
    1: (256, 364, 512, 728),
    2: (182, 256, 364, 512),
    3: (64, 91, 128, 182),
    4: (91, 128, 182, 256),
    5: (24, 34, 48, 68),
    6: (34, 40, 48, 58),
    7: (12, 14, 17, 20),
}


@cache
def problem(number: int) -> IndexTwoDAE:
    """Problems (2.23), in five parts, and (2.28) of Hilden 2009; both have y = (e^t, e^-2t), z = e^2t."""
    start = {"y": [1, 1], "z": [1]}

    def g(y: Symbols) -> object:
        return y[0] ** 2 * y[1] - 1

    if number == 28:
        return IndexTwoDAE(
            2, f=lambda y, z: [y[0] * y[1] ** 2 * z[0] ** 2, y[0] ** 2 * y[1] ** 2 - 3 * y[1] ** 2 * z[0]], g=g, initial=start
        )
    parts: list[Model] = [
        lambda y: [y[1] - 2 * y[0] ** 2 * y[1], -(y[0] ** 2)],
        lambda y, z, t: [y[0] * y[1] ** 2 * z[0] ** 2, np.exp(-t) * z[0] - y[0]],
        lambda y, z: [-(y[1] ** 2) * z[0], -3 * y[1] ** 2 * z[0]],
        lambda y, z, t: [2 * y[0] * y[1] ** 2 - 2 * np.exp(-2 * t) * y[0] * y[1], z[0]],
        lambda y, z: [2 * y[1] ** 2 * z[0] ** 2, y[0] ** 2 * y[1] ** 2],
    ]
    return IndexTwoDAE(2, parts=parts, g=g, initial=start)


def order(result: Result, number: int, method: str, counts: tuple[int, ...]) -> float:
    """The slope of the error in y at t = 1; errors are kept in the result's data."""
    exact = np.array([np.e, np.e**-2])
    errors = [np.linalg.norm(simulate(problem(number), method, t_end=1.0, step=1 / n).y[-1] - exact) for n in counts]
    result.data[method] = {"h": 1 / np.array(counts), "error": np.array(errors)}
    return slope(errors, 1 / np.array(counts))


@experiment("nh-t2.1", "Orders of classical Runge-Kutta methods on index 2", "Hilden 2009, table 2.1")
def table(r: Result, quick: bool) -> None:
    """Gauss loses half its order on index 2, the stiffly accurate methods keep theirs."""
    stages = (1, 2, 3) if quick else (1, 2, 3, 4)
    rows = [("gauss", s, s + 1 if s % 2 else s) for s in stages]
    rows += [("radau-ia", s, s) for s in stages] + [("radau-iia", s, 2 * s - 1) for s in stages]
    rows += [(family, s, 2 * s - 2) for family in ("lobatto-iiia", "lobatto-iiic") for s in stages if s > 1]
    for family, s, p in rows:
        r.near(f"{family}-{s}: order in y", order(r, 28, f"{family}-{s}", COUNTS[p]), p, 0.25, f"{p}")


@experiment("nh-2.2", "Orders of SPARK with five parts", "Hilden 2009, fig. 2.2")
def spark(r: Result, quick: bool) -> None:
    """Lobatto IIIA, IIIB, IIIC, IIIC* and IIID, each on its own part of the right-hand side."""
    settings = ((2, (64, 91, 128, 182), "1.97"), (3, (32, 45, 64, 91), "4.12"), (4, (12, 16, 23, 32), ""))
    for s, counts, theirs in settings:
        r.near(f"spark-{s}: order in y", order(r, 23, f"spark-{s}", counts), 2 * s - 2, 0.25, theirs)


@experiment("nh-2.3/4", "Orders of specialized Runge-Kutta methods", "Hilden 2009, figs. 2.3, 2.4")
def specialized(r: Result, quick: bool) -> None:
    """Gauss and Radau IA methods regain their order by moment conditions on the constraint."""
    for family, s, p, theirs in (
        ("srk-gauss", 2, 4, "4.06"),
        ("srk-gauss", 3, 6, "6.07"),
        ("srk-radau-ia", 2, 3, "2.97"),
        ("srk-radau-ia", 3, 5, "5.09"),
    ):
        counts = (20, 24, 28, 34) if p == 6 else COUNTS[p]  # more steps of order 6 come near round-off
        r.near(f"{family}-{s}: order in y", order(r, 28, f"{family}-{s}", counts), p, 0.25, theirs)
