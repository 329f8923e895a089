"""Double pendulum for 2 s with Exudyn, from its items."""

import exudyn as exu
import numpy as np
from exudyn.itemInterface import (
    DistanceConstraint,
    Force,
    MarkerBodyPosition,
    MarkerNodePosition,
    MassPoint2D,
    NodePoint2D,
    ObjectGround,
    SensorNode,
)

container = exu.SystemContainer()
mbs = container.AddSystem()
before = mbs.AddMarker(MarkerBodyPosition(bodyNumber=mbs.AddObject(ObjectGround())))
position, velocity, mass = [], [], [3.0, 1.0]
for i in range(2):
    node = mbs.AddNode(NodePoint2D(referenceCoordinates=[i + 1.0, 0.0]))
    mbs.AddObject(MassPoint2D(physicsMass=mass[i], nodeNumber=node))
    marker = mbs.AddMarker(MarkerNodePosition(nodeNumber=node))
    mbs.AddLoad(Force(markerNumber=marker, loadVector=[0, -9.81 * mass[i], 0]))
    mbs.AddObject(DistanceConstraint(markerNumbers=[before, marker], distance=1.0))
    options = {"nodeNumber": node, "storeInternal": True, "writeToFile": False}
    position.append(mbs.AddSensor(SensorNode(outputVariableType=exu.OutputVariableType.Position, **options)))
    velocity.append(mbs.AddSensor(SensorNode(outputVariableType=exu.OutputVariableType.Velocity, **options)))
    before = marker
mbs.Assemble()
settings = exu.SimulationSettings()
settings.timeIntegration.endTime = 2
settings.timeIntegration.numberOfSteps = 16_000
settings.solution.sensors.writePeriod = 0.025
settings.solution.file.write = False
mbs.SolveDynamic(settings, solverType=exu.DynamicSolverType.TrapezoidalIndex2)
q, v = ([mbs.GetSensorStoredData(s)[:, 1:3] for s in group] for group in (position, velocity))
print(abs(sum(m * ((u**2).sum(axis=1) / 2 + 9.81 * p[:, 1]) for m, p, u in zip(mass, q, v, strict=True))).max(), np.shape(q))
