"""What a run returns: trajectories, and everything that can be asked about them."""

from dalembert.solution.arcs import Jump
from dalembert.solution.base import Sample, Solution
from dalembert.solution.daes import DaeSolution
from dalembert.solution.files import load, read, write
from dalembert.solution.mechanical import MechanicalSolution
from dalembert.solution.odes import ImplicitSolution, OdeSolution
from dalembert.solution.paths import target
from dalembert.solution.ports import PortSolution
from dalembert.solution.stored import Stored, open

__all__ = [
    "DaeSolution",
    "ImplicitSolution",
    "Jump",
    "MechanicalSolution",
    "OdeSolution",
    "PortSolution",
    "Sample",
    "Solution",
    "Stored",
    "load",
    "open",
    "read",
    "target",
    "write",
]
