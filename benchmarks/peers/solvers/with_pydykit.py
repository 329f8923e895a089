"""pydykit: midpoint rule and discrete gradients for particle systems, in Python."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from pydykit.configuration import Configuration
from pydykit.managers import Manager

from peers.problems import G, Problem
from peers.solvers.base import Case, Failed, Rows, Unsupported, clock

MASSES = {"simple": (1.0,), "double": (3.0, 1.0), "chain": (1.0,) * 5, "four": (1.0, 3.0, 2.3, 1.7)}
RODS = {"four": ((0, 1), (2, 3))}
SPRINGS = {"four": ((0, 2, 50.0), (1, 3, 500.0))}
LONGEST = 20.0  # CPU seconds of a first run; longer ones are not tried
INTEGRATORS = {
    "midpoint": {"class_name": "MidpointMultibody"},
    "discrete gradient": {
        "class_name": "DiscreteGradientMultibody", "increment_tolerance": 1e-12, "discrete_gradient_type": "Gonzalez",
    },
}  # fmt: skip


def end(index: int) -> dict[str, object]:
    """A particle, or the support before the first."""
    return {"type": "particle", "index": index} if index >= 0 else {"type": "support", "index": 0}


class Pydykit:
    """Particles, rods and springs of its configuration."""

    fixed_step = True
    form = "its particle systems, midpoint rule or discrete gradient (gravity of several particles set right by hand)"

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """Steps that divide the time between two rows."""
        if problem.name not in MASSES:
            raise Unsupported("no such system in it")
        between = problem.t_end / problem.rows
        coarse = between / 10
        seconds, _ = clock(self.prepare(replace(problem, t_end=5 * coarse, rows=5, check=0.0), "midpoint", coarse).run)
        if seconds / 5 * problem.t_end / coarse > LONGEST:
            raise Unsupported(f"{seconds / 5 * 1e3:.0f} ms a step: even its coarsest steps take more than {LONGEST:.0f} s in all")
        return {name: tuple(between / n for n in (10, 25, 50, 100, 200, 500, 1000)) for name in INTEGRATORS}

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """A manager for each run: a run cannot be repeated from its first state."""
        masses = MASSES[problem.name]
        n, d = len(masses), len(problem.start) // 2 // len(masses)
        q, v = (
            np.zeros((n, 3)),
            np.zeros((n, 3)),
        )  # planar systems have a third coordinate that stays zero: 0.0.6 is fixed to three
        q[:, :d], v[:, :d] = problem.start[: n * d].reshape(n, d), problem.start[n * d :].reshape(n, d)
        rods = RODS.get(problem.name) or tuple((i - 1, i) for i in range(n))
        gravity = [0.0, -G if d == 2 else 0.0, 0.0]
        every = round(problem.t_end / problem.rows / knob)
        data = {
            "name": problem.name,
            "system": {
                "class_name": "ParticleSystem",
                "nbr_spatial_dimensions": 3,
                "particles": [
                    {"index": i, "mass": m, "initial_position": list(q[i]), "initial_momentum": list(m * v[i])}
                    for i, m in enumerate(masses)
                ],
                "supports": [] if d == 3 else [{"index": 0, "type": "fixed", "position": [0.0] * 3}],
                "springs": [
                    {"start": end(a), "end": end(b), "stiffness": k, "equilibrium_length": 1.0}
                    for a, b, k in SPRINGS.get(problem.name, ())
                ],
                "dampers": [],
                "constraints": [{"start": end(a), "end": end(b), "length": 1.0} for a, b in rods],
                "gravity": gravity,
            },
            "simulator": {
                "class_name": "OneStep",
                "solver_name": "NewtonPlainPython",
                "newton_epsilon": 1e-9,
                "max_iterations": 40,
            },
            "integrator": INTEGRATORS[variant],
            "time_stepper": {"class_name": "FixedIncrement", "step_size": knob, "start": 0.0, "end": problem.t_end},
        }
        weights = np.repeat(masses, 3)
        body = -weights * np.tile(gravity, n)

        def run() -> Any:
            manager = Manager()
            manager.configure(Configuration(**data))
            # 0.0.6 repeats each component of gravity instead of the vector
            type(manager.system)._body_force = lambda self: body
            result = manager.manage()
            if manager.simulator.solver.has_failed:
                raise Failed("Newton's iteration of pydykit did not converge")
            return result

        def read(result: Any) -> Rows:
            rows = result.results[::every]
            if len(rows) != problem.rows + 1:
                raise Failed(f"{len(rows)} rows instead of {problem.rows + 1}")
            q, p = rows[:, : 3 * n], rows[:, 3 * n : 6 * n] / weights
            kept = [3 * i + k for i in range(n) for k in range(d)]
            return Rows(np.hstack([q[:, kept], p[:, kept]]), round(problem.t_end / knob))

        return Case(run, read)


peer = Pydykit()
