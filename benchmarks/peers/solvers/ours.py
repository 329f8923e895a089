"""dalembert: a warm `simulate` call, compiled."""

from __future__ import annotations

import numpy as np

import dalembert as da
from dalembert.solution import Solution
from dalembert.systems.base import System
from peers.problems import SECTIONS, Problem
from peers.solvers.base import Case, Failed, Rows

METHODS = {  # by kind of problem, with the stages from few to many
    "holonomic": ("rattle", *(f"lobatto-pair-{s}" for s in (3, 5, 6, 7, 8, 9))),
    "nonholonomic": ("mclachlan-perlmutter", "spark-3", "spark-4", "spark-5"),
    "stiff": ("energy-momentum", "lobatto-pair-3", "lobatto-pair-4", "lobatto-pair-5"),
    "network": ("gauss-2", "gauss-3", "gauss-4", "radau-iia-3"),
}
COARSEST = {"holonomic": 0.125, "nonholonomic": 0.125, "stiff": 0.01, "network": 0.2}
PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512)


class Dalembert:
    """Cartesian coordinates with multipliers, a fixed step."""

    fixed_step = True
    form = (
        "the model in Cartesian coordinates with its constraints (the network by its components), "
        "equal steps, a warm `simulate` call, compiled to C"
    )

    def __init__(self) -> None:
        self.systems: dict[str, System] = {}

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """Steps that divide the time between two rows."""
        between = problem.t_end / problem.rows
        steps = tuple(between / n for n in PARTS if between / n <= COARSEST[problem.kind])
        return dict.fromkeys(METHODS[problem.kind], steps)

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """One model for all runs of a problem, as a user has."""
        system = self.systems.setdefault(problem.name, problem.system())
        every = round(problem.t_end / problem.rows / knob)
        start = {"x": network_start(), "u": [1.0]} if problem.kind == "network" else {}

        def run() -> Solution:
            try:
                return da.simulate(
                    system, variant, t_end=problem.t_end, step=knob, save_every=every, compile=True, progress=False, **start
                )
            except da.DalembertError as error:
                raise Failed(str(error)) from error

        return Case(run, lambda sol: Rows(state(problem, sol), int(sol.stats["steps"])))


def network_start() -> np.ndarray:
    """Potentials n0, m0, n1, m1, ..., then currents: 1 V at the source."""
    x = np.zeros(2 * SECTIONS + 1 + SECTIONS + 1)
    x[0] = 1.0
    return x


def state(problem: Problem, sol: Solution) -> np.ndarray:
    """Rows of a solution in the order of the problem."""
    if problem.kind != "network":
        return np.hstack([sol.q, sol.v])
    nodes = [list(sol.system.coordinates).index(f"v_n{i + 1}") for i in range(SECTIONS)]
    currents = [list(sol.system.coordinates).index(f"i_L{i}") for i in range(SECTIONS)]
    return np.asarray(sol.x[:, currents + nodes])


peer = Dalembert()
