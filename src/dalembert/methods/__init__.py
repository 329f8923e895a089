"""How it moves: each method turns a system into one step, as expressions."""

from dalembert.methods.base import Method, list_methods
from dalembert.methods.energy_momentum import EnergyMomentum, Midpoint
from dalembert.methods.rattle import Rattle, Shake
from dalembert.methods.step import Solve, Step

__all__ = ["EnergyMomentum", "Method", "Midpoint", "Rattle", "Shake", "Solve", "Step", "list_methods"]
