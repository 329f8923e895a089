"""Mechanisms in absolute coordinates: chains of bodies in space, beside Exudyn; long runs of a closed loop.

    python benchmarks/mechanisms.py             set-up and microseconds per body and step, n = 1 .. 1000
    python benchmarks/mechanisms.py --long      a four-bar in space over 10^6 steps: energy and constraints

Seconds of the processor, the two programs one after the other in one run. Chains of all sizes make the same motion, in turns,
and the best of REPEATS counts, so that a slow moment of the machine does not decide how the cost grows; those that take less
than LEAST seconds for it go on for longer. Their last state is kept. A chain is of rods in space with hinges whose axes
alternate, hung at one end, by RATTLE; Exudyn has the same bodies with Euler parameters and hinges, by its own implicit method.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import dalembert as da

H, STEPS, LEAST, REPEATS, SIZES = 1e-3, 500, 0.01, 7, (1, 3, 10, 30, 100, 300, 1000)
THEIRS = 60  # steps of Exudyn
console = Console(width=120)


def axis(i: int) -> tuple[float, float, float]:
    return (0.0, 1.0, 0.0) if i % 2 == 0 else (0.0, 1.0, 1.0)


def chain(n: int) -> da.Mechanism:
    m = da.Mechanism(name=f"chain of {n} bodies")
    for i in range(n):
        m.rod(f"rod{i}", (i, 0, 0), (i + 1, 0, 0), mass=1.0, radius=0.05)
        m.revolute(f"hinge{i}", f"rod{i - 1}" if i else "ground", f"rod{i}", at=(i, 0, 0), axis=axis(i))
    return m


class Ours:
    """A chain and the seconds that its set-up, two steps, and `steps` more take."""

    def __init__(self, n: int, method: str) -> None:
        start = time.process_time()
        self.n, self.method, self.system = n, method, chain(n).assemble()
        self._run(2)
        self.ready = time.process_time() - start
        self.steps, self.few, self.many = STEPS, np.inf, np.inf
        while self._run(self.steps + 2) < LEAST:  # what is shorter cannot be told from the rest of a call
            self.steps *= 4
        sol = da.simulate(self.system, method, t_end=THEIRS * H, step=H, compile=True)
        self.engine, self.error = sol.stats["engine"], float(np.abs(sol.residual("position")).max())

    def _run(self, steps: int) -> float:
        start = time.process_time()
        da.simulate(self.system, self.method, t_end=steps * H, step=H, save_every=steps, compile=True)
        return time.process_time() - start

    def measure(self) -> None:
        """Once more."""
        self.few, self.many = min(self.few, self._run(2)), min(self.many, self._run(self.steps + 2))

    @property
    def cost(self) -> float:
        """Microseconds for each body and step."""
        return (self.many - self.few) / self.steps / self.n * 1e6


def exudyn(n: int) -> float | None:
    """Seconds of a step of Exudyn; None where it is not installed."""
    try:
        import exudyn as exu
        from exudyn.utilities import InertiaCylinder
    except ImportError:
        return None
    container = exu.SystemContainer()
    mbs = container.AddSystem()
    inertia = InertiaCylinder(density=1.0 / (np.pi * 0.05**2), length=1.0, outerRadius=0.05, axis=0)
    last = mbs.CreateGround()
    for i in range(n):
        body = mbs.CreateRigidBody(inertia=inertia, referencePosition=[i + 0.5, 0, 0], gravity=[0, 0, -9.81])
        mbs.CreateRevoluteJoint(itemNumbers=[last, body], position=[i, 0, 0], axis=list(axis(i)), useGlobalFrame=True)
        last = body
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.verboseMode = 0
    settings.solution.file.write = False
    settings.linearSolver.solverType = exu.LinearSolverType.EigenSparse if n > 3 else exu.LinearSolverType.EXUdense

    def run(steps: int) -> float:
        settings.timeIntegration.endTime, settings.timeIntegration.numberOfSteps = steps * H, steps
        start = time.process_time()
        mbs.SolveDynamic(settings)
        return time.process_time() - start

    few = min(run(2) for _ in range(2))
    return (min(run(THEIRS + 2) for _ in range(2)) - few) / THEIRS


def table(method: str, sizes: tuple[int, ...]) -> None:
    out = Table(
        "bodies", "coordinates", "engine", "set-up s", "us per body and step", "Exudyn, us", "|g|", title=f"chains, {method}"
    )
    every = [Ours(n, method) for n in sizes]
    for _ in range(REPEATS):
        for own in every:
            own.measure()
    for own in every:
        n, peer = own.n, exudyn(own.n)
        other = "" if peer is None else f"{peer / n * 1e6:.1f}"
        out.add_row(str(n), str(12 * n), own.engine, f"{own.ready:.2f}", f"{own.cost:.2f}", other, f"{own.error:.1e}")
    console.print(out)
    for least in (3, 10):
        costs = [own.cost for own in every if own.n >= least]
        console.print(f"from {least} bodies on the dearest body costs {max(costs) / min(costs):.2f} times the cheapest")


def long_run(steps: int) -> None:
    """A four-bar in space, redundant as drawn, with a turning crank."""
    m = da.Mechanism(gravity=(0, -9.81, 0), name="four-bar in space")
    m.rod("crank", (0, 0, 0), (0, 1, 0), mass=1.0)
    m.rod("coupler", (0, 1, 0), (3, 2, 0), mass=2.0)
    m.rod("rocker", (3, 2, 0), (2.5, 0, 0), mass=1.5)
    for name, a, b, at in (("A", "ground", "crank", (0, 0, 0)), ("B", "crank", "coupler", (0, 1, 0)),
                           ("C", "coupler", "rocker", (3, 2, 0)), ("D", "rocker", "ground", (2.5, 0, 0))):  # fmt: skip
        m.revolute(name, a, b, at=at, axis="z")
    system = m.assemble(redundant="remove", rates={"A": 8.0})
    for method in ("energy-momentum", "rattle"):
        sol = da.simulate(system, method, t_end=steps * H, step=H, save_every=max(1, steps // 1000), compile=True)
        energy = np.abs(sol.energy - sol.energy[0]).max() / sol.kinetic.max()
        where = {level: float(np.abs(sol.residual(level)).max()) for level in ("position", "velocity")}
        console.print(f"{method}: {steps} steps, energy {energy:.1e} of the kinetic one, |g| {where['position']:.1e}, "
                      f"|G v| {where['velocity']:.1e}, {sol.stats['seconds'] / steps * 1e6:.1f} us a step")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--steps", type=int, default=10**6)
    parser.add_argument("--quick", action="store_true", help="up to 100 bodies")
    given = parser.parse_args()
    if given.long:
        long_run(given.steps)
    else:
        table("rattle", SIZES[:5] if given.quick else SIZES)
