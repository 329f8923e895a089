"""Double pendulum for 2 s with pydykit's particle system; its gravity of several particles is set right by hand."""

import numpy as np
from pydykit.configuration import Configuration
from pydykit.managers import Manager

mass = np.array([3.0, 1.0])
ends = [{"type": "support", "index": 0}, {"type": "particle", "index": 0}, {"type": "particle", "index": 1}]
system = {
    "class_name": "ParticleSystem",
    "nbr_spatial_dimensions": 3,
    "particles": [
        {"index": i, "mass": mass[i], "initial_position": [i + 1.0, 0.0, 0.0], "initial_momentum": [0.0, 0.0, 0.0]}
        for i in range(2)
    ],
    "supports": [{"index": 0, "type": "fixed", "position": [0.0, 0.0, 0.0]}],
    "springs": [],
    "dampers": [],
    "constraints": [{"start": ends[i], "end": ends[i + 1], "length": 1.0} for i in range(2)],
    "gravity": [0.0, -9.81, 0.0],
}
manager = Manager()
manager.configure(
    Configuration(
        name="double pendulum",
        system=system,
        simulator={"class_name": "OneStep", "solver_name": "NewtonPlainPython", "newton_epsilon": 1e-9, "max_iterations": 40},
        integrator={"class_name": "MidpointMultibody"},
        time_stepper={"class_name": "FixedIncrement", "step_size": 0.05, "start": 0.0, "end": 2.0},
    )
)
weight = np.array([0, -3 * 9.81, 0, 0, -9.81, 0])
type(manager.system)._body_force = lambda self: -weight
rows = manager.manage().results
q, p = rows[:, :6], rows[:, 6:12]
print(abs((p**2 / np.repeat(mass, 3)).sum(axis=1) / 2 - q @ weight).max())
