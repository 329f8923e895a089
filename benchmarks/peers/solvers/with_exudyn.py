"""Exudyn: a multibody code in C++, models from its own items."""

from __future__ import annotations

from typing import Any

import exudyn as exu
import exudyn.itemInterface as items
import numpy as np

from peers.problems import STIFFNESS, G, Problem
from peers.solvers.base import Case, Failed, Rows, Unsupported

SOLVERS = {"trapezoidal, index 2": exu.DynamicSolverType.TrapezoidalIndex2}  # generalized alpha without damping is unstable
Rod = tuple[int, int]
MODELS: dict[str, tuple[tuple[float, ...], tuple[Rod, ...], tuple[Rod, ...]]] = {  # masses, rods, springs; -1 is the ground
    "simple": ((1.0,), ((-1, 0),), ()),
    "double": ((3.0, 1.0), ((-1, 0), (0, 1)), ()),
    "crank": ((2.0, 1.0), ((-1, 0), (0, 1)), ()),
    "stiff": ((1.0, 1.0, 1.0), ((-1, 0),), ((0, 1), (1, 2))),
}


class Exudyn:
    """Mass points in the plane with distance constraints and linear springs."""

    fixed_step = True
    form = "mass points, distance constraints and springs of its own library, implicit trapezoidal rule on index 2"

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """Steps that divide the time between two rows."""
        if problem.name not in MODELS and not problem.name.startswith("chain"):
            raise Unsupported("no items for it without callbacks in Python (quartic springs, rolling without slip, networks)")
        between = problem.t_end / problem.rows
        return {name: tuple(between / n for n in (10, 20, 40, 80, 160, 320, 640, 1280, 2560)) for name in SOLVERS}

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """A new system: its solver leaves the last state behind, which `run` puts back to the first."""
        container = exu.SystemContainer()
        mbs = container.AddSystem()
        n = len(problem.start) // 2
        start_q, start_v = problem.start[:n], problem.start[n:]
        if problem.name == "crank":
            start_q, start_v = np.append(start_q, 0.0), np.append(start_v, 0.0)
        masses, rods, springs = MODELS.get(problem.name) or chain(n // 2)
        ground = mbs.AddMarker(items.MarkerBodyPosition(bodyNumber=mbs.AddObject(items.ObjectGround())))
        markers, sensors = {-1: ground}, []
        for i, mass in enumerate(masses):
            q, v = start_q[2 * i : 2 * i + 2], start_v[2 * i : 2 * i + 2]
            node = mbs.AddNode(items.NodePoint2D(referenceCoordinates=list(q), initialVelocities=list(v)))
            mbs.AddObject(items.MassPoint2D(physicsMass=mass, nodeNumber=node))
            markers[i] = mbs.AddMarker(items.MarkerNodePosition(nodeNumber=node))
            if problem.name != "crank" or i == 0:
                mbs.AddLoad(items.Force(markerNumber=markers[i], loadVector=[0.0, -mass * G, 0.0]))
            else:  # the slider
                fixed = mbs.AddNode(items.NodePointGround())
                held = mbs.AddMarker(items.MarkerNodeCoordinate(nodeNumber=fixed, coordinate=0))
                own = mbs.AddMarker(items.MarkerNodeCoordinate(nodeNumber=node, coordinate=1))
                mbs.AddObject(items.CoordinateConstraint(markerNumbers=[held, own]))
            for kind in (exu.OutputVariableType.Position, exu.OutputVariableType.Velocity):
                sensors.append(
                    mbs.AddSensor(
                        items.SensorNode(nodeNumber=node, storeInternal=True, writeToFile=False, outputVariableType=kind)
                    )
                )
        for a, b in rods:
            length = 2.0 if problem.name == "crank" and a == 0 else 1.0
            mbs.AddObject(items.DistanceConstraint(markerNumbers=[markers[a], markers[b]], distance=length))
        for a, b in springs:
            mbs.AddObject(items.SpringDamper(markerNumbers=[markers[a], markers[b]], referenceLength=1.0, stiffness=STIFFNESS))
        mbs.Assemble()
        settings = simulation(problem, knob)

        def run() -> list[Any]:
            try:
                mbs.SolveDynamic(settings, solverType=SOLVERS[variant], updateInitialValues=False)
            except exu.SolverError as error:
                raise Failed("Exudyn's solver gave up") from error
            return [mbs.GetSensorStoredData(s) for s in sensors]

        def read(tables: list[Any]) -> Rows:
            if any(len(table) != problem.rows + 1 for table in tables):
                raise Failed("Exudyn did not give a row for each time")
            q = np.hstack([table[:, 1:3] for table in tables[0::2]])
            v = np.hstack([table[:, 1:3] for table in tables[1::2]])
            return Rows(np.hstack([q[:, :n], v[:, :n]]), round(problem.t_end / knob))

        return Case(run, read)


def chain(n: int) -> tuple[tuple[float, ...], tuple[Rod, ...], tuple[Rod, ...]]:
    """Equal masses, each on a rod from the one before."""
    return (1.0,) * n, tuple((i - 1, i) for i in range(n)), ()


def simulation(problem: Problem, h: float) -> Any:
    """Equal steps, no numerical damping, sensors at the times of the problem, no files."""
    settings = exu.SimulationSettings()
    time = settings.timeIntegration
    time.numberOfSteps, time.endTime = round(problem.t_end / h), problem.t_end
    time.adaptiveStep = False  # no retries with smaller steps: a step is what is asked for
    time.verboseMode = 0
    solution = settings.solution
    solution.sensors.writePeriod = problem.t_end / problem.rows
    solution.file.write = False
    return settings


peer = Exudyn()
