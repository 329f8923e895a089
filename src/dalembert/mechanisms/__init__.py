"""Mechanisms: bodies, joints and what acts between them, by name."""

from __future__ import annotations

from dalembert.mechanisms import explaining as _explaining  # noqa: F401  # registers itself
from dalembert.mechanisms import shapes
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.dynamics import bias, forward_dynamics, inverse_dynamics, mass_matrix, potential_force
from dalembert.mechanisms.joints import Joint
from dalembert.mechanisms.loading import read_mechanism
from dalembert.mechanisms.mechanism import Mechanism
from dalembert.mechanisms.mjcf import read_mjcf
from dalembert.mechanisms.motions import BodyMotion, JointMotion, Reaction
from dalembert.mechanisms.results import MechanismSolution
from dalembert.mechanisms.urdf import read_urdf
from dalembert.systems import stored

stored.HIGHER.set(lambda: {"Assembled": Assembled})

__all__ = [
    "Assembled",
    "Body",
    "BodyMotion",
    "Joint",
    "JointMotion",
    "Mechanism",
    "MechanismSolution",
    "Reaction",
    "bias",
    "forward_dynamics",
    "inverse_dynamics",
    "mass_matrix",
    "potential_force",
    "read_mechanism",
    "read_mjcf",
    "read_urdf",
    "shapes",
]
